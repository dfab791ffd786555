//! Writing memories out: namespace by namespace, in the order of writing, a page at a time.
//!
//! What is written while an export goes on may be in it or not; what was there before it and is not forgotten meanwhile
//! is in it once.

use std::{collections::HashSet, io::Write};

use longhaul_core::{MemoryId, Scope};
use longhaul_store::{ReadTx, values};

use super::{
    TransferError,
    record::{FORMAT, Header, Moment, Record, VERSION, VectorRecord},
};
use crate::{
    Memory, MemoryError, Namespace,
    access::{self, Right},
    rows::{self, COLUMNS},
};

/// Memories read at a time.
const PAGE: usize = 256;

/// What to export.
#[derive(Debug, Clone, Default)]
pub struct ExportOptions {
    /// These namespaces; empty for every one of memories that the user may read.
    pub namespaces: Vec<Namespace>,
    /// The vectors as well: larger, and only of use where the same model is.
    pub with_vectors: bool,
}

/// What was exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exported {
    /// Memories.
    pub memories: u64,
    /// Vectors.
    pub vectors: u64,
    /// Namespaces.
    pub namespaces: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Memory {
    /// Writes memories as lines of JSON. `progress` is told after every page.
    ///
    /// # Errors
    /// [`MemoryError::NoAccess`], [`MemoryError::NoPartition`] for a namespace that was named; those of the output and
    /// of the store.
    pub async fn export(
        &self,
        scope: &Scope,
        options: &ExportOptions,
        out: &mut (dyn Write + Send),
        mut progress: impl FnMut(Exported) + Send,
    ) -> Result<Exported, TransferError> {
        // Before the first line: what may not be read leaves no half file.
        let namespaces = self.exported_namespaces(scope, &options.namespaces).await?;
        let mut done = Exported::default();
        let now = self.shared.store.read(|read| Ok::<_, MemoryError>(read.now())).await?;
        let header = Header { format: FORMAT.to_owned(), v: VERSION, exported_at: Moment(now) };
        put(out, &header, &mut done)?;
        for namespace in namespaces {
            done.namespaces += 1;
            let begun = self.last_change(scope, &namespace).await?;
            let mut seen: HashSet<MemoryId> = HashSet::new();
            // Hot, cold, and what has changed since once more: what cools down meanwhile is met in the cold, and what
            // warms up comes back under its old number.
            for (cold, changed_after) in [(false, -1), (true, -1), (false, begun)] {
                let (mut after, mut place) = (0, (String::new(), -1));
                loop {
                    let (page, more) = if cold {
                        self.export_cold(scope, &namespace, &mut place, options.with_vectors).await?
                    } else {
                        self.export_hot(scope, &namespace, (&mut after, changed_after), options.with_vectors).await?
                    };
                    for record in page.iter().filter(|record| seen.insert(record.id.clone())) {
                        put(out, record, &mut done)?;
                        done.memories += 1;
                        done.vectors += record.vectors.len() as u64;
                    }
                    progress(done);
                    if !more {
                        break;
                    }
                }
            }
        }
        out.flush()?;
        Ok(done)
    }

    async fn last_change(&self, scope: &Scope, namespace: &Namespace) -> Result<i64, MemoryError> {
        let (scope, namespace) = (scope.clone(), namespace.clone());
        let last = move |read: &ReadTx<'_>| {
            let partition = access::open(read, &scope, &namespace, Right::Read)?;
            Ok::<_, MemoryError>(partition.map_or(0, |partition| partition.last_change))
        };
        self.shared.store.read(last).await
    }

    async fn exported_namespaces(&self, scope: &Scope, named: &[Namespace]) -> Result<Vec<Namespace>, MemoryError> {
        let all = self.partitions(scope).await?;
        if named.is_empty() {
            let memories = all.into_iter().filter(|partition| partition.purpose == "memory");
            return Ok(memories.map(|partition| partition.namespace).collect());
        }
        let (scope, mut named) = (scope.clone(), named.to_vec());
        named.sort();
        named.dedup();
        let check = move |read: &ReadTx<'_>| {
            for namespace in &named {
                access::open(read, &scope, namespace, Right::Read)?
                    .ok_or_else(|| MemoryError::NoPartition { namespace: namespace.clone() })?;
            }
            Ok::<_, MemoryError>(named)
        };
        self.shared.store.read(check).await
    }

    /// The next cold memories of a namespace after a place in its segments, and whether there may be more. One whose
    /// segment cannot be read ends the export: a file that lacks it would look whole.
    async fn export_cold(
        &self,
        scope: &Scope,
        namespace: &Namespace,
        after: &mut (String, i64),
        with_vectors: bool,
    ) -> Result<(Vec<Record>, bool), MemoryError> {
        let (reader, wanted, from) = (scope.clone(), namespace.clone(), after.clone());
        let stubs = move |read: &ReadTx<'_>| {
            if access::open(read, &reader, &wanted, Right::Read)?.is_none() {
                return Ok(Vec::new());
            }
            let sql = format!(
                "SELECT segment, position, memory_id FROM memory_cold
                 WHERE tenant_id = ?1 AND namespace = ?2 AND (segment > ?3 OR (segment = ?3 AND position > ?4))
                 ORDER BY segment, position LIMIT {PAGE}"
            );
            let params = values![&reader.tenant, wanted.as_str(), from.0, from.1];
            let stub = |row: &longhaul_store::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get::<MemoryId>(2)?));
            Ok::<_, MemoryError>(read.query(&sql, &params, stub)?)
        };
        let stubs: Vec<(String, i64, MemoryId)> = self.shared.store.read(stubs).await?;
        let more = stubs.len() == PAGE;
        let mut page = Vec::with_capacity(stubs.len());
        for (segment, position, id) in stubs {
            *after = (segment, position);
            // Nothing for one that has expired or moved since.
            if let Some((item, vectors)) = self.get_cold_whole(scope, &id).await? {
                let vectors = vectors.into_iter().filter(|_| with_vectors);
                let vectors = vectors.map(|(embedder, bytes)| VectorRecord::new(embedder, &bytes)).collect();
                page.push(Record::of(item, vectors));
            }
        }
        Ok((page, more))
    }

    /// The next hot memories of a namespace after a number, of those changed after a change, and whether there may be
    /// more.
    async fn export_hot(
        &self,
        scope: &Scope,
        namespace: &Namespace,
        (after, changed_after): (&mut i64, i64),
        with_vectors: bool,
    ) -> Result<(Vec<Record>, bool), MemoryError> {
        let (scope, namespace, from) = (scope.clone(), namespace.clone(), *after);
        let page = move |read: &ReadTx<'_>| {
            // A right that was taken back ends the export.
            if access::open(read, &scope, &namespace, Right::Read)?.is_none() {
                return Ok(Vec::new());
            }
            let sql = format!(
                "SELECT {COLUMNS}, seq FROM memories WHERE tenant_id = ?1 AND namespace = ?2 AND seq > ?3
                 AND (expires_at IS NULL OR expires_at > ?4) AND +change_seq > ?5 ORDER BY seq LIMIT {PAGE}"
            );
            let params = values![&scope.tenant, namespace.as_str(), from, read.now(), changed_after];
            let seq = COLUMNS.split(',').count();
            let items = read.query(&sql, &params, |row| Ok((row.get::<i64>(seq)?, rows::item(row)?)))?;
            let mut page = Vec::with_capacity(items.len());
            for (seq, item) in items {
                let vectors = if with_vectors {
                    let sql = "SELECT embedder, vector FROM memory_vectors
                               WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3 ORDER BY embedder";
                    let key = values![&scope.tenant, namespace.as_str(), seq];
                    read.query(sql, &key, |row| Ok(VectorRecord::new(row.get(0)?, &row.get::<Vec<u8>>(1)?)))?
                } else {
                    Vec::new()
                };
                page.push((seq, Record::of(item, vectors)));
            }
            Ok::<_, MemoryError>(page)
        };
        let page = self.shared.store.read(page).await?;
        *after = page.last().map_or(*after, |(seq, _)| *seq);
        let more = page.len() == PAGE;
        Ok((page.into_iter().map(|(_, record)| record).collect(), more))
    }
}

fn put(out: &mut (dyn Write + Send), line: &impl serde::Serialize, done: &mut Exported) -> Result<(), TransferError> {
    let mut bytes = serde_json::to_vec(line).map_err(std::io::Error::from)?;
    bytes.push(b'\n');
    out.write_all(&bytes)?;
    done.bytes += bytes.len() as u64;
    Ok(())
}
