//! Writing actions as they happen: coalesced, with the history of files that were moved, and without a trace of files
//! that were there for minutes only.
//!
//! Invariant: an action's row and its memory are one transaction, the caller's; whoever erases one erases both.

use longhaul_core::{MemoryId, Scope, TaskId, TenantId, TimeMs};
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{ActionKind, ActionPolicy, classify, path::PathClass, redact, schema::ROW_VERSION};
use crate::{
    Edit, Memory, MemoryError, Namespace, NewMemory, Source, TAG_ACTION, TAG_CACHE, TAG_TEMPORARY,
    access::{self, Right},
    user,
};

/// The collection of memories of actions.
pub const COLLECTION: &str = "actions";
/// Most characters of a target that are kept.
const TARGET_CHARS_MAX: usize = 1_024;
/// Most characters of a summary that are kept.
const SUMMARY_CHARS_MAX: usize = 500;
/// Expired rows removed by one capture.
const SWEPT_MAX: u32 = 64;
const DAY_MS: i64 = 86_400_000;

/// The namespace for what is done for one task: `actions:` and the id's body, each capital written as a point and the
/// small letter. It is apart from the namespaces in which agents search their memories.
#[must_use]
pub fn namespace_of(task: &TaskId) -> Namespace {
    user::named("actions:", task.as_str().strip_prefix("task_").unwrap_or(task.as_str()))
}

/// Something that was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// What.
    pub kind: ActionKind,
    /// The file's path, the command, what was decided.
    pub target: String,
    /// Where a file was moved to.
    pub moved_to: Option<String>,
    /// Who did it: [`Source::User`] a person, [`Source::Agent`] a model.
    pub by: Source,
    /// When; `None` for now.
    pub at: Option<TimeMs>,
    /// What came of it, in a few words. Left out for files whose content is nobody's business.
    pub summary: String,
    /// The conversation or session.
    pub thread: Option<String>,
    /// The task.
    pub task: Option<TaskId>,
}

impl Action {
    /// An action of a kind on a target, now, with nothing else known.
    #[must_use]
    pub fn new(kind: ActionKind, target: impl Into<String>, by: Source) -> Self {
        Self {
            kind,
            target: target.into(),
            moved_to: None,
            by,
            at: None,
            summary: String::new(),
            thread: None,
            task: None,
        }
    }
}

/// What became of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Captured {
    /// A new memory.
    Remembered(MemoryId),
    /// One more of the same: the memory, and how often by now.
    Counted(MemoryId, u32),
    /// A file that was there for minutes only: nothing is left of it. How many memories that were.
    Erased(usize),
    /// Nothing was kept, and why.
    Ignored(&'static str),
}

/// One remembered action of a file's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    /// What was done.
    pub kind: ActionKind,
    /// The path now; a moved file's acts go with it.
    pub target: String,
    /// Who did it.
    pub by: Source,
    /// How often.
    pub times: u32,
    /// The first time.
    pub first_at: TimeMs,
    /// The last time.
    pub last_at: TimeMs,
    /// The memory that says so.
    pub memory: MemoryId,
}

/// Actions as memory. Cheap to clone.
#[derive(Clone)]
pub struct Actions {
    memory: Memory,
    policy: std::sync::Arc<ActionPolicy>,
}

/// A stored row.
#[derive(Debug, Clone)]
struct Stored {
    id: String,
    file: String,
    act: Act,
}

impl Actions {
    /// Over a memory, with a policy.
    #[must_use]
    pub fn new(memory: Memory, policy: ActionPolicy) -> Self {
        Self { memory, policy: std::sync::Arc::new(policy) }
    }

    /// Remembers an action in a transaction of its own.
    ///
    /// # Errors
    /// As [`Actions::capture`].
    pub async fn record(&self, scope: &Scope, namespace: &Namespace, action: Action) -> Result<Captured, MemoryError> {
        let (handle, scope, namespace) = (self.clone(), scope.clone(), namespace.clone());
        self.memory.shared.store.write(move |tx| handle.capture(tx, &scope, &namespace, &action)).await
    }

    /// Remembers an action in the transaction of what did it.
    ///
    /// # Errors
    /// [`MemoryError::Field`] for an empty target or a move without an end; [`MemoryError::NoAccess`],
    /// [`MemoryError::Frozen`]; [`user::UserError::NotFromThere`] for a preference that is not the user's word; those of
    /// the store.
    pub fn capture(
        &self,
        tx: &mut Tx<'_>,
        scope: &Scope,
        namespace: &Namespace,
        action: &Action,
    ) -> Result<Captured, MemoryError> {
        let action = checked(action)?;
        access::open(tx, scope, namespace, Right::Write)?;
        if !user::is_on(tx, scope)? {
            return Ok(Captured::Ignored("memory is switched off for this user"));
        }
        if !self.policy.of(action.kind).kept {
            return Ok(Captured::Ignored("the policy keeps no such action"));
        }
        let place = Place { scope, namespace };
        self.sweep(tx, place)?;
        let at = action.at.unwrap_or_else(|| tx.now());
        match action.kind {
            ActionKind::FileDeleted => self.deleted(tx, place, &action, at),
            ActionKind::FileMoved => self.moved(tx, place, &action, at),
            ActionKind::FileCreated
            | ActionKind::FileChanged
            | ActionKind::Command
            | ActionKind::Decision
            | ActionKind::Preference
            | ActionKind::Message => self.done(tx, place, &action, at, None),
        }
    }

    /// What was done to a file, or how often a command was run, under all its names, the oldest first.
    ///
    /// # Errors
    /// [`MemoryError::NoAccess`]; those of the store.
    pub async fn history(&self, scope: &Scope, namespace: &Namespace, target: &str) -> Result<Vec<Act>, MemoryError> {
        let (scope, namespace, target) = (scope.clone(), namespace.clone(), shown_target(target));
        let read = move |read: &ReadTx<'_>| {
            access::open(read, &scope, &namespace, Right::Read)?;
            let sql = format!(
                "SELECT {COLUMNS} FROM memory_actions WHERE tenant_id = ?1 AND namespace = ?2 AND file IN
                     (SELECT file FROM memory_actions WHERE tenant_id = ?1 AND namespace = ?2 AND target = ?3)
                 ORDER BY first_at, action_id"
            );
            let rows = read.query(&sql, &values![&scope.tenant, namespace.as_str(), &target], stored)?;
            Ok(rows.into_iter().map(|row| row.act).collect())
        };
        self.memory.shared.store.read(read).await
    }

    fn deleted(&self, tx: &mut Tx<'_>, place: Place<'_>, action: &Action, at: TimeMs) -> Result<Captured, MemoryError> {
        let Some(newest) = newest(tx, place, &action.target)? else {
            return self.done(tx, place, action, at, None);
        };
        if let Some(erased) = self.erase_if_brief(tx, place, &newest.file, at)? {
            return Ok(Captured::Erased(erased));
        }
        self.done(tx, place, action, at, Some(newest.file))
    }

    fn moved(&self, tx: &mut Tx<'_>, place: Place<'_>, action: &Action, at: TimeMs) -> Result<Captured, MemoryError> {
        let to = action.moved_to.clone().unwrap_or_default();
        let there = newest(tx, place, &to)?;
        let Some(from) = newest(tx, place, &action.target)? else {
            return self.done(tx, place, action, at, there.map(|row| row.file));
        };
        // A program that saves writes beside the file and moves over it: the file has changed, and that is all.
        let saved = there.is_some() || classify(&action.target) == PathClass::Temporary;
        if saved && self.erase_if_brief(tx, place, &from.file, at)?.is_some() {
            let kind = if there.is_some() { ActionKind::FileChanged } else { ActionKind::FileCreated };
            let change = Action { kind, target: to, moved_to: None, ..action.clone() };
            return self.done(tx, place, &change, at, there.map(|row| row.file));
        }
        tx.execute(
            "UPDATE memory_actions SET target = ?4 WHERE tenant_id = ?1 AND namespace = ?2 AND file = ?3",
            &values![&place.scope.tenant, place.namespace.as_str(), &from.file, &to],
        )?;
        self.done(tx, place, action, at, Some(from.file))
    }

    /// Erases all of a file that came within the last minutes. `None` when it is older, or nobody saw it come.
    fn erase_if_brief(
        &self,
        tx: &mut Tx<'_>,
        place: Place<'_>,
        file: &str,
        at: TimeMs,
    ) -> Result<Option<usize>, MemoryError> {
        let rows = of_file(tx, place, file)?;
        let brief = rows.first().is_some_and(|row| {
            row.act.kind == ActionKind::FileCreated && at.0.saturating_sub(row.act.first_at.0) <= self.policy.brief_ms()
        });
        if !brief {
            return Ok(None);
        }
        for row in &rows {
            self.memory.forget(tx, place.scope, &row.act.memory)?;
        }
        tx.execute(
            "DELETE FROM memory_actions WHERE tenant_id = ?1 AND namespace = ?2 AND file = ?3",
            &values![&place.scope.tenant, place.namespace.as_str(), file],
        )?;
        Ok(Some(rows.len()))
    }

    /// Writes one act, or counts it with the one before.
    fn done(
        &self,
        tx: &mut Tx<'_>,
        place: Place<'_>,
        action: &Action,
        at: TimeMs,
        file: Option<String>,
    ) -> Result<Captured, MemoryError> {
        let before = newest(tx, place, action.moved_to.as_ref().unwrap_or(&action.target))?;
        let same = before.as_ref().filter(|row| self.goes_with(row, action, at));
        if let Some(row) = same {
            return self.count(tx, place, row, action, at);
        }
        // A file that is made again after it was deleted is another file.
        let again =
            before.filter(|row| row.act.kind != ActionKind::FileDeleted || action.kind == ActionKind::FileDeleted);
        let id = tx.ambient().ids.body();
        let file = file.or(again.map(|row| row.file)).unwrap_or_else(|| id.clone());
        let target = action.moved_to.clone().unwrap_or_else(|| action.target.clone());
        let times = 1 + lately(tx, place, &file, at)?;
        let (memory, expires_at) = self.memory_of(action, 1, times, at);
        let memory =
            self.memory.insert(tx, place.scope, &NewMemory { namespace: place.namespace.clone(), ..memory })?;
        tx.execute(
            "INSERT INTO memory_actions (tenant_id, namespace, action_id, v, file, kind, target, source, times, first_at,
                 last_at, expires_at, memory_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9, ?9, ?10, ?11)",
            &values![
                &place.scope.tenant,
                place.namespace.as_str(),
                &id,
                ROW_VERSION,
                &file,
                action.kind.as_str(),
                &target,
                action.by.as_str(),
                at,
                expires_at,
                &memory
            ],
        )?;
        Ok(Captured::Remembered(memory))
    }

    /// Whether an act is one more of the same: of one sort, by the same, within the time after the first.
    fn goes_with(&self, row: &Stored, action: &Action, at: TimeMs) -> bool {
        let writes = |kind| matches!(kind, ActionKind::FileCreated | ActionKind::FileChanged);
        let alike = row.act.kind == action.kind
            || (writes(row.act.kind) && action.kind == ActionKind::FileChanged)
            || (row.act.kind == ActionKind::FileMoved && action.kind == ActionKind::FileChanged);
        let window = self.policy.coalesce_ms(action.kind);
        alike
            && action.kind != ActionKind::FileMoved
            && row.act.by == action.by
            && window > 0
            && (0..window).contains(&at.0.saturating_sub(row.act.first_at.0))
    }

    fn count(
        &self,
        tx: &mut Tx<'_>,
        place: Place<'_>,
        row: &Stored,
        action: &Action,
        at: TimeMs,
    ) -> Result<Captured, MemoryError> {
        let here = row.act.times + 1;
        let lately = lately(tx, place, &row.file, at)? + 1;
        // The first act names the memory: a file that was created and then changed was created.
        let named = Action { kind: row.act.kind, moved_to: None, ..action.clone() };
        let (memory, expires_at) = self.memory_of(&named, here, lately, at);
        let edit = Edit {
            content: Some(memory.content),
            meta: Some(memory.meta),
            importance: Some(memory.importance),
            expires_at: Some(expires_at),
            ..Edit::default()
        };
        if !self.memory.edit(tx, place.scope, &row.act.memory, &edit)? {
            // It was forgotten by itself: the row has nothing to stand for.
            tx.execute(
                "DELETE FROM memory_actions WHERE tenant_id = ?1 AND namespace = ?2 AND action_id = ?3",
                &values![&place.scope.tenant, place.namespace.as_str(), &row.id],
            )?;
            return self.done(tx, place, action, at, Some(row.file.clone()));
        }
        tx.execute(
            "UPDATE memory_actions SET times = ?4, last_at = ?5, expires_at = ?6
             WHERE tenant_id = ?1 AND namespace = ?2 AND action_id = ?3",
            &values![&place.scope.tenant, place.namespace.as_str(), &row.id, here, at, expires_at],
        )?;
        Ok(Captured::Counted(row.act.memory.clone(), here))
    }

    /// The memory of an act that was done `here` times since its first, and `lately` times within a day.
    fn memory_of(&self, action: &Action, here: u32, lately: u32, at: TimeMs) -> (NewMemory, Option<TimeMs>) {
        let class = action.kind.is_of_file().then(|| {
            let ends = [Some(action.target.as_str()), action.moved_to.as_deref()];
            // Of two names the one that says less may be said.
            ends.into_iter().flatten().map(classify).min_by_key(|class| *class as u8).unwrap_or(PathClass::Other)
        });
        let shows = class.is_none_or(PathClass::may_show_content);
        let summary = if shows { action.summary.trim() } else { "" };
        let keeping = self.policy.keeping(action.kind, class, action.by, lately, at);
        let mut memory = NewMemory::new(COLLECTION, action.kind.kind(), action.by, said(action, here, summary));
        memory.meta = meta(action, class, here);
        memory.tags = tags(class);
        memory.importance = keeping.importance;
        memory.pinned = keeping.pinned;
        memory.index = keeping.index;
        memory.expires_at = keeping.expires_at;
        memory.happened_at = Some(at);
        memory.thread.clone_from(&action.thread);
        memory.task.clone_from(&action.task);
        (memory, keeping.expires_at)
    }

    /// Removes some rows whose memories have expired.
    fn sweep(&self, tx: &mut Tx<'_>, place: Place<'_>) -> Result<(), StoreError> {
        let now = tx.now();
        tx.execute(
            "DELETE FROM memory_actions WHERE tenant_id = ?1 AND namespace = ?2 AND action_id IN
                 (SELECT action_id FROM memory_actions
                  WHERE tenant_id = ?1 AND namespace = ?2 AND expires_at <= ?3 LIMIT ?4)",
            &values![&place.scope.tenant, place.namespace.as_str(), now, SWEPT_MAX],
        )?;
        Ok(())
    }
}

/// A memory is about to be forgotten: the row of the action that it tells of goes too, as it holds a name.
pub(crate) fn forgotten(tx: &mut Tx<'_>, tenant: &TenantId, id: &MemoryId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM memory_actions WHERE tenant_id = ?1 AND memory_id = ?2", &values![tenant, id])?;
    Ok(())
}

/// Whose actions are meant.
#[derive(Clone, Copy)]
struct Place<'a> {
    scope: &'a Scope,
    namespace: &'a Namespace,
}

fn checked(action: &Action) -> Result<Action, MemoryError> {
    if action.kind == ActionKind::Preference && action.by != Source::User {
        return Err(user::UserError::NotFromThere {
            what: "a preference",
            source_label: action.by.as_str(),
            why: "it is a user's own word; propose it instead",
        }
        .into());
    }
    let target = shown_target(&action.target);
    if target.is_empty() {
        return Err(crate::item::field("action target", &action.target, "a path, a command, or what it is about"));
    }
    let moved_to = action.moved_to.as_deref().map(shown_target).filter(|to| !to.is_empty());
    if (action.kind == ActionKind::FileMoved) != moved_to.is_some() {
        return Err(crate::item::field("moved_to", "", "where a moved file is now, and nothing for other actions"));
    }
    let summary = redact::without_secrets(&action.summary).replace('\0', " ");
    let summary = summary.chars().take(SUMMARY_CHARS_MAX).collect();
    Ok(Action { target, moved_to, summary, ..action.clone() })
}

fn shown_target(target: &str) -> String {
    let line: String = target.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    redact::without_secrets(&line).chars().take(TARGET_CHARS_MAX).collect()
}

/// The memory's text.
fn said(action: &Action, times: u32, summary: &str) -> String {
    let target = &action.target;
    let what = match action.kind {
        ActionKind::FileCreated => format!("created {target}"),
        ActionKind::FileChanged => format!("changed {target}"),
        ActionKind::FileDeleted => format!("deleted {target}"),
        ActionKind::FileMoved => format!("moved {target} to {}", action.moved_to.as_deref().unwrap_or(target)),
        ActionKind::Command => format!("ran {target}"),
        ActionKind::Decision => format!("decided: {target}"),
        ActionKind::Preference | ActionKind::Message => target.clone(),
    };
    let often = if times > 1 { format!(" ({times} times)") } else { String::new() };
    if summary.is_empty() { format!("{what}{often}") } else { format!("{what}{often}: {summary}") }
}

/// By these ranking knows what somebody did from what somebody wrote, and how little some files matter.
fn tags(class: Option<PathClass>) -> Vec<String> {
    let of_class = match class {
        Some(PathClass::Temporary) => Some(TAG_TEMPORARY),
        Some(PathClass::Cache) => Some(TAG_CACHE),
        _ => None,
    };
    [Some(TAG_ACTION), of_class].into_iter().flatten().map(str::to_owned).collect()
}

fn meta(action: &Action, class: Option<PathClass>, times: u32) -> Map<String, Value> {
    let mut meta = Map::new();
    meta.insert("action".to_owned(), json!(action.kind.as_str()));
    if let Some(class) = class {
        meta.insert("path".to_owned(), json!(action.moved_to.as_ref().unwrap_or(&action.target)));
        meta.insert("class".to_owned(), json!(class.as_str()));
        if action.moved_to.is_some() {
            meta.insert("was".to_owned(), json!(action.target));
        }
    }
    meta.insert("times".to_owned(), json!(times));
    meta
}

const COLUMNS: &str = "action_id, file, kind, target, source, times, first_at, last_at, memory_id";

fn stored(row: &Row<'_>) -> Result<Stored, StoreError> {
    let word =
        |column, expected| StoreError::Column { column, expected, found: row.text(column).unwrap_or("").to_owned() };
    let act = Act {
        kind: row.text(2)?.parse().map_err(|_| word(2, "an action"))?,
        target: row.get(3)?,
        by: row.text(4)?.parse().map_err(|_| word(4, "a source"))?,
        times: row.get(5)?,
        first_at: row.get(6)?,
        last_at: row.get(7)?,
        memory: row.get(8)?,
    };
    Ok(Stored { id: row.get(0)?, file: row.get(1)?, act })
}

/// The newest act on a target.
fn newest(read: &ReadTx<'_>, place: Place<'_>, target: &str) -> Result<Option<Stored>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM memory_actions WHERE tenant_id = ?1 AND namespace = ?2 AND target = ?3
         ORDER BY last_at DESC, action_id DESC LIMIT 1"
    );
    read.query_optional(&sql, &values![&place.scope.tenant, place.namespace.as_str(), target], stored)
}

/// All acts on one file, the oldest first.
fn of_file(read: &ReadTx<'_>, place: Place<'_>, file: &str) -> Result<Vec<Stored>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM memory_actions WHERE tenant_id = ?1 AND namespace = ?2 AND file = ?3
         ORDER BY first_at, action_id"
    );
    read.query(&sql, &values![&place.scope.tenant, place.namespace.as_str(), file], stored)
}

/// How often something was done to a file within the last day.
fn lately(read: &ReadTx<'_>, place: Place<'_>, file: &str, at: TimeMs) -> Result<u32, StoreError> {
    let since = at.0.saturating_sub(DAY_MS);
    let key = values![&place.scope.tenant, place.namespace.as_str(), file, since];
    read.query_one(
        "SELECT CAST(COALESCE(sum(times), 0) AS INTEGER) FROM memory_actions
         WHERE tenant_id = ?1 AND namespace = ?2 AND file = ?3 AND last_at > ?4",
        &key,
        |row| row.get(0),
    )
}
