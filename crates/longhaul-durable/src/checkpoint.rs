//! From state to what is stored, and back: deltas, the chain of digests, snapshots.
//!
//! Invariants: the state in memory is always the one that replaying the stored JSON gives, for values are read back
//! before they are used; each row's digest covers the row and all before it, so that a row that was changed, lost or
//! moved is noticed.

use std::sync::Arc;

use longhaul_core::{Digest, ExecutionId};
use serde::de::DeserializeOwned;

use crate::{
    DurableError, Form, GraphState,
    flow::Planned,
    machine::Position,
    records::checkpoints::{CheckpointRow, Log, Snapshot},
    shape::END,
};

/// Deltas of so many bytes are replayed rather than a snapshot written.
const SNAPSHOT_BYTES_MIN: u64 = 32 * 1024;
/// A snapshot is due when the deltas since the last one are so many times as long: twice as often would double what is
/// written for a state that only grows, for little less to replay.
const SNAPSHOT_FACTOR: u64 = 2;
/// What reading one more row costs, in bytes of delta.
const ROW_BYTES: u64 = 128;

/// The digest of nothing yet: another one for each frame.
pub(crate) fn chain_start(execution: &ExecutionId, ns: &str) -> Digest {
    Digest::of_parts([b"chain 2".as_slice(), execution.as_str().as_bytes(), ns.as_bytes()])
}

/// The digest of a row and all before it. `data` is that of the row, or the array of the tasks' updates.
pub(crate) fn chain_next(before: &Digest, form: Form, data: &str, frontier: &str) -> Digest {
    Digest::of_parts([&before.as_bytes()[..], form.as_str().as_bytes(), data.as_bytes(), frontier.as_bytes()])
}

/// The digest of a snapshot: of its row's own, of where the frame stood, and of the state.
pub(crate) fn snapshot_digest(chain: &Digest, frontier: &str, state: &str) -> Digest {
    Digest::of_parts([&chain.as_bytes()[..], frontier.as_bytes(), state.as_bytes()])
}

/// How much would have to be replayed, so that a snapshot is written when it has become too much. The snapshots of an
/// execution together are never longer than a few times its deltas.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Weight {
    delta_bytes: u64,
    snapshot_bytes: u64,
}

impl Weight {
    pub(crate) fn of_whole(bytes: usize) -> Self {
        Self { delta_bytes: 0, snapshot_bytes: bytes as u64 }
    }

    /// Notes a delta; tells whether a snapshot is due.
    pub(crate) fn add(&mut self, bytes: usize) -> bool {
        self.delta_bytes += bytes as u64 + ROW_BYTES;
        self.delta_bytes >= self.snapshot_bytes.saturating_mul(SNAPSHOT_FACTOR).max(SNAPSHOT_BYTES_MIN)
    }

    /// A snapshot of the state whose last row has this digest.
    pub(crate) fn snapshot<S: GraphState>(
        &mut self,
        superstep: u64,
        state: &S,
        chain: &Digest,
        frontier: &str,
    ) -> Result<Snapshot, serde_json::Error> {
        let state = serde_json::to_string(state)?;
        *self = Self::of_whole(state.len());
        let digest = snapshot_digest(chain, frontier, &state).as_bytes().to_vec();
        Ok(Snapshot { superstep, state, digest })
    }
}

/// A frame as it was when its last row was written.
pub(crate) struct Replayed<S: GraphState> {
    pub(crate) state: S,
    pub(crate) position: Position,
    pub(crate) chain: Digest,
    pub(crate) weight: Weight,
    /// All updates since the first row, if there was no snapshot in between.
    pub(crate) updates: Vec<String>,
}

/// Checks that a log is what was written, row by row, and gives the digest of its last row; nothing when it is empty.
///
/// # Errors
/// The number of the first row that is damaged, or behind which one is missing.
pub(crate) fn check_log(execution: &ExecutionId, ns: &str, log: &Log) -> Result<Option<Digest>, u64> {
    let mut chain = None;
    let mut expected = None;
    let mut rows = log.rows.iter();
    if let Some(Snapshot { superstep, state, digest }) = &log.snapshot {
        let own = rows.next().filter(|row| row.superstep == *superstep).ok_or(*superstep)?;
        let row_digest = digest_of(own).ok_or(*superstep)?;
        if *digest != snapshot_digest(&row_digest, &own.frontier, state).as_bytes() {
            return Err(*superstep);
        }
        (chain, expected) = (Some(row_digest), Some(superstep + 1));
    }
    for row in rows {
        if expected.is_some_and(|expected| expected != row.superstep) {
            return Err(row.superstep);
        }
        expected = Some(row.superstep + 1);
        let before = chain.unwrap_or_else(|| chain_start(execution, ns));
        let digest = digest_of(row).ok_or(row.superstep)?;
        if row.v > 1 && digest != chain_next(&before, row.form, &row.data, &row.frontier) {
            return Err(row.superstep);
        }
        let position = position_of(row).ok_or(row.superstep)?;
        if position.superstep != row.superstep {
            return Err(row.superstep);
        }
        chain = Some(digest);
    }
    Ok(chain)
}

/// The digests that these rows have in another frame; the rows that bear a snapshot at their front keep theirs.
pub(crate) fn digests_in(execution: &ExecutionId, ns: &str, log: &Log) -> Option<Vec<(u64, Digest)>> {
    let mut chain = chain_start(execution, ns);
    let mut digests = Vec::with_capacity(log.rows.len());
    for (index, row) in log.rows.iter().enumerate() {
        let keeps_its_own = row.v == 1 || (index == 0 && log.snapshot.is_some());
        chain = match keeps_its_own {
            true => digest_of(row)?,
            false => chain_next(&chain, row.form, &row.data, &row.frontier),
        };
        digests.push((row.superstep, chain));
    }
    Some(digests)
}

/// Rebuilds a frame from its log; nothing when the log is empty. `parent` is what a frame that shares its parent's
/// state was begun with.
pub(crate) fn replay<S: GraphState>(
    execution: &ExecutionId,
    ns: &str,
    log: &Log,
    parent: Option<S>,
) -> Result<Option<Replayed<S>>, DurableError> {
    let Some(last) = log.rows.last() else { return Ok(None) };
    let damaged = |superstep| DurableError::Damaged { execution: execution.clone(), ns: ns.to_owned(), superstep };
    let diverged = |superstep| DurableError::Diverged { execution: execution.clone(), superstep };
    let chain = check_log(execution, ns, log).map_err(damaged)?.ok_or_else(|| damaged(last.superstep))?;
    let mut state = parent;
    let mut weight = Weight::default();
    let mut updates = Vec::new();
    // What comes before a whole state does not count, and may be of another type than it.
    let whole = log.rows.iter().rposition(|row| row.form == Form::Full);
    let mut rows = &log.rows[whole.unwrap_or(0)..];
    if let (Some(snapshot), None) = (&log.snapshot, whole) {
        rows = &log.rows[1..];
        state = Some(parse(&snapshot.state).ok_or_else(|| diverged(snapshot.superstep))?);
        weight = Weight::of_whole(snapshot.state.len());
    }
    for row in rows {
        match row.form {
            Form::Full => {
                state = Some(parse(&row.data).ok_or_else(|| diverged(row.superstep))?);
                weight = Weight::of_whole(row.data.len());
            }
            Form::Parent => weight = Weight::of_whole(0),
            Form::Delta | Form::Tasks | Form::Edited => {
                let state = state.as_mut().ok_or_else(|| damaged(row.superstep))?;
                for update in updates_of::<S>(row).ok_or_else(|| diverged(row.superstep))? {
                    state.apply(update);
                }
                weight.add(row.data.len());
                updates.push(row.data.clone());
            }
        }
    }
    let state = state.ok_or_else(|| damaged(last.superstep))?;
    if last.v == 1 && digest_of(last) != Some(state_digest(&state)?) {
        return Err(diverged(last.superstep));
    }
    let position = position_of(last).ok_or_else(|| damaged(last.superstep))?;
    Ok(Some(Replayed { state, position, chain, weight, updates }))
}

/// The updates of a row, in order. Rows of version 1 hold one.
fn updates_of<S: GraphState>(row: &CheckpointRow) -> Option<Vec<S::Update>> {
    if row.v == 1 {
        return parse(&row.data).map(|update| vec![update]);
    }
    read_updates::<S>(&row.data).ok()
}

/// The updates of a delta of this release: an array by task of arrays.
pub(crate) fn read_updates<S: GraphState>(data: &str) -> Result<Vec<S::Update>, serde_json::Error> {
    let by_task: Vec<Vec<S::Update>> = serde_json::from_str(data)?;
    Ok(by_task.into_iter().flatten().collect())
}

/// Where a row says that its frame stands. Rows of version 1 name one node.
pub(crate) fn position_of(row: &CheckpointRow) -> Option<Position> {
    if row.v > 1 {
        return parse(&row.frontier);
    }
    let frontier = match row.frontier.as_str() {
        END => Vec::new(),
        node => vec![Planned { node: node.into(), input: None }],
    };
    Some(Position { superstep: row.superstep, frontier, ..Position::default() })
}

/// The digest of a row. In rows of version 1 it is a text, and that of the state.
pub(crate) fn digest_of(row: &CheckpointRow) -> Option<Digest> {
    if row.v == 1 {
        return std::str::from_utf8(&row.digest).ok()?.parse().ok();
    }
    <[u8; 32]>::try_from(row.digest.as_slice()).ok().map(Digest::from)
}

/// As the first release took it: objects are sorted, for the order of their fields is no part of a state.
fn state_digest<S: GraphState>(state: &S) -> Result<Digest, DurableError> {
    let mut value = serde_json::to_value(state).map_err(Arc::new)?;
    value.sort_all_objects();
    Ok(Digest::of(value.to_string()))
}

fn parse<T: DeserializeOwned>(json: &str) -> Option<T> {
    serde_json::from_str(json).ok()
}
