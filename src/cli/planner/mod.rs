//! The planner, in this process or in a service. Both give the same response.

mod service;

use rollplan_forecast::ForecastError;

use self::service::Service;
use super::error::{Diagnostic, Error};
use super::input::SourceMap;
use super::options::ServerArgs;
use crate::wire::{self, MethodRequest, Rejection};

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
            Self::Local => Ok(wire::answer(request)?),
            Self::Service(service) => service.answer(request),
        }
    }
}

// === impl Refusal ===

impl Refusal {
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

impl From<wire::Error> for Refusal {
    fn from(error: wire::Error) -> Self {
        match error {
            wire::Error::InvalidArgument(wire::Violations { listed, omitted }) => {
                let listed = listed
                    .into_iter()
                    .map(|violation| (violation.field, violation.description));
                Self::Violations(listed.collect(), omitted)
            }
            wire::Error::TooLarge { .. } => Self::Error(Error::input("", error.to_string())),
            wire::Error::Rollback(error)
            | wire::Error::Forecast(ForecastError::Rollback(error)) => {
                Self::rejected(Rejection::of_rollback(&error), error.to_string())
            }
            wire::Error::Forecast(error) => Self::Error(Error::input("", error.to_string())),
            wire::Error::Canary(refusal) => Self::Error(Error::CanaryRefused {
                reason: refusal.cause.as_str().to_owned(),
                text: refusal.to_string(),
            }),
            // The command line encodes its own messages and never interrupts, so these do not occur.
            wire::Error::Interrupted(_)
            | wire::Error::AnswerTooLarge { .. }
            | wire::Error::Undecodable { .. }
            | wire::Error::InvalidJson { .. }
            | wire::Error::Descriptors { .. } => {
                Self::Error(Error::Bug(super::error::chain(&error)))
            }
        }
    }
}
