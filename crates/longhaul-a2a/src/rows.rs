//! Tasks in the store: reading them, and making a change to one.
//!
//! Invariant: a task's row, the update that those who follow it see, and the notice that wakes them are one transaction;
//! the numbers of a task's updates rise without a gap from 1.

use longhaul_core::{Scope, TenantId, TimeMs};
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};
use prost::Message as _;

use crate::{
    machine::{self, Change, Unchanged},
    wire::v1::{Message, StreamResponse, Task, TaskState, stream_response::Payload},
};

/// Layout of the rows.
const V: i64 = 1;
/// Updates read at once.
const PAGE: i64 = 64;

/// Whose rows: every statement names both.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) tenant: TenantId,
    pub(crate) network: String,
}

impl Place {
    pub(crate) fn new(scope: &Scope, network: &str) -> Self {
        Self { tenant: scope.tenant.clone(), network: network.to_owned() }
    }

    /// The channel of notices about tasks; their text is the task's id.
    pub(crate) fn channel(&self) -> String {
        format!("a2a/{}/{}", self.tenant.as_str(), self.network)
    }
}

/// A task as it is kept.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) task: Task,
    /// Who may see it: an agent, or a name that several callers share.
    pub(crate) owner: String,
    /// The member who speaks for the owner in the network.
    pub(crate) caller: String,
    /// The agent that works on it.
    pub(crate) agent: String,
    /// The client has its id.
    pub(crate) announced: bool,
    /// It was answered without becoming a task.
    pub(crate) direct: bool,
    /// The number of its last update.
    pub(crate) number: i64,
    pub(crate) created_at: TimeMs,
}

impl Kept {
    pub(crate) fn state(&self) -> TaskState {
        machine::state_of(&self.task)
    }
}

const COLUMNS: &str = "owner, caller, agent, announced, direct, number, created_at, content";

fn kept(row: &Row<'_>) -> Result<Kept, StoreError> {
    // Rows are only written by this crate, in this version's own layout: what cannot be read is shown as empty.
    let task = Task::decode(row.bytes(7)?).unwrap_or_default();
    let flag = |column| Ok::<_, StoreError>(row.get::<i64>(column)? != 0);
    Ok(Kept {
        task,
        owner: row.get(0)?,
        caller: row.get(1)?,
        agent: row.get(2)?,
        announced: flag(3)?,
        direct: flag(4)?,
        number: row.get(5)?,
        created_at: TimeMs(row.get(6)?),
    })
}

/// One task, whoever it belongs to.
pub(crate) fn get(read: &ReadTx<'_>, place: &Place, task: &str) -> Result<Option<Kept>, StoreError> {
    read.query_optional(
        &format!("SELECT {COLUMNS} FROM a2a_tasks WHERE tenant_id = ?1 AND network_id = ?2 AND task_id = ?3"),
        &values![&place.tenant, &place.network, task],
        kept,
    )
}

/// The oldest task that has not ended, of those that this agent works on for this caller.
pub(crate) fn oldest_open(
    read: &ReadTx<'_>,
    place: &Place,
    agent: &str,
    caller: &str,
) -> Result<Option<Kept>, StoreError> {
    read.query_optional(
        &format!(
            "SELECT {COLUMNS} FROM a2a_tasks WHERE tenant_id = ?1 AND network_id = ?2 AND agent = ?3 AND caller = ?4
                 AND ended = 0 ORDER BY created_at, task_id LIMIT 1"
        ),
        &values![&place.tenant, &place.network, agent, caller],
        kept,
    )
}

/// Whether any task of the network has not ended.
pub(crate) fn any_open(read: &ReadTx<'_>, place: &Place) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM a2a_tasks WHERE tenant_id = ?1 AND network_id = ?2 AND ended = 0 LIMIT 1";
    let found = read.query_optional(sql, &values![&place.tenant, &place.network], |row| row.get::<i64>(0))?;
    Ok(found.is_some())
}

/// Tasks begun until then that this agent works on and that have not ended, some of them.
pub(crate) fn open_of(read: &ReadTx<'_>, place: &Place, agent: &str, until: TimeMs) -> Result<Vec<Kept>, StoreError> {
    read.query(
        &format!(
            "SELECT {COLUMNS} FROM a2a_tasks WHERE tenant_id = ?1 AND network_id = ?2 AND agent = ?3 AND ended = 0
                 AND created_at <= ?4 ORDER BY created_at, task_id LIMIT ?5"
        ),
        &values![&place.tenant, &place.network, agent, until.0, PAGE],
        kept,
    )
}

/// Removes the tasks that this owner had begun until then.
pub(crate) fn forget_owner(tx: &mut Tx<'_>, place: &Place, owner: &str, until: TimeMs) -> Result<(), StoreError> {
    for table in ["a2a_updates", "a2a_events", "a2a_push", "a2a_tasks"] {
        tx.execute(
            &format!(
                "DELETE FROM {table} WHERE tenant_id = ?1 AND network_id = ?2 AND task_id IN
                     (SELECT task_id FROM a2a_tasks WHERE tenant_id = ?1 AND network_id = ?2 AND owner = ?3
                          AND created_at <= ?4)"
            ),
            &values![&place.tenant, &place.network, owner, until.0],
        )?;
    }
    Ok(())
}

/// The task that an event belongs to.
pub(crate) fn task_of_event(read: &ReadTx<'_>, place: &Place, event: &str) -> Result<Option<String>, StoreError> {
    read.query_optional(
        "SELECT task_id FROM a2a_events WHERE tenant_id = ?1 AND network_id = ?2 AND event_id = ?3",
        &values![&place.tenant, &place.network, event],
        |row| row.get(0),
    )
}

/// Notes that an event belongs to a task; tells whether that was new.
pub(crate) fn note_event(tx: &mut Tx<'_>, place: &Place, event: &str, task: &str) -> Result<bool, StoreError> {
    let noted = tx.execute(
        "INSERT INTO a2a_events (tenant_id, network_id, event_id, v, task_id) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO NOTHING",
        &values![&place.tenant, &place.network, event, V, task],
    )?;
    Ok(noted == 1)
}

/// Writes a new task.
pub(crate) fn insert(tx: &mut Tx<'_>, place: &Place, new: &Kept) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO a2a_tasks (tenant_id, network_id, task_id, v, context_id, owner, caller, agent, state, ended,
             announced, direct, number, created_at, updated_at, content)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, ?10, 0, 0, ?11, ?11, ?12)",
        &values![
            &place.tenant,
            &place.network,
            &new.task.id,
            V,
            &new.task.context_id,
            &new.owner,
            &new.caller,
            &new.agent,
            i64::from(new.state() as i32),
            new.announced,
            new.created_at.0,
            new.task.encode_to_vec(),
        ],
    )?;
    tx.notify(&place.channel(), &new.task.id)
}

/// Makes a change to a task that has been read in this transaction. What is not possible is told, and nothing written.
pub(crate) fn change(
    tx: &mut Tx<'_>,
    place: &Place,
    kept: &mut Kept,
    change: Change,
    at: TimeMs,
) -> Result<Result<(), Unchanged>, StoreError> {
    let mut task = kept.task.clone();
    let update = match machine::apply(&mut task, change, at) {
        Ok(update) => update,
        Err(unchanged) => return Ok(Err(unchanged)),
    };
    kept.task = task;
    write(tx, place, kept, &update, at).map(Ok)
}

/// The agent has answered with a message and nothing else; there will be no task.
pub(crate) fn answer_directly(
    tx: &mut Tx<'_>,
    place: &Place,
    kept: &mut Kept,
    message: Message,
    at: TimeMs,
) -> Result<(), StoreError> {
    kept.direct = true;
    let message = Message { task_id: String::new(), context_id: kept.task.context_id.clone(), ..message };
    let update = StreamResponse { payload: Some(Payload::Message(message)) };
    write(tx, place, kept, &update, at)
}

fn write(
    tx: &mut Tx<'_>,
    place: &Place,
    kept: &mut Kept,
    update: &StreamResponse,
    at: TimeMs,
) -> Result<(), StoreError> {
    kept.number += 1;
    let (state, ended) = (kept.state(), kept.direct || machine::has_ended(kept.state()));
    tx.execute(
        "UPDATE a2a_tasks SET state = ?4, ended = ?5, direct = ?6, number = ?7, updated_at = ?8, content = ?9
         WHERE tenant_id = ?1 AND network_id = ?2 AND task_id = ?3",
        &values![
            &place.tenant,
            &place.network,
            &kept.task.id,
            i64::from(state as i32),
            ended,
            kept.direct,
            kept.number,
            at.0,
            kept.task.encode_to_vec(),
        ],
    )?;
    tx.execute(
        "INSERT INTO a2a_updates (tenant_id, network_id, task_id, number, v, at, content)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        &values![&place.tenant, &place.network, &kept.task.id, kept.number, V, at.0, update.encode_to_vec()],
    )?;
    tx.notify(&place.channel(), &kept.task.id)
}

/// Updates behind a number, some of them.
pub(crate) fn updates(
    read: &ReadTx<'_>,
    place: &Place,
    task: &str,
    after: i64,
) -> Result<Vec<(i64, StreamResponse)>, StoreError> {
    read.query(
        "SELECT number, content FROM a2a_updates
         WHERE tenant_id = ?1 AND network_id = ?2 AND task_id = ?3 AND number > ?4 ORDER BY number LIMIT ?5",
        &values![&place.tenant, &place.network, task, after, PAGE],
        |row| Ok((row.get(0)?, StreamResponse::decode(row.bytes(1)?).unwrap_or_default())),
    )
}

/// What a list of tasks is narrowed to.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) owner: String,
    pub(crate) agent: Option<String>,
    pub(crate) context: Option<String>,
    pub(crate) state: Option<TaskState>,
    pub(crate) since_ms: Option<i64>,
    /// Where the last page ended: when its last task was changed, and its id.
    pub(crate) behind: Option<(i64, String)>,
    pub(crate) max: i64,
}

/// A page of tasks, those changed last first, with when each was; and how many there are in all.
pub(crate) fn list(read: &ReadTx<'_>, place: &Place, wanted: &Wanted) -> Result<(Vec<(i64, Kept)>, i64), StoreError> {
    let mut values = values![&place.tenant, &place.network, &wanted.owner].to_vec();
    let mut filter = "tenant_id = ?1 AND network_id = ?2 AND owner = ?3 AND direct = 0".to_owned();
    let mut narrow = |sql: &str, value: longhaul_store::Value| {
        values.push(value);
        filter.push_str(&sql.replace("{}", &format!("?{}", values.len())));
    };
    if let Some(agent) = &wanted.agent {
        narrow(" AND agent = {}", agent.into());
    }
    if let Some(context) = &wanted.context {
        narrow(" AND context_id = {}", context.into());
    }
    if let Some(state) = wanted.state {
        narrow(" AND state = {}", i64::from(state as i32).into());
    }
    if let Some(since) = wanted.since_ms {
        narrow(" AND updated_at >= {}", since.into());
    }
    let count = format!("SELECT count(*) FROM a2a_tasks WHERE {filter}");
    let total = read.query_one(&count, &values, |row| row.get(0))?;
    if let Some((at, task)) = &wanted.behind {
        values.push((*at).into());
        values.push(task.into());
        let n = values.len();
        filter.push_str(&format!(" AND (updated_at < ?{} OR (updated_at = ?{} AND task_id < ?{n}))", n - 1, n - 1));
    }
    values.push(wanted.max.into());
    let sql = format!(
        "SELECT {COLUMNS}, updated_at FROM a2a_tasks WHERE {filter} ORDER BY updated_at DESC, task_id DESC LIMIT ?{}",
        values.len()
    );
    let tasks = read.query(&sql, &values, |row| Ok((row.get(8)?, kept(row)?)))?;
    Ok((tasks, total))
}

/// Removes tasks that ended before this time, some of them; tells how many.
pub(crate) fn sweep(tx: &mut Tx<'_>, place: &Place, before: TimeMs) -> Result<usize, StoreError> {
    let old: Vec<String> = tx.query(
        "SELECT task_id FROM a2a_tasks WHERE tenant_id = ?1 AND network_id = ?2 AND ended = 1 AND updated_at < ?3
         LIMIT 100",
        &values![&place.tenant, &place.network, before.0],
        |row| row.get(0),
    )?;
    for task in &old {
        for table in ["a2a_updates", "a2a_events", "a2a_push", "a2a_tasks"] {
            tx.execute(
                &format!("DELETE FROM {table} WHERE tenant_id = ?1 AND network_id = ?2 AND task_id = ?3"),
                &values![&place.tenant, &place.network, task],
            )?;
        }
    }
    Ok(old.len())
}
