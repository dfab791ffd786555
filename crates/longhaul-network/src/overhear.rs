//! Hearing what is said in channels without being in them: for a transport that hands it on to those who are.

use std::sync::Arc;

use crate::{AgentId, Event, Network};

/// A place in the channels' events, from now on. Nothing is kept for it: who falls far behind misses some.
#[derive(Debug)]
pub struct Ear {
    network: Network,
}

impl Network {
    /// Hears channels from now on.
    #[must_use]
    pub fn overhear(&self) -> Ear {
        Ear { network: self.clone() }
    }

    /// Whether the agent is in the channel.
    #[must_use]
    pub fn is_in_channel(&self, channel: &str, agent: &AgentId) -> bool {
        let _ = (channel, agent);
        todo!()
    }
}

impl Ear {
    /// What was said in these channels since the last call, in the order of the log; waits for something.
    pub async fn next(&mut self, channels: impl Fn() -> Vec<String>) -> Vec<Arc<Event>> {
        let _ = (channels, &self.network);
        todo!()
    }
}
