//! Generates worlds with canaries from seeds.

use fastrand::Rng;
use rollplan_core::size::IntOrPercent;

use super::{Command, Event, Interference, Judgement, NEW, STABLE, Script, Setup};
use crate::pods::Fault;
use crate::script::{Kind, TEMPLATES};

/// The number of events in a world.
const EVENTS: usize = 300;

/// Generates the script of a seed. A seed gives the same script on every machine.
#[must_use]
pub fn generate(seed: u64) -> Script {
    let mut random = Rng::with_seed(seed);
    let setup = setup(&mut random);
    let chaos = Chaos {
        crashes: random.u8(..3) == 0,
        scaling: random.u8(..3) == 0,
        others: random.u8(..2) == 0,
    };
    let events = (0..EVENTS).map(|_| event(&mut random, chaos)).collect();
    Script { setup, events }
}

/// What happens besides the canary.
#[derive(Clone, Copy)]
struct Chaos {
    crashes: bool,
    scaling: bool,
    others: bool,
}

fn setup(random: &mut Rng) -> Setup {
    let replicas = random.i32(1..=12);
    let limit = |random: &mut Rng, low: i32| {
        if random.bool() {
            IntOrPercent::Int(low + random.i32(0..4))
        } else {
            let percent = low + random.i32(0..50);
            match random.u8(..4) {
                0 => IntOrPercent::PaddedPercent(percent, 1),
                _ => IntOrPercent::Percent(percent),
            }
        }
    };
    let (surge, unavailable) = (limit(random, 1), limit(random, 0));
    let allows_all = random.u8(..8) == 0;
    let most = if allows_all {
        replicas
    } else {
        surge.rounded_up(replicas).min(replicas)
    };
    let pods = random.i32(1..=most);
    let mut left = most - pods;
    let raises = [(); 4].map(|()| {
        let raise = random.i32(0..=left.min(3));
        left -= raise;
        raise
    });
    Setup {
        replicas,
        surge,
        unavailable,
        min_ready: pick(random, &[0, 0, 3]),
        pods,
        raises,
        is_percent: random.bool(),
        allows_all,
        bake: random.i32(0..5),
        has_gate: random.bool(),
        promotes: random.bool(),
        aborts_on_timeout: random.bool(),
        rolls_back: random.bool(),
        fault: pick(
            random,
            &[
                Fault::None,
                Fault::None,
                Fault::None,
                Fault::NeverReady,
                Fault::CrashLoop,
                Fault::ImagePull,
            ],
        ),
    }
}

fn pick<T: Copy>(random: &mut Rng, items: &[T]) -> T {
    items[random.usize(..items.len())]
}

fn event(random: &mut Rng, chaos: Chaos) -> Event {
    let one = random.u8(..12);
    match random.u8(..32) {
        0..=1 => Event::Time(pick(random, &[1, 1, 1, 5, 30])),
        2..=3 => Event::Watch(Kind::Deployments, pick(random, &[1, 1, 5])),
        4..=6 => Event::Watch(Kind::Sets, pick(random, &[1, 1, 2, 20])),
        7..=10 => Event::Native,
        11..=14 => Event::Sync(one),
        15..=21 => Event::Pod(one),
        22..=24 => Event::Plan(match random.u8(..30) {
            0 => Command::Promote,
            1 => Command::Abort,
            2 => Command::Retry,
            _ => Command::Go,
        }),
        25..=26 => Event::Patch(one),
        27 => match random.u8(..3) {
            0 => Event::PatchUnanswered(one),
            1 => Event::Die(one),
            _ => Event::Patch(one),
        },
        28 => Event::Judge(pick(
            random,
            &[
                Judgement::Pass,
                Judgement::Pass,
                Judgement::Pass,
                Judgement::Other,
                Judgement::Later,
                Judgement::Fail,
            ],
        )),
        29 if chaos.crashes && random.bool() => {
            if random.bool() {
                Event::Crash(one)
            } else {
                Event::DeletePod(one)
            }
        }
        30 if chaos.scaling && random.u8(..4) == 0 => Event::Scale(random.u8(1..=12)),
        31 if chaos.others && random.u8(..4) == 0 => Event::Interfere(interference(random)),
        _ => Event::Native,
    }
}

fn interference(random: &mut Rng) -> Interference {
    match random.u8(..10) {
        0 => Interference::Apply(pick(random, &[STABLE, NEW, 2])),
        1 => Interference::SetTemplate(random.u8(1..TEMPLATES)),
        2 => Interference::Undo,
        3 => Interference::PutBack,
        4 => Interference::Limits(random.u8(1..4), random.u8(1..4)),
        5 => Interference::DropState,
        6 => Interference::Pause,
        7 => Interference::Resume,
        8 => Interference::Zero,
        _ => Interference::DeleteStable,
    }
}
