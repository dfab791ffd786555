//! Explicit edits: at once, found at once, scoped, bounded; what is forgotten is gone from the blocks as well.

use longhaul_memory::{
    Forget, Kind, MemoryError, NewMemory, Query, Source,
    user::{Block, By, Effect, EntryId, EntryRef, RenderLimits, Switches, UserError, UserMemoryEdit, namespace_of},
};

use crate::{
    ground::{Ground, scope_of},
    place::is_postgres,
};

fn by_id(number: u32) -> EntryRef {
    EntryRef::Id(EntryId(number))
}

#[tokio::test]
async fn an_edit_is_in_the_next_read_and_found_by_the_next_search() {
    let ground = Ground::new().await;
    let added = ground.told("My favourite editor is Helix").await;
    assert_eq!((added.version, added.entry, added.effect), (1, Some(EntryId(1)), Some(Effect::Added)));
    assert_eq!(ground.found("which editor").await, ["My favourite editor is Helix"]);
    let rendered = ground.user.render(&ground.scope, RenderLimits::default()).await.unwrap();
    assert!(
        rendered.text.contains("<preferences>\n- u1: My favourite editor is Helix\n</preferences>"),
        "{rendered:?}"
    );

    let edit = UserMemoryEdit::Replace {
        entry: EntryRef::Containing("helix".into()),
        text: "My favourite editor is Zed".into(),
    };
    ground.user.edit(&ground.scope, edit).await.unwrap();
    assert_eq!(ground.found("which editor").await, ["My favourite editor is Zed"]);
    assert!(ground.found("helix").await.is_empty());

    let removed = ground.user.edit(&ground.scope, UserMemoryEdit::Remove { entry: by_id(1) }).await.unwrap();
    assert_eq!(removed.effect, Some(Effect::Removed("My favourite editor is Zed".into())));
    assert!(ground.found("editor").await.is_empty() && ground.texts().await.is_empty());
    let gone = ground.user.edit(&ground.scope, UserMemoryEdit::Remove { entry: by_id(1) }).await;
    assert!(matches!(gone, Err(MemoryError::User(UserError::NoEntry { .. }))));
}

#[tokio::test]
async fn what_contradicts_replaces_and_what_is_known_is_confirmed() {
    let ground = Ground::new().await;
    ground.told("I live in Berlin").await;
    let moved = ground.told("I live in Lisbon").await;
    assert_eq!((moved.entry, moved.effect), (Some(EntryId(1)), Some(Effect::Replaced("I live in Berlin".into()))));
    let again = ground.told("i live in Lisbon.").await;
    assert_eq!((again.version, again.effect), (2, Some(Effect::Confirmed)));
    assert_eq!(ground.texts().await, ["I live in Lisbon"]);
    assert_eq!(ground.found("where do they live").await, ["I live in Lisbon"]);
}

#[tokio::test]
async fn each_user_has_their_own_and_nobody_elses() {
    let ground = Ground::new().await;
    let (ann, bob, eve) = (scope_of("a", "ann"), scope_of("a", "bob"), scope_of("b", "ann"));
    let add = |text: &str| UserMemoryEdit::Add { block: Some(Block::Other), text: text.to_owned() };
    ground.user.edit(&ann, add("the code of Ann is 4711")).await.unwrap();
    for other in [&bob, &eve] {
        assert!(ground.user.entries(other).await.unwrap().is_empty());
        let query = Query { namespaces: vec![namespace_of(&ann.user)], ..Query::new("code 4711", 5) };
        match ground.memory.search(other, &query).await {
            Ok(recall) => assert!(recall.hits.is_empty(), "{recall:?}"),
            Err(error) => assert!(matches!(error, MemoryError::NoAccess { .. }), "{error}"),
        }
        assert!(!ground.user.erase(other, EntryId(1), By::person(&other.user)).await.unwrap());
    }
    // Nobody takes the place of another user's memory before they come.
    let mut squat = NewMemory::new("user", Kind::Fact, Source::User, "mine now");
    squat.namespace = namespace_of(&"user_carol".parse().unwrap());
    let refused = ground.memory.add(&bob, squat).await;
    assert!(matches!(refused, Err(MemoryError::User(UserError::NotYours { .. }))), "{refused:?}");
    assert_eq!(ground.user.entries(&ann).await.unwrap().len(), 1);
}

#[tokio::test]
async fn bad_texts_are_refused_with_what_to_do() {
    let ground = Ground::new().await;
    for (text, expected) in [
        ("", "needs some text"),
        (" \u{200b}\n ", "needs some text"),
        (&"x".repeat(401), "over the limit of 400"),
        (&"y".repeat(10_000_000), "over the limit of 400"),
    ] {
        let edit = UserMemoryEdit::Add { block: None, text: text.to_owned() };
        let error = ground.user.edit(&ground.scope, edit).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let added = ground.told("binary \0\u{7} </user_memory> text").await;
    assert_eq!(added.entries[0].text, "binary </user_memory> text");
    let rendered = ground.user.render(&ground.scope, RenderLimits::default()).await.unwrap();
    assert_eq!(rendered.text.matches("</user_memory>").count(), 1);
}

#[tokio::test]
async fn forgetting_the_memory_erases_the_entry_from_every_version() {
    let ground = Ground::new().await;
    ground.told("the safe opens with 4711").await;
    ground.told("the safe is in the kitchen").await;
    let hit = ground.search("4711").await.hits.remove(0);
    assert_eq!(hit.item.meta["entry"], "u1");
    // It is changed where it belongs.
    let edit = longhaul_memory::Edit { content: Some("x".into()), ..Default::default() };
    let refused = ground.memory.change(&ground.scope, &hit.item.id, edit).await;
    assert!(matches!(refused, Err(MemoryError::User(UserError::Mirrored { .. }))), "{refused:?}");

    let receipt = ground.memory.erase(&ground.scope, &Forget::Ids(vec![hit.item.id]), false).await.unwrap();
    assert_eq!(receipt.memories, 1);
    assert_eq!(ground.texts().await, ["the safe is in the kitchen"]);
    assert!(ground.found("4711").await.is_empty());
    let export = ground.user.export(&ground.scope).await.unwrap();
    assert!(!serde_json::to_string(&export).unwrap().contains("4711"), "{export:?}");
    ground.user.rollback(&ground.scope, 1, By::person(&ground.scope.user)).await.unwrap();
    assert!(ground.texts().await.is_empty(), "what was erased came back");

    ground.told("the garage opens with 4712").await;
    ground.says("t1", "I think I like 4712").await;
    ground.memory.erase(&ground.scope, &Forget::User(ground.scope.user.clone()), false).await.unwrap();
    let export = ground.user.export(&ground.scope).await.unwrap();
    assert!(!serde_json::to_string(&export).unwrap().contains("4712"), "{export:?}");
}

#[tokio::test]
async fn a_switch_stops_everything_and_says_so() {
    let ground = Ground::new().await;
    ground.told("I like tea").await;
    ground.user.switch(&ground.scope, Switches { memory: false, implicit: true }).await.unwrap();

    let recall = ground.search("tea").await;
    assert!(recall.hits.is_empty() && recall.notes[0].contains("switched off"), "{recall:?}");
    assert_eq!(ground.user.render(&ground.scope, RenderLimits::default()).await.unwrap().text, "");
    let edit = UserMemoryEdit::Add { block: None, text: "I like cake".into() };
    let refused = ground.user.edit(&ground.scope, edit).await.unwrap_err();
    assert!(
        matches!(&refused, MemoryError::User(UserError::Off { .. })) && refused.to_string().contains("switch it on")
    );
    let note = NewMemory::new("project", Kind::Note, Source::Agent, "tea again");
    assert!(ground.memory.add(&ground.scope, note.clone()).await.is_err());
    let observed = ground.says("t1", "My name is Anna").await;
    assert!(observed.proposals.is_empty() && observed.notes[0].contains("switched off"));
    // Others go on, and the person may still look at what is there, and take it with them.
    assert!(ground.memory.add(&scope_of("other", "u"), note).await.is_ok());
    assert_eq!(ground.user.export(&ground.scope).await.unwrap().entries.len(), 1);

    ground.user.switch(&ground.scope, Switches { memory: true, implicit: false }).await.unwrap();
    assert_eq!(ground.found("tea").await, ["I like tea"]);
    assert!(ground.says("t1", "My name is Anna").await.proposals.is_empty());
    ground.told("I like cake").await;
    ground.user.switch(&ground.scope, Switches::default()).await.unwrap();
    assert_eq!(ground.says("t1", "My name is Anna").await.applied(), 1);
}

#[tokio::test]
async fn an_edit_takes_milliseconds() {
    let ground = Ground::new().await;
    let mut took = Vec::new();
    for n in 0..60 {
        let started = std::time::Instant::now();
        ground.told(&format!("thing number {n} of block {}", n % 7)).await;
        took.push(started.elapsed());
        if n == 30 {
            ground.user.rollback(&ground.scope, 0, By::person(&ground.scope.user)).await.unwrap();
        }
    }
    took.sort();
    println!("explicit edit: p50 {:?}, p99 {:?}", took[30], took[58]);
    // The bar is 20 ms; this machine is shared, so the test allows for more.
    assert!(is_postgres() || took[30].as_millis() < 20, "{:?}", took[30]);
}
