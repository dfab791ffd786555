//! Server-sent events: how pieces of a stream are written (WHATWG HTML, 9.2).
//!
//! Invariants: each event carries its number as `id`, and a heartbeat carries the number up to which there was nothing
//! to tell, so that a client that comes back with `Last-Event-ID` misses nothing and is told nothing twice; the first
//! block says where the stream begins, for one that breaks before its first event.

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use tokio::{sync::mpsc, time::timeout};

use super::session::{Piece, STALLED_MAX, Session};

/// Pieces that may wait for a slow client.
const WAITING_MAX: usize = 16;
/// After how long a client that lost its stream comes again, milliseconds.
const RETRY_MS: u32 = 1_000;

/// The answer that tells all the session has to tell.
pub(crate) fn response(session: Session) -> Response {
    let (pieces, waiting) = mpsc::channel(WAITING_MAX);
    tokio::spawn(produce(session, pieces));
    let body = futures::stream::unfold(waiting, |mut waiting| async {
        let piece: Bytes = waiting.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), waiting))
    });
    let mut response = Body::from_stream(body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies that collect answers would keep the client waiting.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Writes pieces until the client has gone, takes nothing, or the session ends.
async fn produce(mut session: Session, pieces: mpsc::Sender<Bytes>) {
    let mut frame = begin(session.position());
    let mut last = false;
    loop {
        match timeout(STALLED_MAX, pieces.send(frame.into())).await {
            Ok(Ok(())) if !last => {}
            Ok(Ok(()) | Err(_)) => return,
            Err(_) => {
                tracing::debug!("a client takes no events: its stream ends");
                return;
            }
        }
        let piece = tokio::select! {
            biased;
            () = pieces.closed() => return,
            piece = session.next() => piece,
        };
        last = matches!(piece, Piece::End(_));
        frame = write(&piece);
    }
}

fn begin(position: i64) -> String {
    format!(": business events of Longhaul\nretry: {RETRY_MS}\nid: {position}\n\n")
}

/// A piece in the stream's form. JSON has no line breaks, so one `data` line is enough.
fn write(piece: &Piece) -> String {
    match piece {
        Piece::Event(event) => {
            let data = serde_json::to_string(event).unwrap_or_default();
            format!("id: {}\ndata: {data}\n\n", event.seq)
        }
        Piece::Heartbeat(position) => format!(": heartbeat\nid: {position}\n\n"),
        Piece::End(ended) => format!("event: end\ndata: {{\"because\":\"{}\"}}\n\n", ended.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use longhaul_core::{Event, EventId, TaskScope, TimeMs, Visibility};
    use serde_json::json;

    use super::*;
    use crate::events::{WireEvent, session::Ended};

    #[test]
    fn pieces_are_written_as_the_standard_wants_them() {
        let event = Event {
            v: 1,
            seq: 12,
            id: EventId::from_body("1"),
            at: TimeMs(5),
            scope: TaskScope::single_user(),
            execution: None,
            step: None,
            kind: "note.taken".into(),
            visibility: Visibility::Business,
            data: json!({ "text": "two\nlines\r\n\nand id: 99" }),
        };
        let written = write(&Piece::Event(Box::new(WireEvent::of(event).unwrap())));
        let lines: Vec<&str> = written.split('\n').collect();
        assert_eq!((lines.len(), lines[0], &lines[2..]), (4, "id: 12", &["", ""][..]));
        let data: WireEvent = serde_json::from_str(lines[1].strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(data.data["text"], "two\nlines\r\n\nand id: 99");
        assert_eq!(write(&Piece::Heartbeat(7)), ": heartbeat\nid: 7\n\n");
        assert_eq!(write(&Piece::End(Ended::Key)), "event: end\ndata: {\"because\":\"key\"}\n\n");
        assert!(begin(3).ends_with("id: 3\n\n"));
    }
}
