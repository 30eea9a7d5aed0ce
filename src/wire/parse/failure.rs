//! What was refused when the last plan was carried out.

use rollplan_core::action::{ApiCall, Verb};
use rollplan_core::snapshot::StepFailure;

use super::path::Path;
use super::{Owner, Parser};
use crate::proto;
use crate::wire::error::Reason;

impl Parser<'_> {
    pub(super) fn failures(
        &mut self,
        failures: Vec<proto::StepFailure>,
        owner: &Owner<'_>,
        path: &Path<'_>,
    ) -> Vec<StepFailure> {
        let interrupt = self.interrupt;
        failures
            .into_iter()
            .enumerate()
            .take_while(|_| !interrupt.is_interrupted())
            .map(|(index, failure)| self.failure(failure, owner, &path.index(index)))
            .collect()
    }

    fn failure(
        &mut self,
        failure: proto::StepFailure,
        owner: &Owner<'_>,
        path: &Path<'_>,
    ) -> StepFailure {
        let proto::StepFailure {
            call,
            http_code,
            reason,
            message,
            causes,
            existing,
        } = failure;
        let call_path = path.field("call");
        let call = self.required(call, &call_path);
        let call = self.call(call, &call_path);
        if !(400..=599).contains(&http_code) {
            let description = format_args!("is {http_code}, and must be 400 to 599");
            self.violation(&path.field("http_code"), Reason::OutOfRange, description);
        }
        let existing_path = path.field("existing");
        StepFailure {
            call,
            http_code,
            reason,
            message,
            causes,
            existing: existing.and_then(|set| self.existing(set, owner, &existing_path)),
        }
    }

    /// The call as a plan gave it. An absent one has been noted.
    fn call(&mut self, call: Option<proto::ApiCall>, path: &Path<'_>) -> ApiCall {
        let given = call.is_some();
        let proto::ApiCall {
            verb,
            api_version,
            kind,
            namespace,
            name,
            subresource,
            content_type,
            body_json,
        } = call.unwrap_or_default();
        let verb_path = path.field("verb");
        let verb = match proto::Verb::try_from(verb) {
            Ok(proto::Verb::Create) => Verb::Create,
            Ok(proto::Verb::Patch) => Verb::Patch,
            Ok(proto::Verb::Delete) => Verb::Delete,
            Ok(proto::Verb::Unspecified) => {
                if given {
                    self.violation(&verb_path, Reason::Required, "is required");
                }
                Verb::Create
            }
            Err(_) => {
                let description = format_args!("there is no verb {verb}");
                self.violation(&verb_path, Reason::UnknownEnumValue, description);
                Verb::Create
            }
        };
        ApiCall {
            verb,
            api_version,
            kind,
            namespace,
            name,
            subresource,
            content_type,
            body_json,
        }
    }
}
