//! The two calls for people with kubectl and curl: `/v1/status` and `/v1/plan`. The body is what kubectl printed, whatever
//! its content type, and everything else is in the query. The answer is JSON, or the text that the command line prints.
//!
//! Each is a method of the planner in other clothes: the request is written where work is estimated, and the answer is laid
//! out where it was computed, as with JSON.

use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderMap, Uri};
use percent_encoding::percent_decode_str;
use prost::Message as _;
use prost_types::Timestamp;
use rollplan_core::interrupt::Interrupt;
use tonic::Status;

use super::weighted;
use crate::proto::{
    ComputeStatusRequest, ComputeStatusResponse, Horizon, PlanOptions, PlanRolloutRequest,
    PlanRolloutResponse, Snapshot, Target,
};
use crate::server::call::errors::{self, to_status};
use crate::text::{self, Page, time};
use crate::wire::{self, summarize_objects};

/// Tells the time where a request does not.
pub(crate) type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Which of the two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Status,
    Plan,
}

/// How a person wants an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Text,
}

/// What the query of a call asks for.
#[derive(Debug)]
pub(super) struct Query {
    endpoint: Endpoint,
    pub(super) format: Format,
    pub(super) now: Timestamp,
    target: Option<Target>,
    replica_sets_complete: Option<bool>,
    pods_complete: Option<bool>,
    horizon: Horizon,
    /// The Deployment that the body turned out to be about, for example "Deployment shop/web".
    subject: OnceLock<String>,
}

// === impl Endpoint ===

impl Endpoint {
    pub(super) fn of(path: &str) -> Option<Self> {
        match path {
            "/v1/status" => Some(Self::Status),
            "/v1/plan" => Some(Self::Plan),
            _ => None,
        }
    }

    /// The path of the method that answers.
    pub(super) fn method(self) -> Uri {
        Uri::from_static(match self {
            Self::Status => "/rollplan.v1.RolloutPlanner/ComputeStatus",
            Self::Plan => "/rollplan.v1.RolloutPlanner/PlanRollout",
        })
    }

    fn parameters(self) -> &'static str {
        match self {
            Self::Status => {
                "deployment, namespace, api_version, kind, resource, replica_sets_complete, pods_complete and now"
            }
            Self::Plan => {
                "deployment, namespace, api_version, kind, resource, replica_sets_complete, pods_complete, now and \
                 horizon"
            }
        }
    }
}

// === impl Format ===

impl Format {
    /// What a client accepts most, and of two with the same weight the first. JSON if neither is asked for.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let values = headers.get_all(ACCEPT).into_iter();
        let values = values.filter_map(|value| value.to_str().ok());
        let mut best = (Self::Json, 0.0);
        for range in values.flat_map(|value| value.split(',')) {
            let (media_type, weight) = weighted(range);
            let format = match &*media_type.to_ascii_lowercase() {
                "text/plain" | "text/*" => Self::Text,
                "application/json" | "application/*" | "*/*" => Self::Json,
                _ => continue,
            };
            if weight > best.1 {
                best = (format, weight);
            }
        }
        best.0
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Text => "text/plain; charset=utf-8",
        }
    }
}

// === impl Query ===

impl Query {
    /// Reads a query, or tells everything that is wrong with it.
    pub(super) fn read(
        endpoint: Endpoint,
        format: Format,
        query: &str,
        clock: &Clock,
    ) -> Result<Self, Status> {
        let mut read = Reading::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            // A plus is a plus: it is in the offset of a time, and no value has a space.
            let decoded = |text| percent_decode_str(text).decode_utf8_lossy();
            let name = decoded(name);
            if let Err(problem) = read.take(endpoint, &name, &decoded(value)) {
                read.problems.push((name.into_owned(), problem));
            }
        }
        let Reading {
            now,
            target,
            replica_sets_complete,
            pods_complete,
            horizon,
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
            subject: OnceLock::new(),
        })
    }

    /// The request of the method, with the body in it.
    pub(super) fn request(
        &self,
        body: &[u8],
        interrupt: &dyn Interrupt,
    ) -> Result<Vec<u8>, Status> {
        let mut snapshot = Snapshot {
            now: Some(self.now),
            objects_json: vec![Bytes::copy_from_slice(body)],
            target: self.target.clone(),
            ..Snapshot::default()
        };
        let summary = summarize_objects(&snapshot, interrupt);
        let summary = summary.map_err(|error| to_status(&by_parameter(error)))?;
        snapshot.replica_sets_complete = self
            .replica_sets_complete
            .unwrap_or(summary.replica_sets_complete);
        snapshot.pods_complete = self.pods_complete.unwrap_or(summary.pods_complete);
        // Set once: a call is decoded once.
        _ = self.subject.set(summary.subject());
        snapshot.target = Some(summary.target);
        let snapshot = Some(snapshot);
        Ok(match self.endpoint {
            Endpoint::Status => ComputeStatusRequest {
                snapshot,
                ..ComputeStatusRequest::default()
            }
            .encode_to_vec(),
            Endpoint::Plan => PlanRolloutRequest {
                snapshot,
                options: Some(PlanOptions {
                    horizon: self.horizon.into(),
                    report: true,
                    ..PlanOptions::default()
                }),
            }
            .encode_to_vec(),
        })
    }

    /// The answer as the command line prints it, and the time that it is about. `None` if the bytes are not an answer.
    pub(super) fn text(&self, message: Bytes) -> Option<String> {
        let subject = self.subject.get().map_or("", String::as_str);
        let mut page = Page::new(false);
        match self.endpoint {
            Endpoint::Status => {
                let response = ComputeStatusResponse::decode(message).ok()?;
                text::status(&mut page, subject, &response);
            }
            Endpoint::Plan => {
                let response = PlanRolloutResponse::decode(message).ok()?;
                text::plan(&mut page, subject, &response);
            }
        }
        Some(format!("{}\nAs of {}.\n", page.into_text(), self.now))
    }
}

/// A query, as far as it has been read.
#[derive(Debug, Default)]
struct Reading {
    now: Option<Timestamp>,
    target: Target,
    replica_sets_complete: Option<bool>,
    pods_complete: Option<bool>,
    horizon: Option<Horizon>,
    /// Names that have been read.
    names: Vec<String>,
    /// Names, and what is wrong with them.
    problems: Vec<(String, String)>,
}

// === impl Reading ===

impl Reading {
    fn take(&mut self, endpoint: Endpoint, name: &str, value: &str) -> Result<(), String> {
        if self.names.iter().any(|read| read == name) {
            return Err("is given more than once".to_owned());
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
            "horizon" if endpoint == Endpoint::Plan => {
                self.horizon = Some(match value {
                    "settled" => Horizon::Settled,
                    "pass" => Horizon::Pass,
                    _ => return Err("must be settled or pass".to_owned()),
                });
            }
            _ => {
                let known = endpoint.parameters();
                return Err(format!("is unknown; the parameters are {known}"));
            }
        }
        Ok(())
    }
}

/// Whether this can be a part of a path.
fn is_part(text: &str) -> bool {
    !text.is_empty() && !text.contains('/')
}

fn boolean(value: &str) -> Result<bool, String> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

/// Whole seconds, as Kubernetes has times.
fn seconds(time: SystemTime) -> Timestamp {
    Timestamp {
        nanos: 0,
        ..Timestamp::from(time)
    }
}

/// The same error, in which the target has the name that the query has for it.
fn by_parameter(error: wire::Error) -> wire::Error {
    let wire::Error::InvalidArgument(mut violations) = error else {
        return error;
    };
    for violation in &mut violations.listed {
        violation.field = match &*violation.field {
            "snapshot.target" => "deployment".to_owned(),
            "snapshot.target.resource" => "resource".to_owned(),
            _ => continue,
        };
    }
    wire::Error::InvalidArgument(violations)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderValue;

    use super::*;

    fn read(endpoint: Endpoint, query: &str) -> Result<Query, String> {
        let clock: Clock =
            Arc::new(|| SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_217_250_999));
        let query = Query::read(endpoint, Format::Json, query, &clock);
        query.map_err(|status| status.message().to_owned())
    }

    #[test]
    fn text_is_for_who_prefers_it() {
        for (accept, expected) in [
            ("", Format::Json),
            ("*/*", Format::Json),
            ("text/plain", Format::Text),
            ("Text/Plain; charset=utf-8", Format::Text),
            ("text/*", Format::Text),
            ("text/plain, */*", Format::Text),
            ("application/json, text/plain", Format::Json),
            ("application/json;q=0.5, text/plain;q=0.9", Format::Text),
            ("text/plain;q=0.1, application/json", Format::Json),
            ("text/plain;q=0", Format::Json),
            ("text/html", Format::Json),
        ] {
            let accept = HeaderValue::from_static(accept);
            let headers = HeaderMap::from_iter([(ACCEPT, accept.clone())]);
            assert_eq!(Format::of(&headers), expected, "{accept:?}");
        }
        assert_eq!(Format::of(&HeaderMap::new()), Format::Json);
    }

    #[test]
    fn queries_are_read() {
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
        };
        assert_eq!(query.target, Some(target));
        assert_eq!(query.now.to_string(), "2026-11-20T23:27:30Z");
        assert_eq!(query.horizon, Horizon::Pass);
        assert_eq!(query.pods_complete, Some(true));
        assert_eq!(query.replica_sets_complete, Some(false));
    }

    #[test]
    fn whatever_is_wrong_is_named() {
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
