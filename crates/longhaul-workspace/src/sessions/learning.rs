//! User memory learns from conversations in the background: one pass at a time for each user of this process.
//!
//! It owns when to read, not what is learned: that is `longhaul_memory::user`'s, with its rules, proposers and review.
//! Invariant: however many messages are appended, at most one pass runs and one waits for a user; a pass that is killed
//! is taken up by the next one, as its place is in the store.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, PoisonError},
};

use longhaul_core::Scope;
use longhaul_memory::user::{Observed, Proposer};
use tokio::{sync::Mutex as Turn, task::JoinHandle};

use super::{SessionError, Sessions};
use crate::talk_partition_of;

/// Passes of one reading at most: each reads 200 turns.
const PASSES_MAX: usize = 50;

/// Who is being read now.
#[derive(Debug, Clone, Default)]
pub(super) struct Readers {
    turns: Arc<Mutex<HashMap<Scope, Reading>>>,
}

#[derive(Debug, Default)]
struct Reading {
    turn: Arc<Turn<()>>,
    /// A pass that has not begun to read yet, and so will see what was just appended.
    waits: bool,
}

/// A pass in the background. Dropping it lets the pass go on.
#[derive(Debug)]
pub struct Learning {
    task: Option<JoinHandle<Result<Observed, SessionError>>>,
}

impl Learning {
    /// Waits for the pass and tells what it came to; nothing for one that left the work to a pass that waits already.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn done(self) -> Result<Observed, SessionError> {
        let Some(task) = self.task else { return Ok(Observed::default()) };
        match task.await {
            Ok(observed) => observed,
            Err(error) => {
                let problem = format!("the pass over conversations did not end: {error}");
                Ok(Observed { notes: vec![problem], ..Observed::default() })
            }
        }
    }
}

impl Sessions {
    /// Lets user memory read, in the background, what the user has said since the last time. To be called within a tokio
    /// runtime.
    #[must_use = "dropping it is fine, waiting for it tells what was learned"]
    pub fn learn(&self, proposer: Option<Arc<dyn Proposer>>) -> Learning {
        let Some(turn) = self.readers().enter(self.scope()) else { return Learning { task: None } };
        let sessions = self.clone();
        let pass = async move {
            let _turn = turn.lock_owned().await;
            sessions.readers().begins(sessions.scope());
            let learned = sessions.read_all(proposer.as_deref()).await;
            sessions.readers().leave(sessions.scope());
            if let Err(error) = &learned {
                tracing::warn!(%error, "user memory could not read the conversations; the next message tries again");
            }
            learned
        };
        Learning { task: Some(tokio::spawn(pass)) }
    }

    async fn read_all(&self, proposer: Option<&dyn Proposer>) -> Result<Observed, SessionError> {
        let namespace = talk_partition_of(&self.scope().user);
        let mut all = Observed::default();
        for _ in 0..PASSES_MAX {
            let observed = self.user_memory().observe_stored(self.scope(), &namespace, proposer).await?;
            let was_last = observed.turns == 0;
            all.turns += observed.turns;
            all.known += observed.known;
            all.dropped += observed.dropped;
            all.proposals.extend(observed.proposals);
            all.notes.extend(observed.notes);
            if was_last {
                break;
            }
        }
        Ok(all)
    }
}

impl Readers {
    /// The turn to take, unless a pass waits already.
    fn enter(&self, scope: &Scope) -> Option<Arc<Turn<()>>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let reading = turns.entry(scope.clone()).or_default();
        (!std::mem::replace(&mut reading.waits, true)).then(|| reading.turn.clone())
    }

    fn begins(&self, scope: &Scope) {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reading) = turns.get_mut(scope) {
            reading.waits = false;
        }
    }

    /// Forgets a user whom nobody waits to read.
    fn leave(&self, scope: &Scope) {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(reading) = turns.entry(scope.clone())
            && !reading.get().waits
        {
            reading.remove();
        }
    }
}
