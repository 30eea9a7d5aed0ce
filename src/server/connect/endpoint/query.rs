//! The query parameters of a call.

use std::time::SystemTime;

use percent_encoding::percent_decode_str;
use prost_types::Timestamp;
use rollplan_core::kind;
use rollplan_text::{span, time};
use rollplan_wire::proto::{Horizon, RestartOn, RestartOptions, RestartProfile, Target};
use tonic::Status;

use super::{Clock, Endpoint, Format};
use crate::protocol::errors;

/// The apiVersion in the description of an error about a kind that is not known.
const CUSTOM_VERSION: &str = "apps.rollplan.dev/v1alpha1";

/// The parsed query of a call.
#[derive(Debug)]
pub(in crate::connect) struct Query {
    pub(super) endpoint: Endpoint,
    pub(in crate::connect) format: Format,
    pub(in crate::connect) now: Timestamp,
    pub(super) target: Option<Target>,
    pub(super) replica_sets_complete: Option<bool>,
    pub(super) pods_complete: Option<bool>,
    pub(super) horizon: Horizon,
    /// The revision to roll back to; 0 is the previous one.
    pub(super) to_revision: i64,
    /// Whether to roll back to the revision with the most available pods.
    pub(super) to_last_available: bool,
    pub(super) restarts: RestartOptions,
    pub(super) configurations_complete: bool,
    pub(super) continue_after: String,
}

// === impl Query ===

impl Query {
    /// Parses a query. The error contains all problems.
    pub(in crate::connect) fn read(
        endpoint: Endpoint,
        format: Format,
        query: &str,
        clock: &Clock,
    ) -> Result<Self, Status> {
        let mut read = Reading::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            // A plus is not decoded to a space: it occurs in the offset of a time, and no value contains a space.
            let decoded = |text| percent_decode_str(text).decode_utf8_lossy();
            let name = decoded(name);
            if let Err(problem) = read.take(endpoint, &name, &decoded(value)) {
                read.problems.push((name.into_owned(), problem));
            }
        }
        read.check_target();
        let Reading {
            now,
            target,
            replica_sets_complete,
            pods_complete,
            horizon,
            to_revision,
            to_last_available,
            restarts,
            configurations_complete,
            continue_after,
            problems,
            ..
        } = read;
        if !problems.is_empty() {
            return Err(errors::invalid_parameters(&problems));
        }
        Ok(Self {
            endpoint,
            format,
            now: now.unwrap_or_else(|| seconds(clock())),
            target: (target != Target::default()).then_some(target),
            replica_sets_complete,
            pods_complete,
            horizon: horizon.unwrap_or(Horizon::Settled),
            to_revision,
            to_last_available,
            restarts,
            configurations_complete,
            continue_after,
        })
    }
}

/// A query that is being parsed.
#[derive(Debug, Default)]
struct Reading {
    now: Option<Timestamp>,
    target: Target,
    replica_sets_complete: Option<bool>,
    pods_complete: Option<bool>,
    horizon: Option<Horizon>,
    to_revision: i64,
    to_last_available: bool,
    restarts: RestartOptions,
    configurations_complete: bool,
    continue_after: String,
    /// The names of the parameters so far.
    names: Vec<String>,
    /// The names of invalid parameters, with a description each.
    problems: Vec<(String, String)>,
}

// === impl Reading ===

impl Reading {
    /// Checks that the kind of another object has its API version, which the name of the kind does not determine.
    fn check_target(&mut self) {
        let Target {
            api_version, kind, ..
        } = &self.target;
        let is_given = |name: &str| self.names.iter().any(|it| it == name);
        if !kind.is_empty()
            && kind != "Deployment"
            && api_version.is_empty()
            && !is_given("api_version")
        {
            let example = kind::named(kind).map_or(CUSTOM_VERSION, |it| it.api_version);
            let problem = format!("is required with kind, for example api_version={example}");
            self.problems.push(("api_version".to_owned(), problem));
        }
    }

    fn take(&mut self, endpoint: Endpoint, name: &str, value: &str) -> Result<(), String> {
        if self.names.iter().any(|read| read == name) {
            return Err("is given more than once".to_owned());
        }
        let known = endpoint.parameters();
        if !known.contains(&name) {
            return Err(format!("is unknown; the parameters are {}", listed(&known)));
        }
        self.names.push(name.to_owned());
        let text = || match value {
            "" => Err("must not be empty".to_owned()),
            value => Ok(value.to_owned()),
        };
        let Target {
            api_version,
            kind,
            namespace,
            name: object,
            resource,
            status_subresource: _,
        } = &mut self.target;
        match name {
            "deployment" => match value.split_once('/') {
                Some((outer, inner)) if is_part(outer) && is_part(inner) => {
                    if !namespace.is_empty() && namespace != outer {
                        return Err("contradicts namespace".to_owned());
                    }
                    outer.clone_into(namespace);
                    inner.clone_into(object);
                }
                None if is_part(value) => value.clone_into(object),
                _ => return Err("must be [NAMESPACE/]NAME".to_owned()),
            },
            "namespace" => {
                let value = text()?;
                if !namespace.is_empty() && *namespace != value {
                    return Err("contradicts deployment".to_owned());
                }
                *namespace = value;
            }
            "api_version" => *api_version = text()?,
            "kind" => *kind = text()?,
            "resource" => *resource = text()?,
            "replica_sets_complete" => self.replica_sets_complete = Some(boolean(value)?),
            "pods_complete" => self.pods_complete = Some(boolean(value)?),
            "now" => self.now = Some(time::parse(value)?),
            "horizon" => {
                self.horizon = Some(match value {
                    "settled" => Horizon::Settled,
                    "pass" => Horizon::Pass,
                    _ => return Err("must be settled or pass".to_owned()),
                });
            }
            "to_revision" if value == "last-available" => self.to_last_available = true,
            "to_revision" => self.to_revision = count(value)?,
            "profile" => {
                let profile = match value {
                    "rollplan" => RestartProfile::Rollplan,
                    "xing" => RestartProfile::Xing,
                    "reloader" => RestartProfile::Reloader,
                    _ => return Err("must be rollplan, xing or reloader".to_owned()),
                };
                self.restarts.profile = profile.into();
            }
            "restart_on" => {
                let restart_on = match value {
                    "all" => RestartOn::All,
                    "env" => RestartOn::Env,
                    _ => return Err("must be all or env".to_owned()),
                };
                self.restarts.restart_on = restart_on.into();
            }
            "all_workloads" => self.restarts.all_workloads = boolean(value)?,
            "quiet" => {
                let quiet = span::parse(value)?.try_into();
                self.restarts.quiet = Some(quiet.map_err(|_| "is too long".to_owned())?);
            }
            "max_concurrent" => self.restarts.max_concurrent = count(value)?,
            "configurations_complete" => self.configurations_complete = boolean(value)?,
            _ => self.continue_after = text()?,
        }
        Ok(())
    }
}

/// Whether this can be a segment of a path.
fn is_part(text: &str) -> bool {
    !text.is_empty() && !text.contains('/')
}

fn count<N: std::str::FromStr + PartialOrd + Default>(value: &str) -> Result<N, String> {
    let number = value.parse().ok().filter(|number| *number >= N::default());
    number.ok_or_else(|| "must be a whole number that is not negative".to_owned())
}

/// For example "a, b and c".
fn listed(names: &[&str]) -> String {
    match names {
        [names @ .., last] => format!("{} and {last}", names.join(", ")),
        [] => String::new(),
    }
}

fn boolean(value: &str) -> Result<bool, String> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

/// The time in whole seconds, as in Kubernetes.
fn seconds(time: SystemTime) -> Timestamp {
    Timestamp {
        nanos: 0,
        ..Timestamp::from(time)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    fn read(endpoint: Endpoint, query: &str) -> Result<Query, String> {
        let clock: Clock =
            Arc::new(|| SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_217_250_999));
        let query = Query::read(endpoint, Format::Json, query, &clock);
        query.map_err(|status| status.message().to_owned())
    }

    #[test]
    fn queries_are_parsed() {
        let query = read(Endpoint::Status, "").unwrap();
        assert_eq!(query.now.to_string(), "2026-11-20T23:27:30Z");
        assert_eq!(query.target, None);
        let query = read(
            Endpoint::Plan,
            "deployment=shop%2Fweb&&api_version=a/v1&kind=K&resource=ks&pods_complete=true&\
             replica_sets_complete=false&now=2026-11-21T01:27:30+02:00&horizon=pass",
        );
        let query = query.unwrap();
        let target = Target {
            api_version: "a/v1".to_owned(),
            kind: "K".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            resource: "ks".to_owned(),
            status_subresource: None,
        };
        assert_eq!(query.target, Some(target));
        assert_eq!(query.now.to_string(), "2026-11-20T23:27:30Z");
        assert_eq!(query.horizon, Horizon::Pass);
        assert_eq!(query.pods_complete, Some(true));
        assert_eq!(query.replica_sets_complete, Some(false));
    }

    #[test]
    fn endpoints_have_their_own_parameters() {
        let query = read(Endpoint::Undo, "to_revision=3").unwrap();
        assert_eq!((query.to_revision, query.to_last_available), (3, false));
        let query = read(Endpoint::Undo, "to_revision=last-available").unwrap();
        assert_eq!((query.to_revision, query.to_last_available), (0, true));
        let query = read(
            Endpoint::Restarts,
            "profile=reloader&restart_on=env&all_workloads=true&quiet=1m30s&max_concurrent=2&\
             configurations_complete=true&continue_after=a",
        );
        let query = query.unwrap();
        let quiet = prost_types::Duration {
            seconds: 90,
            nanos: 0,
        };
        let expected = RestartOptions {
            profile: RestartProfile::Reloader.into(),
            restart_on: RestartOn::Env.into(),
            all_workloads: true,
            quiet: Some(quiet),
            max_concurrent: 2,
            ..RestartOptions::default()
        };
        assert_eq!(query.restarts, expected);
        assert!(query.configurations_complete);
        assert_eq!(query.continue_after, "a");
        for (endpoint, query, expected) in [
            (
                Endpoint::Undo,
                "to_revision=-1",
                "to_revision: must be a whole",
            ),
            (
                Endpoint::Undo,
                "to_revision=x",
                "to_revision: must be a whole",
            ),
            (
                Endpoint::History,
                "to_revision=1",
                "to_revision: is unknown",
            ),
            (
                Endpoint::Restarts,
                "profile=x",
                "profile: must be rollplan, xing or reloader",
            ),
            (
                Endpoint::Restarts,
                "restart_on=x",
                "restart_on: must be all or env",
            ),
            (Endpoint::Restarts, "quiet=x", "quiet: not a duration"),
            (
                Endpoint::Restarts,
                "max_concurrent=-1",
                "max_concurrent: must be",
            ),
            (
                Endpoint::Restarts,
                "continue_after=",
                "continue_after: must not be empty",
            ),
            (
                Endpoint::Restarts,
                "deployment=web",
                "deployment: is unknown",
            ),
        ] {
            let error = read(endpoint, query).unwrap_err();
            assert!(error.starts_with(expected), "{query}: {error}");
        }
    }

    #[test]
    fn all_invalid_parameters_are_reported() {
        for (query, expected) in [
            ("deploymnet=web", "deploymnet: is unknown"),
            ("horizon=pass", "horizon: is unknown"),
            ("deployment=", "deployment: must be [NAMESPACE/]NAME"),
            ("deployment=a/b/c", "deployment: must be"),
            ("deployment=/web", "deployment: must be"),
            ("deployment=a/web&namespace=b", "namespace: contradicts"),
            ("namespace=b&deployment=a/web", "deployment: contradicts"),
            ("namespace=", "namespace: must not be empty"),
            ("kind", "kind: must not be empty"),
            (
                "kind=StatefulSet",
                "api_version: is required with kind, for example api_version=apps/v1",
            ),
            ("pods_complete", "pods_complete: must be true or false"),
            ("pods_complete=1", "pods_complete: must be true or false"),
            ("now=2026-11-20", "now: not a time in RFC 3339"),
            ("kind=a&kind=a", "kind: is given more than once"),
            ("=", ": is unknown"),
            ("x=1&y=2", "; y: is unknown"),
            ("%ff=1", "is unknown"),
        ] {
            let problem = read(Endpoint::Status, query).unwrap_err();
            assert!(problem.contains(expected), "{query}: {problem}");
        }
        let problem = read(Endpoint::Plan, "horizon=hunter2").unwrap_err();
        assert_eq!(problem, "horizon: must be settled or pass");
    }
}
