//! What an agent may spend: within a task and within a day, reserved before it is asked for.

use longhaul_core::Scope;
use longhaul_mods::agents::{TaskPurse, TokenBudget};

use super::ground::{Ground, Person, file, model};

const STORY: &str = r#"
[[entry]]
id = "first"
prompt = ["bob says to you alone", "question one"]
reply = "Answer one."

[[entry]]
id = "second"
prompt = ["bob says to you alone", "question two"]
reply = "Answer two."
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_could_cost_more_than_it_may_is_refused_before_the_model_is_asked() {
    let ground = Ground::new();
    let open = ground.open(&["messaging"]).await;
    let told = model(STORY).await;
    let bob = Person::join(&open, "bob").await;
    let (link, _) = open.join("ada").await;
    let mut ada = file("ada");
    ada.budget.per_task = Some(100);
    let started = open.start(ada, link, told.model.clone()).await;
    bob.desk.send_direct(&"ada".parse().unwrap(), "question one").await.unwrap();
    let heard = bob.hear_until(|message| message.from == "ada").await;
    let answer = heard.last().unwrap();
    assert_eq!(answer.failed.as_deref(), Some("budget: 100 tokens for one task"), "{answer:?}");
    assert!(told.server.served().is_empty(), "nothing was asked");
    started.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_agent_spent_on_one_task_is_gone_for_the_next_of_the_day() {
    let ground = Ground::new();
    let open = ground.open(&["messaging"]).await;
    let told = model(STORY).await;
    let bob = Person::join(&open, "bob").await;
    let (link, member) = open.join("ada").await;
    let mut ada = file("ada");
    ada.answer_tokens_max = 256;
    let started = open.start(ada.clone(), link, told.model.clone()).await;
    let to = "ada".parse().unwrap();
    bob.desk.send_direct(&to, "question one").await.unwrap();
    let heard = bob.hear_until(|message| message.text == "Answer one.").await;
    let purse = TaskPurse {
        store: open.store.clone(),
        scope: Scope::single_user(),
        network: "agents-net".to_owned(),
        agent: "ada".to_owned(),
        task: heard.last().unwrap().root.clone(),
        budget: TokenBudget::default(),
    };
    let spent = purse.spent().await.unwrap();
    assert!(spent.agent > 0 && spent.task == spent.agent, "{spent:?}");
    started.end().await;
    // What is left would do for the prompt, and not for the longest answer.
    ada.budget.per_agent = Some(spent.agent + 300);
    let again = open.start(ada, open.again(&member), told.model.clone()).await;
    bob.desk.send_direct(&to, "question two").await.unwrap();
    let heard = bob.hear_until(|message| message.from == "ada").await;
    let why = heard.last().unwrap().failed.clone().unwrap_or_default();
    assert_eq!(why, format!("budget: {} tokens of ada a day", spent.agent + 300));
    again.end().await;
}
