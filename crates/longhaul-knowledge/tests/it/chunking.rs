//! Files in, chunks out: where a text is divided, what stands above it, and how it is cited.

use std::path::Path;

use longhaul_knowledge::{Chunk, Refusal, chunks, estimate_tokens, parse};
use proptest::prelude::*;

fn shown(chunks: &[Chunk]) -> String {
    let one = |chunk: &Chunk| {
        let anchor = chunk.anchor.as_ref().map_or_else(String::new, |anchor| format!(" #{anchor}"));
        format!("[{}{}{anchor}]\n{}\n", chunk.path_line(), chunk.place.shown(), chunk.text)
    };
    chunks.iter().map(one).collect()
}

fn divided(name: &str, content: impl AsRef<[u8]>, tokens_max: usize) -> Vec<Chunk> {
    chunks(&parse(Path::new(name), content.as_ref()).unwrap(), tokens_max)
}

fn check(name: &str, content: &str, tokens_max: usize, expected: &str) {
    assert_eq!(shown(&divided(name, content, tokens_max)).trim_end(), expected.trim(), "{name}");
}

#[test]
fn markdown_is_divided_at_its_headings() {
    let text = "---\ntitle: \"The guide\"\n---\n# Install\n\nOne line\nand another.\n\n## Linux `apt`\n\n- first\n- second\n\n```sh\napt install x\n\necho done\n```\n\n## Empty\n\n# Use\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
    check(
        "guide.md",
        text,
        200,
        "
[The guide › Install:6-7]
One line
and another.
[The guide › Install › Linux apt:11-18]
- first
- second

```sh
apt install x

echo done
```
[The guide › Install:20]
Empty
[The guide › Use:24-26]
| a | b |
|---|---|
| 1 | 2 |",
    );
}

#[test]
fn a_table_that_is_too_long_repeats_its_head() {
    let rows: String = (1..=12).map(|n| format!("| name {n} | a value of some length {n} |\n")).collect();
    let chunks = divided("t.md", format!("# T\n\n| name | value |\n|---|---|\n{rows}"), 80);
    assert!(chunks.len() > 2, "{}", shown(&chunks));
    for chunk in &chunks {
        assert!(chunk.text.starts_with("| name | value |\n|---|---|\n| name "), "{}", chunk.text);
        assert!(estimate_tokens(&chunk.searched()) <= 84, "{}", chunk.text);
    }
    assert_eq!(chunks.iter().map(|chunk| chunk.text.lines().count() - 2).sum::<usize>(), 12);
    assert_eq!(chunks[0].place.shown(), format!(":5-{}", 4 + chunks[0].text.lines().count() - 2));
}

#[test]
fn a_long_paragraph_is_divided_between_sentences_and_overlaps_by_a_short_one() {
    let text: String =
        (1..=9).map(|n| format!("Sentence number {n} says a little about subject {n} and ends here.\n")).collect();
    let chunks = divided("a.txt", &text, 80);
    assert!(chunks.len() >= 3, "{}", shown(&chunks));
    for pair in chunks.windows(2) {
        assert!(pair[0].text.ends_with("here.") && pair[1].text.starts_with("Sentence"), "{}", shown(&chunks));
    }
    assert_eq!(chunks.last().unwrap().place.shown().rsplit('-').next(), Some("9"));
    let chinese = "长期任务需要记忆。".repeat(40);
    let chunks = divided("b.txt", &chinese, 100);
    assert!(chunks.len() >= 4 && chunks.iter().all(|chunk| chunk.text.ends_with('。')), "{}", shown(&chunks));
}

#[test]
fn html_gives_its_content_without_navigation() {
    let page = r#"<!doctype html><html><head><title>Vectors — Docs</title><style>p{}</style></head><body>
<nav><ul><li>Home</li></ul></nav>
<main>
<h1 id="intro">Vectors</h1>
<p>A vector index <b>finds</b>
near ones.</p>
<h2><a id="build"></a>Building &amp; tuning¶</h2>
<ul><li>Train <i>lists</i><ul><li>with k-means</li></ul></li><li>Add rows</li></ul>
<pre>fn main() {
    run();
}</pre>
<table><tr><th>Index</th><th>Recall</th></tr><tr><td>HNSW</td><td>0.99</td></tr></table>
<script>track()</script>
</main><footer>© 2026</footer></body></html>"#;
    check(
        "v.html",
        page,
        200,
        "
[Vectors — Docs › Vectors:5-6 #intro]
A vector index finds near ones.
[Vectors — Docs › Vectors › Building & tuning:8-12 #build]
- Train lists
  - with k-means
- Add rows

fn main() {
    run();
}

| Index | Recall |
| HNSW | 0.99 |",
    );
}

#[test]
fn other_texts_are_divided_by_blank_lines() {
    check(
        "r.rst",
        "The title\n=========\n\nWords.\n\nMore\n----\n\nand more.\n",
        200,
        "
[The title:4]
Words.
[The title › More:9]
and more.",
    );
    check(
        "m.rs",
        "fn a() {}\n\nfn b() {}\n",
        200,
        "
[:1-3]
fn a() {}

fn b() {}",
    );
    let csv: String = (0..40).map(|n| format!("{n},some words about it\n")).collect();
    let chunks = divided("d.csv", format!("id,text\n{csv}"), 64);
    assert!(chunks.len() > 3 && chunks.iter().all(|chunk| chunk.text.starts_with("id,text\n")), "{}", shown(&chunks));
}

/// PDFs with text as their makers wrote it are in the suite of corpora; these are small ones made by hand.
fn pdf(text: &str, extra: &str) -> Vec<u8> {
    let stream = format!("BT /F1 12 Tf 72 720 Td ({text}) Tj ET");
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>".to_owned(),
        format!("<< /Length {} >>\nstream\n{stream}\nendstream", stream.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
        "<< /Title (A small paper) >>".to_owned(),
    ];
    let mut file = b"%PDF-1.4\n".to_vec();
    let mut offsets = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        offsets.push(file.len());
        file.extend(format!("{} 0 obj\n{object}\nendobj\n", index + 1).bytes());
    }
    let start = file.len();
    file.extend(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).bytes());
    for offset in offsets {
        file.extend(format!("{offset:010} 00000 n \n").bytes());
    }
    let size = objects.len() + 1;
    file.extend(
        format!("trailer\n<< /Size {size} /Root 1 0 R /Info 6 0 R {extra} >>\nstartxref\n{start}\n%%EOF\n").bytes(),
    );
    file
}

#[test]
fn a_pdf_is_cited_by_its_page() {
    let chunks = divided("paper.pdf", pdf("Durable memory needs one transaction.", ""), 200);
    assert_eq!(shown(&chunks), "[A small paper page 1]\nDurable memory needs one transaction.\n");
    // The name does not matter, the content does.
    assert_eq!(divided("paper", pdf("Words.", ""), 200)[0].text, "Words.");
}

#[test]
fn a_file_that_cannot_be_taken_says_why() {
    let refused = |name: &str, bytes: &[u8]| parse(Path::new(name), bytes).unwrap_err();
    assert_eq!(refused("a.txt", b""), Refusal::Empty);
    assert_eq!(refused("a.md", b" \n\n "), Refusal::Empty);
    assert!(matches!(refused("a.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0"), Refusal::Binary { .. }));
    assert_eq!(refused("s.pdf", &pdf("", "")), Refusal::Scanned { pages: 1 });
    let whole = pdf("Words.", "");
    assert!(matches!(refused("b.pdf", &whole[..whole.len() / 2]), Refusal::BrokenPdf { .. }));
    assert!(matches!(refused("g.pdf", b"%PDF-1.7\nnothing of the sort"), Refusal::BrokenPdf { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the text: no panic, no chunk far above the bound, no word lost, places in order.
    #[test]
    fn no_text_breaks_the_division(text in "(\\PC|\n|\\. |。|# |\\| a \\||```|- ){0,400}", html in any::<bool>()) {
        let name = if html { "x.html" } else { "x.md" };
        if let Ok(document) = parse(Path::new(name), text.as_bytes()) {
            for chunk in chunks(&document, 64) {
                prop_assert!(estimate_tokens(&chunk.text) <= 80, "{} tokens", estimate_tokens(&chunk.text));
            }
        }
        if let Ok(document) = parse(Path::new("x.txt"), text.as_bytes()) {
            let all: String = chunks(&document, 64).iter().map(|chunk| chunk.searched()).collect::<Vec<_>>().join("\n");
            for word in text.split(|char: char| !char.is_alphanumeric()).filter(|word| word.len() > 1 && word.len() < 40) {
                prop_assert!(all.contains(word), "{word:?} is lost");
            }
        }
    }

    /// Whatever the bytes: an answer.
    #[test]
    fn no_bytes_break_a_parser(bytes in proptest::collection::vec(any::<u8>(), 0..300), format in 0..5_usize) {
        let name = ["a.md", "a.html", "a.pdf", "a.csv", "a"][format];
        let _ = parse(Path::new(name), &bytes);
    }
}
