//! Facts in two times: when something was true, and when we learned of it.
//!
//! `cargo run -p longhaul-memory --example facts_over_time`; nothing is kept. The clock is the example's own, so that a
//! year passes in no time.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use longhaul_core::{Ambient, Clock, Scope, SeededRng, TimeMs};
use longhaul_memory::{
    Fact, Kind, MIGRATIONS, Memory, NewMemory, Query, Source,
    when::{self, Zone},
};
use longhaul_store::{Store, StoreSettings};

/// A clock that is set by hand.
#[derive(Debug)]
struct ByHand(AtomicI64);

impl Clock for ByHand {
    fn now(&self) -> TimeMs {
        TimeMs(self.0.load(Ordering::SeqCst))
    }
}

fn day(text: &str) -> Result<TimeMs, Box<dyn Error>> {
    Ok(when::at(text, TimeMs(0), &Zone::utc())?)
}

fn lives_in(town: &str, since: &str) -> Result<NewMemory, Box<dyn Error>> {
    let fact = Fact {
        subject: "ada".to_owned(),
        attribute: "home town".to_owned(),
        valid_from: Some(day(since)?),
        valid_to: None,
    };
    let content = format!("Ada lives in {town}");
    Ok(NewMemory { fact: Some(fact), ..NewMemory::new("people", Kind::Fact, Source::User, content) })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let clock = Arc::new(ByHand(AtomicI64::new(day("2023-01-10")?.0)));
    let ambient = Ambient::new(clock.clone(), Arc::new(SeededRng::new(1)));
    let folder = tempfile::tempdir()?;
    let store = Store::open(StoreSettings::new(folder.path()), ambient, &[MIGRATIONS]).await?;
    let (memory, scope) = (Memory::new(store, None), Scope::single_user());

    println!("2023-01-10: we learn that Ada has lived in Lyon since 2019");
    memory.add(&scope, lives_in("Lyon", "2019-01-01")?).await?;
    clock.0.store(day("2024-09-01")?.0, Ordering::SeqCst);
    println!("2024-09-01: we learn that she moved to Porto in May");
    memory.add(&scope, lives_in("Porto", "2024-05-01")?).await?;
    clock.0.store(day("2025-01-01")?.0, Ordering::SeqCst);

    let asked = Query::new("where does Ada live", 5);
    let then = |text: &str| day(text).map(Some);
    let questions = [
        ("where does she live now", asked.clone()),
        ("where did she live in 2020", Query { as_of: then("2020-06-01")?, ..asked.clone() }),
        ("where did she live in June 2024", Query { as_of: then("2024-06-01")?, ..asked.clone() }),
        (
            "where did we believe in June 2024 that she lived",
            Query { as_of: then("2024-06-01")?, known_at: then("2024-06-01")?, ..asked.clone() },
        ),
        ("everything we ever believed", Query { include_superseded: true, ..asked }),
    ];
    for (question, query) in questions {
        let recall = memory.search(&scope, &query).await?;
        let mut found: Vec<String> = recall.hits.into_iter().map(|hit| hit.item.content).collect();
        found.sort();
        println!("{question}: {}", found.join("; "));
    }
    Ok(())
}
