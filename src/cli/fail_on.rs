//! Rules of the option `--fail-on`.

use std::time::Duration;

use rollplan_health::judge::class::{Class, TABLE};

use rollplan_text::span;
use rollplan_wire::proto::FailureRule;
use rollplan_wire::proto::failure_rule::Limit;

/// Parses one rule, for example "image-pull=30s" or "crash-loop=3".
pub(super) fn parse(text: &str) -> Result<FailureRule, String> {
    let (name, limit) = text.split_once('=').unwrap_or((text, ""));
    let class = Class::from_name(name).ok_or_else(|| {
        let names: Vec<_> = TABLE.iter().map(|row| row.name).collect();
        format!(
            "unknown class of failures; must be one of {}",
            names.join(", ")
        )
    })?;
    let limit = if class.counts_restarts() {
        let restarts = limit.parse().ok().filter(|restarts| *restarts >= 0);
        Limit::Restarts(
            restarts.ok_or_else(|| format!("not a number of restarts, for example {name}=3"))?,
        )
    } else {
        let grace: Duration =
            span::parse(limit).map_err(|_| format!("not a duration, for example {name}=30s"))?;
        Limit::Grace(prost_types::Duration {
            seconds: i64::try_from(grace.as_secs()).unwrap_or(i64::MAX),
            // Below a billion, so it fits.
            nanos: grace.subsec_nanos().cast_signed(),
        })
    };
    Ok(FailureRule {
        failure: name.to_owned(),
        limit: Some(limit),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_parsed() {
        let grace = |seconds| Limit::Grace(prost_types::Duration { seconds, nanos: 0 });
        for (text, limit) in [
            ("image-pull=30s", grace(30)),
            ("unschedulable=2m", grace(120)),
            ("not-ready=90", grace(90)),
            ("crash-loop=3", Limit::Restarts(3)),
            ("start-error=0", Limit::Restarts(0)),
        ] {
            assert_eq!(parse(text).unwrap().limit, Some(limit), "{text}");
        }
        for wrong in [
            "",
            "x=3",
            "crash-loop",
            "crash-loop=3s",
            "crash-loop=-1",
            "image-pull=",
            "image-pull=-5s",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
