//! Reads a whole Deployment as it is after a change.

use rollplan_core::snapshot::Deployment;

use super::error::{Error, Reason, Violations};
use super::objects::{ContentReader, Found, Objects};
use super::parse::{Needed, Parser, Path, deployment_template};

/// Reads a Deployment as it is after a change.
pub(super) struct ManifestReader<'r, 'i> {
    pub(super) parser: &'r mut Parser<'i>,
    pub(super) contents: &'r mut ContentReader<'i>,
    /// The Deployment of the snapshot, if it could be read.
    pub(super) current: Option<&'r Deployment>,
}

// === impl ManifestReader ===

impl<'i> ManifestReader<'_, 'i> {
    /// `None` after a violation.
    pub(super) fn read(
        &mut self,
        text: &'i str,
        path: &Path<'_>,
    ) -> Result<Option<Deployment>, Error> {
        let place = path.to_string();
        let mut violations = Violations::default();
        let objects = Objects::find_in(&place, text, &mut violations, self.parser.interrupt)?;
        let is_readable = violations.is_empty();
        self.parser.violations.extend(violations);
        let Objects { found, .. } = objects;
        let [object] = &found[..] else {
            if is_readable {
                let description = format_args!("has {} objects, and must be one", found.len());
                self.parser.violation(path, Reason::WrongType, description);
            }
            return Ok(None);
        };
        let violations = &mut self.parser.violations;
        let Some(content) = self.contents.content(object, violations)? else {
            return Ok(None);
        };
        let template = deployment_template(&content)?;
        let origin = object.origin();
        let path = Path::Object(&origin);
        let (deployment, _) =
            self.parser
                .deployment(object, content, &template, Needed::MANIFEST, &path);
        self.check_identity(object, &deployment, &path);
        Ok(Some(deployment))
    }

    /// Checks that it is the Deployment of the snapshot.
    fn check_identity(&mut self, object: &Found<'_>, changed: &Deployment, path: &Path<'_>) {
        let Some(current) = self.current else {
            return;
        };
        let metadata_path = path.field("metadata");
        let (before, after) = (&current.metadata, &changed.metadata);
        let mut check = |is_same: bool, path: &Path<'_>, value: &str, expected: &str| {
            if !is_same {
                let description =
                    format_args!("is {value:?}, and must be {expected:?}, as in the snapshot");
                self.parser.violation(path, Reason::NotFound, description);
            }
        };
        let (version, kind) = (&object.api_version, &object.kind);
        let path_of = |name| path.field(name);
        check(
            **version == current.api_version,
            &path_of("api_version"),
            version,
            &current.api_version,
        );
        check(
            **kind == current.kind,
            &path_of("kind"),
            kind,
            &current.kind,
        );
        check(
            after.name == before.name,
            &metadata_path.field("name"),
            &after.name,
            &before.name,
        );
        check(
            after.namespace.is_empty() || after.namespace == before.namespace,
            &metadata_path.field("namespace"),
            &after.namespace,
            &before.namespace,
        );
    }
}
