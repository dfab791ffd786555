//! Messages, tasks and their updates over JSON-RPC and REST.

use longhaul_network::Address;
use serde_json::{Value, json};

use crate::ground::{Ground, House, Streamed, id, json_of, message, reason, unique};

#[tokio::test]
async fn an_agent_that_only_answers_its_direct_message_completes_the_task() {
    let ground = Ground::new();
    let (house, mut expert) = House::open(&ground).await;
    let alice = house.join("alice").await;
    let working = tokio::spawn(async move {
        let told = expert.next().await;
        assert_eq!(told.name.as_str(), "thread.direct_message.notification");
        assert_eq!(told.payload["content"]["text"], "how many?");
        assert_eq!(told.payload["sender_id"], "alice");
        expert.send("agent.message", Address::Agent(id("alice")), json!({ "text": "42" })).await.unwrap();
    });
    let answer = house.rpc(&alice, "SendMessage", json!({ "message": message("how many?") })).await.unwrap();
    working.await.unwrap();
    let task = &answer["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(task["artifacts"][0]["parts"], json!([{ "text": "42" }]));
    assert_eq!(task["history"][0]["parts"], json!([{ "text": "how many?" }]));
}

#[tokio::test]
async fn an_agent_is_asked_back_and_the_task_goes_on() {
    let ground = Ground::new();
    let (house, mut expert) = House::open(&ground).await;
    let alice = house.join("alice").await;
    let task = house.begin(&alice, "book a flight").await;
    let told = expert.next().await;
    expert
        .update(&told.payload["a2a"]["task_id"], json!({ "state": "input-required", "text": "when?" }))
        .await
        .unwrap();
    let asked = house.get(&alice, &task).await.unwrap();
    assert_eq!(asked["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    assert_eq!(asked["status"]["message"]["parts"][0]["text"], "when?");

    let mut more = message("tomorrow");
    more["taskId"] = task["id"].clone();
    let params = json!({ "message": more, "configuration": { "returnImmediately": true } });
    let gone_on = house.rpc(&alice, "SendMessage", params).await.unwrap();
    assert_eq!(gone_on["task"]["status"]["state"], "TASK_STATE_WORKING");
    assert_eq!(gone_on["task"]["contextId"], task["contextId"]);
    assert_eq!(expert.next().await.payload["content"]["text"], "tomorrow");
    expert.update(&task["id"], json!({ "state": "completed" })).await.unwrap();
    let done = house.get(&alice, &task).await.unwrap();
    let said: Vec<&str> =
        done["history"].as_array().unwrap().iter().map(|said| said["parts"][0]["text"].as_str().unwrap()).collect();
    assert_eq!(said, ["book a flight", "when?", "tomorrow"]);

    // What has ended stays as it ended.
    let mut late = message("and back");
    late["taskId"] = task["id"].clone();
    let refused = house.rpc(&alice, "SendMessage", json!({ "message": late })).await.unwrap_err();
    assert_eq!((refused["code"].as_i64(), reason(&refused)), (Some(-32004), "UNSUPPORTED_OPERATION"));
    assert!(expert.update(&task["id"], json!({ "state": "failed" })).await.is_err());
    let canceled = house.rpc(&alice, "CancelTask", json!({ "id": task["id"] })).await.unwrap_err();
    assert_eq!(reason(&canceled), "TASK_NOT_CANCELABLE");
}

#[tokio::test]
async fn everybody_who_follows_sees_the_same_updates_in_order_until_the_task_ends() {
    let ground = Ground::new();
    let (house, mut expert) = House::open(&ground).await;
    let alice = house.join("alice").await;
    let stream =
        house.request("/a2a", &alice.bearer(), "1.0", "SendStreamingMessage", json!({ "message": message("go") }));
    let mut first = Streamed::of(stream.send().await.unwrap());
    let task = first.next().await.unwrap()["result"]["task"].take();
    assert_eq!(task["status"]["state"], "TASK_STATE_SUBMITTED");
    let path = format!("/a2a/rest/tasks/{}:subscribe", task["id"].as_str().unwrap());
    let second = house.client.post(house.url(&path)).header("A2A-Version", "1.0").bearer_auth(alice.bearer());
    let mut second = Streamed::of(second.send().await.unwrap());
    assert_eq!(second.next().await.unwrap()["task"]["id"], task["id"]);

    expert.next().await;
    for step in [
        json!({ "state": "working", "text": "looking" }),
        json!({ "artifact": { "artifactId": "a", "parts": [{ "text": "one " }] }, "append": true }),
        json!({ "artifact": { "artifactId": "a", "parts": [{ "text": "two" }] }, "append": true, "last_chunk": true }),
        json!({ "state": "completed" }),
    ] {
        expert.update(&task["id"], step).await.unwrap();
    }
    let seen: Vec<Value> = first.rest().await.into_iter().map(|mut event| event["result"].take()).collect();
    assert_eq!(seen, second.rest().await);
    let kinds: Vec<_> = seen.iter().map(|update| update.as_object().unwrap().keys().next().unwrap().as_str()).collect();
    assert_eq!(kinds, ["statusUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate"]);
    assert_eq!(seen[3]["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");
    let done = house.get(&alice, &task).await.unwrap();
    assert_eq!(done["artifacts"][0]["parts"], json!([{ "text": "one " }, { "text": "two" }]));
    let late = house.rpc(&alice, "SubscribeToTask", json!({ "id": task["id"] })).await.unwrap_err();
    assert_eq!(reason(&late), "UNSUPPORTED_OPERATION");
}

#[tokio::test]
async fn tasks_outlive_the_process_and_are_finished_in_the_next() {
    let ground = Ground::new();
    let (house, expert) = House::open(&ground).await;
    let alice = house.join("alice").await;
    let task = house.begin(&alice, "take your time").await;
    let (secret, of_alice) = (expert.secret.clone(), alice.secret.clone());
    drop((expert, alice));
    house.close().await;

    let house = ground.serve(crate::ground::settings()).await;
    let mut expert = house.join_with("expert", Some(secret)).await;
    let alice = house.join_with("alice", Some(of_alice)).await;
    let told = expert.next().await;
    assert_eq!(told.payload["a2a"]["task_id"], task["id"]);
    expert.update(&task["id"], json!({ "state": "completed", "text": "done at last" })).await.unwrap();
    let done = house.get(&alice, &task).await.unwrap();
    assert_eq!(done["status"]["message"]["parts"][0]["text"], "done at last");
}

#[tokio::test]
async fn lists_are_paged_without_gaps_and_narrowed() {
    let ground = Ground::new();
    let (house, expert) = House::open(&ground).await;
    let alice = house.join("alice").await;
    let mut made = Vec::new();
    for n in 0..5 {
        made.push(house.begin(&alice, &format!("task {n}")).await["id"].clone());
    }
    expert.update(&made[2], json!({ "artifact": { "parts": [{ "text": "x" }] }, "state": "completed" })).await.unwrap();
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let page = house.rpc(&alice, "ListTasks", json!({ "pageSize": 2, "pageToken": token })).await.unwrap();
        assert_eq!((page["totalSize"].as_i64(), page["pageSize"].as_i64()), (Some(5), Some(2)));
        seen.extend(page["tasks"].as_array().unwrap().iter().map(|task| task["id"].clone()));
        token = page["nextPageToken"].as_str().unwrap().to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen[0], made[2], "what changed last comes first");
    assert_eq!(seen.len(), 5);
    assert!(made.iter().all(|task| seen.contains(task)));

    let list = |query: &str| {
        let url = house.url(&format!("/a2a/rest/tasks?{query}"));
        house.client.get(url).header("A2A-Version", "1.0").bearer_auth(alice.bearer()).send()
    };
    let (_, done) = json_of(list("status=TASK_STATE_COMPLETED").await.unwrap()).await;
    assert_eq!(done["tasks"].as_array().unwrap().len(), 1);
    assert!(done["tasks"][0].get("artifacts").is_none());
    let (_, whole) =
        json_of(list("status=TASK_STATE_COMPLETED&includeArtifacts=true&historyLength=0").await.unwrap()).await;
    assert_eq!(whole["tasks"][0]["artifacts"][0]["parts"][0]["text"], "x");
    assert!(whole["tasks"][0].get("history").is_none());
    for wrong in ["pageSize=0", "pageSize=101", "pageToken=x", "status=SLEEPING", "historyLength=-1"] {
        let (status, body) = json_of(list(wrong).await.unwrap()).await;
        assert_eq!((status.as_u16(), body["error"]["status"].as_str()), (400, Some("INVALID_ARGUMENT")), "{wrong}");
    }
}

#[tokio::test]
async fn a_message_may_be_answered_without_a_task() {
    let ground = Ground::new();
    let (house, mut expert) = House::open(&ground).await;
    let alice = house.join("alice").await;
    let working = tokio::spawn(async move {
        let told = expert.next().await;
        let answer = json!({ "direct": true, "text": "good day" });
        expert.update(&told.payload["a2a"]["task_id"], answer).await.unwrap();
    });
    let answer = house.rpc(&alice, "SendMessage", json!({ "message": message("hello") })).await.unwrap();
    working.await.unwrap();
    assert_eq!(answer["message"]["parts"], json!([{ "text": "good day" }]));
    assert_eq!(answer["message"]["role"], "ROLE_AGENT");
    let none = house.rpc(&alice, "ListTasks", json!({})).await.unwrap();
    assert_eq!(none["totalSize"], 0);
}

#[tokio::test]
async fn an_event_of_the_network_is_sent_as_a_message_once() {
    let ground = Ground::new();
    let (house, mut expert) = House::open(&ground).await;
    let alice = house.join("alice").await;
    let event = json!({
        "event_name": "agent.message", "destination_id": "agent:expert", "payload": { "text": "hi", "limit": 3 },
    });
    let mut message = message("");
    message["parts"] = json!([{ "data": event, "mediaType": "application/vnd.longhaul.event+json" }]);
    for repeated in [false, true] {
        let answer = house.rpc(&alice, "SendMessage", json!({ "message": message })).await.unwrap();
        let data = &answer["message"]["parts"][0]["data"];
        assert_eq!((data["success"].as_bool(), data["repeated"].as_bool()), (Some(true), Some(repeated)));
    }
    let received = expert.next().await;
    assert_eq!(received.id, message["messageId"].as_str().unwrap());
    assert_eq!(Value::Object(received.payload.clone()), event["payload"]);
    // Nothing came twice: the next thing that the expert hears is something else.
    alice.send("agent.message", Address::Agent(id("expert")), json!({ "text": "again" })).await.unwrap();
    assert_eq!(expert.next().await.payload["text"], "again");
}

#[tokio::test]
async fn a_repeated_message_is_one_task_for_clients_that_want_it_so() {
    let ground = Ground::new();
    let (house, mut expert) = House::open(&ground).await;
    let alice = house.join("alice").await;
    let params = |text: &str| {
        let message = json!({ "messageId": "again", "role": "ROLE_USER", "parts": [{ "text": text }] });
        json!({ "message": message, "configuration": { "returnImmediately": true } })
    };
    let send = async |extension: &str, text: &str| {
        let request = house.request("/a2a", &alice.bearer(), "1.0", "SendMessage", params(text));
        json_of(request.header("A2A-Extensions", extension).send().await.unwrap()).await.1
    };
    let first = send("urn:longhaul:a2a:once:1", "x").await;
    let second = send("urn:longhaul:a2a:once:1", "x").await;
    assert_eq!(first["result"]["task"]["id"], second["result"]["task"]["id"]);
    let other = send("urn:longhaul:a2a:once:1", "another").await;
    assert_eq!(other["error"]["code"], -32052, "{other}");
    let new = send("", "y").await;
    assert_ne!(first["result"]["task"]["id"], new["result"]["task"]["id"]);
    assert_eq!(expert.next().await.payload["content"]["text"], "x");
    assert_eq!(expert.next().await.payload["content"]["text"], "y");
}

#[tokio::test]
async fn what_is_no_message_is_refused_with_its_field() {
    let ground = Ground::new();
    let (house, _expert) = House::open(&ground).await;
    let alice = house.join("alice").await;
    let good = message("x");
    let with = |field: &str, value: Value| {
        let mut message = good.clone();
        message[field] = value;
        json!({ "message": message })
    };
    for (params, field) in [
        (json!({}), "message"),
        (with("messageId", json!("")), "message.messageId"),
        (with("role", json!("ROLE_AGENT")), "message.role"),
        (with("parts", json!([])), "message.parts"),
        (with("parts", json!([{}])), "message.parts"),
        (with("contextId", json!("x".repeat(201))), "message.contextId"),
    ] {
        let error = house.rpc(&alice, "SendMessage", params).await.unwrap_err();
        assert_eq!(error["code"], -32602, "{error}");
        assert_eq!(error["data"][0]["fieldViolations"][0]["field"], field);
    }
    let unknown = house.rpc(&alice, "SendMessage", with("taskId", json!(unique()))).await.unwrap_err();
    assert_eq!(reason(&unknown), "TASK_NOT_FOUND");
    let task = house.begin(&alice, "x").await;
    let mut elsewhere = message("more");
    (elsewhere["taskId"], elsewhere["contextId"]) = (task["id"].clone(), json!("another"));
    let error = house.rpc(&alice, "SendMessage", json!({ "message": elsewhere })).await.unwrap_err();
    assert_eq!(error["data"][0]["fieldViolations"][0]["field"], "message.contextId");
}
