//! Milestones of a task: a named pointer to a checkpoint of an execution, with the refs of what recovery needs.
//!
//! It owns `milestones`. Invariants: a name never gets a second content under the same version; every ref of a milestone
//! was there, with its digest, when the milestone was reached. It holds no transcript and no state.

use longhaul_core::{EventDraft, ExecutionId, MilestoneId, TaskScope, TimeMs, limits::REFS_MAX};
use longhaul_memory::Memory;
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};
use serde::Serialize;
use serde_json::json;

use crate::{RecordRef, TaskWorkspace, WorkspaceError, content, error::field, ingest::check_line, links};

const SCHEMA: i64 = 1;

/// A milestone that is being reached.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewMilestone {
    /// What it is called within the task, 1 to 200 characters: `risk-review`.
    pub name: String,
    /// The execution whose checkpoint it points to.
    pub execution: Option<ExecutionId>,
    /// The superstep of that checkpoint.
    pub superstep: Option<u64>,
    /// What recovery needs, at most [`REFS_MAX`]. These records do not expire any more.
    pub refs: Vec<RecordRef>,
    /// What else to say of it, at most 500 characters.
    pub note: Option<String>,
    /// Makes the next version of its name, where the name is taken.
    pub revise: bool,
}

/// A milestone that was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Milestone {
    /// Its id.
    pub id: MilestoneId,
    /// Whose task it belongs to.
    pub owner: TaskScope,
    /// What it is called within the task.
    pub name: String,
    /// Its version under that name, from 1.
    pub version: u32,
    /// The execution whose checkpoint it points to.
    pub execution: Option<ExecutionId>,
    /// The superstep of that checkpoint.
    pub superstep: Option<u64>,
    /// What recovery needs.
    pub refs: Vec<RecordRef>,
    /// What else was said of it.
    pub note: Option<String>,
    /// When it was reached.
    pub created_at: TimeMs,
}

const COLUMNS: &str = "milestone_id, tenant_id, user_id, session_id, task_id, trace_id, name, version, execution_id,
    superstep, refs, note, created_at";

fn read_milestone(row: &Row<'_>) -> Result<Milestone, StoreError> {
    let id: MilestoneId = row.get(0)?;
    Ok(Milestone {
        owner: TaskScope {
            scope: longhaul_core::Scope { tenant: row.get(1)?, user: row.get(2)? },
            session: row.get(3)?,
            task: row.get(4)?,
            trace: row.get(5)?,
        },
        name: row.get(6)?,
        version: row.get(7)?,
        execution: row.get(8)?,
        superstep: row.get(9)?,
        refs: serde_json::from_str(row.text(10)?).map_err(StoreError::record("milestone", &id))?,
        note: row.get(11)?,
        created_at: row.get(12)?,
        id,
    })
}

/// Writes a milestone in the caller's transaction, with its event.
///
/// # Errors
/// [`WorkspaceError::MilestoneTaken`]; [`WorkspaceError::NoSuchRecord`] and [`WorkspaceError::DigestMismatch`] for a ref
/// that does not hold, [`WorkspaceError::NoSuchEnd`] for an execution that is not there; [`WorkspaceError::Field`]; those
/// of the store.
pub fn reach(
    tx: &mut Tx<'_>,
    memory: &Memory,
    owner: &TaskScope,
    new: &NewMilestone,
) -> Result<Milestone, WorkspaceError> {
    check(tx, memory, owner, new)?;
    let newest = tx.query_optional(
        "select version, milestone_id from milestones where tenant_id = ?1 and task_id = ?2 and name = ?3
         order by version desc limit 1",
        &values![&owner.scope.tenant, &owner.task, &new.name],
        |row| Ok((row.get::<u32>(0)?, row.get::<MilestoneId>(1)?)),
    )?;
    let version = match newest {
        None => 1,
        Some((version, _)) if new.revise => version + 1,
        Some((version, milestone)) => {
            let (task, name) = (owner.task.clone(), new.name.clone());
            return Err(WorkspaceError::MilestoneTaken { task, name, version, milestone });
        }
    };
    let milestone = Milestone {
        id: MilestoneId::from_body(&tx.ambient().ids.body()),
        owner: owner.clone(),
        name: new.name.clone(),
        version,
        execution: new.execution.clone(),
        superstep: new.superstep,
        refs: new.refs.clone(),
        note: new.note.clone(),
        created_at: tx.now(),
    };
    write(tx, &milestone)?;
    Ok(milestone)
}

fn check(tx: &Tx<'_>, memory: &Memory, owner: &TaskScope, new: &NewMilestone) -> Result<(), WorkspaceError> {
    check_line("name", &new.name, 200)?;
    if let Some(note) = &new.note {
        check_line("note", note, 500)?;
    }
    if new.refs.len() > REFS_MAX {
        return Err(field("refs", &format!("{} refs", new.refs.len()), format!("at most {REFS_MAX} refs")));
    }
    if new.superstep.is_some() && new.execution.is_none() {
        return Err(field("superstep", "given without an execution", "the execution whose superstep it is"));
    }
    if let Some(execution) = &new.execution {
        links::check_end(tx, memory, &owner.scope, execution.as_str())?;
    }
    for reference in &new.refs {
        let record = content::visible(tx, memory, &owner.scope, &reference.id)?;
        if record.reference.digest != reference.digest {
            return Err(WorkspaceError::DigestMismatch {
                record: reference.id.clone(),
                expected: reference.digest,
                found: record.reference.digest,
            });
        }
    }
    Ok(())
}

fn write(tx: &mut Tx<'_>, milestone: &Milestone) -> Result<(), WorkspaceError> {
    let Milestone { id, owner, name, version, execution, superstep, refs, note, created_at } = milestone;
    let printed = serde_json::to_string(refs).map_err(StoreError::record("milestone", id))?;
    tx.execute(
        "insert into milestones (tenant_id, milestone_id, user_id, session_id, task_id, trace_id, name, version,
             execution_id, superstep, refs, note, created_at, schema)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        &values![
            &owner.scope.tenant,
            id,
            &owner.scope.user,
            &owner.session,
            &owner.task,
            &owner.trace,
            name,
            *version,
            execution.as_ref(),
            *superstep,
            printed,
            note.as_ref(),
            *created_at,
            SCHEMA,
        ],
    )?;
    for reference in refs {
        tx.execute(
            "insert into milestone_records (tenant_id, record_id, milestone_id) values (?1, ?2, ?3)
             on conflict do nothing",
            &values![&owner.scope.tenant, &reference.id, id],
        )?;
        // What recovery needs is kept as long as the milestone.
        tx.execute(
            "update records set expires_at = null
             where tenant_id = ?1 and record_id = ?2 and expires_at is not null",
            &values![&owner.scope.tenant, &reference.id],
        )?;
    }
    let data = json!({
        "milestone": id, "name": name, "version": version, "superstep": superstep, "records": refs.len(),
    });
    tx.append_event(owner, execution.as_ref(), None, EventDraft::business("milestone.reached", data))?;
    Ok(())
}

impl TaskWorkspace {
    /// Reaches a milestone, in a transaction of its own.
    ///
    /// # Errors
    /// As [`reach`].
    pub async fn reach(&self, new: NewMilestone) -> Result<Milestone, WorkspaceError> {
        let (owner, memory) = (self.owner().clone(), self.workspace().memory().clone());
        self.workspace().store().write(move |tx| reach(tx, &memory, &owner, &new)).await
    }

    /// The newest version of the task's milestone of this name.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn milestone(&self, name: &str) -> Result<Option<Milestone>, WorkspaceError> {
        let name = name.to_owned();
        Ok(self.find_milestones("and name = ?3", Some(name), 1).await?.pop())
    }

    /// The task's milestones, newest first, at most so many.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn milestones(&self, limit: u32) -> Result<Vec<Milestone>, WorkspaceError> {
        self.find_milestones("", None, limit).await
    }

    async fn find_milestones(
        &self,
        which: &'static str,
        name: Option<String>,
        limit: u32,
    ) -> Result<Vec<Milestone>, WorkspaceError> {
        let owner = self.owner().clone();
        let find = move |read: &ReadTx<'_>| {
            let sql = format!(
                "select {COLUMNS} from milestones where tenant_id = ?1 and task_id = ?2 {which}
                 order by created_at desc, version desc, milestone_id desc limit {limit}"
            );
            let mut params = values![&owner.scope.tenant, &owner.task].to_vec();
            params.extend(name.map(Into::into));
            read.query(&sql, &params, read_milestone)
        };
        Ok(self.workspace().store().read::<_, StoreError>(find).await?)
    }
}
