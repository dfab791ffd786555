//! What happens when a folder is opened that is new, in use, newer, damaged or out of reach.

use std::{os::unix::fs::PermissionsExt, path::Path};

use longhaul_core::Ambient;
use longhaul_store::{Migrations, Store, StoreError, StoreSettings, values};

use crate::support::{notes, open};

async fn error_of(dir: &Path, migrations: &[Migrations]) -> StoreError {
    Store::open(StoreSettings::new(dir), Ambient::system(), migrations).await.expect_err("the store was opened")
}

#[tokio::test]
async fn a_new_store_is_private_to_its_user() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("deep/home");
    let store = open(&home).await;
    store.write(|tx| tx.execute("INSERT INTO notes VALUES ('a', 1, 'x')", &[])).await.unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    for dir in ["", "blobs", "locks"] {
        assert_eq!(mode(&home.join(dir)), 0o700, "{dir}");
    }
    for file in ["longhaul.db", "longhaul.db-wal", "longhaul.db-shm", "locks/open.lock"] {
        assert_eq!(mode(&home.join(file)), 0o600, "{file}");
    }
}

#[tokio::test]
async fn a_damaged_file_is_named_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("longhaul.db"), "this is no database, ".repeat(500)).unwrap();
    let error = error_of(dir.path(), &[]).await;
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    let path = dir.path().join("longhaul.db");
    assert!(error.to_string().contains(&format!("mv {}", path.display())), "{error}");
}

#[tokio::test]
async fn damage_found_later_is_an_error_too() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store
        .write(|tx| {
            for n in 0..2000 {
                tx.execute("INSERT INTO notes VALUES ('a', ?1, ?2)", &values![n, "x".repeat(200)])?;
            }
            Ok::<_, StoreError>(())
        })
        .await
        .unwrap();
    drop(store);
    // Without the log everything is in the file; what is behind the schema is overwritten.
    let path = dir.path().join("longhaul.db");
    settle(&path);
    let mut bytes = std::fs::read(&path).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();
    let store = open(dir.path()).await;
    let read = store.read(|read| read.query("SELECT text FROM notes", &[], |row| row.get::<String>(0))).await;
    assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
}

/// Moves everything from the log into the database file, whoever else has just closed it.
fn settle(path: &Path) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

#[tokio::test]
async fn a_place_that_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("occupied");
    std::fs::write(&file, "").unwrap();
    let error = error_of(&file.join("home"), &[]).await;
    assert!(matches!(&error, StoreError::Io { path, .. } if path.ends_with("occupied/home")), "{error:?}");
}

#[tokio::test]
async fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    store.write(|tx| tx.execute("INSERT INTO notes VALUES ('a', 1, 'kept')", &[])).await.unwrap();
    // A limit on the number of pages makes SQLite meet the same error as a disk without space.
    let limit = "PRAGMA max_page_count = 40";
    store.write(move |tx| tx.query(limit, &[], |_| Ok(()))).await.unwrap();
    let error = store
        .write(|tx| tx.execute("INSERT INTO notes VALUES ('a', 2, ?1)", &values!["x".repeat(1 << 20)]))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");
    store.write(|tx| tx.execute("INSERT INTO notes VALUES ('a', 3, 'small')", &[])).await.unwrap();
    assert_eq!(notes(&store).await, [1, 3]);
}

#[tokio::test]
async fn two_openings_write_at_the_same_time() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = tokio::join!(open(dir.path()), open(dir.path()));
    let mut writes = Vec::new();
    for n in 0..100 {
        let store = if n % 2 == 0 { first.clone() } else { second.clone() };
        writes.push(tokio::spawn(async move {
            store.write(move |tx| tx.execute("INSERT INTO notes VALUES ('a', ?1, 'x')", &values![n])).await
        }));
    }
    for write in writes {
        assert_eq!(write.await.unwrap().unwrap(), 1);
    }
    assert_eq!(notes(&first).await, (0..100).collect::<Vec<_>>());
}
