//! Recorded steps: done once, replayed in order, refused when the code has changed.

use std::{future::pending, io, sync::Arc, time::Duration};

use longhaul_core::EventDraft;
use longhaul_durable::{END, Effect, Graph, GraphBuilder, NodeContext, NodeError, START, StepError, StepId};
use longhaul_store::{StoreError, values};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::support::{Done, Words, completed, failure, scope, world};

/// A graph of one node.
fn single<F, R>(code: F) -> Graph<Words>
where
    F: Fn(NodeContext, Arc<Words>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Vec<String>, NodeError>> + Send + 'static,
{
    GraphBuilder::new("single", 1).node("node", code).edge(START, "node").edge("node", END).build().unwrap()
}

async fn work(done: &Done, word: &str) -> Result<String, StepError> {
    done.add(word);
    Ok(word.to_owned())
}

fn broken() -> io::Error {
    io::Error::other("no route to host")
}

#[tokio::test]
async fn a_recorded_step_is_never_done_again() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let graph = |fails: bool| {
        let done = world.done.clone();
        single(move |ctx, _| {
            let done = done.clone();
            async move {
                let one = ctx.step("one", Effect::Pure, work(&done, "eins")).await?;
                let at = ctx.now().await?;
                let key = Effect::Idempotent { key: ctx.step_id("two").to_string() };
                let two: String = ctx
                    .step("two", key, async { if fails { Err(broken().into()) } else { work(&done, "zwei").await } })
                    .await?;
                Ok(vec![one, two, at.0.to_string(), ctx.replayed_steps().to_string()])
            }
        })
    };
    let error = failure(world.run(&graph(true)).await);
    assert!(error.ends_with("/node/1/two#3 failed: no route to host"), "{error}");
    assert_eq!(world.recorded().await, ["node/1/one#1", "node/1/now#2"]);
    let state = completed(world.run(&graph(false)).await);
    assert_eq!(world.done.take(), ["eins", "zwei"]);
    assert_eq!((&state.words[0][..], &state.words[1][..], &state.words[3][..]), ("eins", "zwei", "2"));
    let key = world.store.read(|read| {
        read.query_one("SELECT effect_key FROM steps WHERE name = 'two'", &[], |row| row.get::<String>(0))
    });
    let key: Result<_, StoreError> = key.await;
    assert!(key.unwrap().ends_with("/node/1/two#3"));
}

#[tokio::test]
async fn a_changed_order_of_steps_is_refused_with_both_names() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let graph = |names: &'static [&'static str]| {
        single(move |ctx, _| async move {
            for name in names {
                ctx.step(name, Effect::Pure, async { if *name == "fails" { Err(broken().into()) } else { Ok(()) } })
                    .await?;
            }
            Ok(Vec::new())
        })
    };
    failure(world.run(&graph(&["read", "write", "fails"])).await);
    let error = failure(world.run(&graph(&["read", "ask", "fails"])).await);
    assert!(
        error.contains("step 2 of node (superstep 1) was recorded as \"write\", but the code now asks for \"ask\"")
    );
    let error = failure(world.run(&graph(&["read"])).await);
    assert!(error.contains("step 2 of node (superstep 1) was recorded as \"write\", but the code now ends before it"));
    // Nothing of the wrong runs was kept.
    completed(world.run(&graph(&["read", "write", "last"])).await);
    assert_eq!(world.recorded().await, ["node/1/read#1", "node/1/write#2", "node/1/last#3"]);
}

#[tokio::test]
async fn a_node_that_fails_before_its_recorded_steps_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let graph = |fails_early: bool| {
        single(move |ctx, _| async move {
            if fails_early {
                return Err(NodeError::gave_up(broken()));
            }
            ctx.step("one", Effect::Pure, async { Ok(()) }).await?;
            Err(NodeError::gave_up(io::Error::other("later")))
        })
    };
    assert!(failure(world.run(&graph(false)).await).ends_with("later"));
    let error = failure(world.run(&graph(true)).await);
    assert!(error.ends_with("no route to host"), "{error}");
}

#[tokio::test]
async fn a_swallowed_failure_still_fails_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let graph = single(|ctx, _| async move {
        let failed: Result<(), _> = ctx.step("one", Effect::Pure, async { Err(broken().into()) }).await;
        assert!(failed.is_err());
        let refused: Result<(), _> = ctx.step("two", Effect::Pure, async { Ok(()) }).await;
        assert!(refused.is_err());
        Ok(vec!["all is well".to_owned()])
    });
    let error = failure(world.run(&graph).await);
    assert!(error.contains("one#1 failed"), "{error}");
    assert_eq!(world.recorded().await, [""; 0]);
}

#[tokio::test]
async fn steps_that_overlap_or_are_dropped_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let overlapping = single(|ctx, _| async move {
        let (one, two) = tokio::join!(
            ctx.step("one", Effect::Pure, async {
                tokio::task::yield_now().await;
                Ok(())
            }),
            ctx.step("two", Effect::Pure, async { Ok(()) }),
        );
        one.and(two)?;
        Ok(Vec::new())
    });
    let error = failure(world.run(&overlapping).await);
    assert!(error.contains("two#2 was begun while another step"), "{error}");
    let dir = tempfile::tempdir().unwrap();
    let world = crate::support::world(dir.path()).await;
    let dropping = single(|ctx, _| async move {
        let step = ctx.step("one", Effect::Pure, pending::<Result<(), StepError>>());
        let timed_out = tokio::time::timeout(Duration::from_millis(1), step).await;
        assert!(timed_out.is_err());
        Ok(Vec::new())
    });
    let error = failure(world.run(&dropping).await);
    assert!(error.contains("one#1 was dropped before it had ended"), "{error}");
}

#[tokio::test]
async fn rows_and_events_of_others_are_kept_with_the_result_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let graph = |refuse: bool| {
        single(move |ctx, _| async move {
            ctx.at_close(|tx| tx.execute("INSERT INTO notes (tenant_id, text) VALUES ('a', 'closed')", &[]).map(drop));
            let written = ctx.step_tx("write", Effect::Pure, async { Ok(7_u64) }, move |tx, result| {
                tx.execute("INSERT INTO notes (tenant_id, text) VALUES ('a', ?1)", &values![result.to_string()])?;
                tx.append_event(&scope(), None, None, EventDraft::business("note.taken", json!({})))?;
                if refuse { Err(StoreError::NoRow { sql: "planned".into() }) } else { Ok(()) }
            });
            Ok(vec![written.await?.to_string()])
        })
    };
    let error = failure(world.run(&graph(true)).await);
    assert!(error.contains("planned"), "{error}");
    assert_eq!((world.notes().await, world.recorded().await), (vec![], vec![]));
    assert_eq!(world.kinds().await, ["execution.started", "execution.failed"]);
    assert_eq!(completed(world.run(&graph(false)).await), Words::of(&["7"]));
    assert_eq!(world.notes().await, ["7", "closed"]);
    assert_eq!(world.kinds().await[2..], ["execution.resumed", "note.taken", "execution.completed"]);
    let events = world.events().await;
    assert!(events.iter().filter(|event| event.kind != "note.taken").all(|event| event.execution.is_some()));
}

#[tokio::test]
async fn a_node_sees_a_result_as_it_was_recorded_also_the_first_time() {
    #[derive(Serialize, Deserialize)]
    struct Forgetful {
        kept: u32,
        #[serde(skip)]
        lost: u32,
    }
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let graph = single(|ctx, _| async move {
        let seen = ctx.step("one", Effect::Pure, async { Ok(Forgetful { kept: 3, lost: 4 }) }).await?;
        Ok(vec![seen.kept.to_string(), seen.lost.to_string()])
    });
    assert_eq!(completed(world.run(&graph).await), Words::of(&["3", "0"]));
}

#[tokio::test]
async fn what_cannot_be_recorded_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let large = single(|ctx, _| async move {
        Ok(vec![ctx.step("read file", Effect::Pure, async { Ok("x".repeat(2 << 20)) }).await?])
    });
    let error = failure(world.run(&large).await);
    assert!(error.contains("node/1/read file#1 takes 2097154 bytes, at most 1048576 are allowed"), "{error}");
    let nameless = single(|ctx, _| async move {
        ctx.step("", Effect::Pure, async { Ok(()) }).await?;
        Ok(Vec::new())
    });
    let error = failure(world.run(&nameless).await);
    assert!(error.contains("\"\" cannot name a step"), "{error}");
    let unfit = single(|ctx, _| async move {
        let keys = std::collections::BTreeMap::from([((1, 2), 3)]);
        ctx.step("map", Effect::Pure, async { Ok(keys) }).await?;
        Ok(Vec::new())
    });
    let error = failure(world.run(&unfit).await);
    assert!(error.contains("map#1 is not what its type can be written to"), "{error}");
}

#[tokio::test]
async fn a_panic_is_an_error_and_the_next_run_tries_again() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let graph = |panics: bool| {
        single(move |ctx, _| async move {
            ctx.step("before", Effect::Pure, async { Ok(()) }).await?;
            assert!(!panics, "planned");
            Ok(vec!["done".to_owned()])
        })
    };
    assert!(failure(world.run(&graph(true)).await).contains("panicked: planned"));
    completed(world.run(&graph(false)).await);
    let error = failure(
        world
            .run(&single(|ctx, _| async move {
                ctx.step::<(), _>("inside", Effect::Pure, async { panic!("within a step") }).await?;
                Ok(Vec::new())
            }))
            .await,
    );
    assert!(error.contains("panicked: within a step"), "{error}");
}

proptest! {
    #[test]
    fn a_step_id_is_parsed_back_from_its_printed_form(
        node in "[a-z_-]{1,20}", superstep in 0_u64..=u64::MAX, name in ".{1,40}", ordinal in 0_u32..=u32::MAX,
        frames in proptest::collection::vec((1_u64..100, 0_u32..100, "[a-z_-]{1,20}"), 0..3), task in 0_u32..3,
    ) {
        let ns: String = frames.iter().map(|(superstep, task, node)| format!("{superstep}.{task}.{node}>")).collect();
        let id = StepId { execution: "exec_1".parse().unwrap(), ns, superstep, task, node, ordinal, name };
        prop_assert_eq!(id.to_string().parse::<StepId>().unwrap(), id);
    }

    #[test]
    fn no_text_breaks_the_parser_of_step_ids(text in ".{0,80}") {
        let _ = text.parse::<StepId>();
    }
}
