//! What the edge takes of whoever comes: bytes, time, wrong secrets, registrations.

use std::time::{Duration, Instant};

use longhaul_transports::Limits;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::house::{House, message, send};

/// Longest time that a test waits for something.
const PATIENCE: Duration = Duration::from_secs(30);

async fn connect(house: &House) -> TcpStream {
    TcpStream::connect(house.host()).await.unwrap()
}

/// All that comes back until the server closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the connection stays open");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_slow_or_huge_request_does_not_hold_a_connection() {
    let limits = Limits {
        header_max: Duration::from_millis(200),
        body_max: Duration::from_millis(300),
        body_bytes_max: 4096,
        ..Limits::default()
    };
    let house = House::bounded(limits).await;
    let began = Instant::now();
    let mut slow_header = connect(&house).await;
    slow_header.write_all(b"GET /api/health HTTP/1.1\r\nHost: ").await.unwrap();
    let mut slow_body = connect(&house).await;
    let head = format!(
        "POST /api/send_event HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
        house.host()
    );
    slow_body.write_all(head.as_bytes()).await.unwrap();
    assert!(!rest(&mut slow_header).await.contains("200 OK"));
    let mut told = vec![0; 4096];
    let read = tokio::time::timeout(PATIENCE, slow_body.read(&mut told)).await.expect("it is held").unwrap();
    let told = String::from_utf8_lossy(&told[..read]).into_owned();
    assert!(told.starts_with("HTTP/1.1 400 ") && told.contains("too slowly"), "{told}");
    assert!(began.elapsed() < Duration::from_secs(10));

    let mut many_fields = connect(&house).await;
    let fields: String = (0..200).map(|n| format!("x-{n}: y\r\n")).collect();
    let request = format!("GET /api/health HTTP/1.1\r\nHost: {}\r\n{fields}\r\n", house.host());
    let _ = many_fields.write_all(request.as_bytes()).await;
    assert!(rest(&mut many_fields).await.starts_with("HTTP/1.1 431 "));

    let alice = house.join("alice").await;
    let large = house.say("alice", &alice, "e1", "agent:alice", &"x".repeat(5000)).await;
    assert_eq!((large.status.as_u16(), &large.body["error_code"]), (413, &json!("too_large")));
    // Without a length, too.
    let body = message("alice", &alice, "e2", "agent:alice", &"x".repeat(5000)).to_string();
    let pieces = futures::stream::iter([Ok::<_, std::io::Error>(body)]);
    let request = house.request(Method::POST, "/api/send_event").header("content-type", "application/json");
    let chunked = send(request.body(reqwest::Body::wrap_stream(pieces))).await;
    assert_eq!(chunked.status, 413, "{chunked:?}");
}

#[tokio::test]
async fn input_that_makes_no_sense_is_refused_in_a_sentence() {
    let house = House::new().await;
    let alice = house.join("alice").await;
    let post = |body: String, kind: &'static str| {
        send(house.request(Method::POST, "/api/send_event").header("content-type", kind).body(body))
    };
    let deep = format!(
        r#"{{"event_name":"agent.message","source_id":"alice","payload":{{"x":{}{}}}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    for body in [
        "",
        "{",
        "[]",
        "null",
        r#"{"event_name": 3}"#,
        r#"{"event_name":"agent.message","source_id":"alice","payload":[]}"#,
        r#"{"event_name":"Agent Message","source_id":"alice"}"#,
        r#"{"event_name":"agent.message","source_id":"alice"} {}"#,
        &deep,
    ] {
        let answer = post(body.to_owned(), "application/json").await;
        let shown: String = body.chars().take(60).collect();
        assert_eq!((answer.status.as_u16(), &answer.body["success"]), (400, &json!(false)), "{shown}: {answer:?}");
        assert!(answer.body["message"].as_str().is_some_and(|text| !text.is_empty()), "{shown}");
    }
    // Names that nobody can have are answered as names that nobody has.
    for (field, name, code) in
        [("target_agent_id", "channel:", "missing"), ("source_id", "../../etc/passwd", "forbidden")]
    {
        let mut nobody = message("alice", &alice, "e0", "agent:alice", "x");
        nobody[field] = json!(name);
        let answer = post(nobody.to_string(), "application/json").await;
        let told = (answer.status.as_u16(), &answer.body["success"], &answer.body["error_code"]);
        assert_eq!(told, (200, &json!(false), &json!(code)), "{answer:?}");
    }
    let event = message("alice", &alice, "e1", "agent:alice", "x").to_string();
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""] {
        assert_eq!(post(event.clone(), kind).await.status, 415, "a form of a page is none of ours: {kind:?}");
    }
    assert_eq!(post(event, "application/json; charset=utf-8").await.status, 200);
    assert_eq!(send(house.request(Method::DELETE, "/api/health")).await.status, 405);
    assert_eq!(house.get("/api/nothing").await.status, 404);
    let unicode = house.say("alice", &alice, "e3", "agent:alice", "Grüße, 会話 🚀").await;
    assert_eq!(unicode.status, 200);
}

#[tokio::test]
async fn whoever_guesses_is_slowed_down_and_others_of_the_same_address_too() {
    let limits = Limits { strangers_per_second: 1, ..Limits::default() };
    let house = House::bounded(limits).await;
    let alice = house.join("alice").await;
    let mut refused = 0;
    for n in 0..14 {
        let answer = house.say("alice", "guess", &format!("g{n}"), "agent:alice", "x").await;
        if answer.status == 429 {
            assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
            refused += 1;
        }
    }
    assert!((1..=4).contains(&refused), "ten guesses, then one a second: {refused} were refused");
    // The price of an address that guesses; who shows the right secret waits no longer than it.
    assert_eq!(house.say("alice", &alice, "e1", "agent:alice", "x").await.status, 429);
    let metrics = house.get("/metrics").await;
    let told = metrics.body.as_str().unwrap();
    assert!(told.contains("longhaul_network_strangers_total 10"), "{told}");
    assert!(
        told.contains("longhaul_network_agents_present 1")
            && told.contains("longhaul_network_http_requests_total{path=\"/api/send_event\",status=\"429\"}"),
        "{told}"
    );
    assert!(told.ends_with("# EOF\n") && !told.contains("alice"), "{told}");
}

#[tokio::test]
async fn registrations_from_one_address_are_bounded() {
    let house = House::bounded(Limits { registrations_per_second: 1, ..Limits::default() }).await;
    let mut statuses = Vec::new();
    for n in 0..12 {
        let answer = house.post("/api/register", &json!({ "agent_id": format!("agent-{n}") })).await;
        statuses.push(answer.status.as_u16());
    }
    assert_eq!(statuses[..10], [200; 10]);
    assert!(statuses[10..].contains(&429), "{statuses:?}");
}

#[tokio::test]
async fn connections_are_bounded_and_given_back() {
    let house = House::bounded(Limits { connections_max: 3, ..Limits::default() }).await;
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", house.host());
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut stream = connect(&house).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = [0; 1024];
        assert!(stream.read(&mut answer).await.unwrap() > 0);
        open.push(stream);
    }
    let mut fourth = connect(&house).await;
    fourth.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 15];
    let waited = tokio::time::timeout(Duration::from_millis(200), fourth.read_exact(&mut answer)).await;
    assert!(waited.is_err(), "a fourth waits");
    open.pop();
    tokio::time::timeout(PATIENCE, fourth.read_exact(&mut answer)).await.expect("it is its turn").unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
}

#[tokio::test]
async fn a_peer_that_takes_nothing_does_not_fill_memory() {
    let house = House::bounded(Limits { poll_events_max: 200, ..Limits::default() }).await;
    let (alice, bob) = (house.join("alice").await, house.join("bob").await);
    let text = "x".repeat(60_000);
    for n in 0..40 {
        let sent: Value = house.say("alice", &alice, &format!("e{n}"), "agent:bob", &text).await.body;
        assert_eq!(sent["success"], true, "{}", &sent.to_string()[..200.min(sent.to_string().len())]);
    }
    // Opens a stream and reads none of its 2.4 MB.
    let mut stuck = connect(&house).await;
    let request = format!(
        "GET /api/events/stream?ack=manual HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer bob:{bob}\r\n\r\n",
        house.host()
    );
    stuck.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 15];
    tokio::time::timeout(PATIENCE, stuck.read_exact(&mut first)).await.expect("it begins").unwrap();
    // Everybody else goes on, and what was not acknowledged is there again.
    let events = house.poll("bob", &bob).await;
    assert_eq!(events.len(), 40);
    assert_eq!(house.get("/healthz").await.status, 200);
}
