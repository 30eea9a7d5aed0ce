//! Calls by scripts in a browser (CORS).

use bytes::Bytes;
use rollplan::server::Config;

use super::ask_json;
use crate::server::http::{Ask, Reply};
use crate::server::raw::{self, PLAN};
use crate::server::{Serving, mk_config, mk_request, start, start_with};

#[tokio::test]
async fn only_configured_origins_may_call() {
    let preflight = |origin: &str| Ask {
        method: "OPTIONS",
        path: PLAN.to_owned(),
        headers: vec![
            ("origin", origin.to_owned()),
            ("access-control-request-method", "POST".to_owned()),
            (
                "access-control-request-headers",
                "connect-protocol-version,content-type".to_owned(),
            ),
        ],
        body: Bytes::new(),
    };
    let (ours, other) = ("https://console.example.com", "https://evil.example.com");
    let allowed = |reply: &Reply| {
        let allowed = reply.header("access-control-allow-origin");
        allowed.map(str::to_owned)
    };

    let Serving { address, .. } = start().await;
    let reply = preflight(ours).over_http1(address).await;
    assert_eq!(reply.status, 405);
    assert_eq!(allowed(&reply), None);
    let call = ask_json(&mk_request()).with("origin", ours);
    assert_eq!(allowed(&call.over_http1(address).await), None);

    let config = Config {
        cors_allow_origins: vec!["http://localhost:8080".to_owned(), ours.to_owned()],
        ..mk_config()
    };
    let Serving { address, .. } = start_with(config).await;
    let mut raw = raw::connect(address).await;
    for reply in [
        preflight(ours).over_http1(address).await,
        preflight(ours).over_http2(&mut raw).await,
    ] {
        assert_eq!(reply.status, 200);
        assert_eq!(allowed(&reply).as_deref(), Some(ours));
        assert_eq!(reply.header("access-control-allow-methods"), Some("POST"));
        let headers = reply.header("access-control-allow-headers").unwrap();
        for needed in [
            "content-type",
            "connect-protocol-version",
            "connect-timeout-ms",
        ] {
            assert!(headers.contains(needed), "{headers}");
        }
        assert_eq!(reply.header("access-control-max-age"), Some("7200"));
        assert_eq!(reply.header("access-control-allow-credentials"), None);
        assert!(reply.header("vary").unwrap().contains("origin"));
        assert!(reply.body.is_empty());
    }
    let reply = preflight(other).over_http1(address).await;
    assert_eq!(allowed(&reply), None);
    let call = |origin| ask_json(&mk_request()).with("origin", origin);
    let reply = call(ours).over_http1(address).await;
    assert_eq!(reply.status, 200);
    assert_eq!(allowed(&reply).as_deref(), Some(ours));
    // The browser hides the answer from the script.
    let reply = call(other).over_http1(address).await;
    assert_eq!(allowed(&reply), None);
}
