//! A mod that is a process of its own, in another language: it joins over HTTP and answers.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use longhaul_network::settings::GroupSettings;
use longhaul_transports::{Extra, ServingSettings};
use serde_json::{Value, json};

use crate::house::{House, SESAME, settings};

/// Ended with the test.
struct Script(Child);

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(url: &str) -> Script {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../longhaul-mods/examples/external_mod.py");
    let mut command = Command::new("python3");
    command.arg(script).args([url, "mods", "open sesame"]).stdout(Stdio::piped());
    let mut script = Script(command.spawn().expect("python3 starts"));
    let mut line = String::new();
    let out = script.0.stdout.take().expect("its output");
    BufReader::new(out).read_line(&mut line).expect("a line");
    assert_eq!(line.trim(), "ready");
    script
}

#[tokio::test]
async fn a_process_of_another_language_is_a_mod() {
    let mut settings = settings();
    settings.groups.clear();
    let group = GroupSettings {
        credential: Some(SESAME.to_owned()),
        permissions: vec!["mod".to_owned()],
        ..GroupSettings::default()
    };
    settings.groups.insert("mods".to_owned(), group);
    let house = House::with(settings, ServingSettings::anywhere(), Extra::default()).await;
    let url = house.url.clone();
    let script = tokio::task::spawn_blocking(move || start(&url)).await.expect("the mod joins");
    let secret = house.join("alice").await;
    let roll = |id: &str, payload: Value| {
        json!({
            "event_id": id, "event_name": "dice.roll", "source_id": "alice", "secret": secret,
            "target_agent_id": "mod:example.mods.dice", "requires_response": true, "payload": payload,
        })
    };
    let answer = house.post("/api/send_event", &roll("r-1", json!({"sides": 20}))).await;
    assert_eq!(answer.body["success"], true, "{answer:?}");
    let rolled = answer.body["data"]["roll"].as_i64().expect("a roll");
    assert!((1..=20).contains(&rolled), "{answer:?}");
    // The same id again is the same roll.
    let again = house.post("/api/send_event", &roll("r-1", json!({"sides": 20}))).await;
    assert_eq!(again.body["data"]["roll"], rolled);
    let wrong = house.post("/api/send_event", &roll("r-2", json!({"sides": "many"}))).await;
    assert_eq!(wrong.body["success"], false, "{wrong:?}");
    assert!(wrong.body["message"].as_str().expect("why").contains("payload.sides"), "{wrong:?}");
    drop(script);
}
