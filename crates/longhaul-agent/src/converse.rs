//! Drives a [`Dialogue`]: each answer of the model becomes a recorded step with its business event.

use longhaul_core::EventDraft;
use longhaul_durable::{Effect, NodeContext, NodeError};
use longhaul_model::{ChatModel, ChatRequest, ChatResponse, ModelError, Usage};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    dialogue::{Dialogue, Ending, Limits, Next, Opening},
    host::ToolHost,
};

/// What an event shows of the tools that a model asked for; a model can ask for anything.
const NAMES_MAX: usize = 64;
const NAME_CHARS_MAX: usize = 64;

/// What a conversation came to.
#[derive(Debug, Clone)]
pub struct Conversed {
    /// Why it ended.
    pub ending: Ending,
    /// Answers of the model.
    pub turns: u32,
    /// Tokens used by all of them.
    pub usage: Usage,
}

/// A recorded answer: the response, or the fact that the request no longer fitted the window.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Response { response: ChatResponse, elapsed_ms: u64 },
    WindowExceeded,
}

/// Holds a conversation to its end.
///
/// # Errors
/// When the model cannot be reached or refuses (after the retries of its port), a tool host fails, or the execution is
/// cancelled. Nothing that was recorded is lost; the next run continues after it.
pub async fn converse(
    ctx: &NodeContext,
    model: &dyn ChatModel,
    host: &dyn ToolHost,
    opening: Opening,
    limits: Limits,
) -> Result<Conversed, NodeError> {
    let mut dialogue = Dialogue::new(opening, limits);
    let mut usage = Usage::default();
    loop {
        match dialogue.next() {
            Next::End(ending) => return Ok(Conversed { ending, turns: dialogue.turns(), usage }),
            Next::Call(call) => dialogue.called(host.call(ctx, &call).await?),
            Next::Ask(request) => match ask(ctx, model, request, dialogue.turns() + 1).await? {
                Answer::WindowExceeded => dialogue.overflowed(),
                Answer::Response { response, .. } => {
                    add(&mut usage, &response.usage);
                    dialogue.answered(&response);
                }
            },
        }
    }
}

async fn ask(ctx: &NodeContext, model: &dyn ChatModel, request: ChatRequest, turn: u32) -> Result<Answer, NodeError> {
    let work = async {
        let started = Instant::now();
        match model.chat(&request, &mut |_| {}).await {
            Ok(response) => {
                let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                Ok(Answer::Response { response, elapsed_ms })
            }
            Err(ModelError::TooLarge { .. }) => Ok(Answer::WindowExceeded),
            Err(error) => Err(error.into()),
        }
    };
    let scope = ctx.scope().clone();
    let (execution, step) = (ctx.execution().clone(), ctx.step_id("model").within());
    ctx.step_tx("model", Effect::Pure, work, move |tx, answer| {
        if let Answer::Response { response, elapsed_ms } = answer {
            tx.append_event(&scope, Some(&execution), Some(&step), answered_event(turn, response, *elapsed_ms))?;
        }
        Ok(())
    })
    .await
}

fn add(total: &mut Usage, one: &Usage) {
    total.prompt_tokens += one.prompt_tokens;
    total.answer_tokens += one.answer_tokens;
    total.cached_tokens += one.cached_tokens;
    total.written_tokens += one.written_tokens;
    total.estimated |= one.estimated;
}

fn answered_event(turn: u32, response: &ChatResponse, elapsed_ms: u64) -> EventDraft {
    let names = response.tool_calls.iter().map(|call| call.name.chars().take(NAME_CHARS_MAX).collect::<String>());
    let tools: Vec<String> = names.take(NAMES_MAX).collect();
    EventDraft::business(
        "model.answered",
        json!({
            "turn": turn,
            "model": response.model,
            "prompt_tokens": response.usage.prompt_tokens,
            "answer_tokens": response.usage.answer_tokens,
            "tools": tools,
            "retries": response.retries,
            "ms": elapsed_ms,
        }),
    )
}
