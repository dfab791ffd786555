//! The proxy with a list of hosts: `CONNECT` for TLS, absolute addresses for plain HTTP.
//!
//! Names are resolved here; the address that was judged is the one connected to, so that a second answer of the name
//! server changes nothing. What is refused is answered with a sentence that says whose list it is.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UnixListener, UnixStream},
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;

use super::rules::{HostRule, Standing, Target, is_public, standing};

/// Connections of one command at a time; more wait.
const CONNECTIONS_MAX: usize = 128;
/// Longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// Longest wait for the head of a request.
const HEAD_MAX: Duration = Duration::from_secs(30);
/// Longest wait for one address to answer.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Between two tries to accept a connection when the system refuses.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);
/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;

pub(super) async fn serve(listener: UnixListener, rules: Arc<[HostRule]>, stop: CancellationToken) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // A moment without file descriptors, which nothing announces the end of.
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let (rules, stop) = (rules.clone(), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                // Either side may break off; the other then sees its connection end.
                _ = connection(stream, &rules) => {}
            }
            drop(slot);
        });
    }
}

/// What a client asked for, and what of its bytes go on.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    target: Target,
    /// Whether the client waits for `200` before it speaks; otherwise it is plain HTTP.
    tunnel: bool,
    /// What is sent on first.
    forward: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    status: &'static str,
    reason: String,
}

async fn connection(mut inside: UnixStream, rules: &[HostRule]) -> io::Result<()> {
    let request = match tokio::time::timeout(HEAD_MAX, read_head(&mut inside)).await {
        Ok(head) => head?.ok_or_else(|| bad("the head of the request is too long")).and_then(|head| parse(&head)),
        Err(_) => Err(Refusal { status: "408 Request Timeout", reason: "no request came".to_owned() }),
    };
    let opened = match request {
        Ok(request) => open(&request.target, rules).await.map(|outside| (request, outside)),
        Err(refusal) => Err(refusal),
    };
    match opened {
        Ok((request, mut outside)) => {
            if request.tunnel {
                inside.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            }
            outside.write_all(&request.forward).await?;
            tokio::io::copy_bidirectional(&mut inside, &mut outside).await.map(drop)
        }
        Err(Refusal { status, reason }) => {
            let body = format!("longhaul: {reason}\n");
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            inside.write_all(head.as_bytes()).await?;
            inside.write_all(body.as_bytes()).await
        }
    }
}

/// Everything up to the end of the head and what came with it, or `None` if the head is too long.
async fn read_head(stream: &mut UnixStream) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    loop {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&part[..count]);
        if end_of_head(&head).is_some() {
            return Ok(Some(head));
        }
        if head.len() > HEAD_BYTES_MAX {
            return Ok(None);
        }
    }
}

fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

fn parse(bytes: &[u8]) -> Result<Request, Refusal> {
    let (head, body) = bytes.split_at(end_of_head(bytes).unwrap_or(bytes.len()));
    let head = std::str::from_utf8(head).map_err(|_| bad("the head of the request is not text"))?;
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let mut words = first.split(' ');
    let (Some(method), Some(address), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(bad("the first line is not METHOD ADDRESS VERSION"));
    };
    if method == "CONNECT" {
        let target = Target::parse(address, None).ok_or_else(|| bad("CONNECT needs a host and a port"))?;
        return Ok(Request { target, tunnel: true, forward: body.to_vec() });
    }
    let Some(rest) = strip_scheme(address) else {
        return Err(bad("this is a proxy: ask for http://HOST/PATH, or CONNECT HOST:443 for https"));
    };
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    let target = Target::parse(authority, Some(80)).ok_or_else(|| bad("the address has no host"))?;
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut forward = format!("{method} {slash}{path} {version}\r\nHost: {authority}\r\n");
    for line in lines.take_while(|line| !line.is_empty()) {
        let name = line.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
        // The target is what was judged, and one connection serves one request.
        if !matches!(name.as_str(), "host" | "connection" | "proxy-connection" | "proxy-authorization" | "keep-alive") {
            forward.push_str(line);
            forward.push_str("\r\n");
        }
    }
    forward.push_str("Connection: close\r\n\r\n");
    let mut forward = forward.into_bytes();
    forward.extend_from_slice(body);
    Ok(Request { target, tunnel: false, forward })
}

fn strip_scheme(address: &str) -> Option<&str> {
    let (scheme, rest) = address.split_once("://")?;
    scheme.eq_ignore_ascii_case("http").then_some(rest)
}

async fn open(target: &Target, rules: &[HostRule]) -> Result<TcpStream, Refusal> {
    let standing = standing(rules, target);
    if standing == Standing::Refused {
        tracing::info!(%target, "the sandbox's list of hosts does not name what a command asked for");
        return Err(forbidden(format!(
            "{target} is not on the list of hosts that commands may reach; only the user can add it (sandbox.allow)"
        )));
    }
    let found = tokio::time::timeout(CONNECT_MAX, tokio::net::lookup_host((target.host.as_str(), target.port))).await;
    let addresses: Vec<SocketAddr> = match found {
        Ok(Ok(addresses)) => addresses.take(ADDRESSES_MAX).collect(),
        Ok(Err(_)) | Err(_) => return Err(unreachable(format!("{} cannot be found by its name", target.host))),
    };
    let allowed: Vec<SocketAddr> =
        addresses.into_iter().filter(|found| standing == Standing::Anywhere || is_public(found.ip())).collect();
    if allowed.is_empty() {
        return Err(forbidden(format!(
            "{target} leads to this machine or to a private network; only a rule with the address itself allows that"
        )));
    }
    for address in allowed {
        if let Ok(Ok(stream)) = tokio::time::timeout(CONNECT_MAX, TcpStream::connect(address)).await {
            return Ok(stream);
        }
    }
    Err(unreachable(format!("{target} does not answer")))
}

fn bad(reason: &str) -> Refusal {
    Refusal { status: "400 Bad Request", reason: reason.to_owned() }
}

fn forbidden(reason: String) -> Refusal {
    Refusal { status: "403 Forbidden", reason }
}

fn unreachable(reason: String) -> Refusal {
    Refusal { status: "502 Bad Gateway", reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_requests_go_on_without_what_was_meant_for_the_proxy() {
        let asked = "GET http://Example.org:81/a?b HTTP/1.1\r\nHost: other.example\r\nProxy-Authorization: x\r\nAccept: */*\r\n\r\nbody";
        let request = parse(asked.as_bytes()).expect("a request");
        assert_eq!(request.target, Target { host: "example.org".to_owned(), port: 81 });
        assert_eq!(
            String::from_utf8_lossy(&request.forward),
            "GET /a?b HTTP/1.1\r\nHost: Example.org:81\r\nAccept: */*\r\nConnection: close\r\n\r\nbody"
        );
        let bare = parse(b"GET http://example.org?x HTTP/1.1\r\n\r\n").expect("a request");
        assert!(bare.forward.starts_with(b"GET /?x HTTP/1.1\r\nHost: example.org\r\n"));
    }

    #[test]
    fn nonsense_is_refused() {
        for asked in [
            "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
            "CONNECT example.org HTTP/1.1\r\n\r\n",
            "CONNECT user@example.org:443 HTTP/1.1\r\n\r\n",
            "GET http://user:word@example.org/ HTTP/1.1\r\n\r\n",
            "GET https://example.org/ HTTP/1.1\r\n\r\n",
            "GET file:///etc/passwd HTTP/1.1\r\n\r\n",
            "GET  http://example.org/ HTTP/1.1\r\n\r\n",
            "\r\n\r\n",
        ] {
            assert_eq!(parse(asked.as_bytes()).expect_err("refused").status, "400 Bad Request", "{asked}");
        }
    }
}
