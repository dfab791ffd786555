//! The searches of a pack: the index of records, conversations, memory. What they found is read again and verified by
//! `snapshot`.
//!
//! Invariant: each search is bound to the scope before anything is scored, and none of them writes.

use std::time::Instant;

use longhaul_memory::{Hit, Memory, MemoryError, Mode, Namespace, Query, Recall, user::namespace_of};

use super::{build::Within, error::ContextError, pack::Searched, profile::Profile, reach::Reach};
use crate::talk_partition_of;

/// What is asked of the store.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) within: Within,
    pub(super) reach: Reach,
    pub(super) goal: String,
    pub(super) profile: Profile,
    pub(super) memory: Vec<Namespace>,
}

/// What the searches found.
#[derive(Debug, Default)]
pub(super) struct Hits {
    pub(super) records: Vec<Hit>,
    pub(super) messages: Vec<Hit>,
    pub(super) memories: Vec<Hit>,
    pub(super) searched: Searched,
    pub(super) notes: Vec<String>,
}

impl Asked {
    /// Searches the index of records, the conversations and memory.
    pub(super) async fn search(&self, memory: &Memory) -> Result<Hits, ContextError> {
        let started = Instant::now();
        let vector = memory.query_vector(&self.goal).await;
        let mut hits = Hits::default();
        hits.searched.embedded_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        hits.searched.tasks = self.reach.tasks.len();
        hits.notes.clone_from(&self.reach.notes);
        let query = Query { vector, ..Query::new(self.goal.clone(), self.profile.candidates) };
        let (records, talk, of_task, memories) = tokio::join!(
            self.records(memory, &query),
            self.messages(memory, &query, false),
            self.messages(memory, &query, true),
            self.memories(memory, &query)
        );
        let all = [
            (Searching::Records, records?),
            (Searching::Conversations, talk?),
            (Searching::Conversations, of_task?),
            (Searching::Memory, memories?),
        ];
        for (searching, recall) in all {
            if let Some(recall) = recall {
                hits.take(searching, recall);
            }
        }
        Ok(hits)
    }

    async fn records(&self, memory: &Memory, query: &Query) -> Result<Option<Recall>, ContextError> {
        if self.reach.tasks.is_empty() || self.profile.records <= 0.0 {
            return Ok(None);
        }
        let namespaces = self.reach.tasks.iter().map(|(_, namespace)| namespace.clone()).collect();
        self.ask(memory, Query { namespaces, ..query.clone() }).await
    }

    /// What was said in the conversation that asked for the task, or anywhere in the task's course; without a task, in
    /// all of the user's conversations.
    async fn messages(&self, memory: &Memory, query: &Query, of_task: bool) -> Result<Option<Recall>, ContextError> {
        if self.profile.messages <= 0.0 || self.profile.messages_share_max <= 0.0 {
            return Ok(None);
        }
        let user = &self.within.scope.user;
        let mut query = Query { namespaces: vec![talk_partition_of(user)], user: Some(user.clone()), ..query.clone() };
        match (&self.within.task, of_task) {
            (Some((task, _)), true) => query.task = Some(task.clone()),
            (Some((_, session)), false) => query.thread = Some(session.to_string()),
            (None, true) => return Ok(None),
            (None, false) => {}
        }
        self.ask(memory, query).await
    }

    async fn memories(&self, memory: &Memory, query: &Query) -> Result<Option<Recall>, ContextError> {
        if self.profile.memories <= 0.0 || self.profile.memories_share_max <= 0.0 {
            return Ok(None);
        }
        let user = &self.within.scope.user;
        let is_of_others = |name: &&Namespace| !name.as_str().starts_with("ws:") && !name.as_str().starts_with("talk:");
        let mut namespaces: Vec<Namespace> = self.memory.iter().filter(is_of_others).cloned().collect();
        namespaces.push(namespace_of(user));
        self.ask(memory, Query { namespaces, user: Some(user.clone()), ..query.clone() }).await
    }

    /// What may not be read is as if it were not there.
    async fn ask(&self, memory: &Memory, mut query: Query) -> Result<Option<Recall>, ContextError> {
        loop {
            match memory.search(&self.within.scope, &query).await {
                Ok(recall) => return Ok(Some(recall)),
                Err(MemoryError::NoAccess { namespace, .. }) => {
                    query.namespaces.retain(|name| *name != namespace);
                    if query.namespaces.is_empty() {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// What a search looks at.
#[derive(Debug, Clone, Copy)]
enum Searching {
    Records,
    Conversations,
    Memory,
}

impl Hits {
    fn take(&mut self, searching: Searching, recall: Recall) {
        let what = match searching {
            Searching::Records => "parts of records",
            Searching::Conversations => "messages",
            Searching::Memory => "memories",
        };
        if let Mode::Keyword { reason } = &recall.mode {
            self.note(format!("searched by words alone: {reason}"));
        } else if recall.unembedded > 0 {
            self.note(format!("{} {what} have no vector yet and are found by words alone", recall.unembedded));
        }
        recall.notes.into_iter().for_each(|note| self.note(note));
        match searching {
            Searching::Records => {
                self.searched.record_parts += recall.considered;
                self.records.extend(recall.hits);
            }
            Searching::Conversations => {
                // The two searches overlap: at least so many.
                self.searched.messages = self.searched.messages.max(recall.considered);
                self.messages.extend(recall.hits);
            }
            Searching::Memory => {
                self.searched.memories += recall.considered;
                self.memories.extend(recall.hits);
            }
        }
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}
