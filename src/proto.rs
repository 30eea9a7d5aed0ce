//! The contract as Rust: messages, service and client generated from `proto/rollplan/v1`.

// The generator writes neither documentation for everything nor code to our lints.
#![allow(missing_docs, unreachable_pub, clippy::all, rustdoc::all)]

tonic::include_proto!("rollplan.v1");

/// The descriptors of the contract and of what it imports, as an encoded `FileDescriptorSet`.
pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("rollplan.v1");
