//! On what a bench ran: enough to compare two results, or to see that they cannot be compared.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

/// The profile of this program, and of what it builds in its own.
pub(super) const PROFILE: &str = if cfg!(debug_assertions) { "dev" } else { "release" };

/// `profile` is that of the program measured.
pub(super) fn describe(root: &Path, profile: &str) -> Value {
    let said = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).current_dir(root).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed = said("git", &["status", "--porcelain"]).is_some_and(|text| !text.is_empty());
    json!({
        "cpu": value_of("/proc/cpuinfo", "model name"),
        "cores": std::thread::available_parallelism().map(usize::from).ok(),
        "memory": value_of("/proc/meminfo", "MemTotal"),
        "arch": std::env::consts::ARCH,
        "kernel": fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned()),
        "rustc": said("rustc", &["--version"]),
        "profile": profile,
        "commit": said("git", &["rev-parse", "--short", "HEAD"]),
        "uncommitted_changes": changed,
    })
}

fn value_of(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}
