//! Erasure from everywhere, its receipt, and that no byte remains.

use std::path::PathBuf;

use longhaul_core::Scope;
use longhaul_memory::{
    Condition, Fact, Forget, MemoryError, NewMemory, Op, Query,
    user::{UserMemory, UserMemoryEdit},
};
use longhaul_testbed::Database;
use serde_json::json;

use super::world::{World, files_with};
use crate::place::note;

/// A text that occurs nowhere else.
const SECRET: &str = "xyzzyplugh";

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_leaves_no_byte_in_any_file() {
    let world = World::new().await;
    let hot = world.add(note(&format!("the hot password is {SECRET} since May"))).await;
    let meta = json!({ "password": SECRET }).as_object().cloned().expect("an object");
    let cold = world.add(NewMemory { meta, thread: Some(SECRET.to_owned()), ..note("kept in the meta") }).await;
    let back = world.add(note(&format!("{SECRET} went and came back"))).await;
    world.remember(&["something harmless", "and more of it"]).await;
    world.cool().await;
    world.memory.note_used(&world.scope, &[hot.clone(), back.clone()]).await.expect("it is noted");
    assert_eq!(world.memory.warm_wanted().await.expect("they come back"), 2);
    assert!(!files_with(&world.cold_dir(), SECRET.as_bytes()).is_empty(), "it is there before");
    let tables = world.database.as_ref().map_or_else(|| world.home.path().join("longhaul.db-wal"), files_of);
    assert!(!files_with(&tables, SECRET.as_bytes()).is_empty(), "it is there before");

    let receipt = world.memory.erase(&world.scope, &Forget::Ids(vec![hot, cold, back]), false).await.expect("erased");
    assert_eq!((receipt.memories, receipt.erased.rows, receipt.erased.cold_rows), (3, 2, 1));
    assert_eq!(receipt.pending, Vec::<String>::new());
    assert!(receipt.erased.segments_rewritten >= 1 && receipt.erased.objects_deleted >= 1);
    assert_eq!(world.found(SECRET).await.iter().filter(|text| text.contains(SECRET)).count(), 0);
    assert_eq!(files_with(&world.cold_dir(), SECRET.as_bytes()).len(), 0, "the object has gone with the receipt");

    let compacted = world.memory.compact().await.expect("it compacts");
    assert!(compacted.is_complete, "{:?}", compacted.pending);
    assert_eq!(files_with(world.home.path(), SECRET.as_bytes()), Vec::<PathBuf>::new());
    if let Some(database) = &world.database {
        assert_eq!(files_with(&files_of(database), SECRET.as_bytes()), Vec::<PathBuf>::new());
    }
    let left = world.found("harmless more").await;
    assert_eq!(left, ["and more of it", "something harmless"]);
}

/// Where the server keeps the files of the database, brought up to what was written.
fn files_of(database: &Database<'static>) -> PathBuf {
    database.psql("CHECKPOINT").expect("the server writes");
    let dir = database.psql(
        "SELECT current_setting('data_directory') || '/base/' || oid FROM pg_database
         WHERE datname = current_database()",
    );
    PathBuf::from(dir.expect("the server answers").trim())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_way_of_naming_reaches_both_tiers() {
    let world = World::new().await;
    let fact = |text: &str, subject: &str| NewMemory {
        fact: Some(Fact { subject: subject.to_owned(), attribute: text.to_owned(), ..Fact::default() }),
        ..note(text)
    };
    let thread = |text: &str, thread: &str| NewMemory { thread: Some(thread.to_owned()), ..note(text) };
    let ranked = |text: &str, rank: i64| NewMemory {
        meta: json!({ "rank": rank }).as_object().cloned().expect("an object"),
        ..note(text)
    };
    world.add(thread("cold of the talk", "talk")).await;
    world.add(ranked("cold and low", 1)).await;
    world.add(ranked("cold and high", 9)).await;
    world.add(note("cold and plain")).await;
    assert_eq!(world.cool().await, 4);
    world.add(thread("hot of the talk", "talk")).await;
    world.add(ranked("hot and high", 8)).await;
    world.add(fact("hot about anna", "anna")).await;
    world.add(fact("hot about bert", "bert")).await;

    let main = || longhaul_memory::Namespace::default();
    let erased = async |what: Forget| {
        let counted = world.memory.erase(&world.scope, &what, true).await.expect("it counts");
        let receipt = world.memory.erase(&world.scope, &what, false).await.expect("it erases");
        assert_eq!((counted.memories, counted.dry_run), (receipt.memories, true));
        assert_eq!(counted.ids_digest, receipt.ids_digest);
        receipt.memories
    };
    assert_eq!(erased(Forget::Thread { namespace: main(), thread: "talk".to_owned() }).await, 2);
    assert_eq!(erased(Forget::Subject { namespace: main(), subject: "anna".to_owned() }).await, 1);
    let high = Query { filter: vec![Condition::new("rank", Op::Ge, 8)], ..Query::default() };
    assert_eq!(erased(Forget::Matching(Box::new(high))).await, 2);
    let left = world.found("cold hot and plain low about").await;
    assert_eq!(left, ["cold and low", "cold and plain", "hot about bert"]);
    assert_eq!(erased(Forget::User(world.scope.user.clone())).await, 3);
    assert_eq!((world.count("memories").await, world.count("memory_cold").await), (0, 0));
    assert_eq!(world.objects(), Vec::<PathBuf>::new());

    let receipts = world.memory.receipts(&world.scope).await.expect("they can be read");
    assert_eq!(receipts.len(), 4, "a dry run leaves none");
    let asked: std::collections::BTreeSet<&str> = receipts.iter().map(|receipt| receipt.asked.as_str()).collect();
    assert_eq!(asked.into_iter().collect::<Vec<_>>(), ["query", "subject", "thread", "user"]);
    let stored = serde_json::to_string(&receipts).expect("it prints");
    assert!(
        !stored.contains("anna") && !stored.contains("talk"),
        "a receipt tells nothing of what it erased: {stored}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_erases_what_is_not_theirs() {
    let world = World::new().await;
    let cold = world.add(note("mine and cold")).await;
    world.cool().await;
    let hot = world.add(note("mine and hot")).await;
    let other = Scope { user: "user_other".parse().expect("an id"), ..world.scope.clone() };
    let stranger = Scope { tenant: "tenant_other".parse().expect("an id"), ..world.scope.clone() };
    let ids = Forget::Ids(vec![cold.clone(), hot.clone()]);
    for scope in [&other, &stranger] {
        let receipt = world.memory.erase(scope, &ids, false).await.expect("it runs");
        assert_eq!(receipt.memories, 0);
        assert_eq!(world.memory.get(scope, &cold).await.expect("it runs"), None);
        assert!(!world.memory.change(scope, &cold, Default::default()).await.expect("it runs"));
    }
    let all = Forget::Namespace(Default::default());
    let refused = world.memory.erase(&other, &all, false).await.expect_err("not theirs");
    assert!(matches!(refused, MemoryError::NoAccess { .. }), "{refused}");
    let everything = Forget::User(world.scope.user.clone());
    let receipt = world.memory.erase(&other, &everything, false).await.expect("it runs");
    assert_eq!((receipt.memories, receipt.refused), (0, 2));
    assert_eq!(world.memory.receipts(&stranger).await.expect("it runs").len(), 1, "their own");
    assert_eq!(world.found("mine").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_is_forgotten_leaves_nothing_in_user_memory() {
    let world = World::new().await;
    let user = UserMemory::new(world.memory.clone());
    let edit = UserMemoryEdit::Add { block: None, text: format!("My name is {SECRET}.") };
    user.edit(&world.scope, edit).await.expect("it is written");
    assert!(!user.entries(&world.scope).await.expect("they can be read").is_empty());
    let receipt = world.memory.erase(&world.scope, &Forget::User(world.scope.user.clone()), false).await;
    assert!(receipt.expect("it is erased").erased.user_entries >= 1);
    assert_eq!(user.entries(&world.scope).await.expect("they can be read"), []);
    assert_eq!(world.count("memory_user_entries").await, 0);
    assert!(world.memory.compact().await.expect("it compacts").is_complete);
    assert_eq!(files_with(world.home.path(), SECRET.as_bytes()), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn erased_facts_are_gone_from_history_and_statistics() {
    let world = World::new().await;
    let fact = Fact { subject: "user".to_owned(), attribute: "pet".to_owned(), ..Fact::default() };
    let id = world.add(NewMemory { fact: Some(fact), ..note("the pet is a parrot") }).await;
    world.memory.note_used(&world.scope, std::slice::from_ref(&id)).await.expect("noted");
    assert_eq!(world.count("memory_access").await, 1);
    world.search(&Query::new("parrot", 1)).await;
    let receipt = world.memory.erase(&world.scope, &Forget::Ids(vec![id.clone()]), false).await.expect("erased");
    assert_eq!(receipt.erased.statistics, 1);
    world.memory.flush_usage().await.expect("late notes are dropped");
    assert_eq!(world.count("memory_access").await, 0);
    let history = world.memory.history(&world.scope, &Default::default(), "user", "pet").await.expect("it runs");
    assert_eq!(history, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_for_one_tier_erases_in_that_tier_only() {
    let world = World::new().await;
    world.add(note("mine and cold")).await;
    world.cool().await;
    world.add(note("mine and hot")).await;
    let cold = Query { tiers: longhaul_memory::Tiers::Cold, ..Query::default() };
    let receipt = world.memory.erase(&world.scope, &Forget::Matching(Box::new(cold)), false).await;
    assert_eq!(receipt.expect("it erases").memories, 1);
    assert_eq!(world.found("mine").await, ["mine and hot"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_erased_by_id_from_what_is_read_only() {
    let world = World::new().await;
    let id = world.add(note("written in stone")).await;
    let (memory, scope) = (world.memory.clone(), world.scope.clone());
    let freeze = move |tx: &mut longhaul_store::Tx<'_>| memory.freeze(tx, &scope, &Default::default(), true);
    world.store.write(freeze).await.expect("it freezes");
    let refused = world.memory.erase(&world.scope, &Forget::Ids(vec![id]), false).await;
    assert!(matches!(refused, Err(MemoryError::Frozen { .. })), "{refused:?}");
    assert_eq!(world.found("stone").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fact_that_was_proposed_leaves_no_byte_either() {
    use longhaul_memory::{
        Kind, Source,
        user::{By, Decision, Submitted},
    };
    let world = World::new().await;
    let user = UserMemory::new(world.memory.clone());
    let fact = NewMemory::new("agent", Kind::Fact, Source::Agent, format!("the code is {SECRET}"));
    let submitted = user.submit(&world.scope, fact, By::agent("a", None)).await.expect("it is filed");
    let Submitted::Proposed(proposal) = submitted else { panic!("{submitted:?}") };
    let person = By::person(&world.scope.user);
    let decided = user.review(&world.scope, &proposal.id, Decision::Accept, person).await.expect("it is accepted");
    let id = decided.memory.expect("it is written");
    world.memory.erase(&world.scope, &Forget::Ids(vec![id]), false).await.expect("it erases");
    assert_eq!(world.count("memory_proposals").await, 0);
    assert!(world.memory.compact().await.expect("it compacts").is_complete);
    assert_eq!(files_with(world.home.path(), SECRET.as_bytes()), Vec::<PathBuf>::new());
}
