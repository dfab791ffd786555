//! The log as one client follows it.
//!
//! Invariants: what is told is read from the rows, in the order of the log, from the number that the client named on:
//! without gap and without duplicate, whichever process wrote it and whenever it came. A client that does not take
//! what it is told holds nobody up and costs one page of memory.

use std::collections::VecDeque;

use longhaul_core::{Scope, TaskId};
use longhaul_store::{Store, StoreError, events, values};
use tokio::sync::broadcast::{self, error::RecvError};

use super::{
    pulse::{Beat, Pulse},
    wire::{TypeFilter, WireEvent},
};

/// Entries of the log that are read at once.
const PAGE: u32 = 128;

/// What a client wants to be told of.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) scope: Scope,
    /// Of one task, or of all of the user's.
    pub(crate) task: Option<TaskId>,
    pub(crate) types: TypeFilter,
}

/// Business events, in the order of the log.
#[derive(Debug)]
pub(crate) struct Feed {
    store: Store,
    wanted: Wanted,
    /// The last entry that was read.
    after: i64,
    read: VecDeque<WireEvent>,
    beats: broadcast::Receiver<Beat>,
}

impl Feed {
    /// Events behind number `after` of the log; nothing for those from now on.
    pub(crate) async fn open(
        store: Store,
        pulse: &Pulse,
        wanted: Wanted,
        after: Option<i64>,
    ) -> Result<Self, StoreError> {
        // Listening comes before reading, so that nothing falls in between.
        let beats = pulse.subscribe();
        let after = match after {
            Some(after) => after,
            None => newest(&store, &wanted.scope).await?,
        };
        Ok(Self { store, wanted, after, read: VecDeque::new(), beats })
    }

    /// The next event, as soon as there is one; nothing when the server ends. Safe to cancel.
    pub(crate) async fn next(&mut self) -> Result<Option<WireEvent>, StoreError> {
        loop {
            if let Some(event) = self.read.pop_front() {
                return Ok(Some(event));
            }
            if self.read_on().await? == 0 && !self.hear().await {
                return Ok(None);
            }
        }
    }

    /// The number behind which to go on after what was given by [`Self::next`].
    pub(crate) fn position(&self) -> i64 {
        self.read.front().map_or(self.after, |event| event.seq - 1)
    }

    /// Reads a page of the log; tells how many entries it had.
    async fn read_on(&mut self) -> Result<usize, StoreError> {
        let page = page(&self.store, &self.wanted, self.after, PAGE).await?;
        self.after = page.position;
        self.read.extend(page.events);
        Ok(page.entries)
    }

    /// Waits until there may be more; false when the server ends.
    async fn hear(&mut self) -> bool {
        loop {
            match self.beats.recv().await {
                Ok(beat) if self.concerns(&beat) => return true,
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => return true,
                Err(RecvError::Closed) => return false,
            }
        }
    }

    fn concerns(&self, beat: &Beat) -> bool {
        match beat {
            Beat::Anybody => true,
            Beat::For { seq, tenant, user, task } => {
                let Wanted { scope, task: wanted, .. } = &self.wanted;
                let ours = *seq > self.after && *tenant == scope.tenant && *user == scope.user;
                ours && wanted.as_ref().is_none_or(|wanted| wanted == task)
            }
        }
    }
}

/// A part of the log, as a client may be told of it.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) events: Vec<WireEvent>,
    /// The last entry that was read, of whatever kind.
    pub(crate) position: i64,
    /// How many entries were read; as many as asked for when there may be more.
    pub(crate) entries: usize,
}

/// Reads at most `limit` entries of the log behind `after`.
pub(crate) async fn page(store: &Store, wanted: &Wanted, after: i64, limit: u32) -> Result<Page, StoreError> {
    let (scope, task) = (wanted.scope.clone(), wanted.task.clone());
    let entries = store.read(move |read| events(read, &scope, task.as_ref(), after, limit)).await?;
    let position = entries.last().map_or(after, |last| last.seq);
    let count = entries.len();
    let told = entries.into_iter().filter_map(WireEvent::of).filter(|event| wanted.types.takes(&event.kind));
    Ok(Page { events: told.collect(), position, entries: count })
}

async fn newest(store: &Store, scope: &Scope) -> Result<i64, StoreError> {
    let tenant = scope.tenant.clone();
    let sql = "SELECT coalesce(max(seq), 0) FROM events WHERE tenant_id = ?1";
    store.read(move |read| read.query_one(sql, &values![&tenant], |row| row.get(0))).await
}
