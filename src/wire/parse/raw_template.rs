//! Undecoded templates: a `google.protobuf.Struct`, or Kubernetes JSON.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rollplan_core::template::{Prepared, Source, Value, equal, images, prepare};

use super::path::Path;
use crate::proto::RawStruct;
use crate::wire::objects::{self, Fault};
use crate::wire::tree::{Faults, Segment, Tape};

/// An undecoded template. Cloning is cheap.
#[derive(Clone, Debug)]
pub(super) enum RawTemplate {
    Struct(RawStruct),
    Json(Arc<JsonTemplate>),
}

/// A template in Kubernetes JSON.
pub(super) struct JsonTemplate {
    text: Arc<str>,
    /// The template in protobuf, or a fault. Used only if the plain JSON reader does not support the text.
    transcoded: OnceLock<Result<RawStruct, Fault>>,
}

// === impl RawTemplate ===

impl RawTemplate {
    /// The template of a message, or the text that was kept out of the message.
    pub(super) fn new(template: Option<RawStruct>, path: &Path<'_>) -> Option<Self> {
        let text = path.origin().and_then(|origin| origin.template.as_ref());
        match text {
            Some(text) => Some(Self::Json(Arc::new(JsonTemplate {
                text: Arc::clone(text),
                transcoded: OnceLock::new(),
            }))),
            None => template.map(Self::Struct),
        }
    }

    /// Reads the template. The tape of a similar template as a baseline makes this faster. An error is a fault that
    /// prevents reading.
    pub(super) fn tape<'r>(
        &'r self,
        baseline: Option<&'r Tape<'r>>,
        faults: &mut impl Faults,
    ) -> Result<Tape<'r>, &'r Fault> {
        let raw = match self {
            Self::Struct(raw) => raw,
            Self::Json(json) => {
                if let Some(tape) = Tape::read_json(&json.text, baseline) {
                    return Ok(tape);
                }
                let transcode = || objects::read_template(&json.text);
                json.transcoded.get_or_init(transcode).as_ref()?
            }
        };
        Ok(match baseline {
            Some(baseline) => Tape::read_with_baseline(raw, baseline, faults),
            None => Tape::read(raw, faults),
        })
    }

    /// Faults are ignored, because the template was validated when the request was parsed.
    fn valid_tape(&self) -> Tape<'_> {
        self.tape(None, &mut |_: &[Segment<'_>], _| {})
            .unwrap_or_else(|_| Tape::faulty())
    }
}

impl Source for RawTemplate {
    fn value(&self) -> Value {
        self.valid_tape().to_value()
    }

    fn images(&self) -> Vec<String> {
        images(self.valid_tape().root())
    }

    fn equals(&self, other: &Value) -> bool {
        equal(self.valid_tape().root(), other)
    }

    fn prepared(&self) -> Prepared {
        prepare(self.valid_tape().root())
    }
}

impl fmt::Debug for JsonTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Environment variables may contain secrets, so the template itself is never printed.
        write!(f, "JsonTemplate({} bytes)", self.text.len())
    }
}
