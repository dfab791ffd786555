//! The case file: all that is needed to run an execution again, and what must come of it.
//!
//! It owns the file's form and its version. Invariants: a case says everything that the outside world gave to the
//! execution (input, results of steps, answers); what is not in it cannot be asked for; its digests are of its own
//! content, not of the store's rows, so that a case that somebody has edited is noticed.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use longhaul_core::{Digest, ExecutionId, TaskScope, ThreadId, TimeMs};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::criteria::Criteria;
use crate::{Status, StepId, WaitKind, WaitStatus};

/// Version of the files that this release writes; it reads 1 to this.
pub const CASE_V: u32 = 1;

/// Largest case file. Large content belongs in the workspace, and then only its reference is in the case.
pub const CASE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// An execution as a case.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// [`CASE_V`] of the release that wrote it.
    pub longhaul_case: u32,
    /// What it is called in reports.
    pub name: String,
    /// What must hold, whatever else is compared.
    pub accept: Criteria,
    /// On whose behalf it ran.
    pub scope: TaskScope,
    /// The execution, then those that it began as children, in the order in which they began.
    pub executions: Vec<CaseExecution>,
    /// The business events of all of them, in the order of the log, without ids and times.
    pub events: Vec<CaseEvent>,
    /// What somebody added while it ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interventions: Vec<CaseIntervention>,
    /// The state it ended with, if it could be made: a store alone knows updates, and the graph's code what they mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_state: Option<Value>,
    /// How many values were replaced before it was written.
    #[serde(default)]
    pub redacted: u64,
}

/// One execution of a case.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseExecution {
    /// Its id, which its replay has too: idempotency keys and children's names follow from it.
    pub id: ExecutionId,
    /// Its thread.
    pub thread: ThreadId,
    /// The step that began it, if it is a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_step: Option<StepId>,
    /// Name of the graph.
    pub graph: String,
    /// Its version.
    pub graph_version: u32,
    /// Fingerprint of its shape.
    pub fingerprint: Digest,
    /// Version of the state's form.
    pub state_version: u32,
    /// When it began; the replay's clock starts here.
    pub started_at: TimeMs,
    /// What it began with.
    pub begins: Begins,
    /// How it was when the case was recorded.
    pub end: CaseEnd,
    /// What each superstep of each frame came to, in the order in which they were closed.
    pub checkpoints: Vec<CaseCheckpoint>,
    /// What the outside world gave to its steps.
    pub steps: Vec<CaseStep>,
    /// What it waited for, and how each wait ended.
    pub waits: Vec<CaseWait>,
}

impl CaseExecution {
    /// The number of its last closed superstep of the outermost graph.
    #[must_use]
    pub fn last_superstep(&self) -> u64 {
        let outermost = self.checkpoints.iter().filter(|row| row.ns.is_empty()).map(|row| row.superstep);
        outermost.max().unwrap_or(self.begins.superstep)
    }
}

/// What an execution began with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begins {
    /// 0; where it was forked or migrated, the superstep after which it stood.
    pub superstep: u64,
    /// The state, as it was written.
    pub state: Box<RawValue>,
    /// Where it stood.
    pub position: Value,
}

/// How an execution was when its case was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseEnd {
    /// `completed`, `waiting`, `failed` … as [`Status::as_str`] says.
    pub status: String,
    /// Why its last run failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl CaseEnd {
    pub(super) fn is(&self, status: Status) -> bool {
        self.status == status.as_str()
    }
}

/// What a superstep came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseCheckpoint {
    /// The frame; empty for the outermost.
    pub ns: String,
    /// Its number there.
    pub superstep: u64,
    /// The nodes that ran, joined by commas.
    pub nodes: String,
    /// Whether somebody outside made it: [`crate::Runtime::update_state`].
    #[serde(default, skip_serializing_if = "is_false")]
    pub edited: bool,
    /// The updates, an array by task of arrays; of a frame's first row the state, or nothing if it shares that around
    /// it.
    pub updates: Value,
    /// Where the frame stood then.
    pub next: Value,
    /// Of this and all before it in the frame, fields of objects sorted.
    pub digest: Digest,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// What a step was given.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseStep {
    /// Which.
    pub step: StepId,
    /// `pure`, `idempotent`, `once`, or `child`.
    pub effect: String,
    /// Its result, as it was written.
    pub result: Box<RawValue>,
}

/// What was waited for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseWait {
    /// Where.
    pub place: StepId,
    /// What for.
    pub kind: WaitKind,
    /// What whoever answered was told.
    pub payload: Value,
    /// What the answer had to look like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// Which events of its name were meant.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub correlation: String,
    /// How it ended, if it did.
    pub status: WaitStatus,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// When: the node sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<TimeMs>,
}

/// A business event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseEvent {
    /// The execution that caused it.
    pub execution: ExecutionId,
    /// Its kind.
    pub kind: String,
    /// Where in the execution, if that is known: a step, or a node's run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What happened, without ids of waits and times.
    pub data: Value,
    /// Whether a replay makes it again.
    pub origin: Origin,
}

/// Where an event comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The runtime or the node's own code: a replay makes it again, and it is compared.
    Replayed,
    /// The transaction of a step, or somebody outside: it comes with the recorded results, and is not compared.
    Given,
}

/// What somebody added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseIntervention {
    /// Who.
    pub author: String,
    /// What they said about it.
    pub note: String,
    /// What was to be taken into account.
    pub payload: Value,
}

/// Why there is no case.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// The file cannot be read or written.
    #[error("{}: the case file cannot be read or written", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The text is no case.
    #[error("this is no case file that can be read: record the execution again with `longhaul eval record`")]
    Form {
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// A newer release wrote it.
    #[error(
        "the case file has version {found}, and this release reads 1 to {CASE_V}: use the release that wrote it, or record it again"
    )]
    Version {
        /// Its version.
        found: u64,
    },
    /// Its content is not what was recorded.
    #[error("the case {name:?} was changed at {place}: only `name` and `accept` are for editing; record it again")]
    Changed {
        /// The case.
        name: String,
        /// The first place where that shows.
        place: String,
    },
    /// It is too large.
    #[error(
        "the case takes {bytes} bytes, at most {bytes_max} are allowed: keep large content in the workspace and return its reference from steps"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// Its beginning is no longer in the store, or was written by the first release.
    #[error("{execution} cannot become a case: {why}")]
    Unfit {
        /// The execution.
        execution: ExecutionId,
        /// What is in the way, and what to do.
        why: String,
    },
    /// The redaction names nothing.
    #[error(
        "--redact {path}: nothing in the case is there; a path looks like /executions/0/begins/state/email, with * for any key"
    )]
    RedactsNothing {
        /// The path.
        path: String,
    },
    /// The store's own error.
    #[error(transparent)]
    Durable(#[from] crate::DurableError),
}

impl From<longhaul_store::StoreError> for CaseError {
    fn from(error: longhaul_store::StoreError) -> Self {
        Self::Durable(error.into())
    }
}

impl Case {
    /// The execution that was recorded; its children are the others.
    #[must_use]
    pub fn root(&self) -> &CaseExecution {
        // Reading and recording refuse a case without one.
        &self.executions[0]
    }

    /// Reads a case from its text.
    ///
    /// # Errors
    /// [`CaseError::Form`], [`CaseError::Version`], [`CaseError::Changed`], [`CaseError::TooLarge`].
    pub fn parse(text: &str) -> Result<Self, CaseError> {
        #[derive(Deserialize)]
        struct Version {
            longhaul_case: u64,
        }
        if text.len() > CASE_BYTES_MAX {
            return Err(CaseError::TooLarge { bytes: text.len(), bytes_max: CASE_BYTES_MAX });
        }
        let form = |source| CaseError::Form { source };
        let Version { longhaul_case: found } = serde_json::from_str(text).map_err(form)?;
        if found == 0 || found > u64::from(CASE_V) {
            return Err(CaseError::Version { found });
        }
        let case: Self = serde_json::from_str(text).map_err(form)?;
        case.check()?;
        Ok(case)
    }

    /// Reads a case from a file.
    ///
    /// # Errors
    /// [`CaseError::Io`]; those of [`Self::parse`].
    pub fn read(path: &Path) -> Result<Self, CaseError> {
        let text = fs::read_to_string(path).map_err(|source| CaseError::Io { path: path.to_owned(), source })?;
        Self::parse(&text)
    }

    /// Its text, as it stands in a file.
    ///
    /// # Errors
    /// [`CaseError::TooLarge`], [`CaseError::Form`].
    pub fn to_text(&self) -> Result<String, CaseError> {
        let mut text = serde_json::to_string_pretty(self).map_err(|source| CaseError::Form { source })?;
        text.push('\n');
        if text.len() > CASE_BYTES_MAX {
            return Err(CaseError::TooLarge { bytes: text.len(), bytes_max: CASE_BYTES_MAX });
        }
        Ok(text)
    }

    /// Writes it to a file, which is there whole or not at all.
    ///
    /// # Errors
    /// [`CaseError::Io`]; those of [`Self::to_text`].
    pub fn write(&self, path: &Path) -> Result<(), CaseError> {
        let text = self.to_text()?;
        let beside = path.with_extension("json.tmp");
        let failed = |source| CaseError::Io { path: path.to_owned(), source };
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(failed)?;
        }
        fs::write(&beside, text).map_err(failed)?;
        fs::rename(&beside, path).map_err(failed)
    }

    fn check(&self) -> Result<(), CaseError> {
        let changed = |place: String| CaseError::Changed { name: self.name.clone(), place };
        if self.executions.is_empty() {
            return Err(changed("executions".to_owned()));
        }
        for execution in &self.executions {
            let mut again = execution.clone();
            again.rechain();
            for (row, right) in execution.checkpoints.iter().zip(&again.checkpoints) {
                if row.digest != right.digest {
                    return Err(changed(super::place::of_row(execution, row)));
                }
            }
        }
        Ok(())
    }
}

impl CaseExecution {
    /// Gives each checkpoint the digest of what it holds.
    pub(super) fn rechain(&mut self) {
        let mut chains = std::collections::BTreeMap::<String, Digest>::new();
        for row in &mut self.checkpoints {
            let before = chains
                .get(&row.ns)
                .copied()
                .unwrap_or_else(|| Digest::of_parts([b"case 1".as_slice(), row.ns.as_bytes()]));
            row.digest = Digest::of_parts([
                &before.as_bytes()[..],
                &row.superstep.to_be_bytes()[..],
                row.nodes.as_bytes(),
                canonical(&row.updates).as_bytes(),
                canonical(&row.next).as_bytes(),
            ]);
            chains.insert(row.ns.clone(), row.digest);
        }
    }
}

/// A value's text with the fields of objects sorted: their order is no part of a state.
pub(super) fn canonical(value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    value.to_string()
}
