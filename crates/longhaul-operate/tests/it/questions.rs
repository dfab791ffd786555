//! Where a task is, whose it is, what was kept of it, what happens to it.

use std::{env, process::Command, time::Duration};

use longhaul_core::{Scope, TaskScope};
use longhaul_durable::BusinessEvent;
use longhaul_operate::{KeptFilter, OperateError, Operator, TaskEvent};
use longhaul_workspace::{Ingest, Kind};
use tokio::time::timeout;

use crate::{
    ground::{Ground, on_both, scope},
    story::Program,
};

on_both!(
    where_a_task_is_tells_what_to_do_next,
    whose_a_task_is_names_its_owners_and_nobody_else_sees_it,
    records_links_and_contents_are_shown_so_that_a_terminal_takes_no_harm,
    business_events_are_followed_live_across_processes_and_taken_up_anywhere,
);

async fn where_a_task_is_tells_what_to_do_next(ground: Ground) {
    let program = Program::of(&ground, &scope()).await;
    let operator = ground.operator().await;
    assert!(matches!(operator.whereabouts("report-1").await, Err(OperateError::Unknown { .. })));
    let wait = program.ask("report-1").await;
    let found = operator.whereabouts("report-1").await.unwrap();
    assert_eq!((found.task.as_str(), found.phase.as_str()), ("task_1", "waiting in ask for \"publish it?\""));
    let [at] = &found.executions[..] else { panic!("{found:?}") };
    assert_eq!((at.status, at.superstep, &at.next[..]), ("waiting", 2, &["ask".to_owned()][..]));
    assert_eq!(at.resumes_from.as_deref(), Some(&*format!("{}@2", at.execution)));
    assert_eq!(at.waits[0].answer, [format!("longhaul approve {wait}"), format!("longhaul reject {wait}")]);
    assert_eq!((&at.runs_again[..], &at.not_again[..]), (&["ask".to_owned()][..], &[][..]));
    // By its task, its execution, its wait, a checkpoint: the same.
    for other in ["task_1", &at.execution, &wait, &format!("{}@1", at.execution)] {
        assert_eq!(operator.whereabouts(other).await.unwrap().executions, found.executions, "{other}");
    }
    program.fail("report-2").await;
    let found = operator.whereabouts("report-2").await.unwrap();
    assert_eq!(found.phase, "failed in publish");
    let [at] = &found.executions[..] else { panic!("{found:?}") };
    assert!(at.error.as_ref().unwrap().contains("printer"), "{at:?}");
    assert_eq!(at.not_again, [format!("{}/publish/4/seal#1", at.execution)]);
    assert!(at.to_go_on.as_ref().unwrap().contains("run the program of the graph \"review\" again"), "{at:?}");
    let reached = found.milestone.unwrap();
    assert_eq!((reached.name.as_str(), reached.checkpoint), ("risk-review", Some(format!("{}@2", at.execution))));
    // Both threads of the task.
    assert_eq!(operator.whereabouts("task_1").await.unwrap().executions.len(), 2);
}

async fn whose_a_task_is_names_its_owners_and_nobody_else_sees_it(ground: Ground) {
    let program = Program::of(&ground, &scope()).await;
    program.fail("report-1").await;
    let operator = ground.operator().await;
    let whose = operator.belonging("report-1").await.unwrap();
    assert_eq!(
        [&whose.tenant, &whose.user, &whose.session, &whose.task, &whose.trace].map(String::as_str),
        ["tenant_default", "user_default", "sess_1", "task_1", "trace_1"]
    );
    let fact = |name: &str| whose.facts.iter().find(|fact| fact.name == name).map(|fact| fact.value.as_str());
    assert_eq!(
        [fact("threads"), fact("answered by"), fact("executions"), fact("records"), fact("milestones")],
        [Some("report-1"), Some("ada"), Some("1"), Some("3"), Some("1")]
    );
    let thread: longhaul_core::ThreadId = "report-1".parse().unwrap();
    let execution = program.runtime.find(&scope().scope, &thread).await.unwrap().unwrap().id.to_string();
    let record = operator.kept("report-1", KeptFilter::default()).await.unwrap()[0].id.clone();
    let strangers = [("tenant_default", "user_other"), ("tenant_other", "user_default")];
    for (tenant, user) in strangers {
        let scope = Scope { tenant: tenant.parse().unwrap(), user: user.parse().unwrap() };
        let other =
            Operator::over(ground.store().await, longhaul_core::Ambient::system(), scope, "stranger".to_owned());
        for id in ["report-1", "task_1", &execution] {
            assert!(matches!(other.belonging(id).await, Err(OperateError::Unknown { .. })), "{user} {id}");
            assert!(matches!(other.whereabouts(id).await, Err(OperateError::Unknown { .. })), "{user} {id}");
            assert!(matches!(other.kept(id, KeptFilter::default()).await, Err(OperateError::Unknown { .. })), "{id}");
            assert!(matches!(other.tail(id, 0, false).await, Err(OperateError::Unknown { .. })), "{user} {id}");
        }
        for id in [&record, &execution, &"user_default".to_owned()] {
            if *id != scope_user(user) {
                assert!(matches!(other.explain(id, 10).await, Err(OperateError::Unknown { .. })), "{user} {id}");
            }
        }
        assert!(matches!(other.show(&record, None).await, Err(OperateError::Unknown { .. })), "{user}");
        assert!(matches!(other.linked(&record, 1).await, Err(OperateError::Unknown { .. })), "{user}");
    }
}

fn scope_user(user: &str) -> String {
    user.to_owned()
}

async fn records_links_and_contents_are_shown_so_that_a_terminal_takes_no_harm(ground: Ground) {
    let program = Program::of(&ground, &scope()).await;
    program.fail("report-1").await;
    let operator = ground.operator().await;
    let kept = operator.kept("report-1", KeptFilter::default()).await.unwrap();
    let summaries: Vec<&str> = kept.iter().map(|record| record.summary.as_str()).collect();
    assert_eq!(summaries, ["the contract", "draft report", "low risk"]);
    let filter = KeptFilter { kind: Some("artifact".to_owned()), ..KeptFilter::default() };
    assert_eq!(operator.kept("task_1", filter).await.unwrap().len(), 1);
    let filter = KeptFilter { after: kept[0].seq, limit: 1, ..KeptFilter::default() };
    assert_eq!(operator.kept("task_1", filter).await.unwrap()[0].id, kept[1].id);

    let near = operator.linked(&kept[0].id, 1).await.unwrap();
    assert_eq!(near.links.len(), 1);
    let far = operator.linked(&kept[0].id, 3).await.unwrap();
    assert_eq!(far.links.len(), 2, "{far:?}");
    let chart = far.mermaid();
    assert!(chart.starts_with("flowchart LR\n") && chart.contains("-->|derived_from|"), "{chart}");
    assert!(chart.contains("artifact: draft report"), "{chart}");

    // By its id, its reference, its content.
    let (draft, digest) = (&kept[1].id, &kept[1].digest);
    for reference in [
        draft.clone(),
        format!("{draft}@{digest}"),
        serde_json::json!({ "id": draft, "digest": digest }).to_string(),
        digest.clone(),
    ] {
        let shown = operator.show(&reference, None).await.unwrap();
        assert_eq!(
            (shown.id.as_str(), shown.content.as_deref()),
            (draft.as_str(), Some("it costs 42 EUR")),
            "{reference}"
        );
    }
    let wrong = format!("{draft}@{}", kept[0].digest);
    assert!(operator.show(&wrong, None).await.unwrap_err().to_string().contains("has the digest"));

    let nasty = Ingest::new(Kind::Observation, "logs", "a log", "tool:shell", "ok\x1b]0;owned\x07\u{202e}txt.exe");
    let nasty = program.task.ingest(nasty).await.unwrap();
    let shown = operator.show(nasty.id.as_str(), None).await.unwrap();
    assert_eq!(shown.content.unwrap(), "ok\\u{1b}]0;owned\\u{7}\\u{202e}txt.exe");
    let picture = Ingest::new(Kind::Evidence, "pictures", "a picture", "tool:browser", &[0x89, b'P', 0, 255, 1]);
    let picture = program.task.ingest(picture).await.unwrap();
    let refused = operator.show(picture.id.as_str(), None).await.unwrap_err();
    assert!(matches!(&refused, OperateError::NotText { bytes: 5, .. }) && refused.to_string().contains("--out FILE"));
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("picture.png");
    assert_eq!(operator.show(picture.id.as_str(), Some(&out)).await.unwrap().saved.as_deref(), Some(&*out));
    assert_eq!(std::fs::read(&out).unwrap(), [0x89, b'P', 0, 255, 1]);
    // A file that is there stays as it is.
    let again = operator.show(draft, Some(&out)).await;
    assert!(matches!(&again, Err(OperateError::NotSaved { .. })), "{again:?}");
    assert_eq!(std::fs::read(&out).unwrap(), [0x89, b'P', 0, 255, 1]);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    let step = operator.whereabouts("report-1").await.unwrap().executions[0].not_again[0].clone();
    assert_eq!(operator.show(&step, None).await.unwrap().content.unwrap(), "\"sealed\"");
}

const OTHER: &str = "LONGHAUL_TEST_TELLER";

/// Not a test by itself: the process whose events are followed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn telling_process() {
    let Ok(told) = env::var(OTHER) else { return };
    let (dir, url) = told.split_once('\n').unwrap();
    let store = crate::ground::open(dir, url, longhaul_store::Faults::new()).await;
    let runtime = longhaul_durable::Runtime::new(store.clone(), longhaul_core::Ambient::system());
    let memory = longhaul_memory::Memory::new(store.clone(), None);
    let task = longhaul_workspace::Workspace::new(store, memory).task(&scope());
    let program = Program { runtime, task };
    program.fail("report-1").await;
    let execution = program.runtime.find(&scope().scope, &"report-1".parse().unwrap()).await.unwrap().unwrap();
    program.runtime.abandon(&scope().scope, &execution.thread).await.unwrap();
}

fn name(event: &TaskEvent) -> String {
    let told = serde_json::to_value(&event.event).unwrap();
    let custom = matches!(event.event, BusinessEvent::Custom { .. });
    told[if custom { "kind" } else { "type" }].as_str().unwrap().to_owned()
}

async fn business_events_are_followed_live_across_processes_and_taken_up_anywhere(ground: Ground) {
    // Something of the task is there before, so that it can be named.
    let program = Program::of(&ground, &scope()).await;
    let early = Ingest::new(Kind::Note, "notes", "before it began", "user", "x");
    program.task.ingest(early).await.unwrap();
    // Another task of the same user says nothing here.
    let other = TaskScope { task: "task_2".parse().unwrap(), ..scope() };
    let strange = Ingest::new(Kind::Note, "notes", "of another task", "user", "x");
    Program::of(&ground, &other).await.task.ingest(strange).await.unwrap();

    let operator = ground.operator().await;
    let mut tail = operator.tail("task_1", 0, false).await.unwrap();
    let [dir, url] = ground.address();
    let mut teller = Command::new(env::current_exe().unwrap())
        .args(["--exact", "questions::telling_process", "--nocapture"])
        .env(OTHER, format!("{dir}\n{url}"))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut told = Vec::new();
    while let Some(event) = timeout(Duration::from_secs(60), tail.next()).await.unwrap().unwrap() {
        told.push(event);
    }
    assert!(teller.wait().unwrap().success());
    let names: Vec<String> = told.iter().map(name).collect();
    for expected in [
        "record.ingested",
        "execution_started",
        "wait_opened",
        "link.made",
        "milestone.reached",
        "wait_answered",
        "execution_failed",
        "execution_abandoned",
    ] {
        assert!(names.iter().any(|name| name == expected), "{expected} is missing from {names:?}");
    }
    assert!(told.iter().all(|event| event.task.as_str() == "task_1"));
    assert!(told.windows(2).all(|pair| pair[0].seq < pair[1].seq), "not in the order of the log");
    // Taken up behind any of them, the rest comes, once.
    for (index, event) in told.iter().enumerate() {
        let mut tail = operator.tail("task_1", event.seq, false).await.unwrap();
        let mut rest = Vec::new();
        while let Some(event) = timeout(Duration::from_secs(60), tail.next()).await.unwrap().unwrap() {
            rest.push(event);
        }
        assert_eq!(rest, told[index + 1..], "behind {}", event.seq);
    }
    // Of the thread alone, what its execution caused.
    let mut tail = operator.tail("report-1", 0, false).await.unwrap();
    while let Some(event) = timeout(Duration::from_secs(60), tail.next()).await.unwrap().unwrap() {
        assert!(event.execution.is_some(), "{event:?}");
    }
}
