//! Templates that are not decoded.

use std::fmt;
use std::sync::Arc;

use rollplan_core::template::{EncodedTemplate, Prepared, Value, equal, images, prepare};

use crate::read::Fault;
use crate::read::kubernetes;
use crate::tree::{Tape, TemplateText};

/// A template that is not decoded. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct RawTemplate(Arc<TemplateText>);

// === impl RawTemplate ===

impl RawTemplate {
    pub(crate) fn new(kubernetes::TemplateJson(text): kubernetes::TemplateJson<'_>) -> Self {
        Self(Arc::new(TemplateText::new(text)))
    }

    /// Reads the template. The tape of a similar template as a baseline makes this faster.
    pub(super) fn tape<'r>(&'r self, baseline: Option<&'r Tape<'r>>) -> Result<Tape<'r>, Fault> {
        Tape::read(&self.0, baseline)
    }

    /// Faults are ignored, because the template was validated when the request was parsed.
    fn valid_tape(&self) -> Tape<'_> {
        self.tape(None).unwrap_or_else(|_| Tape::faulty())
    }
}

impl EncodedTemplate for RawTemplate {
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

impl fmt::Debug for RawTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Environment variables may contain secrets, so the template itself is never printed.
        write!(f, "RawTemplate({} bytes)", self.0.len())
    }
}
