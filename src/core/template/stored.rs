//! A pod template in a snapshot, which is decoded on first use.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use super::canonical::HASH_LABEL;
use super::prepared::{Prepared, prepare};
use super::{Value, equal, images, sha256_of_canonical, with_defaults};

/// The encoded form of a template. The `wire` layer implements it with the bytes of the request.
pub trait EncodedTemplate: fmt::Debug + Send + Sync {
    /// Decodes the template.
    fn value(&self) -> Value;

    /// The [`images()`] of the template.
    fn images(&self) -> Vec<String> {
        images(&self.value())
    }

    /// Whether the template [`equal()`]s another one.
    fn equals(&self, other: &Value) -> bool {
        equal(&self.value(), other)
    }

    /// [`prepare`]s the template.
    fn prepared(&self) -> Prepared {
        prepare(&self.value())
    }

    /// Appends the template as JSON, as [`Value::to_json`] has it.
    fn write_json(&self, json: &mut String) {
        self.value().write_json(json);
    }
}

/// A pod template. Cheap to clone.
#[derive(Clone)]
pub struct Template(Arc<Inner>);

#[derive(Default)]
struct Inner {
    source: Option<Box<dyn EncodedTemplate>>,
    value: OnceLock<Value>,
    sha256: OnceLock<String>,
    prepared: OnceLock<Prepared>,
    /// The first template that this one was compared with, and the result. A plan compares the same two repeatedly.
    compared: OnceLock<(Weak<Inner>, bool)>,
    /// The template with the defaults of Kubernetes.
    defaulted: OnceLock<Value>,
    /// The first template whose defaulted form this one was compared with, and the result.
    compared_with_defaults: OnceLock<(Weak<Inner>, bool)>,
}

/// A template with the hash as a label.
#[derive(Debug)]
struct Labelled {
    template: Template,
    hash: String,
}

// === impl Template ===

impl Template {
    /// A template that is decoded only if its value is used.
    #[must_use]
    pub fn new(source: impl EncodedTemplate + 'static) -> Self {
        Self(Arc::new(Inner {
            source: Some(Box::new(source)),
            ..Inner::default()
        }))
    }

    /// Like [`new`](Self::new), for a template that the caller has already compared with `other`: `same` is whether they
    /// are [`equal()`]. The parser can compare templates without decoding them.
    #[must_use]
    pub fn compared(source: impl EncodedTemplate + 'static, other: &Self, same: bool) -> Self {
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

    /// The template of a new ReplicaSet, except for its hash.
    pub(crate) fn prepared(&self) -> &Prepared {
        self.0.prepared.get_or_init(|| match &self.0.source {
            Some(source) => source.prepared(),
            None => prepare(self.value()),
        })
    }

    /// The same template with this hash as a label.
    pub(crate) fn labelled(&self, hash: &str) -> Self {
        let labelled = Labelled {
            template: self.clone(),
            hash: hash.to_owned(),
        };
        // Comparisons ignore the label.
        Self::compared(labelled, self, true)
    }

    /// Appends the template as JSON, as [`Value::to_json`] has it.
    pub(crate) fn write_json(&self, json: &mut String) {
        match &self.0.source {
            Some(source) => source.write_json(json),
            None => self.value().write_json(json),
        }
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

    /// The [`images()`] of the template. The decoded template is not kept: a thousand decoded templates may need much more
    /// memory.
    pub(crate) fn images(&self) -> Vec<String> {
        match (self.0.value.get(), &self.0.source) {
            (None, Some(source)) => source.images(),
            _ => images(self.value()),
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

    /// The template as the API server stores it in a ReplicaSet.
    #[must_use]
    pub fn defaulted(&self) -> &Value {
        let defaulted = || with_defaults(self.value().clone());
        self.0.defaulted.get_or_init(defaulted)
    }

    /// Whether the API server stores `written` as this template.
    #[must_use]
    pub fn is_stored_form_of(&self, written: &Self) -> bool {
        // As for images, the decoded template is not kept.
        let compare = || match (self.0.value.get(), &self.0.source) {
            (None, Some(source)) => source.equals(written.defaulted()),
            _ => equal(self.value(), written.defaulted()),
        };
        let (compared, same) = self
            .0
            .compared_with_defaults
            .get_or_init(|| (Arc::downgrade(&written.0), compare()));
        if compared.as_ptr() == Arc::as_ptr(&written.0) {
            return *same;
        }
        compare()
    }
}

// === impl Labelled ===

impl EncodedTemplate for Labelled {
    fn value(&self) -> Value {
        let mut value = self.template.value().clone();
        let mut at = Some(&mut value);
        for key in HASH_LABEL {
            let entries = at.and_then(Value::as_map_mut);
            at = entries.map(|entries| entries.entry((*key).to_owned()).or_default());
            if let Some(entry) = at.as_deref_mut()
                && entry.is_null()
            {
                *entry = Value::map();
            }
        }
        if let Some(label) = at {
            *label = Value::from(self.hash.as_str());
        }
        value
    }

    fn write_json(&self, json: &mut String) {
        self.template.prepared().write_json(&self.hash, json);
    }
}

/// Compares the values, including the label.
impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.value() == other.value()
    }
}

impl Eq for Template {}

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

    impl EncodedTemplate for Encoded {
        fn value(&self) -> Value {
            template("", "decoded", "1").value().clone()
        }
    }

    #[test]
    fn images_do_not_keep_the_value() {
        let encoded = Template::new(Encoded);
        assert_eq!(encoded.images(), ["decoded"]);
        assert!(encoded.0.value.get().is_none());
        assert_eq!(encoded.value().at(&["spec"]), Encoded.value().at(&["spec"]));
        assert_eq!(encoded.images(), ["decoded"]);
        assert_eq!(template("", "stored", "1").images(), ["stored"]);
    }

    #[test]
    fn labelled_template_differs_only_in_the_label() {
        let plain = template("", "v1", "1");
        let labelled = plain.labelled("5d9c");
        assert_eq!(labelled, template("5d9c", "v1", "1"));
        assert!(labelled.same_as(&plain) && labelled != plain);
        let mut json = String::new();
        labelled.write_json(&mut json);
        assert_eq!(json, labelled.value().to_json());
    }

    #[test]
    fn canonical_sha256_matches_the_value() {
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
