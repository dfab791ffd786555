//! A command of the model's sees its project and its application, and nothing else: not the cassette's server, not
//! another port of this machine, not the store.

use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

use crate::stage::{Ended, ISOLATION, Running, Stage};

#[test]
fn a_command_reaches_its_application_and_nothing_else() {
    let stage = Stage::new();
    let stand_in = TcpListener::bind("127.0.0.1:0").unwrap();
    let stand_in_port = stand_in.local_addr().unwrap().port();
    let (server, cassette_port) = serve(&stage, stand_in_port);

    let mut init = stage.command(&["init", "look around", "--dir", "app", "--model", "openai:cassette-isolation"]);
    init.arg("--base-url").arg(format!("http://127.0.0.1:{cassette_port}/v1"));
    let ended = Ended::of(init.env("OPENAI_API_KEY", "sk-of-the-story"));
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    for port in [stand_in_port, cassette_port] {
        TcpStream::connect(("127.0.0.1", port)).expect("outside the sandbox the port is open");
    }
    assert!(stage.path("home/longhaul.db").exists(), "outside the sandbox the store is there");
    drop(server);

    let found = stage.json("app/found.json");
    assert!(found["application"].as_str().unwrap().contains("I am the application"), "{found}");
    assert_eq!(found["open_ports"], json!([found["own_port"]]), "only the application's own port is open");
    for host in ["stand_in", "cassette_server"] {
        assert!(["ECONNREFUSED", "itself"].contains(&found[host].as_str().unwrap()), "{host}: {found}");
    }
    assert_eq!(found["interfaces"], json!(["lo"]));
    for hidden in ["home", "home_of_first_process", "database"] {
        assert!(["ENOENT", "EACCES"].contains(&found[hidden].as_str().unwrap()), "{hidden}: {found}");
    }
    assert_eq!(found["write_to_git"], "EROFS", "{found}");
    assert!(!stage.path("planted").exists(), "what it wrote beside the project is gone with the sandbox");
    assert_eq!(found["write_in_project"], 1, "the project itself can be written: {found}");
    assert_ne!(found["uid"], 0);
    assert_eq!(found["key_seen"], false);
}

/// Serves the story on a port that it knows itself. Another process may take a free port before the server does: then
/// another one is tried.
fn serve(stage: &Stage, stand_in: u16) -> (Running, u16) {
    for _ in 0..5 {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let story = ISOLATION
            .replace("@HOME@", stage.path("home").to_str().unwrap())
            .replace("@STAND_IN@", &stand_in.to_string())
            .replace("@CASSETTE_SERVER@", &port.to_string());
        stage.write("story.toml", &story);
        let number = port.to_string();
        let server =
            Running::start(&mut stage.command(&["cassette", "serve", "story.toml", "--port", &number, "--json"]));
        if server.first_line().is_some_and(|line: Value| line["base_url"].is_string()) {
            return (server, port);
        }
    }
    panic!("the cassette cannot be served");
}
