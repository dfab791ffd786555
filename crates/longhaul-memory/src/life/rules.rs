//! Which memories leave the hot tier: a pure decision over plain facts.
//!
//! Invariant: what is pinned never leaves, whatever the rules say.

use longhaul_core::TimeMs;
use serde::{Deserialize, Serialize};

use crate::Kind;

const DAY_MS: i64 = 86_400_000;

/// When a memory becomes cold. A memory leaves when one of the rules that are set applies to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TierRules {
    /// Nobody used it for so many days: opened by id, or relied on in an answer. `None` switches the rule off.
    pub unused_days: Option<u32>,
    /// It was in no result for so many days. `None` switches the rule off.
    pub unseen_days: Option<u32>,
    /// Kinds that never leave.
    pub keep_kinds: Vec<Kind>,
    /// Kinds that leave earlier or later than by [`Self::unused_days`]: days without use.
    pub kinds: Vec<KindRule>,
    /// Memories at least so important stay, in hundredths; 100 keeps only what is of importance 1. `None`: importance
    /// does not matter.
    pub keep_importance_percent: Option<u32>,
    /// What stays hot in each namespace whatever the rules say: its newest so many memories.
    pub keep_newest: u32,
    /// Fewer memories of a namespace than this wait until there are more: a small segment is as dear to read as a large.
    pub rows_min: u32,
}

/// A rule for one kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindRule {
    /// The kind.
    pub kind: Kind,
    /// It leaves when nobody used it for so many days.
    pub unused_days: u32,
}

impl Default for TierRules {
    /// Not used for 30 days and in no result for 7; preferences stay, and the newest thousand of each namespace.
    fn default() -> Self {
        Self {
            unused_days: Some(30),
            unseen_days: None,
            keep_kinds: vec![Kind::Preference],
            kinds: Vec::new(),
            keep_importance_percent: Some(90),
            keep_newest: 1000,
            rows_min: 64,
        }
    }
}

/// What the rules look at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Standing {
    pub(crate) kind: Kind,
    pub(crate) pinned: bool,
    pub(crate) importance: f32,
    pub(crate) created_at: TimeMs,
    pub(crate) last_used_at: Option<TimeMs>,
    pub(crate) last_shown_at: Option<TimeMs>,
}

impl TierRules {
    /// Rules under which everything that is not pinned leaves, for moving by hand.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            unused_days: Some(0),
            unseen_days: None,
            keep_kinds: Vec::new(),
            kinds: Vec::new(),
            keep_importance_percent: None,
            keep_newest: 0,
            rows_min: 1,
        }
    }

    /// Why it leaves, if it does.
    pub(crate) fn reason(&self, standing: &Standing, now: TimeMs) -> Option<Reason> {
        if standing.pinned || self.keep_kinds.contains(&standing.kind) {
            return None;
        }
        if let Some(percent) = self.keep_importance_percent
            && standing.importance * 100.0 >= percent as f32 - 1e-3
        {
            return None;
        }
        let for_days = |since: TimeMs, days: u32| now.0.saturating_sub(since.0) >= i64::from(days) * DAY_MS;
        // A memory was last of use, at the earliest, when it was written.
        let used = standing.last_used_at.map_or(standing.created_at, |used| used.max(standing.created_at));
        let seen = standing.last_shown_at.map_or(used, |shown| shown.max(used));
        let of_kind = self.kinds.iter().find(|rule| rule.kind == standing.kind).map(|rule| rule.unused_days);
        if of_kind.or(self.unused_days).is_some_and(|days| for_days(used, days)) {
            return Some(Reason::Unused);
        }
        self.unseen_days.is_some_and(|days| for_days(seen, days)).then_some(Reason::Unseen)
    }

    /// The latest moment before which a memory must have been written to leave at all; rows written later need not be
    /// looked at.
    pub(crate) fn written_before(&self, now: TimeMs) -> Option<TimeMs> {
        let days = self.kinds.iter().map(|rule| rule.unused_days).chain(self.unused_days).chain(self.unseen_days).min();
        days.map(|days| TimeMs(now.0.saturating_sub(i64::from(days) * DAY_MS)))
    }
}

/// Which rule made a memory leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reason {
    Unused,
    Unseen,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(days: i64) -> TimeMs {
        TimeMs(days * DAY_MS)
    }

    fn standing(created: i64, used: Option<i64>, shown: Option<i64>) -> Standing {
        Standing {
            kind: Kind::Note,
            pinned: false,
            importance: 0.5,
            created_at: days(created),
            last_used_at: used.map(days),
            last_shown_at: shown.map(days),
        }
    }

    #[test]
    fn what_nobody_used_leaves_and_what_was_used_stays() {
        let rules = TierRules { unused_days: Some(30), ..TierRules::default() };
        let leaves = |standing: Standing, now| rules.reason(&standing, days(now));
        assert_eq!(leaves(standing(0, None, None), 29), None);
        assert_eq!(leaves(standing(0, None, None), 30), Some(Reason::Unused));
        assert_eq!(leaves(standing(0, Some(20), None), 30), None);
        assert_eq!(leaves(standing(0, Some(20), None), 50), Some(Reason::Unused));
        assert_eq!(leaves(standing(0, None, Some(49)), 50), Some(Reason::Unused), "shown is not used");
    }

    #[test]
    fn what_is_in_no_result_leaves() {
        let rules = TierRules { unused_days: None, unseen_days: Some(7), ..TierRules::default() };
        let leaves = |standing: Standing, now| rules.reason(&standing, days(now));
        assert_eq!(leaves(standing(0, None, Some(3)), 9), None);
        assert_eq!(leaves(standing(0, None, Some(3)), 10), Some(Reason::Unseen));
        assert_eq!(leaves(standing(0, Some(8), Some(3)), 10), None, "what was used was seen");
    }

    #[test]
    fn pins_kinds_and_importance_keep_it_hot() {
        let rules = TierRules { unused_days: Some(1), ..TierRules::default() };
        let old = standing(0, None, None);
        let leaves = |standing: Standing| rules.reason(&standing, days(1000)).is_some();
        assert!(leaves(old));
        assert!(!leaves(Standing { pinned: true, ..old }));
        assert!(!leaves(Standing { kind: Kind::Preference, ..old }));
        assert!(!leaves(Standing { importance: 0.9, ..old }));
        let pinned = Standing { pinned: true, importance: 0.0, ..old };
        assert_eq!(TierRules::everything().reason(&pinned, days(1000)), None, "whatever the rules say");
        assert!(TierRules::everything().reason(&old, days(0)).is_some());
    }

    #[test]
    fn a_kind_has_its_own_time() {
        let rules = TierRules {
            unused_days: Some(30),
            kinds: vec![
                KindRule { kind: Kind::Episode, unused_days: 3 },
                KindRule { kind: Kind::Lesson, unused_days: 365 },
            ],
            ..TierRules::default()
        };
        let leaves = |kind, now| rules.reason(&Standing { kind, ..standing(0, None, None) }, days(now)).is_some();
        assert!(leaves(Kind::Episode, 3) && !leaves(Kind::Episode, 2));
        assert!(leaves(Kind::Note, 30) && !leaves(Kind::Note, 29));
        assert!(leaves(Kind::Lesson, 365) && !leaves(Kind::Lesson, 364));
        assert_eq!(rules.written_before(days(10)), Some(days(7)));
        let off = TierRules { unused_days: None, unseen_days: None, kinds: Vec::new(), ..rules };
        assert_eq!(off.written_before(days(10)), None);
    }
}
