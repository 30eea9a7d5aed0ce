//! Lines of the language of states: words, keys with values, and times.

use std::collections::BTreeMap;

use prost_types::Timestamp;

/// 2026-11-20T12:00:00Z: the time at which a story begins.
pub(super) const START: i64 = 1_795_176_000;

/// The time `seconds` after the beginning of the story, as Kubernetes writes it.
pub(super) fn timestamp(seconds: i64) -> String {
    Timestamp {
        seconds: START + seconds,
        nanos: 0,
    }
    .to_string()
}

/// Splits a line into words. Quotes may enclose a word, or the value of a key; `\"` is a quote.
pub(super) fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', Some('"')) => match chars.next() {
                Some('n') => word.get_or_insert_default().push('\n'),
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err("a backslash at the end".to_owned()),
            },
            (c, Some(end)) if c == end => quote = None,
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            ('"' | '\'', None) => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match quote {
        Some(quote) => Err(format!("a {quote} is not closed")),
        None => Ok(words),
    }
}

/// The seconds of `30s`, `-5m`, `+1h` or `1d`, or of several of them as in `1m30s`.
pub(super) fn seconds(text: &str) -> Option<i64> {
    let unsigned = text.trim_start_matches(['-', '+']);
    let sign = if text.starts_with('-') { -1 } else { 1 };
    if text.len() - unsigned.len() > 1 || unsigned.is_empty() {
        return None;
    }
    let (mut all, mut number) = (0, String::new());
    for c in unsigned.chars() {
        let unit = match c {
            '0'..='9' => {
                number.push(c);
                continue;
            }
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return None,
        };
        all += std::mem::take(&mut number).parse::<i64>().ok()? * unit;
    }
    number.is_empty().then_some(sign * all)
}

/// Whether a value is a time: `now`, or an interval with a sign.
pub(super) fn is_time(text: &str) -> bool {
    text == "now" || text.starts_with(['-', '+']) && seconds(text).is_some()
}

/// The keys of which a pod or container has one.
pub(super) const STATES: [&str; 11] = [
    "ready",
    "running",
    "waiting",
    "terminated",
    "starting",
    "pending",
    "succeeded",
    "unscheduled",
    "gated",
    "phase",
    "last",
];

/// A value, and the time at which it was written, to which times in it are relative.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) text: String,
    pub(super) at: i64,
}

/// The keys of a line.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys(BTreeMap<String, Written>);

// === impl Written ===

impl Written {
    pub(super) fn time(&self) -> Result<i64, String> {
        match self.text.as_str() {
            "now" => Ok(self.at),
            text if is_time(text) => Ok(self.at + seconds(text).unwrap_or_default()),
            text => Err(format!("{text:?} is not a time such as -30s or now")),
        }
    }
}

// === impl Keys ===

impl Keys {
    pub(super) fn insert(&mut self, key: &str, text: &str, at: i64) {
        let text = text.to_owned();
        self.0.insert(key.to_owned(), Written { text, at });
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Removes the state of a pod if the new keys contain another one.
    pub(super) fn replace_state(&mut self, new: &Self) {
        if STATES.iter().any(|key| new.0.contains_key(*key)) {
            self.0.retain(|key, _| !STATES.contains(&key.as_str()));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes what describes the first container of a pod.
    pub(super) fn take_state(&mut self) -> Self {
        let keys = [
            "ready",
            "running",
            "waiting",
            "terminated",
            "succeeded",
            "last",
            "restarts",
            "started",
        ];
        let taken = keys.iter().filter_map(|key| self.0.remove_entry(*key));
        Self(taken.collect())
    }

    pub(super) fn take(&mut self, key: &str) -> Option<Written> {
        self.0.remove(key)
    }

    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        self.take(key).map(|written| written.text)
    }

    pub(super) fn flag(&mut self, key: &str) -> Result<bool, String> {
        match self.text(key).as_deref() {
            None | Some("no") => Ok(false),
            Some("" | "yes") => Ok(true),
            Some(text) => Err(format!("{key}={text}: yes or no")),
        }
    }

    pub(super) fn number(&mut self, key: &str) -> Result<Option<i64>, String> {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        let number = text.parse();
        number
            .map_err(|error| format!("{key}={text}: {error}"))
            .map(Some)
    }

    pub(super) fn time(&mut self, key: &str) -> Result<Option<i64>, String> {
        let time = self.take(key).map(|written| written.time());
        time.transpose().map_err(|error| format!("{key}: {error}"))
    }

    /// Checks that every key has been taken.
    pub(super) fn check_empty(&self) -> Result<(), String> {
        match self.0.keys().next() {
            Some(key) => Err(format!("unknown word {key}")),
            None => Ok(()),
        }
    }
}
