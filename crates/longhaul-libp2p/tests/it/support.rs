//! A network with one room and its node, on a store of its own.

use std::{sync::Arc, time::Duration};

use longhaul_core::{Ambient, Scope};
use longhaul_libp2p::{Heard, Libp2p, Libp2pSettings, Multiaddr, Peer, PeerError};
use longhaul_network::{
    Address, Draft, Event, EventName, Inbox, Manifest, Member, Mod, ModEvent, Network, Outcome, Pattern, Prepared,
    Received, Refusal, RefusalKind, Registration, Reply, Stage, Via, settings::NetworkSettings,
};
use longhaul_store::{Store, StoreSettings};
use serde_json::{Map, Value, json};

/// Nothing here takes so long.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Makes a channel with its sender in it.
#[derive(Debug)]
struct Rooms;

#[async_trait::async_trait]
impl Mod for Rooms {
    fn manifest(&self) -> Manifest {
        let open = ModEvent {
            pattern: Pattern::new("room.open"),
            description: "makes a channel".to_owned(),
            payload: json!({"type": "object"}),
            reads_only: false,
            tool: None,
        };
        Manifest { name: "rooms".to_owned(), answers: vec![open], ..Manifest::default() }
    }

    fn apply(&self, stage: &mut Stage<'_, '_>, event: &Event, _: Prepared) -> Result<Outcome, Refusal> {
        if event.name.as_str() != "room.open" {
            return Ok(Outcome::Pass);
        }
        let channel = event.payload.get("channel").and_then(Value::as_str).unwrap_or_default();
        let longhaul_network::Sender::Agent(from) = &event.from else { return Ok(Outcome::Pass) };
        stage.open_channel(channel, "", std::slice::from_ref(from))?;
        Ok(Outcome::Answer(Reply::done("open", None)))
    }
}

/// A network that is served over libp2p, and an agent of this process in its one channel.
pub(crate) struct Served {
    pub(crate) network: Network,
    pub(crate) node: Libp2p,
    /// `ear`, which is in `general`.
    pub(crate) ear: Member,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) async fn serve() -> Served {
    serve_with(|_| {}, |_| {}).await
}

pub(crate) async fn serve_with(
    change: impl FnOnce(&mut NetworkSettings),
    change_node: impl FnOnce(&mut Libp2pSettings),
) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(
        StoreSettings::new(folder.path().join("store")),
        Ambient::system(),
        &[longhaul_network::MIGRATIONS],
    );
    let mut settings = NetworkSettings::named("peers");
    settings.events_per_second = 100_000;
    settings.events_burst = 100_000;
    settings.mods = vec![("rooms".to_owned(), Map::new())];
    change(&mut settings);
    let network = Network::open(store.await.unwrap(), Scope::single_user(), settings, vec![Arc::new(Rooms)]).await;
    let network = network.unwrap();
    let ear = network.register(Registration::new("ear".parse().unwrap(), Via::InProcess)).await.unwrap().member;
    let opened = network.send(&ear, draft("open", "room.open", "system:system", json!({"channel": "general"})));
    assert!(opened.await.unwrap().success);
    let mut node_settings = Libp2pSettings::on_loopback(folder.path(), 0);
    change_node(&mut node_settings);
    let node = Libp2p::start(network.clone(), node_settings).await.unwrap();
    Served { network, node, ear, folder }
}

impl Served {
    /// Its address over TCP, or over QUIC.
    pub(crate) fn address(&self, quic: bool) -> &Multiaddr {
        let named = |address: &&Multiaddr| address.to_string().contains("quic") == quic;
        self.node.addresses().iter().find(named).unwrap()
    }

    /// A peer that has come in as this agent, and its secret.
    pub(crate) async fn peer(&self, agent: &str) -> (Peer, String) {
        let peer = Peer::connect(self.address(false), None).await.unwrap();
        let secret = peer.register(agent, None, None).await.unwrap();
        (peer, secret)
    }

    /// A peer that is in `general` and takes part in its gossip, and the topic.
    pub(crate) async fn in_general(&self, agent: &str) -> (Peer, String) {
        let (peer, _) = self.peer(agent).await;
        join(&peer, agent).await;
        let topic = peer.gossip("general").await.unwrap();
        (peer, topic)
    }

    /// What `ear` says in the channel.
    pub(crate) async fn say(&self, id: &str, payload: Value) {
        let said = self.network.send(&self.ear, draft(id, "thread.channel_message.post", "channel:general", payload));
        assert!(said.await.unwrap().success);
    }

    /// `ear`'s place in its events.
    pub(crate) fn inbox(&self) -> Inbox {
        self.network.inbox(&self.ear, None).unwrap()
    }
}

/// The agent goes into `general`.
pub(crate) async fn join(peer: &Peer, agent: &str) {
    let payload = json!({"channel_id": "general", "agent_id": agent});
    let joined = peer.send(draft(&format!("{agent}-joins"), "system.add_channel_member", "system:system", payload));
    assert!(joined.await.unwrap().success);
}

pub(crate) fn draft(id: &str, name: &str, to: &str, payload: Value) -> Draft {
    let Value::Object(payload) = payload else { panic!("a payload is an object") };
    Draft::new(id, name.parse::<EventName>().unwrap(), Address::parse(Some(to)).unwrap(), payload)
}

/// The next thing a peer hears.
pub(crate) async fn hear(peer: &Peer) -> Heard {
    tokio::time::timeout(LONG, peer.next()).await.expect("nothing was heard in time").expect("the connection has ended")
}

/// The next event on its stream: number, event.
pub(crate) async fn event(peer: &Peer) -> (i64, Value) {
    loop {
        if let Heard::Event { seq, event } = hear(peer).await {
            return (seq, event);
        }
    }
}

/// The next event on a topic.
pub(crate) async fn gossip(peer: &Peer) -> Value {
    loop {
        if let Heard::Gossip { frame, .. } = hear(peer).await {
            return frame["event"].clone();
        }
    }
}

/// The next events of an inbox.
pub(crate) async fn received(inbox: &mut Inbox) -> Received {
    let received = inbox.next(100, LONG).await.unwrap();
    assert!(!received.events.is_empty(), "nothing came in time");
    inbox.acknowledge(received.cursor);
    received
}

/// The kind of a refusal.
pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, PeerError>) -> RefusalKind {
    match result {
        Err(PeerError::Refused(refusal)) => refusal.kind,
        other => panic!("it was not refused: {other:?}"),
    }
}
