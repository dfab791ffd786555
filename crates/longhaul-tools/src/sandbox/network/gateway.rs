//! A gateway to one service: a port of the sandbox's loopback leads to it, and what must stay secret is added outside.

use std::{fmt, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, uri::PathAndQuery},
    response::{IntoResponse, Response},
};
use reqwest::{Client, Url, redirect};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use crate::sandbox::SandboxError;

const CONNECT_MAX: Duration = Duration::from_secs(15);

/// Headers that belong to one connection and are never passed on (RFC 9110, 7.6.1).
const OF_ONE_CONNECTION: [HeaderName; 7] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// A header's value that does not print.
#[derive(Clone)]
pub struct HeaderSecret(HeaderValue);

impl fmt::Debug for HeaderSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeaderSecret(***)")
    }
}

/// `http://127.0.0.1:PORT` inside leads to one service outside. Requests keep their method, path, query, headers and
/// body; the service's own path comes before theirs; the secret headers are added outside, over any that the command
/// sent. Answers stream.
#[derive(Debug, Clone)]
pub struct Gateway {
    inside_port: u16,
    upstream: Url,
    secrets: Vec<(HeaderName, HeaderSecret)>,
}

/// A gateway that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GatewayError {
    /// The service's address.
    #[error("{upstream:?} is not the address of a service: write http://HOST/PATH or https://HOST/PATH")]
    Upstream {
        /// As given.
        upstream: String,
    },
    /// A header that cannot be sent. Its value is not shown.
    #[error("the header {name:?} cannot be sent: its name or its value has characters that no header may have")]
    Header {
        /// Its name.
        name: String,
    },
}

impl Gateway {
    /// A gateway from a port inside to the service at `upstream`, which may be on this machine.
    ///
    /// # Errors
    /// [`GatewayError::Upstream`] for what is not an address of HTTP, or has a password in it.
    pub fn new(inside_port: u16, upstream: &str) -> Result<Self, GatewayError> {
        let fail = || GatewayError::Upstream { upstream: upstream.to_owned() };
        let url: Url = upstream.parse().map_err(|_| fail())?;
        let plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() || !plain || inside_port == 0 {
            return Err(fail());
        }
        Ok(Self { inside_port, upstream: url, secrets: Vec::new() })
    }

    /// The same, with a header that is added to every request outside.
    ///
    /// # Errors
    /// [`GatewayError::Header`] for a name or a value that no header may have.
    pub fn header(mut self, name: &str, secret: &str) -> Result<Self, GatewayError> {
        let fail = || GatewayError::Header { name: name.to_owned() };
        let key: HeaderName = name.parse().map_err(|_| fail())?;
        let mut value = HeaderValue::from_str(secret.trim()).map_err(|_| fail())?;
        value.set_sensitive(true);
        self.secrets.push((key, HeaderSecret(value)));
        Ok(self)
    }

    /// The port inside.
    #[must_use]
    pub fn inside_port(&self) -> u16 {
        self.inside_port
    }

    /// Serves connections of the helper inside until `stop`.
    pub(super) fn serve(
        &self,
        listener: UnixListener,
        stop: CancellationToken,
    ) -> Result<impl Future<Output = ()> + Send + use<>, SandboxError> {
        let client = client(&self.upstream).map_err(|reason| SandboxError::Gateway {
            upstream: self.upstream.origin().ascii_serialization(),
            reason,
        })?;
        let door = Arc::new(Door { client, upstream: self.upstream.clone(), secrets: self.secrets.clone() });
        let router = Router::new().fallback(pass).with_state(door);
        Ok(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                // It ends with the listener only.
                _ = axum::serve(listener, router) => {}
            }
        })
    }
}

struct Door {
    client: Client,
    upstream: Url,
    secrets: Vec<(HeaderName, HeaderSecret)>,
}

async fn pass(State(door): State<Arc<Door>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Some(url) = beneath(&door.upstream, parts.uri.path_and_query()) else {
        return refused(StatusCode::BAD_REQUEST, "the path leads out of the service's own path");
    };
    let mut headers = end_to_end(&parts.headers);
    headers.remove(header::HOST);
    for (name, HeaderSecret(value)) in &door.secrets {
        headers.insert(name, value.clone());
    }
    let sent = door.client.request(parts.method, url).headers(headers);
    let sent = sent.body(reqwest::Body::wrap_stream(body.into_data_stream())).send().await;
    match sent {
        Ok(answer) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = answer.status();
            *response.headers_mut() = end_to_end(answer.headers());
            *response.body_mut() = Body::from_stream(answer.bytes_stream());
            response
        }
        Err(error) => {
            let what = if error.is_connect() { "the service cannot be reached" } else { "the service broke off" };
            tracing::debug!(error = %error.without_url(), "a gateway's request failed");
            refused(StatusCode::BAD_GATEWAY, what)
        }
    }
}

fn refused(status: StatusCode, reason: &str) -> Response {
    (status, format!("longhaul: {reason}\n")).into_response()
}

/// The address of a request at the service; never outside of the service's own path.
fn beneath(upstream: &Url, asked: Option<&PathAndQuery>) -> Option<Url> {
    let base = upstream.path().trim_end_matches('/');
    let mut url = upstream.clone();
    url.set_path(&format!("{base}{}", asked.map_or("/", PathAndQuery::path)));
    url.set_query(asked.and_then(PathAndQuery::query));
    let within = url.path().strip_prefix(base).is_some_and(|rest| rest.starts_with('/'));
    (within && url.origin() == upstream.origin()).then_some(url)
}

fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let mut kept = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let once = OF_ONE_CONNECTION.contains(name) || matches!(name.as_str(), "keep-alive" | "proxy-connection");
        if !once && !named.iter().any(|other| other == name.as_str()) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

/// TLS by rustls with the ring provider named here, the system's certificates, and no redirects, which would carry the
/// secret elsewhere.
fn client(upstream: &Url) -> Result<Client, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let tls = if upstream.scheme() == "http" {
        // Nothing is encrypted there: do not read a few hundred certificates for it.
        builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
    } else {
        builder.with_platform_verifier().map_err(|error| error.to_string())?.with_no_client_auth()
    };
    let mut client = Client::builder()
        .connect_timeout(CONNECT_MAX)
        .redirect(redirect::Policy::none())
        .tls_backend_preconfigured(tls);
    let here = upstream.host_str().is_some_and(|host| matches!(host, "localhost" | "127.0.0.1" | "[::1]"));
    if here {
        client = client.no_proxy();
    }
    client.build().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_stays_beneath_the_services_path() {
        let upstream: Url = "https://api.example.org/v1/".parse().expect("an address");
        let at = |path: &str| beneath(&upstream, Some(&path.parse().expect("a path"))).map(String::from);
        assert_eq!(at("/messages?beta=1").as_deref(), Some("https://api.example.org/v1/messages?beta=1"));
        assert_eq!(at("/a/../messages").as_deref(), Some("https://api.example.org/v1/messages"));
        for outside in ["/../admin", "/%2e%2e/admin", "/../v1evil/x", "/a/../../v2/x"] {
            assert_eq!(at(outside), None, "{outside}");
        }
        assert_eq!(at("//evil.example/x").as_deref(), Some("https://api.example.org/v1//evil.example/x"));
    }

    #[test]
    fn a_secret_neither_prints_nor_appears_in_an_error() {
        let gateway =
            Gateway::new(8100, "http://127.0.0.1:9").and_then(|gateway| gateway.header("x-api-key", "sk-secret"));
        assert!(!format!("{:?}", gateway.expect("a gateway")).contains("sk-secret"));
        let broken =
            Gateway::new(8100, "http://127.0.0.1:9").and_then(|gateway| gateway.header("x-api-key", "sk-\nsecret"));
        assert!(!broken.expect_err("refused").to_string().contains("secret"));
        for upstream in
            ["ftp://example.org", "example.org", "https://user:word@example.org/", "https://example.org/?key=1"]
        {
            assert!(Gateway::new(8100, upstream).is_err(), "{upstream}");
        }
    }
}
