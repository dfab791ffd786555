//! What user memory learns from conversations, and what a digest shows of them.

use longhaul_memory::user::Switches;
use longhaul_workspace::sessions::NewMessage;

use super::{counts, id};
use crate::ground::{Ground, scope};

async fn known(ground: &Ground) -> Vec<String> {
    let entries = ground.talks().user_memory().entries(&scope("t", "a")).await.unwrap();
    entries.into_iter().map(|entry| entry.text).collect()
}

#[tokio::test]
async fn one_call_appends_and_lets_user_memory_learn() {
    let ground = Ground::new().await;
    let talk = ground.talk("one");
    let (said, learning) =
        talk.append_and_learn(NewMessage::user("My name is Anna. What is WAL?"), None).await.unwrap();
    let observed = learning.done().await.unwrap();
    assert_eq!((said.seq, observed.turns, observed.applied()), (1, 1, 1), "{observed:?}");
    // What a model or a tool says teaches nothing.
    for message in [NewMessage::assistant("My name is Longhaul."), NewMessage::user("And I live in Berlin.")] {
        let (_, learning) = talk.append_and_learn(message, None).await.unwrap();
        learning.done().await.unwrap();
    }
    assert_eq!(known(&ground).await, ["My name is Anna", "I live in Berlin"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_messages_at_once_are_learned_from_once() {
    let ground = Ground::new().await;
    let talk = ground.talk("one");
    let mut learning = Vec::new();
    for n in 0..12 {
        let text = if n == 5 { "I live in Berlin.".to_owned() } else { format!("What about number {n}?") };
        learning.push(talk.append_and_learn(NewMessage::user(text), None).await.unwrap().1);
    }
    let mut turns = 0;
    for pass in learning {
        turns += pass.done().await.unwrap().turns;
    }
    assert_eq!((turns, known(&ground).await), (12, vec!["I live in Berlin".to_owned()]));
}

#[tokio::test]
async fn a_digest_shows_fifteen_conversations_in_the_users_own_words() {
    let ground = Ground::new().await;
    for n in 0..20 {
        ground.clock.advance_minutes(1);
        ground.said(&format!("s{n}"), NewMessage::user(format!("question {n}\nin two lines"))).await;
        ground.said(&format!("s{n}"), NewMessage::assistant("the assistant's words")).await;
    }
    ground.said("s19", NewMessage::user("and one more thing")).await;
    ground.said("silent", NewMessage::assistant("nobody asked")).await;
    let before = counts(&ground.store).await;
    let digest = ground.talks().digest(Some(&id("s18")), 15).await.unwrap();
    assert_eq!(digest.len(), 15);
    assert_eq!(
        (digest[0].said.as_str(), digest[0].lately.as_deref()),
        ("question 19 in two lines", Some("and one more thing"))
    );
    assert_eq!((&digest[1].session, digest[14].said.as_str()), (&id("s17"), "question 4 in two lines"));
    assert!(!format!("{digest:?}").contains("assistant"), "{digest:?}");
    assert_eq!(counts(&ground.store).await, before);
    let others = ground.workspace.user(&scope("t", "b")).sessions().digest(None, 15).await.unwrap();
    assert!(others.is_empty());
    let off = Switches { memory: false, implicit: false };
    ground.talks().user_memory().switch(&scope("t", "a"), off).await.unwrap();
    assert!(ground.talks().digest(None, 15).await.unwrap().is_empty());
}
