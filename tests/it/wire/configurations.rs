//! What a rollback requires, and what the caller has looked up.

use rollplan::proto::{self, ConfigurationKind, LookedUpConfiguration, RequiredConfiguration};
use rollplan::wire::Error;
use serde_json::json;

use super::example;

/// A rollback to a revision that reads a variable from each of a ConfigMap and a Secret.
fn rollback(configurations: Vec<LookedUpConfiguration>) -> Result<proto::RollbackResponse, Error> {
    let mut request = example("after-undo");
    let env = json!([
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "level"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "token", "key": "value"}}},
    ]);
    for item in &mut request.items {
        if item["kind"] != "Pod" {
            item["spec"]["template"]["spec"]["containers"][0]["env"] = env.clone();
        }
    }
    rollplan::service::answer(proto::RollbackRequest {
        configurations,
        ..request.rollback_request()
    })
}

fn looked_up(kind: ConfigurationKind, name: &str) -> LookedUpConfiguration {
    LookedUpConfiguration {
        kind: kind.into(),
        name: name.to_owned(),
        ..LookedUpConfiguration::default()
    }
}

#[test]
fn a_rollback_lists_what_it_requires() {
    let required = |kind: ConfigurationKind, name: &str, key: &str| RequiredConfiguration {
        kind: kind.into(),
        name: name.to_owned(),
        keys: vec![key.to_owned()],
    };
    let answer = rollback(Vec::new()).unwrap();
    assert_eq!(
        answer.required,
        [
            required(ConfigurationKind::ConfigMap, "settings", "level"),
            required(ConfigurationKind::Secret, "token", "value"),
        ]
    );
    let are_missing = answer.warnings.iter().any(|it| it.contains("cannot start"));
    assert!(!are_missing, "{:?}", answer.warnings);
}

#[test]
fn what_was_looked_up_and_is_missing_is_a_warning() {
    let map = || looked_up(ConfigurationKind::ConfigMap, "settings");
    let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
    let gone = "ConfigMap settings does not exist";
    let without = "ConfigMap settings does not have the key level";
    for (configuration, expected) in [
        (
            LookedUpConfiguration {
                absent: true,
                ..map()
            },
            Some(gone),
        ),
        (map(), Some(without)),
        (
            LookedUpConfiguration {
                keys: keys(&["a"]),
                ..map()
            },
            Some(without),
        ),
        (
            LookedUpConfiguration {
                binary_keys: keys(&["level"]),
                ..map()
            },
            Some(without),
        ),
        (
            LookedUpConfiguration {
                keys: keys(&["a", "level"]),
                ..map()
            },
            None,
        ),
        (
            LookedUpConfiguration {
                keys_unknown: true,
                ..map()
            },
            None,
        ),
        (
            LookedUpConfiguration {
                absent: true,
                ..looked_up(ConfigurationKind::Secret, "settings")
            },
            None,
        ),
    ] {
        let what = format!("{configuration:?}");
        let warnings = rollback(vec![configuration]).unwrap().warnings;
        let mut missing = warnings.iter().filter(|it| it.contains("cannot start"));
        match expected {
            Some(expected) => {
                let warning = missing.next().unwrap();
                assert!(warning.starts_with(expected), "{what}: {warning}");
            }
            None => assert_eq!(missing.next(), None, "{what}"),
        }
    }
}

#[test]
fn contradictions_in_what_was_looked_up_are_refused() {
    let map = || looked_up(ConfigurationKind::ConfigMap, "settings");
    let keys = || vec!["a".to_owned()];
    for (configuration, field, reason) in [
        (
            looked_up(ConfigurationKind::Unspecified, "a"),
            "kind",
            "REQUIRED",
        ),
        (
            looked_up(ConfigurationKind::SecretProviderClass, "a"),
            "kind",
            "OUT_OF_RANGE",
        ),
        (
            looked_up(ConfigurationKind::Secret, "A b"),
            "name",
            "INVALID_NAME",
        ),
        (
            LookedUpConfiguration {
                absent: true,
                keys: keys(),
                ..map()
            },
            "absent",
            "EXCLUSIVE",
        ),
        (
            LookedUpConfiguration {
                absent: true,
                keys_unknown: true,
                ..map()
            },
            "absent",
            "EXCLUSIVE",
        ),
        (
            LookedUpConfiguration {
                keys_unknown: true,
                binary_keys: keys(),
                ..map()
            },
            "keys_unknown",
            "EXCLUSIVE",
        ),
    ] {
        let what = format!("{configuration:?}");
        let Err(Error::InvalidArgument(violations)) = rollback(vec![map(), configuration]) else {
            panic!("{what} is accepted");
        };
        let [violation] = &violations.listed[..] else {
            panic!("{what}: {:?}", violations.listed);
        };
        let path = format!("configurations[1].{field}");
        assert_eq!(
            (&*violation.field, violation.reason.as_str()),
            (&*path, reason),
            "{what}"
        );
    }
}
