//! Streams: everything once, in order, whoever runs and however slow the reader is.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use longhaul_core::{Ambient, EventDraft};
use longhaul_durable::{
    BusinessEvent, DevView, DevViews, DurableError, END, EventStream, Graph, GraphBuilder, MIGRATIONS, RunOptions,
    Runtime, START, StreamedEvent, Wait,
};
use longhaul_store::Store;
use serde_json::json;

use crate::{
    ground::{Ground, on},
    queue::named,
    support::{NOTES, Words, scope, thread},
};

on! { memory, file, postgres:
    a_stream_tells_everything_once_wherever_it_is_taken_up,
    a_slow_reader_misses_nothing,
    developers_see_values_updates_and_what_nodes_emit,
}

mod across_processes {
    use super::a_stream_follows_another_process;
    use crate::ground::on;

    on! { file, postgres: a_stream_follows_another_process }
}

const DIR: &str = "LONGHAUL_TEST_STREAM_DIR";
const URL: &str = "LONGHAUL_TEST_STREAM_URL";

/// Emits so many events, asks a question, and is done.
fn telling(events: u64) -> Graph<Words> {
    GraphBuilder::<Words>::new("telling", 1)
        .node("tell", move |ctx, _| async move {
            for n in 0..events {
                ctx.emit(EventDraft::business("chapter.written", json!({ "n": n })));
            }
            ctx.emit(EventDraft::internal("model.asked", json!({ "tokens": 7 })));
            Ok(vec!["told".to_owned()])
        })
        .node("ask", |ctx, _| async move {
            let answer = ctx.pause_for::<String>(Wait::approval("good?")).await?;
            Ok(answer.into_value().into_iter().collect::<Vec<_>>())
        })
        .edge(START, "tell")
        .edge("tell", "ask")
        .edge("ask", END)
        .build()
        .unwrap()
}

async fn run(runtime: &Runtime, events: u64) {
    let (graph, scope, thread) = (telling(events), scope(), thread());
    let run = || runtime.run(&graph, &scope, &thread, Words::default(), RunOptions::default());
    run().await.unwrap();
    runtime.continue_thread(&scope.scope, &thread, json!("yes"), "request", "Lee").await.unwrap();
    run().await.unwrap();
}

async fn next(stream: &mut EventStream) -> Option<StreamedEvent> {
    let waiting = tokio::time::timeout(Duration::from_secs(30), stream.next());
    waiting.await.expect("the stream tells nothing").unwrap()
}

/// What is told of one execution, to its end.
async fn all(mut stream: EventStream) -> Vec<StreamedEvent> {
    let mut told = Vec::new();
    while let Some(event) = next(&mut stream).await {
        told.push(event);
    }
    told
}

fn name(event: &StreamedEvent) -> String {
    let json = serde_json::to_value(&event.event).unwrap();
    json["type"].as_str().unwrap().to_owned()
}

const EXPECTED: [&str; 8] = [
    "execution_started",
    "custom",
    "custom",
    "wait_opened",
    "execution_waiting",
    "wait_answered",
    "execution_resumed",
    "execution_completed",
];

async fn a_stream_tells_everything_once_wherever_it_is_taken_up(ground: Ground) {
    let world = ground.world().await;
    let mut live = world.runtime.stream(&scope().scope, thread(), 0).unwrap();
    let running = tokio::spawn({
        let runtime = world.runtime.clone();
        async move { run(&runtime, 2).await }
    });
    let mut told = Vec::new();
    while told.len() < EXPECTED.len() {
        told.push(next(&mut live).await.unwrap());
    }
    running.await.unwrap();
    assert_eq!(told.iter().map(name).collect::<Vec<_>>(), EXPECTED);
    assert!(told.windows(2).all(|two| two[0].seq < two[1].seq));
    let BusinessEvent::Custom { kind, data } = &told[2].event else { panic!("{:?}", told[2]) };
    assert_eq!((kind.as_str(), data), ("chapter.written", &json!({ "n": 1 })));
    assert!(matches!(&told[5].event, BusinessEvent::WaitAnswered { actor, .. } if actor == "Lee"));

    // Another handle of the store reads on behind any of them.
    let again = ground.world().await;
    let execution = told[0].execution.clone();
    for (position, event) in told.iter().enumerate() {
        let stream = again.runtime.stream(&scope().scope, execution.clone(), event.seq).unwrap();
        assert_eq!(all(stream).await, told[position + 1..]);
    }
    // Nobody else's events are told, and this thread's stream goes on with its next execution.
    let graph = telling(1);
    let other = named("other");
    world.runtime.run(&graph, &scope(), &other, Words::default(), RunOptions::default()).await.unwrap();
    world.runtime.run(&graph, &scope(), &thread(), Words::default(), RunOptions::default()).await.unwrap();
    let second = next(&mut live).await.unwrap();
    assert_eq!(name(&second), "execution_started");
    assert_ne!(second.execution, execution);
    let foreign = crate::queue::of_tenant("tenant_other");
    let mut stream = again.runtime.stream(&foreign.scope, thread(), 0).unwrap();
    let heard = tokio::time::timeout(Duration::from_millis(200), stream.next()).await;
    assert!(heard.is_err(), "{heard:?}");
}

async fn a_slow_reader_misses_nothing(ground: Ground) {
    let world = ground.world().await;
    let mut slow = world.runtime.stream(&scope().scope, thread(), 0).unwrap();
    // Far more than a subscriber of the store may lag behind.
    run(&world.runtime, 6_000).await;
    let mut expected = 0;
    loop {
        let event = next(&mut slow).await.unwrap();
        if let BusinessEvent::Custom { data, .. } = &event.event {
            assert_eq!(data["n"], expected);
            expected += 1;
        } else if matches!(event.event, BusinessEvent::ExecutionCompleted { .. }) {
            break;
        }
    }
    assert_eq!(expected, 6_000);
}

async fn developers_see_values_updates_and_what_nodes_emit(ground: Ground) {
    let world = ground.world().await;
    let graph = telling(1);
    let wanted = DevViews { values: true, updates: true, custom: true, debug: false };
    let mut views = world.runtime.dev_views(&graph, &scope().scope, &thread(), wanted).unwrap();
    run(&world.runtime, 1).await;
    let mut seen = Vec::new();
    while seen.len() < 6 {
        let waiting = tokio::time::timeout(Duration::from_secs(30), views.next());
        seen.push(match waiting.await.expect("nothing to be seen").unwrap().unwrap() {
            DevView::Values { superstep, state, .. } => format!("{superstep}: {}", state["words"]),
            DevView::Updates { superstep, updates, .. } => format!("{superstep}: {updates}"),
            DevView::Custom(event) => event.kind.clone(),
            view @ (DevView::Debug(_) | DevView::Missed(_)) => panic!("{view:?}"),
        });
    }
    seen.sort();
    assert_eq!(
        seen,
        [
            r#"1: ["told"]"#,
            r#"1: [[["told"]]]"#,
            r#"2: ["told","yes"]"#,
            r#"2: [[["yes"]]]"#,
            "chapter.written",
            "model.asked"
        ]
    );
}

async fn a_stream_follows_another_process(ground: Ground) {
    let world = ground.world().await;
    let mut live = world.runtime.stream(&scope().scope, thread(), 0).unwrap();
    let (dir, url) = ground.address();
    let process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "streams::running_process", "--nocapture"])
        .env(DIR, dir)
        .env(URL, url)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut told = Vec::new();
    while told.len() < EXPECTED.len() {
        told.push(name(&next(&mut live).await.unwrap()));
    }
    assert_eq!(told, EXPECTED);
    assert!(process.wait_with_output().unwrap().status.success());
}

/// Not a test by itself: the other process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_process() {
    let (Ok(dir), Ok(url)) = (std::env::var(DIR), std::env::var(URL)) else { return };
    let store = Store::open(Ground::settings(&dir, &url), Ambient::system(), &[MIGRATIONS, NOTES]).await.unwrap();
    run(&Runtime::new(store, Ambient::system()), 2).await;
}

#[tokio::test]
async fn a_runtime_that_keeps_nothing_has_no_streams() {
    let runtime = Runtime::ephemeral(Ambient::system());
    let refused = runtime.stream(&scope().scope, thread(), 0).unwrap_err();
    assert!(matches!(refused, DurableError::KeepsNothing));
}
