//! Beyond loopback there is TLS or nothing.

use std::{path::PathBuf, process::Command};

use longhaul_server::{Limits, ServeError, Server, ServerSettings, TlsFiles, keys::Role};
use tokio_util::sync::CancellationToken;

use crate::house::{House, gateway};

/// A certificate for loopback that nobody vouches for, made by openssl.
fn certificate(house: &House) -> TlsFiles {
    let (certificates, key) = (house.dir.path().join("site.pem"), house.dir.path().join("site.key"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificates)
        .output()
        .expect("openssl is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    TlsFiles { certificates, key }
}

#[tokio::test]
async fn beyond_loopback_nothing_is_served_without_tls() {
    let house = House::new().await;
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let settings = ServerSettings::new(address.parse().unwrap());
        let refused = Server::bind(house.gateway.clone(), settings).await.err();
        assert!(matches!(refused, Some(ServeError::NeedsTls { .. })), "{address}: {refused:?}");
    }
    let missing = TlsFiles { certificates: PathBuf::from("/none.pem"), key: PathBuf::from("/none.key") };
    let settings = ServerSettings { tls: Some(missing), ..ServerSettings::new("0.0.0.0:0".parse().unwrap()) };
    let refused = Server::bind(house.gateway.clone(), settings).await.err();
    assert!(matches!(refused, Some(ServeError::Tls { .. })), "{refused:?}");
}

#[tokio::test]
async fn with_a_certificate_it_speaks_tls_and_asks_for_a_key_all_the_same() {
    let house = House::new().await;
    let (files, key) = (certificate(&house), house.key("acme", "ada", Role::Viewer).await);
    let settings = ServerSettings {
        tls: Some(files.clone()),
        hosts: vec!["longhaul.example.org".to_owned()],
        ..ServerSettings::new("0.0.0.0:0".parse().unwrap())
    };
    let server = Server::bind(gateway(&house.store, Limits::default()), settings).await.unwrap();
    let (port, shutdown) = (server.address().port(), CancellationToken::new());
    let serving = tokio::spawn(server.run(shutdown.clone()));
    let _ = crate::house::client(); // installs the provider
    let trusted = reqwest::Certificate::from_pem(&std::fs::read(&files.certificates).unwrap()).unwrap();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([trusted]).build().unwrap();
    let url = format!("https://localhost:{port}/v1/me");
    let answer = client.get(&url).bearer_auth(&key).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(client.get(&url).send().await.unwrap().status(), 401);
    let named = client.get(&url).bearer_auth(&key).header("host", format!("longhaul.example.org:{port}"));
    assert_eq!(named.send().await.unwrap().status(), 200);
    let plain = crate::house::client().get(format!("http://localhost:{port}/v1/me")).bearer_auth(&key).send().await;
    assert!(plain.is_err(), "{plain:?}");
    shutdown.cancel();
    serving.await.unwrap();
}
