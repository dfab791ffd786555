//! What a server offers beside the tools of its registry: tools that speak with the client while they work, prompts,
//! resources, completions. One port for both lifecycles of the protocol.
//!
//! Shapes are the protocol's own JSON; `rmcp`'s types do not appear. Invariant: a tool asks its client by
//! [`Talk::ask`] and never knows how: with a session (up to 2025-11-25) the question goes out and is waited for; without
//! one (2026-07-28) the call ends with what is missing, and is made again with the answers.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use rmcp::{
    ErrorData, RoleServer,
    model::{
        ClientCapabilities, ClientResult, InputRequest, InputRequiredResult, InputResponses, ProgressNotificationParam,
        ServerNotification, ServerRequest,
    },
    service::{RequestContext, SubscriptionSink},
};
use serde_json::{Map, Value, json};

use super::seal::Seal;

/// Longest time a client with a session may take for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(120);

/// What is on a shelf, each as the protocol lists it.
#[derive(Debug, Clone, Default)]
pub struct Offers {
    /// `{"name", "description", "inputSchema"}`.
    pub tools: Vec<Value>,
    /// `{"name", "description", "arguments": [{"name", "description", "required"}]}`.
    pub prompts: Vec<Value>,
    /// `{"uri", "name", "description", "mimeType"}`.
    pub resources: Vec<Value>,
    /// `{"uriTemplate", "name", "description", "mimeType"}`.
    pub templates: Vec<Value>,
    /// There are completions.
    pub completions: bool,
    /// Messages are logged to the client.
    pub logging: bool,
}

/// Something a server offers beside its registry.
#[async_trait]
pub trait Shelf: Send + Sync {
    /// What there is. Asked once.
    fn offers(&self) -> Offers;

    /// Carries out one of its tools. The answer is a result of `tools/call`: `{"content": […], "isError": false}`.
    ///
    /// # Errors
    /// [`Stop`].
    async fn call(&self, name: &str, arguments: Map<String, Value>, talk: &mut Talk) -> Result<Value, Stop> {
        let _ = (arguments, talk);
        Err(Stop::Invalid(format!("there is no tool {name}")))
    }

    /// One of its prompts: `{"description", "messages": […]}`.
    ///
    /// # Errors
    /// [`Stop`].
    async fn prompt(&self, name: &str, arguments: Map<String, Value>, talk: &mut Talk) -> Result<Value, Stop> {
        let _ = (arguments, talk);
        Err(Stop::Invalid(format!("there is no prompt {name}")))
    }

    /// The contents of a resource: `[{"uri", "mimeType", "text"}]`; nothing when there is none of this address.
    async fn read(&self, uri: &str) -> Option<Value> {
        let _ = uri;
        None
    }

    /// What an argument of a prompt, or of a resource's template, may be. `of` is `{"type": "ref/prompt", "name"}` or
    /// `{"type": "ref/resource", "uri"}`.
    async fn complete(&self, of: &Value, argument: &str, begun: &str) -> Vec<String> {
        let _ = (of, argument, begun);
        Vec::new()
    }
}

/// Why a call ends without its result.
#[derive(Debug)]
pub enum Stop {
    /// The client is asked for what was noted in its [`Talk`].
    Input,
    /// The request makes no sense; a protocol error.
    Invalid(String),
    /// The client cannot do what is needed: `sampling`, `elicitation` or `roots`.
    Lacks(&'static str),
    /// The client did not answer.
    Silent(String),
}

/// A question to the client.
#[derive(Debug, Clone)]
pub enum Question {
    /// A form for its user.
    Form {
        /// What is asked.
        message: String,
        /// JSON Schema of the form, flat.
        schema: Value,
    },
    /// A text of its model.
    Sample {
        /// The prompt.
        prompt: String,
        /// At most so long.
        tokens_max: u32,
    },
    /// The folders it works in.
    Roots,
}

/// A list that clients may have asked to hear of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// `tools/list`.
    Tools,
    /// `prompts/list`.
    Prompts,
    /// `resources/list`.
    Resources,
}

/// Clients that listen for changes of lists.
#[derive(Debug, Default)]
pub(super) struct Subscribers(Mutex<(u64, BTreeMap<u64, SubscriptionSink>)>);

/// One of them, for as long as it is held.
pub(super) struct Subscribed(Arc<Subscribers>, u64);

impl Subscribers {
    pub(super) fn add(self: &Arc<Self>, sink: SubscriptionSink) -> Subscribed {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.0 += 1;
        let number = all.0;
        all.1.insert(number, sink);
        Subscribed(self.clone(), number)
    }

    async fn tell(&self, listed: Listed) {
        let all: Vec<SubscriptionSink> =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).1.values().cloned().collect();
        for sink in all {
            // One that asked for other lists, or has gone, is not told.
            let _ = match listed {
                Listed::Tools => sink.notify_tool_list_changed().await,
                Listed::Prompts => sink.notify_prompt_list_changed().await,
                Listed::Resources => sink.notify_resource_list_changed().await,
            };
        }
    }
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&self.1);
    }
}

/// A call's way to its client.
pub struct Talk {
    context: RequestContext<RoleServer>,
    answers: InputResponses,
    questions: BTreeMap<String, InputRequest>,
    state: Option<Value>,
    kept: Option<Value>,
    seal: Arc<Seal>,
    subscribers: Arc<Subscribers>,
}

impl Talk {
    /// # Errors
    /// For a state that this server did not give.
    pub(super) fn new(
        context: RequestContext<RoleServer>,
        answers: Option<InputResponses>,
        state: Option<&str>,
        seal: Arc<Seal>,
        subscribers: Arc<Subscribers>,
    ) -> Result<Self, ErrorData> {
        let state = match state {
            None => None,
            Some(sealed) => Some(seal.open(sealed).ok_or_else(|| {
                ErrorData::invalid_params("requestState is none that this server gave: begin the call again", None)
            })?),
        };
        let (answers, questions) = (answers.unwrap_or_default(), BTreeMap::new());
        Ok(Self { context, answers, questions, state, kept: None, seal, subscribers })
    }

    /// What the call before this one kept.
    #[must_use]
    pub fn state(&self) -> Option<&Value> {
        self.state.as_ref()
    }

    /// Kept until the client comes back with its answers. It can be read by the client, and not changed.
    pub fn keep(&mut self, state: Value) {
        self.kept = Some(state);
    }

    /// Whether the client can answer such questions.
    #[must_use]
    pub fn can(&self, question: &Question) -> bool {
        let capabilities = self.context.client_capabilities().unwrap_or_default();
        match question {
            Question::Form { .. } => capabilities.elicitation.is_some(),
            Question::Sample { .. } => capabilities.sampling.is_some(),
            Question::Roots => capabilities.roots.is_some(),
        }
    }

    /// The client's answer, if it has come with the call.
    #[must_use]
    pub fn answer(&self, key: &str) -> Option<&Map<String, Value>> {
        self.answers.get(key).and_then(Value::as_object)
    }

    /// Asks the client: its answer in the protocol's form, at once or when the call is made again.
    ///
    /// # Errors
    /// [`Stop::Input`] until there is an answer.
    pub async fn ask(&mut self, key: &str, question: Question) -> Result<Value, Stop> {
        if let Some(answer) = self.answer(key) {
            return Ok(Value::Object(answer.clone()));
        }
        let request = request(question)?;
        if self.stateless() {
            self.questions.insert(key.to_owned(), request);
            return Err(Stop::Input);
        }
        let request = match request {
            InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
            InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
            InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
            _ => return Err(Stop::Silent("the client cannot be asked this".to_owned())),
        };
        let answering = self.context.peer.send_request(request);
        match tokio::time::timeout(ANSWER_MAX, answering).await {
            Ok(Ok(answer)) => Ok(answered(&answer)),
            Ok(Err(error)) => Err(Stop::Silent(error.to_string())),
            Err(_) => Err(Stop::Silent(format!("no answer within {} s", ANSWER_MAX.as_secs()))),
        }
    }

    /// Ends the call with these questions, whatever has been answered.
    pub fn need(&mut self, questions: impl IntoIterator<Item = (&'static str, Question)>) -> Stop {
        for (key, question) in questions {
            match request(question) {
                Ok(request) => drop(self.questions.insert(key.to_owned(), request)),
                Err(stop) => return stop,
            }
        }
        Stop::Input
    }

    /// How far the call has come, for a client that asked to be told.
    pub async fn progress(&self, done: f64, total: f64, message: &str) {
        if let Some(token) = self.context.meta.get_progress_token() {
            let told = ProgressNotificationParam::new(token, done).with_total(total).with_message(message.to_owned());
            // A client that has gone is noticed by its call.
            let _ = self.context.peer.notify_progress(told).await;
        }
    }

    /// A message for the client's log: `debug`, `info`, `warning`, `error`. Without a session only for a request that
    /// asks for it.
    pub async fn log(&self, level: &str, data: Value) {
        if self.stateless() && self.context.meta.log_level().is_none() {
            return;
        }
        // Written as the wire has it: the protocol deprecates these messages, and clients of today read them.
        let told = json!({ "method": "notifications/message", "params": { "level": level, "data": data } });
        if let Ok(told) = serde_json::from_value::<ServerNotification>(told) {
            let _ = self.context.peer.send_notification(told).await;
        }
    }

    /// A list has changed: whoever listens for it is told.
    pub async fn changed(&self, listed: Listed) {
        self.subscribers.tell(listed).await;
    }

    fn stateless(&self) -> bool {
        self.context.protocol_version().is_some_and(|version| !version.has_initialize())
    }

    /// What the client is told when a call stops.
    pub(super) fn stopped(self, stop: Stop) -> Result<InputRequiredResult, ErrorData> {
        match stop {
            Stop::Input => {
                let state = self.kept.map(|state| self.seal.close(&state));
                let questions = (!self.questions.is_empty()).then_some(self.questions);
                Ok(InputRequiredResult::new(questions, state))
            }
            Stop::Invalid(problem) | Stop::Silent(problem) => Err(ErrorData::invalid_params(problem, None)),
            Stop::Lacks(what) => {
                let needed: ClientCapabilities = serde_json::from_value(json!({ (what): {} })).unwrap_or_default();
                Err(ErrorData::missing_required_client_capability(needed))
            }
        }
    }
}

fn request(question: Question) -> Result<InputRequest, Stop> {
    let written = match question {
        Question::Form { message, schema } => json!({
            "method": "elicitation/create",
            "params": { "mode": "form", "message": message, "requestedSchema": schema },
        }),
        Question::Sample { prompt, tokens_max } => json!({
            "method": "sampling/createMessage",
            "params": {
                "messages": [{ "role": "user", "content": { "type": "text", "text": prompt } }],
                "maxTokens": tokens_max,
            },
        }),
        Question::Roots => json!({ "method": "roots/list" }),
    };
    serde_json::from_value(written).map_err(|error| Stop::Invalid(format!("the question is none: {error}")))
}

fn answered(answer: &ClientResult) -> Value {
    serde_json::to_value(answer).unwrap_or_default()
}
