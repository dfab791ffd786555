//! A community: experts are asked in parallel and merged, the same question is answered from memory, an expert that fails
//! is replaced and then left alone, and a coordinator that was killed goes on.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use longhaul_core::Scope;
use longhaul_memory::Query;
use longhaul_model::ChatModel;
use longhaul_mods::agents::{
    AgentFile, MemorySettings, Message, Way,
    breaker::{self, BreakerSettings},
    community::{COLLABORATION, Coordinator, CoordinatorSettings, Expert, KEYWORDS, KNOWLEDGE, SOLUTIONS, keywords_of},
    partition,
};
use longhaul_network::Member;
use tokio_util::sync::CancellationToken;

use super::ground::{Ground, Open, Person, QUIET, Started, file, model};

const STORY: &str = r###"
[[entry]]
id = "python"
prompt = ["coordinator asks you in #python_channel", "async"]
fault = { delay_ms = 700 }
reply = "Keep one client and await it."

[[entry]]
id = "milvus"
prompt = ["coordinator asks you in #milvus_channel", "vector"]
fault = { delay_ms = 700 }
reply = "Take an HNSW index."

[[entry]]
id = "merge"
prompt = ["# Question", "## python_expert says", "## milvus_expert says"]
require = [{ in = "prompt", text = "Keep one client" }, { in = "prompt", text = "Take an HNSW index." }]
reply = "One client, and an HNSW index."

[[entry]]
id = "standing-in"
prompt = ["coordinator asks you in #devops_channel"]
reply = "I can tell a little: give it memory."
"###;

const QUESTION: &str = "How do I make vector search fast in an async service with many clients?";
const ALIKE: &str = "How can I make vector search in an async service fast with many clients?";

fn experts() -> Vec<Expert> {
    let of = |(domain, _): &(&str, &[&str])| Expert {
        agent: format!("{domain}_expert").parse().unwrap(),
        domain: (*domain).to_owned(),
        channel: format!("{domain}_channel"),
        keywords: keywords_of(domain),
    };
    KEYWORDS.iter().map(of).collect()
}

fn expert(name: &str) -> AgentFile {
    let mut expert = file(name);
    expert.memory = MemorySettings { recall: vec![KNOWLEDGE.into()], keep: Some(KNOWLEDGE.into()), hits_max: 3 };
    expert
}

async fn coordinator(open: &Open, link: Arc<dyn longhaul_mods::agents::Link>, model: Arc<dyn ChatModel>) -> Started {
    let mut coordinator = file("coordinator");
    coordinator.breaker = BreakerSettings { failures_max: 1, pause_ms: 600_000, pause_ms_max: 600_000 };
    let settings = CoordinatorSettings {
        file: coordinator,
        channels: vec!["general".into()],
        experts: experts(),
        expert_limit: Duration::from_millis(3_000),
    };
    let coordinator = Coordinator::new(settings, open.parts(link, model)).await.unwrap();
    let stop = CancellationToken::new();
    let token = stop.clone();
    let task = tokio::spawn(async move { coordinator.run(token).await.map(drop).map_err(|error| error.to_string()) });
    Started { stop, task }
}

/// The coordinator with these experts at work.
async fn community(open: &Open, names: &[&str], model: &Arc<dyn ChatModel>) -> (Vec<Started>, Started, Member) {
    let mut started = Vec::new();
    // All come in, so that channels have their members; not all work.
    for (domain, _) in KEYWORDS {
        let name = format!("{domain}_expert");
        let (link, _) = open.join(&name).await;
        if names.contains(&name.as_str()) {
            started.push(open.start(expert(&name), link, model.clone()).await);
        }
    }
    let (link, member) = open.join("coordinator").await;
    let chief = coordinator(open, link, model.clone()).await;
    (started, chief, member)
}

fn is_answer(message: &Message) -> bool {
    message.from == "coordinator" && message.way == Way::Reply && !message.interim
}

async fn count(open: &Open, collection: &str) -> usize {
    let query = Query {
        namespaces: vec![partition("agents-net")],
        collections: vec![collection.to_owned()],
        ..Query::new("vector search", 50)
    };
    open.memory.search(&Scope::single_user(), &query).await.unwrap().considered
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn experts_answer_in_parallel_and_the_same_question_is_answered_from_memory() {
    let ground = Ground::new();
    let open = ground.open(&["messaging"]).await;
    let told = model(STORY).await;
    let bob = Person::join(&open, "bob").await;
    let (experts, chief, _) = community(&open, &["python_expert", "milvus_expert"], &told.model).await;
    bob.desk.post("general", QUESTION, None).await.unwrap();
    let heard = bob.hear_until(is_answer).await;
    let answer = heard.last().unwrap();
    assert_eq!(answer.text, "One client, and an HNSW index.", "{heard:#?}");
    let asked: Vec<&Message> = heard.iter().filter(|message| message.text.starts_with('@')).collect();
    assert_eq!(asked.len(), 2, "each in its channel: {asked:#?}");
    // Both were asked before either had answered.
    let first_answer = heard.iter().position(|message| message.from.ends_with("_expert")).unwrap();
    assert!(heard[..first_answer].iter().filter(|message| message.text.starts_with('@')).count() == 2, "{heard:#?}");
    for (collection, memories) in [(KNOWLEDGE, 2), (COLLABORATION, 2), (SOLUTIONS, 1)] {
        assert_eq!(count(&open, collection).await, memories, "{collection}");
    }
    let served = told.server.served().len();
    bob.desk.post("general", "@somebody, what do you say?", None).await.unwrap();
    assert!(bob.hear(QUIET).await.is_empty(), "what names somebody else is for them");
    bob.desk.post("general", ALIKE, None).await.unwrap();
    let heard = bob.hear_until(is_answer).await;
    let answer = heard.last().unwrap();
    let expected = format!(
        "From memory: bob asked “{QUESTION}” before, and milvus_expert, python_expert answered.\n\nOne client, and an HNSW \
         index."
    );
    assert_eq!(answer.text, expected);
    assert_eq!((heard.len(), told.server.served().len()), (1, served), "nobody was asked: {heard:#?}");
    assert_eq!(count(&open, SOLUTIONS).await, 1, "what is known is not kept again");
    for started in experts {
        started.end().await;
    }
    chief.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expert_that_is_silent_is_replaced_and_then_left_alone() {
    let ground = Ground::new();
    let open = ground.open(&["messaging"]).await;
    let told = model(STORY).await;
    let bob = Person::join(&open, "bob").await;
    // The expert for Milvus has come in and says nothing.
    let (experts, chief, _) = community(&open, &["devops_expert"], &told.model).await;
    bob.desk.post("general", "What does a Milvus reindex cost?", None).await.unwrap();
    let heard = bob.hear_until(is_answer).await;
    let answer = &heard.last().unwrap().text;
    assert!(answer.starts_with("I can tell a little: give it memory."), "{answer}");
    assert!(answer.contains("milvus_expert: it did not answer within 3 s"), "{answer}");
    let state = open.store.read(|read| breaker::read(read, &Scope::single_user(), "agents-net", "milvus_expert")).await;
    assert_eq!(state.unwrap().failures, 1);
    let began = Instant::now();
    bob.desk.post("general", "And which Milvus version do you take?", None).await.unwrap();
    let heard = bob.hear_until(is_answer).await;
    assert!(heard.last().unwrap().text.contains("milvus_expert: it rests after 1 failures"), "{heard:#?}");
    assert!(!heard.iter().any(|message| message.text.starts_with("@milvus_expert")), "it is not asked: {heard:#?}");
    assert!(began.elapsed() < Duration::from_millis(2_900), "nobody waited for it");
    for started in experts {
        started.end().await;
    }
    chief.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_killed_while_it_waits_goes_on_and_answers_once() {
    let ground = Ground::new();
    let open = ground.open(&["messaging"]).await;
    let told = model(STORY).await;
    let bob = Person::join(&open, "bob").await;
    let (experts, chief, member) = community(&open, &["python_expert", "milvus_expert"], &told.model).await;
    bob.desk.post("general", QUESTION, None).await.unwrap();
    bob.hear_until(|message| message.text.starts_with('@')).await;
    chief.kill().await;
    let again = coordinator(&open, open.again(&member), told.model.clone()).await;
    let heard = bob.hear_until(is_answer).await;
    assert_eq!(heard.last().unwrap().text, "One client, and an HNSW index.");
    let rest = bob.hear(QUIET).await;
    assert!(!rest.iter().any(is_answer), "it is said once: {rest:#?}");
    for started in experts {
        started.end().await;
    }
    again.end().await;
}
