//! Erasing whatever is left of a user, a task, a session, or of something that facts and records are about: over all
//! owners, with one receipt.
//!
//! It owns the order. Memory goes first, as it is found by records; then executions, records and what belongs to them,
//! events and other components' rows; then blobs nobody refers to; at the end what says that somebody was there, as
//! everything else is found by that, and the database is rewritten. Invariants: nothing of an unfinished execution is
//! erased; each transaction keeps in the receipt what it did; killed at any moment, the same call goes on with the same
//! receipt.

mod receipt;

use std::collections::{BTreeMap, BTreeSet};

use longhaul_core::{Scope, Subject, TaskId, UserId};
use longhaul_durable::erasing::{self as executions, Unfinished};
use longhaul_memory::{Forget, Memory, MemoryError, Trace, traces, user::UserMemory};
use longhaul_store::{ReadTx, StoreError, Tx, erasing};
use longhaul_workspace::{
    erasing::{self as workspace, Doomed},
    partition_of,
};

pub use receipt::ErasureReceipt;

use crate::{OperateError, Operator, rows};

/// Executions, or records, that one transaction erases.
const BATCH: usize = 64;
/// Memories that one call erases.
const MEMORIES_AT_ONCE: usize = 1_000;
/// Receipts that are listed.
const LISTED_MAX: u32 = 1_000;

/// What there is to be erased, as it was found.
#[derive(Debug, Default)]
struct Found {
    memories: Vec<Trace>,
    executions: Vec<longhaul_core::ExecutionId>,
    records: Vec<Doomed>,
    /// Whose memory learned from the session that is to be erased.
    speakers: Vec<UserId>,
    unfinished: Vec<Unfinished>,
}

/// Which components the store has.
#[derive(Debug, Clone, Copy)]
struct Has {
    memory: bool,
    workspace: bool,
}

/// Why a transaction of a dry run is undone.
enum Undone {
    Counted(Box<ErasureReceipt>),
    Failed(StoreError),
}

impl From<StoreError> for Undone {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl Operator {
    /// Erases everything that is left of the subject in this tenant, rewrites the database so that its bytes are gone
    /// too, and keeps a receipt. `memory` must be opened with the cold place and the servers that the store's memory
    /// uses. With `dry_run` it counts, and changes nothing.
    ///
    /// # Errors
    /// [`OperateError::Unfinished`] as long as an execution of the subject has not ended; those of memory and of the
    /// store. What was erased before an error stays erased: say it again.
    pub async fn erase(
        &self,
        memory: &Memory,
        subject: &Subject,
        dry_run: bool,
    ) -> Result<ErasureReceipt, OperateError> {
        let known = self.store.read(rows::components).await?;
        let has = |component: &str| known.iter().any(|known| known == component);
        let has = Has { memory: has("memory"), workspace: has("workspace") };
        let found = self.found(subject, has).await?;
        if !found.unfinished.is_empty() {
            return Err(OperateError::Unfinished {
                subject: subject.to_string(),
                unfinished: found.unfinished,
                flags: self.flags.clone(),
            });
        }
        let digest = erasing::asked_digest(subject);
        let mut receipt =
            ErasureReceipt::new(self.scope.user.clone(), self.actor.clone(), subject.word(), digest, dry_run);
        receipt.not_covered = self.not_covered(subject);
        if dry_run {
            return self.counted(subject, found, has, receipt).await;
        }
        let mut receipt = self.begun(subject, receipt).await?;
        if has.memory {
            self.erase_user_memory(memory, subject, &found.speakers, &mut receipt).await?;
            self.erase_memories(memory, found.memories, &mut receipt).await?;
        }
        for batch in found.executions.chunks(BATCH) {
            let batch = batch.to_vec();
            self.step(&mut receipt, move |tx, scope, receipt| erase_executions(tx, scope, &batch, has, receipt))
                .await?;
        }
        for batch in found.records.chunks(BATCH) {
            let batch = batch.to_vec();
            self.step(&mut receipt, move |tx, scope, receipt| erase_records(tx, scope, &batch, receipt)).await?;
        }
        let of = subject.clone();
        self.step(&mut receipt, move |tx, scope, receipt| erase_rest(tx, scope, &of, has, receipt)).await?;
        self.erase_blobs(&mut receipt).await?;
        let of = subject.clone();
        self.step(&mut receipt, move |tx, scope, receipt| erase_identity(tx, scope, &of, has, receipt)).await?;
        self.compact(&mut receipt).await?;
        self.ended(receipt).await
    }

    /// The tenant's receipts, newest first, those of erasures that were cut short included.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn erasures(&self) -> Result<Vec<ErasureReceipt>, OperateError> {
        let tenant = self.scope.tenant.clone();
        let listed = self.store.read(move |read| erasing::list(read, &tenant, LISTED_MAX)).await?;
        let read = |erasure: erasing::Erasure| {
            let id = erasure.id.clone();
            ErasureReceipt::of(erasure).map_err(StoreError::record("receipt", id))
        };
        Ok(listed.into_iter().map(read).collect::<Result<_, _>>()?)
    }

    async fn found(&self, subject: &Subject, has: Has) -> Result<Found, OperateError> {
        let (scope, subject) = (self.scope.clone(), subject.clone());
        Ok(self.store.read(move |read| look(read, &scope, &subject, has)).await?)
    }

    fn not_covered(&self, subject: &Subject) -> Vec<String> {
        let is_postgres = matches!(self.store.place(), longhaul_store::Place::Postgres { .. });
        receipt::not_covered(subject.column().is_none(), is_postgres, self.store.has_bucket())
    }

    /// Does everything that is done in transactions, and undoes it.
    async fn counted(
        &self,
        subject: &Subject,
        found: Found,
        has: Has,
        mut receipt: ErasureReceipt,
    ) -> Result<ErasureReceipt, OperateError> {
        receipt.count("memories", found.memories.len() as u64);
        receipt.begun_at = self.store.ambient().clock.now();
        let (scope, subject) = (self.scope.clone(), subject.clone());
        let outcome = self.store.write(move |tx| {
            erase_executions(tx, &scope, &found.executions, has, &mut receipt)?;
            erase_records(tx, &scope, &found.records, &mut receipt)?;
            erase_rest(tx, &scope, &subject, has, &mut receipt)?;
            erase_identity(tx, &scope, &subject, has, &mut receipt)?;
            Err::<std::convert::Infallible, _>(Undone::Counted(Box::new(receipt)))
        });
        match outcome.await {
            Err(Undone::Counted(receipt)) => Ok(*receipt),
            Err(Undone::Failed(error)) => Err(error.into()),
            Ok(never) => match never {},
        }
    }

    async fn begun(&self, subject: &Subject, receipt: ErasureReceipt) -> Result<ErasureReceipt, OperateError> {
        let (scope, subject) = (self.scope.clone(), subject.clone());
        let begun = self.store.write(move |tx| {
            let printed = printed(&receipt)?;
            let begun = erasing::begin(tx, &scope, &subject, &printed)?;
            let id = begun.id.clone();
            let before = ErasureReceipt::of(begun).map_err(StoreError::record("receipt", id))?;
            // What stood in the way of an earlier attempt may not do so any more.
            Ok::<_, StoreError>(ErasureReceipt { pending: Vec::new(), not_covered: receipt.not_covered, ..before })
        });
        Ok(begun.await?)
    }

    /// One transaction, with what it came to in the receipt.
    async fn step(
        &self,
        receipt: &mut ErasureReceipt,
        work: impl FnOnce(&mut Tx<'_>, &Scope, &mut ErasureReceipt) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), OperateError> {
        let (scope, mut so_far) = (self.scope.clone(), receipt.clone());
        let done = self.store.write(move |tx| {
            work(tx, &scope, &mut so_far)?;
            erasing::keep(tx, &scope.tenant, &so_far.id, &printed(&so_far)?, None)?;
            Ok::<_, StoreError>(so_far)
        });
        *receipt = done.await?;
        Ok(())
    }

    /// What is known of a user because of this subject; memory looks after its versions.
    async fn erase_user_memory(
        &self,
        memory: &Memory,
        subject: &Subject,
        speakers: &[UserId],
        receipt: &mut ErasureReceipt,
    ) -> Result<(), OperateError> {
        let tenant = &self.scope.tenant;
        if let Subject::User(user) = subject {
            let scope = Scope { tenant: tenant.clone(), user: user.clone() };
            let part = memory.erase(&scope, &Forget::User(user.clone()), false).await.map_err(of_memory)?;
            return self.step(receipt, move |_, _, receipt| Ok(take_over(receipt, part))).await;
        }
        for user in speakers {
            let scope = Scope { tenant: tenant.clone(), user: user.clone() };
            let learned = UserMemory::new(memory.clone());
            let entries = learned.conversation_erased(&scope, subject.as_str()).await.map_err(of_memory)?;
            self.step(receipt, move |_, _, receipt| Ok(receipt.count("entries of user memory", entries))).await?;
        }
        Ok(())
    }

    /// On behalf of whoever owns each namespace: the tenant has decided.
    async fn erase_memories(
        &self,
        memory: &Memory,
        found: Vec<Trace>,
        receipt: &mut ErasureReceipt,
    ) -> Result<(), OperateError> {
        let mut by_owner: BTreeMap<UserId, Vec<_>> = BTreeMap::new();
        for Trace { owner, id } in found {
            by_owner.entry(owner).or_default().push(id);
        }
        for (user, ids) in by_owner {
            let scope = Scope { tenant: self.scope.tenant.clone(), user };
            for ids in ids.chunks(MEMORIES_AT_ONCE) {
                let part = memory.erase(&scope, &Forget::Ids(ids.to_vec()), false).await.map_err(of_memory)?;
                self.step(receipt, move |_, _, receipt| Ok(take_over(receipt, part))).await?;
            }
        }
        Ok(())
    }

    async fn erase_blobs(&self, receipt: &mut ErasureReceipt) -> Result<(), OperateError> {
        let erased = match self.store.erase_blobs(&self.scope.tenant, &receipt.id).await {
            Ok(erased) => erased,
            Err(StoreError::Bucket { place, problem }) => {
                let what =
                    format!("contents in {place}, which cannot be used ({problem}): erase again once it answers");
                return Err(OperateError::ErasureStopped { what });
            }
            Err(error) => return Err(error.into()),
        };
        if erased.put_again > 0 {
            let many = erased.put_again;
            receipt.pending.push(format!(
                "{many} contents that somebody has put again since: they go with the next sweep if nobody refers to them"
            ));
        }
        if erased.shared > 0 {
            receipt.not_covered.push(format!("{} contents that other records of the tenant have, too", erased.shared));
        }
        self.step(receipt, move |tx, scope, receipt| {
            receipt.count("blobs", erased.removed);
            erasing::forget_blobs(tx, &scope.tenant, &receipt.id)
        })
        .await
    }

    /// Without it the bytes of deleted rows would stay in the files until something overwrites them.
    async fn compact(&self, receipt: &mut ErasureReceipt) -> Result<(), OperateError> {
        let advice = "end other programs on this store, then erase again";
        match self.store.compact(&[]).await {
            Ok(done) if done.is_complete => {}
            Ok(_) | Err(StoreError::Locked { .. }) => {
                receipt
                    .pending
                    .push(format!("free pages and the log of the database, which others keep open: {advice}"));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    async fn ended(&self, receipt: ErasureReceipt) -> Result<ErasureReceipt, OperateError> {
        let scope = self.scope.clone();
        let ended = self.store.write(move |tx| {
            let receipt = ErasureReceipt { erased_at: Some(tx.now()), ..receipt };
            erasing::keep(tx, &scope.tenant, &receipt.id, &printed(&receipt)?, receipt.erased_at)?;
            Ok::<_, StoreError>(receipt)
        });
        Ok(ended.await?)
    }
}

fn printed(receipt: &ErasureReceipt) -> Result<String, StoreError> {
    serde_json::to_string(receipt).map_err(StoreError::record("receipt", &receipt.id))
}

fn of_memory(error: MemoryError) -> OperateError {
    match error {
        MemoryError::Store(error) => OperateError::Store(error),
        other => OperateError::ErasureStopped { what: format!("memory: {other}") },
    }
}

/// Memory's own receipt stays in memory; what it came to is part of this one.
fn take_over(receipt: &mut ErasureReceipt, part: longhaul_memory::Receipt) {
    let erased = part.erased;
    for (what, many) in [
        ("memories", erased.rows + erased.cold_rows),
        ("vectors", erased.vectors + erased.remote_vectors),
        ("index files", u64::from(erased.index_files)),
        ("cold objects", erased.objects_deleted + erased.segments_rewritten),
        ("entries of user memory", erased.user_entries),
    ] {
        receipt.count(what, many);
    }
    receipt.pending.extend(part.pending);
    receipt.pending.sort();
    receipt.pending.dedup();
}

fn look(read: &ReadTx<'_>, scope: &Scope, subject: &Subject, has: Has) -> Result<Found, StoreError> {
    let tenant = &scope.tenant;
    let mut found = Found {
        executions: executions::executions(read, tenant, subject)?,
        unfinished: executions::unfinished(read, tenant, subject)?,
        ..Found::default()
    };
    if has.workspace {
        found.records = workspace::records(read, tenant, subject)?;
        if let Subject::Session(session) = subject {
            found.speakers = workspace::speakers(read, tenant, session)?;
        }
    }
    if subject.column().is_none() {
        // What goes on with such a record would not find it.
        let tasks: BTreeSet<&TaskId> = found.records.iter().map(|record| &record.task).collect();
        for task in tasks {
            found.unfinished.extend(executions::unfinished_of_task(read, tenant, task)?);
        }
    }
    if has.memory {
        let task = if let Subject::Task(task) = subject { Some(partition_of(task)) } else { None };
        let threads: Vec<String> = found.records.iter().map(|record| record.id.to_string()).collect();
        found.memories = traces(read, tenant, subject, task.as_ref(), &threads)?;
    }
    Ok(found)
}

fn erase_executions(
    tx: &mut Tx<'_>,
    scope: &Scope,
    batch: &[longhaul_core::ExecutionId],
    has: Has,
    receipt: &mut ErasureReceipt,
) -> Result<(), StoreError> {
    if has.workspace {
        for execution in batch {
            let links = workspace::erase_links(tx, &scope.tenant, execution.as_str())?;
            receipt.count("links", links);
        }
    }
    let erased = executions::erase_executions(tx, &scope.tenant, batch)?;
    receipt.count("executions", erased.executions);
    receipt.count("steps, checkpoints and waits", erased.rows);
    Ok(())
}

fn erase_records(
    tx: &mut Tx<'_>,
    scope: &Scope,
    batch: &[Doomed],
    receipt: &mut ErasureReceipt,
) -> Result<(), StoreError> {
    let erased = workspace::erase_records(tx, &scope.tenant, batch)?;
    erasing::doom(tx, &scope.tenant, &receipt.id, &erased.blobs)?;
    count_workspace(receipt, &erased);
    Ok(())
}

fn erase_rest(
    tx: &mut Tx<'_>,
    scope: &Scope,
    subject: &Subject,
    has: Has,
    receipt: &mut ErasureReceipt,
) -> Result<(), StoreError> {
    let tenant = &scope.tenant;
    let erased = executions::erase_rest(tx, tenant, subject)?;
    receipt.count("entries of the queue", erased.entries);
    receipt.count("deliveries", erased.deliveries);
    receipt.count("cached results", erased.cached);
    if has.workspace {
        count_workspace(receipt, &workspace::erase_rest(tx, tenant, subject)?);
    }
    let erased = erasing::erase_entered(tx, tenant, subject)?;
    receipt.count("events", erased.events);
    receipt.count("rows of other components", erased.entered);
    Ok(())
}

fn erase_identity(
    tx: &mut Tx<'_>,
    scope: &Scope,
    subject: &Subject,
    has: Has,
    receipt: &mut ErasureReceipt,
) -> Result<(), StoreError> {
    if has.workspace {
        workspace::erase_identity(tx, &scope.tenant, subject)?;
    }
    let erased = erasing::erase_identity(tx, &scope.tenant, subject)?;
    receipt.count("tasks", erased.tasks);
    receipt.count("sessions", erased.sessions);
    receipt.count("users", erased.users);
    Ok(())
}

fn count_workspace(receipt: &mut ErasureReceipt, erased: &workspace::Erased) {
    for (what, many) in [
        ("records", erased.records),
        ("contents in rows", erased.contents),
        ("links", erased.links),
        ("milestones", erased.milestones),
        ("messages", erased.messages),
        ("states of conversations", erased.sessions),
        ("proposals for shared knowledge", erased.proposals),
        ("events", erased.events),
    ] {
        receipt.count(what, many);
    }
    if receipt.dry_run {
        receipt.count("blobs, unless others have them too", erased.blobs.len() as u64);
    }
}
