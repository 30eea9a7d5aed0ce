//! Validates and compares pod templates without decoding them.

use rollplan_core::template::{Template, Value, equal};

use super::path::Path;
use super::raw_template::RawTemplate;
use super::{Owner, Parser};
use crate::read::kubernetes::TemplateJson;
use crate::tree::Tape;

impl Parser<'_> {
    /// Reads a template. Reading is faster with the tape of a similar template as a baseline.
    pub(super) fn tape<'r>(
        &mut self,
        raw: &'r RawTemplate,
        baseline: Option<&'r Tape<'r>>,
        path: &Path<'_>,
    ) -> Option<Tape<'r>> {
        match raw.tape(baseline) {
            Ok(tape) => Some(tape),
            Err(fault) => {
                let inside = fault.path();
                self.violation(&path.text(&inside), fault.reason, fault.description);
                None
            }
        }
    }

    /// A template that is not compared with others.
    pub(crate) fn template(&mut self, text: TemplateJson<'_>, path: &Path<'_>) -> Template {
        let raw = RawTemplate::new(text);
        _ = self.tape(&raw, None, path);
        Template::new(raw)
    }

    /// The template of a ReplicaSet. It is compared with the Deployment's here, where the tapes of both are available.
    pub(super) fn set_template(
        &mut self,
        raw: RawTemplate,
        owner: &Owner<'_>,
        path: &Path<'_>,
    ) -> Template {
        let own = owner.template.as_ref();
        let tape = self.tape(&raw, own, path);
        let same = own
            .zip(tape)
            .map(|(own, tape)| equal(own.root(), tape.root()));
        match same {
            Some(same) => Template::compared(raw, &owner.deployment.spec.template, same),
            None => Template::new(raw),
        }
    }

    /// The placeholder for a missing template.
    pub(super) fn no_template() -> Template {
        Template::from(Value::Null)
    }
}
