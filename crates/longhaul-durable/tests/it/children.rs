//! Child executions: begun once, waiting and ending with their parents, whatever dies in between.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use longhaul_core::Ambient;
use longhaul_durable::{
    DurableError, END, Effect, Graph, GraphBuilder, MIGRATIONS, NodeError, Outcome, RunOptions, Runtime, START, Send,
    Status, Wait, WaitInfo, WaitStatus,
};
use longhaul_store::{Faults, Store, StoreError};
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    ground::{Ground, on},
    support::{Done, NOTES, Words, World, completed, failure, scope, thread},
};

on! { file, memory, postgres:
    a_child_waits_where_its_parent_waits,
    a_child_ends_with_its_parent,
    a_child_that_fails_is_gone_on_with,
    whatever_commit_is_the_last_there_is_one_child,
    whoever_has_lost_the_parents_thread_begins_no_child,
}

/// Works, asks if it is to, works again.
fn small(done: &Done, asks: bool) -> Graph<Words> {
    let done = done.clone();
    GraphBuilder::<Words>::new("small", 1)
        .node("first", {
            let done = done.clone();
            move |ctx, state: Arc<Words>| {
                let (done, of) = (done.clone(), state.words.concat());
                async move {
                    let work = async {
                        done.add(format!("first of {of}"));
                        Ok(vec!["first".to_owned()])
                    };
                    ctx.step("work", Effect::Pure, work).await
                }
            }
        })
        .node("second", move |ctx, state: Arc<Words>| {
            let (done, of) = (done.clone(), state.words[0].clone());
            async move {
                let mut words = vec!["second".to_owned()];
                if asks {
                    words.extend(ctx.pause_for::<String>(Wait::approval(&of)).await?.into_value());
                }
                let work = async {
                    done.add(format!("second of {of}"));
                    Ok(())
                };
                ctx.step("work", Effect::Pure, work).await?;
                Ok(words)
            }
        })
        .edge(START, "first")
        .edge("first", "second")
        .edge("second", END)
        .build()
        .unwrap()
}

/// Runs a child and keeps its words.
fn around(child: Graph<Words>, name: &'static str) -> Graph<Words> {
    GraphBuilder::<Words>::new("around", 1)
        .node("call", move |ctx, state: Arc<Words>| {
            let child = child.clone();
            async move {
                ctx.step("before", Effect::Pure, async { Ok(()) }).await?;
                let of = if state.words.is_empty() { name } else { &state.words[0] };
                let end = ctx.child("small", &child, Words::of(&[of])).await?;
                ctx.step("after", Effect::Pure, async { Ok(()) }).await?;
                Ok(end.words)
            }
        })
        .edge(START, "call")
        .edge("call", END)
        .build()
        .unwrap()
}

/// Two tasks at once, each of which begins a child, which begins a child of its own, which asks.
fn deep(done: &Done) -> Graph<Words> {
    let inner = around(small(done, true), "nobody");
    GraphBuilder::<Words>::new("deep", 1)
        .node("split", |_, _| async { Ok(longhaul_durable::Flow::nothing()) })
        .node_with_input("call", move |ctx, _, name: String| {
            let inner = inner.clone();
            async move { Ok(ctx.child("around", &inner, Words::of(&[&name])).await?.words) }
        })
        .edge(START, "split")
        .fan_out("split", &["call"], |_| ["a", "b"].iter().map(|name| Send::new("call", name)).collect())
        .edge("call", END)
        .build()
        .unwrap()
}

fn waits(outcome: Outcome<Words>) -> Vec<WaitInfo> {
    let Outcome::Waiting(waits) = outcome else { panic!("{outcome:?}") };
    waits
}

/// Graph and status of all executions, the parents first.
async fn executions(world: &World) -> Vec<String> {
    let read = world.store.read(|read| {
        read.query("SELECT graph || ' ' || status FROM executions ORDER BY started_at, graph, status", &[], |row| {
            row.get::<String>(0)
        })
    });
    read.await.map_err(|error: StoreError| error).unwrap()
}

async fn a_child_waits_where_its_parent_waits(ground: Ground) {
    let world = ground.world().await;
    let graph = deep(&world.done);
    let mut asked = waits(world.run(&graph).await);
    asked.sort_by(|one, other| one.name.cmp(&other.name));
    assert_eq!(asked.iter().map(|wait| wait.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    // They are the children's own, and found through the parent's thread.
    let parent = world.runtime.find(&scope().scope, &thread()).await.unwrap().unwrap();
    assert!(asked.iter().all(|wait| wait.execution != parent.id));
    let mut listed = world.runtime.waits(&scope().scope, &thread()).await.unwrap();
    listed.sort_by(|one, other| one.name.cmp(&other.name));
    assert_eq!(listed, asked);
    assert_eq!(world.runtime.children(&scope().scope, &parent.id).await.unwrap().len(), 4);

    let other = ground.world().await;
    other.runtime.continue_with(&scope().scope, &asked[1].id, json!("yes"), "req-b", "ada").await.unwrap();
    // It is the outermost thread that can go on.
    let ready = world.runtime.ready(10).await.unwrap();
    assert_eq!(ready.iter().map(|ready| &ready.thread).collect::<Vec<_>>(), [&thread()]);
    let left = waits(world.run(&graph).await);
    assert_eq!(world.runtime.ready(10).await.unwrap(), []);
    assert_eq!(left, asked[..1]);
    other.runtime.continue_thread(&scope().scope, &thread(), json!("no"), "req-a", "ada").await.unwrap();
    let end = completed(world.run(&graph).await);
    assert_eq!(end, Words::of(&["a", "a", "first", "second", "no", "b", "b", "first", "second", "yes"]));
    let mut done = world.done.take();
    done.sort();
    assert_eq!(done, ["first of a", "first of b", "second of a", "second of b"]);
    let all = executions(&world).await;
    assert_eq!(all.iter().filter(|execution| execution.ends_with("completed")).count(), 5, "{all:?}");
}

async fn a_child_ends_with_its_parent(ground: Ground) {
    let world = ground.world().await;
    // While it waits.
    let graph = deep(&world.done);
    let asked = waits(world.run(&graph).await);
    assert!(world.runtime.cancel(&scope().scope, &thread(), "ada", "not any more").await.unwrap());
    let all = executions(&world).await;
    assert_eq!(all.iter().filter(|execution| execution.ends_with(" cancelled")).count(), 5, "{all:?}");
    for wait in asked {
        let known = world.runtime.wait(&scope().scope, &wait.id).await.unwrap();
        assert_eq!(known.status, WaitStatus::Cancelled);
        let late = world.runtime.continue_with(&scope().scope, &wait.id, json!("x"), "req", "ada").await;
        assert!(late.unwrap_err().to_string().contains("is cancelled since"));
    }
    // While it is at work.
    let begun = Arc::new(tokio::sync::Notify::new());
    let (inside, runtime) = (begun.clone(), world.runtime.clone());
    let hangs = GraphBuilder::<Words>::new("hangs", 1)
        .node("hang", move |_, _| {
            let inside = inside.clone();
            async move {
                inside.notify_one();
                std::future::pending::<Result<Vec<String>, NodeError>>().await
            }
        })
        .edge(START, "hang")
        .edge("hang", END)
        .build()
        .unwrap();
    let graph = around(hangs, "c");
    let cancel = async {
        begun.notified().await;
        runtime.cancel(&scope().scope, &thread(), "ada", "too slow").await.unwrap()
    };
    let (outcome, cancelled) = tokio::join!(world.run(&graph), cancel);
    assert!(cancelled && matches!(outcome, Outcome::Cancelled), "{outcome:?}");
    let parent = world.runtime.find(&scope().scope, &thread()).await.unwrap().unwrap();
    let children = world.runtime.children(&scope().scope, &parent.id).await.unwrap();
    assert_eq!((parent.status, children.len(), children[0].status), (Status::Cancelled, 1, Status::Cancelled));
    assert_eq!(children[0].parent(), Some(parent.id));
}

async fn a_child_that_fails_is_gone_on_with(ground: Ground) {
    let world = ground.world().await;
    let (fails, done) = (Arc::new(AtomicBool::new(true)), world.done.clone());
    let frail = fails.clone();
    let child = GraphBuilder::<Words>::new("frail", 1)
        .node("work", move |ctx, _| {
            let (frail, done) = (frail.clone(), done.clone());
            async move {
                let work = async {
                    done.add("worked");
                    Ok(vec!["done".to_owned()])
                };
                let words = ctx.step("work", Effect::Pure, work).await?;
                if frail.load(Ordering::SeqCst) {
                    return Err(NodeError::gave_up(std::io::Error::other("no paper")));
                }
                Ok(words)
            }
        })
        .edge(START, "work")
        .edge("work", END)
        .build()
        .unwrap();
    let graph = around(child.clone(), "x");
    let said = failure(world.run(&graph).await);
    assert!(said.contains("call/1/small#2 failed in superstep 1") && said.ends_with("no paper"), "{said}");
    fails.store(false, Ordering::SeqCst);
    assert_eq!(completed(world.run(&graph).await), Words::of(&["x", "done"]));
    assert_eq!(world.done.take(), ["worked"]);

    // A runtime that keeps nothing runs it just so.
    let runtime = Runtime::ephemeral(Ambient::system());
    let end = runtime.run(&graph, &scope(), &thread(), Words::default(), RunOptions::default()).await.unwrap();
    assert_eq!(completed(end), Words::of(&["x", "done"]));

    // A child that somebody has cancelled fails its parent, which says so.
    let cancel = CancellationToken::new();
    let other = "thread_2".parse().unwrap();
    let options = || RunOptions { cancel: cancel.clone(), ..RunOptions::default() };
    let graph = around(small(&world.done, true), "y");
    let of = scope();
    let run = || world.runtime.run(&graph, &of, &other, Words::default(), options());
    waits(run().await.unwrap());
    let parent = world.runtime.find(&scope().scope, &other).await.unwrap().unwrap();
    let child = world.runtime.children(&scope().scope, &parent.id).await.unwrap().remove(0);
    assert!(world.runtime.cancel(&scope().scope, &child.thread, "eve", "why not").await.unwrap());
    assert!(failure(run().await.unwrap()).ends_with("was cancelled"));
}

async fn whatever_commit_is_the_last_there_is_one_child(ground: Ground) {
    let faults = Faults::new();
    let world = ground.world_with(Some(faults.clone())).await;
    let mut deaths = 0;
    // A thread of its own for each commit that may be the last: until a run needs no more than that.
    for last in 0_u64.. {
        let thread = format!("thread_{last}").parse().unwrap();
        let graph = around(small(&world.done, true), "x");
        let of = scope();
        let run = || world.runtime.run(&graph, &of, &thread, Words::default(), RunOptions::default());
        let (mut end, mut died) = (None, false);
        let before = faults.commits();
        faults.die_after(before + last);
        for _ in 0..8 {
            if end.is_some() {
                break;
            }
            let outcome = match run().await {
                Ok(Outcome::Waiting(asked)) => {
                    let id = &asked[0].id;
                    let answered = world.runtime.continue_with(&scope().scope, id, json!("yes"), "req", "ada").await;
                    answered.map(|_| None)
                }
                Ok(Outcome::Completed(words)) => Ok(Some(words)),
                Ok(Outcome::Failed { .. }) | Err(_) => Ok(None),
                Ok(other) => panic!("{other:?}"),
            };
            end = outcome.unwrap_or(None);
            // The store is dead, or it was not: what is in it goes on either way.
            if end.is_none() && world.store.read(|_| Ok::<_, StoreError>(())).await.is_err() {
                faults.revive();
                assert!(!died, "it died twice");
                died = true;
            }
        }
        assert_eq!(end.expect("it does not come to its end"), Words::of(&["x", "first", "second", "yes"]));
        let parent = world.runtime.find(&scope().scope, &thread).await.unwrap().unwrap();
        let children = world.runtime.children(&scope().scope, &parent.id).await.unwrap();
        assert_eq!((parent.status, children.len()), (Status::Completed, 1), "last commit {last}");
        // A piece of work is done once, and once more if death came before it was recorded.
        let done = world.done.take();
        assert!(done.len() == 2 || (died && done.len() == 3), "{done:?}");
        if !died {
            break;
        }
        deaths += 1;
    }
    assert!(deaths >= 8, "only {deaths} deaths");
    faults.revive();
}

async fn whoever_has_lost_the_parents_thread_begins_no_child(ground: Ground) {
    let world = ground.world().await;
    let (begun, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let graph = GraphBuilder::<Words>::new("stale", 1)
        .node("call", {
            let (child, begun, gate) = (small(&world.done, false), begun.clone(), gate.clone());
            move |ctx, _| {
                let (child, begun, gate) = (child.clone(), begun.clone(), gate.clone());
                async move {
                    begun.notify_one();
                    gate.notified().await;
                    Ok(ctx.child("small", &child, Words::of(&["x"])).await?.words)
                }
            }
        })
        .edge(START, "call")
        .edge("call", END)
        .build()
        .unwrap();
    let runtime = world.runtime.clone();
    let running =
        tokio::spawn(
            async move { runtime.run(&graph, &scope(), &thread(), Words::default(), RunOptions::default()).await },
        );
    begun.notified().await;
    // Another host takes the thread over meanwhile.
    let taken = world.store.write(|tx| tx.execute("UPDATE leases SET token = token + 1", &[]));
    taken.await.map_err(|error: StoreError| error).unwrap();
    gate.notify_one();
    let ended = running.await.unwrap();
    assert!(matches!(&ended, Err(DurableError::Store(StoreError::LeaseLost { .. }))), "{ended:?}");
    assert_eq!(world.done.take(), Vec::<String>::new());
    assert_eq!(executions(&world).await, ["stale running"]);
}

/// The rows of a dead host's leases end one after the other, the child's perhaps after its parent's.
#[tokio::test]
async fn another_host_takes_a_child_over_together_with_its_parent() {
    let ground = Ground::postgres();
    let world = ground.world().await;
    let begun = Arc::new(Notify::new());
    let graph = |hangs: bool| {
        let begun = begun.clone();
        let child = GraphBuilder::<Words>::new("hangs", 1)
            .node("work", move |_, _| {
                let begun = begun.clone();
                async move {
                    if hangs {
                        begun.notify_one();
                        std::future::pending::<()>().await;
                    }
                    Ok(vec!["worked".to_owned()])
                }
            })
            .edge(START, "work")
            .edge("work", END)
            .build()
            .unwrap();
        around(child, "x")
    };
    let hangs = graph(true);
    tokio::select! {
        outcome = world.run(&hangs) => panic!("{outcome:?}"),
        () = begun.notified() => {}
    }
    let (elsewhere, (_, url)) = (tempfile::tempdir().unwrap(), ground.address());
    let settings = Ground::settings(&elsewhere.path().to_string_lossy(), &url);
    let store = Store::open(settings, Ambient::system(), &[MIGRATIONS, NOTES]).await.unwrap();
    let ended = store.write(|tx| tx.execute("UPDATE leases SET expires_at = 1 WHERE thread_id = 'thread_1'", &[]));
    ended.await.map_err(|error: StoreError| error).unwrap();
    let other = World { runtime: Runtime::new(store.clone(), Ambient::system()), store, done: Done::default() };
    assert_eq!(completed(other.run(&graph(false)).await), Words::of(&["x", "worked"]));
}
