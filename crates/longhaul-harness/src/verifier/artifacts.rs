//! Checks without a page, held against the project: what a command says, what a file and a table hold. Citations are
//! `citation`'s.

use std::time::Duration;

use longhaul_tools::sandbox::{CommandExit, SandboxCommand};
use serde_json::Value;

use super::{VerifyError, Workbench, citation as cited, flow::Stop, pattern, table::Table};
use crate::checks::{CitationCheck, CommandCheck, FileCheck, TableCheck};

const OUTPUT_BYTES_MAX: usize = 256 * 1024;
const SHOWN_CHARS: usize = 600;

/// Runs the command in the sandbox.
pub(super) async fn command(workbench: &Workbench, check: &CommandCheck) -> Result<String, Stop> {
    let mut argv = vec![check.program.clone()];
    argv.extend(check.arguments.iter().cloned());
    let said = argv.join(" ");
    let limit = Duration::from_millis(check.within_ms);
    let command = SandboxCommand::argv(argv).timeout(limit).output_bytes_max(OUTPUT_BYTES_MAX);
    let output = match workbench.run(command).await {
        None => return Err(Stop::Unverifiable(VerifyError::NeedsProject)),
        Some(Err(error)) => return Err(Stop::Unverifiable(VerifyError::Sandbox(error))),
        Some(Ok(output)) => output,
    };
    let tail = |text: &str| {
        let skip = text.chars().count().saturating_sub(SHOWN_CHARS);
        text.chars().skip(skip).collect::<String>().trim().to_owned()
    };
    let refuse = |why: String| Err(Stop::Refused(format!("`{said}` {why}; it wrote {:?}", tail(&output.output))));
    match output.exit {
        CommandExit::Code(code) if code == check.exit => {}
        CommandExit::Code(code) => return refuse(format!("ended with exit code {code}, expected {}", check.exit)),
        CommandExit::Signal(signal) => return refuse(format!("was killed by signal {signal}")),
        CommandExit::TimedOut => return refuse(format!("was still running after {} ms", check.within_ms)),
        CommandExit::DiskFull => return refuse("was killed because it filled the disk".to_owned()),
        CommandExit::OutOfMemory => return refuse("was killed because it needed too much memory".to_owned()),
    }
    if let Err(why) = pattern::content(&output.output, check.contains.as_deref(), check.output.as_deref()) {
        return refuse(format!("ended as expected, but of what it wrote: {why}"));
    }
    Ok(format!("`{said}` ended with exit code {} after {} ms", check.exit, output.elapsed_ms))
}

/// Looks at the file.
pub(super) fn file(workbench: &Workbench, check: &FileCheck) -> Result<String, String> {
    let path = &check.path;
    match (workbench.read(path)?, check.exists) {
        (None, false) => return Ok(format!("{path} is not there")),
        (None, true) => return Err(format!("there is no {path}")),
        (Some(_), false) => return Err(format!("{path} is there, but must not be")),
        (Some(_), true) => {}
    }
    let needs_text = check.contains.is_some() || check.matches.is_some() || check.at.is_some();
    if !needs_text {
        return Ok(format!("{path} is there"));
    }
    let text = workbench.text(path)?;
    pattern::content(&text, check.contains.as_deref(), check.matches.as_deref())
        .map_err(|why| format!("{path}: {why}"))?;
    if let (Some(at), Some(wanted)) = (&check.at, &check.equals) {
        let value = parse(path, &text)?;
        let found = look_up(&value, at).ok_or_else(|| format!("{path} has nothing at {at:?}"))?;
        if !same(found, wanted) {
            let shown: String = found.to_string().chars().take(200).collect();
            return Err(format!("{path} has {shown} at {at:?}, expected {wanted}"));
        }
    }
    Ok(format!("{path} holds what is expected"))
}

/// JSON, or YAML for a file that says so by its name.
fn parse(path: &str, text: &str) -> Result<Value, String> {
    let is_yaml = path.ends_with(".yaml") || path.ends_with(".yml");
    if is_yaml {
        return serde_yaml_ng::from_str(text).map_err(|error| format!("{path} is not YAML: {error}"));
    }
    serde_json::from_str(text).map_err(|error| format!("{path} is not JSON: {error}"))
}

/// `totals.assets`, `items[0].name`.
fn look_up<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let mut at = value;
    for part in path.split('.') {
        let (name, indexes) = part.split_once('[').map_or((part, ""), |(name, rest)| (name, rest));
        if !name.is_empty() {
            at = at.get(name)?;
        }
        for index in indexes.split('[').filter(|index| !index.is_empty()) {
            at = at.get(index.strip_suffix(']')?.parse::<usize>().ok()?)?;
        }
    }
    Some(at)
}

/// Numbers are the same when they are as numbers; everything else when it is written the same.
fn same(found: &Value, wanted: &Value) -> bool {
    match (found.as_f64(), wanted.as_f64()) {
        (Some(one), Some(other)) => (one - other).abs() <= 1e-9 * one.abs().max(1.0),
        _ => found == wanted,
    }
}

/// Looks at the table.
pub(super) fn table(workbench: &Workbench, check: &TableCheck) -> Result<String, String> {
    let path = &check.path;
    let table = Table::parse(&workbench.text(path)?).map_err(|why| format!("{path}: {why}"))?;
    table.hold(check).map_err(|why| format!("{path}: {why}"))
}

/// Looks at the document's citations.
pub(super) fn citation(workbench: &Workbench, check: &CitationCheck) -> Result<String, String> {
    let document = workbench.text(&check.path)?;
    let names = workbench.names(&check.sources)?;
    let source = |key: &str| -> Option<Result<String, String>> {
        let name =
            names.iter().find(|name| *name == key || name.rsplit_once('.').is_some_and(|(stem, _)| stem == key))?;
        Some(workbench.text(&format!("{}/{name}", check.sources)))
    };
    cited::hold(check, &document, &source).map_err(|why| format!("{}: {why}", check.path))
}
