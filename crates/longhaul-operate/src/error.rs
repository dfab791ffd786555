//! Why something that was asked for at a terminal did not happen.

use std::path::PathBuf;

use longhaul_core::{Scope, ThreadId, TimeMs};
use longhaul_durable::{
    DurableError, PendingEffect, Status, StepId, WaitId, WaitInfo, WaitKind, WaitStatus, erasing::Unfinished,
    replay::CaseError,
};
use longhaul_store::{LeaseError, StoreError};
use longhaul_workspace::WorkspaceError;

use crate::moments::moment;

/// Who can do something about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The command makes no sense as given: another folder, flag or setting is needed.
    Usage,
    /// The machine lacks something; `longhaul doctor` says what.
    Environment,
    /// The same command may succeed later.
    Retry,
    /// Anything else.
    Failed,
}

/// Why something that was asked for at a terminal did not happen. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OperateError {
    /// The folder holds no store.
    #[error(
        "there is no store in {dir}: name the folder or database that the program uses, `--store DIR` or `--store postgres://…`"
    )]
    NoStore {
        /// The folder.
        dir: PathBuf,
    },
    /// Nothing has this id.
    #[error(
        "nothing in {store} is called {id:?}: looked for {kinds} of {} and {}; `longhaul executions` lists what there is, `--store`, `--tenant` and `--user` look elsewhere",
        .owner.tenant, .owner.user
    )]
    Unknown {
        /// The id.
        id: String,
        /// What was looked for.
        kinds: &'static str,
        /// Where.
        store: String,
        /// Whose.
        owner: Scope,
    },
    /// Several waits could be meant.
    #[error("{} waits match {id:?}; name the one that is meant:{}", .waits.len(), listed(.waits))]
    WhichWait {
        /// What was asked for.
        id: String,
        /// What matches.
        waits: Vec<WaitInfo>,
    },
    /// Nothing waits there.
    #[error("nothing waits on {thread}: its execution is {}; `longhaul waits` lists all open waits", .status.as_str())]
    NothingWaits {
        /// The thread.
        thread: ThreadId,
        /// How its execution is.
        status: Status,
    },
    /// The wait ends in another way.
    #[error("{wait} is a wait of kind {}: it ends by itself, not by an answer", .kind.as_str())]
    NotForPeople {
        /// The wait.
        wait: WaitId,
        /// Its kind.
        kind: WaitKind,
    },
    /// It cannot be guessed what the wait wants to hear.
    #[error(
        "{wait} wants more than yes or no: answer with `longhaul approve {wait} --value JSON`, where JSON fits {wanted}"
    )]
    NeedsValue {
        /// The wait.
        wait: WaitId,
        /// Its schema, or its kind.
        wanted: String,
    },
    /// Somebody was first.
    #[error(
        "{wait} was {} at {} UTC{}{}; nothing was changed",
        .status.as_str(), moment(.at.0),
        .actor.as_ref().map_or_else(String::new, |actor| format!(" by {actor}")),
        .value.as_ref().map_or_else(String::new, |value| format!(": {value}"))
    )]
    AlreadyEnded {
        /// The wait.
        wait: WaitId,
        /// How it ended.
        status: WaitStatus,
        /// When.
        at: TimeMs,
        /// By whom.
        actor: Option<String>,
        /// With which answer.
        value: Option<String>,
    },
    /// The execution is over.
    #[error("{id} is {}: there is nothing to {what}{}", .status.as_str(), .unfinished.as_ref().map_or_else(String::new, |other| format!("; the thread goes on with {other}")))]
    Finished {
        /// The execution.
        id: String,
        /// How it ended.
        status: Status,
        /// What was asked for.
        what: &'static str,
        /// The thread's unfinished execution, if there is another.
        unfinished: Option<String>,
    },
    /// Nobody asks about this step.
    #[error("{id} has no act of unknown outcome{}", .step.as_ref().map_or_else(String::new, |step| format!(" at {step}")))]
    NothingToSettle {
        /// The execution.
        id: String,
        /// The step that was named.
        step: Option<Box<StepId>>,
    },
    /// Several acts could be meant, or it was not said what happened.
    #[error(
        "nobody knows whether this happened; find out, then say so:{}",
        .pending.iter().map(|effect| format!("\n  longhaul retry '{}' --happened JSON\n  longhaul retry '{}' --did-not-happen", effect.step, effect.step)).collect::<String>()
    )]
    SayWhatHappened {
        /// The acts.
        pending: Vec<PendingEffect>,
    },
    /// What is to be erased is still needed by what has not ended.
    #[error(
        "{subject} has {} not ended yet; end what is listed, then erase again:{}",
        count(.unfinished.len()),
        .unfinished.iter().map(|open| format!("\n  longhaul cancel {}{}   ({}, on {})", open.id, .flags, open.status, open.thread)).collect::<String>()
    )]
    Unfinished {
        /// What was to be erased.
        subject: String,
        /// What stands in its way.
        unfinished: Vec<Unfinished>,
        /// What has to be typed to mean this store.
        flags: String,
    },
    /// An erasure that could not go on; what it did stays done.
    #[error("erasing stopped at {what}")]
    ErasureStopped {
        /// Where, why, and what to do.
        what: String,
    },
    /// What is asked for is no text.
    #[error("{id} is {media_type} of {bytes} bytes and no text: save it with `longhaul show {id} --out FILE`")]
    NotText {
        /// The record.
        id: String,
        /// What its maker said of the content.
        media_type: String,
        /// Its size.
        bytes: u64,
    },
    /// What is asked for is longer than anybody reads.
    #[error(
        "{id} has {bytes} bytes, of which at most {bytes_max} are printed: save it with `longhaul show {id} --out FILE`"
    )]
    TooLong {
        /// The record.
        id: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// The file could not be written; one that was there is as it was.
    #[error("{path} could not be written: name a file that is not there yet, in a folder that is")]
    NotSaved {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// What was kept cannot be had.
    #[error(transparent)]
    Workspace(WorkspaceError),
    /// Somebody is at work on the thread.
    #[error(transparent)]
    Lease(LeaseError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The runtime refused.
    #[error(transparent)]
    Durable(DurableError),
    /// The execution cannot become a case.
    #[error(transparent)]
    Case(Box<CaseError>),
}

fn count(executions: usize) -> String {
    if executions == 1 { "1 execution".to_owned() } else { format!("{executions} executions") }
}

fn listed(waits: &[WaitInfo]) -> String {
    waits.iter().map(|wait| format!("\n  {}  {:?}, at {}", wait.id, wait.name, wait.place.within())).collect()
}

impl From<WorkspaceError> for OperateError {
    fn from(error: WorkspaceError) -> Self {
        if let WorkspaceError::Store(error) = error { Self::Store(error) } else { Self::Workspace(error) }
    }
}

impl From<DurableError> for OperateError {
    fn from(error: DurableError) -> Self {
        if let DurableError::Lease(LeaseError::Store(error)) | DurableError::Store(error) = error {
            return Self::Store(error);
        }
        if let DurableError::Lease(held) = error { Self::Lease(held) } else { Self::Durable(error) }
    }
}

impl OperateError {
    /// Who can do something about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoStore { .. }
            | Self::Unknown { .. }
            | Self::WhichWait { .. }
            | Self::NeedsValue { .. }
            | Self::Unfinished { .. }
            | Self::NotForPeople { .. }
            | Self::Case(_)
            | Self::NotText { .. }
            | Self::TooLong { .. }
            | Self::NotSaved { .. }
            | Self::Durable(DurableError::AnswerRefused { .. })
            | Self::Store(
                StoreError::Address { .. } | StoreError::NotEmpty { .. } | StoreError::BackedUpElsewhere { .. },
            ) => ErrorKind::Usage,
            Self::Store(StoreError::DiskFull { .. } | StoreError::Io { .. }) => ErrorKind::Environment,
            Self::Lease(_) | Self::ErasureStopped { .. } => ErrorKind::Retry,
            Self::AlreadyEnded { .. }
            | Self::NothingWaits { .. }
            | Self::Finished { .. }
            | Self::NothingToSettle { .. }
            | Self::SayWhatHappened { .. }
            | Self::Workspace(_)
            | Self::Store(_)
            | Self::Durable(_) => ErrorKind::Failed,
        }
    }
}
