//! Who calls, what they may see, and what a network and its agents say of themselves.

use longhaul_a2a::A2aSettings;
use serde_json::{Value, json};

use crate::ground::{Ground, House, Streamed, json_of, message, reason, settings, unique};

#[tokio::test]
async fn whoever_shows_nothing_or_a_wrong_secret_is_not_let_in() {
    let ground = Ground::new();
    let (house, _expert) = House::open(&ground).await;
    let alice = house.join("alice").await;
    let wrong = format!("alice:{}", "x".repeat(64));
    for bearer in ["", "alice", "alice:", wrong.as_str(), ":x", "expert:", "a b:c"] {
        let sent = house.request("/a2a", bearer, "1.0", "ListTasks", json!({})).send().await.unwrap();
        assert!(sent.headers().contains_key("www-authenticate"), "{bearer:?}");
        let (status, body) = json_of(sent).await;
        assert_eq!((status.as_u16(), body["error"]["code"].as_i64()), (401, Some(-32050)), "{bearer:?}");
        let rest = house.client.get(house.url("/a2a/rest/tasks")).header("A2A-Version", "1.0").bearer_auth(bearer);
        assert_eq!(rest.send().await.unwrap().status(), 401, "{bearer:?}");
    }
    assert!(house.rpc(&alice, "ListTasks", json!({})).await.is_ok());
}

#[tokio::test]
async fn the_tasks_of_others_are_not_there() {
    let ground = Ground::new();
    let (house, mut expert) = House::open(&ground).await;
    let (alice, mallory) = (house.join("alice").await, house.join("mallory").await);
    let task = house.begin(&alice, "a secret").await;
    let hook = json!({ "taskId": task["id"], "url": "https://example.com/" });
    for (method, params) in [
        ("GetTask", json!({ "id": task["id"] })),
        ("CancelTask", json!({ "id": task["id"] })),
        ("SubscribeToTask", json!({ "id": task["id"] })),
        ("CreateTaskPushNotificationConfig", hook),
        ("ListTaskPushNotificationConfigs", json!({ "taskId": task["id"] })),
    ] {
        let error = house.rpc(&mallory, method, params).await.unwrap_err();
        assert_eq!(reason(&error), "TASK_NOT_FOUND", "{method}");
    }
    let mut into = message("mine now");
    into["taskId"] = task["id"].clone();
    let error = house.rpc(&mallory, "SendMessage", json!({ "message": into })).await.unwrap_err();
    assert_eq!(reason(&error), "TASK_NOT_FOUND");
    assert_eq!(house.rpc(&mallory, "ListTasks", json!({})).await.unwrap()["totalSize"], 0);
    // Only the agent that works on it says what becomes of it, and nobody by speaking to the mod.
    assert!(mallory.update(&task["id"], json!({ "state": "completed" })).await.is_err());
    assert!(alice.update(&task["id"], json!({ "state": "completed" })).await.is_err());
    assert_eq!(expert.next().await.payload["content"]["text"], "a secret");
    assert_eq!(house.get(&alice, &task).await.unwrap()["status"]["state"], "TASK_STATE_SUBMITTED");
}

#[tokio::test]
async fn who_has_the_token_shares_one_owner_that_nobody_can_take() {
    let ground = Ground::new();
    let token = unique();
    let house = ground.serve(A2aSettings { token: Some(token.clone()), ..settings() }).await;
    let mut expert = house.join("expert").await;
    let send = json!({ "message": message("from outside"), "configuration": { "returnImmediately": true } });
    let sent = house.request("/a2a", &token, "1.0", "SendMessage", send).send().await.unwrap();
    let task = json_of(sent).await.1["result"]["task"].take();
    let told = expert.next().await;
    let sender = told.payload["sender_id"].as_str().unwrap().to_owned();
    expert.update(&task["id"], json!({ "state": "completed" })).await.unwrap();
    let get = json!({ "id": task["id"] });
    let read = json_of(house.request("/a2a", &token, "1.0", "GetTask", get.clone()).send().await.unwrap()).await.1;
    assert_eq!(read["result"]["status"]["state"], "TASK_STATE_COMPLETED");
    // Somebody with a name that looks like that of the shared member is nobody but himself.
    assert!(sender.starts_with("a2a-caller-"));
    let pretender = house.join("a2a-caller-0").await;
    assert_eq!(reason(&house.rpc(&pretender, "GetTask", get).await.unwrap_err()), "TASK_NOT_FOUND");
    assert_eq!(house.rpc(&pretender, "ListTasks", json!({})).await.unwrap()["totalSize"], 0);
}

#[tokio::test]
async fn whoever_gets_a_name_after_somebody_left_finds_nothing_of_his() {
    let ground = Ground::new();
    let (house, expert) = House::open(&ground).await;
    let (alice, bob) = (house.join("alice").await, house.join("bob").await);
    house.begin(&alice, "private").await;
    let of_bob = house.begin(&bob, "wait for it").await;
    house.network.unregister(&alice.member).await.unwrap();
    house.network.unregister(&expert.member).await.unwrap();
    // Who waits for an agent that has left is told so. What came before in the log has been seen by then.
    let subscribe = json!({ "id": of_bob["id"] });
    let stream = house.request("/a2a", &bob.bearer(), "1.0", "SubscribeToTask", subscribe).send().await.unwrap();
    Streamed::of(stream).rest().await;
    let failed = house.get(&bob, &of_bob).await.unwrap();
    assert_eq!(failed["status"]["state"], "TASK_STATE_FAILED");
    assert_eq!(failed["status"]["message"]["parts"][0]["text"], "expert has left the network");
    let another = house.join("alice").await;
    assert_eq!(house.rpc(&another, "ListTasks", json!({})).await.unwrap()["totalSize"], 0);
}

#[tokio::test]
async fn cards_say_what_is_offered_and_the_extended_one_who_is_there() {
    let ground = Ground::new();
    let (house, _expert) = House::open(&ground).await;
    let alice = house.join("alice").await;
    let answer = house.client.get(house.url("/.well-known/agent-card.json")).send().await.unwrap();
    let etag = answer.headers()["etag"].clone();
    assert!(answer.headers()["cache-control"].to_str().unwrap().contains("max-age"));
    let card: Value = answer.json().await.unwrap();
    let bindings: Vec<_> =
        card["supportedInterfaces"].as_array().unwrap().iter().map(|found| found["protocolBinding"].as_str()).collect();
    assert_eq!(bindings, [Some("JSONRPC"), Some("HTTP+JSON"), Some("JSONRPC")]);
    assert_eq!(card["supportedInterfaces"][0]["url"], house.url("/a2a"));
    assert!(!card.to_string().contains("alice"));
    let again = house.client.get(house.url("/.well-known/agent-card.json")).header("If-None-Match", etag);
    assert_eq!(again.send().await.unwrap().status(), 304);

    let extended = house.rpc(&alice, "GetExtendedAgentCard", json!({})).await.unwrap();
    assert!(extended["skills"].as_array().unwrap().iter().any(|skill| skill["id"] == "alice"));
    let own = house.client.get(house.url("/a2a/agents/alice/.well-known/agent-card.json")).send().await.unwrap();
    let own: Value = own.json().await.unwrap();
    assert_eq!(own["supportedInterfaces"][1]["url"], house.url("/a2a/agents/alice/rest"));
    let nobody = house.client.get(house.url("/a2a/agents/nobody/.well-known/agent-card.json")).send().await.unwrap();
    assert_eq!(nobody.status(), 404);
    let old: Value = house.client.get(house.url("/.well-known/agent.json")).send().await.unwrap().json().await.unwrap();
    assert_eq!((old["protocolVersion"].as_str(), old["url"].as_str()), (Some("0.3.0"), Some(&*house.url("/a2a"))));
}

#[tokio::test]
async fn each_agent_is_reached_at_its_own_address() {
    let ground = Ground::new();
    let (house, _expert) = House::open(&ground).await;
    let (alice, mut bob) = (house.join("alice").await, house.join("bob").await);
    let immediately = json!({ "returnImmediately": true });
    let params = json!({ "message": message("at his door"), "configuration": immediately });
    let sent = house.request("/a2a/agents/bob", &alice.bearer(), "1.0", "SendMessage", params).send().await.unwrap();
    let task = json_of(sent).await.1["result"]["task"].take();
    assert_eq!(bob.next().await.payload["content"]["text"], "at his door");
    let params = json!({ "tenant": "bob", "message": message("by tenant"), "configuration": immediately });
    assert!(house.rpc(&alice, "SendMessage", params).await.is_ok());
    assert_eq!(bob.next().await.payload["content"]["text"], "by tenant");
    // It is found at the network's address too, and not at another agent's.
    assert!(house.get(&alice, &task).await.is_ok());
    let elsewhere = house.request("/a2a/agents/expert", &alice.bearer(), "1.0", "GetTask", json!({ "id": task["id"] }));
    assert_eq!(reason(&json_of(elsewhere.send().await.unwrap()).await.1["error"]), "TASK_NOT_FOUND");
    let nobody =
        house.request("/a2a/agents/nobody", &alice.bearer(), "1.0", "SendMessage", json!({ "message": message("x") }));
    assert_eq!(json_of(nobody.send().await.unwrap()).await.1["error"]["code"], -32602);
}

#[tokio::test]
async fn what_is_not_offered_is_refused_by_its_name() {
    let ground = Ground::new();
    let bare = A2aSettings {
        streaming: false,
        push: false,
        extended_card: false,
        input_modes: vec!["text/*".to_owned()],
        required_extensions: vec!["urn:x".to_owned()],
        ..settings()
    };
    let house = ground.serve(bare).await;
    let alice = house.join("alice").await;
    let sends = json!({ "message": message("x") });
    let refused = async |method: &str, params: Value| house.rpc(&alice, method, params).await.unwrap_err();
    assert_eq!(reason(&refused("SendStreamingMessage", sends.clone()).await), "UNSUPPORTED_OPERATION");
    assert_eq!(reason(&refused("GetExtendedAgentCard", json!({})).await), "UNSUPPORTED_OPERATION");
    let hook = json!({ "taskId": "t", "url": "https://example.com/" });
    let no_push = refused("CreateTaskPushNotificationConfig", hook).await;
    assert_eq!(reason(&no_push), "PUSH_NOTIFICATION_NOT_SUPPORTED");
    assert_eq!(reason(&refused("SendMessage", sends).await), "EXTENSION_SUPPORT_REQUIRED");
    let mut odd = message("");
    odd["parts"] = json!([{ "raw": "AAAA", "mediaType": "application/x-odd" }]);
    let known = house.request("/a2a", &alice.bearer(), "1.0", "SendMessage", json!({ "message": odd }));
    let error = json_of(known.header("A2A-Extensions", "urn:y, urn:x").send().await.unwrap()).await.1;
    assert_eq!(reason(&error["error"]), "CONTENT_TYPE_NOT_SUPPORTED");
}

#[tokio::test]
async fn streams_are_bounded() {
    let ground = Ground::new();
    let house = ground.serve(A2aSettings { streams_max: 1, ..settings() }).await;
    let (_expert, alice) = (house.join("expert").await, house.join("alice").await);
    let task = house.begin(&alice, "x").await;
    let subscribe = || house.request("/a2a", &alice.bearer(), "1.0", "SubscribeToTask", json!({ "id": task["id"] }));
    let mut first = Streamed::of(subscribe().send().await.unwrap());
    first.next().await.unwrap();
    let second = json_of(subscribe().send().await.unwrap()).await.1;
    assert_eq!(second["error"]["code"], -32053);
}
