//! The tool `read_ref`: brings back a part of what was put aside, or of any other record of the task.
//!
//! Invariant: a record of another task is not there, whoever its user is; what is read is data and is said to be.

use longhaul_agent::ToolTurn;
use longhaul_core::{EventDraft, RecordId};
use longhaul_durable::{NodeError, StepError};
use longhaul_workspace::WorkspaceError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    host::{Host, missing, text_argument, told},
    means::read_chars,
    tool_set::READ_REF,
};

/// Characters shown before what was looked for.
const BEFORE_FOUND_CHARS: usize = 200;

#[derive(Debug, Serialize, Deserialize)]
struct ReadRecord {
    text: String,
    is_error: bool,
}

impl Host<'_> {
    pub(crate) async fn read_ref(&self, arguments: &Value) -> Result<ToolTurn, NodeError> {
        let Some(reference) = text_argument(arguments, "ref") else { return Ok(missing("ref")) };
        let s = self.sitting;
        let shown: String = reference.chars().take(60).collect();
        let event = move |read: &ReadRecord| {
            let data = json!({"tool": READ_REF, "summary": shown, "is_error": read.is_error, "ms": 0});
            vec![EventDraft::business("tool.called", data)]
        };
        let part = Part {
            from: number(arguments, "from").unwrap_or(0),
            chars: number(arguments, "chars").unwrap_or(usize::MAX).min(read_chars(s.harness)),
            find: text_argument(arguments, "find"),
        };
        let read = s.record("tool:read_ref", self.record_text(&reference, part), event).await?;
        Ok(told(read.text))
    }

    async fn record_text(&self, reference: &str, part: Part) -> Result<ReadRecord, StepError> {
        let refused = |text: String| Ok(ReadRecord { text: format!("error: {text}"), is_error: true });
        let s = self.sitting;
        let Ok(id) = reference.parse::<RecordId>() else {
            return refused(format!("{reference:?} is no reference; they look like rec_01…"));
        };
        let nothing = format!("there is no {id} among this project's records");
        let (record, bytes) = match s.harness.workspace.task(&s.owner()).read(&id).await {
            Ok(found) => found,
            Err(WorkspaceError::NoSuchRecord(_)) => return refused(nothing),
            Err(error) => return Err(error.into()),
        };
        if record.owner.task != s.owner().task {
            return refused(nothing);
        }
        let Ok(text) = String::from_utf8(bytes) else {
            return refused(format!("{id} is {} and no text", record.media_type));
        };
        Ok(part.of(&text, record.source.as_str()))
    }
}

/// Which part is wanted.
struct Part {
    from: usize,
    chars: usize,
    find: Option<String>,
}

impl Part {
    fn of(&self, text: &str, source: &str) -> ReadRecord {
        let whole: Vec<char> = text.chars().collect();
        let mut from = self.from.min(whole.len());
        if let Some(wanted) = &self.find {
            let after: String = whole[from..].iter().collect();
            let Some(at) = after.find(wanted.as_str()) else {
                let text = format!("error: it does not contain {wanted:?} from character {from} on");
                return ReadRecord { text, is_error: true };
            };
            from = (from + after[..at].chars().count()).saturating_sub(BEFORE_FOUND_CHARS);
        }
        let to = from.saturating_add(self.chars.max(1)).min(whole.len());
        let shown: String = whole[from..to].iter().collect();
        let text = format!("characters {from} to {to} of {}, from {source}:\n{shown}", whole.len());
        ReadRecord { text, is_error: false }
    }
}

fn number(arguments: &Value, name: &str) -> Option<usize> {
    arguments.get(name).and_then(Value::as_u64).and_then(|number| usize::try_from(number).ok())
}
