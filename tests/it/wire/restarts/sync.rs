//! The loop of a controller of restarts: reads before the first plan, versions that its cache lacks, failures, and conditions
//! that are reported once.

use rollplan::proto::{Answer, PlanRestartsResponse, Read, Step};
use serde_json::{Value, json};

use super::{deployment, objects, request};

const STATE: &str = "rollplan.dev/restart-state";
/// A minute before `NOW`, in milliseconds.
const MINUTE_AGO: i64 = 1_767_229_140_000;

/// A controller that keeps what the service tells it to.
struct Controller {
    value: Vec<u8>,
    session: &'static str,
    answers: Vec<Answer>,
    options: Value,
    scope: Value,
}

impl Controller {
    fn new(max_concurrent: u32) -> Self {
        Self {
            value: Vec::new(),
            session: "a",
            answers: Vec::new(),
            options: json!({"quiet": "0s", "maxConcurrent": max_concurrent}),
            scope: json!({"namespaces": ["shop"]}),
        }
    }

    fn ask(&mut self, observed: &[Value]) -> PlanRestartsResponse {
        let mut fields = objects(observed, self.options.clone());
        fields["scope"] = self.scope.clone();
        fields["configurations"] = json!([
            {"kind": 1, "namespace": "shop", "name": "app", "keyChecksums": {"A": "fedcba9876543210".repeat(4)}},
            {"kind": 1, "namespace": "bank", "name": "app", "keyChecksums": {"A": "fedcba9876543210".repeat(4)}},
        ]);
        let mut request = request(&fields);
        request.sync = Some(rollplan::proto::Sync {
            value: std::mem::take(&mut self.value),
            session: self.session.to_owned(),
            answers: std::mem::take(&mut self.answers),
            ..rollplan::proto::Sync::default()
        });
        let response = rollplan::service::answer(request).unwrap();
        self.value
            .clone_from(&response.sync.as_ref().unwrap().value);
        response
    }

    fn answer(&mut self, id: &str, http_code: i32, body: &Value) {
        self.answers.push(Answer {
            id: id.to_owned(),
            made: true,
            http_code,
            body: body.to_string().into_bytes(),
            ..Answer::default()
        });
    }

    /// Answers all pages with these items in the first one.
    fn verified(&mut self, observed: &[Value], items: &[Value]) -> PlanRestartsResponse {
        let mut items = items.to_vec();
        loop {
            let response = self.ask(observed);
            let reads = reads(&response);
            let [read] = reads else { return response };
            assert!(response.plans.is_empty());
            let items = std::mem::take(&mut items);
            self.answer(&read.id, 200, &page(&items, ""));
        }
    }
}

fn page(items: &[Value], continues: &str) -> Value {
    let items: Vec<Value> = items
        .iter()
        .map(|it| json!({"metadata": it["metadata"]}))
        .collect();
    json!({
        "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "9", "continue": continues}, "items": items,
    })
}

fn reads(response: &PlanRestartsResponse) -> &[Read] {
    &response.sync.as_ref().unwrap().reads
}

fn paths(response: &PlanRestartsResponse) -> Vec<String> {
    let calls = reads(response).iter().filter_map(|it| it.call.as_ref());
    calls
        .map(|call| match call.query.as_str() {
            "" => call.path.clone(),
            query => format!("{}?{query}", call.path),
        })
        .collect()
}

fn steps(response: &PlanRestartsResponse) -> Vec<Step> {
    let plans = response.plans.iter();
    plans.flat_map(|it| it.steps.clone()).collect()
}

/// The workloads that are restarted, for example "Deployment web".
fn restarts(response: &PlanRestartsResponse) -> Vec<String> {
    let summaries = steps(response).into_iter().map(|it| it.summary);
    summaries
        .filter_map(|it| it.strip_prefix("restart ").map(str::to_owned))
        .collect()
}

/// A Deployment that has applied an older configuration, in a version.
fn outdated(name: &str, version: &str) -> Value {
    let state = json!({"applied": {"configmap/app": {"d": "0123456789abcdef", "w": 1}}});
    let mut object = deployment(name, Some(&state.to_string()));
    object["metadata"]["resourceVersion"] = version.into();
    object["metadata"]["generation"] = 1.into();
    object["status"] = json!({
        "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1,
    });
    object
}

/// A Deployment that was restarted a minute ago.
fn restarted(name: &str, version: &str) -> Value {
    let mut object = outdated(name, version);
    let state = json!({"restarts": [MINUTE_AGO]}).to_string();
    object["metadata"]["annotations"][STATE] = state.into();
    let mark = json!({"rollplan.dev/restarted-at": "2026-01-01T00:59:00Z"});
    object["spec"]["template"]["metadata"]["annotations"] = mark;
    object
}

#[test]
fn workloads_are_listed_in_pages_before_the_first_plan() {
    let mut controller = Controller::new(1);
    controller.scope["labelSelector"] = "app in (a,b)".into();
    let observed = [outdated("web", "5")];
    let response = controller.ask(&observed);
    let first = "/apis/apps/v1/deployments?limit=500&labelSelector=app%20in%20%28a%2Cb%29";
    assert_eq!(paths(&response), [first]);
    let read = &reads(&response)[0];
    assert!(
        read.call
            .as_ref()
            .unwrap()
            .accept
            .starts_with("application/json;as=PartialObjectMetadataList")
    );
    controller.answer(&read.id, 200, &page(&observed, "next"));
    let response = controller.ask(&observed);
    assert_eq!(paths(&response), [format!("{first}&continue=next")]);
    // The token has expired: the collection is listed again.
    controller.answer(&reads(&response)[0].id, 410, &json!({}));
    let response = controller.ask(&observed);
    assert_eq!(paths(&response), [first]);
    controller.answer(&reads(&response)[0].id, 200, &page(&observed, ""));
    let response = controller.ask(&observed);
    assert!(paths(&response)[0].starts_with("/apis/apps/v1/statefulsets?"));
    controller.answer(&reads(&response)[0].id, 404, &json!({}));
    let response = controller.ask(&observed);
    assert!(paths(&response)[0].starts_with("/apis/apps/v1/daemonsets?"));
    controller.answer(&reads(&response)[0].id, 200, &page(&[], ""));
    let response = controller.ask(&observed);
    assert_eq!(restarts(&response), ["Deployment web"]);
    // Once is enough.
    controller.answer(&steps(&response)[0].id, 200, &observed[0]);
    assert!(reads(&controller.ask(&observed)).is_empty());
}

#[test]
fn nothing_is_listed_without_a_maximum() {
    let response = Controller::new(0).ask(&[outdated("web", "5")]);
    assert_eq!(restarts(&response), ["Deployment web"]);
    assert!(response.include_namespaces.is_empty());
}

#[test]
fn failed_list_ends_the_call() {
    let mut controller = Controller::new(1);
    let observed = [outdated("web", "5")];
    for delay in [5_000_000, 10_000_000] {
        let response = controller.ask(&observed);
        controller.answer(&reads(&response)[0].id, 403, &json!({}));
        let response = controller.ask(&observed);
        assert!(response.plans.is_empty() && reads(&response).is_empty());
        let at_latest = response.sync.unwrap().at_latest.unwrap();
        assert!((1..=delay).contains(&at_latest.nanos), "{at_latest:?}");
    }
}

#[test]
fn restarts_of_an_earlier_leader_count_in_every_namespace() {
    let mut controller = Controller::new(1);
    let observed = [outdated("web", "5")];
    let mut other = restarted("other", "7");
    other["metadata"]["namespace"] = "bank".into();
    let response = controller.verified(&observed, &[observed[0].clone(), other.clone()]);
    assert_eq!(response.include_namespaces, ["bank"]);
    assert!(response.plans.is_empty());
    controller.scope = json!({"namespaces": ["bank", "shop"]});
    // The cache still shows an older version without the restart.
    let mut stale = outdated("other", "6");
    stale["metadata"]["namespace"] = "bank".into();
    let response = controller.ask(&[observed[0].clone(), stale]);
    let reasons: Vec<_> = response
        .plans
        .iter()
        .map(|it| (it.name.as_str(), it.conditions[0].reason.as_str()))
        .collect();
    assert_eq!(
        reasons,
        [("other", "WRITE_UNOBSERVED"), ("web", "MAX_CONCURRENT")]
    );
    // The restart is complete.
    let response = controller.ask(&[observed[0].clone(), other]);
    assert_eq!(restarts(&response), ["Deployment web"]);
    assert_eq!(response.include_namespaces, ["shop"]);
}

#[test]
fn own_restart_counts_until_the_cache_shows_it() {
    let mut controller = Controller::new(1);
    let observed = [outdated("a", "5"), outdated("b", "5")];
    let response = controller.verified(&observed, &[]);
    let [step] = &*steps(&response) else {
        panic!("{response:?}")
    };
    assert!(
        step.call
            .as_ref()
            .unwrap()
            .accept
            .starts_with("application/json;as=PartialObjectMetadata;")
    );
    let written = restarted("a", "8");
    controller.answer(&step.id, 200, &written);
    // The cache shows the version before, or one in between.
    for version in ["5", "7"] {
        let response = controller.ask(&[outdated("a", version), observed[1].clone()]);
        assert_eq!(restarts(&response), [""; 0], "{response:?}");
    }
    // The rollout is in progress.
    let mut progressing = restarted("a", "8");
    progressing["metadata"]["generation"] = 2.into();
    let response = controller.ask(&[progressing.clone(), observed[1].clone()]);
    assert_eq!(restarts(&response), [""; 0]);
    for step in steps(&response) {
        controller.answer(&step.id, 200, &progressing);
    }
    let response = controller.ask(&[restarted("a", "9"), observed[1].clone()]);
    assert_eq!(restarts(&response), ["Deployment b"]);
}

#[test]
fn workload_is_read_after_a_call_without_an_answer() {
    let mut controller = Controller::new(1);
    let observed = [outdated("a", "5"), outdated("b", "5")];
    let response = controller.verified(&observed, &[]);
    controller.answer(&steps(&response)[0].id, 0, &json!({}));
    let response = controller.ask(&observed);
    assert_eq!(
        paths(&response),
        ["/apis/apps/v1/namespaces/shop/deployments/a"]
    );
    // It was made.
    controller.answer(&reads(&response)[0].id, 200, &restarted("a", "8"));
    let response = controller.ask(&observed);
    assert_eq!((restarts(&response), paths(&response)), (vec![], vec![]));

    // It was not made.
    let mut controller = Controller::new(1);
    let response = controller.verified(&observed, &[]);
    controller.answer(&steps(&response)[0].id, 503, &json!({}));
    let response = controller.ask(&observed);
    controller.answer(&reads(&response)[0].id, 200, &observed[0]);
    let response = controller.ask(&observed);
    assert_eq!(restarts(&response), ["Deployment a"]);

    // It does not exist anymore.
    let mut controller = Controller::new(1);
    let response = controller.verified(&observed, &[]);
    controller.answer(&steps(&response)[0].id, 0, &json!({}));
    let response = controller.ask(&observed);
    controller.answer(&reads(&response)[0].id, 404, &json!({}));
    let response = controller.ask(&observed[1..]);
    assert_eq!(restarts(&response), ["Deployment b"]);
}

#[test]
fn missing_answer_raises_doubts_about_everything() {
    let mut controller = Controller::new(1);
    let observed = [outdated("a", "5")];
    let response = controller.verified(&observed, &[]);
    assert_eq!(steps(&response).len(), 1);
    assert_eq!(reads(&controller.ask(&observed)).len(), 1);
}

#[test]
fn rejected_call_is_repeated_with_a_growing_delay_and_takes_no_place() {
    let mut controller = Controller::new(1);
    let observed = [outdated("a", "5"), outdated("b", "5")];
    let mut response = controller.verified(&observed, &[]);
    for _ in 0..2 {
        assert_eq!(restarts(&response), ["Deployment a"]);
        controller.answer(&steps(&response)[0].id, 403, &json!({}));
        response = controller.ask(&observed);
    }
    // The second failure.
    assert_eq!(restarts(&response), ["Deployment b"]);
    let plan = &response.plans[0];
    assert_eq!(
        (plan.name.as_str(), plan.conditions[0].reason.as_str()),
        ("a", "CALL_FAILED")
    );
    let sync = response.sync.as_ref().unwrap();
    assert!(
        sync.at_latest
            .is_some_and(|it| it.seconds == 0 && it.nanos <= 10_000_000)
    );
    // Nothing can be created in a namespace that is being deleted.
    let terminating = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden",
        "details": {"causes": [{"reason": "NamespaceTerminating"}]}});
    controller.answer(&steps(&response)[0].id, 403, &terminating);
    let response = controller.ask(&observed[1..]);
    assert_eq!(restarts(&response), ["Deployment b"]);
}

#[test]
fn condition_is_reported_once_in_a_session() {
    let mut controller = Controller::new(0);
    let mut paused = outdated("web", "5");
    paused["spec"]["paused"] = true.into();
    let observed = [paused];
    let events = |response: &PlanRestartsResponse| -> Vec<String> {
        let conditions = response.plans.iter().flat_map(|it| &it.conditions);
        let events = conditions.filter_map(|it| it.event.as_ref());
        events.map(|it| it.reason.clone()).collect()
    };
    let first = events(&controller.ask(&observed));
    assert_eq!(first.len(), 1);
    assert_eq!(events(&controller.ask(&observed)), [""; 0]);
    // It ends, and begins again.
    _ = controller.ask(&[outdated("web", "6")]);
    assert_eq!(events(&controller.ask(&observed)), first);
    controller.session = "b";
    assert_eq!(events(&controller.ask(&observed)), first);
}

#[test]
fn steps_of_a_response_are_limited() {
    let mut controller = Controller::new(0);
    let many: Vec<Value> = (0..700)
        .map(|index| outdated(&format!("web-{index:03}"), "5"))
        .collect();
    let response = controller.ask(&many);
    assert_eq!(steps(&response).len(), 500);
    assert_eq!(response.sync.unwrap().at_latest.unwrap().nanos, 1_000_000);
    let mut ids: Vec<_> = response
        .plans
        .iter()
        .flat_map(|it| &it.steps)
        .map(|it| &it.id)
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 500);
}

#[test]
fn scope_is_checked() {
    let error = |fields: Value, has_sync: bool| {
        let mut value = objects(&[], json!({}));
        value["scope"] = fields;
        if has_sync {
            value["sync"] = json!({"session": "a"});
        }
        rollplan::service::answer(request(&value))
            .unwrap_err()
            .to_string()
    };
    assert!(error(json!({}), true).contains("scope.namespaces"));
    assert!(error(json!({"namespaces": ["A b"]}), true).contains("scope.namespaces[0]"));
    assert!(
        error(
            json!({"namespaces": ["a"], "observedNamespaces": [""]}),
            true
        )
        .contains("scope.observed_namespaces[0]")
    );
    assert!(error(json!({"namespaces": ["a"]}), false).contains("scope"));
}
