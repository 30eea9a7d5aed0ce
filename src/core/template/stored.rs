//! A pod template as a snapshot holds it: its digest at hand, the rest decoded when somebody looks.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use super::{TemplateDigest, Value, digest, equal};

const HASH_LABEL: [&str; 3] = ["metadata", "labels", "pod-template-hash"];

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
    /// What it was last confirmed to be the same as, or not: a plan asks several times.
    compared: OnceLock<(Weak<Inner>, bool)>,
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
            compared: OnceLock::new(),
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
        if Arc::ptr_eq(&self.0, &other.0) {
            return true;
        }
        if self.0.digest != other.0.digest {
            return false;
        }
        let (compared, same) = self.0.compared.get_or_init(|| {
            let same = self.confirm(other);
            (Arc::downgrade(&other.0), same)
        });
        // The weak reference keeps the address from being given away.
        if compared.as_ptr() == Arc::as_ptr(&other.0) {
            return *same;
        }
        self.confirm(other)
    }

    /// Templates that the API server has defaulted alike are the same to the letter, and then no canonical
    /// form is needed.
    fn confirm(&self, other: &Self) -> bool {
        let (a, b) = (self.value(), other.value());
        identical_but_for(&HASH_LABEL, a, b) || equal(a, b)
    }
}

/// Whether two values are identical, the entry at a path aside.
fn identical_but_for(path: &[&str], a: &Value, b: &Value) -> bool {
    let (Some((first, rest)), Some(a), Some(b)) = (path.split_first(), a.as_map(), b.as_map())
    else {
        return a == b;
    };
    let others = |map: &'_ std::collections::BTreeMap<String, Value>| -> usize {
        map.len() - usize::from(map.contains_key(*first))
    };
    let same_entry = match (a.get(*first), b.get(*first)) {
        _ if rest.is_empty() => true,
        (Some(a), Some(b)) => identical_but_for(rest, a, b),
        (a, b) => a == b,
    };
    same_entry
        && others(a) == others(b)
        && a.iter()
            .filter(|(key, _)| key != first)
            .all(|(key, value)| b.get(key) == Some(value))
}

impl From<Value> for Template {
    fn from(value: Value) -> Self {
        Self(Arc::new(Inner {
            digest: digest(&value),
            source: None,
            value: OnceLock::from(value),
            compared: OnceLock::new(),
        }))
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Environment values may be secret: a template is never printed.
        f.debug_tuple("Template").field(&self.0.digest).finish()
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
    fn identical_means_everything_but_the_entry() {
        let map = |entries: [(&str, i32); 2]| Value::from(entries);
        let same = |a: &Value, b: &Value| identical_but_for(&["hash"], a, b);
        assert!(same(
            &map([("a", 1), ("hash", 1)]),
            &map([("a", 1), ("hash", 2)])
        ));
        assert!(same(
            &map([("a", 1), ("hash", 1)]),
            &Value::from([("a", 1)])
        ));
        assert!(!same(
            &map([("a", 1), ("hash", 1)]),
            &map([("a", 2), ("hash", 1)])
        ));
        assert!(!same(&map([("a", 1), ("b", 1)]), &Value::from([("a", 1)])));
        assert!(!same(&Value::from([("a", 1)]), &map([("a", 1), ("b", 1)])));
        assert!(!same(&Value::map(), &Value::Null));
        let deep = |value: Value| Value::from([("metadata", value)]);
        let path = ["metadata", "hash"];
        let (one, two) = (map([("a", 1), ("hash", 1)]), map([("a", 1), ("hash", 2)]));
        assert!(identical_but_for(&path, &deep(one.clone()), &deep(two)));
        assert!(!identical_but_for(&path, &deep(one), &Value::map()));
    }
}
