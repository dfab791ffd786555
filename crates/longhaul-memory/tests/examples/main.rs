//! The examples as their readers run them; what they print is in `docs/memory.md`.
//!
//! `cargo test` builds the examples beside this binary; `cargo test --test examples` alone does not build them again.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// What an example prints, if it succeeds.
#[cfg(test)]
fn said(example: &str) -> String {
    let folder = env::current_exe().unwrap().parent().and_then(Path::parent).unwrap().join("examples");
    let program: PathBuf = folder.join(example);
    assert!(program.exists(), "build {} first: cargo build -p longhaul-memory --examples", program.display());
    let output = Command::new(program).env("TZ", "UTC").output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    out
}

/// The page shows what the example prints, letter by letter.
#[cfg(test)]
fn shown_in_the_manual(example: &str) {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/memory.md");
    let manual = fs::read_to_string(manual).unwrap();
    let printed = said(example);
    assert!(manual.contains(&printed), "docs/memory.md does not show what {example} prints:\n{printed}");
}

#[test]
fn remember_and_recall_does_what_the_manual_shows() {
    shown_in_the_manual("remember_and_recall");
}

#[test]
fn facts_over_time_does_what_the_manual_shows() {
    shown_in_the_manual("facts_over_time");
}

#[test]
fn user_memory_does_what_the_manual_shows() {
    shown_in_the_manual("user_memory");
}

#[test]
fn tiers_does_what_the_manual_shows() {
    shown_in_the_manual("tiers");
}
