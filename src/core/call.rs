//! Calls of the Kubernetes API.

/// What kind of call to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// POST to the collection.
    Create,
    /// PATCH of the object or its subresource.
    Patch,
    /// DELETE of the object.
    Delete,
}

/// A call of the Kubernetes API, with its preconditions in the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiCall {
    /// What kind of call.
    pub verb: Verb,
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Subresource; empty for the object itself.
    pub subresource: String,
    /// Content type of the body.
    pub content_type: String,
    /// The body as JSON text.
    pub body_json: String,
}
