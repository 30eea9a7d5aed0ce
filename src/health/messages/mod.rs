//! What the messages of Kubernetes, of container runtimes and of registries mean, as data.
//!
//! A [`Table`] has the messages about one subject, one file each. A [`Row`] is one message: the format string of the
//! component that prints it, what a person needs of it, whether the failure persists, who can resolve it, and how.
//! Anyone who meets a new message adds a row, the source file and function beside it, and a story in `tests/stories`.
//!
//! A pattern is a format string with named holes. `<name>` stands for one word, and `<name...>` for any text, which may be
//! empty. A pattern must match a whole clause: it begins at the start of the message or after a wrapper, which only says
//! where an error occurred, and ends at the end of the message or at an ending without meaning. A part of a message never
//! matches, because other programs can write any text into the rest. An unknown message is shown whole, proves nothing, and
//! has no remedy.

pub(crate) mod autoscaler;
pub(crate) mod container;
pub(crate) mod image;
pub(crate) mod mount;
mod pattern;
pub(crate) mod probe;
mod quota;
pub(crate) mod refusal;
pub(crate) mod sandbox;
pub(crate) mod scheduler;
pub(crate) mod volume;

pub(crate) use self::quota::quota_may_have_room;

use crate::text::{KUBERNETES_MAX, one_line};

use self::pattern::{Holes, begins_with_text, fill, matched, without_beginning, without_ending};

/// The messages about one subject.
pub(crate) struct Table {
    /// The reasons, of containers or of events, that have these messages.
    pub(crate) reasons: &'static [&'static str],
    /// The beginnings of messages that only say where an error occurred. Each ends where the error begins.
    wrappers: &'static [&'static str],
    /// The endings of messages that have no meaning, outermost first. One that ends in a hole begins at its first
    /// occurrence.
    endings: &'static [&'static str],
    /// The messages. The first row that matches applies.
    rows: &'static [Row],
}

/// A message.
pub(crate) struct Row {
    /// The format string of the component that prints the message.
    pattern: &'static str,
    /// What a person needs of it, with holes. Empty if it is the clause that matches.
    cause: &'static str,
    /// Whether the failure persists.
    persistence: Persistence,
    /// Who can resolve it.
    resolver: Resolver,
    /// What to do, with holes. Empty if it is what the resolver always does.
    remedy: &'static str,
}

/// Whether a failure persists until an object is changed, once it has lasted for the time of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// It may pass.
    Undecided,
    /// It persists.
    Definite,
    /// It persists until another object is created, which may happen a minute later.
    Missing,
    /// It persists unless a volume can provide the file that the hole `file` names: another container may put it there.
    UnlessOnVolume,
    /// It persists if the hole `requested` exceeds the hole `limited`: then no other pod has to end.
    IfOverLimit,
    /// It persists unless the hole `explanation`, which another program has written, reports a temporary problem.
    IfExplained,
}

/// Who can resolve a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolver {
    /// The owner of the pod template.
    Template,
    /// The owner of the image.
    Image,
    /// The owner of an object that the pod refers to, or of a rule in the cluster.
    Cluster,
    /// The owner of the image, or another node. The cause names the node.
    Platform,
    /// The owner of the registry, or of the network to it.
    Registry,
    /// The owner of the node. The cause names the node.
    Node,
    /// Kubernetes, which tries again.
    Time,
}

/// What remedies name. Names are words of shell commands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) container: String,
    pub(crate) node: String,
    /// The kind of the probe, in lower case.
    pub(crate) probe: String,
    /// The command that prints the log of the container.
    pub(crate) log: String,
}

/// A message that was looked up.
#[derive(Clone)]
pub(crate) struct Message {
    row: Option<&'static Row>,
    holes: Holes,
    /// The clause that matches, or the whole message.
    text: String,
}

/// The maximum number of wrappers around an error. Known components add about ten.
const WRAPPERS_MAX: usize = 20;

/// The words of explanations that report a temporary problem of the program that has written them, for example of its
/// connection to a registry or to another service.
const TEMPORARY: [&str; 21] = [
    "timeout",
    "timed out",
    "deadline exceeded",
    "context canceled",
    "connection refused",
    "connection reset",
    "broken pipe",
    "eof",
    "no such host",
    "server misbehaving",
    "network is unreachable",
    "no route to host",
    "x509",
    "toomanyrequests",
    "too many requests",
    "429",
    "service unavailable",
    "bad gateway",
    "internal server error",
    "internal error",
    "try again",
];

// === impl Table ===

impl Table {
    /// Looks up a message.
    pub(crate) fn look_up(&self, message: &str) -> Message {
        // Some components quote a message again.
        let text = message.trim().replace("\\\"", "\"");
        let mut holes = Vec::new();
        let mut clause = text.as_str();
        for _ in 0..WRAPPERS_MAX {
            let mut wrappers = self.wrappers.iter();
            let mut outer = Vec::new();
            let inner = wrappers.find_map(|wrapper| without_beginning(wrapper, clause, &mut outer));
            let inner = inner.or_else(|| first_of_several(clause));
            // A pattern that begins with any text must not match the text of a wrapper.
            if let Some((row, clause)) = self.find(clause, inner.is_none(), &mut holes) {
                return Message {
                    row: Some(row),
                    text: clause.to_owned(),
                    holes,
                };
            }
            holes.append(&mut outer);
            match inner {
                Some(inner) => clause = inner,
                None => break,
            }
        }
        Message {
            row: None,
            holes: Vec::new(),
            text,
        }
    }

    /// The position of the row of a message. `None` if the message is unknown.
    pub(crate) fn position(&self, message: &Message) -> Option<usize> {
        let row = message.row?;
        self.rows.iter().position(|other| std::ptr::eq(other, row))
    }

    /// The row of a clause, which is returned without its ending.
    fn find<'t>(
        &self,
        clause: &'t str,
        is_innermost: bool,
        holes: &mut Holes,
    ) -> Option<(&'static Row, &'t str)> {
        let mut clauses = vec![clause];
        for ending in self.endings {
            let shorter = clauses.last().and_then(|it| without_ending(ending, it));
            clauses.extend(shorter);
        }
        clauses.into_iter().rev().find_map(|clause| {
            let mut rows = self.rows.iter();
            let (row, own) = rows.find_map(|row| {
                let may_match = is_innermost || !begins_with_text(row.pattern);
                let own = may_match.then(|| matched(row.pattern, clause))??;
                Some((row, own))
            })?;
            holes.extend(own);
            Some((row, clause))
        })
    }
}

// === impl Row ===

impl Row {
    const fn new(
        pattern: &'static str,
        persistence: Persistence,
        resolver: Resolver,
        remedy: &'static str,
    ) -> Self {
        Self {
            pattern,
            cause: "",
            persistence,
            resolver,
            remedy,
        }
    }

    /// A failure that persists.
    pub(crate) const fn definite(
        pattern: &'static str,
        resolver: Resolver,
        remedy: &'static str,
    ) -> Self {
        Self::new(pattern, Persistence::Definite, resolver, remedy)
    }

    /// A failure that may pass.
    pub(crate) const fn undecided(
        pattern: &'static str,
        resolver: Resolver,
        remedy: &'static str,
    ) -> Self {
        Self::new(pattern, Persistence::Undecided, resolver, remedy)
    }

    /// The row with what a person needs of the message.
    const fn showing(mut self, cause: &'static str) -> Self {
        self.cause = cause;
        self
    }

    /// The row with another persistence.
    const fn with(mut self, persistence: Persistence) -> Self {
        self.persistence = persistence;
        self
    }
}

// === impl Message ===

impl Message {
    /// What a person needs of the message, as a single line.
    pub(crate) fn cause(&self, facts: &Facts) -> String {
        let cause = match self.row {
            Some(row) if !row.cause.is_empty() => fill(row.cause, &self.holes, facts),
            _ => self.text.clone(),
        };
        let cause = one_line(&cause, KUBERNETES_MAX);
        match self.row.map(|row| row.resolver) {
            Some(Resolver::Node | Resolver::Platform) if !facts.node.is_empty() => {
                format!("{cause} (node {})", facts.node)
            }
            _ => cause,
        }
    }

    /// What to do. Empty if only time helps, or if nothing is known.
    pub(crate) fn remedy(&self, facts: &Facts) -> String {
        let Some(row) = self.row else {
            return String::new();
        };
        // The remedy is about what the explanation demands.
        if row.persistence == Persistence::IfExplained && !self.is_definite() {
            return String::new();
        }
        let remedy = match (row.remedy, row.resolver) {
            ("", Resolver::Node) if !facts.node.is_empty() => {
                "check the node: kubectl describe node <node>"
            }
            (remedy, _) => remedy,
        };
        fill(remedy, &self.holes, facts)
    }

    /// Whether the failure persists, according to the message.
    pub(crate) fn persistence(&self) -> Persistence {
        let hole = |name| self.hole(name).unwrap_or_default();
        let row = self.row.map(|row| row.persistence);
        let is_definite = match row {
            Some(Persistence::IfOverLimit) => quota::exceeds(hole("requested"), hole("limited")),
            Some(Persistence::IfExplained) => {
                let explanation = hole("explanation").to_lowercase();
                !TEMPORARY.iter().any(|words| has_words(&explanation, words))
            }
            _ => return row.unwrap_or(Persistence::Undecided),
        };
        if is_definite {
            Persistence::Definite
        } else {
            Persistence::Undecided
        }
    }

    /// Whether a row has the message.
    pub(crate) fn is_known(&self) -> bool {
        self.row.is_some()
    }

    /// Whether the failure persists, according to the message alone.
    pub(crate) fn is_definite(&self) -> bool {
        matches!(
            self.persistence(),
            Persistence::Definite | Persistence::Missing
        )
    }

    /// The text of a hole.
    pub(crate) fn hole(&self, name: &str) -> Option<&str> {
        pattern::hole(&self.holes, name)
    }
}

/// The first of several errors, for example of the sources of a projected volume (apimachinery: pkg/util/errors/errors.go,
/// `aggregate.Error`). `None` if the text is not a list of errors.
fn first_of_several(text: &str) -> Option<&str> {
    let errors = text.strip_prefix('[')?.strip_suffix(']')?;
    Some(errors.split_once(", ").map_or(errors, |(first, _)| first))
}

/// Whether a text contains these words, and not only as a part of others, such as `timeoutSeconds`.
fn has_words(text: &str, words: &str) -> bool {
    text.match_indices(words).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let after = text[start + words.len()..].chars().next();
        let continues = |it: Option<char>| it.is_some_and(char::is_alphanumeric);
        !continues(before) && !continues(after)
    })
}

#[cfg(test)]
mod tests {
    use super::pattern::pieces;
    use super::*;

    fn tables() -> impl Iterator<Item = &'static Table> {
        let tables = [
            &container::TABLE,
            &container::EXECUTIONS,
            &image::TABLE,
            &mount::TABLE,
            &probe::TABLE,
            &refusal::TABLE,
            &sandbox::TABLE,
            &autoscaler::GROUPS,
            &autoscaler::REFUSALS,
            &volume::ATTACHMENTS,
            &volume::ATTACHED,
            &volume::CLAIMS,
            &volume::OWNERSHIP,
            &volume::UNPROCESSED,
            &volume::WAITS,
        ];
        let reasons = scheduler::TABLES.iter().map(|(_, table)| table);
        tables.into_iter().chain(reasons)
    }

    /// A message that a pattern matches.
    fn example(pattern: &str) -> String {
        let mut text = String::new();
        for (hole, literal) in pieces(pattern) {
            if let Some(hole) = hole {
                text.push_str(if hole.ends_with("...") {
                    "a text"
                } else {
                    "a-word"
                });
            }
            text.push_str(literal);
        }
        text
    }

    #[test]
    fn each_message_is_found_alone_and_after_each_wrapper() {
        for table in tables() {
            for row in table.rows {
                let message = example(row.pattern);
                let check = |message: &str| {
                    let found = table.look_up(message).row;
                    let found = found.map(|found| found.pattern);
                    assert_eq!(found, Some(row.pattern), "{message}");
                };
                check(&message);
                for wrapper in table.wrappers {
                    check(&format!("{}{message}", example(wrapper)));
                }
                for ending in table.endings {
                    check(&format!("{message}{}", example(ending)));
                }
            }
        }
    }

    #[test]
    fn a_part_of_a_message_is_not_a_message() {
        for table in tables() {
            for row in table.rows {
                let message = format!("somebody wrote: {}", example(row.pattern));
                let found = table.look_up(&message).row;
                let is_other = found.is_none_or(|found| found.pattern != row.pattern);
                assert!(is_other || begins_with_text(row.pattern), "{message}");
            }
        }
    }

    #[test]
    fn causes_and_remedies_use_the_holes_of_their_messages() {
        const FACTS: [&str; 6] = ["namespace", "pod", "container", "node", "probe", "log"];
        for table in tables() {
            for row in table.rows {
                let named = |pattern: &'static str| {
                    let holes = pieces(pattern).filter_map(|(hole, _)| hole);
                    holes.map(|hole| hole.trim_end_matches("...")).collect()
                };
                let own: Vec<&str> = named(row.pattern);
                let outer: Vec<&str> = table.wrappers.iter().flat_map(|it| named(it)).collect();
                for hole in [row.cause, row.remedy].into_iter().flat_map(named) {
                    let known = [own.as_slice(), &outer, &FACTS].concat();
                    assert!(known.contains(&hole), "{}: {hole}", row.pattern);
                }
                let file = match row.persistence {
                    Persistence::UnlessOnVolume => "file",
                    Persistence::IfOverLimit => "limited",
                    Persistence::IfExplained => "explanation",
                    Persistence::Undecided | Persistence::Definite | Persistence::Missing => {
                        continue;
                    }
                };
                assert!(own.contains(&file), "{}", row.pattern);
            }
        }
    }

    #[test]
    fn unknown_message_is_shown_whole_without_a_remedy() {
        let facts = Facts::default();
        let message =
            container::TABLE.look_up("failed to create containerd task: an error: of a new kind");
        assert_eq!(
            message.cause(&facts),
            "failed to create containerd task: an error: of a new kind"
        );
        assert_eq!(message.remedy(&facts), "");
        assert!(!message.is_definite());
        let long = format!("{}: the reason", "x ".repeat(1000));
        let cause = container::TABLE.look_up(&long).cause(&facts);
        assert_eq!(cause.chars().count(), KUBERNETES_MAX);
        assert!(cause.ends_with(": the reason"), "{cause}");
    }
}
