//! What the server lacks, in batches, read from the rows of one snapshot.
//!
//! Three streams: vectors by their number, changes and deletions by theirs. Invariant: what a batch's watermark covers is
//! in the batch or was in one before it.

use longhaul_store::{ReadTx, Row, StoreError, Value, values};

use super::{
    Batch, RemoteRow,
    state::{Key, State, Watermark},
};
use crate::vectors;

/// Rows of each stream in one batch.
const ROWS: usize = 1_000;

/// A batch and how far it leads.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) batch: Batch,
    /// Without the server's mark.
    pub(super) watermark: Watermark,
    pub(super) seq_max: i64,
    /// Whether there is nothing beyond it in the snapshot.
    pub(super) is_last: bool,
}

/// A row that was changed or erased.
enum Changed {
    /// With a vector that the server has, or had.
    Upsert(RemoteRow),
    /// Erased, or without a vector for the moment.
    Delete(i64),
    /// Its vector is not sent yet, and the row goes with it.
    Later,
}

/// What comes after the state's watermark; `None` when nothing does.
pub(super) fn next(read: &ReadTx<'_>, key: &Key, state: &State) -> Result<Option<Next>, StoreError> {
    let id = &key.id;
    let newest: Option<(i64, i64)> = read.query_optional(
        "SELECT last_vector_seq, last_change FROM memory_partitions WHERE tenant_id = ?1 AND namespace = ?2",
        &values![&id.tenant, id.namespace.as_str()],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let Some((last_vector, last_change)) = newest else { return Ok(None) };
    let done = state.applied;
    if done.vector_seq >= last_vector && done.change_seq >= last_change {
        return Ok(None);
    }
    let mut batch = Batch::default();
    let vectors = new_vectors(read, key, done.vector_seq)?;
    let vector_seq = if vectors.len() == ROWS { vectors.last().map_or(last_vector, |row| row.0) } else { last_vector };
    batch.upserts.extend(vectors.into_iter().filter_map(|(_, row)| row));

    let changed = changes(read, key, state)?;
    let gone = deletions(read, key, done.change_seq)?;
    let end = |changes: &[(i64, Changed)]| {
        if changes.len() == ROWS { changes.last().map_or(last_change, |(number, _)| *number) } else { last_change }
    };
    let change_seq = end(&changed).min(end(&gone));
    for (number, change) in changed.into_iter().chain(gone) {
        match change {
            _ if number > change_seq => {}
            Changed::Upsert(row) => batch.upserts.push(row),
            // What was never sent need not be taken back.
            Changed::Delete(seq) if seq <= state.seq_max => batch.deletes.push(seq),
            Changed::Delete(_) | Changed::Later => {}
        }
    }
    batch.is_first = batch.upserts.iter().all(|row| row.seq > state.seq_max);
    let seq_max = batch.upserts.iter().map(|row| row.seq).fold(state.seq_max, i64::max);
    let is_last = vector_seq >= last_vector && change_seq >= last_change;
    let watermark = Watermark { vector_seq, change_seq, mark: done.mark };
    Ok(Some(Next { batch, watermark, seq_max, is_last }))
}

const FIELDS: &str = "m.seq, m.kind, m.collection, m.happened_at, m.created_at, m.expires_at, v.vector_seq";

/// A row of [`FIELDS`] with its vector.
fn remote_row(row: &Row<'_>, vector: Vec<f32>) -> Result<RemoteRow, StoreError> {
    Ok(RemoteRow {
        seq: row.get(0)?,
        kind: row.get(1)?,
        collection: row.get(2)?,
        happened_at: row.get(3)?,
        created_at: row.get(4)?,
        expires_at: row.get(5)?,
        version: row.get(6)?,
        vector,
    })
}

fn params(key: &Key, after: i64) -> Vec<Value> {
    values![&key.id.tenant, key.id.namespace.as_str(), &key.space.embedder, after].into()
}

/// Vectors after a number, each with that; a damaged one without its row.
fn new_vectors(read: &ReadTx<'_>, key: &Key, after: i64) -> Result<Vec<(i64, Option<RemoteRow>)>, StoreError> {
    let sql = format!(
        "SELECT {FIELDS}, v.vector FROM memory_vectors v
         JOIN memories m ON m.tenant_id = v.tenant_id AND m.namespace = v.namespace AND m.seq = v.seq
         WHERE v.tenant_id = ?1 AND v.namespace = ?2 AND v.embedder = ?3 AND v.vector_seq > ?4
         ORDER BY v.vector_seq LIMIT {ROWS}"
    );
    read.query(&sql, &params(key, after), |row| {
        let vector = vectors::decoded(row.bytes(7)?, key.space.dimensions);
        Ok((row.get(6)?, vector.map(|vector| remote_row(row, vector)).transpose()?))
    })
}

/// Rows that were written or changed after the watermark.
fn changes(read: &ReadTx<'_>, key: &Key, state: &State) -> Result<Vec<(i64, Changed)>, StoreError> {
    let sql = format!(
        "SELECT {FIELDS}, CASE WHEN v.vector_seq <= ?5 THEN v.vector END, m.change_seq FROM memories m
         LEFT JOIN memory_vectors v ON v.tenant_id = m.tenant_id AND v.namespace = m.namespace AND v.seq = m.seq
             AND v.embedder = ?3
         WHERE m.tenant_id = ?1 AND m.namespace = ?2 AND m.change_seq > ?4
         ORDER BY m.change_seq LIMIT {ROWS}"
    );
    let mut params = params(key, state.applied.change_seq);
    params.push(state.applied.vector_seq.into());
    read.query(&sql, &params, |row| {
        let vector_seq: Option<i64> = row.get(6)?;
        let bytes: Option<Vec<u8>> = row.get(7)?;
        let change = match (vector_seq, bytes.and_then(|bytes| vectors::decoded(&bytes, key.space.dimensions))) {
            (Some(_), Some(vector)) => Changed::Upsert(remote_row(row, vector)?),
            (Some(number), None) if number > state.applied.vector_seq => Changed::Later,
            (_, None) | (None, Some(_)) => Changed::Delete(row.get(0)?),
        };
        Ok((row.get(8)?, change))
    })
}

fn deletions(read: &ReadTx<'_>, key: &Key, after: i64) -> Result<Vec<(i64, Changed)>, StoreError> {
    let sql = format!(
        "SELECT change_seq, seq FROM memory_gone WHERE tenant_id = ?1 AND namespace = ?2 AND change_seq > ?3
         ORDER BY change_seq LIMIT {ROWS}"
    );
    let params = values![&key.id.tenant, key.id.namespace.as_str(), after];
    read.query(&sql, &params, |row| Ok((row.get(0)?, Changed::Delete(row.get(1)?))))
}
