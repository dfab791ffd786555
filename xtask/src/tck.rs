//! `cargo xtask tck PATH`: the compatibility kit of A2A (a2aproject/a2a-tck, branch 1.0-dev, a checkout that stays outside
//! of this repository) against a network of ours.
//!
//! Three runs: everything offered; nothing that is optional, for what the kit can only try there; an extension required,
//! for the same reason. Invariant: what none of the runs could try is named, with the reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

/// What is offered, and which of the kit's tests are run then (all, or those of these names).
const RUNS: [(&str, Option<&str>); 3] = [
    ("full", None),
    ("bare", Some("not_supported or unsupported_operation")),
    ("extension", Some("required_extension")),
];
/// Requirements that none of the runs may have left out.
const SKIPS_MAX: usize = 5;

/// One requirement as a run left it: the level, and how it went on each binding.
struct Outcome {
    level: String,
    bindings: BTreeMap<String, String>,
}

/// Runs the kit; tells whether every MUST passed on every binding.
pub(crate) fn run(flags: &[&str], root: &Path) -> anyhow::Result<bool> {
    let (path, statuses) = match flags {
        [path] => (Path::new(path), "1.0.0"),
        [path, "--statuses", statuses] => (Path::new(path), *statuses),
        _ => bail!(
            "cargo xtask tck PATH [--statuses 1.0.0|1.0.1], where PATH is a checkout of a2aproject/a2a-tck, branch 1.0-dev"
        ),
    };
    ensure!(path.join("run_tck.py").is_file(), "{} is no checkout of a2aproject/a2a-tck", path.display());
    ensure!(
        path.join("tests/compatibility").is_dir(),
        "{}: this is another branch of the kit: git checkout 1.0-dev",
        path.display()
    );
    let kit = path.canonicalize()?;
    let done = Command::new("scripts/peers.sh").arg("tck").current_dir(root).status().context("scripts/peers.sh")?;
    ensure!(done.success(), "the kit's libraries could not be installed");
    let python = peers()?.join("a2a-tck/bin/python");
    let subject = subject(root)?;

    let mut all: BTreeMap<String, Outcome> = BTreeMap::new();
    for (profile, only) in RUNS {
        println!("\n== the kit against a network that offers: {profile}");
        let found = one(&kit, &python, &subject, profile, statuses, only)?;
        for (requirement, outcome) in found {
            merge(&mut all, requirement, outcome);
        }
    }
    Ok(summary(&all))
}

fn peers() -> anyhow::Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    Ok(cache.context("neither HOME nor XDG_CACHE_HOME is set")?.join("longhaul/peers"))
}

/// Builds the network that is judged.
fn subject(root: &Path) -> anyhow::Result<PathBuf> {
    let args = ["build", "-p", "longhaul-a2a", "--example", "a2a_subject", "--message-format=json-render-diagnostics"];
    let built = Command::new("cargo").args(args).current_dir(root).stderr(Stdio::inherit()).output()?;
    ensure!(built.status.success(), "the example a2a_subject does not build");
    let messages = String::from_utf8_lossy(&built.stdout).into_owned();
    let programs = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let program = programs.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).last();
    program.context("cargo names no program")
}

/// A process that ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn free_port() -> anyhow::Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string())
}

fn one(
    kit: &Path,
    python: &Path,
    subject: &Path,
    profile: &str,
    statuses: &str,
    only: Option<&str>,
) -> anyhow::Result<BTreeMap<String, Outcome>> {
    let (http, grpc) = (free_port()?, free_port()?);
    let mut started = Command::new(subject)
        .args([&http, &grpc, profile, statuses])
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| subject.display().to_string())?;
    let output = started.stdout.take();
    let _running = Running(started);
    let mut line = String::new();
    BufReader::new(output.context("no output")?).read_line(&mut line)?;
    let url = line.trim().strip_prefix("ready at ").context("the network did not start")?.to_owned();

    let report = kit.join("reports/compatibility.json");
    drop(std::fs::remove_file(&report));
    let mut command = Command::new(python);
    command.args(["run_tck.py", "--sut-host", &url]).current_dir(kit);
    // The kit starts `python` and `pytest` by name.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = python.parent().map(Path::to_path_buf).unwrap_or_default();
    command.env("PATH", std::env::join_paths(std::iter::once(own).chain(std::env::split_paths(&path)))?);
    if let Some(only) = only {
        command.args(["--", "-k", only]);
    }
    // What failed is read from the report; the kit's own verdict has what was skipped for another run in it.
    command.stdin(Stdio::null()).status().context("the kit does not start")?;
    let report = std::fs::read_to_string(&report).context("the kit wrote no report: see its messages above")?;
    outcomes(&serde_json::from_str(&report).context("the kit's report")?)
}

/// What a report says of each requirement.
fn outcomes(report: &Value) -> anyhow::Result<BTreeMap<String, Outcome>> {
    let requirements = report["per_requirement"].as_object().context("the report has no per_requirement")?;
    let read = requirements.iter().map(|(requirement, found)| {
        let bindings = found["transports"].as_object().into_iter().flatten();
        let bindings =
            bindings.map(|(binding, status)| (binding.clone(), status.as_str().unwrap_or("?").to_owned())).collect();
        let level = found["level"].as_str().unwrap_or("?").to_owned();
        (requirement.clone(), Outcome { level, bindings })
    });
    Ok(read.collect())
}

/// What failed once has failed; what was skipped in one run counts as another run found it.
fn merge(all: &mut BTreeMap<String, Outcome>, requirement: String, new: Outcome) {
    let known = all.entry(requirement).or_insert(Outcome { level: new.level, bindings: BTreeMap::new() });
    for (binding, status) in new.bindings {
        let before = known.bindings.get(&binding).map(String::as_str);
        if before != Some("FAIL") && !(before == Some("PASS") && status == "SKIPPED") {
            known.bindings.insert(binding, status);
        }
    }
}

fn summary(all: &BTreeMap<String, Outcome>) -> bool {
    let bindings: BTreeSet<&str> =
        all.values().flat_map(|outcome| outcome.bindings.keys().map(String::as_str)).collect();
    println!("\n{:<12} {:>14} {:>14} {:>14}   passed of tried", "binding", "MUST", "SHOULD", "MAY");
    for binding in bindings {
        let count = |level: &str, status: &str| {
            let of = all.values().filter(|outcome| outcome.level == level);
            of.filter(|outcome| outcome.bindings.get(binding).is_some_and(|found| found == status)).count()
        };
        let shown = ["MUST", "SHOULD", "MAY"].map(|level| {
            let passed = count(level, "PASS");
            format!("{passed} of {}", passed + count(level, "FAIL"))
        });
        println!("{binding:<12} {:>14} {:>14} {:>14}", shown[0], shown[1], shown[2]);
    }
    let with = |status: &str| -> Vec<(&str, String)> {
        let found = all.iter().filter(|(_, outcome)| outcome.level == "MUST").filter_map(|(requirement, outcome)| {
            let on: Vec<&str> = outcome
                .bindings
                .iter()
                .filter(|(_, found)| *found == status)
                .map(|(binding, _)| binding.as_str())
                .collect();
            (!on.is_empty()).then(|| (requirement.as_str(), on.join(", ")))
        });
        found.collect()
    };
    let (failed, skipped) = (with("FAIL"), with("SKIPPED"));
    for (requirement, on) in &failed {
        println!("failed: {requirement} on {on}");
    }
    for (requirement, on) in &skipped {
        println!("skipped in every run: {requirement} on {on}");
    }
    let untried: Vec<&str> = all
        .iter()
        .filter(|(_, outcome)| outcome.level == "MUST" && outcome.bindings.is_empty())
        .map(|(requirement, _)| requirement.as_str())
        .collect();
    println!("the kit has no test for: {}", untried.join(", "));
    failed.is_empty() && skipped.len() <= SKIPS_MAX
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(status: &str) -> BTreeMap<String, Outcome> {
        let report = json!({ "per_requirement": { "A-1": { "level": "MUST", "transports": { "grpc": status } } } });
        outcomes(&report).expect("a report")
    }

    fn over(runs: &[&str]) -> BTreeMap<String, Outcome> {
        let mut all = BTreeMap::new();
        for run in runs {
            report(run).into_iter().for_each(|(requirement, outcome)| merge(&mut all, requirement, outcome));
        }
        all
    }

    #[test]
    fn what_failed_in_one_run_has_failed() {
        assert!(!summary(&over(&["FAIL", "PASS"])));
        assert!(!summary(&over(&["PASS", "FAIL"])));
        assert!(summary(&over(&["SKIPPED", "PASS"])));
        assert_eq!(over(&["PASS", "SKIPPED"])["A-1"].bindings["grpc"], "PASS");
    }
}
