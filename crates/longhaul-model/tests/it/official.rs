//! The official Python clients of Anthropic and OpenAI judge the cassette server: `tests/sdks/judge.py`.

use std::{path::Path, process::Command};

use longhaul_model::{Cassette, CassetteServer, CassetteServerSettings, Secret};

use crate::stories::ambient;

/// With `LONGHAUL_TEST_MODEL_SDKS` set to a Python that has them, they play a story over each protocol.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_clients_find_nothing_wrong() {
    let Some(python) = std::env::var_os("LONGHAUL_TEST_MODEL_SDKS") else {
        println!("not tried: `scripts/peers.sh models` installs them, LONGHAUL_TEST_MODEL_SDKS names their Python");
        return;
    };
    let sdks = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdks");
    let story = Cassette::load(&sdks.join("story.toml")).unwrap();
    let settings = CassetteServerSettings { api_key: Some(Secret::new("sk-judge")), ..Default::default() };
    let server = CassetteServer::start(story, settings, &ambient()).await.unwrap();
    let mut judge = Command::new(python);
    judge.arg(sdks.join("judge.py")).args([server.origin(), "sk-judge".to_owned()]);
    let output = tokio::task::spawn_blocking(move || judge.output()).await.unwrap().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("plays the story, streamed and whole").count(), 3, "{said}");
}
