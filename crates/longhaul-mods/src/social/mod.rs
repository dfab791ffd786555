//! The mod of the social graph: what agents can do, who follows whom, whom to trust with what, who knows about something.
//!
//! It owns the rows of `social_*` and the ranking of experts, which the mod of tasks routes by. It does not own who is in
//! the network (the network's) nor tasks. Invariants: nobody sets another's capabilities or follows for another; trust
//! comes from outcomes of tasks alone, and one agent's opinion of another counts for ten outcomes at most.

mod capabilities;
mod experts;
mod follows;
mod manifest;
pub(crate) mod ranking;
pub(crate) mod trust;

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_network::{
    Address, AgentView, Backstage, Draft, Event, Manifest, Mod, Outcome, Prepared, Refusal, Sender, Stage,
};
use serde_json::{Map, Value};

use crate::{
    Parts,
    acting::{Actor, Here},
    shape::Fields,
};

use capabilities::fits;
pub(crate) use experts::{Asked, rank, shown};

pub(crate) const NAME: &str = "openagents.mods.discovery.agent_discovery";

/// Makes it from its `config`.
pub(crate) fn make(config: &Map<String, Value>, _parts: &Parts) -> Result<Arc<dyn Mod>, Refusal> {
    let flag = |key: &str| config.get(key).and_then(Value::as_bool).unwrap_or(false);
    Ok(Arc::new(Social {
        tells_of_coming: flag("broadcast_connection"),
        tells_of_going: flag("broadcast_disconnection"),
    }))
}

/// The social graph of a network.
#[derive(Debug)]
struct Social {
    tells_of_coming: bool,
    tells_of_going: bool,
}

/// One event that is being answered.
struct Call<'a, 'e> {
    here: Here,
    actor: Actor,
    fields: Fields<'e>,
    /// All agents, where the event needs them.
    agents: &'a [AgentView],
}

#[async_trait]
impl Mod for Social {
    fn manifest(&self) -> Manifest {
        manifest::manifest()
    }

    async fn prepare(&self, backstage: &Backstage, event: &Event) -> Result<Prepared, Refusal> {
        match event.name.as_str() {
            "discovery.agents.search" | "discovery.agents.list" | "social.experts.find" => {
                Ok(Prepared::with(backstage.network.agents(&[])))
            }
            _ => Ok(Prepared::default()),
        }
    }

    fn apply(&self, stage: &mut Stage<'_, '_>, event: &Event, prepared: Prepared) -> Result<Outcome, Refusal> {
        let agents: Vec<AgentView> = prepared.take().unwrap_or_default();
        let call =
            Call { here: Here::of(stage), actor: Actor::of(stage, event), fields: Fields::of(event), agents: &agents };
        let reply = match event.name.as_str() {
            "discovery.capabilities.set" => call.set(stage)?,
            "discovery.capabilities.get" => call.get(stage)?,
            "discovery.agents.search" | "discovery.agents.list" => call.search(stage)?,
            "social.experts.find" => call.find_experts(stage)?,
            "social.follow" => call.follow(stage)?,
            "social.unfollow" => call.unfollow(stage)?,
            "social.following.list" => call.following(stage)?,
            "social.followers.list" => call.followers(stage)?,
            "social.trust.get" => call.trust(stage)?,
            _ => return Ok(Outcome::Pass),
        };
        Ok(Outcome::Answer(reply))
    }

    async fn observe(&self, backstage: &Backstage, event: &Arc<Event>) -> Result<(), Refusal> {
        let Some(agent) = event.payload.get("agent_id").and_then(Value::as_str) else { return Ok(()) };
        match event.name.as_str() {
            "system.notification.register_agent" if self.tells_of_coming => {
                tell(backstage, event, "discovery.notification.agent_connected", agent).await
            }
            // Whoever is kicked is said to be gone as well.
            "system.notification.unregister_agent" => {
                forget(backstage, agent).await?;
                if self.tells_of_going {
                    tell(backstage, event, "discovery.notification.agent_disconnected", agent).await?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// What a name that is free again does not keep: whoever takes it next is somebody else. Its failures stay.
async fn forget(backstage: &Backstage, agent: &str) -> Result<(), Refusal> {
    let network = &backstage.network;
    let (scope, id, agent) = (network.scope().clone(), network.id().to_owned(), agent.to_owned());
    network
        .store()
        .write(move |tx| {
            let key = longhaul_store::values![&scope.tenant, &id, &agent];
            for sql in [
                "DELETE FROM social_capabilities WHERE tenant_id = ?1 AND network_id = ?2 AND agent_id = ?3",
                "DELETE FROM social_follows
                 WHERE tenant_id = ?1 AND network_id = ?2 AND (follower_id = ?3 OR followed_id = ?3)",
                "UPDATE social_outcomes SET good = 0 WHERE tenant_id = ?1 AND network_id = ?2 AND agent_id = ?3",
                "UPDATE social_standings SET completed = 0
                 WHERE tenant_id = ?1 AND network_id = ?2 AND agent_id = ?3",
            ] {
                tx.execute(sql, &key)?;
            }
            Ok::<_, longhaul_store::StoreError>(())
        })
        .await?;
    Ok(())
}

async fn tell(backstage: &Backstage, cause: &Event, name: &str, agent: &str) -> Result<(), Refusal> {
    let known = agent.parse().ok().and_then(|id| backstage.network.agent(&id));
    let mut payload = Map::from_iter([("agent_id".to_owned(), Value::from(agent))]);
    if let Some(known) = known {
        payload.insert("agent_group".to_owned(), known.group.into());
        payload.insert("capabilities".to_owned(), known.metadata.get("capabilities").cloned().unwrap_or_default());
    }
    // Seen again after a crash, it is the same event.
    let draft = Draft::new(format!("{}-{name}", cause.id), name.parse()?, Address::Everybody, payload);
    backstage.network.emit(Sender::Mod(NAME.to_owned()), draft).await.map(drop)
}
