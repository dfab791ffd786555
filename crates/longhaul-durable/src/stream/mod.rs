//! Streams of what happens to executions.
//!
//! It owns how the log is followed. A reader gets what the log holds behind the number it names, then what comes, from
//! whatever process, without gap or duplicate: what is told live is only taken as a hint to read on. So a reader that is
//! slow holds nobody up and costs no memory beyond one page.

use std::collections::{HashSet, VecDeque};

use futures::Stream;
use longhaul_core::{Event, ExecutionId, Scope, ThreadId, TimeMs};
use longhaul_store::{Notices, ReadTx, Store, StoreError, events_of, values};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::{DurableError, Runtime};

mod event;
mod views;

pub use event::{BUSINESS_EVENT_V, BusinessEvent, ForUsers, StreamedEvent, to_ui_json};
pub use views::{DevStream, DevView, DevViews};

/// Entries of the log that are read at once.
const PAGE: u32 = 128;

/// What following an execution's part of the log needs; a step of this crate's migrations.
pub(crate) const INDEX: &str = "
CREATE INDEX events_by_execution ON events (tenant_id, execution_id, seq) WHERE execution_id IS NOT NULL;
";

/// Heard only for what it says of other processes' writes, where the store tells no more than that.
const ANYTHING: &str = "durable.anything";

/// Of what a stream tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamOf {
    /// Of all executions of a thread, also of those to come. Such a stream has no end.
    Thread(ThreadId),
    /// Of one execution. The stream ends with it.
    Execution(ExecutionId),
}

impl From<ThreadId> for StreamOf {
    fn from(thread: ThreadId) -> Self {
        Self::Thread(thread)
    }
}

impl From<ExecutionId> for StreamOf {
    fn from(execution: ExecutionId) -> Self {
        Self::Execution(execution)
    }
}

/// Business events, in the order of the log. See [`Runtime::stream`].
#[derive(Debug)]
pub struct EventStream {
    store: Store,
    scope: Scope,
    of: StreamOf,
    /// The last entry that was read.
    after: i64,
    read: VecDeque<StreamedEvent>,
    /// The executions that it tells of, as far as known.
    known: HashSet<ExecutionId>,
    live: broadcast::Receiver<Event>,
    others: Notices,
    ended: bool,
}

impl Runtime {
    /// What happens to a thread or an execution of the user, behind number `after_seq` of the log: 0 for all that the
    /// log holds, or the number of the last event that was seen, in whatever process. To be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// [`DurableError::KeepsNothing`].
    pub fn stream(&self, scope: &Scope, of: impl Into<StreamOf>, after_seq: i64) -> Result<EventStream, DurableError> {
        let store = self.store()?.clone();
        Ok(EventStream {
            // Listening comes before reading, so that nothing falls in between.
            live: store.subscribe(),
            others: store.listen(ANYTHING),
            store,
            scope: scope.clone(),
            of: of.into(),
            after: after_seq,
            read: VecDeque::new(),
            known: HashSet::new(),
            ended: false,
        })
    }
}

impl EventStream {
    /// The next event, as soon as there is one; nothing when the execution has come to its end. Safe to cancel.
    ///
    /// # Errors
    /// [`DurableError::Store`].
    pub async fn next(&mut self) -> Result<Option<StreamedEvent>, DurableError> {
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

    /// The number of the last entry of the log that this stream has read: everything it told lies before.
    #[must_use]
    pub fn position(&self) -> i64 {
        self.read.front().map_or(self.after, |event| event.seq - 1)
    }

    /// The same as a [`Stream`].
    pub fn into_stream(self) -> impl Stream<Item = Result<StreamedEvent, DurableError>> + Send {
        futures::stream::unfold(Some(self), |stream| async {
            let mut stream = stream?;
            match stream.next().await {
                Ok(Some(event)) => Some((Ok(event), Some(stream))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    /// Reads a page of the log; tells how many entries it had.
    async fn read_on(&mut self) -> Result<usize, DurableError> {
        let (scope, of, after) = (self.scope.clone(), self.of.clone(), self.after);
        let reading = self.store.read(move |read| {
            let (known, closed) = executions(read, &scope, &of)?;
            let page = events_of(read, &scope, &known, after, PAGE)?;
            Ok::<_, StoreError>((known, closed, page))
        });
        let (known, closed, page) = reading.await?;
        self.known.extend(known);
        let entries = page.len();
        // Read in one snapshot: of an execution that was closed by then nothing comes behind this.
        self.ended = closed && entries < PAGE as usize && matches!(self.of, StreamOf::Execution(_));
        for event in page {
            self.after = event.seq;
            let Some(event) = StreamedEvent::of(event) else { continue };
            self.read.push_back(event);
        }
        Ok(entries)
    }

    /// Waits until there may be more; false when the store has been closed.
    async fn hear(&mut self) -> bool {
        loop {
            tokio::select! {
                event = self.live.recv() => match event {
                    Ok(event) if self.concerns(&event) => return true,
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return true,
                    Err(RecvError::Closed) => return false,
                },
                notice = self.others.next() => return notice.is_some(),
            }
        }
    }

    fn concerns(&self, event: &Event) -> bool {
        let Some(execution) = &event.execution else { return false };
        if event.seq <= self.after || event.scope.scope != self.scope {
            return false;
        }
        match &self.of {
            StreamOf::Execution(ours) => execution == ours,
            // One that is not known may be one of the thread that has just begun.
            StreamOf::Thread(thread) => {
                self.known.contains(execution)
                    || event.kind == "execution.forked"
                    || event.data["thread"].as_str() == Some(thread.as_str())
            }
        }
    }
}

impl StreamOf {
    fn thread(&self) -> &str {
        match self {
            Self::Thread(thread) => thread.as_str(),
            Self::Execution(_) => "",
        }
    }

    fn execution(&self) -> &str {
        match self {
            Self::Thread(_) => "",
            Self::Execution(execution) => execution.as_str(),
        }
    }
}

/// The executions that are told of, and whether all of them are closed.
fn executions(read: &ReadTx<'_>, scope: &Scope, of: &StreamOf) -> Result<(Vec<ExecutionId>, bool), StoreError> {
    let mut closed = true;
    let executions = read.query(
        "SELECT execution_id, closed_at FROM executions
         WHERE tenant_id = ?1 AND user_id = ?2 AND (thread_id = ?3 OR execution_id = ?4)",
        &values![&scope.tenant, &scope.user, of.thread(), of.execution()],
        |row| {
            closed &= row.get::<Option<TimeMs>>(1)?.is_some();
            row.get(0)
        },
    )?;
    closed &= !executions.is_empty();
    Ok((executions, closed))
}
