//! Webhooks that go out: signed, in order, again until they are taken, and only where they may.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use longhaul_server::{
    DoorSettings, Limits,
    hooks::{Claim, RetrySettings, WebhookSettings},
    keys::Role,
};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    house::{Answer, House, scope, send},
    listening::{PATIENCE, task_scope, tell},
};

/// A message that came.
#[derive(Debug, Clone)]
pub(crate) struct Came {
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
    pub(crate) body: Value,
}

impl Came {
    pub(crate) fn id(&self) -> &str {
        self.headers["webhook-id"].to_str().unwrap()
    }

    pub(crate) fn n(&self) -> u64 {
        self.body["data"]["data"]["n"].as_u64().unwrap()
    }
}

/// Somebody who takes webhooks, as told: what is to be answered comes first to the front.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) url: String,
    came: watch::Sender<Vec<Came>>,
    answers: Arc<Mutex<VecDeque<u16>>>,
    /// What is answered to messages about a task, whatever else is to be.
    about: Arc<Mutex<HashMap<String, u16>>>,
}

impl Receiver {
    pub(crate) async fn new() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/take", listener.local_addr().unwrap());
        let receiver = Self { url, came: watch::Sender::default(), answers: Arc::default(), about: Arc::default() };
        let router = Router::new().route("/take", post(take)).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        receiver
    }

    pub(crate) fn answer(&self, statuses: &[u16]) {
        self.answers.lock().unwrap().extend(statuses);
    }

    /// Waits until so many messages have come.
    pub(crate) async fn came(&self, count: usize) -> Vec<Came> {
        let mut came = self.came.subscribe();
        let enough = came.wait_for(|came| came.len() >= count);
        let came = tokio::time::timeout(PATIENCE, enough).await.expect("nothing comes").unwrap();
        came.clone()
    }
}

/// Answers with what is to be answered; 0 for nothing at all.
async fn take(State(receiver): State<Receiver>, headers: HeaderMap, bytes: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&bytes).unwrap();
    let about = body["data"]["task"].as_str().unwrap_or_default();
    let answer = receiver.about.lock().unwrap().get(about).copied();
    let answer = answer.unwrap_or_else(|| receiver.answers.lock().unwrap().pop_front().unwrap_or(204));
    receiver.came.send_modify(|came| came.push(Came { headers, bytes, body }));
    match answer {
        0 => std::future::pending().await,
        302 => (StatusCode::FOUND, [(header::LOCATION, "http://127.0.0.1:1/")]).into_response(),
        status => StatusCode::from_u16(status).unwrap().into_response(),
    }
}

pub(crate) fn quick() -> Limits {
    let webhooks = WebhookSettings {
        allow: vec!["127.0.0.1".parse().unwrap()],
        retry: RetrySettings { first_ms: 20, pause_ms_max: 40, attempts_max: 3 },
        attempt_max: Duration::from_secs(5),
        dead_in_a_row_max: 2,
    };
    Limits { doors: DoorSettings { webhooks, ..DoorSettings::default() }, ..Limits::default() }
}

async fn subscribe(house: &House, key: &str, url: &str, types: &[&str]) -> Answer {
    house.post(key, "/v1/webhooks/subscriptions", &json!({ "name": "n", "url": url, "types": types })).await
}

/// Asks for a page until it is as wished.
async fn until(house: &House, key: &str, path: &str, wished: impl Fn(&Value) -> bool) -> Value {
    let mut often = tokio::time::interval(Duration::from_millis(20));
    let asking = async {
        loop {
            often.tick().await;
            let body = house.get(key, path).await.body;
            if wished(&body) {
                return body;
            }
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("it never is as wished")
}

#[tokio::test]
async fn events_are_sent_signed_and_in_order_and_again_until_they_are_taken() {
    let (house, receiver) = (House::with(quick()).await, Receiver::new().await);
    let key = house.key("acme", "ada", Role::Operator).await;
    let (ours, other) = (task_scope(&scope("acme", "ada"), "t"), task_scope(&scope("acme", "ada"), "u"));
    tell(&house.store, &ours, 0).await;
    let made = subscribe(&house, &key, &receiver.url, &["test.*"]).await;
    assert_eq!(made.status, 201, "{made:?}");
    let secret = made.body["secret"].as_str().unwrap().parse().unwrap();
    receiver.answer(&[500, 302]);
    // What is another's, and what came before, is not sent.
    tell(&house.store, &task_scope(&scope("acme", "bob"), "t"), 99).await;
    tell(&house.store, &task_scope(&scope("other", "ada"), "t"), 99).await;
    for n in 1..4 {
        tell(&house.store, &ours, n).await;
    }
    let came = receiver.came(5).await;
    assert_eq!(came.iter().map(Came::n).collect::<Vec<_>>(), [1, 1, 1, 2, 3]);
    let now = house.store.ambient().clock.now();
    for message in &came {
        let claim = Claim::read(&message.headers, now).unwrap();
        claim.verify(std::slice::from_ref(&secret), &message.bytes).unwrap();
        assert_eq!((&message.body["type"], &message.body["data"]["v"]), (&"test.told".into(), &1.into()));
        assert_eq!(message.headers["content-type"], "application/json");
    }
    // The same message is the same bytes under the same id.
    assert!(came[..3].iter().all(|message| message.id() == came[0].id() && message.bytes == came[0].bytes));
    assert_ne!(came[3].id(), came[0].id());
    // A task whose messages are refused holds no other up.
    receiver.about.lock().unwrap().insert("task_t".to_owned(), 503);
    tell(&house.store, &ours, 4).await;
    tell(&house.store, &other, 5).await;
    let wait = receiver.came.subscribe().wait_for(|came| came.iter().any(|came| came.n() == 5)).await.map(drop);
    wait.unwrap();
    let id = made.body["subscription"].as_str().unwrap();
    let path = format!("/v1/webhooks/subscriptions/{id}/deliveries");
    let dead = until(&house, &key, &format!("{path}?status=dead"), |page| !page["deliveries"][0].is_null()).await;
    let dead = &dead["deliveries"][0];
    assert_eq!((&dead["attempts"], &dead["answer"], &dead["type"]), (&3.into(), &503.into(), &"test.told".into()));
    // Sent again by hand, under the same id.
    receiver.about.lock().unwrap().clear();
    let resend = format!("/v1/webhooks/deliveries/{}/resend", dead["delivery"].as_str().unwrap());
    assert_eq!(house.post(&key, &resend, &json!({})).await.status, 200);
    until(&house, &key, &format!("{path}?status=dead"), |page| page["deliveries"] == json!([])).await;
    until(&house, &key, &format!("{path}?status=waiting"), |page| page["deliveries"] == json!([])).await;
    let told = house.get(&key, "/v1/events?types=webhook.*").await.body;
    assert_eq!(told["events"][0]["data"]["delivery"], dead["delivery"]);
    let all = house.get(&key, &path).await.body;
    assert_eq!(all["deliveries"].as_array().unwrap().len(), 5);
    let bob = house.key("acme", "bob", Role::Owner).await;
    assert_eq!(house.get(&bob, &path).await.status, 404);
    assert_eq!(house.post(&bob, &resend, &json!({})).await.status, 404);
}

#[tokio::test]
async fn a_subscription_that_only_fails_is_switched_off_and_goes_on_where_it_stopped() {
    let (house, receiver) = (House::with(quick()).await, Receiver::new().await);
    let key = house.key("acme", "ada", Role::Operator).await;
    let made = subscribe(&house, &key, &receiver.url, &[]).await.body;
    let path = format!("/v1/webhooks/subscriptions/{}", made["subscription"].as_str().unwrap());
    receiver.answer(&[500; 6]);
    for n in 0..4 {
        tell(&house.store, &task_scope(&scope("acme", "ada"), "t"), n).await;
    }
    let off = until(&house, &key, &path, |shown| shown["enabled"] == false).await;
    assert!(off["disabled_because"].as_str().unwrap().contains("answered 500"), "{off}");
    let told = until(&house, &key, "/v1/events?types=webhook.disabled", |page| !page["events"][0].is_null()).await;
    assert_eq!(told["events"][0]["data"]["subscription"], made["subscription"]);
    assert_eq!(receiver.came(6).await.len(), 6);
    let switch = |on: bool| {
        let request = house.request(reqwest::Method::PATCH, &path).bearer_auth(&key);
        send(request.json(&json!({ "enabled": on })))
    };
    assert_eq!(switch(true).await.body["enabled"], true);
    // Two were given up, two are sent now; nothing is told of its own failures.
    assert_eq!(receiver.came(8).await[6..].iter().map(Came::n).collect::<Vec<_>>(), [2, 3]);
    // Gone is gone.
    receiver.answer(&[410]);
    tell(&house.store, &task_scope(&scope("acme", "ada"), "t"), 4).await;
    let gone = until(&house, &key, &path, |shown| shown["enabled"] == false).await;
    assert!(gone["disabled_because"].as_str().unwrap().contains("410"), "{gone}");
    let removed = send(house.request(reqwest::Method::DELETE, &path).bearer_auth(&key)).await;
    assert_eq!((removed.status.as_u16(), house.get(&key, &path).await.status.as_u16()), (200, 404));
}

#[tokio::test]
async fn nothing_is_sent_to_places_that_are_not_public() {
    let (house, receiver) = (House::new().await, Receiver::new().await);
    let key = house.key("acme", "ada", Role::Operator).await;
    for url in [
        receiver.url.as_str(),
        "https://127.0.0.1/x",
        "https://[::1]/x",
        "https://169.254.169.254/latest/meta-data",
        "https://0x7f000001/",
        "http://example.com/",
        "ftp://example.com/",
        "https://user:password@example.com/",
        "nonsense",
    ] {
        let refused = subscribe(&house, &key, url, &[]).await;
        assert_eq!((refused.status.as_u16(), refused.body["at"].as_str()), (409, Some("body.url")), "{refused:?}");
    }
    // A name can only be judged when it is resolved.
    let made = subscribe(&house, &key, "https://localhost/x", &[]).await;
    assert_eq!(made.status, 201);
    tell(&house.store, &task_scope(&scope("acme", "ada"), "t"), 1).await;
    let path = format!("/v1/webhooks/subscriptions/{}/deliveries", made.body["subscription"].as_str().unwrap());
    let tried = until(&house, &key, &path, |page| page["deliveries"][0]["attempts"] == 1).await;
    let problem = tried["deliveries"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("not a public address"), "{problem}");
    for wrong in [json!({ "name": "n", "url": "https://example.com/", "types": ["a b"] }), json!({ "name": "n" })] {
        assert_eq!(house.post(&key, "/v1/webhooks/subscriptions", &wrong).await.status, 422);
    }
}
