//! Waits: asked once, answered once, by whoever comes first.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use longhaul_durable::{
    Answer, Continued, DurableError, END, Effect, GivenAnswer, Graph, GraphBuilder, NodeError, Outcome, RunOptions,
    START, Send, Status, Wait, WaitInfo, WaitStatus,
};
use serde_json::json;

use crate::{
    ground::{Ground, on},
    support::{Done, Words, World, completed, failure, scope, thread},
};

on! { file, memory, postgres:
    an_approval_is_asked_once_and_its_answer_is_kept,
    of_sixteen_answers_from_two_handles_one_is_accepted,
    several_waits_are_answered_one_by_one_in_any_order,
    one_call_answers_and_goes_on,
    an_answer_that_is_repeated_after_the_end_begins_nothing,
    a_thread_of_another_user_is_refused_by_name,
    a_deadline_that_has_passed_is_an_answer_too,
    a_wait_inside_a_subgraph_is_found_again,
    a_swallowed_wait_still_waits,
}

/// Drafts, asks, publishes.
fn approval(done: &Done, fails: &Arc<AtomicBool>) -> Graph<Words> {
    let (done, fails) = (done.clone(), fails.clone());
    GraphBuilder::<Words>::new("approval", 1)
        .node("publish", move |ctx, _| {
            let (done, fails) = (done.clone(), fails.clone());
            async move {
                let draft: String = ctx
                    .step("draft", Effect::Pure, async {
                        done.add("draft");
                        Ok("a draft".to_owned())
                    })
                    .await?;
                let wait = Wait::approval("publish?").payload(json!({ "draft": draft }));
                let answer = ctx.pause_for::<bool>(wait.schema(json!({ "type": "boolean" }))).await?;
                let Answer::Given { value, actor, .. } = answer else { panic!("{answer:?}") };
                done.add(format!("{actor} said {value}"));
                if fails.load(Ordering::SeqCst) {
                    return Err(NodeError::gave_up(std::io::Error::other("no paper")));
                }
                Ok(vec![draft, value.to_string()])
            }
        })
        .edge(START, "publish")
        .edge("publish", END)
        .build()
        .unwrap()
}

fn waits(outcome: Outcome<Words>) -> Vec<WaitInfo> {
    let Outcome::Waiting(waits) = outcome else { panic!("{outcome:?}") };
    waits
}

async fn status(world: &World) -> Status {
    world.runtime.find(&scope().scope, &thread()).await.unwrap().unwrap().status
}

async fn attempts(world: &World) -> Vec<String> {
    let read = world.store.read(|read| {
        read.query("SELECT outcome FROM answers ORDER BY outcome, attempt", &[], |row| row.get::<String>(0))
    });
    read.await.map_err(|error: longhaul_store::StoreError| error).unwrap()
}

async fn an_approval_is_asked_once_and_its_answer_is_kept(ground: Ground) {
    let world = ground.world().await;
    let fails = Arc::new(AtomicBool::new(true));
    let graph = approval(&world.done, &fails);
    let asked = waits(world.run(&graph).await);
    assert_eq!((asked.len(), asked[0].name.as_str()), (1, "publish?"));
    assert_eq!(asked[0].payload, json!({ "draft": "a draft" }));
    assert_eq!(asked[0].place.within(), "publish/1/publish?#2");
    assert_eq!(status(&world).await, Status::Waiting);
    // Running again asks nobody again.
    assert_eq!(waits(world.run(&graph).await), asked);
    assert_eq!(world.done.take(), ["draft"]);

    let answer = |value, request: &'static str, actor: &'static str| {
        let (runtime, id) = (world.runtime.clone(), asked[0].id.clone());
        async move { runtime.continue_with(&scope().scope, &id, value, request, actor).await }
    };
    let refused = answer(json!("yes"), "req-0", "eve").await;
    assert!(matches!(&refused, Err(DurableError::AnswerRefused { source, .. }) if source.path == "answer"));
    assert!(matches!(answer(json!(true), "req-1", "ada").await.unwrap(), Continued::Accepted(_)));
    assert!(matches!(answer(json!(true), "req-1", "ada").await.unwrap(), Continued::Repeated(_)));
    let other = answer(json!(false), "req-1", "ada").await;
    assert!(matches!(&other, Err(DurableError::AlreadyAnswered { actor: Some(actor), .. }) if actor == "ada"));
    let late = answer(json!(true), "req-2", "bob").await.unwrap_err().to_string();
    assert!(late.contains("is answered since") && late.contains("by ada"), "{late}");
    assert_eq!(attempts(&world).await, ["accepted", "contradicts", "late", "refused", "repeated"]);

    // What follows fails: the answer is not consumed.
    assert!(failure(world.run(&graph).await).ends_with("no paper"));
    fails.store(false, Ordering::SeqCst);
    assert_eq!(completed(world.run(&graph).await), Words::of(&["a draft", "true"]));
    assert_eq!(world.done.take(), ["ada said true", "ada said true"]);
    let known = world.runtime.wait(&scope().scope, &asked[0].id).await.unwrap();
    assert_eq!((known.status, known.value), (WaitStatus::Answered, Some(json!(true))));
}

async fn of_sixteen_answers_from_two_handles_one_is_accepted(ground: Ground) {
    let world = ground.world().await;
    let other = ground.world().await;
    let graph = approval(&world.done, &Arc::default());
    let asked = waits(world.run(&graph).await).remove(0);
    let mut answers = tokio::task::JoinSet::new();
    for n in 0..16 {
        let runtime = if n % 2 == 0 { world.runtime.clone() } else { other.runtime.clone() };
        let id = asked.id.clone();
        answers.spawn(async move {
            runtime.continue_with(&scope().scope, &id, json!(n % 3 == 0), &format!("req-{n}"), "somebody").await
        });
    }
    let answers = answers.join_all().await;
    assert_eq!(answers.iter().filter(|answer| matches!(answer, Ok(Continued::Accepted(_)))).count(), 1);
    let late = |answer: &&Result<_, _>| matches!(answer, Err(DurableError::AlreadyAnswered { .. }));
    assert_eq!(answers.iter().filter(late).count(), 15);
    let attempts = attempts(&world).await;
    assert_eq!((attempts.len(), attempts.iter().filter(|outcome| *outcome == "late").count()), (16, 15));
    completed(world.run(&graph).await);
    assert_eq!(world.done.take().len(), 2);
}

/// Three parallel questions, one of them two at once.
fn questions(done: &Done) -> Graph<Words> {
    let done = done.clone();
    GraphBuilder::<Words>::new("questions", 1)
        .node("split", |_, _| async { Ok(longhaul_durable::Flow::nothing()) })
        .node_with_input("ask", move |ctx, _, n: u64| {
            let done = done.clone();
            async move {
                let names = if n == 2 { vec!["2a".to_owned(), "2b".to_owned()] } else { vec![n.to_string()] };
                let answers = ctx.pause_for_all::<String>(names.iter().map(|name| Wait::event(name))).await?;
                done.add(n.to_string());
                Ok(answers.into_iter().filter_map(Answer::into_value).collect::<Vec<_>>())
            }
        })
        .edge(START, "split")
        .fan_out("split", &["ask"], |_| (0..3_u64).map(|n| Send::new("ask", &n)).collect())
        .edge("ask", END)
        .build()
        .unwrap()
}

async fn several_waits_are_answered_one_by_one_in_any_order(ground: Ground) {
    let world = ground.world().await;
    let graph = questions(&world.done);
    let asked = waits(world.run(&graph).await);
    assert_eq!(asked.iter().map(|wait| wait.name.as_str()).collect::<Vec<_>>(), ["0", "1", "2a", "2b"]);
    let scalar = world.runtime.continue_thread(&scope().scope, &thread(), json!("x"), "req", "ada").await;
    let Err(DurableError::WhichWait { waits: listed, .. }) = scalar else { panic!("{scalar:?}") };
    assert_eq!(listed, asked);
    for (n, wait) in asked.iter().enumerate().rev() {
        let value = json!(format!("answer {}", wait.name));
        world.runtime.continue_with(&scope().scope, &wait.id, value, "req", "ada").await.unwrap();
        if n > 0 {
            assert_eq!(waits(world.run(&graph).await), asked[..n]);
        }
    }
    assert_eq!(completed(world.run(&graph).await), Words::of(&["answer 0", "answer 1", "answer 2a", "answer 2b"]));
    // Each task went on once: what has finished does not run again.
    assert_eq!(world.done.take(), ["2", "1", "0"]);
    let nothing = world.runtime.continue_thread(&scope().scope, &thread(), json!("x"), "other", "ada").await;
    assert!(matches!(nothing, Err(DurableError::WhichWait { waits, .. }) if waits.is_empty()));
}

async fn one_call_answers_and_goes_on(ground: Ground) {
    let world = ground.world().await;
    let graph = approval(&world.done, &Arc::default());
    let asked = waits(world.run(&graph).await).remove(0);
    let with = |value, request_id: &str| RunOptions {
        answer: Some(GivenAnswer {
            wait: asked.id.clone(),
            value,
            request_id: request_id.to_owned(),
            actor: "ada".to_owned(),
        }),
        ..RunOptions::default()
    };
    let refused = world.runtime.run(&graph, &scope(), &thread(), Words::default(), with(json!(3), "req-0")).await;
    assert!(matches!(refused, Err(DurableError::AnswerRefused { .. })), "{refused:?}");
    let elsewhere = "thread_2".parse().unwrap();
    let other = world.runtime.run(&graph, &scope(), &elsewhere, Words::default(), with(json!(true), "req-0")).await;
    assert!(matches!(other, Err(DurableError::NoWait { .. })), "{other:?}");
    assert_eq!(completed(world.run_with(&graph, with(json!(false), "req-1")).await), Words::of(&["a draft", "false"]));
    assert_eq!(attempts(&world).await, ["accepted", "refused"]);
}

async fn an_answer_that_is_repeated_after_the_end_begins_nothing(ground: Ground) {
    let world = ground.world().await;
    let graph = approval(&world.done, &Arc::default());
    let asked = waits(world.run(&graph).await).remove(0);
    let answer =
        GivenAnswer { wait: asked.id, value: json!(true), request_id: "req-1".to_owned(), actor: "ada".to_owned() };
    let expected = Words::of(&["a draft", "true"]);
    for _ in 0..2 {
        let options = RunOptions { answer: Some(answer.clone()), ..RunOptions::default() };
        assert_eq!(completed(world.run_with(&graph, options).await), expected);
    }
    assert_eq!(world.done.take(), ["draft", "ada said true"]);
    assert_eq!(attempts(&world).await, ["accepted", "repeated"]);
}

async fn a_thread_of_another_user_is_refused_by_name(ground: Ground) {
    let world = ground.world().await;
    let graph = approval(&world.done, &Arc::default());
    let asked = waits(world.run(&graph).await);
    let mut stranger = scope();
    stranger.scope.user = "user_stranger".parse().unwrap();
    let refused =
        world.runtime.run(&graph, &stranger, &thread(), Words::default(), RunOptions::default()).await.unwrap_err();
    assert!(matches!(&refused, DurableError::ThreadTaken { .. }), "{refused:?}");
    assert_eq!(waits(world.run(&graph).await), asked);
}

async fn a_deadline_that_has_passed_is_an_answer_too(ground: Ground) {
    let world = ground.world().await;
    let graph = GraphBuilder::<Words>::new("impatient", 1)
        .node("ask", |ctx, _| async move {
            let waits =
                [Wait::approval("now?").deadline_ms(0).default_answer("later"), Wait::approval("or?").deadline_ms(0)];
            let answers = ctx.pause_for_all::<String>(waits).await?;
            assert!(matches!(&answers[1], Answer::Expired { default: None }), "{answers:?}");
            Ok(answers.into_iter().filter_map(Answer::into_value).collect::<Vec<_>>())
        })
        .edge(START, "ask")
        .edge("ask", END)
        .build()
        .unwrap();
    let asked = waits(world.run(&graph).await);
    let late = world.runtime.continue_with(&scope().scope, &asked[0].id, json!("x"), "req", "ada").await;
    assert!(matches!(&late, Err(DurableError::AlreadyAnswered { status: WaitStatus::Expired, .. })), "{late:?}");
    assert_eq!(completed(world.run(&graph).await), Words::of(&["later"]));
}

async fn a_wait_inside_a_subgraph_is_found_again(ground: Ground) {
    let world = ground.world().await;
    let inner = approval(&world.done, &Arc::default());
    let graph = GraphBuilder::<Words>::new("outer", 1)
        .subgraph("inner", inner, |_: &Words| Words::default(), |inner: Words| inner.words)
        .edge(START, "inner")
        .edge("inner", END)
        .build()
        .unwrap();
    let asked = waits(world.run(&graph).await);
    assert_eq!(asked[0].place.within(), "1.0.inner>publish/1.0/publish?#2");
    world.runtime.continue_thread(&scope().scope, &thread(), json!(true), "req", "ada").await.unwrap();
    assert_eq!(completed(world.run(&graph).await), Words::of(&["a draft", "true"]));
    assert_eq!(world.done.take(), ["draft", "ada said true"]);
}

async fn a_swallowed_wait_still_waits(ground: Ground) {
    let world = ground.world().await;
    let graph = GraphBuilder::<Words>::new("deaf", 1)
        .node("ask", |ctx, _| async move {
            let answer = ctx.pause_for::<bool>(Wait::approval("?")).await;
            Ok(vec![answer.is_ok().to_string()])
        })
        .edge(START, "ask")
        .edge("ask", END)
        .build()
        .unwrap();
    assert_eq!(waits(world.run(&graph).await).len(), 1);
    world.runtime.continue_thread(&scope().scope, &thread(), json!(true), "req", "ada").await.unwrap();
    assert_eq!(completed(world.run(&graph).await), Words::of(&["true"]));
}
