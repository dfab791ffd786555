//! Files as power cuts and bad disks leave them: what was committed before is there, or the error says what is wrong.

use std::{fs, path::Path};

use longhaul_core::{Ambient, Rng, SeededRng};
use longhaul_store::{Store, StoreError, StoreSettings, values};
use rusqlite::{Connection, config::DbConfig};

use crate::support::{NOTES, kept_note, notes, open, scratch};

/// What SQLite makes of the files, without touching them more than it must.
fn notes_in(db: &Path) -> rusqlite::Result<Vec<i64>> {
    let connection = Connection::open(db)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let mut statement = connection.prepare("SELECT n FROM notes ORDER BY n")?;
    statement.query_map([], |row| row.get(0))?.collect()
}

#[tokio::test]
async fn a_log_cut_at_any_byte_holds_every_commit_before_the_cut() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let file = |name: &str| fs::read(dir.path().join(name)).unwrap();
    // The log holds what follows and nothing else.
    let other = Connection::open(dir.path().join("longhaul.db")).unwrap();
    other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    // Each commit with the length of the log that holds it.
    let mut commits = vec![(0, file("longhaul.db-wal").len())];
    for n in 1..=4_i64 {
        // The last one is of several pages.
        let text = if n == 4 { "x".repeat(5000) } else { "x".to_owned() };
        let params = values![n, text];
        store.write(move |tx| tx.execute("INSERT INTO notes VALUES ('a', ?1, ?2)", &params)).await.unwrap();
        commits.push((n, file("longhaul.db-wal").len()));
    }
    let (db, wal) = (file("longhaul.db"), file("longhaul.db-wal"));
    drop(store);
    assert!(commits.windows(2).all(|pair| pair[0].1 < pair[1].1), "{commits:?}");
    let whole =
        |cut: usize| commits.iter().filter(|(n, end)| *n > 0 && *end <= cut).map(|(n, _)| *n).collect::<Vec<_>>();

    // Every byte of the last commit, and of the end of the one before. Looking at it changes nothing in the log.
    let torn = scratch();
    let path = torn.path().join("longhaul.db");
    fs::write(&path, &db).unwrap();
    fs::write(torn.path().join("longhaul.db-wal"), &wal).unwrap();
    let log = fs::File::options().write(true).open(torn.path().join("longhaul.db-wal")).unwrap();
    for cut in (commits[3].1 - 40..=wal.len()).rev() {
        log.set_len(cut as u64).unwrap();
        assert_eq!(notes_in(&path).unwrap(), whole(cut), "cut at {cut} of {}", wal.len());
    }
    // With the store itself at some of them, and anywhere else; it also goes on from there.
    for cut in (0..=wal.len()).rev().step_by(777) {
        let torn = scratch();
        fs::write(torn.path().join("longhaul.db"), &db).unwrap();
        fs::write(torn.path().join("longhaul.db-wal"), &wal[..cut]).unwrap();
        let opened = Store::open(StoreSettings::new(torn.path()), Ambient::system(), &[NOTES]).await.unwrap();
        assert_eq!(notes(&opened).await, whole(cut), "cut at {cut} of {}", wal.len());
        opened.write(|tx| tx.execute("INSERT INTO notes VALUES ('a', 9, 'x')", &[])).await.unwrap();
        let report = opened.verify(&[]).await.unwrap();
        assert!(report.is_sound(), "cut at {cut}: {report}");
    }
}

/// A store's file with rows of several kinds, everything in it and nothing in the log.
async fn settled() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    for n in 0..10 {
        kept_note(&store, n).await;
    }
    let fill = store.write(|tx| {
        for n in 0..300 {
            tx.execute("INSERT INTO notes VALUES ('a', ?1, ?2)", &values![n, "x".repeat(100)])?;
        }
        Ok::<_, StoreError>(())
    });
    fill.await.unwrap();
    store.backup(&dir.path().join("copy"), |_| {}).await.map(|backup| assert!(backup.lacking.is_empty())).unwrap();
    fs::read(dir.path().join("copy/longhaul.db")).unwrap()
}

/// What opening, reading and verifying this file comes to: the first error, or what was found.
async fn told(db: &[u8]) -> Result<Vec<String>, StoreError> {
    let dir = scratch();
    fs::write(dir.path().join("longhaul.db"), db).unwrap();
    let store = Store::open(StoreSettings::new(dir.path()), Ambient::system(), &[NOTES]).await?;
    store.read(|read| read.query("SELECT n FROM notes", &[], |row| row.get::<i64>(0))).await?;
    let report = store.verify(&[]).await?;
    // The pictures' files are not there.
    let found = report.findings.into_iter().filter(|finding| !finding.check.starts_with("every blob"));
    Ok(found.map(|finding| finding.what).collect())
}

#[tokio::test]
async fn a_damaged_page_is_always_told() {
    let sound = settled().await;
    assert!(told(&sound).await.unwrap().is_empty());
    for page in 0..sound.len() / 4096 {
        // The kind of the page; on the first one it follows the file's header.
        let at = page * 4096 + if page == 0 { 100 } else { 0 };
        let mut db = sound.clone();
        db[at] ^= 0x50;
        match told(&db).await {
            Err(error) => assert!(matches!(error, StoreError::Corrupt { .. }), "page {page}: {error:?}"),
            Ok(found) => assert!(!found.is_empty(), "page {page}"),
        }
    }
}

#[tokio::test]
async fn a_flipped_bit_anywhere_is_an_error_or_harmless_and_never_a_panic() {
    let sound = settled().await;
    let random = SeededRng::new(7);
    let mut told_of = 0;
    for turn in 0..150 {
        let bits = sound.len() as u64 * 8;
        // Each byte of the header once, then anywhere.
        let bit = if turn < 100 { turn * 8 + random.next_u64() % 8 } else { random.next_u64() % bits };
        let mut db = sound.clone();
        db[usize::try_from(bit / 8).unwrap()] ^= 1 << (bit % 8);
        match told(&db).await {
            Ok(found) => told_of += u32::from(!found.is_empty()),
            Err(error) => {
                told_of += 1;
                let names_the_damage =
                    matches!(error, StoreError::Corrupt { .. } | StoreError::Column { .. } | StoreError::Newer { .. });
                assert!(names_the_damage, "bit {bit}: {error:?}");
            }
        }
    }
    assert!(told_of > 10, "{told_of}");
}
