//! Listening: addresses, TLS, connections and their bounds, and a graceful end.
//!
//! Invariant (12): beyond loopback nothing is served without TLS; a key is asked for everywhere.

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use axum::{Router, body::Body, http::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower_service::Service;

use crate::{Gateway, Limits, guard::Guard, hooks::Courier, routes};

/// A pause after the system refused a connection, as when it has no descriptors left.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

/// How often answers that nobody may ask for any more are removed.
const SWEEP: Duration = Duration::from_secs(600);

/// Where a server listens. Start from [`ServerSettings::new`].
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The address; port 0 for any that is free.
    pub address: SocketAddr,
    /// Certificate and key; needed beyond loopback.
    pub tls: Option<TlsFiles>,
    /// Names under which clients reach it, beside those of loopback: `longhaul.example.org`.
    pub hosts: Vec<String>,
}

/// Files of TLS, in PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate and those that vouch for it.
    pub certificates: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

impl ServerSettings {
    /// This address without TLS, under the names of loopback.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self { address, tls: None, hosts: Vec::new() }
    }
}

/// Why a server does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Others could read along.
    #[error(
        "{address} can be reached from other machines, so it needs TLS: give --tls-cert and --tls-key, or listen on 127.0.0.1"
    )]
    NeedsTls {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be had.
    #[error("cannot listen on {address}: end what uses it, or choose another with --listen")]
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
}

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    router: Router,
    limits: Limits,
    gateway: Gateway,
    courier: Option<Courier>,
}

impl Server {
    /// Begins to listen.
    ///
    /// # Errors
    /// [`ServeError`].
    pub async fn bind(gateway: Gateway, settings: ServerSettings) -> Result<Self, ServeError> {
        let ServerSettings { address, tls, hosts } = settings;
        if !address.ip().is_loopback() && tls.is_none() {
            return Err(ServeError::NeedsTls { address });
        }
        let acceptor = tls.as_ref().map(acceptor).transpose()?;
        let failed = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let guard = Guard::new(address.port(), &hosts, acceptor.is_some());
        let limits = gateway.limits().clone();
        let courier = gateway.doors().courier(gateway.store());
        let router = routes::service(gateway.clone(), guard);
        Ok(Self { listener, address, acceptor, router, limits, gateway, courier })
    }

    /// Where clients reach it: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", if self.acceptor.is_some() { "https" } else { "http" }, self.address)
    }

    /// The address, with the port that was chosen.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` is cancelled, then until open requests have ended or their time is up.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self { listener, acceptor, router, limits, gateway, courier, .. } = self;
        let sweeping = tokio::spawn(async move {
            let mut often = tokio::time::interval(SWEEP);
            loop {
                often.tick().await;
                gateway.forget_answers().await;
            }
        });
        let room = Arc::new(Semaphore::new(limits.connections_max.max(1)));
        let (open, cut) = (TaskTracker::new(), CancellationToken::new());
        if let Some(courier) = courier {
            open.spawn(courier.run(shutdown.clone()));
        }
        loop {
            let accepted = async {
                // The semaphore is never closed.
                let turn = room.clone().acquire_owned().await.ok();
                (turn, listener.accept().await)
            };
            let (turn, accepted) = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                accepted = accepted => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    let _ = tokio::time::timeout(REFUSED_PAUSE, shutdown.cancelled()).await;
                    continue;
                }
            };
            let connection = Connection {
                peer,
                acceptor: acceptor.clone(),
                router: router.clone(),
                limits: limits.clone(),
                shutdown: shutdown.clone(),
            };
            let cut = cut.clone();
            open.spawn(async move {
                tokio::select! {
                    () = connection.serve(stream) => {}
                    () = cut.cancelled() => {}
                }
                drop(turn);
            });
        }
        drop(listener);
        sweeping.abort();
        open.close();
        if tokio::time::timeout(limits.shutdown_max, open.wait()).await.is_err() {
            cut.cancel();
            open.wait().await;
        }
    }
}

/// Who is at the other end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

impl Peer {
    /// The address that is counted: of IPv6 the network, as one machine has all addresses of it.
    pub(crate) fn network(&self) -> IpAddr {
        match self.0.ip().to_canonical() {
            address @ IpAddr::V4(_) => address,
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
        }
    }
}
/// Cancelled when the server begins to end: what stays open for long ends then.
#[derive(Debug, Clone)]
pub(crate) struct Closing(pub(crate) CancellationToken);

struct Connection {
    peer: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    router: Router,
    limits: Limits,
    shutdown: CancellationToken,
}

impl Connection {
    async fn serve(self, stream: TcpStream) {
        let _ = stream.set_nodelay(true); // slower without, and right all the same
        // A peer that has gone without a word, or takes nothing of what it is sent, does not hold a connection for ever.
        let silent_ms = u32::try_from(self.limits.silent_max.as_millis()).unwrap_or(u32::MAX);
        let _ = sockopt::set_tcp_user_timeout(&stream, silent_ms);
        match self.acceptor.clone() {
            None => self.speak(stream).await,
            Some(acceptor) => match tokio::time::timeout(self.limits.header_max, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => self.speak(stream).await,
                Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
                Err(_) => tracing::debug!("a handshake took too long"),
            },
        }
    }

    async fn speak(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let Self { peer, router, limits, shutdown, .. } = self;
        let closing = shutdown.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Peer(peer));
            request.extensions_mut().insert(Closing(closing.clone()));
            let answering = router.clone().call(request);
            async move { Ok::<_, Infallible>(answering.await.unwrap_or_else(|never| match never {})) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_max)
            .max_headers(limits.header_fields_max)
            .max_buf_size(limits.header_bytes_max.max(8 * 1024))
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, ServeError> {
    let wrong = |path: &PathBuf, problem: String| ServeError::Tls { path: path.clone(), problem };
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.certificates)
        .and_then(Iterator::collect)
        .map_err(|error| wrong(&files.certificates, error.to_string()))?;
    if certificates.is_empty() {
        return Err(wrong(&files.certificates, "it holds no certificate in PEM".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| wrong(&files.key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error| wrong(&files.key, error.to_string()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
