//! Whoever watches changes nothing; and the spans of a run make a tree.

use std::{
    collections::HashMap,
    process::Command,
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

use longhaul_core::Ambient;
use longhaul_durable::{
    END, Effect, Flow, Graph, GraphBuilder, News, NodeError, Observed, Outcome, RunOptions, Runtime, START,
};
use opentelemetry::{trace::SpanId, trace::TracerProvider as _};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing_subscriber::layer::SubscriberExt;

use crate::{
    ground::Ground,
    support::{Words, completed, scope, thread},
};

const SECRET: &str = "the prompt says 秘密";

/// Two branches at once, one of them with a step.
fn branching() -> Graph<Words> {
    GraphBuilder::<Words>::new("branching", 1)
        .node("split", |_, _| async { Ok(vec![SECRET.to_owned()]) })
        .node("left", |ctx, _| async move {
            let said = ctx.step("model", Effect::Pure, async { Ok(SECRET.to_owned()) }).await?;
            Ok(vec![said])
        })
        .node("right", |_, _| async { Ok(vec!["right".to_owned()]) })
        .edge(START, "split")
        .edge("split", "left")
        .edge("split", "right")
        .edge("left", END)
        .edge("right", END)
        .build()
        .unwrap()
}

async fn run(runtime: &Runtime, graph: &Graph<Words>) -> Outcome<Words> {
    runtime.run(graph, &scope(), &thread(), Words::default(), RunOptions::default()).await.unwrap()
}

#[tokio::test]
async fn an_observer_sees_a_run_from_its_begin_to_its_end() {
    let world = Ground::memory().world().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noting = seen.clone();
    let runtime = world.runtime.clone().with_observer(move |observed: &Observed| {
        noting.lock().unwrap().push(observed.clone());
        Ok(())
    });
    completed(run(&runtime, &branching()).await);
    let begun = Instant::now();
    while !matches!(seen.lock().unwrap().last(), Some(Observed::Ended { .. })) {
        assert!(begun.elapsed() < Duration::from_secs(30), "{seen:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let seen = seen.lock().unwrap();
    assert!(matches!(&seen[0], Observed::Began { .. }));
    let Some(Observed::Ended { outcome, .. }) = seen.last() else { panic!("{seen:?}") };
    assert_eq!(*outcome, "completed");
    let recorded = seen.iter().filter(|observed| {
        matches!(observed, Observed::Progress(news) if matches!(&news.news, News::StepRecorded { name, .. } if name == "model"))
    });
    assert_eq!(recorded.count(), 1);
    assert_eq!(runtime.observations_dropped(), 0);
}

#[tokio::test]
async fn an_observer_that_panics_or_fails_changes_nothing() {
    let world = Ground::memory().world().await;
    let (told, asked) = mpsc::channel();
    let runtime = world
        .runtime
        .clone()
        .with_observer(|_: &Observed| panic!("an observer's own trouble"))
        .with_observer(|_: &Observed| Err("no disk space".into()))
        .with_observer(move |observed: &Observed| Ok(told.send(matches!(observed, Observed::Ended { .. }))?));
    let state = completed(run(&runtime, &branching()).await);
    assert_eq!(state.words, [SECRET, SECRET, "right"]);
    // The third sees all of it, whatever befalls the others.
    while !asked.recv_timeout(Duration::from_secs(30)).unwrap() {}
}

#[tokio::test]
async fn an_observer_that_hangs_holds_nobody_up() {
    let (release, held) = mpsc::channel::<()>();
    let runtime = Runtime::ephemeral(Ambient::system()).with_observer(move |_: &Observed| {
        // Until the test has ended.
        let _ = held.recv();
        Ok(())
    });
    let counting = GraphBuilder::<Words>::new("counting", 1)
        .node("count", |_, state: Arc<Words>| async move {
            let next = if state.count < 999 { "count" } else { END };
            Ok(Flow::update(vec!["x".to_owned()]).goto(next))
        })
        .edge(START, "count")
        .goto("count", &["count", END])
        .build()
        .unwrap();
    let begun = Instant::now();
    assert_eq!(completed(run(&runtime, &counting).await).count, 1_000);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    // Two pieces of news a superstep, and room for 1,024.
    assert!(runtime.observations_dropped() > 500, "{}", runtime.observations_dropped());
    drop(release);
}

fn attribute(span: &SpanData, key: &str) -> Option<String> {
    span.attributes.iter().find(|pair| pair.key.as_str() == key).map(|pair| pair.value.to_string())
}

const ALONE: &str = "LONGHAUL_TEST_SPANS";

/// In a process of its own: whether a span is made is decided once for all threads.
#[test]
fn the_spans_of_a_run_make_a_tree_and_hold_no_state() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "observing::spans_of_a_run", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Not a test by itself: the process above.
#[tokio::test(flavor = "current_thread")]
async fn spans_of_a_run() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("longhaul"));
    let exporting = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let world = Ground::memory().world().await;
    completed(run(&world.runtime, &branching()).await);
    let failing = GraphBuilder::<Words>::new("failing", 1)
        .node("fail", |_, _| async { Err::<Vec<String>, _>(NodeError::gave_up(std::io::Error::other(SECRET))) })
        .edge(START, "fail")
        .edge("fail", END)
        .build()
        .unwrap();
    assert!(matches!(run(&world.runtime, &failing).await, Outcome::Failed { .. }));
    drop(exporting);
    provider.force_flush().unwrap();
    let spans = exporter.get_finished_spans().unwrap();
    let spans: Vec<_> =
        spans.into_iter().filter(|span| attribute(span, "target").is_none_or(|of| of.contains("durable"))).collect();
    let names: HashMap<SpanId, String> =
        spans.iter().map(|span| (span.span_context.span_id(), span.name.to_string())).collect();
    let parent = |span: &SpanData| names.get(&span.parent_span_id).cloned().unwrap_or_default();
    let mut tree: Vec<String> = spans.iter().map(|span| format!("{} < {}", span.name, parent(span))).collect();
    tree.sort();
    assert_eq!(
        tree,
        [
            "invoke_workflow branching < ",
            "invoke_workflow failing < ",
            "node fail < superstep 1",
            "node left < superstep 2",
            "node right < superstep 2",
            "node split < superstep 1",
            "step model < node left",
            "superstep 1 < invoke_workflow branching",
            "superstep 1 < invoke_workflow failing",
            "superstep 2 < invoke_workflow branching",
        ]
    );
    let run = spans.iter().find(|span| span.name == "invoke_workflow branching").unwrap();
    assert_eq!(attribute(run, "gen_ai.operation.name").unwrap(), "invoke_workflow");
    assert_eq!(attribute(run, "gen_ai.conversation.id").unwrap(), "thread_1");
    assert_eq!(attribute(run, "longhaul.outcome").unwrap(), "completed");
    let failed = spans.iter().find(|span| span.name == "node fail").unwrap();
    assert!(matches!(failed.status, opentelemetry::trace::Status::Error { .. }), "{:?}", failed.status);
    assert!(!format!("{spans:?}").contains("秘密"));
    for span in &spans {
        let owner = OWNER.map(|key| attribute(span, key).unwrap_or_default());
        assert_eq!(owner[..5], ["tenant_default", "user_default", "sess_1", "task_1", "trace_1"], "{span:?}");
        assert!(owner[5].starts_with("exec_"), "{span:?}");
    }
    let of_run = |name: &str| attribute(spans.iter().find(|span| span.name == name).unwrap(), OWNER[5]);
    assert_eq!(of_run("step model"), of_run("invoke_workflow branching"));
    assert_ne!(of_run("node fail"), of_run("invoke_workflow branching"));
}

/// What every span of a run says of its owner.
const OWNER: [&str; 6] = [
    "longhaul.tenant.id",
    "longhaul.user.id",
    "longhaul.session.id",
    "longhaul.task.id",
    "longhaul.trace.id",
    "longhaul.execution.id",
];

/// A log in memory.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_line_of_a_log_says_whose_it_is() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "observing::lines_of_a_run", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Not a test by itself: the process above. Only warnings are logged, as in production.
#[tokio::test(flavor = "current_thread")]
async fn lines_of_a_run() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let log = Log::default();
    let writing = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new("warn"))
        .with_ansi(false)
        .with_writer(move || writing.clone())
        .finish();
    let logging = tracing::subscriber::set_default(subscriber);
    let graph = GraphBuilder::<Words>::new("warning", 1)
        .node("warn", |ctx, _| async move {
            tracing::warn!("a crate that knows nothing of executions");
            let word = ctx.step("model", Effect::Pure, async {
                tracing::warn!("within a step");
                Ok("word".to_owned())
            });
            Ok(vec![word.await?])
        })
        .edge(START, "warn")
        .edge("warn", END)
        .build()
        .unwrap();
    let world = Ground::memory().world().await;
    completed(run(&world.runtime, &graph).await);
    drop(logging);
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 2, "{log}");
    for line in lines {
        for (key, value) in OWNER.iter().zip(["tenant_default", "user_default", "sess_1", "task_1", "trace_1", "exec_"])
        {
            assert!(line.contains(&format!("{key}=\"{value}")), "{key} is missing from {line}");
        }
    }
}
