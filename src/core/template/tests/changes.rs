//! Differences between templates.

use super::json::parse;
use super::{container, metadata};
use crate::interrupt::Never;
use crate::template::{Template, Value, template_changes};

/// The differences, each as path, value before and value after.
#[track_caller]
fn check(from: &str, to: &str, expected: &[[&str; 3]]) {
    let template = |text: &str| Template::from(parse(text));
    let json = |value: &Option<Value>| value.as_ref().map_or_else(String::new, Value::to_json);
    let changes = template_changes(&template(from), &template(to), &Never);
    let found = changes
        .iter()
        .map(|it| [it.path.clone(), json(&it.from), json(&it.to)]);
    let found: Vec<_> = found.collect();
    assert_eq!(found, expected, "\nfrom: {from}\nto: {to}");
}

#[test]
fn values_that_kubernetes_considers_equal_are_no_differences() {
    for (from, to) in [
        (r#""resources":{}"#, r#""resources":null"#),
        (
            r#""resources":{"limits":{"cpu":"1"}}"#,
            r#""resources":{"limits":{"cpu":"1000m"}}"#,
        ),
        (
            r#""env":[{"name":"A"}]"#,
            r#""env":[{"name":"A","value":""}]"#,
        ),
        (
            r#""env":[],"command":null"#,
            r#""volumeMounts":[],"args":[]"#,
        ),
        (
            r#""ports":[{"containerPort":80}]"#,
            r#""ports":[{"containerPort":80,"protocol":"TCP"}]"#,
        ),
        (
            r#""livenessProbe":{"tcpSocket":{"port":80}}"#,
            r#""livenessProbe":{"tcpSocket":{"port":80},"periodSeconds":10,"initialDelaySeconds":0}"#,
        ),
        (r#""tty":false"#, r#""stdin":null"#),
    ] {
        check(&container(from), &container(to), &[]);
        // Nor are they shown beside a difference.
        let change = r#","workingDir":"/x""#;
        let path = "spec.containers[name=web].workingDir";
        let changed = container(&format!("{to}{change}"));
        check(&container(from), &changed, &[[path, "", r#""/x""#]]);
    }
    check(
        &metadata(r#""labels":{"a":"1","pod-template-hash":"x"}"#),
        &metadata(r#""labels":{"a":"1"},"creationTimestamp":null,"annotations":{}"#),
        &[],
    );
    check(
        &metadata(r#""name":"x","labels":{"pod-template-hash":"x"}"#),
        &metadata(r#""name":"x","annotations":{"a":""}"#),
        &[["metadata.annotations", "", r#"{"a":""}"#]],
    );
}

#[test]
fn zero_that_differs_from_absent_is_a_difference() {
    let path = "spec.containers[name=web].securityContext";
    check(
        &container(r#""securityContext":{}"#),
        &container(r#""securityContext":null"#),
        &[[path, "{}", ""]],
    );
    check(
        &container(r#""securityContext":{"runAsUser":0}"#),
        &container(r#""securityContext":{}"#),
        &[[&format!("{path}.runAsUser"), "0", ""]],
    );
}

#[test]
fn shown_values_are_as_written_and_have_no_empty_fields() {
    check(
        &container(r#""resources":{"limits":{"cpu":"500m"}}"#),
        &container(r#""resources":{"limits":{"cpu":"1500m"}}"#),
        &[[
            "spec.containers[name=web].resources.limits.cpu",
            r#""500m""#,
            r#""1500m""#,
        ]],
    );
    check(
        &container(r#""env":null"#),
        &container(
            r#""env":[{"name":"A","value":"secret","valueFrom":null},{"name":"B","value":""}]"#,
        ),
        &[[
            "spec.containers[name=web].env",
            "",
            r#"[{"name":"A","value":"(not shown)"},{"name":"B"}]"#,
        ]],
    );
}

#[test]
fn another_order_is_a_difference() {
    let env = |names: [&str; 2]| {
        let [a, b] = names.map(|name| format!(r#"{{"name":"{name}","value":"x"}}"#));
        container(&format!(r#""env":[{a},{b}]"#))
    };
    let shown = |names: [&str; 2]| {
        let [a, b] = names.map(|name| format!(r#"{{"name":"{name}","value":"(not shown)"}}"#));
        format!("[{a},{b}]")
    };
    check(&env(["A", "B"]), &env(["A", "B"]), &[]);
    check(
        &env(["A", "B"]),
        &env(["B", "A"]),
        &[[
            "spec.containers[name=web].env",
            &shown(["A", "B"]),
            &shown(["B", "A"]),
        ]],
    );
}

/// Kubernetes stores the templates of these pairs of manifests with differences at exactly these paths.
#[test]
fn differences_are_those_of_what_kubernetes_stores() {
    let pairs = include_str!("../testdata/changes.tsv").lines();
    let mut count = 0;
    for pair in pairs.filter(|line| !line.starts_with('#')) {
        let [paths, from, to] = pair.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{pair}");
        };
        let template = |text: &str| Template::from(parse(text));
        let changes = template_changes(&template(from), &template(to), &Never);
        let found: Vec<&str> = changes.iter().map(|it| it.path.as_str()).collect();
        let expected: Vec<&str> = paths.split_whitespace().collect();
        assert_eq!(found, expected, "\nfrom: {from}\nto: {to}");
        count += 1;
    }
    assert_eq!(count, 1000);
}
