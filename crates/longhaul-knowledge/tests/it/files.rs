//! Folders as they are: what is left out, what is refused by name, and what goes on all the same.

use std::{fs, os::unix::fs::symlink};

use longhaul_knowledge::{KnowledgeError, Selection};

use crate::fixture::{Bench, scope};

#[tokio::test]
async fn what_cannot_be_taken_is_named_and_the_rest_goes_on() {
    let bench = Bench::new().await;
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret.txt"), "not asked for").unwrap();
    bench.write("good.md", "# Good\n\nWords to find.\n");
    bench.write(
        "gbk.txt",
        [0xb3, 0xa4, 0xc6, 0xda, 0xc8, 0xce, 0xce, 0xf1, 0xd0, 0xe8, 0xd2, 0xaa, 0xbc, 0xc7, 0xd2, 0xe4, 0xa1, 0xa3],
    );
    bench.write("picture.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0");
    bench.write("empty.txt", "");
    bench.write("broken.pdf", "%PDF-1.4\nnothing");
    symlink(bench.docs.path(), bench.docs.path().join("circle")).unwrap();
    symlink(outside.path().join("secret.txt"), bench.docs.path().join("leak.txt")).unwrap();
    symlink("nowhere", bench.docs.path().join("dangling")).unwrap();
    let added = bench.add("mixed").await;
    assert_eq!((added.version.files, added.version.refused), (2, added.refused.len() as u64));
    let of = |name: &str| added.refused.iter().find(|(file, _)| file == name).map(|(_, problem)| problem.as_str());
    assert!(of("picture.png").unwrap().contains("not text"), "{:?}", added.refused);
    assert_eq!(of("empty.txt"), Some("it is empty"));
    assert!(of("broken.pdf").unwrap().contains("damaged or not a PDF"), "{:?}", added.refused);
    assert!(of("leak.txt").unwrap().contains("a link to a place outside"), "{:?}", added.refused);
    assert!(of("circle").unwrap().contains("in a circle"), "{:?}", added.refused);
    assert!(of("dangling").is_some(), "{:?}", added.refused);
    assert_eq!(bench.ask("ann", &[], "记忆").await.unwrap()[0].citation, "mixed@1 gbk.txt:1");
    assert!(
        bench.ask("ann", &[], "secret asked").await.unwrap().iter().all(|passage| !passage.text.contains("asked for"))
    );
    // The same files, good and bad, are the same version.
    assert!(bench.add("mixed").await.unchanged);
}

#[tokio::test]
async fn ignore_files_globs_and_hidden_files_are_heeded() {
    let bench = Bench::new().await;
    for name in ["a.md", "b.txt", "drafts/c.md", ".hidden.md", "target/d.md"] {
        bench.write(name, format!("# {name}\n\nWords of {name}.\n"));
    }
    bench.write(".gitignore", "target/\n");
    let names = async |corpus: &str, selection: Selection| -> Vec<String> {
        let mut addition = bench.addition(corpus);
        addition.selection = selection;
        bench.knowledge.add(&scope("ann"), &addition, |_| true).await.unwrap();
        let files = bench.knowledge.files(&scope("ann"), &corpus.parse().unwrap()).await.unwrap();
        files.into_iter().map(|file| file.name).collect()
    };
    assert_eq!(names("plain", Selection::default()).await, ["a.md", "b.txt", "drafts/c.md"]);
    let globs = Selection { include: vec!["*.md".into()], exclude: vec!["drafts/**".into()], everything: false };
    assert_eq!(names("globs", globs).await, ["a.md"]);
    let all = names("all", Selection { everything: true, ..Selection::default() }).await;
    assert_eq!(all, [".gitignore", ".hidden.md", "a.md", "b.txt", "drafts/c.md", "target/d.md"]);
}

#[tokio::test]
async fn a_path_that_gives_nothing_makes_no_corpus() {
    let bench = Bench::new().await;
    let add = async |corpus: &str| bench.knowledge.add(&scope("ann"), &bench.addition(corpus), |_| true).await;
    assert!(matches!(add("none").await, Err(KnowledgeError::NothingToAdd { .. })));
    bench.write("only.bin", [0, 1, 2, 3, 0, 0, 9]);
    let refused = add("none").await.unwrap_err().to_string();
    assert!(refused.contains("only.bin: it is not text"), "{refused}");
    assert!(bench.knowledge.versions(&scope("ann")).await.unwrap().is_empty());
    let mut missing = bench.addition("none");
    missing.path = bench.docs.path().join("not-there");
    let refused = bench.knowledge.add(&scope("ann"), &missing, |_| true).await;
    assert!(matches!(refused, Err(KnowledgeError::Path { .. })));
    assert!("No Such Name".parse::<longhaul_knowledge::CorpusName>().is_err());
}

#[tokio::test]
async fn a_large_file_is_written_in_parts() {
    let bench = Bench::new().await;
    let text: String =
        (0..3_000).map(|n| format!("Paragraph {n} tells of subject number {n} in some words.\n\n")).collect();
    let path = bench.write("large.txt", &text);
    let mut addition = bench.addition("large");
    addition.path = path;
    addition.chunk_tokens = 60;
    let added = bench.knowledge.add(&scope("ann"), &addition, |_| true).await.unwrap();
    assert!(added.version.chunks > 500, "{}", added.version.chunks);
    let found = bench.ask("ann", &[], "subject number 2999").await.unwrap();
    assert!(found[0].text.contains("Paragraph 2999 "), "{}", found[0].text);
    assert!(found[0].citation.starts_with("large@1 large.txt:"), "{}", found[0].citation);
}
