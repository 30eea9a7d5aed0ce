//! The state of a canary: one annotation of the Deployment, which each patch writes together with the fields that it
//! describes.
//!
//! The Deployment controller copies it to the new ReplicaSet before it creates pods. If another client removes the
//! annotation, this copy still has the fields of the user.

use rollplan_core::revision::LAST_APPLIED;
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::{Deployment, Strategy};
use rollplan_core::template::parse_time;
use rollplan_core::time::{Span, Time};
use serde_json::{Map, Value as Json, json};
use sha2::{Digest as _, Sha256};

use crate::ownership::Owner;
use crate::policy::{Policy, PolicyStep};

/// The annotation of the state.
pub const ANNOTATION: &str = "rollplan.dev/canary";
/// The label of a Deployment with a canary, by which an admission policy can select it. The value is "true".
pub const LABEL: &str = "rollplan.dev/canary";
/// `minReadySeconds` of a held canary: its pods never count as available.
pub const HELD_MIN_READY: i32 = 2_147_483_646;
/// `progressDeadlineSeconds` of a held canary, which Kubernetes treats as none. It must exceed `minReadySeconds`.
pub const HELD_DEADLINE: i32 = i32::MAX;

/// The versions of the format: that of a canary with one step, and that of one with several. An earlier program would
/// promote the latter at its first step, so it must not read it.
const VERSION: i64 = 1;
const VERSION_OF_STEPS: i64 = 2;
/// The maximum number of rejected templates that are remembered.
const REJECTED_MAX: usize = 10;

/// The fields of a Deployment that hold a canary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// `maxSurge`.
    pub max_surge: IntOrPercent,
    /// `maxUnavailable`.
    pub max_unavailable: IntOrPercent,
    /// `minReadySeconds`.
    pub min_ready_seconds: i32,
    /// `progressDeadlineSeconds`.
    pub progress_deadline_seconds: i32,
}

// === impl Fields ===

impl Fields {
    /// The fields of a Deployment, unless its strategy is Recreate.
    #[must_use]
    pub fn of(deployment: &Deployment) -> Option<Self> {
        let spec = &deployment.spec;
        match spec.strategy {
            Strategy::RollingUpdate {
                max_surge,
                max_unavailable,
            } => Some(Self {
                max_surge,
                max_unavailable,
                min_ready_seconds: spec.min_ready_seconds,
                progress_deadline_seconds: spec.progress_deadline_seconds,
            }),
            Strategy::Recreate => None,
        }
    }
}

/// The phases that are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Hold,
    Promoting,
    Aborting,
}

/// The state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// The UID of the Deployment: annotations may be copied to another one.
    pub(crate) uid: String,
    /// The number of patches so far, so that no two have the same annotation.
    pub(crate) sequence: i64,
    /// When the phase, or the step of a hold, began.
    pub(crate) since: Time,
    /// The digest of the stable template.
    pub(crate) stable: String,
    /// Whether the label was added, and has to be removed.
    pub(crate) label: bool,
    /// The rejected templates, the last one first.
    pub(crate) rejected: Vec<Rejected>,
    /// `None` without a canary: the state then only records rejected templates.
    pub(crate) canary: Option<Canary>,
}

/// A rejected template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejected {
    pub(crate) digest: String,
    /// The pipeline whose canary it was.
    pub(crate) pipeline: Option<String>,
}

/// What the user wants of a canary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    /// At least one at a hold.
    pub(crate) steps: Vec<PolicyStep>,
    pub(crate) bake: Option<Span>,
    pub(crate) gates: Vec<String>,
    pub(crate) timeout: Option<Span>,
}

/// The part of the state that exists only while there is a canary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Canary {
    pub(crate) stage: Stage,
    /// The index of its step.
    pub(crate) step: usize,
    /// When the canary was started.
    pub(crate) started: Time,
    /// The digest of its template.
    pub(crate) digest: String,
    /// The highest revision of the ReplicaSets with other templates. With a higher one, and without the label, the state is
    /// that of an earlier canary, which `kubectl rollout undo` has restored.
    pub(crate) revision: i64,
    /// The fields of the user.
    pub(crate) user: Fields,
    /// `maxSurge` as written for the hold.
    pub(crate) surge: IntOrPercent,
    /// The surge that the user allows in addition to `maxSurge`.
    pub(crate) allowed: Option<IntOrPercent>,
    pub(crate) terms: Terms,
    /// The pipeline that has started it.
    pub(crate) pipeline: Option<String>,
    /// The digest of the template in the manifest, if it was started with one. A dry run at a hold merges the fields of the
    /// canary into a template, so two manifests may have the same result.
    pub(crate) manifest: Option<String>,
    /// The managers that own the fields of the hold without the canary.
    pub(crate) owners: Vec<Owner>,
}

/// Why a state cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It was written by a newer version.
    Newer,
    /// It was edited or truncated.
    Edited,
}

// === impl State ===

impl State {
    /// Remembers a rejected template.
    pub(crate) fn reject(&mut self, digest: &str, pipeline: Option<String>) {
        let digest = digest.to_owned();
        self.forgive(&digest);
        self.rejected.insert(0, Rejected { digest, pipeline });
        self.rejected.truncate(REJECTED_MAX);
    }

    /// The order of the states of canaries: by their start, and then by their patches.
    pub(crate) fn order(&self) -> Option<(Time, i64)> {
        let canary = self.canary.as_ref()?;
        Some((canary.started, self.sequence))
    }

    pub(crate) fn rejects(&self, digest: &str) -> bool {
        self.rejection(digest).is_some()
    }

    pub(crate) fn rejection(&self, digest: &str) -> Option<&Rejected> {
        self.rejected.iter().find(|it| it.digest == digest)
    }

    /// Forgets that a template was rejected.
    pub(crate) fn forgive(&mut self, digest: &str) {
        self.rejected.retain(|it| it.digest != digest);
    }

    /// The text of the annotation, with a checksum that shows edits by hand.
    pub(crate) fn text(&self) -> String {
        let Self {
            uid,
            sequence,
            since,
            stable,
            label,
            rejected,
            canary,
        } = self;
        let mut json = json!({
            "v": VERSION, "uid": uid, "seq": sequence, "phase": "aborted", "since": since.to_string(),
            "stable": stable, "label": label, "rejected": rejected.iter().map(Rejected::json).collect::<Vec<_>>(),
        });
        if let Some(canary) = canary {
            let Canary {
                stage,
                step,
                started,
                digest,
                revision,
                user,
                surge,
                allowed,
                terms,
                pipeline,
                manifest,
                owners,
            } = canary;
            json["phase"] = json!(stage.name());
            json["started"] = json!(started.to_string());
            json["digest"] = json!(digest);
            json["revision"] = json!(revision);
            json["user"] = json!({
                "maxSurge": limit_json(user.max_surge),
                "maxUnavailable": limit_json(user.max_unavailable),
                "minReadySeconds": user.min_ready_seconds,
                "progressDeadlineSeconds": user.progress_deadline_seconds,
            });
            json["surge"] = limit_json(*surge);
            json["allowed"] = allowed.map_or(Json::Null, limit_json);
            let Terms {
                steps,
                bake,
                gates,
                timeout,
            } = terms;
            let seconds = |span: Option<Span>| span.map(|it| json!(it.seconds()));
            // A list of one is written as before there were lists.
            let pods = match &steps[..] {
                [only] if *only == PolicyStep::from(only.pods) => Some(limit_json(only.pods)),
                _ => None,
            };
            if pods.is_none() && !steps.is_empty() {
                json["v"] = json!(VERSION_OF_STEPS);
                json["step"] = json!(step + 1);
                json["steps"] = steps.iter().map(step_json).collect();
            }
            let optional = [
                ("pods", pods),
                ("bake", seconds(*bake)),
                ("gates", (!gates.is_empty()).then(|| json!(gates))),
                ("timeout", seconds(*timeout)),
                ("pipeline", pipeline.as_ref().map(|it| json!(it))),
                ("manifest", manifest.as_ref().map(|it| json!(it))),
                ("owners", (!owners.is_empty()).then(|| owners_json(owners))),
            ];
            for (key, value) in optional {
                if let Some(value) = value {
                    json[key] = value;
                }
            }
        }
        json["sum"] = json!(checksum(&json));
        json.to_string()
    }

    pub(crate) fn parse(text: &str) -> Result<Self, Unreadable> {
        let Ok(Json::Object(mut json)) = serde_json::from_str(text) else {
            return Err(Unreadable::Edited);
        };
        if json
            .get("v")
            .and_then(Json::as_i64)
            .is_some_and(|it| it > VERSION_OF_STEPS)
        {
            return Err(Unreadable::Newer);
        }
        let sum = json.remove("sum");
        let json = Json::Object(json);
        let is_intact = sum.as_ref().and_then(Json::as_str) == Some(&checksum(&json));
        let state = json.as_object().filter(|_| is_intact).and_then(Self::read);
        state.ok_or(Unreadable::Edited)
    }

    fn read(json: &Map<String, Json>) -> Option<Self> {
        let text = |key: &str| json.get(key)?.as_str().map(str::to_owned);
        let time = |key: &str| parse_time(json.get(key)?.as_str()?);
        let stage = match json.get("phase")?.as_str()? {
            "aborted" => None,
            name => Some(Stage::from_name(name)?),
        };
        let rejected = json.get("rejected")?.as_array()?.iter();
        let rejected = rejected.map(Rejected::read);
        let terms = Terms::read(json)?;
        let index = |number: &Json| {
            let index = usize::try_from(number.as_u64()?).ok()?.checked_sub(1)?;
            (index < terms.steps.len()).then_some(index)
        };
        let step = optional(json, "step", index)?.unwrap_or_default();
        Some(Self {
            uid: text("uid")?,
            sequence: json.get("seq")?.as_i64()?,
            since: time("since")?,
            stable: text("stable")?,
            label: json.get("label")?.as_bool()?,
            rejected: rejected.collect::<Option<_>>()?,
            canary: match stage {
                None => None,
                Some(stage) => Some(Canary {
                    stage,
                    step,
                    started: time("started")?,
                    digest: text("digest")?,
                    revision: json.get("revision")?.as_i64()?,
                    user: Fields::read(json.get("user")?)?,
                    surge: limit(json.get("surge")?)?,
                    allowed: match json.get("allowed")? {
                        Json::Null => None,
                        allowed => Some(limit(allowed)?),
                    },
                    terms,
                    pipeline: optional(json, "pipeline", text_of)?,
                    manifest: optional(json, "manifest", text_of)?,
                    owners: optional(json, "owners", read_owners)?.unwrap_or_default(),
                }),
            },
        })
    }
}

// === impl Fields ===

impl Fields {
    fn read(json: &Json) -> Option<Self> {
        let seconds = |key: &str| count(json.get(key)?);
        Some(Self {
            max_surge: limit(json.get("maxSurge")?)?,
            max_unavailable: limit(json.get("maxUnavailable")?)?,
            min_ready_seconds: seconds("minReadySeconds")?,
            progress_deadline_seconds: seconds("progressDeadlineSeconds")?,
        })
    }
}

// === impl Terms ===

impl Terms {
    /// These terms at the step with this index, with the values of a policy, which win. Its steps apply after this one.
    pub(crate) fn with(&self, policy: &Policy, step: usize) -> Self {
        let mut steps = self.steps.clone();
        if !policy.steps.is_empty() {
            steps.truncate(step.saturating_add(1));
            let later = policy.steps.iter().skip(steps.len());
            steps.extend(later.cloned());
        }
        Self {
            steps,
            bake: policy.bake.or(self.bake),
            gates: if policy.gates.is_empty() {
                self.gates.clone()
            } else {
                policy.gates.clone()
            },
            timeout: policy.timeout.or(self.timeout),
        }
    }

    /// How long all pods must have been ready at a step.
    pub(crate) fn bake(&self, step: usize) -> Span {
        let own = self.steps.get(step).and_then(|it| it.bake);
        own.or(self.bake).unwrap_or_default()
    }

    /// The names of the verdicts that must pass at a step.
    pub(crate) fn gates(&self, step: usize) -> impl Iterator<Item = &str> {
        let own = self.steps.get(step).map_or(&[][..], |it| &it.gates);
        self.gates.iter().chain(own).map(String::as_str)
    }

    fn read(json: &Map<String, Json>) -> Option<Self> {
        let only = |pods: &Json| Some(vec![PolicyStep::from(limit(pods)?)]);
        let steps = |json: &Json| json.as_array()?.iter().map(read_step).collect();
        let steps = match optional(json, "pods", only)? {
            None => optional(json, "steps", steps)?.unwrap_or_default(),
            Some(only) => only,
        };
        Some(Self {
            steps,
            bake: optional(json, "bake", seconds)?,
            gates: optional(json, "gates", texts)?.unwrap_or_default(),
            timeout: optional(json, "timeout", seconds)?,
        })
    }
}

// === impl Rejected ===

impl Rejected {
    fn json(&self) -> Json {
        match &self.pipeline {
            None => json!(self.digest),
            Some(pipeline) => json!({"digest": self.digest, "pipeline": pipeline}),
        }
    }

    fn read(json: &Json) -> Option<Self> {
        Some(match json {
            Json::Object(fields) => Self {
                digest: text_of(fields.get("digest")?)?,
                pipeline: Some(text_of(fields.get("pipeline")?)?),
            },
            digest => Self {
                digest: text_of(digest)?,
                pipeline: None,
            },
        })
    }
}

// === impl Stage ===

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Promoting => "promoting",
            Self::Aborting => "aborting",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        let all = [Self::Hold, Self::Promoting, Self::Aborting];
        all.into_iter().find(|it| it.name() == name)
    }
}

fn owners_json(owners: &[Owner]) -> Json {
    let owners = owners.iter().map(|owner| {
        let Owner {
            field,
            manager,
            operation,
        } = owner;
        json!([field, manager, operation])
    });
    owners.collect()
}

fn read_owners(json: &Json) -> Option<Vec<Owner>> {
    let read = |owner: &Json| match &owner.as_array()?[..] {
        [field, manager, operation] => Some(Owner {
            field: text_of(field)?,
            manager: text_of(manager)?,
            operation: text_of(operation)?,
        }),
        _ => None,
    };
    json.as_array()?.iter().map(read).collect()
}

/// A step: its pods, or an object if it has criteria of its own.
fn step_json(step: &PolicyStep) -> Json {
    let PolicyStep { pods, bake, gates } = step;
    let pods = limit_json(*pods);
    if bake.is_none() && gates.is_empty() {
        return pods;
    }
    let mut json = json!({"pods": pods});
    if let Some(bake) = bake {
        json["bake"] = json!(bake.seconds());
    }
    if !gates.is_empty() {
        json["gates"] = json!(gates);
    }
    json
}

fn read_step(json: &Json) -> Option<PolicyStep> {
    let Json::Object(fields) = json else {
        return limit(json).map(PolicyStep::from);
    };
    Some(PolicyStep {
        pods: limit(fields.get("pods")?)?,
        bake: optional(fields, "bake", seconds)?,
        gates: optional(fields, "gates", texts)?.unwrap_or_default(),
    })
}

/// A number of pods or a percentage, as in Kubernetes.
pub(crate) fn limit_json(limit: IntOrPercent) -> Json {
    match limit {
        IntOrPercent::Int(count) => json!(count),
        percent => json!(percent.to_string()),
    }
}

fn limit(json: &Json) -> Option<IntOrPercent> {
    match json {
        Json::String(text) => parse_limit(text).filter(|it| it.percent().is_some()),
        json => count(json).map(IntOrPercent::Int),
    }
}

/// Parses a number of pods or a percentage, for example "2" or "10%".
#[must_use]
pub fn parse_limit(text: &str) -> Option<IntOrPercent> {
    match text.strip_suffix('%') {
        Some(digits) => IntOrPercent::from_percent(digits),
        None => {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            let number = text.parse().ok().filter(|_| is_number);
            number.map(IntOrPercent::Int)
        }
    }
}

fn text_of(json: &Json) -> Option<String> {
    json.as_str().map(str::to_owned)
}

fn texts(json: &Json) -> Option<Vec<String>> {
    json.as_array()?.iter().map(text_of).collect()
}

fn seconds(json: &Json) -> Option<Span> {
    json.as_i64().map(Span::from_seconds)
}

/// A field that may be absent. `None` if it cannot be read.
fn optional<T>(
    json: &Map<String, Json>,
    key: &str,
    read: impl FnOnce(&Json) -> Option<T>,
) -> Option<Option<T>> {
    match json.get(key) {
        None => Some(None),
        Some(value) => read(value).map(Some),
    }
}

fn count(json: &Json) -> Option<i32> {
    i32::try_from(json.as_i64()?).ok().filter(|it| *it >= 0)
}

/// The digest of the template in the manifest that a dry run of `kubectl apply` has applied. `None` if the Deployment has
/// this manifest already, or no manifest.
pub(crate) fn manifest_digest(changed: &Deployment, current: &Deployment) -> Option<String> {
    let of = |deployment: &Deployment| {
        let manifest = deployment.metadata.annotations.get(LAST_APPLIED)?;
        let manifest: Json = serde_json::from_str(manifest).ok()?;
        Some(checksum(manifest.pointer("/spec/template")?))
    };
    of(changed).filter(|it| of(current).as_ref() != Some(it))
}

fn checksum(json: &Json) -> String {
    let hash = Sha256::digest(json.to_string());
    hash[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(canary: bool) -> State {
        let time = Time::new(1_768_478_400, 250_000_000).unwrap();
        let user = Fields {
            max_surge: IntOrPercent::PaddedPercent(25, 2),
            max_unavailable: IntOrPercent::Int(0),
            min_ready_seconds: 5,
            progress_deadline_seconds: 600,
        };
        State {
            uid: "web-uid".to_owned(),
            sequence: 3,
            since: time,
            stable: "sha256:1".to_owned(),
            label: true,
            rejected: [None, Some("ci".to_owned())]
                .map(|pipeline| Rejected {
                    digest: "sha256:2".to_owned(),
                    pipeline,
                })
                .to_vec(),
            canary: canary.then(|| Canary {
                stage: Stage::Hold,
                step: 0,
                started: time,
                digest: "sha256:3".to_owned(),
                revision: 7,
                user,
                surge: IntOrPercent::Percent(20),
                allowed: None,
                terms: Terms {
                    steps: vec![PolicyStep::from(IntOrPercent::Percent(10))],
                    bake: Some(Span::from_seconds(120)),
                    gates: vec!["smoke".to_owned()],
                    timeout: Some(Span::from_seconds(900)),
                },
                pipeline: Some("ci \"1\"".to_owned()),
                manifest: Some("12345678".to_owned()),
                owners: vec![Owner {
                    field: "maxSurge".to_owned(),
                    manager: "ci".to_owned(),
                    operation: "Apply".to_owned(),
                }],
            }),
        }
    }

    #[test]
    fn text_is_parsed_as_the_same_state() {
        for state in [state(true), state(false)] {
            assert_eq!(State::parse(&state.text()), Ok(state));
        }
    }

    /// Only a state with several steps, or criteria of a step, differs from that of earlier versions.
    #[test]
    fn steps_are_read_as_written() {
        let one = state(true);
        assert!(one.text().contains(r#""pods":"10%","#), "{}", one.text());
        assert!(one.text().contains(r#""v":1}"#), "{}", one.text());
        let mut state = state(true);
        let canary = state.canary.as_mut().unwrap();
        canary.step = 1;
        canary.terms.steps = vec![
            PolicyStep::from(IntOrPercent::Int(1)),
            PolicyStep {
                pods: IntOrPercent::PaddedPercent(10, 1),
                bake: Some(Span::from_seconds(600)),
                gates: vec!["load".to_owned()],
            },
            PolicyStep::from(IntOrPercent::Percent(25)),
        ];
        let text = state.text();
        let steps = r#""steps":[1,{"bake":600,"gates":["load"],"pods":"010%"},"25%"]"#;
        assert!(text.contains(steps), "{text}");
        assert!(
            text.contains(r#""step":2,"#) && text.contains(r#""v":2}"#),
            "{text}"
        );
        assert_eq!(State::parse(&text), Ok(state.clone()));
        // A step that does not exist.
        state.canary.as_mut().unwrap().step = 3;
        assert_eq!(State::parse(&state.text()), Err(Unreadable::Edited));
    }

    #[test]
    fn criteria_of_a_step_are_its_own_or_those_of_the_policy() {
        let step = |pods, bake: Option<i64>, gates: &[&str]| PolicyStep {
            pods: IntOrPercent::Int(pods),
            bake: bake.map(Span::from_seconds),
            gates: gates.iter().map(|&it| it.to_owned()).collect(),
        };
        let terms = Terms {
            steps: vec![step(1, None, &[]), step(3, Some(0), &["load"])],
            bake: Some(Span::from_seconds(60)),
            gates: vec!["smoke".to_owned()],
            timeout: None,
        };
        let at = |terms: &Terms, step| {
            let gates = terms.gates(step).map(str::to_owned);
            (terms.bake(step).seconds(), gates.collect::<Vec<_>>())
        };
        let gates = |names: &[&str]| names.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
        assert_eq!(at(&terms, 0), (60, gates(&["smoke"])));
        assert_eq!(at(&terms, 1), (0, gates(&["smoke", "load"])));
        // Other steps apply after the one that is held.
        let policy = Policy {
            steps: vec![step(2, None, &["other"]), step(4, None, &["other"])],
            ..Policy::default()
        };
        let pods = |at| {
            let terms = terms.with(&policy, at);
            let pods = terms.steps.iter().map(|it| it.pods.rounded_up(10));
            pods.collect::<Vec<_>>()
        };
        assert_eq!((pods(0), pods(1)), (vec![1, 4], vec![1, 3]));
        assert_eq!(at(&terms.with(&policy, 0), 0), (60, gates(&["smoke"])));
    }

    #[test]
    fn what_is_absent_is_read_as_absent() {
        let mut state = state(true);
        state.rejected.pop();
        let canary = state.canary.as_mut().unwrap();
        canary.terms = Terms::default();
        (canary.pipeline, canary.manifest) = (None, None);
        let text = state.text();
        for key in [
            "pods", "step", "steps", "bake", "gates", "timeout", "pipeline", "manifest",
        ] {
            assert!(!text.contains(&format!("\"{key}\"")), "{text}");
        }
        assert_eq!(State::parse(&text), Ok(state));
    }

    #[test]
    fn limits_are_written_as_they_were() {
        for text in ["0", "2", "0%", "00%", "25%", "025%", "0000100%"] {
            let limit = parse_limit(text).unwrap();
            assert_eq!(limit.to_string(), text);
            assert_eq!(super::limit(&limit_json(limit)), Some(limit));
        }
        for text in ["", "%", "-1", "+2", "1.5%", "x", "99999999999%", "2 "] {
            assert_eq!(parse_limit(text), None, "{text:?}");
        }
    }

    #[test]
    fn any_edit_is_detected() {
        let text = state(true).text();
        for end in 0..text.len() {
            assert_eq!(State::parse(&text[..end]), Err(Unreadable::Edited), "{end}");
        }
        for digit in text
            .match_indices(|it: char| it.is_ascii_digit())
            .map(|it| it.0)
        {
            let mut edited = text.clone();
            let other = if &text[digit..=digit] == "9" {
                "8"
            } else {
                "9"
            };
            edited.replace_range(digit..=digit, other);
            assert!(State::parse(&edited).is_err(), "{edited}");
        }
        let newer = text.replace(r#""v":1"#, r#""v":3"#);
        assert_eq!(State::parse(&newer), Err(Unreadable::Newer));
    }

    #[test]
    fn rejected_templates_are_limited() {
        let mut state = state(false);
        for number in 0..20 {
            state.reject(&format!("sha256:{number}"), None);
        }
        assert_eq!(state.rejected.len(), REJECTED_MAX);
        state.reject("sha256:15", None);
        assert_eq!(
            (state.rejected.len(), state.rejected[0].digest.as_str()),
            (REJECTED_MAX, "sha256:15")
        );
    }
}
