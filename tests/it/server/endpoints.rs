//! The endpoints /v1/status and /v1/plan, which accept the output of kubectl.

use std::fs;
use std::time::{Duration, SystemTime};

use rollplan::server::{Config, Server};
use rollplan::wire::REQUEST_BYTES_MAX;
use rollplan_world::json::{config_map, list, workload};
use serde_json::{Value, json};

use super::connect::check_error;
use super::http::{Ask, Reply};
use super::observed::{get, mk_observed, sample};
use super::planners::Staged;
use super::raw;
use super::{Serving, mk_config, serve, start, start_with};
use crate::cli::examples::time_of;
use crate::request::ITEMS;

const NOW: &str = "2026-11-20T23:27:30Z";
/// The content type that curl sends with `--data-binary`.
const FORM: &str = "application/x-www-form-urlencoded";

fn read(path: &str) -> String {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn printed(example: &str) -> String {
    read(&format!("examples/{example}.json"))
}

/// The objects of a rollout in progress as printed by kubectl, with a change.
fn changed(change: impl FnOnce(&mut Vec<Value>)) -> String {
    let mut list: Value = serde_json::from_str(&printed("mid-rollout")).unwrap();
    change(list["items"].as_array_mut().unwrap());
    list.to_string()
}

fn ask(path: &str, body: impl Into<String>) -> Ask {
    Ask::post(path, FORM, body.into())
}

fn blockers(reply: &Reply) -> Vec<String> {
    assert_eq!(reply.status, 200, "{reply:?}");
    let answer = reply.json();
    let blockers = answer["report"]["blockers"].as_array();
    let reasons = blockers.into_iter().flatten();
    reasons
        .map(|it| it["reason"].as_str().unwrap().to_owned())
        .collect()
}

/// The text that the command prints, with the time of the snapshot.
#[tokio::test]
async fn text_matches_the_command() {
    let Serving { address, .. } = start().await;
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(example) = name.strip_suffix(".json") else {
            continue;
        };
        let now = time_of(example);
        for verb in ["status", "plan"] {
            let ask = ask(&format!("/v1/{verb}?now={now}"), printed(example));
            let reply = ask.with("accept", "text/plain").over_http1(address).await;
            assert_eq!(reply.status, 200, "{reply:?}");
            let expected = read(&format!("tests/golden/{example}.{verb}.txt"));
            assert_eq!(
                reply.text(),
                format!("{expected}\nAs of {now}.\n"),
                "{example}"
            );
            let content_type = reply.header("content-type");
            assert_eq!(content_type, Some("text/plain; charset=utf-8"));
        }
    }
}

/// The JSON that the command prints, with the time of the snapshot, for any content type and over both versions of HTTP.
#[tokio::test]
async fn json_matches_the_command() {
    let Serving { address, .. } = start().await;
    let mut raw = raw::connect(address).await;
    let mut expected: Value =
        serde_json::from_str(&read("tests/golden/mid-rollout.plan.json")).unwrap();
    let now = time_of("mid-rollout");
    expected["now"] = now.as_str().into();
    let ask = ask(&format!("/v1/plan?now={now}"), printed("mid-rollout"));
    for ask in [
        ask.clone(),
        ask.clone().without("content-type"),
        ask.clone().with("content-type", "application/json"),
        ask.clone().with("content-type", "text/html"),
        ask.clone().with("content-type", "application/grpc"),
        ask.clone().with("accept", "*/*"),
    ] {
        for reply in [
            ask.over_http1(address).await,
            ask.over_http2(&mut raw).await,
        ] {
            assert_eq!(reply.status, 200, "{reply:?}");
            assert_eq!(reply.header("content-type"), Some("application/json"));
            assert_eq!(reply.header("cache-control"), Some("no-store"));
            assert_eq!(reply.header("rollplan-now"), Some(now.as_str()));
            assert_eq!(reply.header("grpc-status"), None);
            assert_eq!(reply.json(), expected);
        }
    }
}

#[tokio::test]
async fn large_and_compressed_bodies_are_accepted() {
    let Serving { address, .. } = start().await;
    let small = ask(&format!("/v1/plan?now={NOW}"), printed("mid-rollout"));
    let expected = small.over_http1(address).await.body;
    // The additional objects are not selected.
    let large = changed(|items| {
        for index in 0..20_000 {
            items.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata":
                {"namespace": "elsewhere", "name": format!("p{index}")}}));
        }
    });
    let mut large = Ask {
        body: large.into(),
        ..small
    };
    assert_eq!(large.over_http1(address).await.body, expected);
    large.body = zstd::stream::encode_all(&large.body[..], 0).unwrap().into();
    let large = large.with("content-encoding", "zstd");
    assert_eq!(large.over_http1(address).await.body, expected);
}

#[tokio::test]
async fn query_may_set_the_current_time() {
    let server = Server::bind(mk_config()).await.unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_217_250_999);
    let Serving { address, .. } = serve(server.with_clock(move || time)).await;
    let ask = |query: &str| ask(&format!("/v1/status{query}"), printed("mid-rollout"));
    let replies = [
        ask("").over_http1(address).await,
        ask("?now=2026-11-20T23:27:30Z").over_http1(address).await,
        ask("?now=2026-11-21T01:27:30%2B02:00")
            .over_http1(address)
            .await,
        ask("?now=2026-11-21T01:27:30+02:00")
            .over_http1(address)
            .await,
    ];
    for reply in &replies {
        assert_eq!(reply.json()["now"], NOW);
        assert_eq!(reply.header("rollplan-now"), Some(NOW));
        assert_eq!(reply.body, replies[0].body);
    }
    let later = ask("?now=2026-11-20T23:27:31Z").over_http1(address).await;
    assert_eq!(later.json()["now"], "2026-11-20T23:27:31Z");
}

#[tokio::test]
async fn query_selects_one_of_several_deployments() {
    let Serving { address, .. } = start().await;
    let both = changed(|items| {
        let mut other = items[0].clone();
        assert_eq!(other["kind"], "Deployment");
        other["metadata"]["name"] = "api".into();
        other["metadata"]["uid"] = "other".into();
        items.push(other);
    });
    let named = |query: &str| ask(&format!("/v1/status?{query}"), both.clone());
    for query in [
        "deployment=web",
        "deployment=shop/web",
        "deployment=web&namespace=shop",
    ] {
        let reply = named(query).over_http1(address).await;
        let object = &reply.json()["object"];
        assert_eq!(object["name"], "web", "{query}: {reply:?}");
        let text = named(query).with("accept", "text/plain");
        let text = text.over_http1(address).await;
        assert!(text.text().starts_with("Deployment shop/web"));
    }
    let reply = named("").over_http1(address).await;
    let said = check_error(&reply, 400, "invalid_argument", "INVALID_REQUEST");
    assert!(said.starts_with("deployment: is required"), "{said}");
    assert!(said.contains("Deployment shop/api"), "{said}");
    let reply = named("deployment=db").over_http1(address).await;
    let said = check_error(&reply, 400, "invalid_argument", "INVALID_REQUEST");
    assert!(said.starts_with("deployment: not found"), "{said}");
    let reply = named("deployment=web&resource=a/b")
        .over_http1(address)
        .await;
    let said = check_error(&reply, 400, "invalid_argument", "INVALID_REQUEST");
    assert!(said.starts_with("resource: must be"), "{said}");
}

#[tokio::test]
async fn query_selects_owners_of_another_kind() {
    let Serving { address, .. } = start().await;
    let planned = changed(|items| {
        items[0]["apiVersion"] = "apps.rollplan.dev/v1alpha1".into();
        items[0]["kind"] = "PlannedDeployment".into();
    });
    let query =
        "api_version=apps.rollplan.dev/v1alpha1&kind=PlannedDeployment&resource=planneddeployments";
    let ask = ask(&format!("/v1/plan?now={NOW}&{query}"), planned);
    let reply = ask.over_http1(address).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let text = reply.text();
    assert!(text.contains("/planneddeployments/web"), "{text}");
    let text = ask.with("accept", "text/plain").over_http1(address).await;
    assert!(text.text().starts_with("PlannedDeployment shop/web: "));
}

/// The same rules as for files on the command line.
#[tokio::test]
async fn lists_are_complete_if_consistent_or_declared_complete() {
    let Serving { address, .. } = start().await;
    let ask = |query: &str, body: &str| ask(&format!("/v1/plan?now={NOW}{query}"), body);
    let lacking = changed(|items| {
        items.retain(|item| item["metadata"]["name"] != "web-67fc9594b8");
    });
    let incomplete = ["REPLICA_SETS_INCOMPLETE"];
    let reply = ask("", &lacking).over_http1(address).await;
    assert_eq!(blockers(&reply), incomplete);
    assert_eq!(reply.json().get("steps"), None);
    let reply = ask("&replica_sets_complete=true", &lacking);
    let reply = reply.over_http1(address).await;
    assert!(reply.json()["steps"].is_array());
    let whole = printed("mid-rollout");
    let reply = ask("&replica_sets_complete=false", &whole);
    assert_eq!(blockers(&reply.over_http1(address).await), incomplete);
    let mut page: Value = serde_json::from_str(&whole).unwrap();
    page["metadata"] = json!({"continue": "next"});
    let reply = ask("", &page.to_string()).over_http1(address).await;
    assert_eq!(blockers(&reply), incomplete);
    let mut waiting: Value = serde_json::from_str(&printed("recreate-waiting")).unwrap();
    let items = waiting["items"].as_array_mut().unwrap();
    items.retain(|item| item["kind"] != "Pod");
    let waiting = waiting.to_string();
    let reply = ask("", &waiting).over_http1(address).await;
    let reasons = blockers(&reply);
    assert!(
        reasons.contains(&"PODS_INCOMPLETE".to_owned()),
        "{reasons:?}"
    );
    let reply = ask("&pods_complete=true", &waiting);
    let reasons = blockers(&reply.over_http1(address).await);
    assert!(
        !reasons.contains(&"PODS_INCOMPLETE".to_owned()),
        "{reasons:?}"
    );
}

#[tokio::test]
async fn horizons_match_plans() {
    let Serving { address, .. } = start().await;
    let steps = async |horizon: &str| {
        let path = format!("/v1/plan?now={NOW}&horizon={horizon}");
        let reply = ask(&path, printed("mid-rollout")).over_http1(address).await;
        reply.json()["steps"].as_array().unwrap().len()
    };
    assert_ne!(steps("settled").await, steps("pass").await);
}

#[tokio::test]
async fn errors_have_the_format_that_the_client_accepts() {
    let Serving { address, .. } = start().await;
    let mut raw = raw::connect(address).await;
    let whole = printed("mid-rollout");
    let wrong = changed(|items| items[0]["spec"]["replicas"] = json!("\u{1b}[31m"));
    for (query, body, reason, expected) in [
        (
            "deploymnet=web&x=1",
            &*whole,
            "INVALID_PARAMETER",
            "deploymnet: is unknown; the parameters are deployment, namespace, api_version, kind, resource, \
             replica_sets_complete, pods_complete and now; x: is unknown; ",
        ),
        (
            "horizon=pass",
            &whole,
            "INVALID_PARAMETER",
            "horizon: is unknown",
        ),
        (
            "now=yesterday",
            &whole,
            "INVALID_PARAMETER",
            "now: not a time",
        ),
        (
            "",
            "",
            "INVALID_REQUEST",
            "[0]: is empty: kubectl prints nothing",
        ),
        (
            "",
            "{\"kind\":\"List\"",
            "INVALID_REQUEST",
            "byte 14: ends within a value",
        ),
        (
            "",
            "NAME  READY",
            "INVALID_REQUEST",
            "[0]: is a table of kubectl",
        ),
        (
            "",
            "{\"kind\":\"List\",\"items\":[]}",
            "INVALID_REQUEST",
            "has no apps/v1 Deployment",
        ),
        (
            "",
            &wrong,
            "INVALID_REQUEST",
            &format!("{ITEMS}[0].spec.replicas: "),
        ),
    ] {
        let ask = ask(&format!("/v1/status?{query}"), body);
        for reply in [
            ask.over_http1(address).await,
            ask.over_http2(&mut raw).await,
        ] {
            let said = check_error(&reply, 400, "invalid_argument", reason);
            assert!(said.contains(expected), "{said}");
            assert_eq!(reply.header("cache-control"), Some("no-store"));
        }
        let ask = ask.with("accept", "text/plain");
        for reply in [
            ask.over_http1(address).await,
            ask.over_http2(&mut raw).await,
        ] {
            assert_eq!(reply.status, 400);
            let content_type = reply.header("content-type");
            assert_eq!(content_type, Some("text/plain; charset=utf-8"));
            assert_eq!(reply.header("cache-control"), Some("no-store"));
            assert!(reply.text().starts_with("error: "), "{}", reply.text());
            assert!(reply.text().contains(expected), "{}", reply.text());
            assert!(!reply.text().contains('\u{1b}'));
        }
    }
}

#[tokio::test]
async fn bodies_that_are_not_utf8_are_refused() {
    let Serving { address, .. } = start().await;
    let ask = Ask::post("/v1/status", FORM, &b"{\"kind\": \"\xff\"}"[..]);
    let reply = ask.over_http1(address).await;
    let said = check_error(&reply, 400, "invalid_argument", "INVALID_REQUEST");
    assert_eq!(said, "snapshot.objects[0]: byte 10: is not UTF-8");
    let violations = &reply.json()["details"][1]["debug"]["fieldViolations"];
    assert_eq!(violations[0]["reason"], "INVALID_UTF8");
}

#[tokio::test]
async fn only_posts_to_the_two_paths_are_accepted() {
    let Serving { address, .. } = start().await;
    let mut raw = raw::connect(address).await;
    for path in ["/v1/status", "/v1/plan"] {
        for method in ["GET", "PUT", "DELETE", "OPTIONS"] {
            let ask = Ask {
                method,
                ..ask(path, "")
            };
            for reply in [
                ask.over_http1(address).await,
                ask.over_http2(&mut raw).await,
            ] {
                check_error(&reply, 405, "unknown", "METHOD_NOT_ALLOWED");
                assert_eq!(reply.header("allow"), Some("POST"));
            }
        }
    }
    for path in ["/v1", "/v1/", "/v1/status/", "/v1/Status", "/v2/status"] {
        let reply = ask(path, "").over_http1(address).await;
        let said = check_error(&reply, 404, "unimplemented", "UNKNOWN_METHOD");
        assert!(said.contains("/v1/status"), "{said}");
    }
    let reply = ask("/", "").over_http1(address).await;
    let said = check_error(&reply, 404, "unimplemented", "UNKNOWN_METHOD");
    assert!(
        said.starts_with("nothing is served here: POST to "),
        "{said}"
    );
}

/// The endpoints pass the same layers: size, deadline, shedding, metrics.
#[tokio::test]
async fn limits_apply_like_for_other_calls() {
    let config = Config {
        concurrent_calls_max: 1,
        ..mk_observed()
    };
    let staged = Staged::default();
    let Serving { address, http, .. } = staged.start(config).await;
    let path = format!("/v1/plan?now={NOW}");
    // Few objects, for a small call.
    let deployment = changed(|items| items.truncate(1));
    let plan = ask(&path, deployment.clone());
    let late = plan.clone().with("connect-timeout-ms", "50");
    let reply = late.over_http1(address).await;
    check_error(&reply, 504, "deadline_exceeded", "DEADLINE_EXCEEDED");
    staged.started.notified().await;
    let running = plan.clone();
    let running = tokio::spawn(async move { running.over_http1(address).await });
    staged.started.notified().await;
    let reply = plan.over_http1(address).await;
    check_error(&reply, 429, "resource_exhausted", "OVERLOADED");
    staged.go_on.notify_one();
    assert_eq!(running.await.unwrap().status, 200);
    let reply = ask(&path, " ".repeat(REQUEST_BYTES_MAX + 1));
    let reply = reply.over_http1(address).await;
    check_error(&reply, 429, "resource_exhausted", "REQUEST_TOO_LARGE");
    // ComputeStatus panics.
    let status = ask("/v1/status", deployment).over_http1(address).await;
    check_error(&status, 500, "internal", "INTERNAL_ERROR");
    let unknown = ask("/v1/plan?x=1", "").over_http1(address).await;
    assert_eq!(unknown.status, 400);
    let (_, metrics) = get(http.unwrap(), "/metrics").await;
    let handled = |method: &str, code: &str| {
        let labels = [("grpc_method", method), ("grpc_code", code)];
        sample(&metrics, "grpc_server_handled_total", &labels)
    };
    assert_eq!(handled("PlanRollout", "OK"), 1.0);
    assert_eq!(handled("PlanRollout", "DeadlineExceeded"), 1.0);
    assert_eq!(handled("PlanRollout", "ResourceExhausted"), 2.0);
    assert_eq!(handled("PlanRollout", "InvalidArgument"), 1.0);
    assert_eq!(handled("ComputeStatus", "Internal"), 1.0);
}

#[tokio::test]
async fn answers_are_compressed_if_configured() {
    let config = Config {
        compress_answers_min: Some(100),
        ..mk_config()
    };
    let Serving { address, .. } = start_with(config).await;
    for accept in ["application/json", "text/plain"] {
        let ask = ask(&format!("/v1/plan?now={NOW}"), printed("mid-rollout"));
        let ask = ask.with("accept", accept);
        let plain = ask.over_http1(address).await;
        let reply = ask
            .with("accept-encoding", "gzip")
            .over_http1(address)
            .await;
        assert_eq!(reply.header("content-encoding"), Some("gzip"));
        let mut text = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(&reply.body[..]);
        std::io::Read::read_to_end(&mut decoder, &mut text).unwrap();
        assert_eq!(text, plain.body);
    }
}

#[tokio::test]
async fn configured_origins_may_call() {
    let ours = "https://console.example.com";
    let config = Config {
        cors_allow_origins: vec![ours.to_owned()],
        ..mk_config()
    };
    let Serving { address, .. } = start_with(config).await;
    let call = ask(&format!("/v1/plan?now={NOW}"), printed("mid-rollout"));
    for (origin, expected) in [(ours, Some(ours)), ("https://evil.example.com", None)] {
        let preflight = Ask {
            method: "OPTIONS",
            ..ask("/v1/plan", "")
        };
        let preflight = preflight
            .with("origin", origin)
            .with("access-control-request-method", "POST")
            .with("access-control-request-headers", "accept,content-type");
        let reply = preflight.over_http1(address).await;
        assert_eq!(reply.header("access-control-allow-origin"), expected);
        let reply = call
            .clone()
            .with("origin", origin)
            .over_http1(address)
            .await;
        assert_eq!(reply.header("access-control-allow-origin"), expected);
    }
}

#[tokio::test]
async fn history_and_undo_match_the_command() {
    let Serving { address, .. } = start().await;
    for example in ["mid-rollout", "after-undo", "history-cleanup"] {
        let now = time_of(example);
        for verb in ["history", "undo"] {
            let ask = ask(&format!("/v1/{verb}?now={now}"), printed(example));
            let reply = ask.with("accept", "text/plain").over_http1(address).await;
            assert_eq!(reply.status, 200, "{reply:?}");
            let expected = read(&format!("tests/golden/{example}.{verb}.txt"));
            assert_eq!(
                reply.text(),
                format!("{expected}\nAs of {now}.\n"),
                "{example}"
            );
        }
    }
    let undo = |query: &str| {
        ask(
            &format!("/v1/undo?now={NOW}{query}"),
            printed("mid-rollout"),
        )
    };
    let reply = undo("&to_revision=1").over_http1(address).await;
    assert_eq!(reply.json()["toRevision"], "1", "{reply:?}");
    let reply = undo("&to_revision=9").over_http1(address).await;
    check_error(&reply, 404, "not_found", "REVISION_NOT_FOUND");
    let reply = ask(&format!("/v1/history?now={NOW}"), printed("mid-rollout"));
    let reply = reply.over_http1(address).await;
    assert_eq!(reply.json()["revisions"].as_array().unwrap().len(), 3);
    assert_eq!(reply.json()["now"], NOW);
}

/// A workload that uses a ConfigMap.
fn configured() -> String {
    let reads = json!({"envFrom": [{"configMapRef": {"name": "app"}}]});
    let map = config_map("app", json!({"A": "1"}));
    list(&[workload("web", json!({}), reads), map]).to_string()
}

#[tokio::test]
async fn restarts_are_planned() {
    let Serving { address, .. } = start().await;
    let path = format!("/v1/restarts?now={NOW}&all_workloads=true");
    let reply = ask(&path, configured()).over_http1(address).await;
    assert_eq!(reply.json()["counts"]["workloads"], 1, "{reply:?}");
    assert_eq!(
        reply.json()["plans"][0]["decision"],
        "RESTART_DECISION_RECORD"
    );
    let text = ask(&path, configured()).with("accept", "text/plain");
    let text = text.over_http1(address).await.text().to_owned();
    assert!(
        text.starts_with("0 of 1 workloads to restart, 1 to record\n"),
        "{text}"
    );
    assert!(text.ends_with(&format!("\nAs of {NOW}.\n")), "{text}");
    let broken = configured().replace("\"web\"", "\"W b\"");
    let text = ask(&path, broken).with("accept", "text/plain");
    let text = text.over_http1(address).await.text().to_owned();
    assert!(
        text.contains("skipped: objects[0].items[0].metadata.name: "),
        "{text}"
    );
    let reply = ask("/v1/restarts", "").over_http1(address).await;
    let said = check_error(&reply, 400, "invalid_argument", "INVALID_REQUEST");
    assert!(said.starts_with("objects[0]: is empty"), "{said}");
}

#[tokio::test]
async fn yaml_is_accepted() {
    let Serving { address, .. } = start().await;
    let ask = |path: &str, body: &str| ask(path, body);
    let path = format!("/v1/status?now={NOW}");
    let objects: Value = serde_json::from_str(&printed("mid-rollout")).unwrap();
    let expected = ask(&path, &objects.to_string()).over_http1(address).await;
    // JSON is YAML, too; a comment keeps it from being read as JSON.
    let documents: Vec<String> = objects["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| format!("# an object\n{item}\n"))
        .collect();
    let reply = ask(&path, &documents.join("---\n"))
        .over_http1(address)
        .await;
    assert_eq!(reply.text(), expected.text());
    for (body, expected) in [
        (
            "a: &a 1\nb: *a",
            "snapshot.objects[0]: YAML line 2, column 4: aliases are not supported",
        ),
        ("a: [1", "snapshot.objects[0]: YAML line "),
        (
            "kind: Deployment",
            "snapshot.objects: has no apps/v1 Deployment",
        ),
    ] {
        let reply = ask(&path, body).over_http1(address).await;
        let said = check_error(&reply, 400, "invalid_argument", "INVALID_REQUEST");
        assert!(said.starts_with(expected), "{body}: {said}");
    }
}

#[tokio::test]
async fn bodies_without_objects_are_named() {
    let Serving { address, .. } = start().await;
    for (body, expected) in [
        (
            "",
            "snapshot.objects[0]: is empty: kubectl prints nothing if it fails",
        ),
        (
            "<html><head><title>502 Bad Gateway</title>",
            "snapshot.objects[0]: is HTML, for example the error page of a proxy: 502 Bad Gateway",
        ),
        (
            "NAME   READY   AGE\nweb    3/3     5d\n",
            "snapshot.objects[0]: is a table of kubectl: use kubectl get -o json",
        ),
        (
            r#"{"kind":"Status","apiVersion":"v1","message":"deployments.apps \"web\" not found"}"#,
            "snapshot.objects[0]: is a Status, which is the response to a failed call or a deletion: \
             deployments.apps \"web\" not found",
        ),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 2}\n",
            "snapshot.objects[0]: is a manifest: send the live object, as kubectl get -o json prints it",
        ),
    ] {
        for path in ["/v1/status", "/v1/plan", "/v1/history", "/v1/undo"] {
            let reply = ask(path, body).over_http1(address).await;
            let said = check_error(&reply, 400, "invalid_argument", "INVALID_REQUEST");
            assert_eq!(said, expected, "{path}");
        }
    }
    let reply = ask("/v1/status?kind=StatefulSet", "{}")
        .over_http1(address)
        .await;
    let said = check_error(&reply, 400, "invalid_argument", "INVALID_PARAMETER");
    assert!(
        said.starts_with("api_version: is required with kind"),
        "{said}"
    );
}
