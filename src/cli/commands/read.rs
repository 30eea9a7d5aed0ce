//! Reads the objects that a command is about.

use std::path::Path;

use prost_types::Timestamp;

use crate::cli::cluster::{Cluster, Needs, Scope};
use crate::cli::error::Error;
use crate::cli::goal::Goal;
use crate::cli::input::{self, Complete, Objects, Request, Sources, Texts, Wanted};
use crate::cli::options::{ClusterArgs, CompleteArgs, InputArgs, ScopeArgs, SourceArgs, WhichArgs};
use crate::cli::resource::Resource;
use crate::cli::target::{self, Target};
use crate::cli::{now, stderr};

/// Reads one Deployment, or another object with revisions, and its dependents, from files or from the cluster.
pub(super) fn read(
    args: &InputArgs,
    needs: Needs,
    answers: Option<&Path>,
) -> Result<Request, Error> {
    let InputArgs {
        source: SourceArgs { target, files },
        search,
        cluster,
        deployment,
        now,
        complete,
    } = args;
    let answers = answers.map(input::answers).transpose()?;
    let answers = answers.unwrap_or_default();
    let named = match needs {
        Needs::Revisions => target::parse_with_revisions(target),
        _ => target::parse_deployment(target),
    };
    let named = named.map_err(Error::Usage)?;
    let wanted = match named {
        Some(target) if files.is_empty() => {
            complete.refuse().map_err(Error::Usage)?;
            return Cluster::new(cluster).read(&target, needs, None, *now, answers);
        }
        Some(target) => {
            refuse_cluster_of_named(cluster)?;
            Some(Wanted::in_files(target, cluster.namespace.as_deref()))
        }
        None => {
            refuse_cluster(cluster, "-f")?;
            deployment.as_deref().map(Wanted::parse).transpose()?
        }
    };
    let sources = input::sources(files, search.recursive)?;
    let texts = texts(&sources)?;
    let objects = objects(&texts)?;
    let (wanted, complete) = (wanted.as_ref(), self::complete(complete));
    let now = now.unwrap_or_else(now::read);
    let mut note = |note: &dyn std::fmt::Display| stderr::eprint_note(note);
    match needs {
        Needs::Revisions => {
            input::request_with_configurations(&objects, wanted, complete, now, &mut note)
        }
        _ => input::request(&objects, wanted, complete, now, answers, &mut note),
    }
}

/// Reads objects and their dependents from files: one Deployment, the named objects, or every object that can be waited
/// for.
pub(super) fn all(
    args: &ScopeArgs,
    deployment: Option<&str>,
    now: Option<Timestamp>,
    complete: &CompleteArgs,
) -> Result<Vec<Request>, Error> {
    let ScopeArgs { which, cluster } = args;
    let named = target::parse(&which.names).map_err(Error::Usage)?;
    if named.is_empty() {
        refuse_cluster(cluster, "-f")?
    } else {
        refuse_cluster_of_named(cluster)?
    }
    let sources = input::sources(&which.files, which.search.recursive)?;
    let texts = texts(&sources)?;
    let namespace = cluster.namespace.as_deref();
    let wanted = named.into_iter().map(|it| Wanted::in_files(it, namespace));
    let wanted: Vec<Wanted> = match deployment {
        Some(deployment) => vec![Wanted::parse(deployment)?],
        None => wanted.collect(),
    };
    let objects = objects(&texts)?;
    let now = now.unwrap_or_else(now::read);
    let complete = self::complete(complete);
    let mut note = |note: &dyn std::fmt::Display| stderr::eprint_note(note);
    if wanted.is_empty() {
        input::requests(&objects, complete, now, &mut note)
    } else {
        input::named(&objects, &wanted, complete, now, &mut note)
    }
}

/// The objects of a cluster that the arguments select.
pub(super) fn scope(args: &ScopeArgs, goal: &Goal) -> Result<Scope, Error> {
    let ScopeArgs { which, cluster } = args;
    let WhichArgs {
        names,
        selector,
        all,
        all_namespaces,
        files: _,
        search: _,
    } = which;
    let usage = |text: &str| Err(Error::Usage(text.to_owned()));
    if *all_namespaces && cluster.namespace.is_some() {
        return usage("--all-namespaces and --namespace cannot be used together");
    }
    if selector.is_none() && !all && !all_namespaces {
        if names.is_empty() {
            return usage(
                "no objects selected: pass names, --selector, --all, --all-namespaces or --filename <FILE>",
            );
        }
        let mut targets = target::parse(names).map_err(Error::Usage)?;
        remove_repeated(&mut targets);
        refuse_goal(goal, targets.iter().map(|target| &target.resource))?;
        return Ok(Scope::Named(targets));
    }
    // With a selector, the only argument is a list of kinds.
    let kinds = match names.as_slice() {
        [] => Some(vec![Resource::deployments()]),
        [kinds] => target::kinds(kinds),
        _ => None,
    };
    let Some(resources) = kinds else {
        return usage(
            "names cannot be combined with --selector, --all or --all-namespaces; pass kinds, for example deploy,sts or \
             certificates.cert-manager.io",
        );
    };
    if selector.as_deref() == Some("") {
        return usage("--selector is empty: pass --all for all objects of the namespace");
    }
    refuse_goal(goal, resources.iter())?;
    Ok(Scope::Listed {
        resources,
        selector: selector.clone(),
        everywhere: *all_namespaces,
    })
}

/// Refuses kinds without updates or replicas if the goal needs these.
fn refuse_goal<'r>(
    goal: &Goal,
    mut resources: impl Iterator<Item = &'r Resource>,
) -> Result<(), Error> {
    match resources.find(|resource| resource.has_goal(goal) == Some(false)) {
        None => Ok(()),
        Some(resource) => Err(Error::Usage(goal.refusal(resource))),
    }
}

/// Reads texts of files, and prints notes about them.
pub(super) fn texts(sources: &Sources) -> Result<Texts<'_>, Error> {
    Texts::of_files(sources, &mut |note| stderr::eprint_note(note))
}

/// Finds the objects in texts of files, and prints notes about what is skipped.
pub(super) fn objects<'t>(texts: &'t Texts<'_>) -> Result<Objects<'t>, Error> {
    Objects::in_files(texts, &mut |note| stderr::eprint_note(note))
}

/// The objects in files, to be read from the cluster, and whether a part of the files could not be read. Objects that the
/// goal does not apply to are skipped.
pub(super) fn applied(args: &ScopeArgs, goal: &Goal) -> Result<(Vec<Target>, bool), Error> {
    let WhichArgs { files, search, .. } = &args.which;
    let sources = input::sources(files, search.recursive)?;
    let texts = texts(&sources)?;
    let objects = objects(&texts)?;
    let mut targets = input::targets(&objects)?;
    let given = args.cluster.namespace.as_ref();
    for target in &mut targets {
        match (&target.namespace, given) {
            (Some(own), Some(given)) if own != given => {
                let text = format!(
                    "{} {} is in namespace {own}, but --namespace is {given}",
                    target.resource, target.name
                );
                return Err(Error::Usage(text));
            }
            (None, given) => target.namespace = given.cloned(),
            _ => {}
        }
    }
    remove_repeated(&mut targets);
    targets.retain(|target| target.resource.has_goal(goal) == Some(true));
    if targets.is_empty() {
        Err(Error::input(
            "",
            "the input contains no objects to wait for",
        ))
    } else {
        Ok((targets, objects.is_partial))
    }
}

fn remove_repeated(targets: &mut Vec<Target>) {
    let mut seen = Vec::new();
    targets.retain(|target| {
        let is_new = !seen.contains(target);
        if is_new {
            seen.push(target.clone());
        }
        is_new
    });
}

fn complete(args: &CompleteArgs) -> Complete {
    Complete {
        replica_sets: args.replica_sets_complete,
        pods: args.pods_complete,
    }
}

/// Refuses the options of a cluster for objects in files that are named, apart from the namespace of the names.
pub(super) fn refuse_cluster_of_named(cluster: &ClusterArgs) -> Result<(), Error> {
    let cluster = ClusterArgs {
        namespace: None,
        ..cluster.clone()
    };
    refuse_cluster(&cluster, "-f")
}

/// Refuses the options of a cluster for objects in files.
pub(super) fn refuse_cluster(cluster: &ClusterArgs, files: &str) -> Result<(), Error> {
    let Some((option, _)) = cluster.options().next() else {
        return Ok(());
    };
    let other = match option {
        "--namespace" => "; --deployment <NAMESPACE>/<NAME> selects from files",
        _ => "",
    };
    let text = format!("{option} cannot be used with {files}: it only applies to kubectl{other}");
    Err(Error::Usage(text))
}
