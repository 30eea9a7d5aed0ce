//! Validates and compares pod templates without decoding them.

use rollplan_core::template::{MAX_DEPTH, Template, Value, equal};

use super::path::Path;
use super::raw_template::RawTemplate;
use super::{Owner, Parser};
use crate::wire::error::Reason;
use crate::wire::objects::Fault;
use crate::wire::tree::{Faults, Segment, TEMPLATE_VALUES_MAX, Tape};

/// Records the faults in a template.
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
        raw: &'r RawTemplate,
        baseline: Option<&'r Tape<'r>>,
        path: &Path<'_>,
    ) -> Tape<'r> {
        let mut faults = TemplateFaults { parser: self, path };
        raw.tape(baseline, &mut faults).unwrap_or_else(|fault| {
            self.template_fault(fault, path);
            Tape::faulty()
        })
    }

    fn template_fault(&mut self, fault: &Fault, path: &Path<'_>) {
        let Fault {
            path: inside,
            reason,
            description,
        } = fault;
        let field = format_args!("{path}{inside}");
        match path.origin() {
            Some(origin) => {
                let description = format_args!("{description} ({})", origin.object);
                self.violations.add(field, *reason, description);
            }
            None => self.violations.add(field, *reason, description),
        }
    }

    /// The template of a ReplicaSet. It is compared with the Deployment's here, where the tapes of both are available.
    pub(super) fn set_template(
        &mut self,
        raw: RawTemplate,
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
