//! Drives a [`Dialogue`]: each answer of the model becomes a recorded step with its business event.
//!
//! It owns the order around a request: decide, put aside, reserve, ask, and again when the service finds it too long. All
//! of that happens in the one step that records the answer, so recordings of earlier releases have the same steps.

use std::sync::Arc;

use longhaul_core::EventDraft;
use longhaul_durable::{Effect, NodeContext, NodeError, StepError};
use longhaul_model::{ChatModel, ChatResponse, ErrorKind, ModelError, Usage};
use longhaul_workspace::{Ingest, Kind, StagedRecord, TaskWorkspace};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    dialogue::{Before, Dialogue, Due, Ending, Limits, Next, OVERFLOW, Opening, Told, WINDOW},
    host::{After, ToolHost, ToolTurn},
    purse::{Purse, Reservation, Reserved, Unlimited, Unused, Wanted},
    watch::Patience,
    window::{Aside, MARK},
};

/// What an event shows of the tools that a model asked for; a model can ask for anything.
const NAMES_MAX: usize = 64;
const NAME_CHARS_MAX: usize = 64;
/// How often a request that the service finds too long is shortened and made again.
const OVERFLOWS_MAX: u32 = 3;
/// Characters of a text that was put aside that are found by search.
const SEARCHED_CHARS: usize = 400;
/// The collection of texts that were put aside.
const COLLECTION: &str = "conversation";

/// What a conversation came to.
#[derive(Debug, Clone)]
pub struct Conversed {
    /// Why it ended.
    pub ending: Ending,
    /// What the model said last; empty when it only called tools.
    pub text: String,
    /// Answers of the model.
    pub turns: u32,
    /// Tokens used by all of them.
    pub usage: Usage,
}

/// What a conversation works with.
pub struct Means<'a> {
    /// Who answers.
    pub model: &'a dyn ChatModel,
    /// Who carries out the calls.
    pub host: &'a dyn ToolHost,
    /// Who pays.
    pub purse: Arc<dyn Purse>,
    /// Where texts go that no longer fit; without it nothing is put aside.
    pub shelf: Option<TaskWorkspace>,
    /// When it counts as stuck.
    pub patience: Patience,
}

/// A recorded answer, or why there is none.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Response(Box<Answered>),
    /// Of the first release: the request no longer fitted the window, which ended the conversation.
    WindowExceeded,
    /// The model was not asked any more.
    Ended {
        why: String,
        out_of_budget: bool,
        /// Whoever follows the work wants it to end.
        #[serde(default)]
        called_off: bool,
    },
}

#[derive(Debug, Serialize, Deserialize)]
struct Answered {
    response: ChatResponse,
    elapsed_ms: u64,
    /// What was decided before it.
    #[serde(default)]
    before: Before,
    #[serde(skip)]
    kept: Vec<StagedRecord>,
    #[serde(skip)]
    reservation: Option<Reservation>,
}

/// Holds a conversation to its end, with a purse without a bottom and nothing put aside: for short ones.
///
/// # Errors
/// Those of [`converse_with`].
pub async fn converse(
    ctx: &NodeContext,
    model: &dyn ChatModel,
    host: &dyn ToolHost,
    opening: Opening,
    limits: Limits,
) -> Result<Conversed, NodeError> {
    let means = Means { model, host, purse: Arc::new(Unlimited), shelf: None, patience: Patience::default() };
    converse_with(ctx, &means, opening, limits).await
}

/// Holds a conversation to its end.
///
/// # Errors
/// When the model cannot be reached or refuses (after the retries of its port), a tool host fails, or the execution is
/// cancelled. Nothing that was recorded is lost; the next run continues after it.
pub async fn converse_with(
    ctx: &NodeContext,
    means: &Means<'_>,
    opening: Opening,
    limits: Limits,
) -> Result<Conversed, NodeError> {
    let mut dialogue =
        Dialogue::new(opening, limits).with_patience(means.patience).ending_with_text(means.host.ends_with_text());
    let mut usage = Usage::default();
    loop {
        match dialogue.next() {
            Next::End(ending) => {
                let text = dialogue.last_text().to_owned();
                return Ok(Conversed { ending, text, turns: dialogue.turns(), usage });
            }
            // A model that takes a stand-in for content must not write it into a file.
            Next::Call(call) if call.arguments.contains(MARK) => dialogue.called(imitated(), None),
            Next::Call(call) => {
                let turn = means.host.call(ctx, &call).await?;
                dialogue.called(turn, means.host.folder());
            }
            Next::Ask(_) => match ask(ctx, means, &dialogue).await? {
                Answer::WindowExceeded => dialogue.end_unfinished(OVERFLOW),
                Answer::Ended { why, out_of_budget: true, .. } => dialogue.end_out_of_budget(&why),
                Answer::Ended { why, called_off: true, .. } => dialogue.end_called_off(&why),
                Answer::Ended { why, .. } => dialogue.end_unfinished(&why),
                Answer::Response(answered) => {
                    dialogue.begin(&answered.before);
                    add(&mut usage, &answered.response.usage);
                    dialogue.answered(&answered.response);
                }
            },
        }
    }
}

fn imitated() -> ToolTurn {
    let text = format!(
        "error: an argument holds `{MARK} …⟧`, which stands in place of a text that was put aside and is not the text. \
         Write the text itself; `read_ref` shows it"
    );
    ToolTurn { text, after: After::Continue }
}

async fn ask(ctx: &NodeContext, means: &Means<'_>, dialogue: &Dialogue) -> Result<Answer, NodeError> {
    let (scope, turn) = (ctx.scope().clone(), dialogue.turns() + 1);
    let (execution, step) = (ctx.execution().clone(), ctx.step_id("model").within());
    let request = Request { means, draft: dialogue.clone(), before: Before::now(), kept: Vec::new(), step: &step };
    let work = request.made(ctx);
    let purse = means.purse.clone();
    let recorded = step.clone();
    ctx.step_tx("model", Effect::Pure, work, move |tx, answer: &Answer| {
        let event = match answer {
            Answer::Response(answered) => {
                StagedRecord::commit_all(&answered.kept, tx)?;
                if let Some(reservation) = &answered.reservation {
                    purse.settle(tx, reservation, &answered.response)?;
                }
                answered_event(turn, answered)
            }
            Answer::Ended { why, out_of_budget: true, .. } => {
                EventDraft::business("budget.exhausted", json!({"limit": why, "turn": turn}))
            }
            Answer::Ended { .. } | Answer::WindowExceeded => return Ok(()),
        };
        tx.append_event(&scope, Some(&execution), Some(&recorded), event).map(drop)
    })
    .await
}

/// One request on its way to an answer.
struct Request<'r, 'm> {
    means: &'r Means<'m>,
    /// The conversation as it will be when the request is made.
    draft: Dialogue,
    before: Before,
    kept: Vec<StagedRecord>,
    step: &'r str,
}

impl Request<'_, '_> {
    async fn made(mut self, ctx: &NodeContext) -> Result<Answer, StepError> {
        if let Some(why) = self.means.host.must_end().await? {
            return Ok(Answer::Ended { why, out_of_budget: false, called_off: true });
        }
        for text in self.means.host.news().await? {
            self.tell(Told::News { text });
        }
        match self.draft.due() {
            None => {}
            Some(Due::End(why)) => return Ok(ended(why)),
            Some(Due::HandOver(why)) => self.tell(Told::HandOver { why, budget: false }),
            Some(Due::SaveBudget(why)) => self.tell(Told::HandOver { why, budget: true }),
            Some(Due::Nudge(sign)) => self.tell(Told::Nudge { sign }),
        }
        self.put_aside(ctx, false).await?;
        if self.draft.is_nearly_full() {
            self.tell_once(WINDOW, false);
        }
        for _ in 0..=OVERFLOWS_MAX {
            if self.draft.is_full() {
                self.put_aside(ctx, true).await?;
            }
            if self.draft.is_full() {
                return Ok(ended(OVERFLOW.to_owned()));
            }
            if let Some(why) = self.means.purse.nearly_spent(&self.wanted()).await? {
                self.tell_once(&format!("the budget is nearly used up ({why})"), true);
            }
            let reservation = match self.means.purse.reserve(self.wanted()).await? {
                Reserved::Granted(reservation) => reservation,
                Reserved::Refused { why } => return Ok(Answer::Ended { why, out_of_budget: true, called_off: false }),
            };
            let Next::Ask(request) = self.draft.next() else { return Ok(ended(OVERFLOW.to_owned())) };
            let started = Instant::now();
            match self.means.model.chat(&request, &mut |_| {}).await {
                Ok(response) => {
                    let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                    let Self { before, kept, .. } = self;
                    let reservation = Some(reservation);
                    let answered = Answered { response, elapsed_ms, before, kept, reservation };
                    return Ok(Answer::Response(Box::new(answered)));
                }
                Err(error) => {
                    self.means.purse.unused(&reservation, cost_of(&error)).await?;
                    if !matches!(error, ModelError::TooLarge { .. }) {
                        return Err(error.into());
                    }
                }
            }
            // The estimate was wrong: as much as can be is put aside, and a note is asked for within what fits.
            self.draft.overflowed();
            self.tell_once(OVERFLOW, false);
            self.put_aside(ctx, true).await?;
        }
        Ok(ended(OVERFLOW.to_owned()))
    }

    fn tell(&mut self, told: Told) {
        self.draft.tell(&told);
        self.before.told.push(told);
    }

    fn tell_once(&mut self, why: &str, budget: bool) {
        if !self.before.told.iter().any(|told| matches!(told, Told::HandOver { .. })) {
            self.tell(Told::HandOver { why: why.to_owned(), budget });
        }
    }

    fn wanted(&self) -> Wanted {
        let Next::Ask(request) = self.draft.next() else {
            unreachable!("a request is made when nothing else is to be done")
        };
        Wanted {
            model: self.means.model.info().name.clone(),
            prompt_tokens: self.draft.request_tokens(),
            answer_tokens: request.answer_tokens_max.into(),
        }
    }

    /// Puts aside what should be; each text is kept once.
    async fn put_aside(&mut self, ctx: &NodeContext, hard: bool) -> Result<(), StepError> {
        let Some(shelf) = &self.means.shelf else { return Ok(()) };
        for cut in self.draft.cuts(hard) {
            let record = match (self.draft.record_at(&cut.place), cut.text) {
                (Some(record), _) => record,
                (None, None) => continue,
                (None, Some(text)) => {
                    let searched: String = text.chars().take(SEARCHED_CHARS).collect();
                    let what = Ingest {
                        text: Some(searched),
                        execution: Some(ctx.execution().clone()),
                        step: Some(self.step.to_owned()),
                        ..Ingest::new(Kind::Observation, COLLECTION, &cut.summary, &cut.source, text)
                    };
                    let staged = shelf.stage(what).await?;
                    let record = staged.reference().id.clone();
                    self.kept.push(staged);
                    record
                }
            };
            let aside = Aside { place: cut.place, record, head: cut.head, tail: cut.tail };
            self.draft.apply(std::slice::from_ref(&aside));
            self.before.aside.push(aside);
        }
        Ok(())
    }
}

fn ended(why: String) -> Answer {
    Answer::Ended { why, out_of_budget: false, called_off: false }
}

/// What a request cost that came to nothing. Whoever cannot know assumes the worst.
fn cost_of(error: &ModelError) -> Unused {
    match error {
        ModelError::Unreachable { .. } | ModelError::Busy { .. } => Unused::Free,
        error if error.kind() == ErrorKind::Retry => Unused::Whole,
        ModelError::AnswerTooLong { .. } => Unused::Whole,
        _ => Unused::Free,
    }
}

fn add(total: &mut Usage, one: &Usage) {
    total.prompt_tokens += one.prompt_tokens;
    total.answer_tokens += one.answer_tokens;
    total.cached_tokens += one.cached_tokens;
    total.written_tokens += one.written_tokens;
    total.estimated |= one.estimated;
}

fn answered_event(turn: u32, answered: &Answered) -> EventDraft {
    let response = &answered.response;
    let names = response.tool_calls.iter().map(|call| call.name.chars().take(NAME_CHARS_MAX).collect::<String>());
    let tools: Vec<String> = names.take(NAMES_MAX).collect();
    let told = answered.before.told.iter().map(|told| match told {
        Told::HandOver { why, .. } => json!({"hand_over": why}),
        Told::Nudge { sign } => json!({"stuck": sign}),
        Told::News { .. } => json!({"news": true}),
    });
    EventDraft::business(
        "model.answered",
        json!({
            "turn": turn,
            "model": response.model,
            "prompt_tokens": response.usage.prompt_tokens,
            "answer_tokens": response.usage.answer_tokens,
            "tools": tools,
            "retries": response.retries,
            "ms": answered.elapsed_ms,
            "put_aside": answered.before.aside.len(),
            "told": told.collect::<Vec<_>>(),
        }),
    )
}
