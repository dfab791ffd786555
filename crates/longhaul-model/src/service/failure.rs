//! Turns an HTTP status and an error body, or a broken connection, into our error and the question "again?".

use serde_json::Value;

use super::ServiceError;
use crate::{ModelError, Secret};

/// Most characters kept of what a service said.
const SAID_CHARS_MAX: usize = 600;

/// One attempt's end without an answer.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: ModelError,
    /// HTTP status, if there was an answer.
    pub(crate) status: Option<u16>,
    /// Whether another attempt may do better.
    pub(crate) again: bool,
    /// What the service asked us to wait.
    pub(crate) retry_after_ms: Option<u64>,
}

impl Failure {
    pub(crate) fn again(error: ModelError, status: Option<u16>) -> Self {
        Self { error, status, again: true, retry_after_ms: None }
    }

    pub(crate) fn last(error: ModelError, status: Option<u16>) -> Self {
        Self { error, status, again: false, retry_after_ms: None }
    }
}

/// Who was asked for what, for error messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) base_url: &'a str,
    /// What is asked for, below the base URL.
    pub(crate) route: &'static str,
    pub(crate) model: &'a str,
    pub(crate) key_source: &'a str,
    pub(crate) key: Option<&'a Secret>,
}

impl Asked<'_> {
    /// What a service said, fit for a message: bounded, on one line, without the key.
    pub(crate) fn quoted(&self, said: &str) -> String {
        cut(&self.key.map_or_else(|| said.to_owned(), |key| key.redact(said)))
    }
}

/// What an error body says: the protocol's error object, or the text itself cut short.
pub(crate) fn service_error(body: &str) -> (ServiceError, bool) {
    let json = serde_json::from_str::<Value>(body).ok();
    let said = json.as_ref().and_then(|json| {
        let inner = if json.is_array() { json.get(0)? } else { json };
        let error =
            inner.get("error").or_else(|| inner.get("message").map(|_| inner)).or_else(|| inner.get("detail"))?;
        Some(ServiceError::from_value(error))
    });
    let in_protocol = said.is_some();
    let said = said.unwrap_or_else(|| ServiceError { message: body.trim().to_owned(), code: String::new() });
    let message = if said.message.is_empty() { "it gave no reason".to_owned() } else { cut(&said.message) };
    (ServiceError { message, code: cut(&said.code) }, in_protocol)
}

/// The failure behind a status that is not success. `attempts` counts this one.
pub(crate) fn from_status(asked: Asked<'_>, status: u16, body: &str, attempts: u32) -> Failure {
    let (service, in_protocol) = service_error(body);
    let said = asked.quoted(&service.message);
    let service_code = service.code;
    let base_url = asked.base_url.to_owned();
    let model = asked.model.to_owned();
    let names_model = service_code == "model_not_found" || in_protocol && said.contains(asked.model);
    let error = match status {
        401 | 403 => {
            let said = if asked.key.is_some() { said } else { format!("no key was sent; {said}") };
            ModelError::Unauthorized { base_url, status, said, key_source: asked.key_source.to_owned() }
        }
        402 => ModelError::QuotaExhausted { base_url, said },
        // Anthropic's words for an account without credit, which has no code of its own.
        400 if said.contains("credit balance is too low") => ModelError::QuotaExhausted { base_url, said },
        429 if service_code == "insufficient_quota" => ModelError::QuotaExhausted { base_url, said },
        408 | 429 | 500 | 502 | 503 | 504 | 529 => {
            return Failure::again(ModelError::Busy { base_url, status, said, attempts }, Some(status));
        }
        400 if service_code == "model_not_found" => ModelError::ModelNotFound { base_url, model, said },
        404 if names_model => ModelError::ModelNotFound { base_url, model, said },
        404 | 405 if !in_protocol => ModelError::WrongService {
            url: format!("{base_url}/{}", asked.route),
            found: format!("HTTP {status}: {said}"),
        },
        300..=399 => ModelError::WrongService {
            url: format!("{base_url}/{}", asked.route),
            found: format!("HTTP {status}, a redirect, which is not followed"),
        },
        413 => ModelError::TooLarge { model, status, said },
        _ if is_about_length(&service_code, &said) => ModelError::TooLarge { model, status, said },
        _ => ModelError::Refused { status, service_code, said },
    };
    Failure::last(error, Some(status))
}

/// The failure that a service reports in the middle of an answer which began with success.
pub(crate) fn from_midway(asked: Asked<'_>, status: u16, service: ServiceError) -> Failure {
    let said = asked.quoted(&service.message);
    let service_code = cut(&service.code);
    if is_about_length(&service_code, &said) {
        return Failure::last(ModelError::TooLarge { model: asked.model.to_owned(), status, said }, Some(status));
    }
    if service_code.starts_with("invalid_") || service_code == "400" {
        return Failure::last(ModelError::Refused { status, service_code, said }, Some(status));
    }
    if service_code == "insufficient_quota" {
        return Failure::last(ModelError::QuotaExhausted { base_url: asked.base_url.to_owned(), said }, Some(status));
    }
    Failure::again(ModelError::FailedMidway { base_url: asked.base_url.to_owned(), said }, Some(status))
}

/// The failure behind an error of the HTTP library before any answer.
pub(crate) fn from_connection(asked: Asked<'_>, error: &reqwest::Error, connect_ms_max: u64) -> Failure {
    let base_url = asked.base_url.to_owned();
    if error.is_connect() && error.is_timeout() {
        let waiting = crate::Waiting::Connect;
        return Failure::again(ModelError::Timeout { base_url, waiting, limit_ms: connect_ms_max }, None);
    }
    let reason = root_cause(error);
    if error.is_builder() {
        return Failure::last(ModelError::Settings { field: "base_url", reason }, None);
    }
    if reason.contains("certificate") {
        return Failure::last(ModelError::Tls { base_url, reason }, None);
    }
    if error.is_connect() {
        return Failure::again(ModelError::Unreachable { base_url, reason }, None);
    }
    // The HTTP library's type for "these bytes are not HTTP" is not public; its words are stable.
    if reason.starts_with("invalid HTTP") {
        let url = format!("{base_url}/{}", asked.route);
        return Failure::last(ModelError::WrongService { url, found: reason }, None);
    }
    Failure::again(ModelError::Cut { base_url, bytes: 0 }, None)
}

/// The innermost error's words, which name the cause (`Connection refused`); the outer ones only repeat the URL.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cut(&cause.to_string())
}

fn is_about_length(code: &str, said: &str) -> bool {
    // Anthropic has no code of its own for it: "prompt is too long: 210000 tokens > 200000 maximum", and "input length and
    // `max_tokens` exceed context limit".
    let words = ["maximum context length", "prompt is too long", "exceed context limit"];
    code == "context_length_exceeded"
        || code == "string_above_max_length"
        || words.iter().any(|words| said.contains(words))
}

/// A text bounded to what a message can carry, on one line.
pub(crate) fn cut(text: &str) -> String {
    let mut short: String = text.trim().chars().take(SAID_CHARS_MAX).collect();
    if short.len() < text.trim().len() {
        short.push('…');
    }
    short.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Asked<'_> = Asked {
        base_url: "http://host/v1",
        route: "chat/completions",
        model: "m-1",
        key_source: "OPENAI_API_KEY",
        key: None,
    };

    fn code(status: u16, body: &str) -> (&'static str, bool) {
        let failure = from_status(ASKED, status, body, 1);
        (failure.error.code(), failure.again)
    }

    #[test]
    fn a_status_becomes_the_error_that_says_what_to_do() {
        let error = r#"{"error":{"message":"X","type":"t","code":"c"}}"#;
        for status in [408, 429, 500, 502, 503, 504, 529] {
            assert_eq!(code(status, error), ("model_busy", true), "{status}");
        }
        assert_eq!(code(401, error), ("model_unauthorized", false));
        assert_eq!(code(403, ""), ("model_unauthorized", false));
        assert_eq!(code(429, r#"{"error":{"message":"X","code":"insufficient_quota"}}"#), ("model_quota", false));
        assert_eq!(code(402, ""), ("model_quota", false));
        assert_eq!(code(400, error), ("model_refused", false));
        assert_eq!(code(422, error), ("model_refused", false));
        assert_eq!(code(501, error), ("model_refused", false));
        assert_eq!(code(413, "<html>"), ("model_too_large", false));
        assert_eq!(
            code(400, r#"{"error":{"message":"X","code":"context_length_exceeded"}}"#),
            ("model_too_large", false)
        );
        assert_eq!(code(404, r#"{"error":{"message":"X","code":"model_not_found"}}"#), ("model_not_found", false));
        assert_eq!(
            code(404, r#"{"error":{"message":"model 'm-1' not found","type":"api_error"}}"#),
            ("model_not_found", false)
        );
        assert_eq!(code(404, error), ("model_refused", false));
        assert_eq!(code(404, "404 page not found"), ("model_wrong_service", false));
        assert_eq!(code(302, ""), ("model_wrong_service", false));
    }

    #[test]
    fn what_a_service_said_is_found_in_each_shape_and_bounded() {
        let said = |body: &str| service_error(body).0.message;
        assert_eq!(said(r#"{"error":{"message":"a"}}"#), "a");
        assert_eq!(said(r#"[{"error":{"message":"b"}}]"#), "b");
        assert_eq!(said(r#"{"error":"c"}"#), "c");
        assert_eq!(said(r#"{"object":"error","message":"d","code":40301}"#), "d");
        assert_eq!(said(r#"{"detail":"e"}"#), "e");
        assert_eq!(said("two\nlines"), "two lines");
        assert_eq!(said(""), "it gave no reason");
        assert_eq!(said(&"长".repeat(10_000)).chars().count(), SAID_CHARS_MAX + 1);
    }

    #[test]
    fn a_failure_midway_is_tried_again_unless_the_request_is_at_fault() {
        let midway = |code: &str| {
            let service = ServiceError { message: "X".into(), code: code.into() };
            let failure = from_midway(ASKED, 200, service);
            (failure.error.code(), failure.again)
        };
        assert_eq!(midway("server_error"), ("model_failed_midway", true));
        assert_eq!(midway(""), ("model_failed_midway", true));
        assert_eq!(midway("invalid_request_error"), ("model_refused", false));
        assert_eq!(midway("context_length_exceeded"), ("model_too_large", false));
        assert_eq!(midway("insufficient_quota"), ("model_quota", false));
    }
}
