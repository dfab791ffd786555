//! Takes event streams that peers open. Outbound ones are not needed: a node answers, it does not call.
//!
//! Invariant: the queue of streams that nobody has taken yet is bounded; one more is reset, which a client sees at once.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use libp2p::{
    Multiaddr, PeerId, Stream, StreamProtocol,
    core::{
        Endpoint,
        transport::PortUse,
        upgrade::{DeniedUpgrade, ReadyUpgrade},
    },
    swarm::{
        ConnectionDenied, ConnectionHandler, ConnectionHandlerEvent, ConnectionId, FromSwarm, NetworkBehaviour,
        SubstreamProtocol, THandler, THandlerInEvent, THandlerOutEvent, ToSwarm,
        handler::{ConnectionEvent, FullyNegotiatedInbound},
    },
};
use tokio::sync::mpsc;

/// The name of the protocol in libp2p.
pub const PROTOCOL: &str = "/longhaul/events/1.0.0";

/// The behaviour: every connection offers the protocol.
pub(crate) struct Streams {
    arrived: mpsc::Sender<(PeerId, Stream)>,
}

impl Streams {
    /// Streams go to `arrived`.
    pub(crate) fn new(arrived: mpsc::Sender<(PeerId, Stream)>) -> Self {
        Self { arrived }
    }
}

impl NetworkBehaviour for Streams {
    type ConnectionHandler = Offered;
    type ToSwarm = Infallible;

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(Offered { peer, arrived: self.arrived.clone() })
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(Offered { peer, arrived: self.arrived.clone() })
    }

    fn on_swarm_event(&mut self, _: FromSwarm<'_>) {}

    fn on_connection_handler_event(&mut self, _: PeerId, _: ConnectionId, event: THandlerOutEvent<Self>) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        Poll::Pending
    }
}

/// The protocol on one connection.
pub(crate) struct Offered {
    peer: PeerId,
    arrived: mpsc::Sender<(PeerId, Stream)>,
}

impl ConnectionHandler for Offered {
    type FromBehaviour = Infallible;
    type ToBehaviour = Infallible;
    type InboundProtocol = ReadyUpgrade<StreamProtocol>;
    type OutboundProtocol = DeniedUpgrade;
    type InboundOpenInfo = ();
    type OutboundOpenInfo = Infallible;

    fn listen_protocol(&self) -> SubstreamProtocol<Self::InboundProtocol> {
        SubstreamProtocol::new(ReadyUpgrade::new(StreamProtocol::new(PROTOCOL)), ())
    }

    fn poll(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<ConnectionHandlerEvent<Self::OutboundProtocol, Self::OutboundOpenInfo, Self::ToBehaviour>> {
        Poll::Pending
    }

    fn on_behaviour_event(&mut self, event: Self::FromBehaviour) {
        match event {}
    }

    fn on_connection_event(
        &mut self,
        event: ConnectionEvent<'_, Self::InboundProtocol, Self::OutboundProtocol, (), Self::OutboundOpenInfo>,
    ) {
        if let ConnectionEvent::FullyNegotiatedInbound(FullyNegotiatedInbound { protocol, .. }) = event
            && self.arrived.try_send((self.peer, protocol)).is_err()
        {
            tracing::debug!(peer = %self.peer, "a stream was reset: too many wait to be taken");
        }
    }
}
