//! Typed relations between two ids. The pair and its relation are stored once.
//!
//! Invariant: both ends of a link named something that its maker could see when it was made: the register of ids in the
//! store says so, in the same transaction.

use std::{fmt, str::FromStr};

use longhaul_core::{EventDraft, Scope, TaskId, TaskScope, TimeMs, UserId};
use longhaul_memory::Memory;
use longhaul_store::{IdStanding, ReadTx, Row, StoreError, Tx, values};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{TaskWorkspace, UserWorkspace, WorkspaceError, content, error::field, ingest::check_line, record};

/// Most links that are given at once.
pub const LINKS_MAX: usize = 1_000;

/// How the source relates to the target. One's own relations are `[a-z][a-z0-9_]*`, at most 40 characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Relation {
    /// The source is a reason to believe the target.
    Supports,
    /// The source is a reason not to believe the target.
    Refutes,
    /// The source is evidence that was collected to judge the target.
    Verifies,
    /// The source was made from the target.
    DerivedFrom,
    /// The source answers the target.
    Answers,
    /// The source names the target as where it has it from.
    Cites,
    /// The source takes the target's place.
    Supersedes,
    /// Another relation, whose source comes before its target; `"blocks".parse()` checks its name.
    Own(String),
}

impl Relation {
    /// Those that everybody knows.
    pub const KNOWN: [Self; 7] = [
        Self::Supports,
        Self::Refutes,
        Self::Verifies,
        Self::DerivedFrom,
        Self::Answers,
        Self::Cites,
        Self::Supersedes,
    ];

    /// The stored and printed name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Supports => "supports",
            Self::Refutes => "refutes",
            Self::Verifies => "verifies",
            Self::DerivedFrom => "derived_from",
            Self::Answers => "answers",
            Self::Cites => "cites",
            Self::Supersedes => "supersedes",
            Self::Own(name) => name,
        }
    }

    /// Whether the target came first: a report *derived from* an observation. Otherwise the source did: evidence
    /// *supports* a decision.
    #[must_use]
    pub fn target_is_earlier(&self) -> bool {
        match self {
            Self::DerivedFrom | Self::Answers | Self::Cites | Self::Supersedes => true,
            Self::Supports | Self::Refutes | Self::Verifies | Self::Own(_) => false,
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Relation {
    type Err = WorkspaceError;
    fn from_str(word: &str) -> Result<Self, WorkspaceError> {
        if let Some(known) = Self::KNOWN.into_iter().find(|relation| relation.as_str() == word) {
            return Ok(known);
        }
        if !record::is_word(word) {
            let known = Self::KNOWN.map(|relation| relation.to_string()).join(", ");
            return Err(field("relation", word, format!("{known}, or a letter a-z and up to 39 of a-z, 0-9, `_`")));
        }
        Ok(Self::Own(word.to_owned()))
    }
}

impl TryFrom<String> for Relation {
    type Error = WorkspaceError;
    fn try_from(word: String) -> Result<Self, WorkspaceError> {
        word.parse()
    }
}

impl From<Relation> for String {
    fn from(relation: Relation) -> Self {
        relation.as_str().to_owned()
    }
}

/// A link to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLink {
    /// Printed id it starts from.
    pub source: String,
    /// How they relate.
    pub relation: Relation,
    /// Printed id it points to.
    pub target: String,
    /// What else to say of it, at most 500 characters.
    pub note: Option<String>,
}

impl NewLink {
    /// A link without a note.
    #[must_use]
    pub fn new(source: impl fmt::Display, relation: Relation, target: impl fmt::Display) -> Self {
        Self { source: source.to_string(), relation, target: target.to_string(), note: None }
    }
}

/// One stored link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Printed id it starts from.
    pub source: String,
    /// How they relate.
    pub relation: Relation,
    /// Printed id it points to.
    pub target: String,
    /// Who made it.
    pub user: UserId,
    /// The task within which it was made.
    pub task: Option<TaskId>,
    /// What else was said of it.
    pub note: Option<String>,
    /// When it was made.
    pub created_at: TimeMs,
}

const COLUMNS: &str = "source_id, relation, target_id, user_id, task_id, note, created_at";

fn read_link(row: &Row<'_>) -> Result<Link, StoreError> {
    let relation = row.text(1)?.parse().map_err(|_| StoreError::Column {
        column: 1,
        expected: "a relation",
        found: row.text(1).unwrap_or("").chars().take(80).collect(),
    })?;
    Ok(Link {
        source: row.get(0)?,
        relation,
        target: row.get(2)?,
        user: row.get(3)?,
        task: row.get(4)?,
        note: row.get(5)?,
        created_at: row.get(6)?,
    })
}

/// Stores a link in the caller's transaction, both of whose ends must be there by then; storing it again changes nothing.
///
/// # Errors
/// [`WorkspaceError::NoSuchEnd`], [`WorkspaceError::UnknownEnd`], [`WorkspaceError::Field`]; those of the store.
pub fn link(tx: &mut Tx<'_>, memory: &Memory, owner: &TaskScope, new: &NewLink) -> Result<(), WorkspaceError> {
    if new.source == new.target {
        return Err(field("target", &new.target, "another id than the source's"));
    }
    if let Some(note) = &new.note {
        check_line("note", note, 500)?;
    }
    check_end(tx, memory, &owner.scope, &new.source)?;
    check_end(tx, memory, &owner.scope, &new.target)?;
    write(tx, owner, new)
}

/// Refuses an id that names nothing which the user may see.
pub(crate) fn check_end(read: &ReadTx<'_>, memory: &Memory, scope: &Scope, id: &str) -> Result<(), WorkspaceError> {
    if sees(read, memory, scope, id)? {
        return Ok(());
    }
    Err(WorkspaceError::NoSuchEnd { id: id.chars().take(300).collect() })
}

/// Whether an id names something that the user may see.
pub(crate) fn sees(read: &ReadTx<'_>, memory: &Memory, scope: &Scope, id: &str) -> Result<bool, WorkspaceError> {
    match read.standing_of(scope, id)? {
        IdStanding::There { owner } if owner.as_ref().is_none_or(|owner| *owner == scope.user) => Ok(true),
        // Records may be granted.
        IdStanding::There { .. } => match id.parse() {
            Ok(id) => match content::visible(read, memory, scope, &id) {
                Ok(_) => Ok(true),
                Err(WorkspaceError::NoSuchRecord(_)) => Ok(false),
                Err(error) => Err(error),
            },
            Err(_) => Ok(false),
        },
        IdStanding::Gone => Ok(false),
        IdStanding::UnknownKind { known } => {
            Err(WorkspaceError::UnknownEnd { id: id.chars().take(300).collect(), known })
        }
    }
}

/// Writes a link whose ends have been checked, with its event.
pub(crate) fn write(tx: &mut Tx<'_>, owner: &TaskScope, new: &NewLink) -> Result<(), WorkspaceError> {
    let now = tx.now();
    let made = tx.execute(
        "insert into links (tenant_id, source_id, relation, target_id, user_id, task_id, note, created_at)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) on conflict (tenant_id, source_id, relation, target_id) do nothing",
        &values![
            &owner.scope.tenant,
            &new.source,
            new.relation.as_str(),
            &new.target,
            &owner.scope.user,
            &owner.task,
            new.note.as_ref(),
            now,
        ],
    )?;
    if made == 1 {
        let data = json!({ "source": new.source, "relation": new.relation, "target": new.target });
        tx.append_event(owner, None, None, EventDraft::business("link.made", data))?;
    }
    Ok(())
}

/// The links that start at this id, and those that point to it, at most [`LINKS_MAX`] each; visible to whoever may see
/// both ends.
pub(crate) fn around(read: &ReadTx<'_>, memory: &Memory, scope: &Scope, id: &str) -> Result<Vec<Link>, WorkspaceError> {
    let mut found = Vec::new();
    for end in ["source_id", "target_id"] {
        let sql = format!(
            "select {COLUMNS} from links where tenant_id = ?1 and {end} = ?2
             order by created_at, source_id, relation, target_id limit {LINKS_MAX}"
        );
        found.extend(read.query(&sql, &values![&scope.tenant, id], read_link)?);
    }
    let mut shown = Vec::with_capacity(found.len());
    for link in found {
        let other = if link.source == id { &link.target } else { &link.source };
        match sees(read, memory, scope, other) {
            Ok(true) => shown.push(link),
            Ok(false) | Err(WorkspaceError::UnknownEnd { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(shown)
}

impl TaskWorkspace {
    /// Links two ids, in a transaction of its own. Linking them again changes nothing.
    ///
    /// # Errors
    /// As [`link`].
    pub async fn link(&self, new: NewLink) -> Result<(), WorkspaceError> {
        let (owner, memory) = (self.owner().clone(), self.workspace().memory().clone());
        self.workspace().store().write(move |tx| link(tx, &memory, &owner, &new)).await
    }
}

impl UserWorkspace {
    /// The links that start at this id or point to it, as far as the user may see both ends; at most [`LINKS_MAX`] of
    /// either sort.
    ///
    /// # Errors
    /// [`WorkspaceError::NoSuchEnd`], [`WorkspaceError::UnknownEnd`]; those of the store.
    pub async fn links(&self, id: &str) -> Result<Vec<Link>, WorkspaceError> {
        let (scope, memory, id) = (self.scope().clone(), self.workspace().memory().clone(), id.to_owned());
        let links = move |read: &ReadTx<'_>| {
            check_end(read, &memory, &scope, &id)?;
            around(read, &memory, &scope, &id)
        };
        self.workspace().store().read(links).await
    }
}
