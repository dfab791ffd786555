//! The cassette server, asked by the real client and by hand.

use std::time::{Duration, Instant};

use longhaul_core::ToolCall;
use longhaul_model::{
    Cassette, CassetteServer, CassetteServerError, CassetteServerSettings, ChatModel, ChatRequest, ErrorKind, Finish,
    Message, ModelError, OpenAiChat, OpenAiSettings, Secret, Served, ServedOutcome,
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::stories::{STORY, ambient, ask, client, first_request, second_request, serve, settings};

#[tokio::test]
async fn a_story_is_played_the_same_streamed_and_whole() {
    let server = serve(STORY).await;
    let streaming = client(&server.base_url());
    let whole = OpenAiSettings { stream: false, ..settings(&server.base_url()) };
    let whole = OpenAiChat::new(whole, &ambient()).unwrap();

    let mut pieces = Vec::new();
    let first = streaming.chat(&first_request(), &mut |text| pieces.push(text.to_owned())).await.unwrap();
    assert_eq!(first.content, "I write the page first, then I look at it.");
    assert!(pieces.len() > 2, "the text came in {pieces:?}");
    assert_eq!(pieces.concat(), first.content);
    let arguments = r#"{"path":"页.html","content":"<p>\"你好\" \\ done</p>\n","lines":[1,2.5,true]}"#;
    let call = |index: usize, name: &str, arguments: &str| ToolCall {
        id: format!("call_write_{index}"),
        name: name.into(),
        arguments: arguments.into(),
    };
    assert_eq!(first.tool_calls, [call(0, "write_file", arguments), call(1, "shell", "{\"command\": ")]);
    assert_eq!((first.finish, first.model.as_str()), (Finish::ToolCalls, "cassette-test"));
    assert!(!first.usage.estimated && first.usage.prompt_tokens > 20 && first.usage.answer_tokens > 20);
    assert_eq!(ask(&whole, &first_request()).await.unwrap(), first);

    let second = second_request(&first);
    let done = ask(&streaming, &second).await.unwrap();
    assert_eq!((done.content.as_str(), done.finish), ("Done.", Finish::Stop));
    assert_eq!(ask(&whole, &second).await.unwrap(), done);
    assert!(done.usage.prompt_tokens > first.usage.prompt_tokens);
    server.stop().await;
}

#[tokio::test]
async fn the_wire_is_as_the_real_service_has_it() {
    let server = serve(STORY).await;
    let http = reqwest::Client::builder().no_proxy().tls_backend_preconfigured(no_tls()).build().unwrap();
    let mut body = serde_json::json!({
        "model": "cassette-test", "stream": true,
        "messages": [{"role": "developer", "content": "be careful"}, {"role": "user", "content": [
            {"type": "text", "text": "# Coding session 1\nF03 Recalled: 蓝色"}]}],
        "tools": [{"type": "function", "function": {"name": "write_file"}}, {"type": "function", "function": {"name": "shell"}}],
    });
    let url = format!("{}/chat/completions", server.base_url());
    let send = async |body: &Value| http.post(&url).body(body.to_string()).send().await.unwrap().text().await.unwrap();
    let stream = send(&body).await;
    let events: Vec<&str> =
        stream.split_terminator("\n\n").map(|event| event.strip_prefix("data: ").unwrap()).collect();
    assert_eq!(events.last(), Some(&"[DONE]"));
    let chunks: Vec<Value> =
        events[..events.len() - 1].iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    assert!(chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk.get("usage").is_none()));
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let last = &chunks[chunks.len() - 1]["choices"][0];
    assert_eq!((&last["finish_reason"], &last["delta"]), (&"tool_calls".into(), &serde_json::json!({})));
    let of_first_call = chunks.iter().filter(|chunk| chunk["choices"][0]["delta"]["tool_calls"][0]["index"] == 0);
    let with_id =
        of_first_call.clone().filter(|chunk| chunk["choices"][0]["delta"]["tool_calls"][0].get("id").is_some());
    assert!(of_first_call.count() > 3, "arguments come in several deltas");
    assert_eq!(with_id.count(), 1);

    body["stream_options"] = serde_json::json!({"include_usage": true});
    let stream = send(&body).await;
    let usage: Value =
        serde_json::from_str(stream.rsplit("\n\n").nth(2).unwrap().strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(usage["choices"], serde_json::json!([]));
    assert!(usage["usage"]["total_tokens"].as_u64().unwrap() > 0);

    let models: Value = serde_json::from_str(
        &http.get(format!("{}/models", server.base_url())).send().await.unwrap().text().await.unwrap(),
    )
    .unwrap();
    assert_eq!(models["data"][0]["id"], "cassette-test");
}

fn no_tls() -> rustls::ClientConfig {
    rustls::ClientConfig::builder_with_provider(std::sync::Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

#[tokio::test]
async fn only_the_holder_of_the_key_is_answered() {
    let key = Secret::random(&*ambient().rng);
    let guarded = CassetteServerSettings { api_key: Some(key.clone()), ..CassetteServerSettings::default() };
    let server = CassetteServer::start(Cassette::parse(STORY, "s").unwrap(), guarded, &ambient()).await.unwrap();
    let with = |key: Option<Secret>| {
        let settings = OpenAiSettings { api_key: key, ..settings(&server.base_url()) };
        OpenAiChat::new(settings, &ambient()).unwrap()
    };
    let right = with(Some(key));
    assert!(ask(&right, &first_request()).await.is_ok());
    assert_eq!(right.list_models().await.unwrap(), Some(vec!["cassette-test".to_owned()]));
    for wrong in [None, Some(Secret::new("sk-wrong"))] {
        let without = wrong.is_none();
        let model = with(wrong);
        let error = ask(&model, &first_request()).await.unwrap_err();
        assert_eq!(model.list_models().await.unwrap_err().code(), error.code());
        let message = error.to_string();
        assert_eq!((error.code(), error.kind()), ("model_unauthorized", ErrorKind::Operator));
        assert!(
            message.contains("OPENAI_API_KEY") && message.contains("401") && !message.contains("sk-wrong"),
            "{message}"
        );
        assert_eq!(message.contains("no key was sent"), without, "{message}");
    }
    assert_eq!(server.served().len(), 1);
}

#[tokio::test]
async fn a_request_without_an_entry_is_told_the_nearest_ones() {
    let server = serve(STORY).await;
    let mut request = first_request();
    request.messages[0] = Message::User { content: "# Coding session 1\nTask: feature F99".into() };
    let error = ask(&client(&server.base_url()), &request).await.unwrap_err();
    let message = error.to_string();
    assert_eq!((error.code(), error.kind()), ("model_refused", ErrorKind::FixInput));
    for part in ["HTTP 404", "turn 0", "\"# Coding session 1\"", "\"write\" at line 8 (turn 0, prompt lacks \"F03\")"] {
        assert!(message.contains(part), "{message:?} does not have {part:?}");
    }
    assert_eq!(server.served()[0].outcome, ServedOutcome::Refused);
}

#[tokio::test]
async fn two_entries_for_one_request_are_both_named() {
    let story = "cassette = 1\ntitle = \"t\"\nmodel = \"cassette-test\"\n\
        [[entry]]\nid = \"a\"\nprompt = [\"Coding\"]\nreply = \"r\"\n[[entry]]\nid = \"b\"\nprompt = [\"F03\"]\nreply = \"r\"\n";
    let server = serve(story).await;
    let message = ask(&client(&server.base_url()), &first_request()).await.unwrap_err().to_string();
    assert!(message.contains("\"a\" at line 5 and \"b\" at line 9"), "{message}");
}

#[tokio::test]
async fn what_an_entry_requires_must_be_where_it_says() {
    let server = serve(STORY).await;
    let model = client(&server.base_url());
    let first = ask(&model, &first_request()).await.unwrap();
    let complete = second_request(&first);

    let mut forgetful = first_request();
    forgetful.messages[0] = Message::User { content: "# Coding session 1\nTask: feature F03".into() };
    let mut careless = first_request();
    careless.system = "be quick".into();
    let mut toolless = first_request();
    toolless.tools.remove(0);
    let mut silent = complete.clone();
    if let Some(Message::Tool { content, .. }) = silent.messages.get_mut(2) {
        content.clear();
    }
    for (request, place, missing) in [
        (forgetful, "the first user message", "Recalled: 蓝色"),
        (careless, "the system prompt", "careful"),
        (silent, "the last tool results", "wrote 页.html"),
        (toolless, "does not offer", "write_file"),
    ] {
        let error = ask(&model, &request).await.unwrap_err();
        let message = error.to_string();
        assert!(matches!(error, ModelError::Refused { status: 422, .. }), "{message}");
        assert!(message.contains(place) && message.contains(missing) && message.contains(" at line "), "{message}");
    }
    assert!(ask(&model, &complete).await.is_ok());
}

#[tokio::test]
async fn a_later_user_message_does_not_hide_the_tool_results() {
    let server =
        serve(&STORY.replace("{ in = \"last\", text = \"not JSON\" }", "{ in = \"last\", text = \"budget\" }")).await;
    let model = client(&server.base_url());
    let mut request = second_request(&ask(&model, &first_request()).await.unwrap());
    request.messages.push(Message::User { content: "your budget is nearly used up".into() });
    assert_eq!(ask(&model, &request).await.unwrap().content, "Done.");
}

#[tokio::test]
async fn faults_are_overcome_and_told() {
    let story = "cassette = 1\ntitle = \"t\"\nmodel = \"cassette-test\"\n\
        [[entry]]\nid = \"limited\"\nprompt = [\"limited\"]\nreply = \"at last it is here\"\nfault = { status = 429, retry_after = 1 }\n\
        [[entry]]\nid = \"down\"\nprompt = [\"down\"]\nreply = \"at last it is here\"\nfault = { status = 503, times = 2 }\n\
        [[entry]]\nid = \"broken\"\nprompt = [\"broken\"]\nreply = \"at last it is here\"\nfault = { cut = true, times = 2 }\n\
        [[entry]]\nid = \"gone\"\nprompt = [\"gone\"]\nreply = \"at last it is here\"\nfault = { status = 529, times = 99 }\n";
    let server = serve(story).await;
    let (telling, told_live) = std::sync::mpsc::channel();
    let model = client(&server.base_url()).on_retry(move |retry| telling.send(retry.clone()).unwrap());
    for (word, codes) in [
        ("limited", vec![(Some(429), "model_busy")]),
        ("down", vec![(Some(503), "model_busy"); 2]),
        ("broken", vec![(Some(200), "model_cut"); 2]),
    ] {
        let began = Instant::now();
        let response = ask(&model, &request(word)).await.unwrap();
        assert_eq!(response.content, "at last it is here");
        let told: Vec<_> = response.retries.iter().map(|retry| (retry.status, retry.code.as_str())).collect();
        assert_eq!(told, codes, "{word}");
        assert_eq!(told_live.try_iter().collect::<Vec<_>>(), response.retries);
        if word == "limited" {
            assert!(response.retries[0].waited_ms >= 1_000 && began.elapsed() >= Duration::from_secs(1));
        }
    }
    let error = ask(&model, &request("gone")).await.unwrap_err();
    assert!(matches!(error, ModelError::Busy { status: 529, attempts: 3, .. }), "{error}");
    let faults = server.served().iter().filter(|served| served.outcome == ServedOutcome::Fault).count();
    assert_eq!(faults, 1 + 2 + 2 + 3);
}

#[tokio::test]
async fn a_service_that_falls_silent_is_asked_again() {
    let story = "cassette = 1\ntitle = \"t\"\nmodel = \"cassette-test\"\n\
        [[entry]]\nid = \"late\"\nprompt = [\"late\"]\nreply = \"here\"\nfault = { delay_ms = 60000 }\n\
        [[entry]]\nid = \"slow\"\nprompt = [\"slow\"]\nreply = \"here\"\nfault = { chunk_delay_ms = 60000 }\n";
    let server = serve(story).await;
    let mut settings = settings(&server.base_url());
    settings.limits.idle_ms_max = 2_000;
    let model = OpenAiChat::new(settings, &ambient()).unwrap();
    let told = async |word| {
        let response = ask(&model, &request(word)).await.unwrap();
        assert_eq!(response.content, "here");
        let retry = response.retries.into_iter().next().unwrap();
        (retry.code, retry.status)
    };
    let (late, slow) = tokio::join!(told("late"), told("slow"));
    assert_eq!(late, ("model_timeout".to_owned(), None));
    assert_eq!(slow.0, "model_timeout");
    server.stop().await;
}

fn request(prompt: &str) -> ChatRequest {
    ChatRequest { messages: vec![Message::User { content: prompt.into() }], ..ChatRequest::default() }
}

#[tokio::test]
async fn each_request_is_in_the_log_before_its_reply_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("served.jsonl");
    let written = || -> Vec<Served> {
        let text = std::fs::read_to_string(&log).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    for _restart in 0..2 {
        let settings = CassetteServerSettings { log: Some(log.clone()), ..CassetteServerSettings::default() };
        let server = CassetteServer::start(Cassette::parse(STORY, "s").unwrap(), settings, &ambient()).await.unwrap();
        let model = client(&server.base_url());
        let before = std::fs::read_to_string(&log).unwrap().lines().count();
        let mut lines_at_first_text = None;
        let mut look = |_: &str| _ = lines_at_first_text.get_or_insert_with(|| written().len());
        let first = model.chat(&first_request(), &mut look).await.unwrap();
        assert_eq!(lines_at_first_text, Some(before + 1));
        ask(&model, &second_request(&first)).await.unwrap();
        assert_eq!(server.served(), written()[before..]);
        server.stop().await;
    }
    let written = written();
    let entries: Vec<_> = written.iter().map(|served| (served.entry.as_deref(), served.turn)).collect();
    assert_eq!(entries, [(Some("write"), 0), (Some("finish"), 1), (Some("write"), 0), (Some("finish"), 1)]);
    assert_eq!(written[0].request, written[2].request, "the same request has the same digest");
    assert_ne!(written[0].request, written[1].request);
}

#[tokio::test]
async fn what_the_real_service_refuses_is_refused() {
    let server = serve(STORY).await;
    let model = client(&server.base_url());
    let mut unanswered = second_request(&ask(&model, &first_request()).await.unwrap());
    unanswered.messages.pop();
    let error = ask(&model, &unanswered).await.unwrap_err();
    assert!(error.to_string().contains("HTTP 400") && error.to_string().contains("call_write_1"), "{error}");

    let mut stray = first_request();
    stray.messages.push(Message::Tool { call_id: "call_x".into(), content: String::new() });
    assert!(ask(&model, &stray).await.unwrap_err().to_string().contains("answers no call"));

    let other = OpenAiSettings { model: "gpt-none".into(), ..settings(&server.base_url()) };
    let error = ask(&OpenAiChat::new(other, &ambient()).unwrap(), &first_request()).await.unwrap_err();
    assert!(matches!(&error, ModelError::ModelNotFound { model, .. } if model == "gpt-none"), "{error}");

    let address = server.base_url().replace("http://", "").replace("/v1", "");
    let mut raw = TcpStream::connect(address).await.unwrap();
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 99999999\r\n\r\n";
    raw.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    raw.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("\"error\":{\"message\""), "{answer}");
}

#[tokio::test]
async fn stopping_cuts_a_stream_under_way_and_frees_the_port() {
    let story = "cassette = 1\ntitle = \"t\"\nmodel = \"cassette-test\"\n\
        [[entry]]\nid = \"slow\"\nreply = \"never\"\nfault = { chunk_delay_ms = 600000 }\n";
    let server = serve(story).await;
    let base_url = server.base_url();
    let port = base_url.trim_end_matches("/v1").rsplit(':').next().unwrap().parse().unwrap();
    let mut settings = settings(&base_url);
    settings.limits.attempts_max = 1;
    let model = OpenAiChat::new(settings, &ambient()).unwrap();
    let asking = tokio::spawn(async move { ask(&model, &first_request()).await });
    while server.served().is_empty() {
        tokio::task::yield_now().await;
    }
    timeout(Duration::from_secs(20), server.stop()).await.unwrap();
    let error = timeout(Duration::from_secs(20), asking).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(error, ModelError::Cut { .. } | ModelError::Unreachable { .. }), "{error}");

    let same_port = || CassetteServerSettings { port, ..CassetteServerSettings::default() };
    let cassette = Cassette::parse(story, "s").unwrap();
    let again = CassetteServer::start(cassette.clone(), same_port(), &ambient()).await.unwrap();
    let taken = CassetteServer::start(cassette, same_port(), &ambient()).await.unwrap_err();
    assert!(matches!(taken, CassetteServerError::Listen { .. }), "{taken}");
    again.stop().await;
}
