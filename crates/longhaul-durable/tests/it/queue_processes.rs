//! Workers that are processes of their own: they die, and they meet at one thread.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use longhaul_core::Ambient;
use longhaul_durable::{
    DurableError, END, Enqueue, Graph, GraphBuilder, MIGRATIONS, Outcome, RunOptions, Runtime, START, Worker,
};
use longhaul_store::{LeaseError, Store, StoreError};
use tokio_util::sync::CancellationToken;

use crate::{
    ground::{Ground, on},
    queue::{AtWork, enqueue, named, noting, until},
    support::{NOTES, Words, scope, thread},
};

on! { file, postgres:
    what_a_killed_worker_had_in_hand_is_taken_over,
    two_processes_on_one_thread_lose_nothing,
}

const DIR: &str = "LONGHAUL_TEST_WORKER_DIR";
const URL: &str = "LONGHAUL_TEST_WORKER_URL";
/// How many executions each process completes on the one thread.
const ROUNDS: usize = 40;

fn process(ground: &Ground, test: &str) -> Child {
    let (dir, url) = ground.address();
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(DIR, dir)
        .env(URL, url)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

async fn runtime_of_the_parent() -> Option<Runtime> {
    let (Ok(dir), Ok(url)) = (std::env::var(DIR), std::env::var(URL)) else { return None };
    let store = Store::open(Ground::settings(&dir, &url), Ambient::system(), &[MIGRATIONS, NOTES]).await.unwrap();
    Some(Runtime::new(store, Ambient::system()))
}

async fn what_a_killed_worker_had_in_hand_is_taken_over(ground: Ground) {
    let world = ground.world().await;
    for n in 0..2 {
        enqueue(&world, &named(n), "noting", Enqueue::default()).await;
    }
    let mut child = process(&ground, "queue_processes::hanging_worker");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        assert!(lines.by_ref().any(|line| line.unwrap().contains("HANGING")));
    }
    // Alive, it keeps what it has, whoever else is at work.
    let worker = AtWork::begin(Worker::new(world.runtime.clone()).serve(noting(&world.done)));
    enqueue(&world, &named(2), "noting", Enqueue::default()).await;
    until(&world.runtime, &scope().scope, &[longhaul_durable::EntryStatus::Claimed; 2]).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(world.done.take(), ["thread_2"]);
    let killed = std::time::Instant::now();
    child.kill().unwrap();
    child.wait().unwrap();
    until(&world.runtime, &scope().scope, &[]).await;
    // Its lease would have lasted for 30 s; the lock of the host told at once.
    assert!(killed.elapsed() < Duration::from_secs(15), "{:?}", killed.elapsed());
    let worked = worker.end().await;
    assert_eq!((worked.taken_over, worked.completed), (2, 3));
    let mut done = world.done.take();
    done.sort();
    assert_eq!(done, ["thread_0", "thread_1"]);
}

/// Not a test by itself: the worker that is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_worker() {
    let Some(runtime) = runtime_of_the_parent().await else { return };
    let hanging = GraphBuilder::<Words>::new("noting", 1)
        .node("note", |_, _| async move {
            println!("\nHANGING");
            std::future::pending::<()>().await;
            Ok(Vec::new())
        })
        .edge(START, "note")
        .edge("note", END)
        .build()
        .unwrap();
    Worker::new(runtime).serve(hanging).concurrency(2).run(CancellationToken::new()).await.unwrap();
}

fn three_words() -> Graph<Words> {
    let word = |word: &'static str| move |_, _| async move { Ok(vec![word.to_owned()]) };
    GraphBuilder::<Words>::new("three", 1)
        .node("a", word("a"))
        .node("b", word("b"))
        .node("c", word("c"))
        .edge(START, "a")
        .edge("a", "b")
        .edge("b", "c")
        .edge("c", END)
        .build()
        .unwrap()
}

async fn two_processes_on_one_thread_lose_nothing(ground: Ground) {
    let world = ground.world().await;
    let processes: Vec<_> = (0..2).map(|_| process(&ground, "queue_processes::running_process")).collect();
    for process in processes {
        let output = process.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("ROUNDS DONE"), "{said}");
    }
    // Each execution has its begin and its three supersteps once: nothing was lost, and nothing was forked.
    let counts = world.store.read(|read| {
        read.query(
            "SELECT e.status, COUNT(c.superstep) FROM executions e
             JOIN checkpoints c ON c.tenant_id = e.tenant_id AND c.execution_id = e.execution_id
             GROUP BY e.tenant_id, e.execution_id, e.status",
            &[],
            |row| Ok((row.get::<String>(0)?, row.get::<i64>(1)?)),
        )
    });
    let counts = counts.await.map_err(|error: StoreError| error).unwrap();
    assert_eq!(counts.len(), 2 * ROUNDS);
    assert!(counts.iter().all(|(status, rows)| status == "completed" && *rows == 4), "{counts:?}");
}

/// Not a test by itself: one of the two processes above.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_process() {
    let Some(runtime) = runtime_of_the_parent().await else { return };
    let graph = three_words();
    let mut done = 0;
    while done < ROUNDS {
        match runtime.run(&graph, &scope(), &thread(), Words::default(), RunOptions::default()).await {
            Ok(Outcome::Completed(words)) => {
                assert_eq!(words, Words::of(&["a", "b", "c"]));
                done += 1;
            }
            Err(DurableError::Lease(LeaseError::Held { .. })) => tokio::task::yield_now().await,
            other => panic!("{other:?}"),
        }
    }
    println!("\nROUNDS DONE");
}
