//! How important a memory is now, when recency, frequency and type speak against each other.
//!
//! The rule, in this order:
//! 1. Pinned is 1, whatever else it is.
//! 2. Temporary and cache files never rise above the cap, however often they change.
//! 3. Half of the rest is what was stated when it was written; the other half is recency or frequency, whichever speaks
//!    stronger (the greater, not the mean: a week-old file that is edited all day is recent, and a runbook that is read
//!    every week is important even on the day before it is read again).
//! 4. What a user said or decided (preferences, decisions, actions of a user) never falls below the floor: an old
//!    decision outranks fresh chatter of the same relevance.

use crate::{Kind, Source};

use super::{Importance, RankSettings, Rule, decay::MS_A_DAY};

/// The tag of memories about files that are made again by themselves or made to be deleted.
pub const TAG_TEMPORARY: &str = "temporary";
/// The same for caches and build output.
pub const TAG_CACHE: &str = "cache";
/// The tag of what somebody did: a file saved, a command run.
pub const TAG_ACTION: &str = "action";

/// What importance and decay depend on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Standing {
    pub(crate) kind: Kind,
    pub(crate) source: Source,
    /// An action of a user, as they happen: a file saved, a command run.
    pub(crate) is_action: bool,
    /// About a temporary or cache file.
    pub(crate) is_temporary: bool,
    pub(crate) pinned: bool,
    /// 0 to 1, as stated.
    pub(crate) stated: f32,
    /// Since it happened.
    pub(crate) age_ms: i64,
    /// Since it was last used or edited; `None` for never.
    pub(crate) unused_ms: Option<i64>,
    /// How often it was used; having been shown counts in part.
    pub(crate) uses: f32,
}

pub(super) fn importance(settings: &RankSettings, standing: &Standing) -> Importance {
    let stated = if standing.stated.is_finite() { standing.stated.clamp(0.0, 1.0) } else { 0.5 };
    let touched_ms = standing.unused_ms.map_or(standing.age_ms, |unused| unused.min(standing.age_ms)).max(0);
    let recency = (-(touched_ms as f32 / MS_A_DAY) / settings.recency_half_life_days).exp2();
    let uses = if standing.uses.is_finite() { standing.uses.max(0.0) } else { 0.0 };
    let frequency = uses / (uses + settings.frequency_half);
    let (rule, value) = by_rule(settings, standing, stated, recency, frequency);
    let factor = 1.0 - settings.importance_share * (1.0 - value);
    Importance { factor, value, rule, stated, recency, frequency }
}

fn by_rule(settings: &RankSettings, standing: &Standing, stated: f32, recency: f32, frequency: f32) -> (Rule, f32) {
    if standing.pinned {
        return (Rule::Pinned, 1.0);
    }
    let lively = recency.max(frequency);
    let value = f32::midpoint(stated, lively);
    if standing.is_temporary {
        return (Rule::Temporary, value.min(settings.temporary_cap));
    }
    if is_said(standing) && value < settings.said_floor {
        return (Rule::Said, settings.said_floor);
    }
    let rule = if lively <= stated {
        Rule::Stated
    } else if recency >= frequency {
        Rule::Recency
    } else {
        Rule::Frequency
    };
    (rule, value)
}

/// Whether a user said, decided or did it.
fn is_said(standing: &Standing) -> bool {
    matches!(standing.kind, Kind::Preference | Kind::Decision)
        || (standing.is_action && standing.source == Source::User)
}
