//! Which messages of a conversation go into the next request. Pure: messages in, a choice out.
//!
//! Invariants: a call and its results are chosen together or not at all, whoever wrote between them; what is chosen is
//! the newest part of the conversation without a gap; a window of tokens is never over its budget. Choosing changes
//! nothing: what is left out stays in the store, and in memory.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use super::{SessionError, StoredMessage};

/// How much of a conversation the next request shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// The newest so many messages; more only where one call with its results is longer than that.
    Messages(usize),
    /// The newest messages of at most so many tokens.
    Tokens(u64),
    /// As [`Window::Tokens`]; what no longer fits is summarised by a model, and the summary takes its place. Messages
    /// stay in the store as they were said.
    Summarised {
        /// Most tokens of summary and messages together.
        tokens_max: u64,
        /// Tokens of the newest messages that stay as they are when the rest is summarised.
        keep_tokens: u64,
        /// Most tokens of the summary.
        summary_tokens: u64,
    },
}

impl Window {
    /// Summarises once a conversation has outgrown `tokens_max`, down to half of it.
    #[must_use]
    pub fn summarised(tokens_max: u64) -> Self {
        Self::Summarised { tokens_max, keep_tokens: tokens_max / 2, summary_tokens: tokens_max / 5 }
    }
}

/// Stretches of messages that belong together, in order, covering all of them: one message, or a call with everything up
/// to its last result.
#[must_use]
pub fn units(messages: &[StoredMessage]) -> Vec<Range<usize>> {
    // The message that asked, by the call's id; some models give the same ids again in each turn.
    let mut open: HashMap<&str, usize> = HashMap::new();
    let mut reaches: Vec<usize> = (0..messages.len()).collect();
    for (at, message) in messages.iter().enumerate() {
        for call in &message.tool_calls {
            open.insert(&call.id, at);
        }
        if let Some(asked) = message.answers.as_deref().and_then(|call| open.remove(call)) {
            reaches[asked] = at;
        }
    }
    let mut units: Vec<Range<usize>> = Vec::new();
    for (at, reach) in reaches.into_iter().enumerate() {
        match units.last_mut() {
            Some(unit) if at < unit.end => unit.end = unit.end.max(reach + 1),
            _ => units.push(at..reach + 1),
        }
    }
    units
}

/// Whether a tool's message among these answers a call that was made before them: then they begin too late.
pub(super) fn lacks_calls(messages: &[StoredMessage]) -> bool {
    let mut asked: HashSet<&str> = HashSet::new();
    messages.iter().any(|message| {
        asked.extend(message.tool_calls.iter().map(|call| call.id.as_str()));
        message.answers.as_deref().is_some_and(|call| !asked.contains(call))
    })
}

/// The first message of the newest so many.
pub(super) fn newest(messages: &[StoredMessage], count_max: usize) -> usize {
    let mut from = messages.len();
    for unit in units(messages).into_iter().rev() {
        let would_be = messages.len() - unit.start;
        if would_be > count_max && from < messages.len() {
            break;
        }
        if count_max == 0 {
            break;
        }
        from = unit.start;
        if would_be >= count_max {
            break;
        }
    }
    from
}

/// The first message of the newest within a budget, and how many tokens these are.
///
/// # Errors
/// [`SessionError::WindowTooSmall`] when not even the newest unit fits.
pub(super) fn within(messages: &[StoredMessage], tokens: &[u64], budget: u64) -> Result<(usize, u64), SessionError> {
    let (mut from, mut used) = (messages.len(), 0_u64);
    for unit in units(messages).into_iter().rev() {
        let needed = used.saturating_add(tokens[unit.clone()].iter().sum());
        if needed > budget {
            if from == messages.len() {
                return Err(SessionError::WindowTooSmall { needed, budget });
            }
            break;
        }
        (from, used) = (unit.start, needed);
    }
    Ok((from, used))
}

/// Calls that have no result among these messages, with the place of the message that asked.
#[must_use]
pub fn unanswered(messages: &[StoredMessage]) -> Vec<(usize, String)> {
    let mut open: Vec<(usize, String)> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        if let Some(call) = &message.answers
            && let Some(found) = open.iter().rposition(|(_, id)| id == call)
        {
            open.remove(found);
        }
        open.extend(message.tool_calls.iter().map(|call| (at, call.id.clone())));
    }
    open
}

#[cfg(test)]
mod tests {
    use longhaul_core::{MessageId, SessionId, TaskId, TimeMs, ToolCall, TraceId, UserId};
    use proptest::prelude::*;

    use super::{super::Role, *};

    /// `u` and `a` say something, `c:x,y` asks for the calls x and y, `t:x` answers x.
    fn conversation(script: &[&str]) -> Vec<StoredMessage> {
        script.iter().zip(1..).map(|(word, seq)| message(word, seq)).collect()
    }

    fn message(word: &str, seq: i64) -> StoredMessage {
        let (what, ids) = word.split_once(':').unwrap_or((word, ""));
        let call = |id: &str| ToolCall { id: id.into(), name: "shell".into(), arguments: "{}".into() };
        StoredMessage {
            id: MessageId::from_body(&seq.to_string()),
            session: SessionId::from_body("s"),
            seq,
            user: UserId::from_body("u"),
            task: TaskId::from_body("t"),
            trace: TraceId::from_body("x"),
            role: match what {
                "u" => Role::User,
                "t" => Role::Tool,
                _ => Role::Assistant,
            },
            content: "said".into(),
            tool_calls: if what == "c" { ids.split(',').map(call).collect() } else { Vec::new() },
            answers: (what == "t").then(|| ids.to_owned()),
            attachments: Vec::new(),
            tokens: 10,
            at: TimeMs(0),
        }
    }

    #[test]
    fn calls_and_results_are_one_unit_whoever_spoke_between_them() {
        let messages = conversation(&["u", "c:1,2", "t:1", "t:2", "a"]);
        assert_eq!(units(&messages), [0..1, 1..4, 4..5]);
        let messages = conversation(&["u", "c:1", "u", "t:1", "c:1", "t:1"]);
        assert_eq!(units(&messages), [0..1, 1..4, 4..6], "the same id may come again");
        let messages = conversation(&["c:1", "c:2", "t:1", "u", "t:2"]);
        assert_eq!(units(&messages), [0..5], "two that overlap stay together");
        assert_eq!(units(&[]), Vec::<Range<usize>>::new());
    }

    #[test]
    fn the_newest_messages_are_taken_by_whole_units() {
        let messages = conversation(&["u", "a", "u", "c:1,2", "t:1", "t:2", "a"]);
        assert_eq!(newest(&messages, 1), 6);
        assert_eq!(newest(&messages, 3), 6, "with the call and its results it would be four");
        assert_eq!(newest(&messages, 4), 3);
        assert_eq!(newest(&messages, 5), 2);
        assert_eq!(newest(&messages, 100), 0);
        assert_eq!(newest(&messages, 0), 7);
        assert_eq!(newest(&messages[..6], 2), 3, "longer than asked for, as it cannot be split");
    }

    #[test]
    fn a_budget_that_the_newest_words_do_not_fit_is_an_error() {
        let messages = conversation(&["u", "a"]);
        assert_eq!(within(&messages, &[10, 10], 20).unwrap(), (0, 20));
        assert_eq!(within(&messages, &[10, 10], 19).unwrap(), (1, 10));
        let error = within(&messages, &[10, 10], 9).unwrap_err();
        assert!(matches!(error, SessionError::WindowTooSmall { needed: 10, budget: 9 }), "{error}");
        assert_eq!(within(&[], &[], 0).unwrap(), (0, 0));
    }

    #[test]
    fn results_whose_call_lies_before_are_seen() {
        assert!(lacks_calls(&conversation(&["u", "t:1"])));
        assert!(!lacks_calls(&conversation(&["u", "c:1", "u", "t:1"])));
    }

    #[test]
    fn calls_without_a_result_are_named() {
        let messages = conversation(&["u", "c:1,2", "t:2", "u", "c:3"]);
        assert_eq!(unanswered(&messages), [(1, "1".to_owned()), (4, "3".to_owned())]);
    }

    proptest! {
        #[test]
        fn nothing_is_split_and_no_budget_is_passed(
            script in prop::collection::vec(prop::sample::select(vec![
                "u", "a", "c:1", "c:2", "c:1,2", "t:1", "t:2", "c:3,1", "t:3"]), 0..60),
            budget in 0_u64..600, count in 0_usize..40,
        ) {
            let messages = conversation(&script);
            let tokens: Vec<u64> = messages.iter().map(|message| message.tokens).collect();
            let units = units(&messages);
            prop_assert_eq!(units.iter().map(ExactSizeIterator::len).sum::<usize>(), messages.len());
            let starts: Vec<usize> = units.iter().map(|unit| unit.start).chain([messages.len()]).collect();
            prop_assert!(starts.contains(&newest(&messages, count)));
            if let Ok((from, used)) = within(&messages, &tokens, budget) {
                prop_assert!(used <= budget && starts.contains(&from));
                prop_assert_eq!(used, tokens[from..].iter().sum::<u64>());
            }
        }
    }
}
