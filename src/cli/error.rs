//! Why a run gives no answer.

use std::error::Error as StdError;
use std::fmt;

use super::exit::Exit;
use super::kubectl::{Cause, Failure};
use crate::server;

/// Why a run gives no answer. Each says which exit code it ends in.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The command line asks for something that does not go.
    #[error("{0}")]
    Usage(String),
    /// The input is wrong: everything that is wrong with it.
    #[error("{}", lines(.0))]
    Input(Vec<Complaint>),
    /// The Deployment that is asked for does not exist.
    #[error("{0}")]
    Absent(String),
    /// The Deployment was deleted while it was watched.
    #[error("the Deployment was deleted while waiting: {0}")]
    Gone(String),
    /// There is no way back to a revision.
    #[error("{0}")]
    NoWayBack(String),
    /// kubectl does not print what it was asked for.
    #[error(transparent)]
    Kubectl(#[from] Failure),
    /// A service does not answer.
    #[error("{server} does not answer: {reason}")]
    Unreachable {
        /// Address of the service.
        server: String,
        /// Why, as far as it is known.
        reason: String,
    },
    /// A service fails in a way that asking again does not mend.
    #[error("{server} failed: {reason}")]
    Service {
        /// Address of the service.
        server: String,
        /// What it says.
        reason: String,
    },
    /// There is no serving.
    #[error(transparent)]
    Serve(#[from] server::Error),
    /// The answer could not be written.
    #[error("cannot write the answer")]
    Output(#[source] std::io::Error),
    /// A bug of this build.
    #[error("{0}; this is a bug in rollplan")]
    Bug(String),
}

/// One thing that is wrong with the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Complaint {
    /// File and object, as "web.yaml, document 3 (ReplicaSet shop/web-1)". Empty when it is about all of them.
    pub(super) place: String,
    /// Field of the object, as "spec.replicas". Empty when it is about the object as a whole.
    pub(super) field: String,
    /// What is wrong.
    pub(super) text: String,
}

// === impl Error ===

impl Error {
    /// One thing wrong with a file or object as a whole.
    pub(super) fn input(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self::Input(vec![Complaint {
            place: place.into(),
            field: String::new(),
            text: text.into(),
        }])
    }

    /// Whether the same may succeed later.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Kubectl(failure) => failure.is_transient(),
            Self::Unreachable { .. } => true,
            Self::Usage(_)
            | Self::Input(_)
            | Self::Absent(_)
            | Self::Gone(_)
            | Self::NoWayBack(_)
            | Self::Service { .. }
            | Self::Serve(_)
            | Self::Output(_)
            | Self::Bug(_) => false,
        }
    }

    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Gone(_) | Self::NoWayBack(_) => Exit::Failed,
            Self::Usage(_) | Self::Input(_) | Self::Absent(_) => Exit::Usage,
            Self::Kubectl(failure) => match failure.cause() {
                Cause::NotFound(_) | Cause::Forbidden(_) | Cause::MissingKind(_) => Exit::Usage,
                Cause::NotRun(_) | Cause::NoAnswer(_) | Cause::TimedOut(_) | Cause::Failed(..) => {
                    Exit::Unreachable
                }
            },
            Self::Unreachable { .. } => Exit::Unreachable,
            Self::Serve(server::Error::Config { .. } | server::Error::Listen { .. }) => Exit::Usage,
            Self::Service { .. } | Self::Serve(_) | Self::Output(_) | Self::Bug(_) => {
                Exit::Internal
            }
        }
    }
}

fn lines(complaints: &[Complaint]) -> String {
    let lines: Vec<String> = complaints.iter().map(Complaint::to_string).collect();
    lines.join("\nerror: ")
}

// === impl Complaint ===

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, field, text } = self;
        for part in [place, field] {
            if !part.is_empty() {
                write!(f, "{part}: ")?;
            }
        }
        f.write_str(text)
    }
}

/// An error and all that it comes from, in one line.
pub(super) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        // Some libraries repeat the source in the text.
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    text
}
