//! The circuit breaker of each agent: whoever fails again and again is not asked for a while.
//!
//! It owns the states (pure) and their rows. Three failures in a row open it; while it is open nobody asks; after its
//! pause one question is let through, and what becomes of that closes or opens it again, for twice as long each time.

use longhaul_core::{Scope, TimeMs};
use longhaul_store::{ReadTx, StoreError, Tx, values};

/// The bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Failures in a row that open it.
    pub failures_max: u32,
    /// First pause, milliseconds; it doubles with each further failure.
    pub pause_ms: i64,
    /// Longest pause, milliseconds.
    pub pause_ms_max: i64,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures_max: 3, pause_ms: 30_000, pause_ms_max: 600_000 }
    }
}

/// How an agent stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Breaker {
    /// Failures since the last success.
    pub failures: u32,
    /// Not to be asked before this, milliseconds since the Unix epoch; 0 while it is closed.
    pub rests_until: i64,
    /// The latest failure.
    pub why: String,
}

impl Breaker {
    /// Whether the agent may be asked now.
    #[must_use]
    pub fn allows(&self, now: TimeMs) -> bool {
        now.0 >= self.rests_until
    }

    /// It is asked: while its pause is just over, nobody else asks until this is decided.
    #[must_use]
    pub fn asked(mut self, settings: BreakerSettings, now: TimeMs) -> Self {
        if self.failures >= settings.failures_max {
            self.rests_until = now.0.saturating_add(self.pause(settings));
        }
        self
    }

    /// It answered.
    #[must_use]
    pub fn succeeded(self) -> Self {
        Self::default()
    }

    /// It failed.
    #[must_use]
    pub fn failed(mut self, settings: BreakerSettings, now: TimeMs, why: &str) -> Self {
        self.failures = self.failures.saturating_add(1);
        self.why = why.chars().take(300).collect();
        if self.failures >= settings.failures_max {
            self.rests_until = now.0.saturating_add(self.pause(settings));
        }
        self
    }

    fn pause(&self, settings: BreakerSettings) -> i64 {
        let doublings = self.failures.saturating_sub(settings.failures_max).min(20);
        settings.pause_ms.saturating_mul(1 << doublings).min(settings.pause_ms_max)
    }
}

/// How an agent stands; one of which nothing is known has not failed.
///
/// # Errors
/// Those of the store.
pub fn read(read: &ReadTx<'_>, scope: &Scope, network: &str, agent: &str) -> Result<Breaker, StoreError> {
    let found = read.query_optional(
        "SELECT failures, rests_until, why FROM agent_breakers
         WHERE tenant_id = ?1 AND network_id = ?2 AND agent_id = ?3",
        &values![&scope.tenant, network, agent],
        |row| Ok(Breaker { failures: row.get(0)?, rests_until: row.get(1)?, why: row.get(2)? }),
    )?;
    Ok(found.unwrap_or_default())
}

/// Notes how an agent stands.
///
/// # Errors
/// Those of the store.
pub fn write(tx: &mut Tx<'_>, scope: &Scope, network: &str, agent: &str, breaker: &Breaker) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(
        "INSERT INTO agent_breakers (tenant_id, network_id, agent_id, failures, rests_until, why, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (tenant_id, network_id, agent_id)
         DO UPDATE SET failures = excluded.failures, rests_until = excluded.rests_until, why = excluded.why,
             at = excluded.at",
        &values![&scope.tenant, network, agent, breaker.failures, breaker.rests_until, &breaker.why, now],
    )
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_lets_one_through_and_closes_with_a_success() {
        let settings = BreakerSettings { failures_max: 2, pause_ms: 100, pause_ms_max: 300 };
        let at = TimeMs;
        let one = Breaker::default().failed(settings, at(0), "slow");
        assert!(one.allows(at(0)), "one failure may happen to anybody");
        let open = one.failed(settings, at(10), "slow");
        assert!(!open.allows(at(109)) && open.allows(at(110)));
        let probing = open.clone().asked(settings, at(110));
        assert!(!probing.allows(at(150)), "one question is enough to see");
        assert_eq!(probing.clone().succeeded(), Breaker::default());
        let again = probing.failed(settings, at(120), "slow");
        assert!(!again.allows(at(319)) && again.allows(at(320)), "the pause doubles: {again:?}");
        let longest = again.failed(settings, at(320), "slow");
        assert_eq!(longest.rests_until, 620, "up to its bound");
    }
}
