//! Fading: the part of a score that halves with each half-life of the memory's kind. Pinned memories do not fade.

use super::{Decay, RankSettings, Standing};

pub(super) const MS_A_DAY: f32 = 86_400_000.0;

pub(super) fn decay(settings: &RankSettings, standing: &Standing) -> Decay {
    let half_life_days = if standing.pinned { None } else { settings.half_lives.days(standing.kind) };
    let age_days = standing.age_ms.max(0) as f32 / MS_A_DAY;
    let faded = half_life_days.map_or(0.0, |half_life| 1.0 - (-age_days / half_life).exp2());
    Decay { factor: 1.0 - settings.decay_share * faded, age_days, half_life_days }
}
