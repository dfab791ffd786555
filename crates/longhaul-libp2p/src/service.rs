//! The node: its swarm, its streams, its gossip, and the handle by which it is stopped.
//!
//! It owns the tasks and their order of ending. Invariant: everything a node started ends with [`Libp2p::stop`], and
//! also when the handle is dropped.

use std::{collections::VecDeque, net::IpAddr, sync::Arc, time::Duration};

use futures::StreamExt as _;
use libp2p::{
    Multiaddr, PeerId, Stream, Swarm, SwarmBuilder,
    connection_limits::{self, ConnectionLimits},
    core::ConnectedPoint,
    gossipsub, identify,
    identity::Keypair,
    multiaddr::Protocol,
    noise, ping,
    swarm::{NetworkBehaviour, SwarmEvent},
    tcp, yamux,
};
use longhaul_network::Network;
use tokio::{
    sync::mpsc,
    task::{JoinHandle, JoinSet},
    time::MissedTickBehavior,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Libp2pError, Libp2pSettings,
    gate::Gate,
    gossip::{self, Posts},
    key,
    node::{Command, Node},
    session,
    streams::Streams,
};

/// What identify says of the node's protocols.
const IDENTITY: &str = "/longhaul/1.0.0";
/// A connection on which nothing happens ends.
const IDLE: Duration = Duration::from_secs(30);
/// Binding addresses takes no longer.
const LISTENING: Duration = Duration::from_secs(10);
/// Handshakes end, one way or the other, within this.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How often is looked whether those who are connected are still who they were.
const SWEEP: Duration = Duration::from_secs(1);
/// Streams that wait to be taken, and commands to the swarm.
const ARRIVED_MAX: usize = 1_024;
const COMMANDS_MAX: usize = 256;

/// A running node. Dropping it stops it, without waiting.
#[derive(Debug)]
pub struct Libp2p {
    peer_id: PeerId,
    addresses: Vec<Multiaddr>,
    running: JoinHandle<()>,
    stop: CancellationToken,
    _guard: DropGuard,
}

#[derive(NetworkBehaviour)]
struct Behaviour {
    limits: connection_limits::Behaviour,
    identify: identify::Behaviour,
    ping: ping::Behaviour,
    streams: Streams,
    gate: Gate,
}

impl Libp2p {
    /// Opens the network to libp2p. Answers once it listens.
    ///
    /// # Errors
    /// [`Libp2pError::Key`] and [`Libp2pError::KeyReadable`] for the node's key; [`Libp2pError::Listen`] for an address
    /// that cannot be had.
    pub async fn start(network: Network, settings: Libp2pSettings) -> Result<Self, Libp2pError> {
        let folder = settings.folder.clone();
        let key = tokio::task::spawn_blocking(move || key::load(&folder)).await.map_err(|_| Libp2pError::Ended)??;
        let (commands, to_do) = mpsc::channel(COMMANDS_MAX);
        let (arrived, streams) = mpsc::channel(ARRIVED_MAX);
        let node = Arc::new(Node::new(network, settings, &key, commands)?);
        let mut swarm = swarm(&node, &key, arrived)?;
        let peer_id = *swarm.local_peer_id();
        let listening = tokio::time::timeout(LISTENING, listen(&mut swarm, &node.settings.listen));
        let mut addresses = listening.await.map_err(|_| Libp2pError::Ended)??;
        for address in &mut addresses {
            address.push(Protocol::P2p(peer_id));
        }
        let stop = node.stop.clone();
        let running = tokio::spawn(run(node, swarm, to_do, streams));
        Ok(Self { peer_id, addresses, running, _guard: stop.clone().drop_guard(), stop })
    }

    /// Where it listens, each with `/p2p/` and its id at the end: what an agent needs to come.
    #[must_use]
    pub fn addresses(&self) -> &[Multiaddr] {
        &self.addresses
    }

    /// Its id, which is its key: the same after every start.
    #[must_use]
    pub fn peer_id(&self) -> PeerId {
        self.peer_id
    }

    /// Ends it: connections are closed, streams end.
    pub async fn stop(self) {
        self.stop.cancel();
        // A panic in it was reported where it happened.
        let _ = self.running.await;
    }
}

fn swarm(
    node: &Arc<Node>,
    key: &Keypair,
    arrived: mpsc::Sender<(PeerId, Stream)>,
) -> Result<Swarm<Behaviour>, Libp2pError> {
    let settings = &node.settings;
    let limits = ConnectionLimits::default()
        .with_max_pending_incoming(Some(settings.connections_max.min(256)))
        .with_max_pending_outgoing(Some(0))
        .with_max_established_incoming(Some(settings.connections_max))
        .with_max_established_per_peer(Some(settings.connections_per_peer_max));
    let about = identify::Config::new(IDENTITY.to_owned(), key.public())
        .with_agent_version(concat!("longhaul/", env!("CARGO_PKG_VERSION")).to_owned())
        .with_cache_size(0);
    let behaviour = Behaviour {
        limits: connection_limits::Behaviour::new(limits),
        identify: identify::Behaviour::new(about),
        ping: ping::Behaviour::new(ping::Config::new()),
        streams: Streams::new(arrived),
        gate: Gate::new(node.clone(), key)?,
    };
    let built = SwarmBuilder::with_existing_identity(key.clone())
        .with_tokio()
        .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux::Config::default)
        .map_err(|error| Libp2pError::Noise(error.to_string()))?
        .with_quic()
        .with_behaviour(|_| behaviour)
        .map_err(|_| Libp2pError::Ended)?
        .with_swarm_config(|config| config.with_idle_connection_timeout(IDLE))
        .with_connection_timeout(HANDSHAKE)
        .build();
    Ok(built)
}

/// Listens on all of these, and says where that came to.
async fn listen(swarm: &mut Swarm<Behaviour>, wanted: &[Multiaddr]) -> Result<Vec<Multiaddr>, Libp2pError> {
    let failed = |address: &Multiaddr, reason: String| Libp2pError::Listen { address: address.clone(), reason };
    let mut waiting = Vec::new();
    for address in wanted {
        let id = swarm.listen_on(address.clone()).map_err(|error| failed(address, error.to_string()))?;
        waiting.push((id, address));
    }
    let mut addresses = Vec::new();
    while !waiting.is_empty() {
        match swarm.select_next_some().await {
            SwarmEvent::NewListenAddr { listener_id, address } => {
                waiting.retain(|(id, _)| *id != listener_id);
                addresses.push(address);
            }
            SwarmEvent::ListenerClosed { listener_id, reason, .. } => {
                if let Some((_, address)) = waiting.iter().find(|(id, _)| *id == listener_id) {
                    let reason = reason.err().map_or_else(|| "it was closed".to_owned(), |error| error.to_string());
                    return Err(failed(address, reason));
                }
            }
            SwarmEvent::ListenerError { listener_id, error } => {
                if let Some((_, address)) = waiting.iter().find(|(id, _)| *id == listener_id) {
                    return Err(failed(address, error.to_string()));
                }
            }
            _ => {}
        }
    }
    Ok(addresses)
}

async fn run(
    node: Arc<Node>,
    mut swarm: Swarm<Behaviour>,
    mut commands: mpsc::Receiver<Command>,
    streams: mpsc::Receiver<(PeerId, Stream)>,
) {
    let accepting = tokio::spawn(accept(node.clone(), streams));
    let publishing = tokio::spawn(gossip::publish(node.clone()));
    let mut posts = Posts::default();
    let mut publications: VecDeque<(String, Vec<u8>)> = VecDeque::new();
    let mut sweep = tokio::time::interval(SWEEP);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        while !swarm.behaviour_mut().gate.is_closing()
            && let Some((topic, data)) = publications.front()
            && swarm.behaviour_mut().gate.publish(topic, data)
        {
            publications.pop_front();
        }
        tokio::select! {
            () = node.stop.cancelled() => break,
            event = swarm.select_next_some() => on_event(&node, &mut swarm, &mut posts, event),
            // While somebody is on the way out, nothing more is published; the log waits.
            Some(command) = commands.recv(), if publications.len() < COMMANDS_MAX => match command {
                Command::Join(topic, peer, done) => {
                    let gate = &mut swarm.behaviour_mut().gate;
                    gate.join(&topic);
                    // Whoever asked may have gone.
                    let _ = done.send(gate.reads(&peer, &topic));
                }
                Command::Changed(peer) => swarm.behaviour_mut().gate.changed(peer),
                Command::Publish(topic, data) => publications.push_back((topic, data)),
            },
            _ = sweep.tick() => {
                for peer in node.sweep() {
                    swarm.behaviour_mut().gate.changed(peer);
                }
            }
        }
    }
    commands.close();
    let connected: Vec<PeerId> = swarm.connected_peers().copied().collect();
    for peer in connected {
        // It may have gone in this moment.
        let _ = swarm.disconnect_peer_id(peer);
    }
    // Peers hear of it at once, unless one does not listen.
    let told = async {
        while swarm.network_info().num_peers() > 0 {
            swarm.select_next_some().await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(2), told).await;
    for task in [accepting, publishing] {
        let _ = task.await;
    }
}

/// Takes streams and speaks on each, until the node ends.
async fn accept(node: Arc<Node>, mut streams: mpsc::Receiver<(PeerId, Stream)>) {
    let mut sessions = JoinSet::new();
    loop {
        tokio::select! {
            () = node.stop.cancelled() => break,
            Some((peer, stream)) = streams.recv() => drop(sessions.spawn(session::run(node.clone(), peer, stream))),
            Some(_) = sessions.join_next() => {}
        }
    }
    while sessions.join_next().await.is_some() {}
}

fn on_event(node: &Arc<Node>, swarm: &mut Swarm<Behaviour>, posts: &mut Posts, event: SwarmEvent<BehaviourEvent>) {
    match event {
        SwarmEvent::Behaviour(BehaviourEvent::Gate(gossipsub::Event::Message { message, .. })) => {
            posts.take(node, message);
        }
        SwarmEvent::Behaviour(BehaviourEvent::Ping(ping::Event {
            connection,
            result: Err(ping::Failure::Timeout | ping::Failure::Other { .. }),
            ..
        })) => drop(swarm.close_connection(connection)),
        SwarmEvent::ConnectionEstablished { peer_id, endpoint, .. } => {
            node.connected(peer_id, address(&endpoint));
        }
        SwarmEvent::ConnectionClosed { peer_id, num_established: 0, .. } => node.disconnected(&peer_id),
        _ => {}
    }
}

/// The address that a peer came from.
fn address(endpoint: &ConnectedPoint) -> Option<IpAddr> {
    endpoint.get_remote_address().iter().find_map(|part| match part {
        Protocol::Ip4(address) => Some(IpAddr::V4(address)),
        Protocol::Ip6(address) => Some(IpAddr::V6(address)),
        _ => None,
    })
}
