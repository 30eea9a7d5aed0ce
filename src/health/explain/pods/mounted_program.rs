//! Whether a volume may provide the program or the working directory of a container.
//!
//! Another container of the pod, or another pod, may put a program on a volume while the container fails to start. Then it
//! starts without a change, so its failure is not certain.

use rollplan_core::snapshot::Container;

use crate::explain::template;
use crate::messages::{Message, Persistence};
use crate::observe::context::PodContext;

/// The directories in which runtimes look for programs if the image does not set PATH.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Directories for added software. An image may add a directory below one of them to PATH, and so may one that is named bin.
const SOFTWARE: [&str; 5] = ["opt", "usr", "app", "home", "root"];
/// Directories of data, which programs do not use as their working directory.
const DATA: [&str; 7] = ["dev", "etc", "proc", "run", "sys", "tmp", "var"];

impl PodContext<'_> {
    /// Whether a message about a container proves that its failure persists.
    pub(crate) fn is_certain(&self, message: &Message, container: Option<&Container>) -> bool {
        match message.persistence() {
            Persistence::UnlessOnVolume => self.volume_of(message, container).is_none(),
            persistence => matches!(persistence, Persistence::Definite | Persistence::Missing),
        }
    }

    /// The path of the volume that may provide the file that a message names. Empty if the container is not known.
    pub(super) fn volume_of(
        &self,
        message: &Message,
        container: Option<&Container>,
    ) -> Option<String> {
        let Some(container) = container else {
            return Some(String::new());
        };
        let template = self.template;
        let template =
            template.and_then(|it| template::container(it, &container.name, container.init));
        let own = container.mounts.iter().map(String::as_str);
        let mut mounts = own.chain(template.into_iter().flat_map(template::mounts));
        let file = message.hole("file").unwrap_or_default();
        let provides = |mount: &str| {
            if file.starts_with('/') {
                return is_below(file, mount);
            }
            if !file.contains('/') {
                return match template.and_then(template::search_path) {
                    Some(path) => path.split(':').any(|it| is_below(it, mount)),
                    None => {
                        SEARCH_PATH.split(':').any(|it| is_below(it, mount))
                            || names(mount).any(|name| matches!(name, "bin" | "sbin"))
                            || names(mount).next().is_some_and(|it| SOFTWARE.contains(&it))
                    }
                };
            }
            match template.and_then(template::working_directory) {
                Some(directory) => is_below(&format!("{directory}/{file}"), mount),
                None => names(mount).next().is_none_or(|it| !DATA.contains(&it)),
            }
        };
        mounts.find(|mount| provides(mount)).map(str::to_owned)
    }
}

/// Whether a path is that of a volume or below it.
fn is_below(path: &str, mount: &str) -> bool {
    let mut path = names(path);
    // A path that leaves a directory again may be anywhere.
    path.clone().any(|name| name == "..") || names(mount).all(|name| path.next() == Some(name))
}

fn names(path: &str) -> impl Iterator<Item = &str> + Clone {
    path.split('/').filter(|name| !matches!(*name, "" | "."))
}

#[cfg(test)]
mod tests {
    use super::is_below;

    #[test]
    fn paths_are_compared_by_their_names() {
        for (path, mount, expected) in [
            ("/opt/tools/run", "/opt/tools", true),
            ("/opt/tools/run", "/opt/tools/", true),
            ("/opt/tools", "/opt/tools", true),
            ("/opt//./tools/run", "/opt/tools", true),
            ("/opt/toolset/run", "/opt/tools", false),
            ("/opt", "/opt/tools", false),
            ("/opt/x/../tools/run", "/srv", true),
            ("/bin/sh", "/", true),
        ] {
            assert_eq!(is_below(path, mount), expected, "{path} {mount}");
        }
    }
}
