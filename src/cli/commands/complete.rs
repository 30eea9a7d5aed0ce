//! `kubectl_complete-rollplan`: the completions of the plugin, as kubectl asks for them.
//!
//! kubectl passes the words after `kubectl rollplan`, the last of which is incomplete. The answer has a line for each
//! completion and, in the last line, a directive of cobra.

use std::time::Duration;

use clap::{Arg, Command};

use crate::cli::error::Error;
use crate::cli::kubectl::Kubectl;
use crate::cli::options::ClusterArgs;
use crate::cli::resource;
use crate::cli::{output, stderr};

/// How long a shell waits for names.
const LIMIT: Duration = Duration::from_secs(5);

/// The directives of cobra.
const NO_SPACE: u8 = 2;
const NO_FILES: u8 = 4;
const FILES: u8 = 0;

/// Completions, and a directive.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    words: Vec<String>,
    directive: u8,
}

/// What a word is to be completed to.
#[derive(Debug, PartialEq, Eq)]
enum Completion<'w> {
    Words(Vec<String>),
    Files,
    /// The names of objects of this kind, after a prefix such as "sts/".
    Names {
        kind: &'w str,
        prefix: &'w str,
    },
    /// The names of objects of the default kind, and the kinds.
    NamesAndKinds {
        kind: &'static str,
        kinds: Vec<String>,
    },
    Contexts,
}

/// Prints the completions for these words.
pub(in crate::cli) fn run(command: &Command, words: &[String]) -> Result<(), Error> {
    let Answer { words, directive } = answer(command, words);
    let mut text: String = words.iter().map(|word| format!("{word}\n")).collect();
    text += &format!(":{directive}\n");
    output::write(text.as_bytes())
}

fn answer(command: &Command, words: &[String]) -> Answer {
    let Some((word, before)) = words.split_last() else {
        return none();
    };
    let kubectl = Kubectl::new(&cluster(before));
    let names = |kind: &str| match kubectl.names(kind, LIMIT) {
        Ok(names) => names,
        // cobra shows messages on standard error only while it is debugged.
        Err(failure) => {
            stderr::eprint_note(failure);
            Vec::new()
        }
    };
    let (all, directive) = match wanted(command, before, word) {
        Completion::Words(words) => (words, NO_FILES),
        Completion::Files => (Vec::new(), FILES),
        Completion::Contexts => (kubectl.contexts(LIMIT).unwrap_or_default(), NO_FILES),
        Completion::Names { kind, prefix } => {
            let names = names(kind)
                .into_iter()
                .map(|name| format!("{prefix}{name}"));
            (names.collect(), NO_FILES)
        }
        Completion::NamesAndKinds { kind, kinds } => {
            let kinds: Vec<String> = kinds
                .into_iter()
                .filter(|it| it.starts_with(word))
                .collect();
            let names: Vec<String> = names(kind)
                .into_iter()
                .filter(|it| it.starts_with(word))
                .collect();
            let directive = if names.is_empty() {
                NO_SPACE | NO_FILES
            } else {
                NO_FILES
            };
            let words = if names.is_empty() || !word.is_empty() {
                [names, kinds].concat()
            } else {
                names
            };
            (words, directive)
        }
    };
    let words = all.into_iter().filter(|it| it.starts_with(word.as_str()));
    Answer {
        words: words.collect(),
        directive,
    }
}

fn none() -> Answer {
    Answer {
        words: Vec::new(),
        directive: NO_FILES,
    }
}

fn wanted<'w>(command: &Command, before: &'w [String], word: &'w str) -> Completion<'w> {
    let Some(verb) = before.first() else {
        let verbs = command.get_subcommands().filter(|it| !it.is_hide_set());
        let verbs = verbs.map(|verb| match verb.get_about() {
            Some(about) => format!("{}\t{about}", verb.get_name()),
            None => verb.get_name().to_owned(),
        });
        return Completion::Words(verbs.collect());
    };
    let Some(verb) = command.find_subcommand(verb) else {
        return Completion::Words(Vec::new());
    };
    if verb.has_subcommands() {
        return wanted(verb, before.get(1..).unwrap_or_default(), word);
    }
    let last = before.last().filter(|_| before.len() > 1);
    if let Some(option) = last.and_then(|last| option(verb, last)) {
        return value_of(option);
    }
    if word.starts_with('-') {
        let longs = verb.get_arguments().filter(|it| !it.is_hide_set());
        let longs =
            longs.filter_map(|it| Some(format!("--{}\t{}", it.get_long()?, it.get_help()?)));
        return Completion::Words(longs.collect());
    }
    if verb.get_positionals().next().is_none() {
        return Completion::Words(Vec::new());
    }
    let kinds_of = |names: &[&str]| names.iter().map(|it| format!("{it}/")).collect();
    match (verb.get_name(), word.split_once('/')) {
        ("completions", _) => Completion::Words(
            ["bash", "elvish", "fish", "powershell", "zsh"]
                .map(str::to_owned)
                .to_vec(),
        ),
        (_, Some((kind, _))) => Completion::Names {
            kind,
            prefix: &word[..=kind.len()],
        },
        _ if command.get_name() == "canary" => Completion::NamesAndKinds {
            kind: "deploy",
            kinds: kinds_of(&["deploy"]),
        },
        ("status" | "wait", None) => Completion::NamesAndKinds {
            kind: "deploy",
            kinds: kinds_of(&resource::short_names().collect::<Vec<_>>()),
        },
        ("uses", None) => Completion::NamesAndKinds {
            kind: "",
            kinds: kinds_of(&["configmap", "secret", "secretproviderclass"]),
        },
        (_, None) => Completion::NamesAndKinds {
            kind: "deploy",
            kinds: kinds_of(&["deploy", "pdeploy"]),
        },
    }
}

/// The option with this name, if it takes a value.
fn option<'c>(verb: &'c Command, word: &str) -> Option<&'c Arg> {
    let mut options = verb
        .get_arguments()
        .filter(|it| it.get_action().takes_values());
    options.find(|it| {
        let is_long = it
            .get_long()
            .is_some_and(|long| word == format!("--{long}"));
        is_long
            || it
                .get_short()
                .is_some_and(|short| word == format!("-{short}"))
    })
}

fn value_of(option: &Arg) -> Completion<'static> {
    let values: Vec<String> = option
        .get_possible_values()
        .iter()
        .map(|value| value.get_name().to_owned())
        .collect();
    match option.get_long().unwrap_or_default() {
        "namespace" => Completion::Names {
            kind: "namespaces",
            prefix: "",
        },
        "context" => Completion::Contexts,
        "deployment" => Completion::Names {
            kind: "deploy",
            prefix: "",
        },
        _ if values.is_empty()
            && option
                .get_value_names()
                .is_some_and(|it| it.iter().any(|it| it == "FILE")) =>
        {
            Completion::Files
        }
        _ => Completion::Words(values),
    }
}

/// The options of the cluster among the words.
fn cluster(words: &[String]) -> ClusterArgs {
    let value = |names: [&str; 2]| {
        let mut found = None;
        for (index, word) in words.iter().enumerate() {
            match word.split_once('=') {
                Some((name, value)) if names.contains(&name) => found = Some(value.to_owned()),
                None if names.contains(&word.as_str()) => found = words.get(index + 1).cloned(),
                _ => {}
            }
        }
        found
    };
    ClusterArgs {
        namespace: value(["-n", "--namespace"]),
        context: value(["--context"; 2]),
        kubeconfig: value(["--kubeconfig"; 2]),
        all_namespaces: false,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::commands::CommandLine;

    #[test]
    fn words_are_completed_by_their_position() {
        let wanted = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            let (word, before) = words.split_last().unwrap();
            format!("{:?}", wanted(&CommandLine::command(), before, word))
        };
        for (words, expected) in [
            (&[""][..], "\"status\\tPrint where a rollout stands"),
            (&["wait", "--fo"], "\"--for\\t"),
            (
                &["wait", "-o", ""],
                "Words([\"table\", \"wide\", \"name\", \"json\", \"yaml\"])",
            ),
            (
                &["wait", "web", "-n", "s"],
                "Names { kind: \"namespaces\", prefix: \"\" }",
            ),
            (&["wait", "--context", ""], "Contexts"),
            (&["wait", "-f", ""], "Files"),
            (
                &["wait", "sts/d"],
                "Names { kind: \"sts\", prefix: \"sts/\" }",
            ),
            (
                &["wait", "w"],
                "NamesAndKinds { kind: \"deploy\", kinds: [\"deploy/\",",
            ),
            (
                &["undo", ""],
                "NamesAndKinds { kind: \"deploy\", kinds: [\"deploy/\", \"pdeploy/\"] }",
            ),
            (
                &["uses", "configmap/"],
                "Names { kind: \"configmap\", prefix: \"configmap/\" }",
            ),
            (&["canary", ""], "\"start\\tStart a canary"),
            (
                &["canary", "start", "--on-success", ""],
                "Words([\"hold\", \"promote\"])",
            ),
            (
                &["canary", "promote", "w"],
                "NamesAndKinds { kind: \"deploy\", kinds: [\"deploy/\"] }",
            ),
            (
                &["canary", "status", ""],
                "NamesAndKinds { kind: \"deploy\", kinds: [\"deploy/\"] }",
            ),
            (&["restarts", ""], "Words([])"),
            (&["nonsense", ""], "Words([])"),
        ] {
            let found = wanted(words);
            assert!(found.contains(expected), "{words:?}: {found}");
        }
    }

    #[test]
    fn names_are_those_of_the_given_cluster() {
        let words = [
            "wait",
            "-n",
            "shop",
            "--context=prod",
            "--kubeconfig",
            "file",
            "",
        ];
        let found = cluster(&words.map(str::to_owned));
        assert_eq!(found.namespace.as_deref(), Some("shop"));
        assert_eq!(found.context.as_deref(), Some("prod"));
        assert_eq!(found.kubeconfig.as_deref(), Some("file"));
    }
}
