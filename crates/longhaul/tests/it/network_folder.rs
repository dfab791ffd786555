//! A network from its folder: made, served, operated, ended.

use std::time::Duration;

use longhaul::{
    Network,
    network::{
        NetworkError, Operating, Registration, Served, StartOptions, Via, init,
        mods::agents::{HttpLink, Joining, Link},
    },
};

fn anywhere() -> StartOptions {
    StartOptions { any_ports: true, ..StartOptions::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_becomes_a_network_that_agents_join_and_its_operator_governs() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("research");
    let made = init(&dir, Some("Research group")).expect("made");
    assert_eq!(made.id, "research-group");
    assert!(matches!(init(&dir, None), Err(NetworkError::Exists { .. })));
    assert!(matches!(Operating::of(&dir).await, Err(NetworkError::NotServed { .. })));
    let text = std::fs::read_to_string(&made.file).expect("the file");
    assert!(!text.contains(&made.password));

    let network = Network::start_with(&dir, anywhere()).await.expect("served");
    assert_eq!(network.notices(), Vec::<String>::new());
    let url = network.url().expect("HTTP");
    let joining = |name: &str| Joining {
        url: url.clone(),
        registration: Registration::new(name.parse().expect("a name"), Via::Http),
        state: None,
    };
    let ann = HttpLink::join(joining("ann")).await.expect("in");
    let bob = HttpLink::join(joining("bob")).await.expect("in");
    let draft = longhaul::network::Draft::new(
        "1",
        "agent.message".parse().expect("a name"),
        longhaul::network::Address::Agent("bob".parse().expect("a name")),
        serde_json::Map::from_iter([("text".to_owned(), "hello".into())]),
    );
    assert!(ann.send(draft).await.expect("sent").success);
    let events = bob.receive(10, Duration::from_secs(5)).await.expect("received");
    assert_eq!(events[0].payload["text"], "hello");

    let operating = Operating::of(&dir).await.expect("the operator");
    let status = operating.status().await.expect("told");
    assert_eq!(status["agent_count"], 2, "{status}");
    let (log, _) = operating.events(None, 10, Duration::ZERO).await.expect("told");
    assert!(log.iter().any(|event| event["event_id"] == "1"), "{log:?}");
    operating.kick("bob", "the test says so").await.expect("sent away");
    assert!(bob.receive(1, Duration::ZERO).await.is_err());
    let credential = operating.invite(None).await.expect("an invitation");
    assert!(credential.starts_with("invitation_"));
    operating.leave().await;

    let note = dir.join(".longhaul/serving.json");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&note).expect("the note").permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(Served::of(&dir).expect("the note").url, url);
    network.stop().await;
    assert!(matches!(Served::of(&dir), Err(NetworkError::NotServed { .. })));

    // Ann goes on with the network's next process.
    let secret = ann.secret().to_owned();
    let network = Network::start_with(&dir, anywhere()).await.expect("served again");
    network.engine().authenticate(&"ann".parse().expect("a name"), &secret).expect("her secret is good");
    network.stop().await;
}

#[tokio::test]
async fn what_makes_no_sense_is_said_with_the_way_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let none = Network::start(folder.path()).await.expect_err("no file");
    assert!(none.to_string().contains("longhaul network init"), "{none}");
    std::fs::write(folder.path().join("network.yaml"), "network: {mods: [{enabled: true}]}").expect("written");
    let wrong = Network::start(folder.path()).await.expect_err("no name");
    assert!(wrong.to_string().contains("network.mods[0].name"), "{wrong}");
    std::fs::write(
        folder.path().join("network.yaml"),
        "network: {name: x, colour: blue, mods: [{name: unheard.of}], transports: [{type: http, config: {host: 0.0.0.0}}]}",
    )
    .expect("written");
    let network = Network::start_with(folder.path(), anywhere()).await.expect("served");
    let said = network.notices().join("\n");
    assert!(said.contains("network.colour") && said.contains("unheard.of"), "{said}");
    network.stop().await;
}
