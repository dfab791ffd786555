//! The way of an event: admitted, prepared by mods, applied by them in one transaction with its row, answered.
//!
//! Invariants: of one id from one sender there is one event and one answer, whatever is repeated; what a mod refuses
//! leaves nothing behind; what was answered with success is on the disk.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use longhaul_store::Tx;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use crate::{
    Address, AgentId, Backstage, Draft, Event, Member, Network, Outcome, Prepared, Refusal, RefusalKind, Reply, Sender,
    Stage, Visibility,
    admission::unauthenticated,
    digest,
    event::ID_CHARS_MAX,
    log::{self, COMMAND_BYTES_MAX, SYSTEM, route},
    mods::Emitted,
    network::{Batch, NewRow},
    registry::{Agent, Change},
};

/// How long a response of an external mod is waited for.
const RESPONSE: Duration = Duration::from_secs(25);
/// Events behind a question among which a response is looked for that came while nobody waited.
const LOOKED_THROUGH: usize = 1_000;
/// Receivers that a restricted event may name.
const ALLOWED_MAX: usize = 1_000;

/// What the transaction of an event comes to.
struct Done {
    reply: Reply,
    /// The row that keeps the reply.
    seq: i64,
}

/// An event on its way, with what it needs on each stage of it.
struct Travel {
    event: Event,
    fingerprint: String,
    /// Positions of the mods that see it, each with what it prepared.
    mods: Vec<(usize, Prepared)>,
    /// It was meant for one mod of this process.
    for_mod: bool,
    /// Of the sender, where it is an agent.
    agent: Option<Arc<Agent>>,
}

impl Network {
    /// Sends what a member says. Answered once it is on the disk.
    ///
    /// # Errors
    /// What could not be admitted: wrong secret, too large, too often, not allowed, a receiver that does not exist.
    pub async fn send(&self, member: &Member, draft: Draft) -> Result<Reply, Refusal> {
        let agent = self.standing_of(member)?;
        let now = self.now();
        agent.seen(now);
        agent.sent.fetch_add(1, Ordering::Relaxed);
        let settings = &self.0.settings;
        let taken = agent.standing().bucket.take(settings.events_per_second, settings.events_burst, now);
        taken.map_err(|ms| Refusal {
            kind: RefusalKind::TooMany,
            message: format!("{} events a second, no more: wait {ms} ms", settings.events_per_second),
            retry_after_ms: Some(ms),
        })?;
        self.check_draft(&draft)?;
        if draft.name.as_str().starts_with("system.") {
            return crate::system::answer(self, member, draft).await;
        }
        if self.is_reserved(&draft) && !self.may(&member.agent, "mod") {
            return Err(Refusal::forbidden(format!("{} is said by mods only: send what they answer to", draft.name)));
        }
        let waits = draft.requires_response.then(|| self.external(&draft.to)).flatten();
        if let Some(name) = waits {
            return self.ask(agent, draft, &name).await;
        }
        self.travel(Sender::Agent(agent.id.clone()), Some(agent), draft).await.map(|done| done.reply)
    }

    /// Emits an event as a mod or as the network itself. Mods do not see it, but for the one that it is addressed to.
    ///
    /// # Errors
    /// Those of [`Self::send`].
    pub async fn emit(&self, from: Sender, draft: Draft) -> Result<Reply, Refusal> {
        self.check_draft(&draft)?;
        let agent = match &from {
            Sender::Agent(agent) => Some(self.0.registry.agent(agent).ok_or_else(unauthenticated)?),
            Sender::Mod(_) | Sender::Network => None,
        };
        self.travel(from, agent, draft).await.map(|done| done.reply)
    }

    fn check_draft(&self, draft: &Draft) -> Result<(), Refusal> {
        let most = self.0.settings.message_bytes_max;
        if draft.id.is_empty() || is_long(&draft.id) || draft.id.chars().any(char::is_control) {
            return Err(Refusal::invalid(format!(
                "an event needs an id of 1 to {ID_CHARS_MAX} characters, which is what makes a repetition harmless"
            )));
        }
        let texts = [&draft.relevant_mod, &draft.response_to, &draft.thread_name];
        if texts.into_iter().flatten().any(|text| is_long(text)) {
            return Err(Refusal::invalid(format!(
                "relevant_mod, response_to and thread_name are at most {ID_CHARS_MAX} characters each"
            )));
        }
        if draft.allowed_agents.as_ref().is_some_and(|some| some.len() > ALLOWED_MAX) {
            return Err(Refusal::invalid(format!("allowed_agents names at most {ALLOWED_MAX} agents: use a channel")));
        }
        let bytes =
            printed_bytes(&draft.payload) + printed_bytes(&draft.metadata) + draft.text.as_ref().map_or(0, String::len);
        if bytes > most {
            return Err(Refusal::new(
                RefusalKind::TooLarge,
                format!("this event is {bytes} bytes, at most {most} are taken: send a file or an artifact in parts"),
            ));
        }
        Ok(())
    }

    /// A name that only mods say: otherwise anybody could say what another one is said to have posted.
    fn is_reserved(&self, draft: &Draft) -> bool {
        let name = draft.name.as_str();
        let said = |manifest: &crate::Manifest| manifest.emits.iter().any(|(emitted, _)| emitted == name);
        let taken = |manifest: &crate::Manifest| manifest.answers.iter().any(|one| one.pattern.matches(&draft.name));
        self.manifests().any(said) && !self.manifests().any(taken)
    }

    /// The external mod that an address means.
    fn external(&self, to: &Address) -> Option<Arc<str>> {
        let known = self.0.registry.read();
        match to {
            Address::Mod(name) => {
                let serving = known.agents.values().filter_map(|agent| agent.profile().serves.clone());
                serving.into_iter().find(|serves| **serves == **name)
            }
            Address::Agent(agent) => {
                drop(known);
                self.serves(agent)
            }
            Address::Channel(_) | Address::Group(_) | Address::Everybody | Address::System => None,
        }
    }

    /// The external mod that an agent is.
    fn serves(&self, agent: &AgentId) -> Option<Arc<str>> {
        self.0.registry.agent(agent)?.profile().serves.clone()
    }

    /// Sends, and waits for the event that responds.
    async fn ask(&self, agent: Arc<Agent>, draft: Draft, name: &str) -> Result<Reply, Refusal> {
        let from = Sender::Agent(agent.id.clone());
        let (asker, id) = (agent.id.clone(), draft.id.clone());
        let mut response = self.0.responses.wait(&id, &asker, name);
        let outcome = self.travel(from, Some(agent), draft).await;
        let repeated = outcome.as_ref().is_ok_and(|done| done.reply.repeated && done.reply.data.is_some());
        let response = match &outcome {
            Ok(done) if !repeated => {
                let before =
                    if done.reply.repeated { self.responded(&asker, done.seq, &id, name).await? } else { None };
                match before {
                    Some(response) => Some(response),
                    None => timeout(RESPONSE, response.come()).await.ok().flatten(),
                }
            }
            _ => None,
        };
        let done = outcome?;
        let Some(response) = response else {
            return if repeated {
                Ok(done.reply)
            } else {
                Err(Refusal::new(
                    RefusalKind::TimedOut,
                    format!(
                        "{name:?} has the event and has not answered yet: send it again with the same id to wait on"
                    ),
                ))
            };
        };
        let success = response.payload.get("success").and_then(Value::as_bool).unwrap_or(true);
        let message = response.payload.get("message").and_then(Value::as_str).unwrap_or("answered").to_owned();
        let data = response.payload.get("data").cloned().unwrap_or_else(|| Value::Object(response.payload.clone()));
        let reply = Reply { success, message, data: Some(data), repeated: false };
        let (key, kept) = (self.0.key.clone(), reply.clone());
        self.0.store.write(move |tx| log::answer_anew(tx, &key, done.seq, &kept)).await?;
        Ok(reply)
    }

    /// What the mod has said to the asker's event `id` of the number `seq` while nobody waited for it.
    async fn responded(&self, asker: &AgentId, seq: i64, id: &str, name: &str) -> Result<Option<Arc<Event>>, Refusal> {
        let (key, until) = (self.0.key.clone(), self.0.pump.head());
        let route = route(&Address::Agent(asker.clone()));
        let reading = self.0.store.read(move |read| log::of_route(read, &key, &route, seq, until, LOOKED_THROUGH));
        let is_meant = |event: &Arc<Event>| {
            event.response_to.as_deref() == Some(id)
                && matches!(&event.from, Sender::Agent(from) if self.serves(from).as_deref() == Some(name))
        };
        Ok(reading.await?.into_iter().map(|entry| entry.event).find(is_meant))
    }

    async fn travel(&self, from: Sender, agent: Option<Arc<Agent>>, draft: Draft) -> Result<Done, Refusal> {
        let fingerprint = digest::of_draft(&draft);
        let (chosen, for_mod) = self.mods_for(&from, &draft)?;
        let event = self.event_of(from, agent.as_deref(), draft);
        let mut mods = Vec::with_capacity(chosen.len());
        for at in &chosen {
            let backstage = self.backstage(*at);
            mods.push((*at, self.0.mods[*at].prepare(&backstage, &event).await?));
        }
        let travel = Travel { event, fingerprint, mods, for_mod, agent };
        if !chosen.is_empty() && chosen.iter().all(|at| self.only_reads(*at, &travel.event)) {
            return self.read_only(travel).await;
        }
        self.commit(move |tx, network, first| network.arrive(tx, travel, first)).await
    }

    /// Which mods see it, and whether it was meant for one of this process.
    fn mods_for(&self, from: &Sender, draft: &Draft) -> Result<(Vec<usize>, bool), Refusal> {
        let loaded = &self.0.loaded;
        let answers = |at: &usize| loaded[*at].manifest.answers.iter().any(|one| one.pattern.matches(&draft.name));
        if let Address::Mod(name) = &draft.to {
            let is = |some: &crate::network::Loaded| {
                some.manifest.name == *name || some.manifest.aliases.iter().any(|alias| alias == name)
            };
            return match loaded.iter().position(is) {
                Some(at) if answers(&at) => Ok((vec![at], true)),
                Some(at) => Err(Refusal::new(
                    RefusalKind::Missing,
                    format!("the mod {:?} answers no {}: see its manifest", loaded[at].manifest.name, draft.name),
                )),
                None if self.external(&draft.to).is_some() => Ok((Vec::new(), false)),
                None => Err(Refusal::missing("mod", name)),
            };
        }
        match from {
            Sender::Agent(_) => Ok(((0..loaded.len()).filter(answers).collect(), false)),
            Sender::Mod(_) | Sender::Network => Ok((Vec::new(), false)),
        }
    }

    pub(crate) fn backstage(&self, at: usize) -> Backstage {
        let loaded = &self.0.loaded[at];
        Backstage { network: self.clone(), name: loaded.name.clone(), config: loaded.config.clone() }
    }

    fn only_reads(&self, at: usize, event: &Event) -> bool {
        let mut said = self.0.loaded[at].manifest.answers.iter().filter(|one| one.pattern.matches(&event.name));
        said.next().is_some_and(|first| first.reads_only) && said.all(|one| one.reads_only)
    }

    fn event_of(&self, from: Sender, agent: Option<&Agent>, draft: Draft) -> Event {
        Event {
            seq: 0,
            origin_id: Some(draft.id.clone()),
            id: draft.id,
            name: draft.name,
            from_group: agent.map(|agent| agent.profile().group.to_string()),
            from,
            to: draft.to,
            at: self.now(),
            payload: draft.payload,
            metadata: draft.metadata,
            visibility: draft.visibility,
            allowed_agents: draft.allowed_agents,
            relevant_mod: draft.relevant_mod,
            requires_response: draft.requires_response,
            response_to: draft.response_to,
            thread_name: draft.thread_name,
            text: draft.text,
        }
    }

    /// What changes nothing: a snapshot, and no row.
    async fn read_only(&self, travel: Travel) -> Result<Done, Refusal> {
        let network = self.clone();
        let reading = self.0.store.read(move |read| {
            let mut tx = read.refusing_writes();
            let (outcome, _) = network.apply(&mut tx, &travel.event, travel.mods, network.0.pump.head() + 1)?;
            match outcome {
                Outcome::Answer(reply) | Outcome::Deliver(reply) => Ok::<_, Refusal>(Done { reply, seq: 0 }),
                Outcome::Pass => Err(unanswered(&travel.event)),
            }
        });
        reading.await
    }

    /// Lets the mods have it, in their order, until one answers.
    fn apply<'tx>(
        &self,
        tx: &mut Tx<'tx>,
        event: &Event,
        mods: Vec<(usize, Prepared)>,
        first: i64,
    ) -> Result<(Outcome, Made), Refusal> {
        let mut made = Made::default();
        for (at, prepared) in mods {
            let loaded = &self.0.loaded[at];
            let mut stage = Stage {
                tx: &mut *tx,
                network: self,
                name: &loaded.name,
                config: &loaded.config,
                now: event.at,
                first,
                event,
                made: &mut made,
            };
            match self.0.mods[at].apply(&mut stage, event, prepared)? {
                Outcome::Pass => {}
                outcome @ (Outcome::Answer(_) | Outcome::Deliver(_)) => return Ok((outcome, made)),
            }
        }
        Ok((Outcome::Pass, made))
    }

    /// The event within its transaction.
    fn arrive(&self, tx: &mut Tx<'_>, travel: Travel, first: i64) -> Result<(Done, Batch), Refusal> {
        let Travel { event, fingerprint, mods, for_mod, agent } = travel;
        if let Some(before) = log::answered(tx, &self.0.key, &event.from, &event.id)? {
            if before.fingerprint != fingerprint {
                return Err(Refusal::conflict(format!(
                    "the id {:?} stands for another event of yours: give each event an id of its own",
                    event.id
                )));
            }
            return Ok((Done { reply: before.reply, seq: before.seq }, Batch::default()));
        }
        let (outcome, made) = self.apply(tx, &event, mods, first)?;
        let (reply, deliver) = match outcome {
            Outcome::Answer(reply) => (reply, false),
            Outcome::Deliver(reply) => (reply, true),
            Outcome::Pass if for_mod => return Err(unanswered(&event)),
            Outcome::Pass => (self.delivered(&event), true),
        };
        let mut batch = Batch { rows: Vec::with_capacity(made.emitted.len() + 1), changes: made.changes };
        let published = made.emitted.iter().any(|emitted| emitted.is_origin);
        if deliver && !published {
            self.check_receiver(&event, agent.as_deref(), &batch.changes)?;
        }
        if !published {
            let route = if deliver { route(&event.to) } else { SYSTEM.to_owned() };
            let kept = if deliver { event.clone() } else { command(event.clone()) };
            batch.rows.push(NewRow { event: kept, route: route.into(), answer: None });
        }
        let mut answering = 0;
        for emitted in made.emitted {
            if emitted.is_origin {
                answering = batch.rows.len();
            }
            let row = emitted_event(&event, emitted);
            batch.rows.push(NewRow { route: route(&row.to).into(), event: row, answer: None });
        }
        let seq = first + i64::try_from(answering).unwrap_or(0);
        if let Some(row) = batch.rows.get_mut(answering) {
            row.answer = Some((fingerprint, reply.clone()));
        }
        Ok((Done { reply, seq }, batch))
    }

    fn delivered(&self, event: &Event) -> Reply {
        let message = match &event.to {
            Address::Agent(agent) if !self.agent(agent).is_some_and(|agent| agent.present) => {
                format!("{agent} is not here: it has this when it comes back")
            }
            Address::System => "noted".to_owned(),
            Address::Agent(_) | Address::Channel(_) | Address::Group(_) | Address::Mod(_) | Address::Everybody => {
                "delivered".to_owned()
            }
        };
        Reply::done(message, None)
    }

    /// Whether what no mod answered can be delivered as it is.
    fn check_receiver(&self, event: &Event, agent: Option<&Agent>, changes: &[Change]) -> Result<(), Refusal> {
        self.check_address(&event.to, changes)?;
        match (&event.to, agent) {
            (Address::Channel(channel), Some(agent)) if !agent.standing().channels.contains_key(channel.as_str()) => {
                Err(Refusal::forbidden(format!("{} is no member of {channel:?}: join the channel first", agent.id)))
            }
            // What the network itself does not know and no mod answers has no receiver.
            (Address::System, Some(_)) => Err(unanswered(event)),
            _ => Ok(()),
        }
    }

    /// Whether there is such a receiver, and whether there is room in its queue. `changes` are those of the same
    /// transaction.
    pub(crate) fn check_address(&self, to: &Address, changes: &[Change]) -> Result<(), Refusal> {
        let known = self.0.registry.read();
        match to {
            Address::Agent(id) => {
                let agent = known.agents.get(id).ok_or_else(|| Refusal::missing("agent", id.as_str()))?;
                if agent.standing().queue.len() >= self.0.settings.queue_max {
                    return Err(Refusal {
                        kind: RefusalKind::TooMany,
                        message: format!(
                            "{id} has {} events that it has not taken: try again later",
                            self.0.settings.queue_max
                        ),
                        retry_after_ms: Some(1_000),
                    });
                }
                Ok(())
            }
            Address::Channel(name) => {
                let opened = |change: &Change| matches!(change, Change::Channel { channel, .. } if channel == name);
                let there = known.channels.contains_key(name) || changes.iter().any(opened);
                if there { Ok(()) } else { Err(Refusal::missing("channel", name)) }
            }
            Address::Group(name) => {
                let there = self.0.settings.groups.contains_key(name);
                if there { Ok(()) } else { Err(Refusal::missing("group", name)) }
            }
            Address::Mod(_) | Address::Everybody | Address::System => Ok(()),
        }
    }
}

/// Longer than an id may be, in characters, as the API's description counts.
fn is_long(id: &str) -> bool {
    id.chars().nth(ID_CHARS_MAX).is_some()
}

/// What mods made of an event.
#[derive(Debug, Default)]
pub(crate) struct Made {
    pub(crate) emitted: Vec<Emitted>,
    pub(crate) changes: Vec<Change>,
}

fn unanswered(event: &Event) -> Refusal {
    Refusal::new(
        RefusalKind::Missing,
        format!("no mod of this network answers {}, and it names no receiver: list the mods, or name one", event.name),
    )
}

/// A command, as it is kept for whoever looks: without a payload that nobody will receive and that is large.
fn command(mut event: Event) -> Event {
    let bytes = printed_bytes(&event.payload);
    if bytes > COMMAND_BYTES_MAX {
        event.payload = Map::from_iter([("omitted_bytes".to_owned(), json!(bytes))]);
    }
    event
}

fn emitted_event(event: &Event, emitted: Emitted) -> Event {
    let is_origin = emitted.is_origin;
    let own = |some: &Option<String>| if is_origin { some.clone() } else { None };
    Event {
        seq: 0,
        id: emitted.id,
        origin_id: event.origin_id.clone(),
        name: emitted.name,
        from_group: (emitted.from == event.from).then(|| event.from_group.clone()).flatten(),
        from: emitted.from,
        to: emitted.to,
        at: event.at,
        payload: emitted.payload,
        metadata: if is_origin { event.metadata.clone() } else { Map::new() },
        visibility: if emitted.allowed_agents.is_some() {
            Visibility::Restricted
        // What was for a mod alone, as the SDK's adapters say of their requests, is for others once the mod tells it.
        } else if is_origin && event.visibility != Visibility::ModOnly {
            event.visibility
        } else {
            Visibility::default()
        },
        allowed_agents: emitted.allowed_agents.or_else(|| is_origin.then(|| event.allowed_agents.clone()).flatten()),
        relevant_mod: own(&event.relevant_mod),
        requires_response: false,
        response_to: emitted.response_to.or_else(|| own(&event.response_to)),
        thread_name: own(&event.thread_name),
        text: own(&event.text),
    }
}

/// How long an object is when it is printed, without printing it.
pub(crate) fn printed_bytes(object: &Map<String, Value>) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    if object.is_empty() {
        return 0;
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, object).map_or(usize::MAX / 4, |()| count.0)
}

/// Names without repetition, in their order.
pub(crate) fn distinct<T: Ord + Clone>(some: &[T]) -> Vec<T> {
    let mut seen = BTreeSet::new();
    some.iter().filter(|one| seen.insert((*one).clone())).cloned().collect()
}
