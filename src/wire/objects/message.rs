//! The messages of selected objects.

use bytes::Bytes;
use prost::{Message, Name};
use rollplan_core::interrupt::Interrupt;

use super::found::Found;
use super::key::DUPLICATE_KEY;
use super::scan::{path_in_text, scan};
use super::transcode::{Fault, Transcoder};
use super::{Object, Reader};
use crate::proto;
use crate::wire::error::{Error, Reason, Violations};
use crate::wire::estimate::{self, OBJECT_BYTES_MAX};
use crate::wire::origin::Origin;

/// Reads a text with exactly one ReplicaSet. The path of an error is relative to the text.
pub(in crate::wire) fn read_replica_set(
    text: &[u8],
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
    match message_of::<proto::ReplicaSet>(object, interrupt) {
        Ok((mut set, _)) => {
            mark_template(&mut set);
            Ok(set)
        }
        Err(Unread::Faults(faults)) => Err(faults
            .into_iter()
            .next()
            .unwrap_or_else(|| fault(Reason::MalformedJson, "cannot be read".to_owned()))),
        Err(Unread::Error(error)) => Err(fault(Reason::ObjectTooLarge, error.to_string())),
    }
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
            if let Some(message) = self.message(object)? {
                messages.push(message);
                origins.push(object.0.origin(&object.1));
            }
        }
        Ok(())
    }

    /// The message of an object. `None` after a violation.
    pub(super) fn message<M: Message + Name + Default>(
        &mut self,
        (object, metadata): Object<'_, '_>,
    ) -> Result<Option<M>, Error> {
        match message_of(object, self.interrupt) {
            Ok((message, memory)) => {
                self.take_memory(memory)?;
                Ok(Some(message))
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

/// The message of an object, and the bytes that it takes in memory.
fn message_of<M: Message + Name + Default>(
    object: &Found<'_>,
    interrupt: &dyn Interrupt,
) -> Result<(M, usize), Unread> {
    check_keys(object).map_err(|fault| Unread::Faults(vec![fault]))?;
    let name = M::full_name();
    let bytes = Transcoder::default()
        .message(&name, &object.api_version, &object.kind, object.fields())
        .map_err(|fault| Unread::Faults(vec![fault]))?;
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
                        path: format!(".{}", violation.field),
                        reason: violation.reason,
                        description: violation.description,
                    })
                    .collect(),
            ),
            error => Unread::Error(error),
        })?;
    let memory = estimate.memory + bytes.len() + size_of::<M>();
    match M::decode(Bytes::from(bytes)) {
        Ok(message) => Ok((message, memory)),
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
