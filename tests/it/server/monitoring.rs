//! The dashboard and the alerts query only existing metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use prost::Message as _;
use rollplan::server::Config;
use rollplan_world::page::{self, table};
use serde_json::Value;

use super::observed::{get, mk_observed, sample};
use super::planners::Staged;
use super::{PATIENCE, Serving, mk_large_request, start_with, until};

/// The flag and the length before a gRPC message.
const PREFIX_BYTES: usize = 5;

fn read(file: &str) -> String {
    let path = format!("{}/docs/monitoring/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

/// The use of one metric in a PromQL query.
#[derive(Debug, Default, PartialEq)]
struct Needed {
    metric: String,
    /// The labels by which it is grouped.
    by: Vec<String>,
    matchers: Vec<Matcher>,
}

/// `label="value"`, `label!="value"`, `label=~"value|value"`.
#[derive(Debug, PartialEq)]
struct Matcher {
    label: String,
    is_negative: bool,
    values: Vec<String>,
}

/// Name and labels of a series.
type Series = (String, BTreeMap<String, String>);

/// Labels that Prometheus adds to every series.
const OF_TARGETS: [&str; 2] = ["instance", "job"];

/// The contents of the brackets at the start of a text, and the rest.
fn bracketed(text: &str, open: char, close: char) -> Option<(&str, &str)> {
    text.trim_start().strip_prefix(open)?.split_once(close)
}

/// The metrics in a query, recognized by our prefixes, each with its grouping.
fn needed(query: &str) -> Vec<Needed> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut found, mut by) = (Vec::new(), Vec::new());
    let mut rest = query;
    while let Some(start) = rest.find(is_name) {
        let tail = &rest[start..];
        let (word, tail) = tail.split_at(tail.find(|c| !is_name(c)).unwrap_or(tail.len()));
        rest = tail;
        match word {
            "sum" | "count" => by.clear(),
            "by" => {
                let (labels, _) = bracketed(tail, '(', ')').unwrap();
                by = labels.split(',').map(|it| it.trim().to_owned()).collect();
            }
            _ if ["grpc_server_", "rollplan_", "process_"]
                .iter()
                .any(|start| word.starts_with(start)) =>
            {
                let braced = bracketed(tail, '{', '}');
                let matchers = braced.map_or(Vec::new(), |(text, after)| {
                    rest = after;
                    text.split(',').map(matcher).collect()
                });
                found.push(Needed {
                    metric: word.to_owned(),
                    by: by.clone(),
                    matchers,
                });
            }
            _ => {}
        }
    }
    found
}

fn matcher(text: &str) -> Matcher {
    let (label, value) = text.split_once('=').unwrap();
    let is_negative = label.ends_with('!');
    let values = value.trim_start_matches('~').trim_matches('"');
    Matcher {
        label: label.trim_end_matches('!').to_owned(),
        is_negative,
        values: values.split('|').map(str::to_owned).collect(),
    }
}

fn series(scrape: &str) -> Vec<Series> {
    let lines = scrape
        .lines()
        .filter(|it| !it.starts_with('#') && !it.is_empty());
    lines
        .map(|line| {
            let end = line.find(['{', ' ']).unwrap();
            let labels = bracketed(&line[end..], '{', '}').map_or("", |(labels, _)| labels);
            let labels = labels.split_terminator(',').map(|label| {
                let (name, value) = label.split_once('=').unwrap();
                (name.to_owned(), value.trim_matches('"').to_owned())
            });
            (line[..end].to_owned(), labels.collect())
        })
        .collect()
}

/// Checks that each metric exists, with all labels and values in the query on the same series. `shown` are the labels in
/// the legend or the text.
fn check(query: &str, shown: &[&str], existing: &[Series]) -> Result<(), String> {
    let all = needed(query);
    if all.is_empty() {
        return Err(format!("no metric in {query}"));
    }
    for Needed {
        metric,
        by,
        matchers,
    } in &all
    {
        let series: Vec<_> = existing.iter().filter(|(name, _)| name == metric).collect();
        if series.is_empty() {
            return Err(format!("no {metric}"));
        }
        let labels = by.iter().chain(matchers.iter().map(|it| &it.label));
        for label in labels.filter(|it| !OF_TARGETS.contains(&it.as_str())) {
            if !series.iter().all(|(_, labels)| labels.contains_key(label)) {
                return Err(format!("{metric} has no {label}"));
            }
        }
        let mut left = series.clone();
        for Matcher {
            label,
            values,
            is_negative,
        } in matchers
        {
            for value in values {
                if !series.iter().any(|(_, labels)| labels[label] == *value) {
                    return Err(format!("{metric} has no {label} of {value}"));
                }
            }
            left.retain(|(_, labels)| values.contains(&labels[label]) != *is_negative);
        }
        if left.is_empty() {
            return Err(format!("no {metric} has all of {matchers:?}"));
        }
    }
    for label in shown {
        if !OF_TARGETS.contains(label) && !all.iter().all(|it| it.by.iter().any(|by| by == label)) {
            return Err(format!("{label} is shown of {query}"));
        }
    }
    Ok(())
}

/// The labels in a legend or a text: `{{label}}`, `{{ $labels.label }}`.
fn shown(text: &str) -> Vec<&str> {
    let parts = text.split("{{").skip(1);
    parts
        .map(|part| {
            let name = part.split_once("}}").unwrap().0.trim();
            name.trim_start_matches("$labels.")
        })
        .collect()
}

#[tokio::test]
async fn dashboard_and_alerts_use_existing_metrics_and_labels() {
    let http = start_with(mk_observed()).await.http.unwrap();
    let (_, scrape) = get(http, "/metrics").await;
    let existing = series(&scrape);

    let dashboard: Value = serde_json::from_str(&read("dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let text = |target: &Value, name: &str| target[name].as_str().unwrap().to_owned();
    let targets: Vec<_> = targets
        .map(|target| (text(target, "expr"), text(target, "legendFormat")))
        .collect();
    assert!(targets.len() >= 15);
    for metric in [
        "rollplan_buffer_bytes",
        "rollplan_large_plans_running",
        "rollplan_large_plans_waiting",
        "rollplan_request_bytes_bucket",
    ] {
        let is_shown = targets.iter().any(|(query, _)| query.contains(metric));
        assert!(is_shown, "{metric}");
    }
    for (query, legend) in targets {
        assert_eq!(check(&query, &shown(&legend), &existing), Ok(()), "{query}");
    }

    // The text between `expr:` and the next key.
    let alerts = read("alerts.yaml");
    let alerts: Vec<_> = alerts.split("expr:").skip(1).collect();
    assert!(alerts.len() >= 9);
    for alert in alerts {
        let (query, texts) = alert.split_once("\n        for:").unwrap();
        assert_eq!(check(query, &shown(texts), &existing), Ok(()), "{query}");
    }
}

/// Labels with a fixed set of values.
const OF_OUTCOMES: [&str; 3] = ["reason", "outcome", "strategy"];

/// The labels of a metric, for a cell of a table.
fn labels(metric: &str, existing: &[Series]) -> String {
    let mut labels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, values) in existing {
        // A histogram has several series.
        let is_metric = name
            .strip_prefix(metric)
            .is_some_and(|end| ["", "_count"].contains(&end));
        for (label, value) in values.iter().filter(|_| is_metric) {
            labels.entry(label).or_default().insert(value);
        }
    }
    let cells = labels.into_iter().map(|(label, values)| {
        if OF_OUTCOMES.contains(&label) {
            let values: Vec<_> = values.into_iter().collect();
            format!("`{label}`: {}", values.join(", "))
        } else {
            format!("`{label}`")
        }
    });
    cells.collect::<Vec<_>>().join("; ")
}

#[tokio::test]
async fn page_lists_the_metrics() {
    let http = start_with(mk_observed()).await.http.unwrap();
    let (_, scrape) = get(http, "/metrics").await;
    let existing = series(&scrape);
    let helps = scrape
        .lines()
        .filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '));
    let own: BTreeMap<_, _> = helps
        .filter(|(name, _)| !name.starts_with("process_"))
        .collect();
    let rows = own.into_iter().map(|(name, text)| {
        vec![
            format!("`{name}`"),
            labels(name, &existing),
            text.to_owned(),
        ]
    });
    let table = table(&["metric", "labels", "meaning"], rows);
    page::check("docs/reference/service.md", "metrics", &table);
}

#[test]
fn queries_are_parsed() {
    let query = r#"sum by (x, y) (rate(rollplan_a_total{b=~"c|d",e!="f"}[5m])) / count(process_g)"#;
    let matcher = |label: &str, is_negative, values: &[&str]| Matcher {
        label: label.to_owned(),
        is_negative,
        values: values.iter().map(|&it| it.to_owned()).collect(),
    };
    let expected = [
        Needed {
            metric: "rollplan_a_total".to_owned(),
            by: vec!["x".to_owned(), "y".to_owned()],
            matchers: vec![matcher("b", false, &["c", "d"]), matcher("e", true, &["f"])],
        },
        Needed {
            metric: "process_g".to_owned(),
            ..Needed::default()
        },
    ];
    assert_eq!(needed(query), expected);
    assert_eq!(shown("{{a}} of {{ $labels.b }}"), ["a", "b"]);
}

#[test]
fn queries_for_missing_metrics_and_labels_are_reported() {
    let scrape =
        "# HELP\nrollplan_a{b=\"c\",d=\"e\"} 1\nrollplan_a{b=\"f\",d=\"g\"} 1\nprocess_b 2\n";
    let existing = series(scrape);
    let check = |query: &str, shown: &[&str]| check(query, shown, &existing).is_ok();
    assert!(check(
        r#"sum by (b) (rollplan_a{b="c",d!="g"}) / count(process_b)"#,
        &[]
    ));
    assert!(check(
        "sum by (b, instance) (rollplan_a)",
        &["b", "instance"]
    ));
    for wrong in [
        "rollplan_b",
        "sum(up)",
        "sum by (c) (rollplan_a)",
        r#"rollplan_a{c="c"}"#,
        r#"rollplan_a{c!="c"}"#,
        r#"rollplan_a{b="e"}"#,
        r#"rollplan_a{b=~"c|x"}"#,
        r#"rollplan_a{b="c",d="g"}"#,
        r#"process_b{b="c"}"#,
        "rollplan_a / sum by (b) (process_b)",
    ] {
        assert!(!check(wrong, &[]), "{wrong}");
    }
    assert!(!check("sum by (b) (rollplan_a)", &["d"]));
}

/// Large plans are computed one at a time. While the second one waits, the memory of both is reserved.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_and_memory_of_large_plans_are_measured() {
    let staged = Staged::default();
    let config = Config {
        large_plans_max: 1,
        deadline_max: PATIENCE * 2,
        ..mk_observed()
    };
    let Serving { client, http, .. } = staged.start(config).await;
    let measured = async |name| sample(&get(http.unwrap(), "/metrics").await.1, name, &[]);
    for name in [
        "rollplan_buffer_bytes",
        "rollplan_large_plans_running",
        "rollplan_large_plans_waiting",
        "rollplan_request_bytes_count",
        "rollplan_request_bytes_sum",
    ] {
        assert_eq!(measured(name).await, 0.0, "{name}");
    }

    let request = mk_large_request();
    let bytes = (request.encoded_len() + PREFIX_BYTES) as f64;
    let call = || {
        let (mut client, request) = (client.clone(), request.clone());
        tokio::spawn(async move { client.plan_rollout(request).await })
    };
    let first = call();
    staged.started.notified().await;
    assert_eq!(measured("rollplan_large_plans_running").await, 1.0);
    assert_eq!(measured("rollplan_large_plans_waiting").await, 0.0);
    let held_by_one = measured("rollplan_buffer_bytes").await;
    assert!(held_by_one >= bytes, "{held_by_one} of {bytes}");
    let second = call();
    until("the second one waits", async || {
        measured("rollplan_large_plans_waiting").await == 1.0
    })
    .await;
    assert_eq!(measured("rollplan_large_plans_running").await, 1.0);
    let held_by_both = measured("rollplan_buffer_bytes").await;
    assert!(held_by_both >= held_by_one + bytes, "{held_by_both}");
    assert_eq!(measured("rollplan_request_bytes_count").await, 2.0);
    assert_eq!(measured("rollplan_request_bytes_sum").await, 2.0 * bytes);

    staged.go_on.notify_one();
    first.await.unwrap().unwrap();
    staged.started.notified().await;
    staged.go_on.notify_one();
    second.await.unwrap().unwrap();
    until("everything is given back", async || {
        measured("rollplan_large_plans_running").await == 0.0
            && measured("rollplan_buffer_bytes").await == 0.0
    })
    .await;
    assert_eq!(measured("rollplan_large_plans_waiting").await, 0.0);
    assert_eq!(measured("rollplan_request_bytes_sum").await, 2.0 * bytes);
}

/// In a checkout, the build knows its commit. A build from an archive takes it from ROLLPLAN_COMMIT, if set.
#[tokio::test]
async fn build_info_has_the_commit() {
    let commit = env!("ROLLPLAN_COMMIT");
    if Path::new(env!("CARGO_MANIFEST_DIR")).join(".git").exists() {
        assert!(commit.len() >= 7, "{commit}");
        assert!(commit.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
    let config = Config {
        commit,
        ..mk_observed()
    };
    let http = start_with(config).await.http.unwrap();
    let (_, scrape) = get(http, "/metrics").await;
    let labels = [("version", env!("CARGO_PKG_VERSION")), ("commit", commit)];
    assert_eq!(sample(&scrape, "rollplan_build_info", &labels), 1.0);
}
