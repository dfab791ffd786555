//! A record whose content is durable, and its way to being visible: rows, index, link and events in one transaction.
//!
//! Invariant: what is written here is written by one transaction, the caller's; a name never gets a second content
//! under the same version.

use std::sync::Arc;

use longhaul_core::{EventDraft, ExecutionId, RecordId, TaskScope, TimeMs};
use longhaul_memory::{MemoryError, Prepared, user::UserError};
use longhaul_store::{StoreError, Tx, values};
use serde_json::json;

use crate::{
    Kind, RecordRef, Relation, Workspace, WorkspaceError, access,
    content::Inline,
    links::{self, NewLink},
    record::Place,
};

/// Version of what a row of `records` holds.
const SCHEMA: i64 = 2;
/// Most of a summary that an event carries.
pub(crate) const EVENT_SUMMARY_CHARS_MAX: usize = 200;

/// What the maker said of a record, checked.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) collection: String,
    pub(crate) kind: Kind,
    pub(crate) name: Option<String>,
    pub(crate) summary: String,
    pub(crate) source: String,
    pub(crate) media_type: String,
    /// Printed as JSON.
    pub(crate) meta: String,
    pub(crate) expires_at: Option<TimeMs>,
    pub(crate) subject: Option<String>,
    pub(crate) revise: bool,
    pub(crate) execution: Option<ExecutionId>,
    pub(crate) step: Option<String>,
}

/// Where a staged content is.
#[derive(Debug, Clone)]
pub(crate) enum Kept {
    /// To be written with the record's row.
    Row(Arc<Inline>),
    /// Among the blobs already.
    Blob,
}

/// A record whose content is durable, or comes with the row, and whose row is not yet written. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StagedRecord {
    workspace: Workspace,
    owner: TaskScope,
    about: Arc<About>,
    reference: RecordRef,
    size: u64,
    kept: Kept,
    index: Arc<Vec<Prepared>>,
}

/// The version before, of a name that is taken.
struct Before {
    version: u32,
    record: RecordId,
}

impl StagedRecord {
    pub(crate) fn new(
        workspace: &Workspace,
        owner: TaskScope,
        about: Arc<About>,
        reference: RecordRef,
        (size, kept): (u64, Kept),
        index: Vec<Prepared>,
    ) -> Self {
        Self { workspace: workspace.clone(), owner, about, reference, size, kept, index: Arc::new(index) }
    }

    /// The reference it will have; known before the row is visible.
    #[must_use]
    pub fn reference(&self) -> &RecordRef {
        &self.reference
    }

    /// Makes it visible in the transaction of whatever the record belongs to: its row, its index, its event, and for a
    /// further version of a name the link to the one before.
    ///
    /// # Errors
    /// [`WorkspaceError::NameTaken`], [`WorkspaceError::NoAccess`]; those of the store.
    pub fn commit(&self, tx: &mut Tx<'_>) -> Result<(), WorkspaceError> {
        Self::commit_all(std::slice::from_ref(self), tx)
    }

    /// Links it to something, in the transaction that makes it visible and after [`StagedRecord::commit`].
    ///
    /// # Errors
    /// As [`crate::link`].
    pub fn link(&self, tx: &mut Tx<'_>, relation: Relation, target: &str) -> Result<(), WorkspaceError> {
        let link = NewLink::new(&self.reference.id, relation, target);
        links::link(tx, self.workspace.memory(), &self.owner, &link)
    }

    /// Makes records of one task visible, in order.
    ///
    /// # Errors
    /// As [`StagedRecord::commit`].
    pub fn commit_all(staged: &[Self], tx: &mut Tx<'_>) -> Result<(), WorkspaceError> {
        for of_task in staged.chunk_by(|a, b| a.owner.scope == b.owner.scope && a.owner.task == b.owner.task) {
            Self::commit_of_task(of_task, tx)?;
        }
        Ok(())
    }

    fn commit_of_task(staged: &[Self], tx: &mut Tx<'_>) -> Result<(), WorkspaceError> {
        let Some(Self { workspace, owner, .. }) = staged.first() else { return Ok(()) };
        let memory = workspace.memory();
        let first = access::next(tx, memory, &owner.scope, &owner.task, staged.len())?;
        let parts: Vec<&Prepared> = staged.iter().flat_map(|staged| staged.index.iter()).collect();
        let is_indexed = match memory.insert_batch(tx, &owner.scope, &access::partition_of(&owner.task), &parts) {
            Ok(_) => true,
            // Records are kept all the same: they are listed and read, and not searched.
            Err(MemoryError::User(UserError::Off { .. })) => false,
            Err(error) => return Err(error.into()),
        };
        for (seq, staged) in (first..).zip(staged) {
            staged.write(tx, seq, is_indexed)?;
        }
        Ok(())
    }

    fn write(&self, tx: &mut Tx<'_>, seq: i64, is_indexed: bool) -> Result<(), WorkspaceError> {
        let before = self.before(tx)?;
        let version = before.as_ref().map_or(1, |before| before.version + 1);
        if let Kept::Row(inline) = &self.kept {
            inline.write(tx, &self.owner.scope, &self.reference.digest)?;
        }
        self.write_row(tx, seq, version, if is_indexed { self.index.len() } else { 0 })?;
        self.tell(tx, "record.ingested", json!({ "version": version }))?;
        if let Some(before) = before {
            self.supersede(tx, &before)?;
        }
        Ok(())
    }

    /// The newest version of the name, if it is taken and may be revised.
    fn before(&self, tx: &Tx<'_>) -> Result<Option<Before>, WorkspaceError> {
        let Some(name) = &self.about.name else { return Ok(None) };
        let newest = tx.query_optional(
            "select version, record_id from records where tenant_id = ?1 and task_id = ?2 and name = ?3
             order by version desc limit 1",
            &values![&self.owner.scope.tenant, &self.owner.task, name],
            |row| Ok(Before { version: row.get(0)?, record: row.get(1)? }),
        )?;
        match newest {
            Some(Before { version, record }) if !self.about.revise => {
                Err(WorkspaceError::NameTaken { task: self.owner.task.clone(), name: name.clone(), version, record })
            }
            newest => Ok(newest),
        }
    }

    fn write_row(&self, tx: &mut Tx<'_>, seq: i64, version: u32, parts: usize) -> Result<(), StoreError> {
        let (about, now) = (&self.about, tx.now());
        let place = match self.kept {
            Kept::Row(_) => Place::Row,
            Kept::Blob => Place::Blob,
        };
        tx.execute(
            "insert into records (tenant_id, record_id, user_id, session_id, task_id, trace_id, execution_id, step, seq,
                 collection, kind, name, version, media_type, summary, source, meta, digest, size, place, subject,
                 created_at, expires_at, parts, schema)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
                 ?23, ?24, ?25)",
            &values![
                &self.owner.scope.tenant,
                &self.reference.id,
                &self.owner.scope.user,
                &self.owner.session,
                &self.owner.task,
                &self.owner.trace,
                about.execution.as_ref(),
                about.step.as_ref(),
                seq,
                &about.collection,
                about.kind.as_str(),
                about.name.as_ref(),
                version,
                &about.media_type,
                &about.summary,
                &about.source,
                &about.meta,
                &self.reference.digest,
                self.size,
                place.as_str(),
                about.subject.as_ref(),
                now,
                about.expires_at,
                parts,
                SCHEMA,
            ],
        )?;
        Ok(())
    }

    fn supersede(&self, tx: &mut Tx<'_>, before: &Before) -> Result<(), WorkspaceError> {
        tx.execute(
            "update records set superseded_by = ?3 where tenant_id = ?1 and record_id = ?2",
            &values![&self.owner.scope.tenant, &before.record, &self.reference.id],
        )?;
        let link = NewLink::new(self.reference.id.as_str(), Relation::Supersedes, before.record.as_str());
        links::write(tx, &self.owner, &link)?;
        self.tell(tx, "record.superseded", json!({ "superseded": before.record, "version": before.version }))
    }

    /// Appends an event of this record, with these details.
    fn tell(&self, tx: &mut Tx<'_>, kind: &str, mut data: serde_json::Value) -> Result<(), WorkspaceError> {
        let about = &self.about;
        let summary: String = about.summary.chars().take(EVENT_SUMMARY_CHARS_MAX).collect();
        data["record"] = json!(self.reference.id);
        data["collection"] = json!(about.collection);
        data["kind"] = json!(about.kind);
        data["name"] = json!(about.name);
        data["summary"] = json!(summary);
        data["digest"] = json!(self.reference.digest);
        data["bytes"] = json!(self.size);
        let draft = EventDraft::business(kind, data);
        tx.append_event(&self.owner, about.execution.as_ref(), about.step.as_deref(), draft)?;
        Ok(())
    }
}
