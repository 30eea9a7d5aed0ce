//! The configuration of traces from the standard variables of OpenTelemetry.
//!
//! As the specification requires, an invalid value is reported and treated as unset. These variables are often injected
//! into all pods of a cluster, so none of them may prevent a server from starting.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The destination of traces, and which ones are sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Traces {
    /// The collector, for example `http://127.0.0.1:4317`, with OTLP over gRPC. `https://` encrypts it. Default none:
    /// no traces are sent.
    pub endpoint: Option<String>,
    /// The sampling ratio of traces that start here, 0 to 1. Default 1.
    pub ratio: f64,
    /// Whether the caller's sampling decision takes precedence. Default yes.
    pub is_parent_based: bool,
    /// PEM file with the CA certificates for the collector. Default those of the system.
    pub ca: Option<PathBuf>,
    /// PEM files with the client certificate for the collector, and its key. Default none.
    pub client: Option<(PathBuf, PathBuf)>,
    /// The timeout of an export. Default 10 s.
    pub timeout: Duration,
    /// How long spans wait to be sent in a batch. Default 5 s.
    pub delay: Duration,
    /// The maximum number of queued spans. Further spans are dropped. Default 2048.
    pub queue_max: usize,
    /// The maximum number of spans in a batch. Default 512.
    pub batch_max: usize,
    /// The ignored variables with the reasons, logged at startup.
    pub ignored: Vec<String>,
}

/// Reads variables, and records the ignored ones.
struct Variables<F> {
    value: F,
    ignored: Vec<String>,
}

// === impl Traces ===

impl Default for Traces {
    fn default() -> Self {
        Self {
            endpoint: None,
            ratio: 1.0,
            is_parent_based: true,
            ca: None,
            client: None,
            timeout: Duration::from_secs(10),
            delay: Duration::from_secs(5),
            queue_max: 2048,
            batch_max: 512,
            ignored: Vec::new(),
        }
    }
}

impl Traces {
    /// Combines options and variables. Options take precedence. `OTEL_SDK_DISABLED` and `OTEL_TRACES_EXPORTER=none`
    /// always turn traces off.
    pub fn new(
        endpoint: Option<String>,
        ratio: Option<f64>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let mut variables = Variables {
            // The specification treats empty values as unset.
            value: |name: &str| variable(name).filter(|value| !value.trim().is_empty()),
            ignored: Vec::new(),
        };
        let is_on = variables.is_on();
        let from_variables = variables.endpoint();
        let (sampled, is_parent_based) = variables.sampler();
        variables.check_protocol();
        let default = Self::default();
        let path =
            |variables: &Variables<_>, name| variables.of_traces(name).map(|(_, path)| path.into());
        let cert: Option<PathBuf> = path(&variables, "CLIENT_CERTIFICATE");
        let key = path(&variables, "CLIENT_KEY");
        let (hour, most) = (3_600_000, 65_536);
        let timeout = match variables.of_traces("TIMEOUT") {
            Some((name, _)) => variables.number(&name, hour),
            None => None,
        };
        Self {
            endpoint: endpoint.or(from_variables).filter(|_| is_on),
            ratio: ratio.unwrap_or(sampled),
            is_parent_based: ratio.is_some() || is_parent_based,
            ca: path(&variables, "CERTIFICATE"),
            client: cert.zip(key),
            timeout: timeout.map_or(default.timeout, Duration::from_millis),
            delay: variables
                .number("OTEL_BSP_SCHEDULE_DELAY", hour)
                .map_or(default.delay, Duration::from_millis),
            queue_max: variables
                .number("OTEL_BSP_MAX_QUEUE_SIZE", most)
                .map_or(default.queue_max, |it| it as usize),
            batch_max: variables
                .number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", most)
                .map_or(default.batch_max, |it| it as usize),
            ignored: variables.ignored,
        }
    }

    /// The endpoint for the log, without the password that a URL may contain.
    pub(crate) fn shown_endpoint(&self) -> Option<String> {
        let endpoint = self.endpoint.as_deref()?;
        let (scheme, rest) = endpoint.split_once("://")?;
        let authority = rest.split(['/', '?']).next()?;
        let host = authority.rsplit('@').next()?;
        Some(format!("{scheme}://{host}"))
    }
}

/// Checks the URL of a collector.
pub(super) fn check_endpoint(endpoint: &str) -> Result<(), &'static str> {
    const WRONG: &str = "must be a URL with http or https, for example http://127.0.0.1:4317";
    let uri: http::Uri = endpoint.parse().map_err(|_| WRONG)?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(()),
        _ => Err(WRONG),
    }
}

// === impl Variables ===

impl<F: Fn(&str) -> Option<String>> Variables<F> {
    fn get(&self, name: &str) -> Option<String> {
        (self.value)(name)
    }

    /// The value of an exporter's variable, and the name of the variable. The variable for traces takes precedence.
    fn of_traces(&self, name: &str) -> Option<(String, String)> {
        ["TRACES_", ""].into_iter().find_map(|signal| {
            let name = format!("OTEL_EXPORTER_OTLP_{signal}{name}");
            self.get(&name).map(|value| (name, value))
        })
    }

    /// Records an ignored variable. Omits the value, which may be a misplaced secret.
    fn ignore(&mut self, name: &str, problem: &str) {
        self.ignored.push(format!("{name} is ignored: {problem}"));
    }

    fn is_true(&mut self, name: &str) -> bool {
        match self.get(name).map(|value| value.to_ascii_lowercase()) {
            Some(value) if value == "true" => true,
            Some(value) if value != "false" => {
                self.ignore(name, "must be true or false");
                false
            }
            Some(_) | None => false,
        }
    }

    /// Parses an integer from 1 to `max`.
    fn number(&mut self, name: &str, max: u64) -> Option<u64> {
        let value = self.get(name)?;
        let number = u64::from_str(value.trim()).ok();
        let number = number.filter(|number| (1..=max).contains(number));
        if number.is_none() {
            self.ignore(name, &format!("must be a whole number from 1 to {max}"));
        }
        number
    }

    fn is_on(&mut self) -> bool {
        const EXPORTER: &str = "OTEL_TRACES_EXPORTER";
        let is_disabled = self.is_true("OTEL_SDK_DISABLED");
        let exporters = self.get(EXPORTER).unwrap_or_else(|| "otlp".to_owned());
        let exporters: Vec<&str> = exporters.split(',').map(str::trim).collect();
        if exporters.iter().any(|it| !["otlp", "none"].contains(it)) {
            self.ignore(EXPORTER, "only otlp and none are supported");
        }
        !is_disabled && exporters != ["none"]
    }

    fn endpoint(&mut self) -> Option<String> {
        for name in [
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ] {
            let Some(endpoint) = self.get(name) else {
                continue;
            };
            let endpoint = match endpoint.contains("://") {
                true => endpoint,
                false if self.is_insecure() => format!("http://{endpoint}"),
                false => format!("https://{endpoint}"),
            };
            match check_endpoint(&endpoint) {
                Ok(()) => return Some(endpoint),
                Err(problem) => self.ignore(name, problem),
            }
        }
        None
    }

    /// Whether an endpoint without a scheme is unencrypted.
    fn is_insecure(&mut self) -> bool {
        match self.of_traces("INSECURE") {
            Some((name, _)) => self.is_true(&name),
            None => false,
        }
    }

    fn check_protocol(&mut self) {
        if let Some((name, protocol)) = self.of_traces("PROTOCOL")
            && protocol != "grpc"
        {
            self.ignore(&name, "only grpc is supported");
        }
    }

    /// The sampling ratio, and whether it depends on the caller's decision.
    fn sampler(&mut self) -> (f64, bool) {
        const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
        match self.get(SAMPLER).as_deref() {
            Some("always_on") => (1.0, false),
            Some("always_off") => (0.0, false),
            Some("traceidratio") => (self.ratio(), false),
            Some("parentbased_always_on") => (1.0, true),
            Some("parentbased_always_off") => (0.0, true),
            Some("parentbased_traceidratio") | None => (self.ratio(), true),
            // The meaning of the argument depends on the sampler.
            Some(_) => {
                self.ignore(
                    SAMPLER,
                    "use always_on, always_off, traceidratio or one of them with parentbased_",
                );
                (1.0, true)
            }
        }
    }

    fn ratio(&mut self) -> f64 {
        const ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
        let Some(value) = self.get(ARGUMENT) else {
            return 1.0;
        };
        let ratio = f64::from_str(value.trim()).ok();
        let ratio = ratio.filter(|ratio| (0.0..=1.0).contains(ratio));
        if ratio.is_none() {
            self.ignore(ARGUMENT, "must be from 0 to 1");
        }
        ratio.unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Traces {
        let value = |name: &str| {
            let found = variables.iter().find(|(it, _)| *it == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Traces::new(None, None, value)
    }

    #[test]
    fn endpoint_for_traces_wins_and_a_missing_scheme_is_added() {
        let endpoint = |variables: &[_]| read(variables).endpoint;
        let (of_all, of_traces) = (
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4317"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces:4317"),
        );
        assert_eq!(endpoint(&[]), None);
        assert_eq!(endpoint(&[of_all]), Some("http://all:4317".to_owned()));
        assert_eq!(
            endpoint(&[of_all, of_traces]),
            Some("https://traces:4317".to_owned())
        );
        let bare = ("OTEL_EXPORTER_OTLP_ENDPOINT", "all:4317");
        assert_eq!(endpoint(&[bare]), Some("https://all:4317".to_owned()));
        let insecure = ("OTEL_EXPORTER_OTLP_INSECURE", "True");
        assert_eq!(
            endpoint(&[bare, insecure]),
            Some("http://all:4317".to_owned())
        );
    }

    #[test]
    fn traces_are_turned_off_by_the_standard_switches() {
        let endpoint = "http://127.0.0.1:4317";
        for (name, value, is_on) in [
            ("OTEL_SDK_DISABLED", "TRUE", false),
            ("OTEL_SDK_DISABLED", "false", true),
            ("OTEL_TRACES_EXPORTER", "none", false),
            ("OTEL_TRACES_EXPORTER", "otlp", true),
        ] {
            let value = |it: &str| (it == name).then(|| value.to_owned());
            let traces = Traces::new(Some(endpoint.to_owned()), None, value);
            assert_eq!(traces.endpoint.is_some(), is_on, "{name}");
            assert_eq!(traces.ignored, [] as [String; 0]);
        }
    }

    #[test]
    fn standard_samplers_are_followed() {
        let sampler = |name, argument| {
            let variables = [
                ("OTEL_TRACES_SAMPLER", name),
                ("OTEL_TRACES_SAMPLER_ARG", argument),
            ];
            let Traces {
                ratio,
                is_parent_based,
                ignored,
                ..
            } = read(&variables);
            (ratio, is_parent_based, ignored.len())
        };
        assert_eq!(sampler("", ""), (1.0, true, 0));
        assert_eq!(sampler("", "0.25"), (0.25, true, 0));
        assert_eq!(sampler("always_on", "0.25"), (1.0, false, 0));
        assert_eq!(sampler("always_off", "hunter2"), (0.0, false, 0));
        assert_eq!(sampler("traceidratio", "0.25"), (0.25, false, 0));
        assert_eq!(sampler("traceidratio", ""), (1.0, false, 0));
        assert_eq!(sampler("parentbased_always_on", "0"), (1.0, true, 0));
        assert_eq!(sampler("parentbased_always_off", "1"), (0.0, true, 0));
        assert_eq!(sampler("parentbased_traceidratio", "0"), (0.0, true, 0));
        let argument = "endpoint=http://jaeger:14250,initialSamplingRate=0.25";
        assert_eq!(
            sampler("parentbased_jaeger_remote", argument),
            (1.0, true, 1)
        );
        for wrong in ["2", "-1", "nan", "half"] {
            assert_eq!(sampler("traceidratio", wrong), (1.0, false, 1), "{wrong}");
        }
        // The option takes precedence.
        let value = |name: &str| (name == "OTEL_TRACES_SAMPLER").then(|| "always_off".to_owned());
        let traces = Traces::new(None, Some(0.5), value);
        assert_eq!((traces.ratio, traces.is_parent_based), (0.5, true));
    }

    #[test]
    fn invalid_values_are_reported_and_treated_as_unset() {
        for (name, value) in [
            ("OTEL_SDK_DISABLED", "hunter2"),
            ("OTEL_TRACES_EXPORTER", "hunter2"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://hunter2"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "hunter 2"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "hunter2"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "18446744073709551615"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0"),
            ("OTEL_TRACES_SAMPLER", "hunter2"),
            ("OTEL_TRACES_SAMPLER_ARG", "hunter2"),
            ("OTEL_BSP_SCHEDULE_DELAY", "0"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "18446744073709551615"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "0"),
        ] {
            let Traces { ignored, .. } = read(&[(name, value)]);
            assert_eq!(ignored.len(), 1, "{name}");
            assert!(ignored[0].starts_with(&format!("{name} is ignored: ")));
            assert!(!ignored[0].contains("hunter"), "{ignored:?}");
            let traces = Traces {
                ignored: Vec::new(),
                ..read(&[(name, value)])
            };
            assert_eq!(traces, Traces::default(), "{name}");
            assert_eq!(read(&[(name, " ")]), Traces::default(), "{name}");
        }
    }

    #[test]
    fn endpoint_is_logged_without_its_password() {
        let shown = |endpoint: &str| {
            let endpoint = Some(endpoint.to_owned());
            let traces = Traces {
                endpoint,
                ..Traces::default()
            };
            traces.shown_endpoint().unwrap()
        };
        assert_eq!(shown("http://127.0.0.1:4317"), "http://127.0.0.1:4317");
        assert_eq!(shown("https://me:hunter2@b:1/c?d=e"), "https://b:1");
    }
}
