//! Gossipsub behind a gate: nobody reads a topic who may not, and strangers' messages are not even looked at.
//!
//! Gossipsub itself lets every connected peer subscribe to everything. The gate stands between its connections and it:
//! subscriptions pass only when [`Node::may_read`] says so, and are held until it does; messages and control pass only
//! from peers for whom somebody speaks. The node keeps no cache of messages and forwards none (they are published
//! again from the log), so that a subscription is the one way to receive. Invariant: before each publication the
//! readers are looked at again; whoever may no longer read is disconnected before anything more is published.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    mem,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use libp2p::{
    Multiaddr, PeerId,
    core::{Endpoint, transport::PortUse},
    gossipsub::{self, IdentTopic, MessageAuthenticity, PublishError, TopicHash, ValidationMode},
    identity::Keypair,
    swarm::{
        CloseConnection, ConnectionClosed, ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler,
        THandlerInEvent, THandlerOutEvent, ToSwarm,
    },
};

use crate::{Libp2pError, node::Node};

type Inner = gossipsub::Behaviour;
type FromHandler = THandlerOutEvent<Inner>;

/// Messages with subscriptions that are held for one peer, and subscriptions in each.
const HELD_MAX: usize = 32;
const SUBSCRIPTIONS_MAX: usize = 256;
/// Messages that wait for one peer, and how long.
const QUEUE: usize = 2_048;
const QUEUED: Duration = Duration::from_secs(20);
/// So long others wait for a peer to be gone that may no longer read.
const CLOSING: Duration = Duration::from_secs(2);

/// See the module.
pub(crate) struct Gate {
    inner: Inner,
    node: Arc<Node>,
    /// Subscriptions of those who may not have them, or not yet.
    held: HashMap<PeerId, Vec<(ConnectionId, FromHandler)>>,
    reading: HashMap<TopicHash, HashSet<PeerId>>,
    closing: HashMap<PeerId, Instant>,
    to_close: VecDeque<PeerId>,
}

impl Gate {
    pub(crate) fn new(node: Arc<Node>, key: &Keypair) -> Result<Self, Libp2pError> {
        let most = node.settings.connections_max as usize;
        let config = gossipsub::ConfigBuilder::default()
            .validation_mode(ValidationMode::Strict)
            .max_transmit_size(node.settings.gossip_bytes_max + 16 * 1024)
            // What comes is never forwarded: it is admitted, and published from the log.
            .validate_messages()
            .history_length(0)
            .history_gossip(0)
            .gossip_lazy(0)
            .gossip_factor(0.0)
            .gossip_retransimission(0)
            // Who reads slowly has this much time and this many messages, and then misses some.
            .connection_handler_queue_len(QUEUE)
            .publish_queue_duration(QUEUED)
            // The node is the middle of a star: everybody is in its mesh, and gets what it publishes.
            .flood_publish(true)
            .mesh_outbound_min(0)
            .mesh_n_low(most)
            .mesh_n(most)
            .mesh_n_high(most * 2)
            .build()
            .map_err(|error| Libp2pError::Gossip(error.to_string()))?;
        let inner = Inner::new(MessageAuthenticity::Signed(key.clone()), config)
            .map_err(|error| Libp2pError::Gossip(error.to_owned()))?;
        Ok(Self {
            inner,
            node,
            held: HashMap::new(),
            reading: HashMap::new(),
            closing: HashMap::new(),
            to_close: VecDeque::new(),
        })
    }

    /// Takes part in the topic.
    pub(crate) fn join(&mut self, topic: &str) {
        if let Err(error) = self.inner.subscribe(&IdentTopic::new(topic)) {
            tracing::warn!(%error, "a topic could not be joined");
        }
    }

    /// Whether what is published on the topic from now on goes to this peer.
    pub(crate) fn reads(&self, peer: &PeerId, topic: &str) -> bool {
        self.reading.get(&TopicHash::from_raw(topic)).is_some_and(|readers| readers.contains(peer))
    }

    /// The peer may read more or less than before.
    pub(crate) fn changed(&mut self, peer: PeerId) {
        for (connection, event) in self.held.remove(&peer).unwrap_or_default() {
            self.on_connection_handler_event(peer, connection, event);
        }
        let lost = self
            .reading
            .iter()
            .any(|(topic, readers)| readers.contains(&peer) && !self.node.may_read(&peer, topic.as_str()));
        if lost {
            self.disconnect(peer);
        }
    }

    /// Whether nothing may be published until somebody is gone.
    pub(crate) fn is_closing(&mut self) -> bool {
        self.closing.retain(|_, since| since.elapsed() < CLOSING);
        !self.closing.is_empty()
    }

    /// Publishes to those who may read. False: first somebody must go, try again when [`Self::is_closing`] says no.
    pub(crate) fn publish(&mut self, topic: &str, data: &[u8]) -> bool {
        let hash = TopicHash::from_raw(topic);
        let Some(readers) = self.reading.get(&hash) else { return true };
        let lost: Vec<PeerId> = readers.iter().filter(|peer| !self.node.may_read(peer, topic)).copied().collect();
        if !lost.is_empty() {
            for peer in lost {
                self.disconnect(peer);
            }
            return false;
        }
        match self.inner.publish(hash, data) {
            Ok(_) | Err(PublishError::NoPeersSubscribedToTopic | PublishError::Duplicate) => {}
            Err(error) => {
                tracing::debug!(%error, "an event was not gossiped; its receivers have it from their streams")
            }
        }
        true
    }

    fn disconnect(&mut self, peer: PeerId) {
        if self.closing.insert(peer, Instant::now()).is_none() {
            self.to_close.push_back(peer);
        }
    }

    /// What of this may pass; the rest is held or dropped.
    fn pass(&mut self, peer: PeerId, connection: ConnectionId, event: FromHandler) -> FromHandler {
        let FromHandler::Message { mut rpc, invalid_messages } = event else { return event };
        let may = |topic: &TopicHash| {
            // Who reads already must be able to say that it stops.
            self.reading.get(topic).is_some_and(|readers| readers.contains(&peer))
                || self.node.may_read(&peer, topic.as_str())
        };
        let (messages, control) = (mem::take(&mut rpc.messages), mem::take(&mut rpc.control_msgs));
        let subscriptions = mem::take(&mut rpc.subscriptions);
        let mut held = rpc.clone();
        for subscription in subscriptions.into_iter().take(SUBSCRIPTIONS_MAX) {
            let side = if may(&subscription.topic_hash) { &mut rpc } else { &mut held };
            side.subscriptions.push(subscription);
        }
        if self.node.is_known(&peer) {
            rpc.messages = messages;
            rpc.control_msgs = control;
        }
        if !held.subscriptions.is_empty() {
            let all = self.held.entry(peer).or_default();
            if all.len() < HELD_MAX {
                all.push((connection, FromHandler::Message { rpc: held, invalid_messages: Vec::new() }));
            }
        }
        FromHandler::Message { rpc, invalid_messages }
    }

    fn note(&mut self, event: &gossipsub::Event) {
        match event {
            gossipsub::Event::Subscribed { peer_id, topic } => {
                self.reading.entry(topic.clone()).or_default().insert(*peer_id);
            }
            gossipsub::Event::Unsubscribed { peer_id, topic } => {
                if let Some(readers) = self.reading.get_mut(topic) {
                    readers.remove(peer_id);
                }
            }
            gossipsub::Event::Message { .. }
            | gossipsub::Event::GossipsubNotSupported { .. }
            | gossipsub::Event::SlowPeer { .. } => {}
        }
    }
}

impl NetworkBehaviour for Gate {
    type ConnectionHandler = <Inner as NetworkBehaviour>::ConnectionHandler;
    type ToSwarm = gossipsub::Event;

    fn handle_established_inbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.inner.handle_established_inbound_connection(connection, peer, local, remote)
    }

    fn handle_established_outbound_connection(
        &mut self,
        connection: ConnectionId,
        peer: PeerId,
        address: &Multiaddr,
        role: Endpoint,
        port: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.inner.handle_established_outbound_connection(connection, peer, address, role, port)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        if let FromSwarm::ConnectionClosed(ConnectionClosed { peer_id, remaining_established: 0, .. }) = &event {
            self.held.remove(peer_id);
            self.closing.remove(peer_id);
            self.reading.retain(|_, readers| {
                readers.remove(peer_id);
                !readers.is_empty()
            });
        }
        self.inner.on_swarm_event(event);
    }

    fn on_connection_handler_event(&mut self, peer: PeerId, connection: ConnectionId, event: THandlerOutEvent<Self>) {
        let event = self.pass(peer, connection, event);
        self.inner.on_connection_handler_event(peer, connection, event);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        if let Some(peer_id) = self.to_close.pop_front() {
            return Poll::Ready(ToSwarm::CloseConnection { peer_id, connection: CloseConnection::All });
        }
        let polled = self.inner.poll(cx);
        if let Poll::Ready(ToSwarm::GenerateEvent(event)) = &polled {
            self.note(event);
        }
        polled
    }
}
