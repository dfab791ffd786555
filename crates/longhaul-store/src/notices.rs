//! Notices from one process to another that something may be worth looking at.
//!
//! It owns their form and how they are heard; PostgreSQL carries them between machines (`postgres::listener`), SQLite
//! between the handles of one process and, without their text, between processes (`watch`). Invariant: a notice is a
//! hint and never the only trace of anything: whoever hears one reads the rows, and nothing is lost with it.

use std::{fmt, time::Duration};

use longhaul_core::Event;
use tokio::sync::broadcast;

use crate::{StoreError, Tx, store::WeakStore, tx::Link, values};

/// How often a SQLite store that is listened to looks whether another process has written.
const WATCH: Duration = Duration::from_millis(100);

/// Notices that may wait for a listener; one that lags behind further is told to look by itself.
const WAITING_MAX: usize = 1024;

/// Most bytes of channel and payload together: PostgreSQL carries no more.
pub const NOTICE_BYTES_MAX: usize = 7_900;

/// Something may be worth looking at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What the transaction that sent it said. Nothing when notices may have been missed: after a broken connection,
    /// or when another process has written to a SQLite store.
    pub payload: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Signal {
    Sent {
        channel: String,
        payload: String,
    },
    /// Anybody may have sent anything.
    Missed,
}

/// All listeners of a store.
#[derive(Debug, Clone)]
pub(crate) struct Hub(broadcast::Sender<Signal>);

impl Hub {
    pub(crate) fn new() -> Self {
        Self(broadcast::channel(WAITING_MAX).0)
    }

    pub(crate) fn send(&self, signal: Signal) {
        // An error only means that nobody listens.
        let _ = self.0.send(signal);
    }

    pub(crate) fn listen(&self, channel: &str) -> Notices {
        Notices { receiver: self.0.subscribe(), channel: channel.to_owned() }
    }
}

/// Where what has been committed is told.
#[derive(Debug, Clone)]
pub(crate) struct Outlet {
    pub(crate) events: broadcast::Sender<Event>,
    pub(crate) notices: Hub,
}

impl Outlet {
    pub(crate) fn new(events_max: usize) -> Self {
        Self { events: broadcast::channel(events_max.max(1)).0, notices: Hub::new() }
    }
}

/// The notices of one channel from now on; see [`crate::Store::listen`].
pub struct Notices {
    receiver: broadcast::Receiver<Signal>,
    channel: String,
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notices").field("channel", &self.channel).finish_non_exhaustive()
    }
}

impl Notices {
    /// Waits for the next one; nothing when the store has been closed. Safe to cancel.
    pub async fn next(&mut self) -> Option<Notice> {
        loop {
            match self.receiver.recv().await {
                Ok(Signal::Sent { channel, payload }) if channel == self.channel => {
                    return Some(Notice { payload: Some(payload) });
                }
                Ok(Signal::Sent { .. }) => {}
                Ok(Signal::Missed) | Err(broadcast::error::RecvError::Lagged(_)) => {
                    return Some(Notice { payload: None });
                }
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

impl Tx<'_> {
    /// Tells the listeners of this channel, in this process and others, once this transaction has been committed, and
    /// not if it is undone. Of several equal notices in one transaction one may be heard.
    ///
    /// # Errors
    /// [`StoreError::NoticeTooLarge`] beyond [`NOTICE_BYTES_MAX`]; those of the database.
    pub fn notify(&mut self, channel: &str, payload: &str) -> Result<(), StoreError> {
        let bytes = channel.len() + payload.len();
        if bytes > NOTICE_BYTES_MAX {
            return Err(StoreError::NoticeTooLarge { bytes, bytes_max: NOTICE_BYTES_MAX });
        }
        match self.read.link {
            Link::Sqlite(_) => {
                let (channel, payload) = (channel.to_owned(), payload.to_owned());
                self.noticed.push(Signal::Sent { channel, payload });
                Ok(())
            }
            Link::Postgres(_) => {
                let sent = format!("{channel}\n{payload}");
                self.query("SELECT pg_notify('longhaul_notices', ?1)", &values![sent], |_| Ok(())).map(drop)
            }
        }
    }
}

/// What came over the wire, as [`Tx::notify`] sent it.
pub(crate) fn received(text: &str) -> Signal {
    match text.split_once('\n') {
        Some((channel, payload)) => Signal::Sent { channel: channel.to_owned(), payload: payload.to_owned() },
        None => Signal::Missed,
    }
}

/// Tells all listeners of a SQLite store when another process has written, until the store is closed.
pub(crate) async fn watch(store: WeakStore, hub: Hub) {
    let mut last = None;
    loop {
        tokio::time::sleep(WATCH).await;
        let Some(store) = store.upgrade() else { return };
        match store.others_version().await {
            Ok(None) => {}
            Ok(version) => {
                // What was written before the first look may have been written after somebody began to listen.
                if version != last {
                    hub.send(Signal::Missed);
                }
                last = version;
            }
            Err(error) => tracing::debug!(%error, "could not look whether another process has written"),
        }
    }
}
