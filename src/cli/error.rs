//! Errors of the command line.

use std::error::Error as StdError;
use std::fmt;

use rollplan_server as server;

use super::exit::Exit;
use super::kubectl::{Cause, Failure};

/// The cause of a failed command. Each error has an exit code.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The command line is invalid.
    #[error("{0}")]
    Usage(String),
    /// The input is invalid, with all errors that were found.
    #[error("{}", diagnostics(.0))]
    Input(Vec<Diagnostic>),
    /// The requested object does not exist.
    #[error("{0}")]
    Absent(String),
    /// The object was deleted while it was watched.
    #[error("deleted while waiting: {0}")]
    Gone(String),
    /// The object was deleted while it was watched, perhaps because it had finished.
    #[error("deleted while waiting: {0}")]
    Vanished(String),
    /// The Deployment cannot be rolled back to the revision.
    #[error("{0}")]
    RollbackRefused(String),
    /// A canary is refused.
    #[error("{text}")]
    CanaryRefused {
        /// The machine-readable reason.
        reason: String,
        /// The message.
        text: String,
    },
    /// kubectl failed.
    #[error(transparent)]
    Kubectl(#[from] Failure),
    /// A service does not respond.
    #[error("{server} does not answer: {reason}")]
    Unreachable {
        /// The address of the service.
        server: String,
        /// The cause, if known.
        reason: String,
    },
    /// A service fails in a way that a retry does not fix.
    #[error("{server} failed: {reason}")]
    Service {
        /// The address of the service.
        server: String,
        /// The error message of the service.
        reason: String,
    },
    /// The service cannot be run.
    #[error(transparent)]
    Serve(#[from] server::Error),
    /// The answer could not be written.
    #[error("cannot write the answer")]
    Output(#[source] std::io::Error),
    /// A report could not be written.
    #[error("cannot write to {file}")]
    Report {
        /// The path of the file.
        file: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A bug in rollplan.
    #[error("{0}; this is a bug in rollplan")]
    Bug(String),
}

/// An error in the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Diagnostic {
    /// The file and object, for example "web.yaml, document 3 (ReplicaSet shop/web-1)". Empty for the whole input.
    pub(super) place: String,
    /// The field of the object, for example "spec.replicas". Empty for the whole object.
    pub(super) field: String,
    /// The message.
    pub(super) text: String,
}

// === impl Diagnostic ===

impl Diagnostic {
    /// An error about a whole file or object.
    pub(super) fn new(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            field: String::new(),
            text: text.into(),
        }
    }
}

// === impl Error ===

impl Error {
    /// An error about a whole file or object.
    pub(super) fn input(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self::Input(vec![Diagnostic::new(place, text)])
    }

    /// Whether a retry may succeed.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Kubectl(failure) => failure.is_transient(),
            Self::Unreachable { .. } => true,
            Self::Usage(_)
            | Self::Input(_)
            | Self::Absent(_)
            | Self::Gone(_)
            | Self::Vanished(_)
            | Self::RollbackRefused(_)
            | Self::CanaryRefused { .. }
            | Self::Service { .. }
            | Self::Serve(_)
            | Self::Output(_)
            | Self::Report { .. }
            | Self::Bug(_) => false,
        }
    }

    /// The messages to print, one for each error.
    pub(super) fn texts(&self) -> Vec<String> {
        match self {
            Self::Input(diagnostics) => diagnostics.iter().map(Diagnostic::to_string).collect(),
            error => vec![chain(error)],
        }
    }

    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Gone(_) | Self::RollbackRefused(_) => Exit::Failed,
            Self::Vanished(_) => Exit::Going,
            Self::Usage(_) | Self::Input(_) | Self::Absent(_) | Self::CanaryRefused { .. } => {
                Exit::Usage
            }
            Self::Kubectl(failure) => match failure.cause() {
                Cause::NotFound(_)
                | Cause::Forbidden(_)
                | Cause::Rejected(_)
                | Cause::MissingKind(_)
                | Cause::TooLarge(_) => Exit::Usage,
                Cause::NotRun(_) | Cause::NoAnswer(_) | Cause::TimedOut(_) | Cause::Failed(..) => {
                    Exit::Unreachable
                }
            },
            Self::Unreachable { .. } => Exit::Unreachable,
            Self::Serve(server::Error::Config { .. } | server::Error::Listen { .. }) => Exit::Usage,
            Self::Service { .. }
            | Self::Serve(_)
            | Self::Output(_)
            | Self::Report { .. }
            | Self::Bug(_) => Exit::Internal,
        }
    }
}

fn diagnostics(diagnostics: &[Diagnostic]) -> String {
    let texts: Vec<String> = diagnostics.iter().map(Diagnostic::to_string).collect();
    texts.join("; ")
}

// === impl Diagnostic ===

impl fmt::Display for Diagnostic {
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

/// An error with its sources, as one message.
pub(super) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        // Some libraries include the source in the message.
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    text
}
