//! Every small world: settled plans keep both bounds at every prefix, end, and finish the job after a death
//! at any step; and merging changes no outcome.
//!
//! `ROLLPLAN_EXHAUSTIVE=full` takes every world; otherwise every `STRIDE`th.

use std::sync::Arc;

use crate::action::{Action, apply};
use crate::lint::lint;
use crate::pass::{self, Counting};
use crate::snapshot::{ReplicaSet, Snapshot, Strategy};
use crate::tests::world::{mk_deployment, mk_set, mk_snapshot};
use crate::{Options, plan_settled};
