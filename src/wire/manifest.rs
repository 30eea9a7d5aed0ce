//! Reads a whole Deployment as it is after a change.

use std::collections::BTreeMap;

use rollplan_core::interrupt::{Interrupt, Never};
use rollplan_core::revision::LAST_APPLIED;
use rollplan_core::snapshot::Deployment;
use rollplan_core::template::{LastApplied, METADATA, SPEC, Value, apply, type_faults};

use super::error::{Error, Reason, Violations};
use super::objects::{ContentReader, FIELD, Found, Objects};
use super::parse::{Needed, Parser, Path, deployment_template};
use super::read::{Json, kubernetes, read_all};

/// Reads a Deployment as it is after a change.
pub(super) struct ManifestReader<'r, 'i> {
    pub(super) parser: &'r mut Parser<'i>,
    pub(super) contents: &'r mut ContentReader<'i>,
    /// The Deployment of the snapshot, if it could be read.
    pub(super) current: Option<&'r Deployment>,
    /// The same Deployment as the snapshot has it, for manifests that no API server has stored.
    pub(super) live: Option<&'r Value>,
}

/// A Deployment after a change.
pub(super) struct Changed {
    pub(super) deployment: Deployment,
    /// What is assumed about an apply without a server, as sentences.
    pub(super) assumptions: Vec<String>,
}

/// The Deployment in the texts of a snapshot, with all of its fields.
pub(super) fn find_live<'a>(
    texts: &'a [String],
    current: &Deployment,
    contents: &mut ContentReader<'a>,
    interrupt: &'a dyn Interrupt,
) -> Result<Option<Value>, Error> {
    let Objects { found, .. } = Objects::find(FIELD, texts, &mut Violations::default(), interrupt)?;
    let mut found = found.iter();
    let object =
        found.find(|it| it.metadata.uid == current.metadata.uid && *it.kind == current.kind);
    Ok(match object {
        Some(object) => contents.read(object)?.ok(),
        None => None,
    })
}

// === impl ManifestReader ===

impl<'i> ManifestReader<'_, 'i> {
    /// `None` after a violation.
    pub(super) fn read(
        &mut self,
        text: &'i str,
        path: &Path<'_>,
    ) -> Result<Option<Changed>, Error> {
        let place = path.to_string();
        let mut violations = Violations::default();
        let objects = Objects::find_in(&place, text, &mut violations, self.parser.interrupt)?;
        let is_readable = violations.is_empty();
        self.parser.violations.extend(violations);
        let Objects { found, .. } = objects;
        let [object] = &found[..] else {
            if is_readable {
                let description = format_args!("has {} objects, and must be one", found.len());
                self.parser.violation(path, Reason::WrongType, description);
            }
            return Ok(None);
        };
        let origin = object.origin();
        let path = Path::Object(&origin);
        // The API server has given a UID to what it has stored, and has validated it.
        let is_manifest = object.metadata.uid.is_empty() && is_native(object);
        let changed = if is_manifest {
            self.read_manifest(object, &path)?
        } else {
            let violations = &mut self.parser.violations;
            let content = self.contents.content(object, violations)?;
            let content: Option<kubernetes::Deployment<'_>> = content;
            content
                .map(|content| self.deployment(object, content, &path))
                .transpose()?
                .map(|deployment| Changed {
                    deployment,
                    assumptions: Vec::new(),
                })
        };
        if let Some(Changed { deployment, .. }) = &changed {
            self.check_identity(object, deployment, &path);
        }
        Ok(changed)
    }

    fn deployment(
        &mut self,
        object: &Found<'_>,
        content: kubernetes::Deployment<'_>,
        path: &Path<'_>,
    ) -> Result<Deployment, Error> {
        let template = deployment_template(&content)?;
        let parser = &mut self.parser;
        let (deployment, _) = parser.deployment(object, content, &template, Needed::MANIFEST, path);
        Ok(deployment)
    }

    /// Reads a manifest as the API server does: it is validated, and merged with the Deployment that exists.
    fn read_manifest(
        &mut self,
        object: &Found<'i>,
        path: &Path<'_>,
    ) -> Result<Option<Changed>, Error> {
        let violations = &mut self.parser.violations;
        let Some(manifest) = self.contents.content::<Value>(object, violations)? else {
            return Ok(None);
        };
        let spec_path = path.field("spec");
        if !self.has_known_types(&manifest, path) {
            return Ok(None);
        }
        let Merged {
            object: merged,
            assumptions,
        } = match self.live {
            Some(live) => merge(live, manifest),
            None => Merged {
                object: manifest,
                assumptions: Vec::new(),
            },
        };
        let text = merged.to_json();
        let interrupt = self.parser.interrupt;
        let content = read_all(&mut Json::new(&text, interrupt));
        let content: kubernetes::Deployment<'_> = match content {
            Ok(content) => content,
            Err(unread) => {
                interrupt.check()?;
                object.reject(&unread.into(), &mut self.parser.violations);
                return Ok(None);
            }
        };
        let deployment = self.deployment(object, content, path)?;
        self.parser
            .deployment_rules(&deployment, self.current, &spec_path);
        Ok(Some(Changed {
            deployment,
            assumptions,
        }))
    }

    /// Whether the API server decodes a manifest, and kubectl sends it: by default, it has the API server refuse unknown
    /// fields (kubectl: `--validate=strict`).
    fn has_known_types(&mut self, manifest: &Value, path: &Path<'_>) -> bool {
        let mut is_known = true;
        let mut fault = |path: &Path<'_>, is_unknown: bool, description: &str| {
            is_known = false;
            let parser = &mut self.parser;
            if is_unknown {
                parser.violation(
                    path,
                    Reason::UnknownField,
                    format_args!("{description}: kubectl apply refuses it, and without its validation, the API server ignores it"),
                )
            } else {
                parser.violation(path, Reason::WrongType, description)
            }
        };
        for (field, value) in manifest.as_map().into_iter().flatten() {
            let step = format!(".{field}");
            let path = path.text(&step);
            let kind = match field.as_str() {
                "apiVersion" | "kind" | "status" => continue,
                "metadata" => &METADATA,
                "spec" => &SPEC,
                _ => {
                    fault(&path, true, "is not a field of Deployment");
                    continue;
                }
            };
            for it in type_faults(kind, value) {
                fault(&path.text(&it.path), it.is_unknown, &it.description);
            }
        }
        is_known
    }

    /// Checks that it is the Deployment of the snapshot.
    fn check_identity(&mut self, object: &Found<'_>, changed: &Deployment, path: &Path<'_>) {
        let Some(current) = self.current else {
            return;
        };
        let metadata_path = path.field("metadata");
        let (before, after) = (&current.metadata, &changed.metadata);
        let mut check = |is_same: bool, path: &Path<'_>, value: &str, expected: &str| {
            if !is_same {
                let description =
                    format_args!("is {value:?}, and must be {expected:?}, as in the snapshot");
                self.parser.violation(path, Reason::NotFound, description);
            }
        };
        let (version, kind) = (&object.api_version, &object.kind);
        let path_of = |name| path.field(name);
        check(
            **version == current.api_version,
            &path_of("api_version"),
            version,
            &current.api_version,
        );
        check(
            **kind == current.kind,
            &path_of("kind"),
            kind,
            &current.kind,
        );
        check(
            after.name == before.name,
            &metadata_path.field("name"),
            &after.name,
            &before.name,
        );
        check(
            after.namespace.is_empty() || after.namespace == before.namespace,
            &metadata_path.field("namespace"),
            &after.namespace,
            &before.namespace,
        );
    }
}

/// Whether the types of its fields are those of Kubernetes.
fn is_native(object: &Found<'_>) -> bool {
    (&*object.api_version, &*object.kind) == ("apps/v1", "Deployment")
}

/// A manifest after an apply.
struct Merged {
    object: Value,
    assumptions: Vec<String>,
}

/// What an apply of a manifest makes of the stored object, as far as it shows what was applied before.
fn merge(live: &Value, manifest: Value) -> Merged {
    let sets_replicas = |it: Option<&Value>| {
        let replicas = it.and_then(|it| it.at(&["spec", "replicas"]));
        replicas.is_some_and(|replicas| !replicas.is_null())
    };
    let replicas = live.at(&["spec", "replicas"]);
    let replicas = replicas.cloned().unwrap_or_else(|| Value::from(1));
    let is_missing = !sets_replicas(Some(&manifest));
    let mut assumptions = Vec::new();
    let mut assume = |text: &str| assumptions.push(text.to_owned());
    let Some(last) = last_applied(live) else {
        assume(
            "The manifest is the whole Deployment: what was applied before is not known, and without a server, neither is the \
             result of a merge. Fields that the manifest does not have get the defaults of Kubernetes.",
        );
        let mut object = manifest;
        if is_missing {
            assume(&format!(
                "The manifest does not set replicas, and nothing shows who does: the number stays {}.",
                replicas.to_json()
            ));
            if let Some(Value::Map(spec)) = object
                .as_map_mut()
                .and_then(|object| object.get_mut("spec"))
            {
                spec.insert("replicas".to_owned(), replicas);
            }
        }
        return Merged {
            object,
            assumptions,
        };
    };
    match &last {
        LastApplied::Manifest(_) => assume(
            "The change is what kubectl apply makes of the Deployment, the last applied manifest and this one. Without a server, \
             admission webhooks are unknown.",
        ),
        LastApplied::Owned { .. } => assume(
            "The change is what a server-side apply by the same manager makes of the Deployment. Without a server, admission \
             webhooks and conflicts with other managers are unknown.",
        ),
    }
    let merged = |keys: &[&str], kind| {
        let (live, manifest) = (live.at(keys), manifest.at(keys));
        let last = at(&last, keys);
        let none = Value::map();
        let of = |it: Option<&Value>| it.filter(|it| !it.is_null()).cloned();
        apply(
            kind,
            &of(live).unwrap_or_else(|| none.clone()),
            &last,
            &of(manifest).unwrap_or(none),
        )
    };
    let mut metadata = manifest.get("metadata").cloned().unwrap_or_default();
    if let Some(metadata) = metadata.as_map_mut() {
        for key in ["labels", "annotations"] {
            metadata.insert(key.to_owned(), merged(&["metadata", key], None));
        }
    }
    let spec = merged(&["spec"], Some(&SPEC));
    if is_missing {
        let kept = sets_replicas(Some(&Value::from([("spec", spec.clone())])));
        if kept {
            assume(&format!(
                "The manifest does not set replicas, and did not before: the number stays {}.",
                replicas.to_json()
            ))
        } else {
            assume("The manifest no longer sets replicas: the number becomes 1, the default.")
        }
    }
    let field = |key: &str| manifest.get(key).cloned().unwrap_or_default();
    let object = Value::from([
        ("apiVersion", field("apiVersion")),
        ("kind", field("kind")),
        ("metadata", metadata),
        ("spec", spec),
    ]);
    Merged {
        object,
        assumptions,
    }
}

/// The part of what was applied before at a path.
fn at(last: &LastApplied, keys: &[&str]) -> LastApplied {
    match last {
        LastApplied::Manifest(value) => {
            LastApplied::Manifest(value.at(keys).cloned().unwrap_or_default())
        }
        LastApplied::Owned { own, others } => {
            let keys: Vec<String> = keys.iter().map(|key| format!("f:{key}")).collect();
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            let part = |fields: &Value| fields.at(&keys).cloned().unwrap_or_default();
            LastApplied::Owned {
                own: part(own),
                others: part(others),
            }
        }
    }
}

/// What the writer of manifests has applied before: the annotation of kubectl, or the fields of the only manager that
/// applies.
fn last_applied(live: &Value) -> Option<LastApplied> {
    let annotations = live.at(&["metadata", "annotations"]);
    let annotation = annotations.and_then(|it| it.get(LAST_APPLIED)?.as_str());
    if let Some(text) = annotation {
        let value: Option<Value> = read_all(&mut Json::new(text, &Never)).ok();
        return value.map(LastApplied::Manifest);
    }
    let entries = live.at(&["metadata", "managedFields"])?.as_list()?;
    let text = |entry: &Value, key| entry.get(key).and_then(Value::as_str).map(str::to_owned);
    let applies = |entry: &&Value| {
        text(entry, "operation").as_deref() == Some("Apply")
            && text(entry, "subresource").unwrap_or_default().is_empty()
    };
    let mut appliers = entries.iter().filter(applies);
    let applier = appliers.next()?;
    if appliers.next().is_some() {
        return None;
    }
    let others = entries
        .iter()
        .filter(|entry| !std::ptr::eq(*entry, applier));
    let mut all = BTreeMap::new();
    for fields in others.filter_map(|entry| entry.get("fieldsV1")?.as_map()) {
        add_fields(&mut all, fields);
    }
    Some(LastApplied::Owned {
        own: applier.get("fieldsV1")?.clone(),
        others: Value::Map(all),
    })
}

/// Adds the fields of a `fieldsV1` to those of other managers.
fn add_fields(all: &mut BTreeMap<String, Value>, fields: &BTreeMap<String, Value>) {
    if fields.is_empty() {
        // The value itself, which `{}` would only mean if nothing below it had an owner.
        all.insert(".".to_owned(), Value::map());
    }
    for (key, below) in fields {
        let entry = all.entry(key.clone()).or_insert_with(Value::map);
        if let (Some(all), Some(below)) = (entry.as_map_mut(), below.as_map()) {
            add_fields(all, below);
        }
    }
}
