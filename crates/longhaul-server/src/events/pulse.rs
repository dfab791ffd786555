//! One listener of the store for all streams of this process: it says for whom there is something to read.
//!
//! What it says is a hint, and streams read the rows: nothing is lost with it, and nothing is told twice. It exists so
//! that a thousand streams do not each look at the database whenever another process has written something.

use longhaul_core::{TaskId, TenantId, UserId};
use longhaul_store::{Store, StoreError, values};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio_util::sync::CancellationToken;

/// Hints that may wait for a stream; one that lags behind further looks by itself.
const WAITING_MAX: usize = 1_024;
/// Entries of other processes that are told one by one; beyond, everybody looks.
const PAGE: u32 = 256;
/// Heard only for what it says of other processes' writes.
const ANYTHING: &str = "server.anything";

/// There may be something to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Beat {
    /// For these.
    For { seq: i64, tenant: TenantId, user: UserId, task: TaskId },
    /// For anybody.
    Anybody,
}

/// Hands out [`Beat`]s. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Pulse(broadcast::Sender<Beat>);

impl Pulse {
    /// Listens until `shutdown`, on a task of its own. To be called within a tokio runtime.
    pub(crate) fn start(store: &Store, shutdown: CancellationToken) -> Self {
        let sender = broadcast::channel(WAITING_MAX).0;
        let listening = listen(store.clone(), sender.clone());
        tokio::spawn(async move { shutdown.run_until_cancelled(listening).await });
        Self(sender)
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Beat> {
        self.0.subscribe()
    }
}

async fn listen(store: Store, beats: broadcast::Sender<Beat>) {
    let mut live = store.subscribe();
    let mut others = store.listen(ANYTHING);
    // The last entry up to which the rows have been looked at. What is told live does not move it: another process's
    // entry may lie before and not have been heard of.
    let mut position = newest(&store).await.unwrap_or(0);
    // An error only means that nobody listens.
    let tell = |beat: Beat| drop(beats.send(beat));
    loop {
        tokio::select! {
            event = live.recv() => match event {
                Ok(event) => {
                    let scope = event.scope;
                    let (tenant, user) = (scope.scope.tenant, scope.scope.user);
                    tell(Beat::For { seq: event.seq, tenant, user, task: scope.task });
                }
                Err(RecvError::Lagged(_)) => tell(Beat::Anybody),
                Err(RecvError::Closed) => return,
            },
            notice = others.next() => match notice {
                // Somebody's own; nobody sends on this channel.
                Some(notice) if notice.payload.is_some() => {}
                Some(_) => match look(&store, position).await {
                    Ok(found) if found.len() < PAGE as usize => {
                        for (seq, beat) in found {
                            position = position.max(seq);
                            tell(beat);
                        }
                    }
                    Ok(_) => {
                        position = newest(&store).await.unwrap_or(position);
                        tell(Beat::Anybody);
                    }
                    Err(error) => {
                        tracing::debug!(%error, "could not look at what other processes have written");
                        tell(Beat::Anybody);
                    }
                },
                None => return,
            },
        }
    }
}

async fn newest(store: &Store) -> Result<i64, StoreError> {
    store.read(|read| read.query_one("SELECT coalesce(max(seq), 0) FROM events", &[], |row| row.get(0))).await
}

async fn look(store: &Store, position: i64) -> Result<Vec<(i64, Beat)>, StoreError> {
    let sql = "SELECT seq, tenant_id, user_id, task_id FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2";
    store
        .read(move |read| {
            read.query(sql, &values![position, PAGE], |row| {
                let seq = row.get(0)?;
                Ok((seq, Beat::For { seq, tenant: row.get(1)?, user: row.get(2)?, task: row.get(3)? }))
            })
        })
        .await
}
