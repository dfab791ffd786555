//! What stands in the queue of workers, as far as a person at a terminal has to do with it.

use longhaul_core::ThreadId;
use longhaul_durable::{DurableError, Entry, EntryFilter, EntryId, EntryStatus};

use crate::{OperateError, Operator, explaining::Explanation, moments::moment};

/// Entries read at a time.
const PAGE: u32 = 1_000;

impl Operator {
    /// The entries of the queue that are not done, the oldest first: of one graph or of all.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn entries(&self, graph: Option<&str>) -> Result<Vec<Entry>, OperateError> {
        let mut all = Vec::new();
        let mut filter = EntryFilter { graph: graph.map(str::to_owned), limit: PAGE, ..EntryFilter::default() };
        loop {
            let page = self.runtime.queue(&self.scope, filter.clone()).await?;
            let Some(last) = page.last() else { return Ok(all) };
            filter.after = Some(last.id.clone());
            all.extend(page.into_iter().filter(|entry| entry.status != EntryStatus::Done));
        }
    }

    pub(super) async fn entry_of(&self, thread: &ThreadId, graph: Option<&str>) -> Result<Option<Entry>, OperateError> {
        Ok(self.entries(graph).await?.into_iter().find(|entry| entry.thread == *thread))
    }

    /// The entry that its id means, or a thread that has not begun.
    pub(super) async fn entry_named(&self, target: &str) -> Result<Option<Entry>, OperateError> {
        if let Ok(id) = target.parse::<EntryId>() {
            return match self.runtime.entry(&self.scope, &id).await {
                Err(DurableError::NoEntry { .. }) => Ok(None),
                found => Ok(Some(found?)),
            };
        }
        let Ok(thread) = target.parse::<ThreadId>() else { return Ok(None) };
        Ok(self.entry_of(&thread, None).await?.filter(|entry| entry.execution.is_none()))
    }

    pub(super) async fn explain_entry(&self, id: &EntryId) -> Result<Option<Explanation>, OperateError> {
        let Some(entry) = self.entry_named(id.as_str()).await? else { return Ok(None) };
        let mut told = Explanation::new(id.as_str(), "queue entry");
        told.owner(&entry.scope, &entry.thread);
        told.fact("graph", entry.graph.clone());
        told.fact("status", standing(&entry));
        if let Some(execution) = &entry.execution {
            told.fact("execution", execution.to_string());
        }
        if let Some(worker) = &entry.worker {
            told.fact("worker", worker.clone());
        }
        told.fact("enqueued", format!("{} UTC", moment(entry.created_at.0)));
        told.now.push(match entry.status {
            EntryStatus::Parked => format!("put it back with: longhaul retry {}{}", entry.thread, self.flags),
            EntryStatus::Queued => {
                format!(
                    "run by a worker that serves the graph {:?}, from {} UTC on",
                    entry.graph,
                    moment(entry.ready_at.0)
                )
            }
            EntryStatus::Waiting => format!("run again once there is an answer: longhaul waits{}", self.flags),
            EntryStatus::Claimed => "a worker is at work on it".to_owned(),
            EntryStatus::Done => "its execution is finished".to_owned(),
        });
        Ok(Some(told))
    }
}

/// How an entry is, in words.
pub(super) fn standing(entry: &Entry) -> String {
    let error = entry.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    match entry.status {
        EntryStatus::Parked => format!("parked after {} of {} attempts{error}", entry.attempts, entry.attempts_max),
        EntryStatus::Queued if entry.attempts > 0 => {
            format!("queued again after {} of {} attempts{error}", entry.attempts, entry.attempts_max)
        }
        EntryStatus::Queued | EntryStatus::Waiting | EntryStatus::Claimed | EntryStatus::Done => {
            entry.status.as_str().to_owned()
        }
    }
}
