//! rollplan: the decisions of the Kubernetes Deployment controller, as a gRPC service and a command.
//!
//! [`wire`] converts requests to the planner's types, and plans to responses. [`proto`] is the contract, [`server`] the
//! service, [`client`] its client, and [`cli`] the command.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what is printed is escaped first: `cli::output` and `cli::stderr`"
)]

pub mod cli;

pub use rollplan_server as server;
pub use rollplan_server::client;
pub use rollplan_service as service;
pub use rollplan_wire as wire;
pub use rollplan_wire::proto;
