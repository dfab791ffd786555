//! What people tell a project's runs while they work: a word for the agent, to pause, to leave the folder to a person.
//!
//! Words and orders are rows; a run looks at them between two answers of the model. Invariants: a word is advice for the
//! agent and never an approval; whoever stops a run leaves a project that the next run goes on with.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use longhaul_core::{EventDraft, TaskScope, TimeMs};
use longhaul_store::{ReadTx, Store, StoreError, Tx, values};
use serde::Serialize;
use serde_json::json;

use crate::sitting::lock;

const SCHEMA: i64 = 1;
/// The longest word, characters.
pub const WORD_CHARS_MAX: usize = 8_000;
/// Most words that wait for a run; whoever has more to say says it in one.
pub const WORDS_MAX: u64 = 64;

/// What a run is to do, until it is lifted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderKind {
    /// To stop at the next step, and not to begin.
    Pause,
    /// To end the session under way, put aside what is unfinished, and leave the folder alone.
    TakeOver,
}

impl OrderKind {
    /// The name in rows and events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::TakeOver => "take_over",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Pause, Self::TakeOver].into_iter().find(|kind| kind.as_str() == name)
    }
}

/// An order that stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Order {
    /// What is to be done.
    pub kind: OrderKind,
    /// Who said so.
    pub given_by: String,
    /// Why; may be empty.
    pub reason: String,
    /// When.
    pub at: TimeMs,
}

/// Gives an order, or the same again with another reason.
///
/// # Errors
/// When the store cannot be written.
pub fn order(tx: &mut Tx<'_>, owner: &TaskScope, kind: OrderKind, by: &str, reason: &str) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(
        "insert into run_orders (tenant_id, task_id, kind, given_by, reason, at, schema)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         on conflict (tenant_id, task_id, kind) do update set given_by = ?4, reason = ?5, at = ?6",
        &values![&owner.scope.tenant, &owner.task, kind.as_str(), by, reason, now, SCHEMA],
    )?;
    let event = match kind {
        OrderKind::Pause => "run.paused",
        OrderKind::TakeOver => "run.taken_over",
    };
    tx.append_event(owner, None, None, EventDraft::business(event, json!({"by": by, "reason": reason}))).map(drop)
}

/// The orders that stand, the oldest first.
///
/// # Errors
/// When the store cannot be read.
pub fn orders(read: &ReadTx<'_>, owner: &TaskScope) -> Result<Vec<Order>, StoreError> {
    let rows: Vec<(String, String, String, i64)> = read.query(
        "select kind, given_by, reason, at from run_orders where tenant_id = ?1 and task_id = ?2 order by at, kind",
        &values![&owner.scope.tenant, &owner.task],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
    )?;
    let known = rows.into_iter().filter_map(|(kind, given_by, reason, at)| {
        Some(Order { kind: OrderKind::named(&kind)?, given_by, reason, at: TimeMs(at) })
    });
    Ok(known.collect())
}

/// Lifts every order and says which stood.
///
/// # Errors
/// When the store cannot be written.
pub fn lift(tx: &mut Tx<'_>, owner: &TaskScope, by: &str) -> Result<Vec<Order>, StoreError> {
    let lifted = orders(tx, owner)?;
    if lifted.is_empty() {
        return Ok(lifted);
    }
    tx.execute(
        "delete from run_orders where tenant_id = ?1 and task_id = ?2",
        &values![&owner.scope.tenant, &owner.task],
    )?;
    let kinds: Vec<&str> = lifted.iter().map(|order| order.kind.as_str()).collect();
    tx.append_event(owner, None, None, EventDraft::business("run.resumed", json!({"by": by, "lifted": kinds})))?;
    Ok(lifted)
}

/// Leaves a word for the agent and gives its number; `None` when too many wait already.
///
/// # Errors
/// When the store cannot be written.
pub fn steer(tx: &mut Tx<'_>, owner: &TaskScope, by: &str, text: &str) -> Result<Option<u64>, StoreError> {
    if waiting(tx, owner)?.len() as u64 >= WORDS_MAX {
        return Ok(None);
    }
    let now = tx.now();
    let last: i64 = tx.query_one(
        "select coalesce(max(number), 0) from run_words where tenant_id = ?1 and task_id = ?2",
        &values![&owner.scope.tenant, &owner.task],
        |row| row.get(0),
    )?;
    let number = u64::try_from(last).unwrap_or(0) + 1;
    let said: String = text.chars().take(WORD_CHARS_MAX).collect();
    tx.execute(
        "insert into run_words (tenant_id, task_id, number, given_by, said, at, delivered_at, session, schema)
         values (?1, ?2, ?3, ?4, ?5, ?6, null, null, ?7)",
        &values![&owner.scope.tenant, &owner.task, number, by, &said, now, SCHEMA],
    )?;
    let draft = EventDraft::business("run.steered", json!({"number": number, "by": by, "text": said}));
    tx.append_event(owner, None, None, draft)?;
    Ok(Some(number))
}

/// Words that no session has heard yet: number, who, what.
///
/// # Errors
/// When the store cannot be read.
pub fn waiting(read: &ReadTx<'_>, owner: &TaskScope) -> Result<Vec<(u64, String, String)>, StoreError> {
    let rows: Vec<(i64, String, String)> = read.query(
        "select number, given_by, said from run_words
         where tenant_id = ?1 and task_id = ?2 and delivered_at is null order by number",
        &values![&owner.scope.tenant, &owner.task],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    )?;
    Ok(rows.into_iter().map(|(number, by, said)| (u64::try_from(number).unwrap_or(0), by, said)).collect())
}

fn delivered(tx: &mut Tx<'_>, owner: &TaskScope, numbers: &[u64], session: u32) -> Result<(), StoreError> {
    let now = tx.now();
    for number in numbers {
        tx.execute(
            "update run_words set delivered_at = ?4, session = ?5 where tenant_id = ?1 and task_id = ?2 and number = ?3",
            &values![&owner.scope.tenant, &owner.task, *number, now, session],
        )?;
    }
    Ok(())
}

/// How a run of this process listens to people. Cheap to clone; clones share what they heard.
#[derive(Clone)]
pub struct People {
    store: Store,
    /// The folder is a person's: no session begins.
    folder_is_taken: Arc<AtomicBool>,
    /// Words that were handed to the conversation under way. They count as heard when the next request is made, as the
    /// answer before it is recorded by then; a run killed in between says them once more, with the same number.
    handed: Arc<Mutex<Vec<u64>>>,
}

impl People {
    /// Listens to what this store holds.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store, folder_is_taken: Arc::default(), handed: Arc::default() }
    }

    /// Whether somebody has taken the folder over, as far as this run has seen.
    #[must_use]
    pub fn has_taken_over(&self) -> bool {
        self.folder_is_taken.load(Ordering::SeqCst)
    }

    /// The orders that stand now.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn orders(&self, owner: &TaskScope) -> Result<Vec<Order>, StoreError> {
        let of = owner.clone();
        let standing = self.store.read(move |read| orders(read, &of)).await?;
        let taken = standing.iter().any(|order| order.kind == OrderKind::TakeOver);
        self.folder_is_taken.store(taken, Ordering::SeqCst);
        Ok(standing)
    }

    /// Why the session under way has to end, if somebody wants the folder.
    pub(crate) async fn wants_the_folder(&self, owner: &TaskScope) -> Result<Option<String>, StoreError> {
        let standing = self.orders(owner).await?;
        let taken = standing.into_iter().find(|order| order.kind == OrderKind::TakeOver);
        Ok(taken.map(|order| format!("{} has taken the folder over: {}", order.given_by, order.reason)))
    }

    /// What the agent should hear before its next answer.
    pub(crate) async fn words(&self, owner: &TaskScope, session: u32) -> Result<Vec<String>, StoreError> {
        self.heard(owner, session).await?;
        let of = owner.clone();
        let words = self.store.read(move |read| waiting(read, &of)).await?;
        lock(&self.handed).extend(words.iter().map(|(number, ..)| *number));
        let told = words.into_iter().map(|(number, by, said)| {
            format!(
                "# Word {number} from {by}, who follows your work\n\n{said}\n\n(Take it into account in what you do \
                 next. It changes no check and approves no tool call; verification decides as before.)"
            )
        });
        Ok(told.collect())
    }

    /// The answer to what was handed out is recorded.
    pub(crate) async fn heard(&self, owner: &TaskScope, session: u32) -> Result<(), StoreError> {
        let numbers = std::mem::take(&mut *lock(&self.handed));
        if numbers.is_empty() {
            return Ok(());
        }
        let of = owner.clone();
        self.store.write(move |tx| delivered(tx, &of, &numbers, session)).await
    }
}
