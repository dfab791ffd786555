//! Reactions: short words or signs that agents give to messages, each at most once.

use longhaul_network::{Address, Event, Refusal, Reply, Stage};
use longhaul_store::{Value as Sql, values};
use serde_json::{Map, Value, json};

use super::{
    Messaging,
    view::{Where, message_id},
};
use crate::{
    place::{Place, asker},
    shape::{Fields, REFERENCE_BYTES_MAX, wrong},
};

/// Longest word or sign, bytes.
const REACTION_BYTES_MAX: usize = 64;
/// Different ones that a message may have.
const KINDS_MAX: usize = 100;

impl Messaging {
    /// `thread.reaction.add`, `.remove`, `.toggle`; without a fixed action it is the payload's.
    pub(super) fn react(
        &self,
        stage: &mut Stage<'_, '_>,
        event: &Event,
        action: Option<&'static str>,
    ) -> Result<Reply, Refusal> {
        let (fields, reactor) = (Fields::of(event), asker(event)?);
        let action = action.map_or_else(|| fields.word("action", &["add", "remove", "toggle"]), Ok)?;
        let reaction = fields.text("reaction_type", REACTION_BYTES_MAX)?;
        if reaction.chars().any(char::is_control) {
            return Err(wrong("reaction_type", "holds a control character"));
        }
        let (target, place) = self.message(stage, fields.text("target_message_id", REFERENCE_BYTES_MAX)?, reactor)?;
        let (Place { tenant, network }, now) = (Place::of(stage), stage.now());
        let row = values![&tenant, &network, &target.id, reaction, reactor.as_str()];
        let remove = "DELETE FROM messaging_reactions WHERE tenant_id = ?1 AND network_id = ?2 AND message_id = ?3
                      AND reaction = ?4 AND agent_id = ?5";
        let removed = action != "add" && stage.tx().execute(remove, &row)? > 0;
        let added = action == "add" || (action == "toggle" && !removed);
        let mut changed = removed;
        if added {
            let kinds = of(stage, &[&target.id])?.pop().map(|(_, kinds)| kinds).unwrap_or_default();
            if kinds.len() >= KINDS_MAX && !kinds.contains_key(reaction) {
                return Err(wrong("reaction_type", &format!("is new, and the message has {KINDS_MAX} kinds already")));
            }
            let [tenant, network, message, reaction, agent] = row;
            changed = stage.tx().execute(
                "INSERT INTO messaging_reactions (tenant_id, network_id, message_id, reaction, agent_id, at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
                &[tenant, network, message, reaction, agent, now.into()],
            )? > 0;
        }
        let total = total(stage, &target.id, reaction)?;
        let mut data = json!({
            "success": changed,
            "target_message_id": message_id(&target),
            "reaction_type": reaction,
            "action_taken": if added { "add" } else { "remove" },
            "total_reactions": total,
            "request_id": fields.request_id(),
        });
        if !changed {
            let why = if added { "you have given this reaction already" } else { "you have not given this reaction" };
            data["error"] = json!(why);
            return Ok(Reply { success: false, message: why.to_owned(), data: Some(data), repeated: false });
        }
        let done = if added { "added" } else { "removed" };
        let payload = notice(message_id(&target), reaction, reactor.as_str(), added, total);
        let to = match place {
            Where::Channel(channel) => Address::Channel(channel),
            Where::Between(other) => Address::Agent(other),
        };
        stage.publish("thread.reaction.notification", to, payload)?;
        Ok(Reply::done(format!("the reaction was {done}"), Some(data)))
    }
}

/// What the others hear. The inner object is what the reference's workers read.
fn notice(target: &str, reaction: &str, reactor: &str, added: bool, total: i64) -> Map<String, Value> {
    let mut payload = Map::new();
    payload.insert("target_message_id".to_owned(), json!(target));
    payload.insert("reaction_type".to_owned(), json!(reaction));
    payload.insert("reacting_agent".to_owned(), json!(reactor));
    payload.insert("action".to_owned(), json!(if added { "added" } else { "removed" }));
    payload.insert("total_reactions".to_owned(), json!(total));
    payload.insert(
        "reaction".to_owned(),
        json!({
            "target_message_id": target,
            "sender_id": reactor,
            "reaction_type": reaction,
            "action": if added { "add" } else { "remove" },
        }),
    );
    payload
}

fn total(stage: &Stage<'_, '_>, message: &str, reaction: &str) -> Result<i64, Refusal> {
    let Place { tenant, network } = Place::of(stage);
    Ok(stage.rows().query_one(
        "SELECT COUNT(*) FROM messaging_reactions
         WHERE tenant_id = ?1 AND network_id = ?2 AND message_id = ?3 AND reaction = ?4",
        &values![&tenant, &network, message, reaction],
        |row| row.get(0),
    )?)
}

/// A message's id, and how often each reaction was given to it.
pub(super) type Given = (String, Map<String, Value>);

/// The reactions to these messages; those without any are left out.
pub(super) fn of(stage: &Stage<'_, '_>, messages: &[&str]) -> Result<Vec<Given>, Refusal> {
    let Place { tenant, network } = Place::of(stage);
    let mut found: Vec<Given> = Vec::new();
    for some in messages.chunks(50) {
        let mut params = Vec::from(values![&tenant, &network]);
        params.extend(some.iter().map(|id| Sql::from(*id)));
        let places: Vec<String> = (3..params.len() + 1).map(|n| format!("?{n}")).collect();
        let sql = format!(
            "SELECT message_id, reaction, COUNT(*) FROM messaging_reactions
             WHERE tenant_id = ?1 AND network_id = ?2 AND message_id IN ({})
             GROUP BY message_id, reaction ORDER BY message_id, reaction",
            places.join(", ")
        );
        stage.rows().for_each(&sql, &params, |row| {
            let (id, reaction, count): (String, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            match found.last_mut().filter(|(last, _)| *last == id) {
                Some((_, reactions)) => drop(reactions.insert(reaction, json!(count))),
                None => found.push((id, Map::from_iter([(reaction, json!(count))]))),
            }
            Ok(true)
        })?;
    }
    Ok(found)
}
