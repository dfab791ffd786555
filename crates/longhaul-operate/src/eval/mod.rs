//! Evaluation from outside: executions of a store become case files, and the cases of a folder are a gate.
//!
//! It owns which files are cases, what is asked of a program that has the graphs, and the report. What a case is and how
//! it is replayed belongs to `longhaul_durable::replay`. Invariant: a case that could not be read, replayed or checked
//! does not pass.

mod program;
mod report;

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use longhaul_durable::replay::{Case, CaseError, Checked, Counts, Difference, Redaction, check};
use serde::Serialize;

use crate::{OperateError, Operator};
use program::Program;

/// How long a program may take for one case, unless something else is said.
pub const CASE_LIMIT: Duration = Duration::from_secs(120);

/// Why the cases of a folder could not be run at all.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// The folder cannot be read, or a report not written.
    #[error("{}: cannot be read or written", .path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is nothing to run.
    #[error("there is no case in {}: record one with `longhaul eval record EXECUTION --to {}`", .dir.display(), .dir.display())]
    NoCases {
        /// The folder.
        dir: PathBuf,
    },
    /// The program cannot be started.
    #[error("{program}: cannot be started; name a program that calls `Replayer::serve_if_asked`, docs/evaluation.md")]
    Program {
        /// As it was given.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What one case came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseResult {
    /// Its file.
    pub file: PathBuf,
    /// What it is called; the file's name if it could not be read.
    pub name: String,
    /// Whether it passes.
    pub passes: bool,
    /// Whether it was replayed; otherwise only its criteria were checked against what was recorded.
    pub replayed: bool,
    /// The first difference to what was recorded.
    pub difference: Option<Difference>,
    /// Its acceptance criteria.
    pub checked: Vec<Checked>,
    /// Why it could not be read or replayed.
    pub error: Option<String>,
    /// How much was compared.
    pub counts: Option<Counts>,
    /// What else is to be known.
    pub notes: Vec<String>,
    /// How long it took.
    pub elapsed_ms: u64,
}

/// What the cases of a folder came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvalReport {
    /// Version of this form.
    pub v: u32,
    /// The folder or file.
    pub dir: PathBuf,
    /// The program that replayed them, as it was given.
    pub program: Option<String>,
    /// One for each case, by the names of the files.
    pub cases: Vec<CaseResult>,
}

impl EvalReport {
    /// How many pass.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.cases.iter().filter(|case| case.passes).count()
    }

    /// Whether all do.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.passed() == self.cases.len()
    }

    /// Writes it to a file: HTML where its name ends so, Markdown otherwise.
    ///
    /// # Errors
    /// [`EvalError::Io`].
    pub fn write(&self, path: &Path) -> Result<(), EvalError> {
        let html =
            path.extension().is_some_and(|end| end.eq_ignore_ascii_case("html") || end.eq_ignore_ascii_case("htm"));
        let text = if html { report::html(self) } else { report::markdown(self) };
        fs::write(path, text).map_err(|source| EvalError::Io { path: path.to_owned(), source })
    }
}

/// Runs the cases of a folder, or one case file: each is replayed by `program`, which has its graph; without one, only
/// its criteria are checked against what was recorded. Blocks the thread.
///
/// # Errors
/// [`EvalError`]. What is wrong with one case is in its result.
pub fn run_cases(
    dir: &Path,
    program: Option<&[String]>,
    limit: Duration,
    mut done: impl FnMut(&CaseResult),
) -> Result<EvalReport, EvalError> {
    let mut program = match program {
        Some(command) => Some(Program::new(command, limit)?),
        None => None,
    };
    let mut cases = Vec::new();
    for file in files(dir)? {
        let result = one(file, program.as_mut());
        done(&result);
        cases.push(result);
    }
    Ok(EvalReport { v: 1, dir: dir.to_owned(), program: program.map(|program| program.name().to_owned()), cases })
}

/// Replays a case that has just been recorded, and keeps the state that it ends with in it.
///
/// # Errors
/// [`EvalError::Program`].
pub fn complete_case(case: &mut Case, command: &[String], limit: Duration) -> Result<CaseResult, EvalError> {
    let mut program = Program::new(command, limit)?;
    let begun = std::time::Instant::now();
    let mut result = CaseResult::of(PathBuf::new(), case.name.clone());
    match case.to_text().map_err(|error| chain(&error)).and_then(|text| program.replay(text)) {
        Ok(replayed) => {
            case.final_state.clone_from(&replayed.final_state);
            result.fill(replayed);
        }
        Err(error) => result.error = Some(error),
    }
    result.elapsed_ms = millis(begun);
    Ok(result)
}

fn one(file: PathBuf, program: Option<&mut Program>) -> CaseResult {
    let begun = std::time::Instant::now();
    let name = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let mut result = CaseResult::of(file, name);
    match Case::read(&result.file) {
        Ok(case) => {
            result.name.clone_from(&case.name);
            match program {
                None => {
                    result.checked = check(&case.accept, &case);
                    result.passes = result.checked.iter().all(|checked| checked.holds);
                }
                Some(program) => {
                    match case.to_text().map_err(|error| chain(&error)).and_then(|text| program.replay(text)) {
                        Ok(replayed) => result.fill(replayed),
                        Err(error) => result.error = Some(error),
                    }
                }
            }
        }
        Err(error) => result.error = Some(chain(&error)),
    }
    result.elapsed_ms = millis(begun);
    result
}

impl CaseResult {
    fn of(file: PathBuf, name: String) -> Self {
        Self {
            file,
            name,
            passes: false,
            replayed: false,
            difference: None,
            checked: Vec::new(),
            error: None,
            counts: None,
            notes: Vec::new(),
            elapsed_ms: 0,
        }
    }

    fn fill(&mut self, replayed: longhaul_durable::replay::Replayed) {
        self.passes = replayed.passes();
        self.replayed = true;
        self.difference = replayed.difference;
        self.checked = replayed.checked;
        self.counts = Some(replayed.counts);
        self.notes = replayed.notes;
    }
}

fn millis(begun: std::time::Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// The case files that are meant, by their names.
fn files(dir: &Path) -> Result<Vec<PathBuf>, EvalError> {
    if dir.is_file() {
        return Ok(vec![dir.to_owned()]);
    }
    let failed = |source| EvalError::Io { path: dir.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_file() && path.extension().is_some_and(|end| end == "json") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() { Err(EvalError::NoCases { dir: dir.to_owned() }) } else { Ok(files) }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// A name for a case's file: what it is called, without what a file's name cannot have.
#[must_use]
pub fn file_name(name: &str) -> String {
    let mut file: String = name.chars().map(|char| if char.is_alphanumeric() { char } else { '-' }).take(80).collect();
    while file.contains("--") {
        file = file.replace("--", "-");
    }
    let file = file.trim_matches('-');
    format!("{}.json", if file.is_empty() { "case" } else { file })
}

impl Operator {
    /// Makes a case of the execution that this id means: its own, that of one of its steps, or its thread.
    ///
    /// # Errors
    /// [`OperateError::Unknown`], [`OperateError::Case`].
    pub async fn record_case(&self, id: &str, redaction: &Redaction) -> Result<Case, OperateError> {
        let execution = self.execution(id).await?.execution;
        match self.runtime.record_case(&self.scope, &execution.id, redaction).await {
            Ok(case) => Ok(case),
            Err(CaseError::Durable(error)) => Err(error.into()),
            Err(error) => Err(OperateError::Case(Box::new(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_made_of_any_name() {
        assert_eq!(file_name("post order-17"), "post-order-17.json");
        assert_eq!(file_name("审查/报告: 第一"), "审查-报告-第一.json");
        assert_eq!(file_name("../../etc/passwd"), "etc-passwd.json");
        assert_eq!(file_name("//"), "case.json");
    }
}
