//! A real process, killed again and again: nothing recorded is done twice, nothing is lost, the end is the same.

use std::{
    collections::HashSet,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use longhaul_core::{Digest, EventDraft, Rng, SeededRng};
use longhaul_durable::{END, Effect, Graph, GraphBuilder, RunOptions, START};
use longhaul_store::values;
use serde_json::json;

use crate::support::{STORE, Words, completed, scope, store_for_child, thread, world};

const VICTIM: &str = "LONGHAUL_TEST_CRASH_DIR";
const SUPERSTEPS: u64 = 12;
const STEPS: usize = 5;

/// Each step's word follows from all words before it; each step's work says on stdout that it is being done.
fn chain() -> Graph<Words> {
    GraphBuilder::new("chain", 1)
        .node("link", |ctx, state: std::sync::Arc<Words>| async move {
            let mut words = state.words.clone();
            let before = words.len();
            for n in 0..STEPS {
                let name = format!("link {n}");
                let id = ctx.step_id(&name).within();
                let work = async {
                    println!("WORK {id}");
                    Ok(Digest::of(words.concat()).hex())
                };
                let link = ctx.step_tx(&name, Effect::Pure, work, |tx, word: &String| {
                    tx.execute("INSERT INTO notes (tenant_id, text) VALUES ('a', ?1)", &values![word])?;
                    let draft = EventDraft::business("link.made", json!({ "word": word }));
                    tx.append_event(&scope(), None, None, draft).map(drop)
                });
                words.push(link.await?);
            }
            Ok(words.split_off(before))
        })
        .edge(START, "link")
        .branch("link", &["link", END], |state| if state.count < SUPERSTEPS * STEPS as u64 { "link" } else { END })
        .build()
        .unwrap()
}

/// Not a test by itself: the process that is killed.
#[tokio::test]
async fn victim_process() {
    let Some(dir) = std::env::var_os(VICTIM) else { return };
    let state = completed(world(dir.as_ref()).await.run(&chain()).await);
    println!("WORK complete with {}", state.count);
}

/// Runs the process until it has begun this many pieces of work, kills it, and gives all the work it had begun; less
/// work than that means that it came to its end.
fn run_and_kill(dir: &Path, after: usize) -> Vec<String> {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::victim_process", "--nocapture"])
        .env(VICTIM, dir)
        .env(STORE, store_for_child(dir))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let mut work = Vec::new();
    for line in lines {
        // The test runner's own words may stand before ours in the same line.
        work.extend(line.unwrap().split_once("WORK ").map(|(_, what)| what.to_owned()));
        if work.len() == after {
            victim.kill().unwrap();
        }
    }
    victim.wait().unwrap();
    work
}

#[tokio::test]
async fn killed_at_random_moments_it_ends_as_if_it_had_not_been() {
    let undisturbed = tempfile::tempdir().unwrap();
    let expected = completed(world(undisturbed.path()).await.run(&chain()).await);

    let dir = tempfile::tempdir().unwrap();
    let rng = SeededRng::new(20);
    let mut kills = 0;
    loop {
        let world = world(dir.path()).await;
        let recorded: HashSet<String> = world.recorded().await.into_iter().collect();
        let after = 1 + (rng.next_u64() % 9) as usize;
        let work = run_and_kill(dir.path(), after);
        for piece in &work {
            assert!(!recorded.contains(piece), "{piece} was recorded and then done again");
        }
        assert!(!work.is_empty(), "a run made no progress after {} recorded steps", recorded.len());
        if work.last().is_some_and(|last| last.starts_with("complete")) {
            break;
        }
        kills += 1;
    }
    assert!(kills >= 5, "only {kills} kills hit");

    let world = world(dir.path()).await;
    let state: Words = world.runtime.state(&scope().scope, &thread()).await.unwrap().unwrap();
    assert_eq!(state, expected);
    // What belonged to the steps' transactions is there once each, in order.
    assert_eq!(world.notes().await, expected.words);
    let events = world.events().await;
    let made: Vec<_> = events.iter().filter(|e| e.kind == "link.made").map(|e| e.data["word"].as_str()).collect();
    assert_eq!(made, expected.words.iter().map(|word| Some(word.as_str())).collect::<Vec<_>>());
    let count = |kind: &str| events.iter().filter(|event| event.kind == kind).count();
    assert_eq!((count("execution.started"), count("execution.completed")), (1, 1));
    // The process is dead, so nobody holds the thread: nothing had to be waited for or cleaned up.
    completed(
        world
            .runtime
            .run(&chain(), &scope(), &"thread_2".parse().unwrap(), Words::default(), RunOptions::default())
            .await
            .unwrap(),
    );
}
