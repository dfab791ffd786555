//! The service that sends webhooks out: follows the log for every subscription and delivers what is due.
//!
//! Invariants: one courier delivers for a store at a time (a lease), another process takes over when it dies; what was
//! sent and not yet noted is sent again under the same id; the deliveries in flight are bounded, one for each task of a
//! subscription.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use longhaul_core::{Scope, TaskId, TenantId, ThreadId, TimeMs, UserId};
use longhaul_store::{Lease, LeaseError, LeaseToken, Store, StoreError};
use tokio::{sync::broadcast::error::RecvError, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    WebhookSettings,
    outbox::{self, Attempt, Delivery},
    schema,
    sender::{NoClient, Sender},
    subscriptions::{self, Subscription},
};
use crate::events::{Beat, Pulse};

/// After how long another host may take over from a courier that has gone silent.
const LEASE_TTL: Duration = Duration::from_secs(15);
/// How often one that is not at work looks whether it may be.
const STANDBY: Duration = Duration::from_secs(1);
/// Deliveries in flight, of all subscriptions and of one.
const FLIGHT_MAX: usize = 32;
const FLIGHT_OF_ONE_MAX: usize = 4;
/// Entries of the log that may have been seen without its being noted.
const UNNOTED_MAX: i64 = 5_000;
/// Longest time for which nothing is looked at.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Sends webhooks out. See [`Courier::run`].
#[derive(Debug)]
pub(crate) struct Courier {
    store: Store,
    pulse: Pulse,
    sender: Sender,
    dead_in_a_row_max: u32,
}

/// A subscription's name among all.
type Name = (TenantId, String);
type Sent = (Name, Delivery, Result<Attempt, StoreError>);

/// What the courier knows while it has the lease.
struct Round {
    token: LeaseToken,
    subscriptions: HashMap<Name, Arc<Subscription>>,
    /// To be looked at now.
    dirty: HashSet<Name>,
    /// To be looked at later.
    later: HashMap<Name, TimeMs>,
    /// Up to where the log was looked at, for each.
    seen: HashMap<Name, i64>,
    flying: HashSet<(Name, TaskId)>,
    sending: JoinSet<Sent>,
}

impl Courier {
    pub(crate) fn new(store: Store, pulse: Pulse, settings: &WebhookSettings) -> Result<Self, NoClient> {
        let WebhookSettings { allow, retry, attempt_max, dead_in_a_row_max } = settings.clone();
        let sender = Sender::new(store.clone(), super::target::TargetRules { allow }, retry, attempt_max)?;
        Ok(Self { store, pulse, sender, dead_in_a_row_max })
    }

    /// Delivers until `shutdown`, whenever no other process does.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        // A tenant of nobody's: no thread of anybody's has this name.
        let scope = Scope { tenant: TenantId::from_body("gateway-itself"), user: UserId::from_body("courier") };
        let Ok(thread) = "gateway/webhooks".parse::<ThreadId>() else { return };
        while !shutdown.is_cancelled() {
            match Lease::acquire(&self.store, &scope, &thread, LEASE_TTL).await {
                Ok(lease) => {
                    if let Err(error) = self.deliver(lease.token().clone(), &shutdown).await {
                        tracing::warn!(%error, "webhooks are not sent for a moment");
                    }
                    if let Err(error) = lease.release().await {
                        tracing::debug!(%error, "the courier's lease ends by itself");
                    }
                }
                Err(LeaseError::Held { .. }) => {}
                Err(LeaseError::Store(error)) => tracing::warn!(%error, "webhooks are not sent for a moment"),
            }
            let _ = tokio::time::timeout(STANDBY, shutdown.cancelled()).await;
        }
    }

    async fn deliver(&self, token: LeaseToken, shutdown: &CancellationToken) -> Result<(), StoreError> {
        // Listening comes before reading.
        let mut beats = self.pulse.subscribe();
        let mut changes = self.store.listen(schema::CHANGED);
        let mut round = Round {
            token,
            subscriptions: HashMap::new(),
            dirty: HashSet::new(),
            later: HashMap::new(),
            seen: HashMap::new(),
            flying: HashSet::new(),
            sending: JoinSet::new(),
        };
        self.reload(&mut round).await?;
        loop {
            for name in std::mem::take(&mut round.dirty) {
                self.look(&mut round, name).await?;
            }
            let idle = self.idle(&round);
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                Some(sent) = round.sending.join_next(), if !round.sending.is_empty() => {
                    let Ok((name, delivery, attempt)) = sent else { continue };
                    round.flying.remove(&(name.clone(), delivery.scope.task.clone()));
                    self.note(&round.token, &delivery, attempt?).await?;
                    round.dirty.insert(name);
                }
                change = changes.next() => match change {
                    Some(_) => self.reload(&mut round).await?,
                    None => return Ok(()),
                },
                beat = beats.recv() => match beat {
                    Ok(Beat::For { tenant, user, task, .. }) => round.mark(&tenant, &user, &task),
                    Ok(Beat::Anybody) | Err(RecvError::Lagged(_)) => round.mark_all(),
                    Err(RecvError::Closed) => return Ok(()),
                },
                () = sleep_until(idle) => {
                    let now = self.store.ambient().clock.now();
                    let due = round.later.extract_if(|_, at| *at <= now);
                    round.dirty.extend(due.map(|(name, _)| name));
                }
            }
        }
    }

    /// Reads who subscribes, and looks at all of them.
    async fn reload(&self, round: &mut Round) -> Result<(), StoreError> {
        let all = self.store.read(subscriptions::enabled).await?;
        let named = all.into_iter().map(|one| ((one.scope.tenant.clone(), one.id.clone()), Arc::new(one)));
        round.subscriptions = named.collect();
        round.mark_all();
        Ok(())
    }

    /// Notes what is new for a subscription, and sends what is due.
    async fn look(&self, round: &mut Round, name: Name) -> Result<(), StoreError> {
        round.later.remove(&name);
        let Some(subscription) = round.subscriptions.get(&name).cloned() else { return Ok(()) };
        self.plan(round, &name, &subscription).await?;
        let (scope, id) = (subscription.scope.clone(), subscription.id.clone());
        // Read with its heads: one that has just been switched off is sent nothing more, whatever is known of it here.
        let read = self.store.read(move |read| {
            let Some(current) = subscriptions::get(read, &scope, &id)?.filter(|found| found.enabled) else {
                return Ok(None);
            };
            Ok::<_, StoreError>(Some((Arc::new(current), outbox::heads(read, &scope, &id)?)))
        });
        let Some((subscription, heads)) = read.await? else {
            round.subscriptions.remove(&name);
            return Ok(());
        };
        let now = self.store.ambient().clock.now();
        let mut own = round.flying.iter().filter(|(of, _)| *of == name).count();
        for head in heads {
            let place = (name.clone(), head.scope.task.clone());
            if round.flying.contains(&place) {
                continue;
            }
            if head.next_at > now {
                round.later.insert(name.clone(), head.next_at);
                break;
            }
            if own >= FLIGHT_OF_ONE_MAX {
                // It is looked at again when one has landed.
                break;
            }
            if round.sending.len() >= FLIGHT_MAX {
                round.later.insert(name.clone(), TimeMs(now.0 + 50));
                break;
            }
            own += 1;
            round.flying.insert(place);
            let (sender, subscription, name) = (self.sender.clone(), subscription.clone(), name.clone());
            round.sending.spawn(async move {
                let secrets = subscription.secrets.good(now);
                let attempt = sender.attempt(&head, &subscription.url, &secrets).await;
                (name, head, attempt)
            });
        }
        Ok(())
    }

    /// Notes what is new. Of parts of the log in which nothing is wanted only this process keeps in mind that it has
    /// seen them: most of what happens would otherwise cost a write for each subscription.
    async fn plan(&self, round: &mut Round, name: &Name, of: &Arc<Subscription>) -> Result<(), StoreError> {
        loop {
            let from = round.seen.get(name).map_or(of.position, |seen| of.position.max(*seen));
            let looked = of.clone();
            let Some(ahead) = self.store.read(move |read| outbox::ahead(read, &looked, from)).await? else {
                return Ok(());
            };
            let more = if ahead.wanted || ahead.last - of.position > UNNOTED_MAX {
                let (token, scope, id) = (round.token.clone(), of.scope.clone(), of.id.clone());
                let more = self.store.write(move |tx| outbox::plan(tx, &token, &scope, &id, from)).await?;
                // How far it went is in the row; with as much waiting as may wait, nowhere.
                let (scope, id) = (of.scope.clone(), of.id.clone());
                let row = self.store.read(move |read| subscriptions::get(read, &scope, &id)).await?;
                let position = row.map_or(from, |row| row.position);
                round.seen.insert(name.clone(), position.max(from));
                more
            } else {
                round.seen.insert(name.clone(), ahead.last);
                ahead.more
            };
            if !more {
                return Ok(());
            }
        }
    }

    async fn note(&self, token: &LeaseToken, delivery: &Delivery, attempt: Attempt) -> Result<(), StoreError> {
        let (token, delivery, most) = (token.clone(), delivery.clone(), self.dead_in_a_row_max);
        self.store.write(move |tx| outbox::note(tx, &token, &delivery, &attempt, most)).await
    }

    /// How long nothing is due.
    fn idle(&self, round: &Round) -> Duration {
        let Some(next) = round.later.values().min() else { return IDLE_MAX };
        let left = next.0.saturating_sub(self.store.ambient().clock.now().0);
        Duration::from_millis(u64::try_from(left).unwrap_or(0)).min(IDLE_MAX)
    }
}

async fn sleep_until(idle: Duration) {
    let _ = tokio::time::timeout(idle, std::future::pending::<()>()).await;
}

impl Round {
    fn mark(&mut self, tenant: &TenantId, user: &UserId, task: &TaskId) {
        let concerned = self.subscriptions.iter().filter(|(_, one)| {
            one.scope.tenant == *tenant
                && one.scope.user == *user
                && one.task.as_ref().is_none_or(|wanted| wanted == task)
        });
        self.dirty.extend(concerned.map(|(name, _)| name.clone()));
    }

    fn mark_all(&mut self) {
        self.dirty.extend(self.subscriptions.keys().cloned());
    }
}
