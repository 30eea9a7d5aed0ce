//! `rollplan serve`, and the option `--server`.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::SanType;

use super::examples::{examples, time_of};
use super::kubectl::{Kubectl, nothing_yet, rollout};
use super::refusals::{NASTY, assert_escaped};
use super::{
    DEPLOYMENT, NOW, REPLICA_SET, command, owned_pod, pods_without_uid, refused, rollplan,
};
use crate::server::certificates::{Authority, Identity};

/// A running service. It is killed at the end of the test.
struct Service {
    child: Child,
    url: String,
}

impl Service {
    fn start() -> Self {
        Self::start_with("http", &[])
    }

    fn start_with(scheme: &str, args: &[&str]) -> Self {
        let mut command = command(&[&["serve", "--listen", "127.0.0.1:0"], args].concat());
        let mut child = command.stdin(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines.by_ref().find_map(|line| {
            let line = line.unwrap();
            let at = line
                .find("127.0.0.1:")
                .filter(|_| line.contains("listening"))?;
            let end = |c: char| !(c.is_ascii_digit() || c == '.' || c == ':');
            line[at..].split(end).next().map(str::to_owned)
        });
        // The log is read, so the service is never blocked.
        std::thread::spawn(move || lines.for_each(drop));
        let url = format!("{scheme}://{}", address.expect("the address"));
        Self { child, url }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn service_and_local_planner_print_the_same() {
    let service = Service::start();
    for example in examples() {
        let (file, now) = (format!("examples/{example}.json"), time_of(&example));
        for verb in ["plan", "status", "history", "undo"] {
            for output in ["table", "json", "yaml"] {
                let args = [verb, "-f", &file, "--now", &now, "-o", output];
                let asked = [&args[..], &["--server", &service.url]].concat();
                assert_eq!(rollplan(&asked, ""), rollplan(&args, ""), "{example}");
            }
        }
    }
    // Errors have the same text.
    let (wrong, pod) = (
        DEPLOYMENT.replace("replicas: 2", "replicas: -2"),
        owned_pod("a"),
    );
    let input = [&wrong, REPLICA_SET, &pod, &pod].join("---\n");
    let args = ["plan", "-f", "-", "--now", NOW];
    let many = [DEPLOYMENT, REPLICA_SET, &pods_without_uid()].join("---\n");
    for input in [input, many] {
        let asked = [&args[..], &["--server", &service.url]].concat();
        assert_eq!(refused(&asked, &input), refused(&args, &input));
    }
    let args = [
        "restarts",
        "-f",
        "-",
        "--now",
        NOW,
        "--all-workloads",
        "-o=json",
    ];
    let asked = [&args[..], &["--server", &service.url]].concat();
    let run = rollplan(&args, DEPLOYMENT);
    assert!(run.out.contains("\"workloads\":1"), "{}", run.out);
    assert_eq!(rollplan(&asked, DEPLOYMENT), run);
    let args = ["undo", "-f", "examples/mid-rollout.json", "--to-revision=9"];
    let asked = [&args[..], &["--server", &service.url]].concat();
    assert_eq!(rollplan(&asked, ""), rollplan(&args, ""));
    // The scheme is optional, and the address may come from the environment.
    let bare = service.url.strip_prefix("http://").unwrap();
    let run = command(&["plan", "-f", "examples/mid-rollout.json"])
        .env("ROLLPLAN_SERVER", bare)
        .output();
    assert_eq!(run.unwrap().status.code(), Some(0));
}

#[test]
fn unreachable_service_is_an_error() {
    // The listener is closed, so nothing listens on the port.
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("http://{closed}");
    let run = rollplan(
        &["plan", "-f", "examples/mid-rollout.json", "--server", &url],
        "",
    );
    assert_eq!((run.exit, run.out.as_str()), (4, ""));
    assert!(
        run.err
            .starts_with(&format!("error: {url} does not answer: ")),
        "{}",
        run.err
    );
    assert!(run.err.contains("Connection refused"), "{}", run.err);
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
}

#[test]
fn answer_of_another_server_is_an_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        use std::io::Write as _;
        let (mut stream, _) = listener.accept().unwrap();
        let mut begin = [0; 24];
        let _ = stream.read(&mut begin);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    });
    let run = rollplan(
        &["plan", "-f", "examples/mid-rollout.json", "--server", &url],
        "",
    );
    server.join().unwrap();
    assert_eq!((run.exit, run.out.as_str()), (4, ""), "{}", run.err);
    assert!(
        run.err
            .starts_with(&format!("error: {url} does not answer: ")),
        "{}",
        run.err
    );
}

#[test]
fn invalid_addresses_are_refused() {
    for (url, why) in [
        ("ftp://127.0.0.1:1", "only http and https are supported"),
        (
            "not an address",
            "not an address, for example http://127.0.0.1:50051",
        ),
    ] {
        let err = refused(
            &["plan", "-f", "examples/mid-rollout.json", "--server", url],
            "",
        );
        assert_eq!(err, format!("error: --server {url}: {why}\n"));
    }
}

/// Starts a service that fails every call with text that would control a terminal.
fn hostile_service() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let text: String = NASTY.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let answer = async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                let response = http::Response::builder()
                    .header("content-type", "application/grpc")
                    .header("grpc-status", "3")
                    .header("grpc-message", &text);
                respond
                    .send_response(response.body(()).unwrap(), true)
                    .unwrap();
            }
        }
    };
    std::thread::spawn(|| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(answer)
    });
    address
}

/// The address of a proxy of a service, and the number of connections to it.
fn counted(service: &Service) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let target = service.url.strip_prefix("http://").unwrap().to_owned();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            count.fetch_add(1, Ordering::Relaxed);
            let (client, server) = (client.unwrap(), TcpStream::connect(&target).unwrap());
            let other = (server.try_clone().unwrap(), client.try_clone().unwrap());
            for (mut from, mut to) in [(client, server), other] {
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            }
        }
    });
    (url, connections)
}

#[test]
fn polls_use_one_connection() {
    let service = Service::start();
    let (url, connections) = counted(&service);
    let kubectl = Kubectl::new(&[nothing_yet(), rollout(0), rollout(1), rollout(2)]);
    let run = kubectl.watch(&["wait", "web", "--server", &url]);
    assert_eq!((run.exit, run.err.as_str()), (0, ""), "{}", run.out);
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

#[test]
fn errors_of_a_service_are_escaped() {
    let server = hostile_service().to_string();
    let args = ["plan", "-f", "-", "--now", NOW, "--server", &server];
    assert_escaped(&refused(&args, DEPLOYMENT));
}

/// Files with a certificate for 127.0.0.1 and its authority.
fn identity(folder: &std::path::Path, name: &str, authority: &Authority) -> [String; 2] {
    let address = std::net::Ipv4Addr::LOCALHOST.into();
    let Identity { cert, key } = authority.sign_as(vec![SanType::IpAddress(address)]);
    let file = |end: &str, text: String| {
        let path = folder.join(format!("{name}.{end}"));
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    [file("crt", cert.pem()), file("key", key.serialize_pem())]
}

#[test]
fn service_with_tls_is_verified() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (authority, other) = (Authority::new(), Authority::new());
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (ca, wrong) = (
        write("ca.crt", &authority.pem),
        write("other.crt", &other.pem),
    );
    let [cert, key] = identity(folder.path(), "server", &authority);
    let tls = ["--tls-cert", &cert, "--tls-key", &key];
    let service = Service::start_with("https", &tls);
    let plan = [
        "plan",
        "-f",
        "examples/mid-rollout.json",
        "--now",
        &time_of("mid-rollout"),
    ];
    let ask = |service: &Service, more: &[&str]| {
        rollplan(&[&plan[..], &["--server", &service.url], more].concat(), "")
    };
    assert_eq!(ask(&service, &["--ca-file", &ca]), rollplan(&plan, ""));
    for more in [&[][..], &["--ca-file", &wrong]] {
        let run = ask(&service, more);
        assert_eq!(run.exit, 4, "{}", run.err);
        assert!(
            run.err.contains("invalid peer certificate: "),
            "{}",
            run.err
        );
    }
    let plain = service.url.replace("https://", "http://");
    let run = rollplan(&[&plan[..], &["--server", &plain]].concat(), "");
    assert_eq!(run.exit, 4, "{}", run.err);
    assert!(
        run.err
            .contains("if the service has TLS, its address begins with https://"),
        "{}",
        run.err
    );
    // The authorities of the system come from here, too.
    let run = command(&[&plan[..], &["--server", &service.url]].concat())
        .env("SSL_CERT_FILE", &ca)
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    // Mutual TLS.
    let service = Service::start_with("https", &[&tls[..], &["--tls-client-ca", &ca]].concat());
    let [cert, key] = identity(folder.path(), "client", &authority);
    let shown = [
        "--ca-file",
        &ca,
        "--client-cert-file",
        &cert,
        "--client-key-file",
        &key,
    ];
    assert_eq!(ask(&service, &shown), rollplan(&plan, ""));
    assert_eq!(ask(&service, &["--ca-file", &ca]).exit, 4);
    let [cert, key] = identity(folder.path(), "stranger", &other);
    let shown = [
        "--ca-file",
        &ca,
        "--client-cert-file",
        &cert,
        "--client-key-file",
        &key,
    ];
    assert_eq!(ask(&service, &shown).exit, 4);
    // Files that cannot be used are named.
    for (more, expected) in [
        (
            &["--ca-file", "/nowhere"][..],
            "error: /nowhere cannot be read: ",
        ),
        (
            &["--ca-file", &ca, "--client-cert-file", &cert],
            "error: the following required arguments",
        ),
    ] {
        let run = ask(&service, more);
        assert_eq!(run.exit, 2, "{}", run.err);
        assert!(run.err.starts_with(expected), "{}", run.err);
    }
    let run = rollplan(
        &[
            &plan[..],
            &["--server=http://127.0.0.1:1", "--ca-file", &ca],
        ]
        .concat(),
        "",
    );
    assert_eq!(run.exit, 2, "{}", run.err);
    assert!(
        run.err.contains("certificates can only be used with https"),
        "{}",
        run.err
    );
}
