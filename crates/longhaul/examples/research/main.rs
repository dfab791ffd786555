//! Research with chunks that are verified: sources are collected, each claim is linked to its evidence, a source that
//! contradicts the others is dealt with, and a memo cites what it says.
//!
//! ```text
//! cargo run -p longhaul --example research -- /tmp/research          one session: one question is answered
//! cargo run -p longhaul --example research -- /tmp/research --all    all that are left
//! ```
//!
//! It is the harness's idea without software: a list of questions, one a session, each marked as verified by a function
//! that looks into the store (`verifier.rs`), and by nothing else. The first answer to a question takes the source that
//! was found first; where the verifier finds it refuted, the sentence is written again from what holds. There is no
//! model: `sources.rs` has the documents and the words to look for.

pub(crate) mod sources;
pub(crate) mod verifier;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::bail;
use longhaul_core::{Ambient, TaskScope, ThreadId};
use longhaul_durable::{
    END, Effect, Graph, GraphBuilder, GraphState, Key, NodeContext, NodeError, Outcome, Resources, RunOptions, Runtime,
    START, StepError, replay::Replayer,
};
use longhaul_memory::Memory;
use longhaul_store::{Store, StoreError, StoreSettings};
use longhaul_workspace::{Ingest, Kind, NewLink, RecordRef, Relation, StagedRecord, TaskWorkspace, Workspace, link};
use serde::{Deserialize, Serialize};
use sources::{QUESTIONS, Question, SOURCES};
use verifier::{Claim, Quote};

/// How far the research is. What was read and claimed is in the workspace.
#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Research {
    /// The records of the sources, by name.
    sources: BTreeMap<String, RecordRef>,
    #[append]
    answers: Vec<Answered>,
    memo: Option<RecordRef>,
    /// The sentence at hand, and how often it was refused.
    draft: Option<Draft>,
}

/// A question that is done: only the node `verify` makes one.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Answered {
    question: String,
    sentence: String,
    refused: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Draft {
    question: String,
    /// Claims by how many and how good sources support them, the best first; the one that was found first is `first`.
    claims: Vec<(RecordRef, String)>,
    first: usize,
    sentence: String,
    refused: u32,
}

struct Desk {
    task: TaskWorkspace,
    memory: Memory,
}

const DESK: Key<Desk> = Key::new("desk");

type Kept = Arc<Mutex<(Vec<StagedRecord>, Vec<NewLink>)>>;

/// Runs a step whose records and links are there exactly when its result is.
async fn keeping<T, F>(
    ctx: &NodeContext,
    name: &str,
    work: impl FnOnce(Arc<Desk>, Kept) -> F + Send,
) -> Result<T, NodeError>
where
    T: Serialize + serde::de::DeserializeOwned + Send + 'static,
    F: Future<Output = Result<T, StepError>> + Send,
{
    let (kept, owner, resources) = (Kept::default(), ctx.scope().clone(), ctx.resources().clone());
    let (into, memory) = (kept.clone(), Arc::new(Mutex::new(None)));
    let given = memory.clone();
    let doing = async move {
        let desk = resources.get_key(&DESK)?;
        *given.lock().unwrap_or_else(PoisonError::into_inner) = Some(desk.memory.clone());
        work(desk, into).await
    };
    let commit = move |tx: &mut longhaul_store::Tx<'_>, _: &T| -> Result<(), StoreError> {
        let (records, links) = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(memory) = memory.lock().unwrap_or_else(PoisonError::into_inner).take() else { return Ok(()) };
        StagedRecord::commit_all(&records, tx)?;
        Ok(links.iter().try_for_each(|new| link(tx, &memory, &owner, new))?)
    };
    ctx.step_tx(name, Effect::Pure, doing, commit).await
}

async fn keep(desk: &Desk, kept: &Kept, record: Ingest) -> Result<RecordRef, StepError> {
    let staged = desk.task.stage(record).await?;
    let reference = staged.reference().clone();
    kept.lock().unwrap_or_else(PoisonError::into_inner).0.push(staged);
    Ok(reference)
}

fn join(kept: &Kept, source: &RecordRef, relation: Relation, target: &RecordRef) {
    let new = NewLink::new(&source.id, relation, &target.id);
    kept.lock().unwrap_or_else(PoisonError::into_inner).1.push(new);
}

fn graph() -> Graph<Research> {
    let built = GraphBuilder::<Research>::new("research", 1)
        .node("collect", |ctx, _| collect(ctx))
        .node("answer", |ctx, state| answer(ctx, state))
        .node("verify", |ctx, state| verify(ctx, state))
        .node("memo", |ctx, state| memo(ctx, state))
        .requires("collect", &DESK)
        .edge(START, "collect")
        .edge("collect", "answer")
        .edge("answer", "verify")
        .branch("verify", &["verify", "answer", "memo"], |state| match (&state.draft, state.answers.len()) {
            (Some(_), _) => "verify",
            (None, done) if done < QUESTIONS.len() => "answer",
            (None, _) => "memo",
        })
        .edge("memo", END)
        .build();
    built.expect("the graph is checked by the example's own test")
}

/// Every source becomes a record, as it is.
async fn collect(ctx: NodeContext) -> Result<ResearchUpdate, NodeError> {
    let kept = keeping(&ctx, "collect", |desk, kept| async move {
        let mut records = BTreeMap::new();
        for (name, content) in SOURCES {
            let summary = format!("source: {name}");
            let mut source = Ingest::new(Kind::Artifact, "sources", &summary, &format!("document {name}"), content);
            source.name = Some(name.to_owned());
            records.insert(name.to_owned(), keep(&desk, &kept, source).await?);
        }
        Ok(records)
    });
    let sources: BTreeMap<String, RecordRef> = kept.await?;
    println!("collected {} sources", sources.len());
    Ok(ResearchUpdate::new().sources(sources))
}

/// What a source says about a question: sentences or rows with its words, and the number in them.
fn quotes(question: &Question, name: &str, text: &str, source: &RecordRef) -> Vec<Quote> {
    let Ok(document) = longhaul_knowledge::parse(Path::new(name), text.as_bytes()) else { return Vec::new() };
    let mut found = Vec::new();
    // A table is read by its rows, as they stand in the file.
    let rows = if name.ends_with(".csv") { text } else { "" };
    let lines = document.blocks.iter().flat_map(|block| block.text.split(['\n', '。'])).chain(rows.lines());
    for sentence in lines.flat_map(|line| line.split_inclusive(". ")) {
        let quote = sentence.trim().trim_end_matches('.').to_owned();
        if !question.words.iter().any(|word| quote.contains(word)) || !text.contains(&quote) {
            continue;
        }
        let numbers: Vec<&str> = quote.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty()).collect();
        let years = |number: &&&str| number.len() == 4 && number.starts_with("20");
        // A year answers when, any other number how much.
        let value = match question.unit {
            "" => numbers.iter().find(years),
            _ => numbers.iter().find(|number| !years(number)),
        };
        if let Some(value) = value {
            let (value, from, source) = ((*value).to_owned(), name.to_owned(), source.id.clone());
            found.push(Quote { value, quote, from, source });
        }
    }
    found
}

/// Claims what the sources say, with their evidence; what the better sources deny is refuted by them.
async fn answer(ctx: NodeContext, state: Arc<Research>) -> Result<ResearchUpdate, NodeError> {
    let question = &QUESTIONS[state.answers.len().min(QUESTIONS.len() - 1)];
    let draft: Draft = keeping(&ctx, &format!("claim {}", question.id), |desk, kept| {
        let state = state.clone();
        async move {
            // By value: who says so.
            let mut said: Vec<(String, Vec<Quote>)> = Vec::new();
            for (name, source) in &state.sources {
                let (_, bytes) = desk.task.read(source).await?;
                for quote in quotes(question, name, &String::from_utf8_lossy(&bytes), source) {
                    match said.iter_mut().find(|(value, _)| *value == quote.value) {
                        Some((_, quotes)) => quotes.push(quote),
                        None => said.push((quote.value.clone(), vec![quote])),
                    }
                }
            }
            let mut claims = Vec::new();
            for (value, quotes) in &said {
                let weight: u32 = quotes.iter().map(|quote| u32::from(sources::weight(&quote.from))).sum();
                let claim = Claim { question: question.id.to_owned(), value: value.clone() };
                let summary = format!("{} {value} {}", question.asks, question.unit);
                let content = serde_json::to_string(&claim)?;
                let mut record = Ingest::new(Kind::Own("claim".to_owned()), "claims", &summary, "agent", content);
                record.media_type = "application/json".to_owned();
                let claim = keep(&desk, &kept, record).await?;
                let mut evidence = Vec::new();
                for quote in quotes {
                    let from = format!("document {}", quote.from);
                    let content = serde_json::to_string(quote)?;
                    let summary = format!("{} says: {}", quote.from, quote.quote);
                    let mut record = Ingest::new(Kind::Evidence, "evidence", &summary, &from, content);
                    record.media_type = "application/json".to_owned();
                    let record = keep(&desk, &kept, record).await?;
                    join(&kept, &record, Relation::Supports, &claim);
                    join(&kept, &record, Relation::Cites, &state.sources[&quote.from]);
                    evidence.push(record);
                }
                claims.push((weight, claim, value.clone(), evidence));
            }
            let first = claims.first().map(|(_, claim, _, _)| claim.clone());
            claims.sort_by_key(|(weight, ..)| std::cmp::Reverse(*weight));
            // The evidence for the best claim speaks against all others.
            if let Some(((_, _, _, evidence), others)) = claims.split_first() {
                for (_, other, _, _) in others {
                    evidence.iter().for_each(|evidence| join(&kept, evidence, Relation::Refutes, other));
                }
            }
            let claims: Vec<_> = claims.into_iter().map(|(_, claim, value, _)| (claim, value)).collect();
            let first = claims.iter().position(|(claim, _)| Some(claim) == first.as_ref()).unwrap_or(0);
            let sentence = sentence(question, &claims, first);
            Ok(Draft { question: question.id.to_owned(), claims, first, sentence, refused: 0 })
        }
    })
    .await?;
    println!("{}: {} claims, first answer: {}", draft.question, draft.claims.len(), draft.sentence);
    Ok(ResearchUpdate::new().draft(Some(draft)))
}

fn sentence(question: &Question, claims: &[(RecordRef, String)], which: usize) -> String {
    match claims.get(which) {
        Some((claim, value)) => {
            let unit = if question.unit.is_empty() { String::new() } else { format!(" {}", question.unit) };
            format!("{} {value}{unit} [{}]", question.asks, claim.id)
        }
        None => format!("{} The sources do not say.", question.asks),
    }
}

/// Marks a question as done if the verifier finds nothing; otherwise the sentence is written again, from a better claim.
async fn verify(ctx: NodeContext, state: Arc<Research>) -> Result<ResearchUpdate, NodeError> {
    let Some(draft) = state.draft.clone() else { return Ok(ResearchUpdate::new()) };
    let sentence_now = draft.sentence.clone();
    let problem: Option<String> = keeping(&ctx, "verify", |desk, _| async move {
        verifier::problem(&desk.task, &sentence_now)
            .await
            .map_err(|error| std::io::Error::other(error.to_string()).into())
    })
    .await?;
    match problem {
        None => {
            println!("  verified: {}", draft.sentence);
            let answered = Answered { question: draft.question, sentence: draft.sentence, refused: draft.refused };
            Ok(ResearchUpdate::new().answers([answered]).draft(None))
        }
        Some(problem) if draft.refused >= 3 => Err(NodeError::gave_up(std::io::Error::other(problem))),
        Some(problem) => {
            println!("  refused: {problem}");
            let question = QUESTIONS.iter().find(|question| question.id == draft.question).unwrap_or(&QUESTIONS[0]);
            // The claims are in the order of what supports them.
            let next = draft.refused as usize;
            let sentence = sentence(question, &draft.claims, next);
            Ok(ResearchUpdate::new().draft(Some(Draft { sentence, refused: draft.refused + 1, ..draft })))
        }
    }
}

/// The memo: verified sentences only, and what was refuted is said to be so.
async fn memo(ctx: NodeContext, state: Arc<Research>) -> Result<ResearchUpdate, NodeError> {
    let memo: RecordRef = keeping(&ctx, "write the memo", |desk, kept| {
        let state = state.clone();
        async move {
            let mut text = "# Northbank wind farm\n\n".to_owned();
            for answered in &state.answers {
                text.push_str(&format!("- {}\n", answered.sentence));
            }
            let summary = format!("memo: {} questions answered", state.answers.len());
            let mut memo = Ingest::new(Kind::Artifact, "artifacts", &summary, "agent", text.clone());
            memo.name = Some("memo".to_owned());
            memo.media_type = "text/markdown".to_owned();
            let memo = keep(&desk, &kept, memo).await?;
            for id in verifier::citations(&text) {
                kept.lock().unwrap_or_else(PoisonError::into_inner).1.push(NewLink::new(&memo.id, Relation::Cites, id));
            }
            Ok(memo)
        }
    })
    .await?;
    Ok(ResearchUpdate::new().memo(Some(memo)))
}

async fn session(dir: &Path, all: bool) -> anyhow::Result<()> {
    let scope = TaskScope { task: "task_northbank".parse()?, ..TaskScope::single_user() };
    let thread: ThreadId = "northbank".parse()?;
    let migrations = [longhaul_durable::MIGRATIONS, longhaul_memory::MIGRATIONS, longhaul_workspace::MIGRATIONS];
    let store = Store::open(StoreSettings::new(dir.join("store")), Ambient::system(), &migrations).await?;
    let memory = Memory::new(store.clone(), None);
    let task = Workspace::new(store.clone(), memory.clone()).task(&scope);
    let desk = Arc::new(Desk { task, memory });
    let runtime = Runtime::new(store, Ambient::system());
    let before: Option<Research> = runtime.state(&scope.scope, &thread).await?;
    let done = before.as_ref().map_or(0, |research| research.answers.len());
    if before.as_ref().is_some_and(|research| research.memo.is_some()) {
        println!("the memo is written: {}", dir.join("memo.md").display());
        return Ok(());
    }
    let options = RunOptions {
        resources: Resources::new().with_key(&DESK, desk.clone()),
        // A session is one question, and the memo belongs to the last.
        stop_when: (!all).then(|| -> longhaul_durable::StopWhen<Research> {
            Arc::new(move |research| research.answers.len() > done && research.answers.len() < QUESTIONS.len())
        }),
        ..RunOptions::default()
    };
    let outcome = Box::pin(runtime.run(&graph(), &scope, &thread, Research::default(), options)).await?;
    match outcome {
        Outcome::Stopped(research) => {
            println!(
                "session over: {} of {} questions are verified; run again",
                research.answers.len(),
                QUESTIONS.len()
            );
        }
        Outcome::Completed(research) => {
            let Some(memo) = research.memo else { bail!("there is no memo") };
            let (_, text) = desk.task.read(&memo).await?;
            std::fs::write(dir.join("memo.md"), &text)?;
            println!("\n{}", String::from_utf8_lossy(&text));
            println!("written to {}; what it stands on:", dir.join("memo.md").display());
            println!("  longhaul links {} --store {} --mermaid", memo.id, dir.join("store").display());
        }
        Outcome::Failed { node, error, .. } => bail!("{node}: {error}"),
        Outcome::Waiting(_) | Outcome::Cancelled | Outcome::NeedsReconcile(_) => bail!("{outcome:?}"),
    }
    Ok(())
}

/// The one-line call with which `longhaul eval run --program` replays recorded research.
pub(crate) fn replayer() -> Replayer {
    Replayer::new().graph(&graph())
}

/// What the command line says.
pub(crate) async fn run(args: &[&str]) -> anyhow::Result<()> {
    match args {
        [dir] => session(Path::new(dir), false).await,
        [dir, "--all"] => session(Path::new(dir), true).await,
        _ => bail!("research DIR [--all]"),
    }
}

#[cfg(not(test))]
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    if replayer().serve_if_asked().await? {
        return Ok(());
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    run(&args.iter().map(String::as_str).collect::<Vec<_>>()).await
}
