//! The MCP server as a client meets it: real lines on a pipe, real HTTP on loopback.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use longhaul_core::{Ambient, ToolSpec};
use longhaul_tools::{
    Tool, ToolHints, ToolOutput, ToolRegistry,
    mcp::{BearerToken, HttpServer, HttpSettings, McpError, McpServer, McpSettings},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;

/// Says what it is told; asked for `forever`, it never ends.
struct Echo;

#[async_trait]
impl Tool for Echo {
    fn spec(&self) -> ToolSpec {
        let parameters = json!({"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}});
        ToolSpec { name: "echo".to_owned(), description: "Says it again.".to_owned(), parameters }
    }

    fn changes_work_tree(&self) -> bool {
        false
    }

    fn hints(&self) -> ToolHints {
        ToolHints::reads("Echo")
    }

    async fn call(&self, arguments: Value) -> ToolOutput {
        let text = arguments["text"].as_str().unwrap_or_default();
        if text == "forever" {
            std::future::pending::<()>().await;
        }
        ToolOutput::ok(text).with_structured(json!({ "said": text }))
    }
}

fn server() -> McpServer {
    let tools = ToolRegistry::new([Arc::new(Echo) as Arc<dyn Tool>]).unwrap();
    let settings = McpSettings {
        call_max: Duration::from_millis(300),
        message_bytes_max: 64 * 1024,
        ..McpSettings::new("toy", "1.2.3", "Use echo.")
    };
    McpServer::new(tools, settings)
}

/// A client that writes and reads lines.
struct Client {
    output: WriteHalf<DuplexStream>,
    input: BufReader<ReadHalf<DuplexStream>>,
    served: tokio::task::JoinHandle<Result<(), McpError>>,
}

impl Client {
    fn new() -> Self {
        let (ours, theirs) = tokio::io::duplex(256 * 1024);
        let (input, output) = tokio::io::split(theirs);
        let served = tokio::spawn(server().serve(input, output, CancellationToken::new()));
        let (input, output) = tokio::io::split(ours);
        Self { output, input: BufReader::new(input), served }
    }

    async fn send(&mut self, message: Value) {
        self.output.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let mut line = String::new();
        let read = tokio::time::timeout(Duration::from_secs(20), self.input.read_line(&mut line)).await;
        assert!(read.expect("an answer in time").unwrap() > 0, "the server closed its end");
        serde_json::from_str(&line).unwrap()
    }

    async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        self.receive().await
    }

    async fn begin(&mut self, version: &str) -> Value {
        let params =
            json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
        let answer = self.ask(0, "initialize", params).await;
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer
    }
}

#[tokio::test]
async fn a_conversation_from_handshake_to_end() {
    let mut client = Client::new();
    let hello = client.begin("2025-06-18").await;
    assert_eq!(hello["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(hello["result"]["serverInfo"]["name"], "toy");
    assert_eq!(hello["result"]["instructions"], "Use echo.");
    let listed = client.ask(1, "tools/list", json!({})).await;
    let tool = &listed["result"]["tools"][0];
    assert_eq!((&tool["name"], &tool["annotations"]["readOnlyHint"]), (&json!("echo"), &json!(true)));
    assert_eq!(tool["inputSchema"]["required"], json!(["text"]));
    let said = client.ask(2, "tools/call", json!({"name": "echo", "arguments": {"text": "记忆"}})).await;
    assert_eq!(said["result"]["content"][0]["text"], "记忆");
    assert_eq!(said["result"]["structuredContent"], json!({"said": "记忆"}));
    assert_eq!(said["result"]["isError"], false);
    drop(client.output);
    drop(client.input);
    client.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_is_wrong_is_said_and_the_conversation_goes_on() {
    let mut client = Client::new();
    // A revision that does not exist is answered with one that does.
    let hello = client.begin("1999-01-01").await;
    assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");
    let unknown = client.ask(1, "tools/call", json!({"name": "ecko", "arguments": {}})).await;
    assert_eq!(unknown["error"]["code"], -32602);
    assert!(unknown["error"]["message"].as_str().unwrap().contains("did you mean echo?"), "{unknown}");
    let wrong = client.ask(2, "tools/call", json!({"name": "echo", "arguments": {"text": 7}})).await;
    assert_eq!(wrong["result"]["isError"], true);
    assert!(wrong["result"]["content"][0]["text"].as_str().unwrap().contains("\"text\" must be a string"), "{wrong}");
    let cursor = client.ask(3, "tools/list", json!({"cursor": "next"})).await;
    assert_eq!(cursor["error"]["code"], -32602);
    let method = client.ask(4, "no/such", json!({})).await;
    assert_eq!(method["error"]["code"], -32601);
    let slow = client.ask(5, "tools/call", json!({"name": "echo", "arguments": {"text": "forever"}})).await;
    assert!(slow["result"]["content"][0]["text"].as_str().unwrap().contains("did not end within 0.3 s"), "{slow}");
    // A line above the limit and one that is no JSON are refused; neither ends the conversation.
    client.send(json!({"jsonrpc": "2.0", "id": 6, "method": "ping", "params": {"pad": "x".repeat(100_000)}})).await;
    client.output.write_all(b"this is no message\n").await.unwrap();
    client.send(json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "on"}}})).await;
    loop {
        let answer = client.receive().await;
        if answer["id"] == 7 {
            assert_eq!(answer["result"]["content"][0]["text"], "on");
            break;
        }
        assert!(answer.get("error").is_some(), "{answer}");
    }
}

#[tokio::test]
async fn a_cancelled_call_ends_and_others_are_answered() {
    let mut client = Client::new();
    client.begin("2025-11-25").await;
    client.send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "forever"}}})).await;
    client.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})).await;
    let said = client.ask(2, "tools/call", json!({"name": "echo", "arguments": {"text": "still here"}})).await;
    // The cancelled one is not answered, as the protocol wants it.
    assert_eq!((&said["id"], &said["result"]["content"][0]["text"]), (&json!(2), &json!("still here")));
}

struct Web {
    address: String,
    token: String,
    stop: CancellationToken,
}

impl Web {
    async fn new(sessions_max: usize) -> Self {
        let settings = HttpSettings { sessions_max, ..HttpSettings::new("127.0.0.1:0".parse().unwrap()) };
        let server = HttpServer::bind(server(), settings, Ambient::system().rng.as_ref()).await.unwrap();
        let address = server.url().trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let (token, stop) = (server.token().expose().to_owned(), CancellationToken::new());
        tokio::spawn(server.run(stop.clone()));
        Self { address, token, stop }
    }

    /// Status and whole answer of a request; `headers` may replace what is usual.
    async fn post(&self, headers: &[(&str, &str)], body: &Value) -> (u16, String) {
        let usual = [
            ("Host", self.address.as_str()),
            ("Authorization", &format!("Bearer {}", self.token)),
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
        ];
        let body = body.to_string();
        let mut request = format!("POST /mcp HTTP/1.1\r\nContent-Length: {}\r\nConnection: close\r\n", body.len());
        for (name, value) in
            usual.iter().filter(|(name, _)| headers.iter().all(|(other, _)| other != name)).chain(headers)
        {
            if !value.is_empty() {
                request.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        stream.write_all(format!("{request}\r\n{body}").as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.unwrap().unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
    }
}

fn initialize() -> Value {
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

#[tokio::test]
async fn over_http_only_the_holder_of_the_token_is_answered() {
    let web = Web::new(8).await;
    let (status, answer) = web.post(&[], &initialize()).await;
    assert_eq!(status, 200, "{answer}");
    assert!(answer.to_lowercase().contains("mcp-session-id: ") && answer.contains("2025-11-25"), "{answer}");
    let session = answer
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix("mcp-session-id: ").map(|id| id.trim().to_owned()))
        .unwrap();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hello"}}});
    let (status, answer) = web.post(&[("Mcp-Session-Id", &session)], &call).await;
    assert!(status == 200 && answer.contains("hello"), "{answer}");
    for wrong in ["", "Bearer wrong-token-wrong-token", "Basic abc"] {
        let (status, answer) = web.post(&[("Authorization", wrong)], &initialize()).await;
        assert!(status == 401 && answer.to_lowercase().contains("www-authenticate: bearer"), "{answer}");
        assert!(!answer.contains(&web.token));
    }
    // A page that resolves its own name to loopback is not let in, token or not.
    assert_eq!(web.post(&[("Host", "evil.example:80")], &initialize()).await.0, 403);
    assert_eq!(web.post(&[("Origin", "http://evil.example")], &initialize()).await.0, 403);
    let large = json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"pad": "x".repeat(100_000)}});
    assert_eq!(web.post(&[("Mcp-Session-Id", &session)], &large).await.0, 413);
    web.stop.cancel();
}

#[tokio::test]
async fn sessions_are_bounded_and_requests_of_the_newest_revision_need_none() {
    let web = Web::new(2).await;
    assert_eq!(web.post(&[], &initialize()).await.0, 200);
    assert_eq!(web.post(&[], &initialize()).await.0, 200);
    let (status, answer) = web.post(&[], &initialize()).await;
    assert!(status == 503 && answer.contains("2 sessions are open"), "{answer}");
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": "stateless"}, "_meta": meta}});
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo")];
    let (status, answer) = web.post(&headers, &call).await;
    assert!(status == 200 && answer.contains("stateless"), "{answer}");
    web.stop.cancel();
}

#[tokio::test]
async fn it_listens_on_loopback_only() {
    let bind = async |address: &str| {
        HttpServer::bind(server(), HttpSettings::new(address.parse().unwrap()), Ambient::system().rng.as_ref()).await
    };
    let Err(refused) = bind("0.0.0.0:8701").await else { panic!("it listens everywhere") };
    assert!(refused.to_string().contains("listen on 127.0.0.1:8701"), "{refused}");
    let taken = TcpStream::connect(Web::new(1).await.address).await.unwrap().peer_addr().unwrap();
    let Err(refused) = bind(&taken.to_string()).await else { panic!("two listen at one address") };
    assert!(refused.to_string().contains("name another port"), "{refused}");
    assert!(matches!(BearerToken::given("too short"), Err(McpError::WeakToken { .. })));
}
