//! Finding who should do a task, and, when that comes to nothing, the next one.

use longhaul_network::{AgentId, Refusal, Reply, Stage};
use longhaul_store::values;
use serde_json::{Value, json};

use super::{
    Call,
    acts::WORDS_BYTES_MAX,
    rows::{Routing, Task},
};
use crate::{
    acting::{no_with, seconds},
    shape::REFERENCE_BYTES_MAX,
    social::{
        self, Asked,
        ranking::{Candidate, Need, Strategy},
    },
};

/// Candidates that an answer names.
const SHOWN_MAX: usize = 5;
/// Agents that a task may be kept from.
const EXCLUDED_MAX: usize = 100;

/// `first` is the reference's word: the first of those that fit, which are in the order of how well they fit.
const STRATEGIES: &[&str] = &["best", "first", "random", "least_busy", "trust"];

impl Call<'_, '_> {
    pub(super) fn route(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let new = self.asked_for()?;
        let required = self.fields.value("required_capabilities").cloned();
        let text = self.fields.optional_text("capability_description", WORDS_BYTES_MAX)?.unwrap_or_default();
        let fallback = match self.fields.optional_text("fallback_assignee_id", REFERENCE_BYTES_MAX)? {
            Some(agent) if !agent.is_empty() => Some(agent.parse::<AgentId>()?.to_string()),
            _ => self.mod_.fallback.clone(),
        };
        let excluded = self.fields.texts("excluded_agents", EXCLUDED_MAX)?.unwrap_or_default();
        let attempts = if self.fields.flag("reroute", true)? { self.mod_.attempts_max } else { 1 };
        let routing = Routing {
            v: 1,
            required,
            text: text.to_owned(),
            strategy: self.fields.word("selection_strategy", STRATEGIES)?.to_owned(),
            fallback,
            tried: excluded,
            areas: Vec::new(),
            attempts_max: self.fields.number("max_attempts", attempts, 1..=attempts)?,
        };
        let found = self.candidates(stage, &routing, &new.description, &self.actor.id)?;
        let count = found.len();
        let Some((assignee, areas)) = chosen(&found, &routing, &new.description) else {
            let said = "nobody who is there fits: name a fallback_assignee_id, or ask for less";
            let more = json!({
                "required_capabilities": routing.required, "capability_description": routing.text, "matched_count": 0,
            });
            return Ok(no_with("NOBODY_FITS", said, more));
        };
        let is_fallback = found.is_empty();
        // Of those that were excluded nobody has had it.
        let routing = Routing { areas, tried: [routing.tried, vec![assignee.clone()]].concat(), ..routing };
        let task = match self.make(stage, new, &assignee.parse()?, Some(routing))? {
            Ok(task) => task,
            Err(refused) => return Ok(refused),
        };
        let data = json!({
            "task_id": task.id, "assignee_id": task.assignee, "status": task.status.as_str(), "matched_count": count,
            "created_at": seconds(task.created_at), "is_fallback": is_fallback,
            "candidates": found.iter().take(SHOWN_MAX).map(social::shown).collect::<Vec<Value>>(),
        });
        Ok(Reply::done(format!("routed to {}", task.assignee), Some(data)))
    }

    fn candidates(
        &self,
        stage: &Stage<'_, '_>,
        routing: &Routing,
        description: &str,
        delegator: &str,
    ) -> Result<Vec<Candidate>, Refusal> {
        let need = Need::read(routing.required.as_ref(), &[description, &routing.text]);
        let strategy = match routing.strategy.as_str() {
            "random" => Strategy::Random,
            "least_busy" => Strategy::LeastBusy,
            "trust" => Strategy::Trusted,
            _ => Strategy::Best,
        };
        let asked = Asked { need: &need, by: delegator, not: &routing.tried, strategy };
        Ok(social::rank(&stage.rows(), &self.here, self.agents, &asked)?)
    }

    /// Gives a routed task to the next one that fits, if there is one and it has not been tried often enough. Whoever has
    /// it now, if somebody does.
    pub(super) fn reroute(
        &self,
        stage: &mut Stage<'_, '_>,
        task: &Task,
        because: &str,
    ) -> Result<Option<String>, Refusal> {
        let Some(routing) = task.routing.as_ref().filter(|routing| task.attempt < routing.attempts_max) else {
            return Ok(None);
        };
        let found = self.candidates(stage, routing, &task.description, &task.delegator)?;
        let Some((assignee, areas)) = chosen(&found, routing, &task.description) else { return Ok(None) };
        let agent: AgentId = assignee.parse()?;
        if stage.agent(&agent).is_none() {
            return Ok(None);
        }
        let now = stage.now();
        let mut next = task.clone();
        next.assignee.clone_from(&assignee);
        next.attempt += 1;
        next.due_at = longhaul_core::TimeMs(now.0.saturating_add(task.timeout_ms));
        let tried = [routing.tried.clone(), vec![assignee.clone()]].concat();
        next.routing = Some(Routing { tried, areas, ..routing.clone() });
        stage.tx().execute(
            "UPDATE delegated_tasks SET assignee_id = ?4, status = 'submitted', attempt = ?5, due_at = ?6,
                 accepted_at = NULL, routing = ?7 WHERE tenant_id = ?1 AND network_id = ?2 AND task_id = ?3",
            &values![
                &self.here.tenant,
                &self.here.network,
                &task.id,
                &assignee,
                next.attempt,
                next.due_at,
                json!(next.routing).to_string()
            ],
        )?;
        self.mod_.due_at(next.due_at.0);
        self.tell_assignee(stage, &next)?;
        let said = json!({
            "task_id": task.id, "previous_assignee_id": task.assignee, "assignee_id": assignee, "reason": because,
            "attempt": next.attempt,
        });
        self.tell(stage, "task.notification.rerouted", &task.delegator, said)?;
        Ok(Some(assignee))
    }
}

/// Who gets it and in which areas the outcome counts: the first of those that fit, else the fallback, once.
fn chosen(found: &[Candidate], routing: &Routing, description: &str) -> Option<(String, Vec<String>)> {
    let need = Need::read(routing.required.as_ref(), &[description, &routing.text]);
    if let Some(best) = found.first() {
        let mut areas = need.areas();
        areas.extend(best.matched.iter().cloned());
        areas.sort();
        areas.dedup();
        return Some((best.agent.clone(), areas));
    }
    let fallback = routing.fallback.as_ref().filter(|agent| !routing.tried.contains(agent))?;
    Some((fallback.clone(), need.areas()))
}
