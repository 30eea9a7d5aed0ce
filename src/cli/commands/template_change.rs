//! Changes of pod templates, and their effect: kubectl makes a dry run of a manifest or of new images.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::PathBuf;
use std::slice;

use clap::Args;
use rollplan_core::reference::{ConfigurationKind, references};
use rollplan_core::template::Value;
use serde_json::Value as Json;

use super::restart_entries::has_same_entries;
use super::restart_objects::pod_template;
use crate::cli::cluster::{PROCESS_TIMEOUT, SOURCE};
use crate::cli::error::Error;
use crate::cli::input::{self, Objects, Source, Texts, Wanted};
use crate::cli::kubectl::Kubectl;
use crate::cli::options::ClusterArgs;
use crate::cli::stderr;
use crate::cli::target::{self, Target, is_name};

/// Options of `kubectl apply`.
const SERVER_SIDE: &str = "--server-side";
const FORCE_CONFLICTS: &str = "--force-conflicts";

/// How `kubectl apply` applies a manifest.
#[derive(Args, Debug, Default)]
pub(super) struct ApplyArgs {
    /// The manifest is applied with kubectl apply --server-side
    #[arg(long, requires = "files")]
    server_side: bool,
    /// The manifest is applied with kubectl apply --field-manager=NAME
    #[arg(long, value_name = "NAME", requires = "files")]
    field_manager: Option<String>,
    /// The manifest is applied with kubectl apply --server-side --force-conflicts
    #[arg(long, requires = "server_side")]
    force_conflicts: bool,
}

/// Manifests in files, and how they are applied.
#[derive(Debug)]
pub(super) struct Manifests {
    files: Vec<String>,
    options: Vec<String>,
}

/// What kubectl prints for a dry run.
pub(super) struct DryRun {
    /// The JSON of the Deployment.
    pub(super) deployment: String,
    pub(super) target: Target,
    /// All objects, perhaps with the values of Secrets.
    printed: Source,
}

#[derive(Args, Debug)]
pub(super) struct TemplateArgs {
    /// File with the changed Deployment, or - for standard input; may be repeated
    ///
    /// The change is what kubectl apply --dry-run=server returns for the file: the API server knows the defaults, admission
    /// webhooks and the fields of other owners.
    #[arg(
        short,
        long = "filename",
        value_name = "FILE",
        conflicts_with = "images"
    )]
    pub(super) files: Vec<PathBuf>,
    /// New image of a container, for example app=registry.example/web:2; may be repeated
    #[arg(long = "image", value_name = "CONTAINER=IMAGE", value_parser = image)]
    pub(super) images: Vec<String>,
}

// === impl TemplateArgs ===

impl TemplateArgs {
    /// The Deployment that the arguments name. `None` if only the files do.
    pub(super) fn named(&self, words: &[String], missing: &str) -> Result<Option<Target>, Error> {
        let named = target::parse_deployment(words).map_err(Error::Usage)?;
        match named {
            None if self.files.is_empty() => Err(Error::Usage(missing.to_owned())),
            named => Ok(named),
        }
    }

    /// The Deployment of the files after it would have been applied, if there are files. The namespace is then its own.
    pub(super) fn apply(
        &self,
        cluster: &mut ClusterArgs,
        named: Option<&Target>,
        wanted: Option<Wanted>,
        apply: &ApplyArgs,
    ) -> Result<Option<DryRun>, Error> {
        let Some(manifests) = Manifests::new(&self.files, apply)? else {
            return Ok(None);
        };
        let named = named.map(|target| Wanted::in_files(target.clone(), None));
        let dry_run = manifests.dry_run(cluster, named.or(wanted).as_ref())?;
        cluster.namespace.clone_from(&dry_run.target.namespace);
        Ok(Some(dry_run))
    }

    /// The Deployment after its containers would have got the images.
    pub(super) fn set_images(
        &self,
        cluster: &ClusterArgs,
        target: &Target,
        manager: Option<&str>,
    ) -> Result<String, Error> {
        let kubectl = Kubectl::new(cluster);
        let mut printed =
            kubectl.set_image_dry_run(target, &self.images, manager, PROCESS_TIMEOUT)?;
        // kubectl prints nothing if the containers have these images already.
        if printed.trim_ascii().is_empty() {
            printed = kubectl.get(target, PROCESS_TIMEOUT)?;
        }
        Ok(find(printed, None)?.deployment)
    }
}

/// Whether server-side apply failed only because of fields that a canary owns until it ends: the message names each
/// manager (`NewConflictError` in k8s.io/apimachinery/pkg/util/managedfields).
fn conflicts_only_with_canary(error: &str) -> bool {
    let named = |manager: &str| error.matches(&format!("with \"{manager}")).count();
    let canary = named("rollplan-canary\"");
    canary > 0 && canary == named("")
}

// === impl ApplyArgs ===

impl ApplyArgs {
    /// The options of kubectl.
    fn options(&self) -> Vec<String> {
        let Self {
            server_side,
            field_manager,
            force_conflicts,
        } = self;
        let mut options = Vec::new();
        options.extend(server_side.then(|| SERVER_SIDE.to_owned()));
        options.extend(
            field_manager
                .as_ref()
                .map(|it| format!("--field-manager={it}")),
        );
        options.extend(force_conflicts.then(|| FORCE_CONFLICTS.to_owned()));
        options
    }
}

// === impl Manifests ===

impl Manifests {
    /// `None` without files.
    pub(super) fn new(files: &[PathBuf], apply: &ApplyArgs) -> Result<Option<Self>, Error> {
        let names = files.iter().map(|file| match file.to_str() {
            Some(name) => Ok(name.to_owned()),
            None => Err(Error::Usage(format!("{}: not UTF-8", file.display()))),
        });
        let files: Vec<String> = names.collect::<Result<_, _>>()?;
        let options = apply.options();
        Ok((!files.is_empty()).then_some(Self { files, options }))
    }

    /// The Deployment after the manifests would have been applied.
    pub(super) fn dry_run(
        &self,
        cluster: &ClusterArgs,
        wanted: Option<&Wanted>,
    ) -> Result<DryRun, Error> {
        let kubectl = Kubectl::new(cluster);
        let Self { files, options } = self;
        let printed = match kubectl.apply_dry_run(files, options, PROCESS_TIMEOUT) {
            Err(failure) if conflicts_only_with_canary(&failure.to_string()) => {
                let forced = [&options[..], &[FORCE_CONFLICTS.to_owned()]].concat();
                kubectl.apply_dry_run(files, &forced, PROCESS_TIMEOUT)?
            }
            printed => printed?,
        };
        find(printed, wanted)
    }

    /// Applies the manifests. Returns what kubectl prints.
    pub(super) fn apply(&self, cluster: &ClusterArgs) -> Result<Vec<u8>, Error> {
        let Self { files, options } = self;
        Ok(Kubectl::new(cluster).apply(files, options, PROCESS_TIMEOUT)?)
    }
}

// === impl DryRun ===

impl DryRun {
    /// The ConfigMaps and Secrets that the pod template uses and the manifests change, for example `configmap/web`. None that
    /// cannot be read: a caller that may apply manifests need not be allowed to read Secrets.
    pub(super) fn changed_configurations(
        &self,
        cluster: &ClusterArgs,
    ) -> Result<Vec<String>, Error> {
        let read = |name: &str| {
            let printed = Kubectl::new(cluster).get_if_exists(name, PROCESS_TIMEOUT);
            serde_json::from_slice::<Json>(&printed.ok()?).ok()
        };
        let all = self.configurations()?.into_iter();
        let changed = all.filter_map(|changed| {
            let kind = changed["kind"].as_str()?.to_lowercase();
            let name = format!("{kind}/{}", changed["metadata"]["name"].as_str()?);
            (!has_same_entries(&read(&name)?, &changed)).then_some(name)
        });
        Ok(changed.collect())
    }

    /// The ConfigMaps and Secrets of the manifests that the pod template uses.
    fn configurations(&self) -> Result<Vec<Json>, Error> {
        let deployment = serde_json::from_str(&self.deployment).unwrap_or(Json::Null);
        let Some(template) = pod_template(&deployment) else {
            return Ok(Vec::new());
        };
        let used = references(&Value::from(&template)).into_iter();
        let used: BTreeSet<(&str, String)> = used
            .filter(|it| it.kind != ConfigurationKind::SecretProviderClass)
            .map(|it| (it.kind.as_str(), it.name))
            .collect();
        let namespace = &deployment["metadata"]["namespace"];
        let texts = Texts::read(slice::from_ref(&self.printed))?;
        let objects = Objects::find(&texts)?;
        let all = objects.texts();
        let all = all.filter_map(|(_, text)| serde_json::from_str::<Json>(&text).ok());
        let used = all.filter(|it| {
            let id = it["kind"].as_str().zip(it["metadata"]["name"].as_str());
            &it["metadata"]["namespace"] == namespace
                && id.is_some_and(|(kind, name)| used.contains(&(kind, name.to_owned())))
        });
        Ok(used.collect())
    }
}

/// The Deployment in what kubectl printed.
fn find(printed: Vec<u8>, wanted: Option<&Wanted>) -> Result<DryRun, Error> {
    let printed = Source::new(SOURCE, printed)?;
    let texts = Texts::read(slice::from_ref(&printed))?;
    let mut note = |note: &dyn Display| stderr::eprint_note(note);
    let (deployment, target) = input::manifest(&Objects::find(&texts)?, wanted, &mut note)?;
    Ok(DryRun {
        deployment,
        target,
        printed,
    })
}

/// Parses CONTAINER=IMAGE. The container * means all containers, as for kubectl set image.
fn image(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((container, image))
            if (container == "*" || is_name(container)) && !image.is_empty() =>
        {
            Ok(text.to_owned())
        }
        _ => Err("must be CONTAINER=IMAGE, for example app=registry.example/web:2".to_owned()),
    }
}
