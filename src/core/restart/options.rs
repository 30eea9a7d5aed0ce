//! How restarts are planned.

use std::time::Duration;

/// Whose annotations and checksums are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Ours.
    #[default]
    Rollplan,
    /// Those of xing/kubernetes-deployment-restart-controller.
    Xing,
    /// Those of stakater/Reloader.
    Reloader,
}

/// Which uses of a configuration need a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestartOn {
    /// All, also volumes that are updated in place.
    #[default]
    All,
    /// Environment variables and `subPath` mounts, which running pods never see.
    Env,
}

/// What the reloader profile writes into the pod template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// `STAKATER_<NAME>_<TYPE>` in a container.
    #[default]
    EnvVars,
    /// The annotation `reloader.stakater.com/last-reloaded-from`.
    Annotations,
}

/// How restarts are planned.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whose annotations and checksums are used.
    pub profile: Profile,
    /// Whether workloads without an annotation are restarted.
    pub all_workloads: bool,
    /// Which uses need a restart, unless a workload says otherwise.
    pub restart_on: RestartOn,
    /// Whether imagePullSecrets count.
    pub image_pull_secrets: bool,
    /// How long a configuration must stay unchanged. In the xing profile, how long a change waits (the grace period).
    pub quiet: Duration,
    /// How long changes may postpone a restart.
    pub max_wait: Duration,
    /// Minimum time between two restarts of a workload. Doubles with each further restart within an hour.
    pub min_interval: Duration,
    /// How long an annotation may hold a restart.
    pub max_hold: Duration,
    /// By how much a pod must be younger than a change to have started with it.
    pub skew: Duration,
    /// How many restarts may be under way. 0 for any number.
    pub max_concurrent: usize,
    /// Whether a workload that is stalled after a restart holds the restarts of others for the same configuration.
    pub breaker: bool,
    /// How long a PodDisruptionBudget without allowed disruptions holds a restart. `None` if budgets do not count.
    pub disruption_budget_wait: Option<Duration>,
    /// Namespaces without restarts.
    pub frozen_namespaces: Vec<String>,
    /// Of the reloader profile.
    pub reloader: ReloaderOptions,
    /// Whether the plan lists what workloads read.
    pub uses: bool,
}

/// Options of the reloader profile, named after Reloader's flags.
#[derive(Clone, Debug, Default)]
pub struct ReloaderOptions {
    /// What is written into the pod template.
    pub strategy: Strategy,
    /// Whether workloads without annotations are restarted.
    pub auto_reload_all: bool,
    /// Whether a configuration that is created restarts.
    pub reload_on_create: bool,
    /// Whether a configuration that is deleted restarts.
    pub reload_on_delete: bool,
    /// Whether ConfigMaps are ignored.
    pub ignore_config_maps: bool,
    /// Whether Secrets are ignored.
    pub ignore_secrets: bool,
    /// Whether Jobs are ignored.
    pub ignore_jobs: bool,
    /// Whether CronJobs are ignored.
    pub ignore_cron_jobs: bool,
}

impl Options {
    /// The defaults of a profile.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        let (quiet, min_interval) = match profile {
            Profile::Rollplan => (Duration::from_secs(10), Duration::from_secs(30)),
            Profile::Xing => (Duration::from_secs(5), Duration::ZERO),
            Profile::Reloader => (Duration::ZERO, Duration::ZERO),
        };
        Self {
            profile,
            all_workloads: false,
            restart_on: RestartOn::All,
            image_pull_secrets: false,
            quiet,
            max_wait: Duration::from_secs(120),
            min_interval,
            max_hold: Duration::from_secs(86_400),
            skew: Duration::from_secs(10),
            max_concurrent: 0,
            breaker: true,
            disruption_budget_wait: None,
            frozen_namespaces: Vec::new(),
            reloader: ReloaderOptions::default(),
            uses: false,
        }
    }
}
