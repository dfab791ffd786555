//! MCP at `/mcp`: the events of mods as tools, for programs that speak the Model Context Protocol.
//!
//! A client is a member: with `Authorization: Bearer AGENT_ID:SECRET` that one; with the token of `external_access`, or
//! with nothing where a network asks nobody for a password, one agent that stands for all of them, in the group of
//! `external_access`. Each member has a server of its own, so a session of one is none of another's.
//! The protocol is `longhaul-tools`'. Invariant: a tool acts in the name of the member whose request calls it.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use axum::{
    Extension, Json, Router,
    extract::{Request, State},
    http::HeaderMap,
    response::{IntoResponse, Response},
    routing::{any, get},
};
use longhaul_core::{Digest, ToolSpec};
use longhaul_network::{
    Address, AgentId, Draft, EventName, Member, ModEvent, ModTool, Network, Refusal, RefusalKind, Registration, Reply,
    Via,
};
use longhaul_tools::{
    Tool, ToolHints, ToolOutput, ToolRegistry,
    mcp::{McpServer, McpSettings, MountedServer, Shelf},
};
use serde_json::{Map, Value, json};

use crate::{
    front::{Front, Peer},
    http::{Failure, bearer},
    wire,
};

/// Members whose servers are kept at once.
const SERVERS_MAX: usize = 256;
/// Sessions of one member.
const SESSIONS_MAX: usize = 64;
/// Longest wait for events in one call.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// Most events of one call.
const EVENTS_MAX: usize = 50;

/// What is served at `/mcp`.
#[derive(Clone)]
pub(crate) struct McpDoor(Arc<Inner>);

struct Inner {
    front: Front,
    access: Access,
    shelf: Option<Arc<dyn Shelf>>,
    servers: Mutex<HashMap<AgentId, (String, Arc<MountedServer>)>>,
    /// Who stands for clients that are no member, once there was one.
    guest: tokio::sync::Mutex<Option<Member>>,
}

/// `external_access` of `network.yaml`.
#[derive(Default)]
struct Access {
    group: Option<String>,
    token: Option<Digest>,
    instruction: String,
    exposed: Vec<String>,
    excluded: Vec<String>,
}

impl Access {
    fn read(rest: &Map<String, Value>) -> Self {
        let Some(said) = rest.get("external_access").and_then(Value::as_object) else { return Self::default() };
        let text = |key: &str| said.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
        let texts = |key: &str| {
            let all = said.get(key).and_then(Value::as_array);
            all.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let from_environment = || std::env::var(text("auth_token_env")?).ok().filter(|token| !token.is_empty());
        Self {
            group: text("default_agent_group"),
            token: text("auth_token").or_else(from_environment).map(Digest::of),
            instruction: text("instruction").unwrap_or_default(),
            exposed: texts("exposed_tools"),
            excluded: texts("excluded_tools"),
        }
    }

    fn shows(&self, tool: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|one| one == tool);
        (self.exposed.is_empty() || named(&self.exposed)) && !named(&self.excluded)
    }
}

impl McpDoor {
    pub(crate) fn new(front: Front, shelf: Option<Arc<dyn Shelf>>) -> Self {
        let access = Access::read(&front.network().view().settings.rest);
        let (servers, guest) = (Mutex::default(), tokio::sync::Mutex::default());
        Self(Arc::new(Inner { front, access, shelf, servers, guest }))
    }

    pub(crate) fn routes(self) -> Router {
        Router::new().route("/mcp", any(answer)).route("/mcp/tools", get(tools)).with_state(self)
    }

    /// Lets go who stood for others.
    pub(crate) async fn leave(&self) {
        if let Some(member) = self.0.guest.lock().await.take()
            && let Err(refusal) = self.0.front.network().unregister(&member).await
        {
            tracing::debug!(%refusal, "the agent that stands for MCP clients could not leave");
        }
    }

    async fn caller(&self, peer: Peer, headers: &HeaderMap) -> Result<Member, Refusal> {
        let front = &self.0.front;
        if let Some((agent, secret)) = bearer(headers) {
            return front.member(peer, &agent.parse()?, Some(&secret));
        }
        let shown = headers.get(axum::http::header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let shown =
            shown.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let open = !front.network().view().settings.requires_password;
        let admitted = match (&self.0.access.token, shown) {
            // Digests are compared: the time it takes tells nothing of the token.
            (Some(token), Some((_, given))) => Digest::of(given.trim()) == *token,
            (Some(_), None) => false,
            (None, shown) => open && shown.is_none(),
        };
        if !admitted {
            front.stranger(peer)?;
            let text = "send `Authorization: Bearer AGENT_ID:SECRET`, or the token of external_access";
            return Err(Refusal::new(RefusalKind::Unauthenticated, text));
        }
        self.guest().await
    }

    /// Who stands for clients that are no member: one for as long as it holds.
    async fn guest(&self) -> Result<Member, Refusal> {
        let network = self.0.front.network();
        let mut guest = self.0.guest.lock().await;
        if let Some(member) = guest.as_ref()
            && network.touch(member).is_ok()
        {
            return Ok(member.clone());
        }
        let id: String = self.0.front.fresh_id().chars().rev().take(10).collect();
        let mut registration = Registration::new(format!("mcp-{}", id.to_lowercase()).parse()?, Via::Mcp);
        // Who holds the token was let in by whoever wrote the group into the file.
        registration.group.clone_from(&self.0.access.group);
        registration.metadata = Map::from_iter([("name".to_owned(), json!("clients of the Model Context Protocol"))]);
        let registered = network.admit(registration).await?;
        *guest = Some(registered.member.clone());
        Ok(registered.member)
    }

    /// The member's server. Made anew when the secret it came with has been replaced.
    fn server(&self, member: &Member) -> Arc<MountedServer> {
        let of = format!("{member:?}");
        let mut servers = self.0.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, server)) = servers.get(member.agent())
            && *known == of
        {
            return server.clone();
        }
        if servers.len() >= SERVERS_MAX {
            // Sessions of those that are let go end; their clients are told by 404 and begin others.
            let least = servers.keys().min().cloned();
            least.map(|least| servers.remove(&least));
        }
        let closing = self.0.front.closing().clone();
        let server = Arc::new(MountedServer::new(self.mcp(member), SESSIONS_MAX, closing));
        servers.insert(member.agent().clone(), (of, server.clone()));
        server
    }

    fn mcp(&self, member: &Member) -> McpServer {
        let Inner { front, access, shelf, .. } = &*self.0;
        let view = front.network().view();
        let mut instructions = format!("Tools of the agent network {}. You are {}.", view.name, member.agent());
        if !access.instruction.is_empty() {
            instructions = format!("{instructions} {}", access.instruction);
        }
        let settings = McpSettings {
            message_bytes_max: front.limits().body_bytes_max,
            ..McpSettings::new("longhaul-network", env!("CARGO_PKG_VERSION"), &instructions)
        };
        let tools = registry(front, access, member);
        match shelf {
            None => McpServer::new(tools, settings),
            Some(shelf) => {
                let rng = &front.network().store().ambient().rng;
                McpServer::with_shelf(tools, settings, shelf.clone(), std::array::from_fn(|_| rng.next_u64()))
            }
        }
    }
}

impl fmt::Debug for McpDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpDoor").finish_non_exhaustive()
    }
}

async fn answer(
    State(door): State<McpDoor>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Result<Response, Failure> {
    let member = door.caller(peer, request.headers()).await?;
    door.0.front.network().touch(&member)?;
    Ok(door.server(&member).answer(request).await)
}

/// The tools without a session.
async fn tools(
    State(door): State<McpDoor>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let member = door.caller(peer, &headers).await?;
    Ok(Json(door.mcp(&member).listed()).into_response())
}

/// The tools of a member: those of the mods, and two to send and to receive events of any kind.
fn registry(front: &Front, access: &Access, member: &Member) -> ToolRegistry {
    let hand = Hand { network: front.network().clone(), member: member.clone() };
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut add = |name: &str, tool: Arc<dyn Tool>| {
        // One that cannot be shown does not take the others with it.
        if !access.shows(name) || names.iter().any(|known| known == name) {
            return;
        }
        match ToolRegistry::new([tool.clone()]) {
            Ok(_) => {
                names.push(name.to_owned());
                tools.push(tool);
            }
            Err(error) => tracing::warn!(%error, "a mod's tool is not offered"),
        }
    };
    for manifest in front.network().manifests() {
        for event in manifest.answers.clone() {
            let (Some(tool), Ok(name)) = (event.tool.clone(), event.pattern.as_str().parse()) else { continue };
            let title = tool.name.clone();
            let module = manifest.name.clone();
            add(&title, Arc::new(ModCall { hand: hand.clone(), module, name, event, tool }));
        }
    }
    add("send_event", Arc::new(SendEvent(hand.clone())));
    add("receive_events", Arc::new(ReceiveEvents(hand)));
    ToolRegistry::new(tools).unwrap_or_default()
}

/// Acts for a member.
#[derive(Clone)]
struct Hand {
    network: Network,
    member: Member,
}

impl Hand {
    async fn send(&self, name: EventName, to: Address, payload: Map<String, Value>) -> ToolOutput {
        let id = self.network.store().ambient().ids.body();
        match self.network.send(&self.member, Draft::new(id.clone(), name, to, payload)).await {
            Ok(Reply { success, message, data, .. }) => {
                let mut text = message;
                if let Some(data) = &data {
                    text = format!("{text}\n{data}");
                }
                if !success {
                    return ToolOutput::error(text);
                }
                ToolOutput::ok(text).with_structured(json!({ "event_id": id, "data": data }))
            }
            Err(refusal) => ToolOutput::error(wire::told(&refusal)),
        }
    }
}

/// A mod's event as a tool: the arguments are its payload.
struct ModCall {
    hand: Hand,
    module: String,
    name: EventName,
    event: ModEvent,
    tool: ModTool,
}

impl ModCall {
    fn to(&self, arguments: &Value) -> Result<Address, Refusal> {
        let Some(named) = &self.tool.destination else { return Ok(Address::Mod(self.module.clone())) };
        let said = arguments.get(named).and_then(Value::as_str).unwrap_or_default();
        if said.is_empty() {
            return Ok(Address::Mod(self.module.clone()));
        }
        let known = ["agent:", "channel:", "group:", "mod:"].iter().any(|prefix| said.starts_with(prefix));
        if named.contains("channel") && !known {
            return Ok(Address::Channel(said.trim_start_matches('#').to_owned()));
        }
        Address::parse(Some(said))
    }
}

#[async_trait]
impl Tool for ModCall {
    fn spec(&self) -> ToolSpec {
        let description = self.event.description.clone();
        ToolSpec { name: self.tool.name.clone(), description, parameters: self.event.payload.clone() }
    }

    fn changes_work_tree(&self) -> bool {
        false
    }

    fn hints(&self) -> ToolHints {
        let title = self.tool.name.replace('_', " ");
        if self.event.reads_only { ToolHints::reads(&title) } else { ToolHints::adds(&title) }
    }

    async fn call(&self, arguments: Value) -> ToolOutput {
        let to = match self.to(&arguments) {
            Ok(to) => to,
            Err(refusal) => return ToolOutput::error(refusal),
        };
        let Value::Object(payload) = arguments else { return ToolOutput::error("arguments are an object") };
        self.hand.send(self.name.clone(), to, payload).await
    }
}

/// Any event.
struct SendEvent(Hand);

#[async_trait]
impl Tool for SendEvent {
    fn spec(&self) -> ToolSpec {
        let parameters = json!({
            "type": "object",
            "required": ["event_name"],
            "properties": {
                "event_name": { "type": "string", "description": "What happens: agent.message" },
                "destination": { "type": "string", "description": "agent:x, channel:x, group:x or mod:x" },
                "payload": { "type": "object", "description": "Content" },
            },
        });
        let description = "Sends an event to an agent, a channel, a group or a mod of the network.".to_owned();
        ToolSpec { name: "send_event".to_owned(), description, parameters }
    }

    fn changes_work_tree(&self) -> bool {
        false
    }

    fn hints(&self) -> ToolHints {
        ToolHints::adds("send an event")
    }

    async fn call(&self, arguments: Value) -> ToolOutput {
        let name = arguments["event_name"].as_str().unwrap_or_default().parse::<EventName>();
        let to = Address::parse(arguments["destination"].as_str());
        match (name, to) {
            (Ok(name), Ok(to)) => {
                let payload = arguments["payload"].as_object().cloned().unwrap_or_default();
                self.0.send(name, to, payload).await
            }
            (Err(refusal), _) | (_, Err(refusal)) => ToolOutput::error(refusal),
        }
    }
}

/// What came for the member.
struct ReceiveEvents(Hand);

#[async_trait]
impl Tool for ReceiveEvents {
    fn spec(&self) -> ToolSpec {
        let parameters = json!({
            "type": "object",
            "properties": {
                "wait_seconds": { "type": "integer", "description": "How long to wait for the first, 20 at most" },
            },
        });
        let description =
            "Gives the events that came for you since the last call; waits for one if asked to.".to_owned();
        ToolSpec { name: "receive_events".to_owned(), description, parameters }
    }

    fn changes_work_tree(&self) -> bool {
        false
    }

    fn hints(&self) -> ToolHints {
        ToolHints::adds("receive events")
    }

    async fn call(&self, arguments: Value) -> ToolOutput {
        let wait = Duration::from_secs(arguments["wait_seconds"].as_u64().unwrap_or_default()).min(WAIT_MAX);
        let Hand { network, member } = &self.0;
        match network.poll(member, EVENTS_MAX, wait).await {
            Ok(received) => {
                let events: Vec<Value> = received.events.iter().map(|event| wire::event(event)).collect();
                let told = json!({ "events": events, "more": received.more });
                ToolOutput::ok(told.to_string()).with_structured(told)
            }
            Err(refusal) => ToolOutput::error(wire::told(&refusal)),
        }
    }
}
