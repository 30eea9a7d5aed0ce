//! Whether the stable template has the fault of another one, so that restoring it would not help.

use std::collections::BTreeSet;

use rollplan_core::template::{Template, Value};
use rollplan_health::diagnosis::{Blocker, Cause};

/// An object to which a template refers: its kind, its name, and a key, which is empty for the whole object.
type Reference<'a> = (&'static str, &'a str, &'a str);

/// The fields of a template that refer to objects, their kinds, and the fields of their names.
const REFERENCES: [(&str, &str, &str); 6] = [
    ("secretRef", "Secret", "name"),
    ("secretKeyRef", "Secret", "name"),
    ("secret", "Secret", "secretName"),
    ("configMapRef", "ConfigMap", "name"),
    ("configMapKeyRef", "ConfigMap", "name"),
    ("configMap", "ConfigMap", "name"),
];

/// Whether a fault is about an image, an object or a key that both templates have.
pub(crate) fn is_shared(blocker: &Blocker, new: &Template, stable: &Template) -> bool {
    let (new, stable) = (new.value(), stable.value());
    let mut pods = blocker.pods.iter();
    match blocker.cause {
        Cause::ImagePull => {
            let has_image = |container: &str| {
                let image = image(new, container);
                image.is_some() && image == self::image(stable, container)
            };
            !blocker.pods.is_empty() && pods.all(|pod| has_image(&pod.container))
        }
        Cause::ContainerConfig | Cause::PodsRefused => {
            let messages = pods.map(|pod| pod.message.as_str());
            let messages = messages.chain([blocker.message.as_str()]);
            let words: BTreeSet<&str> = messages.flat_map(words).collect();
            let new = references(new);
            let of_name = new.iter().filter(|it| words.contains(it.1));
            let of_key = of_name.clone().filter(|it| words.contains(it.2));
            let stable = references(stable);
            match of_key.clone().next() {
                Some(_) => of_key.into_iter().all(|it| stable.contains(it)),
                None => {
                    let has = |it: &Reference<'_>| {
                        stable.iter().any(|own| own.0 == it.0 && own.1 == it.1)
                    };
                    of_name.clone().next().is_some() && of_name.into_iter().all(has)
                }
            }
        }
        _ => false,
    }
}

/// The image of a container.
fn image<'a>(template: &'a Value, container: &str) -> Option<&'a str> {
    let lists = ["containers", "initContainers"].map(|list| {
        let containers = template.at(&["spec", list]).and_then(Value::as_list);
        containers.unwrap_or_default()
    });
    let is_it = |it: &&Value| it.get("name").and_then(Value::as_str) == Some(container);
    lists
        .into_iter()
        .flatten()
        .find(is_it)?
        .get("image")?
        .as_str()
}

/// The words of a message that may be names or keys.
fn words(message: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let words = message.split(move |c| !is_part(c));
    words.map(|word| word.trim_end_matches('.'))
}

/// The objects to which a template refers. Templates are limited in depth.
fn references(template: &Value) -> BTreeSet<Reference<'_>> {
    let mut found = BTreeSet::new();
    collect(template, &mut found);
    let account = template.at(&["spec", "serviceAccountName"]);
    if let Some(name) = account.and_then(Value::as_str) {
        found.insert(("ServiceAccount", name, ""));
    }
    found
}

fn collect<'a>(value: &'a Value, found: &mut BTreeSet<Reference<'a>>) {
    match value {
        Value::List(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Map(fields) => {
            for (key, field) in fields {
                let reference = REFERENCES.iter().find(|it| it.0 == key);
                // A projected volume names its Secrets as it names its ConfigMaps.
                let name = reference.and_then(|it| field.get(it.2).or(field.get("name")));
                if let (Some((_, kind, _)), Some(name)) = (reference, name.and_then(Value::as_str))
                {
                    let text = |it: &'a Value| it.get("key").and_then(Value::as_str);
                    let items = field.get("items").and_then(Value::as_list);
                    found.extend(
                        items
                            .unwrap_or_default()
                            .iter()
                            .filter_map(text)
                            .map(|key| (*kind, name, key)),
                    );
                    found.insert((*kind, name, text(field).unwrap_or_default()));
                }
                collect(field, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
