//! Who comes in, as whom, and who does not.

use std::time::Duration;

use longhaul_network::{Network, RefusalKind, Registration};

use crate::ground::{Ground, SESAME, admin, draft, guest, id, join, named, poll, send, settings};

#[tokio::test]
async fn a_name_that_is_held_is_had_again_only_with_its_secret_or_its_groups_credential() {
    let ground = Ground::new();
    let network = ground.network().await;
    let first = join(&network, "ann").await;
    let refusal = network.register(guest("ann")).await.expect_err("held");
    assert_eq!(refusal.kind, RefusalKind::Conflict);
    let wrong = Registration { secret: Some("x".repeat(64)), ..guest("ann") };
    assert_eq!(network.register(wrong).await.expect_err("a wrong secret").kind, RefusalKind::Conflict);
    // An administrator's credential is not the credential of ann's group.
    assert_eq!(network.register(admin("ann")).await.expect_err("another group").kind, RefusalKind::Conflict);

    let back =
        network.register(Registration { secret: Some(first.secret.clone()), ..guest("ann") }).await.expect("back");
    assert_eq!(back.secret, first.secret);
    network.touch(&first.member).expect("its connections go on");

    let boss = network.register(admin("boss")).await.expect("an administrator");
    assert_eq!(boss.member.group(), "admin");
    assert_eq!(network.register(guest("boss")).await.expect_err("held").kind, RefusalKind::Conflict);
    let again = network.register(admin("boss")).await.expect("with the group's credential");
    assert_ne!(again.secret, boss.secret);
    assert_eq!(network.touch(&boss.member).expect_err("replaced").kind, RefusalKind::Unauthenticated);
    assert_eq!(
        network.authenticate(&id("boss"), &boss.secret).expect_err("replaced").kind,
        RefusalKind::Unauthenticated
    );
}

#[tokio::test]
async fn after_its_lease_a_name_is_free_for_its_group_and_never_in_a_strict_network() {
    for strict in [false, true] {
        let ground = Ground::new();
        let mut with = settings();
        with.strict = strict;
        let network = ground.open(with, Vec::new()).await;
        let (ann, boss) = (join(&network, "ann").await, network.register(admin("boss")).await.expect("in"));
        let bob = join(&network, "bob").await;
        send(&network, &bob.member, draft("1", "ann", "while she was away")).await.expect("sent");
        ground.clock.advance(Duration::from_secs(61));
        assert!(!network.agent(&id("ann")).expect("still registered").present);
        // Nobody becomes an administrator by waiting.
        assert_eq!(
            network.register(guest("boss")).await.expect_err("a group with a credential").kind,
            RefusalKind::Conflict
        );
        let outcome = network.register(guest("ann")).await;
        if strict {
            assert_eq!(outcome.expect_err("strict").kind, RefusalKind::Conflict);
            assert_eq!(network.register(admin("boss")).await.expect_err("strict").kind, RefusalKind::Conflict);
            network.authenticate(&id("ann"), &ann.secret).expect("with its secret it goes on");
        } else {
            let back = outcome.expect("free again");
            assert_eq!(network.touch(&ann.member).expect_err("replaced").kind, RefusalKind::Unauthenticated);
            assert_eq!(poll(&network, &back.member).await, ["while she was away"]);
        }
        network.authenticate(&id("boss"), &boss.secret).expect("its own secret is good");
    }
}

#[tokio::test]
async fn groups_are_given_for_their_credential_only() {
    let ground = Ground::new();
    let network = ground.network().await;
    let asks = |credential: &str| Registration {
        group: Some("admin".to_owned()),
        credential: credential.to_owned(),
        ..guest("mallory")
    };
    for wrong in ["", "0", &"0".repeat(64)] {
        assert_eq!(network.register(asks(wrong)).await.expect_err(wrong).kind, RefusalKind::Forbidden);
    }
    let none = Registration { group: Some("emperors".to_owned()), ..guest("mallory") };
    assert_eq!(network.register(none).await.expect_err("no such group").kind, RefusalKind::Missing);
    assert_eq!(network.register(asks(SESAME)).await.expect("the credential").member.group(), "admin");

    let mut closed = settings();
    closed.id = "closed".to_owned();
    closed.requires_password = true;
    let network = ground.open(closed, Vec::new()).await;
    assert_eq!(network.register(guest("ann")).await.expect_err("closed").kind, RefusalKind::Forbidden);
}

#[tokio::test]
async fn guessing_credentials_ends_soon() {
    let ground = Ground::new();
    let network = ground.network().await;
    let mut kinds = Vec::new();
    for n in 0..120 {
        let guess =
            Registration { group: Some("admin".to_owned()), credential: format!("{n:064x}"), ..guest("mallory") };
        kinds.push(network.register(guess).await.expect_err("wrong").kind);
    }
    assert_eq!(kinds[0], RefusalKind::Forbidden);
    assert_eq!(kinds[119], RefusalKind::TooMany);
    network.register(guest("ann")).await.expect("whoever shows none is not held up");
}

async fn kick(
    network: &Network,
    by: &longhaul_network::Member,
    whom: &str,
) -> Result<longhaul_network::Reply, longhaul_network::Refusal> {
    let payload =
        serde_json::json!({"target_agent_id": whom, "agent_id": "boss"}).as_object().cloned().expect("an object");
    send(network, by, named(&format!("kick-{whom}"), "system.kick_agent", "system:system", payload)).await
}

#[tokio::test]
async fn sending_away_needs_the_permission_and_takes_everything_with_it() {
    let ground = Ground::new();
    let network = ground.network().await;
    let boss = network.register(admin("boss")).await.expect("in");
    let (ann, bob) = (join(&network, "ann").await, join(&network, "bob").await);
    // What the payload says of who asks is worth nothing.
    assert_eq!(kick(&network, &ann.member, "bob").await.expect_err("no right").kind, RefusalKind::Forbidden);
    assert_eq!(kick(&network, &boss.member, "nobody").await.expect_err("nobody").kind, RefusalKind::Missing);
    send(&network, &ann.member, draft("1", "bob", "never read")).await.expect("sent");
    let (waiting, own) = (network.clone(), bob.member.clone());
    let mut inbox = waiting.inbox(&own, Some(i64::MAX)).expect("an inbox");
    let held = tokio::spawn(async move { inbox.next(1, Duration::from_secs(20)).await });
    kick(&network, &boss.member, "bob").await.expect("sent away");
    assert_eq!(held.await.expect("no panic").expect_err("gone").kind, RefusalKind::Unauthenticated);
    assert!(network.agent(&id("bob")).is_none());
    assert_eq!(network.authenticate(&id("bob"), &bob.secret).expect_err("gone").kind, RefusalKind::Unauthenticated);
    assert_eq!(poll(&network, &ann.member).await, ["system.agent_kicked"]);
    let bob = join(&network, "bob").await;
    assert_eq!(poll(&network, &bob.member).await, Vec::<String>::new());
}

#[tokio::test]
async fn one_process_at_a_time_serves_a_network() {
    let ground = Ground::new();
    let network = ground.network().await;
    let store = network.store().clone();
    let second = Network::open(store.clone(), longhaul_core::Scope::single_user(), settings(), Vec::new()).await;
    assert_eq!(second.expect_err("it is served").kind, RefusalKind::Conflict);
    network.close().await;
    assert_eq!(network.register(guest("late")).await.expect_err("closed").kind, RefusalKind::Unavailable);
    Network::open(store, longhaul_core::Scope::single_user(), settings(), Vec::new()).await.expect("free again");
}

#[tokio::test]
async fn an_invitation_admits_one_and_only_into_what_its_giver_may() {
    let ground = Ground::new();
    let mut with = settings();
    with.requires_password = true;
    let network = ground.open(with, Vec::new()).await;
    let boss = network.register(admin("boss")).await.expect("in");
    let invite = |id: &str| named(id, "system.invite_agent", "", serde_json::Map::new());
    let reply = send(&network, &boss.member, invite("1")).await.expect("an invitation");
    let credential = reply.data.expect("data")["credential"].as_str().expect("a text").to_owned();
    let with = |name: &str| Registration { credential: credential.clone(), ..guest(name) };
    let ann = network.register(with("ann")).await.expect("invited");
    assert_eq!(ann.member.group(), "guest");
    assert_eq!(network.register(with("bob")).await.expect_err("used").kind, RefusalKind::Forbidden);
    assert_eq!(send(&network, &ann.member, invite("2")).await.expect_err("no right").kind, RefusalKind::Forbidden);
}

#[tokio::test]
async fn an_agent_may_so_much_a_second() {
    let ground = Ground::new();
    let mut with = settings();
    (with.events_per_second, with.events_burst) = (10, 5);
    let network = ground.open(with, Vec::new()).await;
    let (ann, bob) = (join(&network, "ann").await, join(&network, "bob").await);
    for n in 0..5 {
        send(&network, &ann.member, draft(&n.to_string(), "bob", "")).await.expect("within the burst");
    }
    let refusal = send(&network, &ann.member, draft("5", "bob", "")).await.expect_err("too often");
    assert_eq!((refusal.kind, refusal.retry_after_ms), (RefusalKind::TooMany, Some(100)));
    send(&network, &bob.member, draft("5", "ann", "")).await.expect("others are not held up");
    ground.clock.advance(Duration::from_millis(100));
    send(&network, &ann.member, draft("5", "bob", "")).await.expect("a moment later");
}

#[tokio::test]
async fn what_is_too_large_is_refused_with_its_size() {
    let ground = Ground::new();
    let mut with = settings();
    with.message_bytes_max = 1_000;
    let network = ground.open(with, Vec::new()).await;
    let (ann, _bob) = (join(&network, "ann").await, join(&network, "bob").await);
    let refusal = send(&network, &ann.member, draft("1", "bob", &"x".repeat(1_000))).await.expect_err("too large");
    assert_eq!(refusal.kind, RefusalKind::TooLarge);
    assert!(refusal.message.contains("1011 bytes"), "{refusal}");
    send(&network, &ann.member, draft("1", "bob", &"x".repeat(900))).await.expect("sent");
    for id in ["", "a\nb", &"x".repeat(201)] {
        assert_eq!(send(&network, &ann.member, draft(id, "bob", "")).await.expect_err(id).kind, RefusalKind::Invalid);
    }
}
