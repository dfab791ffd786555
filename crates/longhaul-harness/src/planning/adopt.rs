//! Taking over somebody's repository: what it must be like, what of it the initializer is told, and that planning leaves
//! every file and commit of it as it is.
//!
//! Everything is read from the commit that was adopted, with git: no link in the folder is followed, and the same is read
//! again after a crash.

use std::path::{Path, PathBuf};

use crate::{
    git::{Git, GitError},
    projections::GUARDED,
};

/// Files that tell how a project is built.
const BUILD_FILES: &[&str] = &[
    "Makefile",
    "Cargo.toml",
    "package.json",
    "pyproject.toml",
    "setup.py",
    "requirements.txt",
    "go.mod",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "CMakeLists.txt",
    "Gemfile",
    "composer.json",
    "mix.exs",
    "deno.json",
    "Dockerfile",
    "docker-compose.yml",
    "tox.ini",
    "noxfile.py",
    "justfile",
    "init.sh",
];
const COMMITS_SHOWN: usize = 20;
const PATHS_SHOWN: usize = 300;
const README_CHARS_MAX: usize = 4_000;
const BUILD_CHARS_MAX: usize = 1_500;
const BUILD_SHOWN: usize = 6;
/// What planning may add to a repository.
const ADDED: &str = "init.sh";

/// A repository that can be adopted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adopted {
    /// The commit it stands at.
    pub commit: String,
    /// The branch that is checked out.
    pub branch: String,
}

/// Why a folder cannot be adopted, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// No repository.
    #[error(
        "{dir} is not a git repository; make one (`git init && git add -A && git commit`), or build in a new folder"
    )]
    NoRepository {
        /// The folder.
        dir: PathBuf,
    },
    /// A part of a repository.
    #[error(
        "{dir} is a worktree or a submodule of another repository; clone it (`git clone {dir} FOLDER`) and adopt the clone"
    )]
    LinkedRepository {
        /// The folder.
        dir: PathBuf,
    },
    /// No commit.
    #[error("{dir} has no commit yet; commit what is there, so that nothing of it can be lost")]
    NoCommit {
        /// The folder.
        dir: PathBuf,
    },
    /// No branch.
    #[error(
        "{dir} has a detached head; check a branch out (`git -C {dir} switch BRANCH`, or `switch -c NAME`), then adopt it"
    )]
    Detached {
        /// The folder.
        dir: PathBuf,
    },
    /// Something is half done.
    #[error("{dir} is in the middle of a {what}; finish or abort it, then adopt it")]
    Unfinished {
        /// The folder.
        dir: PathBuf,
        /// `merge`, `rebase` …
        what: &'static str,
    },
    /// Uncommitted work.
    #[error(
        "{dir} has changes that are not committed ({what}); commit or stash them (`git -C {dir} stash -u`), then adopt it"
    )]
    Dirty {
        /// The folder.
        dir: PathBuf,
        /// The first of them.
        what: String,
    },
    /// Repositories inside.
    #[error("{dir} has repositories inside ({what}), which a sandboxed agent must not have; adopt a copy without them")]
    Nested {
        /// The folder.
        dir: PathBuf,
        /// Which.
        what: String,
    },
    /// Names that the harness needs.
    #[error(
        "{dir} has files of its own where Longhaul keeps its records ({what}); rename them and commit, then adopt it"
    )]
    Taken {
        /// The folder.
        dir: PathBuf,
        /// Which.
        what: String,
    },
    /// git failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

/// Looks whether the folder can be adopted, and changes nothing.
///
/// # Errors
/// What stands in the way, and what to do about it.
pub async fn examine(dir: &Path) -> Result<Adopted, AdoptError> {
    let here = || dir.to_owned();
    let dot = dir.join(".git");
    match std::fs::symlink_metadata(&dot) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(AdoptError::LinkedRepository { dir: here() }),
        Err(_) => return Err(AdoptError::NoRepository { dir: here() }),
    }
    let git = Git::of_project(dir);
    let Some(head) = git.head().await? else { return Err(AdoptError::NoCommit { dir: here() }) };
    let Ok(branch) = git.run(&["symbolic-ref", "--quiet", "--short", "HEAD"]).await else {
        return Err(AdoptError::Detached { dir: here() });
    };
    let half_done = [
        ("MERGE_HEAD", "merge"),
        ("rebase-merge", "rebase"),
        ("rebase-apply", "rebase"),
        ("CHERRY_PICK_HEAD", "cherry-pick"),
        ("REVERT_HEAD", "revert"),
        ("BISECT_LOG", "bisect"),
    ];
    if let Some((_, what)) = half_done.iter().find(|(name, _)| dot.join(name).exists()) {
        return Err(AdoptError::Unfinished { dir: here(), what });
    }
    let taken = adopt_files_in_the_way(dir);
    if !taken.is_empty() {
        return Err(AdoptError::Taken { dir: here(), what: taken.join(", ") });
    }
    let nested = nested(dir, &git).await?;
    if !nested.is_empty() {
        return Err(AdoptError::Nested { dir: here(), what: nested.join(", ") });
    }
    let status = git.run(&["status", "--porcelain", "--untracked-files=all"]).await?;
    if let Some(first) = status.lines().next() {
        let more = status.lines().count() - 1;
        let what = if more > 0 { format!("{} and {more} more", first.trim()) } else { first.trim().to_owned() };
        return Err(AdoptError::Dirty { dir: here(), what });
    }
    Ok(Adopted { commit: head.id, branch: branch.trim().to_owned() })
}

/// Files of the folder that have the names of the guarded files.
#[must_use]
pub fn adopt_files_in_the_way(dir: &Path) -> Vec<&'static str> {
    GUARDED.into_iter().filter(|name| std::fs::symlink_metadata(dir.join(name)).is_ok()).collect()
}

/// Submodules by the index, and other repositories by a look into the folder.
async fn nested(dir: &Path, git: &Git) -> Result<Vec<String>, GitError> {
    let staged = git.run(&["ls-files", "--stage"]).await?;
    let links = staged.lines().filter(|line| line.starts_with("160000 "));
    let mut found: Vec<String> = links.filter_map(|line| Some(line.split_once('\t')?.1.to_owned())).collect();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let (path, own) = (entry.path(), entry.path() == dir.join(".git"));
            if entry.file_name() == ".git" && !own {
                let inside = folder.strip_prefix(dir).unwrap_or(&folder).to_string_lossy().into_owned();
                if !found.contains(&inside) {
                    found.push(inside);
                }
            } else if !own && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            }
        }
    }
    Ok(found)
}

/// What the initializer is told of an adopted repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    pub(crate) log: Vec<String>,
    pub(crate) commits: usize,
    pub(crate) files: Vec<String>,
    pub(crate) files_hidden: usize,
    /// Name and beginning.
    pub(crate) readme: Option<(String, String)>,
    /// Names and beginnings.
    pub(crate) build: Vec<(String, String)>,
    pub(crate) tests: Vec<String>,
}

/// Reads an adopted repository at its commit.
pub(crate) async fn survey(git: &Git, commit: &str) -> Result<Survey, GitError> {
    let log = git.run(&["log", &format!("-{COMMITS_SHOWN}"), "--format=%h %as %s", commit]).await?;
    let count = git.run(&["rev-list", "--count", commit]).await?;
    let listed = git.run(&["ls-tree", "-r", "--name-only", commit]).await?;
    let all: Vec<&str> = listed.lines().collect();
    let readme = all.iter().find(|path| path.to_ascii_lowercase().starts_with("readme") && !path.contains('/'));
    let mut survey = Survey {
        log: log.lines().map(str::to_owned).collect(),
        commits: count.trim().parse().unwrap_or_default(),
        files: all.iter().take(PATHS_SHOWN).map(|path| (*path).to_owned()).collect(),
        files_hidden: all.len().saturating_sub(PATHS_SHOWN),
        tests: all.iter().filter(|path| is_test(path)).take(40).map(|path| (*path).to_owned()).collect(),
        ..Survey::default()
    };
    if let Some(path) = readme {
        survey.readme = Some(((*path).to_owned(), beginning(git, commit, path, README_CHARS_MAX).await?));
    }
    for path in all.iter().filter(|path| BUILD_FILES.contains(path)).take(BUILD_SHOWN) {
        survey.build.push(((*path).to_owned(), beginning(git, commit, path, BUILD_CHARS_MAX).await?));
    }
    Ok(survey)
}

async fn beginning(git: &Git, commit: &str, path: &str, chars_max: usize) -> Result<String, GitError> {
    Ok(git.run(&["show", &format!("{commit}:{path}")]).await?.chars().take(chars_max).collect())
}

fn is_test(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.split('/').any(|part| matches!(part, "test" | "tests" | "spec" | "__tests__"))
        || name.starts_with("test_")
        || ["_test.", ".test.", ".spec.", "_spec."].iter().any(|mark| name.contains(mark))
}

/// Makes every file of the adopted commit what it was, and takes away what planning may not add. Tells which.
pub(crate) async fn put_back(git: &Git, commit: &str) -> Result<Vec<String>, GitError> {
    let changed = git.run(&["diff", "--name-only", commit, "--", "."]).await?;
    let untracked = git.run(&["ls-files", "--others", "--exclude-standard"]).await?;
    let own = |path: &&str| !GUARDED.contains(path) && *path != ADDED;
    let there = git.run(&["ls-tree", "-r", "--name-only", commit]).await?;
    let was: Vec<&str> = there.lines().collect();
    let mut touched = Vec::new();
    for path in changed.lines().filter(|path| was.contains(path)) {
        git.run(&["checkout", "--quiet", commit, "--", path]).await?;
        touched.push(path.to_owned());
    }
    for path in untracked.lines().filter(own) {
        git.run(&["clean", "-ffdq", "--", path]).await?;
        touched.push(path.to_owned());
    }
    Ok(touched)
}
