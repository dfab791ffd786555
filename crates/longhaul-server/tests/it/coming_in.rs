//! Webhooks that come in: signed ones are believed once, everything else costs nothing.

use std::sync::{Arc, Mutex};

use longhaul_core::{Scope, TaskScope};
use longhaul_durable::{
    END, Graph, GraphBuilder, GraphState, Outcome, RunOptions, Runtime, START, Wait, WaitInfo, WaitToken,
};
use longhaul_server::{
    Limits,
    hooks::{self, Secret},
    keys::Role,
};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    house::{Answer, House, scope, send},
    listening::task_scope,
};

/// A list of words.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Words(Vec<String>);

impl GraphState for Words {
    type Update = Vec<String>;
    fn apply(&mut self, update: Self::Update) {
        self.0.extend(update);
    }
}

/// Waits as it is told to, and ends with the answer.
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

async fn begin(runtime: &Runtime, owner: &TaskScope, thread: &str, graph: &Graph<Words>) -> WaitInfo {
    let thread = thread.parse().unwrap();
    let outcome = runtime.run(graph, owner, &thread, Words::default(), RunOptions::default()).await.unwrap();
    let Outcome::Waiting(mut waits) = outcome else { panic!("{outcome:?}") };
    waits.remove(0)
}

struct Sender<'a> {
    house: &'a House,
    path: String,
    secret: Secret,
}

impl Sender<'_> {
    fn now_s(&self) -> i64 {
        self.house.store.ambient().clock.now().0 / 1_000
    }

    async fn send(&self, id: &str, body: &Value) -> Answer {
        self.send_at(id, self.now_s(), body, body).await
    }

    /// Signs one body and sends the other.
    async fn send_at(&self, id: &str, at_s: i64, signed: &Value, sent: &Value) -> Answer {
        let signature = hooks::sign(std::slice::from_ref(&self.secret), id, at_s, signed.to_string().as_bytes());
        let request = self.house.request(Method::POST, &self.path).body(sent.to_string());
        let request = request.header(hooks::ID, id).header(hooks::TIMESTAMP, at_s).header(hooks::SIGNATURE, signature);
        send(request).await
    }
}

async fn endpoint<'a>(house: &'a House, key: &str, action: Value) -> (Sender<'a>, String) {
    let made = house.post(key, "/v1/webhooks/endpoints", &json!({ "name": "shop", "action": action })).await;
    assert_eq!(made.status, 201, "{made:?}");
    let id = made.body["endpoint"].as_str().unwrap().to_owned();
    let secret = made.body["secret"].as_str().unwrap().parse().unwrap();
    (Sender { house, path: format!("/v1/hooks/{id}"), secret }, id)
}

fn ours() -> Scope {
    scope("acme", "ada")
}

#[tokio::test]
async fn a_signed_message_answers_what_waits_for_it_once() {
    let house = House::new().await;
    let key = house.key("acme", "ada", Role::Operator).await;
    let action = json!({ "do": "deliver", "name": "paid", "correlation_at": "/order", "payload_at": "/sum" });
    let (sender, id) = endpoint(&house, &key, action).await;
    let runtime = Runtime::new(house.store.clone(), house.store.ambient().clone());
    let message = json!({ "order": 7, "sum": 12 });
    // Nobody waits yet: the sender is asked to come again.
    let early = sender.send("m1", &message).await;
    assert_eq!((early.status.as_u16(), early.code()), (503, "not_awaited"));
    assert!(early.headers.contains_key("retry-after"));
    let paid = |order: &str| waiting(Wait::event("paid").correlation(order));
    let wait = begin(&runtime, &task_scope(&ours(), "t"), "a", &paid("7")).await;
    let other = begin(&runtime, &task_scope(&ours(), "t"), "b", &paid("8")).await;
    let taken = sender.send("m1", &message).await;
    assert_eq!((taken.status.as_u16(), &taken.body), (200, &json!({ "answered": [wait.id], "repeated": false })));
    // Again and again, also at the same time: the same answer, and nothing happens.
    let again = tokio::join!(sender.send("m1", &message), sender.send("m1", &message), sender.send("m1", &message));
    for again in [again.0, again.1, again.2] {
        assert_eq!((again.status.as_u16(), &again.body), (200, &json!({ "answered": [wait.id], "repeated": true })));
    }
    let another = sender.send("m1", &json!({ "order": 8, "sum": 1 })).await;
    assert_eq!((another.status.as_u16(), another.code()), (409, "another_message"));
    assert_eq!(runtime.wait(&ours(), &wait.id).await.unwrap().value, Some(json!(12)));
    assert_eq!(runtime.wait(&ours(), &other.id).await.unwrap().value, None);
    let missing = sender.send("m2", &json!({ "sum": 12 })).await;
    assert_eq!((missing.status.as_u16(), missing.body["at"].as_str()), (422, Some("body/order")));
    let shown = house.get(&key, &format!("/v1/webhooks/endpoints/{id}")).await.body;
    assert_eq!((&shown["accepted"], &shown["repeated"], &shown["refused"]), (&1.into(), &3.into(), &0.into()));
}

#[tokio::test]
async fn what_is_not_signed_as_it_should_be_changes_nothing_and_is_counted() {
    let house = House::new().await;
    let key = house.key("acme", "ada", Role::Operator).await;
    let (sender, id) = endpoint(&house, &key, json!({ "do": "deliver", "name": "paid" })).await;
    let runtime = Runtime::new(house.store.clone(), house.store.ambient().clone());
    let wait = begin(&runtime, &task_scope(&ours(), "t"), "a", &waiting(Wait::event("paid"))).await;
    let (now, message) = (sender.now_s(), json!({ "sum": 1 }));
    let forger =
        Sender { secret: Secret::random(house.store.ambient().rng.as_ref()), path: sender.path.clone(), house: &house };
    let refused = [
        forger.send("m1", &message).await,
        sender.send_at("m1", now, &message, &json!({ "sum": 100 })).await,
        sender.send_at("m1", now - 400, &message, &message).await,
        sender.send_at("m1", now + 400, &message, &message).await,
        send(house.request(Method::POST, &sender.path).body(message.to_string())).await,
    ];
    for answer in &refused {
        assert_eq!((answer.status.as_u16(), answer.code()), (401, "untrusted"), "{answer:?}");
    }
    let unknown = Sender { path: "/v1/hooks/ep_unknown".to_owned(), secret: sender.secret.clone(), house: &house };
    for _ in 0..200 {
        let answer = unknown.send("m1", &message).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (401, "untrusted"));
    }
    // A key is no signature, and a body that is too large is not read.
    let keyed = send(house.request(Method::POST, &sender.path).bearer_auth(&key).body("{}")).await;
    assert_eq!(keyed.status, 401);
    let large = sender.send("m1", &json!({ "text": "x".repeat(300_000) })).await;
    assert_eq!((large.status.as_u16(), large.code()), (413, "too_large"));
    assert_eq!(runtime.wait(&ours(), &wait.id).await.unwrap().value, None);
    let listed = house.get(&key, "/v1/webhooks/endpoints").await.body;
    assert_eq!((&listed["unknown"], &listed["endpoints"][0]["refused"]), (&200.into(), &6.into()));
    // What others send need not be an object.
    assert_eq!(sender.send("m1", &json!([1, 2])).await.status, 200);
    // Secrets are shown when they are made; endpoints are their user's.
    assert!(!listed.to_string().contains("whsec_"));
    let bob = house.key("acme", "bob", Role::Owner).await;
    assert_eq!(house.get(&bob, &format!("/v1/webhooks/endpoints/{id}")).await.status, 404);
    let viewer = house.key("acme", "ada", Role::Viewer).await;
    let new = json!({ "name": "n", "action": { "do": "deliver", "name": "x" } });
    assert_eq!(house.post(&viewer, "/v1/webhooks/endpoints", &new).await.status, 403);
}

#[tokio::test]
async fn a_secret_is_replaced_without_losing_a_message() {
    let house = House::new().await;
    let key = house.key("acme", "ada", Role::Operator).await;
    let (old, id) = endpoint(&house, &key, json!({ "do": "deliver", "name": "paid" })).await;
    let path = format!("/v1/webhooks/endpoints/{id}/secret");
    let replace = |body: Value| {
        let (house, key, path) = (&house, key.clone(), path.clone());
        async move {
            let replaced = house.post(&key, &path, &body).await;
            assert_eq!(replaced.status, 200, "{replaced:?}");
            let secret = replaced.body["secret"].as_str().unwrap().parse().unwrap();
            Sender { secret, path: format!("/v1/hooks/{}", replaced.body["endpoint"].as_str().unwrap()), house }
        }
    };
    let new = replace(json!({})).await;
    // Believed, and not awaited.
    for sender in [&old, &new] {
        assert_eq!(sender.send("m1", &json!({})).await.status, 503);
    }
    let newest = replace(json!({ "at_once": true })).await;
    assert_eq!(new.send("m1", &json!({})).await.status, 401);
    assert_eq!(newest.send("m1", &json!({})).await.status, 503);
    let gone = send(house.request(Method::DELETE, &format!("/v1/webhooks/endpoints/{id}")).bearer_auth(&key)).await;
    assert_eq!(gone.status, 200);
    assert_eq!(newest.send("m1", &json!({})).await.status, 401);
}

#[tokio::test]
async fn a_message_answers_the_wait_that_it_names_in_its_own_scope_only() {
    let house = House::new().await;
    let runtime = Runtime::new(house.store.clone(), house.store.ambient().clone());
    let key = house.key("acme", "ada", Role::Operator).await;
    let foreign = house.key("other", "ada", Role::Operator).await;
    let action = json!({ "do": "answer", "wait_at": "/wait", "payload_at": "/answer" });
    let (sender, _) = endpoint(&house, &key, action.clone()).await;
    let (stranger, _) = endpoint(&house, &foreign, action).await;
    let wait = begin(&runtime, &task_scope(&ours(), "t"), "a", &waiting(Wait::approval("may it?"))).await;
    let message = json!({ "wait": wait.id, "answer": "yes" });
    assert_eq!(stranger.send("m1", &message).await.status, 404);
    for repeated in [false, true] {
        let taken = sender.send("m1", &message).await;
        assert_eq!(
            (taken.status.as_u16(), &taken.body),
            (200, &json!({ "answered": [wait.id], "repeated": repeated }))
        );
    }
    let late = sender.send("m2", &json!({ "wait": wait.id, "answer": "no" })).await;
    assert_eq!((late.status.as_u16(), late.code()), (409, "already_answered"));
    assert_eq!(sender.send("m3", &json!({ "wait": "nonsense", "answer": 1 })).await.status, 422);
    for action in [
        json!({ "do": "deliver" }),
        json!({ "do": "deliver", "name": "a", "name_at": "/b" }),
        json!({ "do": "deliver_named", "name_at": "b" }),
        json!({ "do": "answer", "wait_at": "no pointer" }),
        json!({ "do": "delete" }),
        json!({ "do": "answer", "wait_at": "/w", "more": 1 }),
    ] {
        let refused = house.post(&key, "/v1/webhooks/endpoints", &json!({ "name": "n", "action": action })).await;
        assert_eq!(refused.status, 422, "{refused:?}");
    }
}

#[tokio::test]
async fn a_token_answers_its_wait_from_the_header_only() {
    let house = House::with(Limits::default()).await;
    let runtime = Runtime::new(house.store.clone(), house.store.ambient().clone());
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
    let wait = begin(&runtime, &task_scope(&ours(), "t"), "a", &graph).await;
    let token = told.lock().unwrap()[0].reveal().to_owned();
    let answer = |request: reqwest::RequestBuilder| send(request.json(&json!("done")));
    let in_address = house.request(Method::POST, &format!("/v1/hooks/answer?token={token}"));
    assert_eq!(answer(in_address).await.status, 401);
    let wrong = house.request(Method::POST, "/v1/hooks/answer").bearer_auth(format!("hook_{}", "0".repeat(64)));
    let wrong = answer(wrong).await;
    assert_eq!((wrong.status.as_u16(), wrong.code()), (401, "no_token"));
    for repeated in [false, true] {
        let taken = answer(house.request(Method::POST, "/v1/hooks/answer").bearer_auth(&token)).await;
        assert_eq!(
            (taken.status.as_u16(), &taken.body),
            (200, &json!({ "answered": [wait.id], "repeated": repeated }))
        );
    }
    let other = house.request(Method::POST, "/v1/hooks/answer").bearer_auth(&token).json(&json!("other"));
    assert_eq!(send(other).await.status, 409);
    assert_eq!(runtime.wait(&ours(), &wait.id).await.unwrap().value, Some(json!("done")));
}
