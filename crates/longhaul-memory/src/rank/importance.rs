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

/// A file's place in life, as far as remembering it is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileClass {
    /// Written by people or for them.
    Ordinary,
    /// Decides how something behaves.
    Config,
    /// Made again by itself: caches, build output, installed packages.
    Cache,
    /// Made to be deleted.
    Temporary,
}

/// Folders whose content is made again by itself. Sorted.
const CACHE_FOLDERS: &[&str] = &[
    ".cache",
    ".gradle",
    ".mypy_cache",
    ".next",
    ".nuxt",
    ".parcel-cache",
    ".pytest_cache",
    ".ruff_cache",
    ".tox",
    ".turbo",
    ".venv",
    "__pycache__",
    "cache",
    "caches",
    "node_modules",
    "target",
];
/// Sorted.
const TEMPORARY_FOLDERS: &[&str] = &[".tmp", ".trash", "temp", "tmp"];
/// Sorted.
const TEMPORARY_ENDINGS: &[&str] = &["bak", "crdownload", "part", "swo", "swp", "temp", "tmp"];
/// Sorted.
const CONFIG_ENDINGS: &[&str] =
    &["cfg", "conf", "config", "env", "ini", "json", "plist", "properties", "toml", "yaml", "yml"];

impl FileClass {
    /// From a path of any platform. Folders count before the file's own name: a configuration in a cache is cache.
    #[must_use]
    pub fn of(path: &str) -> Self {
        let path = path.replace('\\', "/").to_lowercase();
        let mut folders: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let name = folders.pop().unwrap_or_default();
        let any = |known: &[&str]| folders.iter().any(|folder| known.binary_search(folder).is_ok());
        let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
        let has = |known: &[&str]| known.binary_search(&ending).is_ok();
        if any(CACHE_FOLDERS) || ending == "pyc" {
            Self::Cache
        } else if any(TEMPORARY_FOLDERS) || has(TEMPORARY_ENDINGS) || name.ends_with('~') || name.starts_with("~$") {
            Self::Temporary
        } else if has(CONFIG_ENDINGS) {
            Self::Config
        } else {
            Self::Ordinary
        }
    }
}

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
    /// How often it was used.
    pub(crate) uses: u32,
}

pub(super) fn importance(settings: &RankSettings, standing: &Standing) -> Importance {
    let stated = if standing.stated.is_finite() { standing.stated.clamp(0.0, 1.0) } else { 0.5 };
    let touched_ms = standing.unused_ms.map_or(standing.age_ms, |unused| unused.min(standing.age_ms)).max(0);
    let recency = (-(touched_ms as f32 / MS_A_DAY) / settings.recency_half_life_days).exp2();
    let uses = standing.uses as f32;
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
