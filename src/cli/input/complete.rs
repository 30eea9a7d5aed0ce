//! Which lists of an input are complete.

/// Which lists are complete, as far as somebody has stated it. Otherwise the input shows it.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::cli) struct Complete {
    pub(in crate::cli) replica_sets: Option<bool>,
    pub(in crate::cli) pods: Option<bool>,
}
