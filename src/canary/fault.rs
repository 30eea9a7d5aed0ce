//! Whether the stable template has the fault of another one, so that restoring it would not help.

use std::collections::BTreeSet;

use rollplan_core::reference::{Reference, references};
use rollplan_core::template::{Template, Value};
use rollplan_health::explain::{Blocker, Cause};

/// An object to which a template refers, or a key of it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Object {
    kind: &'static str,
    name: String,
    key: Option<String>,
}

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
            let (new, stable) = (objects(new), objects(stable));
            let is_named = |text: &str| words.contains(text);
            let of_name = || new.iter().filter(|it| is_named(&it.name));
            let of_key = || of_name().filter(|it| it.key.as_deref().is_some_and(is_named));
            let has_object = |it: &Object| {
                let mut objects = stable.iter();
                objects.any(|own| own.kind == it.kind && own.name == it.name)
            };
            match (of_key().next(), of_name().next()) {
                (Some(_), _) => of_key().all(|it| stable.contains(it)),
                (None, Some(_)) => of_name().all(has_object),
                (None, None) => false,
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

/// The objects to which a template refers.
fn objects(template: &Value) -> BTreeSet<Object> {
    let mut found = BTreeSet::new();
    for Reference {
        kind, name, keys, ..
    } in references(template)
    {
        let keys: Vec<Option<String>> = match keys {
            None => vec![None],
            Some(keys) => keys.into_iter().map(Some).collect(),
        };
        found.extend(keys.into_iter().map(|key| Object {
            kind: kind.as_str(),
            name: name.clone(),
            key,
        }));
    }
    let account = template.at(&["spec", "serviceAccountName"]);
    found.extend(account.and_then(Value::as_str).map(|name| Object {
        kind: "ServiceAccount",
        name: name.to_owned(),
        key: None,
    }));
    found
}
