//! What the parts of a node share: who speaks from which peer, which topic is which channel, and what strangers may try.
//!
//! It owns decisions and no I/O. Invariants: a peer speaks only for agents whose secret it has shown over a connection
//! that is still open; it reads only the topics of channels in which one of them is; in a strict network an agent
//! speaks only from the peer it registered from.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use libp2p::{PeerId, identity::Keypair};
use longhaul_network::{AgentId, Member, Network, Refusal, RefusalKind, settings::NetworkSettings};
use ring::hmac;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::{Libp2pError, Libp2pSettings};

/// Under this key of an agent's metadata stands the peer it registered from.
pub(crate) const PEER: &str = "libp2p_peer";
/// Agents that may speak from one peer.
const AGENTS_PER_PEER_MAX: usize = 16;
/// Addresses whose failures are remembered.
const ADDRESSES_MAX: usize = 4_096;

/// What the swarm is asked to do by others.
#[derive(Debug)]
pub(crate) enum Command {
    /// Take part in this topic; told when it does, and whether the peer's own subscription has arrived.
    Join(String, PeerId, oneshot::Sender<bool>),
    /// The peer may read more, or less, than before.
    Changed(PeerId),
    /// Put this on the topic.
    Publish(String, Vec<u8>),
}

/// Shared by all parts of one node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) network: Network,
    pub(crate) network_settings: std::sync::Arc<NetworkSettings>,
    pub(crate) network_id: String,
    pub(crate) network_name: String,
    pub(crate) settings: Libp2pSettings,
    pub(crate) stop: CancellationToken,
    swarm: mpsc::Sender<Command>,
    topics: hmac::Key,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Who speaks from which peer, and where the peer is.
    peers: HashMap<PeerId, Peer>,
    /// The channel of each topic that somebody has asked for.
    channels: HashMap<String, String>,
    failures: HashMap<IpAddr, Bucket>,
}

#[derive(Debug, Default)]
struct Peer {
    members: Vec<Member>,
    streams: usize,
    address: Option<IpAddr>,
    /// Its last connection has ended; what is left of its streams ends too.
    gone: bool,
}

#[derive(Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Node {
    pub(crate) fn new(
        network: Network,
        settings: Libp2pSettings,
        key: &Keypair,
        swarm: mpsc::Sender<Command>,
    ) -> Result<Self, Libp2pError> {
        // Topics are made with a key of their own, so that whoever sees one cannot try channel names against it.
        let secret = key.derive_secret(b"longhaul topics").ok_or(Libp2pError::KeyKind)?;
        let view = network.view();
        Ok(Self {
            network,
            network_settings: view.settings,
            network_id: view.id,
            network_name: view.name,
            settings,
            stop: CancellationToken::new(),
            swarm,
            topics: hmac::Key::new(hmac::HMAC_SHA256, &secret),
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock; a poisoned one is as good as any.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the swarm; false when it has ended.
    pub(crate) async fn ask(&self, command: Command) -> bool {
        self.swarm.send(command).await.is_ok()
    }

    /// Largest frame of somebody who has come in, bytes: the payload and what stands around it.
    pub(crate) fn frame_bytes_max(&self) -> usize {
        self.network_settings.message_bytes_max.saturating_add(64 * 1024)
    }

    /// A connection of this peer stands.
    pub(crate) fn connected(&self, peer: PeerId, address: Option<IpAddr>) {
        let mut state = self.state();
        let entry = state.peers.entry(peer).or_default();
        (entry.address, entry.gone) = (address, false);
    }

    /// The last connection of this peer has ended: nobody speaks from it any more.
    pub(crate) fn disconnected(&self, peer: &PeerId) {
        let mut state = self.state();
        // Its streams end in their own time and count down; an entry without streams is not needed.
        if let Some(entry) = state.peers.get_mut(peer) {
            entry.members.clear();
            entry.gone = true;
            if entry.streams == 0 {
                state.peers.remove(peer);
            }
        }
    }

    /// One more stream of this peer, if it may have one; [`Self::stream_ended`] is called for each.
    pub(crate) fn stream_began(&self, peer: PeerId) -> bool {
        let mut state = self.state();
        let entry = state.peers.entry(peer).or_default();
        let may = entry.streams < self.settings.streams_per_peer_max;
        entry.streams += usize::from(may);
        may
    }

    /// One stream less.
    pub(crate) fn stream_ended(&self, peer: &PeerId) {
        let mut state = self.state();
        if let Some(entry) = state.peers.get_mut(peer) {
            entry.streams = entry.streams.saturating_sub(1);
            if entry.gone && entry.streams == 0 {
                state.peers.remove(peer);
            }
        }
    }

    /// Whether somebody at this peer's address may try to come in; a failure is told by [`Self::failed`].
    pub(crate) fn may_try(&self, peer: &PeerId) -> Result<(), Refusal> {
        let burst = f64::from(self.settings.failures_burst);
        let mut state = self.state();
        let Some(address) = state.peers.get(peer).and_then(|peer| peer.address) else { return Ok(()) };
        let Some(bucket) = state.failures.get_mut(&address) else { return Ok(()) };
        bucket.left = (bucket.left + bucket.at.elapsed().as_secs_f64()).min(burst);
        bucket.at = Instant::now();
        if bucket.left >= 1.0 {
            return Ok(());
        }
        let mut refusal = Refusal::new(
            RefusalKind::TooMany,
            "too many failed attempts to come in from this address: wait a second and show the right secret",
        );
        refusal.retry_after_ms = Some(1_000);
        Err(refusal)
    }

    /// Somebody at this peer's address showed something wrong.
    pub(crate) fn failed(&self, peer: &PeerId) {
        let burst = f64::from(self.settings.failures_burst);
        let mut state = self.state();
        let Some(address) = state.peers.get(peer).and_then(|peer| peer.address) else { return };
        if state.failures.len() >= ADDRESSES_MAX {
            state.failures.retain(|_, bucket| bucket.left + bucket.at.elapsed().as_secs_f64() < burst);
        }
        let full = state.failures.len() >= ADDRESSES_MAX;
        if full && !state.failures.contains_key(&address) {
            return;
        }
        let bucket = state.failures.entry(address).or_insert(Bucket { left: burst, at: Instant::now() });
        bucket.left = (bucket.left - 1.0).max(0.0);
    }

    /// In a strict network: whether the agent may be spoken for from here. `joining` is a registration, which may be
    /// the first one over libp2p.
    pub(crate) fn may_speak(&self, agent: &AgentId, peer: &PeerId, joining: bool) -> Result<(), Refusal> {
        if !self.network_settings.strict {
            return Ok(());
        }
        let view = self.network.agent(agent);
        let home = view.as_ref().and_then(|view| view.metadata.get(PEER)).and_then(Value::as_str);
        match home {
            Some(home) if home == peer.to_base58() => Ok(()),
            None if joining => Ok(()),
            Some(_) => Err(Refusal::forbidden(format!("{agent} speaks from another peer, and this network is strict"))),
            None => Err(Refusal::forbidden(format!(
                "{agent} has not registered over libp2p, and this network is strict: register with its secret first"
            ))),
        }
    }

    /// What an agent says about itself, with the peer it speaks from.
    pub(crate) fn with_peer(mut metadata: Map<String, Value>, peer: &PeerId) -> Map<String, Value> {
        metadata.insert(PEER.to_owned(), Value::String(peer.to_base58()));
        metadata
    }

    /// The peer speaks for the member. A new registration ends what spoke for the agent before.
    pub(crate) fn bind(&self, peer: PeerId, member: Member, registered: bool) -> Result<(), Refusal> {
        let mut state = self.state();
        if registered {
            for entry in state.peers.values_mut() {
                entry.members.retain(|other| other.agent() != member.agent());
            }
        }
        let entry = state.peers.entry(peer).or_default();
        if entry.gone {
            return Err(Refusal::new(RefusalKind::Unavailable, "the connection has ended: connect again"));
        }
        let members = &mut entry.members;
        members.retain(|other| other.agent() != member.agent());
        if members.len() >= AGENTS_PER_PEER_MAX {
            return Err(Refusal::new(
                RefusalKind::TooMany,
                format!("{AGENTS_PER_PEER_MAX} agents speak from this peer already: take another key for more"),
            ));
        }
        members.push(member);
        Ok(())
    }

    /// Nobody speaks for the agent from this peer any more.
    pub(crate) fn unbind(&self, peer: &PeerId, agent: &AgentId) {
        if let Some(entry) = self.state().peers.get_mut(peer) {
            entry.members.retain(|member| member.agent() != agent);
        }
    }

    /// Members that speak from this peer.
    pub(crate) fn members(&self, peer: &PeerId) -> Vec<Member> {
        self.state().peers.get(peer).map(|entry| entry.members.clone()).unwrap_or_default()
    }

    /// Peers that lost a member since the last look, as its secret is no longer the right one; the others have been
    /// noted as present.
    pub(crate) fn sweep(&self) -> Vec<PeerId> {
        let mut lost = Vec::new();
        let mut state = self.state();
        for (peer, entry) in &mut state.peers {
            let before = entry.members.len();
            entry.members.retain(|member| self.network.touch(member).is_ok());
            if entry.members.len() < before {
                lost.push(*peer);
            }
        }
        lost
    }

    /// The topic of a channel.
    pub(crate) fn topic(&self, channel: &str) -> String {
        let tag = hmac::sign(&self.topics, channel.as_bytes());
        format!("longhaul/{}/{}", self.network_id, hex::encode(&tag.as_ref()[..16]))
    }

    /// Notes that somebody asked for the channel's topic.
    pub(crate) fn remember_topic(&self, topic: &str, channel: &str) {
        self.state().channels.insert(topic.to_owned(), channel.to_owned());
    }

    /// The channel of a topic that somebody has asked for.
    pub(crate) fn channel(&self, topic: &str) -> Option<String> {
        self.state().channels.get(topic).cloned()
    }

    /// Channels whose topics somebody has asked for.
    pub(crate) fn channels(&self) -> Vec<String> {
        self.state().channels.values().cloned().collect()
    }

    /// Whether somebody speaks from this peer.
    pub(crate) fn is_known(&self, peer: &PeerId) -> bool {
        self.state().peers.get(peer).is_some_and(|entry| !entry.members.is_empty())
    }

    /// Whether the peer may have what stands on this topic.
    pub(crate) fn may_read(&self, peer: &PeerId, topic: &str) -> bool {
        let state = self.state();
        let (Some(channel), Some(entry)) = (state.channels.get(topic), state.peers.get(peer)) else { return false };
        entry.members.iter().any(|member| self.network.is_in_channel(channel, member.agent()))
    }
}
