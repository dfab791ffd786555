//! Decides whether and when a failed attempt is followed by another. Plain data in, a decision out.

use longhaul_core::TimeMs;

use super::limits::CallLimits;

/// How long to wait before the next attempt, or `None` to give up.
///
/// The wait doubles with each failed attempt up to its maximum and half of it is random, so that many clients that
/// failed together do not come back together. A `retry-after` of the service is a floor, never shortened.
pub(crate) fn next_wait_ms(
    limits: &CallLimits,
    failed_attempts: u32,
    elapsed_ms: u64,
    retry_after_ms: Option<u64>,
    random: u64,
) -> Option<u64> {
    if failed_attempts >= limits.attempts_max {
        return None;
    }
    let doublings = failed_attempts.saturating_sub(1).min(30);
    let full = limits.backoff_first_ms.saturating_mul(1 << doublings).min(limits.backoff_ms_max);
    let ours = full / 2 + random % (full / 2 + 1);
    let wait = ours.max(retry_after_ms.unwrap_or(0));
    (elapsed_ms.saturating_add(wait) < limits.call_ms_max).then_some(wait)
}

/// What `retry-after-ms` and `retry-after` (seconds, or an HTTP date; RFC 9110, 10.2.3) ask for, milliseconds.
/// A value that is neither is as good as none; a date in the past is 0.
pub(crate) fn retry_after_ms(milliseconds: Option<&str>, retry_after: Option<&str>, now: TimeMs) -> Option<u64> {
    if let Some(stated) = milliseconds.and_then(parse_number) {
        return Some(stated);
    }
    let text = retry_after?.trim();
    if let Some(seconds) = parse_number(text) {
        return Some(seconds.saturating_mul(1_000));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let since = date.duration_since(std::time::UNIX_EPOCH).ok()?;
    let at_ms = i64::try_from(since.as_millis()).ok()?;
    Some(u64::try_from(at_ms.saturating_sub(now.0)).unwrap_or(0))
}

/// Whole numbers, rounded up; services also send `1.5`. Out of range counts as the largest number.
fn parse_number(text: &str) -> Option<u64> {
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let rounded_up = u64::from(fraction.bytes().any(|byte| byte != b'0'));
    Some(whole.parse::<u64>().unwrap_or(u64::MAX).saturating_add(rounded_up))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_are_partly_random() {
        let limits =
            CallLimits { backoff_first_ms: 100, backoff_ms_max: 1_000, attempts_max: 9, ..CallLimits::default() };
        let range = |failed| {
            let waits = (0..500).map(|random| next_wait_ms(&limits, failed, 0, None, random).unwrap());
            let waits: Vec<u64> = waits.collect();
            (*waits.iter().min().unwrap(), *waits.iter().max().unwrap())
        };
        assert_eq!(range(1), (50, 100));
        assert_eq!(range(2), (100, 200));
        assert_eq!(range(4), (400, 800));
        assert_eq!(range(8), (500, 999));
        assert_eq!(next_wait_ms(&limits, 9, 0, None, 0), None);
    }

    #[test]
    fn the_service_is_obeyed_or_the_call_ends() {
        let limits = CallLimits { call_ms_max: 10_000, ..CallLimits::default() };
        assert_eq!(next_wait_ms(&limits, 1, 0, Some(9_000), 0), Some(9_000));
        assert_eq!(next_wait_ms(&limits, 1, 2_000, Some(9_000), 0), None);
        assert_eq!(next_wait_ms(&limits, 1, 0, Some(u64::MAX), 0), None);
        assert_eq!(next_wait_ms(&CallLimits { attempts_max: 1, ..limits }, 1, 0, None, 0), None);
    }

    #[test]
    fn retry_after_is_read_in_seconds_and_as_a_date() {
        let now = TimeMs(784_111_777_000); // Sun, 06 Nov 1994 08:49:37 GMT
        let read = |text| retry_after_ms(None, Some(text), now);
        assert_eq!(read("2"), Some(2_000));
        assert_eq!(read(" 0.5 "), Some(1_000));
        assert_eq!(read("Sun, 06 Nov 1994 08:49:40 GMT"), Some(3_000));
        assert_eq!(read("Sunday, 06-Nov-94 08:49:40 GMT"), Some(3_000));
        assert_eq!(read("Sun, 06 Nov 1994 08:49:00 GMT"), Some(0));
        assert_eq!(read("99999999999999999999999"), Some(u64::MAX));
        for nonsense in ["", "soon", "-1", "1.", "+5"] {
            assert_eq!(read(nonsense), None, "{nonsense:?}");
        }
        assert_eq!(retry_after_ms(Some("20"), Some("7"), now), Some(20));
    }
}
