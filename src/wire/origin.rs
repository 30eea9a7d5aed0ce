//! The source of an object in a request.

use std::fmt;
use std::rc::Rc;

/// The source of an object in JSON texts.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The list that contains it, for example `snapshot.objects[0].items`.
    pub(super) list: Rc<str>,
    pub(super) index: usize,
    /// For example "ReplicaSet shop/web-1".
    pub(super) object: String,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.list, self.index)
    }
}
