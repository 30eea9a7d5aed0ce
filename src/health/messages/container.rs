//! Containers that cannot be created or started.
//!
//! containerd sets the reason StartError for every start that fails, whatever the cause
//! (internal/cri/server/container_start.go, `StartContainer`), and the kubelet reports the error of the runtime as it is
//! (pkg/kubelet/kuberuntime/kuberuntime_container.go, `startContainer`). Only the message shows whether the program itself
//! is wrong. runc executes it last, so an error about the program proves that everything before has succeeded.

use super::Persistence::UnlessOnVolume;
use super::Resolver::{Cluster, Image, Node, Platform, Template, Time};
use super::mount::{MISSING_CONFIG_MAP, MISSING_SECRET};
use super::{Row, Table};

// Remedies of several rows.
const STALE: &str = "delete the pod, because its mount at <target> may be stale: kubectl delete pod <pod> -n <namespace>";
const COMMAND: &str =
    "correct the command of container <container>, or use an image that contains <file>";
const LINE: &str = "list the program and its arguments as separate items of the command of container <container>: no program is called <file>";
const EXECUTABLE: &str =
    "make <file> executable in the image, or correct the command of container <container>";
const DIRECTORY: &str =
    "correct workingDir of container <container>, or use an image that contains it";
const NO_DIRECTORY: &str = "correct workingDir of container <container>: <file> is not a directory";
const ENTER: &str =
    "correct workingDir of container <container>, or let its user (runAsUser) enter <file>";
const FORMAT: &str =
    "use an image for the platform of node <node>, or begin <file> with #! if it is a script";
const INTERPRETER: &str = "add the interpreter in the first line of <file>, or its dynamic loader, to the image: a line that ends as on \
                           Windows names another file";
const PERMITTED: &str =
    "make <file> and its interpreter executable for the user of container <container> (runAsUser)";
const CAPABILITIES: &str = "let container <container> have the capabilities of <file> (securityContext.capabilities), or remove them from the file";

pub(crate) static TABLE: Table = Table {
    reasons: &[
        "CreateContainerConfigError",
        "CreateContainerError",
        "PreCreateHookError",
        "PreStartHookError",
    ],
    wrappers: &[
        // kubelet: pkg/kubelet/kuberuntime/kuberuntime_container.go, startContainer (event Failed).
        "Error: ",
        "rpc error: code = <code> desc = ",
        // containerd: internal/cri/server/container_start.go; core/runtime/v2/task_manager.go, Create.
        "failed to create containerd task: ",
        "failed to create shim task: ",
        // containerd up to 1.5: runtime/v2/shim.go, Create.
        "failed to create shim: ",
        "failed to start containerd task \"<id>\": ",
        // containerd: internal/cri/server/container_create.go, CreateContainer.
        "failed to generate container \"<id>\" spec: ",
        "failed to generate spec: ",
        "failed to create containerd container: ",
        "mount callback failed on <directory>: ",
        // containerd: cmd/containerd-shim-runc-v2/process/init.go, runtimeError.
        "OCI runtime create failed: ",
        "OCI runtime start failed: ",
        "unable to retrieve OCI runtime error (<error...>): ",
        // runc: create.go; libcontainer/container_linux.go, start; libcontainer/process_linux.go, (*initProcess).start.
        "runc create failed: ",
        "runc start failed: ",
        "unable to start container process: ",
        "error during container init: ",
        // runc up to 1.0: libcontainer/container_linux.go, with the line of its source.
        "container_linux.go:<line>: ",
        "process_linux.go:<line>: ",
        "rootfs_linux.go:<line>: ",
        "starting container process caused: ",
        "container init caused: ",
        // CRI-O: internal/oci/runtime_oci.go, CreateContainer, StartContainer; conmon repeats the log line of the runtime.
        "container create failed: ",
        "failed to start container <id>: ",
        "time=\"<time>\" level=error msg=\"",
        // crun: src/libcrun/error.c, libcrun_error_write_warning_and_release.
        "crun: ",
        // dockerd and cri-dockerd: daemon/start.go, containerStart; core/container_start.go, StartContainer.
        "failed to start container \"<id>\": ",
        "Error response from daemon: ",
        "failed to create task for container: ",
        "cannot start a stopped process: ",
    ],
    // The end of a repeated log line; the class that containerd adds to an error that it does not know (errdefs).
    endings: &["\"", ": unknown"],
    rows: &[
        // runc: libcontainer/standard_init_linux.go, Init, with the errors of exec.LookPath of Go.
        Row::definite(
            "exec: \"<file>\": executable file not found in $PATH",
            Template,
            COMMAND,
        )
        .with(UnlessOnVolume),
        Row::definite(
            "exec: \"<file...>\": executable file not found in $PATH",
            Template,
            LINE,
        )
        .with(UnlessOnVolume),
        Row::definite(
            "exec: \"<file>\": stat <path>: no such file or directory",
            Template,
            COMMAND,
        )
        .with(UnlessOnVolume),
        Row::definite(
            "exec: \"<file...>\": stat <path...>: no such file or directory",
            Template,
            LINE,
        )
        .with(UnlessOnVolume),
        Row::definite(
            "exec: \"<file...>\": no such file or directory",
            Template,
            COMMAND,
        )
        .with(UnlessOnVolume),
        Row::definite(
            "exec: \"<file...>\": stat <path...>: not a directory",
            Template,
            "correct the command of container <container>",
        )
        .with(UnlessOnVolume),
        Row::definite(
            "exec: \"<file...>\": stat <path...>: permission denied",
            Template,
            "let the user of container <container> (runAsUser) read <file>, or correct the command",
        )
        .with(UnlessOnVolume),
        Row::definite("exec: \"<file...>\": permission denied", Image, EXECUTABLE)
            .with(UnlessOnVolume),
        Row::definite(
            "exec: \"<file...>\": is a directory",
            Template,
            "correct the command of container <container>: <file> is a directory",
        )
        .with(UnlessOnVolume),
        // runc: libcontainer/init_linux.go, finalizeNamespace.
        Row::definite(
            "chdir to cwd (\"<file...>\") set in config.json failed: no such file or directory",
            Template,
            DIRECTORY,
        )
        .with(UnlessOnVolume),
        Row::definite(
            "chdir to cwd (\"<file...>\") set in config.json failed: not a directory",
            Template,
            NO_DIRECTORY,
        )
        .with(UnlessOnVolume),
        Row::definite(
            "chdir to cwd (\"<file...>\") set in config.json failed: permission denied",
            Template,
            ENTER,
        )
        .with(UnlessOnVolume),
        // crun: src/libcrun/utils.c, find_executable; up to 1.20 src/libcrun/container.c, container_init_setup.
        Row::definite(
            "executable file `<file>` not found in $PATH: No such file or directory",
            Template,
            COMMAND,
        )
        .with(UnlessOnVolume),
        Row::definite(
            "executable file `<file...>` not found in $PATH: No such file or directory",
            Template,
            LINE,
        )
        .with(UnlessOnVolume),
        Row::definite(
            "executable file `<file>` not found: No such file or directory",
            Template,
            COMMAND,
        )
        .with(UnlessOnVolume),
        Row::definite(
            "executable file `<file...>` not found: No such file or directory",
            Template,
            LINE,
        )
        .with(UnlessOnVolume),
        Row::definite(
            "the path `<file...>` exists but it is not executable: Operation not permitted",
            Image,
            EXECUTABLE,
        )
        .with(UnlessOnVolume),
        Row::definite(
            "the path `<file...>` is not a regular file: Operation not permitted",
            Template,
            "correct the command of container <container>: <file> is not a file",
        )
        .with(UnlessOnVolume),
        // It does not name the file.
        Row::undecided(
            "open executable: <error...>",
            Template,
            "check the command of container <container>: the runtime cannot open its program",
        ),
        // crun: src/libcrun/linux.c, libcrun_safe_chdir.
        Row::definite(
            "chdir to `<file...>`: No such file or directory",
            Template,
            DIRECTORY,
        )
        .with(UnlessOnVolume),
        Row::definite(
            "chdir to `<file...>`: Not a directory",
            Template,
            NO_DIRECTORY,
        )
        .with(UnlessOnVolume),
        Row::definite("chdir to `<file...>`: Permission denied", Template, ENTER)
            .with(UnlessOnVolume),
        // runc: libcontainer/rootfs_linux.go, mountToRootfs. The source is a whole volume, which the kubelet has prepared as
        // a directory, so the target is a file.
        Row::definite(
            "error mounting \"<path>/volumes/kubernetes.io~<plugin>/<volume>\" to rootfs at \"<target>\": <operation...>: not a \
             directory",
            Template,
            "mount volume <volume> at a directory, or only one of its files with subPath: <target> is a file in the image",
        ),
        // The source may be stale or late: a file of a ConfigMap that was mounted with subPath and has changed since
        // (kubernetes/kubernetes#68211), or a file that somebody creates on the node later.
        Row::undecided(
            "error mounting \"<source>\" to rootfs at \"<target>\": <operation...>: no such file or directory",
            Time,
            STALE,
        ),
        Row::undecided(
            "error mounting \"<source>\" to rootfs at \"<target>\": <operation...>: stale <nfs...>file handle",
            Time,
            STALE,
        ),
        Row::undecided(
            "error mounting \"<source>\" to rootfs at \"<target>\": <operation...>: transport endpoint is not connected",
            Time,
            STALE,
        ),
        Row::undecided(
            "error mounting \"<source>\" to rootfs at \"<target>\": <error...>",
            Cluster,
            "check the volume that is mounted at <target>",
        ),
        // runc: libcontainer/container_linux.go, newParentProcess, orderNamespacePaths: the sandbox has ended.
        Row::undecided(
            "unable to create new parent process: namespace path: lstat <path>: no such file or directory",
            Node,
            "",
        ),
        // runc: libcontainer/process_linux.go, (*initProcess).start.
        Row::undecided("unable to apply cgroup configuration: <error...>", Node, ""),
        Row::undecided(
            "container init was OOM-killed (memory limit too low?)",
            Template,
            "raise resources.limits.memory of container <container>",
        ),
        Row::undecided(
            "error setting cgroup config for procHooks process: <error...>",
            Node,
            "",
        ),
        // The first process ends before it reports, for example because memory or processes are limited.
        Row::undecided(
            "can't get final child's PID from pipe: <error...>",
            Node,
            "",
        ),
        // runc: libcontainer/standard_init_linux.go, Init.
        Row::undecided(
            "unable to apply apparmor profile: <error...>",
            Node,
            "load the AppArmor profile of container <container> on node <node>",
        ),
        // containerd: core/runtime/v2/shim_manager.go, startShim.
        Row::undecided("failed to start shim: <error...>", Node, ""),
        // containerd: cmd/containerd-shim-runc-v2/process/init_state.go: the container has ended before it was started.
        Row::undecided("cannot start a stopped process", Time, ""),
        // containerd: internal/cri/opts/spec_linux_opts.go, WithMounts: a hostPath volume.
        Row::undecided(
            "failed to stat \"<path...>\": no such file or directory",
            Node,
            "create <path> on node <node>, or set the type of the hostPath volume to DirectoryOrCreate or FileOrCreate",
        ),
        // The same place, for a mount whose server or program has ended.
        Row::undecided(
            "failed to stat \"<target>\": stat <path>: stale <nfs...>file handle",
            Time,
            STALE,
        ),
        Row::undecided(
            "failed to stat \"<target>\": stat <path>: transport endpoint is not connected",
            Time,
            STALE,
        ),
        // kubelet: pkg/kubelet/kubelet_pods.go, makeMounts.
        Row::undecided(
            "failed to prepare subPath for volumeMount \"<mount>\" of container \"<name>\"",
            Cluster,
            "check subPath of volumeMount <mount>: only the log of the kubelet on node <node> has the error",
        ),
        // runc: libcontainer/configs/config.go, Hooks.Run: hooks of device plugins, for example of GPUs.
        Row::undecided("error running <hook...>: <error...>", Node, ""),
        // containerd: internal/cri/server/container_create.go and pkg/cdi: devices of a device plugin or driver.
        Row::undecided("failed to inject CDI devices: <error...>", Node, ""),
        Row::undecided("CDI device injection failed: <error...>", Node, ""),
        // containerd: internal/cri/server/container_start.go, StartContainer: the kubelet creates the sandbox again.
        Row::undecided("sandbox container \"<id>\" is not running", Time, ""),
        // gRPC and the context of Go: the runtime did not answer in time.
        Row::undecided("context deadline exceeded", Node, ""),
        Row::undecided("create container timeout", Node, ""),
        // Errors of the system of the node.
        Row::undecided(
            "<operation...>: no space left on device",
            Node,
            "free disk space on the node: kubectl describe node <node>",
        ),
        Row::undecided("<operation...>: cannot allocate memory", Node, ""),
        Row::undecided("<operation...>: resource temporarily unavailable", Node, ""),
        Row::undecided("<operation...>: too many open files", Node, ""),
        Row::undecided("<operation...>: input/output error", Node, ""),
        Row::undecided("<operation...>: read-only file system", Node, ""),
        // containerd: pkg/oci/spec_opts.go, WithUser; moby/sys: user/user.go, GetExecUser.
        Row::definite(
            "no users found",
            Image,
            "set runAsUser of container <container> to a number, or add the user to the image",
        ),
        Row::definite(
            "unable to find user <user>: no matching entries in passwd file",
            Image,
            "set runAsUser of container <container> to a number, or add user <user> to the image",
        ),
        // kubelet: pkg/kubelet/kubelet_pods.go, makeEnvironmentVariables.
        MISSING_CONFIG_MAP,
        MISSING_SECRET,
        Row::definite(
            "couldn't find key <key...> in ConfigMap <object>",
            Cluster,
            "add key <key> to ConfigMap <object>, or correct the reference to it",
        ),
        Row::definite(
            "couldn't find key <key...> in Secret <object>",
            Cluster,
            "add key <key> to Secret <object>, or correct the reference to it",
        ),
        Row::undecided(
            "failed to sync <kind> cache: timed out waiting for the condition",
            Time,
            "",
        ),
        // kubelet: pkg/kubelet/kuberuntime/security_context_others.go, verifyRunAsNonRoot.
        Row::definite(
            "container's runAsUser breaks non-root policy (pod: <pod_name...>, container: <name>)",
            Template,
            "set runAsUser of container <container> to another user than 0",
        ),
        Row::definite(
            "container has runAsNonRoot and image will run as root (pod: <pod_name...>, container: <name>)",
            Template,
            "set runAsUser of container <container> to another user than 0, or use an image that does not run as root",
        ),
        Row::definite(
            "container has runAsNonRoot and image has non-numeric user (<user...>), cannot verify user is non-root (pod: \
             <pod_name...>, container: <name>)",
            Template,
            "set runAsUser of container <container> to the numeric ID of the user",
        ),
        // containerd: internal/cri/server/container_create.go, runtimeSpec; CRI-O: internal/factory/container,
        // SpecAddProcess.
        Row::definite(
            "no command specified",
            Template,
            "set the command of container <container>, or use an image that has one",
        ),
        // containerd: internal/cri/server/container_create.go, CreateContainer: the call before it has not ended.
        Row::undecided(
            "failed to reserve container name \"<name>\": name \"<other>\" is reserved for \"<id>\"",
            Node,
            "wait: the node is still busy with an earlier attempt to create the container; if it stays, check the node: kubectl \
             describe node <node>",
        ),
    ],
};

/// Programs that the kernel does not execute. The container has started by then, so the runtime writes the error to its log,
/// from which the kubelet copies it with `terminationMessagePolicy: FallbackToLogsOnError`, and ends with a failure.
///
/// runc: internal/linux/linux.go, `Exec`. crun: src/libcrun/container.c, `container_init`.
pub(crate) static EXECUTIONS: Table = Table {
    reasons: &[],
    // crun: src/libcrun/error.c, write_json_error.
    wrappers: &["{\"msg\":\""],
    endings: &["\",\"level\":\"error\",<rest...>"],
    rows: &[
        // Linux: fs/exec.c, search_binary_handler.
        Row::definite("exec <file>: exec format error", Platform, FORMAT).with(UnlessOnVolume),
        Row::definite(
            "exec container process `<file>`: Exec format error",
            Platform,
            FORMAT,
        )
        .with(UnlessOnVolume),
        // Linux: fs/exec.c, open_exec. The file itself exists, because the runtime has found it.
        Row::definite("exec <file>: no such file or directory", Image, INTERPRETER)
            .with(UnlessOnVolume),
        Row::definite(
            "exec container process (missing dynamic library?) `<file>`: No such file or directory",
            Image,
            INTERPRETER,
        )
        .with(UnlessOnVolume),
        Row::definite("exec <file>: permission denied", Image, PERMITTED).with(UnlessOnVolume),
        Row::definite(
            "exec container process `<file>`: Permission denied",
            Image,
            PERMITTED,
        )
        .with(UnlessOnVolume),
        // Linux: security/commoncap.c, cap_bprm_creds_from_file.
        Row::definite(
            "exec <file>: operation not permitted",
            Template,
            CAPABILITIES,
        )
        .with(UnlessOnVolume),
        Row::definite(
            "exec container process `<file>`: Operation not permitted",
            Template,
            CAPABILITIES,
        )
        .with(UnlessOnVolume),
    ],
};
