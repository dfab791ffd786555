//! Versions: whatever is done in whatever order, each version can be read as it was, and a roll-back restores it exactly.

use longhaul_memory::user::{Block, By, Entry, EntryId, EntryRef, UserMemoryEdit};
use proptest::prelude::*;

use crate::ground::Ground;

#[derive(Debug, Clone)]
enum Step {
    Add(u8),
    Replace(u8, u8),
    Remove(u8),
    Says(u8, u8),
    Fade(u8),
    Rollback(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_u8..12).prop_map(Step::Add),
        (0_u8..12, 0_u8..12).prop_map(|(which, text)| Step::Replace(which, text)),
        (0_u8..12).prop_map(Step::Remove),
        (0_u8..12, 0_u8..3).prop_map(|(text, thread)| Step::Says(text, thread)),
        (0_u8..3).prop_map(Step::Fade),
        (0_u8..30).prop_map(Step::Rollback),
    ]
}

/// Some of them say the same, and some contradict each other.
fn text(n: u8) -> String {
    let texts = [
        "My name is Anna",
        "My name is Ann",
        "my name is anna",
        "I live in Berlin",
        "I live in Lisbon",
        "I prefer tea over coffee",
        "I prefer coffee over tea",
        "I hate rain",
        "Never use emojis",
        "Always use emojis",
        "Remember that the key is blue",
        "我叫安娜",
    ];
    texts[usize::from(n) % texts.len()].to_owned()
}

async fn take(ground: &Ground, step: &Step) {
    let (user, scope, by) = (&ground.user, &ground.scope, By::person(&ground.scope.user));
    // Steps that cannot be made here change nothing.
    match step {
        Step::Add(n) => drop(user.edit(scope, UserMemoryEdit::Add { block: Some(Block::Other), text: text(*n) }).await),
        Step::Replace(which, n) => {
            let entry = EntryRef::Id(EntryId(u32::from(*which)));
            drop(user.edit(scope, UserMemoryEdit::Replace { entry, text: text(*n) }).await);
        }
        Step::Remove(which) => {
            let entry = EntryRef::Id(EntryId(u32::from(*which)));
            drop(user.edit(scope, UserMemoryEdit::Remove { entry }).await);
        }
        Step::Says(n, thread) => drop(ground.says(&format!("t{thread}"), &text(*n)).await),
        Step::Fade(thread) => drop(user.conversation_deleted(scope, &format!("t{thread}")).await.unwrap()),
        Step::Rollback(version) => drop(user.rollback(scope, u32::from(*version), by).await),
    }
}

/// What the searched memories say, which must be what the entries say.
async fn mirrored(ground: &Ground) -> Vec<String> {
    let query = longhaul_memory::Query {
        namespaces: vec![longhaul_memory::user::namespace_of(&ground.scope.user)],
        k: 200,
        ..Default::default()
    };
    let page = ground.memory.list(&ground.scope, &query, None).await.unwrap();
    let mut texts: Vec<String> = page.items.into_iter().map(|item| item.content).collect();
    texts.sort();
    texts
}

async fn check(steps: Vec<Step>) {
    let ground = Ground::new().await;
    let mut seen: Vec<(u32, Vec<Entry>)> = vec![(0, Vec::new())];
    for step in &steps {
        ground.clock.advance_minutes(1);
        take(&ground, step).await;
        let now = ground.user.entries(&ground.scope).await.unwrap();
        let version = ground.user.history(&ground.scope, None, 1).await.unwrap().first().map_or(0, |v| v.version);
        // Several versions may have been made by one step; the last one is what is seen.
        match seen.last_mut() {
            Some((last, entries)) if *last == version => {
                assert_eq!(*entries, now, "{step:?} changed version {version}")
            }
            _ => seen.push((version, now.clone())),
        }
        let mut texts: Vec<String> = now.iter().map(|entry| entry.text.clone()).collect();
        texts.sort();
        assert_eq!(mirrored(&ground).await, texts, "{step:?}");
        let mut distinct = now.iter().map(|entry| entry.text.to_lowercase()).collect::<Vec<_>>();
        distinct.dedup();
        assert_eq!(distinct.len(), now.len(), "said twice: {now:?}");
    }
    for (version, entries) in &seen {
        assert_eq!(&ground.user.entries_at(&ground.scope, *version).await.unwrap(), entries, "version {version}");
    }
    for (version, entries) in seen.iter().rev().step_by(3) {
        ground.user.rollback(&ground.scope, *version, By::person(&ground.scope.user)).await.unwrap();
        assert_eq!(&ground.user.entries(&ground.scope).await.unwrap(), entries, "back to {version}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 40, ..ProptestConfig::default() })]
    #[test]
    fn any_sequence_can_be_replayed_and_rolled_back(steps in prop::collection::vec(step(), 1..30)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(check(steps));
    }
}

#[tokio::test]
async fn the_history_says_who_why_and_when_and_there_is_no_version_to_come() {
    let ground = Ground::new().await;
    ground.told("My name is Anna").await;
    let by = By { why: "that was a mistake".into(), ..By::person(&ground.scope.user) };
    assert_eq!(ground.user.rollback(&ground.scope, 0, by).await.unwrap(), 2);
    let history = ground.user.history(&ground.scope, None, 10).await.unwrap();
    let said: Vec<String> =
        history.iter().map(|v| format!("{} {:?} {} {}", v.version, v.action, v.actor, v.why)).collect();
    assert_eq!(said, ["2 Rollback person:user_default that was a mistake", "1 Edit person:user_default "]);
    assert_eq!(history[0].changes[0].before.as_deref(), Some("My name is Anna"));
    let none = ground.user.rollback(&ground.scope, 3, By::person(&ground.scope.user)).await;
    assert!(none.unwrap_err().to_string().contains("the newest is 2"));
}
