//! One client that follows the log, from its first event to the reason why it ends.
//!
//! Invariants: a stream ends when its key no longer holds or the server shuts down, at the latest one heartbeat later;
//! the streams of one key and of all are bounded; a client that takes nothing for [`STALLED_MAX`] is let go.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::http::StatusCode;
use tokio::{
    sync::watch,
    time::{Instant, Interval, MissedTickBehavior, interval_at},
};
use tokio_util::sync::CancellationToken;

use super::{Feed, WireEvent};
use crate::{Caller, Problem, keys::KeyRing};

/// How long a client may take nothing of what it is sent.
pub(crate) const STALLED_MAX: Duration = Duration::from_secs(30);

/// What a stream has to say next.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Something happened.
    Event(Box<WireEvent>),
    /// Nothing did; the client may go on behind this number.
    Heartbeat(i64),
    /// It ends.
    End(Ended),
}

/// Why a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The key was revoked or has ended.
    Key,
    /// The server shuts down: come again.
    Shutdown,
    /// The store failed: come again.
    Store,
}

impl Ended {
    /// As it is told.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Shutdown => "shutdown",
            Self::Store => "store",
        }
    }
}

/// A stream's right to exist.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Open>,
    key: String,
}

/// How many streams there are, and for which keys. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Turns(Arc<Open>);

#[derive(Debug)]
struct Open {
    all_max: usize,
    key_max: usize,
    keys: Mutex<HashMap<String, usize>>,
}

impl Turns {
    pub(crate) fn new(all_max: usize, key_max: usize) -> Self {
        Self(Arc::new(Open { all_max, key_max, keys: Mutex::default() }))
    }

    /// A turn for this key, if there is one.
    pub(crate) fn take(&self, key: &str) -> Result<Turn, Problem> {
        let mut keys = self.0.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, own) = (keys.values().sum::<usize>(), keys.get(key).copied().unwrap_or(0));
        let (open, most) = if own >= self.0.key_max { (own, self.0.key_max) } else { (all, self.0.all_max) };
        if open >= most {
            let detail = format!("{open} event streams are open, which is the limit: end one, then come again");
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_streams", detail).retry_after(5));
        }
        *keys.entry(key.to_owned()).or_default() += 1;
        Ok(Turn { turns: self.0.clone(), key: key.to_owned() })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut keys = self.turns.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = keys.get_mut(&self.key) {
            *open -= 1;
            if *open == 0 {
                keys.remove(&self.key);
            }
        }
    }
}

/// A client that follows the log.
#[derive(Debug)]
pub(crate) struct Session {
    feed: Feed,
    caller: Caller,
    keys: KeyRing,
    changed: watch::Receiver<u64>,
    closing: CancellationToken,
    beat: Interval,
    ended: Option<Ended>,
    /// Whether the key is to be looked at again.
    doubted: bool,
    /// Whether a heartbeat is due.
    due: bool,
    _turn: Turn,
}

impl Session {
    pub(crate) fn new(
        feed: Feed,
        caller: Caller,
        keys: KeyRing,
        closing: CancellationToken,
        heartbeat: Duration,
        turn: Turn,
    ) -> Self {
        let mut beat = interval_at(Instant::now() + heartbeat, heartbeat);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            feed,
            caller,
            changed: keys.changed(),
            keys,
            closing,
            beat,
            ended: None,
            doubted: false,
            due: false,
            _turn: turn,
        }
    }

    /// The number behind which to go on after what was given by [`Self::next`].
    pub(crate) fn position(&self) -> i64 {
        self.feed.position()
    }

    /// The next piece. Safe to cancel.
    pub(crate) async fn next(&mut self) -> Piece {
        loop {
            // What is to be done is noted before it is waited for: whoever cancels this does not undo it.
            if self.doubted {
                if !self.caller.still_holds(&self.keys).await {
                    self.ended = Some(Ended::Key);
                }
                self.doubted = false;
            }
            if let Some(ended) = self.ended {
                return Piece::End(ended);
            }
            if std::mem::take(&mut self.due) {
                return Piece::Heartbeat(self.position());
            }
            tokio::select! {
                biased;
                () = self.closing.cancelled() => self.ended = Some(Ended::Shutdown),
                // Looked at before the next event is given, so that nothing is told after a revocation was heard of.
                changed = self.changed.changed() => match changed {
                    Ok(()) => self.doubted = true,
                    Err(_) => self.ended = Some(Ended::Shutdown),
                },
                _ = self.beat.tick() => (self.doubted, self.due) = (true, true),
                event = self.feed.next() => match event {
                    Ok(Some(event)) => {
                        self.beat.reset();
                        return Piece::Event(Box::new(event));
                    }
                    Ok(None) => self.ended = Some(Ended::Shutdown),
                    Err(error) => {
                        tracing::warn!(%error, "a stream of events ends");
                        self.ended = Some(Ended::Store);
                    }
                },
            }
        }
    }
}
