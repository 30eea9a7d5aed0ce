//! Invalid input and arguments. Errors are compared word for word, and name the file, the object and the field.

use super::{
    DEPLOYMENT, POD, REPLICA_SET, Scratch, owned_pod, plan_args, pods_without_uid, quoted, refused,
    rollplan,
};

fn check(input: &str, expected: &[&str]) {
    let lines: String = expected
        .iter()
        .map(|line| format!("error: {line}\n"))
        .collect();
    assert_eq!(refused(&plan_args(&[]), input), lines, "{input}");
}

#[test]
fn errors_name_fields_as_in_the_file() {
    let pod = owned_pod("other");
    let wrong = [
        (DEPLOYMENT, "  replicas: 2", "  replicas: -2"),
        (
            REPLICA_SET,
            "    matchLabels",
            "    ignored: 1\n    matchLabels",
        ),
        (&pod, "  uid: other\n", ""),
    ];
    let input: Vec<String> = wrong
        .iter()
        .map(|(text, from, to)| text.replacen(from, to, 1))
        .collect();
    check(
        &input.join("---\n"),
        &[
            "standard input, document 1 (Deployment shop/web): spec.replicas: is -2, and may not be negative",
            "standard input, document 3 (Pod shop/other): metadata.uid: is required",
        ],
    );
    let strategy = |text: &str| DEPLOYMENT.replace("  replicas: 2", &format!("  strategy: {text}"));
    check(
        &strategy("{rollingUpdate: {maxSurge: 25, maxUnavailable: a lot}}"),
        &[
            "standard input (Deployment shop/web): spec.strategy.rollingUpdate.maxUnavailable: must be a whole \
             number, or a percentage, for example \"25%\"",
        ],
    );
    check(
        &strategy("{type: Replace}"),
        &[
            "standard input (Deployment shop/web): spec.strategy.type: is \"Replace\", and must be RollingUpdate \
             or Recreate",
        ],
    );
}

#[test]
fn errors_name_fields_of_the_wrong_type() {
    let input =
        [DEPLOYMENT, REPLICA_SET]
            .join("---\n")
            .replacen("  replicas: 2", "  replicas: two", 1);
    check(
        &input,
        &[
            "standard input, document 1 (Deployment shop/web): spec.replicas: must be an integer, without a fraction \
             or an exponent",
        ],
    );
    let both = [
        DEPLOYMENT.to_owned(),
        REPLICA_SET.replacen("replicas: 0", "replicas: 99999999999", 1),
        REPLICA_SET.replacen("labels: {app: web,", "labels: {app: [1],", 1),
    ];
    check(
        &both.join("---\n"),
        &[
            "standard input, document 2 (ReplicaSet shop/web-1): spec.replicas: is 99999999999, and must be between \
             -2147483648 and 2147483647",
            "standard input, document 3 (ReplicaSet shop/web-1): metadata.labels[\"app\"]: must be a string",
            "standard input, document 3 (ReplicaSet shop/web-1): metadata.uid: standard input, document 2 (ReplicaSet \
             shop/web-1) has \"r1\" as well",
            "standard input, document 3 (ReplicaSet shop/web-1): metadata.name: standard input, document 2 (ReplicaSet \
             shop/web-1) has \"web-1\" as well",
        ],
    );
}

#[test]
fn manifests_are_refused_with_a_hint() {
    let manifest = DEPLOYMENT.replace(
        "  uid: d1\n  resourceVersion: \"10\"\n  generation: 1\n",
        "",
    );
    assert_ne!(manifest, DEPLOYMENT);
    check(
        &manifest,
        &[
            "standard input (Deployment shop/web): this is a manifest; pass the live object: kubectl get deploy,rs,pods -n \
             shop -o json | rollplan status web -f -, or let rollplan read it: rollplan status web -n shop",
        ],
    );
}

#[test]
fn errors_name_items_of_lists() {
    let text = "{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": [{\"kind\": \"List\", \"items\": [\
                {\"kind\": \"Namespace\"}, {\"apiVersion\": \"apps/v1\", \"kind\": \"Deployment\", \
                \"metadata\": {\"name\": \"web\", \"namespace\": \"shop\"}}]}]}";
    let file = Scratch::new(text);
    let err = refused(&["plan", "-f", file.path()], "");
    let place = format!(
        "error: {}, items[0].items[1] (Deployment shop/web): ",
        file.path()
    );
    let expected = [
        "note: skipped: 1 Namespace ()".to_owned(),
        format!("{place}metadata.uid: is required"),
        format!("{place}metadata.resourceVersion: is required"),
        format!("{place}spec: is required"),
    ];
    assert_eq!(err, expected.join("\n") + "\n");
    // A List in an array.
    let err = refused(&plan_args(&[]), &format!("[{text}]"));
    let place = "\nerror: standard input, [0].items[0].items[1] (Deployment shop/web): ";
    assert!(err.contains(place), "{err}");
}

/// For selected objects, any duplicate key is an error. For other objects, only those that identify the object.
#[test]
fn errors_name_duplicate_keys_with_their_object() {
    let deployment = super::input::from_yaml(DEPLOYMENT).to_string();
    let with =
        |text: &str, entries: &str| format!("{},{entries}}}", text.strip_suffix('}').unwrap());
    let config = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
    let input = |first: &str, second: &str| {
        format!(r#"{{"kind":"List","apiVersion":"v1","items":[{first},{second}]}}"#)
    };
    for key in ["spec", "x"] {
        let twice = with(&deployment, &format!(r#""{key}":{{}},"{key}":{{}}"#));
        let err = refused(&plan_args(&[]), &input(&twice, config));
        let expected =
            format!("items[0] (Deployment shop/web): {key}: the key occurs twice in its object\n");
        assert!(err.ends_with(&expected), "{err}");
    }
    let twice = with(config, r#""data":{},"data":{}"#);
    let run = rollplan(&plan_args(&[]), &input(&deployment, &twice));
    assert_eq!(
        (run.exit, run.err.as_str()),
        (0, "note: skipped: 1 ConfigMap (v1)\n")
    );
    let twice = with(config, r#""kind":"Pod""#);
    let run = rollplan(&plan_args(&[]), &input(&deployment, &twice));
    assert_eq!(
        (run.exit, run.err.as_str()),
        (
            2,
            "note: skipped: standard input: items[1][\"kind\"]: the key occurs twice in its object\n"
        )
    );
}

/// Doubles cannot represent them, and a rounded number would change the template.
#[test]
fn large_integers_of_templates_are_exact_or_refused() {
    let both = |number: &str| {
        let yaml = DEPLOYMENT.replace(
            "        image:",
            &format!("        number: {number}\n        image:"),
        );
        let json = super::input::from_yaml(DEPLOYMENT).to_string();
        let json = json.replace("{\"image\"", &format!("{{\"number\":{number},\"image\""));
        assert!(json.contains(number), "{json}");
        [yaml, json].map(|input| rollplan(&plan_args(&[]), &input))
    };
    for number in ["9007199254740993", "9007199254740992", "-9007199254740993"] {
        for run in both(number) {
            assert_eq!((run.exit, run.err.as_str()), (0, ""), "{number}");
            let body = format!("\\\"number\\\":{number}");
            assert!(run.out.contains(&body), "{}", run.out);
        }
    }
    for run in both("18446744073709551616") {
        assert_eq!(run.exit, 2, "{}", run.out);
        let place = "error: standard input (Deployment shop/web): spec.template.spec.containers[0].number: ";
        assert!(run.err.starts_with(place), "{}", run.err);
    }
}

#[test]
fn duplicate_objects_are_refused() {
    check(
        &[DEPLOYMENT, REPLICA_SET, REPLICA_SET].join("---\n"),
        &[
            "standard input, document 3 (ReplicaSet shop/web-1): metadata.uid: standard input, document 2 (ReplicaSet \
             shop/web-1) has \"r1\" as well",
            "standard input, document 3 (ReplicaSet shop/web-1): metadata.name: standard input, document 2 (ReplicaSet \
             shop/web-1) has \"web-1\" as well",
        ],
    );
}

#[test]
fn more_than_a_few_violations_are_counted() {
    let input = [DEPLOYMENT, REPLICA_SET, &pods_without_uid()].join("---\n");
    let err = refused(&plan_args(&[]), &input);
    assert_eq!(err.lines().count(), 21);
    assert!(
        err.ends_with("(Pod shop/p19): metadata.uid: is required\nerror: and 10 more\n"),
        "{err}"
    );
}

#[test]
fn invalid_yaml_and_json_are_refused() {
    check(
        "{\"kind\": ",
        &["standard input: line 1, column 9: EOF while parsing a value"],
    );
    check(
        &format!("{DEPLOYMENT}---\n{{\n\"kind\" 5}}\n"),
        &["standard input: line 22, column 8: invalid trailing content after double-quoted scalar"],
    );
    check(
        "a: [1\nb: 2\n",
        &["standard input: line 2, column 2: illegal placement of ':' indicator"],
    );
    check(
        "<<: 1\n",
        &["standard input: line 1, column 5: a merge key (<<) needs a map or a list of maps"],
    );
    check(
        "~: 1\n",
        &["standard input: line 1, column 1: a key must be a string: put it in quotes"],
    );
    check(
        "a: .inf\n",
        &["standard input: line 1, column 4: infinity and NaN are not numbers in JSON"],
    );
    check(
        "--- {a: b}\n",
        &[
            "standard input: line 1, column 4: kubectl allows no content on the line of ---: begin it on the next line",
        ],
    );
    check(
        "a:\n  b: {{ .Values.b }}\n",
        &[
            "standard input: line 2: this is a template: render it first, for example with helm template",
        ],
    );
    check(
        "a: &a [*a]\n",
        &["standard input: line 1, column 8: an alias that contains itself"],
    );
    check(
        "just text",
        &["standard input: must be an object or a List of objects"],
    );
    check(
        "a: 1\n---\nb: 2\n",
        &[
            "standard input, document 1: not a Kubernetes object: missing kind",
            "standard input, document 2: not a Kubernetes object: missing kind",
        ],
    );
    check(
        "[{\"kind\": \"List\", \"items\": 5}]",
        &["standard input, [0]: items: must be a list"],
    );
}

/// A few lines that expand to more than the memory or the stack can hold.
#[test]
fn yaml_bombs_are_refused() {
    let mut aliases = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        aliases += &format!("a{level}: &a{level} [{}]\n", [alias.as_str(); 10].join(","));
    }
    let err = refused(&plan_args(&[]), &aliases);
    assert!(err.contains("too many values come from aliases"), "{err}");
    let err = refused(&plan_args(&[]), &format!("a: {}", "[".repeat(100_000)));
    assert!(
        err.contains("128 levels deep") || err.contains("recursion"),
        "{err}"
    );
    let err = refused(&plan_args(&[]), &"- ".repeat(10_000));
    assert!(err.contains("128 levels deep"), "{err}");
    let closed = "[".repeat(10_000) + &"]".repeat(10_000);
    let err = refused(&plan_args(&[]), &closed);
    assert_eq!(err, "error: standard input: more than 128 levels deep\n");
    let err = refused(&plan_args(&[]), &"[".repeat(1_000_000));
    assert_eq!(
        err,
        "error: standard input: line 1, column 1000000: EOF while parsing a list\n"
    );
}

#[test]
fn unreadable_files_are_refused() {
    assert_eq!(
        refused(&["plan", "-f", "no/such.json"], ""),
        "error: no/such.json: cannot be read: No such file or directory (os error 2)\n"
    );
    assert_eq!(
        refused(&["plan", "-f", "tests/it/cli"], ""),
        "error: tests/it/cli: the directory contains no files that end with .json, .yaml or .yml; -R also searches the directories in \
         it\n"
    );
    assert_eq!(
        refused(&["plan", "-f", "-", "-f", "-"], ""),
        "error: -f - can be used only once\n"
    );
    let file = Scratch::new("");
    std::fs::write(file.path(), [0x1f, 0x8b, 0, 0xff]).unwrap();
    assert_eq!(
        refused(&["plan", "-f", file.path()], ""),
        format!("error: {}: is not a text\n", file.path())
    );
}

#[test]
fn invalid_answers_are_refused() {
    let wrong = |text: &str| {
        let file = Scratch::new(text);
        let err = refused(&plan_args(&["--answers", file.path()]), DEPLOYMENT);
        err.replace(file.path(), "FILE")
    };
    assert_eq!(
        wrong("{}"),
        "error: FILE: must be a list of StepAnswer messages\n"
    );
    assert_eq!(
        wrong("[{\"httpCode\": \"x\"}]"),
        "error: FILE, [0]: httpCode: must be a whole number\n"
    );
    assert_eq!(
        wrong("[{\"call\": {\"verb\": \"VERB_CREATE\"}, \"httpCode\": 403}, {\"httpCode\": 99}]"),
        "error: FILE, [1]: call: is required\nerror: FILE, [1]: httpCode: is 99, and must be 0 or from 100 to 599\n"
    );
    assert_eq!(
        refused(&plan_args(&["--answers", "-"]), DEPLOYMENT),
        "error: --answers - is not supported: standard input is for objects\n"
    );
}

#[test]
fn invalid_command_lines_are_refused() {
    let err = refused(&["plan", "-f", "-", "--now", "yesterday"], DEPLOYMENT);
    assert!(
        err.starts_with("error: invalid value 'yesterday' for '--now <TIME>': not a time in RFC 3339, for example 2026-11-20T23:26:19Z\n"),
        "{err}"
    );
    let err = refused(&["plan"], "");
    assert!(err.contains("--filename <FILE>"), "{err}");
    let err = refused(&["plan", "-f", "-", "-o", "xml"], "");
    assert!(
        err.contains("[possible values: table, json, yaml, kubectl]"),
        "{err}"
    );
    let err = refused(&["plan", "-f", "-", "--horizon", "far"], "");
    assert!(err.contains("[possible values: settled, pass]"), "{err}");
    let err = refused(&["plna"], "");
    assert!(err.contains("a similar subcommand exists: 'plan'"), "{err}");
    let err = refused(&["serve", "--listen", "here"], "");
    assert!(err.contains("--listen <ADDRESS:PORT>"), "{err}");
    assert!(refused(&[], "").contains("Usage: rollplan <COMMAND>"));
}

/// Text that would control a terminal.
pub(super) const NASTY: &str = "x\u{1b}]0;pwned\u{7}\u{9b}2J\u{202e}\u{2066}";

pub(super) fn assert_escaped(err: &str) {
    assert!(
        err.contains("x\\u{1b}]0;pwned\\u{7}\\u{9b}2J\\u{202e}\\u{2066}"),
        "{err}"
    );
    assert!(
        !err.contains(|c: char| c.is_control() && c != '\n'),
        "{err:?}"
    );
    assert!(!err.contains(['\u{202e}', '\u{2066}']), "{err:?}");
}

#[test]
fn standard_error_is_escaped() {
    let quoted = quoted(NASTY);
    // An error that names the object, one that quotes a field, and a note.
    let named = DEPLOYMENT.replace("name: web\n", &format!("name: {quoted}\n"));
    let wrong = named.replace("replicas: 2", "replicas: many");
    assert_escaped(&refused(&plan_args(&[]), &wrong));
    let two = format!("{named}---\n{DEPLOYMENT}");
    assert_escaped(&refused(&plan_args(&[]), &two));
    let other = POD
        .replace("kind: Pod", "kind: Service")
        .replace("name: other", &format!("name: {quoted}"));
    let kind = POD.replace("kind: Pod", &format!("kind: {quoted}"));
    for input in [other, kind] {
        let run = rollplan(&plan_args(&[]), &format!("{DEPLOYMENT}---\n{input}"));
        assert_eq!(run.exit, 0, "{}", run.err);
        if !run.err.is_empty() {
            assert_eq!(run.err.lines().count(), 1, "{}", run.err);
        }
        assert!(
            !run.err.contains(['\u{1b}', '\u{9b}', '\u{202e}']),
            "{:?}",
            run.err
        );
    }
    assert_escaped(&refused(&["plan", "-f", NASTY], ""));
    // Arguments, because scripts forward names from a cluster. (clap removes known sequences.)
    for args in [
        &["status", "web", NASTY][..],
        &["status", "web", "--now", NASTY],
        &["status", "web", "-o", NASTY],
    ] {
        let err = refused(args, "");
        assert!(err.contains("\\u{9b}2J\\u{202e}"), "{err}");
        assert!(!err.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{err:?}");
    }
}
