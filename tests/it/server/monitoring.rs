//! What dashboard and alerts ask for is there.

use std::collections::BTreeSet;

use serde_json::Value;

use super::observed::{get, mk_observed};
use super::start_with;

fn read(file: &str) -> String {
    let path = format!("{}/docs/monitoring/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

/// Names of metrics in a query of PromQL: ours all begin with one of these.
fn metrics(query: &str) -> BTreeSet<String> {
    query
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| {
            ["grpc_server_", "rollplan_", "process_"]
                .iter()
                .any(|start| word.starts_with(start))
        })
        .map(str::to_owned)
        .collect()
}

/// Labels and the values that they are held against: `name="a"`, `name=~"a|b"`.
fn values(query: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = query;
    while let Some((before, after)) = rest.split_once('"') {
        let (text, tail) = after.split_once('"').unwrap();
        let name = before.trim_end_matches(['=', '~', '!']);
        let start = name.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let name = &name[start.map_or(0, |at| at + 1)..];
        found.extend(text.split('|').map(|it| (name.to_owned(), it.to_owned())));
        rest = tail;
    }
    found
}

fn check(queries: &[String], scrape: &str) {
    let lines: Vec<&str> = scrape.lines().filter(|it| !it.starts_with('#')).collect();
    let name = |line: &str| line.split(['{', ' ']).next().unwrap().to_owned();
    let there: BTreeSet<String> = lines.iter().map(|line| name(line)).collect();
    for query in queries {
        let asked = metrics(query);
        assert!(!asked.is_empty(), "{query}");
        for metric in asked {
            assert!(there.contains(&metric), "no {metric} for {query}");
        }
        for (label, value) in values(query) {
            let pair = format!("{label}=\"{value}\"");
            assert!(lines.iter().any(|it| it.contains(&pair)), "no {pair}");
        }
    }
}

#[tokio::test]
async fn dashboard_and_alerts_ask_for_what_is_there() {
    let http = start_with(mk_observed()).await.http.unwrap();
    let (_, scrape) = get(http, "/metrics").await;

    let dashboard: Value = serde_json::from_str(&read("dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries: Vec<String> = targets
        .map(|target| target["expr"].as_str().unwrap().to_owned())
        .collect();
    assert!(queries.len() >= 15);
    check(&queries, &scrape);

    // Between `expr:` and what follows it.
    let alerts = read("alerts.yaml");
    let queries: Vec<String> = alerts
        .split("expr:")
        .skip(1)
        .map(|rest| {
            let end = rest.find("\n        for:").unwrap();
            rest[..end].to_owned()
        })
        .collect();
    assert!(queries.len() >= 9);
    check(&queries, &scrape);
}

#[test]
fn queries_are_read_right() {
    let query = r#"sum by (x) (rate(rollplan_a_total{b=~"c|d",e!="f"}[5m])) / process_g"#;
    assert_eq!(
        metrics(query).into_iter().collect::<Vec<_>>(),
        ["process_g", "rollplan_a_total"]
    );
    let pairs = [("b", "c"), ("b", "d"), ("e", "f")];
    assert_eq!(
        values(query),
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
}
