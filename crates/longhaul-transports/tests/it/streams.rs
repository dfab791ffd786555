//! Server-sent events and WebSocket: pushed as they come, resumed where they broke.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use longhaul_network::settings::GroupSettings;
use longhaul_transports::{Extra, Limits, ServingSettings};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Error, Message, client::IntoClientRequest as _, protocol::frame::coding::CloseCode},
};

use crate::house::{House, SESAME, message, settings};

const PATIENCE: Duration = Duration::from_secs(20);

/// A stream of server-sent events, read line by line.
struct Sse {
    response: reqwest::Response,
    rest: String,
}

impl Sse {
    async fn open(house: &House, agent: &str, secret: &str, query: &str, last: Option<&str>) -> Self {
        let path = format!("/api/events/stream{query}");
        let mut request = house.request(Method::GET, &path).bearer_auth(format!("{agent}:{secret}"));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, rest: String::new() }
    }

    /// The next block that is no comment: its `id` and its `data`.
    async fn next(&mut self) -> (Option<String>, Value) {
        loop {
            while let Some(end) = self.rest.find("\n\n") {
                let block: String = self.rest.drain(..end + 2).collect();
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                if let Some(data) = field("data: ") {
                    return (field("id: "), serde_json::from_str(&data).unwrap());
                }
            }
            let piece = tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("nothing comes").unwrap();
            self.rest.push_str(std::str::from_utf8(&piece.expect("the stream ended")).unwrap());
        }
    }
}

#[tokio::test]
async fn a_broken_stream_goes_on_behind_its_last_event() {
    let house = House::new().await;
    let (alice, bob) = (house.join("alice").await, house.join("bob").await);
    let say = |n: u32| {
        let (house, alice) = (&house, &alice);
        async move { house.say("alice", alice, &format!("e{n}"), "agent:bob", &format!("m{n}")).await }
    };
    let mut stream = Sse::open(&house, "bob", &bob, "", None).await;
    say(1).await;
    say(2).await;
    let (id, first) = stream.next().await;
    assert_eq!(
        (&first["payload"]["text"], &first["event_id"], &first["secret"]),
        (&json!("m1"), &json!("e1"), &Value::Null)
    );
    let id = id.unwrap();
    drop(stream);
    say(3).await;
    let mut stream = Sse::open(&house, "bob", &bob, "", Some(&id)).await;
    assert_eq!(stream.next().await.1["payload"]["text"], "m2", "what the client had not received");
    assert_eq!(stream.next().await.1["payload"]["text"], "m3");
    // Back-pressure of one stream is none of another's; wrong places are refused.
    for (header, query) in [("x", ""), ("-1", ""), ("1", "?ack=never")] {
        let request = house.request(Method::GET, &format!("/api/events/stream{query}"));
        let answer = request.bearer_auth(format!("bob:{bob}")).header("last-event-id", header).send().await.unwrap();
        assert_eq!(answer.status(), 400, "{header} {query}");
    }
    let wrong = house.request(Method::GET, "/api/events/stream").bearer_auth("bob:wrong").send().await.unwrap();
    assert_eq!(wrong.status(), 401);
}

#[tokio::test]
async fn a_stream_ends_when_its_secret_is_replaced_and_their_number_is_bounded() {
    let limits = Limits { streams_per_member_max: 2, heartbeat: Duration::from_millis(100), ..Limits::default() };
    let house = House::bounded(limits).await;
    let boss = house.post("/api/register", &json!({ "agent_id": "boss", "password_hash": SESAME })).await;
    let old = boss.body["secret"].as_str().unwrap().to_owned();
    let mut streams =
        [Sse::open(&house, "boss", &old, "", None).await, Sse::open(&house, "boss", &old, "", None).await];
    let third = house.request(Method::GET, "/api/events/stream").bearer_auth(format!("boss:{old}"));
    let third = third.send().await.unwrap();
    assert_eq!((third.status().as_u16(), third.headers().contains_key("retry-after")), (429, true));
    let back = house.post("/api/register", &json!({ "agent_id": "boss", "password_hash": SESAME })).await;
    assert_eq!(back.status, 200, "with its group's credential: {back:?}");
    for stream in &mut streams {
        assert_eq!(stream.next().await, (None, json!({ "because": "secret" })));
    }
}

/// A client of the WebSocket.
struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    async fn open(house: &House) -> Self {
        let url = format!("ws://{}/ws", house.host());
        Self(connect_async(url).await.expect("it connects").0)
    }

    async fn say(&mut self, value: &Value) {
        self.0.send(Message::text(value.to_string())).await.unwrap();
    }

    /// The next text; an error for a close frame or the end.
    async fn next(&mut self) -> Result<Value, Option<(CloseCode, String)>> {
        loop {
            match tokio::time::timeout(PATIENCE, self.0.next()).await.expect("nothing comes") {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(frame))) => {
                    return Err(frame.map(|frame| (frame.code, frame.reason.to_string())));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    async fn hello(house: &House, agent: &str, secret: &str, more: Value) -> Self {
        let mut socket = Self::open(house).await;
        let mut hello = json!({ "type": "hello", "agent_id": agent, "secret": secret });
        hello.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        socket.say(&hello).await;
        let welcome = socket.next().await.unwrap();
        assert_eq!((&welcome["type"], &welcome["agent_id"]), (&json!("welcome"), &json!(agent)), "{welcome}");
        assert!(welcome.get("secret").is_none());
        socket
    }
}

#[tokio::test]
async fn a_client_whose_event_is_being_answered_is_not_taken_for_gone() {
    let mut with = settings();
    let credential = "ab".repeat(32);
    let mods = GroupSettings {
        permissions: vec!["mod".to_owned()],
        credential: Some(credential.clone()),
        ..GroupSettings::default()
    };
    with.groups.insert("mods".to_owned(), mods);
    let limits = Limits { heartbeat: Duration::from_millis(100), ..Limits::default() };
    let house = House::with(with, ServingSettings { limits, ..ServingSettings::anywhere() }, Extra::default()).await;
    let alice = house.join("alice").await;
    let calculator = json!({ "agent_id": "calculator", "password_hash": credential });
    let secret = house.post("/api/register", &calculator).await.body["secret"].as_str().unwrap().to_owned();
    let mut socket = Socket::hello(&house, "alice", &alice, json!({})).await;
    socket
        .say(&json!({ "type": "event", "data": { "event_id": "q", "event_name": "sum.make",
        "target_agent_id": "mod:calculator", "requires_response": true, "payload": { "text": "1 + 2" } } }))
        .await;
    let mut pings = 0;
    while pings < 3 {
        match tokio::time::timeout(PATIENCE, socket.0.next()).await.expect("nothing comes") {
            Some(Ok(Message::Ping(_))) => pings += 1,
            Some(Ok(_)) => {}
            ended => panic!("the connection has ended after {pings} pings: {ended:?}"),
        }
    }
    let answer = json!({ "event_id": "r", "event_name": "sum.answer", "source_id": "calculator", "secret": secret,
        "target_agent_id": "alice", "response_to": "q", "payload": { "data": { "sum": 3 } } });
    assert_eq!(house.post("/api/send_event", &answer).await.body["success"], true);
    let reply = loop {
        let told = socket.next().await.expect("the connection goes on");
        if told["type"] == "reply" {
            break told;
        }
    };
    assert_eq!((&reply["event_id"], &reply["data"]), (&json!("q"), &json!({ "sum": 3 })), "{reply}");
}

#[tokio::test]
async fn events_go_both_ways_over_one_websocket() {
    let house = House::new().await;
    let alice = house.join("alice").await;
    // One registers over the socket itself.
    let mut bob = Socket::open(&house).await;
    bob.say(&json!({ "type": "register", "agent_id": "bob", "metadata": {} })).await;
    let welcome = bob.next().await.unwrap();
    assert_eq!((&welcome["agent_id"], &welcome["network_id"]), (&json!("bob"), &json!("test-net")), "{welcome}");
    assert_eq!(welcome["secret"].as_str().map(str::len), Some(64));
    let mut socket = Socket::hello(&house, "alice", &alice, json!({})).await;

    socket
        .say(&json!({ "type": "event", "data": { "event_id": "e1", "event_name": "agent.message",
        "target_agent_id": "agent:bob", "payload": { "text": "hi" } } }))
        .await;
    let reply = socket.next().await.unwrap();
    assert_eq!(
        (&reply["type"], &reply["success"], &reply["event_id"]),
        (&json!("reply"), &json!(true), &json!("e1")),
        "{reply}"
    );
    let pushed = loop {
        let pushed = bob.next().await.unwrap();
        if pushed["data"]["event_name"] == "agent.message" {
            break pushed;
        }
    };
    assert_eq!((&pushed["type"], &pushed["data"]["payload"]["text"]), (&json!("message"), &json!("hi")));
    assert!(pushed["seq"].is_i64() && pushed["data"]["secret"].is_null());
    // Over HTTP the same event is the same.
    let over_http = house.say("alice", &alice, "e1", "agent:bob", "hi").await;
    assert_eq!(over_http.body["repeated"], true, "{over_http:?}");

    bob.say(&json!({ "type": "system_request", "command": "list_agents", "agent_id": "bob" })).await;
    let listed = bob.next().await.unwrap();
    assert_eq!(
        (&listed["type"], &listed["command"], &listed["success"]),
        (&json!("system_response"), &json!("list_agents"), &json!(true))
    );
    assert_eq!(listed["data"]["agents"].as_array().map(Vec::len), Some(2));
    bob.say(&json!({ "type": "ping" })).await;
    assert_eq!(bob.next().await.unwrap(), json!({ "type": "pong" }));
    // Acting for another is refused, whatever secret is shown with it.
    bob.say(&json!({ "type": "event", "data": message("alice", &alice, "e9", "agent:bob", "as alice") })).await;
    let refused = bob.next().await.unwrap();
    assert_eq!((&refused["success"], &refused["error_code"]), (&json!(false), &json!("forbidden")));
    bob.say(&json!({ "type": "sing" })).await;
    assert_eq!(bob.next().await.unwrap()["error_code"], "invalid");
}

#[tokio::test]
async fn a_broken_websocket_goes_on_where_it_was() {
    let house = House::new().await;
    let (alice, bob) = (house.join("alice").await, house.join("bob").await);
    let manual = json!({ "ack": "manual" });
    let mut socket = Socket::hello(&house, "bob", &bob, manual.clone()).await;
    for n in 1..=3 {
        house.say("alice", &alice, &format!("e{n}"), "agent:bob", &format!("m{n}")).await;
    }
    let mut seqs = Vec::new();
    for n in 1..=3 {
        let pushed = socket.next().await.unwrap();
        assert_eq!(pushed["data"]["payload"]["text"], format!("m{n}"));
        seqs.push(pushed["seq"].as_i64().unwrap());
    }
    socket.say(&json!({ "type": "ack", "seq": i64::MAX })).await;
    assert_eq!(socket.next().await.unwrap()["error_code"], "invalid", "what was not pushed cannot be acknowledged");
    drop(socket);
    // Nothing that counts was acknowledged: all of it comes again; with a place, what lies behind it.
    let mut socket = Socket::hello(&house, "bob", &bob, manual).await;
    assert_eq!(socket.next().await.unwrap()["seq"], seqs[0]);
    drop(socket);
    let mut socket = Socket::hello(&house, "bob", &bob, json!({ "resume_after": seqs[1] })).await;
    let pushed = socket.next().await.unwrap();
    assert_eq!((&pushed["seq"], &pushed["data"]["payload"]["text"]), (&json!(seqs[2]), &json!("m3")));
}

#[tokio::test]
async fn nobody_gets_a_websocket_without_being_known() {
    let limits =
        Limits { header_max: Duration::from_millis(300), heartbeat: Duration::from_millis(100), ..Limits::default() };
    let house = House::bounded(limits).await;
    let alice = house.join("alice").await;
    // Silence is not waited for.
    let mut silent = Socket::open(&house).await;
    assert_eq!(silent.next().await.unwrap_err().unwrap().0, CloseCode::Policy);
    let mut wrong = Socket::open(&house).await;
    wrong.say(&json!({ "type": "hello", "agent_id": "alice", "secret": "wrong" })).await;
    let told = wrong.next().await.unwrap();
    assert_eq!((&told["error_code"], &told["success"]), (&json!("unauthenticated"), &json!(false)));
    assert_eq!(wrong.next().await.unwrap_err().unwrap().0, CloseCode::Policy);
    let mut rude = Socket::open(&house).await;
    rude.say(&json!({ "type": "ack", "seq": 1 })).await;
    assert_eq!(rude.next().await.unwrap()["error_code"], "unauthenticated");
    // In the request itself a wrong secret is an HTTP status, and a page of another origin is none of ours.
    let refused = |agent: &'static str, origin: Option<&'static str>| {
        let mut request = format!("ws://{}/ws", house.host()).into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {agent}").parse().unwrap());
        if let Some(origin) = origin {
            request.headers_mut().insert("origin", origin.parse().unwrap());
        }
        async move {
            match connect_async(request).await {
                Err(Error::Http(response)) => response.status().as_u16(),
                other => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(refused("alice:wrong", None).await, 401);
    assert_eq!(refused("alice:wrong", Some("https://evil.example")).await, 403);
    let bare = house.get("/ws").await;
    assert_eq!(bare.status, 426);
    // Whoever leaves is told so.
    let mut socket = Socket::hello(&house, "alice", &alice, json!({})).await;
    house.post("/api/unregister", &json!({ "agent_id": "alice", "secret": alice })).await;
    let ended = loop {
        match socket.next().await {
            Ok(_) => {}
            Err(ended) => break ended.unwrap(),
        }
    };
    assert_eq!(ended, (CloseCode::Policy, "secret".to_owned()));
}

#[tokio::test]
async fn older_clients_are_understood_on_a_port_of_their_own() {
    let serving = ServingSettings { websocket: Some("127.0.0.1:0".parse().unwrap()), ..ServingSettings::anywhere() };
    let house = House::with(settings(), serving, Extra::default()).await;
    let url = format!("ws://{}", house.serving.websocket().unwrap());
    let mut socket = Socket(connect_async(url).await.unwrap().0);
    socket.say(&json!({ "type": "system_request", "command": "register_agent", "data": { "agent_id": "old" } })).await;
    let told = socket.next().await.unwrap();
    assert_eq!(
        (&told["type"], &told["command"], &told["success"]),
        (&json!("system_response"), &json!("register_agent"), &json!(true))
    );
    let event = json!({ "event_id": "e1", "event_name": "agent.message", "source_id": "old",
        "target_agent_id": "agent:broadcast", "payload": { "text": "hello" } });
    socket.say(&json!({ "type": "event", "data": event })).await;
    assert_eq!(socket.next().await.unwrap()["success"], true);
    let secret = house.join("new").await;
    house.say("new", &secret, "n1", "agent:old", "welcome").await;
    let pushed = loop {
        let pushed = socket.next().await.unwrap();
        if pushed["data"]["event_name"] == "agent.message" {
            break pushed;
        }
    };
    assert_eq!((&pushed["type"], &pushed["data"]["source_id"]), (&json!("message"), &json!("new")));
}

#[tokio::test]
async fn whoever_waits_is_told_of_the_end() {
    let house = House::new().await;
    let bob = house.join("bob").await;
    let _ = house.get(&format!("/api/poll?agent_id=bob&secret={bob}&wait=0")).await;
    let mut stream = Sse::open(&house, "bob", &bob, "", None).await;
    let mut socket = Socket::hello(&house, "bob", &bob, json!({})).await;
    let polling = house.request(Method::GET, &format!("/api/poll?agent_id=bob&secret={bob}&after=0"));
    let polling = tokio::spawn(crate::house::send(polling));
    while !house.get("/metrics").await.body.as_str().unwrap().contains("longhaul_network_streams{transport=\"poll\"} 1")
    {
    }
    let House { serving, .. } = house;
    tokio::time::timeout(PATIENCE, serving.stop()).await.expect("it ends");
    assert_eq!(stream.next().await, (None, json!({ "because": "shutdown" })));
    assert_eq!(socket.next().await, Err(Some((CloseCode::Restart, "shutdown".to_owned()))));
    let answered = polling.await.unwrap();
    assert_eq!((answered.status.as_u16(), &answered.body["messages"]), (200, &json!([])));
}

/// With `LONGHAUL_TEST_WEBSOCKETS` set to a Python that has `websockets`: its client speaks with a network.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pythons_client_speaks_with_a_network() {
    let Some(python) = std::env::var_os("LONGHAUL_TEST_WEBSOCKETS") else {
        println!("not tried: `scripts/peers.sh websockets` installs it, LONGHAUL_TEST_WEBSOCKETS names its Python");
        return;
    };
    let house = House::new().await;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/websocket-conversation.py");
    let mut command = tokio::process::Command::new(python);
    command.arg(script).arg(format!("ws://{}/ws", house.host())).stdin(std::process::Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(PATIENCE, command.output()).await.expect("it does not end").unwrap();
    let (told, wrong) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{told}\n{wrong}");
    println!("{told}");
}
