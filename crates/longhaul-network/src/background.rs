//! What a network does beside its callers: cursors and presence into rows, observers of mods, retention.
//!
//! Invariant: none of it is needed for what was answered to be kept; after a crash events are given again, not lost.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use longhaul_store::values;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use crate::{
    Network, Refusal,
    log::{self, Key},
    network::Inner,
    pump::Found,
};

/// How long an acknowledgement, or what an observer has seen, may be known here only.
const CURSORS: Duration = Duration::from_millis(250);
/// How old the row's word of presence may become, milliseconds.
const SEEN_MS: i64 = 10_000;
/// How often it is looked what has been kept for long enough, and rows that one transaction removes.
const RETENTION: Duration = Duration::from_secs(60);
const FORGOTTEN_MAX: usize = 1_000;
/// Events an observer looks at in one go.
const OBSERVED_MAX: usize = 256;
/// Events, at most, that an observer looks at again after a crash.
const PASSED_MAX: i64 = 1_000;
/// Pauses before an observer tries an event again that failed.
const PAUSES_MS: [u64; 3] = [100, 1_000, 5_000];
/// The pause of an observer for which the store fails.
const OBSERVER_REST: Duration = Duration::from_secs(1);
/// How often mods hear that time passes.
const TICKS: Duration = Duration::from_millis(200);

/// Begins it all; it ends when the network is closed, or when nobody has it any more.
pub(crate) async fn start(network: &Network) -> Result<(), Refusal> {
    let weak = Arc::downgrade(&network.0);
    tokio::spawn(keep_cursors(weak.clone()));
    if network.0.settings.retention.is_some() {
        tokio::spawn(forget(weak.clone()));
    }
    tokio::spawn(tick(weak.clone()));
    for at in 0..network.0.mods.len() {
        if !network.0.loaded[at].manifest.observes.is_empty() {
            let cursor = observer_cursor(network, at).await?;
            tokio::spawn(observe(Following { network: weak.clone(), at, cursor, written: cursor, since: None }));
        }
    }
    Ok(())
}

async fn keep_cursors(network: Weak<Inner>) {
    let mut ticks = interval(CURSORS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(inner) = network.upgrade() else { return };
        if inner.closing.is_cancelled() {
            return;
        }
        if let Err(error) = write_cursors(&inner, false).await {
            tracing::debug!(%error, "cursors could not be written, which is tried again");
        }
    }
}

/// Writes what is known here only. `all` leaves out nothing; otherwise presence alone waits until it is worth a row.
pub(crate) async fn write_cursors(inner: &Arc<Inner>, all: bool) -> Result<(), Refusal> {
    let mut known = Vec::new();
    let agents: Vec<_> = inner.registry.read().agents.values().cloned().collect();
    for agent in agents {
        // What comes from here on marks it again.
        if !agent.dirty.swap(false, Ordering::AcqRel) {
            continue;
        }
        let (cursor, seen) = (agent.standing().cursor, agent.last_seen());
        let (cursor_written, seen_written) =
            (agent.cursor_written.load(Ordering::Relaxed), agent.seen_written.load(Ordering::Relaxed));
        if all || cursor > cursor_written || seen.0 - seen_written > SEEN_MS {
            known.push((agent, cursor, seen));
        } else {
            agent.dirty.store(true, Ordering::Relaxed);
        }
    }
    if known.is_empty() {
        return Ok(());
    }
    let (key, token) = (inner.key.clone(), inner.token.clone());
    let rows: Vec<_> = known.iter().map(|(agent, cursor, seen)| (agent.id.clone(), *cursor, *seen)).collect();
    let writing = inner.store.write(move |tx| {
        tx.check_lease(&token)?;
        for (agent, cursor, seen) in rows {
            tx.execute(
                "UPDATE network_agents SET cursor_seq = ?4, last_seen = ?5
                 WHERE tenant_id = ?1 AND network_id = ?2 AND agent_id = ?3",
                &values![&key.tenant, &key.network, agent.as_str(), cursor, seen],
            )?;
        }
        Ok::<_, Refusal>(())
    });
    let written = writing.await;
    for (agent, cursor, seen) in known {
        if written.is_ok() {
            agent.cursor_written.store(cursor, Ordering::Relaxed);
            agent.seen_written.store(seen.0, Ordering::Relaxed);
        } else {
            agent.dirty.store(true, Ordering::Relaxed);
        }
    }
    written
}

/// Tells each mod that time passes. One that takes long holds up the next tick, and no event.
async fn tick(network: Weak<Inner>) {
    let mut ticks = interval(TICKS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(inner) = network.upgrade() else { return };
        if inner.closing.is_cancelled() {
            return;
        }
        let network = Network(inner.clone());
        for (at, module) in inner.mods.iter().enumerate() {
            if let Err(refusal) = module.tick(&network.backstage(at)).await {
                tracing::warn!(module = %inner.loaded[at].name, %refusal, "a mod could not do what time brings");
            }
        }
    }
}

async fn forget(network: Weak<Inner>) {
    let mut ticks = interval(RETENTION);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(inner) = network.upgrade() else { return };
        if inner.closing.is_cancelled() {
            return;
        }
        if let Err(error) = forget_now(&inner).await {
            tracing::warn!(%error, "old events could not be removed, which is tried again");
        }
    }
}

impl Network {
    /// Removes what has been kept for long enough now, without waiting for the minute.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn forget_old(&self) -> Result<(), Refusal> {
        forget_now(&self.0).await
    }
}

/// Removes what has been kept for long enough, in transactions that others fit between.
async fn forget_now(inner: &Arc<Inner>) -> Result<(), Refusal> {
    let Some(kept) = inner.settings.retention else { return Ok(()) };
    let kept = i64::try_from(kept.as_millis()).unwrap_or(i64::MAX);
    let before = inner.store.ambient().clock.now().0.saturating_sub(kept);
    loop {
        let (key, token) = (inner.key.clone(), inner.token.clone());
        let removing = inner.store.write(move |tx| {
            tx.check_lease(&token)?;
            Ok::<_, Refusal>(log::forget(tx, &key, before, FORGOTTEN_MAX)?)
        });
        if removing.await? == 0 {
            return Ok(());
        }
    }
}

/// Where a mod's observer stands; a new one begins at the end of the log.
async fn observer_cursor(network: &Network, at: usize) -> Result<i64, Refusal> {
    let (key, name) = (network.0.key.clone(), network.0.loaded[at].name.to_string());
    let head = network.0.pump.head();
    let finding = network.0.store.write(move |tx| {
        tx.execute(
            "INSERT INTO network_observers (tenant_id, network_id, observer, cursor_seq) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO NOTHING",
            &values![&key.tenant, &key.network, &name, head],
        )?;
        let cursor = tx.query_one(
            "SELECT cursor_seq FROM network_observers WHERE tenant_id = ?1 AND network_id = ?2 AND observer = ?3",
            &values![&key.tenant, &key.network, &name],
            |row| row.get(0),
        )?;
        Ok::<_, Refusal>(cursor)
    });
    finding.await
}

/// One mod's way through the log.
struct Following {
    network: Weak<Inner>,
    /// The mod's position.
    at: usize,
    /// Seen up to here.
    cursor: i64,
    /// The row says so up to here.
    written: i64,
    /// When something was seen first that the row does not know.
    since: Option<Instant>,
}

/// Follows the log for one mod, until the network is gone.
async fn observe(mut following: Following) {
    let Some(inner) = following.network.upgrade() else { return };
    let (mut head, closing) = (inner.pump.watch(), inner.closing.clone());
    drop(inner);
    loop {
        let until = *head.borrow_and_update();
        if let Err(error) = following.follow(until).await {
            tracing::warn!(%error, "an observer could not follow the log, which is tried again");
            if timeout(OBSERVER_REST, closing.cancelled()).await.is_ok() {
                return;
            }
            continue;
        }
        if closing.is_cancelled() {
            return following.end().await;
        }
        // What has been seen is written now and then, and not for each event: that would be a commit for each.
        let due = following.since.map(|since| since + CURSORS);
        tokio::select! {
            changed = head.changed() => if changed.is_err() { return },
            () = closing.cancelled() => return following.end().await,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
        }
    }
}

impl Following {
    /// Up to `until`, and the row where it is time.
    async fn follow(&mut self, until: i64) -> Result<(), Refusal> {
        let Some(inner) = self.network.upgrade() else { return Ok(()) };
        while self.cursor < until && !inner.closing.is_cancelled() {
            let (upto, seen) = observe_some(&inner, self.at, self.cursor).await?;
            self.cursor = upto;
            if seen {
                self.since.get_or_insert_with(Instant::now);
            }
            self.note_if_due(&inner).await?;
        }
        self.note_if_due(&inner).await
    }

    async fn note_if_due(&mut self, inner: &Arc<Inner>) -> Result<(), Refusal> {
        let due = self.since.is_some_and(|since| since.elapsed() >= CURSORS);
        if due || self.cursor - self.written >= PASSED_MAX { self.note(inner).await } else { Ok(()) }
    }

    /// The network is being closed. Without its lease the row stays as it is, and the last events are seen again.
    async fn end(mut self) {
        if let (Some(inner), Some(_)) = (self.network.upgrade(), self.since) {
            let _ = self.note(&inner).await;
        }
    }

    async fn note(&mut self, inner: &Arc<Inner>) -> Result<(), Refusal> {
        let (key, name, token) = (inner.key.clone(), inner.loaded[self.at].name.to_string(), inner.token.clone());
        let cursor = self.cursor;
        let noting = inner.store.write(move |tx| {
            tx.check_lease(&token)?;
            tx.execute(
                "UPDATE network_observers SET cursor_seq = ?4
                 WHERE tenant_id = ?1 AND network_id = ?2 AND observer = ?3",
                &values![&key.tenant, &key.network, name, cursor],
            )?;
            Ok::<_, Refusal>(())
        });
        noting.await?;
        (self.written, self.since) = (cursor, None);
        Ok(())
    }
}

/// Lets the mod see what it observes behind `cursor`, and tells up to where that was, and whether there was any.
async fn observe_some(inner: &Arc<Inner>, at: usize, cursor: i64) -> Result<(i64, bool), Refusal> {
    let (found, upto) = match inner.pump.read_all(cursor, OBSERVED_MAX) {
        Found::All { entries, until } => (entries, until),
        Found::Rows { until } => {
            let key: Key = inner.key.clone();
            let found = inner.store.read(move |read| log::all(read, &key, cursor, until, OBSERVED_MAX)).await?;
            let upto = found.get(OBSERVED_MAX - 1).map_or(until, |last| last.event.seq);
            (found, upto)
        }
    };
    let network = Network(inner.clone());
    let (loaded, module) = (&inner.loaded[at], &inner.mods[at]);
    let mut seen = false;
    for entry in found {
        if !loaded.manifest.observes.iter().any(|pattern| pattern.matches(&entry.event.name)) {
            continue;
        }
        seen = true;
        let mut pauses = PAUSES_MS.iter();
        while let Err(refusal) = module.observe(&network.backstage(at), &entry.event).await {
            let Some(pause) = pauses.next() else {
                tracing::warn!(module = %loaded.name, seq = entry.event.seq, %refusal, "an observer has failed for good on one event");
                break;
            };
            // The pause is the policy; the network's end ends it.
            if timeout(Duration::from_millis(*pause), inner.closing.cancelled()).await.is_ok() {
                return Ok((entry.event.seq - 1, seen));
            }
        }
    }
    Ok((upto, seen))
}
