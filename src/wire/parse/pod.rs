//! Pods.

use rollplan_core::snapshot::Pod;

use super::path::Path;
use super::{Owner, Parser};
use crate::proto;

impl Parser {
    /// The pods of the Deployment's namespace; others are checked and left out.
    pub(super) fn pods(
        &mut self,
        pods: Vec<proto::Pod>,
        owner: &Owner<'_>,
        path: &Path<'_>,
    ) -> Vec<Pod> {
        let mut pods: Vec<Pod> = pods
            .into_iter()
            .enumerate()
            .map(|(index, pod)| self.pod(pod, owner, &path.index(index)))
            .collect();
        let near = |pod: &Pod| pod.metadata.namespace == owner.namespace();
        let uids = pods.iter().map(|pod| pod.metadata.uid.as_str());
        self.unique(uids.enumerate(), path, "uid");
        let names = pods.iter().enumerate().filter(|(_, pod)| near(pod));
        let names = names.map(|(index, pod)| (index, pod.metadata.name.as_str()));
        self.unique(names, path, "name");
        pods.retain(near);
        pods
    }

    fn pod(&mut self, pod: proto::Pod, owner: &Owner<'_>, path: &Path<'_>) -> Pod {
        let proto::Pod {
            api_version,
            kind,
            metadata,
            // Read by reports.
            spec: _,
            status,
        } = pod;
        self.kind((&api_version, &kind), ("v1", "Pod"), path);
        Pod {
            metadata: self.member_metadata(metadata, false, owner, &path.field("metadata")),
            phase: status.unwrap_or_default().phase,
        }
    }
}
