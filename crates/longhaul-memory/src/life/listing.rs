//! Looking at cold memories without asking for anything: pages, whole segments, and figures of the tiers.
//!
//! Invariant: nothing is given out that the snapshot does not know as cold.

use longhaul_core::Scope;
use longhaul_store::{ReadTx, values};
use serde::{Deserialize, Serialize};

use crate::{
    Item, Memory, MemoryError, Namespace, Page, Query,
    access::{self, Right},
    filter::Filter,
    list::COLD,
};

use super::cold;

/// How often a listing begins again because segments came into being.
const ATTEMPTS: usize = 4;

/// Memories, where to look on, and notes.
type Listed = (Vec<Item>, Option<String>, Vec<String>);

/// Figures of a namespace's tiers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierStats {
    /// The namespace.
    pub namespace: Namespace,
    /// Memories in the store's tables.
    pub hot: u64,
    /// Of these, pinned ones.
    pub pinned: u64,
    /// Memories in cold segments.
    pub cold: u64,
    /// Cold segments.
    pub segments: u64,
    /// Size of their objects, in bytes.
    pub segment_bytes: u64,
    /// Segments that still hold rows which left them, and objects still to be deleted.
    pub pending: u64,
}

impl Memory {
    /// Fills a page with cold memories that pass the query's filters, from a place on.
    pub(crate) async fn list_cold(
        &self,
        scope: &Scope,
        query: &Query,
        from: &str,
        page: &mut Page,
    ) -> Result<(), MemoryError> {
        let k = query.checked_k()?;
        for attempt in 1..=ATTEMPTS {
            let mut view = self.cold_view(scope, query).await?;
            view.with_unasked(if attempt == ATTEMPTS { cold::Unasked::Note } else { cold::Unasked::Ask });
            let (scope, query, from, room) =
                (scope.clone(), query.clone(), from.to_owned(), k - page.items.len().min(k));
            let look = move |read: &ReadTx<'_>| {
                let filter = Filter::new(&query, read.now())?;
                let partitions = access::readable(read, &scope, &query.namespaces)?;
                let Some(mut parts) = view.parts(read, &partitions, &query)? else { return Ok(None) };
                parts.iter_mut().for_each(|part| part.allow(&filter));
                parts.sort_by_key(cold::Part::place);
                let (mut items, mut last): (Vec<Item>, Option<String>) = (Vec::new(), None);
                for part in &parts {
                    let place = part.place();
                    for number in part.allowed.iter() {
                        let at = format!("{place}/{number:06}");
                        if at <= from {
                            continue;
                        }
                        if items.len() == room {
                            let next = last.unwrap_or(from);
                            return Ok(Some((items, Some(format!("{COLD}{next}")), view.notes)));
                        }
                        items.extend(part.item(number));
                        last = Some(at);
                    }
                }
                Ok(Some((items, None, view.notes)))
            };
            let found: Result<Option<Listed>, MemoryError> = self.shared.store.read(look).await;
            if let Some((items, next, notes)) = found? {
                page.items.extend(items);
                page.next = next;
                page.notes.extend(notes);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Figures of a namespace's tiers; `None` when there is no such namespace.
    ///
    /// # Errors
    /// [`MemoryError::NoAccess`]; those of the store.
    pub async fn tier_stats(&self, scope: &Scope, namespace: &Namespace) -> Result<Option<TierStats>, MemoryError> {
        let (scope, namespace) = (scope.clone(), namespace.clone());
        let look = move |read: &ReadTx<'_>| {
            if access::open(read, &scope, &namespace, Right::Read)?.is_none() {
                return Ok(None);
            }
            let key = values![&scope.tenant, namespace.as_str()];
            let number = |what: &str| {
                let sql = format!("SELECT CAST({what} AS INTEGER)");
                read.query_one(&sql, &key, |row| row.get::<Option<u64>>(0)).map(|found| found.unwrap_or(0))
            };
            let of = |what: &str, condition: &str| {
                number(&format!("(SELECT {what} FROM {condition} AND tenant_id = ?1 AND namespace = ?2)"))
            };
            Ok(Some(TierStats {
                hot: of("count(*)", "memories WHERE true")?,
                pinned: of("count(*)", "memories WHERE pinned = 1")?,
                cold: of("count(*)", "memory_cold WHERE true")?,
                segments: of("count(*)", "memory_segments WHERE state = 'live'")?,
                segment_bytes: of("sum(bytes)", "memory_segments WHERE state = 'live'")?,
                pending: of("count(*)", "memory_segments WHERE (state = 'gone' OR to_rewrite = 1)")?,
                namespace,
            }))
        };
        self.shared.store.read(look).await
    }
}
