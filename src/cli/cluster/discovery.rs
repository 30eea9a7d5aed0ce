//! Whether kinds have a status subresource. An object without a status is complete if its kind cannot have one.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Cluster;
use crate::cli::input::Request;

/// The answers of the cluster by kind: group, version and name. `None` if the answer is unknown.
#[derive(Debug, Default)]
pub(super) struct Discovery(BTreeMap<(String, String), Option<bool>>);

// === impl Discovery ===

impl Discovery {
    /// Completes a request whose answer depends on this. The cluster is queried once for each kind.
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
                // After a temporary failure, the query is repeated.
                answer.map_or(None, |has| *kinds.entry(kind.clone()).or_insert(has))
            }
        };
    }
}
