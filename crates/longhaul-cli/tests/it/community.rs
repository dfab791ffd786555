//! Agents in a network as a person meets them: the community of `demo network`, a person who chats, an agent of a file.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Stdio},
};

use serde_json::Value;

use crate::program::Account;

fn lines(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

#[test]
fn a_community_answers_together_and_then_from_memory() {
    let account = Account::new();
    let ended = account.run(&["demo", "network", "--dir", "net", "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let told = lines(&ended.out);
    let answers: Vec<&Value> = told.iter().filter(|line| line.get("answered").is_some()).collect();
    let from_memory: Vec<bool> = answers.iter().map(|line| line["from_memory"].as_bool().unwrap()).collect();
    assert_eq!(from_memory, [false, true, false], "{}", ended.out);
    assert!(answers.iter().all(|line| line["answered"] == true), "{}", ended.out);
    let said = |channel: &str, from: &str| told.iter().any(|line| line["channel"] == channel && line["from"] == from);
    for expert in ["python", "milvus", "devops"] {
        assert!(said(&format!("{expert}_channel"), &format!("{expert}_expert")), "{expert}: {}", ended.out);
    }
    let remembered = &told.last().unwrap()["remembered"];
    let counts = ["expert_knowledge", "collaboration_history", "problem_solutions"].map(|name| &remembered[name]);
    assert_eq!(counts, [4, 4, 2], "{remembered}");
    // In the same folder everything is known: no model is asked, so one that is not there does no harm.
    let again = account.run(&["demo", "network", "--dir", "net", "--json", "--ask", QUESTION]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.out.contains(r#""from_memory":true"#), "{}", again.out);
}

const QUESTION: &str = "Which Milvus index should I take for ten million vectors?";

const AGENT: &str = r#"
agent_id: helper
config:
  provider: cassette
  model_name: helper.cassette.toml
  instruction: You help.
longhaul: {description: helps}
"#;

const HELPS: &str = r#"
cassette = 1
title = "a helper"
[[entry]]
id = "help"
prompt = ["bob asks you in #general", "@helper what is the time?"]
require = [{ in = "system", text = "You help." }]
reply = "Time to write a test."
"#;

/// A child that is ended by its id, and the lines it prints.
struct Running(Child, std::io::Lines<BufReader<std::process::ChildStdout>>);

impl Running {
    fn start(account: &Account, args: &[&str]) -> Self {
        let mut child = account.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self(child, out.lines())
    }

    fn until(&mut self, part: &str) -> String {
        let mut seen = String::new();
        for line in self.1.by_ref() {
            let line = line.unwrap();
            if line.contains(part) {
                return line;
            }
            seen.push_str(&line);
            seen.push('\n');
        }
        panic!("it ended without {part:?}:\n{seen}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_person_chats_with_an_agent_of_a_file_over_http() {
    let account = Account::new();
    account.write("helper.yaml", AGENT);
    account.write("helper.cassette.toml", HELPS);
    let mut community = Running::start(&account, &["demo", "network", "--dir", "net", "--stay", "--ask", QUESTION]);
    let joined = community.until("join with: longhaul network chat --url ");
    let url = joined.split("--url ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let mut agent = Running::start(&account, &["agent", "start", "helper.yaml", "--url", &url]);
    agent.until("helper is in community");
    let mut chat = Running::start(&account, &["network", "chat", "--url", &url, "--as", "bob", "--linger", "30"]);
    chat.until("bob is in community");
    let mut typed = chat.0.stdin.take().unwrap();
    writeln!(typed, "@helper what is the time?").unwrap();
    chat.until("helper: Time to write a test.");
    writeln!(typed, "/agents").unwrap();
    chat.until("helper");
    writeln!(typed, "/quit").unwrap();
    assert!(chat.0.wait().unwrap().success());
}

#[test]
fn what_makes_no_sense_is_refused_before_anybody_joins() {
    let account = Account::new();
    account.write("nameless.yaml", "config:\n  instruction: Help.\n");
    account.write("torn.yaml", "agent_id: [a\n");
    account.write("fine.yaml", "agent_id: helper\nconfig:\n  instruction: Help.\n  model_name: \"openai:m\"\n");
    let nobody = "http://127.0.0.1:9";
    for (args, code, says) in [
        (&["agent", "start", "none.yaml"][..], 2, "cannot read the agent's file none.yaml"),
        (&["agent", "start", "nameless.yaml"], 2, "nameless.yaml makes no sense"),
        (&["agent", "start", "torn.yaml"], 2, "the agent's file is no YAML"),
        (&["agent", "start", "fine.yaml", "--id", "a b"], 2, "\"a b\""),
        (&["network", "chat", "--url", nobody, "--as", "a b"], 2, "\"a b\""),
        (&["network", "chat", "--url", nobody, "--as", "ada"], 1, "127.0.0.1:9"),
        (&["network", "start", "nowhere"], 2, "nowhere"),
    ] {
        let ended = account.run(args);
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{args:?}: {ended:?}");
        assert!(ended.err.contains(says), "{args:?}: {}", ended.err);
    }
}
