//! Where an object of a request comes from.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// Where an object comes from.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The list that it is in, for example `snapshot.objects_json[0].items`.
    pub(super) list: Rc<str>,
    pub(super) index: usize,
    /// For example "ReplicaSet shop/web-1".
    pub(super) object: String,
    /// The text of its pod template, where this is not in its message.
    pub(super) template: Option<Arc<str>>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.list, self.index)
    }
}
