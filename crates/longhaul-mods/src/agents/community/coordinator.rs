//! The coordinator: an execution for each question, which asks experts in parallel, waits, merges and answers.
//!
//! It owns the order of things: remember → choose → ask and wait → merge → answer and keep. A question is asked as a post
//! that names the expert in the expert's channel; the reply under it answers the execution's wait. Invariants: the wait is
//! open before the post is sent, so no reply comes too early; only the expert that was asked can answer it; an expert has
//! so much time and then the next best is asked; posts and answers have ids that follow from the question.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use longhaul_agent::{After, Conversed, Ending, Limits, Means, Opening, Patience, ToolHost, ToolTurn, converse_with};
use longhaul_core::{Digest, TaskScope, ThreadId, TimeMs, ToolCall};
use longhaul_durable::{
    Answer, END, Effect, Enqueue, Flow, Graph, GraphBuilder, GraphError, GraphState, Key, NodeContext, NodeError,
    NodePolicy, Resources, Retry, RunOptions, START, StepError, Wait, Worker as QueueWorker,
};
use longhaul_memory::Memory;
use longhaul_network::{Draft, Refusal};
use longhaul_store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    memory::{self, Outcome, Recalled},
    routing::{Choice, Expert, route},
};
use crate::agents::{
    breaker::{self, BreakerSettings},
    contained::{Contained, Trouble},
    context::shortened,
    desk::Desk,
    file::AgentFile,
    heard::{Message, Way, cut},
    link::may_pass,
    mind::{MindParts, own_name, own_task, partition},
    purse::TaskPurse,
    worker::{AgentWorked, WorkSettings, Worker, WorkerError, work},
};

/// Times the model is asked again before the answers are put side by side without it.
const ATTEMPTS_MAX: u32 = 2;
/// Experts that are asked for one part, the stand-ins included.
const TRIES_MAX: usize = 3;
/// Characters of a reason that the answer shows.
const WHY_CHARS_MAX: usize = 160;
/// The event that answers a wait.
const REPLY: &str = "community.reply";

/// How a coordinator works.
#[derive(Debug, Clone)]
pub struct CoordinatorSettings {
    /// Name, instruction, limits.
    pub file: AgentFile,
    /// Channels where it is asked.
    pub channels: Vec<String>,
    /// Whom it can ask.
    pub experts: Vec<Expert>,
    /// How long an expert may take.
    pub expert_limit: Duration,
}

/// What an expert said, or why nobody did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ExpertAnswer {
    /// Who was asked.
    pub agent: String,
    /// What it answered; empty when it failed.
    pub text: String,
    /// Why it did not answer.
    pub failed: Option<String>,
    /// For whom it stood in.
    pub instead_of: Option<String>,
}

impl ExpertAnswer {
    /// Why it did not answer, or nothing.
    #[must_use]
    pub fn why(&self) -> String {
        self.failed.clone().unwrap_or_default()
    }
}

/// One question on its way to an answer.
#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
pub struct Inquiry {
    /// What was asked.
    pub question: Message,
    /// Who was chosen, and why.
    pub plan: Vec<Choice>,
    /// Who stands in.
    pub others: Vec<Choice>,
    /// What was known already.
    pub recalled: Option<Recalled>,
    /// What experts answered, failures included.
    #[append]
    pub answers: Vec<ExpertAnswer>,
    /// The answer.
    pub merged: Option<String>,
}

/// A coordinator.
pub struct Coordinator {
    settings: CoordinatorSettings,
    parts: MindParts,
    memory: Memory,
    task: TaskScope,
    graph: String,
    desk: Desk,
    troubles: Mutex<BTreeMap<String, (Trouble, TimeMs)>>,
}

impl std::fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coordinator").field("agent", &self.settings.file.agent).finish_non_exhaustive()
    }
}

const COORDINATOR: Key<Coordinator> = Key::new("coordinator");

impl Coordinator {
    /// Prepares a coordinator; without a memory in `parts` it uses one that is searched by words.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn new(settings: CoordinatorSettings, parts: MindParts) -> Result<Arc<Self>, Refusal> {
        let (network, agent) = (parts.link.network().to_owned(), settings.file.agent.to_string());
        let task = own_task(&parts.store, &parts.scope, &network, &agent).await?;
        let desk = Desk::new(parts.link.clone(), settings.file.caution, &parts.store.ambient().ids.body());
        let memory = parts.memory.clone().unwrap_or_else(|| Memory::new(parts.store.clone(), None));
        let graph = own_name(&network, &agent);
        Ok(Arc::new(Self { settings, parts, memory, task, graph, desk, troubles: Mutex::default() }))
    }

    /// Works until `shutdown`: takes questions on and answers them, those of an earlier process too.
    ///
    /// # Errors
    /// When the agent's secret has been replaced, or its graph could not be built.
    pub async fn run(self: Arc<Self>, shutdown: CancellationToken) -> Result<AgentWorked, Refusal> {
        let graph = self.graph().map_err(|error| Refusal::invalid(error.to_string()))?;
        let resources = Resources::new().with_key(&COORDINATOR, self.clone());
        let queue = QueueWorker::new(self.parts.runtime.clone())
            .serve_with(graph, RunOptions { resources, ..RunOptions::default() })
            .concurrency(self.settings.file.concurrency)
            .grace(Duration::from_secs(10));
        let ended = CancellationToken::new();
        // Ends with this future, however that ends.
        let mut answering = JoinSet::new();
        answering.spawn(queue.run(ended.clone()));
        let settings = WorkSettings { caution: self.settings.file.caution, ..WorkSettings::default() };
        let ambient = self.parts.store.ambient().clone();
        let heard = work(self.parts.link.clone(), Arc::new(Listener(self.clone())), settings, ambient, shutdown).await;
        ended.cancel();
        match answering.join_next().await {
            None | Some(Ok(Ok(_))) => {}
            Some(Ok(Err(error))) => tracing::error!(%error, "a coordinator's queue ended"),
            Some(Err(error)) => tracing::error!(%error, "a coordinator's queue broke off"),
        }
        heard
    }

    /// The graph of one question.
    ///
    /// # Errors
    /// Never for the graph as it is.
    pub fn graph(&self) -> Result<Graph<Inquiry>, GraphError> {
        let again = Retry { max_attempts: ATTEMPTS_MAX + 1, first_ms: 200, max_ms: 5_000, ..Retry::default() };
        GraphBuilder::<Inquiry>::new(&self.graph, 1)
            .node("choose", |ctx, inquiry| choose(ctx, inquiry))
            .node_with_input("consult", |ctx, inquiry, choice: Choice| consult(ctx, inquiry, choice))
            .node("merge", |ctx, inquiry| merge(ctx, inquiry))
            .node("answer", |ctx, inquiry| answer(ctx, inquiry))
            .requires("choose", &COORDINATOR)
            .requires("consult", &COORDINATOR)
            .requires("merge", &COORDINATOR)
            .requires("answer", &COORDINATOR)
            .policy("merge", NodePolicy::new().retry(again))
            .edge(START, "choose")
            .goto("choose", &["consult", "answer"])
            .edge("consult", "merge")
            .edge("merge", "answer")
            .edge("answer", END)
            .build()
    }

    /// Takes a question on; a second time changes nothing.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn take_on(&self, message: &Message) -> Result<(), WorkerError> {
        if message.text.trim().is_empty() {
            return Ok(());
        }
        let digest = Digest::of_parts([self.graph.as_bytes(), message.event.as_bytes()]).to_string();
        let hex = digest.rsplit(':').next().unwrap_or_default();
        let thread: ThreadId = format!("inquiry.{hex}")
            .parse()
            .map_err(|_| WorkerError::Failed("an inquiry's thread could not be named".to_owned()))?;
        let inquiry = Inquiry { question: message.clone(), ..Inquiry::default() };
        let how = Enqueue { dedupe_key: Some(format!("inquiry/{hex}")), attempts_max: 8, ..Enqueue::default() };
        let enqueued = self.parts.runtime.enqueue(&self.task, &self.graph, &thread, &inquiry, how).await;
        enqueued.map(drop).map_err(|error| WorkerError::TryAgain(error.to_string()))
    }

    /// A reply to one of its own questions goes to the execution that waits for it; tells whether it was one.
    async fn deliver(&self, message: &Message) -> Result<bool, WorkerError> {
        let Some(post) = &message.reply_to else { return Ok(false) };
        let value = json!({"text": message.text, "failed": message.failed});
        let correlation = awaited(post, &message.from);
        let event = format!("{}/{}", self.graph, message.event);
        let delivered = self.parts.runtime.deliver(&self.parts.scope, REPLY, &correlation, value, &event).await;
        let delivered = delivered.map_err(|error| WorkerError::TryAgain(error.to_string()))?;
        Ok(delivered.repeated || !delivered.answered.is_empty())
    }

    fn expert(&self, name: &str) -> Option<&Expert> {
        self.settings.experts.iter().find(|expert| expert.agent.as_str() == name)
    }

    fn trouble(&self, execution: &str) -> (Trouble, TimeMs) {
        let now = self.parts.store.ambient().clock.now();
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        troubles.entry(execution.to_owned()).or_insert_with(|| (Trouble::default(), now)).clone()
    }

    /// Whether the expert may be asked now, and notes that it is.
    async fn may_ask(&self, expert: &str) -> Result<Option<String>, StepError> {
        let (scope, network, agent) = self.row(expert);
        let settings = self.settings.file.breaker;
        let written = self.parts.store.write(move |tx| {
            let now = tx.now();
            let state = breaker::read(tx, &scope, &network, &agent)?;
            if !state.allows(now) {
                return Ok(Some(format!("it rests after {} failures ({})", state.failures, state.why)));
            }
            breaker::write(tx, &scope, &network, &agent, &state.asked(settings, now))?;
            Ok::<_, StoreError>(None)
        });
        Ok(written.await?)
    }

    fn row(&self, expert: &str) -> (longhaul_core::Scope, String, String) {
        (self.parts.scope.clone(), self.parts.link.network().to_owned(), expert.to_owned())
    }

    /// The question as a post that names the expert.
    fn ask(&self, desk: &Desk, id: String, expert: &Expert, question: &Message) -> Result<Draft, Refusal> {
        let text = format!("@{} {}", expert.agent, question.text);
        desk.posting(id, &expert.channel, &text, Some(&expert.agent))
    }

    /// Sends something whose being refused for good is an answer.
    async fn say(&self, desk: &Desk, draft: Result<Draft, Refusal>) -> Result<Option<String>, StepError> {
        let sent = match draft {
            Ok(draft) => desk.send_draft(draft).await,
            Err(refusal) => Err(refusal),
        };
        match sent {
            Ok(reply) if reply.success => Ok(None),
            Ok(reply) => Ok(Some(reply.message)),
            Err(refusal) if may_pass(&refusal) => Err(refusal.into()),
            Err(refusal) => Ok(Some(refusal.message)),
        }
    }
}

/// What a wait for an expert's reply is called.
fn awaited(post: &str, expert: &str) -> String {
    format!("{post}/{expert}")
}

/// Hears questions and replies for a coordinator.
struct Listener(Arc<Coordinator>);

#[async_trait]
impl Worker for Listener {
    async fn on_direct(&self, _: &Desk, message: &Message) -> Result<(), WorkerError> {
        if self.0.expert(&message.from).is_some() {
            // An expert that cannot post in its channel answers directly.
            return self.0.deliver(message).await.map(drop);
        }
        self.0.take_on(message).await
    }

    async fn on_channel_post(&self, _: &Desk, message: &Message) -> Result<(), WorkerError> {
        let here = message.channel.as_ref().is_some_and(|channel| self.0.settings.channels.contains(channel));
        // What names somebody else is for them.
        let meant = message.way == Way::Mention || (here && message.hops == 0 && !message.names_somebody());
        if meant && self.0.expert(&message.from).is_none() {
            return self.0.take_on(message).await;
        }
        Ok(())
    }

    async fn on_reply(&self, _: &Desk, message: &Message) -> Result<(), WorkerError> {
        self.0.deliver(message).await.map(drop)
    }
}

/// What is known, and who is asked.
async fn choose(ctx: NodeContext, inquiry: Arc<Inquiry>) -> Result<Flow<InquiryUpdate>, NodeError> {
    let coordinator = ctx.resources().get_key(&COORDINATOR)?;
    let question = inquiry.question.clone();
    let desk = coordinator.desk.about(&question);
    let space = partition(coordinator.parts.link.network());
    let (recalled, past): (Option<Recalled>, Vec<Outcome>) = {
        let (coordinator, text) = (coordinator.clone(), question.text.clone());
        ctx.step("remember", Effect::Pure, async move {
            Ok(memory::recall(&coordinator.memory, &coordinator.parts.scope, &space, &text).await?)
        })
        .await?
    };
    if recalled.is_some() {
        return Ok(Flow::update(InquiryUpdate::new().recalled(recalled)).goto("answer"));
    }
    let (plan, others) = route(&question.text, &coordinator.settings.experts, &past);
    let named: Vec<String> =
        plan.iter()
            .map(|choice| {
                if choice.why.is_empty() { choice.agent.clone() } else { format!("{} ({})", choice.agent, choice.why) }
            })
            .collect();
    if plan.is_empty() {
        return Ok(Flow::nothing().goto("answer"));
    }
    let id = desk.id_for("whom");
    let draft = desk.answer(id.clone(), &question, &format!("I ask {}.", named.join(", "))).map(|mut draft| {
        // Not the answer yet, for whoever waits for one.
        draft.metadata.insert("interim".into(), true.into());
        draft
    });
    let _: Option<String> = ctx.step("say whom", Effect::Idempotent { key: id }, coordinator.say(&desk, draft)).await?;
    let flow = Flow::update(InquiryUpdate::new().plan(plan.clone()).others(others));
    Ok(plan.iter().fold(flow, |flow, choice| flow.send("consult", choice)))
}

/// One part: the expert, and whoever stands in for it.
async fn consult(ctx: NodeContext, inquiry: Arc<Inquiry>, choice: Choice) -> Result<InquiryUpdate, NodeError> {
    let coordinator = ctx.resources().get_key(&COORDINATOR)?;
    let desk = coordinator.desk.about(&inquiry.question);
    // Those who are asked anyhow do not stand in: their answers are merged as they are.
    let candidates = std::iter::once(&choice).chain(&inquiry.others).take(TRIES_MAX);
    let mut answers = Vec::new();
    for candidate in candidates {
        let Some(expert) = coordinator.expert(&candidate.agent).cloned() else { continue };
        let instead_of = (candidate.agent != choice.agent).then(|| choice.agent.clone());
        let (text, failed) = match ask_one(&ctx, &coordinator, &desk, &inquiry.question, &expert, &choice.agent).await?
        {
            Ok(text) => (text, None),
            Err(why) => (String::new(), Some(why)),
        };
        let done = failed.is_none();
        answers.push(ExpertAnswer { agent: candidate.agent.clone(), text, failed, instead_of });
        if done {
            break;
        }
    }
    Ok(InquiryUpdate::new().answers(answers))
}

/// Asks one expert and waits for its reply.
async fn ask_one(
    ctx: &NodeContext,
    coordinator: &Arc<Coordinator>,
    desk: &Desk,
    question: &Message,
    expert: &Expert,
    part: &str,
) -> Result<Result<String, String>, NodeError> {
    let name = expert.agent.to_string();
    let resting: Option<String> =
        ctx.step(&format!("may ask {}", short(&name)), Effect::Pure, coordinator.may_ask(&name)).await?;
    if let Some(why) = resting {
        return Ok(Err(why));
    }
    let post = desk.id_for(&format!("ask {part} {name}"));
    let limit_ms = u64::try_from(coordinator.settings.expert_limit.as_millis()).unwrap_or(u64::MAX);
    let wait = Wait::event(REPLY).correlation(&awaited(&post, &name)).deadline_ms(limit_ms);
    let asking = {
        let (coordinator, desk, expert, question, post) =
            (coordinator.clone(), desk.clone(), expert.clone(), question.clone(), post.clone());
        move |_| async move {
            let draft = coordinator.ask(&desk, post.clone(), &expert, &question);
            let Some(why) = coordinator.say(&desk, draft).await? else { return Ok(()) };
            let value = json!({"text": "", "failed": why});
            let correlation = awaited(&post, expert.agent.as_str());
            let runtime = &coordinator.parts.runtime;
            runtime.deliver(&coordinator.parts.scope, REPLY, &correlation, value, &format!("{post}/refused")).await?;
            Ok(())
        }
    };
    let replied: Answer<Value> = ctx.pause_for_webhook(wait, asking).await?;
    let result = match replied {
        Answer::Expired { .. } => {
            Err(format!("it did not answer within {} s", coordinator.settings.expert_limit.as_secs_f32()))
        }
        Answer::Given { value, .. } => {
            let word = |key: &str| value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
            match (word("failed"), word("text")) {
                (Some(why), _) => Err(why.to_owned()),
                (None, Some(text)) => Ok(text.to_owned()),
                (None, None) => Err("its answer was empty".to_owned()),
            }
        }
    };
    note(ctx, coordinator, &name, &result).await?;
    Ok(result)
}

/// Notes how it went.
async fn note(
    ctx: &NodeContext,
    coordinator: &Arc<Coordinator>,
    expert: &str,
    result: &Result<String, String>,
) -> Result<(), NodeError> {
    let (scope, network, agent) = coordinator.row(expert);
    let settings: BreakerSettings = coordinator.settings.file.breaker;
    let failed = result.as_ref().err().cloned();
    let commit = move |tx: &mut longhaul_store::Tx<'_>, (): &()| -> Result<(), StoreError> {
        let now = tx.now();
        let state = breaker::read(tx, &scope, &network, &agent)?;
        let state = match &failed {
            Some(why) => state.failed(settings, now, why),
            None => state.succeeded(),
        };
        breaker::write(tx, &scope, &network, &agent, &state)
    };
    ctx.step_tx("note", Effect::Pure, async { Ok(()) }, commit).await
}

fn short(name: &str) -> String {
    name.chars().take(80).collect()
}

/// Makes one answer of several; by the model, or side by side when that fails.
async fn merge(ctx: NodeContext, inquiry: Arc<Inquiry>) -> Result<InquiryUpdate, NodeError> {
    let coordinator = ctx.resources().get_key(&COORDINATOR)?;
    let good: Vec<&ExpertAnswer> = inquiry.answers.iter().filter(|answer| answer.failed.is_none()).collect();
    if let [one] = good.as_slice() {
        return Ok(InquiryUpdate::new().merged(Some(one.text.clone())));
    }
    if good.is_empty() {
        return Ok(InquiryUpdate::new());
    }
    let file = &coordinator.settings.file;
    let share = file.context_tokens_max / good.len() as u64;
    let parts = good.iter().map(|answer| format!("## {} says\n\n{}\n", answer.agent, shortened(&answer.text, share)));
    let prompt = format!(
        "# Question\n\n{}\n\n{}\n## What to do\n\nMerge what the experts say into one answer to the question. Keep who \
         said what where they differ. Add nothing of your own.\n",
        inquiry.question.text,
        parts.collect::<Vec<_>>().join("\n")
    );
    let (trouble, began) = coordinator.trouble(ctx.execution().as_str());
    let limit = file.time_limit;
    let until = TimeMs(began.0.saturating_add(i64::try_from(limit.as_millis()).unwrap_or(i64::MAX)));
    let clock = coordinator.parts.store.ambient().clock.clone();
    let host =
        Merging { until, clock: clock.clone(), gives_up: ctx.attempt() > ATTEMPTS_MAX, trouble: trouble.clone() };
    let model = Contained { model: coordinator.parts.model.as_ref(), clock: clock.as_ref(), until, limit, trouble };
    let purse = TaskPurse {
        store: coordinator.parts.store.clone(),
        scope: coordinator.parts.scope.clone(),
        network: coordinator.parts.link.network().to_owned(),
        agent: file.agent.to_string(),
        task: inquiry.question.root.clone(),
        budget: file.budget,
    };
    let means =
        Means { model: &model, host: &host, purse: Arc::new(purse), shelf: None, patience: Patience::default() };
    let opening = Opening { system: file.instruction.clone(), prompt, tools: Vec::new() };
    let window_tokens = coordinator.parts.model.info().window_tokens;
    let limits = Limits { turns_max: 3, window_tokens, answer_tokens_max: file.answer_tokens_max };
    let Conversed { ending, text, .. } = converse_with(&ctx, &means, opening, limits).await?;
    coordinator.troubles.lock().unwrap_or_else(PoisonError::into_inner).remove(ctx.execution().as_str());
    let merged = match ending {
        Ending::Done if !text.trim().is_empty() => text,
        Ending::HandOver { note, .. } if !note.trim().is_empty() => note,
        Ending::Done | Ending::HandOver { .. } => side_by_side(&good, "the model said nothing"),
        Ending::OutOfBudget { why, .. } | Ending::CalledOff { why, .. } => side_by_side(&good, &why),
    };
    Ok(InquiryUpdate::new().merged(Some(cut(merged))))
}

fn side_by_side(answers: &[&ExpertAnswer], why: &str) -> String {
    let parts = answers.iter().map(|answer| format!("{}: {}", answer.agent, answer.text));
    format!("(not merged: {why})\n\n{}", parts.collect::<Vec<_>>().join("\n\n"))
}

/// Ends the merging in time.
struct Merging {
    until: TimeMs,
    clock: Arc<dyn longhaul_core::Clock>,
    gives_up: bool,
    trouble: Trouble,
}

#[async_trait]
impl ToolHost for Merging {
    async fn call(&self, _: &NodeContext, call: &ToolCall) -> Result<ToolTurn, NodeError> {
        let name: String = call.name.chars().take(60).collect();
        Ok(ToolTurn { text: format!("error: there is no tool `{name}`; answer in words"), after: After::Continue })
    }

    fn ends_with_text(&self) -> bool {
        true
    }

    async fn must_end(&self) -> Result<Option<String>, StepError> {
        if self.clock.now() >= self.until {
            return Ok(Some("the time limit is over".to_owned()));
        }
        Ok(self.gives_up.then(|| self.trouble.why().unwrap_or_else(|| "the model could not be asked".to_owned())))
    }
}

/// Keeps what is to be remembered and says the answer, both once.
async fn answer(ctx: NodeContext, inquiry: Arc<Inquiry>) -> Result<InquiryUpdate, NodeError> {
    let coordinator = ctx.resources().get_key(&COORDINATOR)?;
    let question = &inquiry.question;
    let desk = coordinator.desk.about(question);
    let text = worded(&inquiry);
    let id = desk.id_for("answer");
    let failed = inquiry.recalled.is_none() && inquiry.merged.is_none();
    let draft = desk.answer(id.clone(), question, &text).map(|mut draft| {
        if failed {
            draft.metadata.insert("failed".into(), "no expert answered".into());
            draft.payload.insert("failed".into(), "no expert answered".into());
        }
        if inquiry.recalled.is_some() {
            draft.metadata.insert("from_memory".into(), true.into());
            draft.payload.insert("from_memory".into(), true.into());
        }
        draft
    });
    let kept = match &inquiry.recalled {
        Some(_) => Vec::new(),
        None => {
            let space = partition(coordinator.parts.link.network());
            let merged = inquiry.merged.as_deref().unwrap_or_default();
            memory::kept(&space, question, &inquiry.answers, merged, question.admitted_at())
        }
    };
    // A memory that may not be is left out; the answer is not.
    let kept: Vec<_> = kept.into_iter().filter_map(|memory| memory.prepare().ok()).collect();
    let (memory, scope) = (coordinator.memory.clone(), coordinator.parts.scope.clone());
    let commit = move |tx: &mut longhaul_store::Tx<'_>, (): &()| -> Result<(), StoreError> {
        Ok(memory.insert_all(tx, &scope, &kept).map(drop)?)
    };
    // First, so that whoever has heard the answer finds it.
    ctx.step_tx("keep", Effect::Pure, async { Ok(()) }, commit).await?;
    let _: Option<String> = ctx.step("answer", Effect::Idempotent { key: id }, coordinator.say(&desk, draft)).await?;
    Ok(InquiryUpdate::new().merged(Some(text)))
}

/// A reason as people read it in passing.
fn in_short(why: &str) -> String {
    let short: String = why.chars().take(WHY_CHARS_MAX).collect();
    if short.len() < why.len() { format!("{short}…") } else { short }
}

/// What is said in the end.
fn worded(inquiry: &Inquiry) -> String {
    if let Some(recalled) = &inquiry.recalled {
        return format!(
            "From memory: {} asked “{}” before, and {} answered.\n\n{}",
            recalled.asked_by, recalled.question, recalled.experts, recalled.answer
        );
    }
    let failures = inquiry.answers.iter().filter_map(|answer| Some((answer.agent.as_str(), answer.failed.as_ref()?)));
    let failures: Vec<String> = failures.map(|(agent, why)| format!("{agent}: {}", in_short(why))).collect();
    match (&inquiry.merged, failures.is_empty()) {
        (Some(merged), true) => merged.clone(),
        (Some(merged), false) => format!("{merged}\n\n(not answered: {})", failures.join("; ")),
        (None, true) => "There is no expert to ask.".to_owned(),
        (None, false) => format!("Nobody could answer this: {}.", failures.join("; ")),
    }
}
