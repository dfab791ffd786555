//! Remember a few things in several languages, and find them again: by words, by what is known about them, and why.
//!
//! `cargo run -p longhaul-memory --example remember_and_recall`; nothing is kept and nothing is needed. Here memories are
//! searched by their words; `Memory::new(store, Some(embedder))` searches by meaning as well.

use std::error::Error;

use longhaul_core::{Ambient, Scope, TimeMs};
use longhaul_memory::{Condition, Kind, MIGRATIONS, Memory, NewMemory, Op, Query, Recall, Source, when};
use longhaul_store::{Store, StoreSettings};
use serde_json::{Map, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let store = Store::open(StoreSettings::new(folder.path()), Ambient::system(), &[MIGRATIONS]).await?;
    let memory = Memory::new(store, None);
    // Whose memory it is. Another tenant never sees it; another user of this one needs a grant.
    let scope = Scope::single_user();

    let note = |content: &str, thread: &str, severity: i64| NewMemory {
        meta: Map::from_iter([("severity".to_owned(), json!(severity))]),
        thread: Some(thread.to_owned()),
        tags: vec!["ops".to_owned()],
        ..NewMemory::new("incidents", Kind::Episode, Source::User, content)
    };
    memory.add(&scope, note("Login fails after the token expires", "incident-7", 4)).await?;
    memory.add(&scope, note("Refreshing the token early mends it", "incident-7", 2)).await?;
    memory.add(&scope, note("数据库连接池耗尽,登录变慢", "incident-8", 3)).await?;
    memory.add(&scope, NewMemory::new("people", Kind::Preference, Source::User, "Ada prefers tea")).await?;

    show("what does Ada prefer?", &memory.search(&scope, &Query::new("what does Ada prefer?", 3)).await?);
    show("登录", &memory.search(&scope, &Query::new("登录", 3)).await?);

    let severe = Query {
        filter: vec![Condition::new("severity", Op::Ge, 3)],
        tags: vec!["ops".to_owned()],
        ..Query::new("token", 3)
    };
    show("token, with severity >= 3", &memory.search(&scope, &severe).await?);

    // Times as people write them, here in UTC.
    let now = Ambient::system().clock.now();
    let yesterday = when::period("yesterday", now, &when::Zone::utc())?;
    let before = Query { since: yesterday.since, until: yesterday.until, ..Query::new("token", 3) };
    show("token, yesterday", &memory.search(&scope, &before).await?);

    // A condition on a field that no memory has is a mistake and not an empty answer.
    let mistyped = Query { filter: vec![Condition::new("sevrity", Op::Ge, 3)], ..Query::new("token", 3) };
    if let Err(error) = memory.search(&scope, &mistyped).await {
        println!("refused: {error}");
    }

    // What is to be gone by itself.
    let soon = NewMemory { expires_at: Some(TimeMs(now.0 + 60_000)), ..note("The plumber has the key", "house", 1) };
    let id = memory.add(&scope, soon).await?;
    println!("until it expires: {}", memory.get(&scope, &id).await?.is_some());
    Ok(())
}

fn show(asked: &str, recall: &Recall) {
    println!("{asked}  ({} considered)", recall.considered);
    for hit in &recall.hits {
        println!("  {}", hit.item.content);
    }
}
