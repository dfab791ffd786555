//! What is done by itself in the background: expired memories go, what was used is noted, what was used and is cold
//! comes back, segments are looked after, and what the rules make cold moves.
//!
//! Invariant: a failure is logged and tried again; stopping it at any moment loses nothing but time.

use std::{collections::BTreeMap, time::Duration};

use longhaul_core::{MemoryId, TenantId};

use crate::{Memory, MemoryError};

/// How often it looks: an expired memory's row is gone within a second.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often statistics are written, in looks.
const FLUSH_LOOKS: u32 = 10;
/// How often segments are looked after, in looks.
const TEND_LOOKS: u32 = 20;
/// How often the rules are applied, in looks: every ten minutes.
const RULES_LOOKS: u32 = 1_200;

impl Memory {
    /// Looks after memories until the future is dropped. [`crate::Indexer::run`] does it too: run one of them in each
    /// process.
    pub async fn keep(&self) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut look: u32 = 0;
        loop {
            looks.tick().await;
            look = look.wrapping_add(1);
            if let Err(error) = self.look(look).await {
                tracing::warn!(%error, "memories could not be looked after");
            }
        }
    }

    async fn look(&self, look: u32) -> Result<(), MemoryError> {
        self.sweep_expired().await?;
        if look.is_multiple_of(FLUSH_LOOKS) {
            self.flush_usage().await?;
            self.warm_wanted().await?;
        }
        if look.is_multiple_of(TEND_LOOKS) {
            let tended = self.tend_cold().await?;
            if let Some(why) = tended.stopped {
                tracing::warn!(pending = tended.pending, why, "cold segments wait to be looked after");
            }
        }
        if look % RULES_LOOKS == 1
            && let Some(rules) = self.shared.life.rules()
            && self.shared.life.cold().is_some()
        {
            let moved = self.move_cold(&rules, self.shared.store.ambient().clock.now()).await?;
            if moved.memories > 0 || moved.stopped.is_some() {
                tracing::info!(memories = moved.memories, segments = moved.segments, stopped = ?moved.stopped, "memories became cold");
            }
        }
        Ok(())
    }

    /// Brings back what was used while it was cold. Gives how many memories came.
    ///
    /// # Errors
    /// Those of the store, and [`MemoryError::Cold`]; what was wanted is wanted no more then, until it is used again.
    pub async fn warm_wanted(&self) -> Result<u64, MemoryError> {
        let mut by_tenant: BTreeMap<TenantId, Vec<MemoryId>> = BTreeMap::new();
        for (tenant, id) in self.shared.life.take_wanted() {
            by_tenant.entry(tenant).or_default().push(id);
        }
        let mut came = 0;
        for (tenant, ids) in by_tenant {
            came += self.warm(&tenant, &ids).await?;
        }
        Ok(came)
    }
}
