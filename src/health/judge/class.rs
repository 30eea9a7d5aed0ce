//! The classes of failures, and when each of them is certain. A test compares the table with docs/reference/verdict.md.

use std::fmt;

/// A class of failures. The names are those of `FailureRule.failure` and of `--fail-on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The name of an image is malformed.
    ImageName,
    /// An image does not exist, or may not be pulled.
    ImagePull,
    /// An object or key that a container refers to does not exist, or its configuration contradicts itself.
    Config,
    /// The API server rejects pods, or the ReplicaSet.
    Refused,
    /// The program of a container cannot be executed.
    StartError,
    /// The startup probe of a container fails until the kubelet kills it.
    StartupProbe,
    /// A container keeps terminating, for example because it crashes, runs out of memory, or fails its liveness probe.
    CrashLoop,
    /// No node can run the pods.
    Unschedulable,
    /// Containers are running but not ready.
    NotReady,
}

/// When a failure of a class is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Once it has lasted for this number of seconds, and an attempt after that has failed as well.
    Grace(i64),
    /// Once the container has been restarted this often and has terminated again.
    Restarts(i32),
    /// Never.
    Never,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct ClassRow {
    /// The class.
    pub class: Class,
    /// Its name.
    pub name: &'static str,
    /// When a failure of the class is certain by default.
    pub limit: Limit,
    /// The evidence that is required in addition.
    pub evidence: &'static str,
    /// Whether free capacity may resolve it, for example when terminating pods of the object have ended.
    pub resolved_by_room: bool,
}

/// A limit for missing objects, because objects may be created in any order, and some only a minute later.
const ANY_ORDER: Limit = Limit::Grace(90);

/// The table, in the order of [`Class`].
pub const TABLE: [ClassRow; 9] = [
    ClassRow {
        class: Class::ImageName,
        name: "image-name",
        limit: Limit::Grace(0),
        evidence: "reason InvalidImageName",
        resolved_by_room: false,
    },
    ClassRow {
        class: Class::ImagePull,
        name: "image-pull",
        limit: ANY_ORDER,
        evidence: "an attempt after this time has failed: the registry answered that the image does not exist, has no \
                   manifest for the platform of the node, or that access is denied; its signature is rejected; or the \
                   pull policy is Never and the node does not have the image",
        resolved_by_room: false,
    },
    ClassRow {
        class: Class::Config,
        name: "config",
        limit: ANY_ORDER,
        evidence: "an attempt after this time has failed: the kubelet named a ConfigMap, a Secret or a key that does not \
                   exist, or a contradiction such as runAsNonRoot with an image that runs as root; or the runtime could \
                   not create the container, for a reason of `start-error`",
        resolved_by_room: false,
    },
    ClassRow {
        class: Class::Refused,
        name: "refused",
        limit: Limit::Grace(30),
        evidence: "an event FailedCreate that was repeated after this time, and whose text is definite: a webhook or \
                   policy that denied the request, PodSecurity, a LimitRange, an invalid pod, a missing ServiceAccount, \
                   PriorityClass or RuntimeClass (after 90 s), or a quota that one pod alone exceeds",
        resolved_by_room: true,
    },
    ClassRow {
        class: Class::StartError,
        name: "start-error",
        limit: Limit::Restarts(3),
        evidence: "the runtime named the program or the working directory, which does not exist or cannot be used, and \
                   which no volume of the container can provide; or a mount that can never succeed",
        resolved_by_room: false,
    },
    ClassRow {
        class: Class::StartupProbe,
        name: "startup-probe",
        limit: Limit::Restarts(3),
        evidence: "the kubelet killed the container because its startup probe failed, according to its events",
        resolved_by_room: true,
    },
    ClassRow {
        class: Class::CrashLoop,
        name: "crash-loop",
        limit: Limit::Restarts(5),
        evidence: "restarts within the current rollout, for at least a minute, of a container that could be started",
        resolved_by_room: true,
    },
    ClassRow {
        class: Class::Unschedulable,
        name: "unschedulable",
        limit: Limit::Never,
        evidence: "",
        resolved_by_room: true,
    },
    ClassRow {
        class: Class::NotReady,
        name: "not-ready",
        limit: Limit::Never,
        evidence: "",
        resolved_by_room: true,
    },
];

/// When failures count as certain: the table, with the changes that a caller requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules([Option<Limit>; TABLE.len()]);

// === impl Class ===

impl Class {
    /// The class with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let row = TABLE.iter().find(|row| row.name == name)?;
        Some(row.class)
    }

    /// The row of the table.
    #[must_use]
    pub fn row(self) -> &'static ClassRow {
        // A test checks the order of the table.
        &TABLE[self as usize]
    }

    /// Whether the class is measured by restarts.
    #[must_use]
    pub fn counts_restarts(self) -> bool {
        matches!(self.row().limit, Limit::Restarts(_))
    }
}

// === impl Limit ===

/// The text in the table of docs/reference/verdict.md.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grace(0) => f.write_str("at once"),
            Self::Grace(seconds) => write!(f, "{seconds} s"),
            Self::Restarts(restarts) => write!(f, "{restarts} restarts"),
            Self::Never => f.write_str("never"),
        }
    }
}

// === impl Rules ===

impl Rules {
    /// The rules with a change by the caller: the limit then applies to all failures of the class, regardless of their
    /// texts.
    #[must_use]
    pub fn with(mut self, class: Class, limit: Limit) -> Self {
        self.0[class as usize] = Some(limit);
        self
    }

    /// When a failure of the class is certain. `is_definite` is whether its text proves that it persists.
    pub(crate) fn limit(&self, class: Class, is_definite: bool) -> Limit {
        let by_default = || {
            if is_definite {
                class.row().limit
            } else {
                Limit::Never
            }
        };
        self.0[class as usize].unwrap_or_else(by_default)
    }

    /// Whether the caller has changed the rule of the class.
    #[must_use]
    pub fn changes(&self, class: Class) -> bool {
        self.0[class as usize].is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_the_order_of_the_classes() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.class as usize, index);
            assert_eq!(Class::from_name(row.name), Some(row.class));
            assert_eq!(row.class.row().name, row.name);
        }
        assert_eq!(Class::from_name("other"), None);
    }

    #[test]
    fn documentation_has_the_table() {
        let row = |row: &ClassRow| {
            let room = if row.resolved_by_room { "yes" } else { "no" };
            let evidence = if row.evidence.is_empty() {
                "–"
            } else {
                row.evidence
            };
            let name = format!("`{}`", row.name);
            vec![
                name,
                row.limit.to_string(),
                evidence.to_owned(),
                room.to_owned(),
            ]
        };
        let headers = [
            "class",
            "certain after",
            "evidence",
            "free capacity may resolve it",
        ];
        let table = rollplan_world::page::table(&headers, TABLE.iter().map(row));
        rollplan_world::page::check("docs/reference/verdict.md", "classes", &table);
    }
}
