//! How often somebody may: a bucket that fills with time.

use longhaul_core::TimeMs;

/// So many at once, and so many a second from then on.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    /// Thousandths of what may still be taken.
    left: i64,
    last: TimeMs,
}

impl Bucket {
    /// A full one.
    pub(crate) fn full(burst: u32, now: TimeMs) -> Self {
        Self { left: i64::from(burst) * 1000, last: now }
    }

    /// Takes one, or tells after how many milliseconds there is one.
    pub(crate) fn take(&mut self, per_second: u32, burst: u32, now: TimeMs) -> Result<(), u64> {
        // A clock that was put back gives nothing, and takes nothing away.
        let passed = now.0.saturating_sub(self.last.0).clamp(0, 3_600_000);
        self.last = now;
        self.left = self.left.saturating_add(passed * i64::from(per_second)).min(i64::from(burst) * 1000);
        if self.left >= 1000 {
            self.left -= 1000;
            return Ok(());
        }
        Err((1000 - self.left).unsigned_abs().div_ceil(u64::from(per_second.max(1))).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_a_rate_and_a_clock_that_goes_back_gives_nothing() {
        let mut bucket = Bucket::full(2, TimeMs(0));
        let mut at = |ms| bucket.take(10, 2, TimeMs(ms));
        assert_eq!([at(0), at(0), at(0)], [Ok(()), Ok(()), Err(100)]);
        assert_eq!([at(50), at(100), at(100)], [Err(50), Ok(()), Err(100)]);
        assert_eq!(at(-5_000), Err(100));
    }
}
