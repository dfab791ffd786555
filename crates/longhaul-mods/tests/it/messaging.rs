//! Messaging: what is said reaches whom it was said to, and nobody else.

use std::time::Duration;

use serde_json::{Value, json};

use crate::ground::{Ground, names};

async fn messaging() -> Ground {
    let config = json!({"default_channels": [{"name": "general"}, {"name": "secret", "private": true}]});
    Ground::with(&[("openagents.mods.workspace.messaging", config)]).await
}

fn text(text: &str) -> Value {
    json!({"message_type": "channel_message", "channel": "general", "content": {"text": text}})
}

fn texts(list: &Value) -> Vec<&str> {
    list["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(|each| each["content"]["text"].as_str().expect("text"))
        .collect()
}

#[tokio::test]
async fn a_post_reaches_every_other_member_once_and_names_its_true_sender() {
    let ground = messaging().await;
    let (alice, bob) = (ground.join("alice").await, ground.join("bob").await);
    let mut forged = text("hello @bob and @nobody");
    forged["sender_id"] = json!("bob");
    forged["source_id"] = json!("bob");
    forged["original_event_id"] = json!("another");
    let (id, said) = ground.send(&alice, "thread.channel_message.post", "channel:general", forged.clone()).await;
    assert_eq!(said.data(), json!({"event_name": "thread.channel_message.post", "event_id": id}));
    // The same id again is the same post.
    let again = ground.send_as(&id, &alice, "thread.channel_message.post", "channel:general", forged).await;
    assert!(again.0.expect("answered").repeated);
    let heard = ground.heard(&bob).await;
    assert_eq!(names(&heard), ["thread.channel_message.notification"]);
    let payload = &heard[0].payload;
    assert_eq!(payload["original_event_id"], json!(id));
    assert_eq!(payload["content"]["text"], "hello @bob and @nobody");
    assert_eq!(payload["sender_id"], "alice");
    assert_eq!(payload["source_id"], "alice");
    assert_eq!(payload["mentions"], json!(["bob"]));
    assert_eq!(heard[0].from.to_string(), "alice");
    assert!(ground.heard(&alice).await.is_empty(), "nobody hears themselves");
}

#[tokio::test]
async fn a_channel_that_does_not_exist_is_made_with_everybody_and_an_open_one_takes_in_whoever_posts() {
    let ground = messaging().await;
    let (alice, bob) = (ground.join("alice").await, ground.join("bob").await);
    let post = json!({"content": {"text": "first"}});
    ground.send(&alice, "thread.channel_message.post", "channel:new", post.clone()).await.1.data();
    assert_eq!(ground.heard(&bob).await.len(), 1);
    let carol = ground.join("carol").await;
    ground.send(&carol, "thread.channel_message.post", "channel:new", post.clone()).await.1.data();
    ground.send(&bob, "thread.channel_message.post", "channel:new", post).await.1.data();
    assert_eq!(ground.heard(&carol).await.len(), 1, "she is in since her post");
    let list = ground.ask(&carol, "thread.channels.list", json!({})).await;
    let new = list["channels"].as_array().expect("channels").iter().find(|each| each["name"] == "new").expect("new");
    assert_eq!((&new["message_count"], &new["agent_count"]), (&json!(3), &json!(3)));
}

#[tokio::test]
async fn pages_are_newest_first_in_both_shapes_and_counted_without_a_walk() {
    let mut ground = messaging().await;
    let alice = ground.join("alice").await;
    // Two marks: one on the way, one by the first post after the reopening.
    for n in 0..420 {
        ground.send(&alice, "thread.channel_message.post", "channel:general", text(&format!("m{n}"))).await.1.data();
    }
    let flat = json!({"channel": "general", "limit": 2, "offset": 1});
    let wrapped = json!({
        "event_name": "thread.channel_messages.retrieve", "event_id": "inner", "destination_id": "channel:general",
        "payload": {"limit": 2.0, "offset": 1.0},
    });
    for (payload, request) in [(flat, None), (wrapped, Some("inner"))] {
        let page = ground.ask(&alice, "thread.channel_messages.retrieve", payload).await;
        assert_eq!(texts(&page), ["m418", "m417"]);
        assert_eq!((&page["total_count"], &page["has_more"]), (&json!(420), &json!(true)));
        assert!(request.is_none_or(|id| page["request_id"] == id));
    }
    ground.reopen().await;
    ground.send(&alice, "thread.channel_message.post", "channel:general", text("after")).await.1.data();
    let page = ground.ask(&alice, "thread.messages.retrieve", json!({"channel": "general", "limit": 1})).await;
    assert_eq!((texts(&page), &page["total_count"]), (vec!["after"], &json!(421)));
}

#[tokio::test]
async fn replies_stand_in_their_thread_and_quotations_are_what_was_said() {
    let ground = messaging().await;
    let (alice, bob) = (ground.join("alice").await, ground.join("bob").await);
    let (root, _) = ground.send(&alice, "thread.channel_message.post", "channel:general", text("question")).await;
    let notice = ground.heard(&bob).await;
    // A reply may name the id that the message came with.
    let reply =
        json!({"reply_to_id": notice[0].id, "content": {"text": "answer"}, "thread_level": 99, "sender_id": "eve"});
    let (answer, said) = ground.send(&bob, "thread.reply.post", "channel:general", reply).await;
    said.data();
    let deeper = json!({
        "reply_to_id": answer, "content": {"text": "thanks"}, "quoted_message_id": root, "quoted_text": "forged",
    });
    ground.send(&alice, "thread.reply.sent", "channel:general", deeper).await.1.data();
    let heard = ground.heard(&alice).await;
    assert_eq!(names(&heard), ["thread.reply.notification"]);
    let payload = &heard[0].payload;
    assert_eq!((&payload["original_message_id"], &payload["original_sender"]), (&json!(root), &json!("alice")));
    assert_eq!((&payload["thread_level"], &payload["sender_id"]), (&json!(1), &json!("bob")));
    assert_eq!(payload["reply_event_id"], json!(answer));
    let thread = ground.ask(&bob, "thread.thread.retrieve", json!({"message_id": answer})).await;
    assert_eq!((texts(&thread), &thread["root"]["message_id"]), (vec!["answer", "thanks"], &json!(root)));
    assert_eq!(thread["messages"][1]["thread_level"], 2);
    assert_eq!(thread["messages"][1]["quoted_text"], "alice: question");
    let page = ground.ask(&bob, "thread.channel_messages.retrieve", json!({"channel": "general"})).await;
    assert_eq!(texts(&page), ["thanks", "answer", "question"]);
    assert_eq!(page["messages"][2]["thread_info"]["reply_count"], 2);
    let posts = json!({"channel": "general", "include_threads": false});
    let page = ground.ask(&bob, "thread.channel_messages.retrieve", posts).await;
    assert_eq!((texts(&page), &page["total_count"]), (vec!["question"], &json!(1)));
    let wrong = json!({"reply_to_id": "no-such", "content": {"text": "?"}});
    let no = ground.send(&bob, "thread.reply.post", "channel:general", wrong).await.1.no();
    assert!(no.contains("no message"), "{no}");
}

#[tokio::test]
async fn a_direct_message_is_between_two() {
    let ground = messaging().await;
    let (alice, bob, eve) = (ground.join("alice").await, ground.join("bob").await, ground.join("eve").await);
    let tell = |text: &str| json!({"target_agent_id": "bob", "content": {"text": text}});
    let (first, _) = ground.send(&alice, "thread.direct_message.send", "agent:bob", tell("one")).await;
    ground.send(&alice, "thread.direct_message.send", "agent:bob", tell("two")).await.1.data();
    let reply = json!({"reply_to_id": first, "content": {"text": "three"}});
    ground.send(&bob, "thread.reply.post", "agent:alice", reply).await.1.data();
    let heard = ground.heard(&bob).await;
    assert_eq!(names(&heard), ["thread.direct_message.notification"; 2]);
    assert_eq!(heard[0].payload["sender_id"], "alice");
    assert_eq!(names(&ground.heard(&alice).await), ["thread.reply.notification"]);
    assert!(ground.heard(&eve).await.is_empty());
    for (asker, other) in [(&alice, "bob"), (&bob, "alice")] {
        let list = ground.ask(asker, "thread.direct_messages.retrieve", json!({"target_agent_id": other})).await;
        let said: Vec<_> = list["messages"]
            .as_array()
            .expect("messages")
            .iter()
            .map(|each| each["payload"]["content"]["text"].as_str().expect("text"))
            .collect();
        assert_eq!((said, &list["total_count"]), (vec!["one", "two", "three"], &json!(3)));
        assert_eq!(list["messages"][0]["secret"], Value::Null);
    }
    let talks = ground.ask(&alice, "thread.conversations.list", json!({})).await;
    assert_eq!(talks["conversations"][0]["agents"], json!(["alice", "bob"]));
    assert_eq!(talks["conversations"][0]["last_message"]["content"], "three");
    // Whoever was not told anything finds nothing, and cannot react, answer or quote.
    let talks = ground.ask(&eve, "thread.conversations.list", json!({})).await;
    assert_eq!(talks["conversations"], json!([]));
    let list = ground.ask(&eve, "thread.direct_messages.retrieve", json!({"target_agent_id": "bob"})).await;
    assert_eq!(list["messages"], json!([]));
    let tries = [
        ("thread.reaction.add", json!({"target_message_id": first, "reaction_type": "like"})),
        ("thread.reply.post", json!({"reply_to_id": first, "content": {"text": "?"}})),
        (
            "thread.channel_message.post",
            json!({"channel": "general", "quoted_message_id": first, "content": {"text": "?"}}),
        ),
        ("thread.thread.retrieve", json!({"message_id": first})),
    ];
    for (name, payload) in tries {
        let no = ground.send(&eve, name, "", payload).await.1.no();
        assert!(no.contains("no message"), "{name}: {no}");
    }
    let no = ground.send(&alice, "thread.direct_message.send", "agent:nobody", json!({"content": "?"})).await.1.no();
    assert!(no.contains("no agent"), "{no}");
}

#[tokio::test]
async fn a_private_channel_is_its_members_alone() {
    let ground = messaging().await;
    let (alice, bob, eve) = (ground.join("alice").await, ground.join("bob").await, ground.join("eve").await);
    let make = json!({"channel": "plans", "private": true, "members": ["bob"], "description": "what we do next"});
    ground.send(&alice, "thread.channel.create", "", make).await.1.data();
    let (id, said) = ground.send(&alice, "thread.channel_message.post", "channel:plans", json!({"content": "x"})).await;
    said.data();
    assert_eq!(ground.heard(&bob).await.len(), 2, "the channel, and the post");
    let tries = [
        ("thread.channel_message.post", json!({"channel": "plans", "content": {"text": "?"}})),
        ("thread.channel_messages.retrieve", json!({"channel": "plans"})),
        ("thread.message.partial", json!({"channel": "plans", "stream_id": "s", "content": {"text": "?"}})),
        ("thread.announcement.get", json!({"channel": "plans"})),
    ];
    for (name, payload) in tries {
        let no = ground.send(&eve, name, "", payload).await.1.no();
        assert!(no.contains("private"), "{name}: {no}");
    }
    let react = json!({"target_message_id": id, "reaction_type": "like"});
    assert!(ground.send(&eve, "thread.reaction.add", "", react).await.1.no().contains("no message"));
    let list = ground.ask(&eve, "thread.channels.list", json!({"action": "list_channels"})).await;
    assert!(list["channels"].as_array().expect("channels").iter().all(|each| each["name"] != "plans"), "{list}");
}

#[tokio::test]
async fn a_reaction_is_given_once_and_taken_back() {
    let ground = messaging().await;
    let (alice, bob) = (ground.join("alice").await, ground.join("bob").await);
    let (id, _) = ground.send(&alice, "thread.channel_message.post", "channel:general", text("hi")).await;
    let like = json!({"target_message_id": id, "reaction_type": "like"});
    let wrapped = json!({"event_name": "thread.reaction.add", "event_id": "in", "payload": like});
    let data = ground.ask(&bob, "thread.reaction.add", wrapped).await;
    assert_eq!(
        (&data["total_reactions"], &data["action_taken"], &data["request_id"]),
        (&json!(1), &json!("add"), &json!("in"))
    );
    assert!(ground.send(&bob, "thread.reaction.add", "", like.clone()).await.1.no().contains("already"));
    let page = ground.ask(&bob, "thread.channel_messages.retrieve", json!({"channel": "general"})).await;
    assert_eq!(page["messages"][0]["reactions"], json!({"like": 1}));
    ground.ask(&alice, "thread.reaction.toggle", like.clone()).await;
    // As the SDK's workspace sends it: to the sender itself, with the action in the payload.
    let mut back = like.clone();
    back["action"] = json!("remove");
    let (_, said) = ground.send(&bob, "thread.reaction", "agent:bob", back).await;
    assert_eq!(said.data()["total_reactions"], 1);
    let heard = ground.heard(&alice).await;
    assert_eq!(names(&heard), ["thread.reaction.notification"; 2]);
    assert_eq!(heard[0].payload["reacting_agent"], "bob");
    assert_eq!(heard[1].payload["reaction"]["action"], "remove");
}

#[tokio::test]
async fn parts_of_a_text_are_seen_at_once_and_gone_after_it() {
    let mut ground = messaging().await;
    let (alice, bob, late) = (ground.join("alice").await, ground.join("bob").await, ground.join("late").await);
    let part = |text: &str| json!({"stream_id": "s1", "channel": "general", "content": {"text": text}});
    ground.send(&alice, "thread.message.partial", "", part("Hel")).await.1.data();
    let (second, said) = ground.send(&alice, "thread.message.partial", "", part("lo")).await;
    assert_eq!(said.data()["part"], 2);
    let heard = ground.heard(&bob).await;
    assert_eq!(names(&heard), ["thread.message.partial"; 2]);
    assert_eq!(heard[1].payload["content"]["text"], "lo");
    // Somebody else's stream of the same name is another one.
    ground.send(&bob, "thread.message.partial", "", part("mine")).await.1.data();
    let mut whole = text("Hello");
    whole["stream_id"] = json!("s1");
    ground.send(&alice, "thread.channel_message.post", "channel:general", whole).await.1.data();
    let no = ground.send(&alice, "thread.message.partial", "", part("!")).await.1.no();
    assert!(no.contains("has ended"), "{no}");
    let repeated = ground.send_as(&second, &alice, "thread.message.partial", "", part("lo")).await;
    assert!(repeated.0.is_err() || repeated.0.is_ok_and(|reply| reply.repeated), "nothing is shown twice");
    assert_eq!(names(&ground.heard(&bob).await), ["thread.channel_message.notification"]);
    ground.reopen().await;
    // What is read from the rows has the whole message, and of the other stream its part.
    let heard = ground.heard(&late).await;
    assert_eq!(names(&heard), ["thread.message.partial", "thread.channel_message.notification"]);
    let page = ground.ask(&late, "thread.channel_messages.retrieve", json!({"channel": "general"})).await;
    assert_eq!((texts(&page), &page["total_count"]), (vec!["Hello"], &json!(1)));
}

#[tokio::test]
async fn a_stream_left_open_is_over_after_a_while() {
    let ground = Ground::with(&[("messaging", json!({"max_stream_parts": 2}))]).await;
    let (alice, bob) = (ground.join("alice").await, ground.join("bob").await);
    let part = |stream: &str| json!({"stream_id": stream, "target_agent_id": "bob", "content": {"text": "x"}});
    for _ in 0..2 {
        ground.send(&alice, "thread.message.partial", "", part("a")).await.1.data();
    }
    assert!(ground.send(&alice, "thread.message.partial", "", part("a")).await.1.no().contains("no room"));
    assert_eq!(ground.heard(&bob).await.len(), 2);
    for n in 0..15 {
        ground.send(&alice, "thread.message.partial", "", part(&format!("b{n}"))).await.1.data();
    }
    assert!(ground.send(&alice, "thread.message.partial", "", part("c")).await.1.no().contains("streams are open"));
    ground.clock.advance(Duration::from_secs(601));
    ground.send(&alice, "thread.message.partial", "", part("c")).await.1.data();
    assert!(ground.send(&alice, "thread.message.partial", "", part("a")).await.1.no().contains("has ended"));
}

#[tokio::test]
async fn announcements_are_set_by_those_who_may() {
    let ground = messaging().await;
    let (boss, bob) = (ground.join_as("boss", "admin").await, ground.join("bob").await);
    let set = json!({"channel": "general", "text": "maintenance at noon"});
    assert_eq!(ground.send(&bob, "thread.announcement.set", "", set.clone()).await.1.no(), "forbidden");
    assert_eq!(ground.ask(&boss, "thread.announcement.set", set.clone()).await, set);
    assert_eq!(names(&ground.heard(&bob).await), ["thread.announcement.notification"]);
    let got = ground.ask(&bob, "thread.announcement.get", json!({"channel": "general"})).await;
    assert_eq!((&got["text"], &got["announced_by"]), (&json!("maintenance at noon"), &json!("boss")));
}

#[tokio::test]
async fn what_the_sdks_workspace_waits_for_comes_as_an_event() {
    let ground = messaging().await;
    let alice = ground.join("alice").await;
    let ask = json!({"action": "list_channels", "request_id": "r1"});
    ground.send(&alice, "thread.channel_info", "agent:alice", ask).await.1.data();
    let heard = ground.heard(&alice).await;
    assert_eq!(names(&heard), ["thread.channels.list_response"]);
    assert_eq!(heard[0].payload["action"], "list_channels_response");
    assert_eq!(heard[0].payload["request_id"], "r1");
}

#[tokio::test]
async fn nobody_says_what_only_the_mod_says() {
    let ground = messaging().await;
    let (alice, bob) = (ground.join("alice").await, ground.join("bob").await);
    for name in
        ["thread.channel_message.notification", "thread.direct_message.notification", "thread.channels.list_response"]
    {
        ground.send(&alice, name, "agent:bob", json!({"sender_id": "boss", "content": {"text": "do it"}})).await.1.no();
    }
    assert!(ground.heard(&bob).await.is_empty());
    let too_long = json!({"channel": "general", "content": {"text": "x".repeat(300_000)}});
    let no = ground.send(&alice, "thread.channel_message.post", "", too_long).await.1.no();
    assert!(no.contains("payload.content is 300000 bytes long"), "{no}");
    let nothing = json!({"channel": "general", "content": {"text": " "}});
    assert!(ground.send(&alice, "thread.channel_message.post", "", nothing).await.1.no().contains("says nothing"));
}
