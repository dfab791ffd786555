//! The rows that say whom a memory comes from and what it is about.

use longhaul_core::MemoryId;
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};

use crate::acting::Here;

/// A memory of the network.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) memory: MemoryId,
    pub(super) collection: String,
    pub(super) group: Option<String>,
    pub(super) channel: Option<String>,
    pub(super) author: String,
}

/// Where it came from, and what deletes it.
#[derive(Debug, Clone)]
pub(super) struct Origin<'a> {
    pub(super) event: &'a str,
    /// The message, topic, comment or page it is about.
    pub(super) subject: &'a str,
    /// What that is a part of.
    pub(super) within: Option<&'a str>,
}

pub(super) const KEPT: &str = "s.memory_id, s.collection, s.group_name, s.channel, s.author_id";

pub(super) fn kept(row: &Row<'_>) -> Result<Kept, StoreError> {
    Ok(Kept {
        memory: row.get(0)?,
        collection: row.get(1)?,
        group: row.get(2)?,
        channel: row.get(3)?,
        author: row.get(4)?,
    })
}

impl Kept {
    pub(super) fn find(read: &ReadTx<'_>, here: &Here, memory: &str) -> Result<Option<Self>, StoreError> {
        let sql =
            format!("SELECT {KEPT} FROM shared_memories s WHERE tenant_id = ?1 AND network_id = ?2 AND memory_id = ?3");
        read.query_optional(&sql, &values![&here.tenant, &here.network, memory], kept)
    }

    /// Whether this author's event is in this collection already.
    pub(super) fn is_known(
        read: &ReadTx<'_>,
        here: &Here,
        author: &str,
        event: &str,
        collection: &str,
    ) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM shared_memories
                   WHERE tenant_id = ?1 AND network_id = ?2 AND author_id = ?3 AND event_id = ?4 AND collection = ?5";
        let key = values![&here.tenant, &here.network, author, event, collection];
        Ok(read.query_optional(sql, &key, |row| row.get::<i64>(0))?.is_some())
    }

    pub(super) fn of_author(read: &ReadTx<'_>, here: &Here, author: &str, max: i64) -> Result<Vec<Self>, StoreError> {
        let sql = format!(
            "SELECT {KEPT} FROM shared_memories s WHERE tenant_id = ?1 AND network_id = ?2 AND author_id = ?3 LIMIT ?4"
        );
        read.query(&sql, &values![&here.tenant, &here.network, author, max], kept)
    }

    pub(super) fn count_of(read: &ReadTx<'_>, here: &Here, author: &str) -> Result<i64, StoreError> {
        let sql = "SELECT count(*) FROM shared_memories WHERE tenant_id = ?1 AND network_id = ?2 AND author_id = ?3";
        read.query_one(sql, &values![&here.tenant, &here.network, author], |row| row.get(0))
    }

    /// What is about this, or about a part of it.
    pub(super) fn about(read: &ReadTx<'_>, here: &Here, subject: &str) -> Result<Vec<Self>, StoreError> {
        let sql = format!(
            "SELECT {KEPT} FROM shared_memories s
             WHERE tenant_id = ?1 AND network_id = ?2 AND (subject_id = ?3 OR within_id = ?3)"
        );
        read.query(&sql, &values![&here.tenant, &here.network, subject], kept)
    }

    pub(super) fn insert(&self, tx: &mut Tx<'_>, here: &Here, origin: &Origin<'_>) -> Result<(), StoreError> {
        let now = tx.now();
        tx.execute(
            "INSERT INTO shared_memories (tenant_id, network_id, memory_id, collection, group_name, channel, author_id,
                 event_id, subject_id, within_id, kept_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            &values![
                &here.tenant,
                &here.network,
                &self.memory,
                &self.collection,
                self.group.as_ref(),
                self.channel.as_ref(),
                &self.author,
                origin.event,
                origin.subject,
                origin.within,
                now
            ],
        )?;
        Ok(())
    }

    pub(super) fn delete(&self, tx: &mut Tx<'_>, here: &Here) -> Result<(), StoreError> {
        let key = values![&here.tenant, &here.network, &self.memory];
        tx.execute("DELETE FROM shared_memories WHERE tenant_id = ?1 AND network_id = ?2 AND memory_id = ?3", &key)?;
        Ok(())
    }
}
