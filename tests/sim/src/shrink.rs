//! Shortens the script of a failure: removes everything that is not needed for the same check to fail.

use crate::flaw::Flaw;
use crate::run::run;
use crate::script::{Event, Script, Setup};

/// The shortest script that was found to fail the same check.
#[must_use]
pub fn shrink(script: &Script, flaw: Flaw) -> Script {
    let Some(violation) = run(script, flaw).violation else {
        return script.clone();
    };
    let fails = |script: &Script| {
        let found = run(script, flaw).violation;
        found.is_some_and(|found| found.check == violation.check)
    };
    let mut best = script.clone();
    loop {
        let before = best.clone();
        drop_events(&mut best.events, |events| {
            let events = events.to_vec();
            fails(&Script {
                events,
                ..before.clone()
            })
        });
        simplify_events(&mut best, &fails);
        simplify_setup(&mut best, &fails);
        if best == before {
            return best;
        }
    }
}

/// Delta debugging: removes smaller and smaller groups of events.
pub(crate) fn drop_events<E: Clone>(best: &mut Vec<E>, fails: impl Fn(&[E]) -> bool) {
    let mut size = best.len();
    while size > 0 {
        let mut begin = 0;
        while begin < best.len() {
            let end = best.len().min(begin + size);
            let mut shorter = best.clone();
            shorter.drain(begin..end);
            if fails(&shorter) {
                *best = shorter;
            } else {
                begin += size;
            }
        }
        size /= 2;
    }
}

/// Replaces numbers in events with smaller ones.
fn simplify_events(best: &mut Script, fails: &impl Fn(&Script) -> bool) {
    for index in 0..best.events.len() {
        for simpler in simpler_events(best.events[index]) {
            let mut script = best.clone();
            script.events[index] = simpler;
            if fails(&script) {
                *best = script;
                break;
            }
        }
    }
}

fn simpler_events(event: Event) -> Vec<Event> {
    let below = |number: u8| 0..number;
    match event {
        Event::Watch(kind, count) => (1..count).map(|count| Event::Watch(kind, count)).collect(),
        Event::Sync(choice) => below(choice).map(Event::Sync).collect(),
        Event::Pod(choice) => below(choice).map(Event::Pod).collect(),
        Event::Crash(choice) => below(choice).map(Event::Crash).collect(),
        Event::Evict(choice) => below(choice).map(Event::Evict).collect(),
        Event::DeletePod(choice) => below(choice).map(Event::DeletePod).collect(),
        Event::Relabel(choice) => below(choice).map(Event::Relabel).collect(),
        Event::Disown(choice) => below(choice).map(Event::Disown).collect(),
        Event::Resize(choice, size) => below(choice)
            .map(|choice| Event::Resize(choice, size))
            .collect(),
        Event::Template(number) => below(number).map(Event::Template).collect(),
        Event::Scale(replicas) => (0..replicas).map(Event::Scale).collect(),
        Event::Undo(revision) => below(revision).map(Event::Undo).collect(),
        Event::Time(seconds) => [1, 10]
            .into_iter()
            .filter(|less| *less < seconds)
            .map(Event::Time)
            .collect(),
        _ => Vec::new(),
    }
}

fn simplify_setup(best: &mut Script, fails: &impl Fn(&Script) -> bool) {
    let plain = Setup::default();
    let changes: [fn(&mut Setup, Setup); 7] = [
        |setup, plain| setup.custom = plain.custom,
        |setup, plain| setup.stranger = plain.stranger,
        |setup, plain| setup.orphan = plain.orphan,
        |setup, plain| setup.history = plain.history,
        |setup, plain| setup.deadline_seconds = plain.deadline_seconds,
        |setup, plain| setup.min_ready_seconds = plain.min_ready_seconds,
        |setup, plain| setup.strategy = plain.strategy,
    ];
    for change in changes {
        let mut script = best.clone();
        change(&mut script.setup, plain);
        if fails(&script) {
            *best = script;
        }
    }
    while best.setup.replicas > 0 {
        let mut script = best.clone();
        script.setup.replicas -= 1;
        if !fails(&script) {
            break;
        }
        *best = script;
    }
}
