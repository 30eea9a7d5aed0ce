//! Parses a StatefulSet or a DaemonSet with its ControllerRevisions: metadata, and spec with the defaults of the Kubernetes
//! API.

use rollplan_core::controller_revision::{ControllerRevision, Workload};
use rollplan_core::selector::LabelSelector;
use rollplan_core::snapshot::Surroundings;
use rollplan_core::time::Time;

use super::Parser;
use super::meta::Needed;
use super::path::Path;
use super::selector::limit_selector;
use crate::error::Error;
use crate::objects::Found;
use crate::read::kubernetes;

// The defaults of the Kubernetes API.
const REPLICAS: i32 = 1;
const REVISION_HISTORY_LIMIT: i32 = 10;

impl Parser<'_> {
    /// A StatefulSet or a DaemonSet without its dependents, and its selector.
    pub(crate) fn workload_with_revisions(
        &mut self,
        object: &Found<'_>,
        workload: kubernetes::Workload<'_>,
        now: Time,
        path: &Path<'_>,
    ) -> Result<(Workload, LabelSelector), Error> {
        let kubernetes::Workload {
            metadata,
            spec,
            status,
        } = workload;
        let metadata = self.metadata(metadata, Needed::STORED, &path.field("metadata"));
        let path = path.field("spec");
        let kubernetes::WorkloadSpec {
            replicas,
            selector,
            template,
            update_strategy,
            pod_management_policy,
            min_ready_seconds,
            revision_history_limit,
            ordinals: _,
        } = self.required(spec, &path).unwrap_or_default();
        selector.as_ref().map_or(Ok(()), limit_selector)?;
        let selector_path = path.field("selector");
        let selector = self.required(selector, &selector_path);
        let selector = selector.map(|selector| self.selector(selector, &selector_path));
        let template_path = path.field("template");
        let template = self
            .required(template, &template_path)
            .map(|text| self.template(text, &template_path));
        let is_stateful = object.kind == "StatefulSet";
        let kubernetes::WorkloadStatus {
            current_revision,
            update_revision,
            ..
        } = status;
        let live = [current_revision, update_revision].into_iter();
        let partition_path = path.text(".updateStrategy.rollingUpdate.partition");
        let workload = Workload {
            now,
            api_version: object.api_version.clone().into_owned(),
            kind: object.kind.clone().into_owned(),
            metadata,
            template: template.unwrap_or_else(Self::no_template),
            replicas: is_stateful.then(|| {
                let replicas = self.optional_count(replicas, &path.field("replicas"));
                replicas.unwrap_or(REPLICAS)
            }),
            min_ready_seconds: self.count(min_ready_seconds, &path.field("min_ready_seconds")),
            history_limit: self
                .optional_count(
                    revision_history_limit,
                    &path.field("revision_history_limit"),
                )
                .unwrap_or(REVISION_HISTORY_LIMIT),
            is_on_delete: update_strategy.kind == "OnDelete",
            partition: self.count(update_strategy.rolling_update.partition, &partition_path),
            is_ordered: is_stateful && pod_management_policy != "Parallel",
            live: live.filter(|name| !name.is_empty()).collect(),
            revisions: Vec::new(),
            revisions_complete: false,
            pods: Vec::new(),
            surroundings: Surroundings::default(),
        };
        Ok((workload, selector.unwrap_or_default()))
    }

    /// A ControllerRevision in the namespace of its owner.
    pub(crate) fn controller_revision(
        &mut self,
        revision: kubernetes::ControllerRevision,
        namespace: &str,
        path: &Path<'_>,
    ) -> ControllerRevision {
        let kubernetes::ControllerRevision {
            metadata,
            revision,
            data,
        } = revision;
        ControllerRevision {
            metadata: self.member_metadata(metadata, false, namespace, &path.field("metadata")),
            revision: self.count(revision, &path.field("revision")),
            data,
        }
    }
}
