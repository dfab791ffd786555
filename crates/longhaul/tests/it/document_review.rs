//! The review of a contract: killed in its midst, approved by another process, nothing twice and nothing lost.

use std::path::Path;

use longhaul_core::{Ambient, Scope};
use longhaul_durable::{
    Runtime,
    replay::{Case, Redaction},
};
use longhaul_knowledge::block::Place;
use longhaul_store::{Store, StoreError, StoreSettings};

use crate::processes::{args, run};

#[path = "../../examples/document_review/main.rs"]
mod example;

/// Not a test by itself: the example's process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process() {
    let Some(args) = args() else { return };
    example::run(&args.iter().map(String::as_str).collect::<Vec<_>>()).await.unwrap();
}

const PROCESS: &str = "document_review::process";

async fn store(dir: &Path) -> Store {
    let migrations = [longhaul_durable::MIGRATIONS, longhaul_memory::MIGRATIONS, longhaul_workspace::MIGRATIONS];
    Store::open(StoreSettings::new(dir.join("store")), Ambient::system(), &migrations).await.unwrap()
}

/// The first column of each row, as text.
async fn ask(store: &Store, sql: &'static str) -> Vec<String> {
    let read = store.read(move |read| read.query(sql, &[], |row| row.get::<String>(0)));
    read.await.map_err(|error: StoreError| error).unwrap()
}

#[test]
fn the_contract_is_a_pdf_of_thirty_pages_with_a_chinese_annex() {
    let document = longhaul_knowledge::parse(Path::new("contract.pdf"), &example::pdf::file()).unwrap();
    assert_eq!(document.title.as_deref(), Some("Supply agreement"));
    let last = document.blocks.last().unwrap();
    assert_eq!(last.place, Place::Pages(30, 30));
    let found = example::analysis::findings(&document);
    let at: Vec<_> = found.iter().map(|finding| (finding.page, finding.severity)).collect();
    assert_eq!(at, [(4, 2), (9, 3), (13, 2), (17, 3), (22, 3), (27, 2), (30, 1), (30, 2)], "{found:#?}");
    assert!(found[7].quote.contains("供应商的责任不受限制"), "{:?}", found[7]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_and_approved_by_another_process_it_ends_with_one_report() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().to_str().unwrap();
    for kill_at in ["  keep the contract", "  observe", "  draft the report", "  decide"] {
        let ended = run(PROCESS, &["start", at], Some(kill_at));
        assert!(ended.killed && !ended.success, "not killed at {kill_at:?}:\n{}", ended.out);
    }
    let started = run(PROCESS, &["start", at], None);
    assert!(started.success, "{}", started.out);
    for part in ["waits: approve the draft report?", r#""risk_level":"high""#, "longhaul where task_supply-agreement"] {
        assert!(started.out.contains(part), "{part} is missing:\n{}", started.out);
    }
    // Asked again, it waits for the same answer.
    let again = run(PROCESS, &["start", at], None);
    assert!(again.success && again.out.contains("waits: approve"), "{}", again.out);

    let approved = run(PROCESS, &["approve", at, "name the worst clause first; 请先说明风险"], None);
    assert!(approved.success && approved.out.contains("done: "), "{}", approved.out);
    let report = std::fs::read_to_string(dir.path().join("report.md")).unwrap();
    assert!(report.contains("请先说明风险") && report.contains("供应商的责任不受限制"), "{report}");

    let store = store(dir.path()).await;
    let kinds = ask(&store, "select kind || ' ' || count(*) from records group by kind order by kind").await;
    assert_eq!(kinds, ["artifact 1", "decision 1", "draft_report 1", "evidence 1", "final_report 1", "observation 8"]);
    let versions =
        ask(&store, "select kind || ' ' || version from records where name = 'report' order by version").await;
    assert_eq!(versions, ["draft_report 1", "final_report 2"]);
    assert_eq!(ask(&store, "select name from milestones order by created_at").await, ["risk-review", "done"]);
    let links = ask(&store, "select relation || ' ' || count(*) from links group by relation order by relation").await;
    assert_eq!(links, ["answers 1", "cites 8", "derived_from 17", "supersedes 1", "supports 7"]);
    // Every id in the report's brackets is a record.
    let cited = report.matches("[rec_").count();
    assert_eq!(cited, 8);
    for id in report.split('[').skip(1).filter_map(|rest| rest.split_once(']').map(|(id, _)| id)) {
        assert!(ask(&store, "select record_id from records").await.contains(&id.to_owned()), "{id}");
    }
    assert_eq!(ask(&store, "select status from executions").await, ["completed"]);
    // The state is small and has refs only.
    let states = ask(&store, "select cast(max(length(data)) as text) from checkpoints").await;
    assert!(states[0].parse::<usize>().unwrap() < 8_192, "{states:?}");

    // What was recorded is replayed without the workspace, the PDF or the reviewer.
    let runtime = Runtime::new(store, Ambient::system());
    let thread = "review-supply-agreement".parse().unwrap();
    let execution = runtime.find(&Scope::single_user(), &thread).await.unwrap().unwrap();
    let case = runtime.record_case(&Scope::single_user(), &execution.id, &Redaction::none()).await.unwrap();
    drop(dir);
    let case = Case::parse(&case.to_text().unwrap()).unwrap();
    let replayed = example::replayer().replay(&case).await.unwrap();
    assert_eq!((replayed.difference.as_ref(), replayed.passes()), (None, true), "{replayed:#?}");
    assert_eq!((replayed.counts.answers, replayed.counts.steps), (1, 8));
    assert_eq!(replayed.final_state.unwrap()["phase"], "done");
}
