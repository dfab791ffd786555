//! How often: a bucket of tokens for each address that shows wrong secrets or registers.
//!
//! Invariant: what is kept is bounded, whatever addresses come in; forgetting a bucket can only give somebody a full one.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// Buckets kept at once.
const BUCKETS_MAX: usize = 10_000;

/// Buckets that fill at one rate and hold ten seconds of it.
#[derive(Debug)]
pub(crate) struct Buckets<K> {
    per_second: f64,
    filled: Mutex<HashMap<K, (f64, Instant)>>,
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    pub(crate) fn new(per_second: u32) -> Self {
        Self { per_second: f64::from(per_second.max(1)), filled: Mutex::default() }
    }

    /// Takes a token; otherwise the milliseconds until there is one.
    pub(crate) fn take(&self, name: &K) -> Result<(), u64> {
        self.at(name, Instant::now(), 1.0)
    }

    /// Whether there is a token; takes none.
    pub(crate) fn look(&self, name: &K) -> Result<(), u64> {
        self.at(name, Instant::now(), 0.0)
    }

    fn at(&self, name: &K, now: Instant, taken: f64) -> Result<(), u64> {
        let burst = self.per_second * 10.0;
        let mut filled = self.filled.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = |&(tokens, at): &(f64, Instant)| {
            (tokens + now.saturating_duration_since(at).as_secs_f64() * self.per_second).min(burst)
        };
        let there = filled.get(name).map_or(burst, tokens);
        if there < 1.0 {
            return Err(((1.0 - there) * 1000.0 / self.per_second).ceil().max(1.0) as u64);
        }
        if taken > 0.0 {
            if filled.len() >= BUCKETS_MAX && !filled.contains_key(name) {
                filled.retain(|_, bucket| tokens(bucket) < burst);
                if filled.len() >= BUCKETS_MAX {
                    filled.clear();
                }
            }
            filled.insert(name.clone(), (there - taken, now));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_bucket_gives_ten_seconds_at_once_and_then_its_rate() {
        let (buckets, start) = (Buckets::new(1), Instant::now());
        let take = |name: u32, ms: u64| buckets.at(&name, start + Duration::from_millis(ms), 1.0);
        assert!((0..10).all(|_| take(1, 0).is_ok()));
        assert_eq!(take(1, 0), Err(1000));
        assert_eq!(take(2, 0), Ok(()), "one's flood is not another's");
        assert_eq!([take(1, 1000), take(1, 1000)], [Ok(()), Err(1000)]);
    }

    #[test]
    fn a_flood_of_addresses_is_bounded() {
        let buckets = Buckets::new(1);
        (0..BUCKETS_MAX * 3).for_each(|name| assert!(buckets.take(&name).is_ok()));
        assert!(buckets.filled.lock().unwrap().len() <= BUCKETS_MAX);
    }
}
