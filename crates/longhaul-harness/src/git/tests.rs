//! The repository as the harness uses it: commits found again, hooks of others, what git must not meet.

use std::fs;

use super::*;

async fn repository() -> (tempfile::TempDir, Git) {
    let dir = tempfile::tempdir().unwrap();
    let git = Git::of_project(dir.path());
    git.init().await.unwrap();
    (dir, git)
}

#[tokio::test]
async fn a_step_that_runs_again_finds_its_commit() {
    let (dir, git) = repository().await;
    fs::write(dir.path().join("a"), "1").unwrap();
    let first = git.commit_once("exec_1/code/1/commit#3", "feat: a\n\nwith 한국어").await.unwrap();
    fs::write(dir.path().join("a"), "half done").unwrap();
    fs::write(dir.path().join("b"), "half done").unwrap();
    let again = git.commit_once("exec_1/code/1/commit#3", "feat: a").await.unwrap();
    assert_eq!(first, again);
    assert_eq!(git.log(10).await.unwrap().len(), 1);
    assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "1");
    let other = git.commit_once("exec_1/code/2/commit#3", "feat: b").await.unwrap();
    assert_ne!(first, other);
    assert!(git.contains(&first.id).await.unwrap());
    assert!(!git.contains(&"0".repeat(40)).await.unwrap());
}

#[tokio::test]
async fn hooks_and_locks_of_others_do_not_matter() {
    let (dir, git) = repository().await;
    let hook = dir.path().join(".git/hooks/pre-commit");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    fs::write(dir.path().join(".git/index.lock"), "").unwrap();
    assert!(git.commit_once("s", "m").await.is_err(), "a lock of a living process is respected");
    git.clear_stale_locks();
    git.commit_once("s", "m").await.unwrap();
}

#[tokio::test]
async fn unfinished_work_is_a_patch_with_its_new_files() {
    let (dir, git) = repository().await;
    fs::write(dir.path().join("a"), "1\n").unwrap();
    git.commit_once("s", "m").await.unwrap();
    assert_eq!(git.patch_since_tip().await.unwrap(), b"");
    fs::write(dir.path().join("a"), "2\n").unwrap();
    fs::write(dir.path().join("latin"), b"caf\xe9\n").unwrap();
    fs::write(dir.path().join("new"), "n\n").unwrap();
    let patch = git.patch_since_tip().await.unwrap();
    git.reset_to_tip().await.unwrap();
    assert!(!dir.path().join("latin").exists());
    let kept = tempfile::NamedTempFile::new().unwrap();
    fs::write(kept.path(), &patch).unwrap();
    git.run(&["apply", kept.path().to_str().unwrap()]).await.unwrap();
    assert_eq!(fs::read(dir.path().join("latin")).unwrap(), b"caf\xe9\n");
    assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "2\n");
    assert_eq!(fs::read_to_string(dir.path().join("new")).unwrap(), "n\n");
    git.reset_to_tip().await.unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "1\n");
    assert!(!dir.path().join("new").exists());
}
