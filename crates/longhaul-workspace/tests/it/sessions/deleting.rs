//! A conversation goes with everything behind it, also when the deletion is interrupted.

use longhaul_memory::user::UserMemoryEdit;
use longhaul_store::{StoreError, values};
use longhaul_workspace::sessions::{ConversationQuery, NewMessage, SessionError};

use super::{holding, id};
use crate::ground::{Ground, scope};

#[tokio::test]
async fn nothing_is_left_of_a_deleted_conversation() {
    let ground = Ground::new().await;
    let (talk, user) = (ground.talk("one"), scope("t", "a"));
    let explicit = UserMemoryEdit::Add { block: None, text: "I prefer tea".into() };
    ground.talks().user_memory().edit(&user, explicit).await.unwrap();
    let (_, learning) =
        talk.append_and_learn(NewMessage::user("I live in Tromsoe. Is the zeppelin ready?"), None).await.unwrap();
    learning.done().await.unwrap();
    talk.append(NewMessage::assistant("The zeppelin is ready.")).await.unwrap();
    talk.set_memo("about the zeppelin", None).await.unwrap();
    ground.said("two", NewMessage::user("Another airship")).await;
    assert!(holding(&ground.store, "zeppelin").await.len() >= 3);

    let deleted = ground.talks().delete(&id("one")).await.unwrap();
    assert_eq!((deleted.messages, deleted.index_rows), (2, 2), "{deleted:?}");
    assert_eq!(deleted.faded.len(), 1);
    for word in ["zeppelin", "Tromsoe"] {
        let left = holding(&ground.store, word).await;
        // Versions of user memory are a history that its user looks into, and erases entry by entry.
        let history =
            |place: &&String| place.starts_with("memory_user_entries.") || *place == "memory_proposals.target";
        let left: Vec<_> = left.iter().filter(|place| !history(place)).collect();
        assert!(left.is_empty(), "{word}: {left:?}");
    }
    let by = longhaul_memory::user::By::person(&user.user);
    ground.talks().user_memory().erase(&user, deleted.faded[0].id, by).await.unwrap();
    assert!(holding(&ground.store, "Tromsoe").await.is_empty());
    let entries = ground.talks().user_memory().entries(&user).await.unwrap();
    assert_eq!(entries.into_iter().map(|entry| entry.text).collect::<Vec<_>>(), ["I prefer tea"]);
    assert!(talk.messages(0, 10).await.unwrap().is_empty());
    let again = ground.talks().delete(&id("one")).await;
    assert!(matches!(again, Err(SessionError::NoSession { .. })), "{again:?}");
    let left = ground.talks().list(None, 10).await.unwrap().sessions;
    assert_eq!(left.into_iter().map(|info| info.session).collect::<Vec<_>>(), [id("two")]);
    // The name may be used anew.
    assert_eq!(talk.append(NewMessage::user("hello again")).await.unwrap().seq, 1);
}

#[tokio::test]
async fn an_interrupted_deletion_is_seen_through() {
    let ground = Ground::new().await;
    let talk = ground.talk("one");
    talk.append(NewMessage::user("the zeppelin is late")).await.unwrap();
    // As a kill leaves it after the first transaction.
    ground
        .store
        .write::<_, StoreError>(|tx| {
            tx.execute("UPDATE session_states SET deleting = 1, title = ''", &values![])?;
            tx.execute("DELETE FROM messages", &values![])
        })
        .await
        .unwrap();
    let refused = talk.append(NewMessage::user("still here?")).await;
    assert!(matches!(refused, Err(SessionError::BeingDeleted { .. })), "{refused:?}");
    assert!(ground.talks().search(&ConversationQuery::new("zeppelin")).await.unwrap().hits.is_empty());
    assert!(ground.talks().list(None, 10).await.unwrap().sessions.is_empty());
    let finished = ground.talks().tend().await.unwrap();
    assert_eq!((finished.len(), finished[0].index_rows), (1, 1));
    assert_eq!(ground.talks().tend().await.unwrap(), []);
    assert!(holding(&ground.store, "zeppelin").await.is_empty());
}
