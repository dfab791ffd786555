//! Memory as the settings want it: where cold memories go, by which rules, how fast kinds fade, and who reviews proposals.

use longhaul_memory::{
    ColdLimits, ColdPlace, HalfLives, Memory, MemoryError, RankSettings, TierRules, user::ReviewPolicy,
};

use longhaul_store::Store;

use super::MemoriesError;
use crate::{
    embedding,
    settings::{MemorySettings, Review, Settings},
    vectors,
};

/// Applies the settings to a memory that was just opened.
///
/// # Errors
/// A cold place that cannot be understood.
pub(crate) fn configure(memory: &Memory, settings: &MemorySettings) -> Result<(), MemoryError> {
    if let Some(cold) = &settings.cold {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        memory.use_cold(ColdPlace::parse(cold, variable)?, ColdLimits::default())?;
    }
    memory.use_tier_rules(tier_rules(settings));
    let days = |days: Option<u32>| days.map(|days| days as f32);
    let half_lives = settings.half_life_days.iter().map(|(kind, lives)| (*kind, days(*lives)));
    memory.rank_by(RankSettings { half_lives: HalfLives(half_lives.collect()), ..RankSettings::default() })
}

/// The memory of a store that is open, as the settings want it, for erasing: cold place and server are known, and no
/// model is loaded.
///
/// # Errors
/// A cold place or a server that cannot be understood.
pub fn memory_over(store: &Store, settings: &Settings) -> Result<Memory, MemoriesError> {
    let memory = embedding::memory(store.clone(), None, settings);
    configure(&memory, &settings.memory)?;
    if let Some(server) = vectors::server(&settings.memory, store.ambient())? {
        memory.connect(server)?;
    }
    Ok(memory)
}

/// The rules by which memories become cold; none unless one is set.
pub(crate) fn tier_rules(settings: &MemorySettings) -> Option<TierRules> {
    let (unused_days, unseen_days) = (settings.cold_unused_days, settings.cold_unseen_days);
    let keep_newest = settings.cold_keep_newest;
    let rules = TierRules { unused_days, unseen_days, keep_newest, ..TierRules::default() };
    (unused_days.is_some() || unseen_days.is_some()).then_some(rules)
}

/// What becomes of proposals that no person has looked at.
pub(crate) fn review_policy(settings: &MemorySettings) -> ReviewPolicy {
    match settings.review {
        Review::Sure => ReviewPolicy::default(),
        Review::Ask => ReviewPolicy::AskPerson,
        Review::Never => ReviewPolicy::Never,
    }
}
