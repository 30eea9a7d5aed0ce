//! The errors of requests.

use std::fmt;

use rollplan_core::RollbackError;

/// The maximum number of listed violations: errors are sent in a header, and proxies limit headers to 8 KiB.
pub const LISTED_VIOLATIONS_MAX: usize = 20;

/// Why a request is rejected. A retry of the same request fails, too.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes cannot be decoded as the expected message.
    #[error("cannot decode the request as {message}")]
    Undecodable {
        /// The name of the message, for example "PlanRolloutRequest".
        message: &'static str,
        /// The error of the decoder.
        source: prost::DecodeError,
    },
    /// The text cannot be parsed as the JSON form of the expected message.
    #[error("the JSON text is not a valid {message}{}", at(.path))]
    InvalidJson {
        /// The name of the message, for example "PlanRolloutRequest".
        message: &'static str,
        /// The path in JSON names, for example `snapshot.answers[0].call`. Empty if unknown.
        path: String,
        /// The error of the parser, with line and column.
        source: serde_json::Error,
    },
    /// The request violates the contract, with all violations that were found.
    #[error("{0}")]
    InvalidArgument(Violations),
    /// The request is larger than the limits of the contract.
    #[error("{what}: {count} {unit} exceed the limit of {max}")]
    TooLarge {
        /// The field that is too large, for example "snapshot.pods", or "request".
        what: &'static str,
        /// The unit of the count, for example "entries".
        unit: &'static str,
        /// The actual number.
        count: usize,
        /// The maximum number.
        max: usize,
    },
    /// The answer is larger than the limits of the contract.
    #[error("the answer: {bytes} bytes exceed the limit of {max}")]
    AnswerTooLarge {
        /// The encoded size in bytes.
        bytes: usize,
        /// The maximum size in bytes.
        max: usize,
    },
    /// The Deployment cannot be rolled back to the requested revision.
    #[error(transparent)]
    Rollback(#[from] RollbackError),
    /// A command about a canary is refused, or nothing can be planned.
    #[error(transparent)]
    Canary(#[from] rollplan_canary::Refusal),
    /// There is no forecast for the Deployment.
    #[error(transparent)]
    Forecast(#[from] rollplan_forecast::ForecastError),
    /// The work was interrupted, because its answer is not needed.
    #[error(transparent)]
    Interrupted(#[from] rollplan_core::interrupt::Interrupted),
    /// The built-in descriptors do not match the messages: a bug.
    #[error("the descriptors of {message} are broken")]
    Descriptors {
        /// The name of the message.
        message: &'static str,
    },
}

/// Why a valid request about a Deployment is rejected because of its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The list of ReplicaSets may be incomplete.
    ReplicaSetsIncomplete,
    /// The list of pods may be incomplete.
    PodsIncomplete,
    /// A paused Deployment cannot be rolled back.
    DeploymentPaused,
    /// No earlier revision has available pods.
    NoAvailableRevision,
    /// There is no earlier revision.
    NoEarlierRevision,
    /// The requested revision does not exist.
    RevisionNotFound,
}

// === impl Rejection ===

impl Rejection {
    const ALL: [Self; 6] = [
        Self::ReplicaSetsIncomplete,
        Self::PodsIncomplete,
        Self::DeploymentPaused,
        Self::NoAvailableRevision,
        Self::NoEarlierRevision,
        Self::RevisionNotFound,
    ];

    /// The reason in `google.rpc.ErrorInfo`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReplicaSetsIncomplete => "REPLICA_SETS_INCOMPLETE",
            Self::PodsIncomplete => "PODS_INCOMPLETE",
            Self::DeploymentPaused => "DEPLOYMENT_PAUSED",
            Self::NoAvailableRevision => "NO_AVAILABLE_REVISION",
            Self::NoEarlierRevision => "NO_EARLIER_REVISION",
            Self::RevisionNotFound => "REVISION_NOT_FOUND",
        }
    }

    /// The rejection with this reason.
    #[must_use]
    pub fn from_reason(reason: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == reason)
    }

    /// The rejection of a rollback.
    #[must_use]
    pub fn of_rollback(error: &RollbackError) -> Self {
        match error {
            RollbackError::Incomplete { .. } => Self::ReplicaSetsIncomplete,
            RollbackError::Paused { .. } => Self::DeploymentPaused,
            RollbackError::NoneAvailable { .. } => Self::NoAvailableRevision,
            RollbackError::NoHistory { .. } => Self::NoEarlierRevision,
            RollbackError::NotFound { .. } => Self::RevisionNotFound,
        }
    }
}

/// The maximum length of a quoted text, in characters.
const QUOTED_MAX: usize = 300;

/// A text on one line, truncated.
pub(super) fn quoted(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    let line = words.join(" ");
    match line.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn at(path: &str) -> String {
    match path {
        "" | "." => String::new(),
        path => format!(" at {path}"),
    }
}

/// All violations of a request, at least one. The first [`LISTED_VIOLATIONS_MAX`] are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations {
    /// The first violations, in the order of the fields.
    pub listed: Vec<Violation>,
    /// The number of further violations.
    pub omitted: usize,
}

/// A violation of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The field, for example `snapshot.objects[0].items[2].spec.strategy.rollingUpdate.maxSurge`: names of the contract,
    /// and of Kubernetes inside objects, indices starting at 0, and quoted keys of maps in brackets.
    pub field: String,
    /// The violated rule.
    pub reason: Reason,
    /// A description for people, on one line. Contains no value of a template.
    pub description: String,
}

/// The rules of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A required field is absent or empty.
    Required,
    /// The value must not be negative.
    Negative,
    /// The value is outside the range of the field.
    OutOfRange,
    /// The value is neither an integer nor a percentage.
    NotIntOrPercent,
    /// The number is not a value of the enum.
    UnknownEnumValue,
    /// The strategy is neither RollingUpdate nor Recreate.
    UnknownStrategy,
    /// Limits of a rolling update are given with another strategy.
    StrategyConflict,
    /// The operator is not one of In, NotIn, Exists and DoesNotExist.
    UnknownOperator,
    /// The operator does not allow values, or requires some.
    OperatorValues,
    /// The name is invalid for objects of this kind.
    InvalidName,
    /// The key is invalid for labels.
    InvalidLabelKey,
    /// The value is invalid for labels.
    InvalidLabelValue,
    /// The key is invalid for annotations.
    InvalidAnnotationKey,
    /// The annotations exceed the size limit of Kubernetes.
    AnnotationsTooLarge,
    /// The object exceeds the size limit of Kubernetes.
    ObjectTooLarge,
    /// An earlier object has the same name or UID.
    Duplicate,
    /// The field is for objects of another kind.
    WrongKind,
    /// More than one owner is a controller.
    SeveralControllers,
    /// The bytes are not valid JSON, or not the JSON of the expected object.
    MalformedJson,
    /// The text is not UTF-8.
    InvalidUtf8,
    /// The template has more values than the contract allows.
    TemplateTooLarge,
    /// Lists and maps are nested too deeply.
    TooDeep,
    /// The value has the wrong type for its field.
    WrongType,
    /// A key occurs twice in its object.
    DuplicateKey,
    /// The field excludes another field that is set.
    Exclusive,
    /// A referenced or required object is missing, or several match where one is expected.
    NotFound,
    /// Kubernetes does not know the field.
    UnknownField,
    /// The value is not one that Kubernetes allows here.
    InvalidValue,
    /// The field of an existing object cannot be changed.
    Immutable,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 29] = [
        Self::Required,
        Self::Negative,
        Self::OutOfRange,
        Self::NotIntOrPercent,
        Self::UnknownEnumValue,
        Self::UnknownStrategy,
        Self::StrategyConflict,
        Self::UnknownOperator,
        Self::OperatorValues,
        Self::InvalidName,
        Self::InvalidLabelKey,
        Self::InvalidLabelValue,
        Self::InvalidAnnotationKey,
        Self::AnnotationsTooLarge,
        Self::ObjectTooLarge,
        Self::Duplicate,
        Self::WrongKind,
        Self::SeveralControllers,
        Self::MalformedJson,
        Self::InvalidUtf8,
        Self::TemplateTooLarge,
        Self::TooDeep,
        Self::WrongType,
        Self::DuplicateKey,
        Self::Exclusive,
        Self::NotFound,
        Self::UnknownField,
        Self::InvalidValue,
        Self::Immutable,
    ];

    /// The stable name, which callers may match.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "REQUIRED",
            Self::Negative => "NEGATIVE",
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::NotIntOrPercent => "NOT_INT_OR_PERCENT",
            Self::UnknownEnumValue => "UNKNOWN_ENUM_VALUE",
            Self::UnknownStrategy => "UNKNOWN_STRATEGY",
            Self::StrategyConflict => "STRATEGY_CONFLICT",
            Self::UnknownOperator => "UNKNOWN_OPERATOR",
            Self::OperatorValues => "OPERATOR_VALUES",
            Self::InvalidName => "INVALID_NAME",
            Self::InvalidLabelKey => "INVALID_LABEL_KEY",
            Self::InvalidLabelValue => "INVALID_LABEL_VALUE",
            Self::InvalidAnnotationKey => "INVALID_ANNOTATION_KEY",
            Self::AnnotationsTooLarge => "ANNOTATIONS_TOO_LARGE",
            Self::ObjectTooLarge => "OBJECT_TOO_LARGE",
            Self::Duplicate => "DUPLICATE",
            Self::WrongKind => "WRONG_KIND",
            Self::SeveralControllers => "SEVERAL_CONTROLLERS",
            Self::MalformedJson => "MALFORMED_JSON",
            Self::InvalidUtf8 => "INVALID_UTF8",
            Self::TemplateTooLarge => "TEMPLATE_TOO_LARGE",
            Self::TooDeep => "TOO_DEEP",
            Self::WrongType => "WRONG_TYPE",
            Self::DuplicateKey => "DUPLICATE_KEY",
            Self::Exclusive => "EXCLUSIVE",
            Self::NotFound => "NOT_FOUND",
            Self::UnknownField => "UNKNOWN_FIELD",
            Self::InvalidValue => "INVALID_VALUE",
            Self::Immutable => "IMMUTABLE",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Error ===

impl Error {
    /// An error with one violation.
    pub(super) fn violation(
        field: impl fmt::Display,
        reason: Reason,
        description: impl fmt::Display,
    ) -> Self {
        let mut violations = Violations::default();
        violations.add(field, reason, description);
        Self::InvalidArgument(violations)
    }
}

// === impl Violations ===

impl Violations {
    /// An error, if there are violations.
    pub(super) fn into_result(self) -> Result<(), Error> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(Error::InvalidArgument(self))
        }
    }

    /// Adds the violations of another part of the same request.
    pub(super) fn extend(&mut self, more: Self) {
        self.omitted += more.omitted;
        for violation in more.listed {
            if self.listed.len() < LISTED_VIOLATIONS_MAX {
                self.listed.push(violation);
            } else {
                self.omitted += 1;
            }
        }
    }

    /// Whether the request has no violations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { listed, omitted } = self;
        listed.is_empty() && *omitted == 0
    }

    /// Adds a violation. The description is formatted only if the violation is listed.
    pub(super) fn add(
        &mut self,
        field: impl fmt::Display,
        reason: Reason,
        description: impl fmt::Display,
    ) {
        if self.listed.len() == LISTED_VIOLATIONS_MAX {
            self.omitted = self.omitted.saturating_add(1);
            return;
        }
        self.listed.push(Violation {
            field: shorten(field.to_string()),
            reason,
            description: shorten(description.to_string()),
        });
    }
}

/// Truncates long text: fields may contain keys, and descriptions values, of the request.
fn shorten(mut text: String) -> String {
    const BYTES_MAX: usize = 256;
    if text.len() > BYTES_MAX {
        let end = text.floor_char_boundary(BYTES_MAX);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// All listed violations on one line.
impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, violation) in self.listed.iter().enumerate() {
            let separator = if i > 0 { "; " } else { "" };
            write!(
                f,
                "{separator}{}: {}",
                violation.field, violation.description
            )?;
        }
        match self.omitted {
            0 => Ok(()),
            omitted => write!(f, "; and {omitted} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(count: usize, description: &str) -> Violations {
        let mut violations = Violations::default();
        for index in 0..count {
            violations.add(index, Reason::Required, description);
        }
        violations
    }

    #[test]
    fn documentation_has_the_reasons_of_violations() {
        let names = Reason::ALL.map(|reason| format!("`{reason}`"));
        let text = format!("{}\n", names.join(", "));
        rollplan_world::page::check("docs/reference/api.md", "violations", &text);
    }

    #[test]
    fn violations_that_no_part_lists_are_counted() {
        let max = LISTED_VIOLATIONS_MAX;
        for (first, second, omitted) in [
            (0, max + 3, 3),
            (max + 2, max + 3, max + 5),
            (max - 1, 2, 1),
            (max - 2, 2, 0),
        ] {
            let mut both = violations(first, "first");
            both.extend(violations(second, "second"));
            assert_eq!(both.listed.len(), max);
            assert_eq!(both.omitted, omitted, "{first} and {second}");
            let of_first = both.listed.iter().filter(|it| it.description == "first");
            assert_eq!(of_first.count(), first.min(max));
        }
    }

    #[test]
    fn long_texts_are_truncated_between_characters() {
        let of = |text: &str| violations(1, text).listed.remove(0).description;
        let longest = "x".repeat(256);
        assert_eq!(of(&longest), longest);
        assert_eq!(of(&format!("{longest}x")), format!("{longest}…"));
        assert_eq!(
            of(&format!("{}é", &longest[1..])),
            format!("{}…", &longest[1..])
        );
    }

    #[test]
    fn quoted_texts_are_on_one_line() {
        assert_eq!(quoted(" a  b\n\tc\u{7}d\u{1b}[31m "), "a b c d [31m");
        assert_eq!(quoted(&"x".repeat(301)), format!("{}…", "x".repeat(300)));
    }
}
