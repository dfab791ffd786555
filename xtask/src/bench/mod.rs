//! Benches: each measures some rows against a bar, prints them for people, and ends with one JSON object on the last line:
//! `{"bench", "rows": [{"what", "unit", "ours", "peer_name", "peer", "ratio", "bar": {"op", "value"}, "ok"}], "machine"}`.
//! A bar with `"of": "ratio"` is one on `ratio`, else on `ours`; `ok` is null, and `note` says why, where it cannot be
//! told on this machine.

mod durable;
pub(crate) mod gateway;
mod harness;
mod large;
mod machine;
mod memory;
mod network;
mod row;
mod verifier;
mod workspace;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

pub(crate) use row::{Bar, Row};

type Bench = fn(&Path, &[&str]) -> anyhow::Result<Vec<Row>>;

/// Every bench by name, with the profile of the program that it measures.
const BENCHES: &[(&str, &str, Bench)] = &[
    ("durable", "release", durable::rows),
    ("gateway", "release", gateway::rows),
    ("harness", machine::PROFILE, harness::rows),
    ("memory", "release", memory::rows),
    ("network", "release", network::rows),
    ("workspace", "release", workspace::rows),
];

/// The names of all benches.
pub(crate) fn names() -> Vec<&'static str> {
    BENCHES.iter().map(|(name, _, _)| *name).collect()
}

/// Measures, while the bench prints its rows; true if no row misses its bar. `flags` are the bench's own.
pub(crate) fn run(name: &str, flags: &[&str], root: &Path) -> anyhow::Result<bool> {
    let Some((name, profile, bench)) = BENCHES.iter().find(|(known, _, _)| *known == name) else {
        bail!("no bench is called {name}; there are: {}", names().join(", "));
    };
    let rows = bench(root, flags)?;
    let ok = rows.iter().all(|row| row.ok() != Some(false));
    let rows: Vec<Value> = rows.iter().map(Row::json).collect();
    println!("{}", json!({ "bench": name, "rows": rows, "machine": machine::describe(root, profile) }));
    Ok(ok)
}

/// Prints rows for people, as soon as they are measured.
fn show(rows: &[Row]) {
    for row in rows {
        println!("{}", row.line());
    }
}

/// Builds the program in this profile, into the target folder that this program lies in.
pub(crate) fn longhaul(root: &Path) -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe().context("where is xtask?")?;
    let target = here.ancestors().nth(2).context("xtask lies in no target folder")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    // As the tests build it: built alone it would have other features, and everything below it would be built again.
    build.args(["build", "--quiet", "--workspace", "--tests", "--bins", "--target-dir"]).arg(target).current_dir(root);
    ensure!(build.status().context("cargo build")?.success(), "longhaul does not build");
    Ok(here.with_file_name("longhaul"))
}

/// The middle of some measurements; the mean of the two middle ones where their number is even.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len() % 2 == 1 { upper } else { (values[middle - 1] + upper) / 2.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), Some(3.0));
        assert_eq!(median(Vec::new()), None);
    }
}
