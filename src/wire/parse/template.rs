//! Pod templates: checked, their digest taken, and left as they came.

use rollplan_core::template::{MAX_DEPTH, Template, Value, digest};

use super::Parser;
use super::path::Path;
use crate::wire::error::Reason;
use crate::wire::raw_struct::RawStruct;
use crate::wire::tree::{Segment, Tape};

impl Parser {
    pub(super) fn template(&mut self, raw: RawStruct, path: &Path<'_>) -> Template {
        let digest = {
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
            let tape = Tape::read(&raw, &mut fault);
            digest(tape.root())
        };
        Template::new(digest, raw)
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
