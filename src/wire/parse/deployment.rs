//! Parses the Deployment: metadata, spec with the defaults of the Kubernetes API, and status.

use rollplan_core::selector::LabelSelector;
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::{Condition, Deployment, DeploymentSpec, DeploymentStatus, Strategy};
use rollplan_core::template::{Template, Value};

use super::Parser;
use super::meta::Needed;
use super::name::{is_api_version, is_kind};
use super::path::Path;
use super::raw_template::RawTemplate;
use super::selector::limit_selector;
use crate::error::{Error, Reason};
use crate::objects::Found;
use crate::read::kubernetes::{self, IntOrString};
use crate::tree::Tape;

// The defaults of the Kubernetes API.
const REPLICAS: i32 = 1;
const REVISION_HISTORY_LIMIT: i32 = 10;
const PROGRESS_DEADLINE_SECONDS: i32 = 600;

impl Parser<'_> {
    /// The Deployment, and its template as a tape.
    pub(crate) fn deployment<'r>(
        &mut self,
        object: &Found<'_>,
        deployment: kubernetes::Deployment<'_>,
        template: &'r Option<RawTemplate>,
        needed: Needed,
        path: &Path<'_>,
    ) -> (Deployment, Option<Tape<'r>>) {
        let kubernetes::Deployment {
            metadata,
            spec,
            status,
        } = deployment;
        let (api_version, kind) = (&*object.api_version, &*object.kind);
        // Both become part of the paths of calls.
        if !is_api_version(api_version) {
            let description = format_args!("{api_version:?} is not a group and a version");
            self.violation(&path.field("api_version"), Reason::InvalidName, description);
        }
        if !is_kind(kind) {
            let description =
                format_args!("{kind:?} is not a kind: at most 63 of A-Z, a-z and 0-9");
            self.violation(&path.field("kind"), Reason::InvalidName, description);
        }
        let metadata_path = path.field("metadata");
        let metadata = self.metadata(metadata, needed, &metadata_path);
        self.cap_annotations(&metadata.annotations, &metadata_path.field("annotations"));
        let spec_path = path.field("spec");
        let (spec, template) = match self.required(spec, &spec_path) {
            Some(spec) => self.deployment_spec(spec, template, &spec_path),
            None => (empty_spec(), None),
        };
        let deployment = Deployment {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            metadata,
            spec,
            status: self.deployment_status(status.unwrap_or_default(), &path.field("status")),
        };
        (deployment, template)
    }

    fn deployment_spec<'r>(
        &mut self,
        spec: kubernetes::DeploymentSpec<'_>,
        template: &'r Option<RawTemplate>,
        path: &Path<'_>,
    ) -> (DeploymentSpec, Option<Tape<'r>>) {
        let kubernetes::DeploymentSpec {
            replicas,
            selector,
            // Parsed separately, because it outlives the rest.
            template: _,
            strategy,
            min_ready_seconds,
            revision_history_limit,
            paused,
            progress_deadline_seconds,
        } = spec;
        let replicas = self.optional_count(replicas, &path.field("replicas"));
        let selector_path = path.field("selector");
        let selector = match self.required(selector, &selector_path) {
            Some(selector) => self.selector(selector, &selector_path),
            None => LabelSelector::default(),
        };
        let template_path = path.field("template");
        let template = self.required(template.as_ref(), &template_path);
        let tape = template.and_then(|template| self.tape(template, None, &template_path));
        let strategy = self.strategy(strategy.unwrap_or_default(), &path.field("strategy"));
        let min_ready_seconds = self.count(min_ready_seconds, &path.field("min_ready_seconds"));
        let history = self.optional_count(
            revision_history_limit,
            &path.field("revision_history_limit"),
        );
        let deadline = self.optional_count(
            progress_deadline_seconds,
            &path.field("progress_deadline_seconds"),
        );
        let spec = DeploymentSpec {
            replicas: replicas.unwrap_or(REPLICAS),
            selector,
            template: template.map_or_else(Self::no_template, |raw| Template::new(raw.clone())),
            strategy,
            min_ready_seconds,
            revision_history_limit: history.unwrap_or(REVISION_HISTORY_LIMIT),
            paused,
            progress_deadline_seconds: deadline.unwrap_or(PROGRESS_DEADLINE_SECONDS),
        };
        (spec, tape)
    }

    /// Checks a Deployment that no API server has stored yet by the rules that it has, in addition to the types of its
    /// fields. Its template must have these types. `current` is the Deployment that is changed.
    ///
    /// Kubernetes source: `ValidateDeploymentUpdate` in `pkg/apis/apps/validation`.
    pub(crate) fn deployment_rules(
        &mut self,
        deployment: &Deployment,
        current: Option<&Deployment>,
        path: &Path<'_>,
    ) {
        let DeploymentSpec {
            selector,
            template,
            strategy,
            min_ready_seconds,
            progress_deadline_seconds,
            ..
        } = &deployment.spec;
        let selector_path = path.field("selector");
        if selector.is_empty() {
            self.violation(&selector_path, Reason::Required, "may not be empty");
        }
        let before = current.map(|current| &current.spec.selector);
        if before.is_some_and(|before| before != selector) {
            let description =
                "cannot be changed: create the Deployment again, or keep the selector";
            self.violation(&selector_path, Reason::Immutable, description);
        }
        let template_path = path.field("template");
        let template = template.defaulted();
        let labels = template.at(&["metadata", "labels"]).and_then(Value::as_map);
        let labels = labels.into_iter().flatten().map(|(key, value)| {
            let value = value.as_str().unwrap_or_default();
            (key.clone(), value.to_owned())
        });
        if !selector.matches(&labels.collect()) {
            let description = "do not match the selector";
            let labels_path = template_path.text(".metadata.labels");
            self.violation(&labels_path, Reason::InvalidValue, description);
        }
        if let Strategy::RollingUpdate {
            max_surge,
            max_unavailable,
        } = strategy
        {
            let is_zero = |limit: &IntOrPercent| limit.rounded_up(100) == 0;
            let limits_path = path.text(".strategy.rollingUpdate.maxUnavailable");
            if is_zero(max_surge) && is_zero(max_unavailable) {
                let description = "may not be 0 if maxSurge is 0: no pod could ever be replaced";
                self.violation(&limits_path, Reason::InvalidValue, description);
            }
            if max_unavailable
                .percent()
                .is_some_and(|percent| percent > 100)
            {
                self.violation(&limits_path, Reason::OutOfRange, "must be at most 100%");
            }
        }
        if progress_deadline_seconds <= min_ready_seconds {
            let description = "must be greater than minReadySeconds";
            let deadline_path = path.field("progress_deadline_seconds");
            self.violation(&deadline_path, Reason::OutOfRange, description);
        }
        self.pod_template(template, &template_path);
    }

    fn strategy(&mut self, strategy: kubernetes::DeploymentStrategy, path: &Path<'_>) -> Strategy {
        let kubernetes::DeploymentStrategy {
            kind,
            rolling_update,
        } = strategy;
        let limits_path = path.field("rolling_update");
        match kind.as_str() {
            "" | "RollingUpdate" => {
                let kubernetes::RollingUpdateDeployment {
                    max_unavailable,
                    max_surge,
                } = rolling_update.unwrap_or_default();
                let max_unavailable =
                    self.int_or_percent(max_unavailable, &limits_path.field("max_unavailable"));
                let max_surge = self.int_or_percent(max_surge, &limits_path.field("max_surge"));
                Strategy::RollingUpdate {
                    max_surge,
                    max_unavailable,
                }
            }
            "Recreate" => {
                if rolling_update.is_some() {
                    let description = "may not be specified with Recreate";
                    self.violation(&limits_path, Reason::StrategyConflict, description);
                }
                Strategy::Recreate
            }
            unknown => {
                let description =
                    format_args!("is {unknown:?}, and must be RollingUpdate or Recreate");
                self.violation(&path.field("type"), Reason::UnknownStrategy, description);
                Strategy::Recreate
            }
        }
    }

    /// A number of pods or a percentage. Absent means the default.
    pub(crate) fn int_or_percent(
        &mut self,
        value: Option<IntOrString>,
        path: &Path<'_>,
    ) -> IntOrPercent {
        let parsed = match value {
            None => return IntOrPercent::DEFAULT,
            Some(IntOrString::Int(number)) => int(number),
            Some(IntOrString::String(text)) => percent(&text),
        };
        parsed.unwrap_or_else(|InvalidCount(reason, description)| {
            self.violation(path, reason, description);
            IntOrPercent::DEFAULT
        })
    }

    fn deployment_status(
        &mut self,
        status: kubernetes::DeploymentStatus,
        path: &Path<'_>,
    ) -> DeploymentStatus {
        let kubernetes::DeploymentStatus {
            observed_generation,
            replicas,
            updated_replicas,
            ready_replicas,
            available_replicas,
            unavailable_replicas,
            terminating_replicas,
            conditions,
            collision_count,
        } = status;
        DeploymentStatus {
            observed_generation: self
                .count(observed_generation, &path.field("observed_generation")),
            replicas: self.count(replicas, &path.field("replicas")),
            updated_replicas: self.count(updated_replicas, &path.field("updated_replicas")),
            ready_replicas: self.count(ready_replicas, &path.field("ready_replicas")),
            available_replicas: self.count(available_replicas, &path.field("available_replicas")),
            unavailable_replicas: self
                .count(unavailable_replicas, &path.field("unavailable_replicas")),
            terminating_replicas: self
                .optional_count(terminating_replicas, &path.field("terminating_replicas")),
            conditions: conditions.into_iter().map(condition).collect(),
            collision_count: self.optional_count(collision_count, &path.field("collision_count")),
        }
    }
}

/// The template of a Deployment, which outlives the rest. The size of the selector is limited first.
pub(crate) fn deployment_template(
    deployment: &kubernetes::Deployment<'_>,
) -> Result<Option<RawTemplate>, Error> {
    let Some(spec) = &deployment.spec else {
        return Ok(None);
    };
    spec.selector.as_ref().map_or(Ok(()), limit_selector)?;
    Ok(spec.template.map(RawTemplate::new))
}

fn condition(condition: kubernetes::DeploymentCondition) -> Condition {
    let kubernetes::DeploymentCondition {
        kind,
        status,
        last_update_time,
        last_transition_time,
        reason,
        message,
    } = condition;
    Condition {
        kind,
        status,
        reason,
        message,
        last_update_time,
        last_transition_time,
    }
}

fn empty_spec() -> DeploymentSpec {
    DeploymentSpec {
        replicas: REPLICAS,
        selector: LabelSelector::default(),
        template: Parser::no_template(),
        strategy: Strategy::Recreate,
        min_ready_seconds: 0,
        revision_history_limit: REVISION_HISTORY_LIMIT,
        paused: false,
        progress_deadline_seconds: PROGRESS_DEADLINE_SECONDS,
    }
}

/// Why a value is not a number of pods.
struct InvalidCount(Reason, &'static str);

impl InvalidCount {
    const NEITHER: Self = Self(
        Reason::NotIntOrPercent,
        "must be a whole number, or a percentage, for example \"25%\"",
    );
    const NEGATIVE: Self = Self(Reason::Negative, "may not be negative");
    const TOO_LARGE: Self = Self(Reason::OutOfRange, "must be at most 2147483647");
}

fn int(number: i64) -> Result<IntOrPercent, InvalidCount> {
    match i32::try_from(number) {
        Ok(number) if number >= 0 => Ok(IntOrPercent::Int(number)),
        _ if number < 0 => Err(InvalidCount::NEGATIVE),
        _ => Err(InvalidCount::TOO_LARGE),
    }
}

/// Digits and a percent sign. A number in quotes is rejected, as in the Kubernetes API.
fn percent(text: &str) -> Result<IntOrPercent, InvalidCount> {
    let digits = text.strip_suffix('%').ok_or(InvalidCount::NEITHER)?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(InvalidCount::NEITHER);
    }
    IntOrPercent::from_percent(digits).ok_or(InvalidCount::TOO_LARGE)
}
