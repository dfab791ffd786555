//! Whom to trust with what: what became of tasks, counted by who gave them.
//!
//! Trust is the expected share of successes, from 0 to 1, with a half for somebody unknown: the mean of a beta
//! distribution that begins at one success and one failure. In an area (a skill, a tag) it begins at what is known in
//! general, with the weight of two outcomes. Outcomes fade with a half-life of 90 days. Invariant: of what one agent says
//! of another at most ten outcomes count, so that two who praise each other stay near where they were.

use longhaul_core::TimeMs;
use longhaul_network::{Refusal, Reply, Stage};
use longhaul_store::{ReadTx, StoreError, Tx, values};
use serde_json::json;

use super::Call;
use crate::{acting::Here, shape::REFERENCE_BYTES_MAX};

/// Outcomes of one rater that count.
const RATER_MAX: f64 = 10.0;
const HALF_LIFE_MS: f64 = 90.0 * 24.0 * 3_600_000.0;
/// Weight of what an area begins with.
const BEGIN: f64 = 2.0;
/// Areas that one outcome is counted in.
const AREAS_MAX: usize = 8;
/// Failures in a row after which an agent is given nothing for a while.
const BREAK_AFTER: i64 = 3;
/// How long that is; it doubles with each further failure, up to an hour.
const BREAK_MS: i64 = 30_000;
const BREAK_MS_MAX: i64 = 3_600_000;

/// What became of something that an agent was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Completed,
    Failed,
    TimedOut,
    /// Declined; honest, and no failure.
    Rejected,
}

/// Where an agent stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) completed: i64,
    pub(crate) failed: i64,
    pub(crate) timed_out: i64,
    pub(crate) rejected: i64,
    pub(crate) failures_in_row: i64,
    pub(crate) last_failure_at: i64,
}

impl Standing {
    /// Until when the agent is given nothing, if it has failed too often in a row.
    pub(crate) fn rests_until(&self) -> Option<TimeMs> {
        let over = u32::try_from(self.failures_in_row - BREAK_AFTER).ok()?;
        let pause = BREAK_MS.saturating_mul(2_i64.saturating_pow(over)).min(BREAK_MS_MAX);
        Some(TimeMs(self.last_failure_at.saturating_add(pause)))
    }
}

/// One rater's outcomes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Outcomes {
    pub(crate) good: i64,
    pub(crate) bad: i64,
    pub(crate) last_at: i64,
}

/// The trust that follows from these outcomes, beginning at `prior` with the weight of two outcomes.
#[expect(clippy::cast_precision_loss, reason = "counts and ages are far below 2^53")]
pub(crate) fn trust_from(outcomes: &[Outcomes], prior: f64, now: TimeMs) -> f64 {
    let (mut good, mut all) = (prior * BEGIN, BEGIN);
    for rater in outcomes {
        let (successes, count) = (rater.good as f64, (rater.good + rater.bad) as f64);
        if count <= 0.0 {
            continue;
        }
        let age = (now.0 - rater.last_at).max(0) as f64;
        let weight = (RATER_MAX / count).min(1.0) * (-age / HALF_LIFE_MS).exp2();
        good += successes * weight;
        all += count * weight;
    }
    good / all
}

fn outcomes(read: &ReadTx<'_>, here: &Here, agent: &str, area: &str) -> Result<Vec<Outcomes>, StoreError> {
    let sql = "SELECT good, bad, last_at FROM social_outcomes
               WHERE tenant_id = ?1 AND network_id = ?2 AND agent_id = ?3 AND area = ?4";
    read.query(sql, &values![&here.tenant, &here.network, agent, area], |row| {
        Ok(Outcomes { good: row.get(0)?, bad: row.get(1)?, last_at: row.get(2)? })
    })
}

/// How far the agent is to be trusted in these areas; in general where there are none.
pub(crate) fn trust(
    read: &ReadTx<'_>,
    here: &Here,
    agent: &str,
    areas: &[String],
    now: TimeMs,
) -> Result<f64, StoreError> {
    let general = trust_from(&outcomes(read, here, agent, "")?, 0.5, now);
    let mut sum = 0.0;
    for area in areas.iter().take(AREAS_MAX) {
        sum += trust_from(&outcomes(read, here, agent, area)?, general, now);
    }
    let count = u32::try_from(areas.len().min(AREAS_MAX)).unwrap_or(0);
    Ok(if count == 0 { general } else { sum / f64::from(count) })
}

pub(crate) fn standing(read: &ReadTx<'_>, here: &Here, agent: &str) -> Result<Standing, StoreError> {
    let sql = "SELECT completed, failed, timed_out, rejected, failures_in_row, last_failure_at FROM social_standings
               WHERE tenant_id = ?1 AND network_id = ?2 AND agent_id = ?3";
    let found = read.query_optional(sql, &values![&here.tenant, &here.network, agent], |row| {
        Ok(Standing {
            completed: row.get(0)?,
            failed: row.get(1)?,
            timed_out: row.get(2)?,
            rejected: row.get(3)?,
            failures_in_row: row.get(4)?,
            last_failure_at: row.get(5)?,
        })
    })?;
    Ok(found.unwrap_or_default())
}

/// Counts what became of something that `rater` gave `agent`, in general and in these areas.
pub(crate) fn record(
    tx: &mut Tx<'_>,
    here: &Here,
    agent: &str,
    rater: &str,
    areas: &[String],
    ended: Ended,
) -> Result<(), StoreError> {
    // Nobody's word about themselves counts.
    if agent == rater {
        return Ok(());
    }
    let now = tx.now();
    let is = |wanted: Ended| i64::from(ended == wanted);
    let failed = matches!(ended, Ended::Failed | Ended::TimedOut);
    tx.execute(
        "INSERT INTO social_standings (tenant_id, network_id, agent_id, completed, failed, timed_out, rejected,
             failures_in_row, last_failure_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (tenant_id, network_id, agent_id) DO UPDATE SET
             completed = social_standings.completed + excluded.completed,
             failed = social_standings.failed + excluded.failed,
             timed_out = social_standings.timed_out + excluded.timed_out,
             rejected = social_standings.rejected + excluded.rejected,
             failures_in_row = CASE WHEN excluded.completed = 1 THEN 0
                                    ELSE social_standings.failures_in_row + excluded.failures_in_row END,
             last_failure_at = CASE WHEN excluded.failures_in_row = 1 THEN excluded.last_failure_at
                                    ELSE social_standings.last_failure_at END",
        &values![
            &here.tenant,
            &here.network,
            agent,
            is(Ended::Completed),
            is(Ended::Failed),
            is(Ended::TimedOut),
            is(Ended::Rejected),
            i64::from(failed),
            if failed { now.0 } else { 0 }
        ],
    )?;
    // Declining is no failure.
    if ended == Ended::Rejected {
        return Ok(());
    }
    let general = [String::new()];
    for area in general.iter().chain(areas.iter().take(AREAS_MAX)) {
        add(tx, here, agent, area, rater, i64::from(!failed), i64::from(failed))?;
    }
    Ok(())
}

/// The rater says afterwards that what was completed was no good.
pub(crate) fn retract(
    tx: &mut Tx<'_>,
    here: &Here,
    agent: &str,
    rater: &str,
    areas: &[String],
) -> Result<(), StoreError> {
    let general = [String::new()];
    for area in general.iter().chain(areas.iter().take(AREAS_MAX)) {
        add(tx, here, agent, area, rater, -1, 1)?;
    }
    Ok(())
}

fn add(
    tx: &mut Tx<'_>,
    here: &Here,
    agent: &str,
    area: &str,
    rater: &str,
    good: i64,
    bad: i64,
) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(
        "INSERT INTO social_outcomes (tenant_id, network_id, agent_id, area, rater_id, good, bad, last_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (tenant_id, network_id, agent_id, area, rater_id) DO UPDATE SET
             good = social_outcomes.good + ?6, bad = social_outcomes.bad + ?7, last_at = ?8",
        &values![&here.tenant, &here.network, agent, area, rater, good, bad, now],
    )?;
    Ok(())
}

impl Call<'_, '_> {
    pub(super) fn trust(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        let agent = self.fields.text("agent_id", REFERENCE_BYTES_MAX)?;
        let (read, now) = (stage.rows(), stage.now());
        let sql = "SELECT DISTINCT area FROM social_outcomes
                   WHERE tenant_id = ?1 AND network_id = ?2 AND agent_id = ?3 AND area <> '' ORDER BY area LIMIT 100";
        let areas: Vec<String> =
            read.query(sql, &values![&self.here.tenant, &self.here.network, agent], |row| row.get(0))?;
        let mut by_area = serde_json::Map::new();
        for area in areas {
            let score = trust(&read, &self.here, agent, std::slice::from_ref(&area), now)?;
            by_area.insert(area, score.into());
        }
        let standing = standing(&read, &self.here, agent)?;
        let resting = standing.rests_until().filter(|until| *until > now);
        let data = json!({
            "agent_id": agent, "trust": trust(&read, &self.here, agent, &[], now)?, "areas": by_area,
            "completed": standing.completed, "failed": standing.failed, "timed_out": standing.timed_out,
            "rejected": standing.rejected, "failures_in_row": standing.failures_in_row,
            "rests_until": resting.map(|until| until.0),
        });
        Ok(Reply::done("trust", Some(data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: TimeMs = TimeMs(1_000_000_000_000);

    fn rated(good: i64, bad: i64) -> Outcomes {
        Outcomes { good, bad, last_at: NOW.0 }
    }

    #[test]
    fn trust_begins_at_a_half_and_follows_outcomes() {
        assert!((trust_from(&[], 0.5, NOW) - 0.5).abs() < 1e-9);
        assert!(trust_from(&[rated(3, 0)], 0.5, NOW) > 0.7);
        assert!(trust_from(&[rated(0, 3)], 0.5, NOW) < 0.3);
    }

    #[test]
    fn one_who_praises_a_thousand_times_counts_for_ten() {
        let by_one = trust_from(&[rated(1000, 0)], 0.5, NOW);
        assert!((by_one - trust_from(&[rated(10, 0)], 0.5, NOW)).abs() < 1e-9);
        let by_many: Vec<Outcomes> = (0..20).map(|_| rated(10, 0)).collect();
        assert!(trust_from(&by_many, 0.5, NOW) > by_one);
    }

    #[test]
    fn what_is_long_ago_counts_less() {
        let old = Outcomes { last_at: NOW.0 - 365 * 24 * 3_600_000, ..rated(0, 5) };
        assert!(trust_from(&[old], 0.5, NOW) > trust_from(&[rated(0, 5)], 0.5, NOW));
    }

    #[test]
    fn who_fails_three_times_in_a_row_rests_longer_each_time() {
        let failed = |failures_in_row| Standing { failures_in_row, last_failure_at: NOW.0, ..Standing::default() };
        assert_eq!(failed(2).rests_until(), None);
        assert_eq!(failed(3).rests_until(), Some(TimeMs(NOW.0 + 30_000)));
        assert_eq!(failed(5).rests_until(), Some(TimeMs(NOW.0 + 120_000)));
        assert_eq!(failed(60).rests_until(), Some(TimeMs(NOW.0 + 3_600_000)));
    }
}
