//! Records: visible with their content or not at all, stored once, verified, in versions.

use longhaul_core::{Digest, RecordId, Visibility};
use longhaul_store::{StoreError, events, values};
use longhaul_workspace::{Content, Filter, Ingest, Kind, Relation, WorkspaceError};
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::ground::{Ground, note, on_postgres, owner, scope};

const ROW_MAX: usize = 16 * 1024;

/// Bytes that do not repeat.
fn noise(bytes: usize) -> Vec<u8> {
    (0_u64..).flat_map(|n| *Digest::of(n.to_le_bytes()).as_bytes()).take(bytes).collect()
}

#[tokio::test]
async fn a_record_is_visible_once_its_transaction_is_done() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    for content in ["내용".to_owned(), "내용 ".repeat(5_000)] {
        let staged = task.stage(Ingest::new(Kind::Note, "notes", "한국어 요약", "agent", &*content)).await.unwrap();
        let reference = staged.reference().clone();
        assert!(matches!(task.read(&reference).await, Err(WorkspaceError::NoSuchRecord(_))));
        ground.store.write(move |tx| staged.commit(tx)).await.unwrap();
        let (record, read) = task.read(&reference).await.unwrap();
        assert_eq!((record.summary.as_str(), read.as_slice()), ("한국어 요약", content.as_bytes()));
        assert_eq!((record.size, record.version), (content.len() as u64, 1));
    }
    let numbers: Vec<i64> =
        task.list(Filter::default(), None, 10).await.unwrap().records.iter().map(|r| r.seq).collect();
    assert_eq!(numbers, [2, 1]);
}

#[tokio::test]
async fn content_of_any_size_comes_back_as_it_was_from_bytes_and_from_a_reader() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    for size in [0, 1, 200, ROW_MAX, ROW_MAX + 1, 3_000_000] {
        let content = noise(size);
        let whole = Ingest::new(Kind::Artifact, "files", "a file", "tool:download", content.clone());
        let whole = task.ingest(whole).await.unwrap();
        let reader = Content::Reader(Box::new(std::io::Cursor::new(content.clone())));
        let read = task.ingest(Ingest::new(Kind::Artifact, "files", "a file", "tool:download", reader)).await.unwrap();
        assert_eq!((whole.digest, read.digest), (Digest::of(&content), Digest::of(&content)));
        for reference in [whole, read] {
            assert!(task.read(&reference).await.unwrap().1 == content, "{size}");
            let (record, mut reader) = task.open(&reference).await.unwrap();
            let mut streamed = Vec::new();
            reader.read_to_end(&mut streamed).await.unwrap();
            assert!(streamed == content && record.size == size as u64, "{size}");
        }
        let is_blob = ground.store.blobs().get(&scope("t", "a"), &Digest::of(&content)).await.is_ok();
        assert_eq!(is_blob, size > ROW_MAX);
    }
}

#[tokio::test]
async fn a_reader_that_fails_leaves_nothing() {
    struct Fails(usize);
    impl tokio::io::AsyncRead for Fails {
        fn poll_read(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            to: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            let now = self.0.min(to.remaining());
            self.0 -= now;
            to.put_slice(&vec![7; now]);
            std::task::Poll::Ready(if now == 0 { Err(std::io::Error::other("the line was cut")) } else { Ok(()) })
        }
    }
    let ground = Ground::new().await;
    let task = ground.task("1");
    for bytes in [0, 100, 3_000_000] {
        let reader = Content::Reader(Box::new(Fails(bytes)));
        let outcome = task.ingest(Ingest::new(Kind::Note, "notes", "cut off", "web", reader)).await;
        assert!(matches!(outcome, Err(WorkspaceError::Unread(_))), "{outcome:?}");
    }
    assert!(task.list(Filter::default(), None, 10).await.unwrap().records.is_empty());
    assert_eq!(ground.store.sweep_blobs(std::time::Duration::ZERO).await.unwrap().kept, 0);
}

#[tokio::test]
async fn equal_content_is_stored_once_in_a_tenant_and_apart_from_others() {
    let ground = Ground::new().await;
    let text = "the same words, over and over. ".repeat(20);
    let one = ground.task("1").ingest(note(&text)).await.unwrap();
    let two = ground.task("2").ingest(note(&text)).await.unwrap();
    ground.workspace.task(&owner("other", "a", "1")).ingest(note(&text)).await.unwrap();
    assert!(one.id != two.id && one.digest == two.digest);
    let rows = "select tenant_id, encoding, size from contents order by tenant_id";
    let rows = ground.store.read(move |read| {
        read.query(rows, &[], |row| Ok((row.get::<String>(0)?, row.get::<String>(1)?, row.get::<usize>(2)?)))
    });
    let rows: Vec<_> = rows.await.map_err(|error: StoreError| error).unwrap();
    let row = |tenant: &str| (tenant.to_owned(), "zstd".to_owned(), text.len());
    assert_eq!(rows, [row("tenant_other"), row("tenant_t")]);
}

#[tokio::test]
async fn a_name_is_never_overwritten_and_a_revision_supersedes() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    let draft = |text: &str, revise| Ingest { name: Some("draft".into()), revise, ..note(text) };
    let first = task.ingest(draft("first", false)).await.unwrap();
    let refused = task.ingest(draft("second", false)).await.unwrap_err();
    assert!(matches!(&refused, WorkspaceError::NameTaken { version: 1, record, .. } if *record == first.id));
    assert!(refused.to_string().contains("revise: true"), "{refused}");
    let second = task.ingest(draft("second", true)).await.unwrap();
    // Another task has names of its own.
    ground.task("2").ingest(draft("elsewhere", false)).await.unwrap();

    assert_eq!(task.read(&first).await.unwrap().1, b"first");
    assert_eq!(task.get(&first).await.unwrap().superseded_by, Some(second.id.clone()));
    let newest = task.newest("draft").await.unwrap().unwrap();
    assert_eq!((&newest.reference, newest.version), (&second, 2));
    let links = task.user().links(second.id.as_str()).await.unwrap();
    assert_eq!(
        (links.len(), &links[0].relation, links[0].target.as_str()),
        (1, &Relation::Supersedes, first.id.as_str())
    );
    let all = Filter { name: Some("draft".into()), include_superseded: true, ..Filter::default() };
    assert_eq!(task.list(all, None, 10).await.unwrap().records.len(), 2);

    // In one batch as well: nothing of it is kept when one is refused.
    let batch = vec![draft("third", true), draft("fourth", false)];
    assert!(matches!(task.ingest_many(batch).await, Err(WorkspaceError::NameTaken { version: 3, .. })));
    assert_eq!(task.newest("draft").await.unwrap().unwrap().version, 2);
}

#[tokio::test]
async fn one_flipped_byte_is_noticed() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    for content in [noise(100), b"words that are compressed, words that are compressed, ".repeat(10), noise(50_000)] {
        let kept = task.ingest(Ingest::new(Kind::Evidence, "evidence", "a log", "tool:x", content)).await.unwrap();
        task.read(&kept).await.unwrap();
        let (digest, was) = (kept.digest, scope("t", "a"));
        let is_row = ground.store.read(move |read| {
            let sql = "select data from contents where tenant_id = ?1 and digest = ?2";
            read.query_optional(sql, &values![&was.tenant, &digest], |row| Ok(row.bytes(0)?.to_vec()))
        });
        let is_row: Option<Vec<u8>> = is_row.await.map_err(|error: StoreError| error).unwrap();
        match is_row {
            Some(mut data) => {
                let last = data.len() - 1;
                data[last] ^= 1;
                ground
                    .store
                    .write::<_, StoreError>(move |tx| {
                        tx.execute("update contents set data = ?2 where digest = ?1", &values![&digest, data])
                    })
                    .await
                    .unwrap();
            }
            None if on_postgres() => continue,
            None => {
                let file = ground.store.blobs().path(&scope("t", "a"), &digest);
                let mut bytes = std::fs::read(&file).unwrap();
                bytes[1_000] ^= 1;
                std::fs::remove_file(&file).unwrap();
                std::fs::write(&file, bytes).unwrap();
            }
        }
        let read = task.read(&kept).await;
        assert!(
            matches!(&read, Err(WorkspaceError::DigestMismatch { expected, .. }) if *expected == digest),
            "{read:?}"
        );
        let outcome = match task.open(&kept).await {
            Ok((_, mut reader)) => reader.read_to_end(&mut Vec::new()).await.is_err(),
            Err(_) => true,
        };
        assert!(outcome, "a reader was told that all is well");
    }
}

#[tokio::test]
async fn a_ref_names_this_content_and_no_other() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    let mut kept = task.ingest(note("one")).await.unwrap();
    kept.digest = Digest::of("two");
    assert!(matches!(task.read(&kept).await, Err(WorkspaceError::DigestMismatch { .. })));
    assert!(matches!(task.get(&kept).await, Err(WorkspaceError::DigestMismatch { .. })));
    let nobody = task.get(&RecordId::from_body("none")).await;
    assert!(matches!(nobody, Err(WorkspaceError::NoSuchRecord(_))));
}

#[tokio::test]
async fn a_batch_is_kept_in_order_and_listed_in_pages() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    let mut batch: Vec<Ingest> = (0..60).map(|n| note(&format!("entry {n}"))).collect();
    batch[30] = Ingest { collection: "large".into(), ..note(&"entry 30 ".repeat(5_000)) };
    batch.push(Ingest { content: Content::Reader(Box::new(&b"from a reader"[..])), ..note("") });
    let kept = task.ingest_many(batch).await.unwrap();
    let (mut before, mut seen) = (None, Vec::new());
    loop {
        let page = task.list(Filter::default(), before, 25).await.unwrap();
        seen.extend(page.records.into_iter().map(|record| record.reference));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    seen.reverse();
    assert_eq!(seen, kept);
    let large = Filter { collection: Some("large".into()), kind: Some(Kind::Note), ..Filter::default() };
    assert_eq!(task.list(large, None, 25).await.unwrap().records[0].seq, 31);
    assert_eq!(task.user().tasks(10).await.unwrap()[0].kept, 61);
}

#[tokio::test]
async fn events_tell_of_a_record_and_not_its_content() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    let summary = "摘".repeat(900);
    let draft = Ingest { name: Some("draft".into()), summary, ..note("a secret in the content") };
    let kept = task.ingest(draft).await.unwrap();
    task.ingest(Ingest { name: Some("draft".into()), revise: true, ..note("b") }).await.unwrap();
    let owner = task.owner().clone();
    let log = ground.store.read(move |read| events(read, &owner.scope, Some(&owner.task), 0, 10)).await;
    let log = log.map_err(|error: StoreError| error).unwrap();
    let kinds: Vec<&str> = log.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["record.ingested", "record.ingested", "link.made", "record.superseded"]);
    assert!(log.iter().all(|event| event.visibility == Visibility::Business && event.scope == *task.owner()));
    assert_eq!(log[0].data["record"], json!(kept.id));
    assert_eq!(log[0].data["summary"].as_str().unwrap().chars().count(), 200);
    assert!(!format!("{log:?}").contains("secret"));
}
