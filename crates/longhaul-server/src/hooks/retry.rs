//! When a delivery that failed is tried again. Plain data in, a decision out.

use serde::{Deserialize, Serialize};

/// How often and when deliveries are tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetrySettings {
    /// The pause after the first failure, milliseconds; each next is four times as long.
    pub first_ms: u64,
    /// The longest pause, milliseconds.
    pub pause_ms_max: u64,
    /// Attempts, the first included, before a delivery is set aside.
    pub attempts_max: u32,
}

impl Default for RetrySettings {
    /// Ten attempts in a little more than a day.
    fn default() -> Self {
        Self { first_ms: 5_000, pause_ms_max: 10 * 60 * 60 * 1_000, attempts_max: 10 }
    }
}

/// The pause before the next attempt, in milliseconds; nothing when this was the last.
///
/// Half of it is random, so that what failed together does not come back together. What the receiver asks for with
/// `retry-after` is a floor, up to the longest pause.
#[must_use]
pub(super) fn pause_ms(settings: &RetrySettings, failed: u32, retry_after_ms: Option<u64>, random: u64) -> Option<u64> {
    if failed >= settings.attempts_max {
        return None;
    }
    let doublings = failed.saturating_sub(1).saturating_mul(2).min(40);
    let full = settings.first_ms.saturating_mul(1 << doublings).min(settings.pause_ms_max);
    let ours = full / 2 + random % (full / 2 + 1);
    Some(ours.max(retry_after_ms.unwrap_or(0).min(settings.pause_ms_max)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_are_partly_random() {
        let settings = RetrySettings::default();
        let range = |failed| {
            let all = (0..20_000).step_by(7).map(|random| pause_ms(&settings, failed, None, random * 7_919).unwrap());
            let all: Vec<u64> = all.collect();
            (*all.iter().min().unwrap(), *all.iter().max().unwrap())
        };
        let near = |(low, high): (u64, u64), full: u64| {
            low >= full / 2 && low < full * 6 / 10 && high <= full && high > full * 9 / 10
        };
        assert!(near(range(1), 5_000));
        assert!(near(range(2), 20_000));
        assert!(near(range(5), 1_280_000));
        assert_eq!(pause_ms(&settings, 10, None, 0), None);
        let longest: u64 = (1..10).map(|failed| pause_ms(&settings, failed, None, u64::MAX).unwrap()).sum();
        assert!(longest < 40 * 60 * 60 * 1_000, "{longest}");
    }

    #[test]
    fn the_receiver_is_obeyed_within_bounds() {
        let settings = RetrySettings::default();
        assert_eq!(pause_ms(&settings, 1, Some(60_000), 0), Some(60_000));
        assert_eq!(pause_ms(&settings, 1, Some(u64::MAX), 0), Some(settings.pause_ms_max));
        assert_eq!(pause_ms(&RetrySettings { attempts_max: 0, ..settings }, 0, None, 0), None);
        assert_eq!(pause_ms(&settings, u32::MAX - 1, None, 0), None);
    }
}
