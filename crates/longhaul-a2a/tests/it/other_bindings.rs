//! gRPC, and version 0.3.

use longhaul_a2a::wire::v1::{
    self, GetTaskRequest, Message, Part, Role, SendMessageConfiguration, SendMessageRequest, TaskState,
    a2a_service_client::A2aServiceClient, part::Content, send_message_response, stream_response,
};
use serde_json::{Value, json};
use tonic::{Code, Request, transport::Channel};

use crate::ground::{Ground, House, Streamed, json_of, message, reason, unique};

async fn channel(house: &House) -> Channel {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    listener.set_nonblocking(true).expect("a listener");
    let incoming =
        tonic::transport::server::TcpIncoming::from(tokio::net::TcpListener::from_std(listener).expect("it"));
    let server = tonic::transport::Server::builder().add_routes(house.a2a.grpc());
    tokio::spawn(async move { drop(server.serve_with_incoming(incoming).await) });
    Channel::from_shared(format!("http://{address}")).expect("a URL").connect().await.expect("a connection")
}

fn with<T>(bearer: &str, version: Option<&'static str>, request: T) -> Request<T> {
    let mut request = Request::new(request);
    request.metadata_mut().insert("authorization", format!("Bearer {bearer}").parse().expect("a header"));
    if let Some(version) = version {
        request.metadata_mut().insert("a2a-version", version.parse().expect("a header"));
    }
    request
}

fn says(text: &str) -> SendMessageRequest {
    SendMessageRequest {
        message: Some(Message {
            message_id: unique(),
            role: Role::User.into(),
            parts: vec![Part { content: Some(Content::Text(text.to_owned())), ..Part::default() }],
            ..Message::default()
        }),
        configuration: Some(SendMessageConfiguration {
            return_immediately: true,
            ..SendMessageConfiguration::default()
        }),
        ..SendMessageRequest::default()
    }
}

#[tokio::test]
async fn a_task_begun_over_grpc_is_the_same_over_json() {
    let ground = Ground::new();
    let (house, mut expert) = House::open(&ground).await;
    let alice = house.join("alice").await;
    let mut client = A2aServiceClient::new(channel(&house).await);
    let sent = client.send_message(with(&alice.bearer(), Some("1.0"), says("over gRPC"))).await.unwrap().into_inner();
    let Some(send_message_response::Payload::Task(task)) = sent.payload else { panic!("a task") };
    let told = expert.next().await;
    let subscribe = v1::SubscribeToTaskRequest { id: task.id.clone(), ..v1::SubscribeToTaskRequest::default() };
    let mut updates =
        client.subscribe_to_task(with(&alice.bearer(), Some("1.0"), subscribe)).await.unwrap().into_inner();
    let first = updates.message().await.unwrap().unwrap().payload;
    assert!(matches!(first, Some(stream_response::Payload::Task(first)) if first == task));
    expert.update(&told.payload["a2a"]["task_id"], json!({ "state": "completed", "text": "yes" })).await.unwrap();
    let Some(stream_response::Payload::StatusUpdate(update)) = updates.message().await.unwrap().unwrap().payload else {
        panic!("a status")
    };
    assert_eq!(update.status.unwrap().state(), TaskState::Completed);
    assert!(updates.message().await.unwrap().is_none());
    let over_json = house.rpc(&alice, "GetTask", json!({ "id": task.id })).await.unwrap();
    assert_eq!(over_json["status"]["message"]["parts"][0]["text"], "yes");
}

#[tokio::test]
async fn errors_over_grpc_carry_their_reason() {
    let ground = Ground::new();
    let (house, _expert) = House::open(&ground).await;
    let alice = house.join("alice").await;
    let mut client = A2aServiceClient::new(channel(&house).await);
    let missing = GetTaskRequest { id: "none".to_owned(), ..GetTaskRequest::default() };
    let status = client.get_task(with(&alice.bearer(), Some("1.0"), missing.clone())).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    let details = String::from_utf8_lossy(status.details()).into_owned();
    for said in ["type.googleapis.com/google.rpc.ErrorInfo", "TASK_NOT_FOUND", "a2a-protocol.org"] {
        assert!(details.contains(said), "{details}");
    }
    let status = client.get_task(with(&alice.bearer(), None, missing.clone())).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    let status = client.get_task(with("alice:wrong", Some("1.0"), missing)).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    let empty = SendMessageRequest::default();
    let status = client.send_message(with(&alice.bearer(), Some("1.0"), empty)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(String::from_utf8_lossy(status.details()).contains("google.rpc.BadRequest"));
}

#[tokio::test]
async fn without_a_version_the_older_protocol_is_spoken() {
    let ground = Ground::new();
    let (house, mut expert) = House::open(&ground).await;
    let alice = house.join("alice").await;
    let old = json!({
        "kind": "message", "messageId": unique(), "role": "user",
        "parts": [
            { "kind": "text", "text": "see file" },
            { "kind": "file", "file": { "bytes": "AAAA", "mimeType": "image/png", "name": "a.png" } },
            { "kind": "data", "data": { "n": 1 } },
        ],
    });
    let stream = house.request("/a2a", &alice.bearer(), "", "message/stream", json!({ "message": old }));
    let mut stream = Streamed::of(stream.send().await.unwrap());
    let task = stream.next().await.unwrap()["result"].take();
    assert_eq!((task["kind"].as_str(), task["status"]["state"].as_str()), (Some("task"), Some("submitted")));
    assert_eq!(task["history"][0]["parts"], old["parts"]);
    assert_eq!(task["history"][0]["role"], "user");
    let told = expert.next().await;
    let parts = &told.payload["a2a"]["message"]["parts"];
    assert_eq!(parts[1], json!({ "raw": "AAAA", "mediaType": "image/png", "filename": "a.png" }));
    expert.update(&task["id"], json!({ "artifact": { "parts": [{ "text": "seen" }] } })).await.unwrap();
    expert.update(&task["id"], json!({ "state": "completed" })).await.unwrap();
    let updates: Vec<Value> = stream.rest().await.into_iter().map(|mut event| event["result"].take()).collect();
    assert_eq!(updates[0]["artifact"]["parts"], json!([{ "kind": "text", "text": "seen" }]));
    assert_eq!((updates[1]["kind"].as_str(), updates[1]["final"].as_bool()), (Some("status-update"), Some(true)));
    assert_eq!(updates[1]["status"]["state"], "completed");
    let get = house.request("/a2a", &alice.bearer(), "0.3", "tasks/get", json!({ "id": task["id"] }));
    assert_eq!(json_of(get.send().await.unwrap()).await.1["result"]["status"]["state"], "completed");
}

#[tokio::test]
async fn versions_that_are_not_spoken_are_refused() {
    let ground = Ground::new();
    let (house, _expert) = House::open(&ground).await;
    let alice = house.join("alice").await;
    for version in ["2.0", "1", "0.2", "x", "1.1"] {
        let sent = house.request("/a2a", &alice.bearer(), version, "ListTasks", json!({})).send().await.unwrap();
        assert_eq!(reason(&json_of(sent).await.1["error"]), "VERSION_NOT_SUPPORTED", "{version}");
    }
    let sent = house.request("/a2a", &alice.bearer(), "1.0.7", "ListTasks", json!({})).send().await.unwrap();
    assert!(json_of(sent).await.1.get("result").is_some());
    let by_parameter = house.client.get(house.url("/a2a/rest/tasks?A2A-Version=1.0")).bearer_auth(alice.bearer());
    assert_eq!(by_parameter.send().await.unwrap().status(), 200);
    let none = house.client.get(house.url("/a2a/rest/tasks")).bearer_auth(alice.bearer()).send().await.unwrap();
    let (status, body) = json_of(none).await;
    assert_eq!((status.as_u16(), reason(&body["error"])), (400, "VERSION_NOT_SUPPORTED"));
    // A method of 1.0 without its version is told what is missing.
    let sent = house.request("/a2a", &alice.bearer(), "", "SendMessage", json!({ "message": message("x") }));
    assert_eq!(reason(&json_of(sent.send().await.unwrap()).await.1["error"]), "VERSION_NOT_SUPPORTED");
}
