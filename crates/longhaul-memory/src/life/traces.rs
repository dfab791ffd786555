//! Which memories are traces of somebody, over all namespaces of a tenant: for an erasure that reaches every owner.
//!
//! It only looks; [`crate::Memory::erase`] erases, on behalf of whoever owns the namespace. Invariant: memories of frozen
//! namespaces (documents) are not among them, as they go with their version.

use longhaul_core::{MemoryId, Subject, TenantId, UserId};
use longhaul_store::{ReadTx, StoreError, Value, values};

use crate::Namespace;

/// Threads that one query asks for.
const THREADS_AT_ONCE: usize = 200;

/// A memory, and whoever may erase it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trace {
    /// Whoever owns its namespace.
    pub owner: UserId,
    /// The memory.
    pub id: MemoryId,
}

/// The memories of a subject in both tiers: what was written on behalf of a user, for a task, in a conversation, or as
/// facts on what is named; and everything on these threads. `task` names the namespace that holds a task's index.
///
/// # Errors
/// Those of the store.
pub fn traces(
    read: &ReadTx<'_>,
    tenant: &TenantId,
    subject: &Subject,
    task: Option<&Namespace>,
    threads: &[String],
) -> Result<Vec<Trace>, StoreError> {
    let mut found = Vec::new();
    let namespace = task.map_or("", Namespace::as_str);
    let params = values![tenant, subject.as_str(), namespace];
    let (hot, cold) = match subject {
        Subject::User(_) => ("m.user_id = ?2 OR m.namespace = ?3", "m.user_id = ?2 OR m.namespace = ?3"),
        Subject::Task(_) => {
            ("m.task_id = ?2 OR m.thread = ?2 OR m.namespace = ?3", "m.thread = ?2 OR m.namespace = ?3")
        }
        Subject::Session(_) => ("m.thread = ?2 OR m.namespace = ?3", "m.thread = ?2 OR m.namespace = ?3"),
        Subject::Named(_) => ("m.subject = ?2 OR m.namespace = ?3", "m.subject = ?2 OR m.namespace = ?3"),
    };
    look(read, "memories", hot, &params, &mut found)?;
    look(read, "memory_cold", cold, &params, &mut found)?;
    for threads in threads.chunks(THREADS_AT_ONCE) {
        let names: Vec<String> = (2..threads.len() + 2).map(|n| format!("?{n}")).collect();
        let params: Vec<Value> = std::iter::once(Value::from(tenant)).chain(threads.iter().map(Value::from)).collect();
        for table in ["memories", "memory_cold"] {
            look(read, table, &format!("m.thread IN ({})", names.join(", ")), &params, &mut found)?;
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn look(
    read: &ReadTx<'_>,
    table: &str,
    which: &str,
    params: &[Value],
    found: &mut Vec<Trace>,
) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT p.owner, m.memory_id FROM {table} m
         JOIN memory_partitions p ON p.tenant_id = m.tenant_id AND p.namespace = m.namespace
         WHERE m.tenant_id = ?1 AND p.frozen = 0 AND ({which})"
    );
    found.extend(read.query(&sql, params, |row| Ok(Trace { owner: row.get(0)?, id: row.get(1)? }))?);
    Ok(())
}
