//! The paths and shapes that every SDK client relies on.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::house::{House, SESAME, message, send, texts};

#[tokio::test]
async fn health_says_how_to_join_and_nothing_secret() {
    let house = House::new().await;
    house.join("alice").await;
    let answer = house.get("/api/health").await;
    assert_eq!(answer.status, 200);
    assert_eq!((&answer.body["success"], &answer.body["status"]), (&json!(true), &json!("healthy")));
    let data = &answer.body["data"];
    for (key, value) in [
        ("network_id", json!("test-net")),
        ("is_running", json!(true)),
        ("agent_count", json!(1)),
        ("default_agent_group", json!("guest")),
        ("requires_password", json!(false)),
        ("manifest_transport", json!("http")),
        ("recommended_transport", json!("http")),
        ("topology_mode", json!("centralized")),
        ("groups", json!({ "guest": ["alice"] })),
        ("network_profile", json!({ "description": "a test" })),
        ("mods", json!([{ "name": "openagents.mods.core.shared_cache", "enabled": true, "config": {} }])),
    ] {
        assert_eq!(data[key], value, "{key}");
    }
    let agent = &data["agents"]["alice"];
    assert_eq!(
        (&agent["transport_type"], &agent["group"], &agent["address"]),
        (&json!("http"), &json!("guest"), &Value::Null)
    );
    let admin = data["group_config"].as_array().unwrap().iter().find(|group| group["name"] == "admin").unwrap();
    assert_eq!(admin["has_password"], true);
    let http = data["transports"].as_array().unwrap().iter().find(|one| one["type"] == "http").unwrap();
    assert_eq!(http["config"]["port"], house.serving.http().unwrap().port());
    assert!(data["transports"].as_array().unwrap().iter().any(|one| one["type"] == "grpc"));
    let whole = answer.body.to_string();
    assert!(!whole.contains(SESAME) && !whole.contains("not to be shown"), "{whole}");
}

#[tokio::test]
async fn agents_register_send_receive_and_leave() {
    let house = House::new().await;
    let registered = house
        .post(
            "/api/register",
            &json!({
        "agent_id": "alice", "metadata": { "name": "Alice" }, "password_hash": "", "certificate": null }),
        )
        .await;
    assert_eq!(registered.status, 200);
    assert_eq!(registered.body["network_id"], "test-net");
    assert_eq!(registered.body["assigned_group"], "guest");
    let alice = registered.body["secret"].as_str().unwrap().to_owned();
    assert!(alice.len() == 64 && alice.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let bob = house.join("bob").await;

    let sent = house.say("alice", &alice, "e1", "agent:bob", "hello").await;
    assert_eq!(sent.status, 200);
    assert_eq!((&sent.body["success"], &sent.body["event_id"]), (&json!(true), &json!("e1")), "{sent:?}");
    assert_eq!(sent.body["event_name"], "agent.message");
    let events = house.poll("bob", &bob).await;
    let event = &events[events.len() - 1];
    for (key, value) in [
        ("event_name", json!("agent.message")),
        ("source_id", json!("alice")),
        ("source_type", json!("agent")),
        ("source_agent_group", json!("guest")),
        ("destination_id", json!("bob")),
        ("event_id", json!("e1")),
        ("payload", json!({ "text": "hello" })),
        ("secret", Value::Null),
        ("visibility", json!("network")),
    ] {
        assert_eq!(event[key], value, "{key}");
    }
    assert!(event["timestamp"].is_i64());

    let again = house.say("alice", &alice, "e1", "agent:bob", "hello").await;
    assert_eq!((&again.body["success"], &again.body["repeated"]), (&json!(true), &json!(true)), "{again:?}");
    let other = house.say("alice", &alice, "e1", "agent:bob", "something else").await;
    assert_eq!(
        (other.status.as_u16(), &other.body["success"], &other.body["error_code"]),
        (200, &json!(false), &json!("conflict"))
    );
    let quiet = house.get(&format!("/api/poll?agent_id=bob&secret={bob}&wait=0")).await;
    assert_eq!(quiet.body["messages"], json!([]), "done once");

    let gone = house.post("/api/unregister", &json!({ "agent_id": "bob", "secret": bob })).await;
    assert_eq!((gone.status.as_u16(), gone.body), (200, json!({ "success": true })));
    let nobody = house.say("alice", &alice, "e2", "agent:bob", "still there?").await;
    assert_eq!((nobody.status.as_u16(), &nobody.body["success"]), (200, &json!(false)), "an honest answer: {nobody:?}");
    assert!(nobody.body["message"].as_str().unwrap().contains("bob"));
}

#[tokio::test]
async fn a_wrong_secret_is_answered_as_the_clients_expect() {
    let house = House::new().await;
    house.join("alice").await;
    const WORDS: &str = "Authentication failed: Invalid or missing secret";
    for secret in ["", "wrong"] {
        let sent = house.say("alice", secret, "e1", "agent:alice", "x").await;
        assert_eq!(
            (sent.status.as_u16(), &sent.body["success"], &sent.body["message"]),
            (200, &json!(false), &json!(WORDS))
        );
        assert_eq!((&sent.body["data"], &sent.body["event_name"]), (&Value::Null, &json!("agent.message")));
        let polled = house.get(&format!("/api/poll?agent_id=alice&secret={secret}")).await;
        assert_eq!((polled.status.as_u16(), &polled.body["success"]), (200, &json!(false)));
        assert_eq!((&polled.body["messages"], &polled.body["error_message"]), (&json!([]), &json!(WORDS)));
        let left = house.post("/api/unregister", &json!({ "agent_id": "alice", "secret": secret })).await;
        assert_eq!(left.status, 401);
    }
    let unknown = house.say("nobody", "wrong", "e1", "agent:alice", "x").await;
    assert_eq!(unknown.body["message"], WORDS, "whether a name is taken is not told by this");
    for (path, body) in [("/api/register", json!({})), ("/api/send_event", json!({ "event_id": "e" }))] {
        let missing = house.post(path, &body).await;
        assert_eq!((missing.status.as_u16(), &missing.body["success"]), (400, &json!(false)));
        assert!(missing.body["error_message"].as_str().unwrap().contains("required"), "{missing:?}");
    }
    assert_eq!(house.get("/api/poll").await.status, 400);
    let admin =
        house.post("/api/register", &json!({ "agent_id": "boss", "agent_group": "admin", "password_hash": "x" })).await;
    assert!(admin.status.is_client_error() && admin.body["success"] == false, "{admin:?}");
    let admin = house
        .post("/api/register", &json!({ "agent_id": "boss", "agent_group": "admin", "password_hash": SESAME }))
        .await;
    assert_eq!((admin.status.as_u16(), &admin.body["assigned_group"]), (200, &json!("admin")));
}

#[tokio::test]
async fn a_poll_is_held_until_something_comes() {
    let house = House::new().await;
    let (alice, bob) = (house.join("alice").await, house.join("bob").await);
    let _ = house.get(&format!("/api/poll?agent_id=bob&secret={bob}&wait=0")).await;
    let holding = house.request(Method::GET, &format!("/api/poll?agent_id=bob&secret={bob}"));
    let held = tokio::spawn(send(holding));
    // Another call of the same agent is answered meanwhile.
    let sent = house.say("bob", &bob, "b1", "agent:alice", "not waiting").await;
    assert_eq!(sent.body["success"], true);
    let began = Instant::now();
    house.say("alice", &alice, "e1", "agent:bob", "there").await;
    let answer = tokio::time::timeout(Duration::from_secs(5), held).await.expect("held too long").unwrap();
    assert_eq!(texts(answer.body["messages"].as_array().unwrap()), ["there"]);
    assert!(began.elapsed() < Duration::from_secs(5));
    for wrong in ["wait=-1", "wait=26", "wait=x", "limit=0", "limit=201", "after=-1"] {
        let answer = house.get(&format!("/api/poll?agent_id=bob&secret={bob}&{wrong}")).await;
        assert_eq!(answer.status, 400, "{wrong}: {answer:?}");
    }
}

#[tokio::test]
async fn a_client_that_names_its_place_misses_nothing_and_repeats_nothing() {
    let house = House::new().await;
    let (alice, bob) = (house.join("alice").await, house.join("bob").await);
    for n in 0..5 {
        house.say("alice", &alice, &format!("e{n}"), "agent:bob", &format!("m{n}")).await;
    }
    let bearer = format!("bob:{bob}");
    let ask = |after: i64| {
        let path = format!("/api/poll?wait=0&limit=2&after={after}");
        send(house.request(Method::GET, &path).bearer_auth(&bearer))
    };
    let first = ask(0).await;
    assert_eq!(texts(first.body["messages"].as_array().unwrap()), ["m0", "m1"], "{first:?}");
    assert_eq!(first.body["more"], true);
    // The answer was lost: the same question again is the same answer.
    assert_eq!(texts(ask(0).await.body["messages"].as_array().unwrap()), ["m0", "m1"]);
    let second = ask(first.body["cursor"].as_i64().unwrap()).await;
    assert_eq!(texts(second.body["messages"].as_array().unwrap()), ["m2", "m3"]);
    let cursor = second.body["cursor"].as_i64().unwrap();
    let acked =
        send(house.request(Method::POST, "/api/ack").bearer_auth(&bearer).json(&json!({ "cursor": cursor }))).await;
    assert_eq!(acked.body, json!({ "success": true }));
    assert_eq!(texts(&house.poll("bob", &bob).await), ["m4"], "polls go on behind what was acknowledged");
}

#[tokio::test]
async fn agents_go_on_after_a_restart_without_registering() {
    let house = House::new().await;
    let (alice, bob) = (house.join("alice").await, house.join("bob").await);
    house.say("alice", &alice, "e1", "agent:bob", "before").await;
    let house = house.again().await;
    house.say("alice", &alice, "e2", "agent:bob", "after").await;
    let again = house.say("alice", &alice, "e1", "agent:bob", "before").await;
    assert_eq!((&again.body["success"], &again.body["repeated"]), (&json!(true), &json!(true)));
    assert_eq!(texts(&house.poll("bob", &bob).await), ["before", "after"]);
}

#[tokio::test]
async fn the_header_names_a_member_and_nobody_else() {
    let house = House::new().await;
    let (alice, bob) = (house.join("alice").await, house.join("bob").await);
    let mut event = message("alice", "", "e1", "agent:bob", "by header");
    event.as_object_mut().unwrap().retain(|key, _| !matches!(key.as_str(), "source_id" | "secret"));
    let post = |event: &Value| {
        send(house.request(Method::POST, "/api/send_event").bearer_auth(format!("alice:{alice}")).json(event))
    };
    assert_eq!(post(&event).await.body["success"], true);
    assert_eq!(texts(&house.poll("bob", &bob).await), ["by header"]);
    event["source_id"] = "bob".into();
    event["event_id"] = "e2".into();
    assert_eq!(post(&event).await.body["success"], false, "alice's secret is not bob's");
    let other = send(house.request(Method::GET, "/api/poll?agent_id=bob").bearer_auth(format!("alice:{alice}"))).await;
    assert_eq!(other.status, 403);
}

#[tokio::test]
async fn files_and_known_events_are_served() {
    let house = House::new().await;
    let alice = house.join("alice").await;
    let form = |filename: &str, secret: &str| {
        format!(
            "--x\r\ncontent-disposition: form-data; name=\"agent_id\"\r\n\r\nalice\r\n\
             --x\r\ncontent-disposition: form-data; name=\"secret\"\r\n\r\n{secret}\r\n\
             --x\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{filename}\"\r\n\
             content-type: text/plain\r\n\r\nabc\r\n--x--\r\n"
        )
    };
    let upload = |body: String| {
        let request = house.request(Method::POST, "/api/cache/upload");
        send(request.header("content-type", "multipart/form-data; boundary=x").body(body))
    };
    let kept = upload(form("a.txt", &alice)).await;
    assert_eq!(
        kept.body,
        json!({ "success": true, "cache_id": "YWJj", "filename": "a.txt", "file_size": 3,
        "mime_type": "text/plain" }),
        "{kept:?}"
    );
    assert_eq!(upload(form("a.txt", "wrong")).await.status, 401);
    assert_eq!(upload("--x--\r\n".to_owned()).await.status, 400);
    assert_eq!(house.post("/api/cache/upload", &json!({})).await.status, 400);

    let path = format!("/api/cache/download/YWJj?agent_id=alice&secret={alice}");
    let file = house.get(&path).await;
    assert_eq!((file.status.as_u16(), file.body), (200, json!("abc")));
    let headers = &file.headers;
    assert!(headers["content-disposition"].to_str().unwrap().starts_with("attachment; filename=\"a__b.html\""));
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert!(headers["content-security-policy"].to_str().unwrap().contains("sandbox"));
    let none = house.get(&format!("/api/cache/download/none?agent_id=alice&secret={alice}")).await;
    assert_eq!(none.status, 404);
    assert_eq!(house.get("/api/cache/download/YWJj?agent_id=alice").await.status, 401);
    let info = house.get(&format!("/api/cache/info/x?agent_id=alice&secret={alice}")).await;
    assert_eq!(info.body, json!({ "cache_id": "x", "success": true }), "known without its content");

    let all = house.get("/api/events").await;
    assert_eq!((&all.body["success"], &all.body["data"]["total"]), (&json!(true), &json!(4)));
    let shout = house.get("/api/events/toy.shout").await;
    assert_eq!(shout.body["data"]["event_type"], "operation");
    assert_eq!(house.get("/api/events/search?q=SHOUT").await.body["data"]["total"], 2);
    assert_eq!(house.get("/api/events/no.such").await.status, 404);
    assert_eq!(house.get("/api/events/search").await.status, 400);
    assert_eq!(house.get("/api/events/mods").await.body["data"]["mods"][0]["event_count"], 4);
    for path in ["/api/admin/mods", "/api/agents/service/x/env", "/api/network/export", "/studio/", "/api/relay/status"]
    {
        let answer = house.get(path).await;
        assert_eq!(answer.status, 501, "{path}");
        assert!(answer.body["message"].as_str().unwrap().starts_with("not served here: "), "{answer:?}");
    }
}
