//! The project's git repository, as the harness uses it: outside the sandbox, with hooks, pagers and signing off.
//!
//! Invariant: a commit carries the id of the step that made it as a trailer, so a step that runs again after a crash
//! finds its own commit instead of making a second one.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{process::Command, time::Instant};

use crate::projections::GUARDED;

/// Trailer that names the step which made a commit.
const STEP_TRAILER: &str = "Longhaul-Step";

/// Why git could not do something.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no git.
    #[error("git could not be started; install it (`apt-get install git`) and run the command again")]
    Missing(#[source] std::io::Error),
    /// Git said no.
    #[error("git {verb} failed in {dir}: {message}")]
    Failed {
        /// The git command.
        verb: String,
        /// Where.
        dir: PathBuf,
        /// What git wrote on its error output, its last lines.
        message: String,
    },
}

/// One commit, as `log` shows it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Commit {
    /// Full id.
    pub id: String,
    /// First line of its message.
    pub subject: String,
}

impl Commit {
    /// The first ten characters of the id.
    #[must_use]
    pub fn short(&self) -> &str {
        self.id.get(..10).unwrap_or(&self.id)
    }
}

/// A repository with its work tree.
#[derive(Debug, Clone)]
pub struct Git {
    work_tree: PathBuf,
    git_dir: PathBuf,
    /// Time spent in git's processes, in microseconds; shared by clones.
    spent_us: Arc<AtomicU64>,
}

impl Git {
    /// The project's own repository in this folder.
    #[must_use]
    pub fn of_project(dir: &Path) -> Self {
        Self { work_tree: dir.to_owned(), git_dir: dir.join(".git"), spent_us: Arc::default() }
    }

    /// A repository elsewhere that looks at the same folder.
    #[must_use]
    pub(crate) fn beside(work_tree: &Path, git_dir: &Path) -> Self {
        Self { work_tree: work_tree.to_owned(), git_dir: git_dir.to_owned(), spent_us: Arc::default() }
    }

    /// Time spent in git's processes by this value and its clones, in milliseconds.
    pub(crate) fn spent_ms(&self) -> u64 {
        self.spent_us.load(Ordering::Relaxed) / 1_000
    }

    /// Makes the repository, with branch `main`; does nothing to an existing one.
    ///
    /// # Errors
    /// When git is missing or cannot write there.
    pub async fn init(&self) -> Result<(), GitError> {
        if self.git_dir.join("HEAD").exists() {
            return Ok(());
        }
        self.run(&["init", "--quiet", "--initial-branch=main"]).await.map(drop)
    }

    /// The commit at the tip, or none before the first.
    ///
    /// # Errors
    /// When the repository cannot be read.
    pub async fn head(&self) -> Result<Option<Commit>, GitError> {
        Ok(self.log(1).await?.into_iter().next())
    }

    /// The newest commits, newest first.
    ///
    /// # Errors
    /// When the repository cannot be read.
    pub async fn log(&self, most: usize) -> Result<Vec<Commit>, GitError> {
        if self.run(&["rev-parse", "--quiet", "--verify", "HEAD^{commit}"]).await.is_err() {
            return Ok(Vec::new());
        }
        let text = self.run(&["log", &format!("-{most}"), "--format=%H%x09%s"]).await?;
        let parse = |line: &str| {
            let (id, subject) = line.split_once('\t')?;
            Some(Commit { id: id.to_owned(), subject: subject.to_owned() })
        };
        Ok(text.lines().filter_map(parse).collect())
    }

    /// Whether `earlier` is the tip or one of its ancestors.
    ///
    /// # Errors
    /// Never for a missing commit (that is `false`); when git cannot be started.
    pub async fn contains(&self, earlier: &str) -> Result<bool, GitError> {
        match self.run(&["merge-base", "--is-ancestor", earlier, "HEAD"]).await {
            Ok(_) => Ok(true),
            Err(GitError::Failed { .. }) => Ok(false),
            Err(missing @ GitError::Missing(_)) => Err(missing),
        }
    }

    /// Commits everything in the folder and returns the commit; when the tip was already made by this step, resets the
    /// folder to it and returns that one.
    ///
    /// # Errors
    /// When git fails: nothing is committed.
    pub async fn commit_once(&self, step: &str, message: &str) -> Result<Commit, GitError> {
        if let Some(made) = self.made_by(step).await? {
            self.reset_to_tip().await?;
            return Ok(made);
        }
        self.run(&["add", "--all"]).await?;
        let message = format!("{}\n\n{STEP_TRAILER}: {step}\n", message.trim_end());
        self.run(&["commit", "--quiet", "--no-verify", "--allow-empty", "--cleanup=whitespace", "-m", &message])
            .await?;
        self.head().await?.ok_or_else(|| self.failed("commit", "the commit was not found afterwards"))
    }

    /// The tip, when this step made it.
    async fn made_by(&self, step: &str) -> Result<Option<Commit>, GitError> {
        let Some(head) = self.head().await? else { return Ok(None) };
        let body = self.run(&["log", "-1", "--format=%B"]).await?;
        let wanted = format!("{STEP_TRAILER}: {step}");
        Ok(body.lines().any(|line| line == wanted).then_some(head))
    }

    /// Throws away every change since the tip, untracked files included; ignored files stay.
    ///
    /// # Errors
    /// When git fails.
    pub async fn reset_to_tip(&self) -> Result<(), GitError> {
        if self.head().await?.is_some() {
            self.run(&["reset", "--quiet", "--hard", "HEAD"]).await?;
        }
        self.run(&["clean", "-ffdq"]).await.map(drop)
    }

    /// The changes since the tip as a patch, new files included and the guarded files left out; empty when there are none.
    /// Bytes, as files are in any encoding.
    ///
    /// # Errors
    /// When git fails.
    pub async fn patch_since_tip(&self) -> Result<Vec<u8>, GitError> {
        self.run(&["add", "--all", "--intent-to-add"]).await?;
        let guarded = GUARDED.map(|name| format!(":(exclude,top){name}"));
        let mut args = vec!["diff", "--binary", "HEAD", "--", "."];
        args.extend(guarded.iter().map(String::as_str));
        self.output(&args).await
    }

    /// Removes repositories inside the folder, submodules' links included, and tells which there were.
    ///
    /// git on the host looks into them, and their configuration can name programs to run: from inside the sandbox that
    /// would be a way out.
    ///
    /// # Errors
    /// When one cannot be removed.
    pub(crate) fn remove_nested(&self) -> std::io::Result<Vec<String>> {
        let mut removed = Vec::new();
        let mut folders = vec![self.work_tree.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder)?.flatten() {
                let (path, kind) = (entry.path(), entry.file_type()?);
                let own = path == self.work_tree.join(".git");
                if entry.file_name() == ".git" && !own {
                    if kind.is_dir() {
                        std::fs::remove_dir_all(&path)?
                    } else {
                        std::fs::remove_file(&path)?
                    }
                    let shown = path.strip_prefix(&self.work_tree).unwrap_or(&path);
                    removed.push(shown.to_string_lossy().into_owned());
                } else if kind.is_dir() && !own {
                    folders.push(path);
                }
            }
        }
        Ok(removed)
    }

    /// Removes locks that a killed git process left behind. Only for whoever holds the project's lease.
    pub(crate) fn clear_stale_locks(&self) {
        for name in ["index.lock", "HEAD.lock", "refs/heads/main.lock", "config.lock"] {
            let lock = self.git_dir.join(name);
            if lock.exists() && std::fs::remove_file(&lock).is_ok() {
                tracing::warn!(lock = %lock.display(), "removed a lock left by a git process that was killed");
            }
        }
    }

    /// Runs one git command and returns its standard output as text.
    pub(crate) async fn run(&self, args: &[&str]) -> Result<String, GitError> {
        Ok(String::from_utf8_lossy(&self.output(args).await?).into_owned())
    }

    /// Runs one git command and returns its standard output.
    async fn output(&self, args: &[&str]) -> Result<Vec<u8>, GitError> {
        let mut command = Command::new("git");
        command.env_remove("GIT_INDEX_FILE").env_remove("GIT_OBJECT_DIRECTORY");
        command.env("GIT_DIR", &self.git_dir).env("GIT_WORK_TREE", &self.work_tree);
        command
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_PAGER", "cat")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("LC_ALL", "C");
        for (who, default) in [("AUTHOR", "Longhaul"), ("COMMITTER", "Longhaul")] {
            command.env(format!("GIT_{who}_NAME"), default).env(format!("GIT_{who}_EMAIL"), "longhaul@localhost");
        }
        for setting in [
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            "commit.gpgSign=false",
            "safe.directory=*",
            "gc.auto=0",
            "core.autocrlf=false",
            "core.quotePath=false",
            "core.excludesFile=/dev/null",
            "core.attributesFile=/dev/null",
        ] {
            command.args(["-c", setting]);
        }
        command.current_dir(&self.work_tree).args(args).stdin(std::process::Stdio::null()).kill_on_drop(true);
        let started = Instant::now();
        let output = command.output().await.map_err(GitError::Missing)?;
        let spent = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.spent_us.fetch_add(spent, Ordering::Relaxed);
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            return Err(self.failed(args.first().copied().unwrap_or(""), message.trim()));
        }
        Ok(output.stdout)
    }

    fn failed(&self, verb: &str, message: &str) -> GitError {
        let tail: Vec<&str> = message.lines().rev().take(5).collect();
        let message = tail.into_iter().rev().collect::<Vec<_>>().join("; ");
        GitError::Failed { verb: verb.to_owned(), dir: self.work_tree.clone(), message }
    }
}

#[cfg(test)]
mod tests {
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
    async fn nested_repositories_are_removed_and_the_own_one_is_not() {
        let (dir, git) = repository().await;
        fs::create_dir_all(dir.path().join("sub/deep/.git")).unwrap();
        fs::write(dir.path().join("sub/deep/.git/config"), "[core]\nfsmonitor = touch /tmp/x\n").unwrap();
        fs::create_dir_all(dir.path().join("other")).unwrap();
        fs::write(dir.path().join("other/.git"), "gitdir: /elsewhere\n").unwrap();
        let mut removed = git.remove_nested().unwrap();
        removed.sort();
        assert_eq!(removed, ["other/.git", "sub/deep/.git"]);
        assert!(dir.path().join(".git/HEAD").exists());
        assert!(git.remove_nested().unwrap().is_empty());
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
}
