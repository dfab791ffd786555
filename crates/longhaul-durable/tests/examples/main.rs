//! The examples as their readers run them: real processes, killed where the story has it.
//!
//! `cargo test` builds the examples beside this binary; `cargo test --test examples` alone does not build them again.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// How an example ended.
#[cfg(test)]
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

#[cfg(test)]
impl Ended {
    /// Its output, if it succeeded.
    fn said(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        self.stdout
    }
}

#[cfg(test)]
fn run(example: &str, arguments: &[&str], store: Option<&Path>) -> Ended {
    let folder = env::current_exe().unwrap().parent().and_then(Path::parent).unwrap().join("examples");
    let program: PathBuf = folder.join(example);
    assert!(program.exists(), "build {} first: cargo build -p longhaul-durable --examples", program.display());
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(store) = store {
        command.arg("--store").arg(store);
    }
    let output = command.output().unwrap();
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn hello_goes_on_after_its_death() {
    let folder = tempfile::tempdir().unwrap();
    let died = run("hello", &["--crash"], Some(folder.path()));
    assert_eq!(died.code, Some(137), "{}", died.stderr);
    assert_eq!(died.stdout, "step 1 runs: thinking of a greeting\nthe process dies\n");
    assert_eq!(
        run("hello", &[], Some(folder.path())).said(),
        "step 2 runs: looking at the weather\n\
         1 of 2 steps had been recorded by an earlier process\n\
         Hello, Ada! It rains.\n"
    );
    // The thread's execution is complete: the next is another one.
    assert!(run("hello", &[], Some(folder.path())).said().starts_with("step 1 runs"));
}

#[test]
fn approval_waits_and_says_how_to_answer() {
    let folder = tempfile::tempdir().unwrap();
    let asked = run("approval", &[], Some(folder.path())).said();
    assert!(asked.starts_with("drafting"), "{asked}");
    let command = asked.lines().find(|line| line.contains("longhaul approve wait_")).unwrap();
    assert!(command.ends_with(&format!("--store {}", folder.path().display())), "{command}");

    // Nothing has been answered: the same wait, and the draft is not made again.
    let again = run("approval", &[], Some(folder.path())).said();
    assert!(again.contains(command.trim()) && !again.contains("drafting"), "{again}");

    let approved = run("approval", &["--approve"], Some(folder.path())).said();
    assert_eq!(
        approved,
        "publishing \"Ten things nobody tells you about moss\"\n\
         Ten things nobody tells you about moss: approved by the person at the keyboard\n"
    );
    // A double click.
    let again = run("approval", &["--approve"], Some(folder.path())).said();
    assert_eq!(again, "that was answered before, by the person at the keyboard\n");
    let other = run("approval", &["--reject"], Some(folder.path()));
    assert!(other.code != Some(0) && other.stdout.is_empty(), "it was approved: {}", other.stdout);
}

#[test]
fn what_is_rejected_is_not_published() {
    let folder = tempfile::tempdir().unwrap();
    run("approval", &[], Some(folder.path())).said();
    let rejected = run("approval", &["--reject"], Some(folder.path())).said();
    assert_eq!(rejected, "Ten things nobody tells you about moss: rejected by the person at the keyboard\n");
}

#[test]
fn the_siblings_of_a_failed_task_do_not_run_again() {
    let said = run("fan_out", &[], None).said();
    let (picture, runs) = said.split_once("run 1\n").unwrap();
    assert!(picture.contains("research") && picture.contains("write"), "{picture}");
    let (first, second) = runs.split_once("run 2\n").unwrap();
    for topic in ["whales", "volcanoes", "cathedrals"] {
        assert_eq!(first.matches(&format!("researches {topic}")).count(), 1, "{first}");
    }
    assert!(first.ends_with("research failed: the volcano room is closed today\n"), "{first}");
    assert_eq!(
        second,
        "  task 2 researches volcanoes\n\
         On cathedrals (a picture, framed): whales are older than you think; volcanoes are older than you think; \
         cathedrals are older than you think\n"
    );
}

#[test]
fn a_payment_cut_off_in_the_middle_is_settled_and_made_once() {
    let folder = tempfile::tempdir().unwrap();
    let said = run("payment_with_reconcile", &[], Some(folder.path())).said();
    let (person, probe) = said.split_once("order-2: ").unwrap();
    assert!(person.contains("nobody knows what became of exec_"), "{person}");
    assert!(person.contains("/pay/1/charge#1"), "{person}");
    assert!(person.contains("completed with: receipt of order-1, seen by a person"), "{person}");
    assert!(!probe.contains("nobody knows"), "{probe}");
    assert!(probe.contains("the step asks the bank about order-2\n  completed with: receipt of order-2\n"), "{probe}");
    assert!(said.ends_with("the bank's book:\norder-1 paid 42 EUR\norder-2 paid 42 EUR\n\n"), "{said}");
}

#[test]
fn the_second_machine_goes_on_where_the_first_was_killed() {
    let said = run("resume_on_other_machine", &[], None).said();
    let (first, second) = said.split_once("machine A is killed in the middle of chapter 4\n").unwrap();
    assert!(first.ends_with("machine A translates chapter 4\n"), "{first}");
    for chapter in 1..=3 {
        assert!(!second.contains(&format!("translates chapter {chapter}\n")), "{second}");
    }
    assert!(
        second.ends_with(
            "machine B is done: 1 by machine A, 2 by machine A, 3 by machine A, 4 by machine B, 5 by machine B, \
             6 by machine B\n"
        ),
        "{second}"
    );
}

#[test]
fn the_agent_uses_its_tools_and_remembers_the_conversation() {
    assert_eq!(
        run("react_agent", &[], None).said(),
        "you    Which is warmer, Oslo or Turin?\n\
         agent  Let me look.\n\
         tool   Oslo: 3 °C\n\
         tool   Turin: 19 °C\n\
         agent  Turin, at 19 °C.\n\
         you    Where should I go, then?\n\
         agent  Turin, at 19 °C.\n"
    );
}

#[test]
fn each_says_at_its_top_how_to_run_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for example in ["hello", "approval", "fan_out", "payment_with_reconcile", "resume_on_other_machine", "react_agent"]
    {
        let text = std::fs::read_to_string(folder.join(format!("{example}.rs"))).unwrap();
        let top: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        assert!(top.contains(&format!("cargo run -p longhaul-durable --example {example}")), "{example}");
        assert!(text.lines().count() <= 120, "{example} is too long to be read at once");
    }
}
