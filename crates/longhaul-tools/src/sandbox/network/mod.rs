//! What of the network one command reaches: the outlets of its sandbox, served by the harness on Unix sockets.
//!
//! The sandbox has no network but its own loopback. The helper inside listens on ports of that loopback and carries each
//! connection to a socket of a folder bound read-only into the sandbox; here, outside, such a socket is either a proxy
//! with a list of hosts ([`Network::Allow`]) or a [`Gateway`] to one service, which adds what must stay secret.
//!
//! Invariants: a name is resolved outside, and the address that was judged is the one connected to; an address of this
//! machine or of a private network is reached only if a rule names it; the value of a secret header exists in this
//! process only. Everything ends with the command.

mod gateway;
mod proxy;
mod rules;
mod sockets;

use std::path::Path;

use tokio::net::UnixListener;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use gateway::{Gateway, GatewayError, HeaderSecret};
pub use rules::{HostRule, HostRuleError};
pub(super) use sockets::SocketFolder;

use super::{
    SandboxError,
    bwrap::{Mount, NET_FOLDER},
    plan::Relay,
    settings::Network,
};

/// The port of the proxy on the sandbox's loopback.
pub(super) const PROXY_PORT: u16 = 3128;
const PROXY_SOCKET: &str = "proxy.sock";

/// The outlets of one command; they close when it is dropped.
#[derive(Debug)]
pub(super) struct Outlets {
    folder: SocketFolder,
    relays: Vec<Relay>,
    has_proxy: bool,
    _stop: DropGuard,
}

impl Outlets {
    /// Opens what a command needs; `None` if that is nothing. Must be called within a tokio runtime.
    pub(super) fn open(
        runtime_dir: &Path,
        network: &Network,
        gateways: &[Gateway],
    ) -> Result<Option<Self>, SandboxError> {
        let rules = match network {
            Network::Allow(rules) if !rules.is_empty() => Some(rules.clone()),
            Network::LoopbackOnly | Network::Allow(_) | Network::Host => None,
        };
        if rules.is_none() && gateways.is_empty() {
            return Ok(None);
        }
        let folder = SocketFolder::new(runtime_dir, "net-")?;
        let stop = CancellationToken::new();
        let mut relays = Vec::new();
        let has_proxy = rules.is_some();
        if let Some(rules) = rules {
            let listener = listen(&folder, PROXY_SOCKET)?;
            tokio::spawn(proxy::serve(listener, rules.into(), stop.clone()));
            relays.push(Relay { port: PROXY_PORT, socket: PROXY_SOCKET.to_owned() });
        }
        for (index, gateway) in gateways.iter().enumerate() {
            let socket = format!("gateway-{index}.sock");
            if relays.iter().any(|known| known.port == gateway.inside_port()) {
                return Err(SandboxError::PortTaken { port: gateway.inside_port() });
            }
            tokio::spawn(gateway.serve(listen(&folder, &socket)?, stop.clone())?);
            relays.push(Relay { port: gateway.inside_port(), socket });
        }
        Ok(Some(Self { folder, relays, has_proxy, _stop: stop.drop_guard() }))
    }

    /// What the helper inside has to listen on.
    pub(super) fn relays(&self) -> &[Relay] {
        &self.relays
    }

    pub(super) fn mount(&self) -> Mount {
        Mount::readonly(self.folder.path(), NET_FOLDER)
    }

    /// What tells programs of the proxy.
    pub(super) fn env(&self) -> Vec<(String, String)> {
        if !self.has_proxy {
            return Vec::new();
        }
        let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
        let own = "localhost,127.0.0.1,::1";
        let mut env = Vec::new();
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            env.push((name.to_owned(), proxy.clone()));
        }
        for name in ["NO_PROXY", "no_proxy"] {
            env.push((name.to_owned(), own.to_owned()));
        }
        // Node's own `fetch` looks at the variables above only when told to.
        env.push(("NODE_USE_ENV_PROXY".to_owned(), "1".to_owned()));
        env
    }
}

fn listen(folder: &SocketFolder, name: &str) -> Result<UnixListener, SandboxError> {
    let listener = folder.bind(name)?;
    let listener = listener.set_nonblocking(true).and_then(|()| UnixListener::from_std(listener));
    listener.map_err(|source| super::io_error("listen on a socket in", folder.path(), source))
}
