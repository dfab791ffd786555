//! Benches: each measures some rows against a bar, prints them for people, and ends with one JSON object on the last line:
//! `{"bench", "rows": [{"what", "unit", "ours", "peer_name", "peer", "ratio", "bar": {"op", "value"}, "ok"}], "machine"}`.

mod harness;
mod machine;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

type Bench = fn(&Path) -> anyhow::Result<Vec<Row>>;

/// Every bench by name.
const BENCHES: &[(&str, Bench)] = &[("harness", harness::rows)];

/// What a measured number must hold.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bar {
    /// At most this.
    AtMost(f64),
    /// At least this. (For rates and ratios.)
    #[cfg_attr(not(test), expect(dead_code, reason = "the benches so far only have upper bounds"))]
    AtLeast(f64),
}

/// One number.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// What was measured, as the promise words it.
    pub(crate) what: String,
    /// `ms`, `MB`, `count`.
    pub(crate) unit: &'static str,
    /// The number, in that unit.
    pub(crate) ours: f64,
    /// Who else was measured, in the same run on the same machine.
    pub(crate) peer: Option<(String, f64)>,
    /// The bar, if one was set.
    pub(crate) bar: Option<Bar>,
}

impl Row {
    fn ok(&self) -> bool {
        match self.bar {
            None => true,
            Some(Bar::AtMost(value)) => self.ours <= value,
            Some(Bar::AtLeast(value)) => self.ours >= value,
        }
    }

    fn json(&self) -> Value {
        let bar = self.bar.map(|bar| match bar {
            Bar::AtMost(value) => json!({ "op": "<=", "value": value }),
            Bar::AtLeast(value) => json!({ "op": ">=", "value": value }),
        });
        let (peer_name, peer) = self.peer.clone().map_or((None, None), |(name, value)| (Some(name), Some(value)));
        let ratio = peer.filter(|peer| *peer != 0.0).map(|peer| self.ours / peer);
        json!({
            "what": self.what, "unit": self.unit, "ours": self.ours, "peer_name": peer_name, "peer": peer,
            "ratio": ratio, "bar": bar, "ok": self.ok(),
        })
    }
}

/// The names of all benches.
pub(crate) fn names() -> Vec<&'static str> {
    BENCHES.iter().map(|(name, _)| *name).collect()
}

/// Measures; true if every row holds its bar.
pub(crate) fn run(name: &str, root: &Path) -> anyhow::Result<bool> {
    let Some((name, bench)) = BENCHES.iter().find(|(known, _)| *known == name) else {
        bail!("no bench is called {name}; there are: {}", names().join(", "));
    };
    let rows = bench(root)?;
    for row in &rows {
        println!("{}", line(row));
    }
    let ok = rows.iter().all(Row::ok);
    let rows: Vec<Value> = rows.iter().map(Row::json).collect();
    println!("{}", json!({ "bench": name, "rows": rows, "machine": machine::describe(root) }));
    Ok(ok)
}

fn line(row: &Row) -> String {
    let bar = match row.bar {
        None => String::new(),
        Some(Bar::AtMost(value)) => format!("  (at most {value} {})", row.unit),
        Some(Bar::AtLeast(value)) => format!("  (at least {value} {})", row.unit),
    };
    let peer = row.peer.as_ref().map(|(name, value)| format!("  {name}: {value:.2} {}", row.unit)).unwrap_or_default();
    let verdict = if row.ok() { "ok  " } else { "MISS" };
    format!("{verdict} {:<56} {:>10.2} {}{bar}{peer}", row.what, row.ours, row.unit)
}

/// Builds the program in this profile, into the target folder that this program lies in.
pub(crate) fn longhaul(root: &Path) -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe().context("where is xtask?")?;
    let target = here.ancestors().nth(2).context("xtask lies in no target folder")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", "longhaul-cli", "--target-dir"]).arg(target).current_dir(root);
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
    fn a_row_says_whether_it_holds_its_bar() {
        let row =
            |ours, bar| Row { what: "x".into(), unit: "ms", ours, peer: Some(("peer".into(), 4.0)), bar: Some(bar) };
        assert!(row(2.0, Bar::AtMost(2.0)).ok() && !row(2.1, Bar::AtMost(2.0)).ok());
        assert!(row(2.0, Bar::AtLeast(2.0)).ok() && !row(1.9, Bar::AtLeast(2.0)).ok());
        let expected = json!({"what": "x", "unit": "ms", "ours": 2.0, "peer_name": "peer", "peer": 4.0, "ratio": 0.5,
            "bar": {"op": "<=", "value": 2.0}, "ok": true});
        assert_eq!(row(2.0, Bar::AtMost(2.0)).json(), expected);
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), Some(3.0));
        assert_eq!(median(Vec::new()), None);
    }
}
