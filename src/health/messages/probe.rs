//! Probes that fail, according to events.

use super::Resolver::{Image, Template};
use super::pattern::{hole, matched};
use super::{Row, Table};

/// The events about a failing probe. The output of a probe may be empty.
///
/// kubelet: pkg/kubelet/prober/prober.go, `probe`.
const FORMATS: [&str; 3] = [
    "<kind> probe failed: <output...>",
    "<kind> probe errored: <output...>",
    "<kind> probe errored and resulted in <state> state: <output...>",
];

/// The outputs of probes. Commands are not shown, because they may contain passwords.
pub(crate) const TABLE: Table = Table {
    reasons: &["Unhealthy"],
    wrappers: &[
        // net/http of Go, url.Error.
        "Get \"<url>\": ",
        // The kubelet could not run the command: the runtime reports why.
        "rpc error: code = <code> desc = ",
        "failed to exec in container: ",
        "failed to start exec \"<id>\": ",
        "OCI runtime exec failed: ",
        "exec failed: ",
        "unable to start container process: ",
    ],
    endings: &[": unknown"],
    rows: &[
        // kubelet: pkg/probe/http/http.go, DoHTTPProbe.
        Row::undecided(
            "HTTP probe failed with statuscode: 401",
            Template,
            "let its <probe> probe pass without credentials, or correct its path",
        ),
        Row::undecided(
            "HTTP probe failed with statuscode: 403",
            Template,
            "let its <probe> probe pass without credentials, or correct its path",
        ),
        Row::undecided(
            "HTTP probe failed with statuscode: 4<digits>",
            Template,
            "correct the path or the port of its <probe> probe",
        ),
        // net of Go, OpError.
        Row::undecided(
            "dial tcp <address>: connect: connection refused",
            Template,
            "correct the port of its <probe> probe, or check why nothing listens on it: <log>",
        ),
        Row::undecided(
            "dial tcp <address>: i/o timeout",
            Template,
            "raise timeoutSeconds of its <probe> probe, or check why the answer takes so long: <log>",
        ),
        Row::undecided(
            "context deadline exceeded<details...>",
            Template,
            "raise timeoutSeconds of its <probe> probe, or check why the answer takes so long: <log>",
        ),
        Row::undecided(
            "net/http: request canceled<details...>",
            Template,
            "raise timeoutSeconds of its <probe> probe, or check why the answer takes so long: <log>",
        ),
        // kubelet: pkg/probe/grpc/grpc.go, Probe.
        Row::undecided(
            "timeout: failed to connect service \"<address>\" within <time>: <error...>",
            Template,
            "correct the port of its <probe> probe, or check why nothing listens on it: <log>",
        ),
        Row::undecided(
            "timeout: health rpc did not complete within <time>",
            Template,
            "raise timeoutSeconds of its <probe> probe, or check why the answer takes so long: <log>",
        ),
        // kubelet: pkg/probe/exec/exec.go, Probe, with the error of the runtime.
        Row::undecided(
            "command \"<command...>\" timed out",
            Template,
            "raise timeoutSeconds of its <probe> probe, or check why its command takes so long: <log>",
        )
        .showing("its command timed out"),
        Row::undecided(
            "command timed out: \"<command...>\" timed out after <time>",
            Template,
            "raise timeoutSeconds of its <probe> probe, or check why its command takes so long: <log>",
        )
        .showing("its command timed out after <time>"),
        Row::undecided(
            "exec: \"<file...>\": executable file not found in $PATH",
            Image,
            "use a program that the image contains in its <probe> probe, or add <file> to the image",
        ),
        Row::undecided(
            "exec: \"<file...>\": stat <path...>: no such file or directory",
            Image,
            "use a program that the image contains in its <probe> probe, or add <file> to the image",
        ),
    ],
};

/// The output of a probe, from an event about its failure. Other events are returned whole.
pub(crate) fn output(message: &str) -> String {
    // Some clients remove the space before an empty output.
    let message = format!("{} ", message.trim_end());
    let holes = FORMATS.iter().find_map(|format| matched(format, &message));
    let output = holes.and_then(|holes| hole(&holes, "output").map(str::to_owned));
    output.unwrap_or(message).trim().to_owned()
}
