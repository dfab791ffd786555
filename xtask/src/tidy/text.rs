//! Rules for every text file: names that say nothing, white space at the end of lines, a last line without an end.

use super::{File, Finding};

/// A file called that becomes the place for whatever has none.
const NAMES: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc"];

pub(super) fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let names = file.path.with_extension("");
    for part in names.components() {
        if let Some(name) = part.as_os_str().to_str().filter(|name| NAMES.contains(name)) {
            findings.push(Finding::new(&file.path, 1, format!("`{name}` says nothing: name the thing")));
        }
    }
    if file.path.file_name().is_some_and(|name| name == "LICENSE" || name == "Cargo.lock") || file.is("snap") {
        return findings; // not written by us
    }
    for (number, line) in file.lines() {
        if line.ends_with([' ', '\t', '\r']) {
            findings.push(Finding::new(&file.path, number, "white space at the end of the line"));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        findings.push(Finding::new(&file.path, file.text.lines().count(), "the last line has no end"));
    }
    findings
}
