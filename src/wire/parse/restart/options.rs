//! Parses the options of a request for restarts.

use rollplan_core::time::Time;
use rollplan_restart::{Options, Profile, RestartOn, Strategy};

use super::RestartOptions;
use crate::error::Reason;
use crate::parse::Parser;
use crate::parse::name::{is_api_version, is_kind};
use crate::parse::path::Path;
use crate::proto;

impl Parser<'_> {
    pub(super) fn restart_options(
        &mut self,
        now: Time,
        options: proto::RestartOptions,
    ) -> RestartOptions {
        let proto::RestartOptions {
            profile,
            restart_on,
            quiet,
            max_wait,
            min_interval,
            max_hold,
            skew,
            disruption_budget_wait,
            frozen_namespaces,
            checksum_key,
            kinds,
            reloader,
            max_concurrent,
            all_workloads,
            image_pull_secrets,
            breaker,
            events_as_calls,
            include_unchanged,
        } = options;
        let path = Path::Root("options");
        let profile = match proto::RestartProfile::try_from(profile) {
            Ok(proto::RestartProfile::Unspecified | proto::RestartProfile::Rollplan) => {
                Profile::Rollplan
            }
            Ok(proto::RestartProfile::Xing) => Profile::Xing,
            Ok(proto::RestartProfile::Reloader) => Profile::Reloader,
            Err(_) => self.unknown("profile", profile, &path),
        };
        let restart_on = match proto::RestartOn::try_from(restart_on) {
            Ok(proto::RestartOn::Unspecified | proto::RestartOn::All) => RestartOn::All,
            Ok(proto::RestartOn::Env) => RestartOn::Env,
            Err(_) => self.unknown("restart_on", restart_on, &path),
        };
        let mut plan = Options::new(profile);
        plan.restart_on = restart_on;
        for (field, given, option) in [
            ("quiet", quiet, &mut plan.quiet),
            ("max_wait", max_wait, &mut plan.max_wait),
            ("min_interval", min_interval, &mut plan.min_interval),
            ("max_hold", max_hold, &mut plan.max_hold),
            ("skew", skew, &mut plan.skew),
        ] {
            if let Some(given) = given {
                *option = self.span(given, &path.field(field));
            }
        }
        let wait_path = path.field("disruption_budget_wait");
        plan.disruption_budget_wait = disruption_budget_wait.map(|it| self.span(it, &wait_path));
        plan.frozen_namespaces = frozen_namespaces;
        let max_concurrent = self.count(max_concurrent, &path.field("max_concurrent"));
        plan.max_concurrent = usize::try_from(max_concurrent).unwrap_or_default();
        plan.all_workloads = all_workloads;
        plan.image_pull_secrets = image_pull_secrets;
        plan.breaker = breaker.unwrap_or(true);
        plan.uses = include_unchanged;
        self.reloader_options(
            reloader.unwrap_or_default(),
            &mut plan,
            &path.field("reloader"),
        );
        let kinds_path = path.field("kinds");
        for (index, kind) in kinds.iter().enumerate() {
            self.workload_kind(kind, &kinds_path.index(index));
        }
        RestartOptions {
            now,
            plan,
            kinds,
            events_as_calls,
            include_unchanged,
            checksum_key,
        }
    }

    fn reloader_options(
        &mut self,
        options: proto::ReloaderOptions,
        plan: &mut Options,
        path: &Path<'_>,
    ) {
        let proto::ReloaderOptions {
            strategy,
            auto_reload_all,
            reload_on_create,
            reload_on_delete,
            ignore_config_maps,
            ignore_secrets,
            ignore_jobs,
            ignore_cron_jobs,
        } = options;
        let reloader = &mut plan.reloader;
        reloader.strategy = match proto::ReloadStrategy::try_from(strategy) {
            Ok(proto::ReloadStrategy::Unspecified | proto::ReloadStrategy::EnvVars) => {
                Strategy::EnvVars
            }
            Ok(proto::ReloadStrategy::Annotations) => Strategy::Annotations,
            Err(_) => self.unknown("strategy", strategy, path),
        };
        reloader.auto_reload_all = auto_reload_all;
        reloader.reload_on_create = reload_on_create;
        reloader.reload_on_delete = reload_on_delete;
        reloader.ignore_config_maps = ignore_config_maps;
        reloader.ignore_secrets = ignore_secrets;
        reloader.ignore_jobs = ignore_jobs;
        reloader.ignore_cron_jobs = ignore_cron_jobs;
    }

    pub(super) fn unknown<T: Default>(
        &mut self,
        field: &'static str,
        value: i32,
        path: &Path<'_>,
    ) -> T {
        let description = format_args!("unknown value {value}");
        self.violation(&path.field(field), Reason::UnknownEnumValue, description);
        T::default()
    }

    fn workload_kind(&mut self, kind: &proto::WorkloadKind, path: &Path<'_>) {
        let proto::WorkloadKind {
            api_version,
            kind,
            resource,
            template_path,
        } = kind;
        self.kind_of_workload(api_version, kind, path);
        self.resource(resource, &path.field("resource"));
        self.template_path(template_path, &path.field("template_path"));
    }

    fn kind_of_workload(&mut self, api_version: &str, kind: &str, path: &Path<'_>) {
        if !is_api_version(api_version) {
            let description = format_args!("{api_version:?} is not a group and a version");
            self.violation(&path.field("api_version"), Reason::InvalidName, description);
        }
        if !is_kind(kind) {
            let description =
                format_args!("{kind:?} is not a kind: at most 63 of A-Z, a-z and 0-9");
            self.violation(&path.field("kind"), Reason::InvalidName, description);
        }
    }

    fn resource(&mut self, resource: &str, path: &Path<'_>) {
        let is_valid =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if resource.len() > 63 || !resource.bytes().all(is_valid) {
            let description = "must be the plural name of a resource, for example \"deployments\"";
            self.violation(path, Reason::InvalidName, description);
        }
    }

    fn template_path(&mut self, text: &str, path: &Path<'_>) {
        let is_field =
            |field: &str| !field.is_empty() && field.bytes().all(|it| it.is_ascii_alphanumeric());
        if !text.is_empty() && (text.len() > 253 || !text.split('.').all(is_field)) {
            let description = "must be names of fields with dots, for example \"spec.template\"";
            self.violation(path, Reason::InvalidName, description);
        }
    }
}
