//! `report`: one self-contained HTML page of what was built, with the evidence. It reads rows, events and evidence and
//! writes one file; it changes nothing in the store.
//!
//! Invariant: every figure is counted from the project's own records, and whatever came from a model, a person or an
//! application is escaped.

mod chart;
mod data;
mod episodes;
mod gallery;
mod gather;
pub(crate) mod html;
mod ledger;
mod page;
mod pictures;
mod setbacks;
#[cfg(test)]
mod tests;
mod timeline;
mod troubles;
mod verdicts;

use std::path::{Path, PathBuf};

use longhaul_harness::Git;
use serde::Serialize;
use tokio::{fs, io::AsyncWriteExt};

use crate::{Longhaul, LonghaulError};

/// A report that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReportWritten {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
}

impl Longhaul {
    /// Writes the report of the project in `dir` to the file `out`, which is replaced only once the new one is complete.
    ///
    /// # Errors
    /// When there is no project in the folder, the store cannot be read, or the file cannot be written.
    pub async fn report(&self, dir: &Path, out: &Path) -> Result<ReportWritten, LonghaulError> {
        let details = self.details(dir).await?;
        // Without git, or without the folder, the page shows the sessions' words instead of the commits' subjects.
        let log = Git::of_project(&details.project.dir).log(ledger::COMMITS_MAX).await.unwrap_or_default();
        let mut gathered = gather::gather(&details, &log);
        let workspace = self.workspace(None).user(&self.scope);
        pictures::Album::new(&workspace).fill(&mut gathered).await;
        gathered.data.notes.extend(left_out(&gathered.data));
        let html = page::render(&gathered.data);
        let failed = |source| LonghaulError::ReportNotWritten { path: out.to_owned(), source };
        let beside = beside(out, &self.ambient.ids.body());
        if let Err(source) = replace(&beside, out, html.as_bytes()).await {
            let _ = fs::remove_file(&beside).await;
            return Err(failed(source));
        }
        Ok(ReportWritten { path: out.to_owned(), bytes: html.len() as u64 })
    }
}

/// What a long history does not show, in sentences.
fn left_out(data: &data::ReportData) -> Vec<String> {
    let lists = [
        (data.chapters.len(), timeline::ROWS_MAX, "sessions"),
        (data.refusals.len(), setbacks::STORIES_MAX, "refused claims"),
        (data.regressions.len(), setbacks::STORIES_MAX, "regressions"),
        (data.tampers.len(), setbacks::STORIES_MAX, "tamperings"),
        (data.corrections.len(), setbacks::STORIES_MAX, "plans that were sent back"),
        (data.recalls.len(), ledger::RECALLS_MAX, "searches of memory"),
        (data.commits.len(), ledger::COMMITS_MAX, "commits"),
    ];
    let said = |(there, most, what)| format!("Of {there} {what} the newest {most} are shown.");
    lists.into_iter().filter(|(there, most, _)| there > most).map(said).collect()
}

fn beside(out: &Path, unique: &str) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(out.file_name().unwrap_or_default());
    name.push(format!(".{unique}"));
    out.with_file_name(name)
}

async fn replace(beside: &Path, out: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = fs::File::create_new(beside).await?;
    file.write_all(content).await?;
    file.sync_all().await?;
    fs::rename(beside, out).await
}
