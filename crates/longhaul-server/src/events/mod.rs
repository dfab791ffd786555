//! Business events, as clients follow them: over SSE, over WebSocket, page by page.
//!
//! It owns the form of what is told and how the log is followed; the routes are in `routes::events`. Invariant: from the
//! number on that a client names, every event of its scope comes once and in order, whichever process wrote it.

mod feed;
mod pulse;
mod session;
mod socket;
mod sse;
mod wire;

pub(crate) use feed::{Feed, Wanted, page};
pub(crate) use pulse::{Beat, Pulse};
pub(crate) use session::{Session, Turns};
pub(crate) use socket::follow as follow_by_socket;
pub(crate) use sse::response as sse_response;
pub use wire::{TypeFilter, TypeFilterError, WIRE_EVENT_V, WireEvent};
