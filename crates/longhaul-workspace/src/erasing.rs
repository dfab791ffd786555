//! Erasing records, links, milestones and conversations, as part of erasing whatever is left of a user, a task, a session
//! or of something that records say they are about.
//!
//! It owns which rows those are; the index of records is memory's, and erased there first. Invariants: a content goes
//! with the last record of the tenant that has it; no link is left with an end that was erased here.

use longhaul_core::{Digest, RecordId, SessionId, Subject, TaskId, TenantId, TimeMs, UserId};
use longhaul_store::{ReadTx, StoreError, Tx, Value, erasing, values};

/// What was erased.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Erased {
    /// Records.
    pub records: u64,
    /// Contents that stood in rows.
    pub contents: u64,
    /// Links that had an end there.
    pub links: u64,
    /// Milestones, those of others that named a record included.
    pub milestones: u64,
    /// Messages of conversations.
    pub messages: u64,
    /// Windows, memos and summaries of conversations.
    pub sessions: u64,
    /// Proposals for shared knowledge that did not become part of it.
    pub proposals: u64,
    /// Events that named a record.
    pub events: u64,
    /// Blobs that nobody in the workspace refers to any more, each with the time of the newest record that did.
    pub blobs: Vec<(Digest, TimeMs)>,
}

impl Erased {
    /// Adds what another step erased.
    pub fn add(&mut self, other: Self) {
        self.records += other.records;
        self.contents += other.contents;
        self.links += other.links;
        self.milestones += other.milestones;
        self.messages += other.messages;
        self.sessions += other.sessions;
        self.proposals += other.proposals;
        self.events += other.events;
        self.blobs.extend(other.blobs);
    }
}

/// A record that is to be erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doomed {
    /// The record.
    pub id: RecordId,
    /// Its task.
    pub task: TaskId,
}

fn whose(subject: &Subject) -> &'static str {
    subject.column().unwrap_or("subject")
}

/// The records that are to be erased.
///
/// # Errors
/// Those of the store.
pub fn records(read: &ReadTx<'_>, tenant: &TenantId, subject: &Subject) -> Result<Vec<Doomed>, StoreError> {
    let whose = whose(subject);
    let sql =
        format!("select record_id, task_id from records where tenant_id = ?1 and {whose} = ?2 order by record_id");
    read.query(&sql, &values![tenant, subject.as_str()], |row| Ok(Doomed { id: row.get(0)?, task: row.get(1)? }))
}

/// Erases records with their contents, their links, their events, and the milestones that name them.
///
/// # Errors
/// Those of the store.
pub fn erase_records(tx: &mut Tx<'_>, tenant: &TenantId, doomed: &[Doomed]) -> Result<Erased, StoreError> {
    let mut erased = Erased::default();
    for Doomed { id, .. } in doomed {
        let by_id = values![tenant, id];
        let found = tx.query_optional(
            "select digest, place, created_at, task_id from records where tenant_id = ?1 and record_id = ?2",
            &by_id,
            |row| Ok((row.get::<Digest>(0)?, row.get::<String>(1)?, row.get::<TimeMs>(2)?, row.get::<TaskId>(3)?)),
        )?;
        let Some((digest, place, created_at, task)) = found else { continue };
        erased.events += erasing::erase_events_naming(tx, tenant, task.as_str(), id.as_str())?;
        let milestones = tx.query(
            "select milestone_id from milestone_records where tenant_id = ?1 and record_id = ?2",
            &by_id,
            |row| row.get::<String>(0),
        )?;
        for milestone in milestones {
            erased.milestones += erase_milestone(tx, tenant, &milestone, &mut erased.links)?;
        }
        erased.links += erase_links(tx, tenant, id.as_str())?;
        tx.execute(
            "update records set superseded_by = null where tenant_id = ?1 and task_id = ?3 and superseded_by = ?2",
            &values![tenant, id, &task],
        )?;
        erased.records += tx.execute("delete from records where tenant_id = ?1 and record_id = ?2", &by_id)?;
        if place == "blob" {
            erased.blobs.push((digest, created_at));
        } else {
            erased.contents += tx.execute(
                "delete from contents where tenant_id = ?1 and digest = ?2 and not exists (
                     select 1 from records r where r.tenant_id = ?1 and r.digest = ?2 and r.place <> 'blob')",
                &values![tenant, &digest],
            )?;
        }
    }
    Ok(erased)
}

fn erase_milestone(tx: &mut Tx<'_>, tenant: &TenantId, milestone: &str, links: &mut u64) -> Result<u64, StoreError> {
    let by_id = values![tenant, milestone];
    *links += erase_links(tx, tenant, milestone)?;
    tx.execute("delete from milestone_records where tenant_id = ?1 and milestone_id = ?2", &by_id)?;
    tx.execute("delete from milestones where tenant_id = ?1 and milestone_id = ?2", &by_id)
}

/// Erases the links that have this id as an end, or a step of it.
///
/// # Errors
/// Those of the store.
pub fn erase_links(tx: &mut Tx<'_>, tenant: &TenantId, id: &str) -> Result<u64, StoreError> {
    // What stands below an id in the order of text: its steps.
    let params = values![tenant, id, format!("{id}/"), format!("{id}0")];
    let mut links = 0;
    for end in ["source_id", "target_id"] {
        let sql = format!("delete from links where tenant_id = ?1 and ({end} = ?2 or ({end} >= ?3 and {end} < ?4))");
        links += tx.execute(&sql, &params)?;
    }
    Ok(links)
}

/// Whose conversations a session has.
///
/// # Errors
/// Those of the store.
pub fn speakers(read: &ReadTx<'_>, tenant: &TenantId, session: &SessionId) -> Result<Vec<UserId>, StoreError> {
    let sql = "select user_id from messages where tenant_id = ?1 and session_id = ?2
               union select user_id from sessions where tenant_id = ?1 and session_id = ?2 order by 1";
    read.query(sql, &values![tenant, session], |row| row.get(0))
}

/// Erases what else there is of the subject: milestones, messages, the state of conversations, links. Where single
/// messages of a conversation go, its summary goes too: nobody can tell which words of it came from them.
///
/// # Errors
/// Those of the store.
pub fn erase_rest(tx: &mut Tx<'_>, tenant: &TenantId, subject: &Subject) -> Result<Erased, StoreError> {
    let mut erased = Erased::default();
    let Some(column) = subject.column() else { return Ok(erased) };
    let params = values![tenant, subject.as_str()];
    let sql = format!("select milestone_id from milestones where tenant_id = ?1 and {column} = ?2");
    for milestone in tx.query(&sql, &params, |row| row.get::<String>(0))? {
        erased.milestones += erase_milestone(tx, tenant, &milestone, &mut erased.links)?;
    }
    for end in ["source_id", "target_id"] {
        let sql = format!(
            "delete from links where tenant_id = ?1 and {end} in (
                 select message_id from messages where tenant_id = ?1 and {column} = ?2)"
        );
        erased.links += tx.execute(&sql, &params)?;
    }
    erased.sessions = erase_session_states(tx, subject, &params)?;
    let sql = format!("delete from messages where tenant_id = ?1 and {column} = ?2");
    erased.messages = tx.execute(&sql, &params)?;
    let sql = format!(
        "delete from shared_proposals where tenant_id = ?1 and {column} = ?2 and not exists (
             select 1 from shared_versions v
             where v.tenant_id = ?1 and v.proposal_id = shared_proposals.proposal_id)"
    );
    erased.proposals = tx.execute(&sql, &params)?;
    if let Subject::User(_) | Subject::Task(_) = subject {
        let sql = format!("delete from links where tenant_id = ?1 and {column} = ?2");
        erased.links += tx.execute(&sql, &params)?;
    }
    erased.links += erase_links(tx, tenant, subject.as_str())?;
    Ok(erased)
}

fn erase_session_states(tx: &mut Tx<'_>, subject: &Subject, params: &[Value]) -> Result<u64, StoreError> {
    let sql = match subject {
        Subject::User(_) => "delete from session_states where tenant_id = ?1 and user_id = ?2",
        Subject::Session(_) => "delete from session_states where tenant_id = ?1 and session_id = ?2",
        Subject::Task(_) => {
            // A conversation of this task goes whole; of another one nobody can tell which words came from here.
            let sql = "update session_states set summary = null, window_from = 1, title = '' where tenant_id = ?1
                 and session_id in (select session_id from messages where tenant_id = ?1 and task_id = ?2)";
            tx.execute(sql, params)?;
            "delete from session_states where tenant_id = ?1 and task_id = ?2 and not exists (
                 select 1 from messages m where m.tenant_id = ?1 and m.session_id = session_states.session_id
                     and m.task_id <> ?2)"
        }
        Subject::Named(_) => return Ok(0),
    };
    tx.execute(sql, params)
}

/// Erases the row that says whose a task's records are; to be called last.
///
/// # Errors
/// Those of the store.
pub fn erase_identity(tx: &mut Tx<'_>, tenant: &TenantId, subject: &Subject) -> Result<u64, StoreError> {
    let column = match subject {
        Subject::User(_) => "user_id",
        Subject::Task(_) => "task_id",
        Subject::Session(_) | Subject::Named(_) => return Ok(0),
    };
    let sql = format!(
        "delete from record_tasks where tenant_id = ?1 and {column} = ?2 and not exists (
             select 1 from records r where r.tenant_id = ?1 and r.task_id = record_tasks.task_id)"
    );
    tx.execute(&sql, &values![tenant, subject.as_str()])
}
