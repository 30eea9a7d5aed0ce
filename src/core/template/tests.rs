//! Equality of templates: single cases, upstream's results, and properties that hold for all templates.

mod changes;
pub(super) mod json;
mod random;

use std::collections::{BTreeMap, BTreeSet};

use rollplan_world::random::Random;

use super::*;

/// Checks that all implementations of equality give the expected result, in either order of the templates.
#[track_caller]
fn check(a: &Value, b: &Value, want: bool) {
    let context = || format!("\na: {}\nb: {}", a.to_json(), b.to_json());
    assert_eq!(canonical(a) == canonical(b), want, "forms{}", context());
    assert_eq!(equal(a, b), want, "equal{}", context());
    assert_eq!(equal(b, a), want, "equal, swapped{}", context());
}

/// Checks that canonicalizing a template twice changes nothing.
#[track_caller]
fn check_canonical(template: &Value) {
    let form = canonical(template);
    assert_eq!(
        canonical(&json::parse(&form)),
        form,
        "of {}",
        template.to_json()
    );
}

#[track_caller]
fn same(a: &str, b: &str) {
    check(&json::parse(a), &json::parse(b), true);
}

#[track_caller]
fn differ(a: &str, b: &str) {
    check(&json::parse(a), &json::parse(b), false);
}

/// A template with one container that has the given additional fields.
fn container(fields: &str) -> String {
    spec(&format!(
        r#""containers":[{{"name":"web","image":"web:1",{fields}}}]"#
    ))
}

fn spec(fields: &str) -> String {
    format!(r#"{{"metadata":{{"labels":{{"app":"web"}}}},"spec":{{{fields}}}}}"#)
}

fn metadata(fields: &str) -> String {
    format!(r#"{{"metadata":{{{fields}}},"spec":{{"containers":[{{"name":"web"}}]}}}}"#)
}

// === Empty values ===

#[test]
fn null_and_empty_list_are_absent() {
    for absent in ["null", "[]"] {
        same(
            &container(&format!(r#""env":{absent}"#)),
            &container(r#""tty":false"#),
        );
        same(&spec(&format!(r#""volumes":{absent}"#)), &spec(""));
        same(
            &metadata(&format!(r#""finalizers":{absent}"#)),
            &metadata(""),
        );
    }
    for null in [
        "affinity",
        "securityContext",
        "nodeSelector",
        "hostNetwork",
        "terminationGracePeriodSeconds",
    ] {
        same(&spec(&format!(r#""{null}":null"#)), &spec(""));
    }
    same(&metadata(r#""creationTimestamp":null"#), &metadata(""));
}

#[test]
fn empty_map_is_absent_where_go_has_a_value() {
    same(&spec(r#""nodeSelector":{}"#), &spec(""));
    same(&spec(r#""overhead":{}"#), &spec(""));
    same(&metadata(r#""labels":{},"annotations":{}"#), &metadata(""));
    same(r#"{"metadata":{},"spec":{}}"#, "{}");
    same(
        &container(r#""resources":{}"#),
        &container(r#""tty":false"#),
    );
    same(
        &container(r#""resources":{"limits":{},"requests":{}}"#),
        &container(r#""tty":false"#),
    );
    let claim = |resources: &str| {
        spec(&format!(
            r#""volumes":[{{"name":"v","ephemeral":{{"volumeClaimTemplate":{{"spec":{{{resources}}}}}}}}}]"#
        ))
    };
    same(&claim(r#""resources":{}"#), &claim(""));
    let term = |selector: &str| {
        spec(&format!(
            r#""affinity":{{"podAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":[{{"labelSelector":{{{selector}}}}}]}}}}"#
        ))
    };
    same(&term(r#""matchLabels":{}"#), &term(""));
}

#[test]
fn empty_map_differs_from_absent_where_go_has_a_pointer() {
    for pointer in ["affinity", "securityContext", "dnsConfig", "resources"] {
        differ(&spec(&format!(r#""{pointer}":{{}}"#)), &spec(""));
    }
    for pointer in ["securityContext", "lifecycle", "livenessProbe"] {
        differ(
            &container(&format!(r#""{pointer}":{{}}"#)),
            &container(r#""tty":false"#),
        );
    }
    differ(
        &container(r#""securityContext":{"capabilities":{}}"#),
        &container(r#""securityContext":{}"#),
    );
    differ(
        &spec(r#""volumes":[{"name":"v","emptyDir":{}}]"#),
        &spec(r#""volumes":[{"name":"v"}]"#),
    );
    let term = |fields: &str| {
        spec(&format!(
            r#""affinity":{{"podAntiAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":[{{"topologyKey":"zone"{fields}}}]}}}}"#
        ))
    };
    differ(&term(r#","namespaceSelector":{}"#), &term(""));
    differ(&term(r#","labelSelector":{}"#), &term(""));
    let spread = |fields: &str| {
        spec(&format!(
            r#""topologySpreadConstraints":[{{"maxSkew":1{fields}}}]"#
        ))
    };
    differ(&spread(r#","labelSelector":{}"#), &spread(""));
}

#[test]
fn zero_is_absent_only_where_go_has_a_value() {
    same(
        &container(r#""env":[{"name":"A","value":""}]"#),
        &container(r#""env":[{"name":"A"}]"#),
    );
    same(
        &spec(r#""hostNetwork":false,"hostPID":false,"nodeName":"""#),
        &spec(""),
    );
    same(
        &container(r#""ports":[{"containerPort":80,"hostPort":0}]"#),
        &container(r#""ports":[{"containerPort":80}]"#),
    );
    differ(&spec(r#""automountServiceAccountToken":false"#), &spec(""));
    differ(&spec(r#""terminationGracePeriodSeconds":0"#), &spec(""));
    differ(&spec(r#""priority":0"#), &spec(""));
    differ(&spec(r#""runtimeClassName":"""#), &spec(""));
    differ(
        &spec(r#""securityContext":{"runAsNonRoot":false}"#),
        &spec(r#""securityContext":{}"#),
    );
    differ(
        &container(r#""securityContext":{"runAsUser":0}"#),
        &container(r#""securityContext":{}"#),
    );
}

#[test]
fn entries_of_maps_and_items_of_lists_count_even_if_empty() {
    differ(&metadata(r#""labels":{"a":""}"#), &metadata(""));
    same(
        &metadata(r#""labels":{"a":null}"#),
        &metadata(r#""labels":{"a":""}"#),
    );
    differ(&container(r#""args":[""]"#), &container(r#""args":[]"#));
    same(&container(r#""args":[null]"#), &container(r#""args":[""]"#));
    differ(&spec(r#""containers":[{}]"#), &spec(""));
    same(
        &spec(r#""containers":[null]"#),
        &spec(r#""containers":[{}]"#),
    );
    differ(
        &spec(r#""containers":[{},{}]"#),
        &spec(r#""containers":[{}]"#),
    );
    differ(
        &container(r#""args":["a","b"]"#),
        &container(r#""args":["b","a"]"#),
    );
    differ(
        &container(r#""resources":{"limits":{"cpu":"0"}}"#),
        &container(r#""resources":{}"#),
    );
}

// === Quantities, ports, times ===

#[test]
fn quantities_compare_by_value() {
    let limits = |cpu: &str| container(&format!(r#""resources":{{"limits":{{"cpu":{cpu}}}}}"#));
    same(&limits(r#""1000m""#), &limits(r#""1""#));
    same(&limits(r#""1024""#), &limits(r#""1Ki""#));
    same(&limits(r#""0.5""#), &limits(r#""500m""#));
    same(&limits("1"), &limits(r#""1""#));
    same(&limits("0.5"), &limits(r#""500m""#));
    same(&limits("null"), &limits(r#""0""#));
    differ(&limits(r#""1""#), &limits(r#""1001m""#));
    differ(&limits(r#""lots""#), &limits(r#""more""#));
    differ(&limits(r#""""#), &limits(r#""0""#));
    differ(&limits("1e300"), &limits("1e301"));
    let empty_dir = |limit: &str| spec(&format!(r#""volumes":[{{"emptyDir":{{{limit}}}}}]"#));
    same(
        &empty_dir(r#""sizeLimit":"1Gi""#),
        &empty_dir(r#""sizeLimit":"1024Mi""#),
    );
    differ(&empty_dir(r#""sizeLimit":"0""#), &empty_dir(""));
    let field = |divisor: &str| {
        container(&format!(
            r#""env":[{{"valueFrom":{{"resourceFieldRef":{{"resource":"limits.cpu"{divisor}}}}}}}]"#
        ))
    };
    same(&field(r#","divisor":"0""#), &field(""));
    differ(&field(r#","divisor":"1""#), &field(""));
}

#[test]
fn port_zero_is_absent_and_an_empty_string_is_not() {
    let probe = |port: &str| {
        container(&format!(
            r#""livenessProbe":{{"httpGet":{{"path":"/"{port}}}}}"#
        ))
    };
    same(&probe(r#","port":0"#), &probe(""));
    same(&probe(r#","port":null"#), &probe(""));
    differ(&probe(r#","port":"""#), &probe(""));
    differ(&probe(r#","port":"80""#), &probe(r#","port":80"#));
}

#[test]
fn times_compare_as_instants() {
    let created = |time: &str| metadata(&format!(r#""creationTimestamp":"{time}""#));
    same(
        &created("2026-01-02T03:04:05Z"),
        &created("2026-01-01T22:04:05-05:00"),
    );
    same(&created("0001-01-01T00:00:00Z"), &metadata(""));
    differ(
        &created("2026-01-02T03:04:05Z"),
        &created("2026-01-02T03:04:05.000000001Z"),
    );
    differ(&created("today"), &created("now"));
    differ(
        &metadata(r#""deletionTimestamp":"0001-01-01T00:00:00Z""#),
        &metadata(""),
    );
}

// === Metadata, unknown fields, wrong types, depth ===

#[test]
fn only_the_hash_label_is_ignored_in_metadata() {
    same(
        &metadata(r#""labels":{"app":"web","pod-template-hash":"abc"}"#),
        &metadata(r#""labels":{"app":"web"}"#),
    );
    same(
        &metadata(r#""labels":{"pod-template-hash":"abc"}"#),
        &metadata(""),
    );
    differ(
        &metadata(r#""annotations":{"pod-template-hash":"abc"}"#),
        &metadata(""),
    );
    differ(
        &metadata(r#""labels":{"app":"web"}"#),
        &metadata(r#""labels":{"app":"api"}"#),
    );
    for field in [
        r#""name":"web""#,
        r#""generateName":"web-""#,
        r#""namespace":"shop""#,
        r#""finalizers":["a/b"]"#,
        r#""ownerReferences":[{"name":"web"}]"#,
        r#""annotations":{"a":"b"}"#,
        r#""generation":1"#,
    ] {
        differ(&metadata(field), &metadata(""));
    }
    // The label is ignored only in the metadata of the template itself, not in a nested claim or in a selector.
    let claim = |labels: &str| {
        spec(&format!(
            r#""volumes":[{{"ephemeral":{{"volumeClaimTemplate":{{"metadata":{{"labels":{{{labels}}}}}}}}}}}]"#
        ))
    };
    differ(&claim(r#""pod-template-hash":"abc""#), &claim(""));
    differ(
        &spec(r#""nodeSelector":{"pod-template-hash":"abc"}"#),
        &spec(""),
    );
}

#[test]
fn unknown_fields_count_unchanged() {
    for unknown in ["{}", "[]", "0", r#""""#, "false", r#"{"a":null}"#] {
        differ(&spec(&format!(r#""fromTheFuture":{unknown}"#)), &spec(""));
    }
    same(&spec(r#""fromTheFuture":null"#), &spec(""));
    differ(
        &spec(r#""fromTheFuture":{"cpu":"1"}"#),
        &spec(r#""fromTheFuture":{"cpu":"1000m"}"#),
    );
    differ(
        &spec(r#""fromTheFuture":{"a":[]}"#),
        &spec(r#""fromTheFuture":{}"#),
    );
    differ(r#"{"status":{}}"#, "{}");
}

#[test]
fn values_of_the_wrong_type_count_unchanged() {
    for (field, values) in [
        ("hostNetwork", ["0", r#""""#, "[]", "{}"]),
        ("nodeName", ["0", "false", "[]", "{}"]),
        (
            "terminationGracePeriodSeconds",
            ["0.5", r#""""#, "false", "{}"],
        ),
        ("containers", ["0", "false", r#""""#, "{}"]),
        ("nodeSelector", ["0", "false", r#""""#, "[]"]),
    ] {
        for value in values {
            differ(&spec(&format!(r#""{field}":{value}"#)), &spec(""));
        }
    }
    differ("[]", "{}");
    differ("0", "{}");
    same("null", "{}");
}

#[test]
fn values_beyond_the_maximum_depth_count_as_null() {
    let nested = |levels: usize, innermost: Value| {
        let value = (0..levels).fold(innermost, |inner, _| Value::List(vec![inner]));
        Value::from([("spec", Value::from([("fromTheFuture", value)]))])
    };
    // The template and its spec are levels too.
    let limit = MAX_DEPTH - 2;
    check(
        &nested(limit, Value::from(1)),
        &nested(limit, Value::from(2)),
        false,
    );
    check(
        &nested(limit, Value::map()),
        &nested(limit, Value::from([("a", 1)])),
        true,
    );
    check(
        &nested(limit + 1000, Value::from(1)),
        &nested(limit + 2000, Value::from(2)),
        true,
    );

    // Every list and map is a level, whether it belongs to a known field or not.
    let below = |path: &[&str], level: usize, innermost: i32| {
        let maps = path.len()..level - 1;
        let value = maps.fold(Value::from([("a", innermost)]), |inner, _| {
            Value::from([("a", inner)])
        });
        path.iter().rev().fold(value, |inner, key| match *key {
            "[]" => Value::List(vec![inner]),
            key => Value::from([(key, inner)]),
        })
    };
    for path in [
        &["spec", "containers", "[]", "fromTheFuture"][..],
        &["spec", "containers", "[]", "fromTheFuture", "[]"],
        &["spec", "nodeSelector", "disk"],
        &["metadata", "annotations", "note", "[]"],
    ] {
        let compare = |level, want| check(&below(path, level, 1), &below(path, level, 2), want);
        compare(MAX_DEPTH, false);
        compare(MAX_DEPTH + 1, true);
    }
}

// === Results of upstream ===

fn rows(data: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    data.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').collect())
}

/// A value at a path of otherwise empty structs, one-element lists and one-key maps.
fn at_path(path: &[&str], value: Option<&Value>) -> Value {
    let Some((first, rest)) = path.split_first() else {
        return value.cloned().unwrap_or_default();
    };
    match *first {
        "[]" => Value::List(vec![at_path(rest, value)]),
        _ if rest.is_empty() && value.is_none() => Value::map(),
        "{}" => Value::from([("a", at_path(rest, value))]),
        name => Value::from([(name, at_path(rest, value))]),
    }
}

#[test]
fn every_field_compares_like_upstream() {
    let mut kinds: BTreeMap<&str, Vec<Option<Value>>> = BTreeMap::new();
    let mut pairs = 0;
    let mut quantity_paths = 0;
    for row in rows(include_str!("testdata/fields.tsv")) {
        let (path, kind, classes) = match row[..] {
            ["kind", name, ref values @ ..] => {
                let values = values
                    .iter()
                    .map(|value| (*value != "absent").then(|| json::parse(value)));
                kinds.insert(name, values.collect());
                continue;
            }
            [path, kind, classes] => (path, kind, classes.as_bytes()),
            _ => panic!("unexpected row {row:?}"),
        };
        quantity_paths += usize::from(kind.ends_with("quantity"));
        let path: Vec<&str> = path.split('/').collect();
        let templates: Vec<Value> = kinds[kind]
            .iter()
            .map(|value| at_path(&path, value.as_ref()))
            .collect();
        assert_eq!(templates.len(), classes.len(), "{path:?}");
        templates.iter().for_each(check_canonical);
        for i in 0..templates.len() {
            for j in 0..=i {
                check(&templates[i], &templates[j], classes[i] == classes[j]);
                pairs += 1;
            }
        }
    }
    // Fails if the file is empty.
    assert!(pairs > 10_000, "{pairs} pairs");
    assert!(quantity_paths > 10, "{quantity_paths} paths of quantities");
}

#[test]
fn random_templates_compare_like_upstream() {
    let mut answers = BTreeMap::new();
    for row in rows(include_str!("testdata/templates.tsv")) {
        let [answer, a, b] = row[..] else {
            panic!("unexpected row {row:?}")
        };
        check(&json::parse(a), &json::parse(b), answer == "equal");
        *answers.entry(answer).or_insert(0) += 1;
    }
    assert!(
        answers.values().all(|count| *count > 50) && answers.len() == 2,
        "{answers:?}"
    );
}

/// The expected results are those of Kubernetes' own code.
#[test]
fn defaults_match_kubernetes() {
    let mut count = 0;
    for row in rows(include_str!("testdata/defaults.tsv")) {
        let [written, stored] = row[..] else {
            panic!("unexpected row {row:?}")
        };
        let (written, stored) = (json::parse(written), json::parse(stored));
        let defaulted = with_defaults(written.clone());
        assert_eq!(
            canonical(&defaulted),
            canonical(&stored),
            "{}",
            written.to_json()
        );
        assert_eq!(with_defaults(defaulted.clone()), defaulted);
        let (written, stored) = (Template::from(written), Template::from(stored));
        assert!(stored.is_stored_form_of(&written));
        assert!(stored.is_stored_form_of(&stored));
        count += 1;
    }
    assert!(count > 400, "{count}");
}

#[test]
fn non_default_values_make_a_different_template() {
    let written = r#"{"spec":{"containers":[{"name":"main","image":"web:1"}]}}"#;
    let written = Template::from(json::parse(written));
    let stored = written.defaulted().clone();
    assert!(Template::from(stored.clone()).is_stored_form_of(&written));
    for (path, value) in [
        (&["spec", "restartPolicy"][..], "Never"),
        (&["spec", "dnsPolicy"], "Default"),
        (&["spec", "hostname"], "a"),
        (&["spec", "unknown"], "a"),
        (&["metadata"], "a"),
    ] {
        let mut other = stored.clone();
        let mut at = &mut other;
        for key in path {
            let fields = at.as_map_mut().unwrap_or_else(|| panic!("{path:?}"));
            at = fields.entry((*key).to_owned()).or_default();
        }
        *at = Value::from(value);
        // The second result comes from the cache.
        let other = Template::from(other);
        assert!(!other.is_stored_form_of(&written) && !other.is_stored_form_of(&written));
    }
}

/// The results are those of the native controller on a real API server: whether it created a new ReplicaSet after the
/// template had been changed.
#[test]
fn changed_templates_compare_like_in_the_native_controller() {
    let answers = include_str!("../../../tests/e2e/testdata/template-answers.json");
    let answers = json::parse(answers);
    let Some(answers) = answers.as_list() else {
        panic!("the answers are not a list");
    };
    for answer in answers {
        let template = |name| answer.get(name).unwrap_or_else(|| panic!("no {name}"));
        let name = template("name").as_str().unwrap_or_default();
        let same = template("answer").as_str() == Some("same");
        assert_eq!(equal(template("before"), template("after")), same, "{name}");
        check(template("before"), template("after"), same);
    }
    assert!(answers.len() > 50, "{} answers", answers.len());
}

#[test]
fn quantities_compare_like_upstream() {
    let mut by_class = BTreeMap::new();
    let mut by_quantity = BTreeMap::new();
    let mut count = 0;
    for row in rows(include_str!("testdata/quantities.tsv")) {
        let [class, text] = row[..] else {
            panic!("unexpected row {row:?}")
        };
        count += 1;
        let quantity = Quantity::parse(text).map(|quantity| quantity.to_string());
        let Some(printed) = quantity else {
            assert_eq!(class, "none", "upstream accepts {text:?}");
            continue;
        };
        assert_ne!(
            class, "none",
            "upstream rejects {text:?}, but it parses as {printed}"
        );
        assert_eq!(
            Quantity::parse(&printed),
            Quantity::parse(text),
            "{text:?} displays as {printed}"
        );
        // Each class of equal texts corresponds to exactly one quantity.
        assert_eq!(
            *by_class.entry(class).or_insert_with(|| printed.clone()),
            printed,
            "{text:?}"
        );
        assert_eq!(
            *by_quantity.entry(printed).or_insert(class),
            class,
            "{text:?}"
        );
    }
    assert!(count > 2000, "{count} quantities");
}

#[test]
fn absurd_quantities_are_exact_and_cheap() {
    let same = |a: &str, b: &str| assert_eq!(Quantity::parse(a), Quantity::parse(b), "{a} {b}");
    same("1e1000000", "10e999999");
    same("1e2147483647", "1000e2147483644");
    same("1e-1000000", "1n");
    same("-1e-2147483648", "-1n");
    same("0e2147483647", "0");
    // The largest value with a binary suffix that is not capped.
    same("9007199254740991Ki", "9223372036854774784");
    assert_ne!(Quantity::parse("1e1000000"), Quantity::parse("1e1000001"));
    for rejected in ["1e2147483648", "1e-2147483649", "1e99999999999999999999"] {
        assert_eq!(Quantity::parse(rejected), None, "{rejected}");
    }
    let long = "123".repeat(100_000);
    same(&format!("{long}000"), &format!("{long}k"));
    same(&format!("0.{}", "0".repeat(100_000) + "1"), "1n");
    same(&format!("{}Ki", "9".repeat(100_000)), "9Ei");
    same(&format!("1.{}", "9".repeat(100_000)), "2");
    same(
        &format!("{}.{}", "9".repeat(1000), "9".repeat(1000)),
        "1e1000",
    );
}

// === Properties ===

/// Checks a property for many seeds, or for the one in `ROLLPLAN_SEED`, and prints the seed for which it fails.
fn for_seeds(property: impl Fn(&mut Random) + std::panic::RefUnwindSafe) {
    let given = std::env::var("ROLLPLAN_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seeds = given.map_or(0..2000, |seed: u64| seed..seed + 1);
    for seed in seeds {
        if let Err(panic) = std::panic::catch_unwind(|| property(&mut Random::new(seed))) {
            eprintln!("failed for ROLLPLAN_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn canonical_forms_and_digests_agree_with_equality() {
    let answers = std::sync::Mutex::new([0, 0]);
    for_seeds(|random| {
        let a = random::template(random);
        let mut b = if random.one_in(4) {
            json::parse(&canonical(&a))
        } else {
            a.clone()
        };
        for _ in 0..random.below(3) {
            random::mutate(random, &mut b);
        }
        let want = equal(&a, &b);
        check(&a, &b, want);
        check_canonical(&a);
        check_canonical(&b);
        assert_eq!(sha256_of_canonical(&a) == sha256_of_canonical(&b), want);
        if let Ok(mut answers) = answers.lock() {
            answers[usize::from(want)] += 1;
        }
    });
    if std::env::var_os("ROLLPLAN_SEED").is_none() {
        assert!(
            answers
                .lock()
                .is_ok_and(|answers| answers.iter().all(|count| *count > 200))
        );
    }
}

#[test]
fn json_round_trips() {
    for_seeds(|random| {
        let template = random::template(random);
        assert_eq!(json::parse(&template.to_json()), template);
    });
}

/// A prepared template is written like a template that is decoded, labelled and written.
#[test]
fn prepared_templates_match_labelled_templates() {
    for_seeds(|random| {
        let mut value = random::template(random);
        for _ in 0..random.below(3) {
            random::mutate(random, &mut value);
        }
        match random.below(8) {
            0 => value = Value::from(vec![value]),
            1 => value = Value::Null,
            2 => set(&mut value, &["metadata"], Value::Null),
            3 => set(&mut value, &["metadata"], Value::from("none")),
            4 => set(&mut value, &["metadata", "labels"], Value::Null),
            5 => set(&mut value, &["metadata", "labels"], Value::from(1)),
            6 => set(
                &mut value,
                &["metadata", "labels", "zone"],
                Value::from("a"),
            ),
            _ => {}
        }
        let template = Template::from(value.clone());
        let prepared = prepare(&value);
        assert_eq!(prepared.hash(Some(3)), template_hash(&value, Some(3)));
        let labelled = template.labelled("5d9c");
        let mut json = String::new();
        labelled.write_json(&mut json);
        assert_eq!(json, labelled.value().to_json());
        assert!(equal(&value, labelled.value()) && labelled.same_as(&template));
        let labels = labelled.value().at(&["metadata", "labels"]);
        let labels = labels.and_then(Value::as_map).into_iter().flatten();
        let labels =
            labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        assert_eq!(prepared.labels("5d9c"), labels.collect());
    });
}

/// What the canonical form omits or writes differently is not hashed, and stays in the text.
#[test]
fn prepared_template_is_hashed_canonically_and_written_verbatim() {
    let text = |metadata: &str| {
        let containers = r#"[{"args":[],"env":[null],"name":"web","resources":{"limits":{"cpu":"1500m","memory":1024}}}]"#;
        format!(
            r#"{{"a":1,"metadata":{metadata},"spec":{{"affinity":null,"containers":{containers},"z":0}}}}"#
        )
    };
    for (metadata, labelled) in [
        (
            r#"{"annotations":{},"labels":{"app":"web","zone":""}}"#,
            r#"{"annotations":{},"labels":{"app":"web","pod-template-hash":"5d9c","zone":""}}"#,
        ),
        (
            r#"{"labels":{"pod-template-hash":"old"},"namespace":"","uid":"1"}"#,
            r#"{"labels":{"pod-template-hash":"5d9c"},"namespace":"","uid":"1"}"#,
        ),
        (
            r#"{"creationTimestamp":null,"labels":null,"name":"a"}"#,
            r#"{"creationTimestamp":null,"labels":{"pod-template-hash":"5d9c"},"name":"a"}"#,
        ),
        ("null", r#"{"labels":{"pod-template-hash":"5d9c"}}"#),
        (r#"{"labels":"none"}"#, r#"{"labels":"none"}"#),
    ] {
        let template = json::parse(&text(metadata));
        let prepared = prepare(&template);
        assert_eq!(prepared.hash(None), template_hash(&template, None));
        let mut written = String::new();
        prepared.write_json("5d9c", &mut written);
        assert_eq!(written, text(labelled));
    }
}

/// Sets the value at a path, if every value on the way is a map.
fn set(value: &mut Value, path: &[&str], to: Value) {
    match (path, value.as_map_mut()) {
        ([key], Some(map)) => _ = map.insert((*key).to_owned(), to),
        ([key, path @ ..], Some(map)) => set(map.entry((*key).to_owned()).or_default(), path, to),
        _ => {}
    }
}

// === Hashes ===

/// These values are written to the cluster. If one of them changed, every Deployment would be rolled out again.
#[test]
fn hashes_are_stable() {
    let template = json::parse(&container(
        r#""resources":{"limits":{"cpu":"1500m","memory":"1Gi"}},"ports":[{"containerPort":80}]"#,
    ));
    assert_eq!(
        canonical(&template),
        r#"{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"image":"web:1","name":"web","ports":[{"containerPort":80}],"resources":{"limits":{"cpu":"15e-1","memory":"1073741824"}}}]}}"#
    );
    assert_eq!(
        sha256_of_canonical(&template),
        "sha256:0b85755127341bf19473c2ac91897db6147b054e1fed527558a2a3f3a8f10590"
    );
    assert_eq!(template_hash(&template, Some(1)), "7f4bb64655");
}

// === Values ===

#[test]
fn numbers_display_as_json() {
    let check = |number: f64, want: &str| {
        assert_eq!(Number::from(number).to_string(), want);
        if number.is_finite() {
            assert_eq!(
                json::parse(want),
                Value::Number(Number::from(number)),
                "{want}"
            );
        }
    };
    check(3.0, "3");
    check(-0.0, "0");
    check(-7.0, "-7");
    check(0.5, "0.5");
    check(9_007_199_254_740_991.0, "9007199254740991");
    check(9_007_199_254_740_992.0, "9007199254740992");
    check(1e20, "100000000000000000000");
    check(1e300, "1e300");
    check(-1.5e-9, "-1.5e-9");
    check(0.000_001, "0.000001");
    check(f64::INFINITY, "null");
    check(f64::NAN, "null");
    assert_eq!(Number::from(i64::MAX).to_string(), "9223372036854775807");
    assert_eq!(Number::from(2.0), Number::from(2_i64));
    assert_ne!(Number::from(2.5), Number::from(2_i64));
}

#[test]
fn strings_are_escaped_as_json() {
    let check = |text: &str, want: &str| {
        assert_eq!(Value::from(text).to_json(), want);
        assert_eq!(json::parse(want), Value::from(text));
    };
    check("", r#""""#);
    check("plain é 😀 \u{2028}", "\"plain é 😀 \u{2028}\"");
    check("a\"b\\c/d", r#""a\"b\\c/d""#);
    check("\n\r\t\u{8}\u{c}", r#""\n\r\t\b\f""#);
    check("\0\u{1f}\u{7f}", "\"\\u0000\\u001f\u{7f}\"");
    for (length, escaped) in (1..=20).flat_map(|length| (0..length).map(move |at| (length, at))) {
        for (byte, want) in [
            ("\"", "\\\""),
            ("\\", "\\\\"),
            ("\n", "\\n"),
            ("\u{1f}", "\\u001f"),
        ] {
            let around =
                |middle: &str| "a".repeat(escaped) + middle + &"a".repeat(length - escaped - 1);
            check(&around(byte), &format!("\"{}\"", around(want)));
        }
    }
}

#[test]
fn shape_fields_are_sorted() {
    let mut seen = BTreeSet::new();
    let mut todo = vec![&shape::TEMPLATE];
    while let Some(kind) = todo.pop() {
        match kind {
            kind::Kind::List(of) | kind::Kind::Map(of) => todo.push(of),
            kind::Kind::Struct(of) if seen.insert(std::ptr::from_ref(*of)) => {
                assert!(of.fields.is_sorted_by(|a, b| a.name < b.name), "{of:?}");
                todo.extend(of.fields.iter().map(|field| &field.kind));
            }
            _ => {}
        }
    }
    assert!(seen.len() > 100, "{} structs", seen.len());
}

/// Kubernetes mounts an empty directory if a volume names no source.
#[test]
fn volumes_without_a_source_are_empty_directories() {
    for volume in [r#"{"name":"a"}"#, r#"{"name":"a","secret":null}"#] {
        let written = format!(r#"{{"spec":{{"containers":[],"volumes":[{volume}]}}}}"#);
        let defaulted = with_defaults(json::parse(&written));
        let volumes = defaulted.at(&["spec", "volumes"]).and_then(Value::as_list);
        let source = volumes.and_then(|volumes| volumes[0].get("emptyDir"));
        assert_eq!(source, Some(&Value::map()), "{volume}");
    }
}

/// The first comparison is kept, and others are made again.
#[test]
fn stored_template_is_compared_with_each_written_one() {
    let of = |image: &str| {
        let text = format!(r#"{{"spec":{{"containers":[{{"name":"main","image":"{image}"}}]}}}}"#);
        Template::from(json::parse(&text))
    };
    let (first, second) = (of("web:1"), of("web:2"));
    let stored = Template::from(first.defaulted().clone());
    for _ in 0..2 {
        assert!(stored.is_stored_form_of(&first));
        assert!(!stored.is_stored_form_of(&second));
    }
}
