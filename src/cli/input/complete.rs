//! Whether the lists in an input are complete.

/// Which lists the user or the reader declared complete. `None` infers it from the input.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::cli) struct Complete {
    pub(in crate::cli) replica_sets: Option<bool>,
    pub(in crate::cli) pods: Option<bool>,
}
