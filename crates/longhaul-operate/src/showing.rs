//! What a reference refers to, shown so that a terminal takes no harm, or saved.
//!
//! It owns what may be printed. Invariants: content is shown only after its digest was checked; nothing in it can move
//! a cursor, change a title or turn the direction of writing; a file is there whole or not at all.

use std::path::{Path, PathBuf};

use longhaul_core::{Digest, MemoryId, RecordId};
use longhaul_durable::{StepId, WaitId};
use longhaul_store::{StoreError, values};
use longhaul_workspace::{RecordRef, Wanted, WorkspaceError};
use serde::Serialize;
use tokio::{fs, io::AsyncWriteExt};

use crate::{Fact, OperateError, Operator, rows};

/// Largest content that is printed.
pub const SHOW_BYTES_MAX: u64 = 1024 * 1024;

const LOOKED_FOR: &str = "records (rec_…, rec_…@sha256:… or their JSON), contents (sha256:…), memories (mem_…), results of \
                          steps (exec_…/node/1/name#1) and what waits (wait_…) show";

/// What a reference refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// The id of what is shown.
    pub id: String,
    /// `record`, `memory`, `step`, `wait`.
    pub kind: &'static str,
    /// What is known of it.
    pub facts: Vec<Fact>,
    /// The content, made harmless; nothing where it was saved.
    pub content: Option<String>,
    /// Where it was saved.
    pub saved: Option<PathBuf>,
}

impl Operator {
    /// Shows what a reference refers to, or saves it to a file that is not there yet.
    ///
    /// # Errors
    /// [`OperateError::Unknown`]; [`OperateError::NotText`] and [`OperateError::TooLong`] for what can only be saved;
    /// [`OperateError::NotSaved`]; [`OperateError::Workspace`] when the content is not what was kept.
    pub async fn show(&self, reference: &str, out: Option<&Path>) -> Result<Shown, OperateError> {
        if let Some((id, digest)) = self.record_meant(reference).await? {
            return self.show_record(&id, digest, out).await;
        }
        let (kind, id, value) = if let Ok(step) = reference.parse::<StepId>() {
            let result = match self.runtime.step_result(&self.scope, &step).await {
                Err(longhaul_durable::DurableError::NoExecution { .. }) => None,
                found => found?,
            };
            ("step", step.to_string(), result.ok_or_else(|| self.unknown(reference, LOOKED_FOR))?)
        } else if let Ok(wait) = reference.parse::<WaitId>() {
            let found = match self.runtime.wait(&self.scope, &wait).await {
                Err(longhaul_durable::DurableError::NoWait { .. }) => return Err(self.unknown(reference, LOOKED_FOR)),
                found => found?,
            };
            ("wait", wait.to_string(), found.payload.to_string())
        } else if let Ok(memory) = reference.parse::<MemoryId>() {
            let content = self.memory_content(&memory).await?.ok_or_else(|| self.unknown(reference, LOOKED_FOR))?;
            ("memory", memory.to_string(), content)
        } else {
            return Err(self.unknown(reference, LOOKED_FOR));
        };
        let mut shown = Shown { id, kind, facts: Vec::new(), content: None, saved: None };
        match out {
            Some(out) => {
                save(out, &mut value.as_bytes()).await?;
                shown.saved = Some(out.to_owned());
            }
            None => shown.content = Some(harmless(&value)),
        }
        Ok(shown)
    }

    async fn show_record(
        &self,
        id: &RecordId,
        digest: Option<Digest>,
        out: Option<&Path>,
    ) -> Result<Shown, OperateError> {
        let unknown = || self.unknown(id.as_str(), LOOKED_FOR);
        let workspace = self.workspace().await?.ok_or_else(unknown)?;
        let reference = digest.map(|digest| RecordRef { id: id.clone(), digest });
        let wanted = reference.as_ref().map_or(Wanted::Id(id), Wanted::Ref);
        let record = match workspace.get(wanted).await {
            Err(WorkspaceError::NoSuchRecord(_)) => return Err(unknown()),
            found => found?,
        };
        let mut facts = vec![
            Fact::new("task", record.owner.task.to_string()),
            Fact::new("collection", record.collection.clone()),
            Fact::new("kind", record.kind.to_string()),
            Fact::new("type", record.media_type.clone()),
            Fact::new("summary", record.summary.clone()),
            Fact::new("source", record.source.clone()),
            Fact::new("digest", record.reference.digest.to_string()),
            Fact::new("bytes", record.size.to_string()),
        ];
        if let Some(newer) = &record.superseded_by {
            facts.push(Fact::new("superseded", newer.to_string()));
        }
        let mut shown = Shown { id: id.to_string(), kind: "record", facts, content: None, saved: None };
        if let Some(out) = out {
            let (_, mut reader) = workspace.open(wanted).await?;
            save(out, &mut reader).await?;
            shown.saved = Some(out.to_owned());
            return Ok(shown);
        }
        if record.size > SHOW_BYTES_MAX {
            return Err(OperateError::TooLong { id: id.to_string(), bytes: record.size, bytes_max: SHOW_BYTES_MAX });
        }
        let (_, bytes) = workspace.read(wanted).await?;
        match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => shown.content = Some(harmless(&text)),
            _ => {
                let (bytes, media_type) = (record.size, record.media_type);
                return Err(OperateError::NotText { id: id.to_string(), media_type, bytes });
            }
        }
        Ok(shown)
    }

    /// The record that is meant, with the content that it must have.
    async fn record_meant(&self, reference: &str) -> Result<Option<(RecordId, Option<Digest>)>, OperateError> {
        if let Ok(id) = reference.parse() {
            return Ok(Some((id, None)));
        }
        if let Ok(RecordRef { id, digest }) = serde_json::from_str(reference) {
            return Ok(Some((id, Some(digest))));
        }
        if let Some((id, digest)) = reference.split_once('@')
            && let (Ok(id), Ok(digest)) = (id.parse(), digest.parse())
        {
            return Ok(Some((id, Some(digest))));
        }
        let Ok(digest) = reference.parse::<Digest>() else { return Ok(None) };
        let (scope, has) = (self.scope.clone(), self.workspace().await?.is_some());
        let read = self.store.read(move |read| {
            if !has {
                return Ok(None);
            }
            read.query_optional(
                "SELECT record_id FROM records WHERE tenant_id = ?1 AND user_id = ?2 AND digest = ?3
                 ORDER BY created_at LIMIT 1",
                &values![&scope.tenant, &scope.user, &digest],
                |row| row.get(0),
            )
        });
        let found: Option<RecordId> = read.await.map_err(|error: StoreError| error)?;
        Ok(found.map(|id| (id, Some(digest))))
    }

    async fn memory_content(&self, memory: &MemoryId) -> Result<Option<String>, OperateError> {
        let (scope, id) = (self.scope.clone(), memory.clone());
        let read = self.store.read(move |read| {
            if !rows::components(read)?.iter().any(|known| known == "memory") {
                return Ok(None);
            }
            read.query_optional(
                "SELECT content FROM memories WHERE tenant_id = ?1 AND user_id = ?2 AND memory_id = ?3",
                &values![&scope.tenant, &scope.user, &id],
                |row| row.get::<String>(0),
            )
        });
        Ok(read.await.map_err(|error: StoreError| error)?)
    }
}

/// Text in which every character stands for itself: whatever a terminal would obey, or would turn the direction of
/// writing, is written out, `\u{1b}`. Lines and tabs stay.
#[must_use]
pub fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for char in text.chars() {
        let turns = matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        match char {
            '\n' | '\t' => shown.push(char),
            char if char.is_control() || turns => shown.extend(char.escape_unicode()),
            char => shown.push(char),
        }
    }
    shown
}

/// Writes beside the file first: it appears whole, and none that is there is replaced.
async fn save(out: &Path, content: &mut (impl tokio::io::AsyncRead + Unpin + ?Sized)) -> Result<(), OperateError> {
    let failed = |source| OperateError::NotSaved { path: out.to_owned(), source };
    let mut name = out.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = out.with_file_name(name);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&part).await.map_err(failed)?;
    let written = async {
        tokio::io::copy(content, &mut file).await?;
        file.flush().await?;
        file.sync_all().await?;
        // Fails where the file is there.
        fs::hard_link(&part, out).await
    };
    let written = written.await;
    let _ = fs::remove_file(&part).await;
    written.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_obeyed_by_a_terminal() {
        let shown = harmless("a\x1b[2J\tb\r\n\u{202e}c\u{9b}1m 風 🦀\x7f");
        assert_eq!(shown, "a\\u{1b}[2J\tb\\u{d}\n\\u{202e}c\\u{9b}1m 風 🦀\\u{7f}");
    }
}
