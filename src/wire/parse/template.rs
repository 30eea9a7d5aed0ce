//! Validates and compares pod templates without decoding them.

use rollplan_core::template::{MAX_DEPTH, Template, Value, equal};

use super::path::Path;
use super::{Owner, Parser};
use crate::proto::RawStruct;
use crate::wire::error::Reason;
use crate::wire::tree::{Faults, Segment, TEMPLATE_VALUES_MAX, Tape};

/// Notes what is wrong inside a template.
struct TemplateFaults<'p, 'i> {
    parser: &'p mut Parser<'i>,
    path: &'p Path<'p>,
}

impl Faults for TemplateFaults<'_, '_> {
    fn fault(&mut self, segments: &[Segment<'_>], reason: Reason) {
        let inside = Path::Inside(self.path, segments);
        match reason {
            Reason::TemplateTooLarge => self.parser.violation(
                self.path,
                reason,
                format_args!("more than {TEMPLATE_VALUES_MAX} values"),
            ),
            Reason::TooDeep => self.parser.violation(
                &inside,
                reason,
                format_args!("is more than {MAX_DEPTH} levels deep"),
            ),
            _ => self.parser.violation(&inside, reason, describe(reason)),
        }
    }

    fn is_interrupted(&mut self) -> bool {
        self.parser.interrupt.is_interrupted()
    }
}

impl Parser<'_> {
    /// Reads a template. Reading is faster with the tape of a similar template as a baseline.
    pub(super) fn tape<'r>(
        &mut self,
        raw: &'r RawStruct,
        baseline: Option<&'r Tape<'r>>,
        path: &Path<'_>,
    ) -> Tape<'r> {
        let mut faults = TemplateFaults { parser: self, path };
        match baseline {
            Some(baseline) => Tape::read_with_baseline(raw, baseline, &mut faults),
            None => Tape::read(raw, &mut faults),
        }
    }

    /// The template of a ReplicaSet. It is compared with the Deployment's here, where the tapes of both are available.
    pub(super) fn set_template(
        &mut self,
        raw: RawStruct,
        owner: &Owner<'_>,
        path: &Path<'_>,
    ) -> Template {
        let own = owner.template.as_ref();
        let tape = self.tape(&raw, own, path);
        match own.map(|own| equal(own.root(), tape.root())) {
            Some(same) => Template::compared(raw, &owner.deployment.spec.template, same),
            None => Template::new(raw),
        }
    }

    /// The placeholder for a missing template.
    pub(super) fn no_template() -> Template {
        Template::from(Value::Null)
    }
}

/// The description of a fault. It does not contain the value, which may be secret.
fn describe(reason: Reason) -> &'static str {
    match reason {
        Reason::MalformedStruct => "is not a well-formed google.protobuf.Struct",
        Reason::InvalidUtf8 => "is not UTF-8",
        Reason::UnsafeInteger => "is an integer beyond ±(2^53 − 1), which JSON may have rounded",
        Reason::NotFinite => "is not a finite number",
        _ => "is wrong",
    }
}
