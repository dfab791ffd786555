//! The mod behind the protocol: it turns messages into tasks and events for agents, and what agents say into what
//! becomes of their tasks.
//!
//! Invariants: a message's task, its update and the event that the agent receives are one transaction; only the agent
//! that works on a task says what becomes of it; only its owner says more or cancels it; the same event changes a task
//! once, however often it is seen.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use longhaul_core::TimeMs;
use longhaul_network::{
    Address, AgentId, Backstage, Event, Manifest, Mod, ModEvent, Outcome, Pattern, Prepared, Refusal, RefusalKind,
    Reply, Sender, Stage, Via,
};
use longhaul_store::{StoreError, Tx};
use serde_json::{Map, Value, json};

use crate::{
    error::A2aError,
    machine::{self, Change, Unchanged},
    push::rows as push,
    rows::{self, Kept, Place},
    speech,
    wire::{
        from_json, to_json,
        v1::{Artifact, Message, TaskPushNotificationConfig, TaskState},
    },
};

/// The name of the mod.
pub const MOD: &str = "longhaul.mods.a2a";

/// A client says something to an agent.
pub(crate) const SEND: &str = "a2a.message.send";
/// The owner of a task ends it.
pub(crate) const CANCEL: &str = "a2a.task.cancel";
/// The agent says how a task stands.
pub(crate) const UPDATE: &str = "a2a.task.update";
/// The agent is told that its task has been canceled.
pub(crate) const CANCELED: &str = "a2a.task.canceled";
/// What an agent receives: a direct message in the form of the messaging mod.
pub(crate) const TOLD: &str = "thread.direct_message.notification";

/// The network says that somebody has left, or was made to.
const LEFT: &str = "system.notification.unregister_agent";

/// How the names of members begin who speak for callers without a name of their own.
pub(crate) const SHARED_PREFIX: &str = "a2a-caller-";
/// The owner of what such callers do.
pub(crate) const SHARED_OWNER: &str = "~shared";

/// Tasks of the protocol A2A, as a mod of one network: give it to [`longhaul_network::Network::open`] with the others.
/// The bindings ([`crate::http`], [`crate::grpc`]) are views in front of it.
#[derive(Debug, Default)]
pub struct Tasks {
    /// No task is open, so that no message can be the answer to one. Only becomes true within a write transaction, of
    /// which there is one at a time: what begins a task and what finds none cannot pass each other.
    idle: Arc<AtomicBool>,
}

impl Tasks {
    /// The mod.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl Mod for Tasks {
    fn manifest(&self) -> Manifest {
        let event = |name: &str, description: &str, payload: Value| ModEvent {
            pattern: Pattern::new(name),
            description: description.to_owned(),
            payload,
            reads_only: false,
            tool: None,
        };
        Manifest {
            name: MOD.to_owned(),
            aliases: vec!["a2a".to_owned()],
            version: "1".to_owned(),
            description: "Tasks that clients of the protocol A2A give to agents of this network".to_owned(),
            capabilities: vec!["a2a".to_owned()],
            answers: vec![
                event(SEND, "Gives an agent a task, or says more about one", send_schema()),
                event(UPDATE, "The agent that works on a task says how it stands", update_schema()),
                event(
                    CANCEL,
                    "The owner of a task ends it",
                    json!({ "type": "object", "required": ["task_id"], "properties": { "task_id": { "type": "string" } } }),
                ),
            ],
            emits: vec![
                (TOLD.to_owned(), "a direct message to the agent, with the task under `a2a`".to_owned()),
                (CANCELED.to_owned(), "the agent's task has been canceled: `task_id`".to_owned()),
            ],
            observes: ["agent.message", TOLD, "thread.reply.notification", LEFT].map(Pattern::new).to_vec(),
        }
    }

    fn apply(&self, stage: &mut Stage<'_, '_>, event: &Event, _prepared: Prepared) -> Result<Outcome, Refusal> {
        let Sender::Agent(sender) = &event.from else { return Ok(Outcome::Pass) };
        match event.name.as_str() {
            SEND => {
                self.idle.store(false, Ordering::Release);
                send(stage, event, sender).map(Outcome::Answer)
            }
            UPDATE => update(stage, event, sender).map(Outcome::Answer),
            CANCEL => cancel(stage, event, sender).map(Outcome::Answer),
            _ => Ok(Outcome::Pass),
        }
    }

    async fn observe(&self, backstage: &Backstage, event: &Arc<Event>) -> Result<(), Refusal> {
        let network = &backstage.network;
        let place = Place::new(network.scope(), network.id());
        if event.from == Sender::Network && event.name.as_str() == LEFT {
            let event = event.clone();
            network.store().write(move |tx| left(tx, &place, &event)).await?;
            return Ok(());
        }
        let (Sender::Agent(agent), Address::Agent(receiver)) = (&event.from, &event.to) else { return Ok(()) };
        if self.idle.load(Ordering::Acquire) {
            return Ok(());
        }
        let (agent, receiver, event, idle) = (agent.clone(), receiver.clone(), event.clone(), self.idle.clone());
        let observing = network.store().write(move |tx| {
            answered(tx, &place, &agent, &receiver, &event)?;
            idle.store(!rows::any_open(tx, &place)?, Ordering::Release);
            Ok::<_, StoreError>(())
        });
        // What was not committed is looked at again.
        Ok(observing.await.inspect_err(|_| self.idle.store(false, Ordering::Release))?)
    }
}

fn send_schema() -> Value {
    json!({
        "type": "object",
        "required": ["agent", "message"],
        "properties": {
            "agent": { "type": "string", "description": "the agent that is to do it" },
            "message": { "type": "object", "description": "a Message of A2A 1.0 in its JSON form" },
            "announce": { "type": "boolean", "description": "the task's id is given to the client at once" },
            "push": { "type": "object", "description": "a TaskPushNotificationConfig of A2A 1.0" },
        },
    })
}

fn update_schema() -> Value {
    json!({
        "type": "object",
        "required": ["task_id"],
        "properties": {
            "task_id": { "type": "string" },
            "state": { "type": "string", "description":
                "working, completed, failed, canceled, rejected, input-required or auth-required" },
            "text": { "type": "string", "description": "words that go with the state" },
            "parts": { "type": "array", "description": "the same as parts of A2A" },
            "artifact": { "type": "object", "description": "an Artifact of A2A: what the task brings forth" },
            "append": { "type": "boolean", "description": "the artifact's parts follow those it has" },
            "last_chunk": { "type": "boolean" },
            "direct": { "type": "boolean", "description": "answer with a message instead of a task" },
        },
    })
}

fn place_of(stage: &Stage<'_, '_>) -> Place {
    let (scope, network) = stage.place();
    Place::new(scope, network)
}

/// Who owns what this member does. Members that this crate let in for callers without a name share one owner; nobody
/// else can have come in over A2A.
fn owner_of(stage: &Stage<'_, '_>, sender: &AgentId) -> String {
    let shared =
        sender.as_str().starts_with(SHARED_PREFIX) && stage.agent(sender).is_some_and(|view| view.via == Via::A2a);
    if shared { SHARED_OWNER.to_owned() } else { sender.to_string() }
}

fn refused(error: &A2aError) -> Refusal {
    Refusal::invalid(error.to_string())
}

fn text<'a>(event: &'a Event, key: &str) -> Result<&'a str, Refusal> {
    let found = event.payload.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    found.ok_or_else(|| Refusal::invalid(format!("payload.{key} is missing")))
}

fn no_task(task: &str) -> Refusal {
    Refusal::missing("task", task)
}

fn send(stage: &mut Stage<'_, '_>, event: &Event, sender: &AgentId) -> Result<Reply, Refusal> {
    let agent: AgentId = text(event, "agent")?.parse()?;
    let message = event.payload.get("message").cloned().unwrap_or_default();
    let message: Message = from_json(message).map_err(|error| refused(&error))?;
    if stage.agent(&agent).is_none() {
        return Err(Refusal::missing("agent", agent.as_str()));
    }
    let (place, now, owner) = (place_of(stage), stage.now(), owner_of(stage, sender));
    let mut kept = if message.task_id.is_empty() {
        let (id, context) = (stage.new_id(), message.context_id.clone());
        let context = if context.is_empty() { stage.new_id() } else { context };
        let new = Kept {
            task: machine::begin(&id, &context, message.clone(), now),
            owner,
            caller: sender.to_string(),
            agent: agent.to_string(),
            announced: event.payload.get("announce") == Some(&Value::Bool(true)),
            direct: false,
            number: 0,
            created_at: now,
        };
        rows::insert(stage.tx(), &place, &new)?;
        new
    } else {
        go_on(stage, &place, &message, &owner, &agent, now)?
    };
    if let Some(config) = event.payload.get("push") {
        let config: TaskPushNotificationConfig = from_json(config.clone()).map_err(|error| refused(&error))?;
        let config = TaskPushNotificationConfig { task_id: kept.task.id.clone(), ..config };
        push::put(stage.tx(), &place, &config, 0, now)?;
        kept.announced = true;
    }
    rows::note_event(stage.tx(), &place, &event.id, &kept.task.id)?;
    let message = Message { context_id: kept.task.context_id.clone(), task_id: kept.task.id.clone(), ..message };
    let told = speech::told(&message, &kept.task.id, sender.as_str(), agent.as_str(), &event.id);
    let published = stage.publish(TOLD, Address::Agent(agent), told)?;
    rows::note_event(stage.tx(), &place, &published, &kept.task.id)?;
    let data = json!({ "task": to_json(&kept.task), "number": kept.number, "event_id": published });
    Ok(Reply::done("the agent has it", Some(data)))
}

/// More is said about a task of the sender's.
fn go_on(
    stage: &mut Stage<'_, '_>,
    place: &Place,
    message: &Message,
    owner: &str,
    agent: &AgentId,
    now: TimeMs,
) -> Result<Kept, Refusal> {
    let found = rows::get(stage.tx(), place, &message.task_id)?;
    let mine = found.filter(|kept| kept.owner == owner && kept.agent == agent.as_str() && !kept.direct);
    let mut kept = mine.ok_or_else(|| no_task(&message.task_id))?;
    if !message.context_id.is_empty() && message.context_id != kept.task.context_id {
        return Err(Refusal::invalid("message.contextId is not that of the task"));
    }
    done(rows::change(stage.tx(), place, &mut kept, Change::Said(message.clone()), now)?)?;
    Ok(kept)
}

fn done(outcome: Result<(), Unchanged>) -> Result<(), Refusal> {
    outcome.map_err(|unchanged| match unchanged {
        Unchanged::Ended => Refusal::conflict(unchanged.to_string()),
        Unchanged::NoState => Refusal::invalid(unchanged.to_string()),
        Unchanged::TooLarge => Refusal::new(RefusalKind::TooLarge, unchanged.to_string()),
    })
}

fn cancel(stage: &mut Stage<'_, '_>, event: &Event, sender: &AgentId) -> Result<Reply, Refusal> {
    let task = text(event, "task_id")?;
    let (place, now, owner) = (place_of(stage), stage.now(), owner_of(stage, sender));
    let found = rows::get(stage.tx(), &place, task)?.filter(|kept| kept.owner == owner && !kept.direct);
    let mut kept = found.ok_or_else(|| no_task(task))?;
    let change = Change::Status { state: TaskState::Canceled, message: None };
    done(rows::change(stage.tx(), &place, &mut kept, change, now)?)?;
    let told = speech::object(json!({ "task_id": kept.task.id, "context_id": kept.task.context_id }));
    let agent: AgentId = kept.agent.parse()?;
    // An agent that has left needs not be told.
    if stage.agent(&agent).is_some() {
        stage.emit(Sender::Agent(sender.clone()), CANCELED, Address::Agent(agent), told)?;
    }
    Ok(Reply::done("canceled", Some(json!({ "task": to_json(&kept.task), "number": kept.number }))))
}

fn update(stage: &mut Stage<'_, '_>, event: &Event, sender: &AgentId) -> Result<Reply, Refusal> {
    let task = text(event, "task_id")?;
    let (place, now) = (place_of(stage), stage.now());
    let found = rows::get(stage.tx(), &place, task)?.filter(|kept| kept.agent == sender.as_str() && !kept.direct);
    let mut kept = found.ok_or_else(|| no_task(task))?;
    let payload = &event.payload;
    let flag = |key: &str| payload.get(key) == Some(&Value::Bool(true));
    if let Some(artifact) = payload.get("artifact") {
        let artifact = speech::artifact_of(artifact, &event.id).map_err(|error| refused(&error))?;
        let change = Change::Artifact { artifact, append: flag("append"), last_chunk: flag("last_chunk") };
        done(rows::change(stage.tx(), &place, &mut kept, change, now)?)?;
    }
    let said = said_of(payload).map_err(|error| refused(&error))?;
    let message = (!said.is_empty()).then(|| speech::message_of(&event.id, said));
    match (payload.get("state").and_then(Value::as_str), message) {
        (Some(word), message) => {
            let state = speech::state_of(word).ok_or_else(|| Refusal::invalid(Unchanged::NoState.to_string()))?;
            done(rows::change(stage.tx(), &place, &mut kept, Change::Status { state, message }, now)?)?;
        }
        (None, Some(message)) if flag("direct") => answer(stage.tx(), &place, &mut kept, message, now)?,
        (None, Some(message)) => {
            let change = Change::Status { state: TaskState::Working, message: Some(message) };
            done(rows::change(stage.tx(), &place, &mut kept, change, now)?)?;
        }
        (None, None) if payload.contains_key("artifact") => {}
        (None, None) => return Err(Refusal::invalid("payload: write a state, a text, or an artifact")),
    }
    Ok(Reply::done("noted", Some(json!({ "task_id": kept.task.id, "number": kept.number }))))
}

/// The words of an update: only what is written for it, as the payload holds other things besides.
fn said_of(payload: &Map<String, Value>) -> Result<Vec<crate::wire::v1::Part>, A2aError> {
    if !["parts", "text", "message", "content"].iter().any(|key| payload.contains_key(*key)) {
        return Ok(Vec::new());
    }
    speech::parts_of(payload, None)
}

/// Answers without a task where the client has not heard of one, else as the task's result.
fn answer(tx: &mut Tx<'_>, place: &Place, kept: &mut Kept, message: Message, now: TimeMs) -> Result<(), Refusal> {
    if !kept.announced && kept.number == 0 {
        rows::answer_directly(tx, place, kept, message, now)?;
        return Ok(());
    }
    done(complete(tx, place, kept, message, now)?)
}

/// The message becomes the task's result.
fn complete(
    tx: &mut Tx<'_>,
    place: &Place,
    kept: &mut Kept,
    message: Message,
    now: TimeMs,
) -> Result<Result<(), Unchanged>, StoreError> {
    if !message.parts.is_empty() {
        let artifact = Artifact {
            artifact_id: format!("answer-{}", message.message_id),
            name: "answer".to_owned(),
            parts: message.parts,
            ..Artifact::default()
        };
        let change = Change::Artifact { artifact, append: false, last_chunk: true };
        if let Err(unchanged) = rows::change(tx, place, kept, change, now)? {
            return Ok(Err(unchanged));
        }
    }
    rows::change(tx, place, kept, Change::Status { state: TaskState::Completed, message: None }, now)
}

/// Somebody has left: whoever gets that name next is somebody else, and finds no tasks; what the agent still had to do
/// is done by nobody, as its queue has gone with it.
fn left(tx: &mut Tx<'_>, place: &Place, event: &Event) -> Result<(), StoreError> {
    let Some(agent) = event.payload.get("agent_id").and_then(Value::as_str) else { return Ok(()) };
    rows::forget_owner(tx, place, agent, event.at)?;
    let now = tx.now();
    loop {
        let open = rows::open_of(tx, place, agent, event.at)?;
        if open.is_empty() {
            return Ok(());
        }
        for mut kept in open {
            let id = format!("{}-{}", event.id, kept.task.id);
            let message = speech::message_of(&id, vec![speech::text_part(format!("{agent} has left the network"))]);
            let change = Change::Status { state: TaskState::Failed, message: Some(message) };
            if let Err(unchanged) = rows::change(tx, place, &mut kept, change, now)? {
                tracing::error!(task = kept.task.id, %unchanged, "a task of an agent that has left cannot be ended");
                return Ok(());
            }
        }
    }
}

/// An agent has sent something to somebody who may have given it a task.
fn answered(
    tx: &mut Tx<'_>,
    place: &Place,
    agent: &AgentId,
    receiver: &AgentId,
    event: &Event,
) -> Result<(), StoreError> {
    let Some(mut kept) = meant(tx, place, agent, receiver, event)? else { return Ok(()) };
    if !rows::note_event(tx, place, &event.id, &kept.task.id)? {
        return Ok(());
    }
    let now = tx.now();
    let inner = event.payload.get("a2a").and_then(Value::as_object);
    let state = inner.and_then(|a2a| a2a.get("state")).and_then(Value::as_str).and_then(speech::state_of);
    let parts = speech::parts_of(&event.payload, event.text.as_deref())
        .unwrap_or_else(|_| vec![speech::text_part(Value::Object(event.payload.clone()).to_string())]);
    let message = speech::message_of(&event.id, parts);
    let outcome = match state {
        None | Some(TaskState::Completed) => complete(tx, place, &mut kept, message, now)?,
        Some(state) => rows::change(tx, place, &mut kept, Change::Status { state, message: Some(message) }, now)?,
    };
    // What came too late, or too large, changes nothing; it has been delivered as the event it is.
    if let Err(unchanged) = outcome {
        tracing::debug!(task = kept.task.id, event = event.id, %unchanged, "an answer changes nothing");
    }
    Ok(())
}

/// The task that an answer belongs to: what it says itself, else the oldest that the agent still owes the receiver.
fn meant(
    tx: &Tx<'_>,
    place: &Place,
    agent: &AgentId,
    receiver: &AgentId,
    event: &Event,
) -> Result<Option<Kept>, StoreError> {
    let own = |kept: &Kept| {
        kept.agent == agent.as_str()
            && kept.caller == receiver.as_str()
            && !machine::has_ended(kept.state())
            && !kept.direct
    };
    // What agents are told here comes by as well, and what has been seen before.
    if rows::task_of_event(tx, place, &event.id)?.is_some() {
        return Ok(None);
    }
    let inner = event.payload.get("a2a").and_then(Value::as_object);
    let named = inner.and_then(|a2a| a2a.get("task_id")).and_then(Value::as_str).map(str::to_owned);
    let answers = ["reply_to_id", "original_message_id", "in_reply_to", "response_to"];
    let answers = answers.iter().filter_map(|key| event.payload.get(*key)).filter_map(Value::as_str);
    let mut task = named;
    for answered in event.response_to.as_deref().into_iter().chain(answers) {
        if task.is_none() {
            task = rows::task_of_event(tx, place, answered)?;
        }
    }
    match task {
        Some(task) => Ok(rows::get(tx, place, &task)?.filter(own)),
        None => rows::oldest_open(tx, place, agent.as_str(), receiver.as_str()),
    }
}
