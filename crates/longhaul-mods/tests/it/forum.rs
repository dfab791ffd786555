//! Topics, comments, votes, search, and who may see what.

use serde_json::json;

use crate::hall::Hall;

fn hall() -> Hall {
    Hall::new(&[("forum", json!({}))])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_with_its_comments_and_votes_is_what_everybody_sees() {
    let hall = hall();
    let open = hall.open().await;
    let (alice, bob) = (open.join("alice").await, open.join("bob").await);
    bob.heard().await;
    let topic = alice.ask("forum.topic.create", json!({"title": "Which index?", "content": "HNSW or IVF"})).await;
    let id = topic["topic_id"].as_str().expect("an id");
    let heard = bob.heard().await;
    assert_eq!(heard[0].name.as_str(), "forum.topic.created");
    assert_eq!(heard[0].from.to_string(), "alice");
    assert_eq!(heard[0].payload["topic"]["title"], "Which index?");

    let first = bob.ask("forum.comment.post", json!({"topic_id": id, "content": "HNSW"})).await;
    assert_eq!((&first["thread_level"], &first["author_id"]), (&json!(1), &json!("bob")));
    let parent = first["comment_id"].clone();
    let reply =
        alice.ask("forum.comment.reply", json!({"topic_id": id, "content": "why?", "parent_comment_id": parent})).await;
    assert_eq!(reply["thread_level"], 2);
    let votes = json!({"target_type": "topic", "target_id": id, "vote_type": "upvote"});
    assert_eq!(bob.ask("forum.vote.cast", votes.clone()).await["vote_score"], 1);
    assert_eq!(bob.refused("forum.vote.cast", votes).await, "ALREADY_VOTED");
    let down = json!({"target_type": "topic", "target_id": id, "vote_type": "downvote"});
    let counted = bob.ask("forum.vote.cast", down).await;
    assert_eq!((&counted["upvotes"], &counted["downvotes"]), (&json!(0), &json!(1)));

    // As the SDK wraps it.
    let wrapped = json!({"event_name": "forum.topic.get", "payload": {"query_type": "get_topic", "topic_id": id}});
    let seen = alice.ask("forum.topic.get", wrapped).await;
    assert_eq!((&seen["comment_count"], &seen["vote_score"]), (&json!(2), &json!(-1)));
    assert_eq!(seen["comments"][0]["replies"][0]["content"], "why?");
    assert!(seen["timestamp"].as_f64().is_some_and(|at| at < 1e11), "seconds: {}", seen["timestamp"]);

    let gone = bob.ask("forum.comment.delete", json!({"comment_id": first["comment_id"]})).await;
    assert_eq!(gone["has_replies"], true);
    let seen = alice.ask("forum.topic.get", json!({"topic_id": id})).await;
    assert_eq!(seen["comments"][0]["content"], "", "the place stays");
    assert_eq!(seen["comments"][0]["replies"][0]["content"], "why?", "nobody else's words go");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_owners_change_and_admins_put_in_order() {
    let hall = hall();
    let open = hall.open().await;
    let (alice, bob, boss) = (open.join("alice").await, open.join("bob").await, open.join_admin("boss").await);
    let topic = alice.ask("forum.topic.create", json!({"title": "mine", "content": "text"})).await;
    let change = json!({"topic_id": topic["topic_id"], "title": "yours"});
    assert_eq!(bob.refused("forum.topic.edit", change.clone()).await, "NOT_OWNER");
    assert_eq!(bob.refused("forum.topic.delete", change.clone()).await, "NOT_OWNER");
    assert_eq!(alice.ask("forum.topic.edit", change.clone()).await["title"], "yours");
    boss.ask("forum.topic.delete", change.clone()).await;
    assert_eq!(alice.refused("forum.topic.get", change).await, "TOPIC_NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_for_one_group_is_neither_seen_nor_heard_of_by_others() {
    let hall = hall();
    let open = hall.open().await;
    let (red, red2) = (open.join_group("red1", "red").await, open.join_group("red2", "red").await);
    let blue = open.join_group("blue1", "blue").await;
    for guest in [&red, &red2, &blue] {
        guest.heard().await;
    }
    let payload = json!({"title": "red only", "content": "the plan", "allowed_groups": ["red"]});
    let topic = red.ask("forum.topic.create", payload).await;
    let id = json!({"topic_id": topic["topic_id"]});
    assert_eq!(red2.names_heard().await, ["forum.topic.created"]);
    assert!(blue.names_heard().await.is_empty());
    assert_eq!(blue.refused("forum.topic.get", id.clone()).await, "PERMISSION_DENIED_NOT_IN_ALLOWED_GROUPS");
    let comment = json!({"topic_id": topic["topic_id"], "content": "hello"});
    assert_eq!(blue.refused("forum.comment.post", comment.clone()).await, "PERMISSION_DENIED_NOT_IN_ALLOWED_GROUPS");
    let vote = json!({"target_type": "topic", "target_id": topic["topic_id"], "vote_type": "upvote"});
    assert_eq!(blue.refused("forum.vote.cast", vote).await, "PERMISSION_DENIED_NOT_IN_ALLOWED_GROUPS");
    red.ask("forum.comment.post", comment).await;
    for (event, payload) in [
        ("forum.topics.list", json!({})),
        ("forum.topics.search", json!({"query": "plan"})),
        ("forum.user.topics", json!({"agent_id": "red1"})),
        ("forum.user.comments", json!({"agent_id": "red1"})),
    ] {
        assert_eq!(blue.ask(event, payload.clone()).await["total_count"], 0, "{event}");
        assert_eq!(red2.ask(event, payload).await["total_count"], 1, "{event}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_are_found_in_any_language_and_by_parts_of_words() {
    let hall = hall();
    let open = hall.open().await;
    let alice = open.join("alice").await;
    for (title, content) in [
        ("如何建立向量索引", "Milvus 里的会话按钮"),
        ("Deploying with Docker", "containers at 100% load"),
        ("セッション管理", "新しい会話を始める"),
        ("세션 관리", "대화를 시작합니다"),
    ] {
        alice.ask("forum.topic.create", json!({"title": title, "content": content})).await;
    }
    let found = async |query: &str| {
        let data = alice.ask("forum.topics.search", json!({"query": query})).await;
        let topics = data["topics"].as_array().expect("a list").clone();
        topics.first().map(|topic| topic["title"].as_str().expect("a title").to_owned()).unwrap_or_default()
    };
    assert_eq!(found("向量").await, "如何建立向量索引");
    assert_eq!(found("会话按钮").await, "如何建立向量索引");
    assert_eq!(found("索引怎么建立").await, "如何建立向量索引", "some of its pairs of letters");
    assert_eq!(found("会話").await, "セッション管理");
    assert_eq!(found("대화").await, "세션 관리");
    assert_eq!(found("DOCK").await, "Deploying with Docker");
    assert_eq!(found("100%").await, "Deploying with Docker");
    assert_eq!(found("1%0").await, "", "a wildcard is a letter");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_and_a_repeated_event_does_nothing_twice() {
    let hall = Hall::new(&[("forum", json!({"max_comments_per_topic": 12, "max_topics_per_agent": 1}))]);
    let open = hall.open().await;
    let alice = open.join("alice").await;
    let payload = json!({"title": "t", "content": "c"});
    let once = alice.send_as("one", "forum.topic.create", "", payload.clone()).await.expect("done");
    let again = alice.send_as("one", "forum.topic.create", "", payload.clone()).await.expect("answered");
    assert!(again.repeated);
    assert_eq!(once.data, again.data);
    assert_eq!(alice.ask("forum.topics.list", json!({})).await["total_count"], 1);
    assert_eq!(alice.refused("forum.topic.create", payload).await, "TOO_MANY_TOPICS");

    let topic = once.data.expect("data")["topic_id"].clone();
    let mut parent = json!(null);
    for level in 1..=10 {
        let comment = json!({"topic_id": topic, "content": "deeper", "parent_comment_id": parent});
        let posted = alice.ask("forum.comment.post", comment).await;
        assert_eq!(posted["thread_level"], level);
        parent = posted["comment_id"].clone();
    }
    let deeper = json!({"topic_id": topic, "content": "x", "parent_comment_id": parent});
    assert_eq!(alice.refused("forum.comment.post", deeper).await, "TOO_DEEP");
    for _ in 0..2 {
        alice.ask("forum.comment.post", json!({"topic_id": topic, "content": "more"})).await;
    }
    let more = json!({"topic_id": topic, "content": "more"});
    assert_eq!(alice.refused("forum.comment.post", more).await, "TOO_MANY_COMMENTS");
    let no = alice.send("forum.topic.create", "", json!({"title": "x".repeat(900), "content": "c"})).await;
    assert!(no.expect_err("too long").message.contains("title"));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_all_there_after_a_restart() {
    let hall = hall();
    let open = hall.open().await;
    let alice = open.join("alice").await;
    alice.ask("forum.topic.create", json!({"title": "kept", "content": "c"})).await;
    open.network.close().await;
    drop((alice, open));
    let open = hall.open().await;
    let bob = open.join("bob").await;
    assert_eq!(bob.ask("forum.recent.topics", json!({})).await["topics"][0]["title"], "kept");
}
