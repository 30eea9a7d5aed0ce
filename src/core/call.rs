//! Calls of the Kubernetes API.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// POST of the object to its collection.
    Create,
    /// PATCH of the object or its subresource.
    Patch,
    /// DELETE of the object.
    Delete,
}

/// A call of the Kubernetes API. Its body contains the preconditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiCall {
    /// The kind of the call.
    pub verb: Verb,
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Subresource. Empty for the object itself.
    pub subresource: String,
    /// Content type of the body.
    pub content_type: String,
    /// The body as JSON.
    pub body_json: String,
}

/// Identifies a call: that of another plan is the same if all its fields are. The size of a new object does not count,
/// because a look-ahead may create a ReplicaSet with the size that later syncs would give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallId {
    /// The kind of the call.
    pub verb: Verb,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Subresource. Empty for the object itself.
    pub subresource: String,
    /// The first bytes of the SHA-256 of all fields.
    pub digest: [u8; 16],
}

// === impl ApiCall ===

impl ApiCall {
    /// Identifies the call.
    #[must_use]
    pub fn id(&self) -> CallId {
        let Self {
            verb,
            api_version,
            kind,
            namespace,
            name,
            subresource,
            content_type,
            body_json,
        } = self;
        let without_size = (*verb == Verb::Create).then(|| without_size(body_json));
        let body = without_size.as_ref().unwrap_or(body_json);
        let mut hash = Sha256::new();
        hash.update([*verb as u8]);
        for field in [
            api_version,
            kind,
            namespace,
            name,
            subresource,
            content_type,
            body,
        ] {
            hash.update(field.as_bytes());
            // No text of the API contains this byte.
            hash.update([0]);
        }
        let mut digest = [0; 16];
        digest.copy_from_slice(&hash.finalize()[..16]);
        CallId {
            verb: *verb,
            kind: kind.clone(),
            name: name.clone(),
            subresource: subresource.clone(),
            digest,
        }
    }
}

/// The body of a new object without its size.
fn without_size(body: &str) -> String {
    let Ok(mut body) = serde_json::from_str::<Value>(body) else {
        return body.to_owned();
    };
    if let Some(spec) = body.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("replicas");
    }
    body.to_string()
}
