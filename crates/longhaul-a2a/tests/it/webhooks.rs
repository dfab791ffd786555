//! Webhooks: told of every update in order, again until it is taken, and only where they may go.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{Json, Router, extract::State, http::HeaderMap, http::StatusCode, routing::post};
use longhaul_a2a::A2aSettings;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::ground::{Ground, SOON, message, settings};

type Heard = mpsc::UnboundedSender<(HeaderMap, Value)>;

/// A receiver that first refuses some, and then takes all. Its address and what it took.
async fn receiver(refuses: usize) -> (String, mpsc::UnboundedReceiver<(HeaderMap, Value)>) {
    async fn hear(
        State((left, heard)): State<(Arc<AtomicUsize>, Heard)>,
        headers: HeaderMap,
        Json(body): Json<Value>,
    ) -> StatusCode {
        let refuse = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if refuse {
            return StatusCode::SERVICE_UNAVAILABLE;
        }
        drop(heard.send((headers, body)));
        StatusCode::OK
    }
    let (heard, hears) = mpsc::unbounded_channel();
    let routes = Router::new().route("/hook", post(hear)).with_state((Arc::new(AtomicUsize::new(refuses)), heard));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    tokio::spawn(async move { drop(axum::serve(listener, routes).await) });
    (url, hears)
}

#[tokio::test]
async fn each_update_is_told_in_order_and_again_until_it_is_taken() {
    let ground = Ground::new();
    let house = ground.serve(A2aSettings { push_to_this_machine: true, ..settings() }).await;
    let (mut expert, alice) = (house.join("expert").await, house.join("alice").await);
    let (url, mut hears) = receiver(1).await;
    let hook = json!({
        "id": "h", "url": url, "token": "t0k", "authentication": { "scheme": "Bearer", "credentials": "s3cret" },
    });
    let params = json!({
        "message": message("go"),
        "configuration": { "returnImmediately": true, "taskPushNotificationConfig": hook },
    });
    let task = house.rpc(&alice, "SendMessage", params).await.unwrap()["task"].take();
    expert.next().await;
    expert.update(&task["id"], json!({ "state": "working" })).await.unwrap();
    expert
        .update(&task["id"], json!({ "artifact": { "parts": [{ "text": "x" }] }, "state": "completed" }))
        .await
        .unwrap();
    let mut told = Vec::new();
    for _ in 0..3 {
        let (headers, body) = tokio::time::timeout(SOON, hears.recv()).await.expect("in time").expect("a call");
        assert_eq!(headers["authorization"], "Bearer s3cret");
        assert_eq!(headers["x-a2a-notification-token"], "t0k");
        assert_eq!(headers["content-type"], "application/a2a+json");
        told.push(body);
    }
    assert_eq!(told[0]["statusUpdate"]["status"]["state"], "TASK_STATE_WORKING");
    assert_eq!(told[1]["artifactUpdate"]["artifact"]["parts"][0]["text"], "x");
    assert_eq!(told[2]["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");

    // What it shows its receiver is written, and never read.
    let shown = house.rpc(&alice, "ListTaskPushNotificationConfigs", json!({ "taskId": task["id"] })).await.unwrap();
    assert_eq!(shown["configs"][0]["authentication"], json!({ "scheme": "Bearer" }));
    for _ in 0..2 {
        let gone = json!({ "taskId": task["id"], "id": "h" });
        assert!(house.rpc(&alice, "DeleteTaskPushNotificationConfig", gone).await.is_ok());
    }
    let none = house.rpc(&alice, "ListTaskPushNotificationConfigs", json!({ "taskId": task["id"] })).await.unwrap();
    assert!(none.get("configs").is_none());
}

#[tokio::test]
async fn what_was_not_told_before_a_restart_is_told_after_it() {
    let ground = Ground::new();
    let settings = || A2aSettings { push_to_this_machine: true, ..settings() };
    let house = ground.serve(settings()).await;
    let (mut expert, alice) = (house.join("expert").await, house.join("alice").await);
    // Nobody listens there yet.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let hook = json!({ "url": format!("http://{address}/hook") });
    let params = json!({
        "message": message("go"),
        "configuration": { "returnImmediately": true, "taskPushNotificationConfig": hook },
    });
    let task = house.rpc(&alice, "SendMessage", params).await.unwrap()["task"].take();
    expert.next().await;
    expert.update(&task["id"], json!({ "state": "completed" })).await.unwrap();
    drop((expert, alice));
    house.close().await;

    let (heard, mut hears) = mpsc::unbounded_channel();
    let hear = move |Json(body): Json<Value>| async move { drop(heard.send(body)) };
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    tokio::spawn(async move { drop(axum::serve(listener, Router::new().route("/hook", post(hear))).await) });
    let _house = ground.serve(settings()).await;
    let body: Value = tokio::time::timeout(4 * SOON, hears.recv()).await.expect("in time").expect("a call");
    assert_eq!(body["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");
}

#[tokio::test]
async fn webhooks_go_to_public_addresses_only() {
    let ground = Ground::new();
    let house = ground.serve(settings()).await;
    let (_expert, alice) = (house.join("expert").await, house.join("alice").await);
    let task = house.begin(&alice, "x").await;
    for url in [
        "http://127.0.0.1:9/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://169.254.169.254/latest/meta-data",
        "https://10.0.0.1/",
        "http://example.com/",
        "file:///etc/passwd",
        "",
    ] {
        let hook = json!({ "taskId": task["id"], "url": url });
        let error = house.rpc(&alice, "CreateTaskPushNotificationConfig", hook).await.unwrap_err();
        assert_eq!(error["data"][0]["fieldViolations"][0]["field"], "url", "{url}");
        let params =
            json!({ "message": message("x"), "configuration": { "taskPushNotificationConfig": { "url": url } } });
        assert_eq!(house.rpc(&alice, "SendMessage", params).await.unwrap_err()["code"], -32602, "{url}");
    }
    for n in 0..11 {
        let hook = json!({ "taskId": task["id"], "id": n.to_string(), "url": "https://example.com/" });
        let made = house.rpc(&alice, "CreateTaskPushNotificationConfig", hook).await;
        assert_eq!(made.is_ok(), n < 10, "{n}");
    }
}
