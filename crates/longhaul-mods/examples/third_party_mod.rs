//! A mod of one's own, in one file: polls. It has rows, events, a notice, and a tool for models.
//!
//! `cargo run -p longhaul-mods --example third_party_mod` opens a network whose `network.yaml` loads it beside messaging,
//! and lets three agents take part in a poll. To make a mod of it, copy everything above `main`.

use std::{sync::Arc, time::Duration};

use longhaul_core::{Ambient, Scope};
use longhaul_mods::{Parts, builtin, shape::Fields, shape::schema};
use longhaul_network::{
    Address, AgentId, Draft, Event, Manifest, Member, Mod, ModEvent, ModTool, Network, Outcome, Pattern, Prepared,
    Refusal, Registration, Reply, Sender, Stage, Via, settings::NetworkSettings,
};
use longhaul_store::{Migrations, Store, StoreSettings, values};
use serde_json::{Map, Value, json};

/// The mod's tables. Tenant and network come first: one store serves many of both.
const MIGRATIONS: Migrations = Migrations {
    component: "example-polls",
    steps: &["
CREATE TABLE polls (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    poll_id TEXT NOT NULL,
    question TEXT NOT NULL,
    channel TEXT NOT NULL,
    PRIMARY KEY (tenant_id, network_id, poll_id)
) STRICT;
CREATE TABLE poll_votes (
    tenant_id TEXT NOT NULL,
    network_id TEXT NOT NULL,
    poll_id TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    choice TEXT NOT NULL,
    PRIMARY KEY (tenant_id, network_id, poll_id, agent_id)
) STRICT;
"],
};

/// The network loads it under this name.
const NETWORK_YAML: &str = "
network:
  name: Polls
  node_id: polls
  mods:
    - name: messaging
      config: {default_channels: [{name: general}]}
    - name: example.mods.polls
";

#[derive(Debug)]
struct Polls;

#[async_trait::async_trait]
impl Mod for Polls {
    fn manifest(&self) -> Manifest {
        let event = |name: &str, about: &str, payload: Value, reads_only: bool| ModEvent {
            pattern: Pattern::new(name),
            description: about.to_owned(),
            payload,
            reads_only,
            tool: Some(ModTool { name: name.replace('.', "_"), destination: None }),
        };
        let poll = ("poll_id", "string", "The poll.");
        Manifest {
            name: "example.mods.polls".to_owned(),
            version: "1".to_owned(),
            description: "Questions to a channel, one vote an agent.".to_owned(),
            answers: vec![
                event(
                    "poll.create",
                    "Asks a channel.",
                    schema(&[("question", "string", "What is asked."), ("channel", "string", "Where.")], &["question"]),
                    false,
                ),
                event(
                    "poll.vote",
                    "Votes; the last vote of an agent counts.",
                    schema(&[poll, ("choice", "string", "The vote.")], &["poll_id", "choice"]),
                    false,
                ),
                event("poll.result", "How it stands.", schema(&[poll], &["poll_id"]), true),
            ],
            emits: vec![("poll.created".to_owned(), "To the channel: `poll_id`, `question`.".to_owned())],
            ..Manifest::default()
        }
    }

    /// All of it is one transaction with the event's own row; a refusal undoes it.
    fn apply(&self, stage: &mut Stage<'_, '_>, event: &Event, _: Prepared) -> Result<Outcome, Refusal> {
        let Sender::Agent(asker) = &event.from else { return Ok(Outcome::Pass) };
        let reply = match event.name.as_str() {
            "poll.create" => create(stage, event)?,
            "poll.vote" => vote(stage, event, asker)?,
            "poll.result" => result(stage, event)?,
            _ => return Ok(Outcome::Pass),
        };
        Ok(Outcome::Answer(reply))
    }
}

/// Tenant and network, as the rows have them.
fn place(stage: &Stage<'_, '_>) -> (String, String) {
    let (scope, network) = stage.place();
    (scope.tenant.to_string(), network.to_owned())
}

fn create(stage: &mut Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
    let fields = Fields::of(event);
    let question = fields.text("question", 1_000)?;
    let channel = fields.channel()?.unwrap_or_else(|| "general".to_owned());
    let ((tenant, network), id) = (place(stage), stage.new_id());
    stage.tx().execute(
        "INSERT INTO polls (tenant_id, network_id, poll_id, question, channel) VALUES (?1, ?2, ?3, ?4, ?5)",
        &values![tenant, network, &id, question, &channel],
    )?;
    let about = json!({"poll_id": id, "question": question});
    let payload: Map<String, Value> = about.as_object().cloned().unwrap_or_default();
    stage.publish("poll.created", Address::Channel(channel), payload)?;
    Ok(Reply::done("the channel was asked", Some(about)))
}

fn vote(stage: &mut Stage<'_, '_>, event: &Event, asker: &AgentId) -> Result<Reply, Refusal> {
    let fields = Fields::of(event);
    let (poll, choice) = (fields.text("poll_id", 200)?, fields.text("choice", 200)?);
    check_exists(stage, poll)?;
    let (tenant, network) = place(stage);
    stage.tx().execute(
        "INSERT INTO poll_votes (tenant_id, network_id, poll_id, agent_id, choice) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (tenant_id, network_id, poll_id, agent_id) DO UPDATE SET choice = excluded.choice",
        &values![tenant, network, poll, asker.as_str(), choice],
    )?;
    Ok(Reply::done("your vote counts", Some(json!({"poll_id": poll, "choice": choice}))))
}

fn result(stage: &Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
    let poll = Fields::of(event).text("poll_id", 200)?;
    check_exists(stage, poll)?;
    let (tenant, network) = place(stage);
    let mut votes = Map::new();
    stage.rows().for_each(
        "SELECT choice, COUNT(*) FROM poll_votes WHERE tenant_id = ?1 AND network_id = ?2 AND poll_id = ?3
         GROUP BY choice ORDER BY choice",
        &values![tenant, network, poll],
        |row| {
            votes.insert(row.get(0)?, json!(row.get::<i64>(1)?));
            Ok(true)
        },
    )?;
    Ok(Reply::done("counted", Some(json!({"poll_id": poll, "votes": votes}))))
}

fn check_exists(stage: &Stage<'_, '_>, poll: &str) -> Result<(), Refusal> {
    let (tenant, network) = place(stage);
    let found = stage.rows().query_optional(
        "SELECT question FROM polls WHERE tenant_id = ?1 AND network_id = ?2 AND poll_id = ?3",
        &values![tenant, network, poll],
        |row| row.get::<String>(0),
    )?;
    found.map(drop).ok_or_else(|| Refusal::missing("poll", poll))
}

/// Sends an event and gives the answer's data.
async fn ask(network: &Network, from: &Member, id: &str, name: &str, payload: Value) -> anyhow::Result<Value> {
    let payload = payload.as_object().cloned().unwrap_or_default();
    let reply = network.send(from, Draft::new(id, name.parse()?, Address::System, payload)).await?;
    anyhow::ensure!(reply.success, "{name}: {}", reply.message);
    Ok(reply.data.unwrap_or_default())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let result = poll_in(folder.path()).await?;
    println!("{result}");
    Ok(())
}

/// Opens a network in this folder, and lets three agents take part in a poll. How it ended.
pub(crate) async fn poll_in(folder: &std::path::Path) -> anyhow::Result<Value> {
    let migrations = [
        longhaul_memory::MIGRATIONS,
        longhaul_workspace::MIGRATIONS,
        longhaul_network::MIGRATIONS,
        longhaul_mods::MIGRATIONS,
        MIGRATIONS,
    ];
    let store = Store::open(StoreSettings::new(folder), Ambient::system(), &migrations).await?;
    let settings = NetworkSettings::read(NETWORK_YAML)?.settings;
    let mut mods = builtin(&settings.mods, &Parts::new(store.clone()))?;
    mods.push(Arc::new(Polls));
    let network = Network::open(store, Scope::single_user(), settings, mods).await?;

    let mut members = Vec::new();
    for name in ["alice", "bob", "carol"] {
        members.push(network.register(Registration::new(name.parse()?, Via::InProcess)).await?.member);
    }
    let poll = ask(&network, &members[0], "ask-1", "poll.create", json!({"question": "tabs or spaces?"})).await?;
    let heard = network.poll(&members[1], 10, Duration::ZERO).await?.events;
    let asked = heard.iter().find(|event| event.name.as_str() == "poll.created");
    anyhow::ensure!(asked.is_some_and(|event| event.payload["poll_id"] == poll["poll_id"]), "nobody was asked");
    for (member, choice) in members.iter().zip(["spaces", "tabs", "spaces"]) {
        let vote = json!({"poll_id": poll["poll_id"], "choice": choice});
        // Under one id it is one vote, however often it is sent.
        for _ in 0..2 {
            ask(&network, member, "vote-1", "poll.vote", vote.clone()).await?;
        }
    }
    let result = ask(&network, &members[2], "count-1", "poll.result", json!({"poll_id": poll["poll_id"]})).await?;
    network.close().await;
    Ok(result["votes"].clone())
}
