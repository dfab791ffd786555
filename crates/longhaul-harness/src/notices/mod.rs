//! What a person who is not there is told of a project: a command of theirs, run for some of its events.
//!
//! The log of events is the outbox: an event is written with what it tells, and `run_notices` holds how far the person
//! was told. Invariants: whoever was not told is told by the next run, with the same id; nothing of this fails a run or
//! makes it wait longer than [`HookLimits::farewell`]; a notice holds no text of an agent's, no output and no setting.

mod hook;
mod rows;
mod words;

#[cfg(test)]
mod tests;

use std::{path::PathBuf, time::Duration};

use longhaul_core::TaskScope;
use longhaul_store::{Store, StoreError};
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

pub use words::{Ended, Notice};

use rows::{pending, told};

/// A person's command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// Program and arguments.
    pub command: Vec<String>,
    /// The folder that it is run in; none of an agent's.
    pub dir: PathBuf,
    /// Variables of the environment that it is not given, as they hold keys.
    pub hidden: Vec<String>,
    /// How patient we are with it.
    pub limits: HookLimits,
}

/// Bounds of a hook. Start from [`HookLimits::default`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookLimits {
    /// Longest run of the command, which is ended then with all that it started.
    pub time: Duration,
    /// Tries of one notice in one run, until it is given up.
    pub tries_max: u32,
    /// The pause after the first failure; it doubles up to [`Self::pause_max`].
    pub pause: Duration,
    /// The longest pause between two tries.
    pub pause_max: Duration,
    /// How long the end of a run waits for notices that are not delivered yet.
    pub farewell: Duration,
    /// How often the log is looked at.
    pub look: Duration,
    /// Most notices that wait; older ones are not told any more.
    pub waiting_max: usize,
}

impl Default for HookLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(10),
            tries_max: 12,
            pause: Duration::from_secs(5),
            pause_max: Duration::from_mins(10),
            farewell: Duration::from_secs(15),
            look: Duration::from_millis(500),
            waiting_max: 100,
        }
    }
}

/// Tells a person of one project while a run goes on.
#[derive(Debug)]
pub struct Teller {
    telling: JoinHandle<()>,
    end: CancellationToken,
    farewell: Duration,
}

impl Teller {
    /// Begins where the run before stopped; a project whose person was never told anything begins with now.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub async fn begin(store: Store, owner: TaskScope, folder: PathBuf, hook: Hook) -> Result<Self, StoreError> {
        let of = owner.clone();
        let from = store.write::<_, StoreError>(move |tx| rows::begin(tx, &of)).await?;
        let (end, farewell) = (CancellationToken::new(), hook.limits.farewell);
        let round = Round { store, owner, folder, hook, seen: from, failed: None, next_try: None };
        let telling = tokio::spawn(round.tell(end.clone()));
        Ok(Self { telling, end, farewell })
    }

    /// Tries once more what was not delivered, for as long as that may take, and ends.
    pub async fn end(mut self) {
        self.end.cancel();
        if tokio::time::timeout(self.farewell, &mut self.telling).await.is_err() {
            // The command ends with it.
            self.telling.abort();
            tracing::warn!("a person was not told everything; the next run goes on with that");
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.telling.abort();
    }
}

struct Round {
    store: Store,
    owner: TaskScope,
    folder: PathBuf,
    hook: Hook,
    /// Number of the last event that was told, or that nobody wants to know of.
    seen: i64,
    /// The event whose notice was not delivered, and how often.
    failed: Option<(i64, u32)>,
    next_try: Option<Instant>,
}

impl Round {
    async fn tell(mut self, end: CancellationToken) {
        let mut looks = tokio::time::interval(self.hook.limits.look);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let last = end.run_until_cancelled(looks.tick()).await.is_none();
            if !last && self.next_try.is_some_and(|at| at > Instant::now()) {
                continue;
            }
            if let Err(error) = self.deliver().await {
                tracing::warn!(%error, "nobody is told of events for a moment");
            }
            if last {
                return;
            }
        }
    }

    /// Tells what waits, in order, until one is not delivered.
    async fn deliver(&mut self) -> Result<(), StoreError> {
        loop {
            let (of, after, most) = (self.owner.clone(), self.seen, self.hook.limits.waiting_max);
            let waiting = self.store.read::<_, StoreError>(move |read| pending(read, &of, after, most)).await?;
            let Some((seq, notice)) = waiting.notice else {
                self.seen = waiting.looked_at;
                return Ok(());
            };
            let said = notice.json(&self.owner, &self.folder, waiting.skipped);
            let outcome = hook::run(&self.hook, &said).await;
            let given_up = match outcome {
                Ok(()) => None,
                Err(why) if self.tried(seq) >= self.hook.limits.tries_max => Some(why),
                Err(why) => {
                    tracing::warn!(why, event = notice.event, "a person was not told; it is tried again");
                    return Ok(());
                }
            };
            let (of, id) = (self.owner.clone(), notice.id);
            self.store.write::<_, StoreError>(move |tx| told(tx, &of, seq, &id, given_up.as_deref())).await?;
            (self.seen, self.failed, self.next_try) = (seq, None, None);
        }
    }

    /// Counts a failure, says when to try again, and gives how often it was tried.
    fn tried(&mut self, seq: i64) -> u32 {
        let before = self.failed.filter(|(of, _)| *of == seq).map_or(0, |(_, tries)| tries);
        let limits = self.hook.limits;
        let pause = limits.pause.saturating_mul(1 << before.min(16)).min(limits.pause_max);
        self.failed = Some((seq, before + 1));
        self.next_try = Some(Instant::now() + pause);
        before + 1
    }
}
