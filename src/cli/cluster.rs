//! What a command needs of a cluster, read by kubectl: never more than the Deployment selects, with one exception.
//!
//! The Deployment comes first, then its ReplicaSets, then its pods: what is read later is never older. The three are not of
//! one moment, though. If the Deployment changes in between, the answer is about the Deployment as it was read; the next
//! poll sees the change, and the API server refuses the writes of a plan, which carry the versions that were read.

use std::time::{Duration, Instant};

use prost_types::Timestamp;

use super::error::Error;
use super::input::{self, Answers, Complete, Objects, Request, Source, Texts, Wanted};
use super::kubectl::{Cause, Failure, Kind, Kubectl};
use super::options::ClusterArgs;
use super::target::Target;
use super::{now, stderr};

/// How long kubectl may take. Each of its requests has a timeout of its own, so that this ends what hangs elsewhere, such
/// as a credential plugin.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(120);

/// Bytes of a selector that fit into an argument of a program.
const SELECTOR_BYTES_MAX: usize = 100_000;

/// How messages name what kubectl printed.
const SOURCE: &str = "what kubectl printed";

/// What a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// ReplicaSets and pods that the Deployment selects.
    Rollout,
    /// The same, and the other ReplicaSets of the namespace: one that is owned and no longer matches must be released, and
    /// the name of any may be taken.
    Plan,
    /// ReplicaSets that the Deployment selects.
    Revisions,
}

/// A Deployment in a cluster.
#[derive(Debug)]
pub(super) struct Cluster<'a> {
    kubectl: Kubectl,
    target: &'a Target,
    namespace: Option<&'a str>,
    needs: Needs,
    /// Whether the note about missing pods was printed.
    is_noted: bool,
    /// Whether events can be read, as far as that is known.
    has_events: bool,
}

// === impl Cluster ===

impl<'a> Cluster<'a> {
    pub(super) fn new(args: &'a ClusterArgs, target: &'a Target, needs: Needs) -> Self {
        Self {
            kubectl: Kubectl::new(args),
            target,
            namespace: args.namespace.as_deref(),
            needs,
            is_noted: false,
            has_events: true,
        }
    }

    /// Reads it all, within the limit if there is one.
    pub(super) fn read(
        &mut self,
        limit: Option<Duration>,
        now: Option<Timestamp>,
        answers: Answers,
    ) -> Result<Request, Error> {
        let start = Instant::now();
        let left = || match limit {
            Some(limit) => limit.saturating_sub(start.elapsed()).min(PROCESS_TIMEOUT),
            None => PROCESS_TIMEOUT,
        };
        let deployment = self.kubectl.get(self.target, left());
        let deployment = deployment.map_err(|failure| self.absent(failure))?;
        let deployment = Source::new(SOURCE, deployment)?;
        let wanted = Wanted::in_cluster(&self.target.name, self.namespace);
        let selector = {
            let texts = Texts::read(std::slice::from_ref(&deployment))?;
            input::selector(&Objects::find(&texts)?, &wanted)?
        };
        let mut sources = vec![deployment];
        let mut pods_complete = true;
        // Without a selector that selects something, no ReplicaSet and no pod is the Deployment's.
        if let Some(selector) = selector {
            if selector.len() > SELECTOR_BYTES_MAX {
                let text = format!(
                    "spec.selector: {} bytes exceed the limit of {SELECTOR_BYTES_MAX} for a selector of kubectl",
                    selector.len()
                );
                return Err(Error::input(SOURCE, text));
            }
            let of_sets = (self.needs != Needs::Plan).then_some(selector.as_str());
            let sets = self.kubectl.list(Kind::ReplicaSets, of_sets, left())?;
            sources.push(Source::new(SOURCE, sets)?);
            if self.needs != Needs::Revisions {
                match self.kubectl.list(Kind::Pods, Some(&selector), left()) {
                    Ok(pods) => sources.push(Source::new(SOURCE, pods)?),
                    Err(failure) => {
                        self.note_missing_pods(failure)?;
                        pods_complete = false;
                    }
                }
            }
        }
        let texts = Texts::read(&sources)?;
        input::request(
            &Objects::find(&texts)?,
            Some(&wanted),
            Complete {
                replica_sets: Some(true),
                pods: Some(pods_complete),
            },
            now.unwrap_or_else(now::read),
            answers,
            &mut |note| stderr::eprint_note(note),
        )
    }

    /// Adds the warnings of the namespace to a request: they tell what only time or only a change resolves. Whoever may
    /// not list events gets a verdict that is less certain. Returns whether there are any about the objects of the request.
    pub(super) fn add_events(
        &mut self,
        request: &mut Request,
        limit: Option<Duration>,
    ) -> Result<bool, Error> {
        if !self.has_events {
            return Ok(false);
        }
        let limit = limit.unwrap_or(PROCESS_TIMEOUT).min(PROCESS_TIMEOUT);
        match self.kubectl.list(Kind::Warnings, None, limit) {
            Ok(events) => {
                let events = [Source::new(SOURCE, events)?];
                let texts = Texts::read(&events)?;
                return Ok(request.add_events(&Objects::find(&texts)?));
            }
            Err(failure) if failure.is_transient() => {}
            Err(failure) => {
                self.has_events = false;
                stderr::eprint_note(format_args!(
                    "the verdict does without events, so that it may be less certain: {failure}"
                ));
            }
        }
        Ok(false)
    }

    /// The last lines that a container has written.
    pub(super) fn log(&self, pod: &str, container: &str, previous: bool) -> Result<String, Error> {
        let log = self
            .kubectl
            .log(pod, container, previous, PROCESS_TIMEOUT)?;
        Ok(String::from_utf8_lossy(&log).into_owned())
    }

    fn absent(&self, failure: Failure) -> Error {
        match failure.cause() {
            Cause::NotFound(_) => Error::Absent(input::absent(&self.target.name, self.namespace)),
            _ => failure.into(),
        }
    }

    /// Pods explain, and only Recreate waits for them. So whoever may not list them gets an answer without them.
    fn note_missing_pods(&mut self, failure: Failure) -> Result<(), Error> {
        if !matches!(failure.cause(), Cause::Forbidden(_)) {
            return Err(failure.into());
        }
        if !std::mem::replace(&mut self.is_noted, true) {
            stderr::eprint_note(format_args!(
                "the answer does without pods, so that causes which only pods show are missing: {failure}"
            ));
        }
        Ok(())
    }
}
