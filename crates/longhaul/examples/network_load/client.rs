//! One connection that stays open, and the contract's requests on it.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::Failure;

/// Makes ids and names that no other run has.
pub(crate) fn fresh(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// An agent with its own connection.
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) secret: String,
    address: SocketAddr,
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Agent {
    /// Registers under a fresh name.
    pub(crate) async fn join(address: SocketAddr, prefix: &str) -> Result<Self, Failure> {
        let mut agent = Self::with(address, fresh(prefix), String::new()).await?;
        let body = json!({ "agent_id": agent.name, "metadata": { "name": agent.name }, "password_hash": "" });
        let answer = agent.post("/api/register", &body).await?;
        agent.secret = answer["secret"].as_str().ok_or_else(|| format!("not registered: {answer}"))?.to_owned();
        Ok(agent)
    }

    /// One that has registered before.
    pub(crate) async fn with(address: SocketAddr, name: String, secret: String) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { name, secret, address, stream, answer: Vec::with_capacity(16 * 1024) })
    }

    /// Sends one event; the answer, which must be a success.
    pub(crate) async fn send(&mut self, id: &str, name: &str, to: &str, payload: Value) -> Result<Value, Failure> {
        let body = json!({
            "event_id": id, "event_name": name, "source_id": self.name, "target_agent_id": to, "payload": payload,
            "metadata": {}, "visibility": "network", "secret": self.secret,
        });
        let answer = self.post("/api/send_event", &body).await?;
        if answer["success"] != true {
            return Err(format!("refused: {answer}").into());
        }
        Ok(answer)
    }

    /// What waits for this agent; a server may hold the request until there is something.
    pub(crate) async fn poll(&mut self) -> Result<Vec<Value>, Failure> {
        let path = format!("/api/poll?agent_id={}&secret={}", self.name, self.secret);
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: application/json\r\n\r\n", self.address);
        self.stream.write_all(request.as_bytes()).await?;
        let mut answer = self.answered().await?;
        match answer["messages"].take() {
            Value::Array(messages) if answer["success"] == true => Ok(messages),
            _ => Err(format!("not polled: {answer}").into()),
        }
    }

    async fn post(&mut self, path: &str, body: &Value) -> Result<Value, Failure> {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await?;
        self.answered().await
    }

    async fn answered(&mut self) -> Result<Value, Failure> {
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err("the server closed the connection".into());
            }
            if let Some((head, end)) = ends(&self.answer)
                && self.answer.len() >= end
            {
                return Ok(serde_json::from_slice(&self.answer[head..end])?);
            }
        }
    }
}

/// Where the body begins and ends.
fn ends(answer: &[u8]) -> Option<(usize, usize)> {
    let head = answer.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&answer[..head]).ok()?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    })?;
    Some((head, head + length))
}
