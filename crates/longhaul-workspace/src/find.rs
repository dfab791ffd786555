//! Searching records, by words and by meaning.
//!
//! Invariants: the index proposes and the rows decide: a hit whose record is gone, expired or not to be seen by the
//! user is dropped; searching writes nothing.

use std::collections::{HashMap, HashSet};

use longhaul_core::{RecordId, Scope, TaskId, TimeMs};
use longhaul_memory::{Item, MemoryError, Mode, Namespace, Query, Recall, user::UserError};
use longhaul_store::{ReadTx, StoreError, values};
use serde::Serialize;

use crate::{Kind, Record, TaskWorkspace, UserWorkspace, Workspace, WorkspaceError, access, error::field, record};

/// Most hits of one search.
pub const HITS_MAX: usize = 50;
/// Most tasks that one search over all of them looks into: those most recently written to.
pub const TASKS_SEARCHED_MAX: usize = 256;

/// What to search for.
#[derive(Debug, Clone, PartialEq)]
pub struct Find {
    /// In any words and any language.
    pub text: String,
    /// Most hits, 1 to [`HITS_MAX`].
    pub k: usize,
    /// Only of these collections; empty for all.
    pub collections: Vec<String>,
    /// Only of these kinds; empty for all.
    pub kinds: Vec<Kind>,
    /// Only what was ingested at this moment or later.
    pub since: Option<TimeMs>,
    /// Only what was ingested before this moment.
    pub until: Option<TimeMs>,
    /// Versions that others have superseded as well.
    pub include_superseded: bool,
}

impl Find {
    /// A search for the `k` best of everything that is current.
    #[must_use]
    pub fn new(text: impl Into<String>, k: usize) -> Self {
        Self {
            text: text.into(),
            k,
            collections: Vec::new(),
            kinds: Vec::new(),
            since: None,
            until: None,
            include_superseded: false,
        }
    }
}

/// A record that answers a search, by the part of it that answers best.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hit {
    /// The record.
    pub record: Record,
    /// What it is, in a few words.
    pub summary: String,
    /// The text of the part; empty when only the summary is searched.
    pub excerpt: String,
    /// Number of the part, from 0.
    pub part: u32,
    /// 0 to 1; comparable within one answer.
    pub score: f32,
}

/// The answer of a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    /// Best first, each record once.
    pub hits: Vec<Hit>,
    /// Whether it was searched by meaning as well.
    pub mode: Mode,
    /// Parts of records that passed the filters of the index.
    pub considered: usize,
    /// Of these, how many have no vector yet and could be found by words alone.
    pub unembedded: usize,
    /// Tasks that were not looked into, as too many others were written to later.
    pub tasks_left_out: u64,
    /// Time of the search itself, in microseconds.
    pub elapsed_us: u64,
    /// Time of embedding the query, in microseconds.
    pub embedded_us: u64,
    /// What the reader should know of the answer.
    pub notes: Vec<String>,
}

impl TaskWorkspace {
    /// Searches the task's records.
    ///
    /// # Errors
    /// [`WorkspaceError::NoAccess`] where they are somebody else's, [`WorkspaceError::Field`]; those of the store.
    pub async fn search(&self, find: &Find) -> Result<Found, WorkspaceError> {
        let namespace = access::partition_of(&self.owner().task);
        search(self.workspace(), &self.owner().scope, find, vec![namespace]).await.map_err(|error| match error {
            WorkspaceError::Index(index) => match index.as_ref() {
                MemoryError::NoAccess { owner, .. } => {
                    WorkspaceError::NoAccess { task: self.owner().task.clone(), owner: owner.clone() }
                }
                _ => WorkspaceError::Index(index),
            },
            error => error,
        })
    }
}

impl UserWorkspace {
    /// Searches the records of all tasks that the user may see, at most [`TASKS_SEARCHED_MAX`] of them.
    ///
    /// # Errors
    /// [`WorkspaceError::Field`]; those of the store.
    pub async fn search(&self, find: &Find) -> Result<Found, WorkspaceError> {
        let (scope, memory) = (self.scope().clone(), self.workspace().memory().clone());
        let partitions = self.workspace().store().read(move |read| {
            let granted = memory.granted(read, &scope, "ws:")?;
            readable(read, &scope, granted)
        });
        let (namespaces, left_out): (Vec<Namespace>, u64) = partitions.await?;
        if namespaces.is_empty() {
            return Ok(nothing("there are no records yet"));
        }
        let mut found = search(self.workspace(), self.scope(), find, namespaces).await?;
        found.tasks_left_out = left_out;
        if left_out > 0 {
            found.notes.push(format!("{left_out} tasks that were written to longer ago were not searched"));
        }
        Ok(found)
    }
}

fn nothing(reason: &str) -> Found {
    let mode = Mode::Keyword { reason: reason.to_owned() };
    Found {
        hits: Vec::new(),
        mode,
        considered: 0,
        unembedded: 0,
        tasks_left_out: 0,
        elapsed_us: 0,
        embedded_us: 0,
        notes: vec![reason.to_owned()],
    }
}

/// The partitions that the user may search, most recently written first, and how many more there are.
fn readable(read: &ReadTx<'_>, scope: &Scope, granted: Vec<Namespace>) -> Result<(Vec<Namespace>, u64), StoreError> {
    let newest = format!(
        "select namespace, written_at from record_tasks
         where tenant_id = ?1 and user_id = ?2 and namespace <> '' order by written_at desc limit {TASKS_SEARCHED_MAX}"
    );
    let key = values![&scope.tenant, &scope.user];
    let mut all: Vec<(TimeMs, String)> = read.query(&newest, &key, |row| Ok((row.get(1)?, row.get(0)?)))?;
    let owned: u64 = read.query_one(
        "select count(*) from record_tasks where tenant_id = ?1 and user_id = ?2 and namespace <> ''",
        &key,
        |row| row.get(0),
    )?;
    let others = granted.len() as u64;
    for namespace in granted {
        let row = read.query_optional(
            "select written_at from record_tasks where tenant_id = ?1 and namespace = ?2 and user_id <> ?3",
            &values![&scope.tenant, namespace.as_str(), &scope.user],
            |row| row.get::<TimeMs>(0),
        )?;
        all.extend(row.map(|at| (at, namespace.into())));
    }
    all.sort_by(|a, b| b.cmp(a));
    all.truncate(TASKS_SEARCHED_MAX);
    let namespaces: Vec<Namespace> = all.into_iter().filter_map(|(_, name)| name.parse().ok()).collect();
    let left_out = (owned + others).saturating_sub(namespaces.len() as u64);
    Ok((namespaces, left_out))
}

async fn search(
    workspace: &Workspace,
    scope: &Scope,
    find: &Find,
    namespaces: Vec<Namespace>,
) -> Result<Found, WorkspaceError> {
    if !(1..=HITS_MAX).contains(&find.k) {
        return Err(field("k", &find.k.to_string(), format!("a number of hits from 1 to {HITS_MAX}")));
    }
    let query = Query {
        // A record has several parts, and some of what the index knows is not to be shown.
        k: (4 * find.k).min(longhaul_memory::HITS_MAX),
        namespaces,
        collections: find.collections.clone(),
        tags: match find.kinds.as_slice() {
            [kind] => vec![kind.as_str().to_owned()],
            _ => Vec::new(),
        },
        since: find.since,
        until: find.until,
        ..Query::new(find.text.clone(), 1)
    };
    let recall = match workspace.memory().search(scope, &query).await {
        Err(MemoryError::User(UserError::Off { .. })) => {
            return Ok(nothing("this user's memory is switched off: records are listed and read, and not searched"));
        }
        recall => recall?,
    };
    let Recall { hits, mode, considered, unembedded, elapsed_us, embedded_us, notes } = recall;
    let (judge, scope) = (Judge { workspace: workspace.clone(), find: find.clone() }, scope.clone());
    let hits = workspace.store().read(move |read| {
        let hits = hits.into_iter().map(|hit| (hit.item, hit.score)).collect();
        judge.judged(read, &scope, hits)
    });
    Ok(Found { hits: hits.await?, mode, considered, unembedded, tasks_left_out: 0, elapsed_us, embedded_us, notes })
}

/// Decides by the rows what of the index's hits is shown.
struct Judge {
    workspace: Workspace,
    find: Find,
}

impl Judge {
    fn judged(&self, read: &ReadTx<'_>, scope: &Scope, hits: Vec<(Item, f32)>) -> Result<Vec<Hit>, StoreError> {
        let now = read.now();
        let (mut shown, mut seen) = (Vec::with_capacity(self.find.k), HashSet::new());
        let mut rights: HashMap<TaskId, bool> = HashMap::new();
        for (item, score) in hits {
            if shown.len() == self.find.k {
                break;
            }
            let Some(id) = item.thread.as_deref().and_then(|thread| thread.parse::<RecordId>().ok()) else { continue };
            if seen.contains(&id) {
                continue;
            }
            let Some(record) = record::find(read, scope, &id)? else { continue };
            if !self.wants(&record, now) {
                continue;
            }
            if record.owner.scope.user != scope.user {
                let task = record.owner.task.clone();
                let may = match rights.get(&task) {
                    Some(may) => *may,
                    None => access::may_see_task(read, self.workspace.memory(), scope, &task)?,
                };
                rights.insert(task, may);
                if !may {
                    continue;
                }
            }
            seen.insert(id);
            shown.push(hit(record, &item, score));
        }
        Ok(shown)
    }

    fn wants(&self, record: &Record, now: TimeMs) -> bool {
        let find = &self.find;
        record.expires_at.is_none_or(|at| at > now)
            && (find.include_superseded || record.superseded_by.is_none())
            && (find.kinds.is_empty() || find.kinds.contains(&record.kind))
            && (find.collections.is_empty() || find.collections.contains(&record.collection))
            && find.since.is_none_or(|since| record.created_at >= since)
            && find.until.is_none_or(|until| record.created_at < until)
    }
}

fn hit(record: Record, item: &Item, score: f32) -> Hit {
    let part = item.meta.get("at").and_then(|at| at["part"].as_u64()).and_then(|part| u32::try_from(part).ok());
    let part = part.unwrap_or(0);
    let text = item.content.as_str();
    // The first part begins with the summary.
    let excerpt = if part == 0 {
        text.strip_prefix(record.summary.as_str()).map_or(text, |rest| rest.trim_start_matches('\n'))
    } else {
        text
    };
    Hit { summary: record.summary.clone(), excerpt: excerpt.to_owned(), part, score, record }
}
