//! A control group with a memory limit, of version 1 or 2. Takes root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Removed when dropped, which its processes must not outlive.
pub(crate) struct Cgroup {
    dir: PathBuf,
    is_v2: bool,
}

impl Cgroup {
    pub(crate) fn new(bytes: u64) -> Self {
        let mount = Path::new("/sys/fs/cgroup");
        let is_v2 = mount.join("cgroup.controllers").exists();
        let parent = match is_v2 {
            true => mount.to_path_buf(),
            false => mount.join("memory"),
        };
        let dir = parent.join(format!(
            "rollplan-test-{}-{}",
            std::process::id(),
            bytes >> 20
        ));
        fs::create_dir(&dir).expect("control groups can be made by root only");
        let cgroup = Self { dir, is_v2 };
        if is_v2 {
            // Already so on most machines.
            let _ = fs::write(parent.join("cgroup.subtree_control"), "+memory");
            cgroup.write("memory.max", bytes);
            cgroup.write("memory.swap.max", 0);
        } else {
            cgroup.write("memory.limit_in_bytes", bytes);
        }
        cgroup
    }

    fn write(&self, file: &str, value: u64) {
        let path = self.dir.join(file);
        fs::write(&path, value.to_string()).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    }

    /// A program that is in the group before it runs.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]);
        command.arg(self.dir.join("cgroup.procs")).arg(program);
        command
    }

    /// The most memory that its processes took.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let file = match self.is_v2 {
            true => "memory.peak",
            false => "memory.max_usage_in_bytes",
        };
        let text = fs::read_to_string(self.dir.join(file)).unwrap();
        text.trim().parse().unwrap()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.dir);
    }
}
