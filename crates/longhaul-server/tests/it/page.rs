//! The lines of docs/gateway.md, run as they stand there; and a client that has nothing but Python's standard library.

use std::process::Stdio;

use longhaul_server::keys::Role;
use tokio::process::Command;

use crate::{
    house::{House, scope},
    listening::{PATIENCE, task_scope, tell},
};

const PAGE: &str = include_str!("../../../../docs/gateway.md");

/// The blocks of the page that are marked to be run.
fn script() -> String {
    let mut script = "set -euo pipefail\n".to_owned();
    let mut runs = false;
    for line in PAGE.lines() {
        match line {
            "```sh" => runs = true,
            "```" => runs = false,
            line if runs => {
                script.push_str(line);
                script.push('\n');
            }
            _ => {}
        }
    }
    script
}

async fn run(mut command: Command) -> String {
    let running = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let done = tokio::time::timeout(PATIENCE, running).await.expect("it never ends").unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{}\n{out}\n{err}", done.status);
    out.into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pages_lines_work_as_they_stand_there() {
    let house = House::new().await;
    let key = house.key("acme", "ada", Role::Owner).await;
    let folder = tempfile::tempdir().unwrap();
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(script()).current_dir(folder.path()).env("LH", &house.url).env("KEY", &key);
    bash.env("no_proxy", "*");
    let out = run(bash).await;
    for said in ["7. Either party may end this contract", "flowchart", "retry: 1000", "not_awaited", "record.ingested"]
    {
        assert!(out.contains(said), "{said:?} is not in:\n{out}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_without_libraries_follows_a_task_and_comes_back() {
    const CLIENT: &str = r#"
import json, os, sys, urllib.request
url, key, last, seen = os.environ["LH"], os.environ["KEY"], None, []
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
print("ready", flush=True)
while len(seen) < 20:
    request = urllib.request.Request(url + "/v1/events?after=0", headers={
        "Authorization": "Bearer " + key, "Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})})
    with opener.open(request, timeout=30) as stream:
        for line in stream:
            line = line.decode().rstrip("\n")
            if line.startswith("id: "):
                last = line[4:]
            elif line.startswith("data: "):
                seen.append(json.loads(line[6:])["data"]["n"])
                if len(seen) % 6 == 0 or len(seen) == 20:
                    break
assert seen == list(range(20)), seen
print("all of them, once and in order")
"#;
    let house = House::new().await;
    let key = house.key("acme", "ada", Role::Viewer).await;
    let writing = async {
        for n in 0..20 {
            tell(&house.store, &task_scope(&scope("acme", "ada"), "t"), n).await;
        }
    };
    let mut python = Command::new("python3");
    python.arg("-c").arg(CLIENT).env("LH", &house.url).env("KEY", &key);
    let (out, ()) = tokio::join!(run(python), writing);
    assert!(out.contains("all of them"), "{out}");
}
