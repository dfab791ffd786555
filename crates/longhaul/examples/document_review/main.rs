//! The review of a contract, as a long task: every kind of state is with its owner, and nothing is lost when a process
//! ends.
//!
//! ```text
//! cargo run -p longhaul --example document_review -- start  /tmp/review    reads the contract, drafts, asks, and ends
//! cargo run -p longhaul --example document_review -- approve /tmp/review "shorten the summary"
//! ```
//!
//! The first process makes a PDF of thirty pages, keeps what it sees as observations, drafts a report, decides on the
//! risk with its evidence, reaches a milestone, builds a context pack for the reviewer, and waits for approval. Its
//! process ends. The second opens the same store, is given the live objects again, answers with `continue_with`, and
//! writes the final report. There is no model: `analysis.rs` has rules. Kill either process at any moment and start it
//! again.

pub(crate) mod analysis;
pub(crate) mod pdf;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use analysis::Finding;
use anyhow::{Context as _, bail};
use longhaul_core::{Ambient, TaskScope, ThreadId};
use longhaul_durable::{
    Answer, END, Effect, Graph, GraphBuilder, GraphState, Key, NodeContext, NodeError, Outcome, Resources, RunOptions,
    Runtime, START, StepError, Wait, replay::Replayer,
};
use longhaul_memory::Memory;
use longhaul_store::{Store, StoreError, StoreSettings};
use longhaul_workspace::{
    Ingest, Kind, NewLink, NewMilestone, RecordRef, Relation, StagedRecord, TaskWorkspace, Workspace,
    context::ContextRequest, link, reach,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

const CONTRACT: &str = "supply-agreement.pdf";
const GOAL: &str = "revise the report after the latest approval comments";

/// What the execution must know to go on: a phase, numbers, refs. The report itself is in the workspace.
#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Review {
    /// The contract's file.
    contract: PathBuf,
    phase: String,
    source_ref: Option<RecordRef>,
    #[append]
    observation_refs: Vec<RecordRef>,
    draft_report_ref: Option<RecordRef>,
    decision_ref: Option<RecordRef>,
    risk_level: String,
    approval_ref: Option<RecordRef>,
    final_report_ref: Option<RecordRef>,
    /// Items of the context packs that were built.
    #[append]
    packs: Vec<Pack>,
}

/// What is to be remembered of a context pack: not its text.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Pack {
    tokens: u64,
    items: Vec<String>,
    omitted: usize,
}

/// What a reviewer answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Approval {
    approved: bool,
    comments: String,
}

/// Live objects, which no state can hold: given to each run.
struct Desk {
    task: TaskWorkspace,
    memory: Memory,
}

const DESK: Key<Desk> = Key::new("desk");

/// Records on their way into the transaction of a step, and the links between them.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<(Vec<StagedRecord>, Vec<NewLink>, Option<NewMilestone>)>>);

impl Kept {
    fn record(&self, record: StagedRecord) -> RecordRef {
        let reference = record.reference().clone();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.push(record);
        reference
    }

    fn link(&self, source: &RecordRef, relation: Relation, target: &RecordRef) {
        let link = NewLink::new(&source.id, relation, &target.id);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.push(link);
    }

    fn milestone(&self, milestone: NewMilestone) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).2 = Some(milestone);
    }
}

/// Runs a step whose records, links and milestone are there exactly when its result is.
async fn keeping<T, F>(
    ctx: &NodeContext,
    name: &str,
    work: impl FnOnce(Arc<Desk>, Kept) -> F + Send,
) -> Result<T, NodeError>
where
    T: Serialize + serde::de::DeserializeOwned + Send + 'static,
    F: Future<Output = Result<T, StepError>> + Send,
{
    let (kept, resources, owner) = (Kept::default(), ctx.resources().clone(), ctx.scope().clone());
    let (into, memory) = (kept.clone(), Arc::new(Mutex::new(None)));
    let (given, told) = (memory.clone(), name.to_owned());
    let doing = async move {
        // Live objects are asked for within the step: a replay of a recorded review needs none.
        let desk = resources.get_key(&DESK)?;
        *given.lock().unwrap_or_else(PoisonError::into_inner) = Some(desk.memory.clone());
        let result = work(desk, into).await?;
        println!("  {told}");
        Ok(result)
    };
    let commit = move |tx: &mut longhaul_store::Tx<'_>, _: &T| -> Result<(), StoreError> {
        let (records, links, milestone) = std::mem::take(&mut *kept.0.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(memory) = memory.lock().unwrap_or_else(PoisonError::into_inner).take() else { return Ok(()) };
        StagedRecord::commit_all(&records, tx)?;
        for new in &links {
            link(tx, &memory, &owner, new)?;
        }
        if let Some(milestone) = &milestone {
            reach(tx, &memory, &owner, milestone)?;
        }
        Ok(())
    };
    ctx.step_tx(name, Effect::Pure, doing, commit).await
}

/// A record of this execution and step.
fn of_step(ctx: &NodeContext, step: &str, record: Ingest) -> Ingest {
    Ingest { execution: Some(ctx.execution().clone()), step: Some(ctx.step_id(step).within()), ..record }
}

/// The one-line call with which `longhaul eval run --program` replays recorded reviews.
pub(crate) fn replayer() -> Replayer {
    Replayer::new().graph(&graph())
}

fn graph() -> Graph<Review> {
    let built = GraphBuilder::<Review>::new("document_review", 1)
        .node("read", |ctx, state| read(ctx, state))
        .node("draft", |ctx, state| draft(ctx, state))
        .node("risk-review", |ctx, state| decide(ctx, state))
        .node("approval", |ctx, state| approval(ctx, state))
        .node("finish", |ctx, state| finish(ctx, state))
        .requires("read", &DESK)
        .requires("finish", &DESK)
        .edge(START, "read")
        .edge("read", "draft")
        .edge("draft", "risk-review")
        .edge("risk-review", "approval")
        .edge("approval", "finish")
        .edge("finish", END)
        .build();
    built.expect("the graph is checked by the example's own test")
}

/// The contract and what is seen in it become records; the state keeps their refs.
async fn read(ctx: NodeContext, state: Arc<Review>) -> Result<ReviewUpdate, NodeError> {
    let path = state.contract.clone();
    let source: RecordRef = keeping(&ctx, "keep the contract", |desk, kept| {
        let (ctx, path) = (ctx.clone(), path.clone());
        async move {
            let bytes = std::fs::read(&path)?;
            let mut source = Ingest::new(Kind::Artifact, "sources", "the contract, 30 pages", "user", bytes);
            source.name = Some("contract".to_owned());
            source.media_type = "application/pdf".to_owned();
            Ok(kept.record(desk.task.stage(of_step(&ctx, "keep the contract", source)).await?))
        }
    })
    .await?;
    let observed: Vec<RecordRef> = keeping(&ctx, "observe", |desk, kept| {
        let (ctx, source) = (ctx.clone(), source.clone());
        async move {
            let (_, bytes) = desk.task.read(&source).await?;
            let document = longhaul_knowledge::parse(Path::new(CONTRACT), &bytes)?;
            let mut refs = Vec::new();
            for finding in analysis::findings(&document) {
                let summary = format!("page {}: {}", finding.page, finding.topic);
                let content = serde_json::to_string(&finding)?;
                let from = format!("document {CONTRACT}");
                let mut seen = Ingest::new(Kind::Observation, "observations", &summary, &from, content);
                seen.media_type = "application/json".to_owned();
                seen.text = Some(finding.quote.clone());
                seen.meta.insert("page".to_owned(), finding.page.into());
                let seen = kept.record(desk.task.stage(of_step(&ctx, "observe", seen)).await?);
                kept.link(&seen, Relation::DerivedFrom, &source);
                refs.push(seen);
            }
            Ok(refs)
        }
    })
    .await?;
    println!("  {} observations", observed.len());
    Ok(ReviewUpdate::new().phase("read").source_ref(Some(source)).observation_refs(observed))
}

/// What the observations hold, read back and verified.
async fn findings(desk: &Desk, refs: &[RecordRef]) -> Result<(Vec<Finding>, Vec<String>), StepError> {
    let (mut findings, mut ids) = (Vec::new(), Vec::new());
    for reference in refs {
        let (_, bytes) = desk.task.read(reference).await?;
        findings.push(serde_json::from_slice(&bytes)?);
        ids.push(reference.id.to_string());
    }
    Ok((findings, ids))
}

/// Writes the draft: `artifacts`, kind `draft_report`, no event of its own beyond the record's.
async fn draft(ctx: NodeContext, state: Arc<Review>) -> Result<ReviewUpdate, NodeError> {
    let draft: RecordRef = keeping(&ctx, "draft the report", |desk, kept| {
        let (ctx, seen) = (ctx.clone(), state.observation_refs.clone());
        async move {
            let (found, ids) = findings(&desk, &seen).await?;
            let text = analysis::report(&found, &ids, None);
            let summary = format!("draft report: {} clauses need attention", found.len());
            let kind = Kind::Own("draft_report".to_owned());
            let mut draft = Ingest::new(kind, "artifacts", &summary, "agent", text);
            draft.name = Some("report".to_owned());
            draft.media_type = "text/markdown".to_owned();
            let draft = kept.record(desk.task.stage(of_step(&ctx, "draft the report", draft)).await?);
            seen.iter().for_each(|seen| kept.link(&draft, Relation::DerivedFrom, seen));
            Ok(draft)
        }
    })
    .await?;
    Ok(ReviewUpdate::new().phase("drafted").draft_report_ref(Some(draft)))
}

/// Decides on the risk, with the evidence for it, and reaches the milestone from which a recovery would go on.
async fn decide(ctx: NodeContext, state: Arc<Review>) -> Result<ReviewUpdate, NodeError> {
    let (decision, level): (RecordRef, String) = keeping(&ctx, "decide", |desk, kept| {
        let (ctx, state) = (ctx.clone(), state.clone());
        async move {
            let (found, _) = findings(&desk, &state.observation_refs).await?;
            let level = analysis::risk_level(&found);
            let worst = found.iter().zip(&state.observation_refs).filter(|(finding, _)| finding.severity >= 2);
            let worst: Vec<_> = worst.collect();
            let why = worst.iter().map(|(finding, _)| finding.topic.as_str()).collect::<Vec<_>>().join("; ");
            let (summary, text) = (format!("risk is {level}"), format!("Risk is {level}, because of: {why}."));
            let decision = Ingest::new(Kind::Decision, "decisions", &summary, "agent", text);
            let decision = kept.record(desk.task.stage(of_step(&ctx, "decide", decision)).await?);
            worst.iter().for_each(|(_, seen)| kept.link(seen, Relation::Supports, &decision));
            let refs = state.draft_report_ref.iter().chain([&decision]).cloned().collect();
            kept.milestone(NewMilestone {
                name: "risk-review".to_owned(),
                execution: Some(ctx.execution().clone()),
                superstep: Some(ctx.superstep() - 1),
                refs,
                note: Some(format!("risk {level}; next: approval")),
                revise: false,
            });
            Ok((decision, level.to_owned()))
        }
    })
    .await?;
    Ok(ReviewUpdate::new().phase("risk_review_done").decision_ref(Some(decision)).risk_level(level))
}

/// What the reviewer needs to read, within a budget; the pack itself is built again whenever it is wanted.
async fn pack(ctx: &NodeContext, name: &str) -> Result<Pack, NodeError> {
    keeping(ctx, name, |desk, _| async move {
        let request = ContextRequest::new(GOAL).budget_tokens(12_000).profile("document_review");
        let pack = desk.task.build_context(&request).await?;
        let items = pack.items.iter().map(|item| format!("{} {}: {}", item.kind, item.id, item.summary));
        Ok(Pack { tokens: pack.used_tokens, items: items.collect(), omitted: pack.omitted.len() })
    })
    .await
}

/// Asks a person. The process may end here; the answer comes whenever it comes, to whatever process.
async fn approval(ctx: NodeContext, state: Arc<Review>) -> Result<ReviewUpdate, NodeError> {
    let pack = pack(&ctx, "context for the reviewer").await?;
    let schema = json!({
        "type": "object",
        "properties": { "approved": { "type": "boolean" }, "comments": { "type": "string", "maxLength": 2000 } },
        "required": ["approved", "comments"],
    });
    let question = Wait::approval("approve the draft report?").schema(schema).payload(json!({
        "task_id": ctx.scope().task,
        "report_ref": state.draft_report_ref,
        "risk_level": state.risk_level,
        "context_tokens": pack.tokens,
    }));
    let answer: Answer<Approval> = ctx.pause_for(question).await?;
    let Answer::Given { value, actor, .. } = answer else {
        return Err(NodeError::gave_up(std::io::Error::other("nobody answered")));
    };
    let said: RecordRef = keeping(&ctx, "keep the answer", |desk, kept| {
        let (ctx, state) = (ctx.clone(), state.clone());
        async move {
            let word = if value.approved { "approved" } else { "rejected" };
            let summary = format!("{actor} {word} the draft: {}", value.comments.chars().take(100).collect::<String>());
            let said = Ingest::new(Kind::Evidence, "approvals", &summary, "user", serde_json::to_string(&value)?);
            let said = kept.record(desk.task.stage(of_step(&ctx, "keep the answer", said)).await?);
            state.draft_report_ref.iter().for_each(|draft| kept.link(&said, Relation::Answers, draft));
            Ok(said)
        }
    })
    .await?;
    Ok(ReviewUpdate::new().phase("answered").approval_ref(Some(said)).packs([pack]))
}

/// Writes the final report as the next version of the draft.
async fn finish(ctx: NodeContext, state: Arc<Review>) -> Result<ReviewUpdate, NodeError> {
    let pack = pack(&ctx, "context for the revision").await?;
    let report: RecordRef = keeping(&ctx, "write the final report", |desk, kept| {
        let (ctx, state) = (ctx.clone(), state.clone());
        async move {
            let (found, ids) = findings(&desk, &state.observation_refs).await?;
            let Some(said) = &state.approval_ref else {
                return Err(std::io::Error::other("there is no answer").into());
            };
            let approval: Approval = serde_json::from_slice(&desk.task.read(said).await?.1)?;
            let text = analysis::report(&found, &ids, Some(&approval.comments));
            let kind = Kind::Own("final_report".to_owned());
            let mut report = Ingest::new(kind, "artifacts", "final report after approval", "agent", text);
            report.name = Some("report".to_owned());
            report.revise = true;
            report.media_type = "text/markdown".to_owned();
            let report = kept.record(desk.task.stage(of_step(&ctx, "write the final report", report)).await?);
            kept.link(&report, Relation::DerivedFrom, said);
            state.observation_refs.iter().for_each(|seen| kept.link(&report, Relation::Cites, seen));
            kept.milestone(NewMilestone {
                name: "done".to_owned(),
                execution: Some(ctx.execution().clone()),
                superstep: Some(ctx.superstep() - 1),
                refs: vec![report.clone()],
                ..NewMilestone::default()
            });
            Ok(report)
        }
    })
    .await?;
    Ok(ReviewUpdate::new().phase("done").final_report_ref(Some(report)).packs([pack]))
}

/// Everything that a process needs, and that none leaves to another.
struct Session {
    runtime: Runtime,
    desk: Arc<Desk>,
    scope: TaskScope,
    dir: PathBuf,
}

impl Session {
    async fn open(dir: &Path) -> anyhow::Result<Self> {
        let scope = TaskScope {
            session: "sess_contracts".parse()?,
            task: "task_supply-agreement".parse()?,
            trace: "trace_review".parse()?,
            ..TaskScope::single_user()
        };
        let migrations = [longhaul_durable::MIGRATIONS, longhaul_memory::MIGRATIONS, longhaul_workspace::MIGRATIONS];
        let store = Store::open(StoreSettings::new(dir.join("store")), Ambient::system(), &migrations).await?;
        let memory = Memory::new(store.clone(), None);
        let task = Workspace::new(store.clone(), memory.clone()).task(&scope);
        let runtime = Runtime::new(store, Ambient::system());
        Ok(Self { runtime, desk: Arc::new(Desk { task, memory }), scope, dir: dir.to_owned() })
    }

    fn thread() -> anyhow::Result<ThreadId> {
        Ok("review-supply-agreement".parse()?)
    }

    /// Goes on from wherever the task is.
    async fn run(&self) -> anyhow::Result<Outcome<Review>> {
        let contract = self.dir.join(CONTRACT);
        let initial = Review { contract, phase: "begun".to_owned(), ..Review::default() };
        let resources = Resources::new().with_key(&DESK, self.desk.clone());
        let options = RunOptions { resources, ..RunOptions::default() };
        Ok(Box::pin(self.runtime.run(&graph(), &self.scope, &Self::thread()?, initial, options)).await?)
    }

    async fn start(&self) -> anyhow::Result<()> {
        let contract = self.dir.join(CONTRACT);
        if !contract.exists() {
            std::fs::write(&contract, pdf::file())?;
            println!("made {} ({} pages)", contract.display(), pdf::PAGES);
        }
        println!("task {} in session {}", self.scope.task, self.scope.session);
        self.tell(self.run().await?).await
    }

    async fn approve(&self, comments: &str) -> anyhow::Result<()> {
        let answer = json!({ "approved": true, "comments": comments });
        let thread = Self::thread()?;
        let said = self.runtime.continue_thread(&self.scope.scope, &thread, answer, "approve-1", "reviewer").await?;
        println!("answered {:?} as {}", said.wait().name, said.wait().actor.as_deref().unwrap_or_default());
        self.tell(self.run().await?).await
    }

    async fn tell(&self, outcome: Outcome<Review>) -> anyhow::Result<()> {
        let store = self.dir.join("store");
        let store = store.display();
        match outcome {
            Outcome::Waiting(waits) => {
                let wait = waits.first().context("it waits for nothing")?;
                println!("waits: {}", wait.name);
                println!("  {}", wait.payload);
                println!("\nThis process ends now. Next:");
                println!("  longhaul where {} --store {store}", self.scope.task);
                println!("  longhaul explain {} --store {store}", wait.id);
                println!(
                    "  cargo run -p longhaul --example document_review -- approve {} \"your comments\"",
                    self.dir.display()
                );
            }
            Outcome::Completed(review) => {
                let report = review.final_report_ref.context("there is no report")?;
                let (record, text) = self.desk.task.read(&report).await?;
                let path = self.dir.join("report.md");
                std::fs::write(&path, &text)?;
                println!("done: {} ({} bytes, digest verified)", path.display(), text.len());
                println!("  {} is version {} of {:?}", record.reference.id, record.version, "report");
                println!("\nHow it came about:");
                println!("  longhaul links {} --store {store} --mermaid", record.reference.id);
                println!("  longhaul explain {} --store {store}", Self::thread()?);
                println!("  longhaul eval record {} --store {store} --to cases", Self::thread()?);
            }
            Outcome::Failed { node, error, .. } => bail!("{node}: {error}"),
            Outcome::Stopped(_) | Outcome::Cancelled | Outcome::NeedsReconcile(_) => bail!("{outcome:?}"),
        }
        Ok(())
    }
}

/// What the command line says.
pub(crate) async fn run(args: &[&str]) -> anyhow::Result<()> {
    match args {
        ["start", dir] => {
            std::fs::create_dir_all(dir)?;
            Session::open(Path::new(dir)).await?.start().await
        }
        ["approve", dir, comments] => Session::open(Path::new(dir)).await?.approve(comments).await,
        _ => bail!("document_review start DIR, then document_review approve DIR \"COMMENTS\""),
    }
}

#[cfg(not(test))]
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // Before anything else: `longhaul eval run --program` asks for replays.
    if replayer().serve_if_asked().await? {
        return Ok(());
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    run(&args.iter().map(String::as_str).collect::<Vec<_>>()).await
}
