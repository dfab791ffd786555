//! The API's description: whole, true to what is served, and tried out by schemathesis where that is installed.

use std::{path::PathBuf, process::Stdio, time::Duration};

use longhaul_transports::{Limits, document};
use serde_json::{Value, json};

use crate::house::House;

/// How long requests are made up for, in seconds.
const SECONDS: &str = "30";

#[tokio::test]
async fn anybody_may_read_what_the_api_is() {
    let house = House::new().await;
    let described = house.get("/openapi.json").await;
    assert_eq!(described.status, 200);
    assert_eq!(described.body, serde_json::from_str::<Value>(document()).unwrap());
    let paths = described.body["paths"].as_object().unwrap();
    for path in [
        "/api/health",
        "/api/register",
        "/api/send_event",
        "/api/poll",
        "/api/unregister",
        "/api/events/stream",
        "/api/cache/upload",
        "/api/cache/download/{cache_id}",
        "/api/ack",
        "/metrics",
        "/healthz",
    ] {
        assert!(paths.contains_key(path), "{path}");
    }
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            assert!(operation["operationId"].is_string() && operation["summary"].is_string(), "{method} {path}");
            assert!(operation["responses"]["200"].is_object(), "{method} {path}");
        }
    }
}

/// Characters, not bytes: in any language a capability may be as long as the description says, and no longer.
#[tokio::test]
async fn capabilities_are_bounded_as_they_are_described() {
    let house = House::new().await;
    let api: Value = serde_json::from_str(document()).unwrap();
    let described = &api["components"]["schemas"]["RegisterIn"]["properties"]["capabilities"];
    let longest = usize::try_from(described["items"]["maxLength"].as_u64().unwrap()).unwrap();
    let most = usize::try_from(described["maxItems"].as_u64().unwrap()).unwrap();
    let register = async |name: &str, capabilities: Vec<String>| {
        house.post("/api/register", &json!({ "agent_id": name, "capabilities": capabilities })).await.status
    };
    assert_eq!(register("whole", vec!["能".repeat(longest); most]).await, 200);
    assert_eq!(register("long", vec!["能".repeat(longest + 1)]).await, 400);
    assert_eq!(register("many", vec!["x".to_owned(); most + 1]).await, 400);
}

/// With `LONGHAUL_TEST_SCHEMATHESIS` set to its program, thousands of requests that the description allows, and
/// thousands that it does not, find no answer that the description does not have. Others are tried with another
/// `LONGHAUL_TEST_SCHEMATHESIS_SEED`, more of them with `_EXAMPLES` for each operation and `_SECONDS` for all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_nothing() {
    let Some(program) = std::env::var_os("LONGHAUL_TEST_SCHEMATHESIS").map(PathBuf::from) else {
        println!(
            "not tried: `scripts/peers.sh schemathesis` installs it, LONGHAUL_TEST_SCHEMATHESIS names its program"
        );
        return;
    };
    let house = House::bounded(Limits {
        strangers_per_second: 1_000_000,
        registrations_per_second: 1_000_000,
        poll_wait_max: Duration::from_millis(50),
        ..Limits::default()
    })
    .await;
    let secret = house.join("schemathesis").await;
    let folder = tempfile::tempdir().unwrap();
    let mut command = tokio::process::Command::new(program);
    command.args(["run", &format!("{}/openapi.json", house.url)]);
    command.args(["--header", &format!("Authorization: Bearer schemathesis:{secret}")]);
    command.args([
        "--phases",
        "examples,coverage,fuzzing",
        "--max-time",
        &set("LONGHAUL_TEST_SCHEMATHESIS_SECONDS", SECONDS),
        "--max-examples",
        &set("LONGHAUL_TEST_SCHEMATHESIS_EXAMPLES", "20"),
        "--seed",
        &set("LONGHAUL_TEST_SCHEMATHESIS_SEED", "20261122"),
    ]);
    // A zero character deep in a value is refused in a sentence; JSON Schema has no words for that.
    command.args(["--generation-allow-x00", "false"]);
    // A stream has no end that it could wait for, and a member that leaves is none for the requests after it.
    command.args(["--exclude-path-regex", "/stream$|/unregister$"]);
    command.args(["--no-shrink", "--request-timeout", "20", "--suppress-health-check", "all", "--warnings", "off"]);
    command.current_dir(folder.path()).stdin(Stdio::null()).kill_on_drop(true);
    let ended =
        tokio::time::timeout(Duration::from_secs(3_000), command.output()).await.expect("it does not end").unwrap();
    let told = String::from_utf8_lossy(&ended.stdout).replace(&secret, "***");
    assert!(ended.status.success(), "{told}\n{}", String::from_utf8_lossy(&ended.stderr));
    println!("{}", told.lines().rev().take(20).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n"));
}

/// What the environment sets, or else what is usual.
fn set(name: &str, usual: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| usual.to_owned())
}
