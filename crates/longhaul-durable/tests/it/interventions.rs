//! Interventions: seen once by each consumer, the same on replay, and never an answer.

use std::sync::Arc;

use longhaul_durable::{
    DurableError, END, Effect, Graph, GraphBuilder, INTERVENTION_BYTES_MAX, NodeError, Outcome, START, Status, Wait,
    WaitId, WaitStatus,
};
use serde_json::json;

use crate::{
    ground::{Ground, on},
    support::{Words, completed, failure, scope, thread},
};

on! { file, memory, postgres:
    each_consumer_is_given_each_once_and_the_same_on_replay,
    an_intervention_stops_nothing_and_answers_nothing,
}

/// Looks for interventions, asks, looks again; then another node looks twice.
fn attentive() -> Graph<Words> {
    GraphBuilder::<Words>::new("attentive", 1)
        .node("ask", |ctx, _| async move {
            let mut words = Vec::new();
            for note in ctx.interventions().await? {
                words.push(format!("before: {}", note.note));
            }
            ctx.pause_for::<bool>(Wait::approval("go on?")).await?;
            for note in ctx.interventions().await? {
                words.push(format!("after: {} by {}", note.note, note.author));
            }
            Ok(words)
        })
        .node("look", |ctx, _| async move {
            let mut words = Vec::new();
            for note in ctx.interventions().await? {
                words.push(format!("look: {}", note.payload));
            }
            let shared = ctx.interventions_for("ask").await?;
            words.push(format!("{} more", shared.len()));
            Ok(words)
        })
        .edge(START, "ask")
        .edge("ask", "look")
        .edge("look", END)
        .build()
        .unwrap()
}

async fn each_consumer_is_given_each_once_and_the_same_on_replay(ground: Ground) {
    let world = ground.world().await;
    let graph = attentive();
    let nothing = world.runtime.intervene(&scope().scope, &thread(), json!(0), "ada", "early").await;
    assert!(matches!(nothing, Err(DurableError::NothingUnfinished { .. })), "{nothing:?}");
    assert!(matches!(world.run(&graph).await, Outcome::Waiting(_)));
    let add = |n: u32, note: &'static str| {
        let runtime = world.runtime.clone();
        async move { runtime.intervene(&scope().scope, &thread(), json!({ "n": n }), "ada", note).await.unwrap() }
    };
    let one = add(1, "one").await;
    // It was asked for before: what is recorded stays.
    assert!(matches!(world.run(&graph).await, Outcome::Waiting(_)));
    let two = add(2, "two").await;
    world.runtime.continue_thread(&scope().scope, &thread(), json!(true), "req", "ada").await.unwrap();
    let end = completed(world.run(&graph).await);
    assert_eq!(
        end,
        Words::of(&["after: one by ada", "after: two by ada", "look: {\"n\":1}", "look: {\"n\":2}", "0 more"])
    );
    assert_eq!(world.runtime.interventions(&scope().scope, &thread()).await.unwrap(), [one, two]);
    let large = json!("x".repeat(INTERVENTION_BYTES_MAX));
    let large = world.runtime.intervene(&scope().scope, &thread(), large, "ada", "large").await;
    assert!(matches!(large, Err(DurableError::InterventionTooLarge { .. })), "{large:?}");
}

async fn an_intervention_stops_nothing_and_answers_nothing(ground: Ground) {
    let world = ground.world().await;
    let begun = Arc::new(tokio::sync::Notify::new());
    let added = Arc::new(tokio::sync::Notify::new());
    let (inside, go_on) = (begun.clone(), added.clone());
    let graph = GraphBuilder::<Words>::new("busy", 1)
        .node("work", move |ctx, _| {
            let (inside, go_on) = (inside.clone(), go_on.clone());
            async move {
                let work = async {
                    inside.notify_one();
                    go_on.notified().await;
                    Ok(())
                };
                ctx.step("work", Effect::Pure, work).await?;
                let notes = ctx.interventions().await?.into_iter().map(|note| note.note).collect::<Vec<_>>();
                if !ctx.pause_for::<bool>(Wait::approval("approved?")).await?.into_value().unwrap_or_default() {
                    return Err(NodeError::gave_up(std::io::Error::other("not approved")));
                }
                Ok(notes)
            }
        })
        .edge(START, "work")
        .edge("work", END)
        .build()
        .unwrap();
    let intervene = |payload: serde_json::Value| {
        let runtime = world.runtime.clone();
        async move { runtime.intervene(&scope().scope, &thread(), payload, "eve", "approve this").await.unwrap() }
    };
    let meanwhile = async {
        begun.notified().await;
        // Another handle, while the node is at work.
        intervene(json!(true)).await;
        added.notify_one();
    };
    let (outcome, ()) = tokio::join!(world.run(&graph), meanwhile);
    let Outcome::Waiting(asked) = outcome else { panic!("{outcome:?}") };
    let note = intervene(json!({ "wait": asked[0].id, "value": true })).await;
    // It has no name that a wait could have.
    assert!(note.id.as_str().parse::<WaitId>().is_err());
    let known = world.runtime.wait(&scope().scope, &asked[0].id).await.unwrap();
    assert_eq!((known.status, known.value), (WaitStatus::Waiting, None));
    let Outcome::Waiting(again) = world.run(&graph).await else { panic!("it went on without an answer") };
    assert_eq!(again, asked);
    world.runtime.continue_with(&scope().scope, &asked[0].id, json!(false), "req", "ada").await.unwrap();
    assert!(failure(world.run(&graph).await).ends_with("not approved"));
    let execution = world.runtime.find(&scope().scope, &thread()).await.unwrap().unwrap();
    assert_eq!(execution.status, Status::Failed);
}
