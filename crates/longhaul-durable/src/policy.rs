//! What is to be done about a node that fails, takes too long, or need not run again.
//!
//! It owns the rules as plain data; `tasks` carries them out. Invariant: without a policy a node is run once, without
//! limits, and its failure ends the run.

use std::{fmt, time::Duration};

use longhaul_core::Rng;

use crate::NodeError;

/// The rules for one node; start from [`NodePolicy::new`].
#[derive(Debug, Clone, Default)]
pub struct NodePolicy {
    pub(crate) retry: Option<Retry>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) cache: Option<Cache>,
}

impl NodePolicy {
    /// No rules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs the node again when it fails. What its steps recorded stays recorded.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Ends an attempt that takes longer.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Ends an attempt that gives no sign of life for so long: a recorded step, or `ctx.heartbeat()`.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = Some(timeout);
        self
    }

    /// Keeps the node's answer for so long and returns it instead of running the node, in any execution of the tenant.
    #[must_use]
    pub fn cache(mut self, key: CacheKey, ttl: Duration) -> Self {
        self.cache = Some(Cache { key, ttl });
        self
    }
}

/// When and how often a node is tried again. The waiting time before attempt `n + 1` is `first_ms · factor^(n-1)`, at
/// most `max_ms`; with jitter, a random part between half and all of it.
#[derive(Clone, Copy)]
pub struct Retry {
    /// Most attempts in one run, the first included.
    pub max_attempts: u32,
    /// Waiting time before the second attempt, in milliseconds.
    pub first_ms: u64,
    /// By how much each waiting time is longer than the one before.
    pub factor: f64,
    /// Longest waiting time, in milliseconds.
    pub max_ms: u64,
    /// Whether waiting times are spread at random.
    pub jitter: bool,
    /// Which failures are worth another attempt.
    pub on: fn(&NodeError) -> bool,
}

impl Default for Retry {
    /// Three attempts, half a second apart, then twice as much, spread at random; after failed steps, the node's own
    /// failures and time-outs.
    fn default() -> Self {
        Self { max_attempts: 3, first_ms: 500, factor: 2.0, max_ms: 128_000, jitter: true, on: NodeError::may_pass }
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("max_attempts", &self.max_attempts)
            .field("first_ms", &self.first_ms)
            .field("factor", &self.factor)
            .field("max_ms", &self.max_ms)
            .field("jitter", &self.jitter)
            .finish_non_exhaustive()
    }
}

impl Retry {
    /// How long to wait before the next attempt, or nothing when there is to be none.
    pub(crate) fn after(&self, attempt: u32, error: &NodeError, rng: &dyn Rng) -> Option<Duration> {
        if attempt >= self.max_attempts || !(self.on)(error) {
            return None;
        }
        let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
        #[expect(clippy::cast_precision_loss, reason = "waiting times are far below 2^52 ms")]
        let mut wait_ms = (self.first_ms as f64 * self.factor.powi(exponent)).min(self.max_ms as f64);
        if self.jitter {
            #[expect(clippy::cast_precision_loss, reason = "a share between one half and one")]
            let share = 0.5 + (rng.next_u64() >> 11) as f64 / (1_u64 << 54) as f64;
            wait_ms *= share;
        }
        Duration::try_from_secs_f64(wait_ms.max(0.0) / 1000.0).ok()
    }
}

/// What two runs of a node must share for the second to be answered from the cache. The graph's name and fingerprint
/// and the node's name always belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheKey {
    /// The node's own input, for a node that is sent one.
    Input,
    /// The whole state, and the input if there is one.
    State,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Cache {
    pub(crate) key: CacheKey,
    pub(crate) ttl: Duration,
}

#[cfg(test)]
mod tests {
    use longhaul_core::SeededRng;

    use super::*;

    fn failed() -> NodeError {
        NodeError::gave_up(std::io::Error::other("no route to host"))
    }

    #[test]
    fn waiting_times_grow_up_to_their_bound_and_end() {
        let rng = SeededRng::new(1);
        let plain =
            Retry { max_attempts: 6, first_ms: 100, factor: 2.0, max_ms: 500, jitter: false, ..Retry::default() };
        let waits: Vec<_> = (1..8).map(|n| plain.after(n, &failed(), &rng).map(|wait| wait.as_millis())).collect();
        assert_eq!(waits, [Some(100), Some(200), Some(400), Some(500), Some(500), None, None]);
        let spread = Retry { jitter: true, ..plain };
        for _ in 0..100 {
            let wait = spread.after(1, &failed(), &rng).unwrap().as_micros();
            assert!((50_000..=100_000).contains(&wait), "{wait}");
        }
        assert_eq!(plain.after(1, &NodeError::Suspended, &rng), None);
    }
}
