//! The error table in docs/api.md, and the comparison of answers with its rows.

use std::collections::BTreeSet;

use serde_json::Value;
use tonic::Code;
use tonic_types::StatusExt as _;

use super::http::Reply;
use super::raw::Answer;

/// Details that an error may have in addition to its `ErrorInfo`.
const DETAILS: [&str; 5] = [
    "BadRequest",
    "PreconditionFailure",
    "QuotaFailure",
    "ResourceInfo",
    "RetryInfo",
];

/// The rows of the table.
pub(super) struct Table(Vec<Row>);

struct Row {
    cause: String,
    /// The codes of gRPC, Connect and HTTP. Empty if a protocol does not have the error.
    grpc: String,
    connect: String,
    http: String,
    /// Empty if the error does not come from the server itself.
    reason: String,
    details: BTreeSet<&'static str>,
    /// The documented metadata keys.
    metadata: Vec<String>,
    is_seen_by_grpc: bool,
    is_seen_by_http: bool,
}

// === impl Table ===

impl Table {
    pub(super) fn read() -> Self {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/api.md");
        let text = std::fs::read_to_string(path).unwrap();
        let rows = text
            .lines()
            .skip_while(|line| !line.starts_with("| cause |"));
        let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
        let rows: Vec<Row> = rows.map(Row::read).collect();
        assert!(rows.len() > 20);
        Self(rows)
    }

    /// The only row whose cause starts with this text.
    fn row(&mut self, cause: &str) -> &mut Row {
        let mut rows = self.0.iter_mut().filter(|row| row.cause.starts_with(cause));
        let row = rows.next().unwrap_or_else(|| panic!("no row {cause:?}"));
        assert!(rows.next().is_none(), "several rows {cause:?}");
        row
    }

    /// Compares a gRPC answer with its row.
    pub(super) fn grpc(&mut self, cause: &str, answer: &Answer) {
        let status = &answer.status;
        let row = self.row(cause);
        row.is_seen_by_grpc = true;
        assert_eq!(name_of(status.code()), row.grpc, "{cause}: {status:?}");
        let info = status.get_details_error_info();
        let info = info.unwrap_or_else(|| panic!("{cause}: {status:?}"));
        assert_eq!(info.reason, row.reason, "{cause}");
        for key in &row.metadata {
            assert!(info.metadata.contains_key(key), "{cause}: {info:?}");
        }
        let details = status.get_error_details();
        let carried = [
            details.bad_request().is_some(),
            details.precondition_failure().is_some(),
            details.quota_failure().is_some(),
            details.resource_info().is_some(),
            details.retry_info().is_some(),
        ];
        let carried = DETAILS.into_iter().zip(carried);
        let carried: BTreeSet<_> = carried.filter(|it| it.1).map(|it| it.0).collect();
        assert_eq!(carried, row.details, "{cause}");
    }

    /// Compares an HTTP answer with its row.
    pub(super) fn http(&mut self, cause: &str, reply: &Reply) {
        let row = self.row(cause);
        row.is_seen_by_http = true;
        assert_eq!(reply.status.to_string(), row.http, "{cause}: {reply:?}");
        if row.reason.is_empty() {
            return;
        }
        let error: Value = reply.json();
        assert_eq!(error["code"], row.connect.as_str(), "{cause}: {error}");
        let [info, others @ ..] = error["details"].as_array().unwrap().as_slice() else {
            panic!("{cause}: {error}");
        };
        assert_eq!(info["type"], "google.rpc.ErrorInfo", "{cause}");
        let info = &info["debug"];
        assert_eq!(info["reason"], row.reason.as_str(), "{cause}");
        for key in &row.metadata {
            assert!(info["metadata"].get(key).is_some(), "{cause}: {info}");
        }
        let carried = others.iter().map(|it| it["type"].as_str().unwrap());
        let carried: BTreeSet<_> = carried.map(|it| &it["google.rpc.".len()..]).collect();
        let promised: BTreeSet<_> = row.details.iter().copied().collect();
        assert_eq!(carried, promised, "{cause}");
    }

    /// Fails if a row has codes of a protocol for which no answer was compared.
    pub(super) fn check_complete(&self) {
        for row in &self.0 {
            let Row {
                cause,
                grpc,
                connect,
                http,
                ..
            } = row;
            assert_eq!(row.is_seen_by_grpc, !grpc.is_empty(), "gRPC: {cause}");
            assert_eq!(row.is_seen_by_http, !http.is_empty(), "HTTP: {cause}");
            let has_codes = !http.is_empty() && !row.reason.is_empty();
            assert_eq!(!connect.is_empty(), has_codes, "Connect: {cause}");
        }
    }
}

// === impl Row ===

impl Row {
    fn read(line: &str) -> Self {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let code = |index: usize| cells[index].trim_matches('–').to_owned();
        let (reason, metadata) = match cells[5].split_once("; metadata ") {
            Some((reason, metadata)) => (reason, metadata),
            None => (cells[5], ""),
        };
        let quoted = |text: &str| -> Vec<String> {
            let parts = text.split('`').skip(1).step_by(2);
            parts.map(str::to_owned).collect()
        };
        // Further reasons belong to other cases in the same row.
        let reason_name = quoted(reason).into_iter().next().unwrap_or_default();
        assert!(!reason_name.is_empty() || reason == "none", "{line}");
        let details = DETAILS.into_iter().filter(|it| reason.contains(it));
        Self {
            cause: cells[1].to_owned(),
            grpc: code(2),
            connect: code(3),
            http: code(4),
            reason: reason_name,
            details: details.collect(),
            metadata: quoted(metadata),
            is_seen_by_grpc: false,
            is_seen_by_http: false,
        }
    }
}

fn name_of(code: Code) -> &'static str {
    match code {
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        other => panic!("{other:?}"),
    }
}
