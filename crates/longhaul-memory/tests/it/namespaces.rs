//! Namespaces: who owns them, who may read and write, and searches over several.

use longhaul_core::{Scope, UserId};
use longhaul_memory::{Edit, Grantee, MemoryError, Namespace, NewMemory, Query};

use crate::place::{Place, contents, note};

fn user(name: &str) -> Scope {
    Scope { user: UserId::from_body(name), ..Scope::single_user() }
}

fn in_namespace(name: &str, text: &str) -> NewMemory {
    NewMemory { namespace: name.parse().unwrap(), ..note(text) }
}

fn query(namespaces: &[&str], text: &str) -> Query {
    Query { namespaces: namespaces.iter().map(|name| name.parse().unwrap()).collect(), ..Query::new(text, 10) }
}

#[test]
fn names_are_checked() {
    for good in ["main", "kb:manual@1".replace('@', ".").as_str(), "a", &"x".repeat(128), "user:42-b_c"] {
        assert_eq!(good.parse::<Namespace>().unwrap().as_str(), good);
    }
    for bad in ["", "Main", "a b", "ä", "a/b", &"x".repeat(129), "a\0"] {
        assert!(bad.parse::<Namespace>().is_err(), "{bad:?}");
        assert!(serde_json::from_value::<Namespace>(bad.into()).is_err(), "{bad:?}");
    }
}

#[tokio::test]
async fn the_first_writer_owns_a_namespace_and_others_need_a_grant_for_every_call() {
    let place = Place::by_words().await;
    let (ann, bob) = (user("ann"), user("bob"));
    let memory = &place.memory;
    let id = memory.add(&ann, in_namespace("team", "the launch code is 4711")).await.unwrap();
    let name: Namespace = "team".parse().unwrap();

    let no_access = |error: MemoryError| matches!(error, MemoryError::NoAccess { .. });
    let as_bob = || async {
        let read = memory.search(&bob, &query(&["team"], "launch")).await;
        let written = memory.add(&bob, in_namespace("team", "bob was here")).await;
        (read.map(|recall| recall.hits.len()).map_err(no_access), written.map(drop).map_err(no_access))
    };
    assert_eq!(as_bob().await, (Err(true), Err(true)));
    assert!(memory.get(&bob, &id).await.unwrap().is_none());
    assert!(no_access(memory.list(&bob, &query(&["team"], ""), None).await.unwrap_err()));
    assert!(no_access(memory.stats(&bob, &name).await.unwrap_err()));
    assert!(memory.partitions(&bob).await.unwrap().is_empty());
    assert!(!memory.change(&bob, &id, Edit { pinned: Some(true), ..Edit::default() }).await.unwrap());
    let (handle, scope, forgotten) = (memory.clone(), bob.clone(), id.clone());
    assert!(!place.store.write(move |tx| handle.forget(tx, &scope, &forgotten)).await.unwrap());
    assert!(no_access(memory.grant(&bob, &name, &Grantee::User(bob.user.clone()), true).await.unwrap_err()));

    memory.grant(&ann, &name, &Grantee::User(bob.user.clone()), false).await.unwrap();
    assert_eq!(as_bob().await, (Ok(1), Err(true)));
    assert!(memory.get(&bob, &id).await.unwrap().is_some());
    let seen = memory.partitions(&bob).await.unwrap();
    assert_eq!((seen.len(), seen[0].may_write, &seen[0].owner), (1, false, &ann.user));
    assert!(!memory.change(&bob, &id, Edit { pinned: Some(true), ..Edit::default() }).await.unwrap());

    memory.grant(&ann, &name, &Grantee::Everyone, true).await.unwrap();
    assert_eq!(as_bob().await, (Ok(1), Ok(())));
    assert!(no_access(memory.grant(&bob, &name, &Grantee::Everyone, true).await.unwrap_err()));
    assert!(memory.revoke(&ann, &name, &Grantee::Everyone).await.unwrap());
    assert!(!memory.revoke(&ann, &name, &Grantee::Everyone).await.unwrap());
    assert_eq!(as_bob().await, (Ok(1), Err(true)));
    assert!(memory.revoke(&ann, &name, &Grantee::User(bob.user.clone())).await.unwrap());
    assert_eq!(as_bob().await, (Err(true), Err(true)));
    // Another tenant's namespace of the same name is another one.
    let foreign = Scope { tenant: "tenant_other".parse().unwrap(), user: bob.user.clone() };
    assert_eq!(memory.search(&foreign, &query(&["team"], "launch")).await.unwrap().considered, 0);
    memory.add(&foreign, in_namespace("team", "launch of another")).await.unwrap();
    assert_eq!(memory.search(&ann, &query(&["team"], "launch")).await.unwrap().hits.len(), 1);
}

#[tokio::test]
async fn several_namespaces_are_searched_as_one_and_one_without_a_grant_refuses_all() {
    let place = Place::with_model().await;
    let ann = user("ann");
    for (name, text) in [
        ("main", "the login page uses cookies"),
        ("notes", "cookies expire after a day"),
        ("notes", "an entirely different subject"),
        ("third", "cookies are baked at Christmas"),
    ] {
        place.memory.add(&ann, in_namespace(name, text)).await.unwrap();
    }
    place.memory.index_pending().await.unwrap();
    let of = |names: &'static [&'static str]| {
        let (memory, ann) = (place.memory.clone(), ann.clone());
        async move {
            let recall = memory.search(&ann, &query(names, "when do cookies expire")).await.unwrap();
            let mut hits = recall.hits.iter().map(|hit| hit.item.namespace.to_string()).collect::<Vec<_>>();
            assert!(recall.hits.is_sorted_by(|a, b| a.score >= b.score));
            hits.sort();
            hits.dedup();
            (contents(&recall)[0].clone(), hits.join(" "), recall.considered, recall.unembedded)
        }
    };
    assert_eq!(of(&[]).await, ("the login page uses cookies".into(), "main".into(), 1, 0));
    assert_eq!(of(&["notes", "main"]).await, ("cookies expire after a day".into(), "main notes".into(), 3, 0));
    assert_eq!(of(&["notes", "main", "notes", "none"]).await.2, 3);
    assert_eq!(of(&["third", "notes", "main"]).await.1, "main notes third");

    let bob = user("bob");
    let name: Namespace = "notes".parse().unwrap();
    place.memory.grant(&ann, &name, &Grantee::User(bob.user.clone()), false).await.unwrap();
    assert_eq!(place.memory.search(&bob, &query(&["notes"], "cookies")).await.unwrap().considered, 2);
    let refused = place.memory.search(&bob, &query(&["notes", "third"], "cookies")).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the namespace third belongs to user_ann, who has not granted this; ask for a grant, or name a namespace of your own"
    );
}

#[tokio::test]
async fn a_frozen_namespace_is_read_and_written_by_nobody() {
    let place = Place::by_words().await;
    let scope = place.scope.clone();
    let name: Namespace = "kb:manual".parse().unwrap();
    let (handle, owner, made) = (place.memory.clone(), scope.clone(), name.clone());
    let create = move |tx: &mut longhaul_store::Tx<'_>| handle.create_partition(tx, &owner, &made, "knowledge");
    assert!(place.store.write(create).await.unwrap());
    let id = place.memory.add(&scope, in_namespace("kb:manual", "press the red button")).await.unwrap();
    let freeze = |frozen| {
        let (handle, owner, name) = (place.memory.clone(), scope.clone(), name.clone());
        place.store.write(move |tx| handle.freeze(tx, &owner, &name, frozen))
    };
    freeze(true).await.unwrap();
    let info = place.memory.partitions(&scope).await.unwrap().remove(0);
    assert_eq!((info.purpose.as_str(), info.frozen, info.may_write, info.memories), ("knowledge", true, false, 1));
    assert_eq!(place.memory.search(&scope, &query(&["kb:manual"], "button")).await.unwrap().hits.len(), 1);
    let refused = place.memory.add(&scope, in_namespace("kb:manual", "another")).await.unwrap_err();
    assert!(matches!(refused, MemoryError::Frozen { .. }), "{refused}");
    let edited = place.memory.change(&scope, &id, Edit { pinned: Some(true), ..Edit::default() }).await.unwrap_err();
    assert!(matches!(edited, MemoryError::Frozen { .. }), "{edited}");
    freeze(false).await.unwrap();
    place.memory.add(&scope, in_namespace("kb:manual", "another")).await.unwrap();
    assert!(place.memory.drift().await.unwrap().is_empty());
}

#[tokio::test]
async fn no_memory_begins_a_namespace_of_documents() {
    let place = Place::by_words().await;
    let (ann, name) = (user("ann"), "kb:manual:1".parse::<Namespace>().unwrap());
    let refused = place.memory.add(&ann, in_namespace(name.as_str(), "not a document")).await;
    assert!(matches!(&refused, Err(MemoryError::Field { field: "namespace", .. })), "{refused:?}");

    let (handle, scope, made) = (place.memory.clone(), ann.clone(), name.clone());
    let begun = place.store.write(move |tx| handle.create_partition(tx, &scope, &made, "knowledge")).await;
    assert!(begun.unwrap());
    place.memory.add(&ann, in_namespace(name.as_str(), "a document's chunk")).await.unwrap();
}
