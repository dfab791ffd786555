//! One network, every transport: what is said over one is heard over all, and nobody can tell over which it came.

use longhaul_libp2p::Peer;
use longhaul_network::Address;
use serde_json::{Value, json};

use crate::town::{Ears, Said, Socket, Town, next_of};

/// Without what is another one each time: ids and times.
fn normalised(mut event: Value) -> Value {
    for field in ["event_id", "timestamp", "seq", "origin_id"] {
        event.as_object_mut().unwrap().remove(field);
    }
    let payload = event["payload"].as_object_mut().unwrap();
    for field in ["original_event_id", "message_id", "timestamp", "a2a"] {
        payload.remove(field);
    }
    event
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_post_over_any_transport_is_the_same_event_on_every_other() {
    let town = Town::open().await;
    let mut ears = Ears::open(&town).await;
    let secret = town.join("poster").await;
    let mut socket = Socket::hello(&town, "poster", &secret).await;
    let peer = Peer::connect(&town.node.addresses()[0], None).await.unwrap();
    peer.hello("poster", &secret).await.unwrap();
    let topic = peer.gossip("general").await.unwrap();
    let mut traces = Vec::new();
    for over in ["http", "websocket", "grpc", "libp2p", "gossip"] {
        let payload =
            json!({"message_type": "channel_message", "channel": "general", "content": {"text": "one event, 하나"}});
        let post = Said::new(&format!("post-{over}"), "thread.channel_message.post", "channel:general", payload);
        match over {
            "http" => assert!(town.send_http("poster", &secret, &post).await.success),
            "websocket" => assert!(socket.send(None, &post).await.success),
            "grpc" => assert!(town.send_grpc("poster", &secret, &post).await.success),
            "libp2p" => assert!(peer.send(post.draft()).await.unwrap().success),
            _ => {
                let mut draft = post.draft();
                draft.to = Address::System;
                // The node takes part in the topic; the peer may not have heard of it yet.
                let until = tokio::time::Instant::now() + crate::town::LONG;
                while peer.publish(&topic, draft.clone()).await.is_err() {
                    assert!(tokio::time::Instant::now() < until, "the node does not take part in the topic");
                    tokio::task::yield_now().await;
                }
            }
        }
        let heard = ears.hear(&town).await;
        // The very same event, to the last field, wherever it is heard.
        let first = &heard[0].1;
        assert_eq!(first["payload"]["original_event_id"], format!("post-{over}"), "{first}");
        for (ear, event) in &heard {
            assert_eq!(event, first, "sent over {over}, heard over {ear}");
        }
        traces.push((over, normalised(first.clone())));
    }
    for (over, trace) in &traces {
        assert_eq!(trace, &traces[0].1, "sent over {over}, and over {}", traces[0].0);
    }
    assert_eq!(traces[0].1["source_id"], "poster");
    town.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_over_any_transport_is_heard_and_answered_the_same() {
    let town = Town::open().await;
    let (asking, answering) = (town.join("asking").await, town.join("answering").await);
    let expert = Peer::connect(&town.node.addresses()[0], None).await.unwrap();
    expert.hello("answering", &answering).await.unwrap();
    expert.receive(None).await.unwrap();
    let mut socket = Socket::hello(&town, "asking", &asking).await;
    let peer = Peer::connect(&town.node.addresses()[0], None).await.unwrap();
    peer.hello("asking", &asking).await.unwrap();
    let is_told = |event: &Value| event["event_name"] == "thread.direct_message.notification";
    let mut traces = Vec::new();
    for over in ["http", "websocket", "grpc", "libp2p", "a2a"] {
        let payload =
            json!({"message_type": "direct_message", "target_agent_id": "answering", "content": {"text": "why?"}});
        let question = Said::new(&format!("ask-{over}"), "thread.direct_message.send", "agent:answering", payload);
        let bearer = format!("asking:{asking}");
        let mut task = Value::Null;
        match over {
            "http" => assert!(town.send_http("asking", &asking, &question).await.success),
            "websocket" => assert!(socket.send(None, &question).await.success),
            "grpc" => assert!(town.send_grpc("asking", &asking, &question).await.success),
            "libp2p" => assert!(peer.send(question.draft()).await.unwrap().success),
            _ => {
                let message = json!({"messageId": "ask-a2a", "role": "ROLE_USER", "parts": [{"text": "why?"}]});
                let params = json!({"message": message, "configuration": {"returnImmediately": true}});
                let said = town.a2a(&bearer, "answering", "SendMessage", params).await;
                task = said["result"]["task"]["id"].clone();
                assert!(task.is_string(), "{said}");
            }
        }
        let heard = next_of(&expert, is_told).await;
        let answer =
            json!({"target_agent_id": "asking", "content": {"text": "because"}, "message_type": "direct_message"});
        let mut draft =
            Said::new(&format!("answer-{over}"), "thread.direct_message.send", "agent:asking", answer).draft();
        draft.response_to = Some(heard["event_id"].as_str().unwrap().to_owned());
        assert!(expert.send(draft).await.unwrap().success);
        let answered = if over == "a2a" {
            answer_of_task(&town, &bearer, &task).await
        } else {
            // Whoever asked has it over whichever transport it likes; here the one that pushes.
            let told = loop {
                let pushed = socket.pushed().await;
                if is_told(&pushed) && pushed["response_to"] == heard["event_id"] {
                    break pushed;
                }
            };
            told["payload"]["content"]["text"].clone()
        };
        traces.push((over, normalised(heard), answered));
    }
    for (over, heard, answered) in &traces {
        assert_eq!(heard, &traces[0].1, "asked over {over}, and over http");
        assert_eq!(answered, "because", "asked over {over}");
    }
    town.close().await;
}

/// What the task came to, once it has.
async fn answer_of_task(town: &Town, bearer: &str, task: &Value) -> Value {
    let until = tokio::time::Instant::now() + crate::town::LONG;
    loop {
        let said = town.a2a(bearer, "answering", "GetTask", json!({"id": task})).await;
        if said["result"]["status"]["state"] == "TASK_STATE_COMPLETED" {
            return said["result"]["artifacts"][0]["parts"][0]["text"].clone();
        }
        assert!(tokio::time::Instant::now() < until, "{said}");
        tokio::time::timeout(std::time::Duration::from_millis(20), std::future::pending::<()>()).await.unwrap_err();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_id_over_another_transport_is_the_same_event() {
    let town = Town::open().await;
    let (alice, bob) = (town.join("alice").await, town.join("bob").await);
    let mut socket = Socket::hello(&town, "alice", &alice).await;
    let peer = Peer::connect(&town.node.addresses()[0], None).await.unwrap();
    peer.hello("alice", &alice).await.unwrap();
    let once = Said::new("once", "agent.message", "agent:bob", json!({"text": "once"}));
    assert!(town.send_http("alice", &alice, &once).await.success);
    assert!(town.send_grpc("alice", &alice, &once).await.success);
    assert!(socket.send(None, &once).await.success);
    assert!(peer.send(once.draft()).await.unwrap().repeated);
    let last = Said::new("last", "agent.message", "agent:bob", json!({"text": "last"}));
    assert!(peer.send(last.draft()).await.unwrap().success);
    let mut texts = Vec::new();
    while texts.last() != Some(&json!("last")) {
        let polled = town.poll("bob", &bob).await;
        let all = polled["messages"].as_array().unwrap();
        texts.extend(
            all.iter()
                .filter(|event| event["event_name"] == "agent.message")
                .map(|event| event["payload"]["text"].clone()),
        );
    }
    assert_eq!(texts, [json!("once"), json!("last")]);
    town.close().await;
}
