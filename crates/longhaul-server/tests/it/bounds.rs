//! What the gateway takes of whoever comes: bytes, time, connections, requests, and input that makes no sense.

use std::time::{Duration, Instant};

use longhaul_server::{Limits, keys::Role};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::house::{House, send};

/// Longest time that a test waits for something.
const PATIENCE: Duration = Duration::from_secs(60);

async fn connect(house: &House) -> TcpStream {
    TcpStream::connect(house.url.trim_start_matches("http://")).await.unwrap()
}

/// Says this over a bare connection; all that comes back until the server closes it.
async fn said(house: &House, bytes: &[u8]) -> String {
    let mut stream = connect(house).await;
    let _ = stream.write_all(bytes).await; // the server may refuse before it has read all
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the connection stays open");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn input_that_makes_no_sense_is_refused_with_its_place() {
    let house = House::new().await;
    let key = house.key("acme", "ada", Role::Operator).await;
    let post = |body: String, kind: &'static str| {
        let request = house.request(Method::POST, "/v1/tasks").bearer_auth(&key).header("content-type", kind);
        send(request.body(body))
    };
    let deep = format!(r#"{{"title":"a","data":{{"x":{}{}}}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    for (body, status, code, at) in [
        (r#"{"title": "#.to_owned(), 400, "malformed", "body"),
        (String::new(), 400, "malformed", "body"),
        (deep, 400, "malformed", "body"),
        (r#"{"title":"a"} {"title":"b"}"#.to_owned(), 400, "malformed", "body"),
        (r#"[]"#.to_owned(), 422, "invalid", "body"),
        (r#" ["a title"]"#.to_owned(), 422, "invalid", "body"),
        (r#"{"title": 3}"#.to_owned(), 422, "invalid", "body.title"),
        (r#"{"title": ""}"#.to_owned(), 422, "invalid", "body.title"),
        (r#"{"title": "a\u0000b"}"#.to_owned(), 422, "invalid", "body.title"),
        (r#"{"title": "a\r\nSet-Cookie: x=1"}"#.to_owned(), 422, "invalid", "body.title"),
        (r#"{"title": "a", "thread": "../../etc/passwd x"}"#.to_owned(), 422, "invalid", "body.thread"),
        (r#"{"title": "a", "session": "task_1"}"#.to_owned(), 422, "invalid", "body.session"),
        (r#"{"title": "a", "unknown": 1}"#.to_owned(), 422, "invalid", "body.unknown"),
    ] {
        let shown: String = body.chars().take(60).collect();
        let answer = post(body, "application/json").await;
        assert_eq!((answer.status.as_u16(), answer.code()), (status, code), "{shown}: {answer:?}");
        assert!(answer.body["at"].as_str().is_some_and(|place| place.starts_with(at)), "{shown}: {answer:?}");
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""] {
        assert_eq!(post(r#"{"title":"a"}"#.to_owned(), kind).await.status, 415, "{kind:?}");
    }
    let latin = post(r#"{"title":"Grüße, 会話 🚀"}"#.to_owned(), "application/json; charset=utf-8").await;
    assert_eq!((latin.status.as_u16(), &latin.body["title"]), (201, &"Grüße, 会話 🚀".into()));
}

#[tokio::test]
async fn ids_and_parameters_are_parsed_before_anything_is_looked_up() {
    let house = House::new().await;
    let key = house.key("acme", "ada", Role::Operator).await;
    for path in [
        "/v1/tasks/task_..%2F..%2Fetc",
        "/v1/tasks/task_a%00b",
        "/v1/tasks/exec_1",
        "/v1/tasks/task_%0d%0aX-Evil:%201",
        "/v1/tasks/task_' OR '1'='1",
        "/v1/tasks/%FF%FE",
        "/v1/executions/exec_a.b",
        "/v1/waits/wait_%2e%2e",
        "/v1/tasks?limit=0",
        "/v1/tasks?limit=201",
        "/v1/tasks?limit=ten",
        "/v1/tasks?limit=10&limit=11",
        "/v1/tasks?tenant=tenant_other",
        "/v1/tasks?after=exec_1",
        "/v1/executions?status=done",
        "/v1/explain",
    ] {
        let answer = house.get(&key, path).await;
        assert!(matches!(answer.status.as_u16(), 400 | 422), "{path}: {answer:?}");
        assert!(!answer.headers.contains_key("x-evil"));
        answer.code();
    }
    for path in ["/v1/../v1/nothing", "/etc/passwd", "/v1/tasks/task_1/../../../etc", "//v1/tasks", "/V1/tasks"] {
        let answer = said(
            &house,
            format!(
                "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n",
                house.url.trim_start_matches("http://")
            )
            .as_bytes(),
        )
        .await;
        assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
    }
    let wrong = send(house.request(Method::PATCH, "/v1/tasks").bearer_auth(&key)).await;
    assert_eq!((wrong.status.as_u16(), wrong.code()), (405, "wrong_method"));
    assert!(wrong.headers.contains_key("allow"));
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let house = House::with(Limits { body_bytes_max: 1_000, ..Limits::default() }).await;
    let key = house.key("acme", "ada", Role::Operator).await;
    let body = json!({ "title": "a", "data": { "x": "y".repeat(2_000) } });
    let answer = house.post(&key, "/v1/tasks", &body).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (413, "too_large"));
    // Said to be huge, and nothing sent.
    let host = house.url.trim_start_matches("http://");
    let head =
        format!("Host: {host}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nConnection: close");
    let answer =
        said(&house, format!("POST /v1/tasks HTTP/1.1\r\n{head}\r\nContent-Length: 99999999999\r\n\r\n").as_bytes())
            .await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    // Not said how large it is.
    let chunks = format!("7d0\r\n{}\r\n", "z".repeat(2_000)).repeat(3);
    let answer = said(
        &house,
        format!("POST /v1/tasks HTTP/1.1\r\n{head}\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n").as_bytes(),
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn who_speaks_too_slowly_or_too_much_is_hung_up_on() {
    let limits =
        Limits { header_max: Duration::from_millis(300), request_max: Duration::from_millis(600), ..Limits::default() };
    let house = House::with(limits).await;
    let key = house.key("acme", "ada", Role::Operator).await;
    let host = house.url.trim_start_matches("http://").to_owned();
    let begun = Instant::now();
    // A header that never ends.
    said(&house, format!("GET /v1/me HTTP/1.1\r\nHost: {host}\r\nX-Slow: ").as_bytes()).await;
    // Nothing at all.
    said(&house, b"").await;
    // A body that never comes.
    let head =
        format!("Host: {host}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nConnection: close");
    let answer =
        said(&house, format!("POST /v1/tasks HTTP/1.1\r\n{head}\r\nContent-Length: 20\r\n\r\n{{").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("urn:longhaul:problem:timeout"), "{answer}");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    // Headers without end.
    let many: String = (0..200).map(|n| format!("X-{n}: y\r\n")).collect();
    let answer = said(&house, format!("GET /v1/me HTTP/1.1\r\nHost: {host}\r\n{many}\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let long = format!("GET /v1/me HTTP/1.1\r\nHost: {host}\r\nX-Long: {}\r\n\r\n", "y".repeat(100_000));
    let answer = said(&house, long.as_bytes()).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    // What is no HTTP, and two readings of where a request ends.
    for wrong in [
        "\x16\x03\x01\x02\x00\x01\x00\x01".to_owned(),
        format!("GET /v1/me HTTP/1.1\r\nHost: {host}\r\nBad Header\x00: x\r\n\r\n"),
        format!("POST /v1/tasks HTTP/1.1\r\n{head}\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef"),
    ] {
        let answer = said(&house, wrong.as_bytes()).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{wrong:?}: {answer}");
    }
    assert_eq!(house.get(&key, "/v1/me").await.status, 200, "and everybody else is served");
}

#[tokio::test]
async fn connections_beyond_the_bound_wait_for_their_turn() {
    let limits = Limits { connections_max: 2, header_max: Duration::from_millis(400), ..Limits::default() };
    let house = House::with(limits).await;
    let key = house.key("acme", "ada", Role::Viewer).await;
    // Eight that say nothing keep nobody out for long.
    let idle: Vec<_> = {
        let mut idle = Vec::new();
        for _ in 0..8 {
            idle.push(connect(&house).await);
        }
        idle
    };
    let answer = tokio::time::timeout(PATIENCE, house.get(&key, "/v1/me")).await.expect("nobody is served");
    assert_eq!(answer.status, 200);
    drop(idle);
}

#[tokio::test]
async fn a_flood_of_one_key_is_told_when_to_come_again_and_others_are_served() {
    let house = House::with(Limits { requests_per_second: 1, requests_burst: 5, ..Limits::default() }).await;
    let (loud, calm) = (house.key("acme", "ada", Role::Viewer).await, house.key("acme", "bob", Role::Viewer).await);
    let mut statuses = Vec::new();
    let refused = loop {
        let answer = house.get(&loud, "/v1/me").await;
        statuses.push(answer.status.as_u16());
        if answer.status != 200 {
            break answer;
        }
        assert!(statuses.len() < 1_000, "nothing is refused");
    };
    assert!(statuses.len() > 5, "{statuses:?}");
    assert_eq!((refused.status.as_u16(), refused.code()), (429, "too_many_requests"));
    let wait: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=5).contains(&wait), "{wait}");
    assert_eq!(house.get(&calm, "/v1/me").await.status, 200);
}

#[tokio::test]
async fn guessing_keys_is_slowed_down_and_known_keys_are_still_served() {
    let house = House::with(Limits { strangers_per_second: 1, ..Limits::default() }).await;
    let known = house.key("acme", "ada", Role::Viewer).await;
    assert_eq!(house.get(&known, "/v1/me").await.status, 200);
    let mut refused = None;
    for guess in 0..200_u64 {
        let key = format!("lh_{guess:012x}_{guess:064x}");
        let answer = house.get(&key, "/v1/me").await;
        if answer.status != 401 {
            refused = Some((guess, answer));
            break;
        }
    }
    let (guesses, refused) = refused.expect("200 guesses were answered");
    assert!((5..=100).contains(&guesses), "{guesses}");
    assert_eq!((refused.status.as_u16(), refused.code()), (429, "too_many_strangers"));
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(house.get(&known, "/v1/me").await.status, 200);
}

#[tokio::test]
async fn no_header_of_a_request_comes_back_but_a_well_formed_trace() {
    let house = House::new().await;
    let key = house.key("acme", "ada", Role::Viewer).await;
    for (given, returned) in
        [("abc-1", Some("trace_abc-1")), ("trace_abc-1", Some("trace_abc-1")), ("a b;c", None), ("<script>", None)]
    {
        let answer = send(house.request(Method::GET, "/v1/me").bearer_auth(&key).header("x-request-id", given)).await;
        let trace = answer.headers["x-request-id"].to_str().unwrap();
        match returned {
            Some(returned) => assert_eq!(trace, returned),
            None => assert!(trace.starts_with("trace_") && !trace.contains(given), "{trace}"),
        }
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["cache-control"], "no-store");
    }
}

#[tokio::test]
async fn a_shutdown_answers_what_is_open_and_takes_nothing_new() {
    let house = House::new().await;
    let House { url, gateway, shutdown, serving, dir: _dir, .. } = house;
    let host = url.trim_start_matches("http://").to_owned();
    let mut stream = TcpStream::connect(&host).await.unwrap();
    let key = longhaul_server::keys::NewKey::first(longhaul_core::Scope::single_user());
    let key = gateway.keys().create(key).await.unwrap();
    let head = format!(
        "POST /v1/tasks HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n",
        key.secret.expose()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(b"{\"title\"").await.unwrap();
    // The request is on its way once another one has been answered.
    let me = crate::house::client().get(format!("{url}/v1/me")).bearer_auth(key.secret.expose()).send().await.unwrap();
    assert_eq!(me.status(), 200);
    shutdown.cancel();
    stream.write_all(b":\"a\"}").await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the connection stays open").unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    let body: Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(body["title"], "a");
    tokio::time::timeout(PATIENCE, serving).await.expect("the server does not end").unwrap();
    assert!(TcpStream::connect(&host).await.is_err());
}
