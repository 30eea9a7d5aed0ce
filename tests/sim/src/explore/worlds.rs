//! The small worlds to explore.

use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::Strategy;

use super::Small;
use crate::flaw::Flaw;
use crate::script::{Event, Propagation, Setup};

const ACTS: &[Event] = &[
    Event::Scale(1),
    Event::Scale(3),
    Event::Template(2),
    Event::Undo(0),
    Event::Pause,
    Event::Delete(Propagation::Background),
];

const fn rolling(surge: i32, unavailable: i32) -> Strategy {
    Strategy::RollingUpdate {
        max_surge: IntOrPercent::Int(surge),
        max_unavailable: IntOrPercent::Int(unavailable),
    }
}

fn world(
    replicas: i32,
    strategy: Strategy,
    acts: &'static [Event],
    deaths: u8,
    crashes: u8,
) -> Small {
    Small {
        setup: Setup {
            replicas,
            strategy,
            ..Setup::default()
        },
        flaw: Flaw::None,
        acts,
        deaths,
        crashes,
        converge_stride: 16,
    }
}

/// The same world with a custom resource in the place of the Deployment.
fn custom(mut small: Small) -> Small {
    small.setup.custom = true;
    small
}

/// Worlds that can be explored within a minute, by name.
#[must_use]
pub fn small_worlds() -> Vec<(&'static str, Small)> {
    vec![
        (
            "1 pod, surge 1, 1 death",
            world(1, rolling(1, 0), &[], 1, 0),
        ),
        ("1 pod, Recreate", world(1, Strategy::Recreate, &[], 0, 0)),
        (
            "1 pod, surge 1, 1 death, custom",
            custom(world(1, rolling(1, 0), &[], 1, 0)),
        ),
    ]
}

/// Additional larger worlds, which take minutes to hours.
#[must_use]
pub fn large_worlds() -> Vec<(&'static str, Small)> {
    let mut worlds = small_worlds();
    worlds.extend([
        (
            "1 pod, unavailable 1, scaled to 2",
            world(1, rolling(0, 1), &[Event::Scale(2)], 0, 0),
        ),
        (
            "1 pod, Recreate, 1 death",
            world(1, Strategy::Recreate, &[], 1, 0),
        ),
        ("2 pods, surge 1", world(2, rolling(1, 0), &[], 0, 0)),
        ("1 pod, surge 1, 1 act", world(1, rolling(1, 0), ACTS, 0, 0)),
        (
            "2 pods, unavailable 1, 1 death",
            world(2, rolling(0, 1), &[], 1, 0),
        ),
        (
            "1 pod, surge 1, 1 act, 1 death, 1 crash",
            world(1, rolling(1, 0), ACTS, 1, 1),
        ),
        (
            "1 pod, Recreate, 1 act, 1 death",
            world(1, Strategy::Recreate, ACTS, 1, 0),
        ),
        (
            "2 pods, surge 1, 1 death, 1 crash",
            world(2, rolling(1, 0), &[], 1, 1),
        ),
        (
            "2 pods, surge 1, unavailable 1, 1 act",
            world(2, rolling(1, 1), ACTS, 0, 0),
        ),
        (
            "3 pods, surge 1, unavailable 1, 1 death",
            world(3, rolling(1, 1), &[], 1, 0),
        ),
    ]);
    worlds
}
