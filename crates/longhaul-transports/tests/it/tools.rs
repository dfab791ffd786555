//! MCP: the mods' events as tools, each in the name of the member that calls.

use longhaul_transports::{Extra, ServingSettings};
use reqwest::Method;
use serde_json::{Value, json};

use crate::house::{Answer, House, SESAME, send, settings, texts};

async fn call(house: &House, bearer: Option<&str>, body: &Value) -> Answer {
    let mut request = house.request(Method::POST, "/mcp").json(body);
    request =
        request.header("accept", "application/json, text/event-stream").header("mcp-protocol-version", "2026-07-28");
    request = request.header("mcp-method", body["method"].as_str().unwrap());
    if let Some(name) = body["params"]["name"].as_str() {
        request = request.header("mcp-name", name);
    }
    if let Some(bearer) = bearer {
        request = request.bearer_auth(bearer);
    }
    let mut answer = send(request).await;
    // One message of a stream, or the message itself.
    if let Value::String(text) = &answer.body
        && let Some(data) =
            text.lines().filter_map(|line| line.strip_prefix("data: ")).rfind(|data| data.starts_with('{'))
    {
        answer.body = serde_json::from_str(data).unwrap();
    }
    answer
}

fn request(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

#[tokio::test]
async fn a_members_tools_are_the_mods_and_act_in_its_name() {
    let house = House::new().await;
    let (alice, bob) = (house.join("alice").await, house.join("bob").await);
    let bearer = format!("alice:{alice}");
    let listed = call(&house, Some(&bearer), &request("tools/list", json!({}))).await;
    let tools = listed.body["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed:?}"));
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["shout", "echo", "send_event", "receive_events"]);
    assert_eq!(tools[1]["annotations"]["readOnlyHint"], true);

    let said =
        call(&house, Some(&bearer), &request("tools/call", json!({ "name": "echo", "arguments": { "text": "hi" } })))
            .await;
    assert_eq!(said.body["result"]["structuredContent"]["data"], json!({ "text": "hi", "from": "alice" }), "{said:?}");
    call(&house, Some(&bearer), &request("tools/call", json!({ "name": "shout", "arguments": { "text": "hello" } })))
        .await;
    assert_eq!(texts(&house.poll("bob", &bob).await), ["HELLO"]);
    let wrong = call(&house, Some(&bearer), &request("tools/call", json!({ "name": "shout", "arguments": {} }))).await;
    assert_eq!(wrong.body["result"]["isError"], true, "{wrong:?}");

    house.say("bob", &bob, "b1", "agent:alice", "psst").await;
    let received = call(
        &house,
        Some(&bearer),
        &request("tools/call", json!({ "name": "receive_events", "arguments": { "wait_seconds": 5 } })),
    )
    .await;
    let events =
        received.body["result"]["structuredContent"]["events"].as_array().unwrap_or_else(|| panic!("{received:?}"));
    assert!(texts(events).contains(&"psst"), "{events:?}");
    for wrong in ["alice:wrong", "alice", &format!("bob:{alice}")] {
        let refused = call(&house, Some(wrong), &request("tools/list", json!({}))).await;
        assert_eq!(refused.status, 401, "{wrong}: {refused:?}");
    }
}

#[tokio::test]
async fn programs_without_a_name_share_one_and_see_what_they_may() {
    let mut open = settings();
    open.rest.insert("external_access".to_owned(), json!({ "excluded_tools": ["shout"], "instruction": "Be kind." }));
    let house = House::with(open, ServingSettings::anywhere(), Extra::default()).await;
    let listed = send(house.request(Method::GET, "/mcp/tools")).await;
    let names: Vec<&str> =
        listed.body["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["echo", "send_event", "receive_events"]);
    let said =
        call(&house, None, &request("tools/call", json!({ "name": "echo", "arguments": { "text": "hi" } }))).await;
    let from = said.body["result"]["structuredContent"]["data"]["from"]
        .as_str()
        .unwrap_or_else(|| panic!("{said:?}"))
        .to_owned();
    assert!(from.starts_with("mcp-"), "{from}");
    let found = call(&house, None, &request("server/discover", json!({}))).await;
    assert!(found.body["result"]["instructions"].as_str().is_some_and(|text| text.ends_with("Be kind.")), "{found:?}");
    let House { serving, network, .. } = house;
    assert!(network.agent(&from.parse().unwrap()).is_some());
    serving.stop().await;
    assert!(network.agent(&from.parse().unwrap()).is_none(), "who stood for others has left");
}

#[tokio::test]
async fn a_token_is_asked_for_where_there_is_one() {
    let mut closed = settings();
    closed.rest.insert(
        "external_access".to_owned(),
        json!({ "auth_token": "a-long-enough-token", "default_agent_group": "admin" }),
    );
    let house = House::with(closed, ServingSettings::anywhere(), Extra::default()).await;
    let list = request("tools/call", json!({ "name": "echo", "arguments": { "text": "hi" } }));
    for bearer in [None, Some("wrong"), Some("")] {
        assert_eq!(call(&house, bearer, &list).await.status, 401, "{bearer:?}");
    }
    let said = call(&house, Some("a-long-enough-token"), &list).await;
    let from = said.body["result"]["structuredContent"]["data"]["from"]
        .as_str()
        .unwrap_or_else(|| panic!("{said:?}"))
        .to_owned();
    assert_eq!(house.network.agent(&from.parse().unwrap()).unwrap().group, "admin");
    // Sessions of the older lifecycle belong to whoever began them.
    let boss = house.post("/api/register", &json!({ "agent_id": "boss", "password_hash": SESAME })).await;
    let boss = format!("boss:{}", boss.body["secret"].as_str().unwrap());
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } });
    let post = |bearer: &str, session: Option<&str>, body: &Value| {
        let mut request = house.request(Method::POST, "/mcp").json(body).bearer_auth(bearer);
        request = request.header("accept", "application/json, text/event-stream");
        if let Some(session) = session {
            request = request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-11-25");
        }
        send(request)
    };
    let begun = post(&boss, None, &initialize).await;
    assert_eq!(begun.status, 200, "{begun:?}");
    let session = begun.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let told = post(&boss, Some(&session), &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    assert_eq!(told.status, 202);
    let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
    assert_eq!(post(&boss, Some(&session), &ping).await.status, 200);
    assert_eq!(post("a-long-enough-token", Some(&session), &ping).await.status, 404, "another's session is none");
}
