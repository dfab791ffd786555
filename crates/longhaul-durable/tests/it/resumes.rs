//! Sixteen answers from two processes: one is accepted, and what became of the others is known.

use std::process::{Child, Command, Stdio};

use longhaul_core::Ambient;
use longhaul_durable::{
    Continued, DurableError, END, Graph, GraphBuilder, MIGRATIONS, Outcome, Runtime, START, Wait, WaitId,
};
use longhaul_store::{Store, StoreError};
use serde_json::json;

use crate::{
    ground::{Ground, on},
    support::{NOTES, Words, completed, scope},
};

on! { file, postgres: of_sixteen_answers_from_two_processes_one_is_accepted }

const PLACE: &str = "LONGHAUL_TEST_ANSWER_DIR";
const URL: &str = "LONGHAUL_TEST_ANSWER_URL";
const WAIT: &str = "LONGHAUL_TEST_ANSWER_WAIT";

fn graph() -> Graph<Words> {
    GraphBuilder::<Words>::new("asks", 1)
        .node("ask", |ctx, _| async move {
            let answer = ctx.pause_for::<String>(Wait::approval("who?")).await?;
            Ok(vec![answer.into_value().unwrap_or_default()])
        })
        .edge(START, "ask")
        .edge("ask", END)
        .build()
        .unwrap()
}

fn answerer(ground: &Ground, wait: &WaitId) -> Child {
    let (dir, url) = ground.address();
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "resumes::answering_process", "--nocapture"])
        .env(PLACE, dir)
        .env(URL, url)
        .env(WAIT, wait.as_str())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

async fn of_sixteen_answers_from_two_processes_one_is_accepted(ground: Ground) {
    let world = ground.world().await;
    let Outcome::Waiting(asked) = world.run(&graph()).await else { panic!("it does not wait") };
    let (one, other) = (answerer(&ground, &asked[0].id), answerer(&ground, &asked[0].id));
    let mut said = String::new();
    for process in [one, other] {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success());
        said.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    let count = |what: &str| said.matches(what).count();
    assert_eq!((count("ANSWER accepted"), count("ANSWER late")), (1, 15), "{said}");
    let attempts = world
        .store
        .read(|read| read.query("SELECT outcome FROM answers ORDER BY outcome", &[], |row| row.get::<String>(0)));
    let attempts = attempts.await.map_err(|error: StoreError| error).unwrap();
    assert_eq!((attempts.len(), attempts[0].as_str(), attempts[1].as_str()), (16, "accepted", "late"));
    let known = world.runtime.wait(&scope().scope, &asked[0].id).await.unwrap();
    let by = known.actor.unwrap();
    assert!(said.contains(&format!("ANSWER accepted {by}")), "{by}: {said}");
    assert_eq!(completed(world.run(&graph()).await), Words::of(&[&by]));
}

/// Not a test by itself: one of the two processes above.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answering_process() {
    let (Ok(dir), Ok(url), Ok(wait)) = (std::env::var(PLACE), std::env::var(URL), std::env::var(WAIT)) else { return };
    let wait: WaitId = wait.parse().unwrap();
    let store = Store::open(Ground::settings(&dir, &url), Ambient::system(), &[MIGRATIONS, NOTES]).await.unwrap();
    let runtime = Runtime::new(store, Ambient::system());
    let answers = (0..8).map(|n| {
        let (runtime, wait) = (runtime.clone(), wait.clone());
        tokio::spawn(async move {
            let actor = format!("{}-{n}", std::process::id());
            let answered = runtime.continue_with(&scope().scope, &wait, json!(actor), &actor, &actor).await;
            match answered {
                Ok(Continued::Accepted(_)) => println!("\nANSWER accepted {actor}"),
                Err(DurableError::AlreadyAnswered { actor: Some(_), .. }) => println!("\nANSWER late"),
                other => panic!("{other:?}"),
            }
        })
    });
    for answer in answers.collect::<Vec<_>>() {
        answer.await.unwrap();
    }
}
