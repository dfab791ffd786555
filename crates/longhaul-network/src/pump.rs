//! From the commit to those who wait: the newest events in RAM, in the order of the log.
//!
//! Transactions are committed in the order of their numbers, and their callers hear of it in any order. The pump puts
//! that right: it lets events go when everything before them is settled. Invariants: `head` only rises, and everything
//! up to it is settled; what is behind `floor` and not behind `head` is in RAM in full, the rest is in rows.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use tokio::sync::{oneshot, watch};

use crate::{
    locks::{Held, Place, hold},
    log::Entry,
    registry::Change,
};

/// Events kept in RAM, and about how many bytes they may take.
const TAIL_EVENTS_MAX: usize = 8 * 1024;
const TAIL_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What a transaction came to.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    pub(crate) entries: Vec<Entry>,
    pub(crate) changes: Vec<Change>,
    /// Nobody knows: rows may be there that are not in `entries`.
    pub(crate) unknown: bool,
}

#[derive(Debug)]
pub(crate) struct Pump {
    state: Mutex<State>,
    /// The state's head, for whoever only asks for that. Written while the state is held.
    newest: AtomicI64,
    head: watch::Sender<i64>,
}

#[derive(Debug)]
struct State {
    head: i64,
    /// By their first numbers: the last number, what it came to, and who waits to hear that it was let go.
    pending: BTreeMap<i64, (i64, Settled, oneshot::Sender<()>)>,
    tail: Tail,
}

#[derive(Debug)]
struct Tail {
    floor: i64,
    routes: HashMap<Arc<str>, VecDeque<Entry>>,
    /// Everything, oldest first: number, route, bytes.
    order: VecDeque<(i64, Arc<str>, usize)>,
    bytes: usize,
}

/// What a receiver found in RAM.
#[derive(Debug)]
pub(crate) enum Found {
    /// Everything up to `until`, in order.
    All { entries: Vec<Entry>, until: i64 },
    /// It has to be read from the rows, up to here.
    Rows { until: i64 },
}

impl Pump {
    pub(crate) fn new(head: i64) -> Self {
        let tail = Tail { floor: head, routes: HashMap::new(), order: VecDeque::new(), bytes: 0 };
        let state = State { head, pending: BTreeMap::new(), tail };
        Self { state: Mutex::new(state), newest: AtomicI64::new(head), head: watch::Sender::new(head) }
    }

    fn state(&self) -> Held<MutexGuard<'_, State>> {
        hold(Place::Pump, || self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The number of the newest event that was let go.
    pub(crate) fn head(&self) -> i64 {
        self.newest.load(Ordering::Acquire)
    }

    pub(crate) fn watch(&self) -> watch::Receiver<i64> {
        self.head.subscribe()
    }

    /// The transaction with these numbers has ended. `release` is called for each that can be let go now, in order,
    /// with its last number. What is given back tells when this one has been.
    pub(crate) fn settle(
        &self,
        first: i64,
        last: i64,
        settled: Settled,
        mut release: impl FnMut(&Settled, i64),
    ) -> oneshot::Receiver<()> {
        let (done, released) = oneshot::channel();
        let mut guard = self.state();
        let state = &mut *guard;
        state.pending.insert(first, (last, settled, done));
        while let Some(next) = state.pending.first_entry()
            && *next.key() <= state.head + 1
        {
            let (last, settled, done) = next.remove();
            state.head = state.head.max(last);
            let head = state.head;
            for entry in &settled.entries {
                state.tail.push(entry.clone());
            }
            for change in &settled.changes {
                if let Change::TakenBack { seqs } = change {
                    state.tail.take_back(seqs);
                }
            }
            if settled.unknown {
                state.tail.clear(head);
            }
            release(&settled, head);
            self.newest.store(head, Ordering::Release);
            // Whoever asked may have gone.
            let _ = done.send(());
        }
        let head = state.head;
        drop(guard);
        self.head.send_if_modified(|known| {
            let newer = head > *known;
            *known = head.max(*known);
            newer
        });
        released
    }

    /// What came behind `after` on these routes, each from its own number on.
    pub(crate) fn read(&self, routes: &[(Arc<str>, i64)], after: i64) -> Found {
        let state = self.state();
        let until = state.head;
        if after < state.tail.floor {
            return Found::Rows { until };
        }
        let mut entries = Vec::new();
        for (route, since) in routes {
            if let Some(waiting) = state.tail.routes.get(route) {
                let from = after.max(*since);
                let begin = waiting.partition_point(|entry| entry.event.seq <= from);
                entries.extend(waiting.range(begin..).cloned());
            }
        }
        drop(state);
        entries.sort_unstable_by_key(|entry| entry.event.seq);
        Found::All { entries, until }
    }

    /// What came behind `after` on all routes, at most about `max` events, as [`Self::read`] gives it; `until` may then
    /// lie before the head.
    pub(crate) fn read_all(&self, after: i64, max: usize) -> Found {
        let state = self.state();
        let tail = &state.tail;
        if after < tail.floor {
            return Found::Rows { until: state.head };
        }
        let begin = tail.order.partition_point(|(seq, _, _)| *seq <= after);
        let wanted = tail.order.range(begin..).take(max);
        let until = if tail.order.len() - begin > max { tail.order[begin + max - 1].0 } else { state.head };
        let entries = wanted.filter_map(|(seq, route, _)| {
            let waiting = tail.routes.get(route)?;
            let at = waiting.binary_search_by_key(seq, |entry| entry.event.seq).ok()?;
            waiting.get(at).cloned()
        });
        Found::All { entries: entries.collect(), until }
    }
}

impl Tail {
    fn push(&mut self, entry: Entry) {
        self.order.push_back((entry.event.seq, entry.route.clone(), entry.bytes));
        self.bytes += entry.bytes;
        self.routes.entry(entry.route.clone()).or_default().push_back(entry);
        while self.order.len() > TAIL_EVENTS_MAX || (self.bytes > TAIL_BYTES_MAX && self.order.len() > 1) {
            let Some((seq, route, bytes)) = self.order.pop_front() else { return };
            self.bytes -= bytes;
            self.floor = self.floor.max(seq);
            if let Some(waiting) = self.routes.get_mut(&route) {
                // What was taken back is not there.
                if waiting.front().is_some_and(|entry| entry.event.seq == seq) {
                    waiting.pop_front();
                }
                if waiting.is_empty() {
                    self.routes.remove(&route);
                }
            }
        }
    }

    /// Forgets what has been taken back, but for its number.
    fn take_back(&mut self, seqs: &[i64]) {
        for (_, route, _) in self.order.iter().filter(|(seq, _, _)| seqs.contains(seq)) {
            if let Some(waiting) = self.routes.get_mut(route) {
                waiting.retain(|entry| !seqs.contains(&entry.event.seq));
            }
        }
    }

    fn clear(&mut self, floor: i64) {
        self.routes.clear();
        self.order.clear();
        self.bytes = 0;
        self.floor = floor;
    }
}
