//! What a request shows of a conversation; what it does not show stays.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use longhaul_workspace::{
    sessions::{NewMessage, SessionError, StoredMessage, Summarise, SummariseError, Window},
    tokens::{Estimator, TokenCounter},
};

use super::{call, counts};
use crate::ground::{Ground, note};

/// Says how many messages it was given, and which was the first.
#[derive(Default)]
struct Counting {
    asked: AtomicUsize,
    fails: bool,
}

#[async_trait]
impl Summarise for Counting {
    async fn summarise(
        &self,
        before: Option<&str>,
        messages: &[StoredMessage],
        _tokens_max: u64,
    ) -> Result<String, SummariseError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.fails {
            return Err(SummariseError { problem: "the model is away".to_owned() });
        }
        let first = messages.first().map_or(0, |first| first.seq);
        Ok(format!("[{} from {first} after {}]", messages.len(), before.unwrap_or("nothing")))
    }
}

async fn long_talk(ground: &Ground, messages: usize) {
    let talk = ground.talk("one");
    let turn = |n: usize| match n % 2 {
        0 => NewMessage::user(format!("question number {n} about the harbour")),
        _ => NewMessage::assistant(format!("answer number {n} about the harbour")),
    };
    talk.append_all((0..messages).map(turn).collect()).await.unwrap();
}

#[tokio::test]
async fn trimming_touches_nothing() {
    let ground = Ground::new().await;
    long_talk(&ground, 40).await;
    ground.talk("one").set_memo("harbours only", None).await.unwrap();
    let before = (counts(&ground.store).await, ground.talks().digest(None, 15).await.unwrap());
    let talk = ground.talk("one");
    let shown = talk.window(Window::Messages(6), &Estimator, None).await.unwrap();
    assert_eq!((shown.messages.len(), shown.left_out, shown.memo.as_str()), (6, 34, "harbours only"));
    assert_eq!(shown.messages[5].seq, 40);
    let shown = talk.window(Window::Tokens(100), &Estimator, None).await.unwrap();
    assert!(shown.tokens <= 100 && (4..10).contains(&shown.messages.len()), "{}", shown.messages.len());
    let counted: u64 = shown.messages.iter().map(|message| message.counted(&|text| Estimator.count(text))).sum();
    assert_eq!(counted, shown.tokens);
    let small = talk.window(Window::Tokens(5), &Estimator, None).await;
    assert!(matches!(small, Err(SessionError::WindowTooSmall { budget: 5, .. })), "{small:?}");
    assert_eq!((counts(&ground.store).await, ground.talks().digest(None, 15).await.unwrap()), before);
    assert_eq!(talk.messages(0, 500).await.unwrap().len(), 40);
    let nobody = ground.talk("none").window(Window::Tokens(5), &Estimator, None).await.unwrap();
    assert!(nobody.messages.is_empty());
}

#[tokio::test]
async fn a_call_is_shown_with_its_results_however_far_apart_they_are() {
    let ground = Ground::new().await;
    let talk = ground.talk("one");
    // More than one page is read back to find the call.
    talk.append(NewMessage::calling("", vec![call("far")])).await.unwrap();
    talk.append_all((0..300).map(|n| NewMessage::user(format!("meanwhile {n}"))).collect()).await.unwrap();
    talk.append(NewMessage::answering("far", "at last")).await.unwrap();
    talk.append(NewMessage::assistant("so it is")).await.unwrap();
    let alone = talk.window(Window::Messages(1), &Estimator, None).await.unwrap();
    assert_eq!(alone.messages.len(), 1);
    let whole = talk.window(Window::Messages(302), &Estimator, None).await.unwrap();
    assert_eq!(whole.messages.len(), 1, "the call and its result are 302 messages apart, with this one 303");
    let whole = talk.window(Window::Messages(303), &Estimator, None).await.unwrap();
    assert_eq!((whole.messages.len(), whole.messages[0].tool_calls.len()), (303, 1));
    let budget = whole.tokens - 1;
    let shown = talk.window(Window::Tokens(budget), &Estimator, None).await.unwrap();
    assert_eq!(shown.messages.len(), 1, "one token too few");
}

#[tokio::test]
async fn what_no_longer_fits_is_summarised_and_stays_as_it_was_said() {
    let ground = Ground::new().await;
    long_talk(&ground, 60).await;
    let talk = ground.talk("one");
    let window = Window::Summarised { tokens_max: 300, keep_tokens: 120, summary_tokens: 60 };
    let summariser = Counting::default();
    let shown = talk.window(window, &Estimator, Some(&summariser)).await.unwrap();
    let summary = shown.summary.clone().unwrap();
    assert!(summary.starts_with('[') && summary.contains("from 1 after nothing"), "{summary}");
    assert!(shown.tokens <= 300 && shown.messages.last().unwrap().seq == 60, "{}", shown.tokens);
    assert_eq!(summariser.asked.load(Ordering::Relaxed), 1);
    // The same again: nothing is asked twice.
    assert_eq!(talk.window(window, &Estimator, Some(&summariser)).await.unwrap(), shown);
    assert_eq!(summariser.asked.load(Ordering::Relaxed), 1);
    assert_eq!(talk.messages(0, 500).await.unwrap().len(), 60);
    // The talk goes on, and the next summary contains the first.
    talk.append_all((0..30).map(|n| NewMessage::user(format!("and then the harbour {n}"))).collect()).await.unwrap();
    let next = talk.window(window, &Estimator, Some(&summariser)).await.unwrap();
    assert!(next.summary.unwrap().contains(&summary), "{summary}");
    assert_eq!(talk.messages(0, 500).await.unwrap().len(), 90);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_that_summarise_at_once_leave_one_summary() {
    let ground = Ground::new().await;
    long_talk(&ground, 60).await;
    let window = Window::Summarised { tokens_max: 300, keep_tokens: 120, summary_tokens: 60 };
    let view = |talk: longhaul_workspace::sessions::Session| async move {
        talk.window(window, &Estimator, Some(&Counting::default())).await.unwrap()
    };
    let (one, other) = tokio::join!(view(ground.talk("one")), view(ground.talk("one")));
    assert_eq!((one.summary, one.messages), (other.summary, other.messages));
}

#[tokio::test]
async fn a_summariser_that_fails_leaves_the_newest_messages() {
    let ground = Ground::new().await;
    long_talk(&ground, 60).await;
    let window = Window::Summarised { tokens_max: 300, keep_tokens: 120, summary_tokens: 60 };
    let before = counts(&ground.store).await;
    for summariser in [None, Some(&Counting { fails: true, ..Counting::default() } as &dyn Summarise)] {
        let shown = ground.talk("one").window(window, &Estimator, summariser).await.unwrap();
        assert!(shown.summary.is_none() && shown.tokens <= 300 && shown.messages.len() > 10, "{shown:?}");
        assert_eq!(shown.notes.len(), 1, "{:?}", shown.notes);
    }
    assert_eq!(counts(&ground.store).await, before);
}

#[tokio::test]
async fn an_attached_record_is_shown_by_its_summary() {
    let ground = Ground::new().await;
    let report = ground.task("t1").ingest(note("a report")).await.unwrap();
    ground.said("one", NewMessage::user("see this").attached(report.clone())).await;
    let shown = ground.talk("one").window(Window::Messages(5), &Estimator, None).await.unwrap();
    assert_eq!(shown.attached.get(&report.id).map(String::as_str), Some("a note"));
}
