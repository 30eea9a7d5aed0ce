//! Pod templates: checked, compared, and left as they came.

use rollplan_core::template::{MAX_DEPTH, Template, Value, equal};

use super::path::Path;
use super::{Owner, Parser};
use crate::wire::error::Reason;
use crate::wire::raw_struct::RawStruct;
use crate::wire::tree::{Segment, Tape};

impl Parser {
    /// Reads a template to its end, beside another one if there is one.
    pub(super) fn tape<'r>(
        &mut self,
        raw: &'r RawStruct,
        other: Option<&'r Tape<'r>>,
        path: &Path<'_>,
    ) -> Tape<'r> {
        let mut fault = |segments: &[Segment<'_>], reason| {
            let inside = Path::Inside(path, segments);
            match reason {
                Reason::TooDeep => self.violation(
                    &inside,
                    reason,
                    format_args!("is more than {MAX_DEPTH} levels deep"),
                ),
                _ => self.violation(&inside, reason, describe(reason)),
            }
        };
        match other {
            Some(other) => Tape::read_beside(raw, other, &mut fault),
            None => Tape::read(raw, &mut fault),
        }
    }

    /// The template of a ReplicaSet. Here both it and the Deployment's are at hand to be compared.
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

    /// What stands in for a template that is not there.
    pub(super) fn no_template() -> Template {
        Template::from(Value::Null)
    }
}

/// Without the value: it may be secret.
fn describe(reason: Reason) -> &'static str {
    match reason {
        Reason::MalformedStruct => "is no well-formed google.protobuf.Struct",
        Reason::InvalidUtf8 => "is not UTF-8",
        Reason::UnsafeInteger => "is an integer beyond ±(2^53 − 1), which JSON may have rounded",
        Reason::NotFinite => "is no finite number",
        _ => "is wrong",
    }
}
