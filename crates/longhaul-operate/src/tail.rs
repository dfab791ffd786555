//! What happens to a task, as people may be told, while it happens: in whatever process.
//!
//! It owns how the log is followed for a task. What is told live is only a hint to read on, so that nothing is missed
//! and nothing told twice, and a reader that is slow holds nobody up. Invariant: entries of the log for developers have
//! no way in; what is told is a [`BusinessEvent`].

use std::collections::{HashSet, VecDeque};

use longhaul_core::{Event, EventId, ExecutionId, Scope, TaskId, TimeMs};
use longhaul_durable::{BUSINESS_EVENT_V, BusinessEvent};
use longhaul_store::{Notices, ReadTx, Store, StoreError, events, values};
use serde::Serialize;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::{OperateError, Operator, target::Target};

/// Entries of the log that are read at once.
const PAGE: u32 = 256;

/// Heard only for what it says of other processes' writes.
const ANYTHING: &str = "operate.anything";

/// A business event of a task, with its place in the log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskEvent {
    /// Version of the form of `event`.
    pub v: u32,
    /// Its place: to be given as `after` to go on behind it. Rising, with gaps.
    pub seq: i64,
    /// Identity.
    pub id: EventId,
    /// When it was committed.
    pub at: TimeMs,
    /// The task.
    pub task: TaskId,
    /// The execution that caused it, if one did.
    pub execution: Option<ExecutionId>,
    /// The step within the execution.
    pub step: Option<String>,
    /// What happened.
    pub event: BusinessEvent,
}

impl TaskEvent {
    fn of(event: Event) -> Option<Self> {
        let told = BusinessEvent::of(&event)?;
        let Event { seq, id, at, execution, step, scope, .. } = event;
        Some(Self { v: BUSINESS_EVENT_V, seq, id, at, task: scope.task, execution, step, event: told })
    }
}

/// Business events of a task, in the order of the log. See [`Operator::tail`].
pub struct Tail {
    store: Store,
    scope: Scope,
    target: Target,
    /// The last entry that was read.
    after: i64,
    read: VecDeque<TaskEvent>,
    live: broadcast::Receiver<Event>,
    others: Notices,
    /// It goes on after the end of all executions.
    follows: bool,
    ended: bool,
}

impl Operator {
    /// Follows a task, or one thread of it, behind number `after` of the log: 0 for all that the log holds. It ends
    /// once all executions have ended, unless it `follows` whatever comes then. To be called within a tokio runtime.
    ///
    /// # Errors
    /// [`OperateError::Unknown`]; those of the store.
    pub async fn tail(&self, asked: &str, after: i64, follows: bool) -> Result<Tail, OperateError> {
        let target = self.target(asked).await?;
        Ok(Tail {
            // Listening comes before reading, so that nothing falls in between.
            live: self.store.subscribe(),
            others: self.store.listen(ANYTHING),
            store: self.store.clone(),
            scope: self.scope.clone(),
            target,
            after,
            read: VecDeque::new(),
            follows,
            ended: false,
        })
    }
}

impl Tail {
    /// The next event, as soon as there is one; nothing at the end. Safe to cancel.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn next(&mut self) -> Result<Option<TaskEvent>, OperateError> {
        loop {
            if let Some(event) = self.read.pop_front() {
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            if self.read_on().await? == 0 && !self.ended && !self.hear().await {
                return Ok(None);
            }
        }
    }

    /// The number behind which to go on: everything that was told lies before.
    #[must_use]
    pub fn position(&self) -> i64 {
        self.read.front().map_or(self.after, |event| event.seq - 1)
    }

    /// Reads a page of the log; tells how many entries it had.
    async fn read_on(&mut self) -> Result<usize, OperateError> {
        let (scope, target, after) = (self.scope.clone(), self.target.clone(), self.after);
        let reading = self.store.read(move |read| {
            let (known, closed) = executions(read, &scope, &target)?;
            let page = events(read, &scope, Some(&target.scope.task), after, PAGE)?;
            Ok::<_, StoreError>((known, closed, page))
        });
        let (known, closed, page) = reading.await?;
        let entries = page.len();
        // Read in one snapshot: of executions that were closed by then nothing comes behind this.
        self.ended = closed && !self.follows && entries < PAGE as usize;
        let one_thread = self.target.thread.is_some();
        for event in page {
            self.after = event.seq;
            let ours = !one_thread || event.execution.as_ref().is_some_and(|id| known.contains(id));
            self.read.extend(ours.then_some(event).and_then(TaskEvent::of));
        }
        Ok(entries)
    }

    /// Waits until there may be more; false when the store has been closed.
    async fn hear(&mut self) -> bool {
        loop {
            tokio::select! {
                event = self.live.recv() => match event {
                    Ok(event) if event.seq > self.after && event.scope.task == self.target.scope.task => return true,
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return true,
                    Err(RecvError::Closed) => return false,
                },
                notice = self.others.next() => return notice.is_some(),
            }
        }
    }
}

/// The executions that are told of, and whether there are some and all of them are closed.
fn executions(read: &ReadTx<'_>, scope: &Scope, target: &Target) -> Result<(HashSet<ExecutionId>, bool), StoreError> {
    let (column, value) = match &target.thread {
        Some(thread) => ("thread_id", thread.as_str()),
        None => ("task_id", target.scope.task.as_str()),
    };
    let mut closed = true;
    let known = read.query(
        &format!(
            "SELECT execution_id, closed_at FROM executions WHERE tenant_id = ?1 AND user_id = ?2 AND {column} = ?3"
        ),
        &values![&scope.tenant, &scope.user, value],
        |row| {
            closed &= row.get::<Option<TimeMs>>(1)?.is_some();
            row.get(0)
        },
    )?;
    closed &= !known.is_empty();
    Ok((known.into_iter().collect(), closed))
}
