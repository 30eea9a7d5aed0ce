//! Changes of pod templates, and their effect: kubectl makes a dry run of a manifest or of new images.

use std::fmt::Display;
use std::path::PathBuf;

use clap::Args;

use crate::cli::cluster::{PROCESS_TIMEOUT, SOURCE};
use crate::cli::error::Error;
use crate::cli::input::{self, Objects, Source, Texts, Wanted};
use crate::cli::kubectl::Kubectl;
use crate::cli::options::ClusterArgs;
use crate::cli::stderr;
use crate::cli::target::{self, Target, is_name};

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
        manager: Option<&str>,
    ) -> Result<Option<(String, Target)>, Error> {
        if self.files.is_empty() {
            return Ok(None);
        }
        let named = named.map(|target| Wanted::in_files(target.clone(), None));
        let files = self.file_names()?;
        let printed = Kubectl::new(cluster).apply_dry_run(&files, manager, PROCESS_TIMEOUT)?;
        let (json, target) = find(printed, named.or(wanted).as_ref())?;
        cluster.namespace.clone_from(&target.namespace);
        Ok(Some((json, target)))
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
        Ok(find(printed, None)?.0)
    }

    /// The files as arguments of kubectl.
    fn file_names(&self) -> Result<Vec<String>, Error> {
        let names = self.files.iter().map(|file| match file.to_str() {
            Some(name) => Ok(name.to_owned()),
            None => Err(Error::Usage(format!("{}: not UTF-8", file.display()))),
        });
        names.collect()
    }
}

/// The Deployment in what kubectl printed.
fn find(printed: Vec<u8>, wanted: Option<&Wanted>) -> Result<(String, Target), Error> {
    let printed = [Source::new(SOURCE, printed)?];
    let texts = Texts::read(&printed)?;
    let mut note = |note: &dyn Display| stderr::eprint_note(note);
    input::manifest(&Objects::find(&texts)?, wanted, &mut note)
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
