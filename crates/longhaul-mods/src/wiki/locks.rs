//! Locks: one agent keeps a page to itself for a while. A lock ends by itself, so that nobody who vanishes keeps it.

use longhaul_core::TimeMs;
use longhaul_network::{Refusal, Reply, Stage};
use longhaul_store::values;
use serde_json::json;

use super::Call;
use crate::acting::no;

const REASON_BYTES_MAX: usize = 800;
const SECONDS: i64 = 600;

impl Call<'_, '_> {
    /// Locks a page, or holds one's own lock for longer.
    pub(super) fn lock(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let seconds = self.fields.number("seconds", SECONDS, 1..=self.wiki.lock_max_ms / 1000)?;
        let reason = self.fields.optional_text("reason", REASON_BYTES_MAX)?.unwrap_or_default();
        let page = match self.page(stage)? {
            Ok(page) => page,
            Err(refused) => return Ok(refused),
        };
        if !self.is_owner(&page) && !self.wiki.is_open {
            return Ok(no("NOT_OWNER", format!("only {}, whose page it is, may lock it", page.owner)));
        }
        let now = stage.now();
        if let Some(refused) = self.locked_out(&page, now) {
            return Ok(refused);
        }
        let until = TimeMs(now.0.saturating_add(seconds * 1000));
        stage.tx().execute(
            "UPDATE wiki_pages SET locked_by = ?4, locked_until = ?5, lock_reason = ?6
             WHERE tenant_id = ?1 AND network_id = ?2 AND page_path = ?3",
            &values![&self.here.tenant, &self.here.network, &page.path, &self.actor.id, until, reason],
        )?;
        let data = json!({"page_path": page.path, "locked_by": self.actor.id, "locked_until": until.0});
        Ok(Reply::done(format!("locked for {seconds} seconds"), Some(data)))
    }

    /// Ends one's own lock; admins and the page's owner may end any.
    pub(super) fn unlock(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let page = match self.page(stage)? {
            Ok(page) => page,
            Err(refused) => return Ok(refused),
        };
        let Some(lock) = page.held(stage.now()) else {
            return Ok(Reply::done("the page is not locked", Some(json!({"page_path": page.path}))));
        };
        if lock.by != self.actor.id && !self.is_owner(&page) {
            return Ok(no("NOT_YOURS", format!("it is {}'s lock: only they or the owner may end it", lock.by)));
        }
        stage.tx().execute(
            "UPDATE wiki_pages SET locked_by = NULL, locked_until = NULL, lock_reason = NULL
             WHERE tenant_id = ?1 AND network_id = ?2 AND page_path = ?3",
            &values![&self.here.tenant, &self.here.network, &page.path],
        )?;
        Ok(Reply::done("unlocked", Some(json!({"page_path": page.path}))))
    }
}
