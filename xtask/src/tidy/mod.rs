//! What the compiler and clippy do not see. Every rule takes a file's path and text and gives findings; this file
//! collects the files and prints. A rule that is broken fails `cargo test`, so that no prose has to ask for it.

mod crates;
mod links;
mod rust;
#[cfg(test)]
mod tests;
mod text;

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};

/// One thing to mend.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: PathBuf,
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &Path, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.message)
    }
}

/// A file of the repository: its path from the root, and its text.
pub(crate) struct File {
    path: PathBuf,
    text: String,
}

impl File {
    fn is(&self, extension: &str) -> bool {
        self.path.extension().is_some_and(|found| found == extension)
    }

    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// Prints every finding; true if there is none.
pub(crate) fn run(root: &Path) -> anyhow::Result<bool> {
    let files = files(root)?;
    let findings = findings(root, &files)?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} files, {} to mend", files.len(), findings.len());
    Ok(findings.is_empty())
}

fn findings(root: &Path, files: &[File]) -> anyhow::Result<Vec<Finding>> {
    let mut findings: Vec<Finding> =
        files.iter().flat_map(|file| [text::check(file), rust::check(file)].concat()).collect();
    findings.extend(rust::unused_exceptions(files));
    findings.extend(links::check(root, files));
    findings.extend(crates::check(files)?);
    findings.sort();
    Ok(findings)
}

/// Every text file that git knows or would take; what it ignores is not part of the repository.
fn files(root: &Path) -> anyhow::Result<Vec<File>> {
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").args(args).current_dir(root).output().context("git ls-files")?;
    ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let mut files = Vec::new();
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let path = root.join(name);
        if path.is_symlink() || !path.is_file() {
            continue; // deleted in the work tree, or a link
        }
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(File { path: PathBuf::from(name), text });
        }
    }
    Ok(files)
}
