//! Hot and cold as one memory, in a folder: moved, found, brought back, damaged, killed in between.

use longhaul_core::{MemoryId, TimeMs};
use longhaul_memory::{
    Condition, Edit, Item, Kind, MemoryError, NewMemory, Op, Query, Tier, TierJudge, TierRules, Tiers,
};
use serde_json::json;

use super::world::{DAY_MS, World, sorted};
use crate::place::note;

const TEXTS: [&str; 5] = [
    "the harbour opens at six in summer",
    "the harbour master keeps the tide tables",
    "lanterns are lit along the pier",
    "灯塔每天晚上七点亮灯",
    "the ferry to the island leaves twice a day",
];

#[tokio::test(flavor = "multi_thread")]
async fn cold_memories_are_found_as_if_they_were_hot() {
    let world = World::new().await;
    world.remember(&TEXTS).await;
    let mut before = Vec::new();
    for text in ["harbour tide", "lanterns pier", "灯塔", "ferry island"] {
        before.push((text, world.search(&Query::new(text, 3)).await));
    }
    assert_eq!(world.cool().await, 5);
    assert_eq!((world.count("memories").await, world.count("memory_cold").await), (0, 5));
    assert_eq!((world.count("memory_postings").await, world.count("memory_vectors").await), (0, 0));
    for (text, hot) in before {
        let cold = world.search(&Query::new(text, 3)).await;
        assert_eq!(cold.hits[0].item.content, hot.hits[0].item.content, "{text}");
        assert_eq!(cold.hits[0].item.tier, Tier::Cold);
        assert_eq!(sorted(&cold), sorted(&hot), "{text}");
        assert_eq!(cold.unembedded, 0);
        assert_eq!(cold.notes, Vec::<String>::new());
    }
    // Another process that has seen nothing of it finds it at once.
    let other = world.another_handle().search(&world.scope, &Query::new("harbour tide", 3)).await.expect("it runs");
    assert_eq!(other.hits[0].item.content, TEXTS[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn both_tiers_are_ranked_together_and_can_be_searched_apart() {
    let world = World::new().await;
    world.remember(&["apples are stored in the cellar", "the cellar is cold"]).await;
    world.cool().await;
    world.remember(&["pears are stored in the attic", "apples ripen in the attic"]).await;
    let all = world.search(&Query::new("apples stored", 10)).await;
    assert_eq!(all.hits[0].item.content, "apples are stored in the cellar");
    assert!(all.hits.iter().any(|hit| hit.item.tier == Tier::Hot) && all.hits[0].item.tier == Tier::Cold);
    let hot = world.search(&Query { tiers: Tiers::Hot, ..Query::new("apples stored", 10) }).await;
    assert!(!hot.hits.is_empty() && hot.hits.iter().all(|hit| hit.item.tier == Tier::Hot));
    let cold = world.search(&Query { tiers: Tiers::Cold, ..Query::new("apples stored", 10) }).await;
    assert_eq!(sorted(&cold), ["apples are stored in the cellar", "the cellar is cold"]);
    assert_eq!(cold.considered, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_hold_in_the_cold_tier() {
    let world = World::new().await;
    let with = |text: &str, priority: i64, tag: &str, thread: &str| NewMemory {
        meta: json!({ "priority": priority }).as_object().cloned().expect("an object"),
        tags: vec![tag.to_owned()],
        thread: Some(thread.to_owned()),
        ..note(text)
    };
    world.add(with("the report on bridges", 1, "draft", "t1")).await;
    world.add(with("the report on tunnels", 5, "final", "t2")).await;
    world.clock.advance_days(3);
    world.add(NewMemory { kind: Kind::Lesson, ..with("the report on dams", 9, "final", "t2") }).await;
    world.cool().await;
    let check = async |query: Query, expected: &[&str]| {
        let found = world.search(&Query { text: "report".to_owned(), ..query }).await;
        assert_eq!(sorted(&found), expected);
    };
    let over = |value: i64| Query { filter: vec![Condition::new("priority", Op::Gt, value)], ..Query::default() };
    check(over(4), &["the report on dams", "the report on tunnels"]).await;
    check(over(9), &[]).await;
    check(Query { tags: vec!["draft".to_owned()], ..Query::default() }, &["the report on bridges"]).await;
    check(Query { thread: Some("t1".to_owned()), ..Query::default() }, &["the report on bridges"]).await;
    check(Query { kinds: vec![Kind::Lesson], ..Query::default() }, &["the report on dams"]).await;
    let lately = Query { since: Some(TimeMs(world.now().0 - DAY_MS)), ..Query::default() };
    check(lately, &["the report on dams"]).await;

    let unknown = Query { filter: vec![Condition::new("colour", Op::Eq, "red")], ..Query::new("report", 5) };
    let refused = world.memory.search(&world.scope, &unknown).await.expect_err("no such field");
    assert!(matches!(&refused, MemoryError::UnknownField { known, .. } if *known == ["priority"]), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rules_decide_and_pins_never_leave() {
    let world = World::new().await;
    let old = world.remember(&["nobody asks for this", "somebody relies on this", "only ever shown"]).await;
    world.add(NewMemory { pinned: true, ..note("this is pinned") }).await;
    world.clock.advance_days(25);
    world.memory.note_used(&world.scope, std::slice::from_ref(&old[1])).await.expect("the use is noted");
    assert_eq!(world.search(&Query::new("only ever shown", 1)).await.hits[0].item.id, old[2]);
    world.memory.flush_usage().await.expect("statistics are written");
    world.clock.advance_days(6);
    world.remember(&["this is new"]).await;

    let rules = TierRules { keep_newest: 0, rows_min: 1, ..TierRules::default() };
    let moved = world.memory.move_cold(&rules, world.now()).await.expect("moving works");
    assert_eq!(moved.memories, 2);
    let cold = world.search(&Query { tiers: Tiers::Cold, ..Query::new("nobody only shown", 10) }).await;
    assert_eq!(sorted(&cold), ["nobody asks for this", "only ever shown"]);
    assert_eq!(world.cool().await, 2, "even when everything is to leave");
    assert_eq!(sorted(&world.search(&Query { tiers: Tiers::Hot, ..Query::new("this", 9) }).await), ["this is pinned"]);
    let used = world.memory.use_count(&world.scope, &old[1]).await.expect("it can be read").expect("it was used");
    assert_eq!((used.uses, used.last_used_at.is_some()), (1, true), "statistics outlive the move");
}

/// Lets go what does not speak of the harbour.
struct NotTheHarbour;

#[async_trait::async_trait]
impl TierJudge for NotTheHarbour {
    async fn may_leave(&self, memories: &[Item]) -> Vec<bool> {
        memories.iter().map(|item| !item.content.contains("harbour")).collect()
    }
}

/// Answers for one memory, whatever it is asked.
struct Lazy;

#[async_trait::async_trait]
impl TierJudge for Lazy {
    async fn may_leave(&self, _: &[Item]) -> Vec<bool> {
        vec![true]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judge_may_keep_what_the_rules_let_go() {
    let world = World::new().await;
    world.remember(&TEXTS).await;
    let (rules, now) = (TierRules::everything(), world.now());
    let lazy = world.memory.move_cold_judged(&rules, now, Some(&Lazy)).await.expect("moving works");
    assert_eq!(lazy.memories, 0);
    let moved = world.memory.move_cold_judged(&rules, now, Some(&NotTheHarbour)).await.expect("moving works");
    assert_eq!(moved.memories, 3);
    let cold = world.search(&Query { tiers: Tiers::Cold, ..Query::new("ferry island lanterns", 9) }).await;
    assert_eq!(cold.hits[0].item.content, TEXTS[4], "with the vector that is its own");
    assert_eq!(cold.unembedded, 0);
    assert_eq!(world.search(&Query { tiers: Tiers::Hot, ..Query::new("harbour", 9) }).await.hits.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn few_memories_wait_until_there_are_more() {
    let world = World::new().await;
    world.remember(&TEXTS).await;
    let rules = TierRules { rows_min: 6, ..TierRules::everything() };
    assert_eq!(world.memory.move_cold(&rules, world.now()).await.expect("moving works").memories, 0);
    let rules = TierRules { rows_min: 5, ..TierRules::everything() };
    assert_eq!(world.memory.move_cold(&rules, world.now()).await.expect("moving works").memories, 5);
    let newest = TierRules { keep_newest: 5, ..TierRules::everything() };
    world.remember(&["one more"]).await;
    assert_eq!(world.memory.move_cold(&newest, world.now()).await.expect("moving works").memories, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_used_comes_back_and_leaves_no_copy_behind() {
    let world = World::new().await;
    let ids = world.remember(&TEXTS).await;
    world.cool().await;
    let before = world.objects();
    let item = world.get(&ids[2]).await.expect("it is there");
    assert_eq!((item.tier, item.content.as_str()), (Tier::Cold, TEXTS[2]));
    assert_eq!(world.memory.warm_wanted().await.expect("it comes back"), 1);
    let hot = world.get(&ids[2]).await.expect("it is there");
    assert_eq!(hot, longhaul_memory::Item { tier: Tier::Hot, ..item });
    assert_eq!((world.count("memories").await, world.count("memory_cold").await), (1, 4));
    for text in ["lanterns pier", "harbour", "灯塔"] {
        assert!(!world.found(text).await.is_empty(), "{text}");
    }
    assert_eq!(world.found("harbour lanterns ferry 灯塔").await.len(), 5, "each once");

    let tended = world.memory.tend_cold().await.expect("segments are looked after");
    assert_eq!((tended.rewritten, tended.deleted, tended.pending), (1, 1, 0));
    assert_ne!(world.objects(), before);
    assert_eq!(super::world::files_with(&world.cold_dir(), TEXTS[2].as_bytes()).len(), 0);
    assert_eq!(super::world::files_with(&world.cold_dir(), TEXTS[1].as_bytes()).len(), 1);
    assert_eq!(world.found("harbour lanterns ferry 灯塔").await.len(), 5);
    assert_eq!(world.memory.index_pending().await.expect("it runs").embedded, 0, "its vector came along");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cold_memory_can_be_changed_and_pinned() {
    let world = World::new().await;
    let ids = world.remember(&TEXTS).await;
    world.cool().await;
    let edit = Edit { content: Some("lanterns are electric now".to_owned()), pinned: Some(true), ..Edit::default() };
    assert!(world.memory.change(&world.scope, &ids[2], edit).await.expect("it changes"));
    assert_eq!(world.cool().await, 0, "pinned it stays");
    let found = world.found("lanterns").await;
    assert!(
        found.contains(&"lanterns are electric now".to_owned()) && !found.contains(&TEXTS[2].to_owned()),
        "{found:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_segment_is_named_and_hides_nothing_else() {
    let world = World::new().await;
    let lost = world.remember(&["the first segment holds this"]).await;
    world.cool().await;
    let damaged = world.objects().pop().expect("one object");
    world.remember(&["the second segment holds this"]).await;
    world.cool().await;
    world.remember(&["the hot tier holds this"]).await;
    let mut bytes = std::fs::read(&damaged).expect("it can be read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::write(&damaged, bytes).expect("it can be written");

    // A handle that has not read it before.
    let memory = world.another_handle();
    let recall = memory.search(&world.scope, &Query::new("holds this", 10)).await.expect("the search runs");
    assert_eq!(sorted(&recall), ["the hot tier holds this", "the second segment holds this"]);
    let name = damaged.file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!(recall.notes.len(), 1);
    assert!(recall.notes[0].contains(&name) && recall.notes[0].contains("damaged"), "{:?}", recall.notes);
    let error = memory.get(&world.scope, &lost[0]).await.expect_err("it cannot be read");
    assert!(matches!(error, MemoryError::Cold(_)), "{error}");

    std::fs::remove_file(&damaged).expect("it can be removed");
    let recall = memory.search(&world.scope, &Query::new("holds this", 10)).await.expect("the search runs");
    assert_eq!(recall.hits.len(), 2);
    assert!(recall.notes[0].contains(&name) && recall.notes[0].contains("missing"), "{:?}", recall.notes);
    assert!(
        memory.erase(&world.scope, &longhaul_memory::Forget::Ids(lost), false).await.is_ok(),
        "it can be forgotten"
    );
    let recall = memory.search(&world.scope, &Query::new("holds this", 10)).await.expect("the search runs");
    assert_eq!((recall.hits.len(), recall.notes.len()), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_commit_of_moving_nothing_is_lost_and_nothing_is_twice() {
    for commits in 0..12 {
        let world = World::new().await;
        let texts: Vec<String> = (0..70).map(|n| format!("number {n} of the harbour")).collect();
        let ids = world.remember(&texts.iter().map(String::as_str).collect::<Vec<_>>()).await;
        world.faults.die_after(world.faults.commits() + commits);
        let moved = world.memory.move_cold(&TierRules::everything(), world.now()).await;
        world.faults.revive();
        whole(&world, &ids, commits).await;
        world.clock.advance_days(1);
        world.memory.tend_cold().await.expect("leftovers are looked after");
        world.memory.tend_cold().await.expect("leftovers are looked after");
        whole(&world, &ids, commits).await;
        let live = world.count("memory_segments WHERE state = 'live'").await;
        assert_eq!(world.count("memory_segments").await, live, "after {commits} commits");
        assert_eq!(world.objects().len() as i64, live, "after {commits} commits");
        if moved.is_ok() {
            return;
        }
    }
    panic!("moving never ended");
}

/// Each memory is in exactly one tier and is found once.
async fn whole(world: &World, ids: &[MemoryId], commits: u64) {
    let (hot, cold) = (world.count("memories").await, world.count("memory_cold").await);
    assert_eq!(hot + cold, ids.len() as i64, "{hot} hot, {cold} cold after {commits} commits");
    let memory = world.another_handle();
    let recall = memory.search(&world.scope, &Query::new("harbour", 100)).await.expect("the search runs");
    let found: std::collections::BTreeSet<&MemoryId> = recall.hits.iter().map(|hit| &hit.item.id).collect();
    assert_eq!((found.len(), recall.hits.len()), (ids.len(), ids.len()), "after {commits} commits: {:?}", recall.notes);
    for id in [&ids[0], &ids[33], &ids[69]] {
        assert!(memory.get(&world.scope, id).await.expect("it can be read").is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_during_moving_miss_nothing() {
    let world = World::new().await;
    let texts: Vec<String> = (0..120).map(|n| format!("number {n} of the harbour")).collect();
    world.remember(&texts.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let memory = world.another_handle();
    let (scope, now) = (world.scope.clone(), world.now());
    let moving = tokio::spawn(async move { memory.move_cold(&TierRules::everything(), now).await });
    let mut searches = 0;
    while !moving.is_finished() || searches == 0 {
        let found = world.memory.search(&scope, &Query::new("harbour", 200)).await.expect("the search runs");
        assert_eq!(found.hits.len(), 120, "{:?}", found.notes);
        searches += 1;
    }
    assert_eq!(moving.await.expect("it ends").expect("moving works").memories, 120);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_figures_and_exports_know_both_tiers() {
    let world = World::new().await;
    let texts: Vec<String> = (0..7).map(|n| format!("cold number {n}")).collect();
    world.remember(&texts.iter().map(String::as_str).collect::<Vec<_>>()).await;
    world.cool().await;
    world.remember(&["hot number one", "hot number two"]).await;
    let (mut all, mut after) = (Vec::new(), None::<String>);
    loop {
        let query = Query { k: 2, ..Query::default() };
        let page = world.memory.list(&world.scope, &query, after.as_deref()).await.expect("it lists");
        assert!(page.items.len() <= 2);
        all.extend(page.items.into_iter().map(|item| item.content));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(all.len(), 9, "{all:?}");
    assert_eq!(all[..2], ["hot number one", "hot number two"]);
    let hot = Query { tiers: Tiers::Hot, ..Query::default() };
    assert_eq!(world.memory.list(&world.scope, &hot, None).await.expect("it lists").items.len(), 2);
    let cold = Query { tiers: Tiers::Cold, ..Query::default() };
    assert_eq!(world.memory.list(&world.scope, &cold, None).await.expect("it lists").items.len(), 7);

    let stats = world.memory.tier_stats(&world.scope, &Default::default()).await.expect("it counts").expect("figures");
    assert_eq!((stats.hot, stats.cold, stats.segments, stats.pending), (2, 7, 1, 0));
    assert!(stats.segment_bytes > 1_000);
    let mut out = Vec::new();
    let options = longhaul_memory::ExportOptions { with_vectors: true, ..Default::default() };
    let done = world.memory.export(&world.scope, &options, &mut out, |_| ()).await.expect("it exports");
    assert_eq!((done.memories, done.vectors), (9, 9));
    assert_eq!(String::from_utf8_lossy(&out).matches("cold number").count(), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_back_is_found_by_words_that_many_have() {
    let world = World::new().await;
    // So many that the frequent word's postings are kept in memory.
    let mut all: Vec<NewMemory> = (0..2_400)
        .map(|n| NewMemory { index: longhaul_memory::Index::Words, pinned: n > 0, ..note(&format!("boat number {n}")) })
        .collect();
    all[0].tags = vec!["first".to_owned()];
    let ids = world.memory.insert_many(&world.scope, all).await.expect("they are written");
    let first = Query { tags: vec!["first".to_owned()], ..Query::new("boat", 5) };
    assert_eq!(world.cool().await, 1);
    assert_eq!(world.search(&first).await.hits[0].item.tier, Tier::Cold);
    world.get(&ids[0]).await.expect("it is there");
    assert_eq!(world.memory.warm_wanted().await.expect("it comes back"), 1);
    let hits = world.search(&first).await.hits;
    assert_eq!(hits.len(), 1);
    assert_eq!(hits[0].item.tier, Tier::Hot);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_look_after_the_same_segments_lose_nothing() {
    let world = World::new().await;
    let mut kept = Vec::new();
    for round in 0..6 {
        let texts: Vec<String> = (0..6).map(|n| format!("number {n} of round {round}")).collect();
        let ids = world.remember(&texts.iter().map(String::as_str).collect::<Vec<_>>()).await;
        world.cool().await;
        let (memory, scope, gone) = (world.memory.clone(), world.scope.clone(), ids[0].clone());
        kept.extend(ids.into_iter().skip(1));
        let forget = move |tx: &mut longhaul_store::Tx<'_>| memory.forget(tx, &scope, &gone);
        assert!(world.store.write(forget).await.expect("it is forgotten"));
        let tending: Vec<_> = (0..4)
            .map(|_| {
                let memory = world.another_handle();
                tokio::spawn(async move {
                    for _ in 0..4 {
                        memory.tend_cold().await.expect("segments are looked after");
                    }
                })
            })
            .collect();
        for one in tending {
            one.await.expect("it ends");
        }
        let memory = world.another_handle();
        for id in &kept {
            assert!(memory.get(&world.scope, id).await.expect("it can be read").is_some(), "{id} after {round}");
        }
    }
}
