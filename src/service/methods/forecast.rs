//! Forecasts of rollouts, and which failures are certain in them.

use std::collections::BTreeSet;

use rollplan_core::interrupt::Interrupt;
use rollplan_core::snapshot::{Options, Snapshot};
use rollplan_forecast::{Failure, forecast_until};
use rollplan_health::judge::class::Class;
use rollplan_health::judge::{Outlook, VerdictOptions};
use rollplan_health::observe::observe_until;
use rollplan_health::report::report;
use rollplan_wire::{Context, Error, ForecastInput, proto, read_forecast};

/// Forecasts what a change of a Deployment will do, before it is applied, or how a rollout is likely to continue.
pub(crate) fn forecast_rollout(
    request: proto::ForecastRolloutRequest,
    context: &mut Context<'_>,
) -> Result<proto::ForecastRolloutResponse, Error> {
    let ForecastInput {
        mut request,
        printer,
    } = read_forecast(request, context)?;
    let interrupt = context.interrupt;
    (request.failure, request.failing_pods) =
        failures(&request.snapshot, request.options, interrupt)?;
    let answer = printer.print(forecast_until(request, interrupt)??);
    interrupt.check()?;
    Ok(answer)
}

/// The UIDs of pods.
type Uids = BTreeSet<String>;

/// Why pods with the current template do not become available, according to the snapshot, and the UIDs of pods that fail. A
/// lack of capacity does not count, because the rollout may free some.
fn failures(
    snapshot: &Snapshot,
    options: Options,
    interrupt: &dyn Interrupt,
) -> Result<(Option<Failure>, Uids), Error> {
    let observed = observe_until(snapshot, VerdictOptions::default(), interrupt)?;
    let failing = observed.failing_pods().map(str::to_owned).collect();
    let shared = observed.failure();
    let shared = shared.filter(|it| !matches!(it.class, Class::Unschedulable | Class::NotReady));
    let refusal = observed.refusal_text().map(resolving_fields);
    let resolved_by = match (&shared, refusal) {
        (Some(failure), _) => match failure.class {
            Class::ImageName | Class::ImagePull => Some(IMAGE_FIELDS),
            Class::Config => None,
            _ => Some(&[][..]),
        },
        (None, Some(Some(fields))) => Some(fields),
        (None, _) => return Ok((None, failing)),
    };
    let status = rollplan_core::compute_status_until(snapshot, options, interrupt)?;
    let verdict = report(&observed, options, &status, &[]).verdict;
    let is_certain = verdict.outlook == Outlook::NeedsChange && verdict.is_certain;
    let container = match observed.explanations() {
        [explanation, ..] if shared.is_some() => explanation.blocked.container.clone(),
        _ => String::new(),
    };
    let failure = Failure {
        resolved_by: resolved_by.unwrap_or_else(|| configuration_fields(&verdict.message)),
        message: sentence(&verdict.message),
        is_certain,
        container,
    };
    Ok((Some(failure), failing))
}

/// A message with an initial capital and a full stop.
fn sentence(message: &str) -> String {
    let mut rest = message.chars();
    let first = rest.next().into_iter().flat_map(char::to_uppercase);
    let stop = if message.ends_with('.') { "" } else { "." };
    first.chain(rest).chain(stop.chars()).collect()
}

/// The fields of a template that may resolve that a container cannot be created, for which the kubelet reports a reason.
/// Nothing but another reference replaces an object or a key that does not exist.
fn configuration_fields(message: &str) -> &'static [&'static str] {
    let is_missing = ["not found", "couldn't find key", "non-existent config key"];
    if is_missing.iter().any(|it| message.contains(it)) {
        REFERENCE_FIELDS
    } else {
        CONFIG_FIELDS
    }
}

/// The fields that decide whether an image can be pulled.
const IMAGE_FIELDS: &[&str] = &[".image", "serviceAccount"];
/// The fields that refer to objects with configuration.
const REFERENCE_FIELDS: &[&str] = &[".env", "volume"];
/// The fields that decide whether a container can be created.
const CONFIG_FIELDS: &[&str] = &[
    ".env",
    "volume",
    ".securityContext",
    ".image",
    ".resources",
    ".lifecycle",
];

/// The fields of a template that may resolve a rejection of pods with this text. `None` if it is that of a quota, which has
/// room later.
fn resolving_fields(text: &str) -> Option<&'static [&'static str]> {
    match text {
        _ if text.contains("exceeded quota") => None,
        _ if text.contains("error looking up service account") => Some(&["serviceAccount"]),
        _ if text.contains("no PriorityClass with name") => Some(&["priorityClassName"]),
        _ if text.contains("RuntimeClass") => Some(&["runtimeClassName"]),
        _ => Some(&[]),
    }
}
