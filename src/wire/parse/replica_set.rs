//! ReplicaSets.

use rollplan_core::snapshot::{Condition, ReplicaSet, ReplicaSetStatus};

use super::path::Path;
use super::{Owner, Parser};
use crate::proto;
use crate::wire::error::Reason;

/// Default of the Kubernetes API.
const REPLICAS: i32 = 1;

impl Parser {
    /// The ReplicaSets of the Deployment's namespace; others are checked and left out.
    pub(super) fn replica_sets(
        &mut self,
        sets: Vec<proto::ReplicaSet>,
        owner: &Owner<'_>,
        path: &Path<'_>,
    ) -> Vec<ReplicaSet> {
        let mut sets: Vec<ReplicaSet> = sets
            .into_iter()
            .enumerate()
            .map(|(index, set)| self.replica_set(set, owner, &path.index(index)))
            .collect();
        let near = |set: &ReplicaSet| owner.is_near(&set.metadata);
        let uids = sets.iter().map(|set| set.metadata.uid.as_str());
        self.unique(uids.enumerate(), path, "uid");
        let names = sets.iter().enumerate().filter(|(_, set)| near(set));
        let names = names.map(|(index, set)| (index, set.metadata.name.as_str()));
        self.unique(names, path, "name");
        sets.retain(near);
        sets
    }

    pub(super) fn replica_set(
        &mut self,
        set: proto::ReplicaSet,
        owner: &Owner<'_>,
        path: &Path<'_>,
    ) -> ReplicaSet {
        let proto::ReplicaSet {
            api_version,
            kind,
            metadata,
            spec,
            status,
        } = set;
        self.kind((&api_version, &kind), ("apps/v1", "ReplicaSet"), path);
        let metadata_path = path.field("metadata");
        let metadata = self.member_metadata(metadata, true, owner, &metadata_path);
        let near = owner.is_near(&metadata);
        let controlled = owner.controls(&metadata);
        if controlled && !near {
            let description = format_args!(
                "is {:?}, and the Deployment that controls it is in {:?}",
                metadata.namespace,
                owner.namespace()
            );
            let namespace = metadata_path.field("namespace");
            self.violation(&namespace, Reason::WrongNamespace, description);
        }
        let proto::ReplicaSetSpec {
            replicas,
            min_ready_seconds,
            // The planner decides by the labels of the ReplicaSet.
            selector: _,
            template,
        } = spec.unwrap_or_default();
        let spec_path = path.field("spec");
        let replicas = self.optional_count(replicas, &spec_path.field("replicas"));
        let seconds_path = spec_path.field("min_ready_seconds");
        let min_ready_seconds = self.count(min_ready_seconds, &seconds_path);
        let template_path = spec_path.field("template");
        let template = match template {
            Some(template) => self.set_template(template, owner, &template_path),
            None => {
                // Whatever is or may become the Deployment's is told from others by its template.
                let orphan = near
                    && metadata.controller().is_none()
                    && owner.deployment.spec.selector.matches(&metadata.labels);
                if controlled || orphan {
                    self.violation(&template_path, Reason::Required, "is required");
                }
                Self::no_template()
            }
        };
        ReplicaSet {
            metadata,
            replicas: replicas.unwrap_or(REPLICAS),
            min_ready_seconds,
            template,
            status: self.replica_set_status(status.unwrap_or_default(), &path.field("status")),
            available_max: ReplicaSet::UNTOUCHED,
        }
    }

    fn replica_set_status(
        &mut self,
        status: proto::ReplicaSetStatus,
        path: &Path<'_>,
    ) -> ReplicaSetStatus {
        let proto::ReplicaSetStatus {
            replicas,
            // Read by nobody.
            fully_labeled_replicas: _,
            ready_replicas,
            available_replicas,
            terminating_replicas,
            observed_generation,
            conditions,
        } = status;
        let conditions_path = path.field("conditions");
        ReplicaSetStatus {
            replicas: self.count(replicas, &path.field("replicas")),
            ready_replicas: self.count(ready_replicas, &path.field("ready_replicas")),
            available_replicas: self.count(available_replicas, &path.field("available_replicas")),
            terminating_replicas: self
                .optional_count(terminating_replicas, &path.field("terminating_replicas")),
            observed_generation: self
                .count(observed_generation, &path.field("observed_generation")),
            conditions: conditions
                .into_iter()
                .enumerate()
                .map(|(index, condition)| {
                    self.replica_set_condition(condition, &conditions_path.index(index))
                })
                .collect(),
        }
    }

    fn replica_set_condition(
        &mut self,
        condition: proto::ReplicaSetCondition,
        path: &Path<'_>,
    ) -> Condition {
        let proto::ReplicaSetCondition {
            r#type,
            status,
            last_transition_time,
            reason,
            message,
        } = condition;
        Condition {
            kind: r#type,
            status,
            reason,
            message,
            last_update_time: None,
            last_transition_time: self
                .optional_time(last_transition_time, &path.field("last_transition_time")),
        }
    }
}
