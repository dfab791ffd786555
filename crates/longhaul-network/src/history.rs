//! What was said, for mods that answer with it: the log's rows by route and by id.
//!
//! It owns reading only, but for what a mod takes back that was said for the moment. Invariant: nothing is given that
//! is not in the network of the stage.

use longhaul_core::{TenantId, TimeMs};
use longhaul_store::{ReadTx, Row, StoreError, Value as Sql, values};
use serde_json::{Map, Value};

use crate::{Address, AgentId, ChannelView, Refusal, Sender, Stage, registry::Change};

/// An event of the log, as much as answers are made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// Its number.
    pub seq: i64,
    /// Its id, unique in the network.
    pub id: String,
    /// The id of the sender's draft that led to it.
    pub origin_id: Option<String>,
    /// What happened.
    pub name: String,
    /// Who said it.
    pub from: Sender,
    /// To whom.
    pub to: Address,
    /// When.
    pub at: TimeMs,
    /// Content.
    pub payload: Map<String, Value>,
}

/// The log, read from a stage.
#[derive(Clone, Copy)]
pub struct History<'a> {
    read: ReadTx<'a>,
    tenant: &'a TenantId,
    network: &'a str,
}

impl Stage<'_, '_> {
    /// The log as it stands, what this transaction has not committed yet included.
    #[must_use]
    pub fn history(&self) -> History<'_> {
        let (scope, network) = self.place();
        History { read: self.rows(), tenant: &scope.tenant, network }
    }

    /// Whether the agent is a member of the channel; nothing when there is no such channel.
    #[must_use]
    pub fn is_member(&self, channel: &str, agent: &AgentId) -> Option<bool> {
        let known = {
            let known = self.network.0.registry.read();
            known.channels.get(channel).map(|channel| channel.members.contains(agent))
        };
        // What this event has changed is seen by the slower way.
        if self.made.changes.is_empty() { known } else { Some(self.members(channel)?.contains(agent)) }
    }

    /// Every channel with what it is for, by name.
    #[must_use]
    pub fn channels(&self) -> Vec<ChannelView> {
        self.network.channels()
    }

    /// Takes back what was said for the moment: events of this name that the sender has said there behind `after` and
    /// of which the payload's `field` is `value`. Whoever has not received them will not. How many there were.
    ///
    /// # Errors
    /// Those of the store.
    pub fn take_back(
        &mut self,
        to: &Address,
        name: &str,
        from: &Sender,
        (field, value): (&str, &str),
        after: i64,
    ) -> Result<usize, Refusal> {
        let (scope, network) = self.place();
        let (tenant, network) = (scope.tenant.clone(), network.to_owned());
        let said = self.history().behind(to, name, after)?;
        let is_meant =
            |said: &Said| said.from == *from && said.payload.get(field).and_then(Value::as_str) == Some(value);
        let meant: Vec<i64> = said.iter().filter(|said| is_meant(said)).map(|said| said.seq).collect();
        for seq in &meant {
            self.tx().execute(
                "DELETE FROM network_events WHERE tenant_id = ?1 AND network_id = ?2 AND seq = ?3",
                &values![&tenant, &network, *seq],
            )?;
        }
        let taken = meant.len();
        if taken > 0 {
            self.made.changes.push(Change::TakenBack { seqs: meant });
        }
        Ok(taken)
    }
}

const COLUMNS: &str = "SELECT seq, event_id, origin_id, name, sender, route, at, payload FROM network_events
    WHERE tenant_id = ?1 AND network_id = ?2";

impl History<'_> {
    /// The event with this id, or the one that the draft of this id led to: the first, where several senders used it.
    ///
    /// # Errors
    /// Those of the store.
    pub fn by_id(&self, id: &str) -> Result<Option<Said>, Refusal> {
        // Two indexes, each with its own condition: what is known by one id alone is in the second only.
        for wanted in ["event_id = ?3 AND event_id <> origin_id", "origin_id = ?3 AND answered = 1"] {
            let sql = format!("{COLUMNS} AND {wanted} AND route <> 's' ORDER BY seq LIMIT 1");
            let found = self.read.query_optional(&sql, &values![self.tenant, self.network, id], said)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// What was said there under these names, newest first.
    ///
    /// # Errors
    /// Those of the store.
    pub fn newest(&self, to: &Address, names: &[&str], limit: i64, offset: i64) -> Result<Vec<Said>, Refusal> {
        let (names, mut params) = self.named(to, names, 5);
        params.splice(3..3, values![limit, offset]);
        let sql = format!("{COLUMNS} AND route = ?3 AND name IN ({names}) ORDER BY seq DESC LIMIT ?4 OFFSET ?5");
        Ok(self.read.query(&sql, &params, said)?)
    }

    /// How many of these names were said there with numbers above `after` and up to `until`.
    ///
    /// # Errors
    /// Those of the store.
    pub fn count(&self, to: &Address, names: &[&str], after: i64, until: i64) -> Result<i64, Refusal> {
        let (names, mut params) = self.named(to, names, 5);
        params.splice(3..3, values![after, until]);
        let sql = format!(
            "SELECT COUNT(*) FROM network_events WHERE tenant_id = ?1 AND network_id = ?2 AND route = ?3
             AND seq > ?4 AND seq <= ?5 AND name IN ({names})"
        );
        Ok(self.read.query_one(&sql, &params, |row| row.get(0))?)
    }

    /// The numbers of the first and the last event that was said there.
    ///
    /// # Errors
    /// Those of the store.
    pub fn span(&self, to: &Address) -> Result<Option<(i64, i64)>, Refusal> {
        let end = |order: &str| {
            let sql = format!(
                "SELECT seq FROM network_events WHERE tenant_id = ?1 AND network_id = ?2 AND route = ?3
                 ORDER BY seq {order} LIMIT 1"
            );
            self.read.query_optional(&sql, &values![self.tenant, self.network, route(to)], |row| row.get::<i64>(0))
        };
        Ok(end("ASC")?.zip(end("DESC")?))
    }

    /// The number of the last event of the network.
    ///
    /// # Errors
    /// Those of the store.
    pub fn head(&self) -> Result<i64, Refusal> {
        let sql = "SELECT seq FROM network_events WHERE tenant_id = ?1 AND network_id = ?2 ORDER BY seq DESC LIMIT 1";
        let last = self.read.query_optional(sql, &values![self.tenant, self.network], |row| row.get(0))?;
        Ok(last.unwrap_or(0))
    }

    fn behind(&self, to: &Address, name: &str, after: i64) -> Result<Vec<Said>, Refusal> {
        let sql = format!("{COLUMNS} AND route = ?3 AND seq > ?4 AND name = ?5 ORDER BY seq");
        Ok(self.read.query(&sql, &values![self.tenant, self.network, route(to), after, name], said)?)
    }

    /// Placeholders for these names from `?first + 1` on, and the parameters with them.
    fn named(&self, to: &Address, names: &[&str], first: usize) -> (String, Vec<Sql>) {
        let mut params = Vec::from(values![self.tenant, self.network, route(to)]);
        params.extend(names.iter().map(|name| Sql::from(*name)));
        let placeholders: Vec<String> = (1..=names.len()).map(|n| format!("?{}", first + n)).collect();
        (placeholders.join(", "), params)
    }
}

/// The route of an address, as the log keeps it.
fn route(to: &Address) -> String {
    match to {
        Address::Agent(agent) => format!("a:{agent}"),
        Address::Channel(channel) => format!("c:{channel}"),
        Address::Group(group) => format!("g:{group}"),
        Address::Mod(name) => format!("m:{name}"),
        Address::Everybody => "*".to_owned(),
        Address::System => "s".to_owned(),
    }
}

fn said(row: &Row<'_>) -> Result<Said, StoreError> {
    let wrong = |column, expected, found: &str| StoreError::Column { column, expected, found: format!("{found:?}") };
    let sender = row.text(4)?;
    let from = match sender.split_once(':') {
        Some(("a", agent)) => Sender::Agent(agent.parse().map_err(|_| wrong(4, "a sender", sender))?),
        Some(("m", name)) => Sender::Mod(name.to_owned()),
        _ => Sender::Network,
    };
    let route = row.text(5)?;
    let to = match route.split_once(':') {
        Some(("a", agent)) => Address::Agent(agent.parse().map_err(|_| wrong(5, "a route", route))?),
        Some(("c", channel)) => Address::Channel(channel.to_owned()),
        Some(("g", group)) => Address::Group(group.to_owned()),
        Some(("m", name)) => Address::Mod(name.to_owned()),
        _ if route == "*" => Address::Everybody,
        _ => Address::System,
    };
    Ok(Said {
        seq: row.get(0)?,
        id: row.get(1)?,
        origin_id: row.get(2)?,
        name: row.get(3)?,
        from,
        to,
        at: row.get(6)?,
        payload: serde_json::from_str(row.text(7)?).map_err(|_| wrong(7, "an object", "damaged JSON"))?,
    })
}
