//! The strategy of the Deployment.

use prost_types::Value;
use prost_types::value::Kind;
use rollplan::wire::Reason;

use super::{Case, Parts as _, text};

const SURGE: &str = "snapshot.deployment.spec.strategy.rolling_update.max_surge";

pub(super) const CASES: &[Case] = &[
    (
        |r| r.spec().strategy.as_mut().unwrap().r#type = "Canary".to_owned(),
        "snapshot.deployment.spec.strategy.type",
        Reason::UnknownStrategy,
    ),
    (
        |r| r.spec().strategy.as_mut().unwrap().r#type = "Recreate".to_owned(),
        "snapshot.deployment.spec.strategy.rolling_update",
        Reason::StrategyConflict,
    ),
    (
        |r| r.rolling().max_surge = number(-1.0),
        SURGE,
        Reason::Negative,
    ),
    (
        |r| r.rolling().max_surge = number(1.5),
        SURGE,
        Reason::NotIntOrPercent,
    ),
    (
        |r| r.rolling().max_surge = number(f64::NAN),
        SURGE,
        Reason::NotIntOrPercent,
    ),
    (
        |r| r.rolling().max_surge = number(f64::INFINITY),
        SURGE,
        Reason::NotIntOrPercent,
    ),
    (
        |r| r.rolling().max_surge = number(2_147_483_648.0),
        SURGE,
        Reason::OutOfRange,
    ),
    (
        |r| r.rolling().max_surge = text("2147483648%"),
        SURGE,
        Reason::OutOfRange,
    ),
    (
        |r| r.rolling().max_surge = text("25"),
        SURGE,
        Reason::NotIntOrPercent,
    ),
    (
        |r| r.rolling().max_surge = text("-5%"),
        SURGE,
        Reason::NotIntOrPercent,
    ),
    (
        |r| r.rolling().max_surge = text("+5%"),
        SURGE,
        Reason::NotIntOrPercent,
    ),
    (
        |r| r.rolling().max_surge = text("5%%"),
        SURGE,
        Reason::NotIntOrPercent,
    ),
    (
        |r| r.rolling().max_surge = text("%"),
        SURGE,
        Reason::NotIntOrPercent,
    ),
    (
        |r| r.rolling().max_surge = text("½%"),
        SURGE,
        Reason::NotIntOrPercent,
    ),
    (
        |r| r.rolling().max_surge = Some(Kind::BoolValue(true).into()),
        SURGE,
        Reason::NotIntOrPercent,
    ),
    (
        |r| r.rolling().max_unavailable = text(""),
        "snapshot.deployment.spec.strategy.rolling_update.max_unavailable",
        Reason::NotIntOrPercent,
    ),
];

fn number(number: f64) -> Option<Value> {
    Some(Value {
        kind: Some(Kind::NumberValue(number)),
    })
}
