//! How long `run` goes on: until all is done, or until a moment; and how patient it is with a service that does not
//! answer meanwhile.
//!
//! Without an `Until` a run ends with the first failure that the client's own retries did not mend: somebody sits there.
//! With one nobody does, and it tries again, later and later. Invariant: while it waits, nothing is asked of anybody.

use std::time::Duration;

use longhaul_core::TimeMs;
use longhaul_memory::when::{WhenError, Zone, ahead};
use longhaul_operate::ErrorKind;

use crate::LonghaulError;

const FIRST_WAIT: Duration = Duration::from_secs(30);
const WAIT_MAX: Duration = Duration::from_mins(15);
/// Failures in a row, nothing having been achieved between them: a day and more.
const FAILURES_MAX: u32 = 100;

/// When a run ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// When there is nothing more to do.
    Done,
    /// At this moment; the session under way hands over.
    At(TimeMs),
}

impl Until {
    /// `done`, or a moment as people write it: `8h`, `2026-12-31`, `2026-11-01T09:30`.
    ///
    /// # Errors
    /// [`WhenError`] for what names no time, and for what is over.
    pub fn parse(text: &str, now: TimeMs) -> Result<Self, WhenError> {
        if text.trim().eq_ignore_ascii_case("done") {
            return Ok(Self::Done);
        }
        ahead(text, now, &Zone::local()).map(Self::At)
    }

    /// The moment, if there is one.
    pub(crate) fn moment(self) -> Option<TimeMs> {
        match self {
            Self::Done => None,
            Self::At(at) => Some(at),
        }
    }
}

/// How often a run has failed in a row.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    failures: u32,
}

impl Patience {
    /// How long to wait before the run goes on, if the failure is one that passes by itself and it has `until` to see.
    pub(crate) fn wait(&mut self, error: &LonghaulError, until: Option<Until>, now: TimeMs) -> Option<Duration> {
        let until = until?;
        if error.kind() != ErrorKind::Retry || matches!(error, LonghaulError::Busy(_)) || self.failures >= FAILURES_MAX
        {
            return None;
        }
        let wait = FIRST_WAIT.saturating_mul(1 << self.failures.min(10)).min(WAIT_MAX);
        self.failures += 1;
        let over = now.0.saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
        until.moment().is_none_or(|end| over < end.0).then_some(wait)
    }

    /// Something was achieved.
    pub(crate) fn renew(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use longhaul_model::ModelError;

    use super::*;

    fn unreachable() -> LonghaulError {
        let (base_url, reason) = ("http://127.0.0.1:9/v1".to_owned(), "refused".to_owned());
        LonghaulError::Model(ModelError::Unreachable { base_url, reason })
    }

    #[test]
    fn a_run_with_time_waits_longer_and_longer_for_what_passes_by_itself() {
        let mut patience = Patience::default();
        let mut wait = |until| patience.wait(&unreachable(), until, TimeMs(0)).map(|wait| wait.as_secs());
        assert_eq!(wait(None), None, "somebody sits there");
        let waits: Vec<_> = (0..7).map(|_| wait(Some(Until::Done)).unwrap()).collect();
        assert_eq!(waits, [30, 60, 120, 240, 480, 900, 900]);
        assert_eq!(wait(Some(Until::At(TimeMs(60_000)))), None, "the time is up before that");
        patience.renew();
        assert_eq!(patience.wait(&unreachable(), Some(Until::Done), TimeMs(0)), Some(FIRST_WAIT));
        assert_eq!(patience.wait(&LonghaulError::EmptyRequest, Some(Until::Done), TimeMs(0)), None);
    }

    #[test]
    fn until_is_done_or_a_moment_to_come() {
        let now = TimeMs(1_800_000_000_000);
        assert_eq!(Until::parse("Done", now), Ok(Until::Done));
        assert_eq!(Until::parse("8h", now), Ok(Until::At(TimeMs(now.0 + 8 * 3_600_000))));
        assert!(Until::parse("2020-01-01", now).is_err());
        assert!(Until::parse("whenever", now).is_err());
    }
}
