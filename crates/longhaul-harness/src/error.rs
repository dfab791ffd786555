//! Why a session cannot go on. What the agent can mend is never here: that is told to the agent instead.

use std::path::PathBuf;

use longhaul_core::TaskId;

/// Why a session ended before its time. The next run resumes where it stopped.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// The project's rows are gone.
    #[error(
        "the store has no project for {0}; choose the right one with LONGHAUL_HOME, or start anew with `longhaul init`"
    )]
    NoProject(TaskId),
    /// Somebody changed the folder between the verdict and the commit.
    #[error("{dir} is no longer what was verified; leave the folder alone during a run, and run the command again")]
    FolderMoved {
        /// The project's folder.
        dir: PathBuf,
    },
    /// An external agent began the session, and none is named now.
    #[error(
        "an external agent began the session that is to go on: name one with `--agent acp:COMMAND` or `harness.agent`"
    )]
    NoAgent,
    /// The commits of the project are gone.
    #[error(
        "the repository in {dir} does not have the commit {commit}, and neither has its remote; put the folder's .git \
         back from a backup, or push that commit from where it is, then run the command again"
    )]
    HistoryLost {
        /// The project's folder.
        dir: PathBuf,
        /// The last commit of the record.
        commit: String,
    },
    /// A row that an earlier step read is gone: a defect, or somebody edits the store.
    #[error("the store no longer has {0}; restore it from a backup")]
    RowGone(String),
    /// A folder of the harness's own cannot be made.
    #[error("cannot make the folder {path}; give it space and permission, then run the command again")]
    Folder {
        /// The folder.
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}
