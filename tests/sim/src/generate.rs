//! Generates scripts from seeds. Each world has its own event weights: in some worlds the watches lag, in others many pods
//! crash, or users make many changes.

use fastrand::Rng;
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::Strategy;

use crate::pods::Fault;
use crate::script::{Answer, Event, Kind, Propagation, Script, Setup, TEMPLATES};

/// The maximum number of events in a world.
const EVENTS_MAX: usize = 90;

/// Generates the script of a seed. A seed gives the same script on every machine.
#[must_use]
pub fn generate(seed: u64) -> Script {
    let mut random = Rng::with_seed(seed);
    let setup = setup(&mut random);
    let weights = Weights::draw(&mut random, setup);
    let mut events = Vec::new();
    if random.u8(..4) > 0 {
        events.push(Event::Calm);
    }
    let count = random.usize(5..EVENTS_MAX);
    while events.len() < count {
        events.push(weights.event(&mut random));
    }
    add_caps(seed, &mut events);
    Script { setup, events }
}

/// Adds changes of the caps to some worlds. They have their own random numbers, so that all other events of a seed stay as
/// they are.
fn add_caps(seed: u64, events: &mut Vec<Event>) {
    let mut random = Rng::with_seed(seed ^ 0xCA95);
    if random.u8(..3) > 0 {
        return;
    }
    for _ in 0..random.u8(1..8) {
        let cap = |random: &mut Rng| random.bool().then(|| random.u8(..6));
        let event = Event::Cap(cap(&mut random), cap(&mut random));
        events.insert(random.usize(..=events.len()), event);
    }
}

fn pick<T: Copy>(random: &mut Rng, items: &[T]) -> T {
    items[random.usize(..items.len())]
}

fn replicas(random: &mut Rng) -> i32 {
    match random.u8(..20) {
        0 => 0,
        1 => random.i32(6..=12),
        _ => random.i32(1..=4),
    }
}

fn strategy(random: &mut Rng) -> Strategy {
    let limit = |random: &mut Rng| match random.u8(..4) {
        0 => IntOrPercent::Percent(pick(random, &[0, 25, 34, 50, 100])),
        _ => IntOrPercent::Int(pick(random, &[0, 0, 1, 1, 2, 3])),
    };
    match random.u8(..4) {
        0 => Strategy::Recreate,
        _ => Strategy::RollingUpdate {
            max_surge: limit(random),
            max_unavailable: limit(random),
        },
    }
}

fn setup(random: &mut Rng) -> Setup {
    Setup {
        replicas: replicas(random),
        strategy: strategy(random),
        min_ready_seconds: pick(random, &[0, 0, 0, 5, 20]),
        history: pick(random, &[10, 10, 2, 1, 0, i32::MAX]),
        deadline_seconds: pick(random, &[600, 600, 30, i32::MAX]),
        custom: random.u8(..8) < 3,
        stranger: random.u8(..4) == 0,
        orphan: random.u8(..6) == 0,
    }
}

/// The relative frequencies of the kinds of events.
struct Weights {
    of: Vec<(Choice, u32)>,
    total: u32,
}

/// A kind of event.
#[derive(Clone, Copy)]
enum Choice {
    Adapter,
    Watch(Kind),
    Sync,
    Pod,
    Time,
    Die,
    Harm,
    Answer,
    Quota,
    Break,
    Scale,
    Template,
    Undo,
    Pause,
    Tune,
    Meddle,
    Delete,
    Calm,
}

impl Weights {
    fn draw(random: &mut Rng, setup: Setup) -> Self {
        let speeds = [2, 10, 30];
        let rare = [0, 0, 1, 3, 8];
        let pods = match setup.strategy {
            Strategy::Recreate => pick(random, &speeds),
            Strategy::RollingUpdate { .. } => 1,
        };
        let of = vec![
            (Choice::Adapter, 40 + pick(random, &speeds)),
            (Choice::Watch(Kind::Deployments), pick(random, &speeds)),
            (Choice::Watch(Kind::Sets), pick(random, &speeds)),
            (Choice::Watch(Kind::Pods), pods),
            (Choice::Sync, 10 + pick(random, &speeds)),
            (Choice::Pod, 10 + pick(random, &speeds)),
            (Choice::Time, pick(random, &[1, 5, 10])),
            (Choice::Die, pick(random, &rare)),
            (Choice::Harm, pick(random, &rare)),
            (Choice::Answer, pick(random, &rare)),
            (Choice::Quota, pick(random, &[0, 0, 0, 1, 3])),
            (Choice::Break, pick(random, &[0, 0, 1, 3])),
            (Choice::Scale, pick(random, &[0, 1, 4])),
            (Choice::Template, pick(random, &[1, 3, 6])),
            (Choice::Undo, pick(random, &[0, 1, 2])),
            (Choice::Pause, pick(random, &[0, 0, 2])),
            (Choice::Tune, pick(random, &[0, 0, 2])),
            (Choice::Meddle, pick(random, &[0, 0, 0, 2])),
            (Choice::Delete, pick(random, &[0, 0, 0, 1])),
            (Choice::Calm, pick(random, &[0, 1, 3])),
        ];
        let total = of.iter().map(|(_, weight)| weight).sum();
        Self { of, total }
    }

    fn event(&self, random: &mut Rng) -> Event {
        let mut left = random.u32(..self.total);
        for (choice, weight) in &self.of {
            if left < *weight {
                return event(*choice, random);
            }
            left -= weight;
        }
        Event::Adapter
    }
}

fn event(choice: Choice, random: &mut Rng) -> Event {
    let one = random.u8(..12);
    match choice {
        Choice::Adapter => Event::Adapter,
        Choice::Watch(kind) => Event::Watch(kind, pick(random, &[1, 1, 2, 5, 20])),
        Choice::Sync => Event::Sync(one),
        Choice::Pod => Event::Pod(one),
        Choice::Time => Event::Time(pick(random, &[1, 1, 3, 10, 40, 700])),
        Choice::Die => Event::Die,
        Choice::Harm => match random.u8(..3) {
            0 => Event::Crash(one),
            1 => Event::Evict(one),
            _ => Event::DeletePod(one),
        },
        Choice::Answer => Event::Answer(pick(
            random,
            &[
                Answer::LostBefore,
                Answer::LostAfter,
                Answer::LostAfter,
                Answer::Forbidden,
                Answer::TooMany,
                Answer::Broken,
            ],
        )),
        Choice::Quota => match random.u8(..4) {
            0 => Event::QuotaSets(true),
            1 => Event::QuotaSets(false),
            2 => Event::QuotaPods(None),
            _ => Event::QuotaPods(Some(random.u8(..6))),
        },
        Choice::Break => Event::Break(
            random.u8(..TEMPLATES),
            pick(
                random,
                &[
                    Fault::None,
                    Fault::Unschedulable,
                    Fault::ImagePull,
                    Fault::Config,
                    Fault::CrashLoop,
                    Fault::NeverReady,
                    Fault::NeverEnds,
                ],
            ),
        ),
        Choice::Scale => Event::Scale(replicas(random)),
        Choice::Template => Event::Template(random.u8(..TEMPLATES)),
        Choice::Undo => match random.u8(..4) {
            0 => Event::RollbackTo(random.u8(..4)),
            _ => Event::Undo(random.u8(..4)),
        },
        Choice::Pause => {
            if random.bool() {
                Event::Pause
            } else {
                Event::Resume
            }
        }
        Choice::Tune => match random.u8(..5) {
            0 => Event::Strategy(strategy(random)),
            1 => Event::MinReady(pick(random, &[0, 5, 20])),
            2 => Event::History(pick(random, &[0, 1, 2, 10])),
            3 => Event::Deadline(pick(random, &[30, 600, i32::MAX])),
            _ => Event::Annotate(random.u8(..4)),
        },
        Choice::Meddle => match random.u8(..4) {
            0 | 1 => Event::Resize(one, random.i32(0..5)),
            2 => Event::Relabel(one),
            _ => Event::Disown(one),
        },
        Choice::Delete => match random.u8(..4) {
            0 => Event::Delete(Propagation::Background),
            1 => Event::Delete(Propagation::Foreground),
            2 => Event::Delete(Propagation::Orphan),
            _ => Event::Create,
        },
        Choice::Calm => Event::Calm,
    }
}
