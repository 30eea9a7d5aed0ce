//! A pod template in a snapshot, which is decoded on first use.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use super::{Value, equal, sha256_of_canonical};

/// The encoded form of a template. The `wire` layer implements it with the bytes of the request.
pub trait Source: fmt::Debug + Send + Sync {
    /// Decodes the template.
    fn value(&self) -> Value;
}

/// A pod template. Cheap to clone.
#[derive(Clone)]
pub struct Template(Arc<Inner>);

#[derive(Default)]
struct Inner {
    source: Option<Box<dyn Source>>,
    value: OnceLock<Value>,
    sha256: OnceLock<String>,
    /// The first template that this one was compared with, and the result. A plan compares the same two repeatedly.
    compared: OnceLock<(Weak<Inner>, bool)>,
}

// === impl Template ===

impl Template {
    /// A template that is decoded only if its value is used.
    #[must_use]
    pub fn new(source: impl Source + 'static) -> Self {
        Self(Arc::new(Inner {
            source: Some(Box::new(source)),
            ..Inner::default()
        }))
    }

    /// Like [`new`](Self::new), for a template that the caller has already compared with `other`: `same` is whether they
    /// are [`equal()`]. The parser can compare templates without decoding them.
    #[must_use]
    pub fn compared(source: impl Source + 'static, other: &Self, same: bool) -> Self {
        Self(Arc::new(Inner {
            source: Some(Box::new(source)),
            compared: OnceLock::from((Arc::downgrade(&other.0), same)),
            ..Inner::default()
        }))
    }

    /// The [`sha256_of_canonical`] of the template.
    #[must_use]
    pub fn canonical_sha256(&self) -> &str {
        let sha256 = || sha256_of_canonical(self.value());
        self.0.sha256.get_or_init(sha256)
    }

    /// The decoded template, not canonicalized.
    #[must_use]
    pub fn value(&self) -> &Value {
        self.0.value.get_or_init(|| {
            self.0
                .source
                .as_ref()
                .map_or(Value::Null, |source| source.value())
        })
    }

    /// Reads the decoded template without keeping it: a thousand templates may take much more memory decoded.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Value) -> T) -> T {
        match (self.0.value.get(), &self.0.source) {
            (None, Some(source)) => read(&source.value()),
            _ => read(self.value()),
        }
    }

    /// Whether Kubernetes considers both templates equal, ignoring the label `pod-template-hash`.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.0, &other.0) {
            return true;
        }
        let compare = || equal(self.value(), other.value());
        let (compared, same) = self
            .0
            .compared
            .get_or_init(|| (Arc::downgrade(&other.0), compare()));
        // The weak reference keeps the allocation alive, so that its address cannot be reused for another template.
        if compared.as_ptr() == Arc::as_ptr(&other.0) {
            return *same;
        }
        compare()
    }
}

impl From<Value> for Template {
    fn from(value: Value) -> Self {
        Self(Arc::new(Inner {
            value: OnceLock::from(value),
            ..Inner::default()
        }))
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Environment variables may contain secrets, so the template itself is never printed.
        f.debug_tuple("Template")
            .field(&self.canonical_sha256())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(hash: &str, image: &str, cpu: &str) -> Template {
        let labels = match hash {
            "" => Value::from([("app", "web")]),
            hash => Value::from([("app", "web"), ("pod-template-hash", hash)]),
        };
        let requests = Value::from([("requests", Value::from([("cpu", cpu)]))]);
        let container = Value::from([
            ("name", Value::from("main")),
            ("image", Value::from(image)),
            ("resources", requests),
        ]);
        Template::from(Value::from([
            ("metadata", Value::from([("labels", labels)])),
            (
                "spec",
                Value::from([("containers", Value::from(vec![container]))]),
            ),
        ]))
    }

    #[test]
    fn same_as_ignores_the_hash_label_and_caches_the_result() {
        let deployment = template("", "v1", "1");
        for (hash, image, cpu, same) in [
            ("", "v1", "1", true),
            ("a", "v1", "1", true),
            ("a", "v1", "1000m", true),
            ("a", "v2", "1", false),
            ("a", "v1", "2", false),
        ] {
            let set = template(hash, image, cpu);
            // The second result comes from the cache. Comparisons with other templates must not use the cache.
            assert_eq!(set.same_as(&deployment), same, "{hash} {image} {cpu}");
            assert_eq!(set.same_as(&deployment), same, "{hash} {image} {cpu}");
            assert!(set.same_as(&template("b", image, cpu)));
            assert!(!set.same_as(&template("", "v3", cpu)));
            assert!(set.same_as(&set.clone()));
        }
    }

    #[derive(Debug)]
    struct Encoded;

    impl Source for Encoded {
        fn value(&self) -> Value {
            Value::from("decoded")
        }
    }

    #[test]
    fn read_does_not_keep_the_value() {
        let template = Template::new(Encoded);
        assert_eq!(template.read(Value::clone), Value::from("decoded"));
        assert!(template.0.value.get().is_none());
        assert_eq!(*template.value(), Value::from("decoded"));
        assert_eq!(template.read(Value::clone), Value::from("decoded"));
        let stored = Template::from(Value::from("stored"));
        assert_eq!(stored.read(Value::clone), Value::from("stored"));
    }

    #[test]
    fn canonical_sha256_is_that_of_the_value() {
        let template = template("a", "v1", "1");
        for _ in 0..2 {
            let sha256 = sha256_of_canonical(template.value());
            assert_eq!(template.canonical_sha256(), sha256);
        }
    }

    #[test]
    fn debug_output_contains_only_the_digest() {
        let template = template("", "secret", "1");
        let printed = format!("{template:?}");
        let digest = template.canonical_sha256();
        assert_eq!(printed, format!("Template({digest:?})"));
        assert!(!printed.contains("secret"));
    }
}
