//! Executes the lines of a story: they build, change and plan a world.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use rollplan_core::action::{Action, ApiCall, apply};
use rollplan_core::lint::lint;
use rollplan_core::plan_settled;
use rollplan_core::revision::{
    DESIRED_REPLICAS, LAST_APPLIED, MAX_REPLICAS, POD_TEMPLATE_HASH, REVISION, REVISION_HISTORY,
    ROLLBACK_TO, TEMPLATE_DIGEST,
};
use rollplan_core::selector::{LabelSelector, Operator, Requirement};
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::{
    Condition, Deployment, DeploymentSpec, ObjectMeta, Options, OwnerReference, ReplicaSet,
    Snapshot, StepFailure, Strategy, StringMap,
};
use rollplan_core::template::{Template, sha256_of_canonical};
use rollplan_core::time::Time;
use rollplan_core::{Plan, plan_pass};
use rollplan_world::random::Random;
use rollplan_world::{
    at, mk_condition, mk_deployment, mk_owner, mk_pod, mk_set, mk_set_status, mk_snapshot,
    mk_template, set_label,
};

use super::render;

/// A story during its execution.
#[derive(Default)]
pub(super) struct Story {
    world: Option<World>,
    plans: usize,
}

struct World {
    snapshot: Snapshot,
    options: Options,
    /// ReplicaSets that exist on the server but not in the snapshot.
    hidden: BTreeMap<String, ReplicaSet>,
    sets_told: i64,
    last: Option<Plan>,
}

type Told<T> = Result<T, String>;

/// The `key=value` pairs in a line of a story.
type Pairs<'a> = Vec<(&'a str, &'a str)>;

// === impl Story ===

impl Story {
    /// The number of plans.
    pub(super) fn plans(&self) -> usize {
        self.plans
    }

    /// Executes a line. Returns the output if the line plans.
    pub(super) fn line(&mut self, line: &str) -> Told<Vec<String>> {
        let words = words(line)?;
        let mut words = words.iter().map(String::as_str);
        let Some(word) = words.next().filter(|word| !word.starts_with('#')) else {
            return Ok(vec![]);
        };
        let words: Vec<&str> = words.collect();
        if word == "deployment" {
            self.deployment(&words)?;
            return Ok(vec![]);
        }
        let world = self.world.as_mut().ok_or("no deployment yet")?;
        match word {
            "plan" => {
                self.plans += 1;
                return world.plan(&words);
            }
            "apply" => world.apply(&words)?,
            "refuse" => world.refuse(&words)?,
            "set" => world.set(&words)?,
            "settle" => world.settle(&words)?,
            "pod" => world.pod(&words)?,
            "pods" => world.pods(&words)?,
            "sets" => world.sets(&words)?,
            "condition" => world.condition(&words)?,
            "options" => world.options(&words)?,
            "now" => world.now(&words)?,
            _ => return Err(format!("unknown word {word}")),
        }
        Ok(vec![])
    }

    fn deployment(&mut self, words: &[&str]) -> Told<()> {
        let (name, pairs) = name_and_pairs(words)?;
        if let Some(world) = &mut self.world {
            let deployment = &mut world.snapshot.deployment;
            if deployment.metadata.name != name {
                return Err(format!("the deployment is {}", deployment.metadata.name));
            }
            return change_deployment(deployment, &pairs, world.snapshot.now);
        }
        let mut deployment = mk_deployment(1);
        deployment.metadata.name = name.to_owned();
        deployment.metadata.uid = format!("{name}-uid");
        change_deployment(&mut deployment, &pairs, at(0))?;
        if !pairs.iter().any(|(key, _)| *key == "generation") {
            deployment.metadata.generation = 1;
            let observed = &mut deployment.status.observed_generation;
            *observed = (*observed).min(1);
        }
        self.world = Some(World {
            snapshot: mk_snapshot(deployment, vec![]),
            options: Options::default(),
            hidden: BTreeMap::new(),
            sets_told: 0,
            last: None,
        });
        Ok(())
    }
}

// === impl World ===

impl World {
    fn plan(&mut self, words: &[&str]) -> Told<Vec<String>> {
        let planner = match words {
            [] | ["settled"] => plan_settled,
            ["pass"] => plan_pass,
            _ => return Err(format!("unknown horizon {}", words.join(" "))),
        };
        let plan = planner(&self.snapshot, self.options);
        let mut shuffled = self.snapshot.clone();
        let mut random = Random::from_env();
        random.shuffle(&mut shuffled.replica_sets);
        let mut pods = shuffled.pods.to_vec();
        random.shuffle(&mut pods);
        shuffled.pods = pods.into();
        if planner(&shuffled, self.options) != plan {
            return Err(format!("another plan for another order of input; {random}"));
        }
        if words != ["pass"] {
            let violations = lint(&self.snapshot, self.options, &plan);
            if violations.iter().any(|violation| !violation.inherited) {
                return Err(format!("the linter finds {violations:?}"));
            }
        }
        let output = render::plan(&plan, self.snapshot.now);
        self.last = Some(plan);
        Ok(output)
    }

    /// Executes all planned steps.
    fn apply(&mut self, words: &[&str]) -> Told<()> {
        nothing_more(words)?;
        let plan = self.last.take().ok_or("no plan yet")?;
        self.snapshot.failures.clear();
        for action in plan.steps.iter().filter_map(|step| step.action.as_ref()) {
            self.carry_out(action);
        }
        Ok(())
    }

    /// Lets the server reject a step. Earlier steps are executed, later ones according to `on_failure`.
    fn refuse(&mut self, words: &[&str]) -> Told<()> {
        let (number, pairs) = name_and_pairs(words)?;
        let number: usize = parse("step", number)?;
        let plan = self.last.take().ok_or("no plan yet")?;
        let refused = number
            .checked_sub(1)
            .and_then(|index| plan.steps.get(index))
            .ok_or_else(|| format!("the plan has {} steps", plan.steps.len()))?;
        let call = refused.call().ok_or("this step calls nothing")?;
        let failure = self.failure(call, &pairs)?;
        let goes_on = refused.on_failure.tolerates(failure.http_code);
        for (index, step) in plan.steps.iter().enumerate() {
            if let Some(action) = &step.action
                && (index + 1 < number || index + 1 > number && goes_on)
            {
                self.carry_out(action);
            }
        }
        self.snapshot.failures = vec![failure];
        Ok(())
    }

    fn failure(&self, call: ApiCall, pairs: &Pairs<'_>) -> Told<StepFailure> {
        let mut failure = StepFailure {
            call: call.id(),
            http_code: 0,
            reason: String::new(),
            message: String::new(),
            causes: Vec::new(),
            existing: None,
        };
        for &(key, value) in pairs {
            match key {
                "code" => failure.http_code = parse(key, value)?,
                "reason" => failure.reason = value.to_owned(),
                "message" => failure.message = value.to_owned(),
                "cause" => failure.causes.push(value.to_owned()),
                "existing" => {
                    let hidden = self.hidden.get(value).cloned();
                    let known = || {
                        let index = self.find(value).ok()?;
                        Some(self.snapshot.replica_sets[index].clone())
                    };
                    let existing = hidden.or_else(known);
                    failure.existing = Some(existing.ok_or(format!("no ReplicaSet {value}"))?);
                }
                _ => return unknown(key),
            }
        }
        Ok(failure)
    }

    /// Applies an action like the server, which also updates the resource version.
    fn carry_out(&mut self, action: &Action) {
        apply(&mut self.snapshot, action);
        let newer = |metadata: &mut ObjectMeta| {
            let version: u64 = metadata.resource_version.parse().unwrap_or(0);
            metadata.resource_version = (version + 1).to_string();
        };
        let name = match action {
            Action::CheckOwner { .. } | Action::DeleteReplicaSet { .. } => return,
            Action::UpdateDeployment { .. } | Action::UpdateDeploymentStatus { .. } => {
                return newer(&mut self.snapshot.deployment.metadata);
            }
            Action::CreateReplicaSet(set) => &set.metadata.name,
            Action::AdoptReplicaSet { set, .. }
            | Action::ReleaseReplicaSet { set, .. }
            | Action::UpdateReplicaSet { set, .. }
            | Action::ScaleReplicaSet { set, .. } => &set.name,
        };
        for set in &mut self.snapshot.replica_sets {
            if set.metadata.name == *name {
                newer(&mut set.metadata);
                set.available_max = ReplicaSet::UNTOUCHED;
            }
        }
    }

    /// The ReplicaSet with a name. `@image` is the only one with this image.
    fn find(&self, name: &str) -> Told<usize> {
        let sets = &self.snapshot.replica_sets;
        let runs = |set: &ReplicaSet, image: &str| {
            let containers = set.template.value().at(&["spec", "containers"]);
            let first = containers.and_then(|list| list.as_list()?.first());
            first.and_then(|container| container.get("image")?.as_str()) == Some(image)
        };
        let mut found = (0..sets.len()).filter(|&index| match name.strip_prefix('@') {
            Some(image) => runs(&sets[index], image),
            None => sets[index].metadata.name == name,
        });
        match (found.next(), found.next()) {
            (Some(index), None) => Ok(index),
            (None, _) => Err(format!("no ReplicaSet {name}")),
            (Some(_), Some(_)) => Err(format!("several ReplicaSets {name}")),
        }
    }

    fn set(&mut self, words: &[&str]) -> Told<()> {
        let (name, pairs) = name_and_pairs(words)?;
        let now = self.snapshot.now;
        if self.find(name).is_err() && name.starts_with('@') {
            return Err(format!("no ReplicaSet {name}"));
        }
        let deployment = &self.snapshot.deployment;
        if let Ok(index) = self.find(name) {
            if pairs == [("gone", "yes")] {
                self.snapshot.replica_sets.remove(index);
                return Ok(());
            }
            let set = &mut self.snapshot.replica_sets[index];
            return change_set(set, deployment, &pairs, now);
        }
        self.sets_told += 1;
        let mut pairs = pairs;
        let mut take = |wanted: &str| {
            let index = pairs.iter().position(|(key, _)| *key == wanted)?;
            Some(pairs.remove(index).1)
        };
        let image = take("image").unwrap_or("v1");
        let replicas: i32 = parse("replicas", take("replicas").unwrap_or("0"))?;
        let hidden = take("hidden") == Some("yes");
        let mut set = mk_set(deployment, image, self.sets_told, replicas);
        set.metadata.name = name.to_owned();
        set.metadata.uid = format!("{name}-uid");
        change_set(&mut set, deployment, &pairs, now)?;
        let given = |wanted: &str| pairs.iter().any(|(key, _)| *key == wanted);
        // Missing fields of the status are derived from the given ones.
        if given("pods") && !given("ready") {
            set.status.ready_replicas = set.status.replicas;
        }
        if (given("pods") || given("ready")) && !given("available") {
            set.status.available_replicas = set.status.ready_replicas;
        }
        if hidden {
            _ = self.hidden.insert(name.to_owned(), set);
        } else {
            self.snapshot.replica_sets.push(set);
        }
        Ok(())
    }

    /// Gives every ReplicaSet its size, with all pods available.
    fn settle(&mut self, words: &[&str]) -> Told<()> {
        nothing_more(words)?;
        for set in &mut self.snapshot.replica_sets {
            let conditions = std::mem::take(&mut set.status.conditions);
            set.status = mk_set_status(set.replicas, set.replicas);
            set.status.observed_generation = set.metadata.generation;
            set.status.conditions = conditions;
        }
        Ok(())
    }

    fn pod(&mut self, words: &[&str]) -> Told<()> {
        let (name, pairs) = name_and_pairs(words)?;
        let mut pods = self.snapshot.pods.to_vec();
        if pairs == [("gone", "yes")] {
            pods.retain(|pod| pod.metadata.name != name);
            self.snapshot.pods = pods.into();
            return Ok(());
        }
        let set = pairs.iter().find(|(key, _)| *key == "set");
        let set = set.ok_or("a pod needs set=NAME")?.1;
        let set = &self.snapshot.replica_sets[self.find(set)?];
        let mut pod = mk_pod(set, name, "Running");
        for (key, value) in pairs {
            match key {
                "set" => {}
                "phase" => pod.phase = value.to_owned(),
                "namespace" => pod.metadata.namespace = value.to_owned(),
                "ownerKind" => pod.metadata.owner_references[0].kind = value.to_owned(),
                "ownerUid" => pod.metadata.owner_references[0].uid = value.to_owned(),
                "deleting" => pod.metadata.deletion_timestamp = deleting(value, at(0))?,
                _ => return unknown(key),
            }
        }
        pods.retain(|pod| pod.metadata.name != name);
        pods.push(pod);
        self.snapshot.pods = Arc::from(pods);
        Ok(())
    }

    fn pods(&mut self, words: &[&str]) -> Told<()> {
        for (key, value) in pairs(words)? {
            match key {
                "complete" => self.snapshot.pods_complete = yes(key, value)?,
                _ => return unknown(key),
            }
        }
        Ok(())
    }

    fn sets(&mut self, words: &[&str]) -> Told<()> {
        for (key, value) in pairs(words)? {
            match key {
                "complete" => self.snapshot.replica_sets_complete = yes(key, value)?,
                _ => return unknown(key),
            }
        }
        Ok(())
    }

    fn options(&mut self, words: &[&str]) -> Told<()> {
        for (key, value) in pairs(words)? {
            match key {
                "terminating" => self.options.terminating_replicas = yes(key, value)?,
                _ => return unknown(key),
            }
        }
        Ok(())
    }

    fn now(&mut self, words: &[&str]) -> Told<()> {
        let [moved] = words else {
            return Err("now +30s".to_owned());
        };
        self.snapshot.now = time("now", moved, self.snapshot.now)?.ok_or("now is some time")?;
        Ok(())
    }

    /// A condition of the Deployment, or of the ReplicaSet that `on` names.
    fn condition(&mut self, words: &[&str]) -> Told<()> {
        let (kind, pairs) = name_and_pairs(words)?;
        let now = self.snapshot.now;
        let mut new = mk_condition(kind, "True", "", now);
        new.message.clear();
        let mut set = None;
        let mut removed = false;
        for (key, value) in pairs {
            match key {
                "on" => set = Some(self.find(value)?),
                "gone" => removed = yes(key, value)?,
                "status" => new.status = value.to_owned(),
                "reason" => new.reason = value.to_owned(),
                "message" => new.message = value.to_owned(),
                "updated" => new.last_update_time = time(key, value, now)?,
                "changed" => new.last_transition_time = time(key, value, now)?,
                _ => return unknown(key),
            }
        }
        let conditions: &mut Vec<Condition> = match set {
            Some(index) => {
                // Conditions of ReplicaSets do not have this time.
                new.last_update_time = None;
                &mut self.snapshot.replica_sets[index].status.conditions
            }
            None => &mut self.snapshot.deployment.status.conditions,
        };
        conditions.retain(|condition| condition.kind != kind);
        if !removed {
            conditions.push(new);
        }
        Ok(())
    }
}

// Objects.

fn change_deployment(deployment: &mut Deployment, pairs: &Pairs<'_>, now: Time) -> Told<()> {
    let mut spec_changes = false;
    let (mut done, mut generation) = (false, None);
    for &(key, value) in pairs {
        if change_spec(&mut deployment.spec, key, value)? {
            spec_changes = true;
            continue;
        }
        let Deployment {
            api_version,
            kind,
            metadata,
            spec: _,
            status,
        } = &mut *deployment;
        match key {
            "kind" => {
                let (group, name) = value.rsplit_once('/').ok_or("kind=GROUP/VERSION/KIND")?;
                (*api_version, *kind) = (group.to_owned(), name.to_owned());
            }
            "generation" => generation = Some(parse(key, value)?),
            "revision" => annotate(&mut metadata.annotations, REVISION, value),
            "rollbackTo" => annotate(&mut metadata.annotations, ROLLBACK_TO, value),
            "lastApplied" => annotate(&mut metadata.annotations, LAST_APPLIED, value),
            "annotation" => {
                let (key, value) = pair(value)?;
                annotate(&mut metadata.annotations, key, value);
            }
            "deleting" => metadata.deletion_timestamp = deleting(value, now)?,
            "uid" => metadata.uid = value.to_owned(),
            "version" => metadata.resource_version = value.to_owned(),
            "status" if value == "done" => done = true,
            "observed" => status.observed_generation = parse(key, value)?,
            "pods" => status.replicas = parse(key, value)?,
            "updated" => status.updated_replicas = parse(key, value)?,
            "ready" => status.ready_replicas = parse(key, value)?,
            "available" => status.available_replicas = parse(key, value)?,
            "unavailable" => status.unavailable_replicas = parse(key, value)?,
            "terminating" => status.terminating_replicas = or_none(key, value)?,
            "collisions" => status.collision_count = or_none(key, value)?,
            _ => return unknown(key),
        }
    }
    deployment.metadata.generation += i64::from(spec_changes);
    if let Some(generation) = generation {
        deployment.metadata.generation = generation;
    }
    if done {
        finish(deployment);
    }
    Ok(())
}

/// Returns whether the key is a field of the spec, whose changes increment the generation.
fn change_spec(spec: &mut DeploymentSpec, key: &str, value: &str) -> Told<bool> {
    match key {
        "replicas" => spec.replicas = parse(key, value)?,
        "image" => spec.template = Template::from(mk_template(value)),
        "podLabel" => {
            let (label, value) = pair(value)?;
            let mut template = spec.template.value().clone();
            set_label(&mut template, label, value);
            spec.template = Template::from(template);
        }
        "selector" => spec.selector = selector(value)?,
        "strategy" if value == "Recreate" => spec.strategy = Strategy::Recreate,
        "strategy" if value == "RollingUpdate" => spec.strategy = mk_deployment(1).spec.strategy,
        "strategy" => return Err(format!("unknown strategy {value}")),
        "maxSurge" | "maxUnavailable" => limit(&mut spec.strategy, key, value)?,
        "minReady" => spec.min_ready_seconds = parse(key, value)?,
        "historyLimit" => spec.revision_history_limit = or_max(key, value)?,
        "deadline" => spec.progress_deadline_seconds = or_max(key, value)?,
        "paused" => spec.paused = yes(key, value)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// The status of a rollout that ended an hour ago.
fn finish(deployment: &mut Deployment) {
    let wanted = deployment.spec.replicas;
    let status = &mut deployment.status;
    status.observed_generation = deployment.metadata.generation;
    status.replicas = wanted;
    status.updated_replicas = wanted;
    status.ready_replicas = wanted;
    status.available_replicas = wanted;
    status.terminating_replicas = Some(0);
    let since = at(-3600);
    status.conditions = vec![
        mk_condition("Available", "True", "MinimumReplicasAvailable", since),
        mk_condition("Progressing", "True", "NewReplicaSetAvailable", since),
    ];
    for condition in &mut status.conditions {
        condition.message = "as before".to_owned();
    }
}

fn change_set(
    set: &mut ReplicaSet,
    deployment: &Deployment,
    pairs: &Pairs<'_>,
    now: Time,
) -> Told<()> {
    for &(key, value) in pairs {
        let ReplicaSet {
            metadata,
            replicas,
            min_ready_seconds,
            template,
            status,
            available_max: _,
        } = &mut *set;
        let annotations = &mut metadata.annotations;
        match key {
            "replicas" => {
                *replicas = parse(key, value)?;
                metadata.generation += 1;
            }
            "minReady" => *min_ready_seconds = parse(key, value)?,
            "image" => {
                let mut value = mk_template(value);
                let hash = metadata.labels.get(POD_TEMPLATE_HASH);
                set_label(
                    &mut value,
                    POD_TEMPLATE_HASH,
                    hash.map_or("", String::as_str),
                );
                *template = Template::from(value);
            }
            "podLabel" => {
                let (label, text) = pair(value)?;
                let mut value = template.value().clone();
                set_label(&mut value, label, text);
                *template = Template::from(value);
            }
            "label" => {
                let (key, value) = pair(value)?;
                annotate(&mut metadata.labels, key, value);
            }
            "revision" => annotate(annotations, REVISION, value),
            "history" => annotate(annotations, REVISION_HISTORY, value),
            "desired" => annotate(annotations, DESIRED_REPLICAS, value),
            "max" => annotate(annotations, MAX_REPLICAS, value),
            "annotation" => {
                let (key, value) = pair(value)?;
                annotate(annotations, key, value);
            }
            "digest" if value == "current" => {
                let digest = sha256_of_canonical(deployment.spec.template.value());
                annotate(annotations, TEMPLATE_DIGEST, &digest);
            }
            "annotations" if value == "none" => annotations.clear(),
            "owner" => metadata.owner_references = owners(value, deployment)?,
            "created" => metadata.creation_timestamp = time(key, value, now)?,
            "deleting" => metadata.deletion_timestamp = deleting(value, now)?,
            "generation" => metadata.generation = parse(key, value)?,
            "namespace" => metadata.namespace = value.to_owned(),
            "uid" => metadata.uid = value.to_owned(),
            "version" => metadata.resource_version = value.to_owned(),
            "pods" => status.replicas = parse(key, value)?,
            "ready" => status.ready_replicas = parse(key, value)?,
            "available" => status.available_replicas = parse(key, value)?,
            "terminating" => status.terminating_replicas = or_none(key, value)?,
            "observed" => status.observed_generation = parse(key, value)?,
            _ => return unknown(key),
        }
    }
    Ok(())
}

fn owners(value: &str, deployment: &Deployment) -> Told<Vec<OwnerReference>> {
    let plain = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: "friend".to_owned(),
        uid: "friend-uid".to_owned(),
        controller: None,
        block_owner_deletion: None,
    };
    let mut owners = Vec::new();
    for word in value.split(',').filter(|word| *word != "none") {
        owners.push(match word {
            "deployment" => mk_owner(deployment),
            "other" => OwnerReference {
                name: "other".to_owned(),
                uid: "other-uid".to_owned(),
                ..mk_owner(deployment)
            },
            "friend" => plain.clone(),
            _ => return Err(format!("unknown owner {word}")),
        });
    }
    Ok(owners)
}

fn limit(strategy: &mut Strategy, key: &str, value: &str) -> Told<()> {
    let new = match value.strip_suffix('%') {
        Some(percent) => IntOrPercent::Percent(parse(key, percent)?),
        None => IntOrPercent::Int(parse(key, value)?),
    };
    match strategy {
        Strategy::RollingUpdate { max_surge, .. } if key == "maxSurge" => *max_surge = new,
        Strategy::RollingUpdate {
            max_unavailable, ..
        } => *max_unavailable = new,
        Strategy::Recreate => return Err(format!("Recreate has no {key}")),
    }
    Ok(())
}

/// `app=web,tier,!canary`, or `none`.
fn selector(value: &str) -> Told<LabelSelector> {
    let mut selector = LabelSelector::default();
    for part in value.split(',').filter(|part| *part != "none") {
        let (key, operator) = match (part.split_once('='), part.strip_prefix('!')) {
            (Some((key, value)), _) => {
                annotate(&mut selector.match_labels, key, value);
                continue;
            }
            (None, Some(key)) => (key, Operator::DoesNotExist),
            (None, None) => (part, Operator::Exists),
        };
        selector.match_expressions.push(Requirement {
            key: key.to_owned(),
            operator,
        });
    }
    Ok(selector)
}

// Words.

/// The words of a line. A quoted word can contain spaces, and quotes after a backslash.
fn words(line: &str) -> Told<Vec<String>> {
    if line.trim_start().starts_with('#') {
        return Ok(vec![]);
    }
    let mut words = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => words.last_mut().unwrap().extend(letters.next()),
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(letter),
        }
    }
    words.retain(|word| !word.is_empty());
    if quoted {
        Err("a quote is not closed".to_owned())
    } else {
        Ok(words)
    }
}

fn name_and_pairs<'a>(words: &[&'a str]) -> Told<(&'a str, Pairs<'a>)> {
    let (name, rest) = words.split_first().ok_or("a name is missing")?;
    Ok((name, pairs(rest)?))
}

fn pairs<'a>(words: &[&'a str]) -> Told<Pairs<'a>> {
    words.iter().map(|word| pair(word)).collect()
}

fn pair(word: &str) -> Told<(&str, &str)> {
    word.split_once('=')
        .ok_or_else(|| format!("not key=value: {word}"))
}

fn nothing_more(words: &[&str]) -> Told<()> {
    match words {
        [] => Ok(()),
        _ => Err(format!("unknown words {}", words.join(" "))),
    }
}

fn unknown<T>(key: &str) -> Told<T> {
    Err(format!("unknown key {key}"))
}

fn parse<T: FromStr<Err: Display>>(key: &str, value: &str) -> Told<T> {
    value
        .parse()
        .map_err(|error| format!("{key}={value}: {error}"))
}

fn or_none(key: &str, value: &str) -> Told<Option<i32>> {
    match value {
        "none" => Ok(None),
        _ => parse(key, value).map(Some),
    }
}

/// A limit, or no limit for `none`.
fn or_max(key: &str, value: &str) -> Told<i32> {
    match value {
        "none" => Ok(i32::MAX),
        _ => parse(key, value),
    }
}

fn yes(key: &str, value: &str) -> Told<bool> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("{key}={value}: yes or no")),
    }
}

fn deleting(value: &str, now: Time) -> Told<Option<Time>> {
    Ok(yes("deleting", value)?.then_some(now))
}

/// A time relative to another one: `now`, `-90s`, `-5m`, `+1h`, or `never`.
fn time(key: &str, value: &str, now: Time) -> Told<Option<Time>> {
    let unit = match value.chars().last() {
        _ if value == "never" => return Ok(None),
        _ if value == "now" => return Ok(Some(now)),
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        _ => return Err(format!("{key}={value}: -90s, +5m, now or never")),
    };
    let count: i64 = parse(key, &value[..value.len() - 1])?;
    Ok(Some(now.plus_seconds(count * unit)))
}

/// Sets an entry, or removes it for `none`.
fn annotate(map: &mut StringMap, key: &str, value: &str) {
    match value {
        "none" => _ = map.remove(key),
        _ => _ = map.insert(key.to_owned(), value.to_owned()),
    }
}
