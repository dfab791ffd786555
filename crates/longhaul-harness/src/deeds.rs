//! What a tool did to the project, as actions for memory: which files came, changed, went or were moved, and which
//! command was run. Taken from the snapshots around the call, so that a command's files are seen like a file tool's.
//!
//! Invariant: actions are written in the transaction of the step that did them, into a namespace of their own that no
//! recall of a session searches; what memory refuses there never fails the step.

use longhaul_core::{TaskId, TaskScope, ToolCall};
use longhaul_memory::{
    Memory, MemoryError, Source,
    actions::{Action, ActionKind, ActionPolicy, Actions, PathClass, classify, namespace_of},
};
use longhaul_store::{StoreError, Tx};

use crate::{
    git::GitError,
    work_tree::{TreeId, WorkTree},
};

/// Most files of one call that become actions; a tool that writes more has unpacked something.
const FILES_MAX: usize = 50;
/// Most characters of a command that are kept.
const COMMAND_CHARS_MAX: usize = 200;

/// What a call did between two snapshots.
///
/// # Errors
/// When git fails.
pub(crate) async fn between(
    work_tree: &WorkTree,
    call: &ToolCall,
    session: u32,
    task: &TaskId,
    (before, after): (Option<&TreeId>, Option<&TreeId>),
    is_error: bool,
) -> Result<Vec<Action>, GitError> {
    let mut actions = Vec::new();
    if call.name == "shell" {
        actions.extend(command(call, is_error));
    }
    if let (Some(before), Some(after)) = (before, after)
        && before != after
    {
        actions.extend(files(&work_tree.difference(before, after).await?));
    }
    for action in &mut actions {
        action.thread = Some(format!("{task}/{session}"));
        action.task = Some(task.clone());
    }
    Ok(actions)
}

fn command(call: &ToolCall, is_error: bool) -> Option<Action> {
    let arguments: serde_json::Value = serde_json::from_str(&call.arguments).ok()?;
    let command = arguments.get("command")?.as_str()?.trim();
    let line: String = command.lines().next()?.chars().take(COMMAND_CHARS_MAX).collect();
    let summary = if is_error { "failed".to_owned() } else { String::new() };
    (!line.is_empty()).then(|| Action { summary, ..Action::new(ActionKind::Command, line, Source::Agent) })
}

/// Reads what `git diff-tree --name-status -z` says: a letter, a path, and for a move a second path.
fn files(difference: &str) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut fields = difference.split('\0').filter(|field| !field.is_empty());
    while let (Some(status), Some(path)) = (fields.next(), fields.next()) {
        let kind = match status.as_bytes().first() {
            Some(b'A') => ActionKind::FileCreated,
            Some(b'D') => ActionKind::FileDeleted,
            Some(b'R') => ActionKind::FileMoved,
            Some(_) | None => ActionKind::FileChanged,
        };
        let moved_to = if kind == ActionKind::FileMoved { fields.next().map(str::to_owned) } else { None };
        let made_again = matches!(classify(path), PathClass::Cache | PathClass::Temporary | PathClass::BuildOutput);
        if !made_again && actions.len() < FILES_MAX {
            actions.push(Action { moved_to, ..Action::new(kind, path, Source::Agent) });
        }
    }
    actions
}

/// Writes them, in the step's transaction.
///
/// # Errors
/// Those of the store.
pub(crate) fn capture(tx: &mut Tx<'_>, memory: &Memory, owner: &TaskScope, deeds: &[Action]) -> Result<(), StoreError> {
    if deeds.is_empty() {
        return Ok(());
    }
    let actions = Actions::new(memory.clone(), ActionPolicy::default());
    let namespace = namespace_of(&owner.task);
    for deed in deeds {
        match actions.capture(tx, &owner.scope, &namespace, deed) {
            Ok(_) => {}
            Err(MemoryError::Store(error)) => return Err(error),
            Err(error) => tracing::warn!(%error, "an action was not remembered"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_of_two_snapshots_is_read() {
        let said = "A\0src/new.rs\0M\0src/main.rs\0D\0old.md\0R087\0a.md\0docs/a.md\0A\0target/debug/app\0A\0node_modules/x/i.js\0";
        let read: Vec<String> = files(said)
            .into_iter()
            .map(|action| {
                format!(
                    "{} {}{}",
                    action.kind,
                    action.target,
                    action.moved_to.map_or(String::new(), |to| format!(" {to}"))
                )
            })
            .collect();
        assert_eq!(
            read,
            ["file_created src/new.rs", "file_changed src/main.rs", "file_deleted old.md", "file_moved a.md docs/a.md"]
        );
    }
}
