//! Reads the body of a response within its bounds: as a stream of events, or as one JSON text when the service sends
//! that instead. It does not know what the pieces mean (each protocol's `assemble` does).

use std::time::Duration;

use reqwest::{Response, header};
use tokio::time::timeout;

use super::{
    Assemble, PieceError,
    failure::{self, Asked, Failure},
    limits::CallLimits,
    sse::SseDecoder,
};
use crate::{ModelError, OnDelta, Waiting};

/// Most bytes read of a body that is not an answer; the largest listings of models have a few hundred kilobytes.
const PLAIN_BODY_BYTES_MAX: usize = 1024 * 1024;

/// Longest wait for the end of a stream after its closing mark, milliseconds.
const END_MS_MAX: u64 = 50;
/// Most characters of an answer quoted in an error.
const EXCERPT_CHARS_MAX: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Events,
    Json,
    /// No content type: the first byte decides.
    Unstated,
}

/// Reads an answer to its end.
pub(crate) async fn read<A: Assemble>(
    asked: Asked<'_>,
    limits: &CallLimits,
    response: Response,
    on_delta: OnDelta<'_>,
) -> Result<A, Failure> {
    let status = response.status().as_u16();
    let mut shape = shape(asked, &response)?;
    let mut body = Body { asked, limits, status, response, bytes: 0 };
    let mut reading = Reading { asked, status, assembler: A::default(), on_delta };
    let mut events = SseDecoder::default();
    let mut json = Vec::new();
    while let Some(bytes) = body.next().await? {
        if shape == Shape::Unstated {
            shape = match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
                Some(b'{' | b'[') => Shape::Json,
                Some(_) => Shape::Events,
                None => continue,
            };
        }
        if shape == Shape::Json {
            json.extend_from_slice(&bytes);
            continue;
        }
        for event in events.push(&bytes) {
            reading.take(&event)?;
        }
        if reading.assembler.is_done() {
            // Reading the end too lets the connection be used again; a service that keeps it open is not waited for.
            let _ = timeout(Duration::from_millis(END_MS_MAX), body.next()).await;
            break;
        }
    }
    if shape == Shape::Json {
        reading.take(&String::from_utf8_lossy(&json))?;
    } else if let Some(event) = events.finish() {
        reading.take(&event)?;
    }
    if reading.assembler.is_complete() {
        return Ok(reading.assembler);
    }
    let base_url = asked.base_url.to_owned();
    if reading.assembler.is_done() || shape == Shape::Json {
        let problem = "it has no answer in it".to_owned();
        let excerpt = excerpt(asked, &String::from_utf8_lossy(&json));
        return Err(Failure::again(ModelError::Malformed { base_url, problem, excerpt }, Some(status)));
    }
    Err(Failure::again(ModelError::Cut { base_url, bytes: body.bytes }, Some(status)))
}

/// The text of a body that is not an answer (an error, a listing), as much of it as came within the bounds.
pub(crate) async fn bounded_body(mut response: Response, idle_ms_max: u64) -> String {
    let mut text = Vec::new();
    while let Ok(Ok(Some(bytes))) = timeout(Duration::from_millis(idle_ms_max), response.chunk()).await {
        text.extend_from_slice(&bytes[..bytes.len().min(PLAIN_BODY_BYTES_MAX - text.len())]);
        if text.len() == PLAIN_BODY_BYTES_MAX {
            break;
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn shape(asked: Asked<'_>, response: &Response) -> Result<Shape, Failure> {
    let stated = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = stated.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match media.as_str() {
        "text/event-stream" => Ok(Shape::Events),
        "application/json" => Ok(Shape::Json),
        "" | "text/plain" | "application/octet-stream" | "application/x-ndjson" => Ok(Shape::Unstated),
        _ => {
            let url = format!("{}/{}", asked.base_url, asked.route);
            let error = ModelError::WrongService { url, found: format!("an answer of type {media:?}") };
            Err(Failure::last(error, Some(response.status().as_u16())))
        }
    }
}

/// The first characters of an answer, without the key.
pub(crate) fn excerpt(asked: Asked<'_>, text: &str) -> String {
    asked.quoted(text).chars().take(EXCERPT_CHARS_MAX).collect()
}

struct Body<'a> {
    asked: Asked<'a>,
    limits: &'a CallLimits,
    status: u16,
    response: Response,
    bytes: u64,
}

impl Body<'_> {
    async fn next(&mut self) -> Result<Option<axum::body::Bytes>, Failure> {
        let base_url = || self.asked.base_url.to_owned();
        let limit_ms = self.limits.idle_ms_max;
        let failure = match timeout(Duration::from_millis(limit_ms), self.response.chunk()).await {
            Err(_) => ModelError::Timeout { base_url: base_url(), waiting: Waiting::NextBytes, limit_ms },
            Ok(Err(_)) => ModelError::Cut { base_url: base_url(), bytes: self.bytes },
            Ok(Ok(None)) => return Ok(None),
            Ok(Ok(Some(bytes))) => {
                self.bytes += bytes.len() as u64;
                let bytes_max = self.limits.answer_bytes_max;
                if self.bytes > bytes_max {
                    let error = ModelError::AnswerTooLong { base_url: base_url(), bytes_max };
                    return Err(Failure::last(error, Some(self.status)));
                }
                return Ok(Some(bytes));
            }
        };
        Err(Failure::again(failure, Some(self.status)))
    }
}

struct Reading<'a, A> {
    asked: Asked<'a>,
    status: u16,
    assembler: A,
    on_delta: OnDelta<'a>,
}

impl<A: Assemble> Reading<'_, A> {
    fn take(&mut self, json: &str) -> Result<(), Failure> {
        if json.trim().is_empty() {
            return Ok(());
        }
        match self.assembler.take(json) {
            Ok(added) if added.is_empty() => Ok(()),
            Ok(added) => {
                (self.on_delta)(&added);
                Ok(())
            }
            Err(PieceError::Service(service)) => Err(failure::from_midway(self.asked, self.status, service)),
            Err(PieceError::Malformed(problem)) => {
                let base_url = self.asked.base_url.to_owned();
                // The parser's words quote the answer, so they are cleaned like the answer itself.
                let problem = self.asked.quoted(&problem);
                let error = ModelError::Malformed { base_url, problem, excerpt: excerpt(self.asked, json) };
                Err(Failure::again(error, Some(self.status)))
            }
        }
    }
}
