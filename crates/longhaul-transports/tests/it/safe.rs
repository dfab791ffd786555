//! Spoofs, hijacks and leaks over HTTP: each is refused.

use longhaul_transports::{Extra, ServeError, ServingSettings, TlsSettings};
use reqwest::Method;
use serde_json::{Value, json};

use crate::house::{House, SESAME, message, send, settings, texts};

#[tokio::test]
async fn a_page_of_another_origin_or_name_is_not_answered() {
    let mut serving = ServingSettings::anywhere();
    serving.http.as_mut().unwrap().origins = vec!["https://studio.example.org".to_owned()];
    let house = House::with(settings(), serving, Extra::default()).await;
    let alice = house.join("alice").await;
    let event = message("alice", &alice, "e1", "agent:alice", "x");
    let port = house.serving.http().unwrap().port();
    for (host, origin, status) in [
        (format!("127.0.0.1:{port}"), None, 200),
        (format!("localhost:{port}"), Some(format!("http://localhost:{port}")), 200),
        (format!("127.0.0.1:{port}"), Some("https://studio.example.org".to_owned()), 200),
        (format!("127.0.0.1:{port}"), Some("https://evil.example".to_owned()), 403),
        (format!("127.0.0.1:{port}"), Some("null".to_owned()), 403),
        (format!("rebound.example:{port}"), None, 421),
        (format!("rebound.example:{port}"), Some(format!("http://rebound.example:{port}")), 421),
    ] {
        for (method, path) in [(Method::GET, "/api/health"), (Method::POST, "/api/send_event"), (Method::POST, "/mcp")]
        {
            let mut request = house.request(method.clone(), path).header("host", &host).json(&event);
            if let Some(origin) = &origin {
                request = request.header("origin", origin);
            }
            let answer = send(request).await;
            if status == 200 {
                assert!(answer.status != 403 && answer.status != 421, "{host} {origin:?} {path}: {answer:?}");
            } else {
                assert_eq!(answer.status, status, "{host} {origin:?} {path}: {answer:?}");
            }
            let allowed = answer.headers.get("access-control-allow-origin").map(|value| value.to_str().unwrap());
            assert_eq!(allowed, origin.as_deref().filter(|_| status == 200), "{host} {origin:?} {path}");
        }
    }
    let preflight = |origin: &'static str| {
        let request = house.request(Method::OPTIONS, "/api/send_event").header("origin", origin);
        send(
            request
                .header("access-control-request-method", "POST")
                .header("access-control-request-headers", "content-type"),
        )
    };
    let invited = preflight("https://studio.example.org").await;
    assert_eq!(
        (invited.status.as_u16(), &invited.headers["access-control-allow-headers"]),
        (204, &"content-type".parse().unwrap())
    );
    assert!(!invited.headers.contains_key("access-control-allow-credentials"));
    assert_eq!(preflight("https://evil.example").await.status, 403);
}

#[tokio::test]
async fn nobody_takes_a_live_name_or_acts_for_another() {
    let house = House::new().await;
    let (alice, bob) = (house.join("alice").await, house.join("bob").await);
    // The reference gives the name to whoever asks last.
    for body in [
        json!({ "agent_id": "alice" }),
        json!({ "agent_id": "alice", "password_hash": "", "force_reconnect": true }),
        json!({ "agent_id": "agent:alice", "secret": "x".repeat(64) }),
        json!({ "agent_id": "alice", "secret": bob }),
    ] {
        let taken = house.post("/api/register", &body).await;
        assert!(taken.status.is_client_error() && taken.body["success"] == false, "{body}: {taken:?}");
    }
    assert_eq!(house.say("alice", &alice, "e1", "agent:bob", "still me").await.body["success"], true);
    // With another's secret nobody is anybody.
    assert_eq!(house.say("alice", &bob, "e2", "agent:bob", "as alice").await.body["success"], false);
    let group = json!({ "event_id": "e3", "event_name": "agent.message", "source_id": "bob", "target_agent_id": "agent:alice",
        "payload": {}, "secret": bob, "source_agent_group": "admin", "source_type": "mod" });
    assert_eq!(house.post("/api/send_event", &group).await.body["success"], true);
    let forged = house.poll("alice", &alice).await;
    let forged = forged.iter().find(|event| event["event_id"] == "e3").unwrap();
    assert_eq!((&forged["source_agent_group"], &forged["source_type"]), (&json!("guest"), &json!("agent")));
    for source in ["mod:openagents.mods.workspace.wiki", "system:system", "group:admin"] {
        let event = message(source, &bob, "e4", "agent:alice", "x");
        assert_eq!(house.post("/api/send_event", &event).await.body["success"], false, "{source}");
    }
    let polled = house.get(&format!("/api/poll?agent_id=alice&secret={bob}&wait=0")).await;
    assert_eq!((&polled.body["success"], &polled.body["messages"]), (&json!(false), &json!([])));
    assert_eq!(texts(&house.poll("bob", &bob).await), ["still me"]);
    // A repeated id of another sender is another event, not the first one's answer.
    let replayed = house.say("bob", &bob, "e1", "agent:alice", "same id").await;
    assert_eq!((&replayed.body["success"], &replayed.body["repeated"]), (&json!(true), &Value::Null), "{replayed:?}");
}

#[tokio::test]
async fn what_changes_others_needs_the_right_to_it() {
    let house = House::new().await;
    let (alice, bob) = (house.join("alice").await, house.join("bob").await);
    let boss = house.post("/api/register", &json!({ "agent_id": "boss", "password_hash": SESAME })).await;
    let boss = boss.body["secret"].as_str().unwrap().to_owned();
    for (from, secret, success) in
        [("bob", String::new(), false), ("bob", bob.clone(), false), ("boss", bob.clone(), false), ("boss", boss, true)]
    {
        let event = json!({ "event_id": format!("k{from}{success}{}", secret.len()), "event_name": "system.kick_agent",
            "source_id": from, "target_agent_id": "system:system", "payload": { "target_agent_id": "alice" }, "secret": secret });
        let answer = house.post("/api/send_event", &event).await;
        assert_eq!(answer.body["success"], success, "{from}: {answer:?}");
    }
    assert_eq!(house.say("alice", &alice, "e1", "agent:bob", "x").await.body["success"], false, "alice is gone");
    for path in [
        "/api/admin/mods",
        "/api/admin/network/restart",
        "/api/agents/service/env/global",
        "/api/network/initialize/admin-password",
    ] {
        for method in [Method::GET, Method::POST, Method::PUT] {
            let answer = send(house.request(method.clone(), path).json(&json!({}))).await;
            assert_eq!(answer.status, 501, "{method} {path} does nothing for anybody");
        }
    }
}

#[tokio::test]
async fn no_path_leads_anywhere() {
    let house = House::new().await;
    let alice = house.join("alice").await;
    for path in [
        "/api/cache/download/..%2F..%2Fetc%2Fpasswd",
        "/assets/../../etc/passwd",
        "/studio/../../etc/passwd",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/api/events/..%2f..%2fhealth",
    ] {
        let answer = house.get(&format!("{path}?agent_id=alice&secret={alice}")).await;
        assert!(!answer.body.to_string().contains("root:"), "{path}: {answer:?}");
        assert_ne!(answer.status, 500, "{path}");
    }
}

#[tokio::test]
async fn nothing_listens_beyond_loopback_without_tls() {
    let house = House::new().await;
    let mut serving = ServingSettings::anywhere();
    serving.http.as_mut().unwrap().address = "0.0.0.0:0".parse().unwrap();
    let refused =
        longhaul_transports::Serving::start_with(house.network.clone(), serving.clone(), Extra::default()).await;
    assert!(matches!(refused, Err(ServeError::NeedsTls { .. })), "{refused:?}");
    serving.http.as_mut().unwrap().tls = Some(TlsSettings {
        certificates: "/nowhere/cert.pem".into(),
        key: "/nowhere/key.pem".into(),
        client_authorities: None,
        only_13: false,
    });
    let refused = longhaul_transports::Serving::start_with(house.network.clone(), serving, Extra::default()).await;
    assert!(matches!(refused, Err(ServeError::Tls { .. })), "{refused:?}");
    // As network.yaml writes it: replaced by loopback, and said so.
    let mut written = settings();
    written.transports = vec![
        (
            "http".to_owned(),
            json!({ "host": "0.0.0.0", "port": 0, "cors_origins": ["*"] }).as_object().unwrap().clone(),
        ),
        ("grpc".to_owned(), json!({ "host": "0.0.0.0", "port": 0 }).as_object().unwrap().clone()),
        ("carrier_pigeon".to_owned(), serde_json::Map::new()),
    ];
    let (read, notices) = ServingSettings::read(&written);
    assert!(read.http.unwrap().address.ip().is_loopback() && read.grpc.unwrap().address.ip().is_loopback());
    assert_eq!(notices.len(), 4, "{notices:?}");
}

/// A certificate for loopback that nobody vouches for, made by openssl.
fn certificate(dir: &std::path::Path) -> TlsSettings {
    let (certificates, key) = (dir.join("site.pem"), dir.join("site.key"));
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificates)
        .output()
        .expect("openssl is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    TlsSettings { certificates, key, client_authorities: None, only_13: true }
}

#[tokio::test]
async fn with_a_certificate_it_is_served_beyond_loopback_under_its_names() {
    let dir = tempfile::tempdir().unwrap();
    let mut serving = ServingSettings { grpc: None, ..ServingSettings::anywhere() };
    let files = certificate(dir.path());
    let http = serving.http.as_mut().unwrap();
    http.address = "0.0.0.0:0".parse().unwrap();
    http.tls = Some(files.clone());
    http.hosts = vec!["net.example.org".to_owned()];
    let house = House::with(settings(), serving, Extra::default()).await;
    let port = house.serving.http().unwrap().port();
    let trusted = reqwest::Certificate::from_pem(&std::fs::read(&files.certificates).unwrap()).unwrap();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([trusted]).build().unwrap();
    let ask = |host: String| send(client.get(format!("https://localhost:{port}/api/health")).header("host", host));
    for (host, status) in [
        (format!("localhost:{port}"), 200),
        (format!("net.example.org:{port}"), 200),
        (format!("192.0.2.7:{port}"), 200),
        (format!("rebound.example:{port}"), 421),
    ] {
        assert_eq!(ask(host.clone()).await.status, status, "{host}");
    }
    let health = ask(format!("localhost:{port}")).await;
    assert_eq!(
        health.body["data"]["transports"][0]["config"],
        json!({ "port": port }),
        "clients take the host they came by"
    );
    let plain = crate::house::client().get(format!("http://localhost:{port}/api/health")).send().await;
    assert!(plain.is_err(), "{plain:?}");
}
