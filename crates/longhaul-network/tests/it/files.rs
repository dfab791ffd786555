//! What `network.yaml` says, in both its forms, and what is said about it.

use std::time::Duration;

use longhaul_network::{
    RefusalKind,
    settings::{NetworkSettings, Read},
};

use crate::ground::{Ground, guest};

const DOCUMENTED: &str = r#"
network:
  name: BenchNet
  mode: centralized
  node_id: bench-net-1
  initialized: true
  transports:
    - {type: http, config: {host: 0.0.0.0, port: 8700, serve_mcp: true}}
    - {type: grpc, config: {port: 8600, max_message_size: 104857600}}
  manifest_transport: http
  recommended_transport: grpc
  encryption_enabled: true
  disable_agent_secret_verification: true
  heartbeat_interval: 30
  max_connections: 100
  agent_timeout: 180
  message_queue_size: 1000
  default_agent_group: guest
  requires_password: false
  colour: blue
  agent_groups:
    admin:
      password_hash: 8c6976e5b5410415bde908bd4dee15dfb167a9c873fc4bb8a81f6f2ab448a918
      description: Administrators
      metadata: {permissions: [all], agents: [boss]}
    guest: {description: Guests}
    writers:
      password_hash: 41ef4bb0b23661e66301aac36066912dac037827b4ae63a7b1165a5aa93ed4eb
      metadata: {permissions: [channels]}
  mods:
    - name: openagents.mods.workspace.messaging
      enabled: true
      config: {default_channels: [{name: general, description: talk}, {name: ideas}]}
    - {name: openagents.mods.workspace.wiki, enabled: false}
    - openagents.mods.workspace.forum
network_profile: {discoverable: true, name: Bench, readme: "hi there", management_token: "env:TOKEN"}
external_access: {default_agent_group: guest, auth_token_env: MCP_TOKEN}
log_level: INFO
telemetry: on
"#;

#[test]
fn the_documented_schema_is_read_and_everything_changed_is_said() {
    let Read { settings, notices } = NetworkSettings::read(DOCUMENTED).expect("the file is read");
    assert_eq!((settings.id.as_str(), settings.name.as_str()), ("bench-net-1", "BenchNet"));
    assert_eq!((settings.agents_max, settings.queue_max, settings.lease), (100, 1000, Duration::from_secs(180)));
    assert_eq!(settings.transports.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>(), ["http", "grpc"]);
    let mods: Vec<_> = settings.mods.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(mods, ["openagents.mods.workspace.messaging", "openagents.mods.workspace.forum"]);
    assert!(settings.may("writers", "channels") && !settings.may("writers", "kick") && settings.may("admin", "kick"));
    assert_eq!(settings.groups["writers"].credential.as_deref(), Some(crate::ground::SESAME));
    assert_eq!(settings.profile["readme"], "hi there");
    assert!(!settings.profile.contains_key("management_token"));
    assert_eq!(settings.rest["recommended_transport"], "grpc");
    let said = notices.join("\n");
    for part in [
        "telemetry: nothing reads",
        "network.colour: nothing reads",
        "network: encryption_enabled, heartbeat_interval change nothing",
        "disable_agent_secret_verification: secrets are always verified",
        "network.agent_groups.admin.password_hash: this is the hash of a password that everybody knows",
        "network.agent_groups.admin.metadata.agents",
    ] {
        assert!(said.contains(part), "{part:?} is not said in:\n{said}");
    }
    assert_eq!(notices.len(), 6, "{said}");
}

#[tokio::test]
async fn a_hash_that_everybody_knows_opens_nothing() {
    let ground = Ground::new();
    let settings = NetworkSettings::read(DOCUMENTED).expect("the file is read").settings;
    let network = ground.open(settings, Vec::new()).await;
    let mut boss = guest("boss");
    boss.group = Some("admin".to_owned());
    boss.credential = "8c6976e5b5410415bde908bd4dee15dfb167a9c873fc4bb8a81f6f2ab448a918".to_owned();
    assert_eq!(network.register(boss).await.expect_err("refused").kind, RefusalKind::Forbidden);
    let channels: Vec<_> =
        network.channels().into_iter().map(|channel| (channel.channel, channel.description)).collect();
    assert_eq!(channels, [("general".to_owned(), "talk".to_owned()), ("ideas".to_owned(), String::new())]);
}

#[test]
fn the_older_form_is_read_too() {
    let text = r#"
network:
  name: "Multi-Agent Collaboration Demo"
  transports:
    - type: "http"
      config: {port: 8700, host: "localhost"}
  mods:
    - name: "openagents.mods.workspace.messaging"
      config:
        channels: [{name: "general"}, {name: "coordination"}, {name: "python_channel"}]
  agents:
    coordinator: {type: "coordinator", description: "dispatches", channels: ["general", "coordination"]}
    python_expert: {type: "expert", domain: "python", channels: ["snakes"]}
"#;
    let Read { settings, notices } = NetworkSettings::read(text).expect("the file is read");
    assert_eq!(notices, Vec::<String>::new());
    assert_eq!(settings.id, "multi-agent-collaboration-demo");
    assert_eq!(settings.rest["agents"]["python_expert"]["domain"], "python");
    let channels: Vec<_> = settings.channels.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(channels, ["coordination", "general", "snakes"]);
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    for (text, place) in [
        ("[1, 2]", "network.yaml: a mapping"),
        ("a: [", "network.yaml cannot be read"),
        ("name: x", "no key \"network\""),
        ("network: {transports: [{config: {}}]}", "network.transports[0].type"),
        ("network: {mods: [{enabled: true}]}", "network.mods[0].name"),
        ("network: {max_connections: -1}", "network.max_connections"),
        ("network: {agent_timeout: soon}", "network.agent_timeout"),
        ("network: {default_agent_group: kings}", "network.default_agent_group"),
        ("network: {transports: [{type: http}, {type: http}]}", "network.transports[1]"),
    ] {
        let refusal = NetworkSettings::read(text).expect_err(text);
        assert!(refusal.kind == RefusalKind::Invalid && refusal.message.contains(place), "{text}: {refusal}");
    }
}

#[test]
fn whoever_comes_by_has_no_permissions() {
    let text = "network: {default_agent_group: all, agent_groups: {all: {metadata: {permissions: [admin]}}}}";
    let Read { settings, notices } = NetworkSettings::read(text).expect("the file is read");
    assert!(!settings.may("all", "kick"));
    assert!(notices[0].contains("its permissions are taken away"), "{notices:?}");
}

#[tokio::test]
async fn a_derived_hash_lets_in_whoever_knows_the_password() {
    let (kept, shown) = longhaul_network::of_password("a long one", &longhaul_core::Ambient::system());
    assert!(!kept.contains(&shown));
    let mut settings = crate::ground::settings();
    settings.groups.get_mut("admin").expect("the group").credential = Some(kept.clone());
    let ground = Ground::new();
    let network = ground.open(settings, Vec::new()).await;
    for (credential, comes_in) in [(kept, false), (shown, true)] {
        let registration =
            longhaul_network::Registration { credential, group: Some("admin".to_owned()), ..guest("boss") };
        assert_eq!(network.register(registration).await.is_ok(), comes_in);
    }
}
