//! Generates the messages of the contract in proto/, and writes their descriptors, for reflection and JSON.

use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

use prost::Message as _;

const PROTO: &str = "../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let mut files = Vec::new();
    for file in fs::read_dir(PathBuf::from(PROTO).join("rollplan/v1"))? {
        files.push(file?.path());
    }
    files.sort();
    let descriptors = protox::compile(files, [PROTO])?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    // With comments, which describe the fields to clients of reflection.
    fs::write(out.join("rollplan.v1.bin"), descriptors.encode_to_vec())?;
    prost_build::Config::new()
        // Full names of messages, which JSON needs to find their descriptors.
        .enable_type_names()
        // Ordered maps, so that a message always has the same encoding.
        .btree_map(["."])
        .compile_fds(descriptors)?;
    Ok(())
}
