//! The rows that say whose work is whose.

use longhaul_core::Scope;
use longhaul_store::{StoreError, tasks};
use serde_json::json;

use super::{Ground, on};

on! { file, memory, postgres: a_task_is_found_by_what_it_is_known_by_and_its_thread_is_its_own }

async fn a_task_is_found_by_what_it_is_known_by_and_its_thread_is_its_own(ground: Ground) {
    let store = ground.open().await;
    let scope = Scope::single_user();
    let new = |thread: &str, dir: &str| tasks::NewTask {
        thread: thread.parse().unwrap(),
        kind: "notes".to_owned(),
        title: "聊天应用".to_owned(),
        dir: Some(dir.to_owned()),
        model: None,
        data: json!({ "request": "作る" }),
    };
    let create = |scope: &Scope, session: Option<longhaul_core::SessionId>, new: tasks::NewTask| {
        let scope = scope.clone();
        store.write(move |tx| tasks::create(tx, &scope, session.as_ref(), new))
    };
    let first = create(&scope, None, new("t1", "/a")).await.unwrap();
    let second = create(&scope, Some(first.scope.session.clone()), new("t2", "/a")).await.unwrap();
    assert_eq!(first.scope.session, second.scope.session);
    let taken = create(&scope, None, new("t1", "/b")).await;
    assert!(matches!(taken, Err(StoreError::Constraint { .. })), "{taken:?}");
    let colleague = Scope { user: "user_other".parse().unwrap(), ..scope.clone() };
    let foreign = create(&colleague, Some(first.scope.session.clone()), new("t3", "/b")).await;
    assert!(matches!(foreign, Err(StoreError::Constraint { .. })), "{foreign:?}");

    let (reader, id) = (scope.clone(), first.scope.task.clone());
    store
        .write(move |tx| tasks::update(tx, &reader, &id, Some("/moved"), Some("cassette:demo"), &json!({})))
        .await
        .unwrap();
    let found = store.read(move |read| {
        let by_dir = |dir| tasks::by_dir(read, &scope, dir).map(|task| task.map(|task| task.thread.to_string()));
        let moved = tasks::by_thread(read, &scope, &"t1".parse().unwrap())?.unwrap();
        Ok::<_, StoreError>((by_dir("/a")?, by_dir("/moved")?, moved.model, tasks::list(read, &scope, 10)?.len()))
    });
    let expected = (Some("t2".to_owned()), Some("t1".to_owned()), Some("cassette:demo".to_owned()), 2);
    assert_eq!(found.await.unwrap(), expected);
}
