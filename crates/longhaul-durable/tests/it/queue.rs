//! The queue and the workers that run what is in it: order, turns, limits, waiting, failing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use longhaul_core::{Scope, TaskScope, ThreadId, TimeMs};
use longhaul_durable::{
    DurableError, END, Enqueue, Enqueued, EntryFilter, EntryStatus, Graph, GraphBuilder, NodeError, Outcome,
    RunOptions, Runtime, START, Wait, Worked, Worker,
};
use longhaul_store::{StoreError, values};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    ground::{Ground, on},
    support::{Done, Words, World, scope},
};

on! { memory, file, postgres:
    what_is_enqueued_is_run_once,
    priority_and_time_decide_the_order,
    what_becomes_ready_during_a_look_is_not_slept_over,
    a_flood_of_one_tenant_does_not_starve_another,
    a_tenant_has_no_more_at_work_than_it_may,
    a_key_and_a_thread_stand_in_the_queue_once,
    what_fails_too_often_is_parked_until_somebody_says_retry,
    what_cannot_be_read_is_parked_and_holds_nobody_up,
    what_waits_is_run_again_when_it_is_answered,
    an_unknown_graph_is_left_for_other_workers,
    what_was_cancelled_leaves_the_queue,
}

/// Only a server tells of every query.
mod on_a_server {
    use super::an_idle_worker_asks_the_store_nothing;
    use crate::ground::on;

    on! { postgres: an_idle_worker_asks_the_store_nothing }
}

/// Notes the thread and adds it to the state.
pub(crate) fn noting(done: &Done) -> Graph<Words> {
    let done = done.clone();
    GraphBuilder::<Words>::new("noting", 1)
        .node("note", move |ctx, _| {
            let done = done.clone();
            async move {
                done.add(ctx.thread().as_str());
                Ok(vec![ctx.thread().to_string()])
            }
        })
        .edge(START, "note")
        .edge("note", END)
        .build()
        .unwrap()
}

pub(crate) fn of_tenant(tenant: &str) -> TaskScope {
    TaskScope { scope: Scope { tenant: tenant.parse().unwrap(), ..scope().scope }, ..scope() }
}

pub(crate) fn named(name: impl std::fmt::Display) -> ThreadId {
    format!("thread_{name}").parse().unwrap()
}

pub(crate) async fn enqueue(world: &World, thread: &ThreadId, graph: &str, how: Enqueue) -> Enqueued {
    world.runtime.enqueue(&scope(), graph, thread, &Words::default(), how).await.unwrap()
}

/// A worker at work, and how to end it.
pub(crate) struct AtWork {
    pub(crate) shutdown: CancellationToken,
    pub(crate) working: JoinHandle<Result<Worked, DurableError>>,
}

impl AtWork {
    pub(crate) fn begin(worker: Worker) -> Self {
        let shutdown = CancellationToken::new();
        Self { working: tokio::spawn(worker.run(shutdown.clone())), shutdown }
    }

    pub(crate) async fn end(self) -> Worked {
        self.shutdown.cancel();
        self.working.await.unwrap().unwrap()
    }
}

/// How the executions of a thread are.
async fn executions(world: &World, thread: &ThreadId) -> Vec<String> {
    let thread = thread.clone();
    let sql = "SELECT status FROM executions WHERE thread_id = ?1";
    let read = world.store.read(move |read| read.query(sql, &values![&thread], |row| row.get(0)));
    read.await.map_err(|error: StoreError| error).unwrap()
}

/// How the tenant's entries are, oldest first.
pub(crate) async fn statuses(runtime: &Runtime, scope: &Scope) -> Vec<EntryStatus> {
    let entries = runtime.queue(scope, EntryFilter { limit: 10_000, ..EntryFilter::default() }).await.unwrap();
    entries.into_iter().map(|entry| entry.status).collect()
}

/// Waits until the tenant's entries are so; a test that waits in vain says how they are.
pub(crate) async fn until(runtime: &Runtime, scope: &Scope, expected: &[EntryStatus]) {
    for _ in 0..3_000 {
        if statuses(runtime, scope).await == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let entries = runtime.queue(scope, EntryFilter::default()).await.unwrap();
    panic!("expected {expected:?}: {entries:#?}");
}

async fn what_cannot_be_read_is_parked_and_holds_nobody_up(ground: Ground) {
    let world = ground.world().await;
    // It comes first, and its execution's row says what no release has ever said.
    enqueue(&world, &named("bad"), "noting", Enqueue { priority: 9, ..Enqueue::default() }).await;
    let stopped = CancellationToken::new();
    stopped.cancel();
    let options = RunOptions { cancel: stopped, ..RunOptions::default() };
    let begun = world.runtime.run(&noting(&world.done), &scope(), &named("bad"), Words::default(), options).await;
    assert!(matches!(begun, Ok(Outcome::Cancelled)), "{begun:?}");
    let damage = world.store.write(|tx| tx.execute("UPDATE executions SET status = 'confused'", &[]));
    assert_eq!(damage.await.map_err(|error: StoreError| error).unwrap(), 1);
    enqueue(&world, &named("good"), "noting", Enqueue::default()).await;
    let worker = AtWork::begin(Worker::new(world.runtime.clone()).serve(noting(&world.done)));
    until(&world.runtime, &scope().scope, &[EntryStatus::Parked]).await;
    assert_eq!(world.done.all(), ["thread_good"]);
    worker.end().await;
    let entries = world.runtime.queue(&scope().scope, EntryFilter::default()).await.unwrap();
    assert!(entries[0].error.as_ref().is_some_and(|error| error.contains("confused")), "{entries:?}");
}

async fn what_is_enqueued_is_run_once(ground: Ground) {
    let world = ground.world().await;
    for n in 0..12 {
        enqueue(&world, &named(n), "noting", Enqueue::default()).await;
    }
    let workers: Vec<_> = (0..3)
        .map(|_| AtWork::begin(Worker::new(world.runtime.clone()).serve(noting(&world.done)).concurrency(2)))
        .collect();
    until(&world.runtime, &scope().scope, &[]).await;
    // One that comes while they sleep wakes one of them.
    enqueue(&world, &named(12), "noting", Enqueue::default()).await;
    until(&world.runtime, &scope().scope, &[]).await;
    let (mut claimed, mut completed) = (0, 0);
    for worker in workers {
        let worked = worker.end().await;
        claimed += worked.claimed;
        completed += worked.completed;
    }
    assert_eq!((claimed, completed), (13, 13));
    let mut done = world.done.take();
    done.sort();
    let mut expected: Vec<_> = (0..13).map(|n| named(n).to_string()).collect();
    expected.sort();
    assert_eq!(done, expected);
    for n in 0..13 {
        assert_eq!(executions(&world, &named(n)).await, ["completed"]);
    }
}

async fn priority_and_time_decide_the_order(ground: Ground) {
    let world = ground.world().await;
    let now = TimeMs(1_000_000);
    ground.clock.set(now.0);
    let with = |priority, ready_at| Enqueue { priority, ready_at, ..Enqueue::default() };
    enqueue(&world, &named("second"), "noting", with(0, None)).await;
    enqueue(&world, &named("late"), "noting", with(9, Some(TimeMs(now.0 + 3_600_000)))).await;
    enqueue(&world, &named("third"), "noting", with(-1, None)).await;
    enqueue(&world, &named("first"), "noting", with(5, None)).await;
    let worker = AtWork::begin(Worker::new(world.runtime.clone()).serve(noting(&world.done)));
    until(&world.runtime, &scope().scope, &[EntryStatus::Queued]).await;
    assert_eq!(world.done.take(), ["thread_first", "thread_second", "thread_third"]);
    worker.end().await;
    ground.clock.set(now.0 + 3_600_000);
    let worker = AtWork::begin(Worker::new(world.runtime.clone()).serve(noting(&world.done)));
    until(&world.runtime, &scope().scope, &[]).await;
    assert_eq!(world.done.take(), ["thread_late"]);
    worker.end().await;
}

async fn what_becomes_ready_during_a_look_is_not_slept_over(ground: Ground) {
    let world = ground.world().await;
    ground.clock.set(1_000_000);
    ground.clock.tick();
    let worker = AtWork::begin(Worker::new(world.runtime.clone()).serve(noting(&world.done)));
    // One of these moments comes between any two readings of the clock.
    for n in 0..40 {
        let ready_at = Some(TimeMs(world.store.ambient().clock.now().0 + n));
        enqueue(&world, &named(n), "noting", Enqueue { ready_at, ..Enqueue::default() }).await;
        until(&world.runtime, &scope().scope, &[]).await;
    }
    worker.end().await;
}

async fn a_flood_of_one_tenant_does_not_starve_another(ground: Ground) {
    let world = ground.world().await;
    let (flood, other) = (of_tenant("tenant_flood"), of_tenant("tenant_other"));
    let urgent = || Enqueue { priority: 100, ..Enqueue::default() };
    for n in 0..40 {
        world.runtime.enqueue(&flood, "noting", &named(n), &Words::default(), urgent()).await.unwrap();
    }
    for n in 0..3 {
        let thread = named(format!("other_{n}"));
        world.runtime.enqueue(&other, "noting", &thread, &Words::default(), Enqueue::default()).await.unwrap();
    }
    let worker = AtWork::begin(Worker::new(world.runtime.clone()).serve(noting(&world.done)));
    until(&world.runtime, &flood.scope, &[]).await;
    worker.end().await;
    let done = world.done.take();
    assert_eq!(done.len(), 43);
    let last = done.iter().rposition(|thread| thread.contains("other")).unwrap();
    assert!(last <= 6, "the other tenant's last turn was number {last}: {done:?}");
}

async fn a_tenant_has_no_more_at_work_than_it_may(ground: Ground) {
    let world = ground.world().await;
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counting = || {
        let (now, most) = (now.clone(), most.clone());
        GraphBuilder::<Words>::new("counting", 1)
            .node("count", move |_, _| {
                let (now, most) = (now.clone(), most.clone());
                async move {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    now.fetch_sub(1, Ordering::SeqCst);
                    Ok(vec!["counted".to_owned()])
                }
            })
            .edge(START, "count")
            .edge("count", END)
            .build()
            .unwrap()
    };
    for n in 0..10 {
        enqueue(&world, &named(n), "counting", Enqueue::default()).await;
    }
    let worker = || Worker::new(world.runtime.clone()).serve(counting()).concurrency(4).tenant_max(2);
    let workers = [AtWork::begin(worker()), AtWork::begin(worker())];
    until(&world.runtime, &scope().scope, &[]).await;
    for worker in workers {
        worker.end().await;
    }
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

async fn a_key_and_a_thread_stand_in_the_queue_once(ground: Ground) {
    let world = ground.world().await;
    let runtime = world.runtime.clone().with_queue_max(2);
    let keyed = || Enqueue { dedupe_key: Some("order 17".to_owned()), ..Enqueue::default() };
    let first = enqueue(&world, &named(1), "noting", keyed()).await;
    assert_eq!(enqueue(&world, &named(2), "noting", keyed()).await, Enqueued::Repeated(first.id().clone()));
    let again = runtime.enqueue(&scope(), "noting", &named(1), &Words::default(), Enqueue::default()).await;
    let error = again.unwrap_err();
    assert!(matches!(&error, DurableError::ThreadQueued { entry, .. } if entry == first.id()), "{error}");
    enqueue(&world, &named(2), "noting", Enqueue::default()).await;
    let full = runtime.enqueue(&scope(), "noting", &named(3), &Words::default(), Enqueue::default()).await;
    let error = full.unwrap_err().to_string();
    assert!(error.contains("the queue holds 2 entries of tenant_default"), "{error}");
    // Another tenant has a queue of its own.
    let other = of_tenant("tenant_other");
    runtime.enqueue(&other, "noting", &named(3), &Words::default(), Enqueue::default()).await.unwrap();
    let unknown = runtime.entry(&other.scope, first.id()).await.unwrap_err();
    assert!(matches!(unknown, DurableError::NoEntry { .. }), "{unknown}");

    let worker = AtWork::begin(Worker::new(runtime.clone()).serve(noting(&world.done)));
    until(&runtime, &scope().scope, &[EntryStatus::Done]).await;
    worker.end().await;
    // The key is known also after its entry is done, and nothing is run again.
    assert_eq!(enqueue(&world, &named(4), "noting", keyed()).await, Enqueued::Repeated(first.id().clone()));
    assert_eq!(statuses(&runtime, &scope().scope).await, [EntryStatus::Done]);
}

async fn what_fails_too_often_is_parked_until_somebody_says_retry(ground: Ground) {
    let world = ground.world().await;
    let (done, broken) = (world.done.clone(), CancellationToken::new());
    let mended = broken.clone();
    let failing = GraphBuilder::<Words>::new("failing", 1)
        .node("fail", move |_, _| {
            let (done, mended) = (done.clone(), mended.clone());
            async move {
                done.add("tried");
                if mended.is_cancelled() {
                    Ok(vec!["mended".to_owned()])
                } else {
                    Err(NodeError::gave_up(std::io::Error::other("the disk is on fire")))
                }
            }
        })
        .edge(START, "fail")
        .edge("fail", END)
        .build()
        .unwrap();
    let how = Enqueue { attempts_max: 3, retry_ms: 1, ..Enqueue::default() };
    let entry = enqueue(&world, &named(1), "failing", how).await.id().clone();
    let worker = AtWork::begin(Worker::new(world.runtime.clone()).serve(failing));
    until(&world.runtime, &scope().scope, &[EntryStatus::Parked]).await;
    assert_eq!(world.done.take().len(), 3);
    let parked = world.runtime.entry(&scope().scope, &entry).await.unwrap();
    assert!(parked.error.unwrap().contains("the disk is on fire"));
    assert!(world.kinds().await.contains(&"queue.parked".to_owned()));
    broken.cancel();
    world.runtime.retry(&scope().scope, &entry).await.unwrap();
    until(&world.runtime, &scope().scope, &[]).await;
    let refused = world.runtime.retry(&scope().scope, &entry).await.unwrap_err();
    assert!(matches!(refused, DurableError::NoEntry { .. }), "{refused}");
    assert_eq!(worker.end().await.failed, 3);
}

fn asking() -> Graph<Words> {
    GraphBuilder::<Words>::new("asking", 1)
        .node("ask", |ctx, _| async move {
            let answer = ctx.pause_for::<String>(Wait::approval("who?")).await?;
            ctx.sleep(Duration::from_millis(50)).await?;
            Ok(vec![answer.into_value().unwrap_or_default()])
        })
        .edge(START, "ask")
        .edge("ask", END)
        .build()
        .unwrap()
}

async fn what_waits_is_run_again_when_it_is_answered(ground: Ground) {
    let world = ground.world().await;
    enqueue(&world, &named(1), "asking", Enqueue::default()).await;
    let worker = AtWork::begin(Worker::new(world.runtime.clone()).serve(asking()));
    until(&world.runtime, &scope().scope, &[EntryStatus::Waiting]).await;
    world.runtime.continue_thread(&scope().scope, &named(1), json!("小红"), "request", "somebody").await.unwrap();
    // It goes on, sleeps for a while, and is run again when that is over.
    until(&world.runtime, &scope().scope, &[]).await;
    let worked = worker.end().await;
    assert_eq!((worked.claimed, worked.waiting, worked.completed), (3, 2, 1));
    assert_eq!(executions(&world, &named(1)).await, ["completed"]);
}

async fn an_unknown_graph_is_left_for_other_workers(ground: Ground) {
    let world = ground.world().await;
    enqueue(&world, &named(1), "unheard of", Enqueue::default()).await;
    enqueue(&world, &named(2), "noting", Enqueue::default()).await;
    let worker = AtWork::begin(Worker::new(world.runtime.clone()).serve(noting(&world.done)));
    until(&world.runtime, &scope().scope, &[EntryStatus::Queued]).await;
    let filter = EntryFilter { graph: Some("unheard of".to_owned()), ..EntryFilter::default() };
    let left = world.runtime.queue(&scope().scope, filter).await.unwrap();
    assert_eq!((left.len(), left[0].attempts), (1, 0));
    assert_eq!(worker.end().await.claimed, 1);
    world.runtime.withdraw(&scope().scope, &left[0].id).await.unwrap();
    assert!(statuses(&world.runtime, &scope().scope).await.is_empty());
}

async fn what_was_cancelled_leaves_the_queue(ground: Ground) {
    let world = ground.world().await;
    enqueue(&world, &named(1), "asking", Enqueue::default()).await;
    let worker = AtWork::begin(Worker::new(world.runtime.clone()).serve(asking()));
    until(&world.runtime, &scope().scope, &[EntryStatus::Waiting]).await;
    assert!(world.runtime.cancel(&scope().scope, &named(1), "somebody", "no longer wanted").await.unwrap());
    until(&world.runtime, &scope().scope, &[]).await;
    worker.end().await;
    // There is room again, and the thread is free.
    let small = world.runtime.clone().with_queue_max(1);
    small.enqueue(&scope(), "noting", &named(1), &Words::default(), Enqueue::default()).await.unwrap();
}

async fn an_idle_worker_asks_the_store_nothing(ground: Ground) {
    let world = ground.world().await;
    enqueue(&world, &named(1), "asking", Enqueue::default()).await;
    let later = Enqueue { ready_at: Some(TimeMs(i64::MAX / 2)), ..Enqueue::default() };
    enqueue(&world, &named(2), "noting", later).await;
    let workers: Vec<_> = (0..2)
        .map(|_| AtWork::begin(Worker::new(world.runtime.clone()).serve(asking()).serve(noting(&world.done))))
        .collect();
    until(&world.runtime, &scope().scope, &[EntryStatus::Waiting, EntryStatus::Queued]).await;
    let last_query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND pid <> pg_backend_pid() AND query_start > now() - interval '2 seconds'";
    // Everything has settled as soon as two seconds go by without a single query.
    let mut quiet = false;
    for _ in 0..40 {
        tokio::time::sleep(Duration::from_millis(250)).await;
        quiet = quiet || ground.psql(last_query).trim() == "0";
    }
    assert!(quiet, "{}", ground.psql("SELECT query_start, query FROM pg_stat_activity ORDER BY 1"));
    // They are awake all the same.
    world.runtime.continue_thread(&scope().scope, &named(1), json!("x"), "request", "somebody").await.unwrap();
    until(&world.runtime, &scope().scope, &[EntryStatus::Queued]).await;
    for worker in workers {
        worker.end().await;
    }
}
