//! Every setting has an option, a variable, a field in the log, and a row in docs/reference/service.md.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use rollplan::server::Config;
use serde_json::{Value, json};

use super::certificates::Authority;
use super::process::{self, command};
use super::tls::Directory;

/// The first line of the log, without the fields that every line has.
fn logged(args: &[String], variables: &[(String, String)]) -> BTreeMap<String, Value> {
    let mut child = command()
        .args(args)
        .envs(variables.iter().cloned())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    said.read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let mut line: BTreeMap<String, Value> = serde_json::from_str(&line).expect(&line);
    assert_eq!(line.remove("message"), Some(json!("rollplan starts")));
    for field in ["timestamp", "level"] {
        assert!(line.remove(field).is_some());
    }
    line
}

/// The option, a value other than the default, and the value in the log.
fn settings(directory: &Directory) -> Vec<(&'static str, String, Value)> {
    let file = |name: &str| {
        let path = directory.path(name).display().to_string();
        (path.clone(), json!(path))
    };
    let own = |(given, logged): (&str, Value)| (given.to_owned(), logged);
    [
        ("listen", own(("127.0.0.1:0", json!("127.0.0.1:0")))),
        ("http-listen", own(("[::]:0", json!("[::]:0")))),
        ("tls-cert", file("tls.crt")),
        ("tls-key", file("tls.key")),
        ("tls-client-ca", file("ca.crt")),
        (
            "tls-client-san",
            own(("a.svc,spiffe://b/*", json!("a.svc,spiffe://b/*"))),
        ),
        (
            "cors-allow-origin",
            own(("http://a:1,https://b", json!("http://a:1,https://b"))),
        ),
        ("page", own(("off", json!(false)))),
        ("compress-answers-min", own(("4096", json!(4096)))),
        ("deadline-max", own(("11s", json!(11.0)))),
        ("concurrent-calls-max", own(("12", json!(12)))),
        ("queue-time-max", own(("13ms", json!(0.013)))),
        ("large-plans-max", own(("999", json!(999)))),
        ("buffer-mib-max", own(("33", json!(33)))),
        ("connections-max", own(("14", json!(14)))),
        ("streams-max", own(("15", json!(15)))),
        ("header-bytes-max", own(("1600", json!(1600)))),
        ("keepalive-interval", own(("17s", json!(17.0)))),
        ("keepalive-timeout", own(("18s", json!(18.0)))),
        ("connection-age-max", own(("19m", json!(1140.0)))),
        ("drain-delay", own(("21s", json!(21.0)))),
        ("drain-grace", own(("22s", json!(22.0)))),
        (
            "otlp-endpoint",
            own(("http://127.0.0.1:1", json!("http://127.0.0.1:1"))),
        ),
        ("trace-ratio", own(("0.25", json!(0.25)))),
        ("slow-call", own(("23s", json!(23.0)))),
    ]
    .map(|(option, (given, logged))| (option, given, logged))
    .into()
}

/// The field of the log for an option.
fn field(option: &str) -> String {
    let name = option.replace('-', "_");
    let is_time = [
        "deadline",
        "queue_time",
        "keepalive",
        "_age",
        "drain",
        "slow",
    ]
    .iter()
    .any(|part| name.contains(part));
    if is_time { name + "_seconds" } else { name }
}

/// Option, variable and default of each row in docs/reference/service.md.
fn rows() -> Vec<[String; 3]> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/service.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| `--"));
    rows.map(|row| {
        let cells: Vec<&str> = row
            .split('|')
            .map(|it| it.trim().trim_matches('`'))
            .collect();
        [&cells[1][2..], cells[2], cells[3]].map(str::to_owned)
    })
    .collect()
}

#[test]
fn every_setting_has_an_option_and_a_variable() {
    let directory = Directory::new();
    let authority = Authority::new();
    directory.rotate(&authority.sign());
    directory.write("ca.crt", &authority.pem);
    let settings = settings(&directory);

    let mut expected: BTreeMap<String, Value> = settings
        .iter()
        .map(|(option, _, logged)| (field(option), logged.clone()))
        .collect();
    expected.extend(constants());
    let args: Vec<String> = settings
        .iter()
        .flat_map(|(option, given, _)| [format!("--{option}"), given.clone()])
        .collect();
    assert_eq!(logged(&args, &[]), expected);

    let rows = rows();
    let variable = |option: &str| {
        let row = rows.iter().find(|[it, ..]| it == option);
        row.unwrap_or_else(|| panic!("no row for {option}"))[1].clone()
    };
    let variables: Vec<(String, String)> = settings
        .iter()
        .map(|(option, given, _)| (variable(option), given.clone()))
        .collect();
    assert_eq!(logged(&[], &variables), expected);
    // The option takes precedence.
    let args = ["--streams-max".to_owned(), "77".to_owned()];
    expected.insert("streams_max".to_owned(), json!(77));
    assert_eq!(logged(&args, &variables), expected);
}

/// Fields of the log that no option sets.
fn constants() -> [(String, Value); 5] {
    [
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("commit", json!(env!("ROLLPLAN_COMMIT"))),
        ("trace_parent_based", json!(true)),
        ("request_bytes_max", json!(16 << 20)),
        ("answer_bytes_max", json!(4 << 20)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
}

/// The defaults in docs/reference/service.md, which come from the help, are those of the program.
#[test]
fn table_of_settings_matches_the_program() {
    let rows = rows();
    // The default port may be in use.
    let listen = ["--listen".to_owned(), "127.0.0.1:0".to_owned()];
    let mut logged = logged(&listen, &[]);
    let default = json!(Config::default().listen.to_string());
    logged.insert("listen".to_owned(), default);
    for (name, value) in constants() {
        assert_eq!(logged.remove(&name), Some(value), "{name}");
    }
    for [option, _, default] in &rows {
        let value = logged.remove(&field(option));
        assert_eq!(read(default), value, "{option}");
    }
    // This is not a setting. It is only logged if the test itself has a memory limit.
    logged.remove("memory_limit_bytes");
    assert_eq!(logged, BTreeMap::new());
    // Settings without a value have none in the library either.
    let default = Config::default();
    assert_eq!(default.http_listen, None);
    assert_eq!(default.tls, None);
    assert_eq!(default.tls_client_sans, Vec::<String>::new());
    assert_eq!(default.compress_answers_min, None);
    assert_eq!(default.connection_age_max, None);
    assert_eq!(default.traces.endpoint, None);
}

/// A default in the table, as the log shows it.
fn read(text: &str) -> Option<Value> {
    let number = |text: &str| text.parse::<f64>().ok();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Some(match text {
        "none" => return None,
        "one for each core" => json!(cores),
        "from the memory limit" => json!(Config::default().buffer_mib_max),
        "on" => json!(true),
        // A ratio, which is logged as a fraction.
        "1" => json!(1.0),
        _ => {
            if let Some(milliseconds) = text.strip_suffix("ms") {
                json!(number(milliseconds).unwrap() / 1000.0)
            } else if let Some(seconds) = text.strip_suffix('s') {
                json!(number(seconds).unwrap())
            } else {
                text.parse::<u64>()
                    .map_or(json!(text), |count| json!(count))
            }
        }
    })
}

/// The error of a server that does not start, which must be one line.
fn refused(args: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = command();
    command.args(args).envs(variables.iter().copied());
    let (code, said) = process::refused(command);
    assert_eq!(code, Some(2), "{said}");
    assert_eq!(said.matches('\n').count(), 1, "{said}");
    said.trim_end().to_owned()
}

#[test]
fn invalid_configuration_is_reported_in_one_line() {
    let invalid =
        "error: invalid value 'here' for '--listen <ADDRESS:PORT>': invalid socket address syntax";
    assert_eq!(refused(&["--listen", "here"], &[]), invalid);
    assert_eq!(refused(&[], &[("ROLLPLAN_LISTEN", "here")]), invalid);
    assert_eq!(
        refused(&["--tls-cert", "/no"], &[]),
        "error: the following required arguments were not provided: --tls-key <FILE>"
    );
    assert_eq!(
        refused(&["--lisen", "127.0.0.1:0"], &[]),
        "error: unexpected argument '--lisen' found"
    );
    assert_eq!(
        refused(&["--drain-grace", "99999s"], &[]),
        "error: drain_grace must be from 0ns to 3600s, not 99999s"
    );
    let said = refused(&["--tls-cert", "/no", "--tls-key", "/no"], &[]);
    assert!(
        said.starts_with("error: tls /no cannot be read: "),
        "{said}"
    );
}

#[test]
fn empty_variables_count_as_unset() {
    let listen = ["--listen".to_owned(), "127.0.0.1:0".to_owned()];
    let rows = rows();
    let empty: Vec<_> = rows
        .into_iter()
        .map(|[_, variable, _]| (variable, String::new()))
        .chain([("TOKIO_WORKER_THREADS".to_owned(), String::new())])
        .collect();
    assert!(empty.len() > 20);
    assert_eq!(logged(&listen, &empty), logged(&listen, &[]));
}

#[test]
fn invalid_number_of_threads_is_refused() {
    for wrong in ["0", "many"] {
        assert_eq!(
            refused(&[], &[("TOKIO_WORKER_THREADS", wrong)]),
            "error: TOKIO_WORKER_THREADS must be a whole number from 1 to 1024"
        );
    }
}

/// In many clusters, these variables are injected into every pod.
#[test]
fn opentelemetry_variables_never_prevent_startup() {
    let mut command = command();
    // All variables of the specification for traces, with values that occur in practice or are invalid.
    command.envs([
        ("OTEL_SDK_DISABLED", "maybe"),
        ("OTEL_SERVICE_NAME", ""),
        ("OTEL_RESOURCE_ATTRIBUTES", ",=,a,b=%zz"),
        ("OTEL_LOG_LEVEL", "hunter2"),
        ("OTEL_PROPAGATORS", "b3,hunter2"),
        ("OTEL_TRACES_EXPORTER", "otlp,console"),
        ("OTEL_TRACES_SAMPLER", "parentbased_jaeger_remote"),
        ("OTEL_TRACES_SAMPLER_ARG", "endpoint=http://hunter2:14250"),
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "https://me:hunter2@127.0.0.1:1",
        ),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "hunter2://"),
        ("OTEL_EXPORTER_OTLP_INSECURE", "hunter2"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "hunter2"),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=hunter2,\u{e9}=\n,%=%",
        ),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "hunter2"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no"),
        ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/dev/null"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/dev/null"),
        ("OTEL_BSP_SCHEDULE_DELAY", "-1"),
        ("OTEL_BSP_EXPORT_TIMEOUT", "-1"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "18446744073709551615"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "0"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "-1"),
    ]);
    command.args(["--listen", "127.0.0.1:0"]);
    let (_, said) = process::refused(command);
    assert!(said.contains("listening on"), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
    for ignored in [
        "OTEL_SDK_DISABLED is ignored: must be true or false",
        "OTEL_TRACES_EXPORTER is ignored: only otlp and none are supported",
        "OTEL_TRACES_SAMPLER is ignored: ",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is ignored: must be a URL",
        "OTEL_EXPORTER_OTLP_PROTOCOL is ignored: only grpc is supported",
        "OTEL_EXPORTER_OTLP_TIMEOUT is ignored: ",
        "/no is ignored for traces: ",
        "/dev/null is ignored for traces: no certificate in PEM found",
        "OTEL_BSP_SCHEDULE_DELAY is ignored: ",
        "OTEL_BSP_MAX_QUEUE_SIZE is ignored: ",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE is ignored: ",
    ] {
        assert!(said.contains(ignored), "{ignored} in {said}");
    }
}

/// The only error that occurs after the first line of the log.
#[test]
fn unavailable_port_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for args in [
        ["--listen", &*taken, "--http-listen", "127.0.0.1:0"],
        ["--listen", "127.0.0.1:0", "--http-listen", &*taken],
    ] {
        let mut command = command();
        command.args(args);
        let (code, said) = process::refused(command);
        assert_eq!(code, Some(2), "{said}");
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].contains("rollplan starts"), "{said}");
        let named = format!("error: cannot listen on {taken}: ");
        assert!(lines[1].starts_with(&named), "{said}");
        assert_eq!(lines.len(), 2, "{said}");
    }
}
