//! The embedding client against servers that keep to the protocol and servers that do not.

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use longhaul_model::{EmbeddingClient, EmbeddingSettings, Secret};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

use crate::{
    liar::{Liar, Lie, http},
    stories::{self, ambient},
};

/// What the service below refuses.
#[derive(Clone, Copy, Default)]
struct Rules {
    /// Longest text, in characters.
    chars_max: Option<usize>,
    refuses_dimensions: bool,
    busy_once: bool,
}

type Asked = Arc<Mutex<Vec<Value>>>;

/// A service with the real wire protocol, whose vectors say how long their text was; entries come back in reverse.
async fn service(rules: Rules) -> (String, Asked) {
    let asked: Asked = Arc::default();
    let router = Router::new().route("/v1/embeddings", post(answer)).with_state((asked.clone(), rules));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (base_url, asked)
}

async fn answer(State((asked, rules)): State<(Asked, Rules)>, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    let refuse = |status: StatusCode, message: &str| {
        (status, Json(json!({"error": {"message": message, "type": "invalid_request_error"}}))).into_response()
    };
    let before = asked.lock().unwrap().len();
    asked.lock().unwrap().push(body.clone());
    if headers.get("authorization").is_none_or(|value| value != "Bearer sk-right") {
        return refuse(StatusCode::UNAUTHORIZED, "wrong key sk-right");
    }
    if rules.busy_once && before == 0 {
        return (StatusCode::TOO_MANY_REQUESTS, [("retry-after-ms", "1")], "slow down").into_response();
    }
    if rules.refuses_dimensions && body.get("dimensions").is_some() {
        return refuse(StatusCode::BAD_REQUEST, "this model does not support specifying dimensions");
    }
    let texts: Vec<&str> = body["input"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    if texts.iter().any(|text| text.is_empty() || rules.chars_max.is_some_and(|max| text.chars().count() > max)) {
        return refuse(StatusCode::BAD_REQUEST, "maximum context length exceeded");
    }
    let data = texts.iter().enumerate().rev().map(|(index, text)| {
        let vector = [text.chars().count() as f32, 0.5, -1.0];
        let embedding = if body["encoding_format"] == "base64" {
            json!(BASE64_STANDARD.encode(vector.map(f32::to_le_bytes).concat()))
        } else {
            json!(vector)
        };
        json!({"object": "embedding", "index": index, "embedding": embedding})
    });
    let data: Vec<Value> = data.collect();
    Json(json!({"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 7, "total_tokens": 7}}))
        .into_response()
}

fn settings(base_url: &str) -> EmbeddingSettings {
    EmbeddingSettings {
        base_url: base_url.to_owned(),
        api_key: Some(Secret::new("sk-right")),
        dimensions: Some(3),
        limits: stories::settings("").limits,
        ..EmbeddingSettings::new("m")
    }
}

fn texts(count: usize) -> Vec<String> {
    (1..=count).map(|length| "字".repeat(length)).collect()
}

fn lengths(vectors: &[Vec<f32>]) -> Vec<usize> {
    vectors.iter().map(|vector| vector[0] as usize).collect()
}

#[tokio::test]
async fn texts_are_sent_in_bounded_requests_and_come_back_in_order() {
    for base64 in [true, false] {
        let (base_url, asked) = service(Rules { busy_once: true, ..Rules::default() }).await;
        let settings = EmbeddingSettings { base64, texts_max: 4, ..settings(&base_url) };
        let given = EmbeddingClient::new(settings, &ambient()).unwrap().embed(&texts(10)).await.unwrap();
        assert_eq!(lengths(&given.vectors), (1..=10).collect::<Vec<_>>());
        assert_eq!((given.vectors[3].as_slice(), given.tokens), ([4.0, 0.5, -1.0].as_slice(), 21));
        let asked = asked.lock().unwrap();
        let counts: Vec<usize> = asked.iter().map(|body| body["input"].as_array().unwrap().len()).collect();
        assert_eq!(counts, [4, 4, 4, 2], "the first was answered with 429 and sent again");
        assert_eq!((&asked[0]["model"], &asked[0]["dimensions"]), (&json!("m"), &json!(3)));
    }
    let (base_url, asked) = service(Rules::default()).await;
    let settings = EmbeddingSettings { tokens_max: 12, ..settings(&base_url) };
    EmbeddingClient::new(settings, &ambient()).unwrap().embed(&texts(10)).await.unwrap();
    assert!(asked.lock().unwrap().len() > 3);
}

#[tokio::test]
async fn what_is_too_long_is_cut_and_what_is_empty_is_sent_as_a_space() {
    let (base_url, _) = service(Rules { chars_max: Some(300), ..Rules::default() }).await;
    let client = EmbeddingClient::new(settings(&base_url), &ambient()).unwrap();
    let given = client.embed(&[String::new(), "x".repeat(250), "word ".repeat(2_000_000)]).await.unwrap();
    let lengths = lengths(&given.vectors);
    assert_eq!(lengths[..2], [1, 250]);
    assert!((64..=300).contains(&lengths[2]), "{lengths:?}");
    assert_eq!(client.embed(&[]).await.unwrap().vectors.len(), 0);
}

#[tokio::test]
async fn a_service_without_a_choice_of_length_is_asked_without_it_and_a_wrong_length_is_refused() {
    let (base_url, asked) = service(Rules { refuses_dimensions: true, ..Rules::default() }).await;
    let client = EmbeddingClient::new(settings(&base_url), &ambient()).unwrap();
    client.embed(&texts(1)).await.unwrap();
    client.embed(&texts(1)).await.unwrap();
    let stated: Vec<bool> = asked.lock().unwrap().iter().map(|body| body.get("dimensions").is_some()).collect();
    assert_eq!(stated, [true, false, false]);

    let settings = EmbeddingSettings { dimensions: Some(384), ..settings(&base_url) };
    let error = EmbeddingClient::new(settings, &ambient()).unwrap().embed(&texts(1)).await.unwrap_err();
    assert_eq!(error.code(), "model_bad_embeddings");
    assert!(error.to_string().contains("3 values instead of 384"), "{error}");
}

#[tokio::test]
async fn a_refused_key_is_named_by_its_source_and_not_shown() {
    let (base_url, _) = service(Rules::default()).await;
    let settings = EmbeddingSettings {
        api_key: Some(Secret::new("sk-wrong")),
        api_key_source: "THE_VARIABLE".to_owned(),
        ..settings(&base_url)
    };
    let client = EmbeddingClient::new(settings, &ambient()).unwrap();
    let error = client.embed(&texts(1)).await.unwrap_err();
    let shown = format!("{error} {error:?} {client:?}");
    assert!(error.code() == "model_unauthorized" && shown.contains("THE_VARIABLE"), "{shown}");
    assert!(!shown.contains("sk-wrong"), "{shown}");
}

#[tokio::test]
async fn every_kind_of_wrong_answer_ends_in_its_own_error() {
    let json = |body: &str| http("200 OK", "application/json", body);
    for (bytes, code, attempts) in [
        (json("{"), "model_malformed", 3),
        (json("[]"), "model_malformed", 3),
        (json("{}"), "model_bad_embeddings", 1),
        (json(r#"{"data":[]}"#), "model_bad_embeddings", 1),
        (
            json(r#"{"data":[{"index":0,"embedding":[1,2,3]},{"index":0,"embedding":[1,2,3]}]}"#),
            "model_bad_embeddings",
            1,
        ),
        (
            json(r#"{"data":[{"index":0,"embedding":[1,2,3]},{"index":9,"embedding":[1,2,3]}]}"#),
            "model_bad_embeddings",
            1,
        ),
        (
            json(r#"{"data":[{"index":0,"embedding":[1,2,3]},{"index":1,"embedding":[1,2]}]}"#),
            "model_bad_embeddings",
            1,
        ),
        (
            json(r#"{"data":[{"index":0,"embedding":[1,2,3]},{"index":1,"embedding":[1,1e99,1]}]}"#),
            "model_bad_embeddings",
            1,
        ),
        (json(r#"{"data":[{"embedding":"AAAA"},{"embedding":"AAAA"}]}"#), "model_bad_embeddings", 1),
        (json(r#"{"error":{"message":"engine down","code":"server_error"}}"#), "model_failed_midway", 3),
        (http("500 Internal Server Error", "text/plain", "no"), "model_busy", 3),
        (http("404 Not Found", "text/plain", "nothing here"), "model_wrong_service", 1),
        (http("308 Permanent Redirect", "text/plain", ""), "model_wrong_service", 1),
        (String::new(), "model_cut", 3),
    ] {
        let liar = Liar::start(vec![Lie::Bytes(bytes.clone())]).await;
        let client = EmbeddingClient::new(settings(&liar.base_url), &ambient()).unwrap();
        let error = client.embed(&texts(2)).await.unwrap_err();
        assert_eq!((error.code(), liar.requests().len()), (code, attempts), "{bytes:?} gave {error}");
    }
}

#[tokio::test]
async fn an_endless_answer_is_bounded() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"data\":[";
    let liar = Liar::start(vec![Lie::Endless(head.to_owned(), " ".repeat(1_000))]).await;
    let mut settings = settings(&liar.base_url);
    settings.limits.answer_bytes_max = 100_000;
    let error = EmbeddingClient::new(settings, &ambient()).unwrap().embed(&texts(1)).await.unwrap_err();
    assert_eq!(error.code(), "model_answer_too_long");
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let base = settings("http://127.0.0.1:1");
    for wrong in [
        EmbeddingSettings { model: " ".to_owned(), ..base.clone() },
        EmbeddingSettings { base_url: "nowhere".to_owned(), ..base.clone() },
        EmbeddingSettings { dimensions: Some(0), ..base.clone() },
        EmbeddingSettings { texts_max: 0, ..base },
    ] {
        assert_eq!(EmbeddingClient::new(wrong, &ambient()).unwrap_err().code(), "model_settings");
    }
}
