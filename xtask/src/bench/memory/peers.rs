//! Vector libraries beside us, measured by the script in `shared/peers` beside the checkout in the same call. It owns
//! installing them and reading what the script prints; without the script the rows have no peer and say so.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};

use super::{Stage, progress};

const PACKAGES: &[&str] = &["numpy", "hnswlib", "sqlite-vec", "apsw"];

/// What was measured of others; nothing where they could not be measured.
#[derive(Debug, Default)]
pub(super) struct Peers {
    pub(super) top10_p50_ms: Option<f64>,
    pub(super) top10_p99_ms: Option<f64>,
    pub(super) built_s: Option<f64>,
    pub(super) load_s: Option<f64>,
    pub(super) filtered_p50_ms: Option<f64>,
    pub(super) visible_p50_ms: Option<f64>,
    /// What is missing, and why.
    pub(super) notes: Vec<String>,
}

pub(super) fn measured(stage: &Stage<'_>) -> Peers {
    let text = output(stage);
    match text {
        Ok(text) => read(&text),
        Err(why) => Peers { notes: vec![format!("no peer was measured: {why:#}")], ..Peers::default() },
    }
}

fn output(stage: &Stage<'_>) -> anyhow::Result<String> {
    let script = stage.root.parent().map(|folder| folder.join("shared/peers/memory/ann.py"));
    let script = script.filter(|script| script.is_file()).context("shared/peers is not beside the checkout")?;
    let python = python()?;
    progress("hnswlib and sqlite-vec at 100,000: two minutes or more");
    let mut command = Command::new(python);
    command.arg(script).args(["hnswlib", "sqlitevec"]).env("SCRATCH", &stage.scratch);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "the script fails: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn python() -> anyhow::Result<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    let folder = cache.context("no cache folder: set HOME")?.join("longhaul/peers/vectors");
    let (python, stamp) = (folder.join("bin/python"), folder.join("installed"));
    if !stamp.is_file() {
        progress(&format!("installing {}", PACKAGES.join(" ")));
        let made = Command::new("python3").args(["-m", "venv"]).arg(&folder).status()?;
        ensure!(made.success(), "no virtual environment could be made");
        let installed = Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(PACKAGES).status()?;
        ensure!(installed.success(), "pip could not install {}", PACKAGES.join(" "));
        std::fs::write(&stamp, PACKAGES.join(" "))?;
    }
    Ok(python)
}

/// Reads the script's lines.
fn read(text: &str) -> Peers {
    let mut peers = Peers::default();
    let mut library = "";
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("== ") {
            library = rest.split_whitespace().next().unwrap_or_default();
        }
        let after = |word: &str| number_after(line, word);
        match (library, line) {
            (_, line) if line.starts_with("ERR") => peers.notes.push(format!("{library}: {line}")),
            ("hnswlib", line) if line.starts_with("hnswlib build") => peers.built_s = after("build"),
            ("hnswlib", line) if line.starts_with("top10") => {
                (peers.top10_p50_ms, peers.top10_p99_ms) = (after("p50"), after("p99"));
            }
            ("sqlitevec", line) if line.starts_with("sqlite-vec insert") => peers.load_s = after("insert"),
            ("sqlitevec", line) if line.starts_with("filtered") => peers.filtered_p50_ms = after("p50"),
            ("sqlitevec", line) if line.starts_with("insert->visible") => peers.visible_p50_ms = after("p50"),
            _ => {}
        }
    }
    peers
}

fn number_after(line: &str, word: &str) -> Option<f64> {
    let rest = &line[line.find(word)? + word.len()..];
    let number: String = rest.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn the_scripts_lines_are_read() {
        let peers = read(
            "== hnswlib load 0.1\n hnswlib build 37.0s +rss 170\n  top10 ef64: p50 0.14 ms p99 0.25 ms recall@10 1.000\n\
             == sqlitevec load 0.2\n sqlite-vec insert 36.7s file 160 MB\n  filtered tenant=7 (partition key): p50 0.88 ms p99 1.1 ms recall@10 1.000\n\
             insert->visible (insert1+search): p50 97.00 p99 120.00 ms, misses 0/15\n",
        );
        assert_eq!((peers.built_s, peers.top10_p50_ms, peers.top10_p99_ms), (Some(37.0), Some(0.14), Some(0.25)));
        assert_eq!((peers.load_s, peers.filtered_p50_ms, peers.visible_p50_ms), (Some(36.7), Some(0.88), Some(97.0)));
        assert!(read("== hnswlib load 1\n  ERR ModuleNotFoundError\n").notes[0].contains("ModuleNotFoundError"));
    }
}
