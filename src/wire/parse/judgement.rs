//! Parses the rules for judging a rollout.

use rollplan_health::explain::Cause;
use rollplan_health::judge::VerdictOptions;
use rollplan_health::judge::class::{Class, Limit, Rules, TABLE};

use super::Parser;
use super::path::Path;
use crate::error::Reason;
use crate::proto;
use crate::proto::failure_rule::Limit as GivenLimit;

impl Parser<'_> {
    pub(crate) fn judgement(
        &mut self,
        previous: Option<proto::Verdict>,
        rules: Vec<proto::FailureRule>,
    ) -> VerdictOptions {
        let previous = previous.and_then(|verdict| {
            let path = Path::Root("previous_verdict");
            let since = self.optional_time(verdict.since, &path.field("since"))?;
            Some((Cause::from_reason(&verdict.reason)?, since))
        });
        let path = Path::Root("fail_on");
        let given = rules.into_iter().enumerate();
        let rules = given.fold(Rules::default(), |rules, (index, rule)| {
            match self.rule(rule, rules, &path.index(index)) {
                Some((class, limit)) => rules.with(class, limit),
                None => rules,
            }
        });
        VerdictOptions { rules, previous }
    }

    fn rule(
        &mut self,
        rule: proto::FailureRule,
        earlier: Rules,
        path: &Path<'_>,
    ) -> Option<(Class, Limit)> {
        let proto::FailureRule { failure, limit } = rule;
        let name_path = path.field("failure");
        let Some(class) = Class::from_name(&failure) else {
            let names: Vec<_> = TABLE.iter().map(|row| row.name).collect();
            let description =
                format_args!("is {failure:?}, and must be one of {}", names.join(", "));
            self.violation(&name_path, Reason::UnknownEnumValue, description);
            return None;
        };
        if earlier.changes(class) {
            let description = format_args!("an earlier rule already has {failure:?}");
            self.violation(&name_path, Reason::Duplicate, description);
        }
        let counts = class.counts_restarts();
        match limit {
            Some(GivenLimit::Grace(grace)) if !counts => {
                if grace.seconds < 0 || grace.nanos < 0 {
                    let description = "may not be negative";
                    self.violation(&path.field("grace"), Reason::Negative, description);
                    return None;
                }
                // Parts of a second are rounded up.
                let seconds = grace.seconds.min(GRACE_SECONDS_MAX);
                Some((class, Limit::Grace(seconds + i64::from(grace.nanos > 0))))
            }
            Some(GivenLimit::Restarts(restarts)) if counts => {
                let restarts = self.count(restarts, &path.field("restarts"));
                Some((class, Limit::Restarts(restarts)))
            }
            _ => {
                let field = if counts { "restarts" } else { "grace" };
                let description = format_args!("is required for {failure:?}");
                self.violation(&path.field(field), Reason::Required, description);
                None
            }
        }
    }
}

/// A hundred years.
const GRACE_SECONDS_MAX: i64 = 100 * 365 * 86_400;
