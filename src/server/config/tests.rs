//! Tests of the validation of settings.

use super::*;

fn check(change: impl FnOnce(&mut Config)) -> Result<(), String> {
    let mut config = Config::default();
    change(&mut config);
    config.check().map_err(|error| error.to_string())
}

/// Checks that the bounds are valid, and the next values beyond them are not.
fn check_bounds<T: Copy>(
    setting: &str,
    set: fn(&mut Config, T),
    within: [T; 2],
    beyond: [Option<T>; 2],
) {
    for value in within {
        assert_eq!(check(|config| set(config, value)), Ok(()), "{setting}");
    }
    for value in beyond.into_iter().flatten() {
        let problem = check(|config| set(config, value)).expect_err(setting);
        assert!(
            problem.starts_with(&format!("{setting} must be from ")),
            "{problem}"
        );
    }
}

#[test]
fn times_have_bounds() {
    let bounds = |setting, set, min: Duration, max: Duration| {
        let step = Duration::from_nanos(1);
        let beyond = [min.checked_sub(step), Some(max + step)];
        check_bounds(setting, set, [min, max], beyond);
    };
    let ms = Duration::from_millis(1);
    let second = Duration::from_secs(1);
    let hour = second * 3600;
    let day = hour * 24;
    let zero = Duration::ZERO;
    bounds("deadline_max", |it, time| it.deadline_max = time, ms, hour);
    bounds(
        "queue_time_max",
        |it, time| it.queue_time_max = time,
        ms,
        hour,
    );
    bounds(
        "keepalive_interval",
        |it, time| it.keepalive_interval = time,
        second,
        day,
    );
    bounds(
        "keepalive_timeout",
        |it, time| it.keepalive_timeout = time,
        second,
        hour,
    );
    bounds(
        "connection_age_max",
        |it, time| it.connection_age_max = Some(time),
        second,
        day,
    );
    bounds("drain_delay", |it, time| it.drain_delay = time, zero, hour);
    bounds("drain_grace", |it, time| it.drain_grace = time, zero, hour);
    bounds("slow_call", |it, time| it.slow_call = time, zero, hour);
}

#[test]
fn counts_have_bounds() {
    let bounds = |setting, set, min: usize, max: usize| {
        let beyond = [min.checked_sub(1), Some(max + 1)];
        check_bounds(setting, set, [min, max], beyond);
    };
    bounds(
        "concurrent_calls_max",
        |it, count| it.concurrent_calls_max = count,
        1,
        100_000,
    );
    bounds(
        "large_plans_max",
        |it, count| it.large_plans_max = count,
        1,
        1_000,
    );
    bounds(
        "buffer_mib_max",
        |it, count| it.buffer_mib_max = count,
        32,
        1 << 20,
    );
    bounds(
        "connections_max",
        |it, count| it.connections_max = count,
        1,
        1_000_000,
    );
    bounds(
        "streams_max",
        |it, count| it.streams_max = count as u32,
        1,
        100_000,
    );
    bounds(
        "header_bytes_max",
        |it, count| it.header_bytes_max = count as u32,
        1 << 10,
        MIB,
    );
    bounds(
        "compress_answers_min",
        |it, count| it.compress_answers_min = Some(count),
        1,
        4 * MIB,
    );
}

#[test]
fn defaults_are_valid_and_errors_name_the_setting() {
    assert_eq!(check(|_| {}), Ok(()));
    assert_eq!(
        check(|config| config.drain_grace = Duration::from_secs(3601)),
        Err("drain_grace must be from 0ns to 3600s, not 3601s".to_owned())
    );
    assert_eq!(
        check(|config| config.concurrent_calls_max = 0),
        Err("concurrent_calls_max must be from 1 to 100000, not 0".to_owned())
    );
    for ratio in [0.0, 1.0] {
        assert_eq!(check(|config| config.traces.ratio = ratio), Ok(()));
    }
    for ratio in [-0.1, 1.1, f64::NAN] {
        assert_eq!(
            check(|config| config.traces.ratio = ratio),
            Err("trace_ratio must be from 0 to 1".to_owned())
        );
    }
}

#[test]
fn client_names_require_client_certificates() {
    let check = |names: &[&str], client_ca: Option<&str>| {
        check(|config| {
            config.tls_client_sans = names.iter().map(|name| (*name).to_owned()).collect();
            config.tls = Some(TlsFiles {
                cert: "cert".into(),
                key: "key".into(),
                client_ca: client_ca.map(Into::into),
            });
        })
    };
    assert_eq!(check(&[], None), Ok(()));
    assert_eq!(check(&["web.svc", "spiffe://a/*"], Some("ca")), Ok(()));
    let needs = "tls_client_san needs tls_client_ca: without it, clients show no certificates";
    assert_eq!(check(&["web.svc"], None), Err(needs.to_owned()));
    let problem = check(&["web.svc", "*.svc"], Some("ca")).unwrap_err();
    assert!(
        problem.starts_with("tls_client_san \"*.svc\" may have * only"),
        "{problem}"
    );
}

#[test]
fn origins_have_the_form_that_browsers_send() {
    let check = |origin: &str| check(|config| config.cors_allow_origins = vec![origin.to_owned()]);
    for origin in [
        "https://console.example.com",
        "http://localhost:8080",
        "http://[::1]:8080",
    ] {
        assert_eq!(check(origin), Ok(()), "{origin}");
    }
    for wrong in [
        "",
        "*",
        "null",
        "https://",
        "console.example.com",
        "ftp://console.example.com",
        "https://console.example.com/",
        "https://*.example.com",
        "https://Console.example.com",
        "https://a,https://b",
        "https://a b",
    ] {
        let problem = check(wrong).expect_err(wrong);
        let expected = format!("cors_allow_origin {wrong:?} is not an origin, such as ");
        assert!(problem.starts_with(&expected), "{problem}");
    }
}

#[test]
fn large_call_limit_is_half_of_all_and_at_least_the_computed() {
    let large = |concurrent_calls_max, large_plans_max| {
        let config = Config {
            concurrent_calls_max,
            large_plans_max,
            ..Config::default()
        };
        config.large_calls_max()
    };
    assert_eq!(large(100, 2), 50);
    assert_eq!(large(1, 2), 2);
}

#[test]
fn trace_endpoint_must_be_an_http_or_https_url() {
    let check = |endpoint: &str| check(|config| config.traces.endpoint = Some(endpoint.to_owned()));
    for endpoint in ["http://127.0.0.1:4317", "https://collector:4317"] {
        assert_eq!(check(endpoint), Ok(()));
    }
    for wrong in [
        "",
        "collector:4317",
        "http://",
        "http://:4317",
        "grpc://x",
        "a b",
    ] {
        let problem =
            "otlp_endpoint must be a URL with http or https, for example http://127.0.0.1:4317";
        assert_eq!(check(wrong), Err(problem.to_owned()), "{wrong}");
    }
}
