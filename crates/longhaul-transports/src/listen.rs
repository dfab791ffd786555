//! Listening: connections and their bounds, TLS, and a graceful end.

use std::{
    collections::HashMap,
    convert::Infallible,
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{Router, body::Body, http::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower_service::Service;

use crate::{edge::Limits, front::Peer, grpc};

/// A pause after the system refused a connection, as when it has no descriptors left.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

/// What serves connections: the routes, and the bounds.
#[derive(Clone)]
pub(crate) struct Listening {
    pub(crate) router: Router,
    pub(crate) acceptor: Option<TlsAcceptor>,
    pub(crate) limits: Limits,
    pub(crate) shutdown: CancellationToken,
    /// Cancelled when open requests have had their time.
    pub(crate) cut: CancellationToken,
    pub(crate) open: TaskTracker,
    /// With these bounds HTTP/2 is spoken, else HTTP/1.1.
    pub(crate) http2: Option<grpc::Bounds>,
}

impl Listening {
    /// Accepts until the shutdown.
    pub(crate) async fn run(self, listener: TcpListener) {
        let room = Arc::new(Semaphore::new(self.limits.connections_max.max(1)));
        let addresses = Addresses::default();
        loop {
            let accepted = async {
                // The semaphore is never closed.
                let turn = room.clone().acquire_owned().await.ok();
                (turn, listener.accept().await)
            };
            let (turn, accepted) = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return,
                accepted = accepted => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    let _ = tokio::time::timeout(REFUSED_PAUSE, self.shutdown.cancelled()).await;
                    continue;
                }
            };
            let Some(place) = addresses.take(peer, self.limits.connections_per_address_max) else {
                tracing::debug!(%peer, "too many connections from one address");
                continue;
            };
            self.open.spawn(self.clone().serve(stream, peer, turn, place));
        }
    }

    async fn serve(self, stream: TcpStream, peer: SocketAddr, turn: Option<OwnedSemaphorePermit>, place: Place) {
        let cut = self.cut.clone();
        tokio::select! {
            () = self.connection(stream, peer) => {}
            () = cut.cancelled() => {}
        }
        drop((turn, place));
    }

    async fn connection(self, stream: TcpStream, peer: SocketAddr) {
        let _ = stream.set_nodelay(true); // slower without, and right all the same
        // A peer that has gone without a word, or takes nothing of what it is sent, does not hold a connection for ever.
        let silent_ms = u32::try_from(self.limits.silent_max.as_millis()).unwrap_or(u32::MAX);
        let _ = sockopt::set_tcp_user_timeout(&stream, silent_ms);
        match self.acceptor.clone() {
            None => self.speak(stream, peer).await,
            Some(acceptor) => match tokio::time::timeout(self.limits.header_max, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => self.speak(stream, peer).await,
                Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
                Err(_) => tracing::debug!("a handshake took too long"),
            },
        }
    }

    async fn speak(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: SocketAddr) {
        let Self { router, limits, shutdown, http2, .. } = self;
        if let Some(bounds) = http2 {
            return grpc::speak(stream, peer, router, (bounds, limits), shutdown).await;
        }
        let service = service_fn(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Peer(peer));
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

/// Connections by address. Those of this machine are only bounded together: a thousand agents may live on it.
#[derive(Debug, Clone, Default)]
struct Addresses(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// One connection of an address.
#[derive(Debug)]
struct Place {
    addresses: Addresses,
    of: Option<IpAddr>,
}

impl Addresses {
    fn take(&self, peer: SocketAddr, most: usize) -> Option<Place> {
        let address = Peer(peer).network();
        if address.is_loopback() {
            return Some(Place { addresses: self.clone(), of: None });
        }
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open = counts.entry(address).or_default();
        if *open >= most {
            return None;
        }
        *open += 1;
        Some(Place { addresses: self.clone(), of: Some(address) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(address) = self.of else { return };
        let mut counts = self.addresses.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = counts.get_mut(&address) {
            *open -= 1;
            if *open == 0 {
                counts.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_another_machine_are_counted_and_given_back() {
        let addresses = Addresses::default();
        let (far, here) = ("192.0.2.1:1".parse().unwrap(), "127.0.0.1:1".parse().unwrap());
        let held: Vec<_> = (0..3).map(|_| addresses.take(far, 2)).collect();
        assert_eq!(held.iter().filter(|place| place.is_some()).count(), 2);
        assert!((0..9).all(|_| addresses.take(here, 2).is_some()));
        drop(held);
        assert!(addresses.0.lock().unwrap().is_empty());
    }
}
