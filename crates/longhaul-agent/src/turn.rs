//! One turn of a [`Talk`]: the user says something, the model answers, with the tools it asks for in between.
//!
//! It owns the loop for conversations outside of an execution; work that must survive the process runs in
//! [`crate::converse`]. Everything said is appended as it is said, so a kill loses the step in flight and no more; a call
//! whose result was not recorded is shown to the model as such. Invariant: user memory reads only what its user said.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::{ToolCall, ToolSpec, limits::MESSAGE_BYTES_MAX};
use longhaul_memory::{
    Source,
    tools::{self, Answer, Caller},
    user::{By, Proposer, Turn as Said},
};
use longhaul_model::{ChatModel, ModelError};
use longhaul_workspace::sessions::{self, NewMessage, Role, SessionError, StoredMessage};
use serde_json::Value;

use crate::Talk;

/// Answers of the model in one turn.
const ANSWERS_MAX: usize = 16;
/// Most tokens of one answer.
const ANSWER_TOKENS_MAX: u32 = 4_000;
/// Who an agent is in the history of what it changed.
const AGENT: &str = "talk";

/// Tools of the caller's own.
#[async_trait]
pub trait TalkTools: Send + Sync {
    /// What is on offer, beside the tools of memory.
    fn specs(&self) -> Vec<ToolSpec>;

    /// Carries out a call. What went wrong is a text for the model. A result over the limit of a message is cut: ingest
    /// what is long, and answer with its ref.
    async fn call(&self, call: &ToolCall) -> String;
}

/// Why a turn did not come to its end. What was said until then is in the conversation.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// The conversation could not be read or written.
    #[error("the conversation could not be read or written")]
    Session(#[from] SessionError),
    /// The model could not be asked.
    #[error("the model could not be asked")]
    Model(#[from] ModelError),
    /// The model asks for tools without end.
    #[error("the model asked for tools {ANSWERS_MAX} times without an answer; say what it should do instead")]
    NoAnswer,
}

impl Talk {
    /// The user says something; gives what the model answers in the end. User memory learns in the background.
    ///
    /// # Errors
    /// [`TurnError`].
    pub async fn turn(
        &self,
        model: &dyn ChatModel,
        message: NewMessage,
        own: Option<&dyn TalkTools>,
        proposer: Option<Arc<dyn Proposer>>,
    ) -> Result<StoredMessage, TurnError> {
        let mut layout = self.layout(&message.content).await?;
        layout.tools.extend(own.map(TalkTools::specs).unwrap_or_default());
        let mut request = layout.request(ANSWER_TOKENS_MAX);
        let (said, _learning) = self.session.append_and_learn(message, proposer).await?;
        for _ in 0..ANSWERS_MAX {
            let response = model.chat(&request, &mut |_| {}).await?;
            let answer = NewMessage::calling(response.content.clone(), response.tool_calls.clone());
            if response.content.trim().is_empty() && response.tool_calls.is_empty() {
                return Err(TurnError::NoAnswer);
            }
            let answered = self.session.append(answer).await?;
            if response.tool_calls.is_empty() {
                return Ok(answered);
            }
            request.messages.push(response.message());
            for call in response.tool_calls {
                let content = cut(self.answer(&call, &said, own).await?);
                self.session.append(NewMessage::answering(&call.id, content.clone())).await?;
                request.messages.push(longhaul_model::Message::Tool { call_id: call.id, content });
            }
        }
        Err(TurnError::NoAnswer)
    }

    async fn answer(
        &self,
        call: &ToolCall,
        said: &StoredMessage,
        own: Option<&dyn TalkTools>,
    ) -> Result<String, SessionError> {
        let arguments = match serde_json::from_str::<Value>(&call.arguments) {
            Ok(arguments) => arguments,
            Err(_) if call.arguments.trim().is_empty() => Value::Null,
            Err(error) => return Ok(format!("error: the arguments are no JSON: {error}")),
        };
        if !self.tools().iter().any(|tool| tool.name == call.name) {
            return Ok(match own {
                Some(own) => own.call(call).await,
                None => format!("error: there is no tool `{}`", call.name.chars().take(60).collect::<String>()),
            });
        }
        let Answer { text, .. } = if call.name == sessions::tool::CONVERSATION_SEARCH {
            let current = &self.session.owner().session;
            sessions::tool::call(self.session.all(), Some(current), &self.zone, &arguments).await?
        } else {
            let caller = self.caller(said).await?;
            let answer = tools::call(self.user_memory(), &caller, &call.name, &arguments).await;
            answer.map_err(SessionError::from)?.unwrap_or_else(|| Answer {
                text: format!("error: {} is not offered here", call.name),
                data: Value::Null,
                is_error: true,
            })
        };
        Ok(text)
    }

    /// The newest words of the conversation with their sources: an edit that text from outside may have caused waits for
    /// a person.
    async fn caller(&self, said: &StoredMessage) -> Result<Caller, SessionError> {
        let owner = self.session.owner();
        let newest = self.session.messages((said.seq - 40).max(0), 80).await?;
        let turns = newest.into_iter().filter_map(|message| {
            let source = match message.role {
                Role::User => Source::User,
                Role::Assistant => Source::Agent,
                Role::Tool => Source::Tool,
                Role::System => return None,
            };
            Some(Said { thread: owner.session.to_string(), source, text: message.content, at: message.at })
        });
        let by = By::agent(AGENT, Some(owner.session.as_str()));
        Ok(Caller { scope: owner.scope.clone(), by, turns: turns.collect() })
    }
}

/// A tool's result as a message may hold it.
fn cut(text: String) -> String {
    const NOTE: &str = "\n(cut: the result is over the limit of a message; ingest it, keep the ref)";
    let text = text.replace('\0', " ");
    if text.len() <= MESSAGE_BYTES_MAX - 1_024 {
        return text;
    }
    let to = (0..=MESSAGE_BYTES_MAX - 1_024).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}{NOTE}", &text[..to])
}
