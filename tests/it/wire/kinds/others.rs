//! Objects that have no status, an odd one, or no UID.

use rollplan::proto::{Outlook, Phase};
use serde_json::{Value, json};

use super::{check, object, pod, ready, report, stateful_set};

/// Fields of another type than usual are ignored.
#[test]
fn odd_statuses_of_unknown_kinds_are_not_judged() {
    for status in [
        json!({}),
        json!([1, 2]),
        json!({"conditions": {"Ready": "yes"}, "observedGeneration": "1"}),
        json!({"conditions": [{"type": 1, "status": true}, 7, null], "phase": ["Ready"]}),
    ] {
        let object = object(
            "example.com/v1",
            "Database",
            "main",
            json!({}),
            status.clone(),
        );
        let report = report(60, &object, &[]);
        let verdict = report.verdict.clone().unwrap();
        assert!(report.generic, "{status}");
        let found = (
            report.phase(),
            verdict.outlook(),
            verdict.certain,
            &*verdict.reason,
        );
        let expected = (Phase::NotJudged, Outlook::NotJudged, false, "NOT_JUDGED");
        assert_eq!(found, expected, "{status}");
    }
    let known = report(60, &stateful_set(json!({}), json!({})), &[]);
    assert!(!known.generic);
}

#[test]
fn objects_without_a_status_are_complete_when_they_exist() {
    for kind in ["ConfigMap", "Secret"] {
        let object = object("v1", kind, "app", Value::Null, Value::Null);
        let report = report(60, &object, &[]);
        let message = format!("{} \"app\" exists", kind.to_lowercase());
        check(
            &report,
            Phase::Complete,
            Outlook::Complete,
            true,
            "",
            &message,
        );
    }
}

/// A UID is needed only to find the pods of an owner.
#[test]
fn single_pods_need_no_uid() {
    let owner = object("v1", "Other", "o", Value::Null, Value::Null);
    let mut pod = pod("web", &owner, "", "n", ready());
    pod["metadata"]["ownerReferences"] = json!([]);
    let whole = report(60, &pod, &[]);
    pod["metadata"].as_object_mut().unwrap().remove("uid");
    assert_eq!(report(60, &pod, &[]), whole);
}
