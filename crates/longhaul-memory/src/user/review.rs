//! Proposals as rows: filed once, ruled by the policy or decided by a person, applied as a version, taken back.
//!
//! Invariant: a proposal and what it changed are one transaction; it is decided once, and what wants the same as one that
//! waits is the same proposal.

use std::collections::BTreeSet;

use longhaul_core::{MemoryId, Scope, TenantId, TimeMs};
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};
use serde_json::json;

use super::{
    Actor, By, Decision, Entry, EntryId, Origin, Proposal, ProposalId, ProposalState, ReviewPolicy, Slot, Target,
    UserError,
    block::one_line,
    proposal::{Case, ProposedMemory, Ruling},
    rules,
    schema::ROW_VERSION,
    state::{Change, State},
    versions::{self, Action, Head},
};
use crate::{Memory, MemoryError, NewMemory, access, rows};

/// Most proposals of one user that wait; of more, the newest are refused.
const PENDING_MAX: u32 = 500;

/// What is to be proposed.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) target: Target,
    pub(crate) confidence: f32,
    pub(crate) proposer: Actor,
    pub(crate) quote: Option<String>,
    pub(crate) threads: BTreeSet<String>,
    /// The words are not the user's own.
    pub(crate) not_the_users: bool,
}

/// What became of a draft.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Filed {
    /// It waits, or was ruled on at once.
    As(Box<Proposal>),
    /// It was rejected before, or too many wait.
    Refused(&'static str),
}

const COLUMNS: &str =
    "proposal_id, user_id, state, target, confidence, proposer, quote, threads, created_at, decided_at,
    decided_by, why, version, memory_id";

fn read_row(row: &Row<'_>) -> Result<Proposal, StoreError> {
    let word =
        |column, expected| StoreError::Column { column, expected, found: row.text(column).unwrap_or("").to_owned() };
    let id = ProposalId(row.get(0)?);
    let actor = |column| match row.get::<Option<String>>(column)? {
        Some(text) => text.parse::<Actor>().map(Some).map_err(|_| word(column, "an actor")),
        None => Ok(None),
    };
    Ok(Proposal {
        user: row.get(1)?,
        state: row.text(2)?.parse().map_err(|_| word(2, "a proposal's state"))?,
        target: serde_json::from_str(row.text(3)?).map_err(StoreError::record("proposal", &id))?,
        confidence: row.get(4)?,
        proposer: actor(5)?.ok_or_else(|| word(5, "an actor"))?,
        quote: row.get(6)?,
        threads: serde_json::from_str(row.text(7)?).map_err(StoreError::record("proposal", &id))?,
        created_at: row.get(8)?,
        decided_at: row.get(9)?,
        decided_by: actor(10)?,
        why: row.get(11)?,
        version: row.get(12)?,
        memory: row.get(13)?,
        id,
    })
}

/// The user's proposals, the oldest first.
pub(crate) fn all(read: &ReadTx<'_>, scope: &Scope, state: Option<ProposalState>) -> Result<Vec<Proposal>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM memory_proposals
         WHERE tenant_id = ?1 AND user_id = ?2 AND (?3 = '' OR state = ?3) ORDER BY created_at, proposal_id"
    );
    let state = state.map_or("", ProposalState::as_str);
    read.query(&sql, &values![&scope.tenant, &scope.user, state], read_row)
}

fn find(read: &ReadTx<'_>, scope: &Scope, id: &ProposalId) -> Result<Proposal, MemoryError> {
    let sql =
        format!("SELECT {COLUMNS} FROM memory_proposals WHERE tenant_id = ?1 AND user_id = ?2 AND proposal_id = ?3");
    let found = read.query_optional(&sql, &values![&scope.tenant, &scope.user, &id.0], read_row)?;
    found.ok_or_else(|| UserError::NoProposal { id: id.to_string() }.into())
}

/// Files a draft for the scope's user, and applies it at once where the policy says so.
pub(crate) fn file(
    memory: &Memory,
    tx: &mut Tx<'_>,
    scope: &Scope,
    policy: &ReviewPolicy,
    draft: Draft,
) -> Result<Filed, MemoryError> {
    let head = versions::lock(tx, scope)?;
    let key = draft.target.key();
    let sql = format!(
        "SELECT {COLUMNS} FROM memory_proposals WHERE tenant_id = ?1 AND user_id = ?2 AND target_key = ?3
         AND state IN ('pending', 'rejected') ORDER BY state LIMIT 1"
    );
    match tx.query_optional(&sql, &values![&scope.tenant, &scope.user, &key], read_row)? {
        Some(known) if known.state == ProposalState::Pending => {
            return Ok(Filed::As(Box::new(said_again(tx, scope, known, &draft)?)));
        }
        Some(_) => return Ok(Filed::Refused("the same was rejected before")),
        None => {}
    }
    let waiting: u32 = tx.query_one(
        "SELECT count(*) FROM memory_proposals WHERE tenant_id = ?1 AND user_id = ?2 AND state = 'pending'",
        &values![&scope.tenant, &scope.user],
        |row| row.get(0),
    )?;
    if waiting >= PENDING_MAX {
        return Ok(Filed::Refused("too many proposals wait for a decision"));
    }
    let state = versions::state(tx, scope)?;
    let case = Case {
        kind: draft.target.kind(),
        confidence: draft.confidence,
        over_explicit: touched(&draft.target, &state).is_some_and(|entry| entry.origin == Origin::Explicit),
        not_the_users: draft.not_the_users,
    };
    let ruling = policy.rule(case);
    let mut proposal = Proposal {
        id: ProposalId(format!("prop_{}", tx.ambient().ids.body())),
        user: scope.user.clone(),
        state: ProposalState::Pending,
        target: draft.target,
        confidence: draft.confidence.clamp(0.0, 1.0),
        proposer: draft.proposer,
        quote: draft.quote,
        threads: draft.threads,
        created_at: tx.now(),
        decided_at: None,
        decided_by: None,
        why: None,
        version: None,
        memory: None,
    };
    insert(tx, scope, &proposal, &key)?;
    let by = |why: &str| By { actor: Actor::System, thread: None, why: why.to_owned() };
    match ruling {
        Ruling::Wait(why) => proposal.why = Some(why.to_owned()),
        Ruling::Reject(why) => closed(&mut proposal, ProposalState::Rejected, tx, &by(why)),
        Ruling::Apply => {
            let why = format!("the policy accepts what is this sure ({:.2})", proposal.confidence);
            match apply(memory, tx, scope, &head, &mut proposal, false, &by(&why)) {
                Ok(()) => closed(&mut proposal, ProposalState::Applied, tx, &by(&why)),
                // It does not fit now; a person may make room.
                Err(MemoryError::User(error)) => proposal.why = Some(error.to_string()),
                Err(error) => return Err(error),
            }
        }
    }
    update(tx, scope, &proposal)?;
    Ok(Filed::As(Box::new(proposal)))
}

/// The entry that a target would change.
fn touched<'a>(target: &Target, state: &'a State) -> Option<&'a Entry> {
    match target {
        Target::Replace { entry, .. } | Target::Remove { entry, .. } => state.entries.get(entry),
        Target::Add { slot, .. } => state.against(slot.as_ref()).and_then(|id| state.entries.get(&id)),
        Target::Memory(_) => None,
    }
}

/// One more reason for a proposal that waits.
fn said_again(tx: &mut Tx<'_>, scope: &Scope, known: Proposal, draft: &Draft) -> Result<Proposal, StoreError> {
    let new_reason = !draft.threads.is_subset(&known.threads);
    let mut proposal = known;
    if new_reason {
        proposal.confidence = 1.0 - (1.0 - proposal.confidence) * (1.0 - draft.confidence.clamp(0.0, 1.0));
    }
    proposal.threads.extend(draft.threads.iter().take(super::THREADS_MAX).cloned());
    update(tx, scope, &proposal)?;
    Ok(proposal)
}

fn closed(proposal: &mut Proposal, state: ProposalState, tx: &Tx<'_>, by: &By) {
    proposal.state = state;
    proposal.decided_at = Some(tx.now());
    proposal.decided_by = Some(by.actor.clone());
    proposal.why = Some(by.why.clone()).filter(|why| !why.is_empty());
}

/// Writes what the proposal wants, and notes in it what that came to.
fn apply(
    memory: &Memory,
    tx: &mut Tx<'_>,
    scope: &Scope,
    head: &Head,
    proposal: &mut Proposal,
    reworded: bool,
    by: &By,
) -> Result<(), MemoryError> {
    let Some(op) = proposal.target.op() else {
        let Target::Memory(proposed) = &mut proposal.target else { return Ok(()) };
        proposed.rivals = rivals(tx, scope, proposed)?;
        let mut new = NewMemory::from(proposed.as_ref().clone());
        new.meta.insert("reviewed_by".to_owned(), json!(by.actor.to_string()));
        new.meta.insert("proposal".to_owned(), json!(proposal.id.to_string()));
        proposal.memory = Some(memory.insert(tx, scope, &new)?);
        return Ok(());
    };
    let before = versions::state(tx, scope)?;
    let target = touched(&proposal.target, &before);
    if let Target::Replace { entry, .. } | Target::Remove { entry, .. } = &proposal.target
        && target.is_none()
    {
        return Err(UserError::Outdated { id: proposal.id.to_string(), entry: *entry }.into());
    }
    let explicit = reworded || target.is_some_and(|entry| entry.origin == Origin::Explicit);
    let origin = if explicit { Origin::Explicit } else { Origin::Implicit };
    let change = Change { op, origin, threads: proposal.threads.clone() };
    let changed = before.changed(&change, head.next_entry, tx.now())?;
    let id = proposal.id.to_string();
    let both = (&before, &changed.state);
    let version = versions::commit(memory, tx, scope, head, both, Action::Proposal, (by, Some(&id)))?;
    proposal.version = Some(version);
    tx.execute(
        "UPDATE memory_proposals SET entry = ?4 WHERE tenant_id = ?1 AND user_id = ?2 AND proposal_id = ?3",
        &values![&scope.tenant, &scope.user, &proposal.id.0, changed.entry.0],
    )?;
    Ok(())
}

/// A person's decision.
pub(crate) fn decide(
    memory: &Memory,
    tx: &mut Tx<'_>,
    scope: &Scope,
    id: &ProposalId,
    decision: &Decision,
    by: &By,
) -> Result<Proposal, MemoryError> {
    let head = versions::lock(tx, scope)?;
    let mut proposal = find(tx, scope, id)?;
    if proposal.state != ProposalState::Pending {
        return Err(UserError::Decided { id: id.to_string(), state: proposal.state.as_str() }.into());
    }
    match decision {
        Decision::Reject => closed(&mut proposal, ProposalState::Rejected, tx, by),
        Decision::Accept | Decision::AcceptAs(_) => {
            versions::check_on(&head, scope)?;
            let reworded = if let Decision::AcceptAs(text) = decision {
                reword(&mut proposal.target, text)?;
                true
            } else {
                false
            };
            apply(memory, tx, scope, &head, &mut proposal, reworded, by)?;
            closed(&mut proposal, ProposalState::Applied, tx, by);
        }
    }
    update(tx, scope, &proposal)?;
    Ok(proposal)
}

fn reword(target: &mut Target, wanted: &str) -> Result<(), MemoryError> {
    let known = |text: &str| -> Option<Slot> { rules::slot_of(text).and_then(|known| known.slot) };
    match target {
        Target::Add { text, slot, .. } | Target::Replace { text, slot, .. } => {
            *text = one_line(wanted)?;
            *slot = known(text);
        }
        Target::Memory(memory) => wanted.clone_into(&mut memory.content),
        Target::Remove { .. } => {}
    }
    Ok(())
}

/// Takes back what was applied.
pub(crate) fn undo(
    memory: &Memory,
    tx: &mut Tx<'_>,
    scope: &Scope,
    id: &ProposalId,
    by: &By,
) -> Result<Proposal, MemoryError> {
    let head = versions::lock(tx, scope)?;
    versions::check_on(&head, scope)?;
    let mut proposal = find(tx, scope, id)?;
    if proposal.state != ProposalState::Applied {
        return Err(UserError::Decided { id: id.to_string(), state: proposal.state.as_str() }.into());
    }
    if let Some(written) = &proposal.memory {
        let rivals = match &proposal.target {
            Target::Memory(proposed) => proposed.rivals.as_slice(),
            Target::Add { .. } | Target::Replace { .. } | Target::Remove { .. } => &[],
        };
        // Taken back is not forgotten: what was proposed stays in the list of proposals.
        tx.execute(
            "UPDATE memory_proposals SET memory_id = NULL WHERE tenant_id = ?1 AND user_id = ?2 AND proposal_id = ?3",
            &values![&scope.tenant, &scope.user, &proposal.id.0],
        )?;
        undo_memory(memory, tx, scope, written, rivals)?;
    } else if let Some(version) = proposal.version {
        undo_version(memory, tx, scope, &head, version, by)?;
    }
    closed(&mut proposal, ProposalState::Undone, tx, by);
    update(tx, scope, &proposal)?;
    Ok(proposal)
}

/// What is believed now of the same, with the time until which it is true: the facts that a new one may close.
fn rivals(
    read: &ReadTx<'_>,
    scope: &Scope,
    proposed: &ProposedMemory,
) -> Result<Vec<(MemoryId, Option<TimeMs>)>, StoreError> {
    let Some(fact) = &proposed.fact else { return Ok(Vec::new()) };
    read.query(
        "SELECT memory_id, valid_to FROM memories WHERE tenant_id = ?1 AND namespace = ?2 AND subject = ?3
         AND attribute = ?4 AND superseded_at IS NULL ORDER BY seq DESC LIMIT 100",
        &values![&scope.tenant, proposed.namespace.as_str(), &fact.subject, &fact.attribute],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// Forgets what was written, and believes again what it had superseded.
fn undo_memory(
    memory: &Memory,
    tx: &mut Tx<'_>,
    scope: &Scope,
    written: &MemoryId,
    rivals: &[(MemoryId, Option<TimeMs>)],
) -> Result<(), MemoryError> {
    for (rival, valid_to) in rivals {
        let Some(found) = rows::find(tx, &scope.tenant, rival)? else { continue };
        let change = access::next_change(tx, &found.id)?;
        tx.execute(
            "UPDATE memories SET superseded_by = NULL, superseded_at = NULL, valid_to = ?4, change_seq = ?5
             WHERE tenant_id = ?1 AND namespace = ?2 AND memory_id = ?3 AND superseded_by = ?6",
            &values![&scope.tenant, found.id.namespace.as_str(), rival, *valid_to, change, written],
        )?;
    }
    memory.forget(tx, scope, written)?;
    Ok(())
}

/// Restores the entries that a version changed to what they were before it, unless they have changed since.
fn undo_version(
    memory: &Memory,
    tx: &mut Tx<'_>,
    scope: &Scope,
    head: &Head,
    version: u32,
    by: &By,
) -> Result<(), MemoryError> {
    let (before, then) = (versions::state_at(tx, scope, version - 1)?, versions::state_at(tx, scope, version)?);
    let now = versions::state(tx, scope)?;
    let mut restored = now.clone();
    for (old, new) in before.difference(&then) {
        let Some(id) = old.or(new).map(|entry| entry.id) else { continue };
        if now.entries.get(&id) != new {
            continue;
        }
        match old {
            Some(old) => restored.entries.insert(id, old.clone()),
            None => restored.entries.remove(&id),
        };
    }
    let why = if by.why.is_empty() { format!("took version {version} back") } else { by.why.clone() };
    let by = By { why, ..by.clone() };
    versions::commit(memory, tx, scope, head, (&now, &restored), Action::Rollback, (&by, None))?;
    Ok(())
}

fn insert(tx: &mut Tx<'_>, scope: &Scope, proposal: &Proposal, key: &str) -> Result<(), StoreError> {
    let entry = match &proposal.target {
        Target::Replace { entry, .. } | Target::Remove { entry, .. } => Some(entry.0),
        Target::Add { .. } | Target::Memory(_) => None,
    };
    tx.execute(
        "INSERT INTO memory_proposals (tenant_id, user_id, proposal_id, v, state, target_key, target, entry, confidence,
             proposer, quote, threads, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        &values![
            &scope.tenant,
            &scope.user,
            &proposal.id.0,
            ROW_VERSION,
            proposal.state.as_str(),
            key,
            serde_json::to_string(&proposal.target).unwrap_or_default(),
            entry,
            proposal.confidence,
            proposal.proposer.to_string(),
            proposal.quote.clone(),
            serde_json::to_string(&proposal.threads).unwrap_or_default(),
            proposal.created_at
        ],
    )?;
    Ok(())
}

fn update(tx: &mut Tx<'_>, scope: &Scope, proposal: &Proposal) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE memory_proposals SET state = ?4, target = ?5, confidence = ?6, threads = ?7, decided_at = ?8,
             decided_by = ?9, why = ?10, version = ?11, memory_id = ?12
         WHERE tenant_id = ?1 AND user_id = ?2 AND proposal_id = ?3",
        &values![
            &scope.tenant,
            &scope.user,
            &proposal.id.0,
            proposal.state.as_str(),
            serde_json::to_string(&proposal.target).unwrap_or_default(),
            proposal.confidence,
            serde_json::to_string(&proposal.threads).unwrap_or_default(),
            proposal.decided_at,
            proposal.decided_by.as_ref().map(ToString::to_string),
            proposal.why.clone(),
            proposal.version,
            proposal.memory.as_ref()
        ],
    )?;
    Ok(())
}

/// A conversation is gone: what waited or was rejected because of it alone goes too, and no quotation of it stays.
pub(crate) fn thread_deleted(tx: &mut Tx<'_>, scope: &Scope, thread: &str) -> Result<(), StoreError> {
    for mut proposal in all(tx, scope, None)? {
        if !proposal.threads.remove(thread) {
            continue;
        }
        let key = values![&scope.tenant, &scope.user, &proposal.id.0];
        let open = matches!(proposal.state, ProposalState::Pending | ProposalState::Rejected);
        if open && proposal.threads.is_empty() {
            tx.execute(
                "DELETE FROM memory_proposals WHERE tenant_id = ?1 AND user_id = ?2 AND proposal_id = ?3",
                &key,
            )?;
            continue;
        }
        update(tx, scope, &proposal)?;
        tx.execute(
            "UPDATE memory_proposals SET quote = NULL
             WHERE tenant_id = ?1 AND user_id = ?2 AND proposal_id = ?3",
            &key,
        )?;
    }
    Ok(())
}

/// A memory is forgotten: so is the proposal that it was, as it holds the same text.
pub(crate) fn memory_erased(tx: &mut Tx<'_>, tenant: &TenantId, id: &MemoryId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM memory_proposals WHERE tenant_id = ?1 AND memory_id = ?2", &values![tenant, id])?;
    Ok(())
}

/// An entry was erased: so is every proposal about it.
pub(crate) fn entry_erased(tx: &mut Tx<'_>, scope: &Scope, entry: EntryId) -> Result<(), StoreError> {
    tx.execute(
        "DELETE FROM memory_proposals WHERE tenant_id = ?1 AND user_id = ?2 AND entry = ?3",
        &values![&scope.tenant, &scope.user, entry.0],
    )?;
    Ok(())
}
