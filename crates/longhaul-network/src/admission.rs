//! Coming in, coming back, proving who one is, and leaving.
//!
//! Invariants: a name that is held changes hands only to whoever shows its secret or its group's credential, and after
//! its lease to its own group, unless the network is strict; a group is never taken from what a client says alone.

use std::{collections::BTreeSet, sync::Arc};

use longhaul_core::{EventDraft, TimeMs};
use longhaul_store::{Tx, values};
use serde_json::{Map, Value, json};

use crate::{
    Address, AgentId, Event, Member, Network, Refusal, RefusalKind, Registered, Registration, Sender, digest,
    log::{Key, route},
    network::{Batch, NewRow, closed},
    opening::{V, add_member, fresh_standing, serves},
    registry::{Agent, Change, Profile},
};

/// What an agent says about itself, bytes when printed, and how many capabilities of what length.
const METADATA_BYTES_MAX: usize = 32 * 1024;
const CAPABILITIES_MAX: usize = 256;
const CAPABILITY_CHARS_MAX: usize = 200;

impl Network {
    /// Lets somebody in, or back in.
    ///
    /// A name whose lease has not ended can be had again only with its secret or with its group's credential; one
    /// whose lease has ended by anybody of its group, unless the network is `strict`. With its secret it keeps the
    /// secret, and its connections; otherwise it gets a new one, and the old one is worth nothing from then on.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Forbidden`] for a wrong credential; [`crate::RefusalKind::Conflict`] for a name that is
    /// held; [`crate::RefusalKind::TooMany`] for a network that is full.
    pub async fn register(&self, registration: Registration) -> Result<Registered, Refusal> {
        check(&registration)?;
        self.alone(async move |network| match network.0.registry.agent(&registration.agent) {
            Some(known) => network.come_back(known, registration).await,
            None => {
                let group = network.group_for(&registration, network.now()).await?;
                network.come_in(registration, group).await
            }
        })
        .await
    }

    /// Changes who is here, or the profile, one change after the other, and carries it through whatever becomes of the
    /// caller: the next one must find in RAM what this one has written.
    pub(crate) async fn alone<T: Send + 'static, F>(
        &self,
        work: impl FnOnce(Self) -> F + Send + 'static,
    ) -> Result<T, Refusal>
    where
        F: Future<Output = Result<T, Refusal>> + Send + 'static,
    {
        let network = self.clone();
        let working = tokio::spawn(async move {
            let own = network.clone();
            let _alone = network.0.control.lock().await;
            work(own).await
        });
        working.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Lets in a newcomer for whom a part of this process vouches, as a transport does for whoever shows the token of
    /// `external_access`: into the group it asks for, or the default one, and no credential is asked for.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Conflict`] for a name that is taken; [`crate::RefusalKind::TooMany`] for a full network.
    pub async fn admit(&self, registration: Registration) -> Result<Registered, Refusal> {
        check(&registration)?;
        self.alone(async move |network| {
            if network.0.registry.agent(&registration.agent).is_some() {
                return Err(Refusal::conflict(format!(
                    "{:?} is taken: take another name",
                    registration.agent.as_str()
                )));
            }
            let settings = &network.0.settings;
            let group = registration.group.clone().unwrap_or_else(|| settings.default_group.clone());
            if !settings.groups.contains_key(&group) && group != settings.default_group {
                return Err(Refusal::missing("group", &group));
            }
            network.come_in(registration, group).await
        })
        .await
    }

    async fn come_in(&self, registration: Registration, group: String) -> Result<Registered, Refusal> {
        let now = self.now();
        self.check_room(now)?;
        let secret = digest::new_secret(self.0.store.ambient());
        let profile = self.profile_of(&registration, &group, digest::of(&secret), 1);
        // Whoever only looks after the network says so, and is in no channel.
        let joins = registration.metadata.get("joins_channels") != Some(&Value::Bool(false));
        let channels = self.0.settings.channels.iter().filter(|_| joins);
        let joins: Vec<String> = channels.map(|(name, _)| name.clone()).collect();
        let member = Member { agent: registration.agent.clone(), group: profile.group.clone(), generation: 1 };
        self.commit(move |tx, network, first| {
            let (key, id) = (&network.0.key, &registration.agent);
            // What another agent of this name may have left behind.
            forget_agent(tx, key, id)?;
            write_agent(tx, key, id, &profile, Some(first - 1), now)?;
            let standing = fresh_standing(&network.0.settings, first - 1, now);
            let agent = Agent::new(id.clone(), profile.clone(), first - 1, now, standing);
            let mut changes = vec![Change::Joined(Arc::new(agent))];
            for channel in joins {
                add_member(tx, key, &channel, id, first - 1)?;
                changes.push(Change::Member { channel, agent: id.clone(), since: first - 1 });
            }
            note(tx, network, "network.agent_joined", json!({"agent": id.as_str(), "group": &*profile.group}))?;
            let rows =
                vec![network.notice("system.notification.register_agent", Address::System, told(id, &profile), now)?];
            Ok(((), Batch { rows, changes }))
        })
        .await?;
        Ok(Registered { member, secret })
    }

    async fn come_back(&self, known: Arc<Agent>, registration: Registration) -> Result<Registered, Refusal> {
        let now = self.now();
        let profile = known.profile();
        let shown = registration.secret.as_deref().filter(|secret| !secret.is_empty());
        let by_secret = shown.is_some_and(|secret| digest::same(&digest::of(secret), &profile.secret));
        let (group, secret, generation) = if by_secret {
            (profile.group.to_string(), shown.unwrap_or_default().to_owned(), profile.generation)
        } else {
            self.check_return(&known, &registration, now)?;
            let secret = digest::new_secret(self.0.store.ambient());
            (profile.group.to_string(), secret, profile.generation.saturating_add(1))
        };
        let renewed = self.profile_of(&registration, &group, digest::of(&secret), generation);
        let member = Member { agent: known.id.clone(), group: renewed.group.clone(), generation };
        known.seen(now);
        self.commit(move |tx, network, _| {
            let id = registration.agent;
            write_agent(tx, &network.0.key, &id, &renewed, None, now)?;
            let rows = vec![network.notice(
                "system.notification.register_agent",
                Address::System,
                told(&id, &renewed),
                now,
            )?];
            Ok(((), Batch { rows, changes: vec![Change::Renewed(id, renewed)] }))
        })
        .await?;
        Ok(Registered { member, secret })
    }

    /// Whether somebody without the secret may have a name that is known.
    fn check_return(&self, known: &Agent, registration: &Registration, now: TimeMs) -> Result<(), Refusal> {
        let group = known.profile().group.clone();
        if self.0.settings.strict {
            return Err(Refusal::conflict(format!(
                "{:?} is held, and this network is strict: come back with its secret, or have it removed by an \
                 administrator",
                known.id.as_str()
            )));
        }
        let shows = !registration.credential.is_empty();
        if shows && self.0.credentials.group_of(&registration.credential, now)? == *group {
            return Ok(());
        }
        let free = !known.is_present(now, self.lease_ms());
        let asks = registration.group.as_deref().unwrap_or(&self.0.settings.default_group);
        // Whoever has to show a credential to get into the group has to show it to come back.
        if free && !shows && *asks == *group && !self.0.credentials.has(&group) && !self.0.settings.requires_password {
            return Ok(());
        }
        Err(Refusal::conflict(if free {
            format!("{:?} belongs to the group {group:?}: show its credential", known.id.as_str())
        } else {
            format!(
                "{:?} is held: come back with its secret or with the credential of its group, wait until it has been \
                 silent for {} s, or take another name",
                known.id.as_str(),
                self.lease_ms() / 1000
            )
        }))
    }

    /// The group of a newcomer.
    async fn group_for(&self, registration: &Registration, now: TimeMs) -> Result<String, Refusal> {
        let settings = &self.0.settings;
        let asked = registration.group.as_deref().filter(|group| !group.is_empty());
        if let Some(group) = asked
            && !settings.groups.contains_key(group)
        {
            return Err(Refusal::missing("group", group));
        }
        if let Some(token) = registration.credential.strip_prefix(INVITATION) {
            return self.group_of_invitation(token, asked, now).await;
        }
        if !registration.credential.is_empty() {
            let group = match self.0.credentials.group_of(&registration.credential, now) {
                // The reference's clients send a credential to groups that want none.
                Err(refusal) if refusal.kind == RefusalKind::Forbidden && self.is_open(asked) => {
                    return Ok(asked.unwrap_or(&settings.default_group).to_owned());
                }
                outcome => outcome?,
            };
            return match asked {
                Some(asked) if asked != group => Err(invalid_for(asked)),
                _ => Ok(group),
            };
        }
        let group = asked.unwrap_or(&settings.default_group);
        if self.is_open(Some(group)) { Ok(group.to_owned()) } else { Err(invalid_for(group)) }
    }

    /// Whether a group, or nothing asked for, takes whoever comes: the default group, where nothing forbids it.
    fn is_open(&self, group: Option<&str>) -> bool {
        let settings = &self.0.settings;
        let group = group.unwrap_or(&settings.default_group);
        group == settings.default_group && !settings.requires_password && !self.0.credentials.has(group)
    }

    async fn group_of_invitation(&self, token: &str, asked: Option<&str>, now: TimeMs) -> Result<String, Refusal> {
        let (key, digest) = (self.0.key.clone(), hex::encode(digest::of(token)));
        let taken = self.0.store.write(move |tx| {
            let of = values![&key.tenant, &key.network, digest];
            let found = tx.query_optional(
                "SELECT agent_group, expires_at FROM network_invitations
                 WHERE tenant_id = ?1 AND network_id = ?2 AND digest = ?3",
                &of,
                |row| Ok((row.get::<String>(0)?, row.get::<TimeMs>(1)?)),
            )?;
            tx.execute(
                "DELETE FROM network_invitations WHERE tenant_id = ?1 AND network_id = ?2 AND digest = ?3",
                &of,
            )?;
            Ok::<_, Refusal>(found.filter(|(_, until)| *until > now))
        });
        match taken.await? {
            Some((group, _)) if asked.is_none_or(|asked| asked == group) => Ok(group),
            _ => Err(Refusal::forbidden("this invitation has been used, has ended, or never was: ask for another one")),
        }
    }

    fn check_room(&self, now: TimeMs) -> Result<(), Refusal> {
        let (lease_ms, most) = (self.lease_ms(), self.0.settings.agents_max);
        let known = self.0.registry.read();
        let full = known.agents.len() >= most && {
            let present = known.agents.values().filter(|agent| agent.is_present(now, lease_ms)).count();
            present >= most || known.agents.len() >= most.saturating_mul(10)
        };
        let message = format!("{most} agents are here, the most there may be: try again when one has left");
        if full { Err(Refusal::new(RefusalKind::TooMany, message)) } else { Ok(()) }
    }

    fn profile_of(&self, registration: &Registration, group: &str, secret: digest::Digest, generation: u64) -> Profile {
        Profile {
            group: group.into(),
            secret,
            generation,
            metadata: registration.metadata.clone(),
            capabilities: capabilities(registration),
            via: registration.via,
            serves: serves(&self.0.settings, group, registration.agent.as_str(), &registration.metadata),
        }
    }

    /// Who shows this secret. Reads no row.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Unauthenticated`], always with the same words.
    pub fn authenticate(&self, agent: &AgentId, secret: &str) -> Result<Member, Refusal> {
        let known = self.0.registry.agent(agent);
        let shown = digest::of(secret);
        let profile = known.as_ref().map(|known| known.profile());
        // As long for a name that nobody has as for a wrong secret.
        let kept = profile.as_ref().map_or([0; 32], |profile| profile.secret);
        match (known, profile) {
            (Some(known), Some(profile)) if digest::same(&shown, &kept) => {
                known.seen(self.now());
                Ok(Member { agent: agent.clone(), group: profile.group.clone(), generation: profile.generation })
            }
            _ => Err(unauthenticated()),
        }
    }

    /// The agent behind a member whose secret is still good.
    pub(crate) fn standing_of(&self, member: &Member) -> Result<Arc<Agent>, Refusal> {
        let known = self.0.registry.agent(&member.agent);
        known.filter(|known| known.profile().generation == member.generation).ok_or_else(unauthenticated)
    }

    /// Lets the member go: its queue, subscriptions and memberships end.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn unregister(&self, member: &Member) -> Result<(), Refusal> {
        let member = member.clone();
        self.alone(async move |network| {
            network.standing_of(&member)?;
            network.remove(member.agent, None).await
        })
        .await
    }

    /// Sends somebody away, as an agent whose group may, or as whoever serves the network.
    ///
    /// # Errors
    /// [`RefusalKind::Forbidden`] without the permission `kick`; [`RefusalKind::Missing`] for a name that nobody has.
    pub async fn kick(&self, by: Option<&Member>, agent: &AgentId, reason: &str) -> Result<(), Refusal> {
        let (by, agent, reason) = (by.cloned(), agent.clone(), reason.chars().take(500).collect());
        self.alone(async move |network| {
            if let Some(by) = &by {
                network.standing_of(by)?;
                network.check_permission(by, "kick")?;
                if network.may(&agent, "admin") && !network.may(&by.agent, "admin") {
                    return Err(Refusal::forbidden("an administrator is sent away by administrators only"));
                }
            }
            if network.0.registry.agent(&agent).is_none() {
                return Err(Refusal::missing("agent", agent.as_str()));
            }
            let by = by.map_or_else(|| "system".to_owned(), |by| by.agent.to_string());
            network.remove(agent, Some((by, reason))).await
        })
        .await
    }

    /// Whether the member may.
    ///
    /// # Errors
    /// [`RefusalKind::Forbidden`], naming the permission.
    pub fn check_permission(&self, member: &Member, permission: &str) -> Result<(), Refusal> {
        // The group is what was assigned, whatever the caller says.
        if self.may(&member.agent, permission) {
            return Ok(());
        }
        Err(Refusal::forbidden(format!(
            "the group {:?} has no permission {permission:?}: ask an administrator of the network",
            &*member.group
        )))
    }

    pub(crate) async fn remove(&self, agent: AgentId, kicked: Option<(String, String)>) -> Result<(), Refusal> {
        let now = self.now();
        self.commit(move |tx, network, _| {
            forget_agent(tx, &network.0.key, &agent)?;
            let mut rows = Vec::new();
            let named = |extra: &[(&str, &str)]| {
                let mut payload = Map::from_iter([("agent_id".to_owned(), Value::from(agent.as_str()))]);
                payload.extend(extra.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))));
                payload
            };
            match &kicked {
                Some((by, reason)) => {
                    let says = named(&[("kicked_by", by), ("reason", reason), ("target_agent_id", agent.as_str())]);
                    rows.push(network.notice("system.agent_kicked", Address::Everybody, says, now)?);
                    note(tx, network, "network.agent_kicked", json!({"agent": agent.as_str(), "by": by}))?;
                }
                None => note(tx, network, "network.agent_left", json!({"agent": agent.as_str()}))?,
            }
            rows.push(network.notice("system.notification.unregister_agent", Address::System, named(&[]), now)?);
            Ok(((), Batch { rows, changes: vec![Change::Left(agent.clone())] }))
        })
        .await
    }

    /// The member is there: its lease begins anew. Written now and then, not each time.
    ///
    /// # Errors
    /// [`crate::RefusalKind::Unauthenticated`] when its secret has been replaced.
    pub fn touch(&self, member: &Member) -> Result<(), Refusal> {
        self.standing_of(member)?.seen(self.now());
        Ok(())
    }

    /// An event of the network itself.
    pub(crate) fn notice(
        &self,
        name: &str,
        to: Address,
        payload: Map<String, Value>,
        now: TimeMs,
    ) -> Result<NewRow, Refusal> {
        let event = Event {
            seq: 0,
            id: self.new_id(),
            origin_id: None,
            name: name.parse()?,
            from: Sender::Network,
            from_group: None,
            at: now,
            payload,
            metadata: Map::new(),
            visibility: crate::Visibility::default(),
            allowed_agents: None,
            relevant_mod: None,
            requires_response: false,
            response_to: None,
            thread_name: None,
            text: None,
            to,
        };
        Ok(NewRow { route: route(&event.to).into(), event, answer: None })
    }
}

/// What an invitation's credential begins with.
pub(crate) const INVITATION: &str = "invitation_";

pub(crate) fn unauthenticated() -> Refusal {
    Refusal::new(RefusalKind::Unauthenticated, "Authentication failed: Invalid or missing secret")
}

fn invalid_for(group: &str) -> Refusal {
    Refusal::forbidden(format!("invalid credentials for group {group:?}: show the hexadecimal SHA-256 of its password"))
}

fn check(registration: &Registration) -> Result<(), Refusal> {
    let bytes = serde_json::to_string(&registration.metadata).map_or(usize::MAX, |text| text.len());
    if bytes > METADATA_BYTES_MAX {
        let text = format!("what an agent says about itself is {bytes} bytes, at most {METADATA_BYTES_MAX} are kept");
        return Err(Refusal::new(RefusalKind::TooLarge, text));
    }
    if registration.capabilities.len() > CAPABILITIES_MAX || !registration.capabilities.iter().all(|one| short(one)) {
        return Err(Refusal::invalid(format!(
            "an agent has at most {CAPABILITIES_MAX} capabilities of {CAPABILITY_CHARS_MAX} characters each"
        )));
    }
    Ok(())
}

/// Whether a capability is not longer than one may be, in characters, as the API's description counts.
fn short(capability: &str) -> bool {
    capability.chars().nth(CAPABILITY_CHARS_MAX).is_none()
}

/// What was said to be capabilities, and what the metadata lists as such.
fn capabilities(registration: &Registration) -> BTreeSet<String> {
    let listed = registration.metadata.get("capabilities").map(crate::opening::texts).unwrap_or_default();
    let said = registration.capabilities.iter().cloned().chain(listed);
    said.filter(|one| !one.is_empty() && short(one)).take(CAPABILITIES_MAX).collect()
}

fn told(id: &AgentId, profile: &Profile) -> Map<String, Value> {
    let capabilities: Vec<Value> = profile.capabilities.iter().map(|one| one.as_str().into()).collect();
    Map::from_iter([
        ("agent_id".to_owned(), Value::from(id.as_str())),
        ("agent_group".to_owned(), Value::from(&*profile.group)),
        ("capabilities".to_owned(), Value::from(capabilities)),
        ("metadata".to_owned(), Value::from(profile.metadata.clone())),
    ])
}

/// Notes a business fact in the store's own log.
pub(crate) fn note(tx: &mut Tx<'_>, network: &Network, kind: &str, data: Value) -> Result<(), Refusal> {
    let mut data = data;
    if let Some(object) = data.as_object_mut() {
        object.insert("network".to_owned(), network.0.key.network.as_str().into());
    }
    tx.append_event(&network.0.facts, None, None, EventDraft::business(kind, data))?;
    Ok(())
}

fn write_agent(
    tx: &mut Tx<'_>,
    key: &Key,
    id: &AgentId,
    profile: &Profile,
    joined: Option<i64>,
    now: TimeMs,
) -> Result<(), Refusal> {
    let capabilities = json!(profile.capabilities);
    let (secret, generation) = (hex::encode(profile.secret), profile.generation);
    let metadata = Value::Object(profile.metadata.clone());
    if let Some(joined) = joined {
        tx.execute(
            "INSERT INTO network_agents (tenant_id, network_id, agent_id, v, agent_group, secret_digest, generation,
                 metadata, capabilities, via, joined_at, joined_seq, last_seen, cursor_seq)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?11, ?12)",
            &values![
                &key.tenant,
                &key.network,
                id.as_str(),
                V,
                &*profile.group,
                secret,
                generation,
                &metadata,
                &capabilities,
                profile.via.as_str(),
                now,
                joined
            ],
        )?;
        return Ok(());
    }
    tx.execute(
        "UPDATE network_agents SET agent_group = ?4, secret_digest = ?5, generation = ?6, metadata = ?7,
             capabilities = ?8, via = ?9, last_seen = ?10
         WHERE tenant_id = ?1 AND network_id = ?2 AND agent_id = ?3",
        &values![
            &key.tenant,
            &key.network,
            id.as_str(),
            &*profile.group,
            secret,
            generation,
            &metadata,
            &capabilities,
            profile.via.as_str(),
            now
        ],
    )?;
    Ok(())
}

fn forget_agent(tx: &mut Tx<'_>, key: &Key, id: &AgentId) -> Result<(), Refusal> {
    for table in ["network_agents", "network_members", "network_subscriptions"] {
        tx.execute(
            &format!("DELETE FROM {table} WHERE tenant_id = ?1 AND network_id = ?2 AND agent_id = ?3"),
            &values![&key.tenant, &key.network, id.as_str()],
        )?;
    }
    Ok(())
}
