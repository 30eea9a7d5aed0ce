//! Options of the restart planner.

use std::time::Duration;

/// The set of annotations and checksums to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Those of rollplan.
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
    /// All uses, including volumes that are updated in place.
    #[default]
    All,
    /// Environment variables and `subPath` mounts, which are never updated in running pods.
    Env,
}

/// The marker that the reloader profile writes into the pod template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// `STAKATER_<NAME>_<TYPE>` in a container.
    #[default]
    EnvVars,
    /// The annotation `reloader.stakater.com/last-reloaded-from`.
    Annotations,
}

/// Options of the restart planner.
#[derive(Clone, Debug)]
pub struct Options {
    /// The set of annotations and checksums to use.
    pub profile: Profile,
    /// Whether workloads without an annotation are restarted.
    pub all_workloads: bool,
    /// Which uses need a restart. An annotation of the workload overrides this.
    pub restart_on: RestartOn,
    /// Whether imagePullSecrets count.
    pub image_pull_secrets: bool,
    /// How long a configuration must be unchanged before a restart. In the xing profile, how long a change waits (the grace
    /// period).
    pub quiet: Duration,
    /// The maximum time by which further changes postpone a restart.
    pub max_wait: Duration,
    /// The minimum time between two restarts of a workload. It doubles with each further restart within an hour.
    pub min_interval: Duration,
    /// The maximum time that an annotation can hold a restart.
    pub max_hold: Duration,
    /// Tolerated clock skew: a pod has started with a change only if it started at least this much later.
    pub skew: Duration,
    /// The maximum number of concurrent restarts. 0 for no limit.
    pub max_concurrent: usize,
    /// Whether a workload that is stalled after a restart holds the restarts of other workloads for the same configuration.
    pub breaker: bool,
    /// How long a PodDisruptionBudget without allowed disruptions holds a restart. `None` if budgets do not count.
    pub disruption_budget_wait: Option<Duration>,
    /// Namespaces without restarts.
    pub frozen_namespaces: Vec<String>,
    /// Options of the reloader profile.
    pub reloader: ReloaderOptions,
    /// Whether the plan lists the configurations that workloads use.
    pub uses: bool,
}

/// Options of the reloader profile, named after Reloader's flags.
#[derive(Clone, Debug, Default)]
pub struct ReloaderOptions {
    /// The marker to write into the pod template.
    pub strategy: Strategy,
    /// Whether workloads without annotations are restarted.
    pub auto_reload_all: bool,
    /// Whether the creation of a configuration restarts workloads.
    pub reload_on_create: bool,
    /// Whether the deletion of a configuration restarts workloads.
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
