//! A disk that is full: what was acknowledged stays, the error says so, and with space again the work goes on.

use std::{
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Command, Output},
};

use longhaul_core::{Ambient, Scope};
use longhaul_store::{Store, StoreError, StoreSettings, values};

use crate::support::{NOTES, noise, notes, open};

const DIR: &str = "LONGHAUL_TEST_FULL_DIR";

/// Runs the child below in a shell that prepares its disk.
fn child(dir: &Path, prepare: &str) -> Output {
    let script = format!("{prepare} && exec \"$0\" --exact full_disk::writing_process --nocapture");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).arg(std::env::current_exe().unwrap()).env(DIR, dir);
    shell.output().unwrap()
}

fn succeeded(output: &Output, with: &str) -> bool {
    output.status.success() && String::from_utf8_lossy(&output.stdout).contains(with)
}

#[test]
fn a_file_that_may_not_grow_loses_nothing_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    // In blocks of 512 bytes; the signal that would end the process is ignored.
    let output = child(dir.path(), "trap '' XFSZ && ulimit -f 1600");
    assert!(succeeded(&output, "kept all"), "{output:?}");
}

#[test]
fn a_small_disk_that_is_full_loses_nothing_and_goes_on_with_space() {
    let dir = tempfile::tempdir().unwrap();
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let own = |command: &str| Command::new("unshare").args(["-m", "sh", "-c", command]).arg(dir.path()).output();
    let mount = "mount -t tmpfs -o size=2m tmpfs \"$0\"";
    // Only the superuser may mount, and not in every container: the test above is for everybody.
    if !is_root || !own(mount).is_ok_and(|output| output.status.success()) {
        return;
    }
    let script = format!("{mount} && exec \"$1\" --exact full_disk::writing_process --nocapture");
    let mut unshare = Command::new("unshare");
    unshare.args(["-m", "sh", "-c", &script]).arg(dir.path()).arg(std::env::current_exe().unwrap());
    let output = unshare.env(DIR, dir.path()).output().unwrap();
    assert!(succeeded(&output, "kept all") && succeeded(&output, "went on"), "{output:?}");
}

/// Not a test by itself: fills the disk that the tests above have prepared.
#[tokio::test]
async fn writing_process() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let dir = Path::new(&dir);
    let ballast = dir.join("ballast");
    std::fs::write(&ballast, vec![7; 400_000]).unwrap();
    let home = dir.join("home");
    let store = open(&home).await;
    let write = |n: i64| {
        let params = values![n, "x".repeat(10_000)];
        store.write(move |tx| tx.execute("INSERT INTO notes VALUES ('a', ?1, ?2)", &params))
    };
    let mut kept = Vec::new();
    let refused = loop {
        let n = i64::try_from(kept.len()).unwrap();
        assert!(n < 10_000, "the disk was never full");
        match write(n).await {
            Ok(_) => kept.push(n),
            Err(error) => break error,
        }
    };
    assert!(!kept.is_empty());
    // A limit on files is not a full disk, and both say what to look at.
    assert!(matches!(refused, StoreError::DiskFull { .. } | StoreError::Io { .. }), "{refused:?}");
    assert_eq!(notes(&store).await, kept);
    let is_full = matches!(refused, StoreError::DiskFull { .. });
    let (scope, content) = (Scope::single_user(), noise(1_000_000));
    let blob = store.blobs().put(&scope, content.clone()).await;
    let streamed = store.blobs().put_stream(&scope, content.as_slice()).await;
    if is_full {
        assert!(refused.to_string().contains("free some space"), "{refused}");
        assert!(matches!(blob, Err(StoreError::DiskFull { .. })), "{blob:?}");
        assert!(matches!(streamed, Err(StoreError::DiskFull { .. })), "{streamed:?}");
        let other = StoreSettings::new(dir.join("other"));
        let opened = Store::open(other, Ambient::system(), &[NOTES]).await;
        assert!(matches!(opened, Err(StoreError::DiskFull { .. })), "{opened:?}");
        std::fs::remove_dir_all(dir.join("other")).unwrap();
        std::fs::remove_file(&ballast).unwrap();
        let n = i64::try_from(kept.len()).unwrap();
        write(n).await.unwrap();
        kept.push(n);
        println!("went on");
    } else {
        assert!(matches!(blob, Err(StoreError::Io { .. })), "{blob:?}");
        assert!(matches!(streamed, Err(StoreError::Io { .. })), "{streamed:?}");
    }
    let report = store.verify(&[]).await.unwrap();
    assert!(report.findings.is_empty(), "{report}");
    drop(store);
    assert_eq!(notes(&open(&home).await).await, kept);
    println!("kept all");
}
