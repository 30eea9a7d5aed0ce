//! The source of an object in a request.

use std::fmt;
use std::rc::Rc;

/// The source of an object in JSON texts.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The list that contains it, for example `snapshot.objects[0].items`.
    pub(super) list: Rc<str>,
    /// Absent if it is the whole text of a field.
    pub(super) index: Option<usize>,
    /// For example "ReplicaSet shop/web-1".
    pub(super) object: String,
}

/// Writes the path of an object.
pub(super) fn place(f: &mut fmt::Formatter<'_>, list: &str, index: Option<usize>) -> fmt::Result {
    f.write_str(list)?;
    index.map_or(Ok(()), |index| write!(f, "[{index}]"))
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        place(f, &self.list, self.index)
    }
}
