//! The project on another machine: its commits travel through a git remote, everything else through the shared store.
//!
//! It owns which remote a project has, which machine works on it, and where its folder is on this one. Invariant: a
//! commit that the store knows has been offered to the remote before the store knew it, so that whoever takes the
//! project over finds it there, unless the remote could not be reached, which the log tells.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use longhaul_core::TaskScope;
use longhaul_store::{ReadTx, StoreError, Tx, values};

use crate::git::{Git, GitError};

const SCHEMA: i64 = 1;
/// Where the remote's branches are kept here.
const FETCHED: &str = "refs/longhaul/remote";
/// The note of where a project's folder is on this machine, in the task's folder beneath the home.
const NOTE: &str = "folder";

/// A project's remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// Its address, as git takes it.
    pub remote: String,
    /// The machine that worked on the project last.
    pub machine: Option<String>,
    /// The last commit that the remote took.
    pub pushed: Option<String>,
}

/// Why an address is none for a remote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}; name a folder, or an https, ssh or git@host:path address")]
pub struct WrongRemote {
    what: &'static str,
}

/// Checks an address that a person gave.
///
/// # Errors
/// [`WrongRemote`] for what git would not take as an address, and for one that holds a password.
pub fn check_remote(text: &str) -> Result<String, WrongRemote> {
    let text = text.trim();
    let wrong = |what| Err(WrongRemote { what });
    if text.is_empty() || text.starts_with('-') || text.contains(['\n', '\0']) {
        return wrong("the remote is empty or no address");
    }
    if text.contains("::") {
        return wrong("the remote's address runs a program");
    }
    if let Some((_, rest)) = text.split_once("://") {
        let authority = rest.split('/').next().unwrap_or_default();
        let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
        if user.contains(':') {
            return wrong("the remote's address holds a password, which belongs to git's credential helper");
        }
    }
    Ok(text.to_owned())
}

/// Gives the project a remote, or another one.
///
/// # Errors
/// When the store cannot be written.
pub fn set(tx: &mut Tx<'_>, owner: &TaskScope, remote: &str, machine: &str) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(
        "insert into mirrors (tenant_id, task_id, remote, machine, at, schema) values (?1, ?2, ?3, ?4, ?5, ?6)
         on conflict (tenant_id, task_id) do update set remote = excluded.remote, at = excluded.at",
        &values![&owner.scope.tenant, &owner.task, remote, machine, now, SCHEMA],
    )?;
    Ok(())
}

/// The project's remote, if it has one.
///
/// # Errors
/// When the store cannot be read.
pub fn of(read: &ReadTx<'_>, owner: &TaskScope) -> Result<Option<Mirror>, StoreError> {
    let found = read.query(
        "select remote, machine, pushed from mirrors where tenant_id = ?1 and task_id = ?2",
        &values![&owner.scope.tenant, &owner.task],
        |row| Ok(Mirror { remote: row.get(0)?, machine: row.get(1)?, pushed: row.get(2)? }),
    )?;
    Ok(found.into_iter().next())
}

/// From now on this machine works on the project.
///
/// # Errors
/// When the store cannot be written.
pub fn worked_at(tx: &mut Tx<'_>, owner: &TaskScope, machine: &str) -> Result<(), StoreError> {
    tx.execute(
        "update mirrors set machine = ?3 where tenant_id = ?1 and task_id = ?2",
        &values![&owner.scope.tenant, &owner.task, machine],
    )?;
    Ok(())
}

/// The remote took this commit.
pub(crate) fn took(tx: &mut Tx<'_>, owner: &TaskScope, commit: &str) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(
        "update mirrors set pushed = ?3, at = ?4 where tenant_id = ?1 and task_id = ?2",
        &values![&owner.scope.tenant, &owner.task, commit, now],
    )?;
    Ok(())
}

/// Where the project's folder is on this machine, when that was noted; `task_dir` is the task's folder in the home.
#[must_use]
pub fn folder_here(task_dir: &Path) -> Option<PathBuf> {
    fs::read_to_string(task_dir.join(NOTE)).ok().filter(|text| !text.is_empty()).map(PathBuf::from)
}

/// Notes where the project's folder is on this machine.
///
/// # Errors
/// When the note cannot be written.
pub fn note_folder(task_dir: &Path, folder: &str) -> io::Result<()> {
    fs::create_dir_all(task_dir)?;
    fs::write(task_dir.join(NOTE), folder)
}

/// Offers the tip to the remote. What the remote has beyond `known`, the last commit that the store knows, is replaced
/// when the harness alone made it: a commit of a session that was killed before it counted.
pub(crate) async fn push(git: &Git, remote: &str, known: Option<&str>) -> Result<(), GitError> {
    let branch = git.branch().await?;
    let target = format!("HEAD:{branch}");
    let refused = match git.remote(&["push", "--quiet", "--no-verify", remote, &target]).await {
        Ok(()) => return Ok(()),
        Err(refused) => refused,
    };
    let (Some(known), Ok(())) = (known, fetch(git, remote).await) else { return Err(refused) };
    let theirs = format!("{FETCHED}/{}", branch.trim_start_matches("refs/heads/"));
    let Ok(tip) = git.run(&["rev-parse", "--verify", "--quiet", &theirs]).await else { return Err(refused) };
    if !git.all_ours(&format!("{known}..{theirs}")).await? {
        return Err(refused);
    }
    let lease = format!("--force-with-lease={branch}:{}", tip.trim());
    git.remote(&["push", "--quiet", "--no-verify", &lease, remote, &target]).await
}

/// Brings the commit from the remote when the repository does not have it; where nothing is checked out yet, checks it
/// out. Returns whether the repository has it now.
pub(crate) async fn bring(git: &Git, remote: Option<&str>, commit: &str) -> Result<bool, GitError> {
    if git.has(commit).await? {
        return Ok(true);
    }
    let Some(remote) = remote else { return Ok(false) };
    fetch(git, remote).await?;
    if !git.has(commit).await? {
        return Ok(false);
    }
    if git.head().await?.is_none() {
        git.run(&["update-ref", "refs/heads/main", commit]).await?;
        git.run(&["symbolic-ref", "HEAD", "refs/heads/main"]).await?;
        git.run(&["reset", "--quiet", "--hard", commit]).await?;
    }
    Ok(true)
}

async fn fetch(git: &Git, remote: &str) -> Result<(), GitError> {
    let all = format!("+refs/heads/*:{FETCHED}/*");
    git.remote(&["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", remote, &all]).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_run_programs_or_hold_passwords_are_refused() {
        for right in ["/srv/git/app.git", "https://example.org/a.git", "ssh://git@example.org/a", "git@example.org:a/b"]
        {
            assert_eq!(check_remote(right).as_deref(), Ok(right));
        }
        for wrong in ["", " ", "-u", "ext::sh -c x", "https://me:secret@example.org/a", "a\nb"] {
            assert!(check_remote(wrong).is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn what_a_killed_session_offered_is_replaced_and_what_a_person_pushed_is_not() {
        let place = tempfile::tempdir().unwrap();
        let remote = place.path().join("remote.git");
        let at = |name: &str| {
            let dir = place.path().join(name);
            fs::create_dir_all(&dir).unwrap();
            Git::of_project(&dir)
        };
        let (one, other) = (at("one"), at("other"));
        let made = std::process::Command::new("git").args(["init", "--quiet", "--bare"]).arg(&remote).status();
        assert!(made.unwrap().success());
        let remote = remote.to_str().unwrap();
        one.init().await.unwrap();
        let first = one.commit_once("s1", "counts").await.unwrap();
        push(&one, remote, None).await.unwrap();
        one.commit_once("s2", "did not count").await.unwrap();
        push(&one, remote, Some(&first.id)).await.unwrap();

        other.init().await.unwrap();
        assert!(!bring(&other, None, &first.id).await.unwrap());
        assert!(bring(&other, Some(remote), &first.id).await.unwrap());
        assert_eq!(other.head().await.unwrap().unwrap(), first);
        let second = other.commit_once("s3", "counts as well").await.unwrap();
        push(&other, remote, Some(&first.id)).await.unwrap();
        assert!(bring(&one, Some(remote), &second.id).await.unwrap());

        other.run(&["commit", "--quiet", "--allow-empty", "-m", "a person's"]).await.unwrap();
        push(&other, remote, Some(&second.id)).await.unwrap();
        one.run(&["reset", "--quiet", "--hard", &second.id]).await.unwrap();
        one.commit_once("s4", "beside it").await.unwrap();
        assert!(push(&one, remote, Some(&second.id)).await.is_err(), "a person's commit is not thrown away");
    }
}
