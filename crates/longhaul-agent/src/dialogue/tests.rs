//! The rules of a conversation, without a model.

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

fn last_user(dialogue: &Dialogue) -> String {
    let Next::Ask(request) = dialogue.next() else { panic!("expected a request") };
    let Some(Message::User { content }) = request.messages.last() else { panic!("expected a user message") };
    content.clone()
}

#[test]
fn calls_are_answered_in_order_before_the_model_is_asked_again() {
    let mut d = dialogue(10_000, 9);
    d.answered(&answer("", &["a", "b"], 10));
    let Next::Call(first) = d.next() else { panic!("expected a call") };
    assert_eq!(first.name, "a");
    d.called(result("ra", After::Continue), None);
    let Next::Call(second) = d.next() else { panic!("expected a call") };
    assert_eq!(second.name, "b");
    d.called(result("rb", After::Continue), None);
    let Next::Ask(request) = d.next() else { panic!("expected a request") };
    assert_eq!(request.messages.len(), 4);
}

#[test]
fn a_finished_conversation_asks_nothing_more() {
    let mut d = dialogue(10_000, 9);
    d.answered(&answer("", &["claim_done"], 10));
    d.called(result("VERIFIED", After::Done), None);
    assert!(matches!(d.next(), Next::End(Ending::Done)));
}

#[test]
fn silence_is_answered_with_a_nudge_and_the_last_turn_is_for_a_note() {
    let mut d = dialogue(10_000, 3);
    d.answered(&answer("thinking", &[], 10));
    assert!(last_user(&d).contains("claim_done"));
    assert_eq!(d.due(), None);
    d.answered(&answer("still thinking", &[], 10));
    let Some(Due::HandOver(why)) = d.due() else { panic!("expected a hand-over, not {:?}", d.due()) };
    d.tell(&Told::HandOver { why, budget: false });
    assert!(last_user(&d).contains("limit of turns"));
    d.answered(&answer("it was the cache", &[], 10));
    let Next::End(Ending::HandOver { note, why }) = d.next() else { panic!("expected the end") };
    assert_eq!((note.as_str(), why.as_str()), ("it was the cache", TURNS));
}

#[test]
fn a_hand_over_is_asked_once_heeded_or_not() {
    let mut d = dialogue(10_000, 99);
    d.answered(&answer("", &["shell"], 8_100));
    d.called(result("exit 0", After::Continue), None);
    d.tell(&Told::HandOver { why: WINDOW.to_owned(), budget: false });
    let mut heeded = d.clone();
    heeded.answered(&answer("", &["hand_over"], 8_200));
    heeded.called(result("handed over", After::HandOver("half of it works".into())), None);
    let Next::End(Ending::HandOver { note, why }) = heeded.next() else { panic!("expected the end") };
    assert_eq!((note.as_str(), why.as_str()), ("half of it works", WINDOW));
    let mut saving = d.clone();
    d.answered(&answer("one more thing", &["shell"], 8_300));
    assert!(matches!(d.next(), Next::End(Ending::HandOver { .. })));
    // Because of the budget it says nothing about the work.
    saving.tell(&Told::HandOver { why: "the budget is nearly used up".to_owned(), budget: true });
    saving.answered(&answer("half of it works", &[], 8_300));
    let Next::End(Ending::OutOfBudget { note, .. }) = saving.next() else { panic!("expected the end") };
    assert_eq!(note, "half of it works");
}

#[test]
fn who_gets_nowhere_is_told_and_then_asked_to_hand_over() {
    let mut d = dialogue(10_000, 99).with_patience(Patience { same_max: 2, still_turns_max: 50 });
    let fail = |d: &mut Dialogue| {
        d.answered(&answer("", &["shell"], 10));
        d.called(result("exit 1\nReferenceError: x", After::Continue), None);
    };
    fail(&mut d);
    assert_eq!(d.due(), None);
    fail(&mut d);
    let Some(Due::Nudge(sign)) = d.due() else { panic!("expected a nudge, not {:?}", d.due()) };
    assert!(sign.contains("ReferenceError: x"), "{sign}");
    d.tell(&Told::Nudge { sign });
    assert_eq!(d.due(), None, "it has another chance");
    fail(&mut d);
    fail(&mut d);
    assert!(matches!(d.due(), Some(Due::HandOver(why)) if why.contains("same failure")));
}

#[test]
fn a_full_window_is_made_room_in_before_anybody_hands_over() {
    let mut d = dialogue(4_000, 99);
    for n in 0..6 {
        d.answered(&answer("", &["shell"], 0));
        d.called(result(&format!("exit 0\n{n} {}", "some output\n".repeat(200)), After::Continue), None);
    }
    assert!(d.is_nearly_full());
    let cuts = d.cuts(false);
    assert!(!cuts.is_empty());
    let aside = as_if_kept(&cuts);
    d.apply(&aside);
    assert!(!d.is_nearly_full(), "{} tokens are left", d.request_tokens());
    assert!(d.cuts(false).is_empty(), "and it stays so for some requests");
    // The same decisions give the same messages.
    assert!(matches!(d.next(), Next::Ask(request) if request.messages.len() == 13));
}

#[test]
fn what_the_first_release_recorded_is_replayed_by_its_rules() {
    let mut d = dialogue(10_000, 99);
    d.begin(&Before::default());
    d.answered(&answer("", &["shell"], 8_100));
    d.called(result("exit 0", After::Continue), None);
    assert!(last_user(&d).contains("hand_over"));
    let mut short = dialogue(10_000, 1);
    short.begin(&Before::default());
    short.answered(&answer("no time", &[], 10));
    assert!(matches!(short.next(), Next::End(Ending::HandOver { .. })));
}
