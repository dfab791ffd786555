//! What agents say they can do, and finding agents by it.

use std::collections::HashMap;

use longhaul_network::{Address, AgentView, Refusal, Reply, Sender, Stage};
use longhaul_store::{ReadTx, StoreError, values};
use serde_json::{Map, Value, json};

use super::{Call, NAME};
use crate::{
    acting::{Here, no},
    shape::{REFERENCE_BYTES_MAX, wrong},
};

/// Capabilities of one agent, bytes when printed.
const CAPABILITIES_BYTES_MAX: usize = 64 * 1024;

impl Call<'_, '_> {
    /// Replaces what the actor says it can do.
    pub(super) fn set(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let Some(agent) = self.actor.agent().cloned() else {
            return Ok(no("NOT_AN_AGENT", "only an agent has capabilities"));
        };
        let Some(capabilities) = self.fields.object("capabilities")? else {
            return Err(wrong("capabilities", "is missing: an object is needed"));
        };
        let printed = Value::Object(capabilities.clone());
        if printed.to_string().len() > CAPABILITIES_BYTES_MAX {
            return Err(wrong("capabilities", "is larger than 64 KiB"));
        }
        let now = stage.now();
        stage.tx().execute(
            "INSERT INTO social_capabilities (tenant_id, network_id, agent_id, capabilities, changed_at)
             VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (tenant_id, network_id, agent_id) DO UPDATE SET capabilities = ?4, changed_at = ?5",
            &values![&self.here.tenant, &self.here.network, agent.as_str(), &printed, now],
        )?;
        let said = json!({"agent_id": agent.as_str(), "capabilities": printed});
        let Value::Object(payload) = said.clone() else { return Ok(Reply::done("capabilities set", Some(said))) };
        let from = Sender::Mod(NAME.to_owned());
        stage.emit(from, "discovery.notification.capabilities_updated", Address::Everybody, payload)?;
        Ok(Reply::done("capabilities set", Some(said)))
    }

    pub(super) fn get(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        let asked = self.fields.text("agent_id", REFERENCE_BYTES_MAX)?;
        let found = asked.parse().ok().and_then(|agent| stage.agent(&agent));
        let capabilities = match found {
            Some(view) => Some(known(&view, &of_one(&stage.rows(), &self.here, asked)?)),
            None => None,
        };
        let message = if capabilities.is_some() { "capabilities" } else { "there is no such agent" };
        Ok(Reply::done(message, Some(json!({"agent_id": asked, "capabilities": capabilities}))))
    }

    /// Agents whose capabilities fit the filter; all of them without one.
    pub(super) fn search(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        let empty = Map::new();
        let filter = self.fields.object("filter")?.unwrap_or(&empty);
        let only_present = self.fields.flag("only_present", false)?;
        let set = all(&stage.rows(), &self.here)?;
        let mut found = Vec::new();
        for view in self.agents.iter().filter(|view| view.present || !only_present) {
            let capabilities = known(view, &set);
            if fits(filter, &capabilities) {
                found.push(json!({
                    "agent_id": view.agent.as_str(), "agent_group": view.group, "capabilities": capabilities,
                    "is_present": view.present,
                }));
            }
        }
        let count = found.len();
        Ok(Reply::done(format!("{count} agents"), Some(json!({"agents": found, "count": count}))))
    }
}

/// What every agent has set, by its id.
pub(crate) type Set = HashMap<String, Map<String, Value>>;

/// What every agent of the network has set.
pub(crate) fn all(read: &ReadTx<'_>, here: &Here) -> Result<Set, StoreError> {
    let sql = "SELECT agent_id, capabilities FROM social_capabilities WHERE tenant_id = ?1 AND network_id = ?2";
    let rows = read.query(sql, &values![&here.tenant, &here.network], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.into_iter().filter_map(|(agent, set): (String, Value)| Some((agent, set.as_object()?.clone()))).collect())
}

fn of_one(read: &ReadTx<'_>, here: &Here, agent: &str) -> Result<Set, StoreError> {
    let sql = "SELECT capabilities FROM social_capabilities
               WHERE tenant_id = ?1 AND network_id = ?2 AND agent_id = ?3";
    let found: Option<Value> =
        read.query_optional(sql, &values![&here.tenant, &here.network, agent], |row| row.get(0))?;
    let object = found.and_then(|set| set.as_object().cloned());
    Ok(object.map(|set| (agent.to_owned(), set)).into_iter().collect())
}

/// What the agent has set, else what it said when it came in.
pub(crate) fn known(view: &AgentView, set: &Set) -> Map<String, Value> {
    let mut capabilities = match (set.get(view.agent.as_str()), view.metadata.get("capabilities")) {
        (Some(set), _) => set.clone(),
        (None, Some(Value::Object(said))) => said.clone(),
        (None, Some(Value::Array(skills))) => Map::from_iter([("skills".to_owned(), Value::Array(skills.clone()))]),
        (None, _) => Map::new(),
    };
    if !view.capabilities.is_empty() && !capabilities.contains_key("skills") {
        capabilities.insert("skills".to_owned(), json!(view.capabilities));
    }
    // What is said about an agent helps to find it.
    for key in ["description", "domain", "keywords", "tags"] {
        if let (false, Some(said)) = (capabilities.contains_key(key), view.metadata.get(key)) {
            capabilities.insert(key.to_owned(), said.clone());
        }
    }
    capabilities
}

/// Whether capabilities fit a filter: of a list one entry has to be there, an object has to fit part by part, anything
/// else has to be equal.
pub(crate) fn fits(filter: &Map<String, Value>, capabilities: &Map<String, Value>) -> bool {
    filter.iter().all(|(key, wanted)| match (wanted, capabilities.get(key)) {
        (_, None) => false,
        (Value::Array(wanted), Some(Value::Array(has))) => wanted.iter().any(|one| has.contains(one)),
        (Value::Object(wanted), Some(Value::Object(has))) => fits(wanted, has),
        (Value::Array(_) | Value::Object(_), Some(_)) => false,
        (wanted, Some(has)) => wanted == has,
    })
}
