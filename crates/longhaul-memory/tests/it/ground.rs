//! A store and user memory over it, on SQLite or, with `LONGHAUL_TEST_STORE=postgres`, on a private server.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use longhaul_core::{Ambient, Clock, Scope, SeededRng, TenantId, TimeMs, UserId};
use longhaul_memory::{
    MIGRATIONS, Memory, Query, Recall, Source,
    user::{Edited, Turn, UserMemory, UserMemoryEdit, namespace_of},
};
use longhaul_store::Store;
use longhaul_testbed::Database;
use tempfile::TempDir;

use crate::place::new_store;

pub(crate) struct Ground {
    pub(crate) store: Store,
    pub(crate) memory: Memory,
    pub(crate) user: UserMemory,
    pub(crate) scope: Scope,
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
}

impl Clock for SetTime {
    fn now(&self) -> TimeMs {
        TimeMs(self.0.load(Ordering::Relaxed))
    }
}

impl Ground {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let clock = Arc::new(SetTime(AtomicI64::new(1_800_000_000_000)));
        let ambient = Ambient::new(clock.clone(), Arc::new(SeededRng::new(1)));
        let (settings, database) = new_store(folder.path());
        let store = Store::open(settings, ambient, &[MIGRATIONS]).await.expect("the store opens");
        let memory = Memory::new(store.clone(), None);
        let user = UserMemory::new(memory.clone());
        Self { store, memory, user, scope: Scope::single_user(), clock, folder, _database: database }
    }

    pub(crate) async fn told(&self, text: &str) -> Edited {
        let edit = UserMemoryEdit::Add { block: None, text: text.to_owned() };
        self.user.edit(&self.scope, edit).await.expect("the edit is made")
    }

    pub(crate) async fn texts(&self) -> Vec<String> {
        let entries = self.user.entries(&self.scope).await.expect("the entries are read");
        entries.into_iter().map(|entry| entry.text).collect()
    }

    /// A search of the user's own namespace.
    pub(crate) async fn search(&self, text: &str) -> Recall {
        let query = Query { namespaces: vec![namespace_of(&self.scope.user)], ..Query::new(text, 10) };
        self.memory.search(&self.scope, &query).await.expect("the search runs")
    }

    pub(crate) async fn found(&self, text: &str) -> Vec<String> {
        self.search(text).await.hits.into_iter().map(|hit| hit.item.content).collect()
    }

    /// The user says this in a conversation, and the background pass reads it.
    pub(crate) async fn says(&self, thread: &str, text: &str) -> longhaul_memory::user::Observed {
        self.hears(thread, Source::User, text).await
    }

    pub(crate) async fn hears(&self, thread: &str, source: Source, text: &str) -> longhaul_memory::user::Observed {
        self.user.observe(&self.scope, &[turn(thread, source, text)], None).await.expect("the pass ends")
    }
}

pub(crate) fn turn(thread: &str, source: Source, text: &str) -> Turn {
    Turn { thread: thread.to_owned(), source, text: text.to_owned(), at: TimeMs(1_800_000_000_000) }
}

pub(crate) fn scope_of(tenant: &str, user: &str) -> Scope {
    Scope { tenant: TenantId::from_body(tenant), user: UserId::from_body(user) }
}
