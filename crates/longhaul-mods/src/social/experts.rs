//! Who knows about something: candidates from what agents say, outcomes of tasks, and what they have to do already.

use longhaul_network::{AgentView, Refusal, Reply, Stage};
use longhaul_store::{ReadTx, StoreError, values};
use serde_json::{Value, json};

use super::{
    Call, capabilities, follows,
    ranking::{Candidate, Need, Profile, Strategy, order},
    trust,
};
use crate::acting::{Here, no};

/// Candidates whose outcomes are looked up: those that the words fit best.
const CANDIDATES_MAX: usize = 50;
const QUESTION_BYTES_MAX: usize = 16 * 1024;

/// Who is asked for, and by whom.
pub(crate) struct Asked<'a> {
    pub(crate) need: &'a Need,
    pub(crate) by: &'a str,
    /// Not these: who asks, and who was tried already.
    pub(crate) not: &'a [String],
    pub(crate) strategy: Strategy,
}

/// Agents that are there and fit, best first.
pub(crate) fn rank(
    read: &ReadTx<'_>,
    here: &Here,
    agents: &[AgentView],
    asked: &Asked<'_>,
) -> Result<Vec<Candidate>, StoreError> {
    let (set, now) = (capabilities::all(read, here)?, read.now());
    let is_required = asked.need.has_requirements();
    let mut candidates = Vec::new();
    for view in agents.iter().filter(|view| view.present) {
        let agent = view.agent.as_str();
        if agent == asked.by || asked.not.iter().any(|not| not == agent) {
            continue;
        }
        let profile = Profile::read(&capabilities::known(view, &set));
        let (matched, strength) = profile.matched(&asked.need.words);
        if !profile.meets(asked.need) || (!is_required && strength <= 0.0) {
            continue;
        }
        let agent = agent.to_owned();
        let (trust, open_tasks, is_followed) = (0.5, 0, false);
        candidates.push(Candidate { agent, matched, strength, is_required, trust, open_tasks, is_followed });
    }
    candidates.sort_by(|a, b| b.strength.total_cmp(&a.strength).then_with(|| a.agent.cmp(&b.agent)));
    candidates.truncate(CANDIDATES_MAX);
    let followed = follows::followed_by(read, here, asked.by)?;
    let mut fit = Vec::new();
    for mut candidate in candidates {
        let standing = trust::standing(read, here, &candidate.agent)?;
        if standing.rests_until().is_some_and(|until| until > now) {
            continue;
        }
        // Outcomes in what the question spoke of count as well as in what was required.
        let mut areas = asked.need.areas();
        areas.extend(candidate.matched.iter().cloned());
        areas.sort();
        areas.dedup();
        candidate.trust = trust::trust(read, here, &candidate.agent, &areas, now)?;
        candidate.open_tasks = open_tasks(read, here, &candidate.agent)?;
        candidate.is_followed = followed.contains(&candidate.agent);
        fit.push(candidate);
    }
    order(&mut fit, asked.strategy, read.ambient().rng.next_u64());
    Ok(fit)
}

fn open_tasks(read: &ReadTx<'_>, here: &Here, agent: &str) -> Result<i64, StoreError> {
    let sql = "SELECT count(*) FROM delegated_tasks
               WHERE tenant_id = ?1 AND network_id = ?2 AND assignee_id = ?3 AND status IN ('submitted', 'working')";
    read.query_one(sql, &values![&here.tenant, &here.network, agent], |row| row.get(0))
}

/// Why somebody was chosen, for people and programs.
pub(crate) fn shown(candidate: &Candidate) -> Value {
    json!({
        "agent_id": candidate.agent, "score": candidate.score(), "matched": candidate.matched,
        "trust": candidate.trust, "open_tasks": candidate.open_tasks, "is_followed": candidate.is_followed,
    })
}

impl Call<'_, '_> {
    /// The experts for a question, without giving them anything to do.
    pub(super) fn find_experts(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        let question = self.fields.optional_text("question", QUESTION_BYTES_MAX)?.unwrap_or_default();
        let limit = self.fields.number("limit", 5, 1..=50)?;
        let required = self.fields.value("required_capabilities");
        let need = Need::read(required, &[question]);
        if !need.has_requirements() && need.words.is_empty() {
            return Ok(no("NOTHING_ASKED", "state a question, or required_capabilities"));
        }
        let asked = Asked { need: &need, by: &self.actor.id, not: &[], strategy: Strategy::Best };
        let mut found = rank(&stage.rows(), &self.here, self.agents, &asked)?;
        found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let experts: Vec<Value> = found.iter().map(shown).collect();
        let count = experts.len();
        Ok(Reply::done(format!("{count} experts"), Some(json!({"experts": experts, "count": count}))))
    }
}
