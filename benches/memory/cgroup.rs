//! A control group with a memory limit, of version 1 or 2. Requires root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Removes the control group when dropped. All of its processes must have exited by then.
pub(crate) struct Cgroup {
    dir: PathBuf,
    is_v2: bool,
}

impl Cgroup {
    pub(crate) fn new(bytes: u64) -> Self {
        let mount = Path::new("/sys/fs/cgroup");
        let is_v2 = mount.join("cgroup.controllers").exists();
        let parent = if is_v2 {
            mount.to_path_buf()
        } else {
            mount.join("memory")
        };
        let dir = parent.join(format!(
            "rollplan-test-{}-{}",
            std::process::id(),
            bytes >> 20
        ));
        fs::create_dir(&dir).expect("only root can create control groups");
        let cgroup = Self { dir, is_v2 };
        if is_v2 {
            // Most machines have this setting already.
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

    /// Returns a command that enters the group before it starts the program.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]);
        command.arg(self.dir.join("cgroup.procs")).arg(program);
        command
    }

    /// Returns the peak memory usage of the group.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let file = if self.is_v2 {
            "memory.peak"
        } else {
            "memory.max_usage_in_bytes"
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
