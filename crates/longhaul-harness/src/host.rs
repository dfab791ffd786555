//! Carries out the tool calls of a session: each is a recorded step, the folder is guarded around it.

use async_trait::async_trait;
use longhaul_agent::{After, ToolHost, ToolTurn};
use longhaul_core::{EventDraft, FeatureId, ToolCall};
use longhaul_durable::{NodeContext, NodeError, StepError};
use longhaul_memory::{
    Kind, MemoryError, NewMemory, Prepared, Query, Recall, Source,
    actions::Action,
    user::{By, Gate, Place, UserMemory, gate},
};
use longhaul_store::Tx;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    application::explain,
    claim::{Accepted, Claims},
    deeds,
    permission::{self, Permit},
    planning::Size,
    project::Brief,
    projections::Undone,
    sitting::{Sitting, lock},
    tool_set::{
        CLAIM_DONE, DESCRIBE_PROJECT, HAND_OVER, MEMORY_ADD, MEMORY_SEARCH, PLAN_FEATURES, PROPOSE_CHECK_CHANGE,
        READ_REF,
    },
    work_tree::TreeId,
};

const SUMMARY_CHARS_MAX: usize = 100;
const NOTE_CHARS_MAX: usize = 4_000;
const SEARCH_RESULTS: usize = 5;
const RECALLED_CHARS_MAX: usize = 300;

/// The session's tool host.
pub(crate) struct Host<'s> {
    pub(crate) sitting: &'s Sitting<'s>,
    pub(crate) claims: Claims,
}

/// What a tool of the registry left behind.
#[derive(Debug, Serialize, Deserialize)]
struct ToolRecord {
    text: String,
    is_error: bool,
    /// The folder afterwards, if the tool may have changed it.
    tree: Option<TreeId>,
    /// Guarded files that were changed and put back: name and what was done.
    undone: Vec<(String, String)>,
    /// What it did, for memory.
    #[serde(default)]
    deeds: Vec<Action>,
    elapsed_ms: u64,
}

impl ToolRecord {
    /// Nothing was done.
    fn refused(text: String) -> Self {
        Self { text, is_error: true, tree: None, undone: Vec::new(), deeds: Vec::new(), elapsed_ms: 0 }
    }
}

#[async_trait]
impl ToolHost for Host<'_> {
    async fn call(&self, ctx: &NodeContext, call: &ToolCall) -> Result<ToolTurn, NodeError> {
        let own = [
            CLAIM_DONE,
            DESCRIBE_PROJECT,
            HAND_OVER,
            MEMORY_ADD,
            MEMORY_SEARCH,
            PLAN_FEATURES,
            PROPOSE_CHECK_CHANGE,
            READ_REF,
        ];
        if !own.contains(&call.name.as_str()) {
            return self.judged_tool(ctx, call).await;
        }
        let arguments: Value = match serde_json::from_str(&call.arguments) {
            Ok(arguments @ Value::Object(_)) => arguments,
            Ok(_) => return Ok(told(format!("error: the arguments of {} must be a JSON object", call.name))),
            Err(e) => {
                let smaller = if call.name == PLAN_FEATURES { ", fewer features a call" } else { "" };
                return Ok(told(format!(
                    "error: the arguments of {} are not JSON ({e}); write them again{smaller}",
                    call.name
                )));
            }
        };
        match call.name.as_str() {
            CLAIM_DONE => self.claim(&arguments).await,
            HAND_OVER => Ok(hand_over(&arguments)),
            MEMORY_SEARCH => self.memory_search(&arguments).await,
            MEMORY_ADD => self.memory_add(&arguments).await,
            DESCRIBE_PROJECT => self.describe_project(&arguments).await,
            READ_REF => self.read_ref(&arguments).await,
            PROPOSE_CHECK_CHANGE => self.propose_check_change(&arguments).await,
            _ => self.plan_features(&arguments).await,
        }
    }

    async fn news(&self) -> Result<Vec<String>, StepError> {
        let s = self.sitting;
        Ok(s.harness.people.words(&s.owner(), s.session).await?)
    }

    async fn must_end(&self) -> Result<Option<String>, StepError> {
        let s = self.sitting;
        Ok(s.harness.people.wants_the_folder(&s.owner()).await?)
    }

    fn folder(&self) -> Option<String> {
        self.sitting.tree().map(|tree| tree.as_str().to_owned())
    }
}

impl Host<'_> {
    pub(crate) fn accepted(&self) -> Option<Accepted> {
        lock(&self.claims.accepted).clone()
    }

    /// A tool of the registry, once the policy has judged the call.
    async fn judged_tool(&self, ctx: &NodeContext, call: &ToolCall) -> Result<ToolTurn, NodeError> {
        let s = self.sitting;
        let policy = &s.harness.settings.policy;
        let permit = s.permissions.permit(ctx, policy, &s.registry, s.session, call).await?;
        let judged = match &permit {
            Permit::Yes { asked } => asked.as_ref().map(|why| permission::event(&call.name, "approved", why)),
            Permit::No { why, .. } => Some(permission::event(&call.name, "refused", why)),
        };
        let turn = match permit {
            Permit::Yes { .. } => self.registry_tool(call, judged, self.run_registry_tool(call)).await?,
            Permit::No { text, .. } => {
                self.registry_tool(call, judged, async { Ok(ToolRecord::refused(text)) }).await?
            }
        };
        if let Some(source) = s.registry.standing(&call.name).answers_from {
            s.permissions.has_read(source);
        }
        Ok(turn)
    }

    async fn registry_tool(
        &self,
        call: &ToolCall,
        judged: Option<EventDraft>,
        work: impl Future<Output = Result<ToolRecord, StepError>> + Send,
    ) -> Result<ToolTurn, NodeError> {
        let s = self.sitting;
        let (tool, summary) = (call.name.clone(), summary_of(call));
        let events = move |r: &ToolRecord| {
            let mut events: Vec<EventDraft> = judged.into_iter().collect();
            events.push(EventDraft::business(
                "tool.called",
                json!({"tool": tool, "summary": summary, "is_error": r.is_error, "ms": r.elapsed_ms}),
            ));
            events.extend(r.undone.iter().map(|(path, how)| tamper_event(path, how)));
            events
        };
        let (memory, owner) = (s.harness.memory.clone(), s.owner());
        let rows = move |tx: &mut Tx<'_>, r: &ToolRecord| deeds::capture(tx, &memory, &owner, &r.deeds);
        let step = format!("tool:{}", call.name);
        let record: ToolRecord = s.record_with(&step, work, events, rows).await?;
        if let Some(tree) = record.tree {
            s.left(tree);
        }
        Ok(told(record.text))
    }

    async fn run_registry_tool(&self, call: &ToolCall) -> Result<ToolRecord, StepError> {
        let s = self.sitting;
        s.settle().await?;
        let needs_app = matches!(call.name.as_str(), "shell" | "browser");
        let tree = if needs_app { Some(s.snapshot().await?) } else { None };
        let started = tokio::time::Instant::now();
        let mut not_running = None;
        let has_app = s.project().profile.has_app();
        if let Some(tree) = tree.as_ref().filter(|_| has_app) {
            not_running = s.trial.ensure(tree).await.failure;
        }
        let before = tree.or_else(|| s.tree());
        let output = s.registry.call(call).await;
        let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut text = output.text;
        if let Some(why) = not_running {
            text.push_str(&format!("\nNOTICE: the application does not run: {why}"));
        }
        let changes = s.registry.changes_work_tree(&call.name);
        let mut undone = s.take_untold();
        if changes {
            undone.extend(s.restore_guarded()?);
        }
        for u in &undone {
            text.push_str(&notice(u));
        }
        let tree = if changes { Some(s.snapshot().await?) } else { None };
        let both = (before.as_ref(), tree.as_ref());
        let task = s.owner().task;
        let deeds = deeds::between(&s.work_tree, call, s.session, &task, both, output.is_error).await;
        Ok(ToolRecord {
            deeds: deeds.map_err(StepError::from)?,
            text,
            is_error: output.is_error,
            tree,
            undone: undone.into_iter().map(|u| (u.path, u.how)).collect(),
            elapsed_ms,
        })
    }

    async fn memory_search(&self, arguments: &Value) -> Result<ToolTurn, NodeError> {
        let Some(text) = text_argument(arguments, "query") else { return Ok(missing("query")) };
        let k = arguments.get("k").and_then(Value::as_u64).map_or(SEARCH_RESULTS, |k| k.clamp(1, 20) as usize);
        let s = self.sitting;
        let query = Query { task: Some(s.owner().task), ..Query::new(text.clone(), k) };
        let recall = s.record("tool:memory_search", recall(s, query), recalled_events(text)).await?;
        let lines: Vec<String> =
            recall.hits.iter().map(|hit| format!("({:.2}) {}", hit.score, hit.item.content)).collect();
        Ok(told(if lines.is_empty() { "found nothing".to_owned() } else { lines.join("\n") }))
    }

    async fn memory_add(&self, arguments: &Value) -> Result<ToolTurn, NodeError> {
        let Some(content) = text_argument(arguments, "content") else { return Ok(missing("content")) };
        if content.chars().count() > NOTE_CHARS_MAX {
            return Ok(told(format!("error: a note has at most {NOTE_CHARS_MAX} characters; say it shorter")));
        }
        let s = self.sitting;
        let kind = match text_argument(arguments, "kind").unwrap_or_else(|| "note".to_owned()).parse() {
            Ok(kind) => kind,
            Err(e) => return Ok(told(format!("error: {}", explain(&e)))),
        };
        let summary: String = content.chars().take(SUMMARY_CHARS_MAX).collect();
        let note = match s.new_memory(kind, Source::Agent, None, content) {
            Ok(note) => note,
            Err(e) => return Ok(told(format!("error: {}", explain(&e)))),
        };
        let scope = s.owner().scope;
        let memory = UserMemory::new(s.harness.memory.clone());
        // What is to last is reviewed by a person first; what happened is written at once (M16).
        let waits = matches!(gate(note.memory().kind, Source::Agent, Place::Own), Gate::Propose(_));
        let (looked_at, user) = (memory.clone(), scope.clone());
        // Nothing in recordings of the first release, which knew no switch.
        let is_off: Option<bool> = s
            .record_with(
                "tool:memory_add",
                async move { Ok(Some(!looked_at.switches(&user).await?.memory)) },
                move |_| {
                    let data = json!({"tool": MEMORY_ADD, "summary": summary, "is_error": false, "ms": 0});
                    vec![EventDraft::business("tool.called", data)]
                },
                move |tx, is_off| {
                    if *is_off == Some(true) {
                        return Ok(());
                    }
                    if !waits {
                        return Ok(memory.memory().insert_prepared(tx, &scope, &note).map(drop)?);
                    }
                    let by = By::agent("harness", note.memory().thread.as_deref());
                    Ok(memory.submit_in(tx, &scope, note.memory().clone(), &by).map(drop)?)
                },
            )
            .await?;
        Ok(told(match (is_off, waits) {
            (Some(true), _) => "error: the user has switched memory off, so nothing was remembered",
            (_, true) => "proposed: it is remembered once a person accepts it",
            (_, false) => "remembered",
        }))
    }

    async fn describe_project(&self, arguments: &Value) -> Result<ToolTurn, NodeError> {
        let s = self.sitting;
        if s.session > 0 {
            return Ok(locked_plan());
        }
        let Some(summary) = text_argument(arguments, "summary") else { return Ok(missing("summary")) };
        let optional = |name| text_argument(arguments, name);
        let size = optional("size");
        if size.as_deref().is_some_and(|name| Size::parse(name).is_none()) {
            return Ok(told("error: `size` must be small, medium or large; call the tool again"));
        }
        let size = size.as_deref().and_then(Size::parse);
        let brief = Brief { summary, build: optional("build"), lint: optional("lint"), test: optional("test"), size };
        let mut described = s.project();
        described.brief = brief.clone();
        s.record_with(
            "tool:describe_project",
            async { Ok(()) },
            |()| {
                let data = json!({"tool": DESCRIBE_PROJECT, "summary": "", "is_error": false, "ms": 0});
                vec![EventDraft::business("tool.called", data)]
            },
            move |tx, ()| described.save(tx),
        )
        .await?;
        s.change_project(|project| project.brief = brief);
        s.refresh().await?;
        Ok(told("described the project"))
    }
}

impl Sitting<'_> {
    /// A memory of this project, checked and ready to be written.
    pub(crate) fn new_memory(
        &self,
        kind: Kind,
        source: Source,
        feature: Option<&FeatureId>,
        content: String,
    ) -> Result<Prepared, MemoryError> {
        let task = self.owner().task;
        let mut memory = NewMemory::new("project_history", kind, source, content);
        // The project's history is one thread: what was remembered before and after is context.
        memory.thread = Some(task.to_string());
        memory.task = Some(task);
        memory.tags.extend(feature.map(ToString::to_string));
        memory.meta.insert("session".to_owned(), json!(self.session));
        memory.prepare()
    }
}

/// Searches memory after everything written so far has its vector, so that what was just learned is found by meaning.
pub(crate) async fn recall(s: &Sitting<'_>, query: Query) -> Result<Recall, StepError> {
    let memory = &s.harness.memory;
    if let Err(error) = memory.index_pending().await {
        tracing::warn!(%error, "memories wait for their vectors; searching by keyword meanwhile");
    }
    memory.search(&s.owner().scope, &query).await.map_err(StepError::from)
}

/// The event that makes a recall visible afterwards: the question, how it was searched, what came back and why (M15).
pub(crate) fn recalled_events(query: String) -> impl FnOnce(&Recall) -> Vec<EventDraft> + Send + 'static {
    move |recall| {
        let hits: Vec<Value> = recall
            .hits
            .iter()
            .map(|hit| {
                let content: String = hit.item.content.chars().take(RECALLED_CHARS_MAX).collect();
                json!({
                    "id": hit.item.id, "score": hit.score, "content": content, "kind": hit.item.kind,
                    "explain": hit.explain,
                })
            })
            .collect();
        vec![EventDraft::business(
            "memory.recalled",
            json!({
                "query": query, "mode": recall.mode, "considered": recall.considered,
                "unembedded": recall.unembedded, "notes": recall.notes,
                "elapsed_us": recall.elapsed_us, "embedded_us": recall.embedded_us, "hits": hits,
            }),
        )]
    }
}

/// What the agent is told of a change that was undone.
fn notice(undone: &Undone) -> String {
    let Undone { path, .. } = undone;
    if path.ends_with(".git") {
        return format!("\nNOTICE: {path} was removed: the project has one repository, and the harness commits to it");
    }
    format!("\nNOTICE: {path} was changed and has been restored: only the verifier's verdict changes it")
}

pub(crate) fn tamper_event(path: &str, how: &str) -> EventDraft {
    EventDraft::business("tamper.undone", json!({"path": path, "how": how}))
}

pub(crate) fn told(text: impl Into<String>) -> ToolTurn {
    ToolTurn { text: text.into(), after: After::Continue }
}

pub(crate) fn locked_plan() -> ToolTurn {
    told("error: the plan is locked; it can be changed by people only. Work on the session's feature")
}

pub(crate) fn missing(field: &str) -> ToolTurn {
    told(format!("error: `{field}` is missing or not a text; call the tool again with it"))
}

fn hand_over(arguments: &Value) -> ToolTurn {
    match text_argument(arguments, "note") {
        None => missing("note"),
        Some(note) => ToolTurn { text: "handed over".to_owned(), after: After::HandOver(note) },
    }
}

pub(crate) fn text_argument(arguments: &Value, name: &str) -> Option<String> {
    let text = arguments.get(name)?.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// What a call is about, in one line: its first text argument, shortened.
fn summary_of(call: &ToolCall) -> String {
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let first = ["path", "command", "action", "pattern"].iter().find_map(|name| arguments.get(*name)?.as_str());
    let line = first.unwrap_or_default().lines().next().unwrap_or_default();
    line.chars().take(SUMMARY_CHARS_MAX).collect()
}
