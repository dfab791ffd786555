//! The API's description: whole, true to what is served, and tried out by schemathesis where that is installed.

use std::{path::PathBuf, process::Stdio, time::Duration};

use longhaul_server::{Limits, document, keys::Role};
use reqwest::Method;
use serde_json::{Value, json};

use crate::house::{House, send};

/// How long requests are made up for, in seconds.
const SECONDS: &str = "90";

#[tokio::test]
async fn anybody_may_read_what_the_api_is_and_nobody_else_is_told_more() {
    let house = House::new().await;
    let described = send(house.request(Method::GET, "/v1/openapi.json")).await;
    assert_eq!(described.status, 200);
    assert_eq!(described.body, serde_json::from_str::<Value>(document()).unwrap());
    assert_eq!(send(house.request(Method::GET, "/health")).await.body, json!({ "status": "ok" }));
    let paths = described.body["paths"].as_object().unwrap();
    for (path, item) in paths {
        for (method, operation) in item.as_object().unwrap() {
            let open = matches!(path.as_str(), "/health" | "/v1/openapi.json");
            assert_eq!(operation["security"].is_null(), open, "{method} {path}");
            assert!(operation["responses"]["default"].is_object(), "{method} {path} says nothing of problems");
            assert!(operation["operationId"].is_string() && operation["summary"].is_string(), "{method} {path}");
            // What comes in from outside has a signature in place of a key.
            if open || path.starts_with("/v1/hooks/") {
                continue;
            }
            let method: Method = method.to_uppercase().parse().unwrap();
            let filled: String = path
                .split('/')
                .map(|part| if part.starts_with('{') { "x" } else { part })
                .collect::<Vec<_>>()
                .join("/");
            let answer = send(house.request(method.clone(), &filled)).await;
            assert_eq!(answer.status, 401, "{method} {filled} is open");
        }
    }
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
    let house = House::with(Limits {
        requests_per_second: 1_000_000,
        requests_burst: 1_000_000,
        strangers_per_second: 1_000_000,
        ..Limits::default()
    })
    .await;
    let key = house.key("acme", "ada", Role::Owner).await;
    let mut command = tokio::process::Command::new(program);
    command.args([
        "run",
        &format!("{}/v1/openapi.json", house.url),
        "--header",
        &format!("Authorization: Bearer {key}"),
    ]);
    command.args([
        "--phases",
        "examples,coverage,fuzzing",
        "--max-time",
        &set("LONGHAUL_TEST_SCHEMATHESIS_SECONDS", SECONDS),
        "--max-examples",
        &set("LONGHAUL_TEST_SCHEMATHESIS_EXAMPLES", "20"),
        "--seed",
        &set("LONGHAUL_TEST_SCHEMATHESIS_SEED", "20261121"),
    ]);
    // A zero character deep in a value is refused in a sentence; JSON Schema has no words for that.
    command.args(["--generation-allow-x00", "false"]);
    // Streams have no end that it could wait for; `streams` tries those.
    command.args(["--exclude-path-regex", "/events$"]);
    command.args(["--no-shrink", "--request-timeout", "20", "--suppress-health-check", "all", "--warnings", "off"]);
    command.current_dir(house.dir.path()).stdin(Stdio::null()).kill_on_drop(true);
    let ended =
        tokio::time::timeout(Duration::from_secs(3_000), command.output()).await.expect("it does not end").unwrap();
    let told = String::from_utf8_lossy(&ended.stdout).replace(&key, "***");
    assert!(ended.status.success(), "{told}\n{}", String::from_utf8_lossy(&ended.stderr));
    println!("{}", told.lines().rev().take(20).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n"));
}

/// What the environment sets, or else what is usual.
fn set(name: &str, usual: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| usual.to_owned())
}
