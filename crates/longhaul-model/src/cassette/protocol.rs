//! The three protocols that a cassette is served over, and how each says that something is wrong.
//!
//! Invariant: an error has the shape, the status and the headers of the real service, so that its own clients
//! understand it.

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{
    conversation::{AssistantTurn, Conversation},
    file::Entry,
    reply,
};
use crate::Secret;

/// A wire protocol of chat models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Protocol {
    /// OpenAI Chat Completions.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
}

/// Set on errors for which the same request will never do better; the official clients heed it.
pub(crate) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

impl Protocol {
    /// Which protocol a request speaks that is for none of our addresses, by its headers.
    pub(crate) fn guessed(path: &str, headers: &HeaderMap) -> Self {
        if headers.contains_key("anthropic-version") || path.starts_with("/v1/messages") {
            return Self::Messages;
        }
        if path.starts_with("/v1/responses") { Self::Responses } else { Self::Chat }
    }

    /// Whether the request shows this key: as a bearer token, or for Anthropic's protocol in `x-api-key` too.
    pub(crate) fn shows(self, key: &Secret, headers: &HeaderMap) -> bool {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let own = match self {
            Self::Messages => text(HeaderName::from_static("x-api-key")),
            Self::Chat | Self::Responses => None,
        };
        [bearer, own].into_iter().flatten().any(|given| key.matches(given))
    }

    /// Reads a request's body.
    ///
    /// # Errors
    /// What is wrong with it, in the words of an API that explains itself.
    pub(crate) fn read(self, body: &[u8]) -> Result<Conversation, String> {
        match self {
            Self::Chat => Conversation::read_chat(body),
            Self::Responses => Conversation::read_responses(body),
            Self::Messages => Conversation::read_messages(body),
        }
    }

    /// The answer as one object.
    pub(crate) fn whole(self, entry: &Entry, asked: &Conversation, created_s: i64) -> Value {
        match self {
            Self::Chat => reply::chat::completion(entry, asked, created_s),
            Self::Responses => reply::responses::response(entry, asked, created_s),
            Self::Messages => reply::messages::message(entry, asked),
        }
    }

    /// The answer as the events of a stream, each as it goes over the wire.
    pub(crate) fn stream(self, entry: &Entry, asked: &Conversation, created_s: i64) -> Vec<String> {
        match self {
            Self::Chat => reply::chat::stream(entry, asked, created_s),
            Self::Responses => reply::responses::stream(entry, asked, created_s),
            Self::Messages => reply::messages::stream(entry, asked),
        }
    }

    /// What is wrong with the reasoning of a turn that followed this entry, in the service's words.
    pub(crate) fn reasoning_problem(self, entry: &Entry, turn: &AssistantTurn) -> Option<String> {
        let came_back = match self {
            Self::Chat => true,
            Self::Responses => turn.reasoning.iter().any(|item| reply::responses::is_reasoning_of(entry, item)),
            Self::Messages => {
                reply::messages::reasoning_block(entry).is_none_or(|block| turn.reasoning.contains(&block))
            }
        };
        let changed = !turn.reasoning.is_empty();
        (!came_back).then(|| match self {
            Self::Chat | Self::Responses => {
                let call = turn.call_ids.first().map(String::as_str).unwrap_or_default();
                let changed = if changed { "unchanged " } else { "" };
                format!(
                    "Item {call:?} of type 'function_call' was provided without its required 'reasoning' item \
                     {changed}from the response before"
                )
            }
            Self::Messages if changed => {
                "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These \
                 blocks must remain as they were in the original response."
                    .to_owned()
            }
            Self::Messages => {
                "Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final \
                 `assistant` message must start with a thinking block (preceding the lastmost set of `tool_use` and \
                 `tool_result` blocks)."
                    .to_owned()
            }
        })
    }

    /// An error in the shape that the real service gives it. `code` is ours; Anthropic's protocol has no place for it
    /// but the message.
    pub(crate) fn error(self, status: StatusCode, code: &str, message: &str) -> Response {
        let body = match self {
            Self::Chat | Self::Responses => {
                let kind = if status.is_server_error() { "server_error" } else { "invalid_request_error" };
                json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
            }
            Self::Messages => {
                let message = if code.starts_with("cassette_") { format!("{code}: {message}") } else { message.into() };
                let error = json!({"type": anthropic_kind(status), "message": message});
                json!({"type": "error", "error": error, "request_id": "req_cassette"})
            }
        };
        let mut response = (status, axum::Json(body)).into_response();
        if self == Self::Messages {
            response.headers_mut().insert(REQUEST_ID, HeaderValue::from_static("req_cassette"));
        }
        if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        response
    }
}

/// The name that Anthropic's protocol has for a status. Source: the Anthropic API reference, "Errors".
pub(crate) fn anthropic_kind(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        500..=599 => "api_error",
        _ => "invalid_request_error",
    }
}
