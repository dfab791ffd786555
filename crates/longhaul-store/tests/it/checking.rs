//! A verification finds what is wrong, says what to do, and changes nothing; a sweep removes what nobody needs.

use std::time::{Duration, SystemTime};

use longhaul_core::{Digest, Scope};
use longhaul_store::{Check, Look, Severity, Store, StoreError, Swept, values};

use crate::{
    contract::Ground,
    support::{kept_note, open, open_in_memory, pictures},
};

const EVEN: Check = Check {
    component: "notes",
    name: "every note has an even number",
    advice: "renumber it",
    look: Look::Sql("SELECT 'note ' || n FROM notes WHERE n % 2 = 1 ORDER BY n"),
};
const CODE: Check = Check {
    component: "notes",
    name: "there are at most two notes",
    advice: "throw some away",
    look: Look::Code(|read| {
        let notes = read.query_one("SELECT count(*) FROM notes", &[], |row| row.get::<i64>(0))?;
        Ok(if notes > 2 { vec![format!("there are {notes} notes")] } else { Vec::new() })
    }),
};
const BROKEN: Check = Check { look: Look::Sql("SELECT x FROM nowhere"), ..EVEN };

/// Makes the file look as if it had last been put this long ago.
fn age(store: &Store, digest: &Digest, by: Duration) {
    let path = store.blobs().path(&Scope::single_user(), digest);
    // It may have been swept already.
    let Ok(file) = std::fs::File::options().write(true).open(path) else { return };
    let now = file.metadata().unwrap().modified().unwrap();
    file.set_modified(now.checked_sub(by).unwrap_or(SystemTime::UNIX_EPOCH)).unwrap();
}

#[tokio::test]
async fn a_sound_store_is_called_sound_and_foreign_checks_are_made() {
    for store in [open_in_memory().await, open(&tempfile::tempdir().unwrap().keep()).await] {
        kept_note(&store, 1).await;
        store.write(|tx| tx.execute("INSERT INTO notes VALUES ('a', 2, 'x')", &[])).await.unwrap();
        let report = store.verify(&[EVEN, CODE]).await.unwrap();
        assert_eq!(report.to_string(), "sound: 8 checks made, 1 blobs read");
        store.write(|tx| tx.execute("INSERT INTO notes VALUES ('a', 3, 'x'), ('a', 5, 'x')", &[])).await.unwrap();
        let report = store.verify(&[EVEN, BROKEN, CODE]).await.unwrap();
        let found: Vec<_> = report.findings.iter().map(|finding| (finding.check, finding.what.as_str())).collect();
        assert_eq!(found[..2], [(EVEN.name, "note 3"), (EVEN.name, "note 5")]);
        assert!(found[2].1.starts_with("could not be looked at: ") && found[2].1.contains("nowhere"), "{found:?}");
        // What one check cannot do does not keep the next one from looking.
        assert_eq!(found[3..], [(CODE.name, "there are 3 notes")]);
        assert!(!report.is_sound() && report.to_string().contains("what to do: renumber it"), "{report}");
        if let longhaul_store::Place::Folder(dir) = store.place() {
            std::fs::remove_dir_all(dir).unwrap();
        }
    }
}

#[tokio::test]
async fn blobs_that_are_lost_damaged_or_not_needed_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let scope = Scope::single_user();
    let (missing, damaged, fine) = (kept_note(&store, 1).await, kept_note(&store, 2).await, kept_note(&store, 3).await);
    let (young, old) =
        (store.blobs().put(&scope, "young").await.unwrap(), store.blobs().put(&scope, "old").await.unwrap());
    std::fs::remove_file(store.blobs().path(&scope, &missing)).unwrap();
    std::fs::write(store.blobs().path(&scope, &damaged), "picture X").unwrap();
    for digest in [&old, &fine] {
        age(&store, digest, Duration::from_secs(24 * 60 * 60));
    }
    std::fs::write(dir.path().join("blobs/README"), "a person was here").unwrap();
    let report = store.verify(&[]).await.unwrap();
    let told = |digest: &Digest| {
        let hex = digest.hex();
        report.findings.iter().filter(|found| found.what.contains(&hex)).map(|found| found.severity).collect::<Vec<_>>()
    };
    assert_eq!((told(&missing), told(&damaged)), (vec![Severity::Damage], vec![Severity::Damage]), "{report}");
    assert_eq!((told(&old), told(&young), told(&fine)), (vec![Severity::Waste], vec![], vec![]), "{report}");
    assert!(report.to_string().contains("README is no blob"), "{report}");
    assert_eq!(report.findings.len(), 4, "{report}");
    // Nothing was changed: the same is found again.
    assert_eq!(store.verify(&[]).await.unwrap(), report);
    // Putting the same content again mends what is damaged and what is missing.
    for n in [1, 2] {
        store.blobs().put(&scope, format!("picture {n}")).await.unwrap();
    }
    assert!(store.verify(&[]).await.unwrap().is_sound());
}

#[tokio::test]
async fn rows_without_parents_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let other = rusqlite::Connection::open(dir.path().join("longhaul.db")).unwrap();
    other.execute_batch("PRAGMA foreign_keys = OFF; INSERT INTO users VALUES ('tenant_x', 'user_x', 1)").unwrap();
    let report = store.verify(&[]).await.unwrap();
    assert!(
        report.to_string().starts_with("damage: row 1 of users refers to a row of tenants that is not there\n"),
        "{report}"
    );
}

#[tokio::test]
async fn a_sweep_removes_what_is_old_and_needed_by_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let scope = Scope::single_user();
    let (hour, day) = (Duration::from_secs(60 * 60), Duration::from_secs(24 * 60 * 60));
    let needed = kept_note(&store, 1).await;
    let put = |text: &'static str| store.blobs().put(&scope, text);
    let (young, old, again) = (put("young").await.unwrap(), put("old").await.unwrap(), put("again").await.unwrap());
    for digest in [&needed, &old, &again] {
        age(&store, digest, day);
    }
    // Whoever puts it now relies on it again.
    put("again").await.unwrap();
    let leftover = store.blobs().path(&scope, &old).with_extension("tmp-dead");
    std::fs::write(&leftover, "half of").unwrap();
    std::fs::File::options().write(true).open(&leftover).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let swept = store.sweep_blobs(hour).await.unwrap();
    assert_eq!(swept, Swept { removed: 1, bytes: 3, leftovers: 1, kept: 3 });
    for (digest, is_there) in [(needed, true), (young, true), (again, true), (old, false)] {
        assert_eq!(store.blobs().get(&scope, &digest).await.is_ok(), is_there);
    }
    assert!(!leftover.exists());
    // A row that goes takes its blob along, in time.
    store.write(|tx| tx.execute("DELETE FROM pictures", &[])).await.unwrap();
    assert_eq!(store.sweep_blobs(hour).await.unwrap().removed, 1);
}

#[tokio::test]
async fn a_sweep_in_memory_does_the_same() {
    let store = open_in_memory().await;
    kept_note(&store, 1).await;
    store.blobs().put(&Scope::single_user(), "loose").await.unwrap();
    assert_eq!(store.sweep_blobs(Duration::from_secs(60)).await.unwrap(), Swept { kept: 2, ..Swept::default() });
    let (removed, mut tries) = (async || store.sweep_blobs(Duration::ZERO).await.unwrap().removed, 0);
    // As soon as its clock has moved on.
    while removed().await == 0 {
        tries += 1;
        assert!(tries < 1_000_000);
        tokio::task::yield_now().await;
    }
    assert_eq!(pictures(&store).await.len(), 1);
    assert_eq!(store.verify(&[]).await.unwrap().blobs, 1);
}

#[tokio::test]
async fn nothing_is_swept_as_long_as_nobody_says_what_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let digest = store.blobs().put(&Scope::single_user(), "loose").await.unwrap();
    age(&store, &digest, Duration::from_secs(24 * 60 * 60));
    store.write(|tx| tx.execute("DELETE FROM blob_references", &[])).await.unwrap();
    let refused = store.sweep_blobs(Duration::ZERO).await;
    assert!(matches!(refused, Err(StoreError::NoBlobReferences { .. })), "{refused:?}");
    assert!(store.verify(&[]).await.unwrap().findings.is_empty());
    store.blobs().get(&Scope::single_user(), &digest).await.unwrap();
}

/// Blobs are put, referred to, forgotten and swept all at once: whatever a row refers to is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweeping_among_writers_takes_nothing_that_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await;
    let hour = Duration::from_secs(60 * 60);
    let writers: Vec<_> = (0..4_i64)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let content = |turn: i64| format!("writer {writer}, picture {}", turn % 4);
                for turn in 0..40 {
                    let digest = store.blobs().put(&Scope::single_user(), content(turn)).await.unwrap();
                    let forgotten = values![writer * 100 + turn - 2];
                    let insert = values![writer * 100 + turn, &digest];
                    store
                        .write(move |tx| {
                            tx.execute("DELETE FROM pictures WHERE n = ?1", &forgotten)?;
                            tx.execute("INSERT INTO pictures VALUES ('tenant_default', ?1, ?2)", &insert)
                        })
                        .await
                        .map_err(|error: StoreError| error)
                        .unwrap();
                    // What is not needed any more is old enough to go; two turns later it is put again.
                    if turn >= 2 {
                        age(&store, &Digest::of(content(turn - 2)), hour * 2);
                    }
                }
            })
        })
        .collect();
    let mut removed = 0;
    while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
        removed += store.sweep_blobs(hour).await.unwrap().removed;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    removed += store.sweep_blobs(hour).await.unwrap().removed;
    assert!(removed > 0);
    let report = store.verify(&[]).await.unwrap();
    assert!(report.findings.is_empty(), "{report}");
    assert_eq!(pictures(&store).await.len(), 8);
}

#[tokio::test]
async fn on_postgresql_blobs_are_swept_and_everything_is_verified_too() {
    let ground = Ground::postgres();
    let store = ground.open().await;
    let scope = Scope::single_user();
    let (needed, hour) = (kept_note(&store, 1).await, Duration::from_secs(60 * 60));
    let (old, again) =
        (store.blobs().put(&scope, "old").await.unwrap(), store.blobs().put(&scope, "again").await.unwrap());
    store.write(|tx| tx.execute("UPDATE blobs SET created_at = 1", &[])).await.unwrap();
    store.blobs().put(&scope, "again").await.unwrap();
    let report = store.verify(&[EVEN, CODE, BROKEN]).await.unwrap();
    let found: Vec<_> = report.findings.iter().map(|finding| (finding.severity, finding.what.clone())).collect();
    assert!(found[0].1.starts_with("could not be looked at: "), "{report}");
    assert!(matches!(&found[1..], [(Severity::Waste, what)] if what.contains(&old.hex())), "{report}");
    assert_eq!(report.blobs, 3);
    assert_eq!(store.sweep_blobs(hour).await.unwrap(), Swept { removed: 1, bytes: 3, leftovers: 0, kept: 2 });
    for (digest, is_there) in [(needed, true), (again, true), (old, false)] {
        assert_eq!(store.blobs().get(&scope, &digest).await.is_ok(), is_there);
    }
    assert!(store.verify(&[]).await.unwrap().findings.is_empty());
    store.write(|tx| tx.execute("UPDATE blobs SET content = ?1", &values![vec![7_u8]])).await.unwrap();
    let report = store.verify(&[]).await.unwrap();
    assert!(!report.is_sound() && report.findings.len() == 2, "{report}");
    store.write(|tx| tx.execute("DELETE FROM blobs", &[])).await.unwrap();
    let report = store.verify(&[]).await.unwrap();
    assert!(matches!(&report.findings[..], [lost] if lost.what.contains(&needed.hex())), "{report}");
    let refused = store.backup(&tempfile::tempdir().unwrap().path().join("backup"), |_| {}).await;
    assert!(matches!(refused, Err(StoreError::BackedUpElsewhere { .. })), "{refused:?}");
}
