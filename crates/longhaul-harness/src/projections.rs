//! The four files that show the canonical rows inside the project: `feature_list.json`, `feature_checks.json`,
//! `progress.json` and `progress.md`.
//!
//! Invariant 1, the folder's half: these files follow the store, never the reverse. [`Projections::restore`] puts back
//! whatever else changed them, and says what that was.

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    features::Feature,
    folder,
    history::{Purpose, SessionEntry, SessionOutcome},
    project::Project,
};

pub(crate) const FEATURE_LIST: &str = "feature_list.json";
pub(crate) const FEATURE_CHECKS: &str = "feature_checks.json";
const PROGRESS: &str = "progress.json";
const PROGRESS_TEXT: &str = "progress.md";

/// Most of a changed file that is looked at to say what was done to it, in bytes beyond its proper length.
const READ_BYTES_MAX: u64 = 1024 * 1024;
/// How often a file is put in its place while something in the sandbox puts others there.
const TRIES_MAX: u32 = 64;

/// The guarded files' names. What differs in them is never somebody's work.
pub(crate) const GUARDED: [&str; 4] = [FEATURE_LIST, FEATURE_CHECKS, PROGRESS, PROGRESS_TEXT];

/// The files' contents as the store has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projections {
    files: Vec<(&'static str, String)>,
}

/// One file that something other than the harness had changed, and that is as it was again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undone {
    /// Its name in the project.
    pub path: String,
    /// What had been done to it.
    pub how: String,
}

/// A projection could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{path} could not be written; make the folder writable and give it space, then run the command again")]
pub struct ProjectionError {
    /// The file.
    pub path: PathBuf,
    #[source]
    source: io::Error,
}

impl Projections {
    /// Renders the rows.
    #[must_use]
    pub fn render(project: &Project, features: &[Feature], sessions: &[SessionEntry]) -> Self {
        Self {
            files: vec![
                (FEATURE_LIST, pretty(&feature_list(features))),
                (FEATURE_CHECKS, pretty(&feature_checks(project, features))),
                (PROGRESS, pretty(&progress_json(project, features, sessions))),
                (PROGRESS_TEXT, progress_markdown(project, features, sessions)),
            ],
        }
    }

    /// Writes the files.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), ProjectionError> {
        self.restore(dir).map(drop)
    }

    /// Makes every file equal the rows again and tells which were not.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn restore(&self, dir: &Path) -> Result<Vec<Undone>, ProjectionError> {
        let mut undone = Vec::new();
        for (name, wanted) in &self.files {
            let path = dir.join(name);
            let Some(how) = difference(name, &path, wanted) else { continue };
            replace(dir, &path, wanted).map_err(|source| ProjectionError { path, source })?;
            undone.push(Undone { path: (*name).to_owned(), how });
        }
        Ok(undone)
    }
}

/// What had been done to a file; none when it is as it should be.
fn difference(name: &str, path: &Path, wanted: &str) -> Option<String> {
    let Some((content, found)) = read_plain_file(path, wanted.len() as u64) else {
        return Some("removed, or replaced by something that is no file".to_owned());
    };
    if content != wanted.as_bytes() {
        return Some(describe_change(name, &content, wanted));
    }
    let mode = found.mode() & 0o7777;
    if mode & 0o7113 != 0 || mode & 0o600 != 0o600 {
        return Some(format!("its permissions changed to {mode:o}"));
    }
    (found.nlink() > 1).then(|| "given a second name".to_owned())
}

/// The content and what the file is, if the path is a regular file and no link. Of a file that is longer than it should
/// be, only a part is read.
fn read_plain_file(path: &Path, wanted_bytes: u64) -> Option<(Vec<u8>, fs::Metadata)> {
    // A program in the sandbox may put a link or a pipe there at this moment: neither is followed nor waited for.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
    let found = file.metadata().ok().filter(fs::Metadata::is_file)?;
    let mut content = Vec::new();
    file.take(wanted_bytes + READ_BYTES_MAX).read_to_end(&mut content).ok()?;
    Some((content, found))
}

/// Puts a new file in the path's place, whatever is there now: a link, a folder, a file without permission.
fn replace(dir: &Path, path: &Path, content: &str) -> io::Result<()> {
    // Where the sandbox cannot write, so that what takes the place is what we wrote; the repository, if there is one.
    let git = dir.join(".git");
    let (safe, prefix) = if git.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        (git.as_path(), "longhaul-new-")
    } else {
        (dir, ".longhaul-new-")
    };
    let mode = fs::Permissions::from(std::os::unix::fs::PermissionsExt::from_mode(0o644));
    let mut file = tempfile::Builder::new().prefix(prefix).permissions(mode).tempfile_in(safe)?;
    file.write_all(content.as_bytes())?;
    let mut file = file.into_temp_path();
    for _ in 0..TRIES_MAX {
        if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
            folder::remove_folder(path)?;
        }
        match file.persist(path) {
            Ok(()) => return Ok(()),
            Err(refused) if refused.error.kind() == io::ErrorKind::IsADirectory => file = refused.path,
            Err(refused) => return Err(refused.error),
        }
    }
    Err(io::Error::other("something in the folder puts a folder in its place again and again"))
}

fn describe_change(name: &str, found: &[u8], wanted: &str) -> String {
    let Ok(after) = serde_json::from_slice::<Value>(found) else {
        return if name.ends_with(".json") { "no longer JSON".to_owned() } else { "edited".to_owned() };
    };
    if name != FEATURE_LIST {
        return "edited".to_owned();
    }
    let before: Value = serde_json::from_str(wanted).unwrap_or_default();
    let (Some(before), Some(after)) = (before.as_array(), after.as_array()) else {
        return "no longer a list".to_owned();
    };
    let same_id = |a: &Value, b: &Value| a.get("id") == b.get("id");
    if let Some(gone) = before.iter().find(|b| !after.iter().any(|a| same_id(a, b))) {
        return format!("{} deleted", id_of(gone));
    }
    for b in before {
        let Some(a) = after.iter().find(|a| same_id(a, b)) else { continue };
        if a.get("passes") != b.get("passes") {
            return format!("passes of {} changed to {}", id_of(b), a.get("passes").unwrap_or(&Value::Null));
        }
        if a != b {
            return format!("{} reworded", id_of(b));
        }
    }
    if after.len() > before.len() { "entries added".to_owned() } else { "reordered or reformatted".to_owned() }
}

fn id_of(entry: &Value) -> &str {
    entry.get("id").and_then(Value::as_str).unwrap_or("an entry")
}

fn feature_list(features: &[Feature]) -> Value {
    features
        .iter()
        .map(|f| {
            json!({
                "id": f.id(),
                "category": f.definition.category,
                "description": f.definition.description,
                "steps": f.definition.steps,
                "passes": f.standing.passes,
            })
        })
        .collect()
}

fn feature_checks(project: &Project, features: &[Feature]) -> Value {
    let entries: Vec<Value> = features
        .iter()
        .map(|f| {
            json!({
                "id": f.id(),
                "depends_on": f.definition.depends_on,
                "hash": f.definition.checks_hash,
                "checks": f.definition.checks,
            })
        })
        .collect();
    json!({ "schema": 1, "task": project.owner.task, "project": project.brief, "features": entries })
}

fn progress_json(project: &Project, features: &[Feature], sessions: &[SessionEntry]) -> Value {
    let passing = features.iter().filter(|f| f.standing.passes).count();
    let parked: Vec<_> = features.iter().filter(|f| f.standing.parked).map(Feature::id).collect();
    let broken: Vec<_> = features.iter().filter(|f| f.standing.broken.is_some()).map(Feature::id).collect();
    json!({
        "schema": 1,
        "task": project.owner.task,
        "request": project.request,
        "passing": passing,
        "total": features.len(),
        "parked": parked,
        "broken": broken,
        // A commit cannot name itself: the newest entry's commit is the one that holds this file.
        "sessions": sessions.iter().map(|s| json!({
            "session": s.number,
            "purpose": s.purpose,
            "outcome": s.outcome,
            "summary": s.summary,
            "refused_claims": s.refused_claims,
        })).collect::<Vec<_>>(),
    })
}

fn progress_markdown(project: &Project, features: &[Feature], sessions: &[SessionEntry]) -> String {
    let passing = features.iter().filter(|f| f.standing.passes).count();
    let mut text = format!(
        "<!-- generated from progress.json and feature_list.json; edits are undone -->\n# Progress\n\n{}\n\n\
         {passing} of {} features pass.\n\n## Features\n\n",
        one_line(&project.request),
        features.len()
    );
    for f in features {
        let mark = if f.standing.passes { "x" } else { " " };
        let note = match (&f.standing.broken, f.standing.parked) {
            (Some(_), _) => " (broken)",
            (None, true) => " (parked)",
            (None, false) => "",
        };
        text.push_str(&format!("- [{mark}] {} {}{note}\n", f.id(), one_line(&f.definition.description)));
    }
    text.push_str("\n## Sessions\n\n");
    for s in sessions {
        text.push_str(&format!("- {}\n", session_line(s)));
    }
    text
}

/// One session in one line, as people and prompts read it.
#[must_use]
pub(crate) fn session_line(s: &SessionEntry) -> String {
    let what = match &s.purpose {
        Purpose::Initialize => "initializer".to_owned(),
        Purpose::Build { feature } => format!("session {}, {feature}", s.number),
        Purpose::Repair { feature } => format!("session {}, repair of {feature}", s.number),
    };
    let outcome = match s.outcome {
        SessionOutcome::Planned => "planned",
        SessionOutcome::Verified => "verified",
        SessionOutcome::HandedOver => "handed over unfinished",
    };
    format!("{what}, {outcome}: {}", one_line(&s.summary))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn pretty(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("a JSON value can be printed");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests;
