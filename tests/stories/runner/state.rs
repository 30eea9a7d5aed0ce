//! The language of states: reads its lines, and makes the objects that they describe. `tests/stories/README.md` describes
//! it.

use serde_json::{Value, json};

use super::objects;
use super::page::Lines;
use super::words::{Keys, is_time, seconds, split, timestamp};

/// An object of a state, or a change of one.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The first word of its line.
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) keys: Keys,
    pub(super) parts: Vec<Part>,
    /// YAML that is merged into the object.
    pub(super) patches: Vec<Value>,
    /// The number of its line, for errors.
    pub(super) line: usize,
}

/// An indented line below an object: a container, a condition, an event, a probe or a volume.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) kind: String,
    /// The words without a key, up to the first with one.
    pub(super) words: Vec<String>,
    pub(super) keys: Keys,
    /// The time at which it was written.
    pub(super) at: i64,
    pub(super) line: usize,
}

/// The state of a cluster.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Seconds since the beginning of the story.
    pub(super) now: i64,
    pub(super) namespace: String,
    pub(super) entries: Vec<Entry>,
    /// The objects that are written as YAML.
    pub(super) yaml: Vec<Value>,
}

/// The objects that have a line of their own. `on` continues any object.
const KINDS: [&str; 8] = [
    "deployment",
    "replicaset",
    "statefulset",
    "daemonset",
    "job",
    "pod",
    "node",
    "on",
];

const PARTS: [&str; 11] = [
    "container",
    "init",
    "sidecar",
    "condition",
    "warning",
    "normal",
    "startup",
    "liveness",
    "readiness",
    "volume",
    "gate",
];

/// The words of a pod that need no value.
const FLAGS: [&str; 8] = [
    "ready",
    "running",
    "starting",
    "pending",
    "succeeded",
    "unscheduled",
    "gated",
    "deleting",
];

// === impl State ===

impl Default for State {
    fn default() -> Self {
        Self {
            now: 0,
            namespace: "shop".to_owned(),
            entries: Vec::new(),
            yaml: Vec::new(),
        }
    }
}

impl State {
    /// Reads a block. An error starts with the number of the line.
    pub(super) fn read(&mut self, block: &Lines) -> Result<(), String> {
        let lines: Vec<&str> = block.text.lines().collect();
        let mut current = Vec::new();
        let mut index = 0;
        while let Some(line) = lines.get(index) {
            let number = block.first + index;
            let found = self.line(&lines[index..], number, &mut current);
            index += found.map_err(|error| format!("{number}: {error}\n  {line}"))?;
        }
        Ok(())
    }

    /// Reads an object, a part of one, or YAML, and returns how many lines it has.
    fn line(
        &mut self,
        lines: &[&str],
        number: usize,
        current: &mut Vec<usize>,
    ) -> Result<usize, String> {
        let line = lines[0];
        let words = split(line)?;
        let Some((first, rest)) = words.split_first().filter(|(it, _)| !it.starts_with('#')) else {
            return Ok(1);
        };
        if line.starts_with(' ') {
            if current.is_empty() {
                return Err("an indented line above all objects".to_owned());
            }
            if first.ends_with(':') {
                let (count, patch) = self.patch(lines)?;
                for index in current {
                    self.entries[*index].patches.push(patch.clone());
                }
                return Ok(count);
            }
            let part = self.part(first, rest, number)?;
            for index in current {
                self.entries[*index].parts.push(part.clone());
            }
            return Ok(1);
        }
        current.clear();
        match (first.as_str(), rest) {
            ("now", [span]) => {
                let span = seconds(span).filter(|_| span.starts_with('+'));
                self.now += span.ok_or("now +30s")?;
            }
            ("namespace", [name]) => self.namespace.clone_from(name),
            ("delete", [kind, name]) => {
                let before = self.entries.len();
                self.entries
                    .retain(|it| (&it.kind, &it.name) != (kind, name));
                if self.entries.len() == before {
                    return Err(format!("no {kind} {name}"));
                }
            }
            (kind, rest) if KINDS.contains(&kind) => {
                let is_name =
                    |word: &&String| !word.contains('=') && !FLAGS.contains(&word.as_str());
                let names: Vec<&String> = rest.iter().take_while(is_name).collect();
                let keys = self.keys(&rest[names.len()..]);
                let names: Vec<String> = match (kind, names.as_slice()) {
                    ("on", [kind, name]) => vec![format!("{kind}/{name}")],
                    ("pod" | "node", [_, ..]) => names.into_iter().cloned().collect(),
                    (_, [name]) => vec![(*name).clone()],
                    _ => return Err("a name is missing, or there are too many".to_owned()),
                };
                for name in names {
                    current.push(self.entry(kind, &name, &keys, number));
                }
            }
            (word, _) => return Err(format!("unknown word {word}")),
        }
        Ok(1)
    }

    /// The entry of an object, with these keys.
    fn entry(&mut self, kind: &str, name: &str, keys: &Keys, line: usize) -> usize {
        let is_same = |it: &Entry| it.kind == kind && it.name == name;
        let index = self.entries.iter().position(is_same);
        let index = index.unwrap_or_else(|| {
            self.entries.push(Entry {
                kind: kind.to_owned(),
                name: name.to_owned(),
                keys: Keys::default(),
                parts: Vec::new(),
                patches: Vec::new(),
                line,
            });
            self.entries.len() - 1
        });
        let entry = &mut self.entries[index];
        entry.keys.replace_state(keys);
        entry.keys.extend(keys.clone());
        index
    }

    fn keys(&self, words: &[String]) -> Keys {
        let mut keys = Keys::default();
        for word in words {
            let (key, text) = word.split_once('=').unwrap_or((word, ""));
            keys.insert(key, text, self.now);
        }
        keys
    }

    fn part(&self, kind: &str, rest: &[String], line: usize) -> Result<Part, String> {
        if !PARTS.contains(&kind) {
            return Err(format!("unknown word {kind}"));
        }
        let is_event = matches!(kind, "warning" | "normal" | "condition" | "gate");
        let is_plain = |word: &&String| {
            let key = word.split_once('=').map(|(key, _)| key);
            let is_key = key.is_some_and(|key| key.chars().all(|c| c.is_ascii_alphabetic()));
            !is_key && (is_event || !FLAGS.contains(&word.as_str()))
        };
        let words: Vec<String> = rest.iter().take_while(is_plain).cloned().collect();
        let keys = self.keys(&rest[words.len()..]);
        Ok(Part {
            kind: kind.to_owned(),
            words,
            keys,
            at: self.now,
            line,
        })
    }

    /// The YAML at the start of some lines, and how many lines it has.
    fn patch(&self, lines: &[&str]) -> Result<(usize, Value), String> {
        let indent = |line: &str| line.len() - line.trim_start().len();
        let margin = indent(lines[0]);
        let belongs = |line: &&&str| {
            let is_key = split(line).is_ok_and(|words| words[0].ends_with(':'));
            line.trim().is_empty() || indent(line) > margin || indent(line) == margin && is_key
        };
        let count = lines
            .iter()
            .take_while(|line| !line.trim().is_empty())
            .take_while(belongs)
            .count();
        let text: Vec<&str> = lines[..count]
            .iter()
            .map(|line| &line[margin.min(indent(line))..])
            .collect();
        Ok((count, self.value(&text.join("\n"))?))
    }

    fn value(&self, yaml: &str) -> Result<Value, String> {
        let mut value = rollplan_world::yaml::to_json(yaml)?;
        self.resolve(&mut value, "")?;
        Ok(value)
    }

    /// Replaces relative times, and conditions in short form.
    fn resolve(&self, value: &mut Value, key: &str) -> Result<(), String> {
        match value {
            Value::String(text) if key == "conditions" => *value = self.conditions(text)?,
            Value::String(text) if is_time(text) => {
                let offset = seconds(text).unwrap_or_default();
                *text = timestamp(self.now + offset);
            }
            Value::Array(items) => {
                for item in items {
                    self.resolve(item, "")?;
                }
            }
            Value::Object(fields) => {
                for (key, field) in fields {
                    self.resolve(field, key)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Conditions such as `Ready=False:Reason: message; Stalled=True`, since a minute.
    fn conditions(&self, text: &str) -> Result<Value, String> {
        let one = |text: &str| {
            let (kind, rest) = text
                .split_once('=')
                .ok_or_else(|| format!("{text:?}: TYPE=STATUS"))?;
            let (status, rest) = rest.split_once(':').unwrap_or((rest, ""));
            let (reason, message) = rest.split_once(": ").unwrap_or((rest, ""));
            Ok(
                json!({"type": kind, "status": status, "reason": reason, "message": message,
                      "lastTransitionTime": timestamp(self.now - 60)}),
            )
        };
        text.split("; ")
            .filter(|it| !it.is_empty())
            .map(one)
            .collect()
    }

    /// Adds objects that are written as YAML.
    pub(super) fn add(&mut self, block: &Lines) -> Result<(), String> {
        let at = |error| format!("{}: {error}", block.first);
        for document in block.text.split("\n---\n") {
            let mut object = self.value(document).map_err(at)?;
            objects::complete(&mut object, &self.namespace, self.now).map_err(at)?;
            let is_same = |it: &Value| {
                ["kind", "apiVersion"]
                    .iter()
                    .all(|key| it[key] == object[key])
                    && ["name", "namespace"]
                        .iter()
                        .all(|key| it["metadata"][key] == object["metadata"][key])
            };
            self.yaml.retain(|it| !is_same(it));
            self.yaml.push(object);
        }
        Ok(())
    }
}
