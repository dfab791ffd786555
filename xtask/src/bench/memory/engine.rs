//! How fast memory is at 100,000 real sentences and at a million made-up vectors. It owns the rows; what is measured is said
//! in the program `engine_figures`.

use std::path::Path;

use serde_json::Value;

use super::{Bar, Ours, Row, Stage, peers, progress, sentences};

const REAL: usize = 100_000;
const LARGE: usize = 1_000_000;
/// Sentences beyond those that are kept, to search for.
const QUERIES: usize = 200;

pub(super) fn rows(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    progress("building our programs (release)");
    let ours = Ours::build(stage.root, &stage.scratch, "engine_figures")?;
    let peers = peers::measured(stage);
    let mut rows = match real(stage, &ours)? {
        Ok(measured) => of_real(&measured, &peers),
        Err(why) => vec![Row::new("100,000 real sentences", "ms", None).note(why)],
    };
    rows.extend(of_large(&large(stage, &ours)?));
    rows.extend(peers.notes.into_iter().map(|why| Row::new("peers", "", None).note(why)));
    Ok(rows)
}

/// Measures with sentences embedded by the default model, once; or says why not.
fn real(stage: &Stage<'_>, ours: &Ours) -> anyhow::Result<Result<Value, String>> {
    let model = match stage.model() {
        Ok(model) => model,
        Err(why) => return Ok(Err(why)),
    };
    let texts = match sentences::file(ours.kept(), REAL + QUERIES) {
        Ok(texts) => texts,
        Err(why) => return Ok(Err(format!("{why:#}"))),
    };
    let vectors = texts.with_extension("f32");
    progress("embedding the sentences, once: some minutes");
    Ours::build(stage.root, &stage.scratch, "sentence_vectors")?.ask(&[model, &texts, &vectors])?;
    progress("100,000 real sentences");
    let dir = stage.scratch.join("real");
    let measured = ours.ask(&[&dir, Path::new(&REAL.to_string()), &texts, &vectors])?;
    std::fs::remove_dir_all(&dir)?;
    Ok(Ok(measured))
}

fn large(stage: &Stage<'_>, ours: &Ours) -> anyhow::Result<Value> {
    progress("a million made-up vectors in clusters: ten minutes or more");
    let dir = stage.scratch.join("large");
    let measured = ours.ask(&[&dir, Path::new(&LARGE.to_string())])?;
    std::fs::remove_dir_all(&dir)?;
    Ok(measured)
}

fn ms(measured: &Value, search: &str, which: &str) -> Option<f64> {
    measured[search][which].as_f64().map(|us| us / 1e3)
}

fn of_real(m: &Value, peers: &peers::Peers) -> Vec<Row> {
    let row = |what: &str, unit, value: Option<f64>| Row::new(format!("100,000 × 384: {what}"), unit, value);
    let seconds = |field: &str| m[field].as_f64().map(|ms| ms / 1e3);
    let searchable = seconds("load_ms").zip(seconds("searchable_ms")).map(|(load, first)| load + first);
    let indexed = searchable.zip(seconds("indexed_ms")).map(|(before, rest)| before + rest);
    let idle = ms(m, "meaning", "p99_us");
    let beside = ms(m, "while_writing", "p99_us").zip(idle).map(|(busy, idle)| busy / idle);
    let writes = m["writes_per_second"].as_f64().unwrap_or_default();
    vec![
        row("top 10, p50", "ms", ms(m, "meaning", "p50_us")).bar(Bar::AtMost(1.0)).peer("hnswlib", peers.top10_p50_ms),
        row("top 10, p99", "ms", idle).bar(Bar::AtMost(3.0)).peer("hnswlib", peers.top10_p99_ms),
        row("top 10, recall", "", m["meaning"]["recall"].as_f64()).bar(Bar::AtLeast(0.99)),
        row("hybrid with filter and decay, p50", "ms", ms(m, "hybrid", "p50_us")).bar(Bar::AtMost(10.0)),
        row("hybrid with filter and decay, p99", "ms", ms(m, "hybrid", "p99_us")).bar(Bar::AtMost(30.0)),
        row("2 % filter, p50", "ms", ms(m, "filtered", "p50_us"))
            .bar(Bar::AtMost(0.9))
            .peer("sqlite-vec, partition key", peers.filtered_p50_ms),
        row("2 % filter, recall", "", m["filtered"]["recall"].as_f64()).bar(Bar::AtLeast(1.0)),
        row("loaded and searchable, texts and keywords included", "s", searchable)
            .bar(Bar::AtMost(7.5))
            .peer("sqlite-vec, vectors only", peers.load_s),
        row("fully indexed", "s", indexed).bar(Bar::AtMost(30.0)).peer("hnswlib, vectors only", peers.built_s),
        row("anonymous memory", "MB", m["anonymous_kb"].as_f64().map(|kb| kb / 1e3)).bar(Bar::AtMost(200.0)),
        row("durable write until found, p50", "ms", ms(m, "write_to_found", "p50_us"))
            .peer("sqlite-vec, not synced", peers.visible_p50_ms),
        row("durable write until found, p99", "ms", ms(m, "write_to_found", "p99_us")).bar(Bar::AtMost(5.0)),
        row("search p99 during writes, times the idle p99", "", beside)
            .bar(Bar::AtMost(2.0))
            .note(format!("{writes:.0} writes a second were reached")),
    ]
}

fn of_large(m: &Value) -> Vec<Row> {
    let row = |what: &str, unit, value: Option<f64>| Row::new(format!("1,000,000 × 384: {what}"), unit, value);
    let all = ["load_ms", "searchable_ms", "indexed_ms"].iter().map(|field| m[*field].as_f64()).sum::<Option<f64>>();
    vec![
        row("top 10, p50", "ms", ms(m, "meaning", "p50_us")).bar(Bar::AtMost(8.0)),
        row("top 10, recall", "", m["meaning"]["recall"].as_f64()).bar(Bar::AtLeast(0.98)),
        row("loaded and fully indexed", "min", all.map(|ms| ms / 60e3)).bar(Bar::AtMost(15.0)),
        row("anonymous memory", "MB", m["anonymous_kb"].as_f64().map(|kb| kb / 1e3)).bar(Bar::AtMost(1_000.0)),
    ]
}
