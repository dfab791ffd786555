//! How well memories are found: LoCoMo with the local model, and questions in other languages by words alone.
//!
//! Weights were chosen on the first two conversations; the rows with a bar are those of the issue, over the first five,
//! and the others are shown beside them. No ranking may be worse than the best of its legs.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use super::{Bar, Ours, Row, Stage, progress};

/// Legs by their names in a report.
const LEGS: [&str; 4] = ["words", "words_around", "meaning", "meaning_around"];
/// The conversations on which weights were chosen.
const CHOSEN_ON: usize = 2;

/// A set of questions by words: what it is, its file, and the least part found at the first place, in %.
const BY_WORDS: &[(&str, &str, Option<f64>)] = &[
    ("Chinese (xquad-zh)", "xquad.zh.json", Some(93.0)),
    ("Japanese (JaQuAD dev)", "jaquad.json", None),
    ("Korean (KorQuAD 1.0 dev)", "korquad.json", None),
];

pub(super) fn rows(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    progress("building our program (release)");
    let ours = Ours::build(stage.root, &stage.scratch, "memory_quality")?;
    let mut rows = locomo(stage, &ours)?;
    for (what, file, least) in BY_WORDS {
        rows.extend(by_words(stage, &ours, what, file, *least)?);
    }
    Ok(rows)
}

fn locomo(stage: &Stage<'_>, ours: &Ours) -> anyhow::Result<Vec<Row>> {
    let what = "LoCoMo, first five conversations";
    let found = stage.data("locomo-first5.json").and_then(|file| Ok((file, stage.model()?)));
    let (file, model) = match found {
        Ok(found) => found,
        Err(why) => return Ok(vec![Row::new(what, "%", None).note(why)]),
    };
    progress("LoCoMo (embeds some thousand turns the first time)");
    let answer = ours.ask(&[Path::new("locomo"), &file, model, ours.kept()])?;
    let all = answer["conversations"].as_array().context("no conversations in the answer")?;
    let ids = |part: &[Value]| part.iter().filter_map(|one| one["id"].as_str()).collect::<Vec<_>>().join(", ");
    let mut rows = Vec::new();
    for (k, least) in [(10, 81.0), (20, 87.0), (50, 93.0)] {
        let of = |part: &[Value]| mean(part, "fused", k);
        let row = Row::new(format!("{what}: recall at {k}"), "%", of(all)?).bar(Bar::AtLeast(least));
        let best = LEGS.iter().map(|leg| Ok((mean(all, leg, k)?, *leg))).collect::<anyhow::Result<Vec<_>>>()?;
        let (best, leg) = best.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).context("no legs")?;
        let (chosen, others) = all.split_at(CHOSEN_ON.min(all.len()));
        rows.push(row.note(format!(
            "chosen on {}: {:.1}; reported on {}: {:.1}",
            ids(chosen),
            of(chosen)?,
            ids(others),
            of(others)?
        )));
        let gained = Row::new(format!("{what}: recall at {k} beyond the best single leg"), "points", of(all)? - best);
        rows.push(gained.bar(Bar::AtLeast(0.0)).note(format!("{leg} alone: {best:.1}")));
    }
    Ok(rows)
}

fn by_words(stage: &Stage<'_>, ours: &Ours, what: &str, file: &str, least: Option<f64>) -> anyhow::Result<Vec<Row>> {
    let name = format!("{what}: recall at 1 by words");
    let file = match stage.data(file) {
        Ok(file) => file,
        Err(why) => return Ok(vec![Row::new(name, "%", None).note(why)]),
    };
    progress(what);
    let answer = ours.ask(&[Path::new("squad"), &file])?;
    let one = std::slice::from_ref(&answer);
    let row = Row::new(name, "%", mean(one, "fused", 1)?);
    let row = least.map_or_else(|| row.clone(), |least| row.clone().bar(Bar::AtLeast(least)));
    let mut rows = vec![row, Row::new(format!("{what}: recall at 10 by words"), "%", mean(one, "fused", 10)?)];
    if let (Some(_), Ok(model)) = (least, stage.model()) {
        // The model does not read the language: then words must decide alone.
        let answer = ours.ask(&[Path::new("squad"), &file, model, ours.kept()])?;
        let both = mean(std::slice::from_ref(&answer), "fused", 1)?;
        let words = mean(one, "fused", 1)?;
        let gained =
            Row::new(format!("{what}: recall at 1 with the English model beyond words alone"), "points", both - words);
        rows.push(gained.bar(Bar::AtLeast(0.0)));
    }
    Ok(rows)
}

/// Recall at `k` of one way of ranking in %, over all questions of these reports.
fn mean(reports: &[Value], way: &str, k: u64) -> anyhow::Result<f64> {
    let (mut sum, mut questions) = (0.0, 0.0);
    for report in reports {
        let quality = &report["report"][way];
        let count = quality["questions"].as_f64().with_context(|| format!("no questions by {way}: {report}"))?;
        let places = quality["recall"].as_array().into_iter().flatten();
        let recall = places.filter(|place| place[0].as_u64() == Some(k)).find_map(|place| place[1].as_f64());
        sum += count * recall.unwrap_or(0.0);
        questions += count;
    }
    anyhow::ensure!(questions > 0.0, "no questions by {way}");
    Ok(100.0 * sum / questions)
}
