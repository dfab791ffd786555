//! All transports of a network, from listening to the end.

use std::{fmt, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use axum::Router;
use longhaul_network::Network;
use longhaul_tools::mcp::Shelf;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::service::Routes;

use crate::{
    edge::{Guard, TlsSettings, acceptor},
    front::Front,
    grpc, http,
    listen::Listening,
    mcp::McpDoor,
    settings::ServingSettings,
    ws,
};

/// What other crates serve on the same ports, and what is to be shown of transports of their own.
#[derive(Default)]
pub struct Extra {
    /// Routes beside those of this crate, behind the same edge: `Host`, `Origin`, bounds of bodies and time.
    pub http_routers: Vec<Router>,
    /// Services beside `openagents.AgentService` on the gRPC port.
    pub grpc_routes: Vec<Routes>,
    /// What the MCP server offers beside the events of mods: prompts, resources, tools that ask their caller.
    pub mcp_shelf: Option<Arc<dyn Shelf>>,
    /// The descriptions of those services for reflection: encoded `FileDescriptorSet`s.
    pub grpc_descriptions: Vec<&'static [u8]>,
    /// Transports that are served elsewhere, as `/api/health` lists them: `{"type": "libp2p", "config": {…}}`.
    pub transports: Vec<Value>,
}

impl fmt::Debug for Extra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extra").field("transports", &self.transports).finish_non_exhaustive()
    }
}

/// Why a network is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Others could read along.
    #[error("{address} can be reached from other machines, so it needs TLS: give tls.cert_file and tls.key_file")]
    NeedsTls {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be had.
    #[error("cannot listen on {address}: end what uses it, or give the transport another port")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Certificate or key cannot be used.
    #[error("cannot use {path} for TLS: {problem}")]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A service's description is none. A bug of whoever gave it.
    #[error("the description of a gRPC service cannot be read: {problem}")]
    Description {
        /// What is wrong.
        problem: String,
    },
}

/// A network that is served. Ends with [`Self::stop`]; dropped, it goes on until the runtime ends.
#[derive(Debug)]
pub struct Serving {
    http: Option<SocketAddr>,
    https: bool,
    grpc: Option<SocketAddr>,
    websocket: Option<SocketAddr>,
    notices: Vec<String>,
    shutdown: CancellationToken,
    cut: CancellationToken,
    open: TaskTracker,
    shutdown_max: Duration,
    mcp: Option<McpDoor>,
}

impl Serving {
    /// Listens and serves as the network's own settings say. Raises this process's bound on open files, as each agent
    /// is a connection.
    ///
    /// # Errors
    /// [`ServeError`].
    pub async fn start(network: Network, extra: Extra) -> Result<Self, ServeError> {
        let (settings, notices) = ServingSettings::read(&network.view().settings);
        let mut serving = Self::start_with(network, settings, extra).await?;
        serving.notices = notices;
        Ok(serving)
    }

    /// Listens and serves as these settings say.
    ///
    /// # Errors
    /// [`ServeError`].
    pub async fn start_with(network: Network, settings: ServingSettings, extra: Extra) -> Result<Self, ServeError> {
        raise_open_files(settings.limits.connections_max);
        let ServingSettings { http, grpc, websocket, limits, recommended } = settings;
        let Extra { mut http_routers, grpc_routes, grpc_descriptions, mcp_shelf, transports } = extra;
        let http_listener = match &http {
            Some(http) => Some(listener(http.address, http.tls.as_ref()).await?),
            None => None,
        };
        let grpc_listener = match &grpc {
            Some(grpc) => Some(listener(grpc.address, grpc.tls.as_ref()).await?),
            None => None,
        };
        let ws_listener = match websocket {
            Some(address) => Some(listener(address, None).await?),
            None => None,
        };
        let address = |listener: &Option<(TcpListener, SocketAddr)>| listener.as_ref().map(|(_, address)| *address);
        let (http_at, grpc_at, ws_at) = (address(&http_listener), address(&grpc_listener), address(&ws_listener));
        let listed = listed(&network, http_at, grpc_at, ws_at, transports);
        let recommended = recommended
            .filter(|wanted| listed.iter().any(|one| one["type"] == wanted.as_str()))
            .unwrap_or_else(|| if http_at.is_some() { "http" } else { "grpc" }.to_owned());
        let (shutdown, cut, open) = (CancellationToken::new(), CancellationToken::new(), TaskTracker::new());
        let front = Front::new(network.clone(), limits.clone(), shutdown.clone(), listed, recommended);
        let listening = |router: Router, acceptor| Listening {
            router,
            acceptor,
            limits: limits.clone(),
            shutdown: shutdown.clone(),
            cut: cut.clone(),
            open: open.clone(),
            http2: None,
        };
        let mcp = http.as_ref().is_some_and(|http| http.mcp).then(|| McpDoor::new(front.clone(), mcp_shelf));
        http_routers.extend(mcp.clone().map(McpDoor::routes));
        let https = http.as_ref().is_some_and(|http| http.tls.is_some());
        if let (Some(http), Some((listener, at))) = (&http, http_listener) {
            let tls = http.tls.as_ref().map(|files| acceptor(files, &["http/1.1"])).transpose()?;
            let guard = Guard::new(at, &http.hosts, tls.is_some(), &http.origins);
            let router = http::service(front.clone(), guard, std::mem::take(&mut http_routers));
            open.spawn(listening(router, tls).run(listener));
        }
        if let Some((listener, at)) = ws_listener {
            let guard = Guard::new(at, &[], false, &[]);
            open.spawn(listening(ws::alone(front.clone(), guard), None).run(listener));
        }
        if let (Some(grpc), Some((listener, at))) = (grpc, grpc_listener) {
            let tls = grpc.tls.as_ref().map(|files| acceptor(files, &["h2"])).transpose()?;
            let (router, bounds) = grpc::service(front.clone(), &grpc, at, grpc_routes, &grpc_descriptions)
                .map_err(|error| ServeError::Description { problem: error.to_string() })?;
            let listening = Listening { http2: Some(bounds), ..listening(router, tls) };
            open.spawn(listening.run(listener));
        }
        let shutdown_max = limits.shutdown_max;
        let notices = Vec::new();
        Ok(Self {
            http: http_at,
            https,
            grpc: grpc_at,
            websocket: ws_at,
            notices,
            shutdown,
            cut,
            open,
            shutdown_max,
            mcp,
        })
    }

    /// Where clients reach it: `http://127.0.0.1:PORT`; nothing when HTTP is not served.
    #[must_use]
    pub fn url(&self) -> Option<String> {
        self.http.map(|address| format!("{}://{address}", if self.https { "https" } else { "http" }))
    }

    /// The address of HTTP, with the port that was chosen.
    #[must_use]
    pub fn http(&self) -> Option<SocketAddr> {
        self.http
    }

    /// The address of gRPC.
    #[must_use]
    pub fn grpc(&self) -> Option<SocketAddr> {
        self.grpc
    }

    /// The address of the WebSocket port, where there is one of its own.
    #[must_use]
    pub fn websocket(&self) -> Option<SocketAddr> {
        self.websocket
    }

    /// What of `transports` had to be changed or was not understood, a line each.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Ends: nobody new is let in, streams and held polls are told, open requests have a few seconds.
    pub async fn stop(self) {
        self.shutdown.cancel();
        self.open.close();
        if tokio::time::timeout(self.shutdown_max, self.open.wait()).await.is_err() {
            self.cut.cancel();
            self.open.wait().await;
        }
        if let Some(mcp) = self.mcp {
            mcp.leave().await;
        }
    }
}

async fn listener(address: SocketAddr, tls: Option<&TlsSettings>) -> Result<(TcpListener, SocketAddr), ServeError> {
    if !address.ip().is_loopback() && tls.is_none() {
        return Err(ServeError::NeedsTls { address });
    }
    let failed = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// The transports as clients read them; the first they can speak is where they go.
fn listed(
    network: &Network,
    http: Option<SocketAddr>,
    grpc: Option<SocketAddr>,
    websocket: Option<SocketAddr>,
    others: Vec<Value>,
) -> Vec<Value> {
    let written = network.view().settings.transports.clone();
    let one = |kind: &str, at: SocketAddr| {
        // An address that means "any of mine" is none to go to: the client takes the host it came by.
        let mut config = json!({ "port": at.port() });
        if !at.ip().is_unspecified() {
            config["host"] = at.ip().to_string().into();
        }
        let said = written.iter().find(|(name, _)| name == kind).map(|(_, config)| config);
        for key in ["serve_mcp", "serve_a2a"] {
            if let Some(value) = said.and_then(|config| config.get(key)) {
                config[key] = value.clone();
            }
        }
        json!({ "type": kind, "config": config })
    };
    let own = [("http", http), ("grpc", grpc), ("websocket", websocket)];
    own.into_iter().filter_map(|(kind, at)| Some(one(kind, at?))).chain(others).collect()
}

/// Each connection is a descriptor, and the usual soft bound is 1,024.
fn raise_open_files(connections_max: usize) {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = (connections_max as u64).saturating_add(1024);
    let possible = limit.maximum.map_or(wanted, |most| most.min(wanted));
    if limit.current.is_some_and(|current| current < possible) {
        limit.current = Some(possible);
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "the bound on open files stays as it is: fewer agents can connect");
        }
    }
}
