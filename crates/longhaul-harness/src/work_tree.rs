//! Snapshots of the project's folder, so that a step interrupted in the middle starts again from where it started.
//!
//! A snapshot is a git tree in a repository of the harness's own, beside the store and outside everything the sandbox
//! sees; ignored files are not part of it. Invariant: before a step that may change the folder runs, the folder equals
//! the tree its predecessor left ([`WorkTree::ensure`]); what a killed step did half is thereby undone.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::sync::Mutex;

use crate::{
    git::{Git, GitError},
    projections::GUARDED,
};

/// Id of a snapshot: a git tree.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct TreeId(String);

impl TreeId {
    /// The tree's hexadecimal id.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The folder and its snapshots.
#[derive(Debug, Clone)]
pub(crate) struct WorkTree {
    git: Git,
    /// What the folder is known to equal in this process; none before the first look.
    current: Arc<Mutex<Option<TreeId>>>,
}

impl WorkTree {
    /// The snapshots of `project`, kept in `git_dir`; submodules are kept as links, like in the project's repository.
    ///
    /// # Errors
    /// When git is missing or the folder cannot be written.
    pub(crate) async fn open(project: &Path, git_dir: &Path, submodules: &[PathBuf]) -> Result<Self, GitError> {
        let git = Git::beside(project, git_dir).keeping(submodules);
        if !git_dir.join("HEAD").exists() {
            std::fs::create_dir_all(git_dir).map_err(GitError::Missing)?;
            git.run(&["init", "--quiet"]).await?;
        }
        git.clear_stale_locks();
        git.mend_index().await?;
        git.own_attributes().await?;
        Ok(Self { git, current: Arc::default() })
    }

    /// Time spent in git's processes, in milliseconds.
    pub(crate) fn spent_ms(&self) -> u64 {
        self.git.spent_ms()
    }

    /// Takes a snapshot of the folder as it is.
    ///
    /// # Errors
    /// When git fails.
    pub(crate) async fn snapshot(&self) -> Result<TreeId, GitError> {
        let mut current = self.current.lock().await;
        let tree = self.take().await?;
        *current = Some(tree.clone());
        Ok(tree)
    }

    /// Makes the folder equal this snapshot, if it is not known to already. Returns whether anything had to be undone.
    ///
    /// # Errors
    /// When the snapshot is gone or git fails.
    pub(crate) async fn ensure(&self, tree: &TreeId) -> Result<bool, GitError> {
        let mut current = self.current.lock().await;
        if current.as_ref() == Some(tree) {
            return Ok(false);
        }
        let found = self.take().await?;
        if found != *tree {
            self.git.run(&["read-tree", "--reset", "-u", tree.as_str()]).await?;
        }
        *current = Some(tree.clone());
        Ok(found != *tree)
    }

    /// Whether two snapshots hold the same work: the guarded files aside, which people's changes of the plan move too.
    ///
    /// # Errors
    /// When a snapshot is gone or git fails.
    pub(crate) async fn same_work(&self, one: &str, other: &TreeId) -> Result<bool, GitError> {
        if one == other.as_str() {
            return Ok(true);
        }
        let guarded = GUARDED.map(|name| format!(":(exclude,top){name}"));
        let mut args = vec!["diff-tree", "-r", "--name-only", one, other.as_str(), "--", "."];
        args.extend(guarded.iter().map(String::as_str));
        Ok(self.git.run(&args).await?.trim().is_empty())
    }

    /// What differs between two snapshots: status, path and, for a move, the new path, each ended by a zero character.
    ///
    /// # Errors
    /// When a snapshot is gone or git fails.
    pub(crate) async fn difference(&self, before: &TreeId, after: &TreeId) -> Result<String, GitError> {
        self.git.run(&["diff-tree", "-r", "-M", "-z", "--name-status", before.as_str(), after.as_str()]).await
    }

    /// Says that something outside this type changed the folder.
    pub(crate) async fn forget(&self) {
        *self.current.lock().await = None;
    }

    async fn take(&self) -> Result<TreeId, GitError> {
        self.git.add_all().await?;
        Ok(TreeId(self.git.run(&["write-tree"]).await?.trim().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn what_a_killed_step_did_half_is_undone() {
        let place = tempfile::tempdir().unwrap();
        let (project, snapshots) = (place.path().join("app"), place.path().join("snapshots.git"));
        fs::create_dir_all(project.join("sub")).unwrap();
        fs::write(project.join("kept"), "before").unwrap();
        fs::write(project.join("sub/removed"), "before").unwrap();
        let tree = WorkTree::open(&project, &snapshots, &[]).await.unwrap().snapshot().await.unwrap();
        fs::write(project.join("kept"), "half").unwrap();
        fs::remove_dir_all(project.join("sub")).unwrap();
        fs::write(project.join("new"), "half").unwrap();
        // Another process opens the folder: it knows nothing but the recorded tree.
        let after = WorkTree::open(&project, &snapshots, &[]).await.unwrap();
        assert!(after.ensure(&tree).await.unwrap());
        assert_eq!(fs::read_to_string(project.join("kept")).unwrap(), "before");
        assert_eq!(fs::read_to_string(project.join("sub/removed")).unwrap(), "before");
        assert!(!project.join("new").exists());
        assert!(!after.ensure(&tree).await.unwrap(), "the folder is known to be that tree");
    }
}
