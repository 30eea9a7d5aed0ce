//! The input of the command line: files, formats, objects and options.

mod completeness;
mod files;
mod formats;
mod objects;

pub(super) use formats::from_yaml;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

use super::{DEPLOYMENT, Scratch, answered, plan_args, planned};

const CREATED: [&str; 1] = ["create ReplicaSet web-79c545b47 with 2 replicas"];

#[test]
fn answers_change_the_plan() {
    let answer: Value = serde_json::from_str(&answered(&plan_args(&[]), DEPLOYMENT)).unwrap();
    let call = &answer["steps"][0]["call"];
    let body = json!({"kind": "Status", "reason": "Forbidden", "message": "exceeded quota: pods"});
    let body = BASE64_STANDARD.encode(body.to_string());
    let answers = json!([{"call": call, "httpCode": 403, "body": body}]);
    let file = Scratch::new(&answers.to_string());
    let answer = answered(&plan_args(&["--answers", file.path()]), DEPLOYMENT);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let conditions = answer["status"]["conditions"].as_array().unwrap();
    assert!(
        conditions
            .iter()
            .any(|condition| condition["reason"] == "ReplicaSetCreateError"),
        "{conditions:?}"
    );
    let none = Scratch::new("[]");
    assert_eq!(planned(&["--answers", none.path()], DEPLOYMENT), CREATED);
}

#[test]
fn current_time_is_the_default_of_now() {
    let year = |args: &[&str]| {
        let answer: Value = serde_json::from_str(&answered(args, DEPLOYMENT)).unwrap();
        let time = answer["status"]["conditions"][0]["lastUpdateTime"]
            .as_str()
            .unwrap();
        time[..4].parse::<u32>().unwrap()
    };
    assert!(year(&["plan", "-f", "-", "-o", "json"]) >= 2025);
    assert_eq!(
        year(&[
            "plan",
            "-f",
            "-",
            "-o",
            "json",
            "--now",
            "1999-01-01T00:00:00+01:00"
        ]),
        1998
    );
}
