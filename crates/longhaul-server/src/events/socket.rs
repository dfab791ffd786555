//! The same stream over a WebSocket: one text message for each event, pings as heartbeats.
//!
//! Invariant: a peer that answers no ping until the next is due, or takes nothing for a while, is let go; what it sends
//! is thrown away, and more than a little of it ends the connection.

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, close_code};
use tokio::time::timeout;

use super::session::{Ended, Piece, STALLED_MAX, Session};

/// Messages that a client may send; there is nothing it could say.
const SAID_MAX: u32 = 64;

/// Tells the peer all that the session has to tell.
pub(crate) async fn follow(mut socket: WebSocket, mut session: Session) {
    // Whether the peer has been heard of since the last ping.
    let (mut alive, mut said) = (true, 0);
    loop {
        let message = tokio::select! {
            piece = session.next() => match piece {
                Piece::Event(event) => Message::text(serde_json::to_string(&event).unwrap_or_default()),
                Piece::Heartbeat(_) if !alive => {
                    tracing::debug!("a client answers no ping: its stream ends");
                    return;
                }
                Piece::Heartbeat(position) => {
                    alive = false;
                    Message::Ping(position.to_string().into())
                }
                Piece::End(ended) => {
                    let _ = timeout(STALLED_MAX, socket.send(close(ended))).await;
                    return;
                }
            },
            heard = socket.recv() => match heard {
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {
                    alive = true;
                    continue;
                }
                Some(Ok(Message::Text(_) | Message::Binary(_))) if said < SAID_MAX => {
                    (alive, said) = (true, said + 1);
                    continue;
                }
                Some(Ok(Message::Text(_) | Message::Binary(_) | Message::Close(_)) | Err(_)) | None => return,
            },
        };
        if !matches!(timeout(STALLED_MAX, socket.send(message)).await, Ok(Ok(()))) {
            return;
        }
    }
}

fn close(ended: Ended) -> Message {
    let code = match ended {
        Ended::Key => close_code::POLICY,
        Ended::Shutdown => close_code::RESTART,
        Ended::Store => close_code::AGAIN,
    };
    Message::Close(Some(CloseFrame { code, reason: Utf8Bytes::from_static(ended.as_str()) }))
}
