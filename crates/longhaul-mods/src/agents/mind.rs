//! An agent that a model speaks for: each message becomes an execution in the store, which is gone on with until the
//! message is answered, once.
//!
//! It owns the way from a message to its answer: enqueued under the event's id (a second delivery changes nothing), run
//! by a durable worker (a process that dies is taken over), answered with an id that follows from the event (the network
//! knows it again). Invariant: every message that is taken on gets one answer; where the model, the time or the budget
//! did not suffice, the answer says so and is marked as failed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use longhaul_agent::{After, Conversed, Ending, Limits, Means, Opening, Patience, ToolHost, ToolTurn, converse_with};
use longhaul_core::{Ambient, Digest, Scope, TaskScope, ThreadId, TimeMs, ToolCall};
use longhaul_durable::{
    END, Effect, Enqueue, Graph, GraphBuilder, GraphError, GraphState, Key, NodeContext, NodeError, NodePolicy,
    Resources, Retry, RunOptions, Runtime, START, StepError, Worker as QueueWorker,
};
use longhaul_memory::{Kind, Memory, Namespace, NewMemory, Query, Source};
use longhaul_model::ChatModel;
use longhaul_network::{Event, Refusal, Reply};
use longhaul_store::{Store, StoreError, tasks};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    contained::{Contained, Trouble},
    context::{Said, bounded, shortened},
    desk::Desk,
    file::AgentFile,
    heard::{Message, cut},
    link::{Link, may_pass},
    purse::TaskPurse,
    tools::{NetworkTools, prompt, told},
    worker::{AgentWorked, WorkSettings, Worker, WorkerError, work},
};

/// Times the model is asked again within one run before the agent says that it cannot answer.
const ATTEMPTS_MAX: u32 = 2;
/// Messages of a channel that are looked at for what was said before.
const BEFORE_MAX: u32 = 30;
/// Events that one message may cause by calls of tools.
const CALLS_MAX: u32 = 20;

/// What an agent of a file runs with.
#[derive(Clone)]
pub struct MindParts {
    /// Its connection.
    pub link: Arc<dyn Link>,
    /// Where executions are recorded, with the tables of `durable` and of this crate's agents.
    pub store: Store,
    /// Runs them.
    pub runtime: Runtime,
    /// On whose behalf.
    pub scope: Scope,
    /// Who answers.
    pub model: Arc<dyn ChatModel>,
    /// What it looks into and keeps, where its file says so.
    pub memory: Option<Memory>,
}

impl std::fmt::Debug for MindParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MindParts").field("link", &self.link).finish_non_exhaustive()
    }
}

/// One message on its way to an answer.
#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
pub struct Turn {
    /// What was said.
    pub message: Message,
    /// What the agent is told to do about it, beside its instruction.
    pub instruction: String,
    /// What it answered.
    pub said: Option<String>,
    /// Why it could not.
    pub failed: Option<String>,
}

/// An agent that a model speaks for.
pub struct Mind {
    file: AgentFile,
    parts: MindParts,
    task: TaskScope,
    graph: String,
    desk: Desk,
    tools: NetworkTools,
    /// What went wrong in runs that are being tried again.
    troubles: std::sync::Mutex<BTreeMap<String, (Trouble, TimeMs)>>,
}

impl std::fmt::Debug for Mind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mind").field("agent", &self.file.agent).finish_non_exhaustive()
    }
}

const MIND: Key<Mind> = Key::new("mind");

/// The name of an agent's own task and of its queue: letters, digits, `-_.` and bounded.
pub(crate) fn own_name(network: &str, agent: &str) -> String {
    let plain = |text: &str| -> String {
        text.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).take(40).collect()
    };
    let digest = Digest::of_parts([network.as_bytes(), agent.as_bytes()]).to_string();
    let hex = digest.rsplit(':').next().unwrap_or_default();
    format!("agent.{}.{}.{}", plain(network), plain(agent), &hex[..hex.len().min(8)])
}

/// The task under which everything an agent does is found.
pub(crate) async fn own_task(store: &Store, scope: &Scope, network: &str, agent: &str) -> Result<TaskScope, Refusal> {
    let name = own_name(network, agent);
    let thread: ThreadId = name.parse().map_err(|_| Refusal::invalid(format!("{name} is no name of a thread")))?;
    let (scope, title) = (scope.clone(), format!("agent {agent} in the network {network}"));
    let written = store.write(move |tx| {
        if let Some(task) = tasks::by_thread(tx, &scope, &thread)? {
            return Ok(task.scope);
        }
        let new = tasks::NewTask { thread, kind: "agent".into(), title, dir: None, model: None, data: json!({}) };
        Ok::<_, StoreError>(tasks::create(tx, &scope, None, new)?.scope)
    });
    Ok(written.await?)
}

/// The partition of memory that agents of a network share: the one of the network's shared memory. What is too long for a
/// name is the tenant's own partition.
#[must_use]
pub fn partition(network: &str) -> Namespace {
    crate::memory::partition(network, None).unwrap_or_default()
}

impl Mind {
    /// Prepares an agent.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn new(file: AgentFile, parts: MindParts) -> Result<Arc<Self>, Refusal> {
        let (network, agent) = (parts.link.network().to_owned(), file.agent.to_string());
        let task = own_task(&parts.store, &parts.scope, &network, &agent).await?;
        let desk = Desk::new(parts.link.clone(), file.caution, &parts.store.ambient().ids.body());
        let tools = NetworkTools::new(&desk, &file.mods);
        let graph = own_name(&network, &agent);
        Ok(Arc::new(Self { file, parts, task, graph, desk, tools, troubles: std::sync::Mutex::default() }))
    }

    /// The task under which its executions run.
    #[must_use]
    pub fn task(&self) -> &TaskScope {
        &self.task
    }

    /// Its file.
    #[must_use]
    pub fn file(&self) -> &AgentFile {
        &self.file
    }

    /// Works until `shutdown`: takes messages on and answers them, those of an earlier process too.
    ///
    /// # Errors
    /// When the agent's secret has been replaced, or its graph could not be built.
    pub async fn run(self: Arc<Self>, shutdown: CancellationToken) -> Result<AgentWorked, Refusal> {
        let graph = self.graph().map_err(|error| Refusal::invalid(error.to_string()))?;
        let options = RunOptions { resources: Resources::new().with_key(&MIND, self.clone()), ..RunOptions::default() };
        let queue = QueueWorker::new(self.parts.runtime.clone())
            .serve_with(graph, options)
            .concurrency(self.file.concurrency)
            .grace(Duration::from_secs(10));
        let ended = CancellationToken::new();
        // Ends with this future, however that ends.
        let mut answering = JoinSet::new();
        answering.spawn(queue.run(ended.clone()));
        let settings = WorkSettings { caution: self.file.caution, ..WorkSettings::default() };
        let ambient: Ambient = self.parts.store.ambient().clone();
        let listener: Arc<dyn Worker> = Arc::new(Listener(self.clone()));
        let heard = work(self.parts.link.clone(), listener, settings, ambient, shutdown).await;
        ended.cancel();
        match answering.join_next().await {
            None | Some(Ok(Ok(_))) => {}
            Some(Ok(Err(error))) => tracing::error!(%error, "an agent's queue ended"),
            Some(Err(error)) => tracing::error!(%error, "an agent's queue broke off"),
        }
        heard
    }

    /// Takes a message on; a second time changes nothing. Tells whether it is one to be answered.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn take_on(&self, message: &Message) -> Result<bool, WorkerError> {
        let Some(instruction) = self.file.reaction(message) else { return Ok(false) };
        let digest = Digest::of_parts([self.graph.as_bytes(), message.event.as_bytes()]).to_string();
        let hex = digest.rsplit(':').next().unwrap_or_default();
        let thread: ThreadId = format!("turn.{hex}")
            .parse()
            .map_err(|_| WorkerError::Failed("a turn's thread could not be named".to_owned()))?;
        let turn = Turn { message: message.clone(), instruction, ..Turn::default() };
        let how = Enqueue { dedupe_key: Some(format!("turn/{hex}")), attempts_max: 8, ..Enqueue::default() };
        let enqueued = self.parts.runtime.enqueue(&self.task, &self.graph, &thread, &turn, how).await;
        match enqueued {
            Ok(_) => Ok(true),
            Err(error) => Err(WorkerError::TryAgain(error.to_string())),
        }
    }

    /// The graph of one turn.
    ///
    /// # Errors
    /// Never for the graph as it is.
    pub fn graph(&self) -> Result<Graph<Turn>, GraphError> {
        let again = Retry { max_attempts: ATTEMPTS_MAX + 1, first_ms: 200, max_ms: 5_000, ..Retry::default() };
        GraphBuilder::<Turn>::new(&self.graph, 1)
            .node("answer", |ctx, turn| answer(ctx, turn))
            .requires("answer", &MIND)
            .policy("answer", NodePolicy::new().retry(again))
            .edge(START, "answer")
            .edge("answer", END)
            .build()
    }

    fn trouble(&self, execution: &str) -> (Trouble, TimeMs) {
        let now = self.parts.store.ambient().clock.now();
        let mut troubles = self.troubles.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        troubles.entry(execution.to_owned()).or_insert_with(|| (Trouble::default(), now)).clone()
    }

    fn forget(&self, execution: &str) {
        self.troubles.lock().unwrap_or_else(std::sync::PoisonError::into_inner).remove(execution);
    }

    /// What was said before the message, as far as it may be shown.
    async fn before(&self, desk: &Desk, message: &Message) -> Result<String, StepError> {
        let Some(channel) = &message.channel else { return Ok(String::new()) };
        let messages = match desk.channel_messages(channel, BEFORE_MAX).await {
            Ok(messages) => messages,
            Err(refusal) if may_pass(&refusal) => return Err(refusal.into()),
            // Without the messaging mod, or without the right to read: the message alone has to do.
            Err(_) => return Ok(String::new()),
        };
        let word = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let said = messages.iter().rev().filter(|said| word(said, "message_id") != message.id).map(|said| Said {
            by: word(said, "sender_id"),
            text: said.get("content").map(|content| word(content, "text")).unwrap_or_default(),
        });
        Ok(bounded(&said.filter(|said| !said.text.is_empty()).collect::<Vec<_>>(), self.file.context_tokens_max))
    }

    /// What is remembered of the like.
    async fn remembered(&self, message: &Message) -> Result<String, StepError> {
        let (Some(memory), false) = (&self.parts.memory, self.file.memory.recall.is_empty()) else {
            return Ok(String::new());
        };
        let query = Query {
            namespaces: vec![partition(self.parts.link.network())],
            collections: self.file.memory.recall.clone(),
            ..Query::new(message.text.chars().take(2_000).collect::<String>(), self.file.memory.hits_max)
        };
        let recall = memory.search(&self.parts.scope, &query).await?;
        let share = self.file.context_tokens_max / 2 / self.file.memory.hits_max.max(1) as u64;
        let lines = recall.hits.iter().map(|hit| {
            let by = hit.item.meta.get("agent").and_then(Value::as_str).unwrap_or("somebody");
            format!("- {by} ({}): {}", hit.item.collection, shortened(&hit.item.content, share))
        });
        Ok(lines.collect::<Vec<_>>().join("\n"))
    }

    /// What is kept of an answer.
    fn kept(&self, message: &Message, said: &str) -> Option<NewMemory> {
        let collection = self.file.memory.keep.as_ref()?;
        let content = cut(format!("Question: {}\nAnswer: {said}", shortened(&message.text, 1_000)));
        let mut memory = NewMemory::new(collection, Kind::Note, Source::Agent, content);
        memory.namespace = partition(self.parts.link.network());
        memory.meta.insert("agent".into(), self.file.agent.as_str().into());
        if let Some(channel) = &message.channel {
            memory.meta.insert("channel".into(), channel.clone().into());
        }
        memory.meta.insert("root".into(), message.root.clone().into());
        Some(memory)
    }
}

/// Hears messages for a mind.
struct Listener(Arc<Mind>);

impl Listener {
    async fn heard(&self, message: &Message) -> Result<(), WorkerError> {
        self.0.take_on(message).await.map(drop)
    }
}

#[async_trait]
impl Worker for Listener {
    async fn on_direct(&self, _: &Desk, message: &Message) -> Result<(), WorkerError> {
        self.heard(message).await
    }

    async fn on_channel_post(&self, _: &Desk, message: &Message) -> Result<(), WorkerError> {
        self.heard(message).await
    }

    async fn on_reply(&self, _: &Desk, message: &Message) -> Result<(), WorkerError> {
        self.heard(message).await
    }

    async fn on_reaction(&self, _: &Desk, message: &Message) -> Result<(), WorkerError> {
        self.heard(message).await
    }

    async fn on_file(&self, _: &Desk, message: &Message) -> Result<(), WorkerError> {
        self.heard(message).await
    }

    async fn on_event(&self, _: &Desk, _: &Event, message: &Message) -> Result<(), WorkerError> {
        self.heard(message).await
    }
}

/// One turn: what is known, the conversation with the model, the answer, what is kept of it.
async fn answer(ctx: NodeContext, turn: Arc<Turn>) -> Result<TurnUpdate, NodeError> {
    let mind = ctx.resources().get_key(&MIND)?;
    let message = turn.message.clone();
    let desk = mind.desk.about(&message);
    let before = ctx.step("said before", Effect::Pure, mind.before(&desk, &message)).await?;
    let remembered = ctx.step("remembered", Effect::Pure, mind.remembered(&message)).await?;
    let limit = mind.file.time_limit;
    // Of this process: an agent that was dead meanwhile has not used its time up.
    let (trouble, began) = mind.trouble(ctx.execution().as_str());
    let until = TimeMs(began.0.saturating_add(i64::try_from(limit.as_millis()).unwrap_or(i64::MAX)));
    let hands = Hands {
        mind: mind.clone(),
        desk: desk.clone(),
        until,
        gives_up: ctx.attempt() > ATTEMPTS_MAX,
        trouble: trouble.clone(),
        calls: std::sync::atomic::AtomicU32::new(0),
    };
    let clock = mind.parts.store.ambient().clock.clone();
    let model = Contained { model: mind.parts.model.as_ref(), clock: clock.as_ref(), until, limit, trouble };
    let purse = TaskPurse {
        store: mind.parts.store.clone(),
        scope: mind.parts.scope.clone(),
        network: mind.parts.link.network().to_owned(),
        agent: mind.file.agent.to_string(),
        task: message.root.clone(),
        budget: mind.file.budget,
    };
    let means =
        Means { model: &model, host: &hands, purse: Arc::new(purse), shelf: None, patience: Patience::default() };
    let opening = Opening {
        system: mind.file.instruction.clone(),
        prompt: prompt(&message, &turn.instruction, &before, &remembered),
        tools: mind.tools.specs(),
    };
    let limits = Limits {
        turns_max: mind.file.iterations_max,
        window_tokens: mind.parts.model.info().window_tokens,
        answer_tokens_max: mind.file.answer_tokens_max,
    };
    let conversed = converse_with(&ctx, &means, opening, limits).await?;
    let (said, failed) = outcome(conversed);
    let sent = reply(&ctx, &mind, &desk, &message, &said, failed.as_deref()).await?;
    mind.forget(ctx.execution().as_str());
    Ok(TurnUpdate::new().said(Some(said)).failed(failed.or(sent)))
}

/// What a conversation's end means for whoever waits for an answer.
fn outcome(conversed: Conversed) -> (String, Option<String>) {
    let Conversed { ending, text, .. } = conversed;
    match ending {
        Ending::Done => (text, None),
        // Asked to come to an end, it said what it had.
        Ending::HandOver { note, .. } if !note.trim().is_empty() => (note, None),
        Ending::HandOver { why, .. } => (format!("I could not finish this: {why}."), Some(why)),
        Ending::OutOfBudget { why, .. } => {
            (format!("I may not spend more on this: the limit of {why} is reached."), Some(format!("budget: {why}")))
        }
        Ending::CalledOff { why, .. } => (format!("I cannot answer this now: {why}."), Some(why)),
    }
}

/// Sends the answer and keeps what is kept of it; gives why it was not taken.
async fn reply(
    ctx: &NodeContext,
    mind: &Arc<Mind>,
    desk: &Desk,
    message: &Message,
    said: &str,
    failed: Option<&str>,
) -> Result<Option<String>, NodeError> {
    // A model that has answered with its tools may leave it at that.
    if said.trim().is_empty() {
        return Ok(None);
    }
    let id = desk.id_for("answer");
    let draft = desk.answer(id.clone(), message, said).map(|mut draft| {
        if let Some(why) = failed {
            draft.metadata.insert("failed".into(), why.into());
            draft.payload.insert("failed".into(), why.into());
        }
        draft
    });
    let sending = async {
        let sent = match draft {
            Ok(draft) => desk.send_draft(draft).await,
            Err(refusal) => Err(refusal),
        };
        match sent {
            Ok(Reply { success: true, .. }) => Ok(None),
            Ok(reply) => Ok(Some(reply.message)),
            Err(refusal) if may_pass(&refusal) => Err(StepError::from(refusal)),
            Err(refusal) => Ok(Some(refusal.message)),
        }
    };
    let kept = failed.is_none().then(|| mind.kept(message, said)).flatten();
    let prepared = kept.zip(mind.parts.memory.clone());
    let prepared = prepared.and_then(|(kept, memory)| Some((kept.prepare().ok()?, memory)));
    let scope = mind.parts.scope.clone();
    let commit = move |tx: &mut longhaul_store::Tx<'_>, refused: &Option<String>| -> Result<(), StoreError> {
        match (&prepared, refused) {
            (Some((kept, memory)), None) => Ok(memory.insert_prepared(tx, &scope, kept).map(drop)?),
            _ => Ok(()),
        }
    };
    ctx.step_tx("answer", Effect::Idempotent { key: id }, sending, commit).await
}

/// The model's hands in the network.
struct Hands {
    mind: Arc<Mind>,
    desk: Desk,
    until: TimeMs,
    gives_up: bool,
    trouble: Trouble,
    calls: std::sync::atomic::AtomicU32,
}

#[async_trait]
impl ToolHost for Hands {
    async fn call(&self, ctx: &NodeContext, call: &ToolCall) -> Result<ToolTurn, NodeError> {
        let name: String = call.name.chars().filter(|c| !c.is_control()).take(60).collect();
        let step = format!("tool:{name}");
        let key = ctx.step_id(&step).to_string();
        let calls = self.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        let id = self.desk.id_for(&key);
        let calling = async {
            if calls > CALLS_MAX {
                return Ok(format!("error: {CALLS_MAX} calls for one message are enough; answer now"));
            }
            let draft = match self.mind.tools.draft(&self.desk, call, id) {
                Ok(draft) => draft,
                Err(refusal) => return Ok(format!("error: {refusal}")),
            };
            match self.desk.send_draft(draft).await {
                Ok(reply) => Ok(told(&reply)),
                Err(refusal) if may_pass(&refusal) => Err(StepError::from(refusal)),
                Err(refusal) => Ok(format!("error: {refusal}")),
            }
        };
        let text = ctx.step(&step, Effect::Idempotent { key }, calling).await?;
        Ok(ToolTurn { text, after: After::Continue })
    }

    fn ends_with_text(&self) -> bool {
        true
    }

    async fn must_end(&self) -> Result<Option<String>, StepError> {
        let now = self.mind.parts.store.ambient().clock.now();
        if now >= self.until {
            let seconds = self.mind.file.time_limit.as_secs_f32();
            return Ok(Some(format!("the time limit of {seconds} s is over")));
        }
        Ok(self.gives_up.then(|| self.trouble.why().unwrap_or_else(|| "the model could not be asked".to_owned())))
    }
}
