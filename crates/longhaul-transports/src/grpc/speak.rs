//! HTTP/2 on one connection, within its bounds and with a graceful end.
//!
//! Invariant: a connection that has not begun to speak HTTP/2 within the time for a header is closed; one that does not
//! answer a ping is closed.

use std::{convert::Infallible, io::Cursor, net::SocketAddr, pin::pin};

use axum::{Router, body::Body, http::Request};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tower_service::Service as _;

use super::Bounds;
use crate::{Limits, front::Peer};

/// What a client of HTTP/2 says first (RFC 9113, section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Reads the first bytes, in time, and gives them back to whoever speaks HTTP/2.
pub(crate) async fn speak(
    mut stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    router: Router,
    (bounds, limits): (Bounds, Limits),
    shutdown: CancellationToken,
) {
    let mut first = [0; PREFACE.len()];
    match tokio::time::timeout(limits.header_max, stream.read_exact(&mut first)).await {
        Ok(Ok(_)) if first == *PREFACE => {}
        Ok(_) => return tracing::debug!("a peer does not speak HTTP/2"),
        Err(_) => return tracing::debug!("a peer took too long to say anything"),
    }
    let (reader, writer) = tokio::io::split(stream);
    let stream = tokio::io::join(Cursor::new(first).chain(reader), writer);
    let call_max = bounds.call_max;
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Peer(peer));
        let answering = router.clone().call(request);
        async move {
            // Of a stream this is the time until it is open.
            let answered = tokio::time::timeout(call_max, answering).await;
            Ok::<_, Infallible>(match answered {
                Ok(answer) => answer.unwrap_or_else(|never| match never {}),
                Err(_) => Status::deadline_exceeded("the call took too long to arrive or to be answered").into_http(),
            })
        }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(bounds.calls_max)
        .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX))
        .keep_alive_interval(bounds.keepalive_every)
        .keep_alive_timeout(bounds.keepalive_max)
        .serve_connection(TokioIo::new(stream), service);
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
