//! Looking at what is there without asking for anything: pages of memories, and figures of a partition.

use std::collections::BTreeMap;

use longhaul_core::Scope;
use longhaul_store::{ReadTx, values};
use serde::{Deserialize, Serialize};

use crate::{
    Item, Memory, MemoryError, Namespace, Query, Tiers,
    access::{self, Right},
    filter::Filter,
    item::field,
    rows::{self, COLUMNS},
};

/// One page of memories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Page {
    /// By namespace, and within one in order of writing; what is cold comes last, by segment.
    pub items: Vec<Item>,
    /// What to ask the next page with; `None` at the end.
    pub next: Option<String>,
    /// What the reader should know of the page: `3 cold segments could not be read: …`.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Figures of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// The partition.
    pub namespace: Namespace,
    /// Memories in the hot tables.
    pub memories: u64,
    /// How many of them there are of each kind.
    pub kinds: BTreeMap<String, u64>,
    /// How many of them there are in each collection.
    pub collections: BTreeMap<String, u64>,
    /// Memories that wait for a vector of the embedder.
    pub unembedded: u64,
    /// Bytes of the texts.
    pub content_bytes: u64,
    /// Terms of all texts.
    pub terms: u64,
}

impl Memory {
    /// The memories that pass the query's filters, `k` a page; its text is not looked at. `after` is the page before's
    /// [`Page::next`].
    ///
    /// # Errors
    /// As a search; [`MemoryError::Field`] for an `after` that is none.
    pub async fn list(&self, scope: &Scope, query: &Query, after: Option<&str>) -> Result<Page, MemoryError> {
        let cold_from = after.and_then(|after| after.strip_prefix(COLD));
        let mut page = Page { items: Vec::new(), next: None, notes: Vec::new() };
        if cold_from.is_none() && query.tiers != Tiers::Cold {
            page = self.list_hot(scope, query, after).await?;
        }
        if page.next.is_none() && query.tiers != Tiers::Hot {
            self.list_cold(scope, query, cold_from.unwrap_or_default(), &mut page).await?;
        }
        Ok(page)
    }

    async fn list_hot(&self, scope: &Scope, query: &Query, after: Option<&str>) -> Result<Page, MemoryError> {
        let k = query.checked_k()?;
        let after = after.map(parsed).transpose()?;
        let (shared, scope, query) = (self.shared.clone(), scope.clone(), query.clone());
        let list = move |read: &ReadTx<'_>| {
            let filter = Filter::new(&query, read.now())?;
            let partitions = access::readable(read, &scope, &query.namespaces)?;
            let held = partitions
                .iter()
                .map(|partition| shared.columns.current(read, &partition.id, partition.last_change))
                .collect::<Result<Vec<_>, _>>()?;
            let guards: Vec<_> = held.iter().map(|held| held.columns()).collect();
            filter.check_fields(&guards.iter().map(|columns| &**columns).collect::<Vec<_>>())?;
            let sql = format!("SELECT {COLUMNS} FROM memories WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3");
            let mut page = Page { items: Vec::new(), next: None, notes: Vec::new() };
            let mut last = None;
            for (partition, columns) in partitions.iter().zip(&guards) {
                let from = match &after {
                    Some((namespace, _)) if *namespace > partition.id.namespace => continue,
                    Some((namespace, seq)) if *namespace == partition.id.namespace => *seq,
                    _ => 0,
                };
                for seq in filter.run(columns).iter().filter(|seq| *seq > from) {
                    if page.items.len() == k {
                        page.next = last;
                        return Ok(page);
                    }
                    let key = values![&scope.tenant, partition.id.namespace.as_str(), seq];
                    page.items.extend(read.query_optional(&sql, &key, rows::item)?);
                    last = Some(format!("{}/{seq}", partition.id.namespace));
                }
            }
            Ok(page)
        };
        self.shared.store.read(list).await
    }

    /// Figures of one partition; `None` when there is no such partition.
    ///
    /// # Errors
    /// [`MemoryError::NoAccess`]; those of the store.
    pub async fn stats(&self, scope: &Scope, namespace: &Namespace) -> Result<Option<Stats>, MemoryError> {
        let (scope, namespace, embedder) = (scope.clone(), namespace.clone(), self.shared.embedder.clone());
        let stats = move |read: &ReadTx<'_>| {
            let Some(partition) = access::open(read, &scope, &namespace, Right::Read)? else { return Ok(None) };
            let key = values![&scope.tenant, namespace.as_str()];
            let grouped = |column: &str| {
                let sql = format!(
                    "SELECT {column}, count(*) FROM memories WHERE tenant_id = ?1 AND namespace = ?2 GROUP BY {column}"
                );
                let rows = read.query(&sql, &key, |row| Ok((row.get::<String>(0)?, row.get::<u64>(1)?)))?;
                Ok::<_, MemoryError>(rows.into_iter().collect::<BTreeMap<_, _>>())
            };
            let kinds = grouped("kind")?;
            let content_bytes: Option<u64> = read.query_one(
                "SELECT CAST(sum(octet_length(content)) AS INTEGER) FROM memories
                 WHERE tenant_id = ?1 AND namespace = ?2",
                &key,
                |row| row.get(0),
            )?;
            let unembedded = match &embedder {
                Some(embedder) => crate::indexer::waiting(read, &partition.id, embedder.as_ref())?,
                None => 0,
            };
            Ok(Some(Stats {
                namespace: partition.id.namespace,
                memories: kinds.values().sum(),
                collections: grouped("collection")?,
                kinds,
                unembedded,
                content_bytes: content_bytes.unwrap_or(0),
                terms: u64::try_from(partition.terms).unwrap_or(0),
            }))
        };
        self.shared.store.read(stats).await
    }
}

/// What the place of a page among cold memories begins with; no namespace does.
pub(crate) const COLD: char = '~';

fn parsed(after: &str) -> Result<(Namespace, i64), MemoryError> {
    let wrong = || field("after", after, "the `next` of a page");
    let (namespace, seq) = after.rsplit_once('/').ok_or_else(wrong)?;
    Ok((namespace.parse().map_err(|_| wrong())?, seq.parse().map_err(|_| wrong())?))
}
