//! Who follows whom. Following is public, tells the one who is followed, and decides between equal experts.

use longhaul_network::{Address, Refusal, Reply, Sender, Stage};
use longhaul_store::{ReadTx, StoreError, values};
use serde_json::{Map, Value, json};

use super::{Call, NAME};
use crate::{
    acting::{Here, no, seconds},
    shape::REFERENCE_BYTES_MAX,
};

/// Agents that one agent may follow.
const FOLLOWS_MAX: i64 = 10_000;

impl Call<'_, '_> {
    pub(super) fn follow(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let followed = match self.other(stage)? {
            Ok(followed) => followed,
            Err(refused) => return Ok(refused),
        };
        let now = stage.now();
        let count = "SELECT count(*) FROM social_follows WHERE tenant_id = ?1 AND network_id = ?2 AND follower_id = ?3";
        let following: i64 =
            stage
                .rows()
                .query_one(count, &values![&self.here.tenant, &self.here.network, &self.actor.id], |row| row.get(0))?;
        if following >= FOLLOWS_MAX {
            return Ok(no("TOO_MANY", format!("you follow {following} agents, and may follow no more")));
        }
        let added = stage.tx().execute(
            "INSERT INTO social_follows (tenant_id, network_id, follower_id, followed_id, followed_at)
             VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
            &values![&self.here.tenant, &self.here.network, &self.actor.id, followed.as_str(), now],
        )?;
        if added > 0 {
            let payload = Map::from_iter([("follower_id".to_owned(), Value::from(self.actor.id.clone()))]);
            let to = Address::Agent(followed.clone());
            stage.emit(Sender::Mod(NAME.to_owned()), "social.notification.followed", to, payload)?;
        }
        let data = json!({"agent_id": followed.as_str(), "following": true, "is_new": added > 0});
        Ok(Reply::done(format!("you follow {followed}"), Some(data)))
    }

    pub(super) fn unfollow(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let followed = self.fields.text("agent_id", REFERENCE_BYTES_MAX)?;
        let removed = stage.tx().execute(
            "DELETE FROM social_follows
             WHERE tenant_id = ?1 AND network_id = ?2 AND follower_id = ?3 AND followed_id = ?4",
            &values![&self.here.tenant, &self.here.network, &self.actor.id, followed],
        )?;
        let data = json!({"agent_id": followed, "following": false, "was_following": removed > 0});
        Ok(Reply::done(format!("you do not follow {followed}"), Some(data)))
    }

    pub(super) fn following(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        self.listed(stage, "follower_id", "followed_id")
    }

    pub(super) fn followers(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        self.listed(stage, "followed_id", "follower_id")
    }

    fn listed(&self, stage: &Stage<'_, '_>, of: &str, shown: &str) -> Result<Reply, Refusal> {
        let whose = self.fields.optional_text("agent_id", REFERENCE_BYTES_MAX)?.unwrap_or(&self.actor.id);
        let page = self.fields.page(100, 1_000)?;
        let key = values![&self.here.tenant, &self.here.network, whose, page.limit, page.offset];
        let read = stage.rows();
        let total: i64 = read.query_one(
            &format!("SELECT count(*) FROM social_follows WHERE tenant_id = ?1 AND network_id = ?2 AND {of} = ?3"),
            &key[..3],
            |row| row.get(0),
        )?;
        let sql = format!(
            "SELECT {shown}, followed_at FROM social_follows WHERE tenant_id = ?1 AND network_id = ?2 AND {of} = ?3
             ORDER BY followed_at DESC, {shown} LIMIT ?4 OFFSET ?5"
        );
        let agents = read.query(&sql, &key, |row| {
            Ok(json!({"agent_id": row.get::<String>(0)?, "followed_at": seconds(row.get(1)?)}))
        })?;
        let data = json!({
            "agent_id": whose, "has_more": page.has_more(agents.len(), total), "agents": agents, "total_count": total,
        });
        Ok(Reply::done(format!("{total} agents"), Some(data)))
    }

    /// The other agent that the payload names; else what to answer.
    fn other(&self, stage: &Stage<'_, '_>) -> Result<Result<longhaul_network::AgentId, Reply>, Refusal> {
        let named = self.fields.text("agent_id", REFERENCE_BYTES_MAX)?;
        if self.actor.agent().is_none() {
            return Ok(Err(no("NOT_AN_AGENT", "only an agent follows others")));
        }
        let agent: longhaul_network::AgentId = named.parse()?;
        if agent.as_str() == self.actor.id {
            return Ok(Err(no("YOURSELF", "you cannot follow yourself")));
        }
        if stage.agent(&agent).is_none() {
            return Ok(Err(no("AGENT_NOT_FOUND", format!("there is no agent {agent} here"))));
        }
        Ok(Ok(agent))
    }
}

/// Whom this agent follows.
pub(super) fn followed_by(read: &ReadTx<'_>, here: &Here, agent: &str) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT followed_id FROM social_follows WHERE tenant_id = ?1 AND network_id = ?2 AND follower_id = ?3";
    read.query(sql, &values![&here.tenant, &here.network, agent], |row| row.get(0))
}
