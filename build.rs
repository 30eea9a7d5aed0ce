//! Generates Rust code from the contract in proto/: messages, service and client. Also writes its descriptors, for
//! reflection and JSON. No protoc is needed.

use std::env;
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use prost::Message as _;

use tonic_prost_build::{Config, FileDescriptorSet};

const FILES: [&str; 8] = [
    "rollplan/v1/canary.proto",
    "rollplan/v1/forecast.proto",
    "rollplan/v1/kubernetes.proto",
    "rollplan/v1/plan.proto",
    "rollplan/v1/report.proto",
    "rollplan/v1/restart.proto",
    "rollplan/v1/revision.proto",
    "rollplan/v1/service.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    println!("cargo::rustc-env=ROLLPLAN_COMMIT={}", commit());
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    // With comments, which describe the fields to clients of reflection.
    fs::write(out.join("rollplan.v1.bin"), descriptors.encode_to_vec())?;
    generate_messages(descriptors.clone())?;
    generate_service(descriptors, &out)?;
    Ok(())
}

fn generate_messages(descriptors: FileDescriptorSet) -> io::Result<()> {
    let mut config = Config::new();
    // Full names of messages, which JSON needs to find their descriptors.
    config.enable_type_names();
    tonic_prost_build::configure()
        .build_client(false)
        .build_server(false)
        // Ordered maps, so that a message always has the same encoding.
        .btree_map(".")
        .compile_fds_with_config(descriptors, config)
}

/// Generates the service and its client, in one directory each, for the messages generated above.
fn generate_service(descriptors: FileDescriptorSet, out: &Path) -> io::Result<()> {
    for side in ["client", "server"] {
        let out = out.join(side);
        fs::create_dir_all(&out)?;
        let mut builder = tonic_prost_build::configure()
            .build_client(side == "client")
            .build_server(side == "server")
            .extern_path(".rollplan.v1", "crate::proto")
            .out_dir(out);
        if side == "server" {
            // Checks the size of a message before decoding it.
            builder = builder.codec_path("crate::server::Codec");
        }
        builder.compile_fds(descriptors.clone())?;
    }
    Ok(())
}

/// The commit, or ROLLPLAN_COMMIT for builds without a repository, for example in a container.
fn commit() -> String {
    const VARIABLE: &str = "ROLLPLAN_COMMIT";
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let given = env::var(VARIABLE).unwrap_or_default();
    let commit = if given.is_empty() {
        git(&["rev-parse", "HEAD"])
    } else {
        Some(given)
    };
    // The log changes with every commit and checkout, also in a linked worktree. Only release builds depend on it: a
    // debug build would compile the whole crate again after each commit.
    if env::var("PROFILE").is_ok_and(|it| it == "release")
        && let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
    let is_commit = |it: &String| it.len() >= 7 && it.bytes().all(|byte| byte.is_ascii_hexdigit());
    commit
        .filter(is_commit)
        .unwrap_or_else(|| "unknown".to_owned())
}

/// The output of git, unless the source is a copy inside another repository.
fn git(args: &[&str]) -> Option<String> {
    if !Path::new(".git").exists() {
        return None;
    }
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
