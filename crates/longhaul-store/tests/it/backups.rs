//! A backup is the whole store of one moment, or it is not there.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use longhaul_core::{Digest, Scope};
use longhaul_store::{Store, StoreError, values};

use crate::support::{kept_note, notes, open, open_in_memory, pictures};

const FROM: &str = "LONGHAUL_TEST_BACKUP_FROM";
const TO: &str = "LONGHAUL_TEST_BACKUP_TO";

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn made_among_writers_it_is_of_one_moment_with_all_its_blobs() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("home")).await;
    // Enough pages for several turns of the copying.
    let fill = |n: i64| {
        store.write(move |tx| {
            for k in 0..100 {
                let text = "x".repeat(1000);
                tx.execute("INSERT INTO notes VALUES ('filler', ?1, ?2)", &values![n * 100 + k, text])?;
            }
            Ok::<_, StoreError>(())
        })
    };
    for n in 0..100 {
        fill(n).await.unwrap();
    }
    kept_note(&store, 0).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (store, stop) = (store.clone(), stop.clone());
            tokio::spawn(async move {
                let mut n = writer;
                while !stop.load(Ordering::Relaxed) {
                    n += 4;
                    kept_note(&store, n).await;
                }
                n
            })
        })
        .collect();
    let to = dir.path().join("backups/today");
    let (heard, reports) = std::sync::mpsc::channel();
    let backup = store.backup(&to, move |progress| heard.send(progress).unwrap()).await.unwrap();
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!((&backup.path, backup.lacking.len()), (&to, 0));
    let reports: Vec<_> = reports.iter().collect();
    assert!(reports.len() > 3 && reports.windows(2).all(|pair| pair[0].pages <= pair[1].pages), "{reports:?}");
    let last = reports.last().unwrap();
    assert_eq!((last.pages, last.blobs, last.blobs), (last.pages_total, last.blobs_total, backup.blobs));
    assert_eq!(names(&dir.path().join("backups")), ["today"]);
    // It opens as a store, is sound, and every picture it refers to is there, whatever was written meanwhile.
    let restored = open(&to).await;
    let report = restored.verify(&[]).await.unwrap();
    assert!(report.is_sound(), "{report}");
    let taken = pictures(&restored).await;
    assert!(!taken.is_empty() && taken.len() <= pictures(&store).await.len());
    for (n, digest) in taken {
        let content = restored.blobs().get(&Scope::single_user(), &digest).await.unwrap();
        assert_eq!(content, format!("picture {n}").as_bytes());
    }
    kept_note(&restored, 1_000_000).await;
}

#[tokio::test]
async fn only_a_new_or_an_empty_folder_takes_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("home")).await;
    kept_note(&store, 1).await;
    let to = dir.path().join("backup");
    std::fs::create_dir(&to).unwrap();
    std::fs::write(to.join("precious"), "mine").unwrap();
    let refused = store.backup(&to, |_| {}).await;
    assert!(matches!(&refused, Err(StoreError::NotEmpty { path }) if *path == to), "{refused:?}");
    std::fs::remove_file(to.join("precious")).unwrap();
    assert!(store.backup(&to, |_| {}).await.unwrap().lacking.is_empty());
    assert_eq!(pictures(&open(&to).await).await.len(), 1);
    assert!(matches!(store.backup(&to, |_| {}).await, Err(StoreError::NotEmpty { .. })));
    assert_eq!(names(dir.path()), ["backup", "home"]);
}

#[tokio::test]
async fn what_was_lost_before_is_told_and_the_rest_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("home")).await;
    let scope = Scope::single_user();
    let (missing, damaged) = (kept_note(&store, 1).await, kept_note(&store, 2).await);
    kept_note(&store, 3).await;
    std::fs::remove_file(store.blobs().path(&scope, &missing)).unwrap();
    std::fs::write(store.blobs().path(&scope, &damaged), "picture X").unwrap();
    let backup = store.backup(&dir.path().join("backup"), |_| {}).await.unwrap();
    let lacking = |digest: Digest| {
        let is_told = |error: &StoreError| {
            matches!(error, StoreError::BlobMissing { digest: found, .. } | StoreError::BlobDamaged { digest: found, .. }
                if *found == digest)
        };
        backup.lacking.iter().any(is_told)
    };
    assert!(backup.lacking.len() == 2 && lacking(missing) && lacking(damaged), "{backup:?}");
    assert_eq!((backup.blobs, pictures(&open(&backup.path).await).await.len()), (1, 3));
}

#[tokio::test]
async fn a_store_in_memory_is_kept_by_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_in_memory().await;
    let digest = kept_note(&store, 7).await;
    let backup = store.backup(&dir.path().join("backup"), |_| {}).await.unwrap();
    drop(store);
    let kept = open(&backup.path).await;
    assert_eq!(kept.blobs().get(&Scope::single_user(), &digest).await.unwrap(), b"picture 7");
    assert_eq!(pictures(&kept).await, [(7, digest)]);
    assert_eq!(notes(&kept).await, [0_i64; 0]);
}

/// Killed in the middle of the pages, and in the middle of the blobs.
#[tokio::test]
async fn a_killed_backup_is_none_and_is_cleared_away_by_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let (home, to) = (dir.path().join("home"), dir.path().join("backup"));
    let store = open(&home).await;
    for n in 0..5 {
        kept_note(&store, n).await;
    }
    for stage in ["pages", "blobs"] {
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "backups::victim_process", "--nocapture"])
            .env(FROM, &home)
            .env(TO, format!("{stage}:{}", to.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().ends_with("half-way")), "{stage}");
        // While it is alive nobody takes its work away.
        let abandoned = names(dir.path());
        assert_eq!(abandoned.len(), 2, "{abandoned:?}");
        let elsewhere = dir.path().join("backup");
        assert!(!elsewhere.exists());
        victim.kill().unwrap();
        victim.wait().unwrap();
        assert_eq!(names(dir.path()), abandoned, "a killed process cannot have cleared away");
    }
    // The first one's remains went when the second one began.
    assert_eq!(names(dir.path()).len(), 2);
    assert!(store.backup(&to, |_| {}).await.unwrap().lacking.is_empty());
    assert_eq!(names(dir.path()), ["backup", "home"]);
    assert_eq!(pictures(&open(&to).await).await.len(), 5);
}

/// Not a test by itself: the process that the test above kills.
#[tokio::test]
async fn victim_process() {
    let (Some(from), Ok(to)) = (std::env::var_os(FROM), std::env::var(TO)) else { return };
    let (stage, to) = to.split_once(':').unwrap();
    let at_blobs = stage == "blobs";
    let store: Store = open(from.as_ref()).await;
    let halt = move |progress: longhaul_store::BackupProgress| {
        if if at_blobs { progress.blobs == 2 } else { progress.pages > 0 } {
            println!("half-way");
            // Ends when the parent kills it, or ends itself.
            std::io::stdin().read_line(&mut String::new()).unwrap();
        }
    };
    let _ = store.backup(to.as_ref(), halt).await;
}
