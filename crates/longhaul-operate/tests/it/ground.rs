//! The ground that a test stands on: a store of its own, in a folder or on a private PostgreSQL server, which can be
//! opened again and by other processes.

use longhaul_core::{Ambient, Scope, TaskScope};
use longhaul_durable::Runtime;
use longhaul_operate::Operator;
use longhaul_store::{Faults, Migrations, Store, StoreSettings};
use longhaul_testbed::{Database, PrivateCluster};
use tempfile::TempDir;

/// The components of the stores.
pub(crate) const SETS: [Migrations; 3] =
    [longhaul_durable::MIGRATIONS, longhaul_memory::MIGRATIONS, longhaul_workspace::MIGRATIONS];

pub(crate) struct Ground {
    dir: TempDir,
    database: Option<Database<'static>>,
}

impl Ground {
    pub(crate) fn file() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), database: None }
    }

    pub(crate) fn postgres() -> Self {
        let database = PrivateCluster::shared().unwrap().create_database().unwrap();
        Self { dir: tempfile::tempdir().unwrap(), database: Some(database) }
    }

    /// What another process needs to open the store: a folder, and an address if there is one.
    pub(crate) fn address(&self) -> [String; 2] {
        let dir = self.dir.path().to_string_lossy().into_owned();
        [dir, self.database.as_ref().map(Database::url).unwrap_or_default()]
    }

    /// The folders that hold its files: its own, and the one in which the server keeps the database, brought up to what
    /// was written.
    pub(crate) fn files(&self) -> Vec<std::path::PathBuf> {
        let mut dirs = vec![self.dir.path().to_owned()];
        if let Some(database) = &self.database {
            database.psql("CHECKPOINT").unwrap();
            let dir = database.psql(
                "SELECT current_setting('data_directory') || '/base/' || oid FROM pg_database
                 WHERE datname = current_database()",
            );
            dirs = vec![dir.unwrap().trim().into()];
        }
        dirs
    }

    /// Changes rows behind everybody's back.
    pub(crate) async fn meddle(&self, sql: &'static str) {
        let store = self.store().await;
        store
            .write(move |tx| tx.execute(sql, &[]).map(drop))
            .await
            .map_err(|error: longhaul_store::StoreError| error)
            .unwrap();
    }

    pub(crate) async fn store(&self) -> Store {
        let [dir, url] = self.address();
        open(&dir, &url, Faults::new()).await
    }

    pub(crate) async fn runtime(&self) -> Runtime {
        Runtime::new(self.store().await, Ambient::system())
    }

    pub(crate) async fn operator(&self) -> Operator {
        Operator::over(self.store().await, Ambient::system(), Scope::single_user(), "tester".to_owned())
    }

    /// Everything in the store, as text.
    pub(crate) async fn everything(&self) -> Vec<String> {
        const TABLES: [(&str, &str); 11] = [
            ("executions", "execution_id || status || updated_at"),
            ("checkpoints", "execution_id || ns || superstep || data || at"),
            ("snapshots", "execution_id || ns || superstep || state"),
            ("tasks_done", "execution_id || ns || superstep || task || updates"),
            ("steps", "execution_id || ns || superstep || task || ordinal || result"),
            ("effects", "execution_id || ns || superstep || task || ordinal || intent_at"),
            ("waits", "wait_id || status || payload"),
            ("answers", "wait_id || attempt || outcome"),
            ("leases", "thread_id || token"),
            ("events", "event_id || kind || data"),
            ("records", "record_id || digest || summary"),
        ];
        let store = self.store().await;
        let read = store.read(|read| {
            let mut all = Vec::new();
            for (table, columns) in TABLES {
                let sql = format!("SELECT '{table} ' || {columns} FROM {table} ORDER BY 1");
                all.extend(read.query(&sql, &[], |row| row.get::<String>(0))?);
            }
            Ok::<_, longhaul_store::StoreError>(all)
        });
        read.await.unwrap()
    }
}

pub(crate) async fn open(dir: &str, url: &str, faults: Faults) -> Store {
    let settings = if url.is_empty() { StoreSettings::new(dir) } else { StoreSettings::from_url(url, dir).unwrap() };
    Store::open_with_faults(settings, Ambient::system(), &SETS, faults).await.unwrap()
}

/// One task of the single user, with ids of its own.
pub(crate) fn scope() -> TaskScope {
    TaskScope {
        scope: Scope::single_user(),
        session: "sess_1".parse().unwrap(),
        task: "task_1".parse().unwrap(),
        trace: "trace_1".parse().unwrap(),
    }
}

/// Makes one test a store of an `async fn name(ground: Ground)`.
macro_rules! on_both {
    ($($test:ident),+ $(,)?) => {
        mod file {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    super::$test(crate::ground::Ground::file()).await;
                }
            )+
        }
        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $test() {
                    super::$test(crate::ground::Ground::postgres()).await;
                }
            )+
        }
    };
}
pub(crate) use on_both;
