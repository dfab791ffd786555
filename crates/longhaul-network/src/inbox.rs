//! Receiving: a receiver's place in its events, and polls, which acknowledge what the one before them gave.
//!
//! Invariant: what a receiver is given follows from its place and the log alone, whether it comes from RAM or from rows.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    Event, Inbox, Member, Network, Received, Refusal,
    admission::unauthenticated,
    log::{self, Entry},
    network::closed,
    pump::Found,
    registry::Agent,
};

/// Events of one route read from rows at once, at least.
const ROWS_MIN: usize = 32;

impl Network {
    /// The member's place in its events, from what it has acknowledged, or behind `after`.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Unauthenticated`] when its secret has been replaced.
    pub fn inbox(&self, member: &Member, after: Option<i64>) -> Result<Inbox, Refusal> {
        let agent = self.standing_of(member)?;
        agent.seen(self.now());
        let acknowledged = agent.standing().cursor;
        // A place that lies ahead is one of before a restart, or none.
        let position = after.map_or(acknowledged, |after| after.clamp(agent.joined_seq, self.0.pump.head()));
        Ok(Inbox { network: self.clone(), member: member.clone(), position })
    }

    /// For a transport whose reads acknowledge nothing (the contract's poll): what came since the last call of anybody
    /// for this member. The next call acknowledges what this one gave.
    ///
    /// A call that waits ends empty when another one comes: a client whose connection broke must not lose to the old
    /// connection what it asks for on the new one.
    ///
    /// # Errors
    /// Those of [`Self::inbox`].
    pub async fn poll(&self, member: &Member, max: usize, wait: Duration) -> Result<Received, Refusal> {
        let agent = self.standing_of(member)?;
        let mut others = agent.polls.subscribe();
        let mut own = 0;
        agent.polls.send_modify(|polls| {
            *polls += 1;
            own = *polls;
        });
        others.borrow_and_update();
        let _alone = agent.polling.lock().await;
        let given = agent.standing().given;
        agent.acknowledge(given);
        let mut inbox = self.inbox(member, None)?;
        let nothing = Received { events: Vec::new(), cursor: inbox.position, more: false };
        let received = tokio::select! {
            biased;
            received = inbox.next(max, wait) => received?,
            _ = others.wait_for(|polls| *polls != own) => return Ok(nothing),
        };
        // What a call gave that another one has already followed may never have arrived: that one gives it again.
        if *agent.polls.borrow() == own {
            agent.standing().given = received.cursor;
        }
        Ok(received)
    }

    /// Everything up to `cursor` is safe with the member.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Unauthenticated`] when its secret has been replaced.
    pub fn acknowledge(&self, member: &Member, cursor: i64) -> Result<(), Refusal> {
        let agent = self.standing_of(member)?;
        agent.seen(self.now());
        agent.acknowledge(cursor.min(self.0.pump.head()));
        Ok(())
    }

    /// What is there behind `after`, at most `max`.
    async fn received(&self, agent: &Arc<Agent>, after: i64, max: usize) -> Result<Received, Refusal> {
        let (routes, max) = (agent.routes(), max.max(1));
        match self.0.pump.read(&routes, after) {
            Found::All { entries, until } => Ok(taken(agent, entries, until, max)),
            Found::Rows { until } => {
                let (key, limit) = (self.0.key.clone(), max.max(ROWS_MIN));
                let reading = self.0.store.read(move |read| {
                    let (mut entries, mut whole) = (Vec::new(), until);
                    for (route, since) in &routes {
                        let from = after.max(*since);
                        if from >= until {
                            continue;
                        }
                        let found = log::of_route(read, &key, route, from, until, limit)?;
                        // There may be more of this route behind its last: everything is known up to there only.
                        if found.len() == limit
                            && let Some(last) = found.last()
                        {
                            whole = whole.min(last.event.seq);
                        }
                        entries.extend(found);
                    }
                    Ok::<_, Refusal>((entries, whole))
                });
                let (mut entries, whole) = reading.await?;
                entries.retain(|entry: &Entry| entry.event.seq <= whole);
                entries.sort_unstable_by_key(|entry| entry.event.seq);
                let mut received = taken(agent, entries, whole, max);
                received.more |= whole < until;
                Ok(received)
            }
        }
    }
}

/// The first `max` that are for it.
fn taken(agent: &Agent, entries: Vec<Entry>, until: i64, max: usize) -> Received {
    let mut events: Vec<Arc<Event>> = Vec::with_capacity(entries.len().min(max));
    for Entry { event, .. } in entries {
        if !agent.receives(&event) {
            continue;
        }
        if events.len() == max {
            let cursor = events.last().map_or(until, |last| last.seq);
            return Received { events, cursor, more: true };
        }
        events.push(event);
    }
    Received { events, cursor: until, more: false }
}

impl Inbox {
    /// The next events, at most `max`; waits at most `wait` for the first. Empty when nothing came.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Unauthenticated`] when the member's secret has been replaced; those of the store.
    pub async fn next(&mut self, max: usize, wait: Duration) -> Result<Received, Refusal> {
        let network = self.network.clone();
        let agent = network.standing_of(&self.member)?;
        let mut bell = agent.bell.subscribe();
        let until = Instant::now() + wait;
        loop {
            let rung = *bell.borrow_and_update();
            if rung.generation != self.member.generation {
                return Err(unauthenticated());
            }
            agent.seen(network.now());
            if rung.newest > self.position {
                let received = network.received(&agent, self.position, max).await?;
                self.position = received.cursor;
                if !received.events.is_empty() {
                    return Ok(received);
                }
                if received.more {
                    continue;
                }
            }
            tokio::select! {
                changed = bell.changed() => if changed.is_err() { return Err(closed()) },
                () = network.0.closing.cancelled() => return Err(closed()),
                () = tokio::time::sleep_until(until) => {
                    agent.seen(network.now());
                    return Ok(Received { events: Vec::new(), cursor: self.position, more: false });
                }
            }
        }
    }

    /// Everything up to here is safe with the receiver.
    pub fn acknowledge(&self, cursor: i64) {
        // Of a member whose secret has been replaced nothing is expected any more.
        let _ = self.network.acknowledge(&self.member, cursor.min(self.position));
    }

    /// Up to where this inbox has handed out.
    #[must_use]
    pub fn position(&self) -> i64 {
        self.position
    }
}
