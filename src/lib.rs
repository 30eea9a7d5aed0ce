//! rollplan: the decisions of the Kubernetes Deployment controller, as a gRPC service and a command.
//!
//! [`wire`] converts requests to the planner's types, and plans to responses. `text` formats responses for people.
//! [`proto`] is the contract, [`server`] the service, and [`cli`] the command.

#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what is printed is escaped first: `cli::output` and `cli::stderr`"
)]

pub mod cli;
pub mod client;
pub mod proto;
pub mod server;
mod text;
pub mod wire;
