//! An answer is given once: after a handler died, after an agent was killed while the model answered, and after it had
//! sent its answer and not yet noted that.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use longhaul_core::Ambient;
use longhaul_mods::agents::{Desk, Link, Message, NetworkTool, Way, WorkSettings, Worker, WorkerError, work};
use longhaul_network::{AgentId, Draft, Event, Refusal, RefusalKind, Reply};
use tokio_util::sync::CancellationToken;

use super::ground::{Ground, Person, QUIET, file, model};

/// Answers what it hears, and notes how it heard it.
struct Answers {
    heard: Mutex<Vec<(Way, String)>>,
    /// Hangs after its first answer, as if it had died there.
    hangs: AtomicBool,
}

impl Answers {
    fn new(hangs: bool) -> Arc<Self> {
        Arc::new(Self { heard: Mutex::default(), hangs: AtomicBool::new(hangs) })
    }

    async fn answer(&self, desk: &Desk, message: &Message) -> Result<(), WorkerError> {
        self.heard.lock().unwrap().push((message.way, message.text.clone()));
        // Taken first: whoever hears the answer may end this one before it comes any further.
        let hangs = self.hangs.swap(false, Ordering::SeqCst);
        desk.reply(message, &format!("I heard: {}", message.text)).await?;
        if hangs {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

#[async_trait]
impl Worker for Answers {
    async fn on_direct(&self, desk: &Desk, message: &Message) -> Result<(), WorkerError> {
        self.answer(desk, message).await
    }

    async fn on_mention(&self, desk: &Desk, message: &Message) -> Result<(), WorkerError> {
        self.answer(desk, message).await
    }

    async fn on_channel_post(&self, _: &Desk, message: &Message) -> Result<(), WorkerError> {
        self.heard.lock().unwrap().push((message.way, message.text.clone()));
        Ok(())
    }

    async fn on_reply(&self, _: &Desk, message: &Message) -> Result<(), WorkerError> {
        self.heard.lock().unwrap().push((message.way, message.text.clone()));
        Ok(())
    }

    async fn on_reaction(&self, _: &Desk, message: &Message) -> Result<(), WorkerError> {
        self.heard.lock().unwrap().push((message.way, message.reply_to.clone().unwrap_or_default()));
        Ok(())
    }
}

fn settings() -> WorkSettings {
    WorkSettings { wait: Duration::from_secs(2), ..WorkSettings::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_hears_each_sort_of_message_and_answers_where_it_was_said() {
    let ground = Ground::new();
    let open = ground.open(&["messaging"]).await;
    let bob = Person::join(&open, "bob").await;
    let (link, _) = open.join("ada").await;
    let (ada, stop) = (Answers::new(false), CancellationToken::new());
    let task = tokio::spawn(work(link, ada.clone(), settings(), Ambient::system(), stop.clone()));
    let to = "ada".parse().unwrap();
    bob.desk.send_direct(&to, "hello").await.unwrap();
    bob.desk.post("general", "good morning all", None).await.unwrap();
    bob.desk.post("general", "and you, @ada?", None).await.unwrap();
    let heard = bob.hear_until(|message| message.way == Way::Reply).await;
    let direct = heard.iter().find(|message| message.way == Way::Direct).unwrap();
    assert_eq!((direct.text.as_str(), direct.hops), ("I heard: hello", 1), "{direct:?}");
    let reply = heard.iter().find(|message| message.way == Way::Reply).unwrap();
    assert_eq!(reply.channel.as_deref(), Some("general"));
    assert_eq!(reply.text, "I heard: and you, @ada?");
    bob.desk.about(reply).reply(reply, "thank you kindly").await.unwrap();
    bob.desk.react(&reply.id, "like").await.unwrap();
    let all = |heard: &[(Way, String)]| heard.iter().any(|(way, _)| *way == Way::Reaction);
    for _ in 0..100 {
        if all(&ada.heard.lock().unwrap()) {
            break;
        }
        bob.hear(Duration::from_millis(50)).await;
    }
    let ways: Vec<Way> = ada.heard.lock().unwrap().iter().map(|(way, _)| *way).collect();
    assert_eq!(ways, [Way::Direct, Way::Post, Way::Mention, Way::Reply, Way::Reaction]);
    stop.cancel();
    assert_eq!(task.await.unwrap().unwrap().handled, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_died_after_it_had_answered_answers_once() {
    let ground = Ground::new();
    let open = ground.open(&["messaging"]).await;
    let bob = Person::join(&open, "bob").await;
    let (link, member) = open.join("ada").await;
    let ada = Answers::new(true);
    let dying = tokio::spawn(work(link, ada.clone(), settings(), Ambient::system(), CancellationToken::new()));
    bob.desk.send_direct(&"ada".parse().unwrap(), "hello").await.unwrap();
    bob.hear_until(|message| message.text == "I heard: hello").await;
    dying.abort();
    assert!(dying.await.is_err());
    let stop = CancellationToken::new();
    let back = open.again(&member);
    let task = tokio::spawn(work(back, ada.clone(), settings(), Ambient::system(), stop.clone()));
    bob.desk.send_direct(&"ada".parse().unwrap(), "and again").await.unwrap();
    let heard = bob.hear_until(|message| message.text == "I heard: and again").await;
    assert!(!heard.iter().any(|message| message.text == "I heard: hello"), "{heard:?}");
    assert_eq!(ada.heard.lock().unwrap().len(), 3, "the message was handled again, and its answer was known");
    stop.cancel();
    task.await.unwrap().unwrap();
}

const SLOW: &str = r#"
[[entry]]
id = "answer"
prompt = ["bob says to you alone", "what is durable?"]
fault = { delay_ms = 3000 }
reply = "What is still there after a crash."
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_killed_while_the_model_answers_finishes_its_answer_once() {
    let ground = Ground::new();
    let open = ground.open(&["messaging"]).await;
    let told = model(SLOW).await;
    let bob = Person::join(&open, "bob").await;
    let (link, member) = open.join("ada").await;
    let started = open.start(file("ada"), link, told.model.clone()).await;
    bob.desk.send_direct(&"ada".parse().unwrap(), "what is durable?").await.unwrap();
    for _ in 0..200 {
        if !told.server.served().is_empty() {
            break;
        }
        bob.hear(Duration::from_millis(20)).await;
    }
    started.kill().await;
    let again = open.start(file("ada"), open.again(&member), told.model.clone()).await;
    let heard = bob.hear_until(|message| message.from == "ada").await;
    assert_eq!(heard.last().unwrap().text, "What is still there after a crash.");
    assert!(bob.hear(QUIET).await.is_empty(), "it is said once");
    again.end().await;
}

/// A connection that breaks off after the answer was sent, before anybody hears that it was.
#[derive(Debug)]
struct Broken {
    link: Arc<dyn Link>,
    broken: AtomicBool,
}

#[async_trait]
impl Link for Broken {
    fn agent(&self) -> &AgentId {
        self.link.agent()
    }

    fn network(&self) -> &str {
        self.link.network()
    }

    async fn send(&self, draft: Draft) -> Result<Reply, Refusal> {
        let is_answer = draft.name.as_str() == "thread.direct_message.send";
        let sent = self.link.send(draft).await;
        if is_answer && !self.broken.swap(true, Ordering::SeqCst) {
            assert!(sent.unwrap().success);
            return Err(Refusal::new(RefusalKind::Unavailable, "the connection broke off"));
        }
        sent
    }

    async fn receive(&self, max: usize, wait: Duration) -> Result<Vec<Arc<Event>>, Refusal> {
        self.link.receive(max, wait).await
    }

    fn tools(&self) -> Vec<NetworkTool> {
        self.link.tools()
    }

    async fn leave(&self) -> Result<(), Refusal> {
        self.link.leave().await
    }
}

const ANSWER: &str = r#"
[[entry]]
id = "answer"
prompt = ["bob says to you alone", "what is durable?"]
reply = "What is still there after a crash."
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_whose_receipt_was_lost_is_sent_again_and_is_one_event() {
    let ground = Ground::new();
    let open = ground.open(&["messaging"]).await;
    let told = model(ANSWER).await;
    let bob = Person::join(&open, "bob").await;
    let (link, _) = open.join("ada").await;
    let link = Arc::new(Broken { link, broken: AtomicBool::new(false) });
    let started = open.start(file("ada"), link.clone(), told.model.clone()).await;
    bob.desk.send_direct(&"ada".parse().unwrap(), "what is durable?").await.unwrap();
    bob.hear_until(|message| message.text == "What is still there after a crash.").await;
    assert!(bob.hear(Duration::from_millis(1_500)).await.is_empty(), "it is said once");
    assert!(link.broken.load(Ordering::SeqCst));
    assert_eq!(told.server.served().len(), 1, "the model was asked once");
    started.end().await;
}

const TOOLS: &str = r##"
[[entry]]
id = "post"
prompt = ["tell the others"]
turn = 0
[[entry.call]]
tool = "post_to_channel"
arguments = { channel = "general", text = "Bob has news for all of you." }

[[entry]]
id = "done"
prompt = ["tell the others"]
turn = 1
require = [{ in = "tool", text = "event_id" }]
reply = "I told them."
"##;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_model_does_with_its_tools_happens_once_and_in_the_network() {
    let ground = Ground::new();
    let open = ground.open(&["messaging"]).await;
    let told = model(TOOLS).await;
    let bob = Person::join(&open, "bob").await;
    let (link, _) = open.join("ada").await;
    let started = open.start(file("ada"), link, told.model.clone()).await;
    bob.desk.send_direct(&"ada".parse().unwrap(), "please tell the others").await.unwrap();
    let heard = bob.hear_until(|message| message.text == "I told them.").await;
    let posted: Vec<&Message> = heard.iter().filter(|message| message.way == Way::Post).collect();
    assert_eq!(posted.len(), 1, "{heard:?}");
    assert_eq!((posted[0].from.as_str(), posted[0].text.as_str()), ("ada", "Bob has news for all of you."));
    started.end().await;
}
