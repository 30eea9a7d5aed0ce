//! The text format of scripts, which failures print and `--script` reads.

use std::fmt;
use std::str::FromStr;

use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::Strategy;

use super::{Answer, Event, Kind, Propagation, Script, Setup};
use crate::pods::Fault;

const KINDS: &[(Kind, &str)] = &[
    (Kind::Deployments, "deployments"),
    (Kind::Sets, "sets"),
    (Kind::Pods, "pods"),
];
const PROPAGATIONS: &[(Propagation, &str)] = &[
    (Propagation::Background, "background"),
    (Propagation::Foreground, "foreground"),
    (Propagation::Orphan, "orphan"),
];
const ANSWERS: &[(Answer, &str)] = &[
    (Answer::LostBefore, "timeout-before"),
    (Answer::LostAfter, "timeout-after"),
    (Answer::Forbidden, "forbidden"),
    (Answer::TooMany, "too-many"),
    (Answer::Broken, "broken"),
];
pub(crate) const FAULTS: &[(Fault, &str)] = &[
    (Fault::None, "none"),
    (Fault::Unschedulable, "unschedulable"),
    (Fault::ImagePull, "image-pull"),
    (Fault::Config, "config"),
    (Fault::CrashLoop, "crash-loop"),
    (Fault::NeverReady, "never-ready"),
    (Fault::NeverEnds, "never-ends"),
];
const NONE: &str = "none";

fn name<T: PartialEq>(table: &[(T, &'static str)], value: T) -> &'static str {
    table
        .iter()
        .find(|(other, _)| *other == value)
        .map_or("?", |(_, name)| name)
}

fn value<T: Copy>(table: &[(T, &str)], word: &str) -> Result<T, String> {
    let found = table.iter().find(|(_, name)| *name == word);
    found
        .map(|(value, _)| *value)
        .ok_or_else(|| format!("unknown word {word:?}"))
}

fn number<T: FromStr<Err: fmt::Display>>(word: &str) -> Result<T, String> {
    word.parse().map_err(|error| format!("{word:?}: {error}"))
}

fn limit(word: &str) -> Result<IntOrPercent, String> {
    Ok(match word.strip_suffix('%') {
        Some(percent) => IntOrPercent::from_percent(percent)
            .ok_or_else(|| format!("{word:?}: not a percentage"))?,
        None => IntOrPercent::Int(number(word)?),
    })
}

fn strategy(word: &str) -> Result<Strategy, String> {
    if word == "recreate" {
        return Ok(Strategy::Recreate);
    }
    let limits = word
        .strip_prefix("rolling/")
        .and_then(|limits| limits.split_once('/'));
    let (surge, unavailable) =
        limits.ok_or_else(|| format!("{word:?}: recreate or rolling/SURGE/UNAVAILABLE"))?;
    Ok(Strategy::RollingUpdate {
        max_surge: limit(surge)?,
        max_unavailable: limit(unavailable)?,
    })
}

fn strategy_text(strategy: Strategy) -> String {
    match strategy {
        Strategy::Recreate => "recreate".to_owned(),
        Strategy::RollingUpdate {
            max_surge,
            max_unavailable,
        } => format!("rolling/{max_surge}/{max_unavailable}"),
    }
}

fn or_max(word: &str) -> Result<i32, String> {
    match word {
        NONE => Ok(i32::MAX),
        _ => number(word),
    }
}

fn max_text(number: i32) -> String {
    match number {
        i32::MAX => NONE.to_owned(),
        _ => number.to_string(),
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            replicas,
            strategy,
            min_ready_seconds,
            history,
            deadline_seconds,
            custom,
            stranger,
            orphan,
        } = *self;
        let (strategy, history) = (strategy_text(strategy), max_text(history));
        let deadline = max_text(deadline_seconds);
        write!(
            f,
            "setup replicas={replicas} strategy={strategy} min-ready={min_ready_seconds} \
             history={history} deadline={deadline}"
        )?;
        for (flag, word) in [
            (custom, "custom"),
            (stranger, "stranger"),
            (orphan, "orphan"),
        ] {
            if flag {
                write!(f, " {word}")?;
            }
        }
        Ok(())
    }
}

impl Setup {
    fn parse(words: &[&str]) -> Result<Self, String> {
        let mut setup = Self::default();
        for word in words {
            match word.split_once('=').unwrap_or((word, "")) {
                ("replicas", text) => setup.replicas = number(text)?,
                ("strategy", text) => setup.strategy = strategy(text)?,
                ("min-ready", text) => setup.min_ready_seconds = number(text)?,
                ("history", text) => setup.history = or_max(text)?,
                ("deadline", text) => setup.deadline_seconds = or_max(text)?,
                ("custom", "") => setup.custom = true,
                ("stranger", "") => setup.stranger = true,
                ("orphan", "") => setup.orphan = true,
                _ => return Err(format!("unknown word {word:?}")),
            }
        }
        Ok(setup)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Watch(kind, count) => write!(f, "watch {} {count}", name(KINDS, kind)),
            Self::Adapter => f.write_str("adapter"),
            Self::Die => f.write_str("die"),
            Self::Sync(set) => write!(f, "sync {set}"),
            Self::Pod(pod) => write!(f, "pod {pod}"),
            Self::Crash(pod) => write!(f, "crash {pod}"),
            Self::Evict(pod) => write!(f, "evict {pod}"),
            Self::DeletePod(pod) => write!(f, "delete-pod {pod}"),
            Self::Collect => f.write_str("collect"),
            Self::Time(seconds) => write!(f, "time {seconds}"),
            Self::Calm => f.write_str("calm"),
            Self::Scale(replicas) => write!(f, "scale {replicas}"),
            Self::Pause => f.write_str("pause"),
            Self::Resume => f.write_str("resume"),
            Self::Template(template) => write!(f, "template {template}"),
            Self::Strategy(strategy) => write!(f, "strategy {}", strategy_text(strategy)),
            Self::MinReady(seconds) => write!(f, "min-ready {seconds}"),
            Self::History(limit) => write!(f, "history {}", max_text(limit)),
            Self::Deadline(seconds) => write!(f, "deadline {}", max_text(seconds)),
            Self::Annotate(value) => write!(f, "annotate {value}"),
            Self::Cap(new_max, old_min) => {
                write!(f, "cap {} {}", cap_text(new_max), cap_text(old_min))
            }
            Self::Undo(revision) => write!(f, "undo {revision}"),
            Self::RollbackTo(revision) => write!(f, "rollback-to {revision}"),
            Self::Delete(how) => write!(f, "delete {}", name(PROPAGATIONS, how)),
            Self::Create => f.write_str("create"),
            Self::Resize(set, size) => write!(f, "resize {set} {size}"),
            Self::Relabel(set) => write!(f, "relabel {set}"),
            Self::Disown(set) => write!(f, "disown {set}"),
            Self::Answer(answer) => write!(f, "answer {}", name(ANSWERS, answer)),
            Self::QuotaPods(None) => write!(f, "quota-pods {NONE}"),
            Self::QuotaPods(Some(pods)) => write!(f, "quota-pods {pods}"),
            Self::QuotaSets(refused) => write!(f, "quota-sets {}", u8::from(refused)),
            Self::Break(template, fault) => write!(f, "break {template} {}", name(FAULTS, fault)),
        }
    }
}

impl FromStr for Event {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        Ok(match words[..] {
            ["watch", kind, count] => Self::Watch(value(KINDS, kind)?, number(count)?),
            ["adapter"] => Self::Adapter,
            ["die"] => Self::Die,
            ["sync", set] => Self::Sync(number(set)?),
            ["pod", pod] => Self::Pod(number(pod)?),
            ["crash", pod] => Self::Crash(number(pod)?),
            ["evict", pod] => Self::Evict(number(pod)?),
            ["delete-pod", pod] => Self::DeletePod(number(pod)?),
            ["collect"] => Self::Collect,
            ["time", seconds] => Self::Time(number(seconds)?),
            ["calm"] => Self::Calm,
            ["scale", replicas] => Self::Scale(number(replicas)?),
            ["pause"] => Self::Pause,
            ["resume"] => Self::Resume,
            ["template", template] => Self::Template(number(template)?),
            ["strategy", word] => Self::Strategy(strategy(word)?),
            ["min-ready", seconds] => Self::MinReady(number(seconds)?),
            ["history", limit] => Self::History(or_max(limit)?),
            ["deadline", seconds] => Self::Deadline(or_max(seconds)?),
            ["annotate", value] => Self::Annotate(number(value)?),
            ["cap", new_max, old_min] => Self::Cap(cap(new_max)?, cap(old_min)?),
            ["undo", revision] => Self::Undo(number(revision)?),
            ["rollback-to", revision] => Self::RollbackTo(number(revision)?),
            ["delete", how] => Self::Delete(value(PROPAGATIONS, how)?),
            ["create"] => Self::Create,
            ["resize", set, size] => Self::Resize(number(set)?, number(size)?),
            ["relabel", set] => Self::Relabel(number(set)?),
            ["disown", set] => Self::Disown(number(set)?),
            ["answer", answer] => Self::Answer(value(ANSWERS, answer)?),
            ["quota-pods", NONE] => Self::QuotaPods(None),
            ["quota-pods", pods] => Self::QuotaPods(Some(number(pods)?)),
            ["quota-sets", refused] => Self::QuotaSets(number::<u8>(refused)? != 0),
            ["break", template, fault] => Self::Break(number(template)?, value(FAULTS, fault)?),
            _ => return Err("unknown event".to_owned()),
        })
    }
}

fn cap_text(cap: Option<u8>) -> String {
    cap.map_or_else(|| NONE.to_owned(), |cap| cap.to_string())
}

fn cap(text: &str) -> Result<Option<u8>, String> {
    match text {
        NONE => Ok(None),
        text => number(text).map(Some),
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.setup)?;
        for event in &self.events {
            writeln!(f, "{event}")?;
        }
        Ok(())
    }
}

impl FromStr for Script {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut script = Self {
            setup: Setup::default(),
            events: Vec::new(),
        };
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let at = |error| format!("line {}: {line}: {error}", index + 1);
            match line.strip_prefix("setup") {
                _ if line.is_empty() => {}
                Some(setup) => {
                    let words: Vec<&str> = setup.split_whitespace().collect();
                    script.setup = Setup::parse(&words).map_err(at)?;
                }
                None => script.events.push(line.parse().map_err(at)?),
            }
        }
        Ok(script)
    }
}
