//! Parses ReplicaSets.

use rollplan_core::selector::LabelSelector;
use rollplan_core::snapshot::{
    Condition, Deployment, ObjectMeta, OwnerReference, ReplicaSet, ReplicaSetStatus,
};

use super::path::Path;
use super::raw_template::RawTemplate;
use super::{Owner, Parser};
use crate::objects::{Controller, Found, Metadata};
use crate::read::kubernetes;

/// The default of the Kubernetes API.
const REPLICAS: i32 = 1;

impl Parser<'_> {
    pub(crate) fn replica_set(
        &mut self,
        set: kubernetes::ReplicaSet,
        owner: &Owner<'_>,
        path: &Path<'_>,
    ) -> ReplicaSet {
        let kubernetes::ReplicaSet {
            metadata,
            spec,
            status,
        } = set;
        let metadata = self.member_metadata(
            metadata,
            true,
            &owner.deployment.metadata.namespace,
            &path.field("metadata"),
        );
        let kubernetes::ReplicaSetSpec {
            replicas,
            min_ready_seconds,
            template,
        } = spec;
        let spec_path = path.field("spec");
        let replicas = self.optional_count(replicas, &spec_path.field("replicas"));
        let seconds_path = spec_path.field("min_ready_seconds");
        let min_ready_seconds = self.count(min_ready_seconds, &seconds_path);
        let template_path = spec_path.field("template");
        // The template distinguishes the new ReplicaSet from old ones.
        let template = match self.required(template, &template_path) {
            Some(text) => self.set_template(RawTemplate::new(text), owner, &template_path),
            None => Self::no_template(),
        };
        ReplicaSet {
            metadata,
            replicas: replicas.unwrap_or(REPLICAS),
            min_ready_seconds,
            template,
            status: self.replica_set_status(status, &path.field("status")),
            available_max: ReplicaSet::UNTOUCHED,
        }
    }

    fn replica_set_status(
        &mut self,
        status: kubernetes::ReplicaSetStatus,
        path: &Path<'_>,
    ) -> ReplicaSetStatus {
        let kubernetes::ReplicaSetStatus {
            replicas,
            ready_replicas,
            available_replicas,
            fully_labeled_replicas: _,
            terminating_replicas,
            observed_generation,
            conditions,
        } = status;
        ReplicaSetStatus {
            replicas: self.count(replicas, &path.field("replicas")),
            ready_replicas: self.count(ready_replicas, &path.field("ready_replicas")),
            available_replicas: self.count(available_replicas, &path.field("available_replicas")),
            terminating_replicas: self
                .optional_count(terminating_replicas, &path.field("terminating_replicas")),
            observed_generation: self.count(
                observed_generation.unwrap_or_default(),
                &path.field("observed_generation"),
            ),
            conditions: conditions.into_iter().map(condition).collect(),
        }
    }
}

fn condition(condition: kubernetes::Condition) -> Condition {
    let kubernetes::Condition {
        kind,
        status,
        last_transition_time,
        reason,
        message,
        observed_generation: _,
    } = condition;
    Condition {
        kind,
        status,
        reason,
        message,
        last_update_time: None,
        last_transition_time,
    }
}

/// A ReplicaSet that is not selected. Its name is taken, and its UID must differ from those of selected ones. Controller,
/// size, and the labels that the selector uses show whether the selector also matches pods of another controller.
pub(crate) fn unselected(set: &Found<'_>, owner: &Deployment) -> ReplicaSet {
    let Metadata {
        name,
        uid,
        controller,
        ..
    } = &set.metadata;
    let LabelSelector {
        match_labels,
        match_expressions,
    } = &owner.spec.selector;
    let labels = set.labels().iter().filter(|(key, _)| {
        match_labels.contains_key(*key) || match_expressions.iter().any(|it| it.key == **key)
    });
    let labels = labels.map(|(key, value)| (key.clone(), value.clone()));
    ReplicaSet {
        metadata: ObjectMeta {
            name: name.clone().into_owned(),
            namespace: owner.metadata.namespace.clone(),
            uid: uid.clone().into_owned(),
            labels: labels.collect(),
            owner_references: controller.iter().map(controller_reference).collect(),
            ..ObjectMeta::default()
        },
        replicas: set.replicas().unwrap_or(REPLICAS),
        min_ready_seconds: 0,
        template: Parser::no_template(),
        status: ReplicaSetStatus::default(),
        available_max: ReplicaSet::UNTOUCHED,
    }
}

fn controller_reference(controller: &Controller<'_>) -> OwnerReference {
    let Controller {
        api_version,
        kind,
        name,
        uid,
    } = controller;
    OwnerReference {
        api_version: api_version.clone().into_owned(),
        kind: kind.clone().into_owned(),
        name: name.clone().into_owned(),
        uid: uid.clone().into_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}
