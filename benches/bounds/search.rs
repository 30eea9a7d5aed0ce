//! Searches for the most expensive requests: it changes the shapes that were most expensive so far, one property at a time.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use rollplan::proto::deployment_change::Change;
use rollplan::proto::{
    self, ComputeStatusRequest, ForecastRolloutRequest, ListRevisionsRequest, PlanCanaryRequest,
    PlanRestartsRequest, PlanRolloutRequest, RollbackRequest,
};
use rollplan_benches::request::request_of_text;
use rollplan_benches::shapes::{self, Shape, short};
use rollplan_world::random::Random;
use serde_json::{Value, json};

use super::{Cost, FORECAST_ROLLOUT, METHODS, PLAN_RESTARTS, measure};

/// The size of the first request of a shape. Shapes that cost nearly as much as the most expensive ones are measured again
/// with `BYTES_MORE`, as are a few others, whose costs may grow faster than their size; the results, with `BYTES_MAX`.
const BYTES: usize = 256 << 10;
const BYTES_MORE: usize = 2 << 20;
const BYTES_MAX: usize = 15 << 20;

/// What is repeated in a request.
const KINDS: [(&str, &str); 11] = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("v1", "Pod"),
    ("v1", "Event"),
    ("v1", "ConfigMap"),
    ("v1", "Namespace"),
    ("policy/v1", "PodDisruptionBudget"),
    ("batch/v1", "Job"),
    ("apps/v1", "StatefulSet"),
    ("v1", "List"),
    // For restarts, a message and not an object in JSON.
    ("", "Configuration"),
];
/// The field of an object that has many entries.
const PLACES: [&[&str]; 18] = [
    &["metadata", "labels"],
    &["metadata", "annotations"],
    &["metadata", "ownerReferences"],
    &["metadata", "unknown"],
    &["metadata"],
    &["spec", "template"],
    &["spec", "template", "metadata", "annotations"],
    &["spec", "template", "spec", "containers"],
    &["spec", "selector", "matchLabels"],
    &["spec", "selector", "matchExpressions"],
    &["spec"],
    &["status", "conditions"],
    &["status", "containerStatuses"],
    &["status"],
    &["involvedObject"],
    &["data"],
    &["items"],
    &[],
];
const VALUES: [&str; 16] = [
    "0",
    "\"\"",
    "\"a\"",
    "null",
    "{}",
    "[]",
    "\"\\u0061\"",
    "\"é\"",
    "12345678901234567890",
    "\"2026-11-20T23:27:00Z\"",
    r#"{"type":"a"}"#,
    r#"{"name":"a","env":[{"name":"a"}]}"#,
    r#"{"name":"a","envFrom":[{"configMapRef":{"name":"a"}}]}"#,
    r#"{"key":"a","operator":"Exists"}"#,
    r#"{"name":"a","state":{"waiting":{"reason":"a","message":"b"}}}"#,
    r#"{"kind":"Pod"}"#,
];
const KEYS: [&str; 4] = ["short", "long", "escaped", "equal"];

/// A shape of requests.
#[derive(Clone, Debug)]
struct Genes {
    kind: usize,
    method: usize,
    place: usize,
    value: usize,
    key: usize,
    /// Entries of the field, in each object.
    entries: usize,
    objects: usize,
    depth: usize,
    is_list: bool,
    /// Whether the objects belong to the Deployment.
    is_selected: bool,
    is_reported: bool,
    /// Whether each object is a text of its own.
    is_split: bool,
    /// Whether a plan gets the objects in the answer to a read of an adapter.
    is_in_answer: bool,
}

/// A number of any size up to about a million.
fn size(random: &mut Random) -> usize {
    let bits = random.below(21);
    random.below(1 << bits)
}

// === impl Genes ===

impl Genes {
    fn random(random: &mut Random, methods: &[usize]) -> Self {
        Self {
            kind: random.below(KINDS.len()),
            method: methods[random.below(methods.len())],
            place: random.below(PLACES.len()),
            value: random.below(VALUES.len()),
            key: random.below(KEYS.len()),
            entries: size(random),
            objects: 1 + size(random),
            depth: random.below(4),
            is_list: random.below(2) == 0,
            is_selected: random.below(2) == 0,
            is_reported: random.below(2) == 0,
            is_split: random.below(8) == 0,
            is_in_answer: random.below(4) == 0,
        }
    }

    fn changed(&self, random: &mut Random, methods: &[usize]) -> Self {
        let other = Self::random(random, methods);
        let mut genes = self.clone();
        match random.below(15) {
            0 => genes.kind = other.kind,
            1 => genes.method = other.method,
            2 => genes.place = other.place,
            3 => genes.value = other.value,
            4 => genes.key = other.key,
            5 => genes.entries = other.entries,
            6 => genes.objects = other.objects,
            7 => genes.depth = random.below(120),
            8 => genes.is_list = other.is_list,
            9 => genes.is_selected = other.is_selected,
            10 => genes.is_reported = other.is_reported,
            11 => genes.is_split = other.is_split,
            12 => genes.is_in_answer = other.is_in_answer,
            13 => genes.entries = genes.entries * (1 + random.below(16)) / 8 + random.below(2),
            _ => genes.objects = (genes.objects * (1 + random.below(16)) / 8).max(1),
        }
        genes
    }

    fn key(&self, i: usize) -> String {
        match KEYS[self.key] {
            "short" => short(i),
            "long" => format!("{i:040}"),
            "escaped" => format!("\\u0061{i}"),
            _ => "a".to_owned(),
        }
    }

    /// The field with many entries.
    fn field(&self, bytes: usize) -> String {
        let value = VALUES[self.value];
        let (open, close) = ("[".repeat(self.depth), "]".repeat(self.depth));
        let mut field = String::from(if self.is_list { "[" } else { "{" });
        for i in 0..self.entries {
            if field.len() > bytes {
                break;
            }
            field.push_str(if i > 0 { "," } else { "" });
            if !self.is_list {
                field.push_str(&format!("\"{}\":", self.key(i)));
            }
            field.extend([&open, value, &close]);
        }
        field.push(if self.is_list { ']' } else { '}' });
        field
    }

    /// An object with the field. `owner` is the reference to its owner.
    fn object(&self, i: usize, owner: &str, field: &str) -> String {
        let (api_version, kind) = KINDS[self.kind];
        let quoted = |text: &str| format!("\"{text}\"");
        let mut metadata = vec![
            ("name", quoted(&short(i))),
            ("namespace", quoted("shop")),
            ("uid", quoted(&short(i))),
        ];
        if self.is_selected {
            let labels = r#"{"app.kubernetes.io/name":"web"}"#;
            metadata.push(("labels", labels.to_owned()));
            metadata.push(("ownerReferences", format!("[{owner}]")));
        }
        let mut members = vec![("apiVersion", quoted(api_version)), ("kind", quoted(kind))];
        let (mut of_object, mut of_metadata) = ("", "");
        let inner = if self.is_list {
            ""
        } else {
            &field[1..field.len() - 1]
        };
        match PLACES[self.place] {
            [] => of_object = inner,
            ["metadata"] => of_metadata = inner,
            ["metadata", name] => {
                metadata.retain(|(other, _)| other != name);
                metadata.push((name, field.to_owned()));
            }
            [first, rest @ ..] => {
                let nested = rest.iter().rev().fold(field.to_owned(), |field, name| {
                    object_text(&[(name, field)], "")
                });
                members.push((first, nested));
            }
        }
        members.push(("metadata", object_text(&metadata, of_metadata)));
        object_text(&members, of_object)
    }

    fn shape(&self, bytes: usize) -> Shape {
        let name = self.to_string();
        match (KINDS[self.kind].1, METHODS[self.method].name) {
            ("Configuration", PLAN_RESTARTS) => Shape::new(name, &self.configurations(bytes)),
            _ => self.shape_of_texts(name, bytes),
        }
    }

    fn shape_of_texts(&self, name: String, bytes: usize) -> Shape {
        let items = shapes::example();
        let [deployment, set, _] = &items;
        let owner = match KINDS[self.kind].1 {
            "Pod" => set,
            _ => deployment,
        };
        let owner = json!({"uid": owner["metadata"]["uid"], "controller": true}).to_string();
        let field = self.field(bytes);
        let mut texts: Vec<String> = items.iter().map(ToString::to_string).collect();
        let mut total = 0;
        for i in 0..self.objects.min(200_000) {
            let object = self.object(i, &owner, &field);
            total += object.len() + 1;
            if total > bytes && i > 0 {
                break;
            }
            texts.push(object);
        }
        let mut snapshot = request_of_text(shapes::list(&texts)).snapshot.unwrap();
        if self.is_split {
            snapshot.objects = texts;
        }
        match METHODS[self.method].name {
            "ComputeStatus" => Shape::new(
                name,
                &ComputeStatusRequest {
                    snapshot: Some(snapshot),
                    options: Some(self.options()),
                    ..ComputeStatusRequest::default()
                },
            ),
            "Rollback" => Shape::new(
                name,
                &RollbackRequest {
                    snapshot: Some(snapshot),
                    ..RollbackRequest::default()
                },
            ),
            "ListRevisions" => Shape::new(
                name,
                &ListRevisionsRequest {
                    snapshot: Some(snapshot),
                },
            ),
            PLAN_RESTARTS => Shape::new(
                name,
                &PlanRestartsRequest {
                    objects: snapshot.objects,
                    ..shapes::restarts()
                },
            ),
            "PlanCanary" => {
                let mut request = self.canary(deployment, &field);
                request.snapshot = Some(snapshot);
                Shape::new(name, &request)
            }
            FORECAST_ROLLOUT => {
                let mut request = self.forecast(deployment, &field);
                request.snapshot = Some(snapshot);
                Shape::new(name, &request)
            }
            _ => {
                let mut request = PlanRolloutRequest {
                    snapshot: Some(snapshot),
                    options: Some(self.options()),
                    sync: None,
                };
                if self.is_in_answer {
                    request = in_answer(request, deployment);
                }
                Shape::new(name, &request)
            }
        }
    }

    fn options(&self) -> proto::PlanOptions {
        proto::PlanOptions {
            report: self.is_reported,
            ..proto::PlanOptions::default()
        }
    }

    /// The Deployment with the field, as a text.
    fn changed_deployment(&self, deployment: &Value, field: &str) -> String {
        let mut changed = deployment.clone();
        if let place @ [_, ..] = PLACES[self.place] {
            let place = place.iter().fold(&mut changed, |it, name| &mut it[*name]);
            *place = serde_json::from_str(field).unwrap_or_default();
        }
        changed.to_string()
    }

    /// A canary of the Deployment with the field, or many verdicts.
    fn canary(&self, deployment: &Value, field: &str) -> PlanCanaryRequest {
        let verdict = |i| proto::CanaryVerdict {
            name: self.key(i),
            result: 1,
            ..proto::CanaryVerdict::default()
        };
        let verdicts = (0..self.entries.min(1_000)).map(verdict);
        PlanCanaryRequest {
            command: self.is_reported.then(|| proto::CanaryCommand {
                action: proto::CanaryAction::Start.into(),
                deployment: self.changed_deployment(deployment, field),
                ..proto::CanaryCommand::default()
            }),
            verdicts: if self.is_list {
                verdicts.collect()
            } else {
                Vec::new()
            },
            ..PlanCanaryRequest::default()
        }
    }

    /// A forecast of the Deployment with the field, or with this number of replicas. Samples are
    /// simulated one after another, so one needs as much memory as many.
    fn forecast(&self, deployment: &Value, field: &str) -> ForecastRolloutRequest {
        let change = if self.is_reported {
            Change::Deployment(self.changed_deployment(deployment, field))
        } else {
            Change::Replicas(self.objects as i32)
        };
        let seconds = |i| prost_types::Duration {
            seconds: 1 + i as i64,
            nanos: 0,
        };
        let times = || (0..self.entries.clamp(1, 10_000)).map(seconds).collect();
        ForecastRolloutRequest {
            changes: vec![
                proto::DeploymentChange {
                    change: Some(change)
                };
                1 + self.depth.min(9)
            ],
            pod_times: Some(proto::PodTimes {
                start: times(),
                termination: times(),
            }),
            samples: 1,
            ..ForecastRolloutRequest::default()
        }
    }

    fn configurations(&self, bytes: usize) -> PlanRestartsRequest {
        let keys = (0..self.entries.min(bytes / 8)).map(|i| self.key(i));
        let checksums: BTreeMap<_, _> = keys.map(|key| (key, String::new())).collect();
        let mut request = shapes::restarts();
        let mut total = 0;
        for i in 0..self.objects.min(40_000) {
            let configuration = proto::Configuration {
                kind: i32::from(self.is_selected),
                namespace: "a".to_owned(),
                name: short(i),
                key_checksums: checksums.clone(),
                ..proto::Configuration::default()
            };
            let encoded = prost::Message::encoded_len(&configuration);
            request.configurations.push(configuration);
            total += encoded + 5;
            if total > bytes {
                break;
            }
        }
        request
    }
}

/// The text of an object with these members, and more members as a text.
fn object_text(members: &[(&str, String)], more: &str) -> String {
    let members = members
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"));
    let more = (!more.is_empty()).then(|| more.to_owned());
    let members: Vec<_> = members.chain(more).collect();
    format!("{{{}}}", members.join(","))
}

impl fmt::Display for Genes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or = |is: bool, yes: &'static str, no: &'static str| if is { yes } else { no };
        write!(
            f,
            "{} × {} {}{}, {} {} of {} {}{} at {}, {}{}{}",
            self.objects,
            or(self.is_selected, "own", "other"),
            KINDS[self.kind].1,
            or(self.is_split, " (a text each)", ""),
            self.entries,
            or(self.is_list, "items", "members"),
            "[".repeat(self.depth.min(3)),
            VALUES[self.value].replace('|', "\\|"),
            or(self.is_list, "", KEYS[self.key]),
            PLACES[self.place].join("."),
            METHODS[self.method].name,
            or(self.is_reported, " with a report", ""),
            or(self.is_in_answer, " in an answer", ""),
        )
    }
}

/// What is searched for: the name, and the value to make large.
type Goal = (&'static str, fn(&Cost) -> f64);

const GOALS: [Goal; 4] = [
    ("ns a byte", |cost| nanos(cost) / cost.bytes),
    ("ns a counted byte", |cost| nanos(cost) / cost.counted),
    ("bytes of memory a byte", |cost| memory(cost) / cost.bytes),
    ("measured / counted", |cost| memory(cost) / cost.counted),
];

/// What the first request of a process costs, however small it is. It does not count.
const FIRST_NANOS: f64 = 2e6;
const FIRST_MEMORY: f64 = 1_048_576.0;

fn nanos(cost: &Cost) -> f64 {
    (cost.nanos - FIRST_NANOS).max(0.0)
}

fn memory(cost: &Cost) -> f64 {
    (cost.memory - FIRST_MEMORY).max(0.0)
}

/// Searches for this time, and prints the most expensive shapes: of all requests, and of those that are answered. `only` is
/// a part of the name of a method. Forecasts are searched on request only, because their time depends on the number of pods.
pub(super) fn search(time: Duration, seed: u64, only: &str) {
    let mut random = Random::new(seed);
    let is_searched = |name: &str| match only {
        "" => name != FORECAST_ROLLOUT,
        only => name.contains(only),
    };
    let methods = (0..METHODS.len()).filter(|index| is_searched(METHODS[*index].name));
    let methods: Vec<usize> = methods.collect();
    assert!(!methods.is_empty(), "no method has {only} in its name");
    let mut best: Vec<Option<(f64, Genes)>> = vec![None; 2 * GOALS.len()];
    // Those for which a request costs more than this part of the known maximum.
    let records = |cost: &Cost, best: &[Option<(f64, Genes)>], part: f64| -> Vec<(usize, f64)> {
        let values = best.iter().enumerate().map(|(i, best)| {
            let value = GOALS[i % GOALS.len()].1(cost);
            let counts = i < GOALS.len() || cost.is_answered;
            let max = best.as_ref().map_or(0.0, |(max, _)| max * part);
            (counts && value > max).then_some((i, value))
        });
        values.flatten().collect()
    };
    let (start, mut tried, mut confirmed) = (Instant::now(), 0, 0);
    while start.elapsed() < time {
        let known = best[random.below(2 * GOALS.len())].as_ref();
        let genes = match known {
            Some((_, genes)) if random.below(4) > 0 => genes.changed(&mut random, &methods),
            _ => Genes::random(&mut random, &methods),
        };
        tried += 1;
        let small = measure(&genes.shape(BYTES));
        if records(&small, &best, 0.8).is_empty() && random.below(16) > 0 {
            continue;
        }
        confirmed += 1;
        let cost = measure(&genes.shape(BYTES_MORE));
        for (i, value) in records(&cost, &best, 1.0) {
            best[i] = Some((value, genes.clone()));
        }
    }
    println!("{tried} shapes, {confirmed} of them with 2 MiB, seed {seed}\n");
    println!("| most | with 2 MiB | with 15 MiB | MB | ms | MiB | counted | outcome | shape |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |");
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    for (i, best) in best.into_iter().enumerate() {
        let Some((known, genes)) = best else { continue };
        let (name, value) = GOALS[i % GOALS.len()];
        let large = measure(&genes.shape(BYTES_MAX));
        println!(
            "| {name}{} | {known:.2} | {:.2} | {:.2} | {:.1} | {:.1} | {:.1} | {} | {genes} |",
            if i < GOALS.len() { "" } else { ", answered" },
            value(&large),
            large.bytes / 1e6,
            large.nanos / 1e6,
            mib(large.memory),
            mib(large.counted),
            large.outcome,
        );
    }
}

/// The request of an adapter that observes only the Deployment, and has listed the objects.
fn in_answer(mut request: PlanRolloutRequest, deployment: &Value) -> PlanRolloutRequest {
    let snapshot = request.snapshot.as_mut().unwrap();
    let listed = std::mem::replace(&mut snapshot.objects, vec![deployment.to_string()]);
    let text = |pointer| {
        deployment
            .pointer(pointer)
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned()
    };
    snapshot.target = Some(proto::Target {
        api_version: text("/apiVersion"),
        kind: text("/kind"),
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name"),
        ..proto::Target::default()
    });
    request.sync = Some(proto::Sync {
        session: "bounds".to_owned(),
        ..proto::Sync::default()
    });
    // Without ReplicaSets, the plan creates one, and lists them before.
    let asked = rollplan::service::answer(request.clone()).unwrap();
    let [read] = &asked.sync.unwrap().reads[..] else {
        panic!("the planner lists the ReplicaSets once");
    };
    let answer = proto::Answer {
        id: read.id.clone(),
        made: true,
        http_code: 200,
        body: shapes::list(&listed).into_bytes(),
        ..proto::Answer::default()
    };
    if let Some(sync) = &mut request.sync {
        sync.answers = vec![answer];
    }
    request
}
