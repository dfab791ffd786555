//! What a node is made with, from the `libp2p` entry of `transports` in `network.yaml` or from code.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
};

use libp2p::{Multiaddr, multiaddr::Protocol};
use serde_json::{Map, Value};

/// The port of TCP and QUIC where none is named.
pub const PORT: u16 = 8710;

/// The settings of a node. Start from [`Libp2pSettings::on_loopback`].
#[derive(Debug, Clone)]
pub struct Libp2pSettings {
    /// Where it listens.
    pub listen: Vec<Multiaddr>,
    /// The network's folder, in which the node's key is.
    pub folder: PathBuf,
    /// Connections at once.
    pub connections_max: u32,
    /// Connections of one peer at once.
    pub connections_per_peer_max: u32,
    /// Event streams of one peer at once.
    pub streams_per_peer_max: usize,
    /// Largest event on a topic, bytes; a larger one is delivered over streams only.
    pub gossip_bytes_max: usize,
    /// Events that were pushed on a stream and not acknowledged.
    pub unacknowledged_max: usize,
    /// Failed attempts to come in from one address at once, after which one a second.
    pub failures_burst: u32,
}

impl Libp2pSettings {
    /// TCP and QUIC on 127.0.0.1 and this port; 0 takes a free one for each.
    #[must_use]
    pub fn on_loopback(folder: &Path, port: u16) -> Self {
        Self::listening(folder, IpAddr::V4(Ipv4Addr::LOCALHOST), port)
    }

    fn listening(folder: &Path, host: IpAddr, port: u16) -> Self {
        let host = Multiaddr::from(host);
        Self {
            listen: vec![host.clone().with(Protocol::Tcp(port)), host.with(Protocol::Udp(port)).with(Protocol::QuicV1)],
            folder: folder.to_path_buf(),
            connections_max: 2_000,
            connections_per_peer_max: 4,
            streams_per_peer_max: 16,
            gossip_bytes_max: 64 * 1024,
            unacknowledged_max: 256,
            failures_burst: 20,
        }
    }

    /// From `config` of the transport: `host`, `port`, `max_connections`. Beside them, a line for people for each
    /// thing that was not understood or not taken.
    ///
    /// A host beyond loopback is taken only with `tls.enabled: true`, as with the other transports, although every
    /// connection is encrypted and the node proves its key: it is the operator's word that the network is meant for
    /// others.
    #[must_use]
    pub fn from_config(folder: &Path, config: &Map<String, Value>) -> (Self, Vec<String>) {
        let mut notices = Vec::new();
        let number = |key: &str| config.get(key).and_then(Value::as_u64);
        let port = match config.get("port") {
            None => PORT,
            Some(port) => port.as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or_else(|| {
                notices.push(format!("libp2p: port {port} is none; {PORT} is used"));
                PORT
            }),
        };
        let open = config.get("tls").and_then(|tls| tls.get("enabled")).and_then(Value::as_bool).unwrap_or_default();
        let host = config.get("host").and_then(Value::as_str).unwrap_or("127.0.0.1");
        let host = match host.parse::<IpAddr>() {
            Ok(host) if host.is_loopback() || open => host,
            Ok(_) => {
                notices.push(format!(
                    "libp2p: host {host} is beyond this machine; 127.0.0.1 is used until `tls.enabled` says that others are meant"
                ));
                IpAddr::V4(Ipv4Addr::LOCALHOST)
            }
            Err(_) => {
                if host != "localhost" {
                    notices.push(format!("libp2p: host {host:?} is not an IP address; 127.0.0.1 is used"));
                }
                IpAddr::V4(Ipv4Addr::LOCALHOST)
            }
        };
        let mut settings = Self::listening(folder, host, port);
        if let Some(most) = number("max_connections").and_then(|most| u32::try_from(most).ok()) {
            settings.connections_max = most.max(1);
        }
        for key in config.keys().filter(|key| !["host", "port", "tls", "max_connections"].contains(&key.as_str())) {
            notices.push(format!("libp2p: `{key}` is not known and has no effect"));
        }
        (settings, notices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_beyond_loopback_need_a_word_and_what_is_not_known_is_said() {
        let read = |text: &str| {
            let config: Map<String, Value> = serde_json::from_str(text).unwrap();
            let (settings, notices) = Libp2pSettings::from_config(Path::new("/nowhere"), &config);
            (settings.listen[0].to_string(), notices.len())
        };
        assert_eq!(read("{}"), ("/ip4/127.0.0.1/tcp/8710".into(), 0));
        assert_eq!(read(r#"{"host":"localhost","port":9}"#), ("/ip4/127.0.0.1/tcp/9".into(), 0));
        assert_eq!(read(r#"{"host":"0.0.0.0"}"#), ("/ip4/127.0.0.1/tcp/8710".into(), 1));
        assert_eq!(read(r#"{"host":"0.0.0.0","tls":{"enabled":true}}"#), ("/ip4/0.0.0.0/tcp/8710".into(), 0));
        assert_eq!(read(r#"{"port":"x","mdns":true}"#), ("/ip4/127.0.0.1/tcp/8710".into(), 2));
    }
}
