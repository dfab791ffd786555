//! What is shared with groups: who may have it, and who is told of it.
//!
//! Invariant: a list without a group is for everybody; whoever made something and whoever has the permission `admin`
//! may always have it.

use longhaul_network::{Address, Event, Refusal, Sender, Stage};
use serde_json::{Map, Value};

use crate::{acting::Actor, shape::Fields};

/// Groups that one thing may be shared with.
const GROUPS_MAX: usize = 50;

/// The groups a payload names under this field; no empty names, each once.
///
/// # Errors
/// That it is no list of names.
pub(crate) fn named(fields: &Fields<'_>, field: &str) -> Result<Vec<String>, Refusal> {
    let mut groups = fields.texts(field, GROUPS_MAX)?.unwrap_or_default();
    groups.retain(|group| !group.is_empty());
    groups.sort();
    groups.dedup();
    Ok(groups)
}

/// Whether the actor may have what is shared with these groups.
pub(crate) fn may_have(actor: &Actor, groups: &[String], maker: &str) -> bool {
    groups.is_empty() || groups.contains(&actor.group) || actor.id == maker || actor.is_admin
}

/// Tells those who may have it; the first of the events takes the place of the sender's own.
///
/// # Errors
/// Those of the network.
pub(crate) fn tell(
    stage: &mut Stage<'_, '_>,
    event: &Event,
    name: &str,
    groups: &[String],
    payload: Map<String, Value>,
) -> Result<(), Refusal> {
    let Some((first, others)) = groups.split_first() else {
        return stage.publish(name, Address::Everybody, payload).map(drop);
    };
    let from: &Sender = &event.from;
    for group in others {
        stage.emit(from.clone(), name, Address::Group(group.clone()), payload.clone())?;
    }
    stage.publish(name, Address::Group(first.clone()), payload).map(drop)
}

/// A list of texts as a column holds it.
pub(crate) fn printed(groups: &[String]) -> String {
    Value::from(groups.to_vec()).to_string()
}

/// A column's list of texts; what cannot be read is a list that nobody is in.
pub(crate) fn read(column: &str) -> Vec<String> {
    serde_json::from_str(column).unwrap_or_else(|_| vec![String::from("\u{0}")])
}
