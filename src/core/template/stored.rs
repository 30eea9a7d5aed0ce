//! A pod template as a snapshot holds it: where it came from, decoded when somebody looks.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use super::{TemplateDigest, Value, digest, equal, sha256_of_canonical};

/// Where a template is decoded from. The wire ring keeps the bytes it received.
pub trait Source: fmt::Debug + Send + Sync {
    /// The whole template. Called at most once.
    fn value(&self) -> Value;
}

/// A pod template. Cheap to clone.
#[derive(Clone)]
pub struct Template(Arc<Inner>);

#[derive(Default)]
struct Inner {
    source: Option<Box<dyn Source>>,
    value: OnceLock<Value>,
    digest: OnceLock<TemplateDigest>,
    sha256: OnceLock<String>,
    /// What it was first compared with, and whether both are the same: a plan asks several times.
    compared: OnceLock<(Weak<Inner>, bool)>,
}

// === impl Template ===

impl Template {
    /// A template that is decoded later if at all.
    #[must_use]
    pub fn new(source: impl Source + 'static) -> Self {
        Self(Arc::new(Inner {
            source: Some(Box::new(source)),
            ..Inner::default()
        }))
    }

    /// The same, where it is known whether it is [`equal()`] to another: who reads both can tell without decoding them.
    #[must_use]
    pub fn compared(source: impl Source + 'static, other: &Self, same: bool) -> Self {
        Self(Arc::new(Inner {
            source: Some(Box::new(source)),
            compared: OnceLock::from((Arc::downgrade(&other.0), same)),
            ..Inner::default()
        }))
    }

    /// The digest of its canonical form.
    #[must_use]
    pub fn digest(&self) -> TemplateDigest {
        *self.0.digest.get_or_init(|| digest(self.value()))
    }

    /// The [`sha256_of_canonical`] of it.
    #[must_use]
    pub fn canonical_sha256(&self) -> &str {
        let sha256 = || sha256_of_canonical(self.value());
        self.0.sha256.get_or_init(sha256)
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

    /// Whether Kubernetes calls both the same template, the hash label aside.
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
        // The weak reference keeps the address from being given away.
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
        // Environment values may be secret: a template is never printed.
        f.debug_tuple("Template").field(&self.digest()).finish()
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
    fn templates_are_the_same_but_for_the_hash() {
        let deployment = template("", "v1", "1");
        for (hash, image, cpu, same) in [
            ("", "v1", "1", true),
            ("a", "v1", "1", true),
            ("a", "v1", "1000m", true),
            ("a", "v2", "1", false),
            ("a", "v1", "2", false),
        ] {
            let set = template(hash, image, cpu);
            // Twice: the second answer comes from memory. Then about another template, which it must not.
            assert_eq!(set.same_as(&deployment), same, "{hash} {image} {cpu}");
            assert_eq!(set.same_as(&deployment), same, "{hash} {image} {cpu}");
            assert!(set.same_as(&template("b", image, cpu)));
            assert!(!set.same_as(&template("", "v3", cpu)));
            assert!(set.same_as(&set.clone()));
        }
    }

    #[test]
    fn names_are_those_of_the_template() {
        let template = template("a", "v1", "1");
        for _ in 0..2 {
            let sha256 = sha256_of_canonical(template.value());
            assert_eq!(template.canonical_sha256(), sha256);
            assert_eq!(template.digest(), digest(template.value()));
        }
    }

    #[test]
    fn a_template_prints_its_digest_alone() {
        let template = template("", "secret", "1");
        let printed = format!("{template:?}");
        assert_eq!(
            printed,
            format!("Template(TemplateDigest({}))", template.digest())
        );
        assert!(!printed.contains("secret"));
    }
}
