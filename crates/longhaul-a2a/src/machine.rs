//! What may become of a task, decided without I/O.
//!
//! Invariant: what has ended stays as it ended; every change gives exactly one update for those who follow, in the
//! order of the changes.

use longhaul_core::TimeMs;
use prost::Message as _;

use crate::wire::{
    timestamp,
    v1::{
        Artifact, Message, StreamResponse, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus, TaskStatusUpdateEvent,
        stream_response::Payload,
    },
};

/// Messages of a task's history that are kept; of more the oldest go.
const HISTORY_MAX: usize = 1_000;
/// Largest task with its artifacts, bytes.
const TASK_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Something that happened to a task.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// It is in this state now, with words about it.
    Status { state: TaskState, message: Option<Message> },
    /// It has brought something forth.
    Artifact { artifact: Artifact, append: bool, last_chunk: bool },
    /// Its owner has said more.
    Said(Message),
}

/// Why a change is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unchanged {
    /// The task has ended.
    #[error("the task has ended")]
    Ended,
    /// A state that a task cannot be put into.
    #[error("state: write one of working, completed, failed, canceled, rejected, input-required and auth-required")]
    NoState,
    /// The task would get too large.
    #[error(
        "a task holds at most {TASK_BYTES_MAX} bytes: put large results where the agent keeps files, and name them"
    )]
    TooLarge,
}

/// Nothing follows this state.
pub(crate) fn has_ended(state: TaskState) -> bool {
    use TaskState::{
        AuthRequired, Canceled, Completed, Failed, InputRequired, Rejected, Submitted, Unspecified, Working,
    };
    match state {
        Completed | Failed | Canceled | Rejected => true,
        Unspecified | Submitted | Working | InputRequired | AuthRequired => false,
    }
}

/// The owner is asked for something.
pub(crate) fn waits_for_owner(state: TaskState) -> bool {
    matches!(state, TaskState::InputRequired | TaskState::AuthRequired)
}

/// A new task with its first message.
pub(crate) fn begin(id: &str, context: &str, first: Message, at: TimeMs) -> Task {
    let mut task = Task {
        id: id.to_owned(),
        context_id: context.to_owned(),
        status: Some(TaskStatus { state: TaskState::Submitted.into(), message: None, timestamp: Some(timestamp(at)) }),
        ..Task::default()
    };
    remember(&mut task, first);
    task
}

/// Makes the change, and tells what those who follow are to see.
pub(crate) fn apply(task: &mut Task, change: Change, at: TimeMs) -> Result<StreamResponse, Unchanged> {
    if has_ended(state_of(task)) {
        return Err(Unchanged::Ended);
    }
    let payload = match change {
        Change::Status { state: TaskState::Unspecified | TaskState::Submitted, .. } => return Err(Unchanged::NoState),
        Change::Status { state, message } => Payload::StatusUpdate(stand(task, state, message, at)),
        Change::Said(message) => {
            let update = stand(task, TaskState::Working, None, at);
            remember(task, message);
            Payload::StatusUpdate(update)
        }
        Change::Artifact { artifact, append, last_chunk } => {
            keep(task, artifact.clone(), append);
            Payload::ArtifactUpdate(TaskArtifactUpdateEvent {
                task_id: task.id.clone(),
                context_id: task.context_id.clone(),
                artifact: Some(artifact),
                append,
                last_chunk,
                metadata: None,
            })
        }
    };
    if task.encoded_len() > TASK_BYTES_MAX {
        return Err(Unchanged::TooLarge);
    }
    Ok(StreamResponse { payload: Some(payload) })
}

/// The state a task is in.
pub(crate) fn state_of(task: &Task) -> TaskState {
    task.status.as_ref().map_or(TaskState::Unspecified, TaskStatus::state)
}

fn stand(task: &mut Task, state: TaskState, message: Option<Message>, at: TimeMs) -> TaskStatusUpdateEvent {
    let message =
        message.map(|message| Message { task_id: task.id.clone(), context_id: task.context_id.clone(), ..message });
    let status = TaskStatus { state: state.into(), message, timestamp: Some(timestamp(at)) };
    // What was said with the last state goes on record when it is not the last any more.
    if let Some(before) = task.status.replace(status.clone()).and_then(|status| status.message) {
        remember(task, before);
    }
    TaskStatusUpdateEvent {
        task_id: task.id.clone(),
        context_id: task.context_id.clone(),
        status: Some(status),
        metadata: None,
    }
}

fn remember(task: &mut Task, message: Message) {
    let message = Message { task_id: task.id.clone(), context_id: task.context_id.clone(), ..message };
    task.history.push(message);
    if task.history.len() > HISTORY_MAX {
        task.history.drain(..task.history.len() - HISTORY_MAX);
    }
}

fn keep(task: &mut Task, artifact: Artifact, append: bool) {
    match task.artifacts.iter_mut().find(|kept| kept.artifact_id == artifact.artifact_id) {
        Some(kept) if append => kept.parts.extend(artifact.parts),
        Some(kept) => *kept = artifact,
        None => task.artifacts.push(artifact),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::speech::{message_of, text_part};

    fn changes() -> impl Strategy<Value = Change> {
        let said = |id: u8| message_of(&id.to_string(), vec![text_part("x")]);
        prop_oneof![
            (0..9_i32, any::<Option<u8>>()).prop_map(move |(state, id)| Change::Status {
                state: TaskState::try_from(state).unwrap(),
                message: id.map(said),
            }),
            any::<u8>().prop_map(move |id| Change::Said(said(id))),
            (0..3_u8, any::<bool>(), any::<bool>()).prop_map(|(id, append, last_chunk)| Change::Artifact {
                artifact: Artifact {
                    artifact_id: id.to_string(),
                    parts: vec![text_part(id.to_string())],
                    ..Artifact::default()
                },
                append,
                last_chunk,
            }),
        ]
    }

    /// A follower's own idea of a task, from its updates alone.
    fn follow(task: &mut Task, update: StreamResponse) {
        match update.payload {
            Some(Payload::StatusUpdate(update)) => task.status = update.status,
            Some(Payload::ArtifactUpdate(update)) => keep(task, update.artifact.unwrap(), update.append),
            Some(Payload::Task(_) | Payload::Message(_)) | None => panic!("no update"),
        }
    }

    proptest! {
        #[test]
        fn what_has_ended_stays_and_updates_tell_everything(changes in proptest::collection::vec(changes(), 0..40)) {
            let mut task = begin("t", "c", message_of("0", vec![text_part("x")]), TimeMs(0));
            let mut followed = task.clone();
            for (at, change) in (1..).zip(changes) {
                let before = task.clone();
                match apply(&mut task, change, TimeMs(at)) {
                    Ok(update) => {
                        prop_assert!(!has_ended(state_of(&before)));
                        follow(&mut followed, update);
                    }
                    Err(_) => prop_assert_eq!(&task, &before),
                }
                prop_assert_eq!(&task.status, &followed.status);
                prop_assert_eq!(&task.artifacts, &followed.artifacts);
                prop_assert!(task.history.starts_with(&before.history));
            }
        }
    }
}
