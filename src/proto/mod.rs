//! The messages of the contract, generated from `proto/rollplan/v1`. It stands on prost alone: the service is in
//! [`server`](crate::server), its client in [`client`](crate::client).

mod raw_struct;

pub use generated::*;
pub use raw_struct::RawStruct;

/// The descriptors of the contract and of what it imports, as an encoded `FileDescriptorSet`.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rollplan.v1.bin"));

mod generated {
    // The generator writes neither documentation for everything nor code to our lints.
    #![allow(missing_docs, unreachable_pub, clippy::all, rustdoc::all)]

    include!(concat!(env!("OUT_DIR"), "/rollplan.v1.rs"));
}
