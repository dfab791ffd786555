//! Hearing what is said in channels without being in them: for a transport that hands it on to those who are.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{AgentId, Event, Network, pump::Found};

/// A place in the channels' events, from now on. Nothing is kept for it: who falls far behind misses some.
#[derive(Debug)]
pub struct Ear {
    network: Network,
    head: watch::Receiver<i64>,
    position: i64,
}

impl Network {
    /// Hears channels from now on.
    #[must_use]
    pub fn overhear(&self) -> Ear {
        Ear { network: self.clone(), head: self.0.pump.watch(), position: self.0.pump.head() }
    }

    /// Whether the agent is in the channel.
    #[must_use]
    pub fn is_in_channel(&self, channel: &str, agent: &AgentId) -> bool {
        self.0.registry.read().channels.get(channel).is_some_and(|channel| channel.members.contains(agent))
    }
}

impl Ear {
    /// What was said in these channels since the last call, in the order of the log; waits for something. Nothing when
    /// the network is being closed.
    pub async fn next(&mut self, channels: impl Fn() -> Vec<String>) -> Vec<Arc<Event>> {
        loop {
            self.head.borrow_and_update();
            let routes: Vec<_> = channels().iter().map(|channel| (format!("c:{channel}").into(), 0)).collect();
            let position = self.position.max(self.network.0.pump.floor());
            match self.network.0.pump.read(&routes, position) {
                Found::All { entries, until } => {
                    self.position = until;
                    if !entries.is_empty() {
                        return entries.into_iter().map(|entry| entry.event).collect();
                    }
                }
                // What it would have to read is missed.
                Found::Rows { until } => self.position = until,
            }
            tokio::select! {
                changed = self.head.changed() => if changed.is_err() { return Vec::new() },
                () = self.network.0.closing.cancelled() => return Vec::new(),
            }
        }
    }
}
