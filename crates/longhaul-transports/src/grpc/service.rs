//! The calls of the service, but for streams.
//!
//! What the contract has an answer for is answered there, refusals too, as the SDK reads them; the rest are gRPC's own
//! codes.

use std::{net::SocketAddr, pin::Pin, time::Instant};

use futures::Stream;
use longhaul_network::{AgentId, Member, Network, Refusal, RefusalKind, Registration, Reply, Via};
use serde_json::{Value, json};
use tonic::{Extensions, Request, Response, Status, Streaming, metadata::MetadataMap};

use super::{AgentService, proto, stream, translate};
use crate::{
    front::{Front, Peer},
    wire,
};

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl proto::agent_service_server::AgentService for AgentService {
    async fn send_event(&self, request: Request<proto::Event>) -> Answer<proto::EventResponse> {
        let (metadata, extensions, event) = request.into_parts();
        let (name, begun) = (event.event_name.clone(), Instant::now());
        let answered = match self.caller(Asking(&metadata, peer(&extensions)), &event.source_id, &event.secret) {
            Ok(member) if name == "system.poll_messages" => self.polled(&member, event).await,
            Ok(member) => {
                let answered = self.send(&member, event).await;
                let success = answered.as_ref().is_ok_and(|reply| reply.success);
                self.front().meters().sent("grpc", success, begun.elapsed().as_secs_f64());
                answered
            }
            Err(refusal) => Err(refusal),
        };
        Ok(Response::new(translate::answer(name, answered)))
    }

    type StreamEventsStream = Pin<Box<dyn Stream<Item = Result<proto::Event, Status>> + Send>>;

    async fn stream_events(&self, request: Request<Streaming<proto::Event>>) -> Answer<Self::StreamEventsStream> {
        let (metadata, extensions, incoming) = request.into_parts();
        let peer = peer(&extensions);
        let shown = self.shown(Asking(&metadata, peer)).map_err(|refusal| translate::status(&refusal))?;
        let resume = metadata.get("resume-after").and_then(|value| value.to_str().ok()?.parse().ok());
        Ok(Response::new(stream::open(self.clone(), peer, shown.map(|member| (member, resume)), incoming)))
    }

    async fn register_agent(
        &self,
        request: Request<proto::RegisterAgentRequest>,
    ) -> Answer<proto::RegisterAgentResponse> {
        let view = self.network().view();
        let mut answer = proto::RegisterAgentResponse {
            network_id: view.id,
            network_name: view.name,
            ..proto::RegisterAgentResponse::default()
        };
        let peer = peer(request.extensions());
        match self.registered(peer, request.into_inner()).await {
            Ok((secret, group)) => {
                answer.success = true;
                answer.secret = secret;
                answer.assigned_group = group;
            }
            Err(refusal) => {
                answer.error_message = format!("Registration failed: {}", wire::told(&refusal));
                answer.refusal = wire::code(refusal.kind).to_owned();
            }
        }
        Ok(Response::new(answer))
    }

    async fn unregister_agent(
        &self,
        request: Request<proto::UnregisterAgentRequest>,
    ) -> Answer<proto::UnregisterAgentResponse> {
        let (metadata, extensions, request) = request.into_parts();
        let gone = match self.caller(Asking(&metadata, peer(&extensions)), &request.agent_id, &request.secret) {
            Ok(member) => self.network().unregister(&member).await,
            Err(refusal) => Err(refusal),
        };
        let error_message = gone.as_ref().err().map(wire::told).unwrap_or_default();
        Ok(Response::new(proto::UnregisterAgentResponse { success: gone.is_ok(), error_message }))
    }

    async fn discover_agents(
        &self,
        request: Request<proto::DiscoverAgentsRequest>,
    ) -> Answer<proto::DiscoverAgentsResponse> {
        let known = self.is_known(&request)?;
        let agents = self.network().agents(&request.get_ref().required_capabilities);
        let agents = agents.into_iter().map(|agent| translate::agent(agent, known)).collect();
        Ok(Response::new(proto::DiscoverAgentsResponse { agents }))
    }

    async fn get_agent_info(
        &self,
        request: Request<proto::GetAgentInfoRequest>,
    ) -> Answer<proto::GetAgentInfoResponse> {
        let known = self.is_known(&request)?;
        let agent: AgentId = request.get_ref().agent_id.parse().map_err(|refusal| translate::status(&refusal))?;
        let agent = self.network().agent(&agent).map(|agent| translate::agent(agent, known));
        Ok(Response::new(proto::GetAgentInfoResponse { found: agent.is_some(), agent }))
    }

    /// The SDK asks before it has a secret, so this says that the network is there, to anybody. A lease begins anew
    /// only for whoever shows the secret.
    async fn heartbeat(&self, request: Request<proto::HeartbeatRequest>) -> Answer<proto::HeartbeatResponse> {
        let (metadata, extensions, request) = request.into_parts();
        let shows_one = !request.secret.is_empty() || metadata.contains_key("authorization");
        let success = !shows_one
            || self
                .caller(Asking(&metadata, peer(&extensions)), &request.agent_id, &request.secret)
                .and_then(|member| self.network().touch(&member))
                .is_ok();
        Ok(Response::new(proto::HeartbeatResponse { success, timestamp: translate::seconds(self.now()) }))
    }

    async fn get_network_info(
        &self,
        _request: Request<proto::NetworkInfoRequest>,
    ) -> Answer<proto::NetworkInfoResponse> {
        let network = self.network();
        let mut info = translate::network(&network.view(), self.now(), network.agents(&[]));
        info.host = self.0.address.ip().to_string();
        info.port = self.0.address.port().into();
        Ok(Response::new(info))
    }
}

/// What a call shows of its caller: metadata, and the address it came from.
#[derive(Clone, Copy)]
struct Asking<'a>(&'a MetadataMap, Peer);

impl AgentService {
    pub(super) fn front(&self) -> &Front {
        &self.0.front
    }

    pub(super) fn network(&self) -> &Network {
        self.front().network()
    }

    fn now(&self) -> longhaul_core::TimeMs {
        self.network().store().ambient().clock.now()
    }

    /// Sends what the member says. Its secret has been looked at.
    pub(super) async fn send(&self, member: &Member, event: proto::Event) -> Result<Reply, Refusal> {
        let draft = translate::draft(member, event)?;
        self.network().send(member, draft).await
    }

    /// What came since the last poll. Held while there is nothing: whoever asks once a second hears at once.
    async fn polled(&self, member: &Member, event: proto::Event) -> Result<Reply, Refusal> {
        let payload = translate::payload(event.payload)?;
        if let Some(named) = payload.get("agent_id").and_then(Value::as_str)
            && named.parse::<AgentId>()? != *member.agent()
        {
            return Err(Refusal::forbidden("an agent polls for itself only: leave agent_id out, or name yourself"));
        }
        let bounds = &self.0.bounds;
        let received = tokio::select! {
            received = self.network().poll(member, bounds.polled_max, bounds.poll_max) => received?,
            () = self.front().closing().cancelled() => return Err(ending()),
        };
        self.front().meters().delivered("grpc", received.events.len());
        let messages: Vec<Value> = received.events.iter().map(|event| wire::event(event)).collect();
        let data = json!({"type": "system_response", "command": "poll_messages", "messages": messages});
        Ok(Reply::done("polled", Some(data)))
    }

    async fn registered(&self, peer: Peer, request: proto::RegisterAgentRequest) -> Result<(String, String), Refusal> {
        if request.agent_id.is_empty() {
            return Err(Refusal::invalid("agent_id is required"));
        }
        let some = |text: String| (!text.is_empty()).then_some(text);
        let mut registration = Registration::new(request.agent_id.parse()?, Via::Grpc);
        registration.metadata = request.metadata.into_iter().map(|(key, text)| (key, Value::String(text))).collect();
        registration.capabilities = request.capabilities;
        registration.credential = request.password_hash;
        registration.group = some(request.agent_group);
        registration.secret = some(request.secret);
        let registered = self.front().register(peer, registration).await?;
        Ok((registered.secret, registered.member.group().to_owned()))
    }

    /// Who makes this call: by the secret in the message, else by the call's `authorization`.
    fn caller(&self, asking: Asking<'_>, claimed: &str, secret: &str) -> Result<Member, Refusal> {
        if !secret.is_empty() {
            return self.front().member(asking.1, &claimed.parse()?, Some(secret));
        }
        let member = self.shown(asking)?.ok_or_else(unauthenticated)?;
        is_same(&member, claimed)?;
        Ok(member)
    }

    /// Who is named by the call's `authorization: Bearer AGENT:SECRET`; nothing when there is none.
    fn shown(&self, Asking(metadata, peer): Asking<'_>) -> Result<Option<Member>, Refusal> {
        let Some(value) = metadata.get("authorization") else { return Ok(None) };
        let credential = value.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
        let (agent, secret) = credential.and_then(|text| text.split_once(':')).ok_or_else(unauthenticated)?;
        let agent = agent.parse().map_err(|_| unauthenticated())?;
        self.front().member(peer, &agent, Some(secret)).map(Some)
    }

    fn is_known<T>(&self, request: &Request<T>) -> Result<bool, Status> {
        let shown = self.shown(Asking(request.metadata(), peer(request.extensions())));
        shown.map(|member| member.is_some()).map_err(|refusal| translate::status(&refusal))
    }
}

/// Where a call came from, as the connection noted it.
fn peer(extensions: &Extensions) -> Peer {
    extensions.get::<Peer>().copied().unwrap_or(Peer(SocketAddr::from(([0, 0, 0, 0], 0))))
}

/// The claimed sender is the one whose secret was shown; nothing claimed is well.
pub(super) fn is_same(member: &Member, claimed: &str) -> Result<(), Refusal> {
    if claimed.is_empty() || claimed.parse::<AgentId>()? == *member.agent() {
        return Ok(());
    }
    Err(Refusal::forbidden("source_id names another agent than the one whose secret was shown"))
}

pub(super) fn unauthenticated() -> Refusal {
    Refusal::new(RefusalKind::Unauthenticated, wire::UNAUTHENTICATED)
}

pub(super) fn ending() -> Refusal {
    Refusal::new(RefusalKind::Unavailable, "the network is being stopped: come back when it has started again")
}
