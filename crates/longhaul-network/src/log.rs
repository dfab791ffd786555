//! The log's rows: how an event is written, read again by its route, and found by its sender's id.
//!
//! Invariant: what is read is what was written, whichever of the two the receiver's place leads to, the tail in RAM or
//! these rows.

use std::sync::Arc;

use longhaul_core::TenantId;
use longhaul_store::{ReadTx, Row, StoreError, Tx, values};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Address, AgentId, Event, Reply, Sender, Visibility};

/// Version of what a row holds.
const V: u32 = 1;
/// A command that only its sender hears of keeps its payload up to here, bytes: it is kept for whoever looks.
pub(crate) const COMMAND_BYTES_MAX: usize = 8 * 1024;

/// Whose rows.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) tenant: TenantId,
    pub(crate) network: String,
}

/// A row of the log, as the tail holds it too.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Who it is for.
    pub(crate) route: Arc<str>,
    pub(crate) event: Arc<Event>,
    /// About what it takes.
    pub(crate) bytes: usize,
}

/// What a sender's id led to.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    pub(crate) seq: i64,
    pub(crate) fingerprint: String,
    pub(crate) reply: Reply,
}

/// The route of an address.
pub(crate) fn route(to: &Address) -> String {
    match to {
        Address::Agent(agent) => format!("a:{agent}"),
        Address::Channel(channel) => format!("c:{channel}"),
        Address::Group(group) => format!("g:{group}"),
        Address::Mod(name) => format!("m:{name}"),
        Address::Everybody => "*".to_owned(),
        Address::System => SYSTEM.to_owned(),
    }
}

/// The route of what nobody receives.
pub(crate) const SYSTEM: &str = "s";

fn address(route: &str) -> Option<Address> {
    Some(match route.split_once(':') {
        Some(("a", agent)) => Address::Agent(agent.parse().ok()?),
        Some(("c", channel)) => Address::Channel(channel.to_owned()),
        Some(("g", group)) => Address::Group(group.to_owned()),
        Some(("m", name)) => Address::Mod(name.to_owned()),
        None if route == "*" => Address::Everybody,
        None if route == SYSTEM => Address::System,
        _ => return None,
    })
}

pub(crate) fn sender_key(sender: &Sender) -> String {
    match sender {
        Sender::Agent(agent) => format!("a:{agent}"),
        Sender::Mod(name) => format!("m:{name}"),
        Sender::Network => SYSTEM.to_owned(),
    }
}

fn sender(key: &str) -> Option<Sender> {
    Some(match key.split_once(':') {
        Some(("a", agent)) => Sender::Agent(agent.parse().ok()?),
        Some(("m", name)) => Sender::Mod(name.to_owned()),
        None if key == SYSTEM => Sender::Network,
        _ => return None,
    })
}

/// What few events have.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Rest {
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    metadata: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    visibility: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    allowed: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    relevant_mod: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    requires_response: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response_to: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thread: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

fn rest_of(event: &Event) -> Rest {
    Rest {
        metadata: event.metadata.clone(),
        visibility: (event.visibility != Visibility::default()).then(|| event.visibility.as_str().to_owned()),
        allowed: event.allowed_agents.as_ref().map(|some| some.iter().map(ToString::to_string).collect()),
        relevant_mod: event.relevant_mod.clone(),
        requires_response: event.requires_response,
        response_to: event.response_to.clone(),
        thread: event.thread_name.clone(),
        text: event.text.clone(),
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredReply {
    success: bool,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
}

fn printed(reply: &Reply) -> Result<String, StoreError> {
    let stored = StoredReply { success: reply.success, message: reply.message.clone(), data: reply.data.clone() };
    serde_json::to_string(&stored).map_err(|error| damaged("reply", "", error))
}

fn damaged(what: &'static str, id: &str, source: serde_json::Error) -> StoreError {
    StoreError::Record { what, id: id.to_owned(), source: Arc::new(source) }
}

const INSERT: &str = "INSERT INTO network_events (tenant_id, network_id, seq, v, event_id, origin_id, answered, name,
    sender, sender_group, route, destination, at, payload, rest, fingerprint, reply)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";

/// Writes the row of an event that has its number. `answer` is what the sender's id led to, for the row that keeps it.
pub(crate) fn insert(
    tx: &mut Tx<'_>,
    key: &Key,
    event: Event,
    route: Arc<str>,
    answer: Option<(&str, &Reply)>,
) -> Result<Entry, StoreError> {
    let payload = serde_json::to_string(&event.payload).map_err(|error| damaged("event", &event.id, error))?;
    let bytes = payload.len() + 400;
    let rest = rest_of(&event);
    let rest = (rest != Rest::default())
        .then(|| serde_json::to_string(&rest))
        .transpose()
        .map_err(|error| damaged("event", &event.id, error))?;
    let destination = (*route == *SYSTEM && event.to != Address::System).then(|| event.to.to_string());
    let (fingerprint, reply) = match answer {
        Some((fingerprint, reply)) => (Some(fingerprint), Some(printed(reply)?)),
        None => (None, None),
    };
    tx.execute(
        INSERT,
        &values![
            &key.tenant,
            &key.network,
            event.seq,
            V,
            &event.id,
            event.origin_id.as_ref(),
            i64::from(answer.is_some()),
            event.name.as_str(),
            sender_key(&event.from),
            event.from_group.as_ref(),
            &*route,
            destination,
            event.at,
            payload,
            rest,
            fingerprint,
            reply,
        ],
    )?;
    Ok(Entry { route, event: Arc::new(event), bytes })
}

/// What this sender's id led to, if it has been answered.
pub(crate) fn answered(
    read: &ReadTx<'_>,
    key: &Key,
    sender: &Sender,
    id: &str,
) -> Result<Option<Answered>, StoreError> {
    read.query_optional(
        "SELECT seq, fingerprint, reply FROM network_events
         WHERE tenant_id = ?1 AND network_id = ?2 AND sender = ?3 AND origin_id = ?4 AND answered = 1",
        &values![&key.tenant, &key.network, sender_key(sender), id],
        |row| {
            let reply: StoredReply = serde_json::from_str(row.text(2)?).map_err(|error| damaged("reply", id, error))?;
            Ok(Answered {
                seq: row.get(0)?,
                fingerprint: row.get(1)?,
                reply: Reply { success: reply.success, message: reply.message, data: reply.data, repeated: true },
            })
        },
    )
}

/// Another reply for what has been answered already: a response that came later.
pub(crate) fn answer_anew(tx: &mut Tx<'_>, key: &Key, seq: i64, reply: &Reply) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE network_events SET reply = ?4 WHERE tenant_id = ?1 AND network_id = ?2 AND seq = ?3",
        &values![&key.tenant, &key.network, seq, printed(reply)?],
    )
    .map(drop)
}

const COLUMNS: &str = "SELECT seq, event_id, origin_id, name, sender, sender_group, route, destination, at, payload,
    rest FROM network_events WHERE tenant_id = ?1 AND network_id = ?2";

fn entry(row: &Row<'_>) -> Result<Entry, StoreError> {
    let id: String = row.get(1)?;
    let wrong = |column, expected, found: &str| StoreError::Column { column, expected, found: format!("{found:?}") };
    let route = row.text(6)?;
    let to = match row.get::<Option<String>>(7)? {
        Some(destination) => Address::parse(Some(&destination)).ok(),
        None => address(route),
    };
    let payload = row.text(9)?;
    let rest: Rest = match row.get::<Option<String>>(10)? {
        Some(rest) => serde_json::from_str(&rest).map_err(|error| damaged("event", &id, error))?,
        None => Rest::default(),
    };
    let bytes = payload.len() + 400;
    let allowed = rest.allowed.map(|some| some.iter().filter_map(|agent| agent.parse::<AgentId>().ok()).collect());
    let event = Event {
        seq: row.get(0)?,
        origin_id: row.get(2)?,
        name: row.text(3)?.parse().map_err(|_| wrong(3, "the name of an event", &id))?,
        from: sender(row.text(4)?).ok_or_else(|| wrong(4, "a sender", &id))?,
        from_group: row.get(5)?,
        to: to.ok_or_else(|| wrong(6, "a route", route))?,
        at: row.get(8)?,
        payload: serde_json::from_str(payload).map_err(|error| damaged("event", &id, error))?,
        metadata: rest.metadata,
        visibility: rest.visibility.and_then(|word| Visibility::from_word(&word)).unwrap_or_default(),
        allowed_agents: allowed,
        relevant_mod: rest.relevant_mod,
        requires_response: rest.requires_response,
        response_to: rest.response_to,
        thread_name: rest.thread,
        text: rest.text,
        id,
    };
    Ok(Entry { route: route.into(), event: Arc::new(event), bytes })
}

/// The events of one route behind `after` and up to `until`, at most `limit`.
pub(crate) fn of_route(
    read: &ReadTx<'_>,
    key: &Key,
    route: &str,
    after: i64,
    until: i64,
    limit: usize,
) -> Result<Vec<Entry>, StoreError> {
    read.query(
        &format!("{COLUMNS} AND route = ?3 AND seq > ?4 AND seq <= ?5 ORDER BY seq LIMIT ?6"),
        &values![&key.tenant, &key.network, route, after, until, limit],
        entry,
    )
}

/// All events behind `after` and up to `until`, at most `limit`.
pub(crate) fn all(
    read: &ReadTx<'_>,
    key: &Key,
    after: i64,
    until: i64,
    limit: usize,
) -> Result<Vec<Entry>, StoreError> {
    read.query(
        &format!("{COLUMNS} AND seq > ?3 AND seq <= ?4 ORDER BY seq LIMIT ?5"),
        &values![&key.tenant, &key.network, after, until, limit],
        entry,
    )
}

/// The highest number in the log.
pub(crate) fn head(read: &ReadTx<'_>, key: &Key) -> Result<i64, StoreError> {
    let last = read.query_optional(
        "SELECT seq FROM network_events WHERE tenant_id = ?1 AND network_id = ?2 ORDER BY seq DESC LIMIT 1",
        &values![&key.tenant, &key.network],
        |row| row.get(0),
    )?;
    Ok(last.unwrap_or(0))
}

/// Numbers of the direct events of an agent behind its cursor, at most `limit`.
pub(crate) fn queued(
    read: &ReadTx<'_>,
    key: &Key,
    agent: &AgentId,
    after: i64,
    limit: usize,
) -> Result<Vec<i64>, StoreError> {
    read.query(
        "SELECT seq FROM network_events WHERE tenant_id = ?1 AND network_id = ?2 AND route = ?3 AND seq > ?4
         ORDER BY seq LIMIT ?5",
        &values![&key.tenant, &key.network, format!("a:{agent}"), after, limit],
        |row| row.get(0),
    )
}

/// Removes what was admitted before `before`, at most `limit` rows, oldest first. How many there were.
pub(crate) fn forget(tx: &mut Tx<'_>, key: &Key, before: i64, limit: usize) -> Result<u64, StoreError> {
    let last = tx.query(
        "SELECT seq, at FROM network_events WHERE tenant_id = ?1 AND network_id = ?2 ORDER BY seq LIMIT ?3",
        &values![&key.tenant, &key.network, limit],
        |row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?)),
    )?;
    let Some((last, _)) = last.into_iter().take_while(|(_, at)| *at < before).last() else { return Ok(0) };
    set_floor(tx, key, last)?;
    tx.execute(
        "DELETE FROM network_events WHERE tenant_id = ?1 AND network_id = ?2 AND seq <= ?3",
        &values![&key.tenant, &key.network, last],
    )
}

/// No number up to here is given again, whatever rows there are.
pub(crate) fn set_floor(tx: &mut Tx<'_>, key: &Key, floor: i64) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE networks SET floor_seq = ?3 WHERE tenant_id = ?1 AND network_id = ?2 AND floor_seq < ?3",
        &values![&key.tenant, &key.network, floor],
    )
    .map(drop)
}
