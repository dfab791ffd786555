//! Links in Markdown files lead somewhere: to a file of the repository, and where they name a heading, to one it has.

use std::path::{Component, Path, PathBuf};

use super::{File, Finding};

pub(super) fn check(root: &Path, files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is("md")) {
        for (number, target) in targets(file) {
            if let Some(message) = broken(root, files, file, &target) {
                findings.push(Finding::new(&file.path, number, message));
            }
        }
    }
    findings
}

/// What `](…)` names, outside code blocks and code spans, with the line.
fn targets(file: &File) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut targets = Vec::new();
    for (number, line) in file.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
        for (at, _) in prose.match_indices("](") {
            let rest = &prose[at + 2..];
            let end = rest.find([')', ' ']).unwrap_or(rest.len());
            targets.push((number, rest[..end].to_owned()));
        }
    }
    targets
}

fn broken(root: &Path, files: &[File], from: &File, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = target.split_once('#').map_or((target, None), |(path, heading)| (path, Some(heading)));
    let path = if path.is_empty() { from.path.clone() } else { beside(&from.path, path) };
    if !root.join(&path).exists() {
        return Some(format!("the link leads nowhere: {target}"));
    }
    let heading = heading?;
    let to = files.iter().find(|file| file.path == path && file.is("md"))?;
    let found = to.lines().any(|(_, line)| line.starts_with('#') && slug(line) == heading);
    (!found).then(|| format!("{} has no heading #{heading}", path.display()))
}

/// `target` as seen from the folder of `from`, without `..`.
fn beside(from: &Path, target: &str) -> PathBuf {
    let mut path = from.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) => path.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    path
}

/// The anchor that renderers give a heading.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
    kept.map(|char| if char == ' ' { '-' } else { char }).collect()
}
