//! The client against a server that does not keep to the protocol.

use std::{process::Command, time::Duration};

use futures::future::join_all;
use longhaul_model::{
    CallLimits, ChatModel, ErrorKind, Finish, ModelError, OpenAiChat, OpenAiSettings, Retry, Secret, Waiting,
};
use tokio::time::timeout;

use crate::{
    liar::{Liar, Lie, ending, good, http, stream_head, text_event},
    stories::{ambient, ask, client, first_request, settings},
};

/// The error after all attempts, and how many there were.
async fn failure(lie: Lie, limits: CallLimits) -> (ModelError, usize) {
    let liar = Liar::start(vec![lie]).await;
    let key = Some(Secret::new("sk-do-not-show"));
    let settings = OpenAiSettings { limits, api_key: key, ..settings(&liar.base_url) };
    let error = ask(&OpenAiChat::new(settings, &ambient()).unwrap(), &first_request()).await.unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("sk-do-not-show"), "{shown}");
    (error, liar.requests().len())
}

fn limits() -> CallLimits {
    settings("").limits
}

#[tokio::test]
async fn a_broken_answer_is_asked_for_again_and_the_retries_are_told() {
    let liar = Liar::start(vec![
        Lie::Bytes(format!("{}data: {{\"choices\": [ nonsense\n\n", stream_head())),
        Lie::Bytes(format!("{}{}", stream_head(), text_event("half"))),
        good("whole"),
    ])
    .await;
    let mut shown = Vec::new();
    let response =
        client(&liar.base_url).chat(&first_request(), &mut |text| shown.push(text.to_owned())).await.unwrap();
    assert_eq!((response.content.as_str(), response.finish), ("whole", Finish::Stop));
    assert!(response.usage.estimated && response.usage.prompt_tokens > 20, "{:?}", response.usage);
    assert_eq!(shown, ["half", "whole"]);
    let told: Vec<(Option<u16>, &str)> =
        response.retries.iter().map(|Retry { status, code, .. }| (*status, code.as_str())).collect();
    assert_eq!(told, [(Some(200), "model_malformed"), (Some(200), "model_cut")]);
    let requests = liar.requests();
    assert!(requests.windows(2).all(|pair| pair[0] == pair[1]), "a retry sends the very same request");
}

#[tokio::test]
async fn every_kind_of_broken_answer_ends_in_its_own_error() {
    let chunked = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let event = text_event("x");
    let length = event.len();
    let error_event =
        "data: {\"error\":{\"message\":\"engine down, key sk-do-not-show\",\"code\":\"server_error\"}}\n\n";
    for (bytes, code, attempts) in [
        (format!("{}{event}", stream_head()), "model_cut", 3),
        (format!("{chunked}{length:x}\r\n{event}\r\n"), "model_cut", 3),
        (format!("{}data: [DONE]\n\n", stream_head()), "model_malformed", 3),
        (http("200 OK", "application/json", "{}"), "model_malformed", 3),
        (http("200 OK", "application/json", "{\"choices\":["), "model_malformed", 3),
        (http("200 OK", "application/json", "[\"sk-do-not-show\"]"), "model_malformed", 3),
        (http("200 OK", "application/json", "{\"error\":{\"message\":\"no\"}}"), "model_failed_midway", 3),
        (format!("{}{event}{error_event}", stream_head()), "model_failed_midway", 3),
        (http("200 OK", "text/html", "<html>welcome"), "model_wrong_service", 1),
        (http("404 Not Found", "text/plain", "nothing here"), "model_wrong_service", 1),
        (http("308 Permanent Redirect", "text/plain", ""), "model_wrong_service", 1),
        (http("403 Forbidden", "text/plain", "key sk-do-not-show is bad"), "model_unauthorized", 1),
        (http("413 Payload Too Large", "text/html", "<html>"), "model_too_large", 1),
        (http("502 Bad Gateway", "text/html", "<html>"), "model_busy", 3),
        (String::new(), "model_cut", 3),
        ("SSH-2.0-OpenSSH_9.6\r\n".to_owned(), "model_wrong_service", 1),
    ] {
        let (error, asked) = failure(Lie::Bytes(bytes.clone()), limits()).await;
        assert_eq!((error.code(), asked), (code, attempts), "{bytes:?} gave {error}");
    }
}

#[tokio::test]
async fn an_endless_answer_is_bounded_in_bytes_and_in_time() {
    let limits = CallLimits { answer_bytes_max: 100_000, ..limits() };
    for again in [text_event("more"), ": a heart-beat\n\n".to_owned(), "x".repeat(1000), " ".to_owned()] {
        let (error, asked) = failure(Lie::Endless(stream_head(), again.clone()), limits).await;
        assert_eq!((error.code(), error.kind(), asked), ("model_answer_too_long", ErrorKind::FixInput, 1), "{again:?}");
    }
    let limits = CallLimits { answer_ms_max: 200, attempts_max: 1, answer_bytes_max: u64::MAX, ..limits };
    let (error, _) = failure(Lie::Endless(stream_head(), ": a heart-beat\n\n".into()), limits).await;
    assert!(matches!(error, ModelError::Timeout { waiting: Waiting::WholeAnswer, limit_ms: 200, .. }), "{error}");
}

#[tokio::test]
async fn silence_is_bounded_before_and_within_an_answer() {
    let limits = CallLimits { idle_ms_max: 500, attempts_max: 2, ..limits() };
    let firsts = [String::new(), stream_head(), format!("{}{}", stream_head(), text_event("x"))];
    for (error, asked) in join_all(firsts.map(|first| failure(Lie::Silence(first), limits))).await {
        assert!(matches!(error, ModelError::Timeout { waiting: Waiting::NextBytes, limit_ms: 500, .. }), "{error}");
        assert_eq!(asked, 2);
    }
}

#[tokio::test]
async fn the_whole_call_is_bounded_whatever_the_service_asks_for() {
    let slow = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 3600\r\ncontent-length: 0\r\n\r\n";
    let (error, asked) = failure(Lie::Bytes(slow.into()), CallLimits { call_ms_max: 60_000, ..limits() }).await;
    assert_eq!((error.code(), error.kind(), asked), ("model_busy", ErrorKind::Retry, 1));
    let (error, _) = failure(Lie::Silence(String::new()), CallLimits { call_ms_max: 100, ..limits() }).await;
    assert_eq!(error.code(), "model_timeout");
}

#[tokio::test]
async fn a_service_that_answers_json_to_a_streaming_request_is_understood() {
    let body = r#"{"model":"real-1","choices":[{"message":{"role":"assistant","content":"안녕"},"finish_reason":"length"}],
        "usage":{"prompt_tokens":5,"completion_tokens":2}}"#;
    let untyped = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{body}");
    for answer in [http("200 OK", "application/json; charset=utf-8", body), untyped] {
        let liar = Liar::start(vec![Lie::Bytes(answer)]).await;
        let mut shown = String::new();
        let response = client(&liar.base_url).chat(&first_request(), &mut |text| shown.push_str(text)).await.unwrap();
        assert_eq!((response.content.as_str(), shown.as_str(), response.finish), ("안녕", "안녕", Finish::Length));
        assert_eq!((response.usage.prompt_tokens, response.usage.estimated), (5, false));
        assert_eq!(response.model, "real-1");
    }
}

#[tokio::test]
async fn crlf_events_and_a_connection_left_open_are_fine() {
    let stream = format!(": hello\n\n{}{}", text_event("fine"), ending()).replace('\n', "\r\n");
    let liar = Liar::start(vec![Lie::Silence(format!("{}{stream}", stream_head()))]).await;
    let response = ask(&client(&liar.base_url), &first_request()).await.unwrap();
    assert_eq!(response.content, "fine");
    assert!(response.retries.is_empty());
}

#[tokio::test]
async fn nobody_listening_is_said_with_the_address() {
    let liar = Liar::start(vec![good("never asked")]).await;
    let base_url = liar.base_url.clone();
    drop(liar);
    let model = client(&base_url);
    let refused = async {
        // The port is free as soon as the dropped server's task is gone.
        loop {
            match ask(&model, &first_request()).await {
                Err(error @ ModelError::Unreachable { .. }) => return error.to_string(),
                Err(_) | Ok(_) => tokio::task::yield_now().await,
            }
        }
    };
    let message = timeout(Duration::from_secs(20), refused).await.unwrap();
    assert!(message.contains(&base_url) && message.contains("refused"), "{message}");
}

#[tokio::test]
async fn a_service_without_a_listing_of_models_is_no_failure() {
    for (answer, known) in [
        (http("404 Not Found", "text/plain", "no"), None),
        (http("200 OK", "text/html", "<html>"), None),
        (http("200 OK", "application/json", r#"{"data":[{"id":"模型"},{}]}"#), Some(vec!["模型".to_owned()])),
    ] {
        let liar = Liar::start(vec![Lie::Bytes(answer)]).await;
        assert_eq!(client(&liar.base_url).list_models().await.unwrap(), known);
    }
    let liar = Liar::start(vec![Lie::Bytes(http("503 Service Unavailable", "text/plain", "no"))]).await;
    let error = client(&liar.base_url).list_models().await.unwrap_err();
    assert_eq!((error.code(), liar.requests().len()), ("model_busy", 1));
}

#[tokio::test]
async fn dropping_the_call_closes_the_connection() {
    let mut liar = Liar::start(vec![Lie::Silence(stream_head())]).await;
    let model = client(&liar.base_url);
    let request = first_request();
    let mut call = Box::pin(ask(&model, &request));
    while liar.requests().is_empty() {
        assert!(timeout(Duration::from_millis(5), &mut call).await.is_err());
    }
    drop(call);
    timeout(Duration::from_secs(20), liar.client_left()).await.unwrap();
}

#[tokio::test]
async fn the_key_goes_into_the_header_and_nowhere_else() {
    let liar = Liar::start(vec![good("ok")]).await;
    let with_key = OpenAiSettings { api_key: Some(Secret::new("sk-1")), ..settings(&liar.base_url) };
    let model = OpenAiChat::new(with_key, &ambient()).unwrap();
    assert!(!format!("{model:?}").contains("sk-1"));
    ask(&model, &first_request()).await.unwrap();
    ask(&client(&liar.base_url), &first_request()).await.unwrap();
    let requests = liar.requests();
    assert!(requests[0].to_lowercase().contains("\r\nauthorization: bearer sk-1\r\n"), "{}", requests[0]);
    assert_eq!(requests[0].matches("sk-1").count(), 1);
    assert!(!requests[1].to_lowercase().contains("authorization"), "{}", requests[1]);
}

#[test]
fn settings_that_cannot_work_are_refused_before_anything_is_sent() {
    let refused = |settings: OpenAiSettings| OpenAiChat::new(settings, &ambient()).unwrap_err().to_string();
    let base = || settings("http://127.0.0.1:1");
    assert!(refused(OpenAiSettings { model: " ".into(), ..base() }).contains("`model`"));
    assert!(refused(OpenAiSettings { base_url: "nonsense".into(), ..base() }).contains("`base_url`"));
    let message = refused(OpenAiSettings { api_key: Some(Secret::new("two\nlines")), ..base() });
    assert!(message.contains("OPENAI_API_KEY") && !message.contains("lines"), "{message}");
}

#[test]
fn a_proxy_is_not_asked_for_a_service_on_this_machine() {
    // The variables are read when a client is made, so they need a process of their own.
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "client::crlf_events_and_a_connection_left_open_are_fine"]);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        child.env(name, "http://127.0.0.1:1");
    }
    let output = child.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && shown.contains("1 passed"), "{shown}");
}
