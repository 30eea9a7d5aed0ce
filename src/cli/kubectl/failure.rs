//! Classifies failures of kubectl by its messages.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use rollplan_text::span;

/// A failed kubectl command.
#[derive(Debug)]
pub(in crate::cli) struct Failure {
    /// The command.
    pub(super) command: String,
    pub(super) cause: Cause,
}

/// The cause of a failure, with kubectl's messages from standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Cause {
    /// The program cannot be started.
    NotRun(String),
    /// The object does not exist.
    NotFound(String),
    /// The user may not read the object.
    Forbidden(String),
    /// The API server or kubectl rejects the write: the object has changed, or would be invalid.
    Rejected(String),
    /// The cluster does not serve this kind.
    MissingKind(String),
    /// The API server is unreachable or overloaded.
    NoAnswer(String),
    /// kubectl exceeded the time limit and was stopped.
    TimedOut(Duration),
    /// kubectl printed more than this number of bytes and was stopped.
    TooLarge(usize),
    /// Any other cause: the exit status and the messages.
    Failed(String, String),
}

// === impl Failure ===

impl Failure {
    pub(in crate::cli) fn cause(&self) -> &Cause {
        &self.cause
    }

    /// Whether a retry may succeed.
    pub(in crate::cli) fn is_transient(&self) -> bool {
        match self.cause {
            Cause::NoAnswer(_) | Cause::TimedOut(_) | Cause::Failed(..) => true,
            Cause::NotRun(_)
            | Cause::NotFound(_)
            | Cause::Forbidden(_)
            | Cause::Rejected(_)
            | Cause::MissingKind(_)
            | Cause::TooLarge(_) => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { command, cause } = self;
        write!(f, "{command}: {cause}")
    }
}

impl std::error::Error for Failure {}

// === impl Cause ===

impl Cause {
    /// Classifies the lines that kubectl printed. Its messages are not translated, and have been stable for years.
    pub(super) fn of(status: String, lines: &[String]) -> Self {
        let begins = |prefix: &str| lines.iter().any(|line| line.starts_with(prefix));
        let contains = |text: &str| lines.iter().any(|line| line.contains(text));
        let shown: Vec<Cow<'_, str>> = lines.iter().map(|line| without_patch(line)).collect();
        let text = shown.join("; ");
        if begins("Error from server (Forbidden)") {
            Self::Forbidden(text)
        } else if REJECTED.iter().any(|prefix| begins(prefix)) {
            Self::Rejected(text)
        } else if begins("error: the server doesn't have a resource type")
            || contains("the server could not find the requested resource")
        {
            Self::MissingKind(text)
        } else if begins("Error from server (NotFound)") {
            Self::NotFound(text)
        } else if NO_ANSWER.iter().any(|prefix| begins(prefix)) {
            Self::NoAnswer(text)
        } else {
            Self::Failed(status, text)
        }
    }
}

/// A message without the patch in it, which has the values of the manifest, for example of environment variables.
fn without_patch(line: &str) -> Cow<'_, str> {
    let patch = "patch: Invalid value: \"";
    match (line.split_once(patch), line.rsplit_once("\": ")) {
        (Some((before, _)), Some((_, reason))) => format!("{before}patch: {reason}").into(),
        _ => line.into(),
    }
}

/// The prefixes of messages about a write that the API server or kubectl rejects.
const REJECTED: [&str; 6] = [
    // kubectl: cmd/set/set_image.go, Run.
    "error: unable to find container named ",
    "Error from server (BadRequest)",
    "Error from server (Conflict)",
    "The request is invalid",
    "The Deployment \"",
    "The deployments \"",
];

/// The prefixes of messages about an unreachable or overloaded API server.
const NO_ANSWER: [&str; 7] = [
    "Unable to connect to the server",
    "The connection to the server",
    "Error from server (Timeout)",
    "Error from server (ServerTimeout)",
    "Error from server (ServiceUnavailable)",
    "Error from server (TooManyRequests)",
    "Error from server (InternalError)",
];

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRun(why) => write!(f, "cannot be run: {why}"),
            Self::NotFound(text) => write!(f, "not found: {text}"),
            Self::Forbidden(text) => write!(f, "missing permission: {text}"),
            Self::Rejected(text) => write!(f, "rejected by the API server: {text}"),
            Self::MissingKind(text) => write!(
                f,
                "the cluster does not serve this kind (is its CustomResourceDefinition installed?): {text}"
            ),
            Self::NoAnswer(text) => write!(f, "the cluster does not answer: {text}"),
            Self::TimedOut(limit) => {
                let limit = span::exact(limit.as_secs().max(1));
                write!(f, "no answer within {limit}, stopped")
            }
            Self::TooLarge(max) => {
                write!(f, "printed more than {} MiB, stopped", max >> 20)
            }
            Self::Failed(status, text) if text.is_empty() => f.write_str(status),
            Self::Failed(status, text) => write!(f, "{status}: {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(line: &str) -> Cause {
        Cause::of("exit status: 1".to_owned(), &[line.to_owned()])
    }

    /// The message of kubectl 1.37 about an unknown field in a manifest.
    #[test]
    fn patches_are_not_part_of_messages() {
        let line = r#"The request is invalid: patch: Invalid value: "map[spec:map[env:[map[name:A value:secret\": x]]]]": strict decoding error: unknown field "spec.a", unknown field "spec.b""#;
        let shown = r#"The request is invalid: patch: strict decoding error: unknown field "spec.a", unknown field "spec.b""#;
        assert_eq!(cause(line), Cause::Rejected(shown.to_owned()));
    }

    /// The messages of kubectl 1.36.
    #[test]
    fn causes_are_distinguished() {
        let line = "Error from server (Forbidden): pods is forbidden: User \"dev\" cannot list resource \"pods\"";
        assert_eq!(cause(line), Cause::Forbidden(line.to_owned()));
        for line in [
            "error: the server doesn't have a resource type \"planneddeployments\"",
            "Error from server (NotFound): Unable to list \"apps.rollplan.dev/v1alpha1, Resource=planneddeployments\": the \
             server could not find the requested resource",
        ] {
            assert_eq!(cause(line), Cause::MissingKind(line.to_owned()));
        }
        for line in [
            "The request is invalid: the server rejected our request due to an error in our request",
            "The Deployment \"web\" is invalid: spec.replicas: Invalid value: -1",
            "The deployments \"web\" is invalid: : ValidatingAdmissionPolicy 'guard' with binding 'guard' denied request: no",
            "error: unable to find container named \"nope\"",
            "Error from server (Conflict): Operation cannot be fulfilled on deployments.apps \"web\"",
            "Error from server (BadRequest): error when creating \"web.yaml\": Deployment in version \"v1\" cannot be handled as a \
             Deployment: strict decoding error: unknown field \"spec.replica\"",
        ] {
            assert_eq!(cause(line), Cause::Rejected(line.to_owned()));
        }
        let line = "Error from server (NotFound): deployments.apps \"web\" not found";
        assert_eq!(cause(line), Cause::NotFound(line.to_owned()));
        for line in [
            "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?",
            "Unable to connect to the server: tls: failed to verify certificate: x509: certificate signed by unknown authority",
            "Unable to connect to the server: net/http: request canceled (Client.Timeout exceeded while awaiting headers)",
            "Unable to connect to the server: getting credentials: exec: executable plugin failed with exit code 1",
            "Error from server (ServiceUnavailable): the server is currently unable to handle the request",
        ] {
            assert_eq!(cause(line), Cause::NoAnswer(line.to_owned()));
        }
        let line = "error: You must be logged in to the server (Unauthorized)";
        let failed = Cause::Failed("exit status: 1".to_owned(), line.to_owned());
        assert_eq!(cause(line), failed);
        assert_eq!(failed.to_string(), format!("exit status: 1: {line}"));
        let silent = Cause::of("exit status: 1".to_owned(), &[]);
        assert_eq!(silent.to_string(), "exit status: 1");
    }
}
