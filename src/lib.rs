//! rollplan: the decisions of the Kubernetes Deployment controller, as a gRPC service and a command.
//!
//! [`wire`] turns requests into what the planner reads, and plans into responses; [`proto`] is the contract;
//! [`server`] is the service and [`cli`] the command.

pub mod cli;
pub mod proto;
pub mod server;
pub mod wire;
