//! Ports for what differs on every run: time, randomness, identity (invariant 15).
//!
//! Components take an [`Ambient`]; only the binary and tests make one.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use rand::{RngCore, SeedableRng, rngs::StdRng};
use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TimeMs(pub i64);

/// Tells the time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Now, by the wall clock. It may jump backwards.
    fn now(&self) -> TimeMs;
}

/// Gives random numbers.
pub trait Rng: Send + Sync + fmt::Debug {
    /// 64 random bits.
    fn next_u64(&self) -> u64;
}

/// The system's wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> TimeMs {
        #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        TimeMs(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A generator whose whole sequence follows from its seed.
#[derive(Debug)]
pub struct SeededRng(Mutex<StdRng>);

impl SeededRng {
    /// The generator for this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }
}

impl Rng for SeededRng {
    fn next_u64(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }
}

/// The operating system's randomness.
#[derive(Debug)]
pub struct SystemRng(Mutex<StdRng>);

impl Default for SystemRng {
    fn default() -> Self {
        Self(Mutex::new(StdRng::from_os_rng()))
    }
}

impl Rng for SystemRng {
    fn next_u64(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }
}

/// Makes ids that sort by the time they were made: 12 hexadecimal digits of milliseconds, 16 of randomness.
#[derive(Debug, Clone)]
pub struct IdGen {
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
}

impl IdGen {
    /// A fresh id body, to be given to an id type's `from_body`.
    #[must_use]
    pub fn body(&self) -> String {
        format!("{:012x}{:016x}", self.clock.now().0, self.rng.next_u64())
    }
}

/// Time, randomness and identity, as one component. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Ambient {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub rng: Arc<dyn Rng>,
    /// Identity.
    pub ids: IdGen,
}

impl Ambient {
    /// From given parts.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, rng: Arc<dyn Rng>) -> Self {
        Self { ids: IdGen { clock: clock.clone(), rng: rng.clone() }, clock, rng }
    }

    /// The real clock and the system's randomness.
    #[must_use]
    pub fn system() -> Self {
        Self::new(Arc::new(SystemClock), Arc::new(SystemRng::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct At(i64);
    impl Clock for At {
        fn now(&self) -> TimeMs {
            TimeMs(self.0)
        }
    }

    #[test]
    fn ids_sort_by_time_and_repeat_with_the_seed() {
        let at = |ms, seed| Ambient::new(Arc::new(At(ms)), Arc::new(SeededRng::new(seed))).ids.body();
        assert!(at(1_000, 7) < at(1_001, 3));
        assert_eq!(at(1_000, 7), at(1_000, 7));
        assert_ne!(at(1_000, 7), at(1_000, 8));
    }
}
