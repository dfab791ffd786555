//! Rows of `memories`: how one is read, written and erased. The SQL of everything that belongs to a row is here.
//!
//! Invariant: who calls has checked access; nothing here does.

use longhaul_core::{MemoryId, TimeMs};
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};

use crate::{
    Fact, Index, Item, Kind, NewMemory, Prepared, Source, Tier, access, keyword, life::ColdRow, namespace::PartitionId,
    schema,
};

/// The columns [`item`] reads, in its order.
pub(crate) const COLUMNS: &str =
    "memory_id, namespace, collection, kind, source, content, meta, tags, importance, pinned,
    user_id, task_id, thread, created_at, happened_at, expires_at, subject, attribute, valid_from, valid_to,
    superseded_by, superseded_at, indexed";

/// Reads one row of [`COLUMNS`].
pub(crate) fn item(row: &Row<'_>) -> Result<Item, StoreError> {
    let id: MemoryId = row.get(0)?;
    let meta = serde_json::from_str(row.text(6)?).map_err(StoreError::record("memory", &id))?;
    let tags = serde_json::from_str(row.text(7)?).map_err(StoreError::record("memory", &id))?;
    let fact = match (row.get::<Option<String>>(16)?, row.get::<Option<String>>(17)?) {
        (Some(subject), Some(attribute)) => {
            Some(Fact { subject, attribute, valid_from: row.get(18)?, valid_to: row.get(19)? })
        }
        _ => None,
    };
    Ok(Item {
        id,
        namespace: row.text(1)?.parse().map_err(|_| unreadable(1, "a namespace", row.text(1).unwrap_or("")))?,
        collection: row.get(2)?,
        kind: kind(row, 3)?,
        source: row.text(4)?.parse::<Source>().map_err(|_| unreadable(4, "a source", row.text(4).unwrap_or("")))?,
        content: row.get(5)?,
        meta,
        tags,
        importance: row.get(8)?,
        pinned: row.get(9)?,
        user: row.get(10)?,
        task: row.get(11)?,
        thread: row.get(12)?,
        created_at: row.get::<TimeMs>(13)?,
        happened_at: row.get::<TimeMs>(14)?,
        expires_at: row.get(15)?,
        fact,
        superseded_by: row.get(20)?,
        superseded_at: row.get(21)?,
        index: Index::from_stored(row.get(22)?),
        tier: Tier::Hot,
    })
}

fn kind(row: &Row<'_>, column: usize) -> Result<Kind, StoreError> {
    let word = row.text(column)?;
    word.parse().map_err(|_| unreadable(column, "a kind of memory", word))
}

fn unreadable(column: usize, expected: &'static str, found: &str) -> StoreError {
    StoreError::Column { column, expected, found: found.chars().take(80).collect() }
}

/// Where a memory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) id: PartitionId,
    pub(crate) seq: i64,
}

/// Where the tenant's memory of this id is, if it is hot.
pub(crate) fn find(
    read: &ReadTx<'_>,
    tenant: &longhaul_core::TenantId,
    id: &MemoryId,
) -> Result<Option<Found>, StoreError> {
    read.query_optional(
        "SELECT namespace, seq FROM memories WHERE tenant_id = ?1 AND memory_id = ?2",
        &values![tenant, id],
        |row| {
            let name = row.text(0)?;
            let namespace = name.parse().map_err(|_| unreadable(0, "a namespace", name))?;
            Ok(Found { id: PartitionId { tenant: tenant.clone(), namespace }, seq: row.get(1)? })
        },
    )
}

/// Writes a new row under these numbers. Its keywords and its vector are for others to write.
pub(crate) fn insert(
    tx: &mut Tx<'_>,
    id: &PartitionId,
    user: &longhaul_core::UserId,
    numbers: access::Numbers,
    memory_id: &MemoryId,
    prepared: &Prepared,
) -> Result<(), StoreError> {
    let Prepared { memory, meta, tags, .. } = prepared;
    let NewMemory { fact, .. } = memory;
    let now = tx.now();
    tx.execute(
        "INSERT INTO memories (tenant_id, namespace, seq, change_seq, memory_id, v, user_id, task_id, thread, collection,
                               kind, source, content, meta, tags, importance, pinned, indexed, created_at, happened_at,
                               expires_at, subject, attribute, valid_from, valid_to)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
                 ?23, ?24, ?25)",
        &values![
            &id.tenant,
            id.namespace.as_str(),
            numbers.seq,
            numbers.change,
            memory_id,
            schema::ROW_VERSION,
            user,
            memory.task.as_ref(),
            memory.thread.as_ref(),
            &memory.collection,
            memory.kind.as_str(),
            memory.source.as_str(),
            &memory.content,
            meta,
            tags,
            memory.importance,
            memory.pinned,
            memory.index.stored(),
            now,
            memory.happened_at.unwrap_or(now),
            memory.expires_at,
            fact.as_ref().map(|fact| &fact.subject),
            fact.as_ref().map(|fact| &fact.attribute),
            fact.as_ref().and_then(|fact| fact.valid_from),
            fact.as_ref().and_then(|fact| fact.valid_to),
        ],
    )?;
    Ok(())
}

/// Erases a memory with its keywords, vectors and statistics, and leaves word of it for caches and other processes.
/// Tells whether it was there.
pub(crate) fn erase(tx: &mut Tx<'_>, found: &Found) -> Result<bool, StoreError> {
    let Found { id, seq } = found;
    let key = values![&id.tenant, id.namespace.as_str(), *seq];
    let row: Option<(MemoryId, String, u32)> = tx.query_optional(
        "SELECT memory_id, content, indexed FROM memories WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3",
        &key,
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    let Some((memory_id, content, indexed)) = row else { return Ok(false) };
    let change = access::next_change(tx, id)?;
    keyword::remove(tx, id, *seq, Index::from_stored(indexed).has_words().then_some(content.as_str()))?;
    keyword::count_less(tx, id)?;
    take_out(tx, id, *seq, change, &memory_id)?;
    let by_id = values![&id.tenant, id.namespace.as_str(), &memory_id];
    tx.execute("DELETE FROM memory_access WHERE tenant_id = ?1 AND namespace = ?2 AND memory_id = ?3", &by_id)?;
    Ok(true)
}

/// Takes a row out with its vectors and leaves word of it; its keywords and statistics are for others to take out.
pub(crate) fn take_out(
    tx: &mut Tx<'_>,
    id: &PartitionId,
    seq: i64,
    change: i64,
    memory_id: &MemoryId,
) -> Result<(), StoreError> {
    let key = values![&id.tenant, id.namespace.as_str(), seq];
    for table in ["memory_vectors", "memories"] {
        tx.execute(&format!("DELETE FROM {table} WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3"), &key)?;
    }
    tx.execute(
        "INSERT INTO memory_gone (tenant_id, namespace, change_seq, seq, memory_id) VALUES (?1, ?2, ?3, ?4, ?5)",
        &values![&id.tenant, id.namespace.as_str(), change, seq, memory_id],
    )?;
    Ok(())
}

/// Puts a row back that was taken out, under its number; its keywords and vectors are for others to write.
pub(crate) fn put_back(tx: &mut Tx<'_>, id: &PartitionId, change: i64, row: &ColdRow) -> Result<(), StoreError> {
    let key = values![&id.tenant, id.namespace.as_str(), row.seq];
    // Who reads both would otherwise take the row for gone.
    tx.execute("DELETE FROM memory_gone WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3", &key)?;
    tx.execute(
        "INSERT INTO memories (tenant_id, namespace, seq, change_seq, memory_id, v, user_id, task_id, thread, collection,
                               kind, source, content, meta, tags, importance, pinned, indexed, created_at, happened_at,
                               expires_at, subject, attribute, valid_from, valid_to, superseded_by, superseded_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
                 ?23, ?24, ?25, ?26, ?27)",
        &values![
            &id.tenant,
            id.namespace.as_str(),
            row.seq,
            change,
            &row.memory_id,
            row.v,
            &row.user_id,
            row.task_id.as_ref(),
            row.thread.as_ref(),
            &row.collection,
            &row.kind,
            &row.source,
            &row.content,
            &row.meta,
            &row.tags,
            row.importance,
            row.pinned,
            row.indexed,
            row.created_at,
            row.happened_at,
            row.expires_at,
            row.subject.as_ref(),
            row.attribute.as_ref(),
            row.valid_from,
            row.valid_to,
            row.superseded_by.as_ref(),
            row.superseded_at,
        ],
    )?;
    Ok(())
}

/// Writes the vectors of rows that are there, each under the partition's next number. Gives how many that were.
pub(crate) fn keep_vectors(
    tx: &mut Tx<'_>,
    id: &PartitionId,
    embedder: &str,
    done: &[(i64, &[f32])],
) -> Result<u64, StoreError> {
    keep_vectors_as_of(tx, id, embedder, i64::MAX, done)
}

/// Writes the vectors of rows that are there and have not changed after `as_of`, since when their texts were read; each
/// under the partition's next number. Gives how many that were.
pub(crate) fn keep_vectors_as_of(
    tx: &mut Tx<'_>,
    id: &PartitionId,
    embedder: &str,
    as_of: i64,
    done: &[(i64, &[f32])],
) -> Result<u64, StoreError> {
    if done.is_empty() {
        return Ok(0);
    }
    let last: i64 = tx.query_one(
        "UPDATE memory_partitions SET last_vector_seq = last_vector_seq + ?3 WHERE tenant_id = ?1 AND namespace = ?2
         RETURNING last_vector_seq",
        &values![&id.tenant, id.namespace.as_str(), done.len()],
        |row| row.get(0),
    )?;
    let mut kept = 0;
    for (number, (seq, vector)) in (last - done.len() as i64 + 1..).zip(done) {
        kept += tx.execute(
            "INSERT INTO memory_vectors (tenant_id, namespace, seq, embedder, vector_seq, vector)
             SELECT m.tenant_id, m.namespace, m.seq, ?4, ?5, ?6 FROM memories m
             WHERE m.tenant_id = ?1 AND m.namespace = ?2 AND m.seq = ?3 AND m.change_seq <= ?7
             ON CONFLICT (tenant_id, namespace, seq, embedder) DO UPDATE SET
                 vector_seq = excluded.vector_seq, vector = excluded.vector",
            &values![&id.tenant, id.namespace.as_str(), *seq, embedder, number, crate::vectors::encode(vector), as_of],
        )?;
    }
    Ok(kept)
}
