//! The errors of the server, which docs/reference/api.md lists, and the comparison of answers with them.

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

/// The protocols that have an error, with its codes.
#[derive(Clone, Copy)]
enum Protocols {
    /// gRPC and Connect with the same code, and the status of HTTP.
    All(Code, u16),
    /// gRPC only.
    Grpc(Code),
    /// Connect only, with the status of HTTP.
    Connect(&'static str, u16),
    /// HTTP only: the error does not come from a protocol above it.
    Http(u16),
}

struct Row {
    protocols: Protocols,
    /// Empty if the error has no `ErrorInfo`.
    reason: &'static str,
    cause: &'static str,
    advice: &'static str,
    details: BTreeSet<&'static str>,
    /// What the documentation adds to the reason and the details.
    remark: &'static str,
    /// The key of the metadata.
    metadata: Option<&'static str>,
    is_seen_by_grpc: bool,
    is_seen_by_http: bool,
}

/// All errors of the server, in the order of the documentation.
fn rows() -> Vec<Row> {
    use Protocols::{All, Connect, Grpc, Http};
    vec![
        Row::new(All(Code::InvalidArgument, 400), "INVALID_REQUEST")
            .cause("the request contradicts the contract")
            .with("BadRequest")
            .remark(" with all violations (field path and reason; the first 20, and how many more)")
            .advice(
                "correct the fields named; do not retry. If it is frequent, check the version of \
                 the caller: the log names the fields",
            ),
        Row::new(All(Code::ResourceExhausted, 429), "REQUEST_TOO_LARGE")
            .cause("a request exceeds one of [the limits](#limits)")
            .with("QuotaFailure")
            .advice(
                "send only what the Deployment owns or selects, or, for restarts, one namespace \
                 at a time",
            ),
        Row::new(All(Code::ResourceExhausted, 429), "ANSWER_TOO_LARGE")
            .cause("a response exceeds its limit")
            .with("QuotaFailure")
            .advice("delete old ReplicaSets, or make annotations and template smaller"),
        Row::new(All(Code::ResourceExhausted, 429), "OVERLOADED")
            .cause("the server is overloaded")
            .with("RetryInfo")
            .advice(
                "retry after the time in RetryInfo, then with backoff and jitter; add servers, or raise \
                 the limits of the server",
            ),
        Row::new(All(Code::DeadlineExceeded, 504), "DEADLINE_EXCEEDED")
            .cause(
                "not answered in time: within the deadline of the call, or the 10 s of the server",
            )
            .metadata("milliseconds")
            .advice(
                "retry with backoff, and a longer deadline if it was short; if it is frequent, calls are \
                 slow",
            ),
        Row::new(All(Code::FailedPrecondition, 400), "DEPLOYMENT_PAUSED")
            .cause("rollback of a paused Deployment")
            .with("PreconditionFailure")
            .advice("resume first"),
        Row::new(
            All(Code::FailedPrecondition, 400),
            "REPLICA_SETS_INCOMPLETE",
        )
        .cause("rollback or forecast without `replica_sets_complete`")
        .with("PreconditionFailure")
        .advice("send all ReplicaSets, and set it"),
        Row::new(All(Code::FailedPrecondition, 400), "PODS_INCOMPLETE")
            .cause("forecast without `pods_complete`")
            .with("PreconditionFailure")
            .advice("send all pods, and set it"),
        Row::new(All(Code::FailedPrecondition, 400), "NO_CANARY")
            .cause(
                "command about a canary that is refused, or a canary without all ReplicaSets and \
                 pods",
            )
            .with("PreconditionFailure")
            .remark(", or another reason of a refusal")
            .advice("see the message"),
        Row::new(All(Code::FailedPrecondition, 400), "NO_AVAILABLE_REVISION")
            .cause(
                "rollback to the last available revision, and no earlier revision has available \
                 pods",
            )
            .with("PreconditionFailure")
            .advice("choose a revision"),
        Row::new(All(Code::FailedPrecondition, 400), "NO_EARLIER_REVISION")
            .cause("rollback with no earlier revision")
            .with("PreconditionFailure")
            .advice("there is nothing to roll back to"),
        Row::new(All(Code::NotFound, 404), "REVISION_NOT_FOUND")
            .cause("rollback to a revision that does not exist")
            .with("ResourceInfo")
            .metadata("existing_revisions")
            .advice("choose one of these"),
        Row::new(All(Code::InvalidArgument, 400), "MALFORMED_REQUEST")
            .cause("bytes that cannot be decoded as a request")
            .advice("generate the client from this contract"),
        Row::new(Connect("invalid_argument", 400), "INVALID_JSON")
            .cause("text that is not the JSON of a request")
            .with("BadRequest")
            .remark(" with the field, as the text names it")
            .advice("correct the JSON; the message has line and column"),
        Row::new(All(Code::Unimplemented, 501), "UNSUPPORTED_ENCODING")
            .cause("a compression that is neither gzip nor zstd")
            .advice("use one of those, or none"),
        Row::new(Grpc(Code::Unimplemented), "CARDINALITY_VIOLATION")
            .cause("no message in a request, or more than one")
            .advice("send exactly one; generate the client from this contract"),
        Row::new(All(Code::InvalidArgument, 400), "MALFORMED_TIMEOUT")
            .cause(
                "a `grpc-timeout` that is not up to 8 digits and a unit, or a \
                 `Connect-Timeout-Ms` that is not up to 10 digits",
            )
            .advice("use a library of the protocol"),
        Row::new(
            Connect("invalid_argument", 400),
            "UNSUPPORTED_PROTOCOL_VERSION",
        )
        .cause("a `Connect-Protocol-Version` other than 1 (it may be absent)")
        .advice("use version 1"),
        Row::new(Connect("invalid_argument", 400), "INVALID_PARAMETER")
            .cause("a parameter of `/v1/*` that is unknown, malformed or given twice")
            .with("BadRequest")
            .remark(" with all of them")
            .advice("correct the parameters named"),
        Row::new(Connect("unknown", 415), "UNSUPPORTED_CONTENT_TYPE")
            .cause("a content type that `Accept-Post` of the answer does not list")
            .advice("use one of those; gRPC-Web needs a proxy"),
        Row::new(Connect("unknown", 405), "METHOD_NOT_ALLOWED")
            .cause("a method of HTTP other than POST")
            .advice("use POST"),
        Row::new(Connect("unknown", 505), "HTTP2_REQUIRED")
            .cause("gRPC over HTTP/1.1")
            .advice("use HTTP/2, or Connect; a proxy may have changed the version"),
        Row::new(All(Code::PermissionDenied, 403), "CLIENT_NOT_ALLOWED")
            .cause("a certificate without any of the names of `--tls-client-san`")
            .advice(
                "ask the operator to add one of the names in the message, which the log has too",
            ),
        Row::new(All(Code::Unimplemented, 404), "UNKNOWN_METHOD")
            .cause("an unknown method")
            .advice("generate the client from this contract"),
        Row::new(Grpc(Code::NotFound), "NOT_FOUND")
            .cause("a health check for an unknown service")
            .advice("request `\"\"` or `rollplan.v1.RolloutPlanner`"),
        Row::new(Http(431), "")
            .cause("headers of more than 16 KiB")
            .advice(
                "send less metadata, or raise `--header-bytes-max`; clients of gRPC report UNKNOWN",
            ),
        Row::new(Grpc(Code::Unavailable), "STOPPING")
            .cause("the server is stopping, or no server answers")
            .remark(" at the end of a stream; none if no server answers")
            .advice("retry on another server, with backoff; expected in a rolling restart"),
        Row::new(All(Code::Internal, 500), "INTERNAL_ERROR")
            .cause("a bug")
            .advice("report it with the request; the log has the panic"),
    ]
}

// === impl Protocols ===

impl Protocols {
    fn grpc(self) -> Option<&'static str> {
        match self {
            Self::All(code, _) | Self::Grpc(code) => Some(name_of(code)),
            Self::Connect(..) | Self::Http(_) => None,
        }
    }

    fn connect(self) -> Option<String> {
        match self {
            Self::All(code, _) => Some(name_of(code).to_lowercase()),
            Self::Connect(code, _) => Some(code.to_owned()),
            Self::Grpc(_) | Self::Http(_) => None,
        }
    }

    fn http(self) -> Option<u16> {
        match self {
            Self::All(_, status) | Self::Connect(_, status) | Self::Http(status) => Some(status),
            Self::Grpc(_) => None,
        }
    }
}

// === impl Table ===

impl Table {
    pub(super) fn new() -> Self {
        Self(rows())
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
        let code = name_of(status.code());
        assert_eq!(Some(code), row.protocols.grpc(), "{cause}: {status:?}");
        let info = status.get_details_error_info();
        let info = info.unwrap_or_else(|| panic!("{cause}: {status:?}"));
        assert_eq!(info.reason, row.reason, "{cause}");
        if let Some(key) = row.metadata {
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
        assert_eq!(
            Some(reply.status),
            row.protocols.http(),
            "{cause}: {reply:?}"
        );
        if row.reason.is_empty() {
            return;
        }
        let error: Value = reply.json();
        assert_eq!(
            error["code"].as_str(),
            row.protocols.connect().as_deref(),
            "{cause}: {error}"
        );
        let [info, others @ ..] = error["details"].as_array().unwrap().as_slice() else {
            panic!("{cause}: {error}");
        };
        assert_eq!(info["type"], "google.rpc.ErrorInfo", "{cause}");
        let info = &info["debug"];
        assert_eq!(info["reason"], row.reason, "{cause}");
        if let Some(key) = row.metadata {
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
            let cause = row.cause;
            let has = row.protocols;
            assert_eq!(row.is_seen_by_grpc, has.grpc().is_some(), "gRPC: {cause}");
            assert_eq!(row.is_seen_by_http, has.http().is_some(), "HTTP: {cause}");
        }
    }
}

// === impl Row ===

impl Row {
    fn new(protocols: Protocols, reason: &'static str) -> Self {
        Self {
            protocols,
            reason,
            cause: "",
            advice: "",
            details: BTreeSet::new(),
            remark: "",
            metadata: None,
            is_seen_by_grpc: false,
            is_seen_by_http: false,
        }
    }

    fn cause(mut self, text: &'static str) -> Self {
        self.cause = text;
        self
    }

    fn advice(mut self, text: &'static str) -> Self {
        self.advice = text;
        self
    }

    fn with(mut self, detail: &'static str) -> Self {
        assert!(DETAILS.contains(&detail));
        self.details.insert(detail);
        self
    }

    fn metadata(mut self, key: &'static str) -> Self {
        self.metadata = Some(key);
        self
    }

    fn remark(mut self, text: &'static str) -> Self {
        self.remark = text;
        self
    }

    /// The row of the documentation.
    fn cells(&self) -> Vec<String> {
        let protocols = self.protocols;
        let none = || "–".to_owned();
        let code = protocols.grpc().map(str::to_owned);
        let mut reason = match self.reason {
            "" => "none".to_owned(),
            reason => format!("`{reason}`"),
        };
        for detail in &self.details {
            reason = format!("{reason}, {detail}");
        }
        reason += self.remark;
        if let Some(key) = self.metadata {
            reason = format!("{reason}; metadata `{key}`");
        }
        vec![
            self.cause.to_owned(),
            code.or_else(|| protocols.connect()).unwrap_or_else(none),
            protocols.http().map_or_else(none, |it| it.to_string()),
            reason,
            self.advice.to_owned(),
        ]
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

#[test]
fn documentation_has_the_errors() {
    let headers = ["cause", "code", "HTTP", "reason, details", "what to do"];
    let table = rollplan_world::page::table(&headers, rows().iter().map(Row::cells));
    rollplan_world::page::check("docs/reference/api.md", "errors", &table);
}
