//! What the first release wrote is there after the upgrade, and is found.

use std::sync::Arc;

use longhaul_core::{Ambient, Scope, TimeMs, UserId};
use longhaul_memory::{Kind, MIGRATIONS, Memory, MemoryError, Namespace, NewMemory, Query};
use longhaul_store::{Migrations, Store, Tx, values};

use crate::place::{Letters, contents, letters, new_store, note};

/// The tables of the first release, as it made them.
const FIRST: Migrations = Migrations { component: "memory", steps: &[TABLES] };
const TABLES: &str = "
CREATE TABLE memory_partitions (
    tenant_id       TEXT    NOT NULL PRIMARY KEY,
    last_seq        INTEGER NOT NULL,
    last_vector_seq INTEGER NOT NULL,
    analyser        INTEGER NOT NULL,
    documents       INTEGER NOT NULL,
    terms           INTEGER NOT NULL
) STRICT;

CREATE TABLE memories (
    tenant_id   TEXT    NOT NULL,
    seq         INTEGER NOT NULL,
    memory_id   TEXT    NOT NULL,
    v           INTEGER NOT NULL,
    user_id     TEXT    NOT NULL,
    task_id     TEXT,
    collection  TEXT    NOT NULL,
    kind        TEXT    NOT NULL,
    source      TEXT    NOT NULL,
    content     TEXT    NOT NULL,
    meta        TEXT    NOT NULL,
    importance  REAL    NOT NULL,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,
    PRIMARY KEY (tenant_id, seq),
    UNIQUE (tenant_id, memory_id)
) STRICT;
CREATE INDEX memories_by_filter
    ON memories (tenant_id, expires_at, collection, kind, task_id, created_at, user_id, seq);

CREATE TABLE memory_postings (
    tenant_id TEXT    NOT NULL,
    term      TEXT    NOT NULL,
    block     INTEGER NOT NULL,
    postings  BLOB    NOT NULL,
    PRIMARY KEY (tenant_id, term, block)
) STRICT, WITHOUT ROWID;

CREATE TABLE memory_vectors (
    tenant_id  TEXT    NOT NULL,
    seq        INTEGER NOT NULL,
    embedder   TEXT    NOT NULL,
    vector_seq INTEGER NOT NULL,
    vector     BLOB    NOT NULL,
    PRIMARY KEY (tenant_id, seq)
) STRICT;
CREATE INDEX memory_vectors_by_age ON memory_vectors (tenant_id, embedder, vector_seq);
";

/// Two memories of one tenant by two users, one of another tenant, as the first release wrote them.
fn written_by_the_first(tx: &mut Tx<'_>) -> Result<(), longhaul_store::StoreError> {
    // A posting: place in its block, how often, terms of the text in all.
    let posting = |seq: u8, length: u8| vec![seq, 1, length];
    for (tenant, seq, user, text, terms) in [
        ("tenant_default", 1_i64, "user_default", "login uses cookies", ["login", "use", "cooki"]),
        ("tenant_default", 2, "user_second", "files arrive in chunks", ["file", "arriv", "chunk"]),
        ("tenant_other", 1, "user_default", "secret of others", ["secret", "other", "of"]),
    ] {
        tx.execute(
            "INSERT INTO memory_partitions (tenant_id, last_seq, last_vector_seq, analyser, documents, terms)
             VALUES (?1, 1, 1, 1, 1, 3) ON CONFLICT (tenant_id) DO UPDATE SET last_seq = 2, last_vector_seq = 2,
                 documents = 2, terms = 6",
            &values![tenant],
        )?;
        tx.execute(
            "INSERT INTO memories (tenant_id, seq, memory_id, v, user_id, task_id, collection, kind, source, content, meta,
                                   importance, created_at, expires_at)
             VALUES (?1, ?2, ?3, 1, ?4, 'task_1', 'project', 'note', 'agent', ?5, '{\"session\":3}', 0.5, ?6, NULL)",
            &values![tenant, seq, format!("mem_{}{seq}", &tenant[7..]), user, text, 1_700_000_000_000 + seq],
        )?;
        for term in terms {
            tx.execute(
                "INSERT INTO memory_postings (tenant_id, term, block, postings) VALUES (?1, ?2, 0, ?3)",
                &values![tenant, term, posting(seq as u8, 3)],
            )?;
        }
        let vector = letters(text);
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        let bytes: Vec<u8> = vector.iter().flat_map(|value| (value / length).to_le_bytes()).collect();
        tx.execute(
            "INSERT INTO memory_vectors (tenant_id, seq, embedder, vector_seq, vector) VALUES (?1, ?2, 'letters', ?2, ?3)",
            &values![tenant, seq, bytes],
        )?;
    }
    Ok(())
}

#[tokio::test]
async fn memories_of_the_first_release_move_to_main_with_words_and_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let (settings, _database) = new_store(folder.path());
    let store = Store::open(settings.clone(), Ambient::system(), &[FIRST]).await.unwrap();
    store.write(written_by_the_first).await.unwrap();
    drop(store);

    let store = Store::open(settings, Ambient::system(), &[MIGRATIONS]).await.unwrap();
    let memory = Memory::new(store, Some(Arc::new(Letters)));
    let scope = Scope::single_user();
    memory.index_pending().await.unwrap();
    let recall = memory.search(&scope, &Query::new("login", 5)).await.unwrap();
    assert_eq!((contents(&recall)[0].as_str(), recall.considered, recall.unembedded), ("login uses cookies", 2, 0));
    assert!(recall.hits[0].explain.meaning.raw.is_some());
    let item = memory.get(&scope, &"mem_default1".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(
        (item.namespace, item.happened_at, item.kind),
        (Namespace::default(), TimeMs(1_700_000_000_001), Kind::Note)
    );
    assert_eq!((item.meta["session"].as_i64(), item.thread, item.pinned), (Some(3), None, false));

    // Who wrote first owns it; who else had written may go on; nobody else gets in.
    let partitions = memory.partitions(&scope).await.unwrap();
    assert_eq!((partitions.len(), &partitions[0].owner, partitions[0].memories), (1, &scope.user, 2));
    let second = Scope { user: UserId::from_body("second"), ..scope.clone() };
    memory.add(&second, note("another one")).await.unwrap();
    let third = Scope { user: UserId::from_body("third"), ..scope.clone() };
    let refused = memory.search(&third, &Query::new("login", 5)).await;
    assert!(matches!(refused, Err(MemoryError::NoAccess { .. })));
    let other = Scope { tenant: "tenant_other".parse().unwrap(), ..scope.clone() };
    assert_eq!(memory.search(&other, &Query::new("login secret", 5)).await.unwrap().considered, 1);

    memory.add(&scope, NewMemory { thread: Some("t".into()), ..note("after the upgrade") }).await.unwrap();
    assert_eq!(contents(&memory.search(&scope, &Query::new("upgrade", 1)).await.unwrap()), ["after the upgrade"]);
}
