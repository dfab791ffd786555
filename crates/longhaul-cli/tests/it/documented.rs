//! The page docs/explain.md shows what the program prints: each of its commands is run, and what it prints is compared.
//!
//! Ids and times differ from run to run; everything else must be the same. `LONGHAUL_WRITE_DOCS=1` writes the page anew.

use std::{collections::BTreeMap, env, fs, path::PathBuf, sync::Arc};

use longhaul::memory::Memory;
use longhaul_core::{Ambient, Scope, TaskScope, ThreadId};
use longhaul_durable::{
    Answer, END, Effect, Graph, GraphBuilder, GraphState, NodeError, Outcome, RunOptions, Runtime, START, Wait,
};
use longhaul_store::{Store, StoreSettings};
use longhaul_workspace::{Ingest, Kind, NewLink, NewMilestone, RecordRef, Relation, TaskWorkspace, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{program::Account, shop::block_on};

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Review {
    contract: Option<RecordRef>,
    report: Option<RecordRef>,
    #[append]
    notes: Vec<String>,
}

fn graph(task: &TaskWorkspace) -> Graph<Review> {
    let (reading, drafting) = (task.clone(), task.clone());
    GraphBuilder::<Review>::new("review", 1)
        .node("read", move |ctx, _| {
            let task = reading.clone();
            async move {
                let (execution, step) = (Some(ctx.execution().clone()), Some(ctx.step_id("fetch").within()));
                let kept = ctx.step("fetch", Effect::Pure, async move {
                    let (kind, source) = (Kind::Observation, "web https://example.com/contract");
                    let page = Ingest::new(kind, "pages", "the contract as it was sent", source, "42 EUR a month");
                    Ok(task.ingest(Ingest { execution, step, ..page }).await?)
                });
                Ok(ReviewUpdate::new().contract(Some(kept.await?)))
            }
        })
        .node("draft", move |ctx, state: Arc<Review>| {
            let task = drafting.clone();
            async move {
                let (execution, step) = (Some(ctx.execution().clone()), Some(ctx.step_id("write").within()));
                let contract = state.contract.clone();
                let kept = ctx.step("write", Effect::Idempotent { key: "report-1".to_owned() }, async move {
                    let text = "The contract costs 42 EUR a month.";
                    let report = Ingest::new(Kind::Artifact, "artifacts", "draft of the report", "agent", text);
                    let report = Ingest { name: Some("report".to_owned()), execution, step, ..report };
                    let report = task.ingest(report).await?;
                    if let Some(contract) = contract {
                        task.link(NewLink::new(&report.id, Relation::DerivedFrom, &contract.id)).await?;
                    }
                    Ok(report)
                });
                Ok(ReviewUpdate::new().report(Some(kept.await?)))
            }
        })
        .node("ask", |ctx, state: Arc<Review>| async move {
            let wait = Wait::approval("send it?").payload(json!({ "report": state.report }));
            let answer: Answer<bool> = ctx.pause_for(wait.schema(json!({ "type": "boolean" }))).await?;
            Ok(ReviewUpdate::new().notes([format!("{:?}", answer.into_value())]))
        })
        .node("send", |ctx, _| async move {
            let address = ctx.step("address", Effect::Pure, async { Ok("legal@example.com".to_owned()) }).await?;
            let refused =
                async { Err::<String, _>(std::io::Error::other("the mail server refused the report").into()) };
            let sent = ctx.step("mail", Effect::Idempotent { key: "mail-1".to_owned() }, refused).await?;
            Ok::<_, NodeError>(ReviewUpdate::new().notes([address, sent]))
        })
        .edge(START, "read")
        .edge("read", "draft")
        .edge("draft", "ask")
        .edge("ask", "send")
        .edge("send", END)
        .build()
        .unwrap()
}

/// A program of its own: it reads, drafts, asks, and fails to send.
async fn fail(settings: StoreSettings) {
    let sets = [longhaul_durable::MIGRATIONS, longhaul::memory::MIGRATIONS, longhaul_workspace::MIGRATIONS];
    let store = Store::open(settings, Ambient::system(), &sets).await.unwrap();
    let scope = TaskScope {
        scope: Scope::single_user(),
        session: "sess_1".parse().unwrap(),
        task: "task_1".parse().unwrap(),
        trace: "trace_1".parse().unwrap(),
    };
    let task = Workspace::new(store.clone(), Memory::new(store.clone(), None)).task(&scope);
    let runtime = Runtime::new(store, Ambient::system());
    let thread: ThreadId = "report-1".parse().unwrap();
    let run =
        async || runtime.run(&graph(&task), &scope, &thread, Review::default(), RunOptions::default()).await.unwrap();
    let Outcome::Waiting(waits) = run().await else { panic!("it does not ask") };
    let state: Review = runtime.state(&scope.scope, &thread).await.unwrap().unwrap();
    let report = state.report.unwrap();
    let decided =
        Ingest::new(Kind::Decision, "decisions", "low risk: may be sent", "agent", "nothing in it is unusual");
    let decided = task.ingest(decided).await.unwrap();
    task.link(NewLink::new(&report.id, Relation::Supports, &decided.id)).await.unwrap();
    let reached = NewMilestone {
        name: "risk-review".to_owned(),
        execution: Some(waits[0].execution.clone()),
        superstep: Some(2),
        refs: vec![report, decided],
        ..NewMilestone::default()
    };
    task.reach(reached).await.unwrap();
    runtime.continue_with(&scope.scope, &waits[0].id, json!(true), "yes", "ada").await.unwrap();
    assert!(matches!(run().await, Outcome::Failed { .. }));
}

/// Ids of one run, each with its number in the order in which they were met.
#[derive(Default)]
struct Met(Vec<String>);

/// Kinds of ids that a run makes anew.
const MADE: [&str; 6] = ["exec_", "evt_", "rec_", "wait_", "milestone_", "sha256:"];

impl Met {
    /// Where the next id stands, and its length.
    fn next(text: &str) -> Option<(usize, usize)> {
        let first = MADE.iter().filter_map(|kind| text.find(kind).map(|at| (at, kind.len()))).min()?;
        let body = text[first.0 + first.1..].find(|char: char| !char.is_ascii_alphanumeric());
        let length = body.unwrap_or(text.len() - first.0 - first.1);
        Some((first.0, first.1 + length))
    }

    /// The text with each id replaced by what `to` makes of its number.
    fn each(&mut self, text: &str, to: impl Fn(&str, usize) -> String) -> String {
        let (mut rest, mut shown) = (text, String::new());
        while let Some((at, length)) = Self::next(rest) {
            let id = &rest[at..at + length];
            let number = self.0.iter().position(|known| known == id).unwrap_or_else(|| {
                self.0.push(id.to_owned());
                self.0.len() - 1
            });
            shown.push_str(&rest[..at]);
            shown.push_str(&to(id, number));
            rest = &rest[at + length..];
        }
        shown + rest
    }

    /// What must be the same in every run: its lines, without ids and times. What happens in the same millisecond may
    /// stand in either order.
    fn comparable(&mut self, text: &str) -> String {
        let without_ids = self.each(text, |id, _| {
            let kind = MADE.iter().find(|kind| id.starts_with(**kind)).unwrap();
            format!("{kind}…")
        });
        let mut lines: Vec<String> = without_ids.lines().map(|line| without_times(line.trim_end())).collect();
        lines.sort();
        lines.join("\n")
    }
}

/// Dates and times, written as `d`.
fn without_times(line: &str) -> String {
    let mut chars: Vec<char> = line.chars().collect();
    for pattern in ["dddd-dd-dd", "dd:dd:dd", "dd:dd"] {
        let pattern: Vec<char> = pattern.chars().collect();
        let fits = |at: &[char]| {
            at.iter()
                .zip(&pattern)
                .all(|(char, wanted)| if *wanted == 'd' { char.is_ascii_digit() } else { char == wanted })
        };
        for at in 0..chars.len().saturating_sub(pattern.len() - 1) {
            if fits(&chars[at..at + pattern.len()]) {
                chars[at..at + pattern.len()].copy_from_slice(&pattern);
            }
        }
    }
    chars.into_iter().collect()
}

#[test]
fn the_page_about_explaining_shows_what_is_printed() {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/explain.md");
    let text = fs::read_to_string(&page).unwrap();
    let account = Account::new();
    block_on(fail(StoreSettings::new(account.path("shop"))));
    let (mut written, mut printed) = (Met::default(), Met::default());
    let mut anew = String::new();
    let mut shown = 0;
    for (index, part) in text.split("```").enumerate() {
        let block = part.strip_prefix("console\n$ ").filter(|_| index % 2 == 1);
        let Some((command, output)) = block.and_then(|block| block.split_once('\n')) else {
            anew.push_str(if index == 0 { "" } else { "```" });
            anew.push_str(part);
            continue;
        };
        shown += 1;
        // The command names ids of the run that the page shows.
        let names: BTreeMap<usize, String> = printed.0.iter().cloned().enumerate().collect();
        let typed = written.each(command, |id, number| names.get(&number).cloned().unwrap_or_else(|| id.to_owned()));
        let words: Vec<String> = typed.split(' ').map(|word| word.trim_matches('\'').to_owned()).collect();
        let args: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        let ended = account.run(&args);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{typed}: {ended:?}");
        if env::var_os("LONGHAUL_WRITE_DOCS").is_some() {
            printed.comparable(&ended.out);
            written.comparable(output);
            anew.push_str(&format!("```console\n$ {typed}\n{}\n", ended.out.trim_end()));
            continue;
        }
        assert_eq!(printed.comparable(ended.out.trim_end()), written.comparable(output.trim_end()), "{typed}");
    }
    if env::var_os("LONGHAUL_WRITE_DOCS").is_some() {
        fs::write(&page, anew).unwrap();
    }
    assert!(shown >= 8, "only {shown} commands are shown");
}

#[test]
fn what_happens_to_a_task_is_followed_to_its_end() {
    let account = Account::new();
    block_on(fail(StoreSettings::new(account.path("shop"))));
    assert_eq!(account.run(&["cancel", "report-1", "--store", "shop", "--reason", "no use"]).code, Some(0));
    let told = account.run(&["tail", "report-1", "--store", "shop"]);
    assert_eq!((told.code, told.err.as_str()), (Some(0), ""), "{told:?}");
    for part in
        ["execution_started graph review", "wait_opened", "wait_answered", "execution_failed", "execution_cancelled"]
    {
        assert!(told.out.contains(part), "{part} is missing from:\n{}", told.out);
    }
    let last = told.out.lines().next_back().unwrap().split_whitespace().next().unwrap().to_owned();
    let rest = account.run(&["tail", "report-1", "--store", "shop", "--after", &last, "--json"]);
    assert_eq!((rest.code, rest.out.as_str()), (Some(0), ""), "{rest:?}");
    let whose = account.run(&["whose", "report-1", "--store", "shop"]);
    assert!(whose.out.contains("tenant      tenant_default") && whose.out.contains("answered by ada"), "{whose:?}");
    let nobody = account.run(&["where", "nothing", "--store", "shop"]);
    assert_eq!(nobody.code, Some(2), "{nobody:?}");
    assert!(nobody.err.contains("looked for tasks (task_…), threads"), "{}", nobody.err);
}
