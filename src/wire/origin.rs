//! The source of an object in a request.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// The source of an object in JSON texts.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The list that contains it, for example `snapshot.objects_json[0].items`.
    pub(super) list: Rc<str>,
    pub(super) index: usize,
    /// For example "ReplicaSet shop/web-1".
    pub(super) object: String,
    /// The text of its pod template, if the message does not contain it.
    pub(super) template: Option<Arc<str>>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.list, self.index)
    }
}
