//! File descriptors: the limit of the process, and its division.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Reserved for standard streams, ports, timers, certificate files, /proc and the trace exporter.
const RESERVED: usize = 32;

/// Reserved for connections of probes and scrapes.
const HTTP: usize = 64;

/// How the file descriptors of the process are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    /// The number of connections for calls.
    pub(crate) connections: usize,
    /// The number of connections for metrics and probes.
    pub(crate) http: usize,
}

/// Raises the soft limit of open files to the hard limit. It is low by default only for programs that use `select`.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if limit != raised
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::warn!("cannot raise the limit of open files: {error}");
    }
}

// === impl Descriptors ===

impl Descriptors {
    /// Divides the current limit of the process.
    pub(crate) fn of_process(connections_max: usize) -> Self {
        let limit = getrlimit(Resource::Nofile).current;
        let limit = limit.map_or(usize::MAX, |limit| {
            usize::try_from(limit).unwrap_or(usize::MAX)
        });
        let descriptors = Self::divide(limit, connections_max);
        let Self { connections, .. } = descriptors;
        if connections < connections_max {
            tracing::warn!(
                open_files_max = limit,
                connections_max = connections,
                "the limit of open files is below connections_max: fewer connections are accepted"
            );
        }
        descriptors
    }

    /// Connections never use up the limit, because probes must be answered at any time.
    fn divide(limit: usize, connections_max: usize) -> Self {
        let reserved = RESERVED.min(limit / 4);
        let http = HTTP.min(limit / 4);
        Self {
            connections: (limit - reserved - http).clamp(1, connections_max.max(1)),
            http: http.max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observability::log::Written;

    #[test]
    fn fewer_connections_than_configured_are_logged() {
        for (connections_max, lines) in [(1, 0), (usize::MAX, 1)] {
            let (written, _guard) = Written::start();
            let divided = Descriptors::of_process(connections_max);
            assert_eq!(divided.connections < connections_max, lines == 1);
            let logged = written.lines();
            assert_eq!(logged.len(), lines);
            for line in logged {
                assert_eq!(line["connections_max"], divided.connections);
            }
        }
    }

    #[test]
    fn connections_leave_descriptors_for_probes() {
        for (limit, connections_max, connections, http) in [
            (usize::MAX, 16_384, 16_384, 64),
            (16_384, 16_384, 16_288, 64),
            (1024, 100, 100, 64),
            (256, 16_384, 160, 64),
            (64, 16_384, 32, 16),
            (4, 16_384, 2, 1),
            (0, 16_384, 1, 1),
        ] {
            let expected = Descriptors { connections, http };
            assert_eq!(Descriptors::divide(limit, connections_max), expected);
        }
    }
}
