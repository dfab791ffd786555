//! Versions: what is found, what is reused, what a build that stops leaves behind.

use std::{fs, sync::atomic::Ordering::Relaxed};

use longhaul_knowledge::{BuildProgress, CorpusRef, KnowledgeError, State};
use longhaul_memory::Mode;

use crate::fixture::{Bench, scope};

fn guide(extra: &str) -> String {
    format!(
        "# Guide\n\n## Pausing\n\nAn approval pauses the run until somebody answers.\n\n## Retries\n\nA step is tried three times.\n{extra}"
    )
}

#[tokio::test]
async fn passages_are_found_by_words_and_by_meaning_with_what_to_cite() {
    let bench = Bench::new().await;
    bench.write("docs/guide.md", guide(""));
    bench.write("zh/说明.md", "# 说明\n\n长期任务需要记忆，向量检索与关键词检索要融合。\n");
    let added = bench.add("guide").await;
    assert_eq!((added.version.version, added.version.files, added.version.chunks), (1, 2, 3));
    assert!(added.refused.is_empty() && !added.unchanged && !added.resumed);
    let found = bench.ask("ann", &[], "what pauses a run?").await.unwrap();
    assert_eq!(found[0].citation, "guide@1 docs/guide.md:5");
    assert_eq!(found[0].heading, "Guide › Pausing");
    assert_eq!(found[0].text, "An approval pauses the run until somebody answers.");
    assert_eq!(bench.ask("ann", &["guide"], "记忆").await.unwrap()[0].citation, "guide@1 zh/说明.md:3");
    bench.memory.index_pending().await.unwrap();
    let query = longhaul_knowledge::KnowledgeQuery { text: "retries".to_owned(), k: 1, corpora: Vec::new() };
    let answer = bench.knowledge.search(&scope("ann"), &query).await.unwrap();
    assert_eq!((answer.mode, answer.unembedded, answer.searched), (Mode::Hybrid, 0, vec!["guide@1".to_owned()]));
}

#[tokio::test]
async fn a_new_version_embeds_what_changed_and_the_old_one_still_answers() {
    let bench = Bench::new().await;
    bench.write("guide.md", guide(""));
    bench.write("other.md", "# Other\n\nNothing of this changes.\n");
    bench.write("gone.md", "# Gone\n\nThis file goes away.\n");
    bench.add("guide").await;
    bench.memory.index_pending().await.unwrap();
    assert_eq!(bench.embedder.texts.swap(0, Relaxed), 4);

    let same = bench.add("guide").await;
    assert!(same.unchanged && same.version.version == 1);

    bench.write("guide.md", guide("\n## Timers\n\nA timer wakes a run.\n"));
    bench.write("new.md", "# New\n\nThis file is new.\n");
    fs::remove_file(bench.docs.path().join("gone.md")).unwrap();
    let added = bench.add("guide").await;
    // other.md is taken as it is; of guide.md two chunks are as before.
    assert_eq!((added.version.version, added.version.chunks, added.files_reused, added.vectors_reused), (2, 5, 1, 3));
    bench.memory.index_pending().await.unwrap();
    assert_eq!(bench.embedder.texts.load(Relaxed), 2);

    assert_eq!(bench.ask("ann", &[], "timer").await.unwrap()[0].citation, "guide@2 guide.md:13");
    let old = bench.ask("ann", &["guide@1"], "file goes away").await.unwrap();
    assert_eq!(old[0].citation, "guide@1 gone.md:3");
    let name = "guide".parse().unwrap();
    let difference = bench.knowledge.difference(&scope("ann"), &name, 1, 2).await.unwrap();
    assert_eq!(
        (difference.added, difference.changed, difference.removed, difference.unchanged),
        (vec!["new.md".to_owned()], vec!["guide.md".to_owned()], vec!["gone.md".to_owned()], 1)
    );
}

#[tokio::test]
async fn a_build_that_stops_is_found_by_nobody_and_goes_on_where_it_stopped() {
    let bench = Bench::new().await;
    for n in 0..6 {
        bench.write(&format!("{n}.md"), format!("# File {n}\n\nParagraph of file {n}.\n"));
    }
    bench.add("first").await;
    let stopping = |progress| !matches!(progress, BuildProgress::Reading { done: 3, .. });
    let stopped = bench.knowledge.add(&scope("ann"), &bench.addition("docs"), stopping).await;
    assert!(matches!(stopped, Err(KnowledgeError::Stopped { version: 1, .. })), "{stopped:?}");
    let unfinished = bench.ask("ann", &["docs"], "paragraph").await;
    assert!(
        matches!(&unfinished, Err(KnowledgeError::NoCorpus { there, .. }) if there == &["first"]),
        "{unfinished:?}"
    );
    assert!(bench.ask("ann", &[], "paragraph").await.unwrap().iter().all(|passage| passage.corpus == "first"));

    let other = bench.another().await;
    let added = other.add(&scope("ann"), &bench.addition("docs"), |_| true).await.unwrap();
    assert!(added.resumed);
    assert_eq!((added.version.version, added.version.files, added.version.chunks), (1, 6, 6));
    assert_eq!(bench.ask("ann", &["docs"], "paragraph").await.unwrap().len(), 6);

    // With other files there is nothing to go on with: what was begun is dropped, and its number is not given again.
    let stopping = |progress| !matches!(progress, BuildProgress::Reading { done: 3, .. });
    bench.write("0.md", "# File 0\n\nAnother paragraph.\n");
    bench.knowledge.add(&scope("ann"), &bench.addition("docs"), stopping).await.unwrap_err();
    bench.write("0.md", "# File 0\n\nYet another paragraph.\n");
    let added = bench.add("docs").await;
    assert_eq!((added.version.version, added.version.chunks, added.resumed), (3, 6, false));
    let all = bench.knowledge.versions(&scope("ann")).await.unwrap();
    let docs: Vec<_> =
        all.iter().filter(|version| version.corpus.as_str() == "docs").map(|v| (v.version, v.state)).collect();
    assert_eq!(docs, [(1, State::Ready), (3, State::Ready)]);
}

#[tokio::test]
async fn a_removed_version_is_gone_and_its_number_stays_taken() {
    let bench = Bench::new().await;
    bench.write("a.md", "# A\n\nFirst words.\n");
    bench.add("a").await;
    bench.write("a.md", "# A\n\nSecond words.\n");
    bench.add("a").await;
    let second: CorpusRef = "a@2".parse().unwrap();
    assert_eq!(bench.knowledge.remove(&scope("ann"), &second).await.unwrap(), [2]);
    assert_eq!(bench.ask("ann", &["a"], "words").await.unwrap()[0].citation, "a@1 a.md:3");
    assert!(matches!(bench.ask("ann", &["a@2"], "words").await, Err(KnowledgeError::NoVersion { .. })));
    bench.write("a.md", "# A\n\nThird words.\n");
    assert_eq!(bench.add("a").await.version.version, 3);
    assert_eq!(bench.knowledge.remove(&scope("ann"), &"a".parse().unwrap()).await.unwrap(), [1, 3]);
    assert!(matches!(bench.ask("ann", &["a"], "words").await, Err(KnowledgeError::NoCorpus { .. })));
    let left: i64 = bench
        .store
        .read(|read| read.query_one("SELECT count(*) FROM memories", &[], |row| row.get(0)))
        .await
        .map_err(|error: longhaul_store::StoreError| error)
        .unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn two_at_once_do_not_add_to_one_corpus() {
    let bench = Bench::new().await;
    bench.write("a.md", "# A\n\nWords.\n");
    let other = bench.another().await;
    let mut busy = None;
    let addition = bench.addition("a");
    let (first, second) = {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let mut sender = Some(sender);
        let reading = |progress| {
            if let BuildProgress::Reading { .. } = progress
                && let Some(sender) = sender.take()
            {
                let _ = sender.send(());
            }
            true
        };
        let scope_a = scope("ann");
        let first = bench.knowledge.add(&scope_a, &addition, reading);
        let second = async {
            receiver.await.unwrap();
            other.add(&scope("ann"), &addition, |_| true).await
        };
        tokio::join!(first, second)
    };
    first.unwrap();
    match second {
        Err(KnowledgeError::Busy { name }) => busy = Some(name),
        // The first one may have ended in between.
        Ok(added) => assert!(added.unchanged),
        Err(error) => panic!("{error}"),
    }
    assert!(busy.is_none_or(|name| name == "a"));
}
