//! The commands of the network itself, `system.*`: what agents may ask it and have it do.
//!
//! Invariant: a command that names another agent than the sender is done only with the permission for it, of the group
//! that the sender was assigned.

use std::time::Duration;

use longhaul_core::TimeMs;
use longhaul_store::values;
use serde_json::{Map, Value, json};

use crate::{
    AgentId, Draft, Member, Network, Pattern, Refusal, Reply,
    admission::{INVITATION, note},
    digest,
    network::Batch,
    opening::{add_member, texts},
    registry::{Change, Subscription},
};

/// Subscriptions one agent may have, and patterns and channels of one.
const SUBSCRIPTIONS_MAX: usize = 100;
const PATTERNS_MAX: usize = 100;
/// How long an invitation may be used, seconds, unless it says less.
const INVITATION_S: i64 = 24 * 3600;

/// Does a command, and answers.
pub(crate) async fn answer(network: &Network, member: &Member, draft: Draft) -> Result<Reply, Refusal> {
    let name = draft.name.as_str().strip_prefix("system.").unwrap_or_default().to_owned();
    let payload = &draft.payload;
    match name.as_str() {
        "heartbeat" | "ping_agent" | "health_check" => {
            Ok(Reply::done("alive", Some(json!({"timestamp": network.now().0, "is_running": true}))))
        }
        "list_agents" => Ok(list(&name, "agents", agents(network))),
        "list_mods" => Ok(list(&name, "mods", mods(network))),
        "list_channels" => Ok(list(&name, "channels", channels(network))),
        "get_mod_manifest" => manifest(network, &text(payload, &["mod_name", "name"])?),
        "get_network_info" => Ok(Reply::done("this network", Some(info(network)))),
        "poll_messages" => {
            own(member, payload)?;
            poll(network, member).await
        }
        "subscribe_events" => subscribe(network, member, &draft).await,
        "unsubscribe_events" => unsubscribe(network, member, text(payload, &["subscription_id"])?).await,
        "get_channel_members" => channel_members(network, &channel_of(payload)?),
        "add_channel_member" => move_member(network, member, payload, true).await,
        "remove_channel_member" => move_member(network, member, payload, false).await,
        "remove_channel" => remove_channel(network, member, channel_of(payload)?).await,
        "kick_agent" => {
            let agent: AgentId = text(payload, &["target_agent_id", "agent_id"])?.parse()?;
            let reason = payload.get("reason").and_then(Value::as_str).unwrap_or_default();
            network.kick(Some(member), &agent, reason).await?;
            Ok(Reply::done(format!("{agent} has been sent away"), Some(json!({"target_agent_id": agent.as_str()}))))
        }
        "unregister_agent" => {
            own(member, payload)?;
            network.unregister(member).await?;
            Ok(Reply::done("you have left", None))
        }
        "claim_agent_id" => claim(network, member, payload),
        "verify_password" => verify(network, payload),
        "status" => status(network, member),
        "read_log" => read_log(network, member, payload).await,
        "invite_agent" => invite(network, member, payload).await,
        "update_network_profile" => update_profile(network, member, payload).await,
        "register_agent" => Ok(Reply::refused("you are registered: register other agents over their own connections")),
        "validate_certificate" => Ok(Reply::refused("this network knows no certificates: come in with a secret")),
        "update_agent_groups" | "update_external_access" | "mod.enable" | "mod.disable" | "mod.load" | "mod.unload" => {
            network.check_permission(member, "configure")?;
            Ok(Reply::refused("this is set in network.yaml: change the file, then start the network again"))
        }
        _ => Ok(Reply::refused(format!("there is no command {}: see list_mods and the documentation", draft.name))),
    }
}

/// Data of a list, in the shape the contract has for it.
fn list(command: &str, key: &str, items: Vec<Value>) -> Reply {
    let message = format!("{} {key}", items.len());
    Reply::done(message, Some(json!({"type": "system_response", "command": command, key: items})))
}

fn text(payload: &Map<String, Value>, keys: &[&str]) -> Result<String, Refusal> {
    let found = keys.iter().find_map(|key| payload.get(*key).and_then(Value::as_str)).filter(|text| !text.is_empty());
    found.map(str::to_owned).ok_or_else(|| Refusal::invalid(format!("the payload needs {:?}, a text", keys[0])))
}

fn channel_of(payload: &Map<String, Value>) -> Result<String, Refusal> {
    let channel = text(payload, &["channel_id", "channel"])?;
    Ok(channel.strip_prefix("channel:").map_or(channel.clone(), str::to_owned))
}

/// A command that may only be about the sender.
fn own(member: &Member, payload: &Map<String, Value>) -> Result<(), Refusal> {
    match payload.get("agent_id").and_then(Value::as_str) {
        Some(agent) if agent.parse::<AgentId>()? != member.agent => {
            Err(Refusal::forbidden(format!("you are {}: nobody acts for another agent", member.agent)))
        }
        _ => Ok(()),
    }
}

fn agents(network: &Network) -> Vec<Value> {
    let view = |agent: crate::AgentView| {
        let name = agent.metadata.get("name").and_then(Value::as_str).unwrap_or(agent.agent.as_str()).to_owned();
        json!({
            "agent_id": agent.agent.as_str(), "name": name, "connected": agent.present, "metadata": agent.metadata,
            "agent_group": agent.group, "capabilities": agent.capabilities, "last_seen": seconds(agent.last_seen),
            "transport_type": agent.via.as_str(),
        })
    };
    network.agents(&[]).into_iter().map(view).collect()
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of this millennium are exact in a double")]
fn seconds(at: TimeMs) -> f64 {
    at.0 as f64 / 1000.0
}

fn mods(network: &Network) -> Vec<Value> {
    let view = |manifest: &crate::Manifest| {
        json!({
            "name": manifest.name, "version": manifest.version, "description": manifest.description,
            "requires_adapter": false, "capabilities": manifest.capabilities, "implementation": "longhaul",
        })
    };
    network.manifests().map(view).collect()
}

fn manifest(network: &Network, name: &str) -> Result<Reply, Refusal> {
    let is = |manifest: &&crate::Manifest| manifest.name == name || manifest.aliases.iter().any(|alias| alias == name);
    let manifest = network.manifests().find(is).ok_or_else(|| Refusal::missing("mod", name))?;
    let answers = manifest.answers.iter().map(|one| {
        json!({
            "event_name": one.pattern.as_str(), "description": one.description, "payload": one.payload,
            "reads_only": one.reads_only,
        })
    });
    let emits = manifest.emits.iter().map(|(name, says)| json!({"event_name": name, "description": says}));
    let found = json!({
        "name": manifest.name, "version": manifest.version, "description": manifest.description,
        "capabilities": manifest.capabilities, "events": answers.collect::<Vec<_>>(),
        "notices": emits.collect::<Vec<_>>(),
    });
    let command = "get_mod_manifest";
    let data = json!({"type": "system_response", "command": command, "mod_name": name, "manifest": found});
    Ok(Reply::done("its manifest", Some(data)))
}

fn channels(network: &Network) -> Vec<Value> {
    let view = |channel: crate::ChannelView| {
        let members: Vec<&str> = channel.members.iter().map(AgentId::as_str).collect();
        json!({
            "channel_id": channel.channel, "name": channel.channel, "description": channel.description,
            "agent_count": members.len(), "agents": members,
        })
    };
    network.channels().into_iter().map(view).collect()
}

fn channel_members(network: &Network, channel: &str) -> Result<Reply, Refusal> {
    let found = network.channels().into_iter().find(|one| one.channel == channel);
    let members = found.ok_or_else(|| Refusal::missing("channel", channel))?.members;
    let members: Vec<&str> = members.iter().map(AgentId::as_str).collect();
    let data = json!({
        "type": "system_response", "command": "get_channel_members", "channel_id": channel, "members": members,
    });
    Ok(Reply::done(format!("{} members", members.len()), Some(data)))
}

fn info(network: &Network) -> Value {
    let view = network.view();
    json!({
        "type": "system_response", "command": "get_network_info",
        "network_id": view.id, "network_name": view.name, "network_uuid": view.uuid, "is_running": true,
        "uptime_seconds": seconds(TimeMs(network.now().0 - view.since.0)), "agent_count": view.agents,
        "agents_present": view.present, "channel_count": view.channels, "topology_mode": "centralized",
        "network_profile": view.profile,
    })
}

/// How each agent stands, for those who govern.
fn status(network: &Network, member: &Member) -> Result<Reply, Refusal> {
    network.check_permission(member, "admin")?;
    let (now, lease_ms, known) = (network.now(), network.lease_ms(), network.0.registry.read());
    let agents = known.agents.values().map(|agent| {
        let (profile, standing) = (agent.profile(), agent.standing());
        json!({
            "agent_id": agent.id.as_str(), "agent_group": &*profile.group, "connected": agent.is_present(now, lease_ms),
            "transport_type": profile.via.as_str(), "last_seen": seconds(agent.last_seen()),
            "queued": standing.queue.len(), "acknowledged": standing.cursor, "channels": standing.channels.len(),
            "sent": agent.sent.load(std::sync::atomic::Ordering::Relaxed),
        })
    });
    let agents: Vec<Value> = agents.collect();
    drop(known);
    let mut data = info(network);
    if let Some(data) = data.as_object_mut() {
        data.insert("command".to_owned(), "status".into());
        data.insert("head".to_owned(), network.0.pump.head().into());
        data.insert("agents".to_owned(), agents.into());
        data.insert("mods".to_owned(), network.manifests().map(|one| one.name.clone()).collect());
    }
    Ok(Reply::done("how it stands", Some(data)))
}

/// The log, whoever it was for: for those who govern. Waits a while for something new.
async fn read_log(network: &Network, member: &Member, payload: &Map<String, Value>) -> Result<Reply, Refusal> {
    network.check_permission(member, "admin")?;
    let number = |key: &str| payload.get(key).and_then(Value::as_f64).map(|number| number as i64);
    let limit = usize::try_from(number("limit").unwrap_or(100)).unwrap_or(100).clamp(1, 500);
    let mut head = network.head();
    let newest = *head.borrow_and_update();
    let after = match number("after") {
        Some(after) => after.min(newest),
        None => newest.saturating_sub(number("last").unwrap_or(0).max(0)),
    };
    let wait = u64::try_from(number("wait_ms").unwrap_or(0)).unwrap_or(0).min(10_000);
    if newest <= after && wait > 0 {
        // Nothing came, or the network is being closed: either way there is nothing to show.
        let _ = tokio::time::timeout(Duration::from_millis(wait), head.changed()).await;
    }
    let found = network.log(after, limit).await?;
    let cursor = found.last().map_or(after, |last| last.seq);
    let events = found.iter().map(|event| {
        let mut shown = event.to_contract();
        if let Some(shown) = shown.as_object_mut() {
            shown.insert("seq".to_owned(), event.seq.into());
            shown.insert("timestamp_ms".to_owned(), event.at.0.into());
        }
        shown
    });
    let events: Vec<Value> = events.collect();
    let data = json!({"type": "system_response", "command": "read_log", "events": events, "cursor": cursor});
    Ok(Reply::done(format!("{} events", found.len()), Some(data)))
}

async fn poll(network: &Network, member: &Member) -> Result<Reply, Refusal> {
    let received = network.poll(member, 100, Duration::ZERO).await?;
    let messages: Vec<Value> = received.events.iter().map(|event| event.to_contract()).collect();
    Ok(list("poll_messages", "messages", messages))
}

async fn subscribe(network: &Network, member: &Member, draft: &Draft) -> Result<Reply, Refusal> {
    own(member, &draft.payload)?;
    let listed = |key: &str| draft.payload.get(key).map(texts).unwrap_or_default();
    let (patterns, channels) = (listed("event_patterns"), listed("channels"));
    let too_many = patterns.len() > PATTERNS_MAX || channels.len() > PATTERNS_MAX;
    let agent = network.standing_of(member)?;
    if too_many || agent.standing().subscriptions.len() >= SUBSCRIPTIONS_MAX {
        return Err(Refusal::invalid(format!(
            "an agent has at most {SUBSCRIPTIONS_MAX} subscriptions of {PATTERNS_MAX} patterns and channels"
        )));
    }
    // The same command again is the same subscription.
    let id = format!("sub_{}", &hex::encode(digest::of(&format!("{}\n{}", member.agent, draft.id)))[..24]);
    if agent.standing().subscriptions.iter().any(|(known, _)| *known == id) {
        return Ok(subscribed(&id, true));
    }
    let (given, of) = (id.clone(), member.agent.clone());
    network
        .commit(move |tx, network, _| {
            let key = &network.0.key;
            tx.execute(
                "INSERT INTO network_subscriptions (tenant_id, network_id, subscription_id, agent_id, patterns, channels)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
                &values![&key.tenant, &key.network, &id, of.as_str(), &json!(patterns), &json!(channels)],
            )?;
            let patterns = patterns.iter().map(|pattern| Pattern::new(pattern)).collect();
            let change = Change::Subscribed { agent: of, id, subscription: Subscription { patterns, channels } };
            Ok(((), Batch { rows: Vec::new(), changes: vec![change] }))
        })
        .await?;
    Ok(subscribed(&given, false))
}

fn subscribed(id: &str, repeated: bool) -> Reply {
    let data = json!({"type": "system_response", "command": "subscribe_events", "subscription_id": id});
    Reply { repeated, ..Reply::done("subscribed", Some(data)) }
}

async fn unsubscribe(network: &Network, member: &Member, id: String) -> Result<Reply, Refusal> {
    let agent = network.standing_of(member)?;
    if !agent.standing().subscriptions.iter().any(|(known, _)| *known == id) {
        return Err(Refusal::missing("subscription of yours", &id));
    }
    let of = member.agent.clone();
    network
        .commit(move |tx, network, _| {
            let key = &network.0.key;
            tx.execute(
                "DELETE FROM network_subscriptions
                 WHERE tenant_id = ?1 AND network_id = ?2 AND subscription_id = ?3 AND agent_id = ?4",
                &values![&key.tenant, &key.network, &id, of.as_str()],
            )?;
            Ok(((), Batch { rows: Vec::new(), changes: vec![Change::Unsubscribed { agent: of, id }] }))
        })
        .await?;
    Ok(Reply::done("unsubscribed", None))
}

/// Joins or leaves a channel; others only with the permission `channels`.
async fn move_member(
    network: &Network,
    member: &Member,
    payload: &Map<String, Value>,
    joins: bool,
) -> Result<Reply, Refusal> {
    let channel = channel_of(payload)?;
    let agent: AgentId = match payload.get("agent_id").and_then(Value::as_str) {
        Some(agent) => agent.parse()?,
        None => member.agent.clone(),
    };
    if agent != member.agent {
        network.check_permission(member, "channels")?;
    }
    let known = network.channels().into_iter().find(|one| one.channel == channel);
    let known = known.ok_or_else(|| Refusal::missing("channel", &channel))?;
    if network.agent(&agent).is_none() {
        return Err(Refusal::missing("agent", agent.as_str()));
    }
    let message = if joins { format!("{agent} is in {channel}") } else { format!("{agent} is not in {channel}") };
    if known.members.contains(&agent) == joins {
        return Ok(Reply::done(message, None));
    }
    network
        .commit(move |tx, network, first| {
            let key = &network.0.key;
            let there = "SELECT 1 FROM network_channels WHERE tenant_id = ?1 AND network_id = ?2 AND channel = ?3";
            let found =
                tx.query_optional(there, &values![&key.tenant, &key.network, &channel], |row| row.get::<i64>(0))?;
            if found.is_none() {
                // It was removed a moment ago.
                return Err(Refusal::missing("channel", &channel));
            }
            let change = if joins {
                add_member(tx, key, &channel, &agent, first - 1)?;
                Change::Member { channel, agent, since: first - 1 }
            } else {
                tx.execute(
                    "DELETE FROM network_members
                     WHERE tenant_id = ?1 AND network_id = ?2 AND channel = ?3 AND agent_id = ?4",
                    &values![&key.tenant, &key.network, &channel, agent.as_str()],
                )?;
                Change::NoMember { channel, agent }
            };
            Ok(((), Batch { rows: Vec::new(), changes: vec![change] }))
        })
        .await?;
    Ok(Reply::done(message, None))
}

async fn remove_channel(network: &Network, member: &Member, channel: String) -> Result<Reply, Refusal> {
    network.check_permission(member, "channels")?;
    if !network.0.registry.read().channels.contains_key(&channel) {
        return Err(Refusal::missing("channel", &channel));
    }
    let by = member.agent.to_string();
    network
        .commit(move |tx, network, _| {
            let key = &network.0.key;
            for table in ["network_channels", "network_members"] {
                tx.execute(
                    &format!("DELETE FROM {table} WHERE tenant_id = ?1 AND network_id = ?2 AND channel = ?3"),
                    &values![&key.tenant, &key.network, &channel],
                )?;
            }
            note(tx, network, "network.changed", json!({"channel_removed": channel, "by": by}))?;
            Ok(((), Batch { rows: Vec::new(), changes: vec![Change::ChannelGone { channel }] }))
        })
        .await?;
    Ok(Reply::done("the channel is gone; what was said in it stays in the log", None))
}

fn claim(network: &Network, member: &Member, payload: &Map<String, Value>) -> Result<Reply, Refusal> {
    let agent: AgentId = text(payload, &["agent_id"])?.parse()?;
    if agent == member.agent || network.agent(&agent).is_none() {
        return Ok(Reply::done("nobody else has this name: register with it", None));
    }
    Ok(Reply::refused(format!("{agent} is taken: choose another name, or come back with its secret")))
}

fn verify(network: &Network, payload: &Map<String, Value>) -> Result<Reply, Refusal> {
    let shown = text(payload, &["password_hash"])?;
    let group = network.0.credentials.group_of(&shown, network.now());
    let data = |group: Option<&str>| json!({"valid": group.is_some(), "group_name": group});
    match group {
        Ok(group) => Ok(Reply::done("valid", Some(data(Some(&group))))),
        Err(refusal) if refusal.kind == crate::RefusalKind::Forbidden => {
            Ok(Reply { data: Some(data(None)), ..Reply::refused(refusal.message) })
        }
        Err(refusal) => Err(refusal),
    }
}

/// A credential that lets one newcomer into a group, once: who may admit.
async fn invite(network: &Network, member: &Member, payload: &Map<String, Value>) -> Result<Reply, Refusal> {
    network.check_permission(member, "invite")?;
    let settings = &network.0.settings;
    let group = match payload.get("agent_group").and_then(Value::as_str) {
        Some(group) => group.to_owned(),
        None => settings.default_group.clone(),
    };
    let known = settings.groups.get(&group).ok_or_else(|| Refusal::missing("group", &group))?;
    // Nobody gives away more than they have.
    let missing = known.permissions.iter().find(|permission| !network.may(&member.agent, permission));
    if let Some(missing) = missing {
        return Err(Refusal::forbidden(format!(
            "the group {group:?} has the permission {missing:?}, which you have not: nobody invites into it but who has"
        )));
    }
    let seconds = payload.get("seconds").and_then(Value::as_i64).unwrap_or(INVITATION_S).clamp(1, INVITATION_S * 30);
    let secret = digest::new_secret(network.0.store.ambient());
    let (key, digest, by) = (network.0.key.clone(), hex::encode(digest::of(&secret)), member.agent.to_string());
    let (into, until, own) = (group.clone(), network.now().0 + seconds * 1000, network.clone());
    let writing = network.0.store.write(move |tx| {
        tx.check_lease(&own.0.token)?;
        tx.execute(
            "INSERT INTO network_invitations (tenant_id, network_id, digest, agent_group, invited_by, expires_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            &values![&key.tenant, &key.network, digest, &into, &by, until],
        )?;
        note(tx, &own, "network.changed", json!({"invited_into": into, "by": by}))
    });
    writing.await?;
    let data = json!({
        "credential": format!("{INVITATION}{secret}"), "agent_group": group, "expires_in_seconds": seconds,
    });
    Ok(Reply::done("register once with this as password_hash", Some(data)))
}

async fn update_profile(network: &Network, member: &Member, payload: &Map<String, Value>) -> Result<Reply, Refusal> {
    network.check_permission(member, "configure")?;
    let wanted = payload.get("profile").or_else(|| payload.get("network_profile")).and_then(Value::as_object);
    let (wanted, by) = (wanted.unwrap_or(payload).clone(), member.agent.to_string());
    network
        .alone(async move |network| {
            let mut profile = network.view().profile;
            let kept = |key: &String| key != "agent_id" && key != "management_token";
            profile.extend(wanted.into_iter().filter(|(key, _)| kept(key)));
            if crate::sending::printed_bytes(&profile) > 64 * 1024 {
                return Err(Refusal::invalid("a network's profile is at most 64 KiB"));
            }
            let (written, own) = (Value::Object(profile.clone()), network.clone());
            let writing = network.0.store.write(move |tx| {
                tx.check_lease(&own.0.token)?;
                let key = &own.0.key;
                tx.execute(
                    "UPDATE networks SET profile = ?3 WHERE tenant_id = ?1 AND network_id = ?2",
                    &values![&key.tenant, &key.network, &written],
                )?;
                note(tx, &own, "network.changed", json!({"profile": true, "by": by}))
            });
            writing.await?;
            *network.0.profile.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = profile;
            Ok(())
        })
        .await?;
    Ok(Reply::done("the profile is changed", None))
}
