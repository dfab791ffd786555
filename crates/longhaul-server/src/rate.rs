//! How often: a bucket of tokens for each key, and one for each address that shows keys we do not know.
//!
//! Invariant: what is kept is bounded, whatever names come in; forgetting a bucket can only give somebody a full one.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// Buckets kept at once.
const BUCKETS_MAX: usize = 10_000;

/// Buckets that fill at one rate.
#[derive(Debug)]
pub(crate) struct Buckets<K> {
    per_second: f64,
    burst: f64,
    filled: Mutex<HashMap<K, Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        Self { per_second: f64::from(per_second.max(1)), burst: f64::from(burst.max(1)), filled: Mutex::default() }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// The seconds until there is one, at least 1.
    pub(crate) fn take(&self, name: &K) -> Result<(), u64> {
        self.at(name, Instant::now(), 1.0)
    }

    /// Whether there is a token; takes none.
    pub(crate) fn look(&self, name: &K) -> Result<(), u64> {
        self.at(name, Instant::now(), 0.0)
    }

    fn at(&self, name: &K, now: Instant, taken: f64) -> Result<(), u64> {
        let mut filled = self.filled.lock().unwrap_or_else(PoisonError::into_inner);
        let before = filled.get(name).copied();
        let tokens = before.map_or(self.burst, |bucket| self.now(bucket, now));
        if tokens < 1.0 {
            return Err(((1.0 - tokens) / self.per_second).ceil().max(1.0) as u64);
        }
        if taken > 0.0 {
            if before.is_none() && filled.len() >= BUCKETS_MAX {
                filled.retain(|_, bucket| self.now(*bucket, now) < self.burst);
                if filled.len() >= BUCKETS_MAX {
                    filled.clear();
                }
            }
            let bucket = Bucket { tokens: tokens - taken, at: now };
            match filled.get_mut(name) {
                Some(kept) => *kept = bucket,
                None => drop(filled.insert(name.clone(), bucket)),
            }
        }
        Ok(())
    }

    fn now(&self, bucket: Bucket, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.tokens + passed * self.per_second).min(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let (buckets, start) = (Buckets::new(2, 3), Instant::now());
        let take = |name: &str, ms: u64| buckets.at(&name.to_owned(), start + Duration::from_millis(ms), 1.0);
        assert_eq!([take("a", 0), take("a", 0), take("a", 0), take("a", 0)], [Ok(()), Ok(()), Ok(()), Err(1)]);
        assert_eq!(take("b", 0), Ok(()), "one's flood is not another's");
        assert_eq!([take("a", 500), take("a", 500)], [Ok(()), Err(1)]);
        assert_eq!([0; 4].map(|_| take("a", 60_000).is_ok()), [true, true, true, false], "it never holds more");
    }

    #[test]
    fn a_flood_of_names_is_bounded() {
        let buckets = Buckets::new(1, 1);
        (0..BUCKETS_MAX * 3).for_each(|name| assert!(buckets.take(&name).is_ok()));
        assert!(buckets.filled.lock().unwrap().len() <= BUCKETS_MAX);
    }
}
