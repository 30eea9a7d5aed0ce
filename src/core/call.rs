//! Calls of the Kubernetes API.

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
