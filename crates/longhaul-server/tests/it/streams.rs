//! Following the log: over server-sent events, WebSockets and pages.

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use longhaul_server::{DoorSettings, Limits, keys::Role};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, client::IntoClientRequest, protocol::CloseFrame},
};

use crate::{
    house::{House, scope},
    listening::{PATIENCE, Sse, owner, task_scope, tell, tell_padded},
};

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<TcpStream>>;

async fn socket(house: &House, key: &str, path: &str) -> Socket {
    let mut request = format!("{}{path}", house.url.replace("http", "ws")).into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    connect_async(request).await.unwrap().0
}

/// The next text, and how the connection ended where there is none.
async fn text(socket: &mut Socket) -> Result<Value, Option<CloseFrame>> {
    loop {
        match tokio::time::timeout(PATIENCE, socket.next()).await.expect("a socket that says nothing") {
            Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Close(frame))) => return Err(frame),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return Err(None),
        }
    }
}

fn beating(heartbeat_ms: u64) -> Limits {
    let doors = DoorSettings { heartbeat: Duration::from_millis(heartbeat_ms), ..DoorSettings::default() };
    Limits { doors, ..Limits::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_stored_and_what_comes_is_told_once_and_in_order() {
    const EACH: u64 = 40;
    let house = House::new().await;
    let (key, ours) = (house.key("acme", "ada", Role::Viewer).await, scope("acme", "ada"));
    let task = house.task("acme", "ada", "project_001").await;
    let (task_owner, other) = (owner(&house.store, &ours, &task).await, task_scope(&ours, "other"));
    for n in 0..EACH {
        tell(&house.store, &task_owner, n).await;
    }
    let path = format!("/v1/tasks/{task}/events?after=0&types=test.told");
    let writers: Vec<_> = (1..4)
        .map(|writer| {
            let (store, task_owner, other) = (house.store.clone(), task_owner.clone(), other.clone());
            tokio::spawn(async move {
                for n in 0..EACH {
                    tell(&store, &task_owner, writer * EACH + n).await;
                    tell(&store, &other, n).await;
                }
            })
        })
        .collect();
    let all = (4 * EACH) as usize;
    // One that stays, one that comes back after every few events, one over a WebSocket.
    let staying = async {
        let mut stream = Sse::open(&house.url, &key, &path, None).await.unwrap();
        let mut seen = Vec::new();
        while seen.len() < all {
            seen.push(stream.told().await.unwrap().data.unwrap());
        }
        seen
    };
    let coming_back = async {
        let (mut seen, mut last) = (Vec::new(), None);
        while seen.len() < all {
            let mut stream = Sse::open(&house.url, &key, &path, last).await.unwrap();
            for _ in 0..7.min(all - seen.len()) {
                seen.push(stream.told().await.unwrap().data.unwrap());
            }
            last = stream.last;
        }
        seen
    };
    let by_socket = async {
        let mut socket = socket(&house, &key, &path).await;
        let mut seen = Vec::new();
        while seen.len() < all {
            seen.push(text(&mut socket).await.unwrap());
        }
        seen
    };
    let (staying, coming_back, by_socket) = tokio::join!(staying, coming_back, by_socket);
    for writer in writers {
        writer.await.unwrap();
    }
    let mut numbers: Vec<u64> = staying.iter().map(|event| event["data"]["n"].as_u64().unwrap()).collect();
    assert!(staying.is_sorted_by(|a, b| a["seq"].as_i64() < b["seq"].as_i64()));
    numbers.sort_unstable();
    assert_eq!(numbers, (0..4 * EACH).collect::<Vec<_>>());
    assert_eq!(coming_back, staying);
    assert_eq!(by_socket, staying);
    // Page by page it is the same.
    let (mut pages, mut after) = (Vec::new(), 0);
    loop {
        let page = house.get(&key, &format!("/v1/events?after={after}&limit=50&types=test.told")).await.body;
        pages.extend(page["events"].as_array().unwrap().iter().filter(|event| event["task"] == task.as_str()).cloned());
        after = page["next_after"].as_i64().unwrap();
        if page["more"] == false {
            break;
        }
    }
    assert_eq!(pages, staying);
}

#[tokio::test]
async fn nobody_is_told_what_is_anothers_or_internal() {
    let house = House::new().await;
    let ada = house.key("acme", "ada", Role::Viewer).await;
    let task = house.task("acme", "ada", "project_001").await;
    let bobs = house.task("acme", "bob", "project_002").await;
    let mut streams = Vec::new();
    for (tenant, user) in [("acme", "bob"), ("other", "ada")] {
        let key = house.key(tenant, user, Role::Owner).await;
        let refused = house.get(&key, &format!("/v1/tasks/{task}/events")).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (404, "not_found"));
        streams.push((Sse::open(&house.url, &key, "/v1/events", None).await.unwrap(), scope(tenant, user)));
    }
    let mut own = Sse::open(&house.url, &ada, "/v1/events", None).await.unwrap();
    assert_eq!(house.get(&ada, &format!("/v1/tasks/{bobs}/events")).await.status, 404);
    let told = tell(&house.store, &owner(&house.store, &scope("acme", "ada"), &task).await, 1).await;
    let block = own.told().await.unwrap();
    assert_eq!((block.id, &block.data.as_ref().unwrap()["type"]), (Some(told), &"test.told".into()));
    assert!(!block.data.unwrap().to_string().contains("tenant"));
    for (mut stream, theirs) in streams {
        // The first they hear is their own.
        let own = tell(&house.store, &task_scope(&theirs, "own"), 2).await;
        assert_eq!(stream.told().await.unwrap().id, Some(own));
    }
    for (path, code) in [
        ("/v1/events?after=-1", 422),
        ("/v1/events?after=99999999999999999999", 422),
        ("/v1/events?types=a%20b", 422),
        ("/v1/events?limit=0", 422),
        ("/v1/events?key=lh_x", 422),
    ] {
        assert_eq!(house.get(&ada, path).await.status, code, "{path}");
    }
    let stranger = house.request(reqwest::Method::GET, &format!("/v1/events?access_token={ada}"));
    assert_eq!(crate::house::send(stranger).await.status, 401);
}

#[tokio::test]
async fn a_revoked_key_ends_its_streams_and_no_others() {
    let house = House::new().await;
    let (ada, kept) = (house.key("acme", "ada", Role::Viewer).await, house.key("acme", "ada", Role::Viewer).await);
    let mut stream = Sse::open(&house.url, &ada, "/v1/events", None).await.unwrap();
    let mut socket = socket(&house, &ada, "/v1/events").await;
    let mut other = Sse::open(&house.url, &kept, "/v1/events", None).await.unwrap();
    let prefix = ada.split('_').nth(1).unwrap();
    house.gateway.keys().revoke(&scope("acme", "ada").tenant, prefix).await.unwrap().unwrap();
    let end = stream.told().await.unwrap();
    assert_eq!((end.event.as_deref(), end.data.unwrap()["because"].as_str()), (Some("end"), Some("key")));
    assert_eq!(stream.told().await, None);
    let closed = text(&mut socket).await.unwrap_err().unwrap();
    assert_eq!((u16::from(closed.code), closed.reason.as_str()), (1008, "key"));
    tell(&house.store, &task_scope(&scope("acme", "ada"), "t"), 1).await;
    assert_eq!(other.told().await.unwrap().data.unwrap()["data"]["n"], 1);
    // The end of the server is told too.
    house.shutdown.cancel();
    assert_eq!(other.told().await.unwrap().data.unwrap()["because"], "shutdown");
    tokio::time::timeout(Duration::from_secs(5), house.serving).await.expect("streams hold up the end").unwrap();
}

#[tokio::test]
async fn streams_say_that_they_live_and_where_they_are() {
    let house = House::with(beating(500)).await;
    let key = house.key("acme", "ada", Role::Viewer).await;
    let ours = task_scope(&scope("acme", "ada"), "t");
    tell(&house.store, &ours, 1).await;
    let mut stream = Sse::open(&house.url, &key, "/v1/events", None).await.unwrap();
    let begins = stream.block().await.unwrap().unwrap();
    assert!(begins.id.is_some() && begins.data.is_none());
    // What is not told moves the place all the same.
    let seq = tell(&house.store, &ours, 2).await;
    assert_eq!(stream.told().await.unwrap().id, Some(seq));
    assert_eq!(stream.block().await.unwrap().unwrap().id, Some(seq));
    // A peer that answers no ping is let go; one that answers is not.
    let mut silent = TcpStream::connect(house.url.trim_start_matches("http://")).await.unwrap();
    let host = house.url.trim_start_matches("http://");
    let request = format!(
        "GET /v1/events HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\nconnection: upgrade\r\n\
         upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    silent.write_all(request.as_bytes()).await.unwrap();
    let mut all = Vec::new();
    tokio::time::timeout(PATIENCE, silent.read_to_end(&mut all)).await.expect("it is kept for ever").unwrap();
    assert!(all.starts_with(b"HTTP/1.1 101"));
    let mut alive = socket(&house, &key, "/v1/events").await;
    for _ in 0..3 {
        assert!(matches!(alive.next().await.unwrap().unwrap(), Message::Ping(_)));
    }
    alive.send(Message::text("what is said is thrown away")).await.unwrap();
    // Pings are answered while it listens.
    let (told, _) = tokio::join!(text(&mut alive), tell(&house.store, &ours, 3));
    assert_eq!(told.unwrap()["data"]["n"], 3);
}

#[tokio::test]
async fn there_are_only_so_many_streams_for_a_key() {
    let doors = DoorSettings { key_streams_max: 2, streams_max: 3, ..DoorSettings::default() };
    let house = House::with(Limits { doors, ..Limits::default() }).await;
    let (ada, bob) = (house.key("acme", "ada", Role::Viewer).await, house.key("acme", "bob", Role::Viewer).await);
    let first = Sse::open(&house.url, &ada, "/v1/events", None).await.unwrap();
    let _second = Sse::open(&house.url, &ada, "/v1/events", None).await.unwrap();
    let more = |key: String| {
        let request = house.request(reqwest::Method::GET, "/v1/events").bearer_auth(key);
        crate::house::send(request.header("accept", "text/event-stream"))
    };
    let refused = more(ada.clone()).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (429, "too_many_streams"));
    assert!(refused.headers.contains_key("retry-after"));
    let _third = Sse::open(&house.url, &bob, "/v1/events", None).await.unwrap();
    assert_eq!(more(bob).await.status, 429);
    // One that goes makes room, without being told to.
    drop(first);
    tokio::time::timeout(PATIENCE, async {
        loop {
            let request = house.request(reqwest::Method::GET, "/v1/events").bearer_auth(&ada);
            if request.header("accept", "text/event-stream").send().await.unwrap().status() == 200 {
                break;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("a stream that has ended takes room for ever");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_reads_slowly_holds_nobody_up_and_misses_nothing() {
    const ALL: u64 = 300;
    let house = House::new().await;
    let key = house.key("acme", "ada", Role::Viewer).await;
    let ours = task_scope(&scope("acme", "ada"), "t");
    let mut slow = Sse::open(&house.url, &key, "/v1/events?after=0", None).await.unwrap();
    let mut quick = Sse::open(&house.url, &key, "/v1/events?after=0", None).await.unwrap();
    for n in 0..ALL {
        tell_padded(&house.store, &ours, n, 40_000).await;
        assert_eq!(quick.told().await.unwrap().data.unwrap()["data"]["n"], n);
    }
    for n in 0..ALL {
        assert_eq!(slow.told().await.unwrap().data.unwrap()["data"]["n"], n);
    }
}
