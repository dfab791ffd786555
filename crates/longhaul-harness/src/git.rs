//! The project's git repository, as the harness uses it: outside the sandbox, with hooks, pagers and signing off.
//!
//! Invariants: a commit carries the id of the step that made it as a trailer, so a step that runs again after a crash
//! finds its own commit instead of making a second one. Nothing that the agent can write decides what git runs or how
//! it reads a file: of configuration only `.git/config` counts, which the sandbox cannot write, and attributes are
//! ours (`info/attributes`).

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{process::Command, time::Instant};

use crate::{
    folder::{self, LeftOut, Looked},
    projections::GUARDED,
};

/// Trailer that names the step which made a commit.
const STEP_TRAILER: &str = "Longhaul-Step";
/// Longest run of one git command: what takes longer waits for something that never comes.
const COMMAND_TIME_MAX: Duration = Duration::from_mins(10);
/// Above all attributes in the folder: files are kept byte by byte, whatever a `.gitattributes` wants.
const ATTRIBUTES: &str = "# by longhaul: files are kept byte by byte\n\
    * -text !eol -filter -ident !working-tree-encoding !diff !merge\n";
/// Where commits go that a person made off every branch.
const ASIDE: &str = "refs/longhaul/aside";

/// Why git could not do something.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no git.
    #[error("git could not be started; install it (`apt-get install git`) and run the command again")]
    Missing(#[source] std::io::Error),
    /// Git does not end.
    #[error(
        "git {verb} in {dir} did not end within {} minutes; see what is in the folder, then run the command again",
        COMMAND_TIME_MAX.as_secs() / 60
    )]
    Slow {
        /// The git command.
        verb: String,
        /// Where.
        dir: PathBuf,
    },
    /// Files of the repository go through a filter, such as that of Git LFS.
    #[error(
        "{dir} keeps {example} through a git filter such as LFS, which longhaul does not run; take it out \
         (`git lfs migrate export --everything --include='*'`), then run the command again"
    )]
    Filters {
        /// The repository.
        dir: PathBuf,
        /// One of the files.
        example: String,
    },
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
    /// Folders of other repositories that the project keeps on purpose; read-only in the sandbox.
    submodules: Arc<Vec<PathBuf>>,
    /// Time spent in git's processes, in microseconds; shared by clones.
    spent_us: Arc<AtomicU64>,
}

impl Git {
    /// The project's own repository in this folder.
    #[must_use]
    pub fn of_project(dir: &Path) -> Self {
        Self::beside(dir, &dir.join(".git"))
    }

    /// A repository elsewhere that looks at the same folder.
    #[must_use]
    pub(crate) fn beside(work_tree: &Path, git_dir: &Path) -> Self {
        Self {
            work_tree: work_tree.to_owned(),
            git_dir: git_dir.to_owned(),
            submodules: Arc::default(),
            spent_us: Arc::default(),
        }
    }

    /// The same repository with these folders left to their own repositories.
    #[must_use]
    pub(crate) fn keeping(mut self, submodules: &[PathBuf]) -> Self {
        self.submodules = Arc::new(submodules.to_vec());
        self
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
        if !self.git_dir.join("HEAD").exists() {
            self.run(&["init", "--quiet", "--initial-branch=main"]).await?;
        }
        self.mend_index().await?;
        self.own_attributes().await
    }

    /// Makes our attributes those that count. Where a file of somebody else's is, ours come last and win.
    pub(crate) async fn own_attributes(&self) -> Result<(), GitError> {
        let path = self.git_dir.join("info/attributes");
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        if known.ends_with(ATTRIBUTES) {
            return Ok(());
        }
        // Somebody's repository whose files are not what is committed of them: without its filter they would be.
        let filtered = self.run(&["ls-files", "--", ":(top,attr:filter)"]).await?;
        if let Some(example) = filtered.lines().next() {
            return Err(GitError::Filters { dir: self.work_tree.clone(), example: example.to_owned() });
        }
        let made = std::fs::create_dir_all(self.git_dir.join("info"));
        made.and_then(|()| std::fs::write(&path, known + ATTRIBUTES))
            .map_err(|error| self.failed("init", &format!("cannot write {}: {error}", path.display())))
    }

    /// The folders that the repository keeps as submodules, relative to its own.
    ///
    /// # Errors
    /// When the repository cannot be read.
    pub(crate) async fn submodules(&self) -> Result<Vec<PathBuf>, GitError> {
        let listed = self.output(&["ls-files", "--stage", "-z"]).await?;
        Ok(gitlinks(&listed))
    }

    /// Adds everything in the folder to the index but what git is not to read, and keeps the index free of links to
    /// repositories that are no submodules: git looks into those, and runs what their configuration names.
    ///
    /// # Errors
    /// When git fails.
    pub(crate) async fn add_all(&self) -> Result<Vec<LeftOut>, GitError> {
        let submodules = self.submodules.as_slice();
        let looked = folder::look(&self.work_tree, submodules).map_err(|error| self.unreadable(&error))?;
        let left_out: Vec<String> = looked
            .left_out
            .iter()
            .map(|file| format!(":(exclude,top,literal){}", file.path.to_string_lossy()))
            .collect();
        let mut args = vec!["add", "--all"];
        if !left_out.is_empty() {
            args.extend(["--", "."]);
            args.extend(left_out.iter().map(String::as_str));
        }
        self.run(&args).await?;
        let listed = self.output(&["ls-files", "--stage", "-z"]).await?;
        for strange in gitlinks(&listed).iter().filter(|path| !submodules.contains(path)) {
            let path = strange.to_string_lossy();
            self.run(&["update-index", "--force-remove", "--", &path]).await?;
        }
        Ok(looked.left_out)
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

    /// Puts HEAD back on a branch when it is on none: on the one that holds `last`, else on a new `main` there. A commit
    /// that is on no branch stays reachable under a name of its own. Returns whether anything had to be done.
    ///
    /// # Errors
    /// When git fails, as when `last` is gone.
    pub(crate) async fn reattach(&self, last: &str) -> Result<bool, GitError> {
        if self.run(&["symbolic-ref", "--quiet", "HEAD"]).await.is_ok() {
            return Ok(false);
        }
        let args = ["for-each-ref", "--format=%(refname)", "--contains", last, "refs/heads"];
        let branches = self.run(&args).await?;
        let main = "refs/heads/main";
        let branch = branches.lines().find(|name| *name == main).or_else(|| branches.lines().next());
        if !self.is_ancestor("HEAD", branch.unwrap_or(last)).await? {
            self.keep_aside().await?;
        }
        if branch.is_none() {
            self.run(&["update-ref", main, last]).await?;
        }
        self.run(&["symbolic-ref", "HEAD", branch.unwrap_or(main)]).await?;
        Ok(true)
    }

    /// The branch that HEAD is on, in full: `refs/heads/main`.
    ///
    /// # Errors
    /// When it is on none.
    pub(crate) async fn branch(&self) -> Result<String, GitError> {
        Ok(self.run(&["symbolic-ref", "HEAD"]).await?.trim().to_owned())
    }

    /// Whether the harness made every commit of the range.
    ///
    /// # Errors
    /// When git fails.
    pub(crate) async fn all_ours(&self, range: &str) -> Result<bool, GitError> {
        let bodies = self.output(&["log", "--format=%B%x00", range]).await?;
        let bodies = String::from_utf8_lossy(&bodies).into_owned();
        let mut bodies = bodies.split('\0').filter(|body| !body.trim().is_empty());
        Ok(bodies.all(|body| body.lines().any(|line| line.starts_with(STEP_TRAILER))))
    }

    /// Runs one git command that talks to a remote: with the user's own configuration, which knows how to get in.
    ///
    /// # Errors
    /// When git fails; the message names no address.
    pub(crate) async fn remote(&self, args: &[&str]) -> Result<(), GitError> {
        let mut command = self.command();
        command.env_remove("GIT_CONFIG_GLOBAL").env_remove("GIT_CONFIG_SYSTEM");
        for name in ["GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_SSL_CAINFO"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        if std::env::var_os("GIT_SSH_COMMAND").is_none() && std::env::var_os("GIT_SSH").is_none() {
            // Nobody is there to answer a question.
            command.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes");
        }
        command.args(["-c", "protocol.ext.allow=never"]);
        self.finished(command, args).await.map(drop)
    }

    /// Keeps the tip reachable under a name of its own before a branch leaves it.
    ///
    /// # Errors
    /// When git fails.
    pub(crate) async fn keep_aside(&self) -> Result<(), GitError> {
        let Some(tip) = self.head().await? else { return Ok(()) };
        self.run(&["update-ref", &format!("{ASIDE}/{}", tip.id), &tip.id]).await.map(drop)
    }

    /// Whether the repository has this commit at all.
    ///
    /// # Errors
    /// When git cannot be started.
    pub(crate) async fn has(&self, commit: &str) -> Result<bool, GitError> {
        match self.run(&["cat-file", "-e", &format!("{commit}^{{tree}}")]).await {
            Ok(_) => Ok(true),
            Err(GitError::Failed { .. }) => Ok(false),
            Err(other @ (GitError::Missing(_) | GitError::Slow { .. } | GitError::Filters { .. })) => Err(other),
        }
    }

    /// Whether one commit is the other or one of its ancestors.
    pub(crate) async fn is_ancestor(&self, earlier: &str, later: &str) -> Result<bool, GitError> {
        match self.run(&["merge-base", "--is-ancestor", earlier, later]).await {
            Ok(_) => Ok(true),
            Err(GitError::Failed { .. }) => Ok(false),
            Err(other @ (GitError::Missing(_) | GitError::Slow { .. } | GitError::Filters { .. })) => Err(other),
        }
    }

    /// Whether `earlier` is the tip or one of its ancestors.
    ///
    /// # Errors
    /// Never for a missing commit (that is `false`); when git cannot be started.
    pub async fn contains(&self, earlier: &str) -> Result<bool, GitError> {
        self.is_ancestor(earlier, "HEAD").await
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
        self.add_all().await?;
        // Whatever the agent's own rules say: without these the commit does not show what was done.
        let there = GUARDED.iter().copied().chain(["init.sh"]).filter(|name| self.work_tree.join(name).is_file());
        let kept: Vec<&str> = ["add", "--force", "--"].into_iter().chain(there).collect();
        if kept.len() > 3 {
            self.run(&kept).await?;
        }
        let message = format!("{}\n\n{STEP_TRAILER}: {step}\n", message.trim_end());
        self.run(&["commit", "--quiet", "--no-verify", "--allow-empty", "--cleanup=whitespace", "-m", &message])
            .await?;
        self.head().await?.ok_or_else(|| self.failed("commit", "the commit was not found afterwards"))
    }

    /// Commits these files and nothing else; none when they are as they were.
    ///
    /// # Errors
    /// When git fails: nothing is committed.
    pub(crate) async fn commit_only(&self, files: &[&str], message: &str) -> Result<Option<Commit>, GitError> {
        let with = |first: &[&'static str]| first.iter().copied().chain(["--"]).map(str::to_owned).collect::<Vec<_>>();
        let all = |first: Vec<String>| first.into_iter().chain(files.iter().map(|&f| f.to_owned())).collect::<Vec<_>>();
        let run = async |args: Vec<String>| self.run(&args.iter().map(String::as_str).collect::<Vec<_>>()).await;
        if run(all(with(&["status", "--porcelain"]))).await?.trim().is_empty() {
            return Ok(None);
        }
        run(all(with(&["add"]))).await?;
        let mut commit = vec!["commit", "--quiet", "--no-verify", "--only", "--cleanup=whitespace", "-m"];
        commit.push(message);
        let commit = commit.into_iter().chain(["--"]).map(str::to_owned).collect();
        run(all(commit)).await?;
        self.head().await
    }

    /// Commits what a person changed in the folder, in their name; `None` when nothing is changed.
    ///
    /// # Errors
    /// When git fails: nothing is committed.
    pub async fn commit_by(&self, who: &str, message: &str) -> Result<Option<Commit>, GitError> {
        self.add_all().await?;
        if self.run(&["status", "--porcelain", "--untracked-files=no"]).await?.trim().is_empty() {
            return Ok(None);
        }
        let plain: String = who.chars().filter(|letter| !matches!(letter, '<' | '>' | '\n' | '\r')).collect();
        let author = format!("--author={plain} <{}@localhost>", plain.replace(' ', "."));
        self.run(&["commit", "--quiet", "--no-verify", "--cleanup=whitespace", &author, "-m", message]).await?;
        self.head().await
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
        let mut args = vec!["diff", "--binary", "--no-ext-diff", "--no-textconv", "HEAD", "--", "."];
        args.extend(guarded.iter().map(String::as_str));
        self.output(&args).await
    }

    /// Removes from the folder what git must not meet, such as repositories inside it, and names what it is not to read.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub(crate) fn look(&self) -> std::io::Result<Looked> {
        folder::look(&self.work_tree, &self.submodules)
    }

    /// Whether the rules of the folder keep this file out of commits.
    pub(crate) async fn ignores(&self, path: &Path) -> bool {
        self.run(&["check-ignore", "--quiet", "--", &path.to_string_lossy()]).await.is_ok()
    }

    /// Makes the index anew from the tip when it cannot be read; it holds nothing that is not elsewhere.
    ///
    /// # Errors
    /// When that fails as well.
    pub(crate) async fn mend_index(&self) -> Result<(), GitError> {
        let Err(GitError::Failed { message, .. }) =
            self.run(&["ls-files", "--stage", "--", ":(top,literal).git"]).await
        else {
            return Ok(());
        };
        tracing::warn!(%message, "the index of the repository cannot be read; it is made anew");
        let index = self.git_dir.join("index");
        std::fs::remove_file(&index).map_err(|error| self.failed("ls-files", &format!("{message}; {error}")))?;
        if self.head().await?.is_some() {
            self.run(&["read-tree", "HEAD"]).await?;
        }
        Ok(())
    }

    /// Removes locks that a killed git process left behind. Only for whoever holds the project's lease.
    pub(crate) fn clear_stale_locks(&self) {
        let branches = self.git_dir.join("refs/heads");
        let branches = std::fs::read_dir(branches).into_iter().flatten().flatten().map(|entry| entry.path());
        let locks = branches.filter(|path| path.extension().is_some_and(|extension| extension == "lock"));
        let named = ["index.lock", "HEAD.lock", "config.lock", "packed-refs.lock"].map(|name| self.git_dir.join(name));
        for lock in named.into_iter().chain(locks) {
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
        self.finished(self.command(), args).await
    }

    async fn finished(&self, mut command: Command, args: &[&str]) -> Result<Vec<u8>, GitError> {
        command.args(args);
        let started = Instant::now();
        let verb = args.first().copied().unwrap_or_default();
        let Ok(output) = tokio::time::timeout(COMMAND_TIME_MAX, command.output()).await else {
            return Err(GitError::Slow { verb: verb.to_owned(), dir: self.work_tree.clone() });
        };
        let output = output.map_err(GitError::Missing)?;
        let spent = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.spent_us.fetch_add(spent, Ordering::Relaxed);
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            return Err(self.failed(verb, message.trim()));
        }
        Ok(output.stdout)
    }

    /// git without arguments yet: nothing of the caller's environment and of the user's own configuration.
    fn command(&self) -> Command {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"GIT_")) {
            command.env_remove(name);
        }
        command.env("GIT_DIR", &self.git_dir).env("GIT_WORK_TREE", &self.work_tree);
        command
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_PAGER", "cat")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .env("LC_ALL", "C");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "Longhaul").env(format!("GIT_{who}_EMAIL"), "longhaul@localhost");
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
            // Names that only other systems mind are no reason to lose a commit.
            "core.protectNTFS=false",
            "core.protectHFS=false",
            "core.symlinks=true",
            "core.ignoreCase=false",
            "core.sparseCheckout=false",
            "core.untrackedCache=false",
            "core.trustctime=true",
            "submodule.recurse=false",
            "diff.ignoreSubmodules=dirty",
        ] {
            command.args(["-c", setting]);
        }
        command.current_dir(&self.work_tree).stdin(std::process::Stdio::null()).kill_on_drop(true);
        command
    }

    fn unreadable(&self, error: &std::io::Error) -> GitError {
        self.failed("add", &format!("the folder cannot be read: {error}"))
    }

    fn failed(&self, verb: &str, message: &str) -> GitError {
        let tail: Vec<&str> = message.lines().rev().take(5).collect();
        let message = tail.into_iter().rev().collect::<Vec<_>>().join("; ");
        GitError::Failed { verb: verb.to_owned(), dir: self.work_tree.clone(), message }
    }
}

/// The paths of links to repositories in what `ls-files --stage -z` says.
fn gitlinks(listed: &[u8]) -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let link = |entry: &[u8]| {
        let path = entry.splitn(2, |byte| *byte == b'\t').nth(1)?;
        entry.starts_with(b"160000 ").then(|| PathBuf::from(std::ffi::OsStr::from_bytes(path)))
    };
    listed.split(|byte| *byte == 0).filter_map(link).collect()
}

#[cfg(test)]
mod tests;
