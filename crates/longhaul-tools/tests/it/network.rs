//! What of the network a command reaches by a list of hosts or through a gateway. Every refusal has its control.

use axum::{Router, body::Body, extract::Request, response::Response, routing::get};
use longhaul_tools::sandbox::{Gateway, Network, SandboxCommand};
use tokio::net::TcpListener;

use crate::fixture::Fixture;

const SECRET: &str = "sk-very-secret-4711";

/// A server on the host's loopback that says what it was asked; gives its port.
async fn echo() -> u16 {
    let echo = |request: Request| async move {
        let (parts, body) = request.into_parts();
        let header = |name: &str| parts.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        let sent = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        format!(
            "{} {} host={} key={} via={} body={}",
            parts.method,
            parts.uri,
            header("host").unwrap_or_default(),
            header("x-api-key").unwrap_or_default(),
            header("proxy-authorization").unwrap_or_default(),
            String::from_utf8_lossy(&sent)
        )
    };
    let stream = || async {
        let parts = futures::stream::iter(["one ", "two ", "three"].map(Ok::<_, std::convert::Infallible>));
        Response::new(Body::from_stream(parts))
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let router = Router::new().route("/v1/stream", get(stream)).fallback(echo);
    tokio::spawn(async move { axum::serve(listener, router).await });
    port
}

fn allowing(rules: &[String]) -> Network {
    Network::Allow(rules.iter().map(|rule| rule.parse().unwrap()).collect())
}

#[tokio::test]
async fn a_list_of_hosts_lets_through_what_it_names_and_nothing_else() {
    let (named, other) = (echo().await, echo().await);
    let program = format!(
        r#"
import socket, urllib.request, urllib.error
def get(url):
    try:
        print(urllib.request.urlopen(url, timeout=5).read().decode())
    except urllib.error.HTTPError as e:
        print(e.code, e.read().decode().strip())
    except OSError as e:
        print(type(e).__name__)
# `NO_PROXY` names this machine; these tests ask the proxy all the same.
import os
for name in ("NO_PROXY", "no_proxy"): os.environ.pop(name, None)
get("http://127.0.0.1:{named}/a?b")
get("http://127.0.0.1:{other}/a")
get("http://localhost:{named}/a")
def connect(target, request):
    s = socket.create_connection(("127.0.0.1", 3128), 5)
    s.sendall(f"CONNECT {{target}} HTTP/1.1\r\n\r\n".encode())
    print(target.split(":")[0], s.recv(4096).decode().split("\r\n")[0])
    if request:
        s.sendall(request); print(s.makefile().read().splitlines()[-1])
connect("127.0.0.1:{named}", b"GET /tunnel HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
connect("127.0.0.1:{other}", b"")
connect("127.0.0.1:22", b"")
for port in ({named}, {other}):
    try: socket.create_connection(("127.0.0.1", port), 5); print("direct connected")
    except OSError as e: print("direct", type(e).__name__)
"#
    );
    // `*:PORT` names every public host; `localhost` is none.
    let rules = [format!("127.0.0.1:{named}"), format!("*:{named}")];
    let fixture = Fixture::with(|settings| settings.network = allowing(&rules));
    let output = fixture.python(&program).await.output;
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], format!("GET /a?b host=127.0.0.1:{named} key= via= body="), "{output}");
    assert!(lines[1].starts_with("403 longhaul: 127.0.0.1") && lines[1].contains("not on the list"), "{output}");
    assert!(lines[2].starts_with("403") && lines[2].contains("private network"), "{output}");
    assert_eq!(lines[3], "127.0.0.1 HTTP/1.1 200 Connection established", "{output}");
    assert!(lines[4].starts_with("GET /tunnel"), "{output}");
    assert_eq!(lines[5..7], ["127.0.0.1 HTTP/1.1 403 Forbidden"; 2], "{output}");
    assert_eq!(lines[7..], ["direct ConnectionRefusedError"; 2], "{output}");

    // Without a list there is not even a proxy.
    let closed = Fixture::new().shell("env | grep -i proxy; curl -sS http://127.0.0.1:3128/ 2>&1").await;
    assert!(closed.output.contains("Failed to connect") && !closed.output.contains("PROXY="), "{}", closed.output);
}

#[tokio::test]
async fn a_gateway_adds_its_secret_outside_and_nothing_inside_can_see_it() {
    let port = echo().await;
    let fixture = Fixture::new();
    let gateway = Gateway::new(8100, &format!("http://127.0.0.1:{port}/v1")).unwrap().header("x-api-key", SECRET);
    let line = "curl -sS -H 'x-api-key: dummy' -d hello 'http://127.0.0.1:8100/messages?beta=1'; echo; \
                curl -sS http://127.0.0.1:8100/stream; echo; \
                curl -sS --path-as-is http://127.0.0.1:8100/../admin; \
                { env; cat /proc/*/environ /proc/*/cmdline /run/longhaul/net/*; } 2>/dev/null | tr '\\0' '\\n' > all; \
                grep -c 'very-secre[t]' all; grep -c ^HOME= all";
    let command = SandboxCommand::shell(line).gateway(gateway.unwrap());
    let output = fixture.sandbox.run(command, None).await.unwrap().output;
    let lines: Vec<&str> = output.lines().collect();
    let host = format!("127.0.0.1:{port}");
    assert_eq!(lines[0], format!("POST /v1/messages?beta=1 host={host} key={SECRET} via= body=hello"), "{output}");
    assert_eq!(lines[1], "one two three");
    assert_eq!(lines[2], "longhaul: the path leads out of the service's own path");
    assert_eq!(lines[3], "0", "the secret is visible inside");
    assert_ne!(lines[4], "0", "nothing was looked at");
    // Another command of the same sandbox has no such gateway.
    assert!(!fixture.shell("curl -sS http://127.0.0.1:8100/").await.success());
}
