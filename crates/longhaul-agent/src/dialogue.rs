//! The state machine of a conversation: which message comes next. No I/O.
//!
//! Invariant: messages always alternate as the providers demand: an assistant message with tool calls is followed by
//! exactly one result for each call, in order, before the model is asked again.

use longhaul_core::{ToolCall, ToolSpec};
use longhaul_model::{ChatRequest, ChatResponse, Message};

use crate::host::{After, ToolTurn};

/// Part of the window that may be used before the agent is asked to hand over, in per cent.
const HAND_OVER_AT_PERCENT: u64 = 80;

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

/// One conversation.
#[derive(Debug, Clone)]
pub struct Dialogue {
    opening: Opening,
    limits: Limits,
    messages: Vec<Message>,
    pending: Vec<ToolCall>,
    turns: u32,
    hand_over_asked: bool,
    ending: Option<Ending>,
    last_text: String,
}

impl Dialogue {
    /// A conversation in which nothing has been said yet.
    #[must_use]
    pub fn new(opening: Opening, limits: Limits) -> Self {
        let messages = vec![Message::User { content: opening.prompt.clone() }];
        Self {
            opening,
            limits,
            messages,
            pending: Vec::new(),
            turns: 0,
            hand_over_asked: false,
            ending: None,
            last_text: String::new(),
        }
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
        Next::Ask(ChatRequest {
            system: self.opening.system.clone(),
            messages: self.messages.clone(),
            tools: self.opening.tools.clone(),
            answer_tokens_max: self.limits.answer_tokens_max,
            answer_schema: None,
        })
    }

    /// Answers of the model so far.
    #[must_use]
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// The model has answered.
    pub fn answered(&mut self, response: &ChatResponse) {
        self.turns += 1;
        self.last_text.clone_from(&response.content);
        self.messages.push(response.message());
        self.pending = response.tool_calls.clone();
        let used = response.usage.prompt_tokens + response.usage.answer_tokens;
        if self.hand_over_asked && !self.pending.iter().any(|call| ends_conversation(&call.name)) {
            // One request was its chance to write a note; what it said is the note.
            self.end_unfinished("the context window was nearly full");
        } else if self.turns >= self.limits.turns_max {
            if self.pending.is_empty() {
                self.end_unfinished("the limit of turns for one session was reached");
            }
        } else if self.pending.is_empty() {
            let text = "You called no tool. Go on with the work, call `claim_done` when it is finished, \
                        or `hand_over` when you cannot finish it.";
            self.messages.push(Message::User { content: text.to_owned() });
        }
        self.note_usage(used);
    }

    /// The first pending call has been carried out.
    ///
    /// # Panics
    /// When no call was pending: the driver fed a result nobody asked for.
    pub fn called(&mut self, turn: ToolTurn) {
        assert!(!self.pending.is_empty(), "a tool result without a pending call");
        let call = self.pending.remove(0);
        self.messages.push(Message::Tool { call_id: call.id, content: turn.text });
        match turn.after {
            After::Continue => {}
            After::Done => self.ending = Some(Ending::Done),
            After::HandOver(note) => {
                let why = if self.hand_over_asked { "the context window was nearly full" } else { "the agent asked" };
                self.ending = Some(Ending::HandOver { note, why: why.to_owned() });
            }
        }
        if self.ending.is_none() && self.pending.is_empty() {
            if self.turns >= self.limits.turns_max {
                self.end_unfinished("the limit of turns for one session was reached");
            } else if self.hand_over_asked {
                self.messages.push(Message::User { content: HAND_OVER_REQUEST.to_owned() });
            }
        }
    }

    /// The provider refused the request as longer than the window.
    pub fn overflowed(&mut self) {
        self.end_unfinished("the request no longer fitted the context window");
    }

    fn note_usage(&mut self, used: u64) {
        let full = used + u64::from(self.limits.answer_tokens_max) >= self.limits.window_tokens;
        let near = used * 100 >= self.limits.window_tokens * HAND_OVER_AT_PERCENT;
        if (near || full) && !self.hand_over_asked && self.ending.is_none() {
            self.hand_over_asked = true;
            if self.pending.is_empty() {
                self.messages.push(Message::User { content: HAND_OVER_REQUEST.to_owned() });
            }
        }
    }

    fn end_unfinished(&mut self, why: &str) {
        self.pending.clear();
        self.ending = Some(Ending::HandOver { note: self.last_text.clone(), why: why.to_owned() });
    }
}

const HAND_OVER_REQUEST: &str = "Your context window is nearly full. Call `hand_over` now, with a note for the next session: \
    what you tried, what works, what does not, what to do next. If the work is finished, call `claim_done` instead.";

fn ends_conversation(tool: &str) -> bool {
    tool == "hand_over" || tool == "claim_done"
}

#[cfg(test)]
mod tests {
    use longhaul_model::{Finish, Usage};

    use super::*;

    fn dialogue(window_tokens: u64, turns_max: u32) -> Dialogue {
        let opening = Opening { system: "s".into(), prompt: "p".into(), tools: vec![] };
        Dialogue::new(opening, Limits { turns_max, window_tokens, answer_tokens_max: 100 })
    }

    fn answer(content: &str, tools: &[&str], used: u64) -> ChatResponse {
        let calls = tools.iter().enumerate().map(|(i, name)| ToolCall {
            id: format!("call_{i}"),
            name: (*name).to_owned(),
            arguments: "{}".into(),
        });
        ChatResponse {
            content: content.into(),
            tool_calls: calls.collect(),
            usage: Usage { prompt_tokens: used, ..Usage::default() },
            finish: Finish::Stop,
            model: "m".into(),
            retries: vec![],
            reasoning: vec![],
            answered_by: "openai:m".into(),
            passed_over: vec![],
        }
    }

    fn result(text: &str, after: After) -> ToolTurn {
        ToolTurn { text: text.into(), after }
    }

    #[test]
    fn calls_are_answered_in_order_before_the_model_is_asked_again() {
        let mut d = dialogue(10_000, 9);
        d.answered(&answer("", &["a", "b"], 10));
        let Next::Call(first) = d.next() else { panic!("expected a call") };
        assert_eq!(first.name, "a");
        d.called(result("ra", After::Continue));
        let Next::Call(second) = d.next() else { panic!("expected a call") };
        assert_eq!(second.name, "b");
        d.called(result("rb", After::Continue));
        let Next::Ask(request) = d.next() else { panic!("expected a request") };
        assert_eq!(request.messages.len(), 4);
    }

    #[test]
    fn a_finished_conversation_asks_nothing_more() {
        let mut d = dialogue(10_000, 9);
        d.answered(&answer("", &["claim_done"], 10));
        d.called(result("VERIFIED", After::Done));
        assert!(matches!(d.next(), Next::End(Ending::Done)));
    }

    #[test]
    fn silence_is_answered_with_a_nudge_and_bounded_by_turns() {
        let mut d = dialogue(10_000, 2);
        d.answered(&answer("thinking", &[], 10));
        let Next::Ask(request) = d.next() else { panic!("expected a request") };
        assert!(matches!(request.messages.last(), Some(Message::User { content }) if content.contains("claim_done")));
        d.answered(&answer("still thinking", &[], 10));
        let Next::End(Ending::HandOver { note, .. }) = d.next() else { panic!("expected the end") };
        assert_eq!(note, "still thinking");
    }

    #[test]
    fn a_nearly_full_window_asks_for_a_hand_over_once_and_then_ends() {
        let mut d = dialogue(10_000, 99);
        d.answered(&answer("", &["shell"], 8_100));
        d.called(result("exit 0", After::Continue));
        let Next::Ask(request) = d.next() else { panic!("expected a request") };
        assert!(matches!(request.messages.last(), Some(Message::User { content }) if content.contains("hand_over")));
        let mut heeded = d.clone();
        heeded.answered(&answer("", &["hand_over"], 8_200));
        heeded.called(result("handed over", After::HandOver("half of it works".into())));
        let Next::End(Ending::HandOver { note, why }) = heeded.next() else { panic!("expected the end") };
        assert_eq!((note.as_str(), why.as_str()), ("half of it works", "the context window was nearly full"));
        d.answered(&answer("one more thing", &["shell"], 8_300));
        assert!(matches!(d.next(), Next::End(Ending::HandOver { .. })));
    }
}
