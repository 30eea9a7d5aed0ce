//! rollplan: the decisions of the Kubernetes Deployment controller, as a gRPC service and a command.
//!
//! [`proto`] is the contract, [`wire`] reads its requests and prints its responses, and [`service`] is what each method
//! does. [`server`] is the server, [`client`] its client, and [`cli`] the command.

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
