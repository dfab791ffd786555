//! One story through all three protocols: our clients against the cassette server.

use longhaul_core::ToolSpec;
use longhaul_model::{
    AnswerSchema, AnthropicChat, AnthropicSettings, CallLimits, Cassette, CassetteRecorder, CassetteServer,
    CassetteServerSettings, ChatModel, ChatRequest, ChatResponse, ErrorKind, FallbackChat, Finish, Message, ModelError,
    OpenAiChat, OpenAiResponses, OpenAiSettings, RecorderSettings, Secret, Thinking,
};
use serde_json::json;
use std::sync::Arc;

use crate::{
    liar::{Liar, Lie, http},
    stories::{STORY, ambient, first_request, second_request, serve, settings},
};

const OFFICIAL: &str = include_str!("../sdks/story.toml");

fn limits() -> CallLimits {
    settings("").limits
}

fn anthropic(base_url: &str, model: &str) -> AnthropicSettings {
    AnthropicSettings { base_url: base_url.to_owned(), limits: limits(), ..AnthropicSettings::new(model) }
}

/// A client of each protocol, streamed and whole.
fn clients(base_url: &str, model: &str) -> Vec<Box<dyn ChatModel>> {
    let mut clients: Vec<Box<dyn ChatModel>> = Vec::new();
    for stream in [true, false] {
        let openai =
            OpenAiSettings { base_url: base_url.to_owned(), limits: limits(), stream, ..OpenAiSettings::new(model) };
        let thinking = Thinking::Tokens(1_024);
        let anthropic = AnthropicSettings { stream, thinking, ..anthropic(base_url, model) };
        clients.push(Box::new(OpenAiChat::new(openai.clone(), &ambient()).unwrap()));
        clients.push(Box::new(OpenAiResponses::new(openai, &ambient()).unwrap()));
        clients.push(Box::new(AnthropicChat::new(anthropic, &ambient()).unwrap()));
    }
    clients
}

async fn ask(model: &dyn ChatModel, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
    let mut shown = String::new();
    let answer = model.chat(request, &mut |text| shown.push_str(text)).await;
    if let Ok(answer) = &answer {
        assert_eq!(shown, answer.content, "what was shown is what was said");
    }
    answer
}

fn prompt(text: &str) -> ChatRequest {
    ChatRequest { messages: vec![Message::User { content: text.into() }], ..ChatRequest::default() }
}

#[tokio::test]
async fn one_story_is_the_same_over_each_protocol() {
    let server = serve(STORY).await;
    for model in clients(&server.base_url(), "cassette-test") {
        let spec = model.info().spec();
        let mut asked = first_request();
        // A whole message of Anthropic's has no arguments that are not JSON: there they come in an object.
        let first = ask(&*model, &asked).await.unwrap();
        assert_eq!(first.content, "I write the page first, then I look at it.", "{spec}");
        assert_eq!((first.finish, first.answered_by.as_str()), (Finish::ToolCalls, spec.as_str()));
        assert_eq!(first.model, "cassette-test");
        let written: serde_json::Value = serde_json::from_str(&first.tool_calls[0].arguments).unwrap();
        assert_eq!(
            written,
            json!({"path": "页.html", "content": "<p>\"你好\" \\ done</p>\n", "lines": [1, 2.5, true]})
        );
        assert!(first.tool_calls[1].arguments.contains("command"), "{spec}");
        assert!(!first.usage.estimated && first.usage.prompt_tokens > 20 && first.usage.answer_tokens > 20, "{spec}");
        asked = second_request(&first);
        let second = ask(&*model, &asked).await.unwrap();
        assert_eq!((second.content.as_str(), second.finish), ("Done.", Finish::Stop), "{spec}");
    }
    assert_eq!(server.served().len(), 12);
}

/// The story in which the model thinks, asked as the official clients ask it.
async fn think_it_through(model: &dyn ChatModel, salt: &str) -> Vec<ChatResponse> {
    let tool =
        ToolSpec { name: "read_file".into(), description: "reads".into(), parameters: json!({"type": "object"}) };
    let mut request = ChatRequest {
        system: format!("be careful {salt} {}", "every rule of this house is written down once. ".repeat(200)),
        tools: vec![tool],
        answer_tokens_max: 4_000,
        ..prompt("look at 页.html")
    };
    let mut answers = Vec::new();
    for results in [&["<h1>你好</h1>", "no such file"][..], &["three"], &[]] {
        let answer = ask(model, &request).await.unwrap();
        request.messages.push(answer.message());
        assert_eq!(answer.tool_calls.len(), results.len());
        for (call, result) in answer.tool_calls.iter().zip(results) {
            request.messages.push(Message::Tool { call_id: call.id.clone(), content: (*result).into() });
        }
        // As it is stored and read back.
        let stored: ChatResponse = serde_json::from_str(&serde_json::to_string(&answer).unwrap()).unwrap();
        assert_eq!(stored, answer);
        answers.push(answer);
    }
    assert_eq!(answers[2].content, "One of the two exists.");
    answers
}

#[tokio::test]
async fn what_the_model_thought_goes_back_as_it_came_and_beginnings_are_cached() {
    let server = serve(OFFICIAL).await;
    for (index, model) in clients(&server.base_url(), "cassette-judge").into_iter().enumerate() {
        let spec = model.info().spec();
        let answers = think_it_through(&*model, &index.to_string()).await;
        let thoughts: Vec<usize> = answers.iter().map(|answer| answer.reasoning.len()).collect();
        assert_eq!(thoughts, if spec.starts_with("openai:") { [0, 0, 0] } else { [1, 1, 0] }, "{spec}");
        assert_eq!(answers[0].usage.cached_tokens, 0, "{spec}");
        for answer in &answers[1..] {
            let usage = answer.usage;
            assert!(usage.cached_tokens >= 1_024 && usage.cached_tokens < usage.prompt_tokens, "{spec}: {usage:?}");
            let cached = (usage.cached_tokens + usage.written_tokens) * 100 / usage.prompt_tokens;
            assert!(cached >= 90, "{spec}: {usage:?}");
        }
    }
}

#[tokio::test]
async fn thinking_that_was_changed_or_lost_is_refused_by_the_service() {
    let server = serve(OFFICIAL).await;
    for model in clients(&server.base_url(), "cassette-judge").into_iter().skip(1).take(2) {
        let answers = think_it_through(&*model, "x").await;
        let mut forged = answers[0].clone();
        for name in ["thinking", "encrypted_content"] {
            if let Some(field) = forged.reasoning[0].block.get_mut(name) {
                *field = "else".into();
            }
        }
        let mut request =
            ChatRequest { system: "be careful".into(), answer_tokens_max: 9, ..prompt("look at 页.html") };
        request.messages.push(forged.message());
        for call in &forged.tool_calls {
            request.messages.push(Message::Tool { call_id: call.id.clone(), content: "no such file".into() });
        }
        let error = ask(&*model, &request).await.unwrap_err();
        assert!(matches!(error, ModelError::Refused { status: 400, .. }), "{error}");
    }
}

#[tokio::test]
async fn ends_errors_and_faults_are_told_alike() {
    for index in 0..6 {
        let server = serve(OFFICIAL).await;
        let model = clients(&server.base_url(), "cassette-judge").swap_remove(index);
        let spec = model.info().spec();
        for (asked, finish) in [
            ("a long story", Finish::Length),
            ("something forbidden", Finish::ContentFilter),
            ("who are you", Finish::Stop),
        ] {
            assert_eq!(ask(&*model, &prompt(asked)).await.unwrap().finish, finish, "{spec}: {asked}");
        }
        let late = ask(&*model, &prompt("a busy service")).await.unwrap();
        assert_eq!((late.content.as_str(), late.retries[0].status), ("at last", Some(429)), "{spec}");
        let busy = ask(&*model, &prompt("an overloaded service")).await.unwrap_err();
        assert!(matches!(busy, ModelError::Busy { status: 529, attempts: 3, .. }), "{spec}: {busy}");
        let cut = ask(&*model, &prompt("a broken line")).await.unwrap_err();
        assert_eq!((cut.code(), cut.kind()), ("model_cut", ErrorKind::Retry), "{spec}: {cut}");
        let other = clients(&server.base_url(), "gpt-0").swap_remove(index);
        assert_eq!(ask(&*other, &prompt("hi")).await.unwrap_err().code(), "model_not_found", "{spec}");
    }
}

#[tokio::test]
async fn an_answer_with_a_schema_is_json_of_that_schema_or_none() {
    let server = serve(OFFICIAL).await;
    let schema = |kind: &str| AnswerSchema {
        name: "person".into(),
        schema: json!({"type": "object", "required": ["name", "age"], "additionalProperties": false,
            "properties": {"name": {"type": "string"}, "age": {"type": kind}}}),
    };
    for model in clients(&server.base_url(), "cassette-judge") {
        let spec = model.info().spec();
        let asked = ChatRequest { answer_schema: Some(schema("integer")), ..prompt("Ada as JSON") };
        let answer = ask(&*model, &asked).await.unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&answer.content).unwrap()["age"], 36, "{spec}");
        let wrong = ChatRequest { answer_schema: Some(schema("string")), ..asked };
        let error = ask(&*model, &wrong).await.unwrap_err();
        assert!(error.code() == "model_malformed" && error.to_string().contains("/age"), "{spec}: {error}");
        let prose = ChatRequest { answer_schema: Some(schema("integer")), ..prompt("who are you") };
        assert!(matches!(ask(&*model, &prose).await, Err(ModelError::Refused { status: 422, .. })), "{spec}");
    }
    // A service without the promise is told in words, and its fence is taken away.
    let fenced = http(
        "200 OK",
        "application/json",
        r#"{"choices":[{"message":{"content":"```json\n{\"name\":\"Ada\",\"age\":3}\n```"},"finish_reason":"stop"}]}"#,
    );
    let liar = Liar::start(vec![Lie::Bytes(fenced)]).await;
    let plain = OpenAiSettings { promises_schema: false, ..settings(&liar.base_url) };
    let model = OpenAiChat::new(plain, &ambient()).unwrap();
    let asked = ChatRequest { answer_schema: Some(schema("integer")), ..prompt("Ada") };
    let answer = model.chat(&asked, &mut |_| {}).await.unwrap();
    assert_eq!(answer.content, r#"{"name":"Ada","age":3}"#);
    let sent = &liar.requests()[0];
    assert!(sent.contains("Answer with JSON alone") && !sent.contains("response_format"), "{sent}");
}

#[tokio::test]
async fn the_next_model_answers_where_one_does_not_and_the_answer_says_so() {
    let server = serve(OFFICIAL).await;
    let down = http(
        "529 Overloaded",
        "application/json",
        r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#,
    );
    let liar = Liar::start(vec![Lie::Bytes(down)]).await;
    let first = Arc::new(AnthropicChat::new(anthropic(&liar.base_url, "claude"), &ambient()).unwrap());
    let small = AnthropicSettings {
        window_tokens: 50_000,
        thinking: Thinking::Tokens(1_024),
        ..anthropic(&server.base_url(), "cassette-judge")
    };
    let second: Arc<dyn ChatModel> = Arc::new(AnthropicChat::new(small, &ambient()).unwrap());
    let model = FallbackChat::new(first, vec![second], &ambient());
    assert_eq!((model.info().spec().as_str(), model.info().window_tokens), ("anthropic:claude", 50_000));
    let passed = |answer: &ChatResponse| {
        answer.passed_over.iter().map(|passed| format!("{} {}", passed.spec, passed.code)).collect::<Vec<_>>()
    };
    let answers = think_it_through(&model, "f").await;
    assert_eq!(answers[0].answered_by, "anthropic:cassette-judge");
    assert_eq!(passed(&answers[0]), ["anthropic:claude model_busy"]);
    assert_eq!(passed(&answers[1]), ["anthropic:claude resting"], "who failed is left alone for a while");
    assert_eq!(liar.requests().len(), 3, "three attempts of the first call and no more");

    // What is wrong with the request is wrong for everybody.
    let unmet = ChatRequest { tools: Vec::new(), ..prompt("look at 页.html") };
    assert_eq!(ask(&model, &unmet).await.unwrap_err().kind(), ErrorKind::FixInput);
    server.stop().await;
    let error = ask(&model, &prompt("who are you")).await.unwrap_err();
    assert_eq!((error.code(), liar.requests().len()), ("model_busy", 6), "with nobody left those that rest are asked");
}

#[tokio::test]
async fn the_key_of_each_service_is_in_its_header_and_nowhere_else() {
    let answer = http(
        "401 Unauthorized",
        "application/json",
        r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key sk-secret"}}"#,
    );
    let liar = Liar::start(vec![Lie::Bytes(answer)]).await;
    let key = Some(longhaul_model::Secret::new("sk-secret"));
    let model =
        AnthropicChat::new(AnthropicSettings { api_key: key, ..anthropic(&liar.base_url, "c") }, &ambient()).unwrap();
    let error = ask(&model, &prompt("hi")).await.unwrap_err();
    let shown = format!("{error} {error:?} {model:?}");
    assert!(shown.contains("ANTHROPIC_API_KEY") && !shown.contains("sk-secret"), "{shown}");
    let request = &liar.requests()[0];
    assert!(request.starts_with("POST /v1/messages ") && request.contains("x-api-key: sk-secret\r\n"), "{request}");
    assert!(request.contains("anthropic-version: 2023-06-01\r\n") && !request.contains("authorization"), "{request}");
    assert_eq!(request.matches("sk-secret").count(), 1);
}

#[test]
fn an_answer_recorded_by_the_first_release_is_read() {
    let old = r#"{"content":"hi","tool_calls":[],"usage":{"prompt_tokens":1,"answer_tokens":2,"cached_tokens":0},"finish":"stop","model":"m"}"#;
    let read: ChatResponse = serde_json::from_str(old).unwrap();
    assert_eq!((read.answered_by.as_str(), read.reasoning.len(), read.usage.written_tokens), ("", 0, 0));
    let message: Message = serde_json::from_str(r#"{"role":"assistant","content":"hi"}"#).unwrap();
    assert_eq!(message, Message::said("hi"));
}

#[tokio::test]
async fn what_a_service_answers_is_recorded_and_plays_again() {
    let service_key = Secret::new("sk-the-real-one");
    let settings = CassetteServerSettings { api_key: Some(service_key.clone()), ..Default::default() };
    let real = CassetteServer::start(Cassette::parse(OFFICIAL, "s").unwrap(), settings, &ambient()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (index, spec) in ["openai", "openai-responses", "anthropic"].into_iter().enumerate() {
        let file = folder.path().join(format!("{spec}.toml"));
        let settings = RecorderSettings {
            port: 0,
            service: real.base_url(),
            service_key: Some(service_key.clone()),
            own_key: Some(Secret::new("sk-own")),
            file: file.clone(),
            title: "recorded \"here\"".into(),
        };
        let recorder = CassetteRecorder::start(settings).await.unwrap();
        let client = |base_url: &str, key: &str, place: usize| -> Box<dyn ChatModel> {
            let key = Some(Secret::new(key));
            let openai = OpenAiSettings {
                base_url: base_url.to_owned(),
                api_key: key.clone(),
                limits: limits(),
                ..OpenAiSettings::new("cassette-judge")
            };
            let thinking = Thinking::Tokens(1_024);
            let anthropic = AnthropicSettings { api_key: key, thinking, ..anthropic(base_url, "cassette-judge") };
            match place {
                0 => Box::new(OpenAiChat::new(openai, &ambient()).unwrap()),
                1 => Box::new(OpenAiResponses::new(openai, &ambient()).unwrap()),
                _ => Box::new(AnthropicChat::new(anthropic, &ambient()).unwrap()),
            }
        };
        let through = client(&recorder.base_url(), "sk-own", index);
        let heard = think_it_through(&*through, "r").await;
        ask(&*through, &prompt("who are you\nand why")).await.unwrap();
        ask(&*through, &prompt("who are you\nand where")).await.unwrap();
        let stranger = client(&recorder.base_url(), "sk-the-real-one", index);
        assert_eq!(ask(&*stranger, &prompt("who")).await.unwrap_err().code(), "model_unauthorized");
        assert_eq!(recorder.recorded(), 5, "{spec}");
        recorder.stop().await;

        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains("sk-"), "{text}");
        let again = Cassette::load(&file).unwrap();
        assert_eq!((again.title(), again.lint()), ("recorded \"here\"", vec![]), "{text}");
        let again = CassetteServer::start(again, CassetteServerSettings::default(), &ambient()).await.unwrap();
        let played = think_it_through(&*client(&again.base_url(), "", index), "r").await;
        for (heard, played) in heard.iter().zip(&played) {
            assert_eq!((&heard.content, heard.finish), (&played.content, played.finish));
            let calls = |answer: &ChatResponse| -> Vec<(String, serde_json::Value)> {
                let calls = answer.tool_calls.iter();
                calls.map(|call| (call.name.clone(), serde_json::from_str(&call.arguments).unwrap())).collect()
            };
            assert_eq!(calls(heard), calls(played));
        }
    }
}
