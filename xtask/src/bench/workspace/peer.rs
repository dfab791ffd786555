//! Agently's workspace beside ours, measured by the script in `shared/peers` beside the checkout (or where
//! `LONGHAUL_PEERS` says) in the same call. It owns installing it and reading the lines that the script prints; without
//! the script the rows have no peer and say so.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};

use super::progress;

/// The last release whose workspace has the calls that ours is compared with.
const PACKAGE: &str = "agently==4.1.3.4";

/// What was measured of Agently; nothing where it could not be measured.
#[derive(Debug, Default)]
pub(super) struct Peer {
    pub(super) ingest_per_s: Option<f64>,
    pub(super) checkpoint_per_s: Option<f64>,
    pub(super) scoped_ms: Option<f64>,
    pub(super) all_ms: Option<f64>,
    pub(super) resident_mb: Option<f64>,
    /// What is missing, and why.
    pub(super) notes: Vec<String>,
}

pub(super) fn measured(root: &Path, scratch: &Path) -> Peer {
    match output(root, scratch) {
        Ok(text) => read(&text),
        Err(why) => Peer { notes: vec![format!("Agently was not measured: {why:#}")], ..Peer::default() },
    }
}

fn output(root: &Path, scratch: &Path) -> anyhow::Result<String> {
    let given = std::env::var_os("LONGHAUL_PEERS").map(PathBuf::from);
    let folder = given.or_else(|| Some(root.parent()?.join("shared/peers")));
    let script = folder.map(|folder| folder.join("agently/bench.py")).filter(|script| script.is_file());
    let script = script.context("shared/peers is not beside the checkout")?;
    let python = python()?;
    progress("Agently at 10,000 records: some minutes");
    // It writes into the folder it is started in.
    let mut command = Command::new(python);
    command.arg(script).arg("old").current_dir(scratch).env("PYTHONWARNINGS", "ignore");
    let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the script fails: {}", said.lines().last().unwrap_or("no word of it"));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn python() -> anyhow::Result<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    let folder = cache.context("no cache folder: set HOME")?.join("longhaul/peers/agently");
    let (python, stamp) = (folder.join("bin/python"), folder.join("installed"));
    if std::fs::read_to_string(&stamp).is_ok_and(|text| text == PACKAGE) && python.is_file() {
        return Ok(python);
    }
    progress(&format!("installing {PACKAGE}"));
    let made = Command::new("python3").args(["-m", "venv"]).arg(&folder).status()?;
    ensure!(made.success(), "no virtual environment could be made");
    let installed = Command::new(&python).args(["-m", "pip", "install", "--quiet", PACKAGE]).status()?;
    ensure!(installed.success(), "pip could not install {PACKAGE}");
    std::fs::write(&stamp, PACKAGE)?;
    Ok(python)
}

/// Reads the script's lines, such as `old 10k bc scoped (340.1, 9, …)` and `old ingest/s to 10000 76.2`.
fn read(text: &str) -> Peer {
    let mut peer = Peer::default();
    for line in text.lines().filter_map(|line| line.trim().strip_prefix("old ")) {
        let after = |words: &str| number(line.strip_prefix(words)?);
        peer.ingest_per_s = after("ingest/s to 10000").or(peer.ingest_per_s);
        peer.checkpoint_per_s = after("checkpoint/s @10k").or(peer.checkpoint_per_s);
        peer.scoped_ms = after("10k bc scoped").or(peer.scoped_ms);
        peer.all_ms = after("10k bc unscoped").or(peer.all_ms);
        peer.resident_mb = after("RSS MB").or(peer.resident_mb);
    }
    let measured = [peer.ingest_per_s, peer.checkpoint_per_s, peer.scoped_ms, peer.all_ms, peer.resident_mb];
    if measured.iter().any(Option::is_none) {
        peer.notes.push(format!("the script did not print all of its lines: {}", text.lines().last().unwrap_or("")));
    }
    peer
}

/// The first number of a text, behind white space or a bracket.
fn number(text: &str) -> Option<f64> {
    let text = text.trim_start_matches([' ', '(']);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn the_scripts_lines_are_read() {
        let peer = read(
            "old import+open s 1.31 RSS MB 61\nold ingest/s first 1000 102.0\nold checkpoint/s 36.0\n\
             old 1k bc scoped (29.1, 12, [{'reason': 'budget', 'count': 88}], 100, 47000)\nold RSS MB 70\n\
             old ingest/s to 10000 76.2\nold checkpoint/s @10k 40.3\nold 10k bc scoped (340.1, 39, [], 1000, 46800)\n\
             old 10k bc unscoped (1480.0, 39, [], 10000, 46800)\nold 10k bc rare (12.0, 1)\nold RSS MB 79\n",
        );
        assert_eq!((peer.ingest_per_s, peer.checkpoint_per_s), (Some(76.2), Some(40.3)));
        assert_eq!((peer.scoped_ms, peer.all_ms, peer.resident_mb), (Some(340.1), Some(1_480.0), Some(79.0)));
        assert!(peer.notes.is_empty());
        assert!(read("Traceback\n").notes[0].contains("Traceback"));
    }
}
