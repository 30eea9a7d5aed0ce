//! The memory limit of the process: the smallest limit of its control groups, as set for a container.

use std::fs;
use std::path::Path;

/// The limit in bytes. `None` without a limit or without control groups.
pub(crate) fn memory_limit() -> Option<u64> {
    read(Path::new("/proc/self/cgroup"), Path::new("/sys/fs/cgroup"))
}

/// The default budget in MiB for requests, large plans and answers under this limit. The rest is for the program, its
/// connections, and freed memory that the allocator keeps for a while.
pub(crate) fn buffer_mib_max(limit: Option<u64>) -> usize {
    const MIB: u64 = 1 << 20;
    let for_calls = limit.map_or(u64::MAX, |limit| (limit / MIB).saturating_sub(64) / 2);
    usize::try_from(for_calls)
        .unwrap_or(usize::MAX)
        .clamp(32, 512)
}

fn read(groups: &Path, mount: &Path) -> Option<u64> {
    let groups = fs::read_to_string(groups).ok()?;
    groups.lines().filter_map(|line| group(line, mount)).min()
}

/// The limit according to one line of `/proc/self/cgroup`: number, controllers and path.
fn group(line: &str, mount: &Path) -> Option<u64> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let (mount, file) = match controllers {
        // Version 2 has a single hierarchy without a name.
        "" => (mount.to_path_buf(), "memory.max"),
        named if named.split(',').any(|it| it == "memory") => {
            (mount.join("memory"), "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let own = mount.join(path.trim_start_matches('/'));
    // The limits of all ancestors apply, too. Inside a container, the path may be that of the host, where only the root
    // exists.
    let above = own.ancestors().take_while(|it| it.starts_with(&mount));
    above.filter_map(|group| limit(&group.join(file))).min()
}

fn limit(file: &Path) -> Option<u64> {
    /// Version 1 represents "no limit" by the largest number of pages.
    const UNLIMITED: u64 = 1 << 60;
    let text = fs::read_to_string(file).ok()?;
    // Version 2 represents "no limit" by "max".
    let bytes = text.trim().parse().ok()?;
    (bytes < UNLIMITED).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit that is read from these files.
    fn with(groups: &str, files: &[(&str, &str)]) -> Option<u64> {
        let dir = tempfile::tempdir().unwrap();
        let mount = dir.path().join("mount");
        for (name, text) in files {
            let file = mount.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let path = dir.path().join("groups");
        fs::write(&path, groups).unwrap();
        read(&path, &mount)
    }

    #[test]
    fn smallest_limit_of_version_2_applies() {
        let files = [
            ("memory.max", "max\n"),
            ("kubepods/memory.max", "4294967296\n"),
            ("kubepods/pod1/memory.max", "536870912\n"),
            ("kubepods/pod1/app/memory.max", "max\n"),
            ("kubepods/pod2/memory.max", "1\n"),
        ];
        let limit = with("0::/kubepods/pod1/app\n", &files);
        assert_eq!(limit, Some(512 << 20));
        assert_eq!(with("0::/kubepods\n", &files), Some(4 << 30));
        assert_eq!(with("0::/\n", &files), None);
    }

    #[test]
    fn smallest_limit_of_version_1_applies() {
        let groups = "9:cpu,cpuacct:/a\n4:memory:/docker/1\n0::/\n";
        let none = "9223372036854771712\n";
        let files = [
            ("memory/memory.limit_in_bytes", none),
            ("memory/docker/memory.limit_in_bytes", none),
            ("memory/docker/1/memory.limit_in_bytes", "268435456\n"),
            // The process is in these groups for its CPU only.
            ("cpu,cpuacct/a/memory.limit_in_bytes", "1\n"),
            ("memory/a/memory.limit_in_bytes", "1\n"),
        ];
        assert_eq!(with(groups, &files), Some(256 << 20));
        assert_eq!(with("4:memory:/docker\n", &files), None);
    }

    #[test]
    fn root_of_the_mount_applies_inside_a_container() {
        let files = [("memory/memory.limit_in_bytes", "1073741824\n")];
        let groups = "4:memory:/kubepods/pod1/host/path\n";
        assert_eq!(with(groups, &files), Some(1 << 30));
    }

    #[test]
    fn half_of_the_remaining_memory_is_for_calls() {
        for (mib, expected) in [(64, 32), (256, 96), (512, 224), (1024, 480), (8192, 512)] {
            assert_eq!(buffer_mib_max(Some(mib << 20)), expected);
        }
        assert_eq!(buffer_mib_max(None), 512);
    }

    #[test]
    fn no_limit_without_control_groups() {
        assert_eq!(with("", &[]), None);
        assert_eq!(with("nonsense\n0::/a\n", &[]), None);
        let missing = Path::new("/nonexistent");
        assert_eq!(read(missing, missing), None);
    }
}
