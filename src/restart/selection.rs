//! The configurations that a workload reacts to, according to the annotations of each profile.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use regex_lite::Regex;

use rollplan_core::reference::{ConfigurationKind, Reference, Usage};
use rollplan_core::snapshot::StringMap;

use super::compare::Reading;
use super::configuration::Configuration;
use super::options::{Options, Profile, ReloaderOptions, RestartOn};
use super::workload::{Workload, WorkloadKind};

/// Whether a workload is restarted: "enabled" or "disabled".
pub const ENABLED: &str = "rollplan.dev/restart";
/// Which uses need a restart: "env" or "all".
const RESTART_ON: &str = "rollplan.dev/restart-on";
/// Additional configurations, which the template does not use, for example "configmap/app, secret/db".
const ALSO: &str = "rollplan.dev/restart-also";
/// On a workload, configurations to ignore. On a configuration, "true" if all workloads ignore it.
pub const IGNORE: &str = "rollplan.dev/restart-ignore";
/// On configurations, the name of the change set: configurations that are changed together have the same value.
pub const CHANGE_SET: &str = "rollplan.dev/change-set";

const XING_ENABLED: &str = "com.xing.deployment-restart";

/// The maximum length of a pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1024;

/// A configuration that a workload reacts to, or that its pods need to start.
#[derive(Debug)]
pub(super) struct Tracked<'a> {
    pub(super) kind: ConfigurationKind,
    pub(super) name: &'a str,
    /// Whether the workload reacts to it.
    pub(super) counts: bool,
    pub(super) reading: Reading<'a>,
    /// The relevant uses, in the order of the template.
    pub(super) uses: Vec<&'a Reference>,
}

/// The configurations of a request, found by kind, namespace and name.
#[derive(Debug)]
pub(super) struct Index<'a> {
    by_name: HashMap<(ConfigurationKind, &'a str, &'a str), &'a Configuration>,
    by_namespace: HashMap<(ConfigurationKind, &'a str), Vec<&'a Configuration>>,
    patterns: RefCell<HashMap<String, Option<Regex>>>,
}

/// The configurations that a workload reacts to. `None` if it is not selected. Invalid annotations are added to `notes`.
pub(super) fn select<'a>(
    workload: &'a Workload,
    options: &Options,
    index: &Index<'a>,
    notes: &mut Vec<String>,
) -> Option<Vec<Tracked<'a>>> {
    match options.profile {
        Profile::Rollplan => ours(workload, options, index, notes),
        Profile::Xing => xing(workload),
        Profile::Reloader => reloader(workload, &options.reloader, index, notes),
    }
}

fn ours<'a>(
    workload: &'a Workload,
    options: &Options,
    index: &Index<'a>,
    notes: &mut Vec<String>,
) -> Option<Vec<Tracked<'a>>> {
    let annotations = &workload.annotations;
    let mut invalid = |key: &str, value: &str| {
        let hint = match key {
            ALSO | IGNORE => {
                ": it must list configurations of the same namespace, such as configmap/app, secret/db"
            }
            _ => "",
        };
        notes.push(format!(
            "annotation {key} has the invalid value {value:?}{hint}"
        ));
    };
    let is_enabled = match annotations.get(ENABLED).map(String::as_str) {
        Some("enabled" | "true") => true,
        Some("disabled" | "false") => false,
        None => options.all_workloads,
        Some(other) => {
            invalid(ENABLED, other);
            false
        }
    };
    if !is_enabled {
        return None;
    }
    let restart_on = match annotations.get(RESTART_ON).map(String::as_str) {
        Some("env") => RestartOn::Env,
        Some("all") => RestartOn::All,
        None => options.restart_on,
        Some(other) => {
            invalid(RESTART_ON, other);
            options.restart_on
        }
    };
    let ignored = listed(annotations, IGNORE, &mut invalid);
    let counts = |it: &&Reference| match it.usage {
        // Both are read whenever a pod starts, and a change of them changes nothing in a running pod.
        Usage::ImagePull | Usage::VolumeAccess => options.image_pull_secrets,
        Usage::Unmounted => false,
        usage => restart_on == RestartOn::All || usage.needs_restart(),
    };
    let mut tracked = group(workload.references.iter().filter(counts));
    for (kind, name) in listed(annotations, ALSO, &mut invalid) {
        let entry = tracked
            .entry((kind, name))
            .or_insert_with(|| Tracked::new(kind, name));
        entry.reading.is_whole = true;
        entry.reading.reads_binary = true;
    }
    tracked.retain(|id, tracked| {
        let configuration = index.get(tracked.kind, &workload.namespace, tracked.name);
        let annotations = configuration.map(|it| &it.annotations);
        let is_ignored =
            annotations.is_some_and(|it| it.get(IGNORE).is_some_and(|it| it == "true"));
        !is_ignored && !ignored.contains(id)
    });
    let is_needed = |it: &&Reference| match it.usage {
        Usage::ImagePull | Usage::VolumeAccess | Usage::Named => false,
        // The kubelet sets up no volume that is not mounted.
        Usage::Unmounted => it.container.is_some(),
        Usage::Env | Usage::EnvFrom | Usage::SubPath | Usage::Volume => true,
    };
    for needed in workload.references.iter().filter(is_needed) {
        let id = (needed.kind, needed.name.as_str());
        let entry = tracked.entry(id).or_insert_with(|| Tracked {
            counts: false,
            ..Tracked::new(needed.kind, &needed.name)
        });
        entry.reading.require(needed);
    }
    Some(tracked.into_values().collect())
}

/// Groups references by configuration.
fn group<'a>(
    references: impl Iterator<Item = &'a Reference>,
) -> BTreeMap<(ConfigurationKind, &'a str), Tracked<'a>> {
    let mut tracked = BTreeMap::new();
    for reference in references {
        let (kind, name) = (reference.kind, reference.name.as_str());
        let entry = tracked
            .entry((kind, name))
            .or_insert_with(|| Tracked::new(kind, name));
        entry.reading.add(reference);
        entry.uses.push(reference);
    }
    tracked
}

/// The configurations in an annotation such as "configmap/app, secret/db".
fn listed<'a>(
    annotations: &'a StringMap,
    key: &str,
    invalid: &mut impl FnMut(&str, &str),
) -> Vec<(ConfigurationKind, &'a str)> {
    let Some(text) = annotations.get(key) else {
        return Vec::new();
    };
    let items = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    let items = items.filter_map(|item| {
        let (kind, name) = item.split_once('/')?;
        if name.contains('/') {
            return None;
        }
        let kinds = ConfigurationKind::ALL.into_iter();
        let kind = kinds.into_iter().find(|it| it.key() == kind)?;
        Some((kind, name))
    });
    let items: Vec<_> = items.collect();
    if items.len() != text.split(',').filter(|it| !it.trim().is_empty()).count() {
        invalid(key, text);
    }
    items
}

/// The xing controller tracks `envFrom` of containers, and ConfigMaps in volumes.
fn xing(workload: &Workload) -> Option<Vec<Tracked<'_>>> {
    let kind = workload.workload_kind();
    let is_kind = matches!(kind, WorkloadKind::Deployment | WorkloadKind::StatefulSet);
    let value = workload.annotations.get(XING_ENABLED)?;
    if value != "enabled" || !is_kind {
        return None;
    }
    let counts = |it: &&Reference| {
        let is_container = it
            .container
            .as_ref()
            .is_some_and(|it| it.list == "containers");
        match (it.kind, it.usage) {
            (ConfigurationKind::SecretProviderClass, _) => false,
            (_, Usage::EnvFrom) => is_container,
            (ConfigurationKind::ConfigMap, Usage::Volume | Usage::SubPath | Usage::Unmounted) => {
                !it.projected
            }
            _ => false,
        }
    };
    let tracked = group(workload.references.iter().filter(counts)).into_values();
    let whole = tracked.map(|mut tracked| {
        tracked.reading = Reading {
            is_required: tracked.reading.is_required,
            ..Reading::whole()
        };
        tracked
    });
    Some(whole.collect())
}

/// Reloader's annotation keys for a kind of configuration: named, auto, exclude.
fn reloader_keys(kind: ConfigurationKind) -> [&'static str; 3] {
    match kind {
        ConfigurationKind::ConfigMap => [
            "configmap.reloader.stakater.com/reload",
            "configmap.reloader.stakater.com/auto",
            "configmaps.exclude.reloader.stakater.com/reload",
        ],
        ConfigurationKind::Secret => [
            "secret.reloader.stakater.com/reload",
            "secret.reloader.stakater.com/auto",
            "secrets.exclude.reloader.stakater.com/reload",
        ],
        ConfigurationKind::SecretProviderClass => [
            "secretproviderclass.reloader.stakater.com/reload",
            "secretproviderclass.reloader.stakater.com/auto",
            "secretproviderclasses.exclude.reloader.stakater.com/reload",
        ],
    }
}

const RELOADER_AUTO: &str = "reloader.stakater.com/auto";
const RELOADER_SEARCH: &str = "reloader.stakater.com/search";
const RELOADER_MATCH: &str = "reloader.stakater.com/match";
const RELOADER_IGNORE: &str = "reloader.stakater.com/ignore";

fn reloader<'a>(
    workload: &'a Workload,
    options: &ReloaderOptions,
    index: &Index<'a>,
    notes: &mut Vec<String>,
) -> Option<Vec<Tracked<'a>>> {
    let is_ignored = match workload.workload_kind() {
        WorkloadKind::Job => options.ignore_jobs,
        WorkloadKind::CronJob => options.ignore_cron_jobs,
        _ => false,
    };
    if is_ignored {
        return None;
    }
    let counts = |it: &&Reference| {
        let is_read = match it.usage {
            Usage::ImagePull | Usage::VolumeAccess => false,
            // Reloader counts a mount of no file.
            Usage::Unmounted => it.container.is_some(),
            _ => true,
        };
        is_read && !is_ephemeral(it)
    };
    let mut candidates = group(workload.references.iter().filter(counts));
    for kind in ConfigurationKind::ALL {
        for named in index.named(workload, kind, notes) {
            candidates
                .entry((kind, named))
                .or_insert_with(|| Tracked::new(kind, named));
        }
    }
    let tracked = candidates.into_values().filter(|it| {
        let ignores = match it.kind {
            ConfigurationKind::ConfigMap => options.ignore_config_maps,
            ConfigurationKind::Secret => options.ignore_secrets,
            ConfigurationKind::SecretProviderClass => false,
        };
        !ignores && reloads(workload, it, options, index, notes)
    });
    // For a missing configuration, only Reloader's flags matter, not whether pods start without it.
    let tracked = tracked.map(|mut tracked| {
        tracked.reading = Reading::whole();
        tracked
    });
    let tracked: Vec<_> = tracked.collect();
    (!tracked.is_empty()).then_some(tracked)
}

fn is_ephemeral(reference: &Reference) -> bool {
    let container = reference.container.as_ref();
    container.is_some_and(|it| it.list == "ephemeralContainers")
}

/// Whether Reloader restarts a workload for a configuration. The annotations are checked in this order: ignore, exclude,
/// named, search and match, auto.
fn reloads(
    workload: &Workload,
    tracked: &Tracked<'_>,
    options: &ReloaderOptions,
    index: &Index<'_>,
    notes: &mut Vec<String>,
) -> bool {
    let configuration = index.get(tracked.kind, &workload.namespace, tracked.name);
    let on_configuration = |key: &str| {
        let annotations = configuration.map(|it| &it.annotations);
        annotations.is_some_and(|it| it.get(key).is_some_and(|it| it == "true"))
    };
    if on_configuration(RELOADER_IGNORE) {
        return false;
    }
    let [named, typed_auto, exclude] = reloader_keys(tracked.kind);
    let excluded = workload.annotations.get(exclude);
    if excluded.is_some_and(|it| it.split(',').any(|it| it.trim() == tracked.name)) {
        return false;
    }
    let keys = [named, typed_auto, RELOADER_AUTO, RELOADER_SEARCH];
    let annotations = reloader_annotations(workload, keys);
    let get = |key: &str| annotations.get(key).map(String::as_str);
    if index.matches(get(named).unwrap_or_default(), tracked.name, notes) {
        return true;
    }
    let is_referenced = !tracked.uses.is_empty();
    if !is_referenced {
        return false;
    }
    if get(RELOADER_SEARCH) == Some("true") && on_configuration(RELOADER_MATCH) {
        return true;
    }
    let (auto, typed) = (get(RELOADER_AUTO), get(typed_auto));
    let is_unset = auto.is_none_or(str::is_empty) && typed.is_none_or(str::is_empty);
    is_true(auto) || is_true(typed) || is_unset && options.auto_reload_all
}

/// The annotations that Reloader reads: those of the template if the workload has none of these keys.
fn reloader_annotations<'a>(workload: &'a Workload, keys: [&str; 4]) -> &'a StringMap {
    let is_set = keys
        .iter()
        .any(|key| workload.annotations.contains_key(*key));
    if is_set {
        &workload.annotations
    } else {
        &workload.template_annotations
    }
}

/// Go: `strconv.ParseBool`.
fn is_true(text: Option<&str>) -> bool {
    matches!(text, Some("1" | "t" | "T" | "true" | "TRUE" | "True"))
}

// === impl Tracked ===

impl<'a> Tracked<'a> {
    fn new(kind: ConfigurationKind, name: &'a str) -> Self {
        Self {
            kind,
            name,
            counts: true,
            reading: Reading::default(),
            uses: Vec::new(),
        }
    }
}

// === impl Index ===

impl<'a> Index<'a> {
    pub(super) fn new(configurations: &'a [Configuration]) -> Self {
        let mut by_name = HashMap::with_capacity(configurations.len());
        let mut by_namespace: HashMap<_, Vec<_>> = HashMap::new();
        for it in configurations {
            by_name.insert((it.kind, it.namespace.as_str(), it.name.as_str()), it);
            let namespace = (it.kind, it.namespace.as_str());
            by_namespace.entry(namespace).or_default().push(it);
        }
        Self {
            by_name,
            by_namespace,
            patterns: RefCell::default(),
        }
    }

    pub(super) fn get(
        &self,
        kind: ConfigurationKind,
        namespace: &str,
        name: &str,
    ) -> Option<&'a Configuration> {
        self.by_name.get(&(kind, namespace, name)).copied()
    }

    /// The configurations that a workload names in Reloader's annotation.
    fn named(
        &self,
        workload: &'a Workload,
        kind: ConfigurationKind,
        notes: &mut Vec<String>,
    ) -> Vec<&'a str> {
        let [named, typed_auto, _] = reloader_keys(kind);
        let keys = [named, typed_auto, RELOADER_AUTO, RELOADER_SEARCH];
        let Some(patterns) = reloader_annotations(workload, keys).get(named) else {
            return Vec::new();
        };
        let there = self.by_namespace.get(&(kind, workload.namespace.as_str()));
        let there = there.into_iter().flatten().map(|it| it.name.as_str());
        let mut names: Vec<&str> = there
            .filter(|name| self.matches(patterns, name, notes))
            .collect();
        // Patterns match existing configurations only. Literal names may refer to configurations that do not exist yet.
        let exact = patterns.split(',').map(str::trim);
        names.extend(exact.filter(|it| !it.is_empty() && !is_pattern(it)));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether one of the comma-separated patterns matches the whole name.
    fn matches(&self, patterns: &str, name: &str, notes: &mut Vec<String>) -> bool {
        patterns.split(',').map(str::trim).any(|pattern| {
            pattern == name || is_pattern(pattern) && self.pattern(pattern, name, notes)
        })
    }

    fn pattern(&self, pattern: &str, name: &str, notes: &mut Vec<String>) -> bool {
        let mut patterns = self.patterns.borrow_mut();
        if !patterns.contains_key(pattern) {
            let compiled = (pattern.len() <= PATTERN_BYTES_MAX)
                .then(|| Regex::new(&format!("^{pattern}$")).ok())
                .flatten();
            patterns.insert(pattern.to_owned(), compiled);
        }
        match patterns.get(pattern) {
            Some(Some(compiled)) => compiled.is_match(name),
            _ => {
                let note = format!("{pattern:?} is not a valid regular expression");
                if !notes.contains(&note) {
                    notes.push(note);
                }
                false
            }
        }
    }
}

/// Whether a listed name is a pattern. As in Reloader, a dot matches any character.
fn is_pattern(text: &str) -> bool {
    let is_literal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.bytes().all(is_literal)
}
