//! The examples as their readers run them.
//!
//! `cargo test` builds the examples beside this binary; `cargo test --test examples` alone does not build them again.

use std::{
    env,
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

#[cfg(test)]
fn check(example: &str, parts: &[&str]) {
    let printed = said(example);
    for part in parts {
        assert!(printed.contains(part), "{part:?} is missing from\n{printed}");
    }
}

#[test]
fn what_is_remembered_is_found_and_mistakes_are_refused() {
    check(
        "remember_and_recall",
        &[
            "  Ada prefers tea\n",
            "  数据库连接池耗尽,登录变慢\n",
            "refused: no memory has the field `sevrity`; the fields known here are: severity\n",
            "until it expires: true\n",
        ],
    );
}

#[test]
fn facts_are_asked_for_in_both_times() {
    check(
        "facts_over_time",
        &[
            "where does she live now: Ada lives in Porto\n",
            "where did she live in 2020: Ada lives in Lyon\n",
            "where did she live in June 2024: Ada lives in Porto\n",
            "where did we believe in June 2024 that she lived: Ada lives in Lyon\n",
            "everything we ever believed: Ada lives in Lyon; Ada lives in Porto\n",
        ],
    );
}

#[test]
fn what_is_known_of_a_user_has_versions() {
    check("user_memory", &["Works on a compiler in Rust", "version 3: Prefers short answers with an example\n"]);
}

#[test]
fn what_nobody_used_becomes_cold_and_is_found_and_forgotten() {
    check("tiers", &["1 became cold", "would be erased: 3\n", "erased: 2 rows, 1 cold rows\n", "left: 0\n"]);
}
