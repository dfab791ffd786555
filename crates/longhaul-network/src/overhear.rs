//! Hearing what is said in channels without being in them: for a transport that hands it on to those who are.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{AgentId, Event, Network, pump::Found};

/// A place in the channels' events. Nothing is kept for it: who falls behind what is in RAM misses what was before.
#[derive(Debug)]
pub struct Ear {
    network: Network,
    position: i64,
    head: watch::Receiver<i64>,
}

impl Network {
    /// Hears channels from now on.
    #[must_use]
    pub fn overhear(&self) -> Ear {
        let head = self.0.pump.watch();
        Ear { network: self.clone(), position: self.0.pump.head(), head }
    }

    /// Whether the agent is in the channel.
    #[must_use]
    pub fn is_in_channel(&self, channel: &str, agent: &AgentId) -> bool {
        self.0.registry.read().channels.get(channel).is_some_and(|channel| channel.members.contains(agent))
    }
}

impl Ear {
    /// What was said in these channels since the last call, in the order of the log; waits for something. Nothing once
    /// the network is closed.
    pub async fn next(&mut self, channels: impl Fn() -> Vec<String>) -> Option<Vec<Arc<Event>>> {
        loop {
            let head = *self.head.borrow_and_update();
            if head > self.position {
                let routes: Vec<_> = channels().iter().map(|channel| (format!("c:{channel}").into(), 0)).collect();
                let (entries, until) = match self.network.0.pump.read(&routes, self.position) {
                    Found::All { entries, until } => (entries, until),
                    Found::Rows { until } => {
                        tracing::warn!(from = self.position, until, "what was said in channels was not handed on");
                        (Vec::new(), until)
                    }
                };
                self.position = until;
                if !entries.is_empty() {
                    return Some(entries.into_iter().map(|entry| entry.event).collect());
                }
            }
            tokio::select! {
                changed = self.head.changed() => changed.ok()?,
                () = self.network.0.closing.cancelled() => return None,
            }
        }
    }
}
