//! Reads what a command is about.

use std::path::Path;

use prost_types::Timestamp;

use crate::cli::cluster::{Cluster, Needs, Scope};
use crate::cli::error::Error;
use crate::cli::input::{self, Answers, Complete, Objects, Request, Texts, Wanted};
use crate::cli::options::{ClusterArgs, CompleteArgs, InputArgs, ScopeArgs, SourceArgs, WhichArgs};
use crate::cli::target::{self, DEPLOYMENTS, Target};
use crate::cli::{now, stderr};

/// Reads what one Deployment is decided by, from files or from the cluster.
pub(super) fn read(
    args: &InputArgs,
    needs: Needs,
    answers: Option<&Path>,
) -> Result<Request, Error> {
    let InputArgs {
        source: SourceArgs { target, files },
        cluster,
        deployment,
        now,
        complete,
    } = args;
    let answers = answers.map(input::answers).transpose()?;
    let answers = answers.unwrap_or_default();
    if !target.is_empty() {
        complete.refuse().map_err(Error::Usage)?;
        return match target::parse(target).map_err(Error::Usage)?.as_slice() {
            [target] => Cluster::new(cluster).read(target, needs, None, *now, answers),
            _ => Err(Error::Usage(
                "this command is about one Deployment: name one".to_owned(),
            )),
        };
    }
    refuse_cluster(cluster)?;
    let sources = input::sources(files)?;
    let texts = Texts::read(&sources)?;
    let wanted = deployment.as_deref().map(Wanted::parse).transpose()?;
    input::request(
        &Objects::find(&texts)?,
        wanted.as_ref(),
        self::complete(complete),
        now.unwrap_or_else(now::read),
        answers,
        &mut |note| stderr::eprint_note(note),
    )
}

/// Reads what the Deployments in files are decided by: one of them, or all.
pub(super) fn all(
    args: &ScopeArgs,
    deployment: Option<&str>,
    now: Option<Timestamp>,
    complete: &CompleteArgs,
) -> Result<Vec<Request>, Error> {
    refuse_cluster(&args.cluster)?;
    let sources = input::sources(&args.which.files)?;
    let texts = Texts::read(&sources)?;
    let wanted = deployment.map(Wanted::parse).transpose()?;
    let objects = Objects::find(&texts)?;
    let now = now.unwrap_or_else(now::read);
    let complete = self::complete(complete);
    let mut note = |note: &dyn std::fmt::Display| stderr::eprint_note(note);
    match wanted {
        Some(_) => {
            let answers = Answers::default();
            let one = input::request(&objects, wanted.as_ref(), complete, now, answers, &mut note);
            Ok(vec![one?])
        }
        None => input::requests(&objects, complete, now, &mut note),
    }
}

/// Which Deployments of a cluster are meant.
pub(super) fn scope(args: &ScopeArgs) -> Result<Scope, Error> {
    let ScopeArgs { which, cluster } = args;
    let WhichArgs {
        names,
        selector,
        all,
        all_namespaces,
        files: _,
    } = which;
    let usage = |text: &str| Err(Error::Usage(text.to_owned()));
    if *all_namespaces && cluster.namespace.is_some() {
        return usage("--all-namespaces and --namespace contradict each other");
    }
    if selector.is_none() && !all && !all_namespaces {
        if names.is_empty() {
            return usage(
                "which Deployments? give names, --selector, --all, --all-namespaces or --filename <FILE>",
            );
        }
        let mut targets = target::parse(names).map_err(Error::Usage)?;
        remove_repeated(&mut targets);
        return Ok(Scope::Named(targets));
    }
    // With a selector, the only word is a kind.
    let resource = match names.as_slice() {
        [] => DEPLOYMENTS,
        [kind] if target::resource(kind).is_some() => target::resource(kind).unwrap_or(DEPLOYMENTS),
        _ => return usage("names cannot be combined with --selector, --all or --all-namespaces"),
    };
    if selector.as_deref() == Some("") {
        return usage("--selector is empty: pass --all for all Deployments of the namespace");
    }
    Ok(Scope::Listed {
        resource,
        selector: selector.clone(),
        everywhere: *all_namespaces,
    })
}

/// The Deployments that files name, to be looked up in the cluster: whatever else was applied with them does not matter.
pub(super) fn applied(args: &ScopeArgs) -> Result<Vec<Target>, Error> {
    let sources = input::sources(&args.which.files)?;
    let texts = Texts::read(&sources)?;
    let mut targets = input::targets(&Objects::find(&texts)?);
    let given = args.cluster.namespace.as_ref();
    for target in &mut targets {
        match (&target.namespace, given) {
            (Some(own), Some(given)) if own != given => {
                let text = format!(
                    "Deployment {} is in namespace {own}, and --namespace is {given}",
                    target.name
                );
                return Err(Error::Usage(text));
            }
            (None, given) => target.namespace = given.cloned(),
            _ => {}
        }
    }
    remove_repeated(&mut targets);
    match targets.is_empty() {
        true => Err(Error::input("", "no Deployment in the input")),
        false => Ok(targets),
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

/// Objects in files are not read from a cluster.
pub(super) fn refuse_cluster(cluster: &ClusterArgs) -> Result<(), Error> {
    match cluster.options().next() {
        None => Ok(()),
        Some((option, _)) => {
            let text = format!("{option} is for kubectl, and cannot be used with -f");
            Err(Error::Usage(text))
        }
    }
}
