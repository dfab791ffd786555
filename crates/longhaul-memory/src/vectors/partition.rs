//! The vectors of one partition: read from the rows, searched, and checked against the rows again.
//!
//! What a search gives out was computed from the rows of its own snapshot, in full precision; bytes and sketches only
//! choose the candidates. So a deleted or replaced vector is never given out, whoever deleted it.
//! Invariants: no lock is held while rows are read; background work takes the write lock for short steps only; slots
//! that the index does not cover yet are compared one by one.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
};

use longhaul_store::{ReadTx, StoreError, values};

use crate::{bits::Bits, namespace::PartitionId};

use super::{
    decoded, exact,
    kernels::Level,
    lists::Lists,
    quantise::{Code, Rotation},
    slots::{Asked, Slots},
    top::Top,
};

/// Most allowed memories that are looked up one by one, and so exactly, instead of through the index.
const LOOK_UP_MAX: usize = 32_000;
/// Rows turned into codes between two takings of the lock.
const PAGE: usize = 512;
/// From so many new rows on they are turned into codes beside the reading.
const BESIDE_MIN: i64 = 4096;
/// Candidates beyond those asked for, since bytes may put neighbours in another order; fewer where many are asked for.
const SPARE: usize = 16;
/// Vectors read by one statement.
const ROWS: usize = 32;

/// One partition's vectors of one model.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(super) id: PartitionId,
    pub(super) embedder: String,
    pub(super) rotation: Rotation,
    state: RwLock<State>,
    /// Held by the one that reads new rows.
    reading: Mutex<()>,
    /// How often its file had to go.
    purges: AtomicU64,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) slots: Slots,
    /// The index, once the partition is large.
    pub(super) lists: Option<Lists>,
    /// All rows up to this `vector_seq` are in.
    pub(super) read_to: i64,
    /// All memories erased up to this change are out.
    pub(super) gone_to: i64,
    /// Live vectors when the centres were found.
    pub(super) trained: usize,
    /// What the file holds all rows up to.
    pub(super) saved_to: i64,
    /// Something was erased that may still be in here: no file may be written.
    pub(super) must_learn: bool,
}

impl Partition {
    pub(super) fn new(id: PartitionId, embedder: &str, dimensions: usize) -> Self {
        let rotation = Rotation::new(dimensions);
        let slots = Slots::new(rotation.width());
        Self {
            id,
            embedder: embedder.to_owned(),
            rotation,
            state: RwLock::new(State {
                slots,
                lists: None,
                read_to: 0,
                gone_to: 0,
                trained: 0,
                saved_to: 0,
                must_learn: false,
            }),
            reading: Mutex::new(()),
            purges: AtomicU64::new(0),
        }
    }

    pub(super) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its file holds what was erased, or may do so when it is written before the rows have been asked what is gone.
    pub(super) fn purge(&self) {
        self.purges.fetch_add(1, Ordering::SeqCst);
        let mut state = self.state_mut();
        state.saved_to = 0;
        state.must_learn = true;
    }

    pub(super) fn purges(&self) -> u64 {
        self.purges.load(Ordering::SeqCst)
    }

    /// Takes out what was erased up to this change, so that it does not get into the next file.
    /// `newest` and `last_change` are those of the snapshot.
    pub(super) fn learn_of_the_gone(&self, read: &ReadTx<'_>, newest: i64, last_change: i64) -> Result<(), StoreError> {
        let (known, must_learn) = {
            let state = self.state();
            (state.gone_to, state.must_learn)
        };
        if known > last_change || (known == last_change && !must_learn) {
            return Ok(());
        }
        let gone: Vec<i64> = read.query(
            "SELECT seq FROM memory_gone
             WHERE tenant_id = ?1 AND namespace = ?2 AND change_seq > ?3 AND change_seq <= ?4",
            &values![&self.id.tenant, self.id.namespace.as_str(), known, last_change],
            |row| row.get(0),
        )?;
        let mut state = self.state_mut();
        if state.read_to > newest {
            // A newer snapshot has been read meanwhile, in which one of these may have come back; it asks for itself.
            return Ok(());
        }
        state.kill(&gone);
        state.gone_to = state.gone_to.max(last_change);
        state.must_learn = false;
        Ok(())
    }

    /// Reads the rows up to `newest` that are not in yet. `load` is asked first when nothing is in at all.
    pub(super) fn catch_up(
        &self,
        read: &ReadTx<'_>,
        newest: i64,
        load: impl FnOnce() -> Result<Option<State>, StoreError>,
    ) -> Result<(), StoreError> {
        if self.state().read_to >= newest {
            return Ok(());
        }
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if self.state().read_to == 0
            && let Some(loaded) = load()?
        {
            *self.state_mut() = loaded;
        }
        let known = self.state().read_to;
        if known >= newest {
            return Ok(());
        }
        if newest - known < BESIDE_MIN {
            return self.read_rows(read, known, newest, |page, read_to| self.take_in(page, read_to));
        }
        // Reading takes as long as turning into codes: each has a thread of its own.
        std::thread::scope(|scope| {
            let (pages, waiting) = mpsc::sync_channel::<(Vec<(i64, Vec<f32>)>, i64)>(2);
            scope.spawn(move || waiting.into_iter().for_each(|(page, read_to)| self.take_in(page, read_to)));
            // Nobody takes pages any more only if that thread has panicked, which the end of the scope makes known.
            self.read_rows(read, known, newest, |page, read_to| drop(pages.send((page, read_to))))
        })
    }

    /// Gives the vectors of the rows after `known` up to `newest` to `each`, in pages, with the number up to which these
    /// are all.
    fn read_rows(
        &self,
        read: &ReadTx<'_>,
        known: i64,
        newest: i64,
        each: impl Fn(Vec<(i64, Vec<f32>)>, i64),
    ) -> Result<(), StoreError> {
        let mut page = Vec::new();
        read.for_each(
            "SELECT seq, vector, vector_seq FROM memory_vectors
             WHERE tenant_id = ?1 AND namespace = ?2 AND embedder = ?3 AND vector_seq > ?4 AND vector_seq <= ?5
             ORDER BY vector_seq",
            &values![&self.id.tenant, self.id.namespace.as_str(), &self.embedder, known, newest],
            |row| {
                let seq = row.get(0)?;
                match decoded(row.bytes(1)?, self.rotation.dimensions()) {
                    Some(vector) => page.push((seq, vector)),
                    None => tracing::warn!(seq, "a stored vector is damaged and was left out"),
                }
                if page.len() == PAGE {
                    each(std::mem::take(&mut page), row.get(2)?);
                }
                Ok(true)
            },
        )?;
        each(page, newest);
        Ok(())
    }

    fn take_in(&self, page: Vec<(i64, Vec<f32>)>, read_to: i64) {
        let mut codes = page.into_iter().map(|(seq, vector)| (seq, self.rotation.code(&vector))).collect();
        self.state_mut().append(&mut codes, read_to);
    }

    /// Whether a loaded state fits the rows: no row is new among those it covers, and a sample has the same vectors.
    /// Rows that were deleted since are taken out.
    pub(super) fn fits(&self, read: &ReadTx<'_>, state: &mut State) -> Result<bool, StoreError> {
        let covered =
            "FROM memory_vectors WHERE tenant_id = ?1 AND namespace = ?2 AND embedder = ?3 AND vector_seq <= ?4";
        let params = values![&self.id.tenant, self.id.namespace.as_str(), &self.embedder, state.read_to];
        let rows: i64 = read.query_one(&format!("SELECT count(*) {covered}"), &params, |row| row.get(0))?;
        if rows as usize != state.slots.live() {
            let there: HashSet<i64> =
                read.query(&format!("SELECT seq {covered}"), &params, |row| row.get(0))?.into_iter().collect();
            let seqs = (0..state.slots.len()).filter_map(|slot| state.slots.seq(slot));
            let gone: Vec<i64> = seqs.filter(|seq| !there.contains(seq)).collect();
            state.kill(&gone);
        }
        if rows as usize != state.slots.live() {
            return Ok(false);
        }
        let slots = &state.slots;
        // The newest tell most: a store that went back to a copy has others there.
        let newest = (0..slots.len()).rev().take(ROWS);
        let spread = (0..ROWS).map(|part| part * slots.len() / ROWS);
        for slot in newest.chain(spread) {
            let Some(seq) = slots.seq(slot) else { continue };
            let sql = "SELECT vector FROM memory_vectors
                WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3 AND embedder = ?4";
            let key = values![&self.id.tenant, self.id.namespace.as_str(), seq, &self.embedder];
            let found = read.query_optional(sql, &key, |row| Ok(decoded(row.bytes(0)?, self.rotation.dimensions())))?;
            let (bytes, scale) = slots.code(slot);
            if found.flatten().map(|vector| self.rotation.code(&vector)) != Some(Code { bytes: bytes.to_vec(), scale })
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How many of these memories have a vector.
    pub(crate) fn known(&self, allowed: &Bits) -> usize {
        self.state().slots.known(allowed)
    }

    /// The `take` allowed memories nearest to the query, with their cosines, best first. `newest` is the snapshot's.
    pub(crate) fn search(
        &self,
        read: &ReadTx<'_>,
        newest: i64,
        query: &[f32],
        allowed: &Bits,
        take: usize,
    ) -> Result<Vec<(f32, i64)>, StoreError> {
        let turned = self.rotation.turn(query);
        let asked = Asked { code: super::quantise::quantised(&turned), level: Level::best() };
        loop {
            let mut top = Top::new(take + SPARE.saturating_sub(take / 4));
            let is_of_this_snapshot = {
                let state = self.state();
                state.nearest(&asked, &turned, allowed, &mut top);
                state.read_to == newest
            };
            let candidates: Vec<i64> = top.into_sorted().into_iter().map(|(_, seq)| seq).collect();
            let cosines = self.cosines(read, query, &candidates)?;
            let gone: Vec<i64> = candidates.iter().copied().filter(|seq| !cosines.contains_key(seq)).collect();
            // A row that this snapshot does not have may be newer than it; then it is not known to be gone.
            if is_of_this_snapshot && !gone.is_empty() {
                let mut state = self.state_mut();
                // What was embedded anew meanwhile is not what was missing.
                if state.read_to == newest {
                    state.kill(&gone);
                }
                drop(state);
                if cosines.len() < take {
                    continue;
                }
            }
            let mut found: Vec<(f32, i64)> = cosines.into_iter().map(|(seq, cosine)| (cosine, seq)).collect();
            found.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
            found.truncate(take);
            return Ok(found);
        }
    }

    /// The cosines of these memories as far as bytes tell: for what weighs on a score and is not given out itself.
    pub(crate) fn estimates(&self, query: &[f32], seqs: &[i64]) -> HashMap<i64, f32> {
        let turned = self.rotation.turn(query);
        let asked = Asked { code: super::quantise::quantised(&turned), level: Level::best() };
        let state = self.state();
        let cosine = |seq: i64| Some((seq, state.slots.cosine(&asked, state.slots.slot(seq)?)));
        seqs.iter().filter_map(|seq| cosine(*seq)).collect()
    }

    /// The cosines of these memories in full precision, from their rows; memories without a usable row are left out.
    pub(crate) fn cosines(
        &self,
        read: &ReadTx<'_>,
        query: &[f32],
        seqs: &[i64],
    ) -> Result<HashMap<i64, f32>, StoreError> {
        exact::cosines(read, &self.id, &self.embedder, query, seqs)
    }
}

impl State {
    pub(super) fn bytes(&self) -> usize {
        self.slots.bytes() + self.lists.as_ref().map_or(0, Lists::bytes)
    }

    fn append(&mut self, page: &mut Vec<(i64, Code)>, read_to: i64) {
        for (seq, code) in page.drain(..) {
            let replaced = self.slots.put(seq, &code.bytes, code.scale);
            if let (Some(slot), Some(lists)) = (replaced, &mut self.lists) {
                lists.kill(slot);
            }
        }
        self.read_to = self.read_to.max(read_to);
    }

    fn kill(&mut self, seqs: &[i64]) {
        for seq in seqs {
            if let (Some(slot), Some(lists)) = (self.slots.kill(*seq), &mut self.lists) {
                lists.kill(slot);
            }
        }
    }

    fn nearest(&self, asked: &Asked, turned: &[f32], allowed: &Bits, top: &mut Top) {
        if allowed.len() <= LOOK_UP_MAX && allowed.len() < self.slots.len() / 4 {
            self.slots.look_up(asked, allowed, top);
            return;
        }
        let mut from = 0;
        if let Some(lists) = &self.lists {
            lists.search(&self.slots, asked, turned, allowed, top);
            from = lists.covered();
        }
        self.slots.scan(asked, from, allowed, top);
    }
}
