//! The planner, in this process or in a service. Both give the same response.

mod service;

use rollplan_service::{Code, MethodRequest, Status};
use rollplan_wire::Rejection;
use rollplan_wire::proto::PlanCanaryRequest;

use self::service::Service;
use super::error::{Diagnostic, Error, chain};
use super::input::SourceMap;
use super::options::ServerArgs;

/// Where requests are processed.
#[derive(Debug)]
pub(super) enum Planner {
    /// In this process.
    Local,
    /// In a service.
    Service(Box<Service>),
}

/// Why a request has no response. Fields are those of the request.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The request violates the contract: the fields with a description each, and the number of further violations.
    Violations(Vec<(String, String)>, usize),
    /// Any other error.
    Error(Error),
}

// === impl Planner ===

impl Planner {
    pub(super) fn new(server: ServerArgs) -> Result<Self, Error> {
        Ok(match &server.url {
            None => Self::Local,
            Some(url) => Self::Service(Box::new(Service::new(url, &server)?)),
        })
    }

    /// Answers a request.
    pub(super) fn answer<R: MethodRequest>(&self, request: R) -> Result<R::Response, Refusal> {
        match self {
            Self::Local => rollplan_service::answer(request).map_err(|error| {
                let status = Status::from(&error);
                // The command line encodes its own messages and never interrupts, so other errors do not occur.
                Refusal::of(R::METHOD.name, &status)
                    .unwrap_or_else(|| Refusal::Error(Error::Bug(chain(&error))))
            }),
            Self::Service(service) => service.answer(request),
        }
    }
}

// === impl Refusal ===

impl Refusal {
    /// The refusal of a request that cannot have an answer. `None` if a retry may succeed, or if another program than
    /// rollplan has created the error.
    fn of(method: &str, status: &Status) -> Option<Self> {
        let text = || status.message.clone();
        Some(match status.code {
            Code::InvalidArgument => match status.field_violations() {
                [] => Self::Error(Error::input("", text())),
                fields => {
                    let listed = fields
                        .iter()
                        .map(|it| (it.field.clone(), it.description.clone()));
                    Self::Violations(listed.collect(), omitted(status))
                }
            },
            // Only a server that sheds load sends RetryInfo; one that refuses a size does not.
            Code::ResourceExhausted if !status.has_retry_info() => {
                Self::Error(Error::input("", text()))
            }
            code => {
                let reason = status.reason()?;
                if code == Code::FailedPrecondition && method == PlanCanaryRequest::METHOD.name {
                    let reason = reason.to_owned();
                    return Some(Self::Error(Error::CanaryRefused {
                        reason,
                        text: text(),
                    }));
                }
                Self::rejected(Rejection::from_reason(reason)?, text())
            }
        })
    }

    /// A valid request that the state of the Deployment does not allow. Incomplete input is an error of the caller.
    fn rejected(rejection: Rejection, text: String) -> Self {
        Self::Error(match rejection {
            Rejection::ReplicaSetsIncomplete | Rejection::PodsIncomplete => Error::input("", text),
            Rejection::DeploymentPaused
            | Rejection::NoAvailableRevision
            | Rejection::NoEarlierRevision
            | Rejection::RevisionNotFound => Error::RollbackRefused(text),
        })
    }

    /// Converts it to an error with the places in the input instead of the fields of the request.
    pub(super) fn into_error(self, source_map: &SourceMap) -> Error {
        let (listed, omitted) = match self {
            Self::Error(error) => return error,
            Self::Violations(listed, omitted) => (listed, omitted),
        };
        let mut diagnostics: Vec<Diagnostic> = listed
            .into_iter()
            .map(|(field, text)| source_map.diagnostic(&field, &text))
            .collect();
        if omitted > 0 {
            diagnostics.push(Diagnostic {
                place: String::new(),
                field: String::new(),
                text: format!("and {omitted} more"),
            });
        }
        Error::Input(diagnostics)
    }
}

/// The number of violations that are not listed.
fn omitted(status: &Status) -> usize {
    let omitted = status.info().and_then(|info| info.metadata.get("omitted"));
    omitted.and_then(|it| it.parse().ok()).unwrap_or(0)
}
