//! Acts that must not happen twice: intent, receipt, and asking a person in between.

use std::io;

use longhaul_core::Scope;
use longhaul_durable::{
    DurableError, END, Effect, Graph, GraphBuilder, Outcome, PendingEffect, Probed, RunOptions, START, Settlement,
    StepError,
};
use longhaul_store::{StoreError, lease_holder};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{Done, Words, World, completed, failure, thread, world};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Succeeds,
    /// The act fails without a word on whether it took place.
    Fails,
    /// The act certainly did not take place.
    Refused,
    /// The process dies in the middle of it.
    Dies,
}

fn mailer(done: &Done, cancel: &CancellationToken, fate: Fate) -> Graph<Words> {
    let (done, cancel) = (done.clone(), cancel.clone());
    GraphBuilder::new("mailer", 1)
        .node("send", move |ctx, _| {
            let (done, cancel) = (done.clone(), cancel.clone());
            async move {
                let address = ctx.step("address", Effect::Pure, async { Ok("a@b.example".to_owned()) }).await?;
                let sent: String = ctx
                    .step("mail", Effect::Once, async {
                        done.add("mail");
                        match fate {
                            Fate::Succeeds => Ok("message-1".to_owned()),
                            Fate::Fails => Err(io::Error::other("timed out").into()),
                            Fate::Refused => Err(StepError::nothing_happened(io::Error::other("no such host"))),
                            Fate::Dies => {
                                cancel.cancel();
                                std::future::pending().await
                            }
                        }
                    })
                    .await?;
                Ok(vec![address, sent])
            }
        })
        .edge(START, "send")
        .edge("send", END)
        .build()
        .unwrap()
}

async fn run(world: &World, fate: Fate) -> Outcome<Words> {
    let cancel = CancellationToken::new();
    let graph = mailer(&world.done, &cancel, fate);
    world.run_with(&graph, RunOptions { cancel, ..RunOptions::default() }).await
}

fn pending(outcome: Outcome<Words>) -> PendingEffect {
    let Outcome::NeedsReconcile(mut pending) = outcome else { panic!("{outcome:?}") };
    assert_eq!(pending.len(), 1);
    pending.remove(0)
}

#[tokio::test]
async fn an_act_of_unknown_outcome_stops_the_execution_until_it_is_settled() {
    for fate in [Fate::Dies, Fate::Fails] {
        for (settlement, acts, expected) in
            [(Settlement::Happened(json!("message-0")), 1, "message-0"), (Settlement::DidNotHappen, 2, "message-1")]
        {
            let dir = tempfile::tempdir().unwrap();
            let world = world(dir.path()).await;
            let first = run(&world, fate).await;
            if fate == Fate::Dies {
                assert!(matches!(first, Outcome::Cancelled), "{first:?}");
            } else {
                assert!(failure(first).ends_with("mail#2 failed: timed out"));
            }
            // However often it is run, it is not repeated.
            pending(run(&world, Fate::Succeeds).await);
            let effect = pending(run(&world, Fate::Succeeds).await);
            assert_eq!(effect.step.within(), "send/1/mail#2");
            let scope = Scope::single_user();
            assert_eq!(world.runtime.pending_effects(&scope, &thread()).await.unwrap(), std::slice::from_ref(&effect));

            world.runtime.reconcile(&scope, &effect.step, settlement.clone()).await.unwrap();
            let again = world.runtime.reconcile(&scope, &effect.step, settlement).await;
            assert!(matches!(again, Err(DurableError::NotPending { .. })), "{again:?}");
            let holder = world.store.read(move |read| lease_holder(read, &Scope::single_user(), &thread()));
            assert_eq!(holder.await.map_err(|error: StoreError| error).unwrap(), None);
            let state = completed(run(&world, Fate::Succeeds).await);
            assert_eq!(state, Words::of(&["a@b.example", expected]));
            assert_eq!(world.done.take().len(), acts);
            assert!(world.kinds().await.contains(&"effect.reconciled".to_owned()));
        }
    }
}

#[tokio::test]
async fn an_act_that_certainly_did_not_take_place_may_be_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    failure(run(&world, Fate::Refused).await);
    completed(run(&world, Fate::Succeeds).await);
    assert_eq!(world.done.take(), ["mail", "mail"]);
}

#[tokio::test]
async fn only_its_owner_may_settle_an_act() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    run(&world, Fate::Dies).await;
    let effect = pending(run(&world, Fate::Succeeds).await);
    let stranger = Scope { tenant: "tenant_other".parse().unwrap(), ..Scope::single_user() };
    let refused = world.runtime.reconcile(&stranger, &effect.step, Settlement::DidNotHappen).await;
    assert!(matches!(refused, Err(DurableError::NoExecution { .. })), "{refused:?}");
}

/// A node that asks the receiver whether it got `name`; before that it may do something else.
fn prober(done: &Done, cancel: &CancellationToken, name: Option<&'static str>) -> Graph<Words> {
    let (done, cancel) = (done.clone(), cancel.clone());
    GraphBuilder::new("prober", 1)
        .node("pay", move |ctx, _| {
            let (done, cancel) = (done.clone(), cancel.clone());
            async move {
                let Some(name) = name else { return Ok(Vec::new()) };
                let asked = done.clone();
                let probe = async move {
                    asked.add(format!("asked for {name}"));
                    Ok(Probed::Happened(name.to_owned()))
                };
                let work = async move {
                    done.add(format!("did {name}"));
                    cancel.cancel();
                    std::future::pending().await
                };
                Ok(vec![ctx.step_probed(name, probe, work).await?])
            }
        })
        .edge(START, "pay")
        .edge("pay", END)
        .build()
        .unwrap()
}

#[tokio::test]
async fn an_act_of_unknown_outcome_is_not_taken_for_another_step_nor_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path()).await;
    let cancel = CancellationToken::new();
    let options = RunOptions { cancel: cancel.clone(), ..RunOptions::default() };
    let died = world.run_with(&prober(&world.done, &cancel, Some("charge")), options).await;
    assert!(matches!(died, Outcome::Cancelled), "{died:?}");
    assert_eq!(world.done.take(), ["did charge"]);
    // The node's code has changed since: it refunds at this place, or does nothing at all.
    let said = failure(world.run(&prober(&world.done, &cancel, Some("refund"))).await);
    assert!(said.contains("charge") && said.contains("refund"), "{said}");
    let said = failure(world.run(&prober(&world.done, &cancel, None)).await);
    assert!(said.contains("charge"), "{said}");
    assert_eq!(world.done.take(), Vec::<String>::new());
    assert_eq!(completed(world.run(&prober(&world.done, &cancel, Some("charge"))).await), Words::of(&["charge"]));
    assert_eq!(world.done.take(), ["asked for charge"]);
}
