//! JSON-RPC 2.0 in lines, over any two streams: what comes in, one message at a time, and what goes out.
//!
//! Invariant: a line has a bounded length, and writing ends in bounded time even when nobody reads.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt};

/// Longest message of an agent, in bytes; it carries whole files of an edit.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Longest wait for the agent to read what it is told.
const WRITE_MAX: Duration = Duration::from_secs(30);
/// Characters of a line that an error shows.
const SHOWN_CHARS_MAX: usize = 200;

/// Why an agent cannot be talked to. What it said on its standard error is told by whoever started it.
#[derive(Debug, thiserror::Error)]
pub enum AcpError {
    /// Its output ended.
    #[error("the agent ended before it had answered `{method}`")]
    Ended {
        /// What it was asked.
        method: String,
    },
    /// It writes something else than the protocol.
    #[error(
        "the agent wrote a line that is no message of the Agent Client Protocol ({line:?}); is this its ACP command"
    )]
    NotAcp {
        /// The beginning of the line.
        line: String,
    },
    /// A message without end.
    #[error("the agent wrote a message of more than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// It refused a request of ours.
    #[error("the agent refused `{method}`: {message} (code {code}); if it wants to log in, see docs/agents.md on keys")]
    Refused {
        /// What it was asked.
        method: String,
        /// The protocol's number.
        code: i64,
        /// In its words.
        message: String,
    },
    /// It speaks another version.
    #[error(
        "the agent speaks version {version} of the Agent Client Protocol, and longhaul speaks 1; use another release of it"
    )]
    Version {
        /// Its version.
        version: String,
    },
    /// It said nothing for too long.
    #[error("the agent did not answer `{method}` within {seconds} s")]
    Silent {
        /// What it was asked.
        method: String,
        /// How long that was waited for.
        seconds: u64,
    },
    /// It does not read.
    #[error("the agent does not read what it is told")]
    Deaf(#[source] std::io::Error),
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Incoming {
    /// The agent asks; it must be answered under this id.
    Request { id: Value, method: String, params: Value },
    /// The agent tells.
    Notification { method: String, params: Value },
    /// The answer to a request of ours.
    Answer { id: u64, outcome: Result<Value, (i64, String)> },
}

/// The two streams.
pub(super) struct Wire<R, W> {
    reader: R,
    writer: W,
    /// The beginning of a line whose end has not come yet.
    partial: Vec<u8>,
}

impl<R: AsyncBufRead + Unpin + Send, W: AsyncWrite + Unpin + Send> Wire<R, W> {
    pub(super) fn new(reader: R, writer: W) -> Self {
        Self { reader, writer, partial: Vec::new() }
    }

    /// The next message; `None` at the end. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Option<Incoming>, AcpError> {
        loop {
            let Ok(available) = self.reader.fill_buf().await else { return Ok(None) };
            if available.is_empty() {
                return Ok(None);
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |at| at + 1);
            self.partial.extend_from_slice(&available[..taken]);
            self.reader.consume(taken);
            if self.partial.len() > LINE_BYTES_MAX {
                return Err(AcpError::TooLong);
            }
            if end.is_some() {
                let line = std::mem::take(&mut self.partial);
                if !line.trim_ascii().is_empty() {
                    return parse(&line).map(Some);
                }
            }
        }
    }

    pub(super) async fn request(&mut self, id: u64, method: &str, params: Value) -> Result<(), AcpError> {
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await
    }

    pub(super) async fn notify(&mut self, method: &str, params: Value) -> Result<(), AcpError> {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await
    }

    pub(super) async fn answer(&mut self, id: Value, outcome: Result<Value, (i64, String)>) -> Result<(), AcpError> {
        let message = match outcome {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, message)) => json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}),
        };
        self.write(&message).await
    }

    async fn write(&mut self, message: &Value) -> Result<(), AcpError> {
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        let write = async {
            self.writer.write_all(&line).await?;
            self.writer.flush().await
        };
        match tokio::time::timeout(WRITE_MAX, write).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(source)) => Err(AcpError::Deaf(source)),
            Err(_) => Err(AcpError::Deaf(std::io::ErrorKind::TimedOut.into())),
        }
    }
}

fn parse(line: &[u8]) -> Result<Incoming, AcpError> {
    let wrong =
        || AcpError::NotAcp { line: String::from_utf8_lossy(line).trim_end().chars().take(SHOWN_CHARS_MAX).collect() };
    let mut message: Value = serde_json::from_slice(line).map_err(|_| wrong())?;
    let Some(object) = message.as_object_mut() else { return Err(wrong()) };
    let id = object.remove("id").filter(|id| !id.is_null());
    let params = object.remove("params").unwrap_or(Value::Null);
    if let Some(Value::String(method)) = object.remove("method") {
        return Ok(match id {
            Some(id) => Incoming::Request { id, method, params },
            None => Incoming::Notification { method, params },
        });
    }
    let id = id.and_then(|id| id.as_u64()).ok_or_else(wrong)?;
    if let Some(error) = object.remove("error") {
        let code = error["code"].as_i64().unwrap_or(0);
        let mut message = error["message"].as_str().unwrap_or("no reason given").to_owned();
        if !error["data"].is_null() {
            message.push_str(&format!(" {}", error["data"]));
        }
        let message = message.chars().take(2_000).collect();
        return Ok(Incoming::Answer { id, outcome: Err((code, message)) });
    }
    Ok(Incoming::Answer { id, outcome: Ok(object.remove("result").unwrap_or(Value::Null)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &str) -> Result<Vec<Incoming>, AcpError> {
        let mut wire = Wire::new(text.as_bytes(), tokio::io::sink());
        let mut all = Vec::new();
        while let Some(message) = wire.next().await? {
            all.push(message);
        }
        Ok(all)
    }

    #[tokio::test]
    async fn messages_are_told_apart() {
        let text = "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}\n\n{\"method\":\"a\"}\n{\"id\":\"x\",\"method\":\"b\",\"params\":[]}\n";
        let all = read(text).await.unwrap();
        assert!(matches!(&all[0], Incoming::Answer { id: 3, outcome: Ok(_) }));
        assert!(matches!(&all[1], Incoming::Notification { method, .. } if method == "a"));
        assert!(matches!(&all[2], Incoming::Request { id, method, .. } if id == "x" && method == "b"));
    }

    #[tokio::test]
    async fn what_is_no_message_is_an_error_and_not_a_hang() {
        assert!(matches!(read("Listening on port 3000\n").await, Err(AcpError::NotAcp { .. })));
        assert!(matches!(read("[1,2]\n").await, Err(AcpError::NotAcp { .. })));
        assert!(matches!(read("{\"id\":\"mine\",\"result\":{}}\n").await, Err(AcpError::NotAcp { .. })));
        assert!(
            matches!(read("{\"id\":1,\"result\":{}}").await.as_deref(), Ok([])),
            "a line that was cut is no message"
        );
    }
}
