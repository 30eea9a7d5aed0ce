//! Several Deployments of a cluster, read together: from five in a namespace on, one list of each kind instead of reads by
//! name. One kubectl runs at a time, and one namespace is in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use prost_types::Timestamp;

use super::{Budget, Cluster, Needs, add_events};
use crate::cli::error::Error;
use crate::cli::input::{self, Answers, Complete, Objects, Request, Source, Texts, Wanted};
use crate::cli::kubectl::{Cause, Kind};
use crate::cli::now;
use crate::cli::options::ClusterArgs;
use crate::cli::target::Target;

/// From so many Deployments in a namespace on, lists are cheaper than reads by name: each of these takes three calls.
const LIST_FROM: usize = 5;

/// Which Deployments a command is about.
#[derive(Clone, Debug)]
pub(in crate::cli) enum Scope {
    /// These.
    Named(Vec<Target>),
    /// Those that a list has when the command starts.
    Listed {
        resource: &'static str,
        selector: Option<String>,
        /// In all namespaces.
        everywhere: bool,
    },
}

/// Several Deployments that are read again and again.
#[derive(Debug)]
pub(in crate::cli) struct Fleet<'a> {
    args: &'a ClusterArgs,
    /// Which ones to list, until that is done.
    listed: Option<Scope>,
    targets: Vec<Target>,
    /// One for each namespace, and one for all.
    clusters: BTreeMap<Where, Cluster>,
    everywhere: bool,
    /// Whether the user may not list Deployments, but perhaps get them.
    is_list_forbidden: bool,
}

/// Where a Deployment is read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Where {
    Everywhere,
    Namespace(Option<String>),
}

/// Takes what was read of one Deployment, with what adds the events about it.
pub(in crate::cli) type Each<'e> =
    &'e mut dyn FnMut(usize, Result<Request, Error>, AddEvents<'_>) -> Result<(), Error>;

pub(in crate::cli) type AddEvents<'e> = &'e mut dyn FnMut(&mut Request) -> Result<bool, Error>;

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
        }
    }

    /// The Deployments. The first call lists them, if they are not named.
    pub(in crate::cli) fn targets(&mut self, limit: Option<Duration>) -> Result<&[Target], Error> {
        if let Some(Scope::Listed {
            resource,
            selector,
            everywhere,
        }) = self.listed.clone()
        {
            let here = self.place(None);
            let list = self.cluster(&here).list(
                Kind::Owners(resource),
                selector.as_deref(),
                Budget::new(limit),
            )?;
            let list = [list];
            let texts = Texts::read(&list)?;
            let named = input::targets(&Objects::find(&texts)?);
            if named.is_empty() {
                let what = match &selector {
                    Some(selector) => format!("no Deployment matches the selector {selector}"),
                    None => "no Deployment".to_owned(),
                };
                let place = match (everywhere, &self.args.namespace) {
                    (true, _) => " in any namespace".to_owned(),
                    (false, Some(namespace)) => format!(" in namespace {namespace}"),
                    (false, None) => " in the namespace that kubectl uses".to_owned(),
                };
                return Err(Error::Absent(format!("{what}{place}")));
            }
            self.targets = named;
            self.listed = None;
        }
        Ok(&self.targets)
    }

    /// Reads some of the Deployments.
    pub(in crate::cli) fn read(
        &mut self,
        wanted: &[usize],
        now: Option<Timestamp>,
        limit: &dyn Fn() -> Option<Duration>,
        each: Each<'_>,
    ) -> Result<(), Error> {
        let mut groups: BTreeMap<(Where, &'static str), Vec<usize>> = BTreeMap::new();
        for &index in wanted {
            let target = &self.targets[index];
            let place = self.place(target.namespace.clone());
            let key = (place, target.resource);
            groups.entry(key).or_default().push(index);
        }
        for ((place, resource), indices) in groups {
            if indices.len() >= LIST_FROM && !self.is_list_forbidden {
                match self.read_lists(&place, resource, &indices, now, limit, each) {
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
                    Some(_) => Where::Namespace(target.namespace.clone()),
                    None => self.place(None),
                };
                let cluster = self.cluster(&place);
                let read = cluster.read(&target, Needs::Rollout, limit(), now, Answers::default());
                each(index, read, &mut |request| {
                    cluster.add_events(request, limit())
                })?;
            }
        }
        Ok(())
    }

    /// Reads one list of each kind.
    fn read_lists(
        &mut self,
        place: &Where,
        resource: &'static str,
        indices: &[usize],
        now: Option<Timestamp>,
        limit: &dyn Fn() -> Option<Duration>,
        each: Each<'_>,
    ) -> Result<(), Error> {
        let targets: Vec<Target> = indices.iter().map(|&it| self.targets[it].clone()).collect();
        let default = self.args.namespace.clone();
        let cluster = self.cluster(place);
        let budget = Budget::new(limit());
        let mut sources = vec![
            cluster.list(Kind::Owners(resource), None, budget)?,
            cluster.list(Kind::ReplicaSets, None, budget)?,
        ];
        let pods = cluster.pods(None, budget)?;
        let complete = Complete {
            replica_sets: Some(true),
            pods: Some(pods.is_some()),
        };
        sources.extend(pods);
        let texts = Texts::read(&sources)?;
        let objects = Objects::find(&texts)?;
        let now = now.unwrap_or_else(now::read);
        // Once for all that need them.
        let mut events: Option<Option<Source>> = None;
        for (&index, target) in indices.iter().zip(targets) {
            let namespace = target.namespace.as_deref().or(default.as_deref());
            let wanted = Wanted::in_cluster(&target.name, namespace);
            let request = input::request(
                &objects,
                Some(&wanted),
                complete,
                now,
                Answers::default(),
                &mut |note| cluster.note(note),
            );
            each(index, request, &mut |request| {
                if events.is_none() {
                    events = Some(cluster.events(limit())?);
                }
                match &events {
                    Some(Some(events)) => add_events(request, events),
                    _ => Ok(false),
                }
            })?;
        }
        Ok(())
    }

    /// The last lines that a container of a Deployment's pod has written.
    pub(in crate::cli) fn log(
        &mut self,
        index: usize,
        pod: &str,
        container: &str,
        previous: bool,
    ) -> Result<String, Error> {
        let place = Where::Namespace(self.targets[index].namespace.clone());
        self.cluster(&place).log(pod, container, previous)
    }

    fn place(&self, namespace: Option<String>) -> Where {
        match self.everywhere {
            true => Where::Everywhere,
            false => Where::Namespace(namespace),
        }
    }

    fn cluster(&mut self, place: &Where) -> &mut Cluster {
        let args = self.args;
        self.clusters.entry(place.clone()).or_insert_with(|| {
            let mut args = args.clone();
            match place {
                Where::Everywhere => args.all_namespaces = true,
                Where::Namespace(Some(namespace)) => args.namespace = Some(namespace.clone()),
                Where::Namespace(None) => {}
            }
            Cluster::new(&args)
        })
    }
}
