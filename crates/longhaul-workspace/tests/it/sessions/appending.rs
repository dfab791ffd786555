//! What is said is kept: whole, in order, once, by whoever may.

use longhaul_core::{Digest, RecordId, TimeMs};
use longhaul_store::{Store, StoreError, events, values};
use longhaul_workspace::{
    RecordRef, Workspace,
    sessions::{NewMessage, Role, SessionError},
};

use super::{call, counts, id, in_session};
use crate::ground::{ALL, Ground, note, on_postgres, owner, scope};

#[tokio::test]
async fn what_was_said_is_read_back_with_calls_attachments_and_whose_it_is() {
    let ground = Ground::new().await;
    let report = ground.task("t1").ingest(note("a long report")).await.unwrap();
    let talk = ground.talk("one");
    let messages = vec![
        NewMessage::new(Role::System, "be brief"),
        NewMessage::user("请看报告").attached(report.clone()),
        NewMessage::calling("", vec![call("c1"), call("c2")]),
        NewMessage::answering("c2", ""),
        NewMessage::answering("c1", "README.md"),
        NewMessage::assistant("看过了"),
    ];
    talk.append_all(messages).await.unwrap();
    let read = talk.messages(0, 100).await.unwrap();
    let roles: Vec<&str> = read.iter().map(|message| message.role.as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "assistant"]);
    assert_eq!(read.iter().map(|message| message.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    assert_eq!((read[1].content.as_str(), &read[1].attachments), ("请看报告", &vec![report]));
    assert_eq!((&read[2].tool_calls, read[3].answers.as_deref()), (&vec![call("c1"), call("c2")], Some("c2")));
    let expected = in_session("a", "one");
    assert_eq!((&read[1].task, &read[1].trace, &read[1].user), (&expected.task, &expected.trace, &expected.scope.user));
    assert_eq!(talk.messages(4, 1).await.unwrap()[0].seq, 5);
    let info = ground.talks().get(&id("one")).await.unwrap();
    assert_eq!((info.messages, info.title.as_str()), (6, "请看报告"));
}

#[tokio::test]
async fn an_event_names_the_message_and_does_not_say_what_was_said() {
    let ground = Ground::new().await;
    let said = ground.said("one", NewMessage::user("the marrow of it")).await;
    let (seen, tenant) = (scope("t", "a"), in_session("a", "one").task);
    let read = ground.store.read(move |read| events(read, &seen, Some(&tenant), 0, 10)).await.unwrap();
    assert_eq!(read.len(), 1);
    assert_eq!((read[0].kind.as_str(), &read[0].data["message"]), ("message.added", &serde_json::json!(said.id)));
    assert!(!read[0].data.to_string().contains("marrow"), "{}", read[0].data);
}

#[tokio::test]
async fn nobody_else_reads_or_writes_a_conversation() {
    let ground = Ground::new().await;
    ground.said("one", NewMessage::user("between us")).await;
    let other = ground.workspace.task(&in_session("b", "one")).session();
    assert!(other.messages(0, 10).await.unwrap().is_empty());
    assert!(other.memo().await.unwrap().text.is_empty());
    for refused in
        [other.append(NewMessage::user("me too")).await.map(drop), other.set_memo("mine", None).await.map(drop)]
    {
        assert!(matches!(refused, Err(SessionError::NotYours { .. })), "{refused:?}");
    }
    for refused in [other.all().get(&id("one")).await.map(drop), other.all().delete(&id("one")).await.map(drop)] {
        assert!(matches!(refused, Err(SessionError::NoSession { .. })), "{refused:?}");
    }
    assert!(other.all().list(None, 10).await.unwrap().sessions.is_empty());
    // Another tenant has conversations of the same names.
    let elsewhere = ground.workspace.task(&owner("t2", "a", "t1")).session();
    assert_eq!(elsewhere.append(NewMessage::user("hello")).await.unwrap().seq, 1);
    let wrong = ground.talks().session(&in_session("b", "one"));
    assert!(matches!(wrong, Err(SessionError::NotYours { .. })));
    assert_eq!(ground.talk("one").messages(0, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_is_no_talk_is_refused_and_leaves_nothing() {
    let ground = Ground::new().await;
    let report = ground.task("t1").ingest(note("a report")).await.unwrap();
    let anothers = ground.workspace.task(&owner("t", "b", "other")).ingest(note("theirs")).await.unwrap();
    let talk = ground.talk("one");
    talk.append(NewMessage::calling("", vec![call("c1")])).await.unwrap();
    let before = counts(&ground.store).await;
    let unknown = RecordRef { id: RecordId::from_body("none"), digest: report.digest.clone() };
    let changed = RecordRef { digest: Digest::of("something else"), ..report.clone() };
    let too_long = talk.append(NewMessage::user("x".repeat(70_000))).await.unwrap_err();
    assert!(too_long.to_string().contains("ingest it, keep the ref"), "{too_long}");
    for wrong in [
        NewMessage::user(" "),
        NewMessage::user("see").attached(unknown),
        NewMessage::user("see").attached(changed),
        NewMessage::user("see").attached(anothers),
        NewMessage::answering("c2", "an answer to nothing"),
    ] {
        // Nothing of what stands beside it is written either.
        let refused = talk.append_all(vec![NewMessage::user("first"), wrong.clone()]).await;
        assert!(refused.is_err(), "{wrong:?}");
    }
    assert_eq!(counts(&ground.store).await, before);
    talk.append(NewMessage::answering("c1", "done")).await.unwrap();
    let again = talk.append(NewMessage::answering("c1", "done twice")).await;
    assert!(matches!(again, Err(SessionError::NoOpenCall { .. })), "{again:?}");
}

#[tokio::test]
async fn a_full_conversation_says_so() {
    let ground = Ground::new().await;
    ground.said("one", NewMessage::user("hello")).await;
    let fill = |column: &'static str, to: i64| {
        let store = ground.store.clone();
        async move {
            let sql = format!("UPDATE session_states SET {column} = ?1");
            store.write::<_, StoreError>(move |tx| tx.execute(&sql, &values![to])).await.unwrap();
        }
    };
    fill("bytes", 64 * 1024 * 1024 - 2).await;
    let full = ground.talk("one").append(NewMessage::user("one more")).await.unwrap_err();
    assert!(full.to_string().contains("67108870 bytes") && full.to_string().contains("keep the ref"), "{full}");
    fill("bytes", 0).await;
    fill("last_seq", 100_000).await;
    let full = ground.talk("one").append(NewMessage::user("one more")).await.unwrap_err();
    assert!(matches!(full, SessionError::SessionFull { what: "messages", found: 100_001, .. }), "{full}");
}

#[tokio::test]
async fn a_failing_transaction_takes_the_message_with_it() {
    let ground = Ground::new().await;
    let talk = ground.talk("one");
    let before = counts(&ground.store).await;
    let beside = talk.clone();
    let failed = ground
        .store
        .write(move |tx| {
            beside.append_in(tx, NewMessage::user("said and unsaid"))?;
            Err::<(), _>(SessionError::Empty)
        })
        .await;
    assert!(matches!(failed, Err(SessionError::Empty)), "{failed:?}");
    assert_eq!(counts(&ground.store).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_number_their_messages_without_gaps() {
    let ground = Ground::new().await;
    // A second handle on the same store, as another process has one.
    let second = if on_postgres() {
        ground.workspace.clone()
    } else {
        let settings = longhaul_store::StoreSettings::new(ground.folder.path());
        let store = Store::open(settings, longhaul_core::Ambient::system(), &ALL).await.unwrap();
        Workspace::new(store.clone(), longhaul_memory::Memory::new(store, None))
    };
    let mut writers = Vec::new();
    for writer in 0..6 {
        let workspace = if writer % 2 == 0 { ground.workspace.clone() } else { second.clone() };
        let talk = workspace.task(&in_session("a", "one")).session();
        writers.push(tokio::spawn(async move {
            for turn in 0..5 {
                let asked = format!("w{writer}-{turn}");
                talk.append(NewMessage::calling("", vec![call(&asked)])).await.unwrap();
                talk.append(NewMessage::answering(&asked, "done")).await.unwrap();
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let all = ground.talk("one").messages(0, 500).await.unwrap();
    assert_eq!(all.iter().map(|message| message.seq).collect::<Vec<_>>(), (1..=60).collect::<Vec<i64>>());
    assert!(longhaul_workspace::sessions::unanswered(&all).is_empty());
}

#[tokio::test]
async fn a_memo_is_changed_by_whoever_has_seen_it() {
    let ground = Ground::new().await;
    let talk = ground.talk("one");
    assert_eq!(talk.memo().await.unwrap().version, 0);
    let first = talk.set_memo("the user wants it in French", Some(0)).await.unwrap();
    let late = talk.set_memo("in German", Some(0)).await;
    assert!(matches!(late, Err(SessionError::MemoChanged { expected: 0, found: 1, .. })), "{late:?}");
    assert_eq!(talk.memo().await.unwrap(), first);
    let long = talk.set_memo(&"x".repeat(20_000), None).await.unwrap_err();
    assert!(long.to_string().contains("keep the ref"), "{long}");
    talk.set_memo("in German", None).await.unwrap();
    assert_eq!(talk.memo().await.unwrap().version, 2);
}

#[tokio::test]
async fn conversations_are_listed_newest_first_in_pages() {
    let ground = Ground::new().await;
    for session in ["c", "a", "b"] {
        ground.clock.advance_minutes(1);
        ground.said(session, NewMessage::user(format!("about {session}"))).await;
    }
    let talks = ground.talks();
    let first = talks.list(None, 2).await.unwrap();
    let titles = |page: &longhaul_workspace::sessions::SessionPage| -> Vec<String> {
        page.sessions.iter().map(|info| info.title.clone()).collect()
    };
    assert_eq!(titles(&first), ["about b", "about a"]);
    let second = talks.list(first.next.as_deref(), 2).await.unwrap();
    assert_eq!((titles(&second), second.next), (vec!["about c".to_owned()], None));
    assert!(second.sessions[0].updated_at < TimeMs(i64::MAX));
    assert!(talks.list(Some("nonsense"), 2).await.is_err());
}
