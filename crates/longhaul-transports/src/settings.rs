//! What is served where, as `transports` of `network.yaml` says it.
//!
//! It owns the reading of the keys `http`, `grpc` and `websocket`; those of other transports are their crates'.
//! Invariant (12): an address beyond loopback without TLS is replaced by loopback, and said so.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use longhaul_network::settings::NetworkSettings;
use serde_json::{Map, Value};

use crate::edge::{Limits, TlsSettings};

/// The ports of the contract.
const HTTP_PORT: u16 = 8700;
const GRPC_PORT: u16 = 8600;
const WEBSOCKET_PORT: u16 = 8400;

/// Where and within which bounds a network is served.
#[derive(Debug, Clone)]
pub struct ServingSettings {
    /// HTTP: the contract, streams, WebSocket at `/ws`, MCP at `/mcp`.
    pub http: Option<HttpSettings>,
    /// gRPC.
    pub grpc: Option<GrpcSettings>,
    /// WebSocket on a port of its own, for clients that know no path.
    pub websocket: Option<SocketAddr>,
    /// The bounds of the edge.
    pub limits: Limits,
    /// The transport that clients should use: `http`, or `grpc`.
    pub recommended: Option<String>,
}

/// HTTP.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Where; port 0 for any that is free.
    pub address: SocketAddr,
    /// Needed beyond loopback.
    pub tls: Option<TlsSettings>,
    /// Names under which clients reach it beside those of loopback: `network.example.org`.
    pub hosts: Vec<String>,
    /// Pages that may call it: `https://studio.example.org`.
    pub origins: Vec<String>,
    /// MCP at `/mcp`.
    pub mcp: bool,
}

/// gRPC.
#[derive(Debug, Clone)]
pub struct GrpcSettings {
    /// Where; port 0 for any that is free.
    pub address: SocketAddr,
    /// Needed beyond loopback.
    pub tls: Option<TlsSettings>,
    /// The transport's `config` as it was written: keepalive, message size.
    pub config: Map<String, Value>,
}

impl ServingSettings {
    /// Reads `transports`; without any, HTTP and gRPC on their usual ports. Beside the settings: what had to be changed
    /// or was not understood, a line each.
    #[must_use]
    pub fn read(network: &NetworkSettings) -> (Self, Vec<String>) {
        let mut notices = Vec::new();
        let mut limits = Limits::default();
        limits.body_bytes_max = limits.body_bytes_max.max(network.message_bytes_max.saturating_add(64 * 1024));
        let recommended = network.rest.get("recommended_transport").and_then(Value::as_str).map(str::to_owned);
        let mut read = Self { http: None, grpc: None, websocket: None, limits, recommended };
        if network.transports.is_empty() {
            read.http = Some(HttpSettings::at(SocketAddr::from((Ipv4Addr::LOCALHOST, HTTP_PORT))));
            read.grpc = Some(GrpcSettings::at(SocketAddr::from((Ipv4Addr::LOCALHOST, GRPC_PORT))));
        }
        for (kind, config) in &network.transports {
            match kind.as_str() {
                "http" => read.http = Some(http(config, &mut notices)),
                "grpc" => {
                    let (address, tls) = place("grpc", config, GRPC_PORT, &mut notices);
                    read.grpc = Some(GrpcSettings { address, tls, config: config.clone() });
                }
                "websocket" => {
                    let (address, tls) = place("websocket", config, WEBSOCKET_PORT, &mut notices);
                    if tls.is_some() {
                        notices.push("transport websocket: with TLS it is served at /ws of the HTTP transport".into());
                    } else {
                        read.websocket = Some(address);
                    }
                }
                // On the HTTP port, or in a crate of their own.
                "mcp" | "a2a" | "libp2p" => {}
                other => notices.push(format!("transport {other}: there is none of this name, nothing listens for it")),
            }
        }
        (read, notices)
    }

    /// HTTP and gRPC on free ports of loopback.
    #[must_use]
    pub fn anywhere() -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self {
            http: Some(HttpSettings::at(address)),
            grpc: Some(GrpcSettings::at(address)),
            websocket: None,
            limits: Limits::default(),
            recommended: None,
        }
    }
}

impl HttpSettings {
    /// This address, without TLS, for programs only.
    #[must_use]
    pub fn at(address: SocketAddr) -> Self {
        Self { address, tls: None, hosts: Vec::new(), origins: Vec::new(), mcp: true }
    }
}

impl GrpcSettings {
    /// This address, without TLS.
    #[must_use]
    pub fn at(address: SocketAddr) -> Self {
        Self { address, tls: None, config: Map::new() }
    }
}

fn http(config: &Map<String, Value>, notices: &mut Vec<String>) -> HttpSettings {
    let (address, tls) = place("http", config, HTTP_PORT, notices);
    let origins: Vec<String> = texts(config, "cors_origins");
    if origins.iter().any(|origin| origin == "*") {
        notices
            .push("transport http: cors_origins \"*\" would let every page act for its reader; name the pages".into());
    }
    if config.get("serve_studio").and_then(Value::as_bool) == Some(true) {
        notices.push("transport http: serve_studio: there is no Studio in this program".into());
    }
    HttpSettings {
        address,
        tls,
        hosts: texts(config, "hosts"),
        origins: origins.into_iter().filter(|origin| origin != "*").collect(),
        mcp: config.get("serve_mcp").and_then(Value::as_bool) != Some(false),
    }
}

/// The address of a transport and its TLS.
fn place(
    kind: &str,
    config: &Map<String, Value>,
    usual: u16,
    notices: &mut Vec<String>,
) -> (SocketAddr, Option<TlsSettings>) {
    let tls = config.get("tls").and_then(Value::as_object).and_then(|tls| TlsSettings::read(kind, tls, notices));
    let said = config.get("port").and_then(Value::as_u64);
    let port = said.and_then(|port| u16::try_from(port).ok()).unwrap_or(usual);
    if said.is_some_and(|said| said > u64::from(u16::MAX)) {
        notices.push(format!("transport {kind}: port {} is none, {usual} is used", said.unwrap_or_default()));
    }
    let host = config.get("host").and_then(Value::as_str).unwrap_or("127.0.0.1").trim();
    let address = match host {
        "" | "localhost" => Ok(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        host => host.trim_matches(['[', ']']).parse::<IpAddr>(),
    };
    let address = address.unwrap_or_else(|_| {
        notices.push(format!("transport {kind}: host {host:?} is no address, 127.0.0.1 is used"));
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    });
    if !address.is_loopback() && tls.is_none() {
        notices.push(format!(
            "transport {kind}: host {address} can be reached from other machines and there is no tls, so 127.0.0.1 is \
             used: give tls.cert_file and tls.key_file"
        ));
        return (SocketAddr::from((Ipv4Addr::LOCALHOST, port)), None);
    }
    (SocketAddr::from((address, port)), tls)
}

fn texts(config: &Map<String, Value>, key: &str) -> Vec<String> {
    let all = config.get(key).and_then(Value::as_array);
    all.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
