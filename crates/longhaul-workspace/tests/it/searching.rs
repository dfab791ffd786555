//! Searching: in any language, by parts, and never more than the rows say.

use longhaul_store::{StoreError, values};
use longhaul_workspace::{Find, Ingest, Kind, WorkspaceError, partition_of};

use crate::ground::{Ground, note, owner, scope};

#[tokio::test]
async fn records_are_found_from_the_commit_on_in_any_language() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    let texts = [
        ("the quarterly risk report of the harbour", "harbour risk"),
        ("季度风险报告：港口设备老化，需要更换。", "港口设备"),
        ("第三四半期の報告書をまとめました。", "四半期の報告"),
        ("분기 위험 보고서를 작성했습니다", "보고서"),
        ("Квартальный отчёт о рисках порта", "отчёт порта"),
    ];
    for (text, _) in texts {
        task.ingest(Ingest { kind: Kind::Observation, ..note(text) }).await.unwrap();
    }
    for (text, query) in texts {
        let found = task.search(&Find::new(query, 3)).await.unwrap();
        assert_eq!(found.hits[0].excerpt, text, "{query}");
    }
    // By the summary as well, and by kind.
    let picture = Ingest {
        summary: "screenshot of the login page".into(),
        ..Ingest::new(Kind::Evidence, "e", "x", "tool:browser", vec![0xff; 9])
    };
    let picture = task.ingest(picture).await.unwrap();
    let found = task.search(&Find { kinds: vec![Kind::Evidence], ..Find::new("login screenshot", 3) }).await.unwrap();
    assert_eq!((found.hits.len(), &found.hits[0].record.reference), (1, &picture));
    let two = vec![Kind::Note, Kind::Observation];
    let found = task.search(&Find { kinds: two, ..Find::new("login screenshot", 3) }).await.unwrap();
    assert!(found.hits.is_empty());
}

#[tokio::test]
async fn a_long_text_is_found_by_the_part_that_answers_and_shown_once() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    let filler = "Nothing of interest happened on this day in the valley. ".repeat(60);
    let text =
        format!("{filler}\n\nThe lighthouse keeper wrote about the lighthouse.\n\n{filler}\n\nA lighthouse again.");
    task.ingest(Ingest { summary: "a diary".into(), ..note(&text) }).await.unwrap();
    task.ingest(note("another record")).await.unwrap();
    let found = task.search(&Find::new("lighthouse keeper", 5)).await.unwrap();
    assert_eq!(found.hits.len(), 1);
    assert!(found.hits[0].part > 0 && found.hits[0].excerpt.contains("lighthouse keeper"), "{found:?}");
    // Of a huge text the beginning is searched, and the whole is kept.
    let huge = format!("zanzibar {}", "more and more words without any end. ".repeat(100_000));
    let kept = task.ingest(Ingest { summary: "huge".into(), ..note(&huge) }).await.unwrap();
    assert_eq!(task.search(&Find::new("zanzibar", 5)).await.unwrap().hits[0].record.reference, kept);
    assert!(task.read(&kept).await.unwrap().1 == huge.as_bytes());
    let parts =
        ground.store.read(|read| read.query_one("select max(parts) from records", &[], |row| row.get::<i64>(0)));
    let parts = parts.await.map_err(|error: StoreError| error).unwrap();
    assert!((100..200).contains(&parts), "{parts}");
}

#[tokio::test]
async fn the_rows_decide_what_a_search_shows() {
    let ground = Ground::new().await;
    let task = ground.task("1");
    let named = |text: &str, revise| Ingest { name: Some("plan".into()), revise, ..note(text) };
    let old = task.ingest(named("the plan says harbour", false)).await.unwrap();
    let new = task.ingest(named("the new plan says harbour too", true)).await.unwrap();
    let gone = task.ingest(note("a harbour that goes")).await.unwrap();
    let refs = |found: longhaul_workspace::Found| -> Vec<_> {
        found.hits.into_iter().map(|hit| hit.record.reference).collect()
    };
    // The row is gone, its index is not: as after a crash of something that erases.
    let id = gone.id.clone();
    ground
        .store
        .write::<_, StoreError>(move |tx| tx.execute("delete from records where record_id = ?1", &values![&id]))
        .await
        .unwrap();
    assert_eq!(refs(task.search(&Find::new("harbour", 5)).await.unwrap()), [new.clone()]);
    let all = Find { include_superseded: true, ..Find::new("harbour", 5) };
    let mut both = refs(task.search(&all).await.unwrap());
    both.sort_by(|a, b| a.id.cmp(&b.id));
    let mut expected = vec![old, new];
    expected.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(both, expected);
    assert!(matches!(task.search(&Find::new("x", 0)).await, Err(WorkspaceError::Field { name: "k", .. })));
}

#[tokio::test]
async fn all_tasks_are_searched_and_searching_writes_nothing() {
    let ground = Ground::new().await;
    for (task, text) in
        [("1", "the harbour in the north"), ("UPPER-Case", "the harbour in the south"), ("3", "a mountain")]
    {
        ground.task(task).ingest(note(text)).await.unwrap();
        ground.clock.advance_minutes(1);
    }
    ground.workspace.task(&owner("t", "b", "4")).ingest(note("the harbour of somebody else")).await.unwrap();
    let count = || async {
        let rows = ground.store.read(|read| {
            ["records", "events", "memories", "memory_postings", "memory_access", "record_tasks"]
                .iter()
                .map(|table| read.query_one(&format!("select count(*) from {table}"), &[], |row| row.get::<i64>(0)))
                .collect::<Result<Vec<_>, StoreError>>()
        });
        rows.await.unwrap()
    };
    let before = count().await;
    let found = ground.workspace.user(&scope("t", "a")).search(&Find::new("harbour", 9)).await.unwrap();
    let mut texts: Vec<_> = found.hits.iter().map(|hit| hit.excerpt.as_str()).collect();
    texts.sort_unstable();
    assert_eq!((texts, found.tasks_left_out), (vec!["the harbour in the north", "the harbour in the south"], 0));
    assert_eq!(count().await, before);
    let upper = partition_of(&"task_UPPER-Case".parse().unwrap());
    assert!(upper.as_str().starts_with("ws:x-"), "{upper}");
    assert_eq!(partition_of(&"task_0192ab-c".parse().unwrap()).as_str(), "ws:0192ab-c");
}
