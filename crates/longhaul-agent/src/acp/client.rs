//! One agent, one session, one turn after the other.

use std::{collections::HashMap, path::Path, time::Duration};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use longhaul_model::Usage;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufRead, AsyncWrite},
    time::{Instant, timeout_at},
};

use super::{
    port::{AgentHost, Permission, TerminalCommand},
    rpc::{AcpError, Incoming, Wire},
    wire::{AskedPermission, Call, PROTOCOL_VERSION, StopReason, ToldUsage, shortened, text},
};

/// Longest wait for the answer to `initialize` and `session/new`.
const OPENING_MAX: Duration = Duration::from_secs(90);
/// Longest wait for the end of a turn that was cancelled.
const CANCEL_MAX: Duration = Duration::from_secs(15);
/// Most bytes kept of what the agent says last.
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Tool calls remembered at once.
const CALLS_MAX: usize = 256;
/// Answers prepared at once; more requests wait.
const REQUESTS_MAX: usize = 64;
/// Characters of a token, where the agent does not tell its usage: a cautious guess.
const CHARS_PER_TOKEN: u64 = 3;

const METHOD_NOT_FOUND: i64 = -32_601;
const INVALID_PARAMS: i64 = -32_602;
const INTERNAL: i64 = -32_603;

/// Bounds of one turn.
#[derive(Debug, Clone, Copy)]
pub struct AcpLimits {
    /// The moment at which the turn is cancelled.
    pub until: Instant,
    /// The longest the agent may say and ask nothing.
    pub silence_max: Duration,
}

/// How a turn ended.
#[derive(Debug, Clone)]
pub struct TurnEnd {
    /// Why, in the agent's words.
    pub reason: StopReason,
    /// Why we cancelled it, if we did.
    pub cancelled: Option<Cancelled>,
    /// Whether the agent answered at all; one that does not heed a cancellation is no longer waited for.
    pub is_answered: bool,
    /// What the agent said last, after its last tool call.
    pub text: String,
    /// Tokens, told or estimated.
    pub usage: Usage,
    /// Kinds of the tools it called.
    pub tools: Vec<String>,
}

/// Why we cancelled a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cancelled {
    /// A person must decide on this first.
    Asked(AskedPermission),
    /// Its time was over.
    OutOfTime,
    /// It did nothing for too long.
    Silent,
    /// Whoever gave the work wants it to end.
    Wanted,
}

/// A session with an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcpSession {
    /// The agent's name and version, as it told them.
    pub agent: String,
    id: String,
}

/// The connection with an agent that has been initialized and has a session.
pub struct AcpClient<R, W> {
    wire: Wire<R, W>,
    session: AcpSession,
    next_id: u64,
    calls: HashMap<String, Call>,
}

type Reply = (Value, Result<Value, (i64, String)>, Option<AskedPermission>);

impl<R: AsyncBufRead + Unpin + Send, W: AsyncWrite + Unpin + Send> AcpClient<R, W> {
    /// Initializes the agent and opens a session in this folder.
    ///
    /// # Errors
    /// [`AcpError`], when it is no agent, another version, wants to log in, or does not answer.
    pub async fn open(reader: R, writer: W, folder: &Path) -> Result<Self, AcpError> {
        let session = AcpSession { agent: String::new(), id: String::new() };
        let mut client = Self { wire: Wire::new(reader, writer), session, next_id: 0, calls: HashMap::new() };
        let hello = json!({
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": {"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true},
            "clientInfo": {"name": "longhaul", "title": "Longhaul", "version": env!("CARGO_PKG_VERSION")},
        });
        let told = client.ask("initialize", hello).await?;
        if told["protocolVersion"].as_u64() != Some(PROTOCOL_VERSION) {
            return Err(AcpError::Version { version: told["protocolVersion"].to_string() });
        }
        let info = &told["agentInfo"];
        let name = text(&info["name"]).unwrap_or_else(|| "agent".to_owned());
        let version = text(&info["version"]).map(|version| format!(" {version}")).unwrap_or_default();
        client.session.agent = shortened(&format!("{name}{version}"), 80);
        let opened = client.ask("session/new", json!({"cwd": folder, "mcpServers": []})).await?;
        client.session.id =
            text(&opened["sessionId"]).ok_or_else(|| AcpError::NotAcp { line: shortened(&opened.to_string(), 200) })?;
        Ok(client)
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &AcpSession {
        &self.session
    }

    /// One turn: the prompt, everything the agent asks and tells, and its stop reason. When `wanted` ends first, or a limit
    /// is reached, the turn is cancelled.
    ///
    /// # Errors
    /// [`AcpError`]; the connection is of no more use then.
    pub async fn prompt(
        &mut self,
        prompt: &str,
        host: &dyn AgentHost,
        limits: AcpLimits,
        wanted: impl Future<Output = ()> + Send,
    ) -> Result<TurnEnd, AcpError> {
        const METHOD: &str = "session/prompt";
        let id = self.send(METHOD, json!({"sessionId": self.session.id, "prompt": [{"type": "text", "text": prompt}]}));
        let id = id.await?;
        let mut turn = Turn::new(prompt);
        let mut replies: FuturesUnordered<BoxFuture<'_, Reply>> = FuturesUnordered::new();
        tokio::pin!(wanted);
        let mut alive_at = Instant::now();
        loop {
            let until = match turn.cancelled_at {
                Some(at) => at + CANCEL_MAX,
                None => limits.until.min(alive_at + limits.silence_max),
            };
            let next = timeout_at(until, async {
                tokio::select! {
                    () = &mut wanted, if turn.cancelled.is_none() => Next::Wanted,
                    Some(reply) = replies.next(), if !replies.is_empty() => Next::Reply(reply),
                    message = self.wire.next(), if replies.len() < REQUESTS_MAX => Next::Message(message),
                }
            });
            match next.await {
                Err(_) if turn.cancelled.is_some() => return Ok(turn.unanswered()),
                Err(_) if Instant::now() >= limits.until => self.cancel(&mut turn, Cancelled::OutOfTime).await?,
                // A command of ours that still runs is a sign of life.
                Err(_) if !replies.is_empty() => alive_at = Instant::now(),
                Err(_) => self.cancel(&mut turn, Cancelled::Silent).await?,
                Ok(Next::Wanted) => self.cancel(&mut turn, Cancelled::Wanted).await?,
                Ok(Next::Reply((id, answer, asked))) => {
                    self.wire.answer(id, answer).await?;
                    if let Some(asked) = asked {
                        self.cancel(&mut turn, Cancelled::Asked(asked)).await?;
                    }
                }
                Ok(Next::Message(message)) => {
                    alive_at = Instant::now();
                    let ended = || AcpError::Ended { method: METHOD.to_owned() };
                    match message?.ok_or_else(ended)? {
                        Incoming::Answer { id: answered, outcome } if answered == id => {
                            return Self::ended(turn, outcome);
                        }
                        Incoming::Answer { .. } => {}
                        Incoming::Notification { method, params } => self.told(&mut turn, host, &method, &params).await,
                        Incoming::Request { id, method, params } => {
                            let cancelled = turn.cancelled.is_some();
                            replies.push(self.reply(host, id, method, params, cancelled));
                        }
                    }
                }
            }
        }
    }

    fn ended(turn: Turn, outcome: Result<Value, (i64, String)>) -> Result<TurnEnd, AcpError> {
        match outcome {
            Ok(result) => {
                let reason = result["stopReason"].as_str().and_then(StopReason::parse);
                // A reason of a later version says no more than that the turn is over.
                Ok(turn.end(reason.unwrap_or(StopReason::EndTurn), ToldUsage::of_turn(&result)))
            }
            // Some agents answer a cancelled turn with an error.
            Err(_) if turn.cancelled.is_some() => Ok(turn.end(StopReason::Cancelled, None)),
            Err((code, message)) => Err(AcpError::Refused { method: "session/prompt".to_owned(), code, message }),
        }
    }

    async fn cancel(&mut self, turn: &mut Turn, why: Cancelled) -> Result<(), AcpError> {
        if turn.cancelled.is_some() {
            return Ok(());
        }
        turn.cancelled = Some(why);
        turn.cancelled_at = Some(Instant::now());
        self.wire.notify("session/cancel", json!({"sessionId": self.session.id})).await
    }

    async fn told(&mut self, turn: &mut Turn, host: &dyn AgentHost, method: &str, params: &Value) {
        if method != "session/update" || params["sessionId"] != self.session.id.as_str() {
            return;
        }
        let update = &params["update"];
        match update["sessionUpdate"].as_str().unwrap_or_default() {
            "agent_message_chunk" => turn.said(update["content"]["text"].as_str().unwrap_or_default()),
            "agent_thought_chunk" => turn.count(update["content"]["text"].as_str().unwrap_or_default()),
            "tool_call" | "tool_call_update" => {
                let Some(id) = text(&update["toolCallId"]) else { return };
                if self.calls.len() >= CALLS_MAX && !self.calls.contains_key(&id) {
                    self.calls.clear();
                }
                turn.called(update);
                if let Some(deed) = self.calls.entry(id).or_default().update(update) {
                    turn.tools.push(deed.kind.clone());
                    host.did(&deed).await;
                }
            }
            _ => {}
        }
    }

    fn reply<'h>(
        &self,
        host: &'h dyn AgentHost,
        id: Value,
        method: String,
        params: Value,
        cancelled: bool,
    ) -> BoxFuture<'h, Reply> {
        if method == "session/request_permission" {
            let call = text(&params["toolCall"]["toolCallId"]);
            let known = call.and_then(|call| self.calls.get(&call));
            let asked = AskedPermission::parse(&params, known);
            return Box::pin(async move {
                let answer = if cancelled { Permission::Ask } else { host.permission(&asked).await };
                let outcome = match answer {
                    Permission::Allow => asked.option(true),
                    Permission::Deny => asked.option(false),
                    Permission::Ask => None,
                };
                let outcome = match outcome {
                    Some(option) => json!({"outcome": "selected", "optionId": option}),
                    None => json!({"outcome": "cancelled"}),
                };
                let asks = (answer == Permission::Ask && !cancelled).then_some(asked);
                (id, Ok(json!({"outcome": outcome})), asks)
            });
        }
        Box::pin(async move {
            let answer = serve(host, &method, &params).await;
            (id, answer, None)
        })
    }

    async fn ask(&mut self, method: &str, params: Value) -> Result<Value, AcpError> {
        let id = self.send(method, params).await?;
        let until = Instant::now() + OPENING_MAX;
        let silent = || AcpError::Silent { method: method.to_owned(), seconds: OPENING_MAX.as_secs() };
        loop {
            let message = timeout_at(until, self.wire.next()).await.map_err(|_| silent())??;
            match message.ok_or_else(|| AcpError::Ended { method: method.to_owned() })? {
                Incoming::Answer { id: answered, outcome } if answered == id => {
                    let refused = |(code, message)| AcpError::Refused { method: method.to_owned(), code, message };
                    return outcome.map_err(refused);
                }
                Incoming::Request { id, method, .. } => {
                    let answer = Err((METHOD_NOT_FOUND, format!("{method} before the session has begun")));
                    self.wire.answer(id, answer).await?;
                }
                Incoming::Answer { .. } | Incoming::Notification { .. } => {}
            }
        }
    }

    async fn send(&mut self, method: &str, params: Value) -> Result<u64, AcpError> {
        self.next_id += 1;
        self.wire.request(self.next_id, method, params).await?;
        Ok(self.next_id)
    }
}

enum Next {
    Wanted,
    Reply(Reply),
    Message(Result<Option<Incoming>, AcpError>),
}

/// What is known of a turn while it goes on.
struct Turn {
    prompt_chars: u64,
    answer_chars: u64,
    text: String,
    tools: Vec<String>,
    cancelled: Option<Cancelled>,
    cancelled_at: Option<Instant>,
    is_new_message: bool,
}

impl Turn {
    fn new(prompt: &str) -> Self {
        Self {
            prompt_chars: prompt.chars().count() as u64,
            answer_chars: 0,
            text: String::new(),
            tools: Vec::new(),
            cancelled: None,
            cancelled_at: None,
            is_new_message: false,
        }
    }

    fn count(&mut self, text: &str) {
        self.answer_chars += text.chars().count() as u64;
    }

    fn said(&mut self, text: &str) {
        self.count(text);
        if std::mem::take(&mut self.is_new_message) {
            self.text.clear();
        }
        self.text.push_str(text);
        if self.text.len() > TEXT_BYTES_MAX {
            let from = self.text.ceil_char_boundary(self.text.len() - TEXT_BYTES_MAX / 2);
            self.text.drain(..from);
        }
    }

    /// What is said after a call is the next message. A call's input and output pass the model, too.
    fn called(&mut self, update: &Value) {
        self.is_new_message = true;
        self.answer_chars += update["rawInput"].to_string().len() as u64;
        self.prompt_chars += update["rawOutput"].to_string().len() as u64 + update["content"].to_string().len() as u64;
    }

    fn unanswered(self) -> TurnEnd {
        TurnEnd { is_answered: false, ..self.end(StopReason::Cancelled, None) }
    }

    fn end(self, reason: StopReason, told: Option<ToldUsage>) -> TurnEnd {
        let mut usage = Usage::default();
        match told {
            Some(told) => {
                (usage.prompt_tokens, usage.answer_tokens) = (told.prompt, told.answer);
                usage.cached_tokens = told.cached;
            }
            None => {
                usage.prompt_tokens = self.prompt_chars / CHARS_PER_TOKEN;
                usage.answer_tokens = self.answer_chars / CHARS_PER_TOKEN;
                usage.estimated = true;
            }
        }
        let (cancelled, text, tools) = (self.cancelled, self.text, self.tools);
        TurnEnd { reason, cancelled, is_answered: true, text, usage, tools }
    }
}

/// Carries out a request for a file or a terminal.
async fn serve(host: &dyn AgentHost, method: &str, params: &Value) -> Result<Value, (i64, String)> {
    let failed = |message: String| (INTERNAL, message);
    let wanted = |name: &str| text(&params[name]).ok_or_else(|| (INVALID_PARAMS, format!("`{name}` is missing")));
    match method {
        "fs/read_text_file" => {
            let (first, lines_max) = (params["line"].as_u64(), params["limit"].as_u64());
            let content = host.read_text_file(&wanted("path")?, first, lines_max).await.map_err(failed)?;
            Ok(json!({"content": content}))
        }
        "fs/write_text_file" => {
            let content = params["content"].as_str().ok_or((INVALID_PARAMS, "`content` is missing".to_owned()))?;
            host.write_text_file(&wanted("path")?, content).await.map_err(failed)?;
            Ok(json!({}))
        }
        "terminal/create" => {
            let list = |name: &str| params[name].as_array().map(Vec::as_slice).unwrap_or_default();
            let env =
                list("env").iter().filter_map(|one| Some((text(&one["name"])?, one["value"].as_str()?.to_owned())));
            let command = TerminalCommand {
                command: wanted("command")?,
                args: list("args").iter().filter_map(|arg| arg.as_str().map(str::to_owned)).collect(),
                env: env.collect(),
                cwd: text(&params["cwd"]).map(Into::into),
                output_bytes_max: params["outputByteLimit"].as_u64(),
            };
            Ok(json!({"terminalId": host.create_terminal(command).await.map_err(failed)?}))
        }
        "terminal/output" => {
            let state = host.terminal(&wanted("terminalId")?, false).await.map_err(failed)?;
            let exit = state.exit.map(|(code, signal)| json!({"exitCode": code, "signal": signal}));
            Ok(json!({"output": state.output, "truncated": state.is_truncated, "exitStatus": exit}))
        }
        "terminal/wait_for_exit" => {
            let state = host.terminal(&wanted("terminalId")?, true).await.map_err(failed)?;
            let (code, signal) = state.exit.unwrap_or_default();
            Ok(json!({"exitCode": code, "signal": signal}))
        }
        "terminal/kill" | "terminal/release" => {
            let release = method == "terminal/release";
            host.end_terminal(&wanted("terminalId")?, release).await.map_err(failed)?;
            Ok(json!({}))
        }
        _ => Err((METHOD_NOT_FOUND, format!("there is no {method} here"))),
    }
}
