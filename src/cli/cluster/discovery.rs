//! Whether kinds have a status subresource. An object without a status is complete if its kind cannot have one.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Cluster;
use crate::cli::input::Request;

/// The kinds that the cluster was asked about: their group and version, and their name. `None` if the answer is not known.
#[derive(Debug, Default)]
pub(super) struct Discovery(BTreeMap<(String, String), Option<bool>>);

// === impl Discovery ===

impl Discovery {
    /// Completes a request whose answer depends on it. The cluster is asked once about each kind.
    pub(super) fn complete(
        &mut self,
        cluster: &mut Cluster,
        request: &mut Request,
        limit: Option<Duration>,
    ) {
        if !request.needs_discovery {
            return;
        }
        let Some(target) = &mut request.snapshot.target else {
            return;
        };
        let Self(kinds) = self;
        let kind = (target.api_version.clone(), target.kind.clone());
        target.status_subresource = match kinds.get(&kind) {
            Some(known) => *known,
            None => {
                let (api_version, name) = (&kind.0, &kind.1);
                let answer = cluster.has_status_subresource(api_version, name, limit);
                // After a temporary failure, it is asked again.
                answer.map_or(None, |has| *kinds.entry(kind.clone()).or_insert(has))
            }
        };
    }
}
