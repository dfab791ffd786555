//! The arrows between crates: flat and one way. A new arrow is a bigger decision than any code, so it is made here, in
//! the open. The table is a copy of what `ARCHITECTURE.md` draws.

use std::path::Path;

use anyhow::Context;

use super::{File, Finding};

/// Each crate with the crates of this repository it may use. A crate may only name crates above it, so there is no circle.
const ARROWS: &[(&str, &[&str])] = &[
    ("longhaul-core", &[]),
    ("longhaul-store", &["core"]),
    ("longhaul-durable-macros", &[]),
    ("longhaul-durable", &["core", "store", "durable-macros"]),
    ("longhaul-model", &["core"]),
    ("longhaul-memory", &["core", "store"]),
    ("longhaul-knowledge", &["core", "store", "memory"]),
    ("longhaul-milvus", &["core", "memory"]),
    ("longhaul-workspace", &["core", "store", "memory"]),
    ("longhaul-operate", &["core", "store", "durable", "memory", "workspace"]),
    ("longhaul-tools", &["core"]),
    ("longhaul-agent", &["core", "store", "durable", "workspace", "memory", "model", "tools"]),
    ("longhaul-harness", &["core", "store", "durable", "workspace", "memory", "model", "tools", "agent"]),
    ("longhaul-server", &["core", "store", "durable", "memory", "workspace", "operate"]),
    ("longhaul-network", &["core", "store"]),
    ("longhaul-mods", &["core", "store", "network", "durable", "workspace", "memory", "model", "tools", "agent"]),
    ("longhaul-transports", &["core", "store", "network", "tools"]),
    ("longhaul-a2a", &["core", "store", "network"]),
    ("longhaul-libp2p", &["core", "store", "network"]),
    (
        "longhaul",
        &[
            "core",
            "store",
            "durable",
            "model",
            "memory",
            "knowledge",
            "milvus",
            "workspace",
            "operate",
            "tools",
            "agent",
            "harness",
            "server",
            "network",
            "mods",
            "transports",
            "a2a",
            "libp2p",
        ],
    ),
    ("longhaul-cli", &["longhaul"]),
    ("longhaul-testbed", &[]),
    ("xtask", &[]),
];

pub(super) fn check(files: &[File]) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        let manifest: toml::Table = file.text.parse().with_context(|| file.path.display().to_string())?;
        if let Some(name) = manifest.get("package").and_then(|package| package.get("name")?.as_str()) {
            findings.extend(check_one(&file.path, name, &manifest));
        }
    }
    Ok(findings)
}

fn check_one(path: &Path, name: &str, manifest: &toml::Table) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |message: String| findings.push(Finding::new(path, 1, message));
    if path.parent().and_then(Path::file_name).is_none_or(|folder| folder != name) {
        find(format!("the folder of crate {name} has another name"));
    }
    if manifest.get("lints").and_then(|lints| lints.get("workspace")?.as_bool()) != Some(true) {
        find("does not take the workspace's lints: add `[lints] workspace = true`".to_owned());
    }
    let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
        find(format!("crate {name} is not in the table of xtask/src/tidy/crates.rs: which crates may it use?"));
        return findings;
    };
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let Some(dependencies) = manifest.get(section).and_then(toml::Value::as_table) else { continue };
        for (dependency, how) in dependencies {
            if how.get("workspace").and_then(toml::Value::as_bool) != Some(true) {
                find(format!("{dependency}: its version belongs into the workspace's Cargo.toml"));
            }
            let ours = ARROWS.iter().any(|(known, _)| known == dependency);
            let short = dependency.strip_prefix("longhaul-").unwrap_or(dependency);
            if ours && section != "dev-dependencies" && !allowed.contains(&short) {
                find(format!("{name} may not use {dependency}: the arrows are in xtask/src/tidy/crates.rs"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_arrow_points_down_the_table() {
        for (index, (name, allowed)) in ARROWS.iter().enumerate() {
            for target in *allowed {
                let full = if *target == "longhaul" { "longhaul".to_owned() } else { format!("longhaul-{target}") };
                let at = ARROWS.iter().position(|(known, _)| *known == full);
                assert!(at.is_some_and(|at| at < index), "{name} -> {target}");
            }
        }
    }
}
