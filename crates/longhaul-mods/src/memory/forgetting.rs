//! Forgetting: one memory, or all that somebody said. With the row go its words and its vector.

use longhaul_network::{Refusal, Reply, Stage};
use serde_json::json;

use super::{Call, refusal, rows::Kept};
use crate::{acting::no, shape::REFERENCE_BYTES_MAX};

/// Memories that one call forgets.
const AT_ONCE: i64 = 500;

impl Call<'_, '_> {
    /// Forgets one's own memory; admins may forget any.
    pub(super) fn delete(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let id = self.fields.text("memory_id", REFERENCE_BYTES_MAX)?;
        let Some(kept) = self.visible(stage, id)? else {
            return Ok(no("MEMORY_NOT_FOUND", "there is no such memory"));
        };
        if kept.author != self.actor.id && !self.actor.is_admin {
            return Ok(no("NOT_OWNER", format!("it is {}'s memory: only they or an admin may delete it", kept.author)));
        }
        self.drop_one(stage, &kept)?;
        Ok(Reply::done("forgotten", Some(json!({"memory_id": id}))))
    }

    /// Forgets everything that an agent said: its own, or, for an admin, anybody's.
    pub(super) fn forget(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let agent = self.fields.optional_text("agent_id", REFERENCE_BYTES_MAX)?.unwrap_or(&self.actor.id);
        if agent != self.actor.id && !self.actor.is_admin {
            return Ok(no("NOT_OWNER", "only an admin may have others forgotten"));
        }
        let all = Kept::of_author(&stage.rows(), &self.here, agent, AT_ONCE)?;
        for kept in &all {
            self.drop_one(stage, kept)?;
        }
        let left = Kept::count_of(&stage.rows(), &self.here, agent)?;
        let data = json!({"agent_id": agent, "forgotten": all.len(), "left": left});
        Ok(Reply::done(format!("{} memories forgotten, {left} left", all.len()), Some(data)))
    }

    fn drop_one(&self, stage: &mut Stage<'_, '_>, kept: &Kept) -> Result<(), Refusal> {
        self.mod_.memory.forget(stage.tx(), &self.here.scope, &kept.memory).map_err(refusal)?;
        kept.delete(stage.tx(), &self.here)?;
        Ok(())
    }
}
