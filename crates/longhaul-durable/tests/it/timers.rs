//! Timers and deadlines: they fire once, whatever happens to clocks and processes.

use std::time::Duration;

use futures::future::Either;
use longhaul_core::TimeMs;
use longhaul_durable::{
    Answer, DurableError, END, Effect, Graph, GraphBuilder, Outcome, RunOptions, Runtime, START, Wait, WaitInfo,
    WaitKind, WaitStatus,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    ground::{Ground, on},
    support::{Done, Words, completed, scope, thread},
};

on! { file, memory, postgres:
    a_timer_fires_once_whatever_the_clock_does,
    a_run_may_await_its_timers,
    a_run_that_awaits_a_timer_can_be_ended,
    each_deadline_ends_its_wait_once,
    deadlines_are_heard_of_without_asking_again_and_again,
}

const HOUR: i64 = 3_600_000;

fn nap(done: &Done, rest: Duration) -> Graph<Words> {
    let done = done.clone();
    GraphBuilder::<Words>::new("nap", 1)
        .node("nap", move |ctx, _| {
            let done = done.clone();
            async move {
                ctx.step("lie down", Effect::Pure, async {
                    done.add("lay down");
                    Ok(())
                })
                .await?;
                ctx.sleep(rest).await?;
                done.add("got up");
                Ok(vec!["slept".to_owned()])
            }
        })
        .edge(START, "nap")
        .branch("nap", &["nap", END], |state| if state.count < 3 { "nap" } else { END })
        .build()
        .unwrap()
}

fn waits(outcome: Outcome<Words>) -> Vec<WaitInfo> {
    let Outcome::Waiting(waits) = outcome else { panic!("{outcome:?}") };
    waits
}

async fn a_timer_fires_once_whatever_the_clock_does(ground: Ground) {
    let day = 24 * HOUR;
    let mut now = 100 * day;
    ground.clock.set(now);
    let world = ground.world().await;
    let graph = nap(&world.done, Duration::from_secs(3600));
    for _ in 0..3 {
        let asked = waits(world.run(&graph).await);
        let due = TimeMs(now + HOUR);
        assert_eq!((asked.len(), asked[0].kind, asked[0].deadline_at), (1, WaitKind::Timer, Some(due)));
        assert_eq!(WaitInfo::next_due(&asked), Some(due));
        // Running it again, the clock put back or nearly there: it is the same timer, and not due.
        for clock in [now + 60_000, now - day, now + HOUR - 1] {
            ground.clock.set(clock);
            assert_eq!(waits(world.run(&graph).await), asked);
            let fired = world.runtime.fire_due(TimeMs(clock)).await.unwrap();
            assert_eq!((fired.waits, fired.ready.len(), fired.next_at), (0, 0, Some(due)));
        }
        let by_hand = world.runtime.continue_with(&scope().scope, &asked[0].id, json!(null), "req", "ada").await;
        assert!(matches!(by_hand, Err(DurableError::AnswerRefused { .. })), "{by_hand:?}");
        // Far beyond: once, also from another handle, also when the clock is put back again.
        now += 30 * day;
        ground.clock.set(now);
        let other = ground.world().await;
        let fired = other.runtime.fire_due(TimeMs(now)).await.unwrap();
        assert_eq!((fired.waits, fired.next_at), (1, None));
        assert_eq!(fired.ready.iter().map(|ready| &ready.thread).collect::<Vec<_>>(), [&thread()]);
        assert_eq!(world.runtime.fire_due(TimeMs(now)).await.unwrap().waits, 0);
        // Whoever fired it may have died since: it is still known that the thread can go on.
        assert_eq!(world.runtime.ready(10).await.unwrap(), fired.ready);
        now -= 40 * day;
        ground.clock.set(now);
    }
    assert_eq!(completed(world.run(&graph).await), Words::of(&["slept", "slept", "slept"]));
    assert_eq!(world.runtime.ready(10).await.unwrap(), []);
    assert_eq!(world.done.take(), ["lay down", "got up", "lay down", "got up", "lay down", "got up"]);
    let expired = world.kinds().await.into_iter().filter(|kind| kind == "wait.expired").count();
    assert_eq!(expired, 3);
}

async fn a_run_may_await_its_timers(ground: Ground) {
    let world = ground.world().await;
    let graph = nap(&world.done, Duration::from_millis(15));
    let options = RunOptions { await_timers: true, ..RunOptions::default() };
    assert_eq!(completed(world.run_with(&graph, options.clone()).await).count, 3);
    assert_eq!(world.done.take().len(), 6);
    let kinds = world.kinds().await;
    let count = |wanted: &str| kinds.iter().filter(|kind| *kind == wanted).count();
    assert_eq!((count("wait.opened"), count("wait.expired"), count("execution.waiting")), (3, 3, 0));

    // A child's timers are awaited like its parent's.
    let child = nap(&world.done, Duration::from_millis(5));
    let parent = GraphBuilder::<Words>::new("parent", 1)
        .node("call", move |ctx, _| {
            let child = child.clone();
            async move { Ok(ctx.child("nap", &child, Words::default()).await?.words) }
        })
        .edge(START, "call")
        .edge("call", END)
        .build()
        .unwrap();
    let (of, thread) = (scope(), "thread_3".parse().unwrap());
    let run = || world.runtime.run(&parent, &of, &thread, Words::default(), options.clone());
    assert_eq!(completed(run().await.unwrap()).count, 3);
    assert_eq!(world.done.take().len(), 6);

    // One that has something else to wait for does not hold the thread meanwhile.
    let asks = GraphBuilder::<Words>::new("asks", 1)
        .node("nap", |ctx, _| async move {
            ctx.sleep(Duration::from_millis(1)).await?;
            Ok(vec!["slept".to_owned()])
        })
        .node("ask", |ctx, _| async move {
            let answer = ctx.pause_for::<String>(Wait::approval("?")).await?;
            Ok(vec![answer.into_value().unwrap_or_default()])
        })
        .edge(START, "nap")
        .edge(START, "ask")
        .edge("nap", END)
        .edge("ask", END)
        .build()
        .unwrap();
    let thread = "thread_2".parse().unwrap();
    let of = scope();
    let run = || world.runtime.run(&asks, &of, &thread, Words::default(), options.clone());
    assert_eq!(waits(run().await.unwrap()).len(), 2);
    // The scalar form means the one that can be answered.
    world.runtime.continue_thread(&scope().scope, &thread, json!("yes"), "req", "ada").await.unwrap();
    assert_eq!(completed(run().await.unwrap()), Words::of(&["slept", "yes"]));
}

async fn a_run_that_awaits_a_timer_can_be_ended(ground: Ground) {
    let world = ground.world().await;
    let graph = nap(&world.done, Duration::from_secs(3600));
    let cancel = CancellationToken::new();
    let options =
        |cancel: &CancellationToken| RunOptions { await_timers: true, cancel: cancel.clone(), ..RunOptions::default() };
    let mut opened = world.store.subscribe();
    let run = world.run_with(&graph, options(&cancel));
    let stop = async {
        while opened.recv().await.unwrap().kind != "wait.opened" {}
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(run, stop);
    assert!(matches!(outcome, Outcome::Cancelled), "{outcome:?}");

    let draining = Runtime::new(world.store.clone(), world.store.ambient().clone());
    let initial = Words::default();
    // A run is at work once a node is told of; before that it may still be about to begin.
    let mut news = draining.progress();
    let (scope, thread, again) = (scope(), thread(), CancellationToken::new());
    let run = draining.run(&graph, &scope, &thread, initial, options(&again));
    let stop = async {
        news.recv().await.unwrap();
        draining.drain().await;
    };
    let (outcome, ()) = tokio::join!(run, stop);
    assert!(matches!(outcome, Ok(Outcome::Stopped(_))), "{outcome:?}");
    // As when the process is killed.
    let mut news = world.runtime.progress();
    let again = CancellationToken::new();
    let killed = world.run_with(&graph, options(&again));
    let kill = async { drop(news.recv().await.unwrap()) };
    assert!(matches!(futures::future::select(Box::pin(killed), Box::pin(kill)).await, Either::Right(_)));
    // It is still the same timer.
    let asked = waits(world.run(&graph).await);
    assert_eq!((asked.len(), asked[0].status), (1, WaitStatus::Waiting));
    assert_eq!(world.done.take(), ["lay down"]);
}

async fn each_deadline_ends_its_wait_once(ground: Ground) {
    ground.clock.set(HOUR);
    let (one, other) = (ground.world().await, ground.world().await);
    let graph = GraphBuilder::<Words>::new("impatient", 1)
        .node("ask", |ctx, _| async move {
            let waits = [
                Wait::approval("a").deadline_ms(1_000).default_answer("nobody"),
                Wait::event("b").deadline_ms(2_000),
                Wait::webhook("c").deadline_at(TimeMs(HOUR + 3_000)),
                Wait::approval("d"),
            ];
            let answers = ctx.pause_for_all::<String>(waits).await?;
            let expired = answers.iter().filter(|answer| matches!(answer, Answer::Expired { .. })).count();
            let values: Vec<String> = answers.into_iter().filter_map(Answer::into_value).collect();
            Ok([vec![expired.to_string()], values].concat())
        })
        .edge(START, "ask")
        .edge("ask", END)
        .build()
        .unwrap();
    let asked = waits(one.run(&graph).await);
    assert_eq!(asked.len(), 4);
    ground.clock.set(2 * HOUR);
    let late = one.runtime.continue_with(&scope().scope, &asked[1].id, json!("x"), "req-1", "ada").await;
    assert!(matches!(&late, Err(DurableError::AlreadyAnswered { status: WaitStatus::Expired, .. })), "{late:?}");
    let (first, second) =
        tokio::join!(one.runtime.fire_due(TimeMs(2 * HOUR)), other.runtime.fire_due(TimeMs(2 * HOUR)));
    assert_eq!(first.unwrap().waits + second.unwrap().waits, 2);
    one.runtime.continue_with(&scope().scope, &asked[3].id, json!("yes"), "req-2", "ada").await.unwrap();
    assert_eq!(completed(other.run(&graph).await), Words::of(&["3", "nobody", "yes"]));
    assert_eq!(one.kinds().await.iter().filter(|kind| *kind == "wait.expired").count(), 3);
}

async fn deadlines_are_heard_of_without_asking_again_and_again(ground: Ground) {
    let world = ground.world().await;
    let mut deadlines = world.runtime.deadlines().unwrap();
    let graph = nap(&world.done, Duration::from_millis(400));
    let runs = async {
        // After the look-out has begun, with nothing to look out for.
        tokio::task::yield_now().await;
        waits(world.run(&graph).await)
    };
    let (asked, fired) = tokio::join!(runs, deadlines.next());
    let fired = fired.unwrap();
    assert_eq!((fired.waits, fired.ready.len(), asked.len()), (1, 1, 1));
    assert!(deadlines.looks() <= 5, "it looked {} times in 400 ms", deadlines.looks());
}
