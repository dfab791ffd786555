//! The mod of tasks: one agent gives another something to do, hears how it goes, and what came of it or that it came too
//! late; or has the network find who should do it.
//!
//! It owns the rows of `delegated_*`. It does not own who fits what (the social graph's ranking does). Invariants: a task
//! has one assignee at a time, who alone may accept, report and end it, and one delegator, who alone may cancel it; a
//! task that has ended does not change; every task ends, by its deadline at the latest, which is a row and outlives every
//! process.

mod acts;
mod ending;
mod manifest;
mod queries;
mod routing;
mod rows;

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use async_trait::async_trait;
use longhaul_core::TimeMs;
use longhaul_network::{
    Address, AgentView, Backstage, Draft, Event, Manifest, Mod, Outcome, Prepared, Refusal, RefusalKind, Sender, Stage,
};
use longhaul_store::{StoreError, values};
use serde_json::{Map, Value};

use crate::{
    Parts,
    acting::{Actor, Here, limit_of},
    shape::Fields,
};

pub(crate) const NAME: &str = "openagents.mods.coordination.task_delegation";
/// The event by which a deadline comes to the mod itself.
const EXPIRE: &str = "task.expire";
/// It is not known when the next task is due.
const UNKNOWN: i64 = i64::MIN;
/// Tasks that one look at the deadlines ends.
const EXPIRED_MAX: i64 = 100;

/// Makes it from its `config`.
pub(crate) fn make(config: &Map<String, Value>, _parts: &Parts) -> Result<Arc<dyn Mod>, Refusal> {
    let fallback = match config.get("fallback_assignee_id").and_then(Value::as_str) {
        Some(agent) => Some(agent.parse::<longhaul_network::AgentId>()?.to_string()),
        None => None,
    };
    Ok(Arc::new(Delegation {
        timeout_ms: limit_of(config, "timeout_seconds", 300).saturating_mul(1000),
        timeout_max_ms: limit_of(config, "timeout_seconds_max", 30 * 24 * 3_600).saturating_mul(1000),
        open_max: limit_of(config, "max_open_tasks_per_agent", 1_000),
        reports_max: limit_of(config, "max_reports_per_task", 1_000),
        attempts_max: limit_of(config, "max_attempts", 3),
        fallback,
        next_due: Arc::new(AtomicI64::new(UNKNOWN)),
    }))
}

/// The tasks of a network.
#[derive(Debug)]
struct Delegation {
    /// How long a task may take where nothing is said.
    timeout_ms: i64,
    timeout_max_ms: i64,
    /// Tasks that one agent may have given to others and that have not ended.
    open_max: i64,
    reports_max: i64,
    /// Agents that a routed task is given to, one after the other.
    attempts_max: i64,
    /// Who gets what nobody fits.
    fallback: Option<String>,
    /// No task is due before this. An early guess costs one look.
    next_due: Arc<AtomicI64>,
}

/// One event that is being answered.
struct Call<'a, 'e> {
    mod_: &'a Delegation,
    here: Here,
    actor: Actor,
    fields: Fields<'e>,
    event: &'e Event,
    /// All agents, where the event may need somebody for a task.
    agents: &'a [AgentView],
}

#[async_trait]
impl Mod for Delegation {
    fn manifest(&self) -> Manifest {
        manifest::manifest()
    }

    async fn prepare(&self, backstage: &Backstage, event: &Event) -> Result<Prepared, Refusal> {
        match event.name.as_str() {
            "task.route" | "task.reject" | "task.fail" | EXPIRE => Ok(Prepared::with(backstage.network.agents(&[]))),
            _ => Ok(Prepared::default()),
        }
    }

    fn apply(&self, stage: &mut Stage<'_, '_>, event: &Event, prepared: Prepared) -> Result<Outcome, Refusal> {
        let agents: Vec<AgentView> = prepared.take().unwrap_or_default();
        let call = Call {
            mod_: self,
            here: Here::of(stage),
            actor: Actor::of(stage, event),
            fields: Fields::of(event),
            event,
            agents: &agents,
        };
        let reply = match event.name.as_str() {
            "task.delegate" => call.delegate(stage)?,
            "task.route" => call.route(stage)?,
            "task.accept" => call.accept(stage)?,
            "task.report" => call.report(stage)?,
            "task.reject" => call.reject(stage)?,
            "task.complete" => call.complete(stage)?,
            "task.fail" => call.fail(stage)?,
            "task.cancel" => call.cancel(stage)?,
            "task.rate" => call.rate(stage)?,
            "task.list" => call.list(stage)?,
            "task.get" => call.get(stage)?,
            EXPIRE => call.expire(stage)?,
            _ => return Ok(Outcome::Pass),
        };
        Ok(Outcome::Answer(reply))
    }

    async fn tick(&self, backstage: &Backstage) -> Result<(), Refusal> {
        let now = backstage.network.store().ambient().clock.now();
        if self.next_due.load(Ordering::SeqCst) > now.0 {
            return Ok(());
        }
        let looked = self.expire_due(backstage, now).await;
        if looked.is_err() {
            self.due_at(UNKNOWN);
        }
        looked
    }
}

impl Delegation {
    /// A task is due then.
    fn due_at(&self, at: i64) {
        self.next_due.fetch_min(at, Ordering::SeqCst);
    }

    /// Ends what is due, and learns when the next task will be.
    async fn expire_due(&self, backstage: &Backstage, now: TimeMs) -> Result<(), Refusal> {
        let network = &backstage.network;
        let (tenant, id) = (network.scope().tenant.clone(), network.id().to_owned());
        let next_due = self.next_due.clone();
        let open: Vec<(String, i64, i64)> = network
            .store()
            .write(move |tx| {
                // Write transactions take place one at a time: what is assigned after this lowers it again, what was
                // assigned before is found.
                next_due.store(i64::MAX, Ordering::SeqCst);
                let sql = "SELECT task_id, attempt, due_at FROM delegated_tasks
                           WHERE tenant_id = ?1 AND network_id = ?2 AND status IN ('submitted', 'working')
                           ORDER BY due_at LIMIT ?3";
                tx.query(sql, &values![&tenant, &id, EXPIRED_MAX], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                    .map_err(|error: StoreError| error)
            })
            .await?;
        let any = !open.is_empty();
        for (task, attempt, due) in open {
            if due > now.0 {
                self.due_at(due);
                return Ok(());
            }
            let payload = Map::from_iter([
                ("task_id".to_owned(), Value::from(task.clone())),
                ("attempt".to_owned(), Value::from(attempt)),
            ]);
            // One deadline, one event, however often it is seen.
            let id = format!("{task}-{attempt}-due");
            let draft = Draft::new(id, EXPIRE.parse()?, Address::Mod(NAME.to_owned()), payload);
            match network.emit(Sender::Mod(NAME.to_owned()), draft).await {
                Err(refusal) if refusal.kind == RefusalKind::Unavailable => return Err(refusal),
                Err(refusal) => tracing::warn!(%refusal, task, "a task that is due could not be ended"),
                Ok(_) => {}
            }
        }
        if any {
            // There may be more.
            self.due_at(UNKNOWN);
        }
        Ok(())
    }
}
