//! What every test needs: a store in a folder of its own, and a task to write about.

use longhaul_core::{Ambient, Scope, TaskScope};
use longhaul_store::{Migrations, Store, StoreSettings, tasks};
use serde_json::json;

pub(crate) const NOTES: Migrations = Migrations {
    component: "notes",
    steps: &["CREATE TABLE notes (tenant_id TEXT NOT NULL, n INTEGER NOT NULL, text TEXT NOT NULL,
              PRIMARY KEY (tenant_id, n)) STRICT"],
};

pub(crate) async fn open(dir: &std::path::Path) -> Store {
    Store::open(StoreSettings::new(dir), Ambient::system(), &[NOTES]).await.unwrap()
}

pub(crate) async fn open_in_memory() -> Store {
    Store::open(StoreSettings::in_memory(), Ambient::system(), &[NOTES]).await.unwrap()
}

pub(crate) async fn task(store: &Store, scope: &Scope, thread: &str) -> TaskScope {
    let (scope, thread) = (scope.clone(), thread.parse().unwrap());
    store
        .write(move |tx| {
            let (kind, title) = ("notes".to_owned(), "take notes".to_owned());
            let new = tasks::NewTask { thread, kind, title, dir: None, model: None, data: json!({}) };
            tasks::create(tx, &scope, None, new)
        })
        .await
        .map(|task| task.scope)
        .unwrap()
}

/// The numbers in the table of notes.
pub(crate) async fn notes(store: &Store) -> Vec<i64> {
    store.read(|read| read.query("SELECT n FROM notes ORDER BY n", &[], |row| row.get(0))).await.unwrap()
}
