//! The rows of the wiki, and what clients see of them.

use longhaul_core::TimeMs;
use longhaul_store::{ReadTx, Row, StoreError, values};
use serde_json::{Value, json};

use crate::{acting::Here, finding::snippet};

/// Characters of a page that lists show.
const SNIPPET_CHARS: usize = 200;

/// A page as it is.
#[derive(Debug, Clone)]
pub(super) struct Page {
    pub(super) path: String,
    pub(super) title: String,
    pub(super) content: String,
    pub(super) folded: String,
    pub(super) category: Option<String>,
    pub(super) tags: Value,
    pub(super) owner: String,
    pub(super) created_at: TimeMs,
    pub(super) version: i64,
    pub(super) modified_by: String,
    pub(super) modified_at: TimeMs,
    pub(super) lock: Option<Lock>,
}

/// Who keeps a page from being changed, and until when.
#[derive(Debug, Clone)]
pub(super) struct Lock {
    pub(super) by: String,
    pub(super) until: TimeMs,
    pub(super) reason: String,
}

pub(super) const PAGE: &str =
    "p.page_path, p.title, p.content, p.folded, p.category, p.tags, p.created_by, p.created_at,
    p.version, p.modified_by, p.modified_at, p.locked_by, p.locked_until, p.lock_reason";

pub(super) fn page(row: &Row<'_>) -> Result<Page, StoreError> {
    let (by, until): (Option<String>, Option<TimeMs>) = (row.get(11)?, row.get(12)?);
    let reason: Option<String> = row.get(13)?;
    Ok(Page {
        path: row.get(0)?,
        title: row.get(1)?,
        content: row.get(2)?,
        folded: row.get(3)?,
        category: row.get(4)?,
        tags: row.get(5)?,
        owner: row.get(6)?,
        created_at: row.get(7)?,
        version: row.get(8)?,
        modified_by: row.get(9)?,
        modified_at: row.get(10)?,
        lock: by.zip(until).map(|(by, until)| Lock { by, until, reason: reason.unwrap_or_default() }),
    })
}

impl Page {
    pub(super) fn find(read: &ReadTx<'_>, here: &Here, path: &str) -> Result<Option<Self>, StoreError> {
        let sql =
            format!("SELECT {PAGE} FROM wiki_pages p WHERE tenant_id = ?1 AND network_id = ?2 AND page_path = ?3");
        read.query_optional(&sql, &values![&here.tenant, &here.network, path], page)
    }

    /// The lock, as long as it holds.
    pub(super) fn held(&self, now: TimeMs) -> Option<&Lock> {
        self.lock.as_ref().filter(|lock| lock.until > now)
    }

    /// All of it, at this version of its content.
    pub(super) fn shown(&self, now: TimeMs, content: &str, version: i64, modified_at: TimeMs) -> Value {
        let lock = self.held(now);
        json!({
            "page_path": self.path, "title": self.title, "wiki_content": content, "category": self.category,
            "creator_id": self.owner, "created_by": self.owner, "created_timestamp": self.created_at.0,
            "version": version, "current_version": self.version, "last_modified": modified_at.0,
            "last_modified_by": self.modified_by, "is_locked": lock.is_some(),
            "protection_level": if lock.is_some() { "locked" } else { "none" },
            "locked_by": lock.map(|lock| &lock.by), "locked_until": lock.map(|lock| lock.until.0),
            "lock_reason": lock.map(|lock| &lock.reason), "tags": self.tags,
        })
    }

    /// What a list says of it.
    pub(super) fn listed(&self) -> Value {
        let beginning = snippet(&self.content, SNIPPET_CHARS);
        json!({
            "page_path": self.path, "title": self.title, "category": self.category, "creator_id": self.owner,
            "created_by": self.owner, "created_timestamp": self.created_at.0, "version": self.version,
            "current_version": self.version, "last_modified": self.modified_at.0, "tags": self.tags,
            "wiki_content": beginning, "content_snippet": beginning,
        })
    }
}

/// One version of a page.
#[derive(Debug, Clone)]
pub(super) struct Version {
    pub(super) id: String,
    pub(super) number: i64,
    pub(super) content: String,
    pub(super) edited_by: String,
    pub(super) edited_at: TimeMs,
    pub(super) kind: String,
    pub(super) parent: Option<i64>,
}

pub(super) const VERSION: &str = "version_id, version, content, edited_by, edited_at, edit_type, parent_version";

pub(super) fn version(row: &Row<'_>) -> Result<Version, StoreError> {
    Ok(Version {
        id: row.get(0)?,
        number: row.get(1)?,
        content: row.get(2)?,
        edited_by: row.get(3)?,
        edited_at: row.get(4)?,
        kind: row.get(5)?,
        parent: row.get(6)?,
    })
}

impl Version {
    pub(super) fn find(read: &ReadTx<'_>, here: &Here, path: &str, number: i64) -> Result<Option<Self>, StoreError> {
        let sql = format!(
            "SELECT {VERSION} FROM wiki_versions
             WHERE tenant_id = ?1 AND network_id = ?2 AND page_path = ?3 AND version = ?4"
        );
        read.query_optional(&sql, &values![&here.tenant, &here.network, path, number], version)
    }

    pub(super) fn shown(&self) -> Value {
        json!({
            "version_id": self.id, "version_number": self.number, "edited_by": self.edited_by,
            "edit_timestamp": self.edited_at.0, "edit_type": self.kind, "parent_version": self.parent,
            "content_snippet": snippet(&self.content, SNIPPET_CHARS),
        })
    }
}

/// A change that somebody proposes.
#[derive(Debug, Clone)]
pub(super) struct Proposal {
    pub(super) id: String,
    pub(super) path: String,
    pub(super) base: i64,
    pub(super) content: String,
    pub(super) rationale: String,
    pub(super) by: String,
    pub(super) created_at: TimeMs,
    pub(super) status: String,
    pub(super) resolved_by: Option<String>,
    pub(super) resolved_at: Option<TimeMs>,
    pub(super) comments: Option<String>,
}

pub(super) const PROPOSAL: &str = "r.proposal_id, r.page_path, r.base_version, r.content, r.rationale, r.proposed_by,
    r.created_at, r.status, r.resolved_by, r.resolved_at, r.comments";

pub(super) fn proposal(row: &Row<'_>) -> Result<Proposal, StoreError> {
    Ok(Proposal {
        id: row.get(0)?,
        path: row.get(1)?,
        base: row.get(2)?,
        content: row.get(3)?,
        rationale: row.get(4)?,
        by: row.get(5)?,
        created_at: row.get(6)?,
        status: row.get(7)?,
        resolved_by: row.get(8)?,
        resolved_at: row.get(9)?,
        comments: row.get(10)?,
    })
}

impl Proposal {
    pub(super) fn find(read: &ReadTx<'_>, here: &Here, id: &str) -> Result<Option<Self>, StoreError> {
        let sql = format!(
            "SELECT {PROPOSAL} FROM wiki_proposals r WHERE tenant_id = ?1 AND network_id = ?2 AND proposal_id = ?3"
        );
        read.query_optional(&sql, &values![&here.tenant, &here.network, id], proposal)
    }

    pub(super) fn shown(&self, old_content: &str, current_version: i64) -> Value {
        json!({
            "proposal_id": self.id, "page_path": self.path, "old_content": old_content,
            "proposed_content": self.content, "rationale": self.rationale, "proposed_by": self.by,
            "created_timestamp": self.created_at.0, "status": self.status, "resolved_by": self.resolved_by,
            "resolved_timestamp": self.resolved_at.map(|at| at.0), "resolution_comments": self.comments,
            "base_version": self.base, "is_stale": self.status == "pending" && self.base != current_version,
        })
    }
}
