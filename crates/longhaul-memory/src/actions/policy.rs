//! What is kept of an action, for how long, and how much it matters. Pure.
//!
//! The rule when recency, frequency and type speak differently is in `docs/memory-user.md`; what stands here is the type
//! and the frequency. Recency is the search's, by the moment at which the action happened.

use std::{fmt, str::FromStr};

use longhaul_core::TimeMs;
use serde::{Deserialize, Serialize};

use super::path::PathClass;
use crate::{Index, Kind, MemoryError, Source, item::field, item::words};

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 86_400_000;
/// What a person did, said or decided never matters less, whatever its age.
const PERSONAL_MIN: f32 = 0.6;

words! {
    /// What was done.
    ActionKind, "action" {
        /// A file came into being.
        FileCreated = "file_created",
        /// A file got another content.
        FileChanged = "file_changed",
        /// A file is gone.
        FileDeleted = "file_deleted",
        /// A file has another name.
        FileMoved = "file_moved",
        /// A command was run.
        Command = "command",
        /// Something was decided.
        Decision = "decision",
        /// A user said what they want always.
        Preference = "preference",
        /// Something was said.
        Message = "message",
    }
}

impl ActionKind {
    /// It is about a file, so its target is a path.
    #[must_use]
    pub fn is_of_file(self) -> bool {
        matches!(self, Self::FileCreated | Self::FileChanged | Self::FileDeleted | Self::FileMoved)
    }

    /// The kind of memory that it becomes.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::FileCreated
            | Self::FileChanged
            | Self::FileDeleted
            | Self::FileMoved
            | Self::Command
            | Self::Message => Kind::Episode,
            Self::Decision => Kind::Decision,
            Self::Preference => Kind::Preference,
        }
    }
}

/// When a memory leaves the hot tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stay {
    /// It stays hot: pinned.
    Hot,
    /// The rules for tiers decide.
    ByRules,
}

/// How one kind of action is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KindPolicy {
    /// Whether it is kept at all.
    pub kept: bool,
    /// Which tier it stays in.
    pub stay: Stay,
    /// Days until it expires; `None` for never.
    pub retention_days: Option<u32>,
    /// Which indexes it is put into.
    pub index: Index,
    /// Actions on one target within this time after the first are one memory with a count.
    pub coalesce_minutes: u32,
    /// 0 to 1: how much it matters by itself.
    pub importance: f32,
}

/// How actions are kept, kind by kind.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionPolicy {
    /// For files that come, change, or are moved.
    pub file_written: KindPolicy,
    /// For files that go.
    pub file_deleted: KindPolicy,
    /// For commands.
    pub command: KindPolicy,
    /// For decisions.
    pub decision: KindPolicy,
    /// For preferences.
    pub preference: KindPolicy,
    /// For messages.
    pub message: KindPolicy,
    /// A file that is gone within this time after it came leaves nothing.
    pub brief_file_minutes: u32,
}

impl Default for ActionPolicy {
    fn default() -> Self {
        let files = KindPolicy {
            kept: true,
            stay: Stay::ByRules,
            retention_days: Some(90),
            index: Index::Words,
            coalesce_minutes: 60,
            importance: 0.0,
        };
        Self {
            file_written: files,
            file_deleted: KindPolicy { importance: 0.5, coalesce_minutes: 0, ..files },
            command: KindPolicy { retention_days: Some(30), importance: 0.4, ..files },
            decision: KindPolicy {
                stay: Stay::Hot,
                retention_days: None,
                index: Index::Both,
                coalesce_minutes: 0,
                importance: 0.8,
                kept: true,
            },
            preference: KindPolicy {
                stay: Stay::Hot,
                retention_days: None,
                index: Index::Both,
                coalesce_minutes: 0,
                importance: 0.8,
                kept: true,
            },
            message: KindPolicy {
                retention_days: Some(365),
                index: Index::Both,
                coalesce_minutes: 0,
                importance: 0.5,
                ..files
            },
            brief_file_minutes: 5,
        }
    }
}

/// What a policy makes of one action.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Keeping {
    pub(crate) pinned: bool,
    pub(crate) expires_at: Option<TimeMs>,
    pub(crate) index: Index,
    pub(crate) importance: f32,
}

impl ActionPolicy {
    /// The policy of a kind.
    #[must_use]
    pub fn of(&self, kind: ActionKind) -> &KindPolicy {
        match kind {
            ActionKind::FileCreated | ActionKind::FileChanged | ActionKind::FileMoved => &self.file_written,
            ActionKind::FileDeleted => &self.file_deleted,
            ActionKind::Command => &self.command,
            ActionKind::Decision => &self.decision,
            ActionKind::Preference => &self.preference,
            ActionKind::Message => &self.message,
        }
    }

    pub(crate) fn brief_ms(&self) -> i64 {
        i64::from(self.brief_file_minutes) * MINUTE_MS
    }

    pub(crate) fn coalesce_ms(&self, kind: ActionKind) -> i64 {
        i64::from(self.of(kind).coalesce_minutes) * MINUTE_MS
    }

    /// How an action that happened at `at` is kept, when the same was done `times` times of late.
    pub(crate) fn keeping(
        &self,
        kind: ActionKind,
        class: Option<PathClass>,
        source: Source,
        times: u32,
        at: TimeMs,
    ) -> Keeping {
        let of_kind = self.of(kind);
        let days = class.and_then(retention_days_max).into_iter().chain(of_kind.retention_days).min();
        let index = match class {
            // They are there for the record of the file, and are found by no search.
            Some(PathClass::Cache | PathClass::Temporary) => Index::Nothing,
            Some(PathClass::Secret | PathClass::BuildOutput) if of_kind.index.has_words() => Index::Words,
            Some(
                PathClass::Secret
                | PathClass::Configuration
                | PathClass::Source
                | PathClass::Document
                | PathClass::Other
                | PathClass::BuildOutput,
            )
            | None => of_kind.index,
        };
        Keeping {
            pinned: of_kind.stay == Stay::Hot,
            expires_at: days.map(|days| TimeMs(at.0.saturating_add(i64::from(days) * DAY_MS))),
            index,
            importance: importance(of_kind.importance, class, source, times),
        }
    }
}

/// Days after which what was done to such a file matters no more.
fn retention_days_max(class: PathClass) -> Option<u32> {
    match class {
        PathClass::Temporary => Some(1),
        PathClass::Cache => Some(2),
        PathClass::BuildOutput => Some(7),
        PathClass::Secret | PathClass::Configuration | PathClass::Source | PathClass::Document | PathClass::Other => {
            None
        }
    }
}

/// The type gives the base, frequency adds to it (each doubling 0.08, 0.3 at most), a person's act has a floor; and what
/// can be made again has a ceiling that nothing lifts.
fn importance(of_kind: f32, class: Option<PathClass>, source: Source, times: u32) -> f32 {
    let base = of_kind.max(class.map_or(0.0, PathClass::importance));
    let often = (0.08 * (times.max(1) as f32).log2()).min(0.3);
    let floor = if source == Source::User { PERSONAL_MIN } else { 0.0 };
    let ceiling = class.map_or(1.0, PathClass::importance_max);
    (base + often).max(floor).min(ceiling).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_file(class: PathClass, source: Source, times: u32) -> Keeping {
        ActionPolicy::default().keeping(ActionKind::FileChanged, Some(class), source, times, TimeMs(0))
    }

    #[test]
    fn type_then_frequency_and_never_above_the_ceiling() {
        let once = |class| of_file(class, Source::Agent, 1).importance;
        assert!(once(PathClass::Configuration) > once(PathClass::Source));
        assert!(once(PathClass::Source) > once(PathClass::BuildOutput));
        assert!(of_file(PathClass::Source, Source::Agent, 10).importance > once(PathClass::Source) + 0.2);
        assert!(of_file(PathClass::Other, Source::User, 1).importance >= 0.6);
        for source in [Source::User, Source::Agent] {
            assert!(of_file(PathClass::Temporary, source, 1_000).importance <= 0.2);
            assert!(of_file(PathClass::Cache, source, 1_000).importance <= 0.2);
        }
    }

    #[test]
    fn each_kind_has_its_own_tier_retention_and_index() {
        let policy = ActionPolicy::default();
        let keep = |kind| policy.keeping(kind, None, Source::User, 1, TimeMs(0));
        let decision = keep(ActionKind::Decision);
        assert_eq!((decision.pinned, decision.expires_at, decision.index), (true, None, Index::Both));
        let command = keep(ActionKind::Command);
        assert_eq!(
            (command.pinned, command.expires_at, command.index),
            (false, Some(TimeMs(30 * DAY_MS)), Index::Words)
        );
        let cache = of_file(PathClass::Cache, Source::Agent, 1);
        assert_eq!((cache.expires_at, cache.index), (Some(TimeMs(2 * DAY_MS)), Index::Nothing));
    }
}
