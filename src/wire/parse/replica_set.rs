//! Parses ReplicaSets.

use rollplan_core::snapshot::{Condition, ObjectMeta, ReplicaSet, ReplicaSetStatus};

use super::meta::owner_reference;
use super::path::Path;
use super::raw_template::RawTemplate;
use super::{Owner, Parser, Relation};
use crate::proto;

/// The default of the Kubernetes API.
const REPLICAS: i32 = 1;

impl Parser<'_> {
    /// The ReplicaSets of the Deployment's namespace, each with whether it is selected. Others are not validated.
    pub(super) fn replica_sets(
        &mut self,
        sets: Vec<proto::ReplicaSet>,
        owner: &Owner<'_>,
        path: &Path<'_>,
    ) -> Vec<(bool, ReplicaSet)> {
        let mut parsed = Vec::with_capacity(sets.len());
        for (index, set) in sets.into_iter().enumerate() {
            if self.interrupt.is_interrupted() {
                break;
            }
            let path = path.index(index);
            // Without metadata, the ReplicaSet cannot be selected.
            let Some(metadata) = self.required(set.metadata.as_ref(), &path.field("metadata"))
            else {
                continue;
            };
            match owner.relation(metadata) {
                Relation::Selected => {
                    let set = self.replica_set(set, owner, &path);
                    parsed.push((index, true, set));
                }
                Relation::Other => parsed.push((index, false, unselected(set, owner))),
                Relation::Elsewhere => {}
            }
        }
        let uids = parsed.iter();
        let uids = uids.map(|(index, selected, set)| (*index, &*set.metadata.uid, *selected));
        self.unique(uids, path, "uid");
        let names = parsed.iter();
        let names = names.map(|(index, selected, set)| (*index, &*set.metadata.name, *selected));
        self.unique(names, path, "name");
        let sets = parsed.into_iter();
        sets.map(|(_, selected, set)| (selected, set)).collect()
    }

    /// The existing ReplicaSet with the name of one to create.
    pub(super) fn existing(
        &mut self,
        set: proto::ReplicaSet,
        owner: &Owner<'_>,
        path: &Path<'_>,
    ) -> Option<ReplicaSet> {
        let metadata = self.required(set.metadata.as_ref(), &path.field("metadata"))?;
        match (
            owner.is_in_namespace(&metadata.namespace),
            owner.controls(metadata),
        ) {
            (true, true) => Some(self.replica_set(set, owner, path)),
            (true, false) => Some(unselected(set, owner)),
            (false, _) => None,
        }
    }

    fn replica_set(
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
        let metadata =
            self.member_metadata(metadata, true, owner.namespace(), &path.field("metadata"));
        let proto::ReplicaSetSpec {
            replicas,
            min_ready_seconds,
            // The planner uses the labels of the ReplicaSet instead.
            selector: _,
            template,
        } = spec.unwrap_or_default();
        let spec_path = path.field("spec");
        let replicas = self.optional_count(replicas, &spec_path.field("replicas"));
        let seconds_path = spec_path.field("min_ready_seconds");
        let min_ready_seconds = self.count(min_ready_seconds, &seconds_path);
        let template_path = spec_path.field("template");
        // The template distinguishes the new ReplicaSet from old ones.
        let template = RawTemplate::new(template, path);
        let template = match self.required(template, &template_path) {
            Some(template) => self.set_template(template, owner, &template_path),
            None => Self::no_template(),
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
            // The planner does not use it.
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

/// A ReplicaSet that is not selected. Its name is taken. Labels, controller and size show whether the selector also matches
/// pods of another controller.
fn unselected(set: proto::ReplicaSet, owner: &Owner<'_>) -> ReplicaSet {
    let proto::ObjectMeta {
        name,
        uid,
        labels,
        owner_references,
        ..
    } = set.metadata.unwrap_or_default();
    let mut owner_references = owner_references.into_iter();
    let controller = owner_references.find(proto::OwnerReference::controller);
    ReplicaSet {
        metadata: ObjectMeta {
            name,
            namespace: owner.namespace().to_owned(),
            uid,
            labels,
            owner_references: controller.into_iter().map(owner_reference).collect(),
            ..ObjectMeta::default()
        },
        replicas: set.spec.and_then(|spec| spec.replicas).unwrap_or(REPLICAS),
        min_ready_seconds: 0,
        template: Parser::no_template(),
        status: ReplicaSetStatus::default(),
        available_max: ReplicaSet::UNTOUCHED,
    }
}
