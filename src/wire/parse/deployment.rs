//! Parses the Deployment: metadata, spec with the defaults of the Kubernetes API, and status.

use prost_types::value::Kind;
use rollplan_core::selector::LabelSelector;
use rollplan_core::size::IntOrPercent;
use rollplan_core::snapshot::{Condition, Deployment, DeploymentSpec, DeploymentStatus, Strategy};
use rollplan_core::template::Template;

use super::Parser;
use super::meta::Needed;
use super::name::{is_api_version, is_kind};
use super::path::Path;
use super::raw_template::RawTemplate;
use crate::proto;
use crate::wire::error::Reason;
use crate::wire::tree::Tape;

const API_VERSION: &str = "apps/v1";
const KIND: &str = "Deployment";

// The defaults of the Kubernetes API.
const REPLICAS: i32 = 1;
const REVISION_HISTORY_LIMIT: i32 = 10;
const PROGRESS_DEADLINE_SECONDS: i32 = 600;

impl Parser<'_> {
    /// The Deployment, and its template as a tape. A missing Deployment has been reported already: it is parsed as an
    /// empty one without further violations.
    pub(super) fn deployment<'r>(
        &mut self,
        deployment: Option<proto::Deployment>,
        template: &'r Option<RawTemplate>,
        path: &Path<'_>,
    ) -> (Deployment, Option<Tape<'r>>) {
        let Some(deployment) = deployment else {
            let deployment = Deployment {
                api_version: API_VERSION.to_owned(),
                kind: KIND.to_owned(),
                metadata: Default::default(),
                spec: empty_spec(),
                status: DeploymentStatus::default(),
            };
            return (deployment, None);
        };
        let proto::Deployment {
            api_version,
            kind,
            metadata,
            spec,
            status,
        } = deployment;
        let (api_version, kind) = self.owner_kind(api_version, kind, path);
        let needed = Needed {
            uid: true,
            namespace: true,
            resource_version: true,
        };
        let metadata = self.metadata(metadata, needed, &path.field("metadata"));
        let spec_path = path.field("spec");
        let (spec, template) = match self.required(spec, &spec_path) {
            Some(spec) => self.deployment_spec(spec, template, &spec_path),
            None => (empty_spec(), None),
        };
        let deployment = Deployment {
            api_version,
            kind,
            metadata,
            spec,
            status: self.deployment_status(status.unwrap_or_default(), &path.field("status")),
        };
        (deployment, template)
    }

    /// The kind of the owner. If both fields are absent, it is a Deployment. One of the fields without the other is
    /// refused, because writes need both.
    fn owner_kind(
        &mut self,
        api_version: String,
        kind: String,
        path: &Path<'_>,
    ) -> (String, String) {
        let own_version = api_version.is_empty() || api_version == API_VERSION;
        let own_kind = kind.is_empty() || kind == KIND;
        if own_version && own_kind {
            return (API_VERSION.to_owned(), KIND.to_owned());
        }
        for (field, value) in [("api_version", &api_version), ("kind", &kind)] {
            if value.is_empty() {
                let description = "is required for an owner other than an apps/v1 Deployment";
                self.violation(&path.field(field), Reason::Required, description);
            }
        }
        // Both become part of the paths of calls.
        if !api_version.is_empty() && !is_api_version(&api_version) {
            let description = format_args!("{api_version:?} is not a group and a version");
            self.violation(&path.field("api_version"), Reason::InvalidName, description);
        }
        if !kind.is_empty() && !is_kind(&kind) {
            let description =
                format_args!("{kind:?} is not a kind: at most 63 of A-Z, a-z and 0-9");
            self.violation(&path.field("kind"), Reason::InvalidName, description);
        }
        (api_version, kind)
    }

    fn deployment_spec<'r>(
        &mut self,
        spec: proto::DeploymentSpec,
        template: &'r Option<RawTemplate>,
        path: &Path<'_>,
    ) -> (DeploymentSpec, Option<Tape<'r>>) {
        let proto::DeploymentSpec {
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
        let tape = template.map(|template| self.tape(template, None, &template_path));
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

    fn strategy(&mut self, strategy: proto::DeploymentStrategy, path: &Path<'_>) -> Strategy {
        let proto::DeploymentStrategy {
            r#type,
            rolling_update,
        } = strategy;
        let limits_path = path.field("rolling_update");
        match r#type.as_str() {
            "" | "RollingUpdate" => {
                let proto::RollingUpdateDeployment {
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

    /// A number of pods or a percentage. Absent and `null` mean the default.
    fn int_or_percent(
        &mut self,
        value: Option<prost_types::Value>,
        path: &Path<'_>,
    ) -> IntOrPercent {
        let parsed = match value.and_then(|value| value.kind) {
            None | Some(Kind::NullValue(_)) => return IntOrPercent::DEFAULT,
            Some(Kind::NumberValue(number)) => int(number),
            Some(Kind::StringValue(text)) => percent(&text),
            Some(_) => Err(Fault::NEITHER),
        };
        parsed.unwrap_or_else(|Fault(reason, description)| {
            self.violation(path, reason, description);
            IntOrPercent::DEFAULT
        })
    }

    fn deployment_status(
        &mut self,
        status: proto::DeploymentStatus,
        path: &Path<'_>,
    ) -> DeploymentStatus {
        let proto::DeploymentStatus {
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
        let conditions_path = path.field("conditions");
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
            conditions: conditions
                .into_iter()
                .enumerate()
                .map(|(index, condition)| {
                    self.deployment_condition(condition, &conditions_path.index(index))
                })
                .collect(),
            collision_count: self.optional_count(collision_count, &path.field("collision_count")),
        }
    }

    fn deployment_condition(
        &mut self,
        condition: proto::DeploymentCondition,
        path: &Path<'_>,
    ) -> Condition {
        let proto::DeploymentCondition {
            r#type,
            status,
            last_update_time,
            last_transition_time,
            reason,
            message,
        } = condition;
        Condition {
            kind: r#type,
            status,
            reason,
            message,
            last_update_time: self.optional_time(last_update_time, &path.field("last_update_time")),
            last_transition_time: self
                .optional_time(last_transition_time, &path.field("last_transition_time")),
        }
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
struct Fault(Reason, &'static str);

impl Fault {
    const NEITHER: Self = Self(
        Reason::NotIntOrPercent,
        "must be a whole number, or a percentage, for example \"25%\"",
    );
    const NEGATIVE: Self = Self(Reason::Negative, "may not be negative");
    const TOO_LARGE: Self = Self(Reason::OutOfRange, "must be at most 2147483647");
}

fn int(number: f64) -> Result<IntOrPercent, Fault> {
    if number.fract() != 0.0 {
        // NaN and infinity end here, too: their fraction is NaN.
        Err(Fault::NEITHER)
    } else if number < 0.0 {
        Err(Fault::NEGATIVE)
    } else if number > f64::from(i32::MAX) {
        Err(Fault::TOO_LARGE)
    } else {
        Ok(IntOrPercent::Int(number as i32))
    }
}

/// Digits and a percent sign. A number in quotes is refused, as in the Kubernetes API.
fn percent(text: &str) -> Result<IntOrPercent, Fault> {
    let digits = text.strip_suffix('%').ok_or(Fault::NEITHER)?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::NEITHER);
    }
    let percent = digits.parse().map_err(|_| Fault::TOO_LARGE)?;
    Ok(IntOrPercent::Percent(percent))
}
