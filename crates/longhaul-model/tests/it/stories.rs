//! What the tests share: a short story, requests, and a client that does not wait long.

use longhaul_core::{Ambient, SeededRng, SystemClock, ToolSpec};
use longhaul_model::{
    CallLimits, Cassette, CassetteServer, CassetteServerSettings, ChatModel, ChatRequest, ChatResponse, Message,
    ModelError, OpenAiChat, OpenAiSettings,
};

pub(crate) const STORY: &str = r##"
cassette = 1
title = "writing a file"
request = "建一个文件"
model = "cassette-test"

[[entry]]
id = "write"
prompt = ["# Coding session 1\n", "F03"]
require = [{ in = "system", text = "careful" }, { in = "prompt", text = "Recalled: 蓝色" }]
reply = "I write the page first, then I look at it."
[[entry.call]]
tool = "write_file"
[entry.call.arguments]
path = "页.html"
content = '''<p>"你好" \ done</p>
'''
lines = [1, 2.5, true]
[[entry.call]]
tool = "shell"
arguments_text = '{"command": '

[[entry]]
id = "finish"
prompt = ["# Coding session 1\n", "F03"]
turn = 1
require = [{ in = "tool", text = "wrote 页.html" }, { in = "tool", text = "not JSON" }, { in = "last", text = "not JSON" }, { in = "any", text = "careful" }]
reply = "Done."
"##;

pub(crate) fn ambient() -> Ambient {
    Ambient::new(std::sync::Arc::new(SystemClock), std::sync::Arc::new(SeededRng::new(7)))
}

pub(crate) async fn serve(story: &str) -> CassetteServer {
    let cassette = Cassette::parse(story, "story.toml").unwrap();
    CassetteServer::start(cassette, CassetteServerSettings::default(), &ambient()).await.unwrap()
}

pub(crate) fn settings(base_url: &str) -> OpenAiSettings {
    let limits = CallLimits { backoff_first_ms: 2, backoff_ms_max: 8, attempts_max: 3, ..CallLimits::default() };
    OpenAiSettings { base_url: base_url.to_owned(), limits, ..OpenAiSettings::new("cassette-test") }
}

pub(crate) fn client(base_url: &str) -> OpenAiChat {
    OpenAiChat::new(settings(base_url), &ambient()).unwrap()
}

pub(crate) fn first_request() -> ChatRequest {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: "a tool".into(),
        parameters: serde_json::json!({"type": "object"}),
    };
    ChatRequest {
        system: "be careful".into(),
        messages: vec![Message::User { content: "# Coding session 1\nTask: feature F03\nRecalled: 蓝色".into() }],
        tools: vec![tool("write_file"), tool("shell")],
        answer_tokens_max: 1_000,
        answer_schema: None,
    }
}

/// The first request, the answer to it, and what the tools said.
pub(crate) fn second_request(first: &ChatResponse) -> ChatRequest {
    let mut request = first_request();
    request.messages.push(first.message());
    for (call, content) in first.tool_calls.iter().zip(["wrote 页.html (3 bytes)", "the arguments are not JSON"]) {
        request.messages.push(Message::Tool { call_id: call.id.clone(), content: content.into() });
    }
    request
}

pub(crate) async fn ask(model: &OpenAiChat, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
    model.chat(request, &mut |_| {}).await
}
