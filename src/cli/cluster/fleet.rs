//! Several objects of a cluster, read together. For five or more objects of a kind in a namespace, lists replace reads
//! by name. Only one kubectl runs at a time, and only one namespace is kept in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use prost_types::Timestamp;
use rollplan_core::kind::Dependents;
use rollplan_health::kinds::JobEnd;

use super::discovery::Discovery;
use super::{Budget, Cluster, Needs, add_events};
use crate::cli::error::Error;
use crate::cli::input::{self, Answers, Complete, Objects, Request, Source, Texts, Wanted};
use crate::cli::kubectl::{Cause, ListKind};
use crate::cli::now;
use crate::cli::options::ClusterArgs;
use crate::cli::resource::Resource;
use crate::cli::target::Target;

/// The number of objects of a kind in a namespace from which lists are cheaper than reads by name, which take up to
/// three calls each.
const LIST_FROM: usize = 5;

/// The objects that a command is about.
#[derive(Clone, Debug)]
pub(in crate::cli) enum Scope {
    /// The given objects.
    Named(Vec<Target>),
    /// The objects that exist when the command starts.
    Listed {
        resources: Vec<Resource>,
        selector: Option<String>,
        /// Whether to list all namespaces.
        everywhere: bool,
    },
}

/// Several objects that are polled together.
#[derive(Debug)]
pub(in crate::cli) struct Fleet<'a> {
    args: &'a ClusterArgs,
    /// The objects to list. `None` once they are listed.
    listed: Option<Scope>,
    targets: Vec<Target>,
    /// A reader for each namespace, or one for all namespaces.
    clusters: BTreeMap<Namespaces, Cluster>,
    everywhere: bool,
    /// Whether the user may not list the objects. The user may still be allowed to get them.
    is_list_forbidden: bool,
    needs: Needs,
    /// Whether requests keep their whole objects.
    keeps_objects: bool,
    discovery: Discovery,
}

/// The namespaces that a read covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Namespaces {
    Everywhere,
    Namespace(Option<String>),
}

/// Handles the result for one object. Its last argument adds the events about the object to the request.
pub(in crate::cli) type Each<'e> =
    &'e mut dyn FnMut(usize, Result<Request, Error>, AddEvents<'_>) -> Result<(), Error>;

/// Adds the events that these field selectors match to a request. Returns whether there are any.
pub(in crate::cli) type AddEvents<'e> =
    &'e mut dyn FnMut(&mut Request, &[String]) -> Result<bool, Error>;

// === impl Fleet ===

impl<'a> Fleet<'a> {
    pub(in crate::cli) fn new(args: &'a ClusterArgs, scope: Scope) -> Self {
        let everywhere = matches!(scope, Scope::Listed { everywhere, .. } if everywhere);
        let (targets, listed) = match scope {
            Scope::Named(targets) => (targets, None),
            listed @ Scope::Listed { .. } => (Vec::new(), Some(listed)),
        };
        Self {
            args,
            listed,
            targets,
            clusters: BTreeMap::new(),
            everywhere,
            is_list_forbidden: false,
            needs: Needs::Rollout,
            keeps_objects: false,
            discovery: Discovery::default(),
        }
    }

    /// Sets whether requests keep their whole objects.
    pub(in crate::cli) fn keep_objects(&mut self, keeps_objects: bool) {
        self.keeps_objects = keeps_objects;
    }

    /// Sets whether to read also the objects that only a tree shows. This applies to reads by name.
    pub(in crate::cli) fn read_trees(&mut self, has_trees: bool) {
        self.needs = if has_trees {
            Needs::Tree
        } else {
            Needs::Rollout
        };
    }

    /// The objects. The first call lists them, unless they are named.
    pub(in crate::cli) fn targets(&mut self, limit: Option<Duration>) -> Result<&[Target], Error> {
        if let Some(Scope::Listed {
            resources,
            selector,
            everywhere,
        }) = self.listed.clone()
        {
            let here = self.place(None);
            let budget = Budget::new(limit);
            let mut named = Vec::new();
            for resource in &resources {
                let kind = ListKind::Owners(resource);
                let (cluster, _) = self.cluster(&here);
                let list = [cluster.list(kind, selector.as_deref(), budget)?];
                let texts = Texts::read(&list)?;
                named.extend(input::listed(&Objects::find(&texts)?)?);
            }
            if named.is_empty() {
                return Err(self.none(&resources, selector.as_deref(), everywhere));
            }
            self.targets = named;
            self.listed = None;
        }
        Ok(&self.targets)
    }

    fn none(&self, resources: &[Resource], selector: Option<&str>, everywhere: bool) -> Error {
        let kinds: Vec<String> = resources.iter().map(Resource::to_string).collect();
        let kinds = kinds.join(" or ");
        let what = match selector {
            Some(selector) => format!("no {kinds} found with labels matching {selector}"),
            None => format!("no {kinds} found"),
        };
        let place = match (everywhere, &self.args.namespace) {
            (true, _) => " in any namespace".to_owned(),
            (false, Some(namespace)) => format!(" in namespace {namespace}"),
            (false, None) => " in the namespace that kubectl uses".to_owned(),
        };
        Error::Absent(format!("{what}{place}"))
    }

    /// Reads the objects with the given indices.
    pub(in crate::cli) fn read(
        &mut self,
        wanted: &[usize],
        now: Option<Timestamp>,
        limit: &dyn Fn() -> Option<Duration>,
        each: Each<'_>,
    ) -> Result<(), Error> {
        let mut groups: BTreeMap<(Namespaces, Resource), Vec<usize>> = BTreeMap::new();
        for &index in wanted {
            let target = &self.targets[index];
            let place = self.place(target.namespace.clone());
            let key = (place, target.resource.clone());
            groups.entry(key).or_default().push(index);
        }
        for ((place, resource), indices) in groups {
            if indices.len() >= LIST_FROM && !self.is_list_forbidden {
                match self.read_lists(&place, &resource, &indices, now, limit, each) {
                    Err(Error::Kubectl(failure))
                        if matches!(failure.cause(), Cause::Forbidden(_)) =>
                    {
                        self.is_list_forbidden = true;
                    }
                    read => {
                        read?;
                        continue;
                    }
                }
            }
            for index in indices {
                let target = self.targets[index].clone();
                let place = match &target.namespace {
                    Some(_) => Namespaces::Namespace(target.namespace.clone()),
                    None => self.place(None),
                };
                let needs = self.needs;
                let (cluster, discovery) = self.cluster(&place);
                let mut read = cluster.read(&target, needs, limit(), now, Answers::default());
                if let Ok(request) = &mut read {
                    discovery.complete(cluster, request, limit());
                }
                each(index, read, &mut |request, selectors| {
                    cluster.add_events(request, selectors, limit())
                })?;
            }
        }
        Ok(())
    }

    /// Reads the objects and their dependents with one list per kind.
    fn read_lists(
        &mut self,
        place: &Namespaces,
        resource: &Resource,
        indices: &[usize],
        now: Option<Timestamp>,
        limit: &dyn Fn() -> Option<Duration>,
        each: Each<'_>,
    ) -> Result<(), Error> {
        let targets: Vec<Target> = indices.iter().map(|&it| self.targets[it].clone()).collect();
        let default = self.args.namespace.clone();
        let (cluster, discovery) = self.cluster(place);
        let budget = Budget::new(limit());
        let owners = [cluster.list(ListKind::Owners(resource), None, budget)?];
        let mut sources = Vec::new();
        let texts = Texts::read(&owners)?;
        let mut objects = Objects::find(&texts)?;
        let wanted = targets.iter().map(|target| {
            let namespace = target.namespace.as_deref().or(default.as_deref());
            Wanted::in_cluster(target, namespace, &objects)
        });
        let wanted: Vec<Wanted> = wanted.collect();
        let dependents = objects.dependents();
        cluster.read_between(dependents, None, budget, &mut sources)?;
        let has_pods = !matches!(dependents, Dependents::JobsAndPods | Dependents::None);
        let pods = if has_pods {
            cluster.pods(None, budget)?
        } else {
            None
        };
        let complete = Complete {
            replica_sets: Some(true),
            pods: Some(pods.is_some() || !has_pods),
        };
        sources.extend(pods);
        let others = Texts::read(&sources)?;
        objects.add(&others)?;
        let now = now.unwrap_or_else(now::read);
        // The events of each selector are read at most once, and shared by all objects.
        let mut events: BTreeMap<String, Option<Source>> = BTreeMap::new();
        for (&index, wanted) in indices.iter().zip(&wanted) {
            let mut request = input::request(
                &objects,
                Some(wanted),
                complete,
                now,
                Answers::default(),
                &mut |note| cluster.note(note),
            );
            if let Ok(request) = &mut request {
                discovery.complete(cluster, request, limit());
                if cluster.keeps_objects {
                    request.object = objects.whole(request.index);
                }
            }
            each(index, request, &mut |request, selectors| {
                let mut has_events = false;
                for fields in selectors {
                    if !events.contains_key(fields) {
                        events.insert(fields.clone(), cluster.events(fields, limit())?);
                    }
                    if let Some(Some(events)) = events.get(fields) {
                        has_events |= add_events(request, events)?;
                    }
                }
                Ok(has_events)
            })?;
        }
        Ok(())
    }

    /// The result of a deleted Job with this UID. `None` if no event reports it.
    pub(in crate::cli) fn job_end(
        &mut self,
        index: usize,
        uid: &str,
        limit: Option<Duration>,
    ) -> Result<Option<JobEnd>, Error> {
        let place = Namespaces::Namespace(self.targets[index].namespace.clone());
        self.cluster(&place).0.job_end(uid, limit)
    }

    /// The last log lines of a container.
    pub(in crate::cli) fn log(
        &mut self,
        index: usize,
        pod: &str,
        container: &str,
        previous: bool,
    ) -> Result<String, Error> {
        let place = Namespaces::Namespace(self.targets[index].namespace.clone());
        self.cluster(&place).0.log(pod, container, previous)
    }

    fn place(&self, namespace: Option<String>) -> Namespaces {
        if self.everywhere {
            Namespaces::Everywhere
        } else {
            Namespaces::Namespace(namespace)
        }
    }

    /// The reader for these namespaces, and what it has found out about kinds.
    fn cluster(&mut self, place: &Namespaces) -> (&mut Cluster, &mut Discovery) {
        let (args, keeps_objects) = (self.args, self.keeps_objects);
        let cluster = self.clusters.entry(place.clone()).or_insert_with(|| {
            let mut args = args.clone();
            match place {
                Namespaces::Everywhere => args.all_namespaces = true,
                Namespaces::Namespace(Some(namespace)) => args.namespace = Some(namespace.clone()),
                Namespaces::Namespace(None) => {}
            }
            Cluster {
                keeps_objects,
                ..Cluster::new(&args)
            }
        });
        (cluster, &mut self.discovery)
    }
}
