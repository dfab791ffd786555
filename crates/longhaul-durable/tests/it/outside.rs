//! Answers from outside: events, tokens, types, and whatever is refused.

use std::sync::{Arc, Mutex};

use longhaul_core::{Scope, TenantId, ThreadId, UserId};
use longhaul_durable::{
    Continued, DurableError, END, Graph, GraphBuilder, NodeError, Outcome, RunOptions, START, Wait, WaitFilter, WaitId,
    WaitInfo, WaitKind, WaitStatus, WaitToken,
};
use longhaul_store::{Faults, StoreError};
use serde_json::{Value, json};

use crate::{
    ground::{Ground, on},
    support::{Words, World, completed, failure, scope, thread},
};

on! { file, memory, postgres:
    an_event_answers_once_all_that_wait_for_it,
    a_token_answers_its_wait_and_is_kept_nowhere,
    an_answer_that_comes_while_it_is_asked_for_is_not_lost,
    an_answer_of_another_type_is_refused_and_changes_nothing,
    an_answer_of_another_type_is_asked_for_again_however_long_it_is,
    a_failure_is_told_whatever_characters_its_words_have,
    what_cannot_be_answered_is_refused_clearly,
    waits_three_subgraphs_deep_in_a_loop_are_answered_one_by_one,
}

fn waiting(wait: Wait) -> Graph<Words> {
    GraphBuilder::<Words>::new("waits", 1)
        .node("wait", move |ctx, _| {
            let wait = wait.clone();
            async move {
                let answer = ctx.pause_for::<Value>(wait).await?;
                Ok(vec![answer.into_value().unwrap_or_default().to_string()])
            }
        })
        .edge(START, "wait")
        .edge("wait", END)
        .build()
        .unwrap()
}

fn waits(outcome: Outcome<Words>) -> Vec<WaitInfo> {
    let Outcome::Waiting(waits) = outcome else { panic!("{outcome:?}") };
    waits
}

impl World {
    async fn run_on(&self, graph: &Graph<Words>, thread: &str) -> Outcome<Words> {
        let thread = thread.parse().unwrap();
        self.runtime.run(graph, &scope(), &thread, Words::default(), RunOptions::default()).await.unwrap()
    }
}

async fn an_event_answers_once_all_that_wait_for_it(ground: Ground) {
    let world = ground.world().await;
    let paid = |order: &str| waiting(Wait::event("paid").correlation(order));
    let strict = waiting(Wait::event("paid").correlation("7").schema(json!({ "type": "object" })));
    let deliver = |order: &'static str, payload: Value, event: &'static str| {
        let runtime = world.runtime.clone();
        async move { runtime.deliver(&scope().scope, "paid", order, payload, event).await }
    };
    // Nobody waits yet: it leaves no trace and may come again.
    let early = deliver("7", json!(12), "evt-1").await.unwrap();
    assert_eq!((early.answered.len(), early.repeated), (0, false));
    for (graph, thread) in [(paid("7"), "a"), (paid("7"), "b"), (paid("8"), "c"), (strict, "d")] {
        waits(world.run_on(&graph, thread).await);
    }
    let foreign = Scope { tenant: TenantId::from_body("other"), user: UserId::from_body("default") };
    let theirs = world.runtime.deliver(&foreign, "paid", "7", json!(12), "evt-1").await.unwrap();
    assert_eq!(theirs.answered.len(), 0);
    let neighbour = Scope { tenant: scope().scope.tenant, user: UserId::from_body("other") };
    assert_eq!(world.runtime.deliver(&neighbour, "paid", "7", json!(12), "e").await.unwrap().answered.len(), 0);

    let delivered = deliver("7", json!(12), "evt-1").await.unwrap();
    assert_eq!((delivered.answered.len(), delivered.refused.len(), delivered.repeated), (2, 1, false));
    assert_eq!(delivered.refused[0].1.path, "answer");
    assert!(delivered.answered.iter().all(|wait| wait.correlation == "7" && wait.value == Some(json!(12))));
    // Again, also when somebody else waits by now: nothing.
    let again = deliver("7", json!(12), "evt-1").await.unwrap();
    assert_eq!((again.answered, again.refused.len(), again.repeated), (delivered.answered, 0, true));
    let other = deliver("7", json!(13), "evt-1").await;
    assert!(matches!(other, Err(DurableError::AnotherEvent { .. })), "{other:?}");
    assert_eq!(deliver("7", json!({ "sum": 1 }), "evt-2").await.unwrap().answered.len(), 1);
    assert_eq!(completed(world.run_on(&paid("7"), "a").await), Words::of(&["12"]));
    assert_eq!(completed(world.run_on(&paid("7"), "b").await), Words::of(&["12"]));
    assert_eq!(waits(world.run_on(&paid("8"), "c").await).len(), 1);

    // Lists.
    let list = |filter: WaitFilter| {
        let runtime = world.runtime.clone();
        async move { runtime.waits(&scope().scope, filter).await.unwrap() }
    };
    assert_eq!(list(WaitFilter::default()).await.len(), 1);
    assert_eq!(list(WaitFilter { status: None, ..WaitFilter::default() }).await.len(), 4);
    let of_kind = |kind| WaitFilter { kind: Some(kind), status: Some(WaitStatus::Answered), ..WaitFilter::default() };
    assert_eq!(list(of_kind(WaitKind::Event)).await.len(), 3);
    assert_eq!(list(of_kind(WaitKind::Approval)).await.len(), 0);
    assert_eq!(list(WaitFilter { limit: 2, ..of_kind(WaitKind::Event) }).await.len(), 2);
    assert_eq!(list(WaitFilter { name: Some("paid".to_owned()), ..WaitFilter::default() }).await.len(), 1);
    assert_eq!(list(WaitFilter::from(&"c".parse::<ThreadId>().unwrap())).await.len(), 1);
    assert_eq!(list(WaitFilter::from(&"nowhere".parse::<ThreadId>().unwrap())).await.len(), 0);
    assert_eq!(world.runtime.waits(&neighbour, WaitFilter::default()).await.unwrap().len(), 0);
}

async fn a_token_answers_its_wait_and_is_kept_nowhere(ground: Ground) {
    let world = ground.world().await;
    let told = Arc::new(Mutex::new(Vec::<WaitToken>::new()));
    let teller = told.clone();
    let graph = GraphBuilder::<Words>::new("hooked", 1)
        .node("call", move |ctx, _| {
            let told = teller.clone();
            async move {
                let announce = |token: WaitToken| async move {
                    told.lock().unwrap().push(token);
                    Ok(())
                };
                let answer = ctx.pause_for_webhook::<String, _, _>(Wait::webhook("result"), announce).await?;
                Ok(answer.into_value().into_iter().collect::<Vec<_>>())
            }
        })
        .edge(START, "call")
        .edge("call", END)
        .build()
        .unwrap();
    let asked = waits(world.run(&graph).await);
    assert_eq!(waits(world.run(&graph).await), asked);
    let tokens = told.lock().unwrap().clone();
    assert_eq!(tokens.len(), 1, "it was announced once");
    let answer = |token: &WaitToken, value: &str, request: &'static str| {
        let (runtime, token, value) = (world.runtime.clone(), token.clone(), json!(value));
        async move { runtime.answer_by_token(&token, value, request).await }
    };
    // A new one replaces it.
    let renewed = world.runtime.renew_token(&scope().scope, &asked[0].id).await.unwrap();
    assert_ne!(renewed, tokens[0]);
    assert!(matches!(answer(&tokens[0], "old", "req-1").await, Err(DurableError::NoToken)));
    let text = renewed.reveal().to_owned();
    assert!(!format!("{renewed:?}").contains(&text[5..]) && text.len() == 69, "{text}");
    let mut wrong = text.clone();
    wrong.replace_range(68.., if text.ends_with('0') { "1" } else { "0" });
    assert!(matches!(answer(&wrong.parse().unwrap(), "guess", "req-2").await, Err(DurableError::NoToken)));
    assert!("hook_".parse::<WaitToken>().is_err());
    let token: WaitToken = text.parse().unwrap();
    assert!(matches!(answer(&token, "42", "req-3").await, Ok(Continued::Accepted(_))));
    assert!(matches!(answer(&token, "42", "req-3").await, Ok(Continued::Repeated(_))));
    assert!(matches!(answer(&token, "43", "req-4").await, Err(DurableError::AlreadyAnswered { .. })));
    assert_eq!(completed(world.run(&graph).await), Words::of(&["42"]));
    let ended = world.runtime.renew_token(&scope().scope, &asked[0].id).await;
    assert!(matches!(ended, Err(DurableError::NoWait { .. })), "{ended:?}");
    for file in ground.files().into_iter().flat_map(|dir| std::fs::read_dir(dir).unwrap()) {
        let bytes = std::fs::read(file.unwrap().path()).unwrap_or_default();
        for token in [&text, tokens[0].reveal()] {
            assert!(!bytes.windows(64).any(|window| window == &token.as_bytes()[5..]));
        }
    }
}

async fn an_answer_that_comes_while_it_is_asked_for_is_not_lost(ground: Ground) {
    let faults = Faults::new();
    let world = ground.world_with(Some(faults.clone())).await;
    let (runtime, done) = (world.runtime.clone(), world.done.clone());
    let graph = GraphBuilder::<Words>::new("hasty", 1)
        .node("call", move |ctx, _| {
            let (runtime, done) = (runtime.clone(), done.clone());
            async move {
                let announce = |token: WaitToken| async move {
                    done.add("announced");
                    runtime.answer_by_token(&token, json!("at once"), "req").await?;
                    Ok(())
                };
                let answer = ctx.pause_for_webhook::<String, _, _>(Wait::webhook("result"), announce).await?;
                Ok(answer.into_value().into_iter().collect::<Vec<_>>())
            }
        })
        .edge(START, "call")
        .edge("call", END)
        .build()
        .unwrap();
    // Whichever commit is the last before a death: beginning, opening, token, answer, step.
    for last in 0..6 {
        let (thread, of) = (format!("thread_{last}").parse().unwrap(), scope());
        let run = || world.runtime.run(&graph, &of, &thread, Words::default(), RunOptions::default());
        faults.die_after(faults.commits() + last);
        let died = run().await;
        assert!(!matches!(died, Ok(Outcome::Completed(_))), "{died:?}");
        faults.revive();
        assert_eq!(completed(run().await.unwrap()), Words::of(&["at once"]));
        let announced = world.done.take().len();
        assert!(announced == 1 || (last < 4 && announced == 2), "announced {announced} times, last commit {last}");
    }
}

async fn an_answer_of_another_type_is_refused_and_changes_nothing(ground: Ground) {
    #[derive(serde::Deserialize)]
    struct Decision {
        amounts: Vec<u32>,
    }
    let world = ground.world().await;
    let graph = GraphBuilder::<Words>::new("typed", 1)
        .node("ask", |ctx, _| async move {
            let answer = ctx.pause_for::<Decision>(Wait::approval("how much?")).await?;
            Ok(answer.into_value().map_or_else(Vec::new, |decision| vec![format!("{:?}", decision.amounts)]))
        })
        .edge(START, "ask")
        .edge("ask", END)
        .build()
        .unwrap();
    let asked = waits(world.run(&graph).await);
    let (id, wrong) = (&asked[0].id, json!({ "amounts": [1, "two"] }));
    // Where the type is known, at once; otherwise when the node reads it. In both cases it still waits.
    let refused = world.runtime.continue_as::<Decision>(&scope().scope, id, wrong.clone(), "req-1", "ada").await;
    let Err(DurableError::AnswerRefused { source, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(source.path, "answer.amounts[1]");
    assert_eq!(waits(world.run(&graph).await), asked);
    world.runtime.continue_with(&scope().scope, id, wrong, "req-2", "ada").await.unwrap();
    let outcome = world.run(&graph).await;
    assert!(
        matches!(&outcome, Outcome::Failed { error: NodeError::AnswerUnfit { source, .. }, .. }
            if source.path == "answer.amounts[1]"),
        "{outcome:?}"
    );
    assert_eq!(waits(world.run(&graph).await), asked);
    world.runtime.continue_with(&scope().scope, id, json!({ "amounts": [3] }), "req-3", "ada").await.unwrap();
    assert_eq!(completed(world.run(&graph).await), Words::of(&["[3]"]));
    let attempts = world.store.read(|read| {
        read.query("SELECT request_id || ' ' || outcome FROM answers ORDER BY 1", &[], |row| row.get::<String>(0))
    });
    let attempts = attempts.await.map_err(|error: StoreError| error).unwrap();
    assert_eq!(attempts, ["req-1 refused", "req-2 accepted", "req-2 refused", "req-3 accepted"]);

    // A default that is not what the node asks for is found out before anybody is asked.
    let careless = GraphBuilder::<Words>::new("careless", 1)
        .node("ask", |ctx, _| async move {
            ctx.pause_for::<bool>(Wait::approval("?").deadline_ms(1).default_answer("later")).await?;
            Ok(Vec::new())
        })
        .edge(START, "ask")
        .edge("ask", END)
        .build()
        .unwrap();
    assert!(failure(world.run_on(&careless, "careless").await).contains("default: invalid type"));
}

async fn an_answer_of_another_type_is_asked_for_again_however_long_it_is(ground: Ground) {
    let world = ground.world().await;
    let graph = GraphBuilder::<Words>::new("short", 1)
        .node("ask", |ctx, _| async move {
            let answer = ctx.pause_for::<u32>(Wait::approval("how many?")).await?;
            Ok(answer.into_value().map(|number| number.to_string()).into_iter().collect::<Vec<_>>())
        })
        .edge(START, "ask")
        .edge("ask", END)
        .build()
        .unwrap();
    let asked = waits(world.run(&graph).await);
    let long = json!("x".repeat(100_000));
    world.runtime.continue_with(&scope().scope, &asked[0].id, long, "req-1", "ada").await.unwrap();
    let outcome = world.run(&graph).await;
    assert!(matches!(&outcome, Outcome::Failed { error: NodeError::AnswerUnfit { .. }, .. }), "{outcome:?}");
    assert!(failure(outcome).len() < 2_000);
    assert_eq!(waits(world.run(&graph).await), asked);
    world.runtime.continue_with(&scope().scope, &asked[0].id, json!(3), "req-2", "ada").await.unwrap();
    assert_eq!(completed(world.run(&graph).await), Words::of(&["3"]));
}

async fn a_failure_is_told_whatever_characters_its_words_have(ground: Ground) {
    let world = ground.world().await;
    let graph = GraphBuilder::<Words>::new("binary", 1)
        .node("work", |_, _| async {
            let failed: Result<Vec<String>, NodeError> = Err(NodeError::gave_up(std::io::Error::other("exit \0 7")));
            failed
        })
        .edge(START, "work")
        .edge("work", END)
        .build()
        .unwrap();
    assert!(failure(world.run(&graph).await).ends_with("exit \0 7"));
    let known = world.runtime.find(&scope().scope, &thread()).await.unwrap().unwrap();
    assert!(known.error.is_some_and(|error| error.contains("exit") && error.ends_with('7')));
}

async fn what_cannot_be_answered_is_refused_clearly(ground: Ground) {
    let world = ground.world().await;
    let graph = waiting(Wait::approval("?"));
    let asked = waits(world.run(&graph).await).remove(0);
    let answer = |scope: Scope, id: WaitId| {
        let runtime = world.runtime.clone();
        async move { runtime.continue_with(&scope, &id, json!(1), "req", "eve").await }
    };
    let mine = scope().scope;
    for foreign in [
        Scope { tenant: TenantId::from_body("other"), user: mine.user.clone() },
        Scope { tenant: mine.tenant.clone(), user: UserId::from_body("other") },
    ] {
        let refused = answer(foreign.clone(), asked.id.clone()).await;
        assert!(matches!(refused, Err(DurableError::NoWait { .. })), "{refused:?}");
        assert!(world.runtime.renew_token(&foreign, &asked.id).await.is_err());
        assert!(world.runtime.wait(&foreign, &asked.id).await.is_err());
        let thread = world.runtime.continue_thread(&foreign, &thread(), json!(1), "req", "eve").await;
        assert!(matches!(thread, Err(DurableError::WhichWait { waits, .. }) if waits.is_empty()));
    }
    assert!(matches!(answer(mine.clone(), "wait_none".parse().unwrap()).await, Err(DurableError::NoWait { .. })));
    assert_eq!(waits(world.run(&graph).await), std::slice::from_ref(&asked));
    world.runtime.abandon(&mine, &thread()).await.unwrap();
    let late = answer(mine.clone(), asked.id.clone()).await;
    assert!(matches!(&late, Err(DurableError::AlreadyAnswered { status: WaitStatus::Cancelled, .. })), "{late:?}");
    let timed = waits(world.run_on(&waiting(Wait::approval("?").deadline_ms(0)), "timed").await).remove(0);
    let late = answer(mine, timed.id).await;
    assert!(matches!(&late, Err(DurableError::AlreadyAnswered { status: WaitStatus::Expired, .. })), "{late:?}");
}

async fn waits_three_subgraphs_deep_in_a_loop_are_answered_one_by_one(ground: Ground) {
    let world = ground.world().await;
    let ask = |name: &'static str| {
        move |ctx: longhaul_durable::NodeContext, _: Arc<Words>| async move {
            let answers = ctx.pause_for_all::<String>([Wait::approval(name), Wait::event(name)]).await?;
            Ok(answers.into_iter().filter_map(longhaul_durable::Answer::into_value).collect::<Vec<_>>())
        }
    };
    let mut graph = GraphBuilder::<Words>::new("level 3", 1)
        .node("left", ask("left"))
        .node("right", ask("right"))
        .edge(START, "left")
        .edge(START, "right")
        .edge("left", END)
        .edge("right", END)
        .build()
        .unwrap();
    for level in ["level 2", "level 1"] {
        graph = GraphBuilder::<Words>::new(level, 1)
            .subgraph("inner", graph, |_: &Words| Words::default(), |inner: Words| inner.words)
            .edge(START, "inner")
            .edge("inner", END)
            .build()
            .unwrap();
    }
    let graph = GraphBuilder::<Words>::new("loop", 1)
        .subgraph("inner", graph, |_: &Words| Words::default(), |inner: Words| inner.words)
        .edge(START, "inner")
        .branch("inner", &["inner", END], |state| if state.count < 8 { "inner" } else { END })
        .build()
        .unwrap();
    let mut asked = waits(world.run(&graph).await);
    for round in 0..2 {
        assert_eq!(asked.len(), 4);
        assert!(asked.iter().all(|wait| wait.place.ns.matches('>').count() == 3), "{asked:?}");
        for left in (0..4).rev() {
            let answer = json!(format!("{round}.{left}"));
            let request = format!("req-{round}-{left}");
            world.runtime.continue_with(&scope().scope, &asked[left].id, answer, &request, "ada").await.unwrap();
            if left > 0 {
                assert_eq!(waits(world.run(&graph).await), asked[..left]);
            } else if round == 0 {
                asked = waits(world.run(&graph).await);
            }
        }
    }
    let expected: Vec<String> = (0..2).flat_map(|round| (0..4).map(move |n| format!("{round}.{n}"))).collect();
    assert_eq!(completed(world.run(&graph).await).words, expected);
}
