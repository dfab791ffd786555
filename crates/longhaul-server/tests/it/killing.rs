//! Servers that are killed: clients and receivers notice a pause and nothing else. Each server is a process of its own.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use longhaul_core::Scope;
use longhaul_server::{
    Server, ServerSettings,
    keys::{NewKey, Role},
};
use longhaul_store::StoreSettings;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    going_out::{Came, Receiver, quick},
    house::{client, gateway, open, scope},
    listening::{Sse, task_scope, tell},
};

/// The store's folder, for a test that is run as a server.
const FOLDER: &str = "LONGHAUL_TEST_SERVE_FOLDER";
const SERVES: &str = "killing::serves_for_another_test";

/// Not a test of its own: without the variable it does nothing.
#[test]
fn serves_for_another_test() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = open(StoreSettings::new(&folder)).await;
        let gateway = gateway(&store, quick());
        let server = Server::bind(gateway, ServerSettings::new("127.0.0.1:0".parse().unwrap())).await.unwrap();
        println!("serving {}", server.url());
        server.run(CancellationToken::new()).await;
    });
}

/// A server in a process of its own, which is killed when this is dropped.
struct Process {
    child: Child,
    url: String,
}

impl Process {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([SERVES, "--exact", "--nocapture", "--test-threads=1"]).env(FOLDER, folder);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.map_while(Result::ok).find_map(|line| Some(line.split_once("serving ")?.1.to_owned()));
        Self { url: url.expect("it ended before it served"), child }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ours() -> Scope {
    scope("acme", "ada")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_goes_on_where_the_killed_server_left_it() {
    const ALL: u64 = 120;
    let folder = tempfile::tempdir().unwrap();
    let store = open(StoreSettings::new(folder.path())).await;
    let keys = gateway(&store, quick());
    let key = keys.keys().create(NewKey { role: Role::Viewer, ..NewKey::first(ours()) }).await.unwrap();
    let key = key.secret.expose().to_owned();
    // What this process writes, another one tells of.
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..ALL {
                tell(&store, &task_scope(&ours(), "t"), n).await;
                if n % 10 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        })
    };
    let (mut seen, mut last) = (Vec::new(), None);
    let mut server = Process::start(folder.path());
    for kill_at in [10, 45, 80, ALL as usize] {
        let mut stream = Sse::open(&server.url, &key, "/v1/events?after=0", last).await.unwrap();
        while seen.len() < kill_at {
            let told = stream.told().await.unwrap();
            seen.push(told.data.unwrap()["data"]["n"].as_u64().unwrap());
        }
        last = stream.last;
        server.kill();
        // What was on its way when the server died may still arrive, and counts.
        while let Ok(Some(block)) = stream.block().await {
            if let Some(data) = block.data {
                seen.push(data["data"]["n"].as_u64().unwrap());
                last = stream.last;
            }
        }
        server = Process::start(folder.path());
    }
    writer.await.unwrap();
    assert_eq!(seen, (0..ALL).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_in_flight_when_the_server_is_killed_is_made_again_under_the_same_id() {
    let (folder, receiver) = (tempfile::tempdir().unwrap(), Receiver::new().await);
    let store = open(StoreSettings::new(folder.path())).await;
    let keys = gateway(&store, quick());
    let key = keys.keys().create(NewKey::first(ours())).await.unwrap().secret.expose().to_owned();
    let server = Process::start(folder.path());
    let new = json!({ "name": "n", "url": receiver.url, "types": ["test.told"] });
    let made = client().post(format!("{}/v1/webhooks/subscriptions", server.url)).bearer_auth(&key).json(&new);
    assert_eq!(made.send().await.unwrap().status(), 201);
    // The first message is taken and never answered.
    receiver.answer(&[0]);
    for n in 0..3 {
        tell(&store, &task_scope(&ours(), "t"), n).await;
    }
    let first = receiver.came(1).await;
    server.kill();
    for n in 3..5 {
        tell(&store, &task_scope(&ours(), "t"), n).await;
    }
    let _server = Process::start(folder.path());
    let came = receiver.came(6).await;
    assert_eq!(came.iter().map(Came::n).collect::<Vec<_>>(), [0, 0, 1, 2, 3, 4]);
    assert_eq!((came[0].id(), &came[0].bytes), (came[1].id(), &first[0].bytes));
}
