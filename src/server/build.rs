//! Generates the service of the contract in proto/ and its client, for the messages of `rollplan-wire`.

use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

const PROTO: &str = "../../proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO}");
    let descriptors = protox::compile(["rollplan/v1/service.proto"], [PROTO])?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    // In one directory each.
    for side in ["client", "server"] {
        let out = out.join(side);
        fs::create_dir_all(&out)?;
        let mut builder = tonic_prost_build::configure()
            .build_client(side == "client")
            .build_server(side == "server")
            .extern_path(".rollplan.v1", "::rollplan_wire::proto")
            .out_dir(out);
        if side == "server" {
            // Checks the size of a message before decoding it.
            builder = builder.codec_path("crate::Codec");
        }
        builder.compile_fds(descriptors.clone())?;
    }
    Ok(())
}
