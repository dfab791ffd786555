//! Which files a path stands for: a folder's, recursively, by name, without what ignore files exclude.
//!
//! It reads no content. Invariant: each file once, in the order of their paths as bytes; nothing outside of the path
//! that was asked for, wherever links lead; every entry that is left out by an accident is told.

use std::path::{Path, PathBuf};

use ignore::{
    WalkBuilder,
    overrides::{Override, OverrideBuilder},
};

use crate::{KnowledgeError, parse::Refusal};

/// Most files of a corpus.
pub const FILES_MAX: usize = 100_000;

/// Which files of a folder are meant.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Only files that match one of these globs, as in a `.gitignore`: `*.md`, `docs/**`. Empty for all.
    pub include: Vec<String>,
    /// Without what matches one of these.
    pub exclude: Vec<String>,
    /// Take hidden files, and what `.gitignore` and `.ignore` files exclude, as well.
    pub everything: bool,
}

/// A file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Its name within the corpus: the path below the folder that was asked for, with `/`.
    pub(crate) name: String,
}

/// What a walk came to.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    pub(crate) files: Vec<Found>,
    pub(crate) refused: Vec<(String, Refusal)>,
}

/// The files that a path stands for.
pub(crate) fn walk(root: &Path, selection: &Selection) -> Result<Walked, KnowledgeError> {
    let missing = |source| KnowledgeError::Path { path: root.to_owned(), source };
    let real = root.canonicalize().map_err(missing)?;
    let mut walked = Walked::default();
    if real.is_file() {
        let name = root.file_name().unwrap_or(real.as_os_str()).to_string_lossy().into_owned();
        walked.files.push(Found { path: real, name });
        return Ok(walked);
    }
    // Not among the builder's overrides, where a match would also take hidden and ignored files.
    let included = globs(&real, &selection.include)?;
    for entry in builder(&real, selection)?.build() {
        match entry {
            Ok(entry) if !included.is_empty() && !included.matched(entry.path(), false).is_whitelist() => {}
            Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) => {
                take(&mut walked, &real, entry.path())?
            }
            Ok(_) => {}
            Err(error) => walked.refused.push(refused(&real, &error)),
        }
    }
    walked.files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(walked)
}

fn builder(root: &Path, selection: &Selection) -> Result<WalkBuilder, KnowledgeError> {
    let excluded: Vec<String> = selection.exclude.iter().map(|glob| format!("!{glob}")).collect();
    let overrides = globs(root, &excluded)?;
    let mut builder = WalkBuilder::new(root);
    builder
        .overrides(overrides)
        .standard_filters(!selection.everything)
        // A folder of documents need not be a repository for its ignore files to count.
        .require_git(false)
        .git_global(false)
        .parents(false)
        .follow_links(true);
    Ok(builder)
}

fn globs(root: &Path, globs: &[String]) -> Result<Override, KnowledgeError> {
    let mut builder = OverrideBuilder::new(root);
    let wrong =
        |glob: &str, error: ignore::Error| KnowledgeError::Glob { glob: glob.to_owned(), problem: error.to_string() };
    for glob in globs {
        builder.add(glob).map_err(|error| wrong(glob, error))?;
    }
    builder.build().map_err(|error| wrong("", error))
}

fn take(walked: &mut Walked, root: &Path, path: &Path) -> Result<(), KnowledgeError> {
    let name = name(root, path);
    // A link may lead anywhere; what is outside was not asked for.
    match path.canonicalize() {
        Ok(real) if real.starts_with(root) => walked.files.push(Found { path: path.to_owned(), name }),
        Ok(_) => walked.refused.push((name, Refusal::Link { problem: "to a place outside" })),
        Err(error) => walked.refused.push((name, Refusal::Unreadable { problem: error.to_string() })),
    }
    if walked.files.len() > FILES_MAX {
        return Err(KnowledgeError::TooManyFiles { path: root.to_owned(), files_max: FILES_MAX });
    }
    Ok(())
}

fn name(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

#[expect(clippy::wildcard_enum_match_arm, reason = "another library's enum: what is not known here tells itself")]
fn refused(root: &Path, error: &ignore::Error) -> (String, Refusal) {
    match error {
        ignore::Error::WithPath { path, err } => (name(root, path), refused(root, err).1),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => refused(root, err),
        ignore::Error::Loop { child, .. } => (name(root, child), Refusal::Link { problem: "in a circle" }),
        other => (String::new(), Refusal::Unreadable { problem: other.to_string() }),
    }
}
