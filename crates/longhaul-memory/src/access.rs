//! Who may do what in a partition, and the partition's own row. Checked in the transaction that reads or writes.
//!
//! The user who first writes to a namespace owns it; others of the tenant need a grant, to read or also to write. A frozen
//! partition is written by nobody. Invariant: no statement here crosses from one tenant to another (invariant 7), and a
//! partition that may not be read looks like one that may not be read, not like one without hits.

use longhaul_core::{Scope, TimeMs, UserId};
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};
use serde::{Deserialize, Serialize};

use crate::{KNOWLEDGE_PREFIX, Memory, MemoryError, Namespace, item::field, namespace::PartitionId, text, user};

/// What somebody wants to do in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Right {
    Read,
    Write,
    /// Give rights to others, freeze, drop.
    Own,
}

/// To whom a grant is given.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grantee {
    /// One user of the tenant.
    User(UserId),
    /// Every user of the tenant.
    Everyone,
}

impl Grantee {
    fn stored(&self) -> &str {
        match self {
            Self::User(user) => user.as_str(),
            Self::Everyone => "*",
        }
    }
}

/// A partition that the asking user may read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionInfo {
    /// Its name within the tenant.
    pub namespace: Namespace,
    /// Who may give rights to others.
    pub owner: UserId,
    /// What it is for: `memory`, `knowledge`.
    pub purpose: String,
    /// Nobody writes to it any more.
    pub frozen: bool,
    /// Whether the asking user may write to it.
    pub may_write: bool,
    /// Memories in its hot tables, expired ones not yet swept included.
    pub memories: u64,
    /// When it was first written to.
    pub created_at: TimeMs,
}

/// A partition's row in `memory_partitions`, with the asking user's rights.
#[derive(Debug, Clone)]
pub(crate) struct Partition {
    pub(crate) id: PartitionId,
    pub(crate) owner: UserId,
    pub(crate) purpose: String,
    pub(crate) frozen: bool,
    pub(crate) last_seq: i64,
    pub(crate) last_change: i64,
    pub(crate) last_vector_seq: i64,
    pub(crate) analyser: u32,
    pub(crate) documents: i64,
    pub(crate) terms: i64,
    created_at: TimeMs,
    right: Option<Right>,
}

const COLUMNS: &str =
    "p.namespace, p.owner, p.purpose, p.frozen, p.last_seq, p.last_change, p.analyser, p.documents, p.terms,
    p.created_at, p.last_vector_seq,
    (SELECT max(g.may_write) FROM memory_grants g
     WHERE g.tenant_id = p.tenant_id AND g.namespace = p.namespace AND g.grantee IN (?2, '*'))";

fn read_row(row: &Row<'_>, scope: &Scope) -> Result<Partition, StoreError> {
    let name = row.text(0)?;
    let namespace: Namespace = name.parse().map_err(|_| StoreError::Column {
        column: 0,
        expected: "a namespace",
        found: name.chars().take(80).collect(),
    })?;
    let owner: UserId = row.get(1)?;
    let granted: Option<bool> = row.get(11)?;
    let right = match granted {
        _ if owner == scope.user => Some(Right::Own),
        Some(true) => Some(Right::Write),
        Some(false) => Some(Right::Read),
        None => None,
    };
    Ok(Partition {
        id: PartitionId { tenant: scope.tenant.clone(), namespace },
        owner,
        purpose: row.get(2)?,
        frozen: row.get(3)?,
        last_seq: row.get(4)?,
        last_change: row.get(5)?,
        analyser: row.get(6)?,
        documents: row.get(7)?,
        terms: row.get(8)?,
        created_at: row.get(9)?,
        last_vector_seq: row.get(10)?,
        right,
    })
}

fn find(read: &ReadTx<'_>, scope: &Scope, namespace: &Namespace) -> Result<Option<Partition>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM memory_partitions p WHERE p.tenant_id = ?1 AND p.namespace = ?3");
    read.query_optional(&sql, &values![&scope.tenant, &scope.user, namespace.as_str()], |row| read_row(row, scope))
}

/// The partition, if it exists and the user has the right to it.
///
/// # Errors
/// [`MemoryError::NoAccess`] without the right, [`MemoryError::Frozen`] for writing where nobody writes any more.
pub(crate) fn open(
    read: &ReadTx<'_>,
    scope: &Scope,
    namespace: &Namespace,
    right: Right,
) -> Result<Option<Partition>, MemoryError> {
    let Some(partition) = find(read, scope, namespace)? else { return Ok(None) };
    if partition.right < Some(right) {
        return Err(MemoryError::NoAccess { namespace: namespace.clone(), owner: partition.owner });
    }
    if right == Right::Write && partition.frozen {
        return Err(MemoryError::Frozen { namespace: namespace.clone() });
    }
    Ok(Some(partition))
}

/// Whether the user has the right to an existing partition.
pub(crate) fn may(read: &ReadTx<'_>, scope: &Scope, namespace: &Namespace, right: Right) -> Result<bool, StoreError> {
    Ok(find(read, scope, namespace)?.is_some_and(|partition| partition.right >= Some(right)))
}

/// The partitions of these names that exist, each once, in order; all must be readable. No names mean `main`.
///
/// # Errors
/// [`MemoryError::NoAccess`] for the first that is not.
pub(crate) fn readable(
    read: &ReadTx<'_>,
    scope: &Scope,
    namespaces: &[Namespace],
) -> Result<Vec<Partition>, MemoryError> {
    let main = [Namespace::default()];
    let mut names: Vec<&Namespace> =
        if namespaces.is_empty() { main.iter().collect() } else { namespaces.iter().collect() };
    names.sort();
    names.dedup();
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        found.extend(open(read, scope, name, Right::Read)?);
    }
    Ok(found)
}

/// Numbers for so many new rows; the first of each is given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) seq: i64,
    pub(crate) change: i64,
}

/// Makes sure that the user may write to the partition, makes it theirs where it does not exist, and hands out numbers
/// for `count` new rows of `terms` terms in all.
pub(crate) fn next(
    tx: &mut Tx<'_>,
    scope: &Scope,
    namespace: &Namespace,
    count: usize,
    terms: u64,
) -> Result<Numbers, MemoryError> {
    let is_new = open(tx, scope, namespace, Right::Write)?.is_none();
    user::check_namespace(scope, namespace)?;
    if is_new && namespace.as_str().starts_with(KNOWLEDGE_PREFIX) {
        return Err(field(
            "namespace",
            namespace.as_str(),
            "another beginning: kb: is for documents (longhaul knowledge add)",
        ));
    }
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let params = values![&scope.tenant, namespace.as_str(), &scope.user, count, text::VERSION, terms, tx.now()];
    let (last_seq, last_change, owner): (i64, i64, UserId) = tx.query_one(
        "INSERT INTO memory_partitions (tenant_id, namespace, owner, purpose, frozen, last_seq, last_change,
                                        last_vector_seq, analyser, documents, terms, created_at)
         VALUES (?1, ?2, ?3, 'memory', 0, ?4, ?4, 0, ?5, ?4, ?6, ?7)
         ON CONFLICT (tenant_id, namespace) DO UPDATE SET last_seq = memory_partitions.last_seq + excluded.last_seq,
             last_change = memory_partitions.last_change + excluded.last_change,
             documents = memory_partitions.documents + excluded.documents,
             terms = memory_partitions.terms + excluded.terms
         RETURNING last_seq, last_change, owner",
        &params,
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    if owner != scope.user {
        // Somebody else may have made it, or taken the right away, since it was looked at; its row is locked now.
        open(tx, scope, namespace, Right::Write)?;
    }
    Ok(Numbers { seq: last_seq - count + 1, change: last_change - count + 1 })
}

/// The next number of a change that adds no row.
pub(crate) fn next_change(tx: &mut Tx<'_>, id: &PartitionId) -> Result<i64, StoreError> {
    tx.query_one(
        "UPDATE memory_partitions SET last_change = last_change + 1 WHERE tenant_id = ?1 AND namespace = ?2
         RETURNING last_change",
        &values![&id.tenant, id.namespace.as_str()],
        |row| row.get(0),
    )
}

impl Memory {
    /// The partitions of the tenant that the user may read, by name.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn partitions(&self, scope: &Scope) -> Result<Vec<PartitionInfo>, MemoryError> {
        let scope = scope.clone();
        let sql = format!(
            "SELECT {COLUMNS} FROM memory_partitions p WHERE p.tenant_id = ?1 AND p.purpose <> 'dropped'
                            ORDER BY p.namespace"
        );
        let all = move |read: &ReadTx<'_>| {
            let all = read.query(&sql, &values![&scope.tenant, &scope.user], |row| read_row(row, &scope))?;
            let readable = all.into_iter().filter(|partition| partition.right.is_some());
            Ok(readable.map(info).collect())
        };
        self.shared.store.read(all).await
    }

    /// Whether the user may read this partition: owns it, or has a grant. Where there is none, nobody may.
    ///
    /// # Errors
    /// Those of the store.
    pub fn may_read(&self, read: &ReadTx<'_>, scope: &Scope, namespace: &Namespace) -> Result<bool, StoreError> {
        may(read, scope, namespace, Right::Read)
    }

    /// Whether the user may write to this partition, as [`Memory::may_read`].
    ///
    /// # Errors
    /// Those of the store.
    pub fn may_write(&self, read: &ReadTx<'_>, scope: &Scope, namespace: &Namespace) -> Result<bool, StoreError> {
        may(read, scope, namespace, Right::Write)
    }

    /// The partitions that others have granted to the user, whose names begin like this.
    ///
    /// # Errors
    /// Those of the store.
    pub fn granted(&self, read: &ReadTx<'_>, scope: &Scope, prefix: &str) -> Result<Vec<Namespace>, StoreError> {
        let sql = "SELECT DISTINCT namespace FROM memory_grants
                   WHERE tenant_id = ?1 AND grantee IN (?2, '*') AND substr(namespace, 1, ?4) = ?3 ORDER BY namespace";
        let names = read.query(sql, &values![&scope.tenant, &scope.user, prefix, prefix.len()], |row| row.get(0))?;
        let names: Vec<String> = names;
        Ok(names.into_iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Makes a partition for a purpose, owned by the scope's user, in the caller's transaction. Tells whether it is new.
    ///
    /// # Errors
    /// [`MemoryError::NoAccess`] when it exists and belongs to somebody else; those of the store.
    pub fn create_partition(
        &self,
        tx: &mut Tx<'_>,
        scope: &Scope,
        namespace: &Namespace,
        purpose: &str,
    ) -> Result<bool, MemoryError> {
        user::check_namespace(scope, namespace)?;
        let made = tx.execute(
            "INSERT INTO memory_partitions (tenant_id, namespace, owner, purpose, frozen, last_seq, last_change,
                                            last_vector_seq, analyser, documents, terms, created_at)
             VALUES (?1, ?2, ?3, ?4, 0, 0, 0, 0, ?5, 0, 0, ?6) ON CONFLICT (tenant_id, namespace) DO NOTHING",
            &values![&scope.tenant, namespace.as_str(), &scope.user, purpose, text::VERSION, tx.now()],
        )?;
        open(tx, scope, namespace, Right::Own)?;
        Ok(made == 1)
    }

    /// Makes a partition read-only for everybody, its owner included, or writable again; in the caller's transaction.
    ///
    /// # Errors
    /// [`MemoryError::NoAccess`] for anybody but the owner, [`MemoryError::NoPartition`]; those of the store.
    pub fn freeze(
        &self,
        tx: &mut Tx<'_>,
        scope: &Scope,
        namespace: &Namespace,
        frozen: bool,
    ) -> Result<(), MemoryError> {
        owned(tx, scope, namespace)?;
        tx.execute(
            "UPDATE memory_partitions SET frozen = ?3 WHERE tenant_id = ?1 AND namespace = ?2",
            &values![&scope.tenant, namespace.as_str(), frozen],
        )?;
        Ok(())
    }

    /// Lets others of the tenant read a namespace, or also write to it. Replaces an earlier grant to the same.
    ///
    /// # Errors
    /// [`MemoryError::NoAccess`] for anybody but the owner, [`MemoryError::NoPartition`]; those of the store.
    pub async fn grant(
        &self,
        scope: &Scope,
        namespace: &Namespace,
        grantee: &Grantee,
        may_write: bool,
    ) -> Result<(), MemoryError> {
        let (handle, scope, namespace, grantee) = (self.clone(), scope.clone(), namespace.clone(), grantee.clone());
        let grant = move |tx: &mut Tx<'_>| handle.grant_in(tx, &scope, &namespace, &grantee, may_write);
        self.shared.store.write(grant).await
    }

    /// As [`Memory::grant`], in the caller's transaction.
    ///
    /// # Errors
    /// As [`Memory::grant`].
    pub fn grant_in(
        &self,
        tx: &mut Tx<'_>,
        scope: &Scope,
        namespace: &Namespace,
        grantee: &Grantee,
        may_write: bool,
    ) -> Result<(), MemoryError> {
        owned(tx, scope, namespace)?;
        let now = tx.now();
        tx.execute(
            "INSERT INTO memory_grants (tenant_id, namespace, grantee, may_write, granted_by, granted_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (tenant_id, namespace, grantee) DO UPDATE SET
                 may_write = excluded.may_write, granted_by = excluded.granted_by,
                 granted_at = excluded.granted_at",
            &values![&scope.tenant, namespace.as_str(), grantee.stored(), may_write, &scope.user, now],
        )?;
        Ok(())
    }

    /// Takes a grant back, from the next query on. Tells whether there was one.
    ///
    /// # Errors
    /// As [`Memory::grant`].
    pub async fn revoke(&self, scope: &Scope, namespace: &Namespace, grantee: &Grantee) -> Result<bool, MemoryError> {
        let (scope, namespace, grantee) = (scope.clone(), namespace.clone(), grantee.clone());
        let revoke = move |tx: &mut Tx<'_>| {
            owned(tx, &scope, &namespace)?;
            let gone = tx.execute(
                "DELETE FROM memory_grants WHERE tenant_id = ?1 AND namespace = ?2 AND grantee = ?3",
                &values![&scope.tenant, namespace.as_str(), grantee.stored()],
            )?;
            Ok(gone == 1)
        };
        self.shared.store.write(revoke).await
    }
}

fn owned(read: &ReadTx<'_>, scope: &Scope, namespace: &Namespace) -> Result<Partition, MemoryError> {
    open(read, scope, namespace, Right::Own)?.ok_or_else(|| MemoryError::NoPartition { namespace: namespace.clone() })
}

fn info(partition: Partition) -> PartitionInfo {
    PartitionInfo {
        may_write: partition.right >= Some(Right::Write) && !partition.frozen,
        namespace: partition.id.namespace,
        owner: partition.owner,
        purpose: partition.purpose,
        frozen: partition.frozen,
        memories: u64::try_from(partition.documents).unwrap_or(0),
        created_at: partition.created_at,
    }
}
