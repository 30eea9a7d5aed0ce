//! Decodes a request for a plan only as far as necessary.
//!
//! Nearly all plans have no report, and depend on few fields of their pods, which are then read in place
//! ([`read_lean_pod`]). For a plan with a report, or if anything about a pod is unusual, the whole request is decoded.

use std::fmt;
use std::marker::PhantomData;

use bytes::{Buf, BufMut, Bytes};
use prost::encoding::{self, DecodeContext, WireType};
use prost::{DecodeError, Message, Name};
use rollplan_core::interrupt::Interrupt;
use rollplan_core::snapshot::Pod;

use super::decode;
use super::error::Error;
use super::interruptible::Interruptible;
use super::limits::PODS_MAX;
use super::parse::lean_pod::read_lean_pod;
use crate::proto;

/// An encoded message.
pub struct Encoded<M> {
    bytes: Bytes,
    message: PhantomData<fn() -> M>,
}

/// An encoded request for a plan.
pub type EncodedPlanRequest = Encoded<proto::PlanRolloutRequest>;

/// A decoded request. Its pods are separate if only the data that decides a plan was read.
#[derive(Debug)]
pub(crate) struct PlanRequest {
    pub(crate) message: proto::PlanRolloutRequest,
    pub(crate) lean_pods: Vec<Pod>,
}

/// A request whose pods are not decoded.
#[derive(Debug, Default)]
struct LazyRequest {
    /// The message without its snapshot.
    message: proto::PlanRolloutRequest,
    snapshot: Option<LazySnapshot>,
}

#[derive(Debug, Default)]
struct LazySnapshot {
    /// The snapshot without its pods.
    message: proto::Snapshot,
    pods: Vec<Bytes>,
}

/// The fields of a request that determine whether its plan has a report.
#[derive(Clone, PartialEq, Message)]
struct ReportFields {
    #[prost(message, optional, tag = "1")]
    snapshot: Option<SnapshotFields>,
    #[prost(message, optional, tag = "2")]
    options: Option<proto::PlanOptions>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct SnapshotFields {
    #[prost(bool, tag = "7")]
    replica_sets_complete: bool,
}

// === impl Encoded ===

impl<M: Message + Name + Default> Encoded<M> {
    /// Wraps an encoded message.
    #[must_use]
    pub fn new(bytes: Bytes) -> Self {
        Self {
            bytes,
            message: PhantomData,
        }
    }

    /// Decodes the whole message.
    ///
    /// # Errors
    ///
    /// [`Error::Undecodable`], and [`Error::Interrupted`].
    pub fn decode(self, interrupt: &dyn Interrupt) -> Result<M, Error> {
        decode(self.bytes, interrupt)
    }
}

impl<M> fmt::Debug for Encoded<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Encoded({} bytes)", self.bytes.len())
    }
}

// === impl PlanRequest ===

impl PlanRequest {
    /// Decodes a request whose memory has been checked.
    pub(crate) fn decode(
        encoded: EncodedPlanRequest,
        interrupt: &dyn Interrupt,
    ) -> Result<Self, Error> {
        let Encoded { bytes, .. } = encoded;
        if let Some(lean) = Self::decode_lean(&bytes, interrupt) {
            interrupt.check()?;
            return Ok(lean);
        }
        decode::<proto::PlanRolloutRequest>(bytes, interrupt).map(Self::from)
    }

    /// `None` if the whole request must be decoded.
    fn decode_lean(bytes: &Bytes, interrupt: &dyn Interrupt) -> Option<Self> {
        let ReportFields { snapshot, options } = ReportFields::decode(bytes.clone()).ok()?;
        if options.is_some_and(|it| it.report) || !snapshot?.replica_sets_complete {
            return None;
        }
        let LazyRequest { message, snapshot } =
            LazyRequest::decode(Interruptible::new(bytes.clone(), interrupt)).ok()?;
        let LazySnapshot {
            message: snapshot,
            pods,
        } = snapshot?;
        if pods.len() > PODS_MAX {
            return None;
        }
        let pods = pods.iter().map(|pod| {
            let should_continue = !interrupt.is_interrupted();
            should_continue.then(|| read_lean_pod(pod)).flatten()
        });
        Some(Self {
            lean_pods: pods.collect::<Option<_>>()?,
            message: proto::PlanRolloutRequest {
                snapshot: Some(snapshot),
                ..message
            },
        })
    }

    pub(crate) fn snapshot(&self) -> Option<&proto::Snapshot> {
        self.message.snapshot.as_ref()
    }

    /// The number of pods in the fields of the snapshot.
    pub(crate) fn pods(&self) -> usize {
        let whole = self.snapshot().map_or(0, |snapshot| snapshot.pods.len());
        whole + self.lean_pods.len()
    }
}

impl From<proto::PlanRolloutRequest> for PlanRequest {
    fn from(message: proto::PlanRolloutRequest) -> Self {
        Self {
            message,
            lean_pods: Vec::new(),
        }
    }
}

/// Whether the plan has a report. If ReplicaSets may be missing, the report is the whole answer: it states why nothing
/// is planned.
pub(super) fn has_report(
    snapshot: Option<&proto::Snapshot>,
    options: Option<&proto::PlanOptions>,
) -> bool {
    options.is_some_and(|options| options.report)
        || !snapshot.is_some_and(|snapshot| snapshot.replica_sets_complete)
}

// === impl Message for LazyRequest ===

const SNAPSHOT: u32 = 1;
const PODS: u32 = 4;

impl Message for LazyRequest {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        if let Some(snapshot) = &self.snapshot {
            encoding::message::encode(SNAPSHOT, snapshot, buf);
        }
        self.message.encode_raw(buf);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        match tag {
            SNAPSHOT => {
                let snapshot = self.snapshot.get_or_insert_default();
                encoding::message::merge(wire_type, snapshot, buf, ctx)
            }
            _ => self.message.merge_field(tag, wire_type, buf, ctx),
        }
    }

    fn encoded_len(&self) -> usize {
        let snapshot = self.snapshot.as_ref();
        let snapshot = snapshot.map_or(0, |it| encoding::message::encoded_len(SNAPSHOT, it));
        snapshot + self.message.encoded_len()
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Message for LazySnapshot {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        self.message.encode_raw(buf);
        encoding::bytes::encode_repeated(PODS, &self.pods, buf);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        if tag != PODS {
            return self.message.merge_field(tag, wire_type, buf, ctx);
        }
        let mut pod = Bytes::new();
        encoding::bytes::merge(wire_type, &mut pod, buf, ctx)?;
        self.pods.push(pod);
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        self.message.encoded_len() + encoding::bytes::encoded_len_repeated(PODS, &self.pods)
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}
