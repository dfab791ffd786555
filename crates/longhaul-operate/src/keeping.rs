//! What was kept of a task, and how it is linked.
//!
//! It owns lists and walks for people; what a record or a link is, the workspace says. Invariants: nobody is shown what
//! they may not see; it changes nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use longhaul_store::{ReadTx, StoreError, values};
use longhaul_workspace::{Link, UserWorkspace, WorkspaceError};
use serde::Serialize;

use crate::{OperateError, Operator, rows, target::Target};

/// Links that a walk gives at most.
const WALK_MAX: usize = 500;

/// A record in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// The record.
    pub id: String,
    /// Its number within the task.
    pub seq: i64,
    /// Digest of its content.
    pub digest: String,
    /// The group in which it is looked up.
    pub collection: String,
    /// What sort of thing it is.
    pub kind: String,
    /// The name under which it has versions.
    pub name: Option<String>,
    /// Its version under that name.
    pub version: u64,
    /// What it is.
    pub summary: String,
    /// Where it came from.
    pub source: String,
    /// Size of its content in bytes.
    pub size: u64,
    /// Media type of its content.
    pub media_type: String,
    /// When it was kept, in milliseconds since the epoch.
    pub at: i64,
    /// The record that took its place.
    pub superseded_by: Option<String>,
}

/// Which records are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFilter {
    /// Those of this collection.
    pub collection: Option<String>,
    /// Those of this kind.
    pub kind: Option<String>,
    /// Those kept after this number of the task.
    pub after: i64,
    /// Those too of which there is a newer version.
    pub superseded: bool,
    /// At most so many.
    pub limit: u32,
}

impl Default for KeptFilter {
    fn default() -> Self {
        Self { collection: None, kind: None, after: 0, superseded: false, limit: 100 }
    }
}

/// An id and what it is linked with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Linked {
    /// The id that was asked about.
    pub id: String,
    /// Each link once, the nearest first.
    pub links: Vec<Link>,
    /// What each id is in a few words, where it is a record.
    pub summaries: BTreeMap<String, String>,
    /// There are more links than were walked.
    pub cut: bool,
}

impl Operator {
    /// The records of a task in the order in which they were kept, as far as the user may see them.
    ///
    /// # Errors
    /// [`OperateError::Unknown`]; those of the store.
    pub async fn kept(&self, asked: &str, filter: KeptFilter) -> Result<Vec<Kept>, OperateError> {
        let target = self.target(asked).await?;
        let Some(workspace) = self.workspace().await? else { return Ok(Vec::new()) };
        let Target { scope, .. } = target;
        let found =
            self.store.read(move |read| kept(read, &scope, &filter)).await.map_err(|error: StoreError| error)?;
        let mut seen = Vec::new();
        for (owner, record) in found {
            let is_ours = owner == self.scope.user.as_str();
            if is_ours || is_shared(&workspace, &record.id).await? {
                seen.push(record);
            }
        }
        Ok(seen)
    }

    /// The links of an id, and those of what it is linked with, `depth` steps away at most.
    ///
    /// # Errors
    /// [`OperateError::Unknown`]; those of the store.
    pub async fn linked(&self, id: &str, depth: u32) -> Result<Linked, OperateError> {
        let Some(workspace) = self.workspace().await? else { return Err(self.unknown(id, LINKED)) };
        let (mut waiting, mut seen) = (VecDeque::from([(id.to_owned(), 0)]), BTreeSet::from([id.to_owned()]));
        let (mut links, mut cut) = (Vec::<Link>::new(), false);
        while let Some((at, far)) = waiting.pop_front() {
            let around = match workspace.links(&at).await {
                Err(WorkspaceError::NoSuchEnd { .. } | WorkspaceError::UnknownEnd { .. }) if far == 0 => {
                    return Err(self.unknown(id, LINKED));
                }
                // The other end of a link that is not for this user's eyes, or is gone since.
                Err(WorkspaceError::NoSuchEnd { .. } | WorkspaceError::UnknownEnd { .. }) => continue,
                around => around?,
            };
            for link in around {
                if links.contains(&link) {
                    continue;
                }
                if links.len() == WALK_MAX {
                    cut = true;
                    break;
                }
                for end in [&link.source, &link.target] {
                    if far + 1 < depth && seen.insert(end.clone()) {
                        waiting.push_back((end.clone(), far + 1));
                    }
                }
                links.push(link);
            }
        }
        let mut summaries = BTreeMap::new();
        for end in links.iter().flat_map(|link| [&link.source, &link.target]) {
            if let Ok(record) = end.parse::<longhaul_core::RecordId>()
                && !summaries.contains_key(end)
                && let Ok(record) = workspace.get(&record).await
            {
                summaries.insert(end.clone(), format!("{}: {}", record.kind, record.summary));
            }
        }
        Ok(Linked { id: id.to_owned(), links, summaries, cut })
    }

    /// The user's workspace, where the store has one.
    pub(crate) async fn workspace(&self) -> Result<Option<UserWorkspace>, OperateError> {
        let known = self.store.read(rows::components).await?;
        let has = |component: &str| known.iter().any(|known| known == component);
        if !has("workspace") || !has("memory") {
            return Ok(None);
        }
        let memory = longhaul_memory::Memory::new(self.store.clone(), None);
        Ok(Some(longhaul_workspace::Workspace::new(self.store.clone(), memory).user(&self.scope)))
    }
}

const LINKED: &str = "records, steps, executions, waits, memories, verdicts and whatever else can be linked";

async fn is_shared(workspace: &UserWorkspace, id: &str) -> Result<bool, OperateError> {
    let Ok(id) = id.parse::<longhaul_core::RecordId>() else { return Ok(false) };
    match workspace.get(&id).await {
        Ok(_) => Ok(true),
        Err(WorkspaceError::NoSuchRecord(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn kept(
    read: &ReadTx<'_>,
    scope: &longhaul_core::TaskScope,
    filter: &KeptFilter,
) -> Result<Vec<(String, Kept)>, StoreError> {
    let mut sql = "SELECT record_id, seq, digest, collection, kind, name, version, summary, source, size, media_type,
             created_at, superseded_by, user_id
         FROM records WHERE tenant_id = ?1 AND task_id = ?2 AND seq > ?3 AND (expires_at IS NULL OR expires_at > ?4)"
        .to_owned();
    let mut params = values![&scope.scope.tenant, &scope.task, filter.after, read.now()].to_vec();
    for (column, value) in [("collection", &filter.collection), ("kind", &filter.kind)] {
        if let Some(value) = value {
            params.push(value.as_str().into());
            sql.push_str(&format!(" AND {column} = ?{}", params.len()));
        }
    }
    if !filter.superseded {
        sql.push_str(" AND superseded_by IS NULL");
    }
    sql.push_str(&format!(" ORDER BY seq LIMIT {}", filter.limit));
    read.query(&sql, &params, |row| {
        let record = Kept {
            id: row.get(0)?,
            seq: row.get(1)?,
            digest: row.get(2)?,
            collection: row.get(3)?,
            kind: row.get(4)?,
            name: row.get(5)?,
            version: row.get(6)?,
            summary: row.get(7)?,
            source: row.get(8)?,
            size: row.get(9)?,
            media_type: row.get(10)?,
            at: row.get(11)?,
            superseded_by: row.get(12)?,
        };
        Ok((row.get(13)?, record))
    })
}

impl Linked {
    /// As a Mermaid flowchart, in which every id is a box with its summary.
    #[must_use]
    pub fn mermaid(&self) -> String {
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        let mut lines = vec!["flowchart LR".to_owned()];
        let ends = self.links.iter().flat_map(|link| [link.source.as_str(), link.target.as_str()]);
        for end in std::iter::once(self.id.as_str()).chain(ends) {
            let number = names.len();
            if names.contains_key(end) {
                continue;
            }
            names.insert(end, number);
            let summary =
                self.summaries.get(end).map_or_else(String::new, |summary| format!("<br/>{}", label(summary)));
            lines.push(format!("    n{number}[\"{}{summary}\"]", label(end)));
        }
        for link in &self.links {
            let (source, target) = (names[link.source.as_str()], names[link.target.as_str()]);
            lines.push(format!("    n{source} -->|{}| n{target}", label(link.relation.as_str())));
        }
        lines.join("\n")
    }
}

/// Text that can mean nothing to Mermaid but itself: what is no letter, digit or simple mark is written by its number.
fn label(text: &str) -> String {
    let mut shown = String::new();
    for char in text.chars().take(80) {
        match char {
            char if char.is_control() => shown.push(' '),
            char if char.is_alphanumeric() || " _-.:,/".contains(char) => shown.push(char),
            char => shown.push_str(&format!("#{};", u32::from(char))),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_means_nothing_to_mermaid_but_itself() {
        assert_eq!(label("a \"]; click n0 <b>\n風"), "a #34;#93;#59; click n0 #60;b#62; 風");
    }
}
