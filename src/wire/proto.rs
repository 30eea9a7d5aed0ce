//! The messages of the contract, generated from `proto/rollplan/v1`. They depend only on prost.

pub use generated::*;

/// The descriptors of the contract and its imports, as an encoded `FileDescriptorSet`.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rollplan.v1.bin"));

mod generated {
    // The generated code does not follow our lints, and not all of it is documented.
    #![allow(missing_docs, unreachable_pub, clippy::all, rustdoc::all)]

    include!(concat!(env!("OUT_DIR"), "/rollplan.v1.rs"));
}
