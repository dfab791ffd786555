//! Shared memory: found by words and meaning, by those who may; kept once; forgotten with what it came from.

use longhaul_core::Scope;
use longhaul_memory::{Kind, NewMemory, Source};
use serde_json::{Value, json};

use crate::hall::{Guest, Hall};

/// Keeps what is sent as `chat.said` in a channel or to everybody.
fn watching() -> Hall {
    let collections = json!([
        {"name": "expert_knowledge", "kind": "fact", "metadata": {"required": ["domain"]}},
        {"name": "collaboration_history", "observe": [{"event": "chat.said"}, {"event": "agent.decision", "kind": "decision"}]},
        {"name": "secrets_of_groups", "partition": "group"},
        {"name": "for_red", "read": ["red"], "write": ["red"], "embedding": "none"},
    ]);
    Hall::new(&[("memory", json!({"collections": collections})), ("forum", json!({}))])
}

async fn contents(guest: &Guest, query: Value) -> Vec<String> {
    let found = guest.ask("memory.search", query).await;
    let results = found["results"].as_array().expect("a list").clone();
    results.iter().map(|one| one["content"].as_str().expect("a text").to_owned()).collect()
}

/// Searches until observers have come this far.
async fn until(guest: &Guest, query: Value, count: usize) -> Vec<String> {
    for _ in 0..400 {
        let found = contents(guest, query.clone()).await;
        if found.len() == count {
            return found;
        }
        tokio::task::yield_now().await;
        // A poll that waits is a pause that ends early when something happens.
        guest.pause().await;
    }
    panic!("{query} never had {count} answers");
}

#[tokio::test(flavor = "multi_thread")]
async fn knowledge_is_found_by_words_at_once_and_by_meaning_after_the_embedding() {
    let hall = Hall::new(&[("memory", json!({}))]);
    let open = hall.open().await;
    let (alice, bob) = (open.join("alice").await, open.join("bob").await);
    let store = |text: &str| json!({"collection": "problem_solutions", "content": text, "metadata": {"domain": "db"}});
    let kept = alice.ask("memory.store", store("the postgres server was sluggish until vacuum ran")).await;
    assert_eq!(kept["partition"], "net:hall");
    alice.ask("memory.store", store("a cake wants eggs")).await;
    assert_eq!(contents(&bob, json!({"query": "vacuum"})).await.len(), 1, "before any embedding");
    assert_eq!(open.memory.index_pending().await.expect("embedded").embedded, 2);
    let found = bob.ask("memory.search", json!({"query": "high latency of the SQL store", "limit": 1})).await;
    assert_eq!(found["results"][0]["memory_id"], kept["memory_id"], "no word in common: {found}");
    assert_eq!(found["mode"], "hybrid");
    assert_eq!(found["results"][0]["author_id"], "alice");
    let filtered = bob.ask("memory.search", json!({"query": "eggs", "filter": {"domain": "cooking"}})).await;
    assert_eq!(filtered["count"], 0);
    let filtered = bob.ask("memory.search", json!({"query": "eggs", "filter": {"never_seen": 1}})).await;
    assert_eq!(filtered["count"], 0, "a field that nothing has: {filtered}");

    let it = json!({"memory_id": kept["memory_id"]});
    assert_eq!(bob.refused("memory.delete", it.clone()).await, "NOT_OWNER");
    alice.ask("memory.delete", it.clone()).await;
    assert_eq!(bob.refused("memory.get", it).await, "MEMORY_NOT_FOUND");
    assert!(contents(&bob, json!({"query": "vacuum"})).await.iter().all(|text| !text.contains("vacuum")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_store_keeps_one_and_the_author_is_who_sent_it() {
    let hall = watching();
    let open = hall.open().await;
    let (alice, bob) = (open.join("alice").await, open.join("bob").await);
    let payload = json!({"content": "milvus likes HNSW", "metadata": {"domain": "milvus", "author_id": "bob"}});
    let once = alice.send_as("k1", "memory.store", "", payload.clone()).await.expect("kept");
    let again = alice.send_as("k1", "memory.store", "", payload).await.expect("answered");
    assert!(again.repeated && once.data == again.data);
    let listed = bob.ask("memory.list", json!({"collection": "expert_knowledge"})).await;
    assert_eq!(listed["count"], 1);
    assert_eq!(listed["memories"][0]["author_id"], "alice");
    assert_eq!(listed["memories"][0]["metadata"]["author_id"], "alice", "nobody speaks for others");
    assert_eq!(alice.refused("memory.store", json!({"content": "x"})).await, "METADATA");
    assert_eq!(
        alice.refused("memory.search", json!({"query": "x", "collection": "none"})).await,
        "COLLECTION_NOT_FOUND"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_find_their_own_and_not_each_others() {
    let hall = watching();
    let open = hall.open().await;
    let (red, blue) = (open.join_group("r", "red").await, open.join_group("b", "blue").await);
    let red2 = open.join_group("r2", "red").await;
    let kept = red.ask("memory.store", json!({"collection": "secrets_of_groups", "content": "the red plan"})).await;
    assert_eq!(kept["partition"], "net:hall:g:red");
    red.ask("memory.store", json!({"collection": "for_red", "content": "a red plan too"})).await;
    assert_eq!(contents(&red2, json!({"query": "plan"})).await.len(), 2);
    assert!(contents(&blue, json!({"query": "plan"})).await.is_empty());
    assert_eq!(blue.refused("memory.search", json!({"query": "plan", "collection": "for_red"})).await, "NOT_ALLOWED");
    assert_eq!(blue.refused("memory.list", json!({"collection": "for_red"})).await, "NOT_ALLOWED");
    assert_eq!(blue.refused("memory.store", json!({"collection": "for_red", "content": "x"})).await, "NOT_ALLOWED");
    assert_eq!(blue.refused("memory.get", json!({"memory_id": kept["memory_id"]})).await, "MEMORY_NOT_FOUND");
    assert_eq!(blue.ask("memory.list", json!({"collection": "secrets_of_groups"})).await["count"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_openly_is_kept_once_and_what_is_said_to_one_is_not() {
    let hall = watching();
    let open = hall.open().await;
    let (alice, bob) = (open.join("alice").await, open.join("bob").await);
    let say = |text: &str| json!({"content": {"text": text}});
    alice.send("chat.said", "agent:bob", say("a secret about trains")).await.expect("sent");
    alice.send("chat.said", "agent:broadcast", say("trains run on time")).await.expect("sent");
    alice.send("agent.decision", "agent:broadcast", json!({"decision": "we take trains"})).await.expect("sent");
    let found = until(&bob, json!({"query": "trains", "limit": 10}), 2).await;
    assert!(!found.iter().any(|text| text.contains("secret")), "{found:?}");
    let decided = bob.ask("memory.search", json!({"query": "decision we take trains"})).await;
    let of_kind = |kind: &str| decided["results"].as_array().expect("a list").iter().any(|one| one["kind"] == kind);
    assert!(of_kind("decision"));

    // Observers that see an event again after a restart keep it once.
    open.network.close().await;
    drop((alice, bob, open));
    let open = hall.open().await;
    let carol = open.join("carol").await;
    carol.send("chat.said", "agent:broadcast", say("trains again")).await.expect("sent");
    assert_eq!(until(&carol, json!({"query": "trains", "limit": 10}), 3).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_in_a_channel_is_found_by_its_members_alone() {
    let hall = watching();
    let open = hall.open().await;
    let (alice, bob, boss) = (open.join("alice").await, open.join("bob").await, open.join_admin("boss").await);
    let out = json!({"channel_id": "general", "agent_id": "bob"});
    boss.send("system.remove_channel_member", "", out).await.expect("removed");
    let said = alice.send("chat.said", "channel:general", json!({"text": "the inner circle meets"})).await;
    assert!(said.expect("sent").success);
    until(&alice, json!({"query": "inner circle"}), 1).await;
    assert!(contents(&bob, json!({"query": "inner circle"})).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_where_it_was_said_is_forgotten() {
    let collections =
        json!([{"name": "history", "observe": [{"event": "forum.topic.created"}, {"event": "forum.comment.posted"}]}]);
    let hall = Hall::new(&[("memory", json!({"collections": collections})), ("forum", json!({}))]);
    let open = hall.open().await;
    let (alice, bob) = (open.join("alice").await, open.join("bob").await);
    let topic = alice.ask("forum.topic.create", json!({"title": "Gearbox", "content": "it grinds"})).await;
    bob.ask("forum.comment.post", json!({"topic_id": topic["topic_id"], "content": "oil the gearbox"})).await;
    let found = until(&bob, json!({"query": "gearbox"}), 2).await;
    assert!(found.contains(&"Gearbox\n\nit grinds".to_owned()), "{found:?}");
    alice.ask("forum.topic.delete", json!({"topic_id": topic["topic_id"]})).await;
    until(&bob, json!({"query": "gearbox"}), 0).await;

    alice.ask("memory.store", json!({"content": "alice was here"})).await;
    assert!(bob.send("memory.forget", "", json!({"agent_id": "alice"})).await.is_ok_and(|reply| !reply.success));
    assert_eq!(alice.ask("memory.forget", json!({})).await["forgotten"], 1);
    assert!(contents(&bob, json!({"query": "alice was here"})).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn posts_of_a_channel_become_its_history_and_direct_messages_do_not() {
    let hall = Hall::new(&[("messaging", json!({})), ("memory", json!({}))]);
    let open = hall.open().await;
    let (alice, bob) = (open.join("alice").await, open.join("bob").await);
    let post = json!({"channel": "general", "content": {"text": "the turbine hums at night"}});
    assert!(alice.send("thread.channel_message.post", "channel:general", post).await.expect("posted").success);
    let direct = json!({"target_agent_id": "bob", "content": {"text": "the turbine is a secret"}});
    assert!(alice.send("thread.direct_message.send", "agent:bob", direct).await.expect("sent").success);
    let after = json!({"channel": "general", "content": {"text": "that turbine again"}});
    assert!(bob.send("thread.channel_message.post", "channel:general", after).await.expect("posted").success);
    let found = until(&bob, json!({"query": "turbine", "collection": "collaboration_history"}), 2).await;
    assert!(!found.iter().any(|text| text.contains("secret")), "{found:?}");
    let by_alice = json!({"query": "turbine", "filter": {"author_id": "alice", "channel": "general"}});
    assert_eq!(contents(&bob, by_alice).await, ["the turbine hums at night"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_keeps_by_itself_is_found_by_the_channel_it_was_asked_in() {
    let hall = Hall::new(&[("memory", json!({}))]);
    let open = hall.open().await;
    let (alice, bob, boss) = (open.join("alice").await, open.join("bob").await, open.join_admin("boss").await);
    let keep = async |text: &str, channel: Option<&str>| {
        let mut memory = NewMemory::new("problem_solutions", Kind::Lesson, Source::Agent, text);
        memory.namespace = "net:hall".parse().expect("a partition");
        memory.meta.insert("agent".into(), "expert".into());
        if let Some(channel) = channel {
            memory.meta.insert("channel".into(), channel.into());
        }
        open.memory.add(&Scope::single_user(), memory).await.expect("kept");
    };
    keep("grease the bearing", Some("general")).await;
    keep("the bearing of a conversation of two", None).await;
    let out = json!({"channel_id": "general", "agent_id": "bob"});
    boss.send("system.remove_channel_member", "", out).await.expect("removed");
    let found = alice.ask("memory.search", json!({"query": "bearing"})).await;
    assert_eq!((&found["count"], &found["results"][0]["author_id"]), (&json!(1), &json!("expert")), "{found}");
    assert!(contents(&bob, json!({"query": "bearing"})).await.is_empty());
}
