//! Actions as memory: captured with what did them, coalesced, moved with their files, and gone without a trace.

use longhaul_core::Scope;
use longhaul_memory::{
    Kind, MemoryError, Namespace, Query, Source, TAG_ACTION, TAG_CACHE,
    actions::{Action, ActionKind, ActionPolicy, Actions, Captured, PathClass},
    user::{Switches, UserError},
};
use longhaul_store::StoreError;

use crate::{ground::Ground, place::is_postgres};

struct Done {
    ground: Ground,
    actions: Actions,
    place: Namespace,
}

impl Done {
    async fn new() -> Self {
        let ground = Ground::new().await;
        let actions = Actions::new(ground.memory.clone(), ActionPolicy::default());
        Self { ground, actions, place: "actions".parse().unwrap() }
    }

    async fn take(&self, action: Action) -> Captured {
        self.actions.record(&self.ground.scope, &self.place, action).await.expect("the action is captured")
    }

    async fn file(&self, kind: ActionKind, path: &str) -> Captured {
        self.take(Action::new(kind, path, Source::Agent)).await
    }

    async fn moved(&self, from: &str, to: &str) -> Captured {
        let action = Action::new(ActionKind::FileMoved, from, Source::Agent);
        self.take(Action { moved_to: Some(to.to_owned()), ..action }).await
    }

    async fn found(&self, text: &str) -> Vec<String> {
        let query = Query { namespaces: vec![self.place.clone()], ..Query::new(text, 20) };
        let recall = self.ground.memory.search(&self.ground.scope, &query).await.unwrap();
        recall.hits.into_iter().map(|hit| hit.item.content).collect()
    }

    async fn history(&self, path: &str) -> Vec<String> {
        let acts = self.actions.history(&self.ground.scope, &self.place, path).await.unwrap();
        acts.into_iter().map(|act| format!("{} x{}", act.kind, act.times)).collect()
    }

    /// Every table's rows that contain a text, by name of the table.
    async fn traces(&self, text: &str) -> Vec<String> {
        let text = text.to_owned();
        let tables = [
            ("memories", "content || meta || tags || coalesce(thread, '')"),
            ("memory_postings", "term"),
            ("memory_gone", "memory_id"),
            ("memory_actions", "target"),
            ("memory_partitions", "namespace"),
        ];
        let read = move |read: &longhaul_store::ReadTx<'_>| {
            let mut found = Vec::new();
            for (table, column) in tables {
                let sql = format!("SELECT count(*) FROM {table} WHERE {column} LIKE ?1");
                let params = longhaul_store::values![format!("%{text}%")];
                if read.query_one(&sql, &params, |row| row.get::<i64>(0))? > 0 {
                    found.push(table.to_owned());
                }
            }
            Ok::<_, StoreError>(found)
        };
        self.ground.store.read(read).await.unwrap()
    }
}

#[tokio::test]
async fn a_file_that_was_there_for_minutes_leaves_nothing() {
    let done = Done::new().await;
    done.file(ActionKind::FileCreated, "src/kept.rs").await;
    for change in [ActionKind::FileCreated, ActionKind::FileChanged, ActionKind::FileChanged] {
        done.file(change, "notes/zanzibar.md").await;
        done.ground.clock.advance_minutes(1);
    }
    assert_eq!(done.found("zanzibar").await.len(), 1);
    assert!(!done.traces("zanzibar").await.is_empty());
    assert_eq!(done.file(ActionKind::FileDeleted, "notes/zanzibar.md").await, Captured::Erased(1));
    assert!(done.found("zanzibar").await.is_empty());
    assert_eq!(done.traces("zanzibar").await, Vec::<String>::new());
    assert_eq!(done.history("notes/zanzibar.md").await, Vec::<String>::new());
    assert_eq!(done.found("kept").await, ["created src/kept.rs"]);

    // Renamed on the way it leaves nothing either; what was there for longer leaves its history.
    done.file(ActionKind::FileCreated, "a/quokka.txt").await;
    done.moved("a/quokka.txt", "a/wombat.txt").await;
    assert_eq!(done.history("a/wombat.txt").await, ["file_created x1", "file_moved x1"]);
    assert_eq!(done.file(ActionKind::FileDeleted, "a/wombat.txt").await, Captured::Erased(2));
    for name in ["quokka", "wombat"] {
        assert_eq!(done.traces(name).await, Vec::<String>::new(), "{name}");
    }
    done.file(ActionKind::FileCreated, "a/lasting.txt").await;
    done.ground.clock.advance_minutes(6);
    assert!(matches!(done.file(ActionKind::FileDeleted, "a/lasting.txt").await, Captured::Remembered(_)));
    assert_eq!(done.history("a/lasting.txt").await, ["file_created x1", "file_deleted x1"]);
}

/// Files below a folder that hold these bytes.
fn holding(dir: &std::path::Path, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, bytes));
        } else if std::fs::read(&path).unwrap().windows(bytes.len()).any(|window| window == bytes) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[tokio::test]
async fn after_a_compaction_no_byte_of_its_name_is_left() {
    if is_postgres() {
        return; // the server's files are its own; the rows are looked at above
    }
    let done = Done::new().await;
    for n in 0..20 {
        done.file(ActionKind::FileCreated, &format!("src/part{n}.rs")).await;
    }
    done.file(ActionKind::FileCreated, "notes/zanzibar.md").await;
    let folder = done.ground.folder.path().to_owned();
    assert!(!holding(&folder, b"zanzibar").is_empty());
    done.file(ActionKind::FileDeleted, "notes/zanzibar.md").await;
    let compacted = done.ground.memory.compact().await.unwrap();
    assert!(compacted.is_complete, "{compacted:?}");
    assert_eq!(holding(&folder, b"zanzibar"), Vec::<String>::new());
    assert!(!holding(&folder, b"part19").is_empty());
}

#[tokio::test]
async fn many_changes_within_an_hour_are_one_memory_with_a_count() {
    let done = Done::new().await;
    let change = || Action {
        summary: "another function".into(),
        ..Action::new(ActionKind::FileChanged, "src/main.rs", Source::Agent)
    };
    let Captured::Remembered(id) = done.take(change()).await else { panic!("the first change is a memory") };
    let first = done.ground.memory.get(&done.ground.scope, &id).await.unwrap().unwrap();
    for n in 2..=10 {
        done.ground.clock.advance_minutes(5);
        assert_eq!(done.take(change()).await, Captured::Counted(id.clone(), n));
    }
    assert_eq!(done.found("main.rs").await, ["changed src/main.rs (10 times): another function"]);
    let often = done.ground.memory.get(&done.ground.scope, &id).await.unwrap().unwrap();
    assert!(often.importance > first.importance + 0.2, "{} -> {}", first.importance, often.importance);
    assert_eq!(often.meta["times"], 10);
    done.ground.clock.advance_minutes(30);
    let Captured::Remembered(next) = done.take(change()).await else { panic!("the next hour is a new memory") };
    // What was done often today matters at once, although this is its first time in this hour.
    let next = done.ground.memory.get(&done.ground.scope, &next).await.unwrap().unwrap();
    assert!(next.importance >= often.importance, "{next:?}");
    assert_eq!(done.history("src/main.rs").await, ["file_changed x10", "file_changed x1"]);
}

#[tokio::test]
async fn a_moved_file_keeps_its_history_and_saving_over_a_file_is_a_change() {
    let done = Done::new().await;
    done.file(ActionKind::FileCreated, "plan.md").await;
    done.ground.clock.advance_minutes(90);
    done.moved("plan.md", "docs/plan.md").await;
    done.ground.clock.advance_minutes(90);
    done.file(ActionKind::FileChanged, "docs/plan.md").await;
    assert_eq!(done.history("docs/plan.md").await, ["file_created x1", "file_moved x1", "file_changed x1"]);

    // An editor writes beside the file and moves over it.
    done.ground.clock.advance_minutes(90);
    done.file(ActionKind::FileCreated, "docs/plan.md.tmp").await;
    done.moved("docs/plan.md.tmp", "docs/plan.md").await;
    assert_eq!(done.history("docs/plan.md").await.last().unwrap(), "file_changed x1");
    assert_eq!(done.traces("plan.md.tmp").await, Vec::<String>::new());
}

#[tokio::test]
async fn secrets_are_named_and_never_told() {
    let done = Done::new().await;
    let mut env = Action::new(ActionKind::FileChanged, "app/.env", Source::User);
    env.summary = "set KEY to tiger-lily-4711".into();
    done.take(env).await;
    let mut command = Action::new(ActionKind::Command, "deploy --token tiger-lily-4711 --region eu", Source::Agent);
    command.summary = "exported API_KEY=tiger-lily-4711".into();
    done.take(command).await;
    assert_eq!(done.found(".env").await, ["changed app/.env"]);
    assert_eq!(done.found("deploy region").await.len(), 1);
    assert_eq!(done.traces("tiger-lily").await, Vec::<String>::new());
}

#[tokio::test]
async fn each_class_and_kind_is_kept_in_its_own_way() {
    let done = Done::new().await;
    let importance = |path: &'static str| {
        let done = &done;
        async move {
            let Captured::Remembered(id) = done.file(ActionKind::FileChanged, path).await else { panic!("{path}") };
            done.ground.memory.get(&done.ground.scope, &id).await.unwrap().unwrap()
        }
    };
    let (settings, cache) = (importance("settings.toml").await, importance(".cache/index.bin").await);
    assert!(settings.importance > cache.importance && cache.importance <= 0.2);
    assert!(cache.expires_at.unwrap() < settings.expires_at.unwrap());
    assert_eq!(cache.meta["class"], PathClass::Cache.as_str());
    assert!(done.found("index.bin").await.is_empty(), "a cache file is in no index");

    let decided = Action::new(ActionKind::Decision, "SQLite, because one file is enough", Source::User);
    let Captured::Remembered(id) = done.take(decided).await else { panic!() };
    let decided = done.ground.memory.get(&done.ground.scope, &id).await.unwrap().unwrap();
    assert_eq!((decided.kind, decided.pinned, decided.expires_at), (Kind::Decision, true, None));

    let refused = Action::new(ActionKind::Preference, "likes spam", Source::Agent);
    let refused = done.actions.record(&done.ground.scope, &done.place, refused).await;
    assert!(matches!(refused, Err(MemoryError::User(UserError::NotFromThere { .. }))));
    for wrong in [
        Action::new(ActionKind::FileChanged, " ", Source::Agent),
        Action::new(ActionKind::FileMoved, "a", Source::Agent),
        Action { moved_to: Some("b".into()), ..Action::new(ActionKind::FileChanged, "a", Source::Agent) },
    ] {
        let refused = done.actions.record(&done.ground.scope, &done.place, wrong).await;
        assert!(matches!(refused, Err(MemoryError::Field { .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn an_action_is_kept_with_what_did_it_or_not_at_all() {
    let done = Done::new().await;
    let (actions, scope, place) = (done.actions.clone(), done.ground.scope.clone(), done.place.clone());
    let failed: Result<(), StoreError> = done
        .ground
        .store
        .write(move |tx| {
            actions.capture(tx, &scope, &place, &Action::new(ActionKind::FileCreated, "half.txt", Source::Agent))?;
            Err(StoreError::NoRow { sql: "the step failed".into() })
        })
        .await;
    assert!(failed.is_err());
    assert_eq!(done.traces("half").await, Vec::<String>::new());

    done.ground.user.switch(&done.ground.scope, Switches { memory: false, implicit: true }).await.unwrap();
    assert!(matches!(done.file(ActionKind::FileCreated, "off.txt").await, Captured::Ignored(_)));
    assert_eq!(done.traces("off.txt").await, Vec::<String>::new());
    let stranger = Scope { user: "user_other".parse().unwrap(), ..done.ground.scope.clone() };
    let action = Action::new(ActionKind::FileCreated, "x", Source::Agent);
    done.ground.user.switch(&done.ground.scope, Switches::default()).await.unwrap();
    done.file(ActionKind::FileCreated, "mine.txt").await;
    let refused = done.actions.record(&stranger, &done.place, action).await;
    assert!(matches!(refused, Err(MemoryError::NoAccess { .. })), "{refused:?}");
}

#[tokio::test]
async fn ranking_knows_what_a_user_did_and_how_little_a_cache_matters() {
    let done = Done::new().await;
    done.take(Action::new(ActionKind::FileChanged, "/home/a/thesis.tex", Source::User)).await;
    done.take(Action::new(ActionKind::FileChanged, "/home/a/.cache/thesis.bin", Source::User)).await;
    let query = Query { namespaces: vec![done.place.clone()], ..Query::new("thesis", 20) };
    let list = done.ground.memory.list(&done.ground.scope, &query, None).await.unwrap();
    let tags: Vec<Vec<&str>> = list.items.iter().map(|item| item.tags.iter().map(String::as_str).collect()).collect();
    assert_eq!(tags, [vec![TAG_ACTION], vec![TAG_ACTION, TAG_CACHE]]);
}
