//! Agents do not talk for ever: not with themselves, not with an echo, not with each other; and one that takes too long
//! says so.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use longhaul_core::Ambient;
use longhaul_mods::agents::{CautionSettings, Desk, Message, WorkSettings, Worker, WorkerError, work};
use tokio_util::sync::CancellationToken;

use super::ground::{Ground, Open, Person, QUIET, file, model};

/// Says something new about everything it hears.
struct Chatters;

#[async_trait]
impl Worker for Chatters {
    async fn on_direct(&self, desk: &Desk, message: &Message) -> Result<(), WorkerError> {
        desk.reply(message, &format!("{} has more to say about hop {}", desk.agent(), message.hops)).await?;
        Ok(())
    }

    async fn on_channel_post(&self, desk: &Desk, message: &Message) -> Result<(), WorkerError> {
        desk.post("general", &format!("{} has more to say about hop {}", desk.agent(), message.hops), None).await?;
        Ok(())
    }
}

/// Repeats what it hears, with nothing that says so.
struct Parrot;

#[async_trait]
impl Worker for Parrot {
    async fn on_channel_post(&self, desk: &Desk, message: &Message) -> Result<(), WorkerError> {
        let draft = desk.posting(desk.id_for("parrot"), "general", &format!("> {}", message.text), None)?;
        desk.link().send(draft_without_marks(draft)).await?;
        Ok(())
    }
}

fn draft_without_marks(mut draft: longhaul_network::Draft) -> longhaul_network::Draft {
    draft.metadata.clear();
    draft
}

async fn start(open: &Open, name: &str, worker: Arc<dyn Worker>, hops_max: u32) -> CancellationToken {
    let (link, _) = open.join(name).await;
    let caution = CautionSettings { hops_max, ..CautionSettings::default() };
    let settings = WorkSettings { caution, wait: Duration::from_secs(2), ..WorkSettings::default() };
    let stop = CancellationToken::new();
    tokio::spawn(work(link, worker, settings, Ambient::system(), stop.clone()));
    stop
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_agents_that_always_answer_end_after_so_many_answers() {
    let ground = Ground::new();
    let open = ground.open(&["messaging"]).await;
    let bob = Person::join(&open, "bob").await;
    let stops = [start(&open, "ada", Arc::new(Chatters), 4).await, start(&open, "eve", Arc::new(Chatters), 4).await];
    bob.desk.post("general", "what do you think?", None).await.unwrap();
    let heard = bob.hear(QUIET).await;
    // Two answer the question, two those answers, and so on: 2 on each of four levels.
    assert_eq!(heard.len(), 8, "{heard:#?}");
    assert_eq!(heard.iter().map(|message| message.hops).max(), Some(4));
    stops.iter().for_each(CancellationToken::cancel);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_echo_of_its_own_words_is_not_answered() {
    let ground = Ground::new();
    let open = ground.open(&["messaging"]).await;
    let bob = Person::join(&open, "bob").await;
    let stops = [start(&open, "ada", Arc::new(Chatters), 8).await, start(&open, "parrot", Arc::new(Parrot), 8).await];
    bob.desk.post("general", "good morning", None).await.unwrap();
    let heard = bob.hear(QUIET).await;
    // Ada answers Bob; the parrot repeats both, and what it repeats of Bob is answered, of Ada not.
    let of = |name: &str| heard.iter().filter(|message| message.from == name).count();
    assert!(of("ada") <= 3 && of("parrot") <= 4, "{heard:#?}");
    assert!(of("ada") >= 1 && of("parrot") >= 2, "{heard:#?}");
    assert!(bob.hear(QUIET).await.is_empty(), "and then it is quiet");
    stops.iter().for_each(CancellationToken::cancel);
}

const SLOW: &str = r#"
[[entry]]
id = "answer"
prompt = ["bob says to you alone"]
fault = { delay_ms = 15000 }
reply = "too late"
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_model_takes_too_long_says_so_in_time() {
    let ground = Ground::new();
    let open = ground.open(&["messaging"]).await;
    let told = model(SLOW).await;
    let bob = Person::join(&open, "bob").await;
    let (link, _) = open.join("ada").await;
    let mut ada = file("ada");
    ada.time_limit = Duration::from_millis(400);
    let started = open.start(ada, link, told.model.clone()).await;
    bob.desk.send_direct(&"ada".parse().unwrap(), "are you there?").await.unwrap();
    let heard = bob.hear_until(|message| message.from == "ada").await;
    let answer = heard.last().unwrap();
    assert_eq!(answer.failed.as_deref(), Some("the time limit of 0.4 s is over"), "{answer:?}");
    started.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_model_refuses_says_why() {
    let ground = Ground::new();
    let open = ground.open(&["messaging"]).await;
    let told = model("[[entry]]\nid = \"other\"\nprompt = [\"another question\"]\nreply = \"yes\"\n").await;
    let bob = Person::join(&open, "bob").await;
    let (link, _) = open.join("ada").await;
    let started = open.start(file("ada"), link, told.model.clone()).await;
    bob.desk.send_direct(&"ada".parse().unwrap(), "are you there?").await.unwrap();
    let heard = bob.hear_until(|message| message.from == "ada").await;
    let why = heard.last().unwrap().failed.clone().unwrap_or_default();
    assert!(why.contains("no cassette entry"), "{why}");
    started.end().await;
}
