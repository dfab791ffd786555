//! Erasing memories from everywhere, with a receipt.
//!
//! The order is that of truth: rows first, in the store; then what is derived from them: columns, index files, cold
//! objects. Killed in between, the rest is done by the next round, because the rows say what is left to do. Invariant:
//! what is reported as erased is found by nobody from that moment on, whatever is pending.

use std::collections::BTreeSet;

use longhaul_core::{MemoryId, Scope, UserId};
use longhaul_store::{ReadTx, StoreError, Tx, Value, values};
use serde::{Deserialize, Serialize};

use crate::{
    Memory, MemoryError, Namespace, Query, Tiers,
    access::{self, Right},
    actions,
    filter::Filter,
    namespace::PartitionId,
    rows, user,
};

use super::{
    cold::{self, View},
    expiry::erase_cold,
    place_of,
    receipt::{self, Erased, Receipt, digest, ids_digest},
    schema,
};

/// Memories erased by one transaction.
const BATCH: usize = 64;

/// What to forget.
#[derive(Debug, Clone, PartialEq)]
pub enum Forget {
    /// These memories.
    Ids(Vec<MemoryId>),
    /// Everything that passes the query's filters; its text and its `k` are not looked at. Superseded facts are included
    /// when the query says so.
    Matching(Box<Query>),
    /// All facts about a subject in a namespace, superseded ones included.
    Subject {
        /// The namespace.
        namespace: Namespace,
        /// The subject, as it was written.
        subject: String,
    },
    /// Everything of a thread (a conversation, a session, a document) in a namespace.
    Thread {
        /// The namespace.
        namespace: Namespace,
        /// The thread.
        thread: String,
    },
    /// Everything that was written on behalf of a user, in all namespaces of the tenant. A user may forget their own
    /// everywhere; that of others only where they may write.
    User(UserId),
    /// Everything in a namespace.
    Namespace(Namespace),
}

impl Forget {
    fn asked(&self) -> (&'static str, String) {
        match self {
            Self::Ids(ids) => ("ids", ids_digest(ids)),
            Self::Matching(query) => ("query", digest([format!("{query:?}")].iter())),
            Self::Subject { namespace, subject } => ("subject", digest([namespace.as_str(), subject].iter())),
            Self::Thread { namespace, thread } => ("thread", digest([namespace.as_str(), thread].iter())),
            Self::User(user) => ("user", digest([user.as_str()].iter())),
            Self::Namespace(namespace) => ("namespace", digest([namespace.as_str()].iter())),
        }
    }
}

/// What was found to be erased.
#[derive(Debug, Default)]
struct Targets {
    ids: Vec<MemoryId>,
    namespaces: BTreeSet<Namespace>,
    refused: u64,
    notes: Vec<String>,
}

/// What a compaction came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compacted {
    /// Size of the database before, in bytes; on PostgreSQL of memory's tables.
    pub bytes_before: u64,
    /// And after.
    pub bytes_after: u64,
    /// No byte of what was erased before is in the database's files or in cold objects any more.
    pub is_complete: bool,
    /// What kept it from being complete.
    pub pending: Vec<String>,
}

impl Memory {
    /// Erases memories with everything derived from them, from the hot tables, the indexes and the cold tier, and stores a
    /// receipt. With `dry_run` it only counts, and stores nothing.
    ///
    /// What cannot be reached now, such as a cold place, is `pending` in the receipt: nobody finds it any more, and its
    /// bytes go as soon as it can be reached.
    ///
    /// # Errors
    /// [`MemoryError::NoAccess`] for a namespace that the user may not write to; those of a query's filters; those of the
    /// store. What was erased before an error stays erased; repeat the call.
    pub async fn erase(&self, scope: &Scope, what: &Forget, dry_run: bool) -> Result<Receipt, MemoryError> {
        let targets = self.targets(scope, what).await?;
        let (asked, asked_digest) = what.asked();
        let ambient = self.shared.store.ambient();
        let mut receipt = Receipt {
            id: format!("erasure_{}", ambient.ids.body()),
            erased_at: ambient.clock.now(),
            by: scope.user.clone(),
            asked: asked.to_owned(),
            asked_digest,
            dry_run,
            memories: targets.ids.len() as u64,
            erased: Erased::default(),
            ids_digest: ids_digest(&targets.ids),
            pending: targets.notes,
            refused: targets.refused,
            not_covered: receipt::not_covered(),
        };
        if dry_run {
            return Ok(receipt);
        }
        for batch in targets.ids.chunks(BATCH) {
            let (scope, what, batch) = (scope.clone(), what.clone(), batch.to_vec());
            let (erased, refused) = self.shared.store.write(move |tx| erase_batch(tx, &scope, &what, &batch)).await?;
            receipt.erased.add(erased);
            receipt.refused += refused;
        }
        receipt.erased.user_entries += self.erase_user_memory(scope, what).await?;
        self.erase_derived(scope, &targets.namespaces, &mut receipt).await?;
        receipt.erased_at = self.shared.store.ambient().clock.now();
        let (scope, kept) = (scope.clone(), receipt.clone());
        self.shared.store.write(move |tx| receipt::keep(tx, &scope, &kept)).await?;
        Ok(receipt)
    }

    /// What user memory holds because of what is forgotten. Gives how many of its rows that were.
    async fn erase_user_memory(&self, scope: &Scope, what: &Forget) -> Result<u64, MemoryError> {
        match what {
            Forget::Thread { thread, .. } => {
                // What only this conversation taught about its user fades with it.
                let faded = user::UserMemory::new(self.clone()).conversation_deleted(scope, thread).await?;
                Ok(faded.len() as u64)
            }
            // That of somebody else is theirs to forget.
            Forget::User(user) if *user == scope.user => {
                let scope = scope.clone();
                Ok(self.shared.store.write(move |tx| user::forget_all(tx, &scope)).await?)
            }
            Forget::Ids(_) | Forget::Matching(_) | Forget::Subject { .. } | Forget::User(_) | Forget::Namespace(_) => {
                Ok(0)
            }
        }
    }

    /// What follows from rows that are gone.
    async fn erase_derived(
        &self,
        scope: &Scope,
        namespaces: &BTreeSet<Namespace>,
        receipt: &mut Receipt,
    ) -> Result<(), MemoryError> {
        for namespace in namespaces {
            let id = PartitionId::new(&scope.tenant, namespace);
            match self.shared.purge(&id) {
                Ok(removed) => receipt.erased.index_files += u64::from(removed),
                Err(error) => receipt.pending.push(format!("the vector index of {namespace} stays: {error}")),
            }
        }
        // Also of what was hot: an object may still hold what came back from it a moment ago.
        loop {
            let tended = self.tend_cold().await?;
            receipt.erased.segments_rewritten += tended.rewritten;
            receipt.erased.objects_deleted += tended.deleted;
            if let Some(why) = tended.stopped {
                receipt.pending.push(format!("{} cold segments still hold erased rows: {why}", tended.pending.max(1)));
                break;
            }
            // One round looks after a bounded number of them.
            if tended.rewritten + tended.deleted == 0 {
                break;
            }
        }
        self.erase_remote(scope, namespaces, receipt).await
    }

    /// Has a remote index take over what is gone, and says what it has not taken over yet.
    async fn erase_remote(
        &self,
        scope: &Scope,
        namespaces: &BTreeSet<Namespace>,
        receipt: &mut Receipt,
    ) -> Result<(), MemoryError> {
        if self.link().is_none() || receipt.memories == 0 {
            return Ok(());
        }
        match self.replicate_pending().await {
            Ok(done) => receipt.erased.remote_vectors = done.deleted,
            // It is told again in the background until it has heard.
            Err(MemoryError::Remote { .. }) => {}
            Err(error) => return Err(error),
        }
        for state in self.remote_state(scope).await? {
            if state.missing > 0 && namespaces.contains(&state.namespace) {
                let (place, missing) = (&state.place, state.missing);
                receipt.pending.push(format!("{place} has not taken over {missing} changes yet; nobody finds them"));
            }
        }
        Ok(())
    }

    async fn targets(&self, scope: &Scope, what: &Forget) -> Result<Targets, MemoryError> {
        if let Forget::Matching(query) = what {
            return self.matching(scope, query).await;
        }
        let (scope, what) = (scope.clone(), what.clone());
        self.shared.store.read(move |read| named(read, &scope, &what)).await
    }

    /// Everything that passes a query's filters, in both tiers.
    async fn matching(&self, scope: &Scope, query: &Query) -> Result<Targets, MemoryError> {
        loop {
            let mut view = self.cold_view(scope, query).await?;
            let (shared, scope, query) = (self.shared.clone(), scope.clone(), query.clone());
            let look = move |read: &ReadTx<'_>| {
                let filter = Filter::new(&query, read.now())?;
                let partitions = access::readable(read, &scope, &query.namespaces)?;
                for partition in &partitions {
                    access::open(read, &scope, &partition.id.namespace, Right::Write)?;
                }
                let Some(mut parts) = view.parts(read, &partitions, &query)? else { return Ok(None) };
                parts.iter_mut().for_each(|part| part.allow(&filter));
                let mut targets = Targets { notes: view.notes, ..Targets::default() };
                let mut held = Vec::with_capacity(partitions.len());
                for partition in &partitions {
                    held.push(shared.columns.current(read, &partition.id, partition.last_change)?);
                }
                let hot: Vec<_> = held.iter().map(|held| held.columns()).collect();
                let columns = hot.iter().map(|columns| &**columns).chain(parts.iter().map(|part| &part.loaded.columns));
                filter.check_fields(&columns.collect::<Vec<_>>())?;
                let parts = if query.tiers == Tiers::Hot { &[][..] } else { &parts[..] };
                for part in parts {
                    let rows = part.allowed.iter().filter_map(|number| part.row(number));
                    targets.ids.extend(rows.filter_map(|row| row.memory_id.parse::<MemoryId>().ok()));
                    targets.namespaces.insert(part.namespace.clone());
                }
                for (partition, columns) in partitions.iter().zip(&hot).filter(|_| query.tiers != Tiers::Cold) {
                    let sql = "SELECT memory_id FROM memories WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3";
                    for seq in filter.run(columns).iter() {
                        let key = values![&scope.tenant, partition.id.namespace.as_str(), seq];
                        targets.ids.extend(read.query_optional(sql, &key, |row| row.get::<MemoryId>(0))?);
                    }
                    targets.namespaces.insert(partition.id.namespace.clone());
                }
                Ok(Some(targets))
            };
            let found: Result<Option<Targets>, MemoryError> = self.shared.store.read(look).await;
            if let Some(targets) = found? {
                return Ok(targets);
            }
        }
    }

    /// The cold segments that a query needs, as far as they can be read.
    pub(crate) async fn cold_view(&self, scope: &Scope, query: &Query) -> Result<View, MemoryError> {
        let (asking, wanted_by) = (scope.clone(), query.clone());
        let wanted = self.shared.store.read(move |read| {
            let partitions = access::readable(read, &asking, &wanted_by.namespaces)?;
            let ids: Vec<PartitionId> = partitions.into_iter().map(|partition| partition.id).collect();
            Ok::<_, MemoryError>(cold::wanted(read, &ids, &wanted_by)?)
        });
        let wanted = wanted.await?;
        Ok(match self.shared.life.cold() {
            Some(cold) => cold.view(wanted).await,
            None => View::unreadable(&wanted, "no place for cold memory is configured"),
        })
    }

    /// Rewrites the store and the cold tier, so that no byte of what was erased before remains in the database's files or
    /// in cold objects. Takes as long as copying the database; nobody writes meanwhile.
    ///
    /// # Errors
    /// Those of the store, such as [`StoreError::Locked`] when another process does not let go.
    pub async fn compact(&self) -> Result<Compacted, MemoryError> {
        self.flush_usage().await?;
        self.sweep_expired().await?;
        let mut pending = Vec::new();
        loop {
            let tended = self.tend_cold().await?;
            if let Some(why) = tended.stopped {
                pending.push(format!("{} cold segments still hold erased rows: {why}", tended.pending.max(1)));
                break;
            }
            if tended.rewritten + tended.deleted == 0 {
                break;
            }
        }
        let compaction = self.shared.store.compact(schema::TABLES).await?;
        if !compaction.is_complete {
            pending
                .push("a reader of another process keeps an old state alive; compact again once it has ended".into());
        }
        Ok(Compacted {
            bytes_before: compaction.bytes_before,
            bytes_after: compaction.bytes_after,
            is_complete: pending.is_empty(),
            pending,
        })
    }
}

impl Erased {
    fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.vectors += other.vectors;
        self.statistics += other.statistics;
        self.cold_rows += other.cold_rows;
    }
}

/// The memories that are meant, in both tiers, by what their rows and stubs say.
fn named(read: &ReadTx<'_>, scope: &Scope, what: &Forget) -> Result<Targets, MemoryError> {
    let mut targets = Targets::default();
    let tenant = Value::from(&scope.tenant);
    let (condition, params): (&str, Vec<Value>) = match what {
        Forget::Matching(_) => return Ok(targets),
        Forget::Ids(ids) => {
            for id in ids.iter().collect::<BTreeSet<_>>() {
                let Some(place) = place_of(read, &scope.tenant, id)? else { continue };
                match access::open(read, scope, &place.namespace, Right::Write) {
                    Ok(Some(_)) => {}
                    // As if there were no such memory.
                    Ok(None) | Err(MemoryError::NoAccess { .. }) => continue,
                    Err(error) => return Err(error),
                }
                targets.ids.push(id.clone());
                targets.namespaces.insert(place.namespace);
            }
            return Ok(targets);
        }
        Forget::Subject { namespace, subject } => {
            access::open(read, scope, namespace, Right::Write)?;
            ("namespace = ?2 AND subject = ?3", vec![tenant, namespace.as_str().into(), subject.into()])
        }
        Forget::Thread { namespace, thread } => {
            access::open(read, scope, namespace, Right::Write)?;
            ("namespace = ?2 AND thread = ?3", vec![tenant, namespace.as_str().into(), thread.into()])
        }
        Forget::User(user) => ("user_id = ?2", vec![tenant, user.into()]),
        Forget::Namespace(namespace) => {
            access::open(read, scope, namespace, Right::Write)?;
            ("namespace = ?2", vec![tenant, namespace.as_str().into()])
        }
    };
    let own = matches!(what, Forget::User(user) if *user == scope.user);
    let mut may_write: std::collections::HashMap<Namespace, bool> = std::collections::HashMap::new();
    for table in ["memories", "memory_cold"] {
        let sql = format!("SELECT memory_id, namespace FROM {table} WHERE tenant_id = ?1 AND {condition}");
        for (id, name) in read.query(&sql, &params, |row| Ok((row.get::<MemoryId>(0)?, row.get::<String>(1)?)))? {
            let Ok(namespace) = name.parse::<Namespace>() else { continue };
            let may = match may_write.get(&namespace) {
                Some(may) => *may,
                None => {
                    let may = own || access::may(read, scope, &namespace, Right::Write)?;
                    may_write.insert(namespace.clone(), may);
                    may
                }
            };
            if may {
                targets.ids.push(id);
                targets.namespaces.insert(namespace);
            } else {
                targets.refused += 1;
            }
        }
    }
    Ok(targets)
}

/// Erases what the user may erase at this moment; also tells how many that were which they may not, or not any more.
fn erase_batch(tx: &mut Tx<'_>, scope: &Scope, what: &Forget, batch: &[MemoryId]) -> Result<(Erased, u64), StoreError> {
    let (mut erased, mut refused) = (Erased::default(), 0);
    let tenant = &scope.tenant;
    let own = matches!(what, Forget::User(user) if *user == scope.user);
    for id in batch {
        let Some(place) = place_of(tx, tenant, id)? else { continue };
        if !own && !access::may(tx, scope, &place.namespace, Right::Write)? {
            refused += 1;
            continue;
        }
        user::forgotten(tx, tenant, id)?;
        actions::forgotten(tx, tenant, id)?;
        let by_id = values![tenant, id];
        let statistics: u64 = tx.query_one(
            "SELECT count(*) FROM memory_access WHERE tenant_id = ?1 AND memory_id = ?2",
            &by_id,
            |row| row.get(0),
        )?;
        if let Some(found) = rows::find(tx, tenant, id)? {
            let key = values![tenant, found.id.namespace.as_str(), found.seq];
            let vectors: u64 = tx.query_one(
                "SELECT count(*) FROM memory_vectors WHERE tenant_id = ?1 AND namespace = ?2 AND seq = ?3",
                &key,
                |row| row.get(0),
            )?;
            if rows::erase(tx, &found)? {
                erased.rows += 1;
                erased.vectors += vectors;
                erased.statistics += statistics;
            }
        } else if erase_cold(tx, tenant, id)? {
            erased.cold_rows += 1;
            erased.statistics += statistics;
        }
    }
    Ok((erased, refused))
}
