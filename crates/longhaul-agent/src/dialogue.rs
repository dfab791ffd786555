//! The state machine of a conversation: which message comes next. No I/O.
//!
//! Invariants: messages always alternate as the providers demand: an assistant message with tool calls is followed by
//! exactly one result for each call, in order, before the model is asked again. What depends on settings (limits, the
//! window, patience) is decided before a request and recorded with its answer ([`Before`]), so that a replay under other
//! settings is the same conversation.

use longhaul_core::{ToolCall, ToolSpec};
use longhaul_model::{ChatRequest, ChatResponse, Message};
use serde::{Deserialize, Serialize};

use crate::{
    host::{After, ToolTurn},
    watch::{Patience, Watch},
    window::{self, Aside, Cut, Meter, Shelved},
};

/// Part of the window above which old results are put aside, in per cent, and what is then aimed at: so much less that
/// it is not done for each request, as a service keeps an unchanged beginning.
const COMPACT_ABOVE_PERCENT: u64 = 65;
const COMPACT_TO_PERCENT: u64 = 45;
/// Part of the window that may be used before the agent is asked to hand over, in per cent.
const HAND_OVER_AT_PERCENT: u64 = 80;
/// The least that an answer needs for a note.
const NOTE_TOKENS: u64 = 400;
/// Last calls that an account names.
const CALLS_NAMED: usize = 6;

/// How a conversation begins.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The static instructions, the same in every mode.
    pub system: String,
    /// The first user message: the only thing in which modes differ.
    pub prompt: String,
    /// The tools, the same in every mode.
    pub tools: Vec<ToolSpec>,
}

/// Bounds of a conversation.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most answers of the model.
    pub turns_max: u32,
    /// The model's context window.
    pub window_tokens: u64,
    /// Most tokens of one answer; reserved before each request.
    pub answer_tokens_max: u32,
}

/// Why a conversation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// A tool reached the purpose.
    Done,
    /// The agent handed over; the note may be empty when it did not write one in time.
    HandOver {
        /// What the next session should know.
        note: String,
        /// Why it happened, in a few words.
        why: String,
    },
    /// A limit of the budget ended it: nothing is said by that about the work.
    OutOfBudget {
        /// What the next session should know.
        note: String,
        /// Which limit.
        why: String,
    },
    /// Whoever follows the work wanted it to end: nothing is said by that about the work.
    CalledOff {
        /// What the next session should know.
        note: String,
        /// Who wanted it, and what for.
        why: String,
    },
}

/// What has to happen next.
#[derive(Debug, Clone)]
pub enum Next {
    /// Ask the model this.
    Ask(ChatRequest),
    /// Carry out this call.
    Call(ToolCall),
    /// Nothing: the conversation is over.
    End(Ending),
}

/// What was decided before a request; recorded with its answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Before {
    /// 0: the release that recorded this decided after answers, and said so nowhere.
    #[serde(default)]
    pub(crate) rules: u8,
    /// What the model was told before it was asked.
    #[serde(default)]
    pub(crate) told: Vec<Told>,
    /// What was put aside.
    #[serde(default)]
    pub(crate) aside: Vec<Aside>,
}

impl Before {
    /// By the rules of this release.
    pub(crate) fn now() -> Self {
        Self { rules: 1, ..Self::default() }
    }
}

/// Something the model is told between two answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Told {
    /// To hand over now.
    HandOver {
        why: String,
        /// Because little of the budget is left, which says nothing about the work.
        #[serde(default)]
        budget: bool,
    },
    /// That it gets nowhere.
    Nudge { sign: String },
    /// What the host has to say.
    News { text: String },
}

/// What a conversation's rules want before a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Due {
    /// No request: it is over.
    End(String),
    /// The request for a note.
    HandOver(String),
    /// The same, because of the budget.
    SaveBudget(String),
    /// A word to the model.
    Nudge(String),
}

/// One conversation.
#[derive(Debug, Clone)]
pub struct Dialogue {
    opening: Opening,
    limits: Limits,
    patience: Patience,
    messages: Vec<Message>,
    shelved: Shelved,
    pending: Vec<ToolCall>,
    turns: u32,
    /// Why a hand-over was asked for, once it was.
    hand_over_asked: Option<String>,
    /// Whether that was because of the budget.
    for_budget: bool,
    ending: Option<Ending>,
    last_text: String,
    meter: Meter,
    watch: Watch,
    nudged: bool,
    text_ends: bool,
    /// The rules of the last answer; see [`Before::rules`].
    rules: u8,
}

impl Dialogue {
    /// A conversation in which nothing has been said yet.
    #[must_use]
    pub fn new(opening: Opening, limits: Limits) -> Self {
        let messages = vec![Message::User { content: opening.prompt.clone() }];
        Self {
            opening,
            limits,
            patience: Patience::default(),
            messages,
            shelved: Shelved::new(),
            pending: Vec::new(),
            turns: 0,
            hand_over_asked: None,
            for_budget: false,
            ending: None,
            last_text: String::new(),
            meter: Meter::default(),
            watch: Watch::default(),
            nudged: false,
            text_ends: false,
            rules: 1,
        }
    }

    /// With another idea of when it gets nowhere.
    #[must_use]
    pub fn with_patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// Ends with the first answer that calls no tool.
    #[must_use]
    pub fn ending_with_text(self, text_ends: bool) -> Self {
        Self { text_ends, ..self }
    }

    /// What the model said last; empty when it only called tools.
    #[must_use]
    pub fn last_text(&self) -> &str {
        &self.last_text
    }

    /// What has to happen next; the same answer until something is fed in.
    #[must_use]
    pub fn next(&self) -> Next {
        if let Some(ending) = &self.ending {
            return Next::End(ending.clone());
        }
        if let Some(call) = self.pending.first() {
            return Next::Call(call.clone());
        }
        Next::Ask(self.request())
    }

    fn request(&self) -> ChatRequest {
        ChatRequest {
            system: self.opening.system.clone(),
            messages: self.messages.clone(),
            tools: self.opening.tools.clone(),
            answer_tokens_max: u32::try_from(self.answer_tokens()).unwrap_or(u32::MAX),
            answer_schema: None,
        }
    }

    /// Answers of the model so far.
    #[must_use]
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// Tokens of the next request, corrected by what the service said of those before.
    #[must_use]
    pub fn request_tokens(&self) -> u64 {
        self.meter.corrected(self.estimated_tokens())
    }

    fn estimated_tokens(&self) -> u64 {
        let empty = ChatRequest {
            system: self.opening.system.clone(),
            messages: Vec::new(),
            tools: self.opening.tools.clone(),
            answer_tokens_max: 0,
            answer_schema: None,
        };
        empty.estimated_tokens() + self.messages.iter().map(Message::estimated_tokens).sum::<u64>()
    }

    /// Most tokens of an answer: what was asked for, as far as a quarter of the window holds it.
    fn answer_tokens(&self) -> u64 {
        u64::from(self.limits.answer_tokens_max).min(self.limits.window_tokens / 4)
    }

    /// What a request may have beside its answer.
    fn room(&self) -> u64 {
        self.limits.window_tokens - self.answer_tokens()
    }

    /// What the rules want before the model is asked, the window aside.
    pub(crate) fn due(&self) -> Option<Due> {
        if self.turns >= self.limits.turns_max {
            return Some(Due::End(TURNS.to_owned()));
        }
        if let Some(why) = self.hand_over_asked.clone() {
            return Some(if self.for_budget { Due::SaveBudget(why) } else { Due::HandOver(why) });
        }
        if self.turns > 0 && self.turns + 1 == self.limits.turns_max {
            return Some(Due::HandOver(TURNS.to_owned()));
        }
        let sign = self.watch.sign(self.patience)?;
        Some(if self.nudged { Due::HandOver(format!("the agent was {sign}")) } else { Due::Nudge(sign) })
    }

    /// Whether the window is so full that the agent should hand over while it can, after all that can be put aside was.
    pub(crate) fn is_nearly_full(&self) -> bool {
        let tokens = self.request_tokens();
        tokens > self.room() || tokens * 100 >= self.limits.window_tokens * HAND_OVER_AT_PERCENT
    }

    /// Whether not even a note fits any more.
    pub(crate) fn is_full(&self) -> bool {
        self.request_tokens() + NOTE_TOKENS > self.limits.window_tokens
    }

    /// Texts that should be put aside before the next request. With `hard`, whatever can be, down to what a note needs.
    pub(crate) fn cuts(&self, hard: bool) -> Vec<Cut> {
        let (tokens, window) = (self.request_tokens(), self.limits.window_tokens);
        let above = (window * COMPACT_ABOVE_PERCENT / 100).min(self.room());
        // The window may be smaller than is known: whoever was refused halves what was refused.
        let goal = if hard { (window / 4).min(tokens / 2) } else { window * COMPACT_TO_PERCENT / 100 };
        if !hard && tokens <= above {
            return Vec::new();
        }
        let chosen = window::cuts(&self.messages, &self.shelved, tokens.saturating_sub(goal), hard);
        if hard {
            return chosen;
        }
        // What is newest is touched only as far as the request would not fit otherwise.
        let mut rest = self.clone();
        rest.apply(&as_if_kept(&chosen));
        let tokens = rest.request_tokens();
        if tokens <= above {
            return chosen;
        }
        let newest = window::cuts(&rest.messages, &rest.shelved, tokens - above, true);
        let chosen_places: Vec<_> = chosen.iter().map(|cut| cut.place.clone()).collect();
        let newest = newest.into_iter().filter(|cut| !chosen_places.contains(&cut.place));
        chosen.iter().cloned().chain(newest).collect()
    }

    /// Puts stand-ins in the place of texts.
    pub(crate) fn apply(&mut self, aside: &[Aside]) {
        window::apply(&mut self.messages, &mut self.shelved, aside);
    }

    /// The record that a text was put aside in before, if it was.
    pub(crate) fn record_at(&self, place: &window::Place) -> Option<longhaul_core::RecordId> {
        self.shelved.get(place).map(|(record, _)| record.clone())
    }

    /// Tells the model something.
    pub(crate) fn tell(&mut self, told: &Told) {
        let content = match told {
            Told::HandOver { why, budget } => {
                self.for_budget = *budget;
                self.hand_over_asked = Some(why.clone());
                hand_over_request(why)
            }
            Told::Nudge { sign } => {
                self.nudged = true;
                self.watch.told();
                nudge(sign)
            }
            Told::News { text } => text.clone(),
        };
        self.messages.push(Message::User { content });
    }

    /// What was decided before an answer is so.
    pub(crate) fn begin(&mut self, before: &Before) {
        self.apply(&before.aside);
        for told in &before.told {
            self.tell(told);
        }
        self.rules = before.rules;
    }

    /// The model has answered.
    pub fn answered(&mut self, response: &ChatResponse) {
        if !response.usage.estimated {
            self.meter.report(self.estimated_tokens(), response.usage.prompt_tokens);
        }
        self.turns += 1;
        self.last_text.clone_from(&response.content);
        self.messages.push(response.message());
        self.pending = response.tool_calls.clone();
        self.watch.answered(self.pending.len());
        let ends = self.pending.iter().any(|call| ends_conversation(&call.name));
        if let Some(why) = self.hand_over_asked.clone().filter(|_| !ends) {
            // One request was its chance to write a note; what it said is the note.
            self.end_unfinished(&why);
        } else if self.rules == 0 && self.turns >= self.limits.turns_max {
            if self.pending.is_empty() {
                self.end_unfinished(TURNS);
            }
        } else if self.pending.is_empty() && self.text_ends {
            self.ending = Some(Ending::Done);
        } else if self.pending.is_empty() {
            let text = "You called no tool. Go on with the work, call `claim_done` when it is finished, \
                        or `hand_over` when you cannot finish it.";
            self.messages.push(Message::User { content: text.to_owned() });
        }
        if self.rules == 0 {
            self.note_usage(response.usage.prompt_tokens + response.usage.answer_tokens);
        }
    }

    /// The first pending call has been carried out; `folder` is what the work's folder is now, where the host knows.
    ///
    /// # Panics
    /// When no call was pending: the driver fed a result nobody asked for.
    pub fn called(&mut self, turn: ToolTurn, folder: Option<String>) {
        assert!(!self.pending.is_empty(), "a tool result without a pending call");
        let call = self.pending.remove(0);
        self.watch.called(&call, &turn.text, folder);
        self.messages.push(Message::Tool { call_id: call.id, content: turn.text });
        match turn.after {
            After::Continue => {}
            After::Done => self.ending = Some(Ending::Done),
            After::HandOver(note) => {
                let why = self.hand_over_asked.clone().unwrap_or_else(|| "the agent asked".to_owned());
                self.ending = Some(self.handed_over(note, why));
            }
        }
        if self.rules == 0 && self.ending.is_none() && self.pending.is_empty() {
            if self.turns >= self.limits.turns_max {
                self.end_unfinished(TURNS);
            } else if let Some(why) = self.hand_over_asked.clone() {
                self.messages.push(Message::User { content: hand_over_request(&why) });
            }
        }
    }

    /// The provider refused the request as longer than the window: estimates are more careful from now on.
    pub fn overflowed(&mut self) {
        self.meter.overflowed();
    }

    /// The conversation ends here without the model being asked once more.
    pub fn end_unfinished(&mut self, why: &str) {
        self.pending.clear();
        self.ending = Some(self.handed_over(self.account(), why.to_owned()));
    }

    fn handed_over(&self, note: String, why: String) -> Ending {
        if self.for_budget { Ending::OutOfBudget { note, why } } else { Ending::HandOver { note, why } }
    }

    /// The conversation ends here because a limit of the budget is reached.
    pub fn end_out_of_budget(&mut self, why: &str) {
        self.pending.clear();
        self.ending = Some(Ending::OutOfBudget { note: self.account(), why: why.to_owned() });
    }

    /// The conversation ends here because a person wants it to.
    pub fn end_called_off(&mut self, why: &str) {
        self.pending.clear();
        self.ending = Some(Ending::CalledOff { note: self.account(), why: why.to_owned() });
    }

    /// What the next session should know, where the model said nothing of it: its last words and its last calls.
    fn account(&self) -> String {
        if !self.last_text.trim().is_empty() && self.hand_over_asked.is_some() {
            return self.last_text.clone();
        }
        let calls = self.messages.iter().filter_map(|message| match message {
            Message::Assistant { tool_calls, .. } => Some(tool_calls),
            Message::User { .. } | Message::Tool { .. } => None,
        });
        let calls: Vec<String> = calls.flatten().map(named).collect();
        let last = calls[calls.len().saturating_sub(CALLS_NAMED)..].join("; ");
        let mut parts = Vec::new();
        if !self.last_text.trim().is_empty() {
            parts.push(self.last_text.trim().to_owned());
        }
        if !last.is_empty() {
            parts.push(format!("(no note was written; the last calls were {last})"));
        }
        parts.join("\n")
    }

    /// The rule of the first release, for its recordings.
    fn note_usage(&mut self, used: u64) {
        let full = used + u64::from(self.limits.answer_tokens_max) >= self.limits.window_tokens;
        let near = used * 100 >= self.limits.window_tokens * HAND_OVER_AT_PERCENT;
        if (near || full) && self.hand_over_asked.is_none() && self.ending.is_none() {
            self.hand_over_asked = Some(WINDOW.to_owned());
            if self.pending.is_empty() {
                self.messages.push(Message::User { content: hand_over_request(WINDOW) });
            }
        }
    }
}

/// Why a conversation ends, in words that are shown to people.
pub(crate) const WINDOW: &str = "the context window was nearly full";
pub(crate) const OVERFLOW: &str = "the request no longer fitted the context window";
const TURNS: &str = "the limit of turns for one session was reached";

fn hand_over_request(why: &str) -> String {
    format!(
        "Stop here: {why}. Call `hand_over` now, with a note for the next session: what you tried, what works, what does \
         not, what to do next. If the work is finished, call `claim_done` instead."
    )
}

fn nudge(sign: &str) -> String {
    format!(
        "You are {sign}. Going on like this leads nowhere. Step back: say in a sentence what you assumed and what shows \
         that it is wrong, look at what you have not looked at yet, and do something else. If you cannot finish it, call \
         `hand_over`."
    )
}

fn ends_conversation(tool: &str) -> bool {
    tool == "hand_over" || tool == "claim_done"
}

/// A call in a few words.
fn named(call: &ToolCall) -> String {
    let arguments: serde_json::Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    let first = ["path", "command", "action", "query"].iter().find_map(|name| arguments.get(*name)?.as_str());
    let about: String = first.unwrap_or_default().lines().next().unwrap_or_default().chars().take(60).collect();
    if about.is_empty() { call.name.clone() } else { format!("{} {about}", call.name) }
}

/// The cuts as they will be, for measuring: every record's name is as long as another's.
fn as_if_kept(cuts: &[Cut]) -> Vec<Aside> {
    let record = || "rec_000000000000000000000000000".parse();
    let cut =
        |cut: &Cut| Some(Aside { place: cut.place.clone(), record: record().ok()?, head: cut.head, tail: cut.tail });
    cuts.iter().filter_map(cut).collect()
}

#[cfg(test)]
mod tests;
