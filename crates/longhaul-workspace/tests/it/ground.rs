//! A store with a workspace over it, on SQLite or, with `LONGHAUL_TEST_STORE=postgres`, on a private server.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use longhaul_core::{
    Ambient, Clock, Scope, SeededRng, SessionId, TaskId, TaskScope, TenantId, TimeMs, TraceId, UserId,
};
use longhaul_memory::Memory;
use longhaul_store::{Migrations, Store, StoreSettings};
use longhaul_testbed::{Database, PrivateCluster};
use longhaul_workspace::{Ingest, Kind, TaskWorkspace, Workspace};
use tempfile::TempDir;

pub(crate) const ALL: [Migrations; 2] = [longhaul_memory::MIGRATIONS, longhaul_workspace::MIGRATIONS];

pub(crate) struct Ground {
    pub(crate) store: Store,
    pub(crate) memory: Memory,
    pub(crate) workspace: Workspace,
    pub(crate) clock: Arc<SetTime>,
    /// Removed when the test ends.
    pub(crate) folder: TempDir,
    _database: Option<Database<'static>>,
}

#[derive(Debug)]
pub(crate) struct SetTime(AtomicI64);

impl SetTime {
    pub(crate) fn advance_minutes(&self, minutes: i64) {
        self.0.fetch_add(minutes * 60_000, Ordering::Relaxed);
    }

    pub(crate) fn at(&self, minutes: i64) -> TimeMs {
        TimeMs(self.0.load(Ordering::Relaxed) + minutes * 60_000)
    }
}

impl Clock for SetTime {
    fn now(&self) -> TimeMs {
        TimeMs(self.0.load(Ordering::Relaxed))
    }
}

/// The store that the suite runs on: a folder, or with `LONGHAUL_TEST_STORE=postgres` a fresh database.
pub(crate) fn new_store(dir: &Path) -> (StoreSettings, Option<Database<'static>>) {
    if !on_postgres() {
        return (StoreSettings::new(dir), None);
    }
    let database = PrivateCluster::shared()
        .and_then(|cluster| cluster.create_database().map_err(|error| error.to_string()))
        .unwrap_or_else(|error| panic!("the test needs a private PostgreSQL server: {error}"));
    let settings = StoreSettings::from_url(&database.url(), dir).expect("the test server is on this machine");
    (settings, Some(database))
}

pub(crate) fn on_postgres() -> bool {
    std::env::var("LONGHAUL_TEST_STORE").is_ok_and(|name| name == "postgres")
}

impl Ground {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let clock = Arc::new(SetTime(AtomicI64::new(1_800_000_000_000)));
        let ambient = Ambient::new(clock.clone(), Arc::new(SeededRng::new(1)));
        let (settings, database) = new_store(folder.path());
        let store = Store::open(settings, ambient, &ALL).await.expect("the store opens");
        let memory = Memory::new(store.clone(), None);
        let workspace = Workspace::new(store.clone(), memory.clone());
        Self { store, memory, workspace, clock, folder, _database: database }
    }

    /// The workspace of the task of this name, of the user `a`.
    pub(crate) fn task(&self, task: &str) -> TaskWorkspace {
        self.workspace.task(&owner("t", "a", task))
    }
}

pub(crate) fn scope(tenant: &str, user: &str) -> Scope {
    Scope { tenant: TenantId::from_body(tenant), user: UserId::from_body(user) }
}

pub(crate) fn owner(tenant: &str, user: &str, task: &str) -> TaskScope {
    TaskScope {
        scope: scope(tenant, user),
        session: SessionId::from_body("1"),
        task: TaskId::from_body(task),
        trace: TraceId::from_body("1"),
    }
}

/// A note with this text.
pub(crate) fn note(text: &str) -> Ingest {
    Ingest::new(Kind::Note, "notes", "a note", "agent", text)
}
