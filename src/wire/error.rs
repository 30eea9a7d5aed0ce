//! Why a request gets no answer.

use std::fmt;

/// Violations that an error lists at most: they travel in a header, and proxies cap headers at 8 KiB.
pub const LISTED_VIOLATIONS_MAX: usize = 20;

/// Why a request gets no answer. None of these goes away by asking again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes cannot be decoded as the requested message.
    #[error("cannot decode the request as {message}")]
    Undecodable {
        /// Name of the message, as "PlanRolloutRequest".
        message: &'static str,
        /// Where and why decoding failed.
        source: prost::DecodeError,
    },
    /// The text cannot be parsed as the JSON form of the requested message.
    #[error("the JSON text is not a valid {message}{}", at(.path))]
    InvalidJson {
        /// Name of the message, as "PlanRolloutRequest".
        message: &'static str,
        /// Where it went wrong, by JSON names as "snapshot.deployment.spec.replicas". Empty when not known.
        path: String,
        /// What went wrong, with line and column.
        source: serde_json::Error,
    },
    /// The request contradicts the contract: everything that is wrong with it, found in one go.
    #[error("{0}")]
    InvalidArgument(Violations),
    /// The request is larger than the limits of the contract.
    #[error("{what}: {count} {unit} exceed the limit of {max}")]
    TooLarge {
        /// What is too large, as a field path: "snapshot.pods". Or "request".
        what: &'static str,
        /// What is counted: "entries".
        unit: &'static str,
        /// How many it has.
        count: usize,
        /// How many it may have.
        max: usize,
    },
    /// The answer is larger than the limits of the contract.
    #[error("the answer: {bytes} bytes exceed the limit of {max}")]
    AnswerTooLarge {
        /// How many bytes it would have, encoded.
        bytes: usize,
        /// How many it may have.
        max: usize,
    },
    /// The requested revision cannot be rolled back to.
    #[error(transparent)]
    Rollback(#[from] rollplan_core::RollbackError),
    /// The work was given up: nobody waits for the answer.
    #[error(transparent)]
    Interrupted(#[from] rollplan_core::interrupt::Interrupted),
    /// This build's own descriptors do not fit its messages: a bug.
    #[error("the descriptors of {message} are broken")]
    Descriptors {
        /// Name of the message.
        message: &'static str,
    },
}

fn at(path: &str) -> String {
    match path {
        "" | "." => String::new(),
        path => format!(" at {path}"),
    }
}

/// Everything that is wrong with a request. At least one violation, the first
/// [`LISTED_VIOLATIONS_MAX`] of them listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations {
    /// The first of them, in the order of the fields.
    pub listed: Vec<Violation>,
    /// How many more there are.
    pub omitted: usize,
}

/// One thing that is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where, as "snapshot.deployment.spec.strategy.rolling_update.max_surge": names of the contract, indices
    /// from 0, keys of maps in brackets and quotes. Inside a template, the names are the template's own.
    pub field: String,
    /// What rule is broken.
    pub reason: Reason,
    /// One line for people. Holds no value of a template.
    pub description: String,
}

/// What rule of the contract is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Absent or empty, and needed.
    Required,
    /// Below zero where nothing is.
    Negative,
    /// Beyond what the field can carry.
    OutOfRange,
    /// Neither a whole number nor a percentage.
    NotIntOrPercent,
    /// A number of an enum that the contract does not have.
    UnknownEnumValue,
    /// A strategy that is neither RollingUpdate nor Recreate.
    UnknownStrategy,
    /// Limits of a rolling update beside another strategy.
    StrategyConflict,
    /// An operator that is none of In, NotIn, Exists and DoesNotExist.
    UnknownOperator,
    /// Values that the operator does not go with, or none where it needs one.
    OperatorValues,
    /// A name that no object of this kind can have.
    InvalidName,
    /// A key that no label can have.
    InvalidLabelKey,
    /// A value that no label can have.
    InvalidLabelValue,
    /// A key that no annotation can have.
    InvalidAnnotationKey,
    /// Annotations of more bytes than Kubernetes accepts.
    AnnotationsTooLarge,
    /// An object of more bytes than Kubernetes accepts.
    ObjectTooLarge,
    /// A name or uid that an earlier object has.
    Duplicate,
    /// An object of another kind than the field is for.
    WrongKind,
    /// More than one owner that manages the object.
    SeveralControllers,
    /// Bytes that cannot be decoded as a Struct.
    MalformedStruct,
    /// Bytes that are not valid JSON, or not the JSON of the expected object.
    MalformedJson,
    /// Text that is not UTF-8.
    InvalidUtf8,
    /// A template with more values than the contract allows.
    TemplateTooLarge,
    /// Lists and maps inside each other, too many levels of them.
    TooDeep,
    /// An integer beyond ±(2^53 − 1): it may have been rounded on its way.
    UnsafeInteger,
    /// An infinity, or no number.
    NotFinite,
    /// A value of another type than the field has.
    WrongType,
    /// A key that an object has twice.
    DuplicateKey,
    /// A field that excludes another one that is given.
    Exclusive,
    /// An object that is named, or needed, and not there; or several where one is meant.
    NotFound,
}

impl Reason {
    /// Every reason.
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
        Self::MalformedStruct,
        Self::MalformedJson,
        Self::InvalidUtf8,
        Self::TemplateTooLarge,
        Self::TooDeep,
        Self::UnsafeInteger,
        Self::NotFinite,
        Self::WrongType,
        Self::DuplicateKey,
        Self::Exclusive,
        Self::NotFound,
    ];

    /// The stable name that callers match on.
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
            Self::MalformedStruct => "MALFORMED_STRUCT",
            Self::MalformedJson => "MALFORMED_JSON",
            Self::InvalidUtf8 => "INVALID_UTF8",
            Self::TemplateTooLarge => "TEMPLATE_TOO_LARGE",
            Self::TooDeep => "TOO_DEEP",
            Self::UnsafeInteger => "UNSAFE_INTEGER",
            Self::NotFinite => "NOT_FINITE",
            Self::WrongType => "WRONG_TYPE",
            Self::DuplicateKey => "DUPLICATE_KEY",
            Self::Exclusive => "EXCLUSIVE",
            Self::NotFound => "NOT_FOUND",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Violations ===

impl Violations {
    /// Adds those of another part of the same request.
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

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { listed, omitted } = self;
        listed.is_empty() && *omitted == 0
    }

    /// Adds one. The description is only made for one that is listed.
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

/// Fields hold keys and descriptions hold values of the request, which may be long.
fn shorten(mut text: String) -> String {
    const BYTES_MAX: usize = 256;
    if text.len() > BYTES_MAX {
        let end = text.floor_char_boundary(BYTES_MAX);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// All violations in one line.
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
