//! The embedding model beside ONNX Runtime, both on one thread, turn by turn in the same minutes. The peer's packages are
//! installed with the ordinary client into the user's cache folder; without them the rows have no ratio and say why.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::{Bar, Ours, Row, Stage, progress};
use crate::bench::median;

const PACKAGES: &[&str] = &["onnxruntime==1.31.1", "onnx==1.23.2", "numpy", "safetensors", "tokenizers"];
const EXAMPLE: &str = "bench_embedding";
/// Turns of each side; the medians of these are compared.
const TURNS: usize = 5;

pub(super) fn rows(stage: &Stage<'_>) -> anyhow::Result<Vec<Row>> {
    let model = match stage.model() {
        Ok(model) => model,
        Err(why) => return Ok(vec![Row::new("embedding on one thread", "ms", None).note(why)]),
    };
    progress("building our program (release)");
    let program = Ours::build(stage.root, &stage.scratch, EXAMPLE)?;
    let texts = texts().to_string();
    let python = python(&cache()?.join("longhaul/peers/onnx"));
    let peer = |python: &PathBuf| {
        let script = stage.root.join("xtask/src/bench/peers/embedding_onnx.py");
        ask(Command::new(python).arg(script).arg(model).arg(&stage.scratch).arg(&texts))
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        ours.push(program.ask(&[model, Path::new(&texts)])?);
        if let Ok(python) = &python {
            theirs.push(peer(python)?);
        }
    }
    let mut rows = Vec::new();
    for (at, name) in ["15 tokens", "102 tokens"].iter().enumerate() {
        for (kind, what) in [("single_ms", "one text"), ("batch_ms", "32 texts at once")] {
            let of = |side: &[Value]| median(side.iter().filter_map(|turn| turn[kind][at].as_f64()).collect());
            let row = Row::new(format!("embedding on one thread, {name}, {what}"), "ms", of(&ours));
            let row = row.peer("ONNX Runtime", of(&theirs)).bar(Bar::RatioAtMost(2.0));
            rows.push(match &python {
                Ok(_) => row,
                Err(why) => row.exempt(why.clone()),
            });
        }
    }
    if let (Some(ours), Some(theirs)) = (ours.first(), theirs.first()) {
        let row = Row::new("embedding, least cosine with ONNX Runtime's vectors", "", least_cosine(ours, theirs));
        rows.push(row.bar(Bar::AtLeast(0.99999)));
    }
    let of = |field: &str| median(ours.iter().filter_map(|turn| turn[field].as_f64()).collect());
    rows.push(Row::new("embedding, reading the weights", "ms", of("load_ms")));
    rows.push(Row::new("embedding, weights in memory", "MB", of("weights_bytes").map(|bytes| bytes / 1e6)));
    Ok(rows)
}

/// A query of 15 tokens and a text of 102, marks included.
fn texts() -> Value {
    let told = "The user told me that she prefers green tea over coffee because it keeps her calm in the morning.";
    json!(["What did Caroline say about adopting a dog last summer in Paris?", vec![told; 5].join(" ")])
}

fn cache() -> anyhow::Result<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    cache.context("no cache folder: set HOME")
}

/// The interpreter of a virtual environment with the peer's packages, or why there is none.
fn python(folder: &Path) -> Result<PathBuf, String> {
    let install = || -> anyhow::Result<PathBuf> {
        let (python, stamp) = (folder.join("bin/python"), folder.join("installed"));
        if !stamp.is_file() {
            progress(&format!("installing {}", PACKAGES.join(" ")));
            fs::create_dir_all(folder)?;
            run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
            run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(PACKAGES))?;
            fs::write(&stamp, PACKAGES.join(" "))?;
        }
        Ok(python)
    };
    install().map_err(|error| format!("ONNX Runtime cannot be installed: {error:#}"))
}

fn run(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", said.lines().last().unwrap_or_default());
    Ok(output.stdout)
}

/// The JSON on the last line of what a command prints.
fn ask(command: &mut Command) -> anyhow::Result<Value> {
    let output = run(command)?;
    let text = String::from_utf8_lossy(&output);
    serde_json::from_str(text.lines().last().unwrap_or_default()).with_context(|| format!("{command:?}"))
}

fn least_cosine(ours: &Value, theirs: &Value) -> Option<f64> {
    let vectors = |side: &Value| -> Option<Vec<Vec<f64>>> {
        let each = |vector: &Value| vector.as_array()?.iter().map(Value::as_f64).collect();
        side["vectors"].as_array()?.iter().map(each).collect()
    };
    let cosines = vectors(ours)?.into_iter().zip(vectors(theirs)?).map(|(a, b)| {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt()
    });
    cosines.reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_cosine_is_that_of_the_worst_text() {
        let (a, b) = (json!({"vectors": [[1.0, 0.0], [0.6, 0.8]]}), json!({"vectors": [[2.0, 0.0], [0.8, 0.6]]}));
        assert!((least_cosine(&a, &b).unwrap() - 0.96).abs() < 1e-9);
        assert_eq!(least_cosine(&json!({}), &b), None);
    }
}
