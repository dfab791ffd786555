//! Hot and cold: what nobody used moves to cold storage, is found all the same, and what is forgotten is gone from both.
//!
//! `cargo run -p longhaul-memory --example tiers`; nothing is kept. The cold place is a folder beside the store here; it
//! can be a bucket. The clock is the example's own.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use longhaul_core::{Ambient, Clock, Scope, SeededRng, TimeMs};
use longhaul_memory::{Forget, Kind, MIGRATIONS, Memory, NewMemory, Query, Source, TierRules};
use longhaul_store::{Store, StoreSettings};

const DAY_MS: i64 = 86_400_000;

/// A clock that is set by hand.
#[derive(Debug)]
struct ByHand(AtomicI64);

impl Clock for ByHand {
    fn now(&self) -> TimeMs {
        TimeMs(self.0.load(Ordering::SeqCst))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let clock = Arc::new(ByHand(AtomicI64::new(1_795_285_800_000)));
    let ambient = Ambient::new(clock.clone(), Arc::new(SeededRng::new(1)));
    let folder = tempfile::tempdir()?;
    let store = Store::open(StoreSettings::new(folder.path()), ambient, &[MIGRATIONS]).await?;
    let (memory, scope) = (Memory::new(store, None), Scope::single_user());

    let note = |text: &str| NewMemory::new("notes", Kind::Note, Source::User, text);
    memory.add(&scope, note("The printer on the third floor jams")).await?;
    let contract = NewMemory { pinned: true, ..note("The contract with the printer's maker ends in May") };
    memory.add(&scope, contract).await?;

    clock.0.fetch_add(40 * DAY_MS, Ordering::SeqCst);
    memory.add(&scope, note("A new printer has been ordered")).await?;
    let rules = TierRules { unused_days: Some(30), keep_newest: 0, rows_min: 1, ..TierRules::default() };
    let moved = memory.move_cold(&rules, clock.now()).await?;
    println!("40 days later: {} became cold, the pinned and the new one stay", moved.memories);

    let recall = memory.search(&scope, &Query::new("printer", 5)).await?;
    let mut found: Vec<String> =
        recall.hits.iter().map(|hit| format!("  {:?}: {}", hit.item.tier, hit.item.content)).collect();
    found.sort();
    println!("one search finds both:\n{}", found.join("\n"));

    let all = Forget::Matching(Box::new(Query { collections: vec!["notes".to_owned()], ..Query::default() }));
    let planned = memory.erase(&scope, &all, true).await?;
    println!("would be erased: {}", planned.memories);
    let receipt = memory.erase(&scope, &all, false).await?;
    println!("erased: {} rows, {} cold rows", receipt.erased.rows, receipt.erased.cold_rows);
    for what in &receipt.not_covered {
        println!("  not covered: {what}");
    }
    println!("left: {}", memory.search(&scope, &Query::new("printer", 5)).await?.hits.len());
    Ok(())
}
