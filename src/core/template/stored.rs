//! A pod template as a snapshot holds it: its digest at hand, the rest decoded when somebody looks.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::{TemplateDigest, Value, digest, equal};

/// Where a template is decoded from. The wire ring keeps the bytes it received.
pub trait Source: fmt::Debug + Send + Sync {
    /// The whole template. Called at most once.
    fn value(&self) -> Value;
}

/// A pod template. Cheap to clone.
#[derive(Clone)]
pub struct Template(Arc<Inner>);

struct Inner {
    digest: TemplateDigest,
    source: Option<Box<dyn Source>>,
    value: OnceLock<Value>,
}

// === impl Template ===

impl Template {
    /// A template whose digest was taken while it was read, and that is decoded later if at all.
    #[must_use]
    pub fn new(digest: TemplateDigest, source: impl Source + 'static) -> Self {
        Self(Arc::new(Inner {
            digest,
            source: Some(Box::new(source)),
            value: OnceLock::new(),
        }))
    }

    /// The digest of its canonical form.
    #[must_use]
    pub fn digest(&self) -> TemplateDigest {
        self.0.digest
    }

    /// The template as it was stored.
    #[must_use]
    pub fn value(&self) -> &Value {
        self.0.value.get_or_init(|| {
            self.0
                .source
                .as_ref()
                .map_or(Value::Null, |source| source.value())
        })
    }

    /// Whether Kubernetes calls both the same template, the hash label aside. Digests decide against; a match
    /// is confirmed in full, for taking two templates for one would silently skip a rollout.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || self.0.digest == other.0.digest && equal(self.value(), other.value())
    }
}

impl From<Value> for Template {
    fn from(value: Value) -> Self {
        Self(Arc::new(Inner {
            digest: digest(&value),
            source: None,
            value: OnceLock::from(value),
        }))
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Environment values may be secret: a template is never printed.
        f.debug_tuple("Template").field(&self.0.digest).finish()
    }
}
