//! What every test needs: a store in a folder of its own, and a task to write about.

use longhaul_core::{Ambient, Digest, Scope, TaskScope};
use longhaul_store::{Migrations, Store, StoreError, StoreSettings, tasks, values};
use serde_json::json;

pub(crate) const NOTES: Migrations = Migrations {
    component: "notes",
    steps: &["CREATE TABLE notes (tenant_id TEXT NOT NULL, n INTEGER NOT NULL, text TEXT NOT NULL,
              PRIMARY KEY (tenant_id, n)) STRICT;
              CREATE TABLE pictures (tenant_id TEXT NOT NULL, n INTEGER NOT NULL, digest TEXT,
              PRIMARY KEY (tenant_id, n)) STRICT;
              INSERT INTO blob_references VALUES ('notes', 'SELECT tenant_id, digest FROM pictures');"],
};

/// A folder for thousands of commits or openings: in memory where there is such a place, as what these tests are about
/// is not the disk.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

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

/// Puts a picture and commits a row that refers to it.
pub(crate) async fn kept_note(store: &Store, n: i64) -> Digest {
    let scope = Scope::single_user();
    let digest = store.blobs().put(&scope, format!("picture {n}")).await.unwrap();
    let params = values![&scope.tenant, n, &digest];
    let insert = "INSERT INTO pictures VALUES (?1, ?2, ?3)";
    store.write(move |tx| tx.execute(insert, &params)).await.map_err(|error: StoreError| error).unwrap();
    digest
}

/// The pictures that rows refer to.
pub(crate) async fn pictures(store: &Store) -> Vec<(i64, Digest)> {
    let sql = "SELECT n, digest FROM pictures ORDER BY n";
    let rows = store.read(move |read| read.query(sql, &[], |row| Ok((row.get(0)?, row.get(1)?))));
    rows.await.map_err(|error: StoreError| error).unwrap()
}

/// Text that gains much by compression.
pub(crate) fn text(bytes: usize) -> Vec<u8> {
    let lines = (0..).map(|n| format!("{n} 港は六時に開く, the harbour opens at six\n"));
    lines.flat_map(String::into_bytes).take(bytes).collect()
}

/// Bytes that gain nothing by it.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    (0_u64..).flat_map(|n| *Digest::of(n.to_le_bytes()).as_bytes()).take(bytes).collect()
}

/// A reader that fails after these bytes, as a connection does.
pub(crate) struct Broken<'a>(pub(crate) &'a [u8]);

impl tokio::io::AsyncRead for Broken<'_> {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        to: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        if self.0.is_empty() {
            return std::task::Poll::Ready(Err(std::io::ErrorKind::ConnectionReset.into()));
        }
        let (now, later) = self.0.split_at(self.0.len().min(to.remaining()));
        to.put_slice(now);
        self.0 = later;
        std::task::Poll::Ready(Ok(()))
    }
}
