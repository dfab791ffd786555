//! A small state, a store in a folder of its own, and a record of the work that was really done.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use longhaul_core::{Ambient, Event, Scope, TaskScope, ThreadId};
use longhaul_durable::{Graph, GraphState, MIGRATIONS, Outcome, RunOptions, Runtime};
use longhaul_store::{Migrations, Store, StoreError, StoreSettings, events};
use longhaul_testbed::{Database, PrivateCluster};
use serde::{Deserialize, Serialize};

/// A list of words, and how many there are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Words {
    pub(crate) words: Vec<String>,
    pub(crate) count: u64,
}

impl Words {
    pub(crate) fn of(words: &[&str]) -> Self {
        Self { words: words.iter().map(|word| (*word).to_owned()).collect(), count: words.len() as u64 }
    }
}

impl GraphState for Words {
    type Update = Vec<String>;
    fn apply(&mut self, update: Self::Update) {
        self.count += update.len() as u64;
        self.words.extend(update);
    }
}

/// Rows of "another crate".
pub(crate) const NOTES: Migrations = Migrations {
    component: "notes",
    steps: &["CREATE TABLE notes (
        note_id INTEGER PRIMARY KEY AUTOINCREMENT, tenant_id TEXT NOT NULL, text TEXT NOT NULL) STRICT"],
};

pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) runtime: Runtime,
    /// What was really done, in order.
    pub(crate) done: Done,
}

/// A shared list of what was really done.
#[derive(Debug, Clone, Default)]
pub(crate) struct Done(Arc<Mutex<Vec<String>>>);

impl Done {
    pub(crate) fn add(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Where the suite's stores are: unset for SQLite, `postgres` for a private server, a URL for its child processes.
pub(crate) const STORE: &str = "LONGHAUL_TEST_STORE";

/// The store of this folder; asked again it is the same one.
fn settings(dir: &Path) -> StoreSettings {
    match std::env::var(STORE).as_deref() {
        Ok("") | Err(_) => StoreSettings::new(dir),
        Ok("postgres") => StoreSettings::from_url(&database_of(dir), dir).unwrap(),
        Ok(url) => StoreSettings::from_url(url, dir).unwrap(),
    }
}

/// What a child process finds in [`STORE`].
pub(crate) fn store_for_child(dir: &Path) -> String {
    match std::env::var(STORE).as_deref() {
        Ok("postgres") => database_of(dir),
        _ => String::new(),
    }
}

fn database_of(dir: &Path) -> String {
    static DATABASES: Mutex<BTreeMap<PathBuf, Database<'static>>> = Mutex::new(BTreeMap::new());
    let mut databases = DATABASES.lock().unwrap();
    let new = || PrivateCluster::shared().unwrap().create_database().unwrap();
    databases.entry(dir.to_owned()).or_insert_with(new).url()
}

pub(crate) async fn world(dir: &Path) -> World {
    let store = Store::open(settings(dir), Ambient::system(), &[MIGRATIONS, NOTES]).await.unwrap();
    World { runtime: Runtime::new(store.clone(), Ambient::system()), store, done: Done::default() }
}

pub(crate) fn scope() -> TaskScope {
    TaskScope {
        scope: Scope::single_user(),
        session: "sess_1".parse().unwrap(),
        task: "task_1".parse().unwrap(),
        trace: "trace_1".parse().unwrap(),
    }
}

pub(crate) fn thread() -> ThreadId {
    "thread_1".parse().unwrap()
}

impl World {
    pub(crate) async fn run(&self, graph: &Graph<Words>) -> Outcome<Words> {
        self.run_with(graph, RunOptions::default()).await
    }

    pub(crate) async fn run_with(&self, graph: &Graph<Words>, options: RunOptions<Words>) -> Outcome<Words> {
        self.runtime.run(graph, &scope(), &thread(), Words::default(), options).await.unwrap()
    }

    /// The kinds of all events, in order.
    pub(crate) async fn events(&self) -> Vec<Event> {
        self.store.read(|read| events(read, &Scope::single_user(), None, 0, 10_000)).await.unwrap()
    }

    pub(crate) async fn kinds(&self) -> Vec<String> {
        self.events().await.into_iter().map(|event| event.kind).collect()
    }

    /// `node/superstep/name#ordinal` of every recorded step.
    pub(crate) async fn recorded(&self) -> Vec<String> {
        self.store
            .read(|read| {
                read.query(
                    "SELECT node || '/' || superstep || '/' || name || '#' || ordinal FROM steps
                     ORDER BY ns, superstep, task, ordinal",
                    &[],
                    |row| row.get(0),
                )
            })
            .await
            .map_err(|error: StoreError| error)
            .unwrap()
    }

    pub(crate) async fn notes(&self) -> Vec<String> {
        self.store
            .read(|read| read.query("SELECT text FROM notes ORDER BY note_id", &[], |row| row.get(0)))
            .await
            .map_err(|error: StoreError| error)
            .unwrap()
    }
}

pub(crate) fn completed(outcome: Outcome<Words>) -> Words {
    let Outcome::Completed(state) = outcome else { panic!("not completed: {outcome:?}") };
    state
}

/// The failed node's error and what lies beneath it, in one line.
pub(crate) fn failure(outcome: Outcome<Words>) -> String {
    let Outcome::Failed { error, .. } = outcome else { panic!("not failed: {outcome:?}") };
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
