//! Research: one question a session, each verified against the store, and a memo whose every citation resolves.

use longhaul_core::{Ambient, TaskScope};
use longhaul_durable::{Runtime, replay::Redaction};
use longhaul_memory::Memory;
use longhaul_store::{Store, StoreSettings};
use longhaul_workspace::Workspace;

use crate::processes::{args, run};

#[path = "../../examples/research/main.rs"]
mod example;

/// Not a test by itself: the example's process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process() {
    let Some(args) = args() else { return };
    example::run(&args.iter().map(String::as_str).collect::<Vec<_>>()).await.unwrap();
}

const PROCESS: &str = "research::process";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_session_verifies_one_question_and_the_memo_cites_what_holds() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().to_str().unwrap();
    let mut told = String::new();
    for verified in 1..=3 {
        let session = run(PROCESS, &[at], None);
        assert!(session.success, "{}", session.out);
        assert!(session.out.contains(&format!("{verified} of 4 questions are verified")), "{}", session.out);
        told.push_str(&session.out);
    }
    // Killed in the midst of the last question, it is verified all the same.
    let killed = run(PROCESS, &[at], Some("energy: "));
    assert!(killed.killed, "{}", killed.out);
    let last = run(PROCESS, &[at], None);
    assert!(last.success && last.out.contains("written to "), "{}", last.out);
    let over = run(PROCESS, &[at], None);
    assert!(over.success && over.out.contains("the memo is written"), "{}", over.out);

    // What a neighbour says is refuted by better sources: the first answer was refused.
    assert!(told.contains("cost: 2 claims, first answer: What did building it cost? 95 million euros"), "{told}");
    assert!(told.contains("refused: ") && told.contains("refutes it"), "{told}");
    let memo = std::fs::read_to_string(dir.path().join("memo.md")).unwrap();
    for part in ["48 MW", "2019 [rec_", "61 million euros", "131 GWh"] {
        assert!(memo.contains(part), "{part} is missing from {memo}");
    }
    assert!(!memo.contains("42 MW") && !memo.contains("95 million"), "{memo}");

    let migrations = [longhaul_durable::MIGRATIONS, longhaul_memory::MIGRATIONS, longhaul_workspace::MIGRATIONS];
    let store =
        Store::open(StoreSettings::new(dir.path().join("store")), Ambient::system(), &migrations).await.unwrap();
    let scope = TaskScope { task: "task_northbank".parse().unwrap(), ..TaskScope::single_user() };
    let runtime = Runtime::new(store.clone(), Ambient::system());
    let task = Workspace::new(store.clone(), Memory::new(store, None)).task(&scope);
    let sentences: Vec<&str> = memo.lines().filter_map(|line| line.strip_prefix("- ")).collect();
    assert_eq!(sentences.len(), 4);
    for sentence in &sentences {
        assert_eq!(example::verifier::problem(&task, sentence).await.unwrap(), None, "{sentence}");
    }
    // The verifier believes no words: another number, no citation, a record that is none.
    for (wrong, why) in [
        (sentences[0].replacen("48", "52", 1), "does not say 48"),
        (sentences[0].split('[').next().unwrap().to_owned(), "cites nothing"),
        (sentences[0].replace("[rec_", "[rec_0"), "cannot be read"),
    ] {
        let problem = example::verifier::problem(&task, &wrong).await.unwrap().unwrap();
        assert!(problem.contains(why), "{wrong}: {problem}");
    }

    // Six sessions and a kill are one case.
    let execution = runtime.find(&scope.scope, &"northbank".parse().unwrap()).await.unwrap().unwrap();
    let case = runtime.record_case(&scope.scope, &execution.id, &Redaction::none()).await.unwrap();
    let replayed = example::replayer().replay(&case).await.unwrap();
    assert_eq!((replayed.difference.as_ref(), replayed.passes()), (None, true), "{replayed:#?}");
}
