//! The page for people.

use bytes::Bytes;
use rollplan::server::Config;

use super::{ask_json, check_error};
use crate::server::http::Ask;
use crate::server::raw::{self, PLAN};
use crate::server::{Serving, mk_config, mk_request, start, start_with};

fn get(path: &str) -> Ask {
    Ask {
        method: "GET",
        path: path.to_owned(),
        headers: Vec::new(),
        body: Bytes::new(),
    }
}

#[tokio::test]
async fn page_is_at_the_root_and_nowhere_else() {
    let config = Config {
        page: Some("<!DOCTYPE html><title>a page</title>"),
        ..mk_config()
    };
    let Serving { address, .. } = start_with(config).await;
    let mut raw = raw::connect(address).await;
    for reply in [
        get("/").over_http1(address).await,
        get("/?x").over_http2(&mut raw).await,
    ] {
        assert_eq!(reply.status, 200);
        assert_eq!(&*reply.body, b"<!DOCTYPE html><title>a page</title>");
        for (name, value) in [
            ("content-type", "text/html; charset=utf-8"),
            ("content-security-policy", "frame-ancestors 'none'"),
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-cache"),
        ] {
            assert_eq!(reply.header(name), Some(value));
        }
    }
    for path in ["/index.html", PLAN] {
        let reply = get(path).over_http1(address).await;
        assert!([404, 405].contains(&reply.status), "{path}");
    }
    // Calls are not affected.
    let reply = ask_json(&mk_request()).over_http1(address).await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn without_a_page_the_root_is_an_unknown_method() {
    let Serving { address, .. } = start().await;
    let reply = get("/").over_http1(address).await;
    check_error(&reply, 404, "unimplemented", "UNKNOWN_METHOD");
}
