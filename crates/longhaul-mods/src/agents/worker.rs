//! Agents in Rust: a trait with a function for each sort of message, and the loop that calls it.
//!
//! It owns receiving, caution, limits of time, and trying again while the network is away. Invariant: an event is taken
//! note of only after its handler has ended, so that one whose process died is handled again, with the same ids for what
//! it sends.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use longhaul_core::{Ambient, TimeMs};
use longhaul_network::{Event, Refusal, RefusalKind};
use tokio_util::sync::CancellationToken;

use super::{
    caution::{CautionSettings, Ignored},
    desk::Desk,
    heard::{Message, Way},
    link::{Link, may_pass},
};

/// Why a handler did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// It is given up: the next message is handled.
    #[error("{0}")]
    Failed(String),
    /// Nothing was done; the same message is to be handled again.
    #[error("{0}")]
    TryAgain(String),
}

impl From<Refusal> for WorkerError {
    fn from(refusal: Refusal) -> Self {
        if may_pass(&refusal) { Self::TryAgain(refusal.message) } else { Self::Failed(refusal.message) }
    }
}

/// An agent. Every function has a default that does nothing, so an agent names what it answers.
///
/// ```
/// use longhaul_mods::agents::{Desk, Message, Worker, WorkerError};
///
/// struct Greeter;
///
/// #[async_trait::async_trait]
/// impl Worker for Greeter {
///     async fn on_mention(&self, desk: &Desk, message: &Message) -> Result<(), WorkerError> {
///         desk.reply(message, &format!("good morning, {}", message.from)).await?;
///         Ok(())
///     }
/// }
/// ```
#[async_trait]
pub trait Worker: Send + Sync + 'static {
    /// Before the first message.
    async fn on_startup(&self, _desk: &Desk) -> Result<(), WorkerError> {
        Ok(())
    }

    /// After the last one.
    async fn on_shutdown(&self, _desk: &Desk) -> Result<(), WorkerError> {
        Ok(())
    }

    /// Somebody says something to this agent alone.
    async fn on_direct(&self, _desk: &Desk, _message: &Message) -> Result<(), WorkerError> {
        Ok(())
    }

    /// Somebody says something in a channel.
    async fn on_channel_post(&self, _desk: &Desk, _message: &Message) -> Result<(), WorkerError> {
        Ok(())
    }

    /// Somebody names this agent in a channel.
    async fn on_mention(&self, desk: &Desk, message: &Message) -> Result<(), WorkerError> {
        self.on_channel_post(desk, message).await
    }

    /// Somebody answers a message.
    async fn on_reply(&self, _desk: &Desk, _message: &Message) -> Result<(), WorkerError> {
        Ok(())
    }

    /// Somebody puts a sign on a message.
    async fn on_reaction(&self, _desk: &Desk, _message: &Message) -> Result<(), WorkerError> {
        Ok(())
    }

    /// A file was shared.
    async fn on_file(&self, _desk: &Desk, _message: &Message) -> Result<(), WorkerError> {
        Ok(())
    }

    /// Any other event; [`longhaul_network::Pattern`] says which are meant.
    async fn on_event(&self, _desk: &Desk, _event: &Event, _message: &Message) -> Result<(), WorkerError> {
        Ok(())
    }

    /// A message that is not answered, and why; for whoever wants to show it.
    fn ignored(&self, message: &Message, why: Ignored) {
        tracing::debug!(from = %message.from, name = %message.name, why = why.as_str(), "not answered");
    }
}

/// How an agent works.
#[derive(Debug, Clone, Copy)]
pub struct WorkSettings {
    /// Longest time for one message; a handler that takes longer is given up.
    pub time_limit: Duration,
    /// Events that are asked for at once.
    pub batch_max: usize,
    /// How long to wait for an event before asking again.
    pub wait: Duration,
    /// What it does not answer.
    pub caution: CautionSettings,
}

impl Default for WorkSettings {
    fn default() -> Self {
        Self {
            time_limit: Duration::from_secs(60),
            batch_max: 64,
            wait: Duration::from_secs(20),
            caution: CautionSettings::default(),
        }
    }
}

/// What an agent did until it ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AgentWorked {
    /// Messages that were handled.
    pub handled: u64,
    /// Messages that were not to be answered.
    pub ignored: u64,
    /// Handlers that failed or took too long.
    pub failed: u64,
}

/// Pause before the network is asked again, the first and the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Works until `shutdown`; dropping it is like a crash. Messages are handled one after the other, in their order.
///
/// # Errors
/// When the agent's secret has been replaced, or it was made to leave.
pub async fn work(
    link: Arc<dyn Link>,
    worker: Arc<dyn Worker>,
    settings: WorkSettings,
    ambient: Ambient,
    shutdown: CancellationToken,
) -> Result<AgentWorked, Refusal> {
    let desk = Desk::new(link, settings.caution, &ambient.ids.body());
    let mut at_work = AtWork { desk, worker, settings, ambient, worked: AgentWorked::default() };
    if let Err(error) = at_work.worker.on_startup(&at_work.desk).await {
        tracing::warn!(agent = %at_work.desk.agent(), %error, "an agent's start failed; it goes on");
    }
    let ended = at_work.go(&shutdown).await;
    if let Err(error) = at_work.worker.on_shutdown(&at_work.desk).await {
        tracing::warn!(agent = %at_work.desk.agent(), %error, "an agent's end failed");
    }
    ended.map(|()| at_work.worked)
}

struct AtWork {
    desk: Desk,
    worker: Arc<dyn Worker>,
    settings: WorkSettings,
    ambient: Ambient,
    worked: AgentWorked,
}

impl AtWork {
    async fn go(&mut self, shutdown: &CancellationToken) -> Result<(), Refusal> {
        let mut pause = PAUSE_FIRST;
        loop {
            let link = self.desk.link().clone();
            let received = tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                received = link.receive(self.settings.batch_max, self.settings.wait) => received,
            };
            let events = match received {
                Ok(events) => events,
                Err(refusal) if may_pass(&refusal) => {
                    tracing::warn!(agent = %self.desk.agent(), %refusal, "the network is away; asking again");
                    if rest(&mut pause, shutdown).await {
                        return Ok(());
                    }
                    continue;
                }
                Err(refusal) => return Err(refusal),
            };
            pause = PAUSE_FIRST;
            for event in events {
                if self.handle_until_done(&event, shutdown).await {
                    return Ok(());
                }
            }
        }
    }

    /// Handles one event, again while its handler wants that; tells whether it is time to end.
    async fn handle_until_done(&mut self, event: &Event, shutdown: &CancellationToken) -> bool {
        let message = Message::of(event, self.desk.agent());
        let now: TimeMs = self.ambient.clock.now();
        let looked = self.desk.caution().look(&message, now);
        if let Err(why) = looked {
            self.worked.ignored += 1;
            self.worker.ignored(&message, why);
            return shutdown.is_cancelled();
        }
        let mut pause = PAUSE_FIRST;
        loop {
            let desk = self.desk.about(&message);
            let handling = tokio::time::timeout(self.settings.time_limit, self.handle(&desk, event, &message));
            let handled = tokio::select! {
                biased;
                // What was not finished comes again when the agent does.
                () = shutdown.cancelled() => return true,
                handled = handling => handled,
            };
            let why = match handled {
                Ok(Ok(())) => {
                    self.worked.handled += 1;
                    return false;
                }
                Ok(Err(WorkerError::TryAgain(why))) => {
                    tracing::warn!(agent = %self.desk.agent(), why, "a message is handled again");
                    if rest(&mut pause, shutdown).await {
                        return true;
                    }
                    continue;
                }
                Ok(Err(WorkerError::Failed(why))) => why,
                Err(_) => format!("it took longer than {} s", self.settings.time_limit.as_secs_f32()),
            };
            self.worked.failed += 1;
            tracing::warn!(agent = %self.desk.agent(), event = %message.name, why, "a message was not handled");
            return false;
        }
    }

    async fn handle(&self, desk: &Desk, event: &Event, message: &Message) -> Result<(), WorkerError> {
        match message.way {
            Way::Direct => self.worker.on_direct(desk, message).await,
            Way::Mention => self.worker.on_mention(desk, message).await,
            Way::Post => self.worker.on_channel_post(desk, message).await,
            Way::Reply => self.worker.on_reply(desk, message).await,
            Way::Reaction => self.worker.on_reaction(desk, message).await,
            Way::File => self.worker.on_file(desk, message).await,
            Way::Other => self.worker.on_event(desk, event, message).await,
        }
    }
}

/// Leaves whoever does not answer alone for a while; tells whether it is time to end.
async fn rest(pause: &mut Duration, shutdown: &CancellationToken) -> bool {
    let this = *pause;
    *pause = (this * 2).min(PAUSE_MAX);
    tokio::select! {
        () = shutdown.cancelled() => true,
        () = tokio::time::sleep(this) => false,
    }
}

/// Whether an agent that got this refusal has been told to go.
#[must_use]
pub fn was_sent_away(refusal: &Refusal) -> bool {
    matches!(refusal.kind, RefusalKind::Unauthenticated | RefusalKind::Missing)
}
