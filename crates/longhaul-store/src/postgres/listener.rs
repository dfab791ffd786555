//! The connection on which a PostgreSQL store hears of what it and others have committed.
//!
//! It owns the order in which events are published to this process's subscribers, whoever wrote them. Invariant: an
//! event is published after its commit, in the order of its number, and none is left out between two others: a notice
//! only says that there is something, and the rows are read from the last published number on. After a broken
//! connection the same reading makes up for what was missed.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{StreamExt, channel::mpsc};
use longhaul_core::Event;
use tokio::sync::{Notify, broadcast};
use tokio_postgres::{AsyncMessage, Client, Connection, Error, NoTls, Notification, Socket, tls::NoTlsStream};

use super::{PostgresAddress, dialect};
use crate::{
    Row, StoreError,
    events::{COLUMNS, event},
    notices::{Outlet, Signal, received},
};

/// Events read at once.
const PAGE: i64 = 500;

const RETRY: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// What the listening thread shares with the store and its writer.
pub(crate) struct Listening {
    state: Mutex<State>,
    outlet: Outlet,
    closing: Notify,
}

struct State {
    /// The last event that was published, or passed over because nobody had subscribed.
    position: i64,
    /// The last event that this process has committed.
    committed: i64,
}

impl Listening {
    /// `position` is the number of the newest event.
    pub(crate) fn new(position: i64, outlet: Outlet) -> Self {
        let state = Mutex::new(State { position, committed: position });
        Self { state, outlet, closing: Notify::new() }
    }

    /// This process has committed events up to this number.
    pub(crate) fn committed(&self, seq: i64) {
        let mut state = self.state();
        state.committed = state.committed.max(seq);
    }

    /// Events from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Event> {
        let mut state = self.state();
        if self.outlet.events.receiver_count() == 0 {
            state.position = state.position.max(state.committed);
        }
        self.outlet.events.subscribe()
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.closing.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where to read on from to reach `seq`, unless nobody wants to know or it has been published.
    fn behind(&self, seq: i64) -> Option<i64> {
        let mut state = self.state();
        if seq <= state.position {
            return None;
        }
        if self.outlet.events.receiver_count() == 0 {
            state.position = seq;
            return None;
        }
        Some(state.position)
    }

    fn publish(&self, events: Vec<Event>) {
        let mut state = self.state();
        for event in events {
            if event.seq > state.position {
                state.position = event.seq;
                // An error only means that nobody listens.
                let _ = self.outlet.events.send(event);
            }
        }
    }
}

/// Listens until the store is closed, on as many connections as it takes. To be run on a thread of its own. `ready`
/// goes once it listens, or once it has failed to for the first time.
pub(crate) fn run(address: &PostgresAddress, listening: &Arc<Listening>, ready: mpsc::UnboundedSender<()>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "events of PostgreSQL are not published: no runtime");
            return;
        }
    };
    runtime.block_on(async {
        let closing = listening.closing.notified();
        tokio::select! {
            () = closing => {}
            () = keep_listening(address, listening, ready) => {}
        }
    });
}

async fn keep_listening(address: &PostgresAddress, listening: &Listening, ready: mpsc::UnboundedSender<()>) {
    let mut pause = RETRY;
    let mut ready = Some(ready);
    loop {
        match listen(address, listening, &mut pause, &mut ready).await {
            Ok(()) => tracing::debug!("the listening connection ended"),
            Err(error) => tracing::debug!(%error, "the listening connection broke"),
        }
        ready = None;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY_MAX);
    }
}

async fn listen(
    address: &PostgresAddress,
    listening: &Listening,
    pause: &mut Duration,
    ready: &mut Option<mpsc::UnboundedSender<()>>,
) -> Result<(), Error> {
    let (client, connection) = address.config().connect(NoTls).await?;
    let (send, heard) = mpsc::unbounded();
    tokio::select! {
        ended = drive(connection, send) => ended,
        ended = follow(&client, heard, listening, pause, ready) => ended,
    }
}

async fn drive(
    mut connection: Connection<Socket, NoTlsStream>,
    send: mpsc::UnboundedSender<Notification>,
) -> Result<(), Error> {
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            // The other end goes only together with this one.
            Some(Ok(AsyncMessage::Notification(notification))) => drop(send.unbounded_send(notification)),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error),
            None => return Ok(()),
        }
    }
}

async fn follow(
    client: &Client,
    mut heard: mpsc::UnboundedReceiver<Notification>,
    listening: &Listening,
    pause: &mut Duration,
    ready: &mut Option<mpsc::UnboundedSender<()>>,
) -> Result<(), Error> {
    client.batch_execute("LISTEN longhaul_events; LISTEN longhaul_notices").await?;
    *pause = RETRY;
    // Whatever happened before is in the rows, and has not been heard of.
    let newest = client.query_one("SELECT coalesce(max(seq), 0) FROM events", &[]).await?.try_get(0)?;
    catch_up(client, listening, newest).await?;
    listening.outlet.notices.send(Signal::Missed);
    drop(ready.take());
    while let Some(notification) = heard.next().await {
        match notification.channel() {
            "longhaul_events" => {
                // Anybody who may log in can send one that names no number; it says nothing.
                if let Ok(seq) = notification.payload().parse() {
                    catch_up(client, listening, seq).await?;
                }
            }
            _ => listening.outlet.notices.send(received(notification.payload())),
        }
    }
    Ok(())
}

/// Publishes the events up to this number, and those after it that are there already.
async fn catch_up(client: &Client, listening: &Listening, seq: i64) -> Result<(), Error> {
    let sql = dialect::statement(&format!("{COLUMNS} WHERE seq > ?1 ORDER BY seq LIMIT ?2"));
    while let Some(position) = listening.behind(seq) {
        let rows = client.query(&sql, &[&position, &PAGE]).await?;
        if rows.is_empty() {
            break;
        }
        let events: Result<Vec<Event>, StoreError> = rows.iter().map(|row| event(&Row::postgres(row))).collect();
        match events {
            Ok(events) => listening.publish(events),
            Err(error) => {
                tracing::error!(%error, "events that cannot be read are not published");
                break;
            }
        }
    }
    Ok(())
}
