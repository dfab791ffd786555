//! The other side: joining a network over libp2p from Rust.
//!
//! It owns one connection with one event stream, and gossip. It keeps no state of the network. Events and what stands
//! on topics come out of one queue ([`Peer::next`]); answers go to whoever waits for them. Invariant: what is not taken
//! from the queue holds up the stream, and nothing is dropped but gossip.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{AsyncReadExt as _, StreamExt as _};
use libp2p::{
    Multiaddr, PeerId, Stream, StreamProtocol, Swarm, SwarmBuilder,
    gossipsub::{self, IdentTopic, MessageAuthenticity},
    identify,
    identity::Keypair,
    multiaddr::Protocol,
    noise, ping,
    swarm::{NetworkBehaviour, SwarmEvent},
    tcp, yamux,
};
use longhaul_network::{Draft, Refusal, RefusalKind, Reply};
use serde_json::Value;
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    codec, streams,
    wire::{self, FromPeer, ToPeer, WireDraft},
};

/// Dialling, and waiting for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is asked whether a subscription has arrived.
const SUBSCRIBED_LOOK: Duration = Duration::from_millis(20);
/// Frames of a node are no larger.
const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;
const QUEUE: usize = 1_024;

/// Why something did not happen.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The node said no.
    #[error("the node refused")]
    Refused(#[source] Refusal),
    /// The address has no `/p2p/` with the node's id at its end.
    #[error("the address {0} does not end with /p2p/ and the node's id: copy it from the network's status")]
    Address(Multiaddr),
    /// No connection, or it has ended.
    #[error("no connection to the node: {0}")]
    Gone(String),
}

/// What came.
#[derive(Debug, Clone)]
pub enum Heard {
    /// An event for this agent, to be acknowledged by its number.
    Event {
        /// Its number in the log.
        seq: i64,
        /// With the fields of `docs/libp2p.md`.
        event: Value,
    },
    /// Something on a topic; check with [`Self::Gossip::author`] that the node put it there.
    Gossip {
        /// Who signed it.
        author: Option<PeerId>,
        /// Where.
        topic: String,
        /// The frame.
        frame: Value,
    },
}

/// A peer of a network, with one event stream. Dropping it closes the connection.
#[derive(Debug)]
pub struct Peer {
    peer_id: PeerId,
    asks: mpsc::Sender<Ask>,
    out: mpsc::Sender<FromPeer>,
    waiting: Waiting,
    heard: AsyncMutex<mpsc::Receiver<Heard>>,
    requests: AtomicU64,
    _stop: DropGuard,
}

type Waiting = Arc<Mutex<HashMap<String, oneshot::Sender<ToPeer>>>>;

enum Ask {
    Subscribe(String),
    Publish(String, Vec<u8>, oneshot::Sender<Result<(), String>>),
}

#[derive(NetworkBehaviour)]
struct Behaviour {
    identify: identify::Behaviour,
    ping: ping::Behaviour,
    streams: libp2p_stream::Behaviour,
    gossip: gossipsub::Behaviour,
}

impl Peer {
    /// Connects to a node and opens an event stream. Without a key a new one is made, which is enough where the network
    /// is not strict.
    ///
    /// # Errors
    /// [`PeerError::Address`], [`PeerError::Gone`].
    pub async fn connect(node: &Multiaddr, key: Option<Keypair>) -> Result<Self, PeerError> {
        let key = key.unwrap_or_else(Keypair::generate_ed25519);
        let peer_id = key.public().to_peer_id();
        let node_id = node.iter().find_map(|part| match part {
            Protocol::P2p(id) => Some(id),
            _ => None,
        });
        let node_id = node_id.ok_or_else(|| PeerError::Address(node.clone()))?;
        let mut swarm = swarm(&key)?;
        let mut control = swarm.behaviour().streams.new_control();
        swarm.dial(node.clone()).map_err(gone)?;
        let (asks, to_do) = mpsc::channel(QUEUE);
        let (tell, heard) = mpsc::channel(QUEUE);
        let stop = CancellationToken::new();
        let (up, connected) = oneshot::channel();
        tokio::spawn(run(swarm, node_id, up, to_do, tell.clone(), stop.clone()));
        // Ends what was begun when this function is left early.
        let guard = stop.clone().drop_guard();
        let dialled = tokio::time::timeout(PATIENCE, connected).await.map_err(gone)?;
        dialled.map_err(gone)?.map_err(PeerError::Gone)?;
        let opened = control.open_stream(node_id, StreamProtocol::new(streams::PROTOCOL));
        let stream = tokio::time::timeout(PATIENCE, opened).await.map_err(gone)?.map_err(gone)?;
        let waiting = Waiting::default();
        let (out, frames) = mpsc::channel(64);
        tokio::spawn(speak(stream, frames, waiting.clone(), tell, stop));
        Ok(Self {
            peer_id,
            asks,
            out,
            waiting,
            heard: AsyncMutex::new(heard),
            requests: AtomicU64::new(0),
            _stop: guard,
        })
    }

    /// Its id.
    #[must_use]
    pub fn peer_id(&self) -> PeerId {
        self.peer_id
    }

    /// Comes in under this name and gives its secret. `group` is a group with its credential; `secret` that of an
    /// earlier time.
    ///
    /// # Errors
    /// [`PeerError::Refused`], [`PeerError::Gone`].
    pub async fn register(
        &self,
        agent: &str,
        group: Option<(&str, &str)>,
        secret: Option<&str>,
    ) -> Result<String, PeerError> {
        let answer = self.ask(|request_id| FromPeer::Register {
            request_id,
            agent_id: agent.to_owned(),
            agent_group: group.map(|(name, _)| name.to_owned()),
            password_hash: group.map(|(_, credential)| credential.to_owned()).unwrap_or_default(),
            secret: secret.map(str::to_owned),
            metadata: serde_json::Map::new(),
            capabilities: Vec::new(),
        });
        match answer.await? {
            ToPeer::Registered { secret, .. } => Ok(secret),
            other => Err(unexpected(&other)),
        }
    }

    /// Says who it is, with the secret of an earlier registration.
    ///
    /// # Errors
    /// [`PeerError::Refused`], [`PeerError::Gone`].
    pub async fn hello(&self, agent: &str, secret: &str) -> Result<(), PeerError> {
        let (agent_id, secret) = (agent.to_owned(), secret.to_owned());
        match self.ask(|request_id| FromPeer::Hello { request_id, agent_id, secret }).await? {
            ToPeer::Welcome { .. } => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends an event; answered once it is on the node's disk.
    ///
    /// # Errors
    /// [`PeerError::Refused`], [`PeerError::Gone`].
    pub async fn send(&self, draft: Draft) -> Result<Reply, PeerError> {
        let event = WireDraft::from_draft(draft);
        match self.ask(|request_id| FromPeer::Send { request_id, event }).await? {
            ToPeer::Reply { success, message, data, repeated, .. } => Ok(Reply { success, message, data, repeated }),
            other => Err(unexpected(&other)),
        }
    }

    /// Begins to receive events, from what was acknowledged on, or from behind `after`.
    ///
    /// # Errors
    /// [`PeerError::Refused`], [`PeerError::Gone`].
    pub async fn receive(&self, after: Option<i64>) -> Result<(), PeerError> {
        match self.ask(|request_id| FromPeer::Receive { request_id, after }).await? {
            ToPeer::Receiving { .. } => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Everything up to here is safe.
    ///
    /// # Errors
    /// [`PeerError::Gone`].
    pub async fn acknowledge(&self, seq: i64) -> Result<(), PeerError> {
        self.out.send(FromPeer::Ack { seq }).await.map_err(gone)
    }

    /// What came next; nothing once the connection has ended.
    pub async fn next(&self) -> Option<Heard> {
        self.heard.lock().await.recv().await
    }

    /// Takes part in a channel's gossip, and gives its topic. What is said from then on is heard.
    ///
    /// # Errors
    /// [`PeerError::Refused`] for who is not in the channel; [`PeerError::Gone`].
    pub async fn gossip(&self, channel: &str) -> Result<String, PeerError> {
        let (topic, _) = self.topic(channel).await?;
        self.subscribe(&topic).await?;
        // The subscription goes another way than the question: what is said before it arrives is not heard.
        let arrived = async {
            let mut looks = tokio::time::interval(SUBSCRIBED_LOOK);
            loop {
                looks.tick().await;
                if self.topic(channel).await?.1 {
                    return Ok::<_, PeerError>(());
                }
            }
        };
        tokio::time::timeout(PATIENCE, arrived).await.map_err(gone)??;
        Ok(topic)
    }

    /// The channel's topic, and whether the node has this peer's subscription to it.
    async fn topic(&self, channel: &str) -> Result<(String, bool), PeerError> {
        let channel = channel.to_owned();
        match self.ask(|request_id| FromPeer::Topic { request_id, channel }).await? {
            ToPeer::Topic { topic, reading, .. } => Ok((topic, reading)),
            other => Err(unexpected(&other)),
        }
    }

    /// Subscribes to a topic, whether it may read it or not.
    ///
    /// # Errors
    /// [`PeerError::Gone`].
    pub async fn subscribe(&self, topic: &str) -> Result<(), PeerError> {
        self.asks.send(Ask::Subscribe(topic.to_owned())).await.map_err(gone)
    }

    /// Posts by gossip: signed with this peer's key, without an answer. The draft's destination may be
    /// [`longhaul_network::Address::System`], for the topic's channel.
    ///
    /// # Errors
    /// [`PeerError::Gone`], also when the node does not take part in the topic yet.
    pub async fn publish(&self, topic: &str, draft: Draft) -> Result<(), PeerError> {
        let mut event = WireDraft::from_draft(draft);
        event.destination_id = event.destination_id.filter(|to| to != "system:system");
        let frame = serde_json::to_vec(&event).map_err(gone)?;
        let (done, published) = oneshot::channel();
        self.asks.send(Ask::Publish(topic.to_owned(), frame, done)).await.map_err(gone)?;
        published.await.map_err(gone)?.map_err(PeerError::Gone)
    }

    async fn ask(&self, frame: impl FnOnce(Option<String>) -> FromPeer) -> Result<ToPeer, PeerError> {
        let id = self.requests.fetch_add(1, Ordering::Relaxed).to_string();
        let (answer, answered) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), answer);
        self.out.send(frame(Some(id))).await.map_err(gone)?;
        let answer = tokio::time::timeout(PATIENCE, answered).await.map_err(gone)?.map_err(gone)?;
        match answer {
            ToPeer::Error { code, message, retry_after_ms, .. } => {
                let mut refusal = Refusal::new(wire::kind(&code), message);
                refusal.retry_after_ms = retry_after_ms;
                Err(PeerError::Refused(refusal))
            }
            answer => Ok(answer),
        }
    }
}

fn gone(error: impl std::fmt::Display) -> PeerError {
    PeerError::Gone(error.to_string())
}

fn unexpected(answer: &ToPeer) -> PeerError {
    PeerError::Refused(Refusal::new(RefusalKind::Unavailable, format!("an answer of another kind: {answer:?}")))
}

fn swarm(key: &Keypair) -> Result<Swarm<Behaviour>, PeerError> {
    let config = gossipsub::ConfigBuilder::default().max_transmit_size(4 * 1024 * 1024).build().map_err(gone)?;
    let behaviour = Behaviour {
        identify: identify::Behaviour::new(identify::Config::new("/longhaul/1.0.0".to_owned(), key.public())),
        ping: ping::Behaviour::new(ping::Config::new()),
        streams: libp2p_stream::Behaviour::new(),
        gossip: gossipsub::Behaviour::new(MessageAuthenticity::Signed(key.clone()), config).map_err(gone)?,
    };
    let built = SwarmBuilder::with_existing_identity(key.clone())
        .with_tokio()
        .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux::Config::default)
        .map_err(gone)?
        .with_quic()
        .with_behaviour(|_| behaviour)
        .map_err(gone)?
        .build();
    Ok(built)
}

async fn run(
    mut swarm: Swarm<Behaviour>,
    node: PeerId,
    up: oneshot::Sender<Result<(), String>>,
    mut asks: mpsc::Receiver<Ask>,
    tell: mpsc::Sender<Heard>,
    stop: CancellationToken,
) {
    let mut up = Some(up);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            ask = asks.recv() => match ask {
                None => return,
                Some(Ask::Subscribe(topic)) => {
                    let _ = swarm.behaviour_mut().gossip.subscribe(&IdentTopic::new(topic));
                }
                Some(Ask::Publish(topic, frame, done)) => {
                    let published = swarm.behaviour_mut().gossip.publish(IdentTopic::new(topic), frame);
                    let _ = done.send(published.map(drop).map_err(|error| error.to_string()));
                }
            },
            event = swarm.select_next_some() => match event {
                SwarmEvent::ConnectionEstablished { peer_id, .. } if peer_id == node => {
                    if let Some(up) = up.take() {
                        let _ = up.send(Ok(()));
                    }
                }
                SwarmEvent::OutgoingConnectionError { error, .. } => {
                    if let Some(up) = up.take() {
                        let _ = up.send(Err(error.to_string()));
                    }
                }
                SwarmEvent::ConnectionClosed { peer_id, num_established: 0, .. } if peer_id == node => {
                    stop.cancel();
                    return;
                }
                SwarmEvent::Behaviour(BehaviourEvent::Gossip(gossipsub::Event::Message { message, .. })) => {
                    let Ok(frame) = serde_json::from_slice(&message.data) else { continue };
                    let topic = message.topic.into_string();
                    let _ = tell.try_send(Heard::Gossip { author: message.source, topic, frame });
                }
                _ => {}
            },
        }
    }
}

async fn speak(
    stream: Stream,
    mut frames: mpsc::Receiver<FromPeer>,
    waiting: Waiting,
    tell: mpsc::Sender<Heard>,
    stop: CancellationToken,
) {
    let (reader, mut writer) = stream.split();
    let mut reader = futures::io::BufReader::new(reader);
    let writing = async {
        while let Some(frame) = frames.recv().await {
            let Ok(frame) = serde_json::to_vec(&frame) else { continue };
            if codec::write(&mut writer, &frame).await.is_err() || codec::flush(&mut writer).await.is_err() {
                return;
            }
        }
    };
    let reading = async {
        while let Ok(Some(frame)) = codec::read(&mut reader, FRAME_BYTES_MAX, None).await {
            let Ok(said) = serde_json::from_slice::<ToPeer>(&frame) else { return };
            let request_id = match said {
                ToPeer::Event { seq, event } => {
                    if tell.send(Heard::Event { seq, event }).await.is_err() {
                        return;
                    }
                    continue;
                }
                ToPeer::Registered { ref request_id, .. }
                | ToPeer::Welcome { ref request_id, .. }
                | ToPeer::Reply { ref request_id, .. }
                | ToPeer::Receiving { ref request_id }
                | ToPeer::Topic { ref request_id, .. }
                | ToPeer::Pong { ref request_id }
                | ToPeer::Unregistered { ref request_id }
                | ToPeer::Error { ref request_id, .. } => request_id.clone(),
            };
            let waits = request_id.and_then(|id| waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&id));
            if let Some(waits) = waits {
                let _ = waits.send(said);
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = writing => {}
        () = reading => {}
    }
    // A peer without its stream is of no use: the connection ends too, and whoever listens hears it.
    stop.cancel();
    // Whoever waits for an answer hears that none comes.
    waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
}
