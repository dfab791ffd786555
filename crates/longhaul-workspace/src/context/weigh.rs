//! From how well something answers the goal to its place: relevance times the profile's weights times what its age leaves.
//!
//! Pure. Invariant: [`Score::total`] is the product of its parts, finite and not negative.

use longhaul_core::TimeMs;

use super::{fill::Candidate, pack::Score, profile::Profile};

const DAY_MS: f64 = 86_400_000.0;

/// Sets the parts of a candidate's score but its relevance, and their product.
pub(super) fn weigh(candidate: &mut Candidate, profile: &Profile, now: TimeMs) {
    let relevance = candidate.score.relevance;
    let relevance = if relevance.is_finite() { relevance.clamp(0.0, 1.0) } else { 0.0 };
    let kind = profile.kind_weight(&candidate.kind);
    let origin = profile.origin_weight(candidate.origin);
    let recency = recency(profile, candidate.at, now);
    let found = candidate.score.found.clone();
    candidate.score = Score { total: relevance * kind * origin * recency, relevance, kind, origin, recency, found };
}

/// 1 for now, half of what can fade after a half-life, the floor in the end.
fn recency(profile: &Profile, at: TimeMs, now: TimeMs) -> f32 {
    let Some(half_life) = profile.half_life_days else { return 1.0 };
    let days = (now.0.saturating_sub(at.0)).max(0) as f64 / DAY_MS;
    let left = 0.5_f64.powf(days / f64::from(half_life)) as f32;
    profile.recency_floor + (1.0 - profile.recency_floor) * left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_takes_what_may_fade() {
        let profile = Profile { half_life_days: Some(10.0), recency_floor: 0.4, ..Profile::auto() };
        let days = |days: i64| recency(&profile, TimeMs(0), TimeMs(days * 86_400_000));
        assert!((days(0) - 1.0).abs() < 1e-6 && (days(10) - 0.7).abs() < 1e-6 && (days(10_000) - 0.4).abs() < 1e-6);
        assert!((recency(&profile, TimeMs(i64::MAX), TimeMs(0)) - 1.0).abs() < 1e-6, "a clock that jumped");
        let ageless = Profile { half_life_days: None, ..Profile::auto() };
        assert!((recency(&ageless, TimeMs(i64::MIN), TimeMs(i64::MAX)) - 1.0).abs() < 1e-6);
    }
}
