//! The ground that a test stands on: a place whose store can be opened, and opened again.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use longhaul_core::{Ambient, Clock, TimeMs};
use longhaul_durable::{MIGRATIONS, Runtime};
use longhaul_store::{Faults, Store, StoreSettings};
use longhaul_testbed::{Database, PrivateCluster};
use tempfile::TempDir;

use crate::support::{Done, NOTES, World};

pub(crate) struct Ground {
    dir: TempDir,
    kind: Kind,
    pub(crate) clock: Hands,
}

enum Kind {
    File,
    /// There is but one handle of what is in memory.
    Memory(tokio::sync::OnceCell<Store>),
    Postgres(Database<'static>),
}

/// A clock that is set by hand, or the system's as long as it has not been set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hands(Arc<(AtomicI64, AtomicI64)>);

impl Hands {
    pub(crate) fn set(&self, at: i64) {
        self.0.0.store(at, Ordering::SeqCst);
    }

    /// From now on each who asks is told a millisecond more than the one before.
    pub(crate) fn tick(&self) {
        self.0.1.store(1, Ordering::SeqCst);
    }
}

impl Clock for Hands {
    fn now(&self) -> TimeMs {
        match self.0.0.fetch_add(self.0.1.load(Ordering::SeqCst), Ordering::SeqCst) {
            0 => Ambient::system().clock.now(),
            at => TimeMs(at),
        }
    }
}

impl Ground {
    pub(crate) fn file() -> Self {
        Self::new(Kind::File)
    }

    pub(crate) fn memory() -> Self {
        Self::new(Kind::Memory(tokio::sync::OnceCell::new()))
    }

    pub(crate) fn postgres() -> Self {
        Self::new(Kind::Postgres(PrivateCluster::shared().unwrap().create_database().unwrap()))
    }

    fn new(kind: Kind) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), kind, clock: Hands::default() }
    }

    /// What another process needs to open the store: a folder, and an address if there is one.
    pub(crate) fn address(&self) -> (String, String) {
        let dir = self.dir.path().to_string_lossy().into_owned();
        match &self.kind {
            Kind::File => (dir, String::new()),
            Kind::Memory(_) => panic!("another process cannot look into memory"),
            Kind::Postgres(database) => (dir, database.url()),
        }
    }

    pub(crate) fn settings(dir: &str, url: &str) -> StoreSettings {
        if url.is_empty() { StoreSettings::new(dir) } else { StoreSettings::from_url(url, dir).unwrap() }
    }

    /// A folder whose files hold everything, where there is one.
    pub(crate) fn files(&self) -> Option<&std::path::Path> {
        matches!(self.kind, Kind::File).then(|| self.dir.path())
    }

    /// Asks the database through another connection.
    pub(crate) fn psql(&self, sql: &str) -> String {
        match &self.kind {
            Kind::Postgres(database) => database.psql(sql).unwrap(),
            Kind::File | Kind::Memory(_) => panic!("there is no server to ask"),
        }
    }

    fn ambient(&self) -> Ambient {
        Ambient::new(Arc::new(self.clock.clone()), Ambient::system().rng)
    }

    /// Opens the store, with faults if there are to be some.
    pub(crate) async fn store(&self, faults: Option<Faults>) -> Store {
        let faults = faults.unwrap_or_default();
        let sets = [MIGRATIONS, NOTES];
        match &self.kind {
            Kind::Memory(store) => store
                .get_or_init(|| async {
                    let settings = StoreSettings::in_memory();
                    Store::open_with_faults(settings, self.ambient(), &sets, faults).await.unwrap()
                })
                .await
                .clone(),
            Kind::File | Kind::Postgres(_) => {
                let (dir, url) = self.address();
                Store::open_with_faults(Self::settings(&dir, &url), self.ambient(), &sets, faults).await.unwrap()
            }
        }
    }

    pub(crate) async fn world(&self) -> World {
        self.world_with(None).await
    }

    pub(crate) async fn world_with(&self, faults: Option<Faults>) -> World {
        let store = self.store(faults).await;
        World { runtime: Runtime::new(store.clone(), store.ambient().clone()), store, done: Done::default() }
    }
}

/// Makes one test a store of an `async fn name(ground: Ground)`: `on! { file, memory, postgres: first, second }`.
macro_rules! on {
    ($($place:ident),+ : $($test:ident),+ $(,)?) => { crate::ground::on!(@places [$($place),+] [$($test),+]); };
    (@places [$place:ident $(, $rest:ident)*] $tests:tt) => {
        crate::ground::on!(@tests $place $tests);
        crate::ground::on!(@places [$($rest),*] $tests);
    };
    (@places [] $tests:tt) => {};
    (@tests $place:ident [$($test:ident),+]) => {
        mod $place {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    super::$test(crate::ground::Ground::$place()).await;
                }
            )+
        }
    };
}
pub(crate) use on;
