//! The calls for people with curl: `/v1/status`, `/v1/plan`, `/v1/history`, `/v1/undo` and `/v1/restarts`. The body is
//! kubectl's output, regardless of its content type, and the query contains all parameters. The answer is JSON, or the text
//! that the command line prints.
//!
//! Each of them is translated to a method of the planner: the request is created where work is estimated, and the
//! answer is formatted where it was computed, as for JSON. Parameters that the query omits are inferred from the
//! objects while planning.

mod query;

use std::sync::Arc;
use std::time::SystemTime;

pub(super) use self::query::Query;
use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderMap, Uri};
use prost::Message as _;
use rollplan_service::MethodRequest as _;
use rollplan_text::{self as text, Page};
use rollplan_wire::proto::{
    ComputeStatusRequest, ComputeStatusResponse, ListRevisionsRequest, ListRevisionsResponse,
    PlanOptions, PlanRestartsRequest, PlanRestartsResponse, PlanRolloutRequest,
    PlanRolloutResponse, RollbackRequest, RollbackResponse, Snapshot,
};
use rollplan_wire::{self as wire, Shown};

use super::headers::weighted;
use crate::protocol::context::Inferred;

/// The clock for requests that do not contain the time.
pub(crate) type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// The calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Status,
    Plan,
    History,
    Undo,
    Restarts,
}

/// The format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Text,
}

/// The parameters of all calls about one rollout.
const ROLLOUT_PARAMETERS: [&str; 8] = [
    "deployment",
    "namespace",
    "api_version",
    "kind",
    "resource",
    "replica_sets_complete",
    "pods_complete",
    "now",
];

const RESTART_PARAMETERS: [&str; 8] = [
    "profile",
    "restart_on",
    "all_workloads",
    "quiet",
    "max_concurrent",
    "configurations_complete",
    "continue_after",
    "now",
];

// === impl Endpoint ===

impl Endpoint {
    pub(super) fn of(path: &str) -> Option<Self> {
        match path {
            "/v1/status" => Some(Self::Status),
            "/v1/plan" => Some(Self::Plan),
            "/v1/history" => Some(Self::History),
            "/v1/undo" => Some(Self::Undo),
            "/v1/restarts" => Some(Self::Restarts),
            _ => None,
        }
    }

    /// The path of the corresponding method.
    pub(super) fn method(self) -> Uri {
        Uri::from_static(match self {
            Self::Status => ComputeStatusRequest::METHOD.path,
            Self::Plan => PlanRolloutRequest::METHOD.path,
            Self::History => ListRevisionsRequest::METHOD.path,
            Self::Undo => RollbackRequest::METHOD.path,
            Self::Restarts => PlanRestartsRequest::METHOD.path,
        })
    }

    /// The names of the parameters, in the order of the documentation.
    fn parameters(self) -> Vec<&'static str> {
        let (shared, own): (&[_], &[_]) = match self {
            Self::Status | Self::History => (&ROLLOUT_PARAMETERS, &[]),
            Self::Plan => (&ROLLOUT_PARAMETERS, &["horizon"]),
            Self::Undo => (&ROLLOUT_PARAMETERS, &["to_revision"]),
            Self::Restarts => (&[], &RESTART_PARAMETERS),
        };
        [shared, own].concat()
    }
}

// === impl Format ===

impl Format {
    /// The format with the highest weight in the Accept header; the first one of equal weight. The default is JSON.
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
    /// The request of the method, with this body.
    pub(super) fn request(&self, body: &[u8]) -> Result<Vec<u8>, wire::Error> {
        let objects = wire::objects_of_body(body).map_err(|error| self.with_field(error))?;
        if self.endpoint == Endpoint::Restarts {
            return Ok(PlanRestartsRequest {
                now: Some(self.now),
                objects,
                configurations_complete: self.configurations_complete,
                options: Some(self.restarts.clone()),
                continue_after: self.continue_after.clone(),
                ..PlanRestartsRequest::default()
            }
            .encode_to_vec());
        }
        let snapshot = Some(Snapshot {
            now: Some(self.now),
            objects,
            target: self.target.clone(),
            ..Snapshot::default()
        });
        Ok(match self.endpoint {
            Endpoint::History => ListRevisionsRequest { snapshot }.encode_to_vec(),
            Endpoint::Undo => RollbackRequest {
                snapshot,
                to_revision: self.to_revision,
                to_last_available: self.to_last_available,
                ..RollbackRequest::default()
            }
            .encode_to_vec(),
            Endpoint::Status => ComputeStatusRequest {
                snapshot,
                ..ComputeStatusRequest::default()
            }
            .encode_to_vec(),
            Endpoint::Plan | Endpoint::Restarts => PlanRolloutRequest {
                snapshot,
                options: Some(PlanOptions {
                    horizon: self.horizon.into(),
                    report: true,
                    ..PlanOptions::default()
                }),
                sync: None,
            }
            .encode_to_vec(),
        })
    }

    /// An error about the body, with the field of the method.
    fn with_field(&self, error: wire::Error) -> wire::Error {
        let wire::Error::InvalidArgument(mut violations) = error else {
            return error;
        };
        for violation in &mut violations.listed {
            if self.endpoint == Endpoint::Restarts {
                violation.field = violation.field.replacen("snapshot.", "", 1);
            }
        }
        wire::Error::InvalidArgument(violations)
    }

    /// Parameters that the query omits are inferred from the objects, while these are read.
    pub(super) fn inferred(&self) -> Inferred {
        Inferred {
            shown: Shown {
                replica_sets_complete: self.replica_sets_complete,
                pods_complete: self.pods_complete,
                summary: None,
            },
            explain: |error| of_manifest(by_parameter(error)),
        }
    }

    /// The answer about a subject as the command line prints it, with the time that it refers to. `None` if the bytes
    /// are not an answer.
    pub(super) fn text(&self, message: Bytes, subject: &str) -> Option<String> {
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
            Endpoint::History => {
                let response = ListRevisionsResponse::decode(message).ok()?;
                text::history(&mut page, subject, Some(&self.now), &response);
            }
            Endpoint::Undo => {
                let response = RollbackResponse::decode(message).ok()?;
                text::undo(&mut page, subject, &response);
            }
            Endpoint::Restarts => {
                let response = PlanRestartsResponse::decode(message).ok()?;
                text::restarts(&mut page, &response, &[]);
                text::violations(&mut page, &response);
            }
        }
        Some(format!("{}\nAs of {}.\n", page.into_text(), self.now))
    }
}

/// Replaces the field of the target in an error by the query parameter.
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

/// Names a manifest, which lacks what only the API server sets, instead of all fields that it lacks.
fn of_manifest(error: wire::Error) -> wire::Error {
    let wire::Error::InvalidArgument(mut violations) = error else {
        return error;
    };
    let is_missing = |field: String| {
        let mut listed = violations.listed.iter();
        listed.any(|it| it.reason == wire::Reason::Required && it.field == field)
    };
    let objects = violations.listed.iter();
    let mut objects = objects.filter_map(|it| it.field.strip_suffix(".metadata.uid"));
    let manifest = objects.find(|object| {
        let fields = ["uid", "resourceVersion"];
        fields
            .iter()
            .all(|it| is_missing(format!("{object}.metadata.{it}")))
    });
    if let Some(object) = manifest.map(str::to_owned) {
        violations = wire::Violations::default();
        violations.listed.push(wire::Violation {
            field: object,
            reason: wire::Reason::Required,
            description: "is a manifest: send the live object, as kubectl get -o json prints it"
                .to_owned(),
        });
    }
    wire::Error::InvalidArgument(violations)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn text_is_returned_on_request() {
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
}
