//! A planner that waits until a test lets it go on.

use std::sync::Arc;

use rollplan::server::{Config, Planner, Server};
use rollplan::service::MethodRequest;
use tokio::sync::Notify;
use tokio::time::timeout;
use tonic::{Request, Response, Status};

use super::{LONG, Serving, serve};

/// PlanRollout waits for `go_on`, and ComputeStatus panics.
#[derive(Clone, Default)]
pub(super) struct Staged {
    pub(super) started: Arc<Notify>,
    pub(super) go_on: Arc<Notify>,
}

impl Staged {
    pub(super) async fn start(&self, config: Config) -> Serving {
        serve(Server::bind_with(config, self.clone()).await.unwrap()).await
    }
}

#[tonic::async_trait]
impl Planner for Staged {
    async fn answer<R: MethodRequest>(
        &self,
        _: Request<R>,
    ) -> Result<Response<R::Response>, Status> {
        match R::METHOD.name {
            "PlanRollout" => {
                self.started.notify_one();
                // The timeout never expires in a test that passes. In a test that fails, it ends with the runtime, so the
                // thread of a large call ends, too.
                match timeout(2 * LONG, self.go_on.notified()).await {
                    Ok(()) => Ok(Response::new(R::Response::default())),
                    Err(_) => Err(Status::aborted("nobody said to go on")),
                }
            }
            "ComputeStatus" => panic!("staged: {}", "secret"),
            method => unreachable!("{method} is not staged"),
        }
    }
}
