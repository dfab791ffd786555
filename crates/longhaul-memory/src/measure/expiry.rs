//! Measuring expiry: whether an expired memory is ever given out, and how late its row goes.

use std::{path::Path, time::Duration};

use longhaul_core::{Ambient, Scope, TimeMs};
use longhaul_store::{Store, StoreSettings};

use crate::{Kind, MIGRATIONS, Memory, MemoryError, NewMemory, Query, Source, TierRules};

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpiryMeasured {
    /// Memories that expired, half of them cold.
    pub memories: u64,
    /// Searches meanwhile.
    pub searches: u64,
    /// Times that a search gave a memory out whose moment had passed when the search was asked.
    pub returned: u64,
    /// How long after its moment the last row was gone, in milliseconds.
    pub late_ms_max: i64,
}

/// Writes memories that expire spread over `over_ms`, lets half become cold, and searches all the while, until the last
/// row is gone. In a folder that must be empty or new.
///
/// # Errors
/// Those of the store and of the cold place.
pub async fn expiry(dir: &Path, memories: u32, over_ms: u32) -> Result<ExpiryMeasured, MemoryError> {
    let store = Store::open(StoreSettings::new(dir), Ambient::system(), &[MIGRATIONS]).await?;
    let (memory, scope) = (Memory::new(store.clone(), None), Scope::single_user());
    let clock = store.ambient().clock.clone();
    // After everything is written and moved.
    let first = clock.now().0 + 3_000;
    let half = |from: u32| {
        (from..memories).step_by(2).map(|n| NewMemory {
            expires_at: Some(TimeMs(first + i64::from(n) * i64::from(over_ms) / i64::from(memories.max(1)))),
            ..NewMemory::new("bench", Kind::Note, Source::Agent, format!("expiring note number {n}"))
        })
    };
    memory.insert_many(&scope, half(0).collect()).await?;
    memory.move_cold(&TierRules::everything(), clock.now()).await?;
    memory.insert_many(&scope, half(1).collect()).await?;

    let keeper = tokio::spawn({
        let memory = memory.clone();
        async move { memory.keep().await }
    });
    let mut measured = ExpiryMeasured { memories: u64::from(memories), searches: 0, returned: 0, late_ms_max: 0 };
    let mut looks = tokio::time::interval(Duration::from_millis(10));
    let outcome = loop {
        looks.tick().await;
        let asked = clock.now();
        let found = match memory.search(&scope, &Query::new("expiring note", 200)).await {
            Ok(found) => found,
            Err(error) => break Err(error),
        };
        measured.searches += 1;
        let late = found.hits.iter().filter(|hit| hit.item.expires_at.is_some_and(|at| at <= asked));
        measured.returned += late.count() as u64;
        let oldest = store.read(|read| {
            let sql = "SELECT min(expires_at) FROM (SELECT expires_at FROM memories UNION ALL
                       SELECT expires_at FROM memory_cold) AS every";
            read.query_one(sql, &[], |row| row.get::<Option<TimeMs>>(0))
        });
        match oldest.await {
            Ok(Some(oldest)) => measured.late_ms_max = measured.late_ms_max.max(clock.now().0 - oldest.0),
            Ok(None) => break Ok(measured),
            Err(error) => break Err(error.into()),
        }
    };
    keeper.abort();
    outcome
}
