//! What is written down of a change, and how one is repeated.

use longhaul_server::keys::Role;
use reqwest::Method;
use serde_json::{Value, json};

use crate::house::{Answer, House, send};

async fn make(house: &House, key: &str, name: &str, body: &Value) -> Answer {
    send(house.request(Method::POST, "/v1/tasks").bearer_auth(key).header("idempotency-key", name).json(body)).await
}

#[tokio::test]
async fn the_same_name_and_body_is_the_same_change() {
    let house = House::new().await;
    let (ada, bob) = (house.key("acme", "ada", Role::Operator).await, house.key("acme", "bob", Role::Operator).await);
    let body = json!({ "title": "plan the move" });
    let first = make(&house, &ada, "move-1", &body).await;
    assert_eq!(first.status, 201);
    let again = make(&house, &ada, "move-1", &body).await;
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    assert_eq!(again.headers["location"], first.headers["location"]);
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert!(!first.headers.contains_key("idempotency-replayed"));
    let other = make(&house, &ada, "move-1", &json!({ "title": "another" })).await;
    assert_eq!((other.status.as_u16(), other.code()), (409, "idempotency_key_reused"));
    // Names are one's own.
    let of_bob = make(&house, &bob, "move-1", &body).await;
    assert!(of_bob.status == 201 && of_bob.body["task"] != first.body["task"]);
    assert_eq!(house.get(&ada, "/v1/tasks").await.body["items"].as_array().unwrap().len(), 1);
    for wrong in ["", "with space", &"x".repeat(129)] {
        assert_eq!(make(&house, &ada, wrong, &body).await.status, 422, "{wrong:?}");
    }
}

#[tokio::test]
async fn of_many_at_once_with_one_name_one_is_made() {
    let house = House::new().await;
    let key = house.key("acme", "ada", Role::Operator).await;
    let body = json!({ "title": "once" });
    let calls = (0..16).map(|_| make(&house, &key, "storm", &body));
    let answers = futures(calls).await;
    let first = &answers[0].body["task"];
    assert!(answers.iter().all(|answer| answer.status == 201 && &answer.body["task"] == first), "{answers:?}");
    let made = answers.iter().filter(|answer| !answer.headers.contains_key("idempotency-replayed"));
    assert_eq!(made.count(), 1);
}

/// All at once, in order.
async fn futures<F: Future<Output = Answer>>(calls: impl Iterator<Item = F>) -> Vec<Answer> {
    let mut waiting: Vec<_> = calls.map(|call| (Box::pin(call), None)).collect();
    std::future::poll_fn(|context| {
        for (call, answer) in waiting.iter_mut().filter(|(_, answer)| answer.is_none()) {
            if let std::task::Poll::Ready(ready) = call.as_mut().poll(context) {
                *answer = Some(ready);
            }
        }
        if waiting.iter().all(|(_, answer)| answer.is_some()) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    waiting.into_iter().filter_map(|(_, answer)| answer).collect()
}

#[tokio::test]
async fn a_change_that_failed_may_be_tried_again_under_its_name() {
    let house = House::new().await;
    let key = house.key("acme", "ada", Role::Operator).await;
    house.task("acme", "ada", "taken").await;
    let refused = make(&house, &key, "n", &json!({ "title": "t", "thread": "taken" })).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (409, "thread_taken"));
    assert_eq!(make(&house, &key, "n", &json!({ "title": "t", "thread": "free" })).await.status, 201);
}

#[tokio::test]
async fn every_change_is_in_the_audit_log_with_who_and_in_which_request() {
    let house = House::new().await;
    let (ada, owner) = (house.key("acme", "ada", Role::Operator).await, house.key("acme", "root", Role::Owner).await);
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let trace = "trace_0af7651916cd43dd8448eb211c80319c";
    let made = house.request(Method::POST, "/v1/tasks").bearer_auth(&ada).header("traceparent", parent);
    let made = send(made.json(&json!({ "title": "seen", "thread": "seen" }))).await;
    assert_eq!(made.headers["x-request-id"], trace);
    assert_eq!(made.body["trace"], trace, "the task carries the trace of its request");
    let refused = house.post(&ada, "/v1/tasks", &json!({ "title": "again", "thread": "seen" })).await;
    assert_eq!(refused.status, 409);
    let secret = house.post(&owner, "/v1/keys", &json!({ "user": "user_bob", "role": "viewer", "label": "bob" })).await;
    let log = house.get(&owner, "/v1/audit").await.body;
    let log: Vec<_> = log["items"].as_array().unwrap().iter().collect();
    let told: Vec<_> =
        log.iter().map(|entry| json!([entry["action"], entry["outcome"], entry["user"], entry["role"]])).collect();
    for expected in [
        json!(["key.create", "done", "user_root", "owner"]),
        json!(["task.create", "refused", "user_ada", "operator"]),
        json!(["task.create", "done", "user_ada", "operator"]),
    ] {
        assert!(told.contains(&expected), "{expected} is not in {told:?}");
    }
    let entry = log.iter().find(|entry| entry["trace"] == trace).unwrap();
    assert_eq!((&entry["target"], &entry["outcome"]), (&made.body["task"], &"done".into()));
    let text = serde_json::to_string(&log).unwrap();
    assert!(!text.contains(&secret.body["secret"].as_str().unwrap()[15..]), "a secret is in the log");
    assert!(!text.contains("seen\""), "content is in the log: {text}");
    // Page by page it is the same.
    let (mut pages, mut after) = (Vec::new(), String::new());
    loop {
        let page = house.get(&owner, &format!("/v1/audit?limit=1{after}")).await.body;
        pages.extend(page["items"].as_array().unwrap().iter().map(|entry| entry["entry"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(pages, log.iter().map(|entry| entry["entry"].clone()).collect::<Vec<_>>());
    // Another tenant's owner reads nothing of it.
    let stranger = house.key("other", "root", Role::Owner).await;
    assert_eq!(house.get(&stranger, "/v1/audit").await.body["items"], json!([]));
}

#[tokio::test]
async fn a_repeated_request_for_a_key_is_not_told_the_secret_again() {
    let house = House::new().await;
    let owner = house.key("acme", "root", Role::Owner).await;
    let call = || {
        let call = house.request(Method::POST, "/v1/keys").bearer_auth(&owner).header("idempotency-key", "k");
        send(call.json(&json!({ "user": "user_bob", "role": "viewer", "label": "bob", "expires_in_seconds": 60.0 })))
    };
    let (first, again) = (call().await, call().await);
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (201, 201));
    assert!(first.body["secret"].as_str().is_some_and(|secret| secret.starts_with("lh_")));
    assert_eq!((&again.body["secret"], &again.body["key"]), (&Value::Null, &first.body["key"]));
}
