//! What a search asks the server, before its snapshot is taken, and whether the answer was enough.
//!
//! Invariant: a search never fails because of the server, and never waits longer for it than the port's own limit; what
//! it did without the server it says in a note.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use longhaul_core::Scope;
use longhaul_store::ReadTx;

use super::{
    Ask, Link, RemoteFilter,
    state::{Key, State, Watermark},
};
use crate::{
    Memory, MemoryError, Query,
    access::{self, Partition},
    namespace::PartitionId,
};

/// Candidates beyond those that the search will take, because some are gone or do not pass the filter.
const SPARE: usize = 32;
/// How much more is asked for each time that too few were left over.
const WIDER: usize = 8;
/// Most candidates that are asked for.
const TAKE_MAX: usize = 8_192;
/// Vectors that a search compares itself beside those of the server; with more the embedded engine does it all.
const OVERLAY_MAX: i64 = 10_000;

/// What the server said of one partition.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Numbers, best first.
    pub(super) seqs: Vec<i64>,
    /// The last candidate's cosine, if there may be more behind it.
    pub(super) cutoff: Option<f32>,
    /// Everything above is compared here.
    pub(super) since: Watermark,
    /// Set by the search when too few were left over.
    pub(super) too_few: AtomicBool,
}

/// What the server said of each partition that a search is about.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    answers: HashMap<PartitionId, Arc<Answer>>,
    take: usize,
    /// What the reader of the answer should know.
    pub(crate) notes: Vec<String>,
}

impl Asked {
    /// What the server said of this partition; `None` when the embedded engine is to search it.
    pub(crate) fn answer(&self, id: &PartitionId) -> Option<&Arc<Answer>> {
        self.answers.get(id)
    }
}

impl Memory {
    /// Asks the server about the partitions of a query, if there is one and it is well.
    pub(crate) async fn ask(&self, scope: &Scope, query: &Query, vector: Option<&[f32]>) -> Result<Asked, MemoryError> {
        let mut asked = Asked::default();
        let (Some(link), Some(vector)) = (self.link(), vector) else { return Ok(asked) };
        if let Some(problem) = link.away() {
            asked.notes.push(note(link, &problem));
            return Ok(asked);
        }
        // Conditions of which the server knows nothing leave few over.
        let is_narrow = !query.filter.is_empty()
            || !query.tags.is_empty()
            || query.task.is_some()
            || query.user.is_some()
            || query.thread.is_some()
            || query.subject.is_some();
        asked.take = (query.k * 4).max(64) * if is_narrow { 4 } else { 1 } + SPARE;
        self.ask_all(link, scope, query, vector, &mut asked, |_| true).await?;
        Ok(asked)
    }

    /// Asks for more where too few were left over. Tells whether there is anything to search again.
    pub(crate) async fn ask_more(
        &self,
        scope: &Scope,
        query: &Query,
        vector: Option<&[f32]>,
        asked: &mut Asked,
    ) -> Result<bool, MemoryError> {
        let short = |answer: &Arc<Answer>| answer.too_few.load(Ordering::Relaxed);
        let short: Vec<PartitionId> =
            asked.answers.iter().filter(|(_, answer)| short(answer)).map(|(id, _)| id.clone()).collect();
        let (Some(link), Some(vector), false) = (self.link(), vector, short.is_empty()) else { return Ok(false) };
        asked.answers.retain(|id, _| !short.contains(id));
        if asked.take >= TAKE_MAX {
            // A filter that hardly anything passes: the embedded engine looks through all of it.
            return Ok(true);
        }
        asked.take = (asked.take * WIDER).min(TAKE_MAX);
        self.ask_all(link, scope, query, vector, asked, |id| short.contains(id)).await?;
        Ok(true)
    }

    async fn ask_all(
        &self,
        link: &Link,
        scope: &Scope,
        query: &Query,
        vector: &[f32],
        asked: &mut Asked,
        wanted: impl Fn(&PartitionId) -> bool,
    ) -> Result<(), MemoryError> {
        let Some(space) = self.space() else { return Ok(()) };
        let (of, names, place) = (scope.clone(), query.namespaces.clone(), link.vectors.place().to_owned());
        let given = move |read: &ReadTx<'_>| -> Result<Vec<(Partition, Key, Option<State>)>, MemoryError> {
            let mut given = Vec::new();
            for partition in access::readable(read, &of, &names)? {
                let key = Key { id: partition.id.clone(), space: space.clone(), place: place.clone() };
                let state = key.find(read)?;
                given.push((partition, key, state));
            }
            Ok(given)
        };
        let now = self.shared.store.ambient().clock.now();
        let filter = RemoteFilter {
            now,
            collections: query.collections.clone(),
            kinds: query.kinds.iter().map(|kind| kind.as_str().to_owned()).collect(),
            since: query.since,
            until: query.until,
        };
        for (partition, key, state) in self.shared.store.read(given).await? {
            if !wanted(&key.id) {
                continue;
            }
            let missing = partition.last_vector_seq;
            let Some(state) = state.filter(|state| !state.incarnation.is_empty()) else {
                if missing > OVERLAY_MAX {
                    asked.notes.push(lacks(link, missing));
                }
                continue;
            };
            let since = state.settled(now);
            let missing = (partition.last_vector_seq - since.vector_seq).max(partition.last_change - since.change_seq);
            if missing > OVERLAY_MAX {
                asked.notes.push(lacks(link, missing));
                continue;
            }
            let ask = Ask {
                space: &key.space,
                incarnation: &state.incarnation,
                partition: &state.partition_key,
                vector,
                filter: &filter,
                take: asked.take,
                at_least: since.mark,
            };
            match link.vectors.nearest(&ask).await {
                Ok(near) => {
                    let cutoff = near.last().filter(|_| near.len() >= asked.take).map(|last| last.score);
                    let seqs = near.iter().map(|near| near.seq).collect();
                    let answer = Answer { seqs, cutoff, since, too_few: AtomicBool::new(false) };
                    asked.answers.insert(key.id, Arc::new(answer));
                }
                Err(error) => {
                    link.failed_with(&error);
                    let error = link.error(error);
                    let cause = std::error::Error::source(&error).and_then(std::error::Error::source);
                    let cause = cause.map(ToString::to_string).unwrap_or_default();
                    tracing::warn!(%error, cause, "searching without the vector server");
                    asked.notes.push(note(link, &cause));
                    // The others would cost the same time.
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

fn note(link: &Link, problem: &str) -> String {
    format!("{} could not be asked, the embedded engine searched instead: {problem}", link.vectors.place())
}

fn lacks(link: &Link, missing: i64) -> String {
    format!("{} has not been given the last {missing} changes yet; searched without it", link.vectors.place())
}
