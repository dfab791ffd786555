//! What every handler shares: the network, the bounds, the meters, and the one way to a member.
//!
//! Invariant: a member comes from a secret and from nothing else a request says, and whoever guesses is slowed down by
//! its address before the network is asked again.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use longhaul_network::{AgentId, Member, Network, Refusal, RefusalKind, Registered, Registration, Reply};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{edge::Buckets, edge::Limits, metrics::Meters, wire::Incoming};

/// Who is at the other end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

impl Peer {
    /// The address that is counted: of IPv6 the network, as one machine has all addresses of it.
    pub(crate) fn network(self) -> IpAddr {
        match self.0.ip().to_canonical() {
            address @ IpAddr::V4(_) => address,
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
        }
    }
}

/// What handlers share. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Front(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    network: Network,
    limits: Limits,
    meters: Meters,
    strangers: Buckets<IpAddr>,
    newcomers: Buckets<IpAddr>,
    streams: Mutex<HashMap<AgentId, usize>>,
    closing: CancellationToken,
    listed: Vec<Value>,
    recommended: String,
}

impl Front {
    /// `listed` are the transports as `/api/health` shows them, `recommended` one of them.
    pub(crate) fn new(
        network: Network,
        limits: Limits,
        closing: CancellationToken,
        listed: Vec<Value>,
        recommended: String,
    ) -> Self {
        let strangers = Buckets::new(limits.strangers_per_second);
        let newcomers = Buckets::new(limits.registrations_per_second);
        let (meters, streams) = (Meters::new(), Mutex::default());
        Self(Arc::new(Shared { network, limits, meters, strangers, newcomers, streams, closing, listed, recommended }))
    }

    pub(crate) fn network(&self) -> &Network {
        &self.0.network
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    pub(crate) fn meters(&self) -> &Meters {
        &self.0.meters
    }

    /// Cancelled when the server begins to end: what stays open for long ends then.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.0.closing
    }

    pub(crate) fn listed(&self) -> &[Value] {
        &self.0.listed
    }

    pub(crate) fn recommended(&self) -> &str {
        &self.0.recommended
    }

    /// An id for an event whose sender gave none.
    pub(crate) fn fresh_id(&self) -> String {
        self.0.network.store().ambient().ids.body()
    }

    /// Who shows this secret.
    pub(crate) fn member(&self, peer: Peer, agent: &AgentId, secret: Option<&str>) -> Result<Member, Refusal> {
        let address = peer.network();
        self.0.strangers.look(&address).map_err(slow_down)?;
        self.0.network.authenticate(agent, secret.unwrap_or_default()).inspect_err(|refusal| {
            if refusal.kind == RefusalKind::Unauthenticated {
                let _ = self.0.strangers.take(&address);
                self.0.meters.stranger();
            }
        })
    }

    /// Somebody showed something wrong.
    ///
    /// # Errors
    /// When that has been often.
    pub(crate) fn stranger(&self, peer: Peer) -> Result<(), Refusal> {
        self.0.meters.stranger();
        self.0.strangers.take(&peer.network()).map_err(slow_down)
    }

    /// Lets somebody in.
    pub(crate) async fn register(&self, peer: Peer, registration: Registration) -> Result<Registered, Refusal> {
        let address = peer.network();
        self.0.strangers.look(&address).map_err(slow_down)?;
        self.0.newcomers.take(&address).map_err(slow_down)?;
        self.0.network.register(registration).await.inspect_err(|refusal| {
            if matches!(refusal.kind, RefusalKind::Unauthenticated | RefusalKind::Forbidden | RefusalKind::Conflict) {
                let _ = self.0.strangers.take(&address);
                self.0.meters.stranger();
            }
        })
    }

    /// Sends what somebody claims to send, once it has shown its secret.
    pub(crate) async fn send(&self, peer: Peer, incoming: Incoming) -> Result<Reply, Refusal> {
        let member = self.member(peer, &incoming.claimed, incoming.secret.as_deref())?;
        self.0.network.send(&member, incoming.draft).await
    }

    /// Room for one more stream of this member, for as long as it is held.
    pub(crate) fn stream(&self, agent: &AgentId) -> Result<StreamTurn, Refusal> {
        let mut streams = self.0.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let open = streams.entry(agent.clone()).or_default();
        if *open >= self.0.limits.streams_per_member_max {
            let text = format!("{open} streams of {agent} are open, which is the limit: end one, then come again");
            return Err(Refusal { retry_after_ms: Some(5_000), ..Refusal::new(RefusalKind::TooMany, text) });
        }
        *open += 1;
        Ok(StreamTurn { front: self.clone(), agent: agent.clone() })
    }
}

/// A stream's right to exist.
#[derive(Debug)]
pub(crate) struct StreamTurn {
    front: Front,
    agent: AgentId,
}

impl Drop for StreamTurn {
    fn drop(&mut self) {
        let mut streams = self.front.0.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = streams.get_mut(&self.agent) {
            *open -= 1;
            if *open == 0 {
                streams.remove(&self.agent);
            }
        }
    }
}

fn slow_down(wait_ms: u64) -> Refusal {
    let text = format!("too many registrations or wrong secrets came from your address: come again in {wait_ms} ms");
    Refusal { retry_after_ms: Some(wait_ms), ..Refusal::new(RefusalKind::TooMany, text) }
}
