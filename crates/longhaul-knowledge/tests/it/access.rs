//! Who may ask and who may change: a corpus is written by nobody once it is complete, and read by those who were let in.

use longhaul_core::Scope;
use longhaul_knowledge::{CorpusName, Grantee, KnowledgeError, KnowledgeQuery};
use longhaul_memory::{Edit, Kind, MemoryError, NewMemory, Query, Source};

use crate::fixture::{Bench, scope};

#[tokio::test]
async fn nothing_is_written_into_a_complete_version() {
    let bench = Bench::new().await;
    bench.write("a.md", "# A\n\nWords that stay.\n");
    bench.add("a").await;
    let mut note = NewMemory::new("agent", Kind::Note, Source::Agent, "the task is half done");
    note.namespace = "kb:a:1".parse().unwrap();
    let refused = bench.memory.add(&scope("ann"), note).await.unwrap_err();
    assert!(matches!(&refused, MemoryError::Frozen { .. }), "{refused}");
    let query = Query { namespaces: vec!["kb:a:1".parse().unwrap()], ..Query::new("words", 1) };
    let hit = bench.memory.search(&scope("ann"), &query).await.unwrap().hits.remove(0);
    let edit = Edit { content: Some("other words".to_owned()), ..Edit::default() };
    let refused = bench.memory.change(&scope("ann"), &hit.item.id, edit).await.unwrap_err();
    assert!(matches!(&refused, MemoryError::Frozen { .. }), "{refused}");
    let (memory, ann, id) = (bench.memory.clone(), scope("ann"), hit.item.id);
    let refused = bench.store.write(move |tx| memory.forget(tx, &ann, &id)).await.unwrap_err();
    assert!(matches!(&refused, MemoryError::Frozen { .. }), "{refused}");
    assert_eq!(bench.ask("ann", &[], "words").await.unwrap()[0].text, "Words that stay.");
}

#[tokio::test]
async fn others_see_a_corpus_when_they_were_let_in_and_other_tenants_never() {
    let bench = Bench::new().await;
    bench.write("a.md", "# A\n\nFirst words.\n");
    bench.add("a").await;
    let name: CorpusName = "a".parse().unwrap();
    let not_there = async |user: &str| matches!(bench.ask(user, &["a"], "words").await, Err(KnowledgeError::NoCorpus { there, .. }) if there.is_empty());
    assert!(not_there("bob").await);
    let refused = bench.knowledge.add(&scope("bob"), &bench.addition("a"), |_| true).await;
    assert!(matches!(&refused, Err(KnowledgeError::NotYours { owner, .. }) if owner == "user_ann"), "{refused:?}");

    let bob = Grantee::User("user_bob".parse().unwrap());
    bench.knowledge.share(&scope("ann"), &name, &bob).await.unwrap();
    assert_eq!(bench.ask("bob", &["a"], "words").await.unwrap()[0].text, "First words.");
    // A version to come is shared as the one before it was.
    bench.write("a.md", "# A\n\nSecond words.\n");
    bench.add("a").await;
    assert_eq!(bench.ask("bob", &["a"], "words").await.unwrap()[0].text, "Second words.");
    let refused = bench.knowledge.remove(&scope("bob"), &"a".parse().unwrap()).await;
    assert!(matches!(&refused, Err(KnowledgeError::NotYours { .. })), "{refused:?}");

    bench.knowledge.unshare(&scope("ann"), &name, &bob).await.unwrap();
    assert!(not_there("bob").await);
    bench.knowledge.share(&scope("ann"), &name, &Grantee::Everyone).await.unwrap();
    let foreign = Scope { tenant: "tenant_b".parse().unwrap(), ..scope("ann") };
    let query = KnowledgeQuery { text: "words".to_owned(), k: 5, corpora: vec!["a".parse().unwrap()] };
    let refused = bench.knowledge.search(&foreign, &query).await;
    assert!(matches!(refused, Err(KnowledgeError::NoCorpus { .. })));
}
