//! Following a task: its updates as they come, from the rows.
//!
//! Invariants: everybody who follows a task sees the same updates in the same order, each once; a stream begins with the
//! task as it was before the first update that it gives; it ends with the task.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream::BoxStream};
use longhaul_network::Network;
use longhaul_store::{Notices, StoreError};
use tokio::sync::OwnedSemaphorePermit;

use crate::{
    error::A2aError,
    machine::{has_ended, waits_for_owner},
    rows::{self, Place},
    service::Service,
    wire::v1::{StreamResponse, Task, TaskState, send_message_response, stream_response::Payload},
};

/// Longest time without looking at the rows: a notice is a hint only.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Updates of a task.
pub(crate) type Updates = BoxStream<'static, Result<StreamResponse, A2aError>>;

/// A stream of one.
pub(crate) fn only(update: StreamResponse) -> Updates {
    futures::stream::iter([Ok(update)]).boxed()
}

/// A place in the updates of a task.
#[derive(Debug)]
pub(crate) struct Follow {
    service: Arc<Service>,
    notices: Notices,
    _permit: OwnedSemaphorePermit,
    task: String,
    position: i64,
    ready: VecDeque<StreamResponse>,
    /// What makes the last update the last.
    is_last: fn(TaskState) -> bool,
    over: bool,
}

impl Follow {
    /// From the task as it was after the update of this number.
    pub(crate) fn new(
        service: Arc<Service>,
        notices: Notices,
        permit: OwnedSemaphorePermit,
        first: Task,
        position: i64,
    ) -> Self {
        let task = first.id.clone();
        let ready = VecDeque::from([StreamResponse { payload: Some(Payload::Task(first)) }]);
        Self { service, notices, _permit: permit, task, position, ready, is_last: has_ended, over: false }
    }

    /// The stream also ends when the agent asks its owner for something (11.7).
    pub(crate) fn until_the_owner_is_asked(self) -> Self {
        Self { is_last: |state| has_ended(state) || waits_for_owner(state), ..self }
    }

    pub(crate) fn updates(self) -> Updates {
        futures::stream::unfold(self, |mut follow| async move {
            let next = follow.next().await.transpose()?;
            follow.over |= next.is_err();
            Some((next, follow))
        })
        .boxed()
    }

    async fn next(&mut self) -> Result<Option<StreamResponse>, A2aError> {
        loop {
            if self.over {
                return Ok(None);
            }
            if let Some(update) = self.ready.pop_front() {
                if let Some(Payload::StatusUpdate(update)) = &update.payload {
                    let state = update.status.as_ref().map_or(TaskState::Unspecified, |status| status.state());
                    self.over = (self.is_last)(state);
                }
                return Ok(Some(update));
            }
            let (place, task, position) = (self.service.place.clone(), self.task.clone(), self.position);
            let store = self.service.network.store();
            let (found, gone) = store
                .read(move |read| {
                    let found = rows::updates(read, &place, &task, position)?;
                    // A task that is being removed has no more updates.
                    let gone = found.is_empty() && rows::get(read, &place, &task)?.is_none();
                    Ok::<_, StoreError>((found, gone))
                })
                .await?;
            if gone {
                return Ok(None);
            }
            if let Some((last, _)) = found.last() {
                self.position = *last;
                self.ready.extend(found.into_iter().map(|(_, update)| update));
            } else if wait(&mut self.notices, &self.task).await.is_none() {
                return Ok(None);
            }
        }
    }
}

/// Waits until something may have happened to the task; nothing when the store has been closed.
async fn wait(notices: &mut Notices, task: &str) -> Option<()> {
    let heard = async {
        loop {
            match notices.next().await?.payload {
                Some(about) if about != task => {}
                Some(_) | None => return Some(()),
            }
        }
    };
    // Looking again now and then costs little, and a lost notice nothing.
    tokio::time::timeout(LOOK_EVERY, heard).await.unwrap_or(Some(()))
}

/// Waits until the task has ended, asks its owner for something, or has been answered directly.
pub(crate) async fn settled(
    network: &Network,
    place: &Place,
    notices: &mut Notices,
    task: &str,
    number: i64,
) -> Result<send_message_response::Payload, A2aError> {
    loop {
        let (at, id) = (place.clone(), task.to_owned());
        let (kept, said) = network
            .store()
            .read(move |read| {
                let kept = rows::get(read, &at, &id)?;
                let direct = kept.as_ref().is_some_and(|kept| kept.direct);
                let said = if direct { rows::updates(read, &at, &id, number)? } else { Vec::new() };
                Ok::<_, StoreError>((kept, said))
            })
            .await?;
        let Some(kept) = kept else { return Err(A2aError::TaskNotFound(task.to_owned())) };
        let message = said.into_iter().find_map(|(_, update)| match update.payload {
            Some(Payload::Message(message)) => Some(message),
            Some(Payload::Task(_) | Payload::StatusUpdate(_) | Payload::ArtifactUpdate(_)) | None => None,
        });
        if let Some(message) = message {
            return Ok(send_message_response::Payload::Message(message));
        }
        if has_ended(kept.state()) || waits_for_owner(kept.state()) {
            return Ok(send_message_response::Payload::Task(kept.task));
        }
        if wait(notices, task).await.is_none() {
            return Err(A2aError::Unavailable("this network is being closed".to_owned()));
        }
    }
}
