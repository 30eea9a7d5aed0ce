//! rollplan.
