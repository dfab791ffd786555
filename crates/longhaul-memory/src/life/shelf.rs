//! Rows of `memory_segments` and `memory_cold`: which segments there are, and what of them is still remembered.
//!
//! The SQL of the cold tier is here. Invariants: a segment's object never changes, so what left it is a bit in
//! `removed`; whoever changes that holds the partition's lock, which [`access::next_change`] takes.

use longhaul_core::{MemoryId, TenantId};
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};
use serde::{Deserialize, Serialize};

use crate::{Kind, Query, access, namespace::PartitionId};

use super::segment::{ColdRow, Encoded, SEGMENT_VERSION, Segment};

/// Distinct values of a column that a summary lists; a segment with more says nothing of it.
const LISTED_MAX: usize = 32;

/// A live segment as a snapshot has it.
#[derive(Debug, Clone)]
pub(crate) struct Shelved {
    pub(crate) id: PartitionId,
    pub(crate) segment: String,
    pub(crate) object: String,
    pub(crate) digest: String,
    pub(crate) documents: usize,
    pub(crate) removed: Removed,
    happened_from: i64,
    happened_to: i64,
    summary: Summary,
}

/// The rows of a segment that are not in it any more, by position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Removed(Vec<u8>);

impl Removed {
    /// Of a segment none of whose rows is in it yet.
    pub(crate) fn all(rows: usize) -> Self {
        let mut removed = Self(vec![0; rows.div_ceil(8)]);
        (0..rows).for_each(|place| removed.set(place, true));
        removed
    }

    pub(crate) fn has(&self, place: usize) -> bool {
        self.0.get(place / 8).is_some_and(|byte| byte & (1 << (place % 8)) != 0)
    }

    pub(crate) fn set(&mut self, place: usize, removed: bool) {
        if self.0.len() <= place / 8 {
            self.0.resize(place / 8 + 1, 0);
        }
        if removed {
            self.0[place / 8] |= 1 << (place % 8);
        } else {
            self.0[place / 8] &= !(1 << (place % 8));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }
}

/// What a segment holds, so that a query that cannot match it does not read it. An empty list says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Summary {
    #[serde(default)]
    kinds: Vec<String>,
    #[serde(default)]
    collections: Vec<String>,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    threads: Vec<String>,
}

impl Summary {
    fn of(rows: &[ColdRow]) -> Self {
        fn listed<'a>(values: impl Iterator<Item = &'a str>) -> Vec<String> {
            let each: std::collections::BTreeSet<&str> = values.collect();
            if each.len() > LISTED_MAX { Vec::new() } else { each.into_iter().map(str::to_owned).collect() }
        }
        // A row without a thread is listed as having an empty one, which no thread is.
        Self {
            kinds: listed(rows.iter().map(|row| row.kind.as_str())),
            collections: listed(rows.iter().map(|row| row.collection.as_str())),
            users: listed(rows.iter().map(|row| row.user_id.as_str())),
            threads: listed(rows.iter().map(|row| row.thread.as_deref().unwrap_or(""))),
        }
    }
}

impl Shelved {
    /// Whether any of its rows may pass the query's filters.
    pub(crate) fn may_match(&self, query: &Query) -> bool {
        let any = |listed: &[String], wanted: &mut dyn Iterator<Item = String>| {
            let mut wanted = wanted.peekable();
            listed.is_empty() || wanted.peek().is_none() || wanted.any(|one| listed.contains(&one))
        };
        let Summary { kinds, collections, users, threads } = &self.summary;
        query.until.is_none_or(|until| self.happened_from < until.0)
            && query.since.is_none_or(|since| since.0 <= self.happened_to)
            && any(kinds, &mut query.kinds.iter().copied().map(Kind::as_str).map(str::to_owned))
            && any(collections, &mut query.collections.iter().cloned())
            && any(users, &mut query.user.iter().map(ToString::to_string))
            && any(threads, &mut query.thread.iter().cloned())
    }
}

const SHELVED: &str = "tenant_id, namespace, segment, object, digest, documents, removed, happened_from,
    happened_to, summary";

fn shelved(row: &Row<'_>) -> Result<Shelved, StoreError> {
    let name = row.text(1)?;
    let namespace = name.parse().map_err(|_| StoreError::Column {
        column: 1,
        expected: "a namespace",
        found: name.chars().take(80).collect(),
    })?;
    Ok(Shelved {
        id: PartitionId { tenant: row.get(0)?, namespace },
        segment: row.get(2)?,
        object: row.get(3)?,
        digest: row.get(4)?,
        documents: row.get(5)?,
        removed: Removed(row.bytes(6)?.to_vec()),
        happened_from: row.get(7)?,
        happened_to: row.get(8)?,
        // A summary that cannot be read says nothing.
        summary: serde_json::from_str(row.text(9)?).unwrap_or_default(),
    })
}

/// The partition's live segments, newest first.
pub(crate) fn live(read: &ReadTx<'_>, id: &PartitionId) -> Result<Vec<Shelved>, StoreError> {
    let sql = format!(
        "SELECT {SHELVED} FROM memory_segments WHERE tenant_id = ?1 AND namespace = ?2 AND state = 'live'
         ORDER BY happened_to DESC, segment"
    );
    read.query(&sql, &values![&id.tenant, id.namespace.as_str()], shelved)
}

/// One live segment.
pub(crate) fn find(read: &ReadTx<'_>, id: &PartitionId, segment: &str) -> Result<Option<Shelved>, StoreError> {
    let sql = format!(
        "SELECT {SHELVED} FROM memory_segments
         WHERE tenant_id = ?1 AND namespace = ?2 AND segment = ?3 AND state = 'live'"
    );
    read.query_optional(&sql, &values![&id.tenant, id.namespace.as_str(), segment], shelved)
}

/// Live segments of all tenants that hold rows which are no longer in them.
pub(crate) fn to_rewrite(read: &ReadTx<'_>, limit: usize) -> Result<Vec<Shelved>, StoreError> {
    let sql = format!(
        "SELECT {SHELVED} FROM memory_segments WHERE state = 'live' AND to_rewrite = 1
         ORDER BY changed_at, segment LIMIT ?1"
    );
    read.query(&sql, &values![limit], shelved)
}

/// A segment that is not live any more, or not yet.
#[derive(Debug, Clone)]
pub(crate) struct Leftover {
    pub(crate) id: PartitionId,
    pub(crate) segment: String,
    pub(crate) object: String,
}

/// Segments of all tenants whose objects are to be deleted: gone ones, and those whose writer did not come back.
pub(crate) fn leftovers(read: &ReadTx<'_>, before: i64, limit: usize) -> Result<Vec<Leftover>, StoreError> {
    let sql = format!(
        "SELECT {SHELVED} FROM memory_segments
         WHERE state = 'gone' OR (state = 'writing' AND changed_at < ?1) ORDER BY changed_at LIMIT ?2"
    );
    read.query(&sql, &values![before, limit], |row| {
        let Shelved { id, segment, object, .. } = shelved(row)?;
        Ok(Leftover { id, segment, object })
    })
}

/// Announces an object before it is written.
pub(crate) fn announce(tx: &mut Tx<'_>, id: &PartitionId, new: &Segment, encoded: &Encoded) -> Result<(), StoreError> {
    let happened = || new.rows.iter().map(|row| row.happened_at);
    let summary = serde_json::to_string(&Summary::of(&new.rows)).unwrap_or_default();
    let now = tx.now();
    tx.execute(
        "INSERT INTO memory_segments (tenant_id, namespace, segment, v, state, object, digest, documents, bytes,
                                      removed, to_rewrite, happened_from, happened_to, summary, changed_at)
         VALUES (?1, ?2, ?3, ?4, 'writing', ?5, ?6, ?7, ?8, ?9, 1, ?10, ?11, ?12, ?13)",
        &values![
            &id.tenant,
            id.namespace.as_str(),
            &new.segment,
            SEGMENT_VERSION,
            object_key(id, &new.segment),
            &encoded.digest,
            new.rows.len(),
            encoded.bytes.len(),
            Removed::all(new.rows.len()).0,
            happened().min().unwrap_or(0),
            happened().max().unwrap_or(0),
            summary,
            now,
        ],
    )?;
    Ok(())
}

/// The name of a segment's object.
pub(crate) fn object_key(id: &PartitionId, segment: &str) -> String {
    format!("{}/{}/{segment}.cold", id.tenant, id.namespace)
}

/// Moves a segment from one state to another; tells whether it was in the first.
pub(crate) fn turn(tx: &mut Tx<'_>, id: &PartitionId, segment: &str, from: &str, to: &str) -> Result<bool, StoreError> {
    let now = tx.now();
    let changed = tx.execute(
        "UPDATE memory_segments SET state = ?5, changed_at = ?6
         WHERE tenant_id = ?1 AND namespace = ?2 AND segment = ?3 AND state = ?4",
        &values![&id.tenant, id.namespace.as_str(), segment, from, to, now],
    )?;
    Ok(changed == 1)
}

/// Makes sure that a leftover stays one: tells whether its object may be deleted.
pub(crate) fn give_up(tx: &mut Tx<'_>, left: &Leftover) -> Result<bool, StoreError> {
    turn(tx, &left.id, &left.segment, "writing", "gone")?;
    let state: Option<String> = tx.query_optional(
        "SELECT state FROM memory_segments WHERE tenant_id = ?1 AND namespace = ?2 AND segment = ?3",
        &values![&left.id.tenant, left.id.namespace.as_str(), &left.segment],
        |row| row.get(0),
    )?;
    Ok(state.as_deref() == Some("gone"))
}

/// Removes the row of a segment whose object has been deleted.
pub(crate) fn drop_row(tx: &mut Tx<'_>, left: &Leftover) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM memory_segments WHERE tenant_id = ?1 AND namespace = ?2 AND segment = ?3 AND state <> 'live'",
        &values![&left.id.tenant, left.id.namespace.as_str(), &left.segment],
    )?;
    Ok(())
}

/// Notes that these rows are in the segment, or not any more. The caller holds the partition's lock.
pub(crate) fn mark(
    tx: &mut Tx<'_>,
    id: &PartitionId,
    segment: &str,
    places: impl Iterator<Item = usize>,
    removed: bool,
) -> Result<(), StoreError> {
    let key = values![&id.tenant, id.namespace.as_str(), segment];
    let which = "WHERE tenant_id = ?1 AND namespace = ?2 AND segment = ?3";
    let mut bits = tx.query_one(&format!("SELECT removed FROM memory_segments {which}"), &key, |row| {
        Ok(Removed(row.bytes(0)?.to_vec()))
    })?;
    places.for_each(|place| bits.set(place, removed));
    let to_rewrite = !bits.is_empty();
    let now = tx.now();
    let params = values![&id.tenant, id.namespace.as_str(), segment, bits.0, to_rewrite, now];
    tx.execute(&format!("UPDATE memory_segments SET removed = ?4, to_rewrite = ?5, changed_at = ?6 {which}"), &params)?;
    Ok(())
}

/// Where a cold memory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stub {
    pub(crate) id: PartitionId,
    pub(crate) memory_id: MemoryId,
    pub(crate) segment: String,
    pub(crate) position: usize,
    pub(crate) expires_at: Option<i64>,
}

pub(crate) const STUB: &str = "namespace, memory_id, segment, position, expires_at";

pub(crate) fn read_stub(row: &Row<'_>, tenant: &TenantId) -> Result<Stub, StoreError> {
    let name = row.text(0)?;
    let namespace = name.parse().map_err(|_| StoreError::Column {
        column: 0,
        expected: "a namespace",
        found: name.chars().take(80).collect(),
    })?;
    Ok(Stub {
        id: PartitionId { tenant: tenant.clone(), namespace },
        memory_id: row.get(1)?,
        segment: row.get(2)?,
        position: row.get(3)?,
        expires_at: row.get(4)?,
    })
}

/// Where the tenant's memory of this id is, if it is cold.
pub(crate) fn stub(read: &ReadTx<'_>, tenant: &TenantId, id: &MemoryId) -> Result<Option<Stub>, StoreError> {
    let sql = format!("SELECT {STUB} FROM memory_cold WHERE tenant_id = ?1 AND memory_id = ?2");
    read.query_optional(&sql, &values![tenant, id], |row| read_stub(row, tenant))
}

/// Notes where a memory is now. The caller moves it in the same transaction.
pub(crate) fn put_stub(
    tx: &mut Tx<'_>,
    id: &PartitionId,
    segment: &str,
    position: usize,
    row: &ColdRow,
) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO memory_cold (tenant_id, namespace, memory_id, segment, position, user_id, thread, subject,
                                  attribute, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        &values![
            &id.tenant,
            id.namespace.as_str(),
            &row.memory_id,
            segment,
            position,
            &row.user_id,
            row.thread.as_ref(),
            row.subject.as_ref(),
            row.attribute.as_ref(),
            row.expires_at,
        ],
    )?;
    Ok(())
}

/// Takes a memory out of the cold tier: its stub at once, its row in the object when the segment is rewritten. Tells
/// whether it was cold.
pub(crate) fn take_out(tx: &mut Tx<'_>, tenant: &TenantId, memory_id: &MemoryId) -> Result<bool, StoreError> {
    let Some(before) = stub(tx, tenant, memory_id)? else { return Ok(false) };
    // Takes the lock under which segments change; only then is the place certain.
    access::next_change(tx, &before.id)?;
    let Some(stub) = stub(tx, tenant, memory_id)? else { return Ok(false) };
    tx.execute("DELETE FROM memory_cold WHERE tenant_id = ?1 AND memory_id = ?2", &values![tenant, memory_id])?;
    mark(tx, &stub.id, &stub.segment, std::iter::once(stub.position), true)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use longhaul_core::TimeMs;

    use super::*;
    use crate::life::segment::tests::row;

    fn shelved(rows: &[ColdRow]) -> Shelved {
        Shelved {
            id: PartitionId { tenant: longhaul_core::Scope::single_user().tenant, namespace: Default::default() },
            segment: "s".to_owned(),
            object: "o".to_owned(),
            digest: String::new(),
            documents: rows.len(),
            removed: Removed::default(),
            happened_from: rows.iter().map(|row| row.happened_at).min().unwrap_or(0),
            happened_to: rows.iter().map(|row| row.happened_at).max().unwrap_or(0),
            summary: Summary::of(rows),
        }
    }

    #[test]
    fn a_segment_that_cannot_match_is_not_read() {
        let segment = shelved(&[row(10, "a"), row(20, "b")]);
        let may = |query: Query| segment.may_match(&query);
        assert!(may(Query::default()));
        assert!(may(Query { since: Some(TimeMs(20)), ..Query::default() }));
        assert!(!may(Query { since: Some(TimeMs(21)), ..Query::default() }));
        assert!(!may(Query { until: Some(TimeMs(10)), ..Query::default() }));
        assert!(!may(Query { kinds: vec![Kind::Lesson], ..Query::default() }));
        assert!(may(Query { kinds: vec![Kind::Lesson, Kind::Note], ..Query::default() }));
        assert!(!may(Query { collections: vec!["other".to_owned()], ..Query::default() }));
        assert!(!may(Query { thread: Some("other".to_owned()), ..Query::default() }));
        assert!(may(Query { thread: Some("t".to_owned()), ..Query::default() }));
    }

    #[test]
    fn a_summary_of_too_much_says_nothing() {
        let rows: Vec<ColdRow> =
            (0..40).map(|seq| ColdRow { thread: Some(format!("t{seq}")), ..row(seq, "a") }).collect();
        assert!(shelved(&rows).may_match(&Query { thread: Some("unknown".to_owned()), ..Query::default() }));
    }

    #[test]
    fn removed_rows_are_known_by_their_place() {
        let mut removed = Removed::all(11);
        assert!((0..11).all(|place| removed.has(place)) && !removed.has(11));
        (0..11).for_each(|place| removed.set(place, false));
        assert!(removed.is_empty());
        removed.set(30, true);
        assert!(removed.has(30) && !removed.has(29));
    }
}
