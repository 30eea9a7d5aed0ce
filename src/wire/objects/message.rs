//! The messages of selected objects.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use prost::{Message, Name};
use rollplan_core::interrupt::Interrupt;
use rollplan_core::snapshot::Pod;

use super::found::{Found, Metadata};
use super::key::DUPLICATE_KEY;
use super::lean_pod::read_lean_pod;
use super::name_only::name_only;
use super::scan::{path_in_text, scan};
use super::transcode::{Fault, Transcoded, Transcoder};
use super::{Object, Reader};
use crate::proto;
use crate::proto::RawStruct;
use crate::wire::error::{Error, Reason, Violations};
use crate::wire::estimate::{self, OBJECT_BYTES_MAX};
use crate::wire::origin::Origin;
use crate::wire::parse::lean_pod::lean_pod_memory;
use crate::wire::parse::path::JsonName;

/// Reads a text with exactly one ReplicaSet, and only whose it is if it is not the caller's. The path of an error is relative
/// to the text.
pub(in crate::wire) fn read_replica_set(
    text: &[u8],
    is_own: impl FnOnce(&Metadata<'_>) -> bool,
    interrupt: &dyn Interrupt,
) -> Result<proto::ReplicaSet, Fault> {
    let fault = |reason, description: String| Fault {
        path: String::new(),
        reason,
        description,
    };
    let mut found = Vec::new();
    let mut violations = Violations::default();
    scan(0, text, &mut found, &mut violations)
        .map_err(|error| fault(Reason::ObjectTooLarge, error.to_string()))?;
    if let Some(first) = violations.listed.into_iter().next() {
        return Err(Fault {
            path: path_in_text(&first.field).to_owned(),
            reason: first.reason,
            description: first.description,
        });
    }
    let [object] = found.as_slice() else {
        let description = format!("must be one ReplicaSet, and has {} objects", found.len());
        return Err(fault(Reason::WrongKind, description));
    };
    if (&*object.api_version, &*object.kind) != ("apps/v1", "ReplicaSet") {
        let description = format!(
            "must be an apps/v1 ReplicaSet, and is {} {}",
            object.api_version, object.kind
        );
        return Err(fault(Reason::WrongKind, description));
    }
    let metadata = object.metadata();
    if object.field("metadata").is_some() && !is_own(&metadata) {
        return Ok(name_only(object, &metadata, &HashSet::new()));
    }
    match message_of::<proto::ReplicaSet>(object, false, interrupt) {
        Ok(Read { mut message, .. }) => {
            mark_template(&mut message);
            Ok(message)
        }
        Err(Unread::Faults(faults)) => Err(faults
            .into_iter()
            .next()
            .unwrap_or_else(|| fault(Reason::MalformedJson, "cannot be read".to_owned()))),
        Err(Unread::Error(error)) => Err(fault(Reason::ObjectTooLarge, error.to_string())),
    }
}

/// Reads the text of a pod template. The path of an error is relative to it.
pub(in crate::wire) fn read_template(text: &str) -> Result<RawStruct, Fault> {
    let bytes = Transcoder::default().message_of_field(
        &proto::ReplicaSetSpec::full_name(),
        "template",
        text,
    )?;
    let spec = proto::ReplicaSetSpec::decode(Bytes::from(bytes)).unwrap_or_default();
    let mut template = spec.template.unwrap_or_default();
    template.mark_as_json();
    Ok(template)
}

impl Reader<'_> {
    /// The messages of selected objects, and where these come from.
    pub(super) fn messages<M: Message + Name + Default>(
        &mut self,
        objects: &[Object<'_, '_>],
        messages: &mut Vec<M>,
        origins: &mut Vec<Origin>,
    ) -> Result<(), Error> {
        messages.reserve(objects.len());
        origins.reserve(objects.len());
        for object in objects {
            self.interrupt.check()?;
            if let Some((message, origin)) = self.message(object)? {
                messages.push(message);
                origins.push(origin);
            }
        }
        Ok(())
    }

    /// What decides a plan of selected pods, and where these come from. Whether it is that of all: if anything about one of
    /// them is unusual, it is left to [`messages`](Self::messages).
    pub(super) fn lean_pods(
        &mut self,
        objects: &[Object<'_, '_>],
        pods: &mut Vec<Pod>,
        origins: &mut Vec<Origin>,
    ) -> Result<bool, Error> {
        let before = self.memory;
        for (object, metadata) in objects {
            self.interrupt.check()?;
            let Some((pod, bytes)) = read_lean_pod(object) else {
                pods.clear();
                origins.clear();
                self.memory = before;
                return Ok(false);
            };
            self.take_memory(lean_pod_memory(bytes))?;
            pods.push(pod);
            origins.push(object.origin(metadata));
        }
        Ok(true)
    }

    /// The message of an object, and where this comes from. `None` after a violation.
    pub(super) fn message<M: Message + Name + Default>(
        &mut self,
        (object, metadata): Object<'_, '_>,
    ) -> Result<Option<(M, Origin)>, Error> {
        match message_of(object, true, self.interrupt) {
            Ok(Read {
                message,
                template,
                memory,
            }) => {
                self.take_memory(memory)?;
                let mut origin = object.origin(metadata);
                origin.template = template.map(Arc::from);
                Ok(Some((message, origin)))
            }
            Err(Unread::Faults(faults)) => {
                let origin = object.origin(metadata);
                for fault in faults {
                    let field = format!("{origin}{}", fault.path);
                    let description = format!("{} ({})", fault.description, origin.object);
                    self.violations.add(field, fault.reason, description);
                }
                Ok(None)
            }
            Err(Unread::Error(error)) => Err(error),
        }
    }

    pub(super) fn take_memory(&mut self, bytes: usize) -> Result<(), Error> {
        self.memory = self.memory.saturating_add(bytes);
        estimate::check_memory(self.memory)
    }
}

/// Why an object has no message.
enum Unread {
    /// What is wrong with the object.
    Faults(Vec<Fault>),
    /// What ends the whole request.
    Error(Error),
}

/// Refuses an object that has a key twice, whether or not anything reads it.
pub(in crate::wire) fn check_keys(object: &Found<'_>) -> Result<(), Fault> {
    match &object.duplicate_key {
        None => Ok(()),
        Some(key) => Err(Fault {
            path: format!("[{key:?}]"),
            reason: Reason::DuplicateKey,
            description: DUPLICATE_KEY.to_owned(),
        }),
    }
}

/// An object that was read.
struct Read<'a, M> {
    message: M,
    /// The text of its pod template, if this is not in the message.
    template: Option<&'a str>,
    /// The bytes that both take in memory.
    memory: usize,
}

/// No value takes more bytes in protobuf than so many times those of its JSON: of numbers below ten, it is five and a half.
const PROTOBUF_GROWTH: usize = 8;

/// A text that is kept takes its bytes once, and again while its values are compared.
const TEMPLATE_MEMORY: usize = 2;

/// The message of an object. Its pod template may stay the text that it is, for which the message has no place.
fn message_of<'a, M: Message + Name + Default>(
    object: &Found<'a>,
    keeps_template: bool,
    interrupt: &dyn Interrupt,
) -> Result<Read<'a, M>, Unread> {
    check_keys(object).map_err(|fault| Unread::Faults(vec![fault]))?;
    let name = M::full_name();
    let Transcoded { bytes, template } = Transcoder::new(keeps_template)
        .message(&name, &object.api_version, &object.kind, object.fields())
        .map_err(|fault| Unread::Faults(vec![fault]))?;
    let text = template.map_or(0, str::len);
    if text > 0 && bytes.len() + text.saturating_mul(PROTOBUF_GROWTH) > OBJECT_BYTES_MAX {
        // As a message, it may be too large.
        return message_of(object, false, interrupt);
    }
    if bytes.len() > OBJECT_BYTES_MAX {
        return Err(Unread::Faults(vec![Fault {
            path: String::new(),
            reason: Reason::ObjectTooLarge,
            description: format!(
                "{} bytes exceed the limit of {OBJECT_BYTES_MAX} for an object",
                bytes.len()
            ),
        }]));
    }
    let estimate =
        estimate::estimate_named(&name, &bytes, interrupt).map_err(|error| match error {
            Error::InvalidArgument(inside) => Unread::Faults(
                inside
                    .listed
                    .into_iter()
                    .map(|violation| Fault {
                        path: format!(".{}", JsonName(&violation.field)),
                        reason: violation.reason,
                        description: violation.description,
                    })
                    .collect(),
            ),
            error => Unread::Error(error),
        })?;
    let memory = estimate.memory + bytes.len() + size_of::<M>() + text * TEMPLATE_MEMORY;
    match M::decode(Bytes::from(bytes)) {
        Ok(message) => Ok(Read {
            message,
            template,
            memory,
        }),
        Err(source) => Err(Unread::Error(Error::Undecodable {
            message: M::NAME,
            source,
        })),
    }
}

/// Its integers are exact, other than those of a Struct from elsewhere.
pub(super) fn mark_template(set: &mut proto::ReplicaSet) {
    let template = set.spec.as_mut().and_then(|spec| spec.template.as_mut());
    if let Some(template) = template {
        template.mark_as_json();
    }
}
