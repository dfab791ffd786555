//! Tokens and TLS, on the full server (milvus-lite has neither).

use std::{path::Path, process::Command};

use longhaul_core::Ambient;
use longhaul_memory::remote::{RemoteError, RemoteVectors};
use longhaul_milvus::{Address, Milvus, MilvusSettings, Token};
use longhaul_testbed::{MilvusKind, MilvusOptions, MilvusServer};

use crate::servers::{kind, space};

/// A certificate authority of our own and a certificate for localhost, by the system's openssl.
fn certificate(dir: &Path) {
    let openssl = |args: &[&str]| {
        let output = Command::new("openssl").args(args).current_dir(dir).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let subject = "/CN=longhaul test";
    openssl(&[
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", subject, "-keyout", "ca.key", "-out",
        "ca.pem",
    ]);
    openssl(&[
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=localhost",
        "-keyout",
        "server.key",
        "-out",
        "server.csr",
    ]);
    std::fs::write(dir.join("ext"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n").unwrap();
    openssl(&[
        "x509",
        "-req",
        "-in",
        "server.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        "2",
        "-extfile",
        "ext",
        "-out",
        "server.pem",
    ]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_travels_over_tls_and_a_wrong_one_is_not_let_in() {
    if kind() != MilvusKind::Full {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    certificate(dir.path());
    let file = |name: &str| dir.path().join(name);
    let options = MilvusOptions { authorization: true, tls: Some((file("server.pem"), file("server.key"))) };
    let server = MilvusServer::start_with(MilvusKind::Full, &options).unwrap();
    let connect = |token: Option<&str>, ca: Option<&str>| {
        let address = Address::parse(&server.uri()).unwrap();
        let address = address.with_token(token.map(|token| Token::new(token).unwrap()));
        let address = address.with_ca_file(ca.map(file));
        Milvus::new(MilvusSettings::new(address), Ambient::system()).unwrap()
    };
    let space = space("secrets");
    connect(Some("root:Milvus"), Some("ca.pem")).open(&space).await.unwrap();
    for token in [None, Some("root:wrong-secret")] {
        let error = connect(token, Some("ca.pem")).open(&space).await.unwrap_err();
        assert!(matches!(error, RemoteError::Unusable(_)), "{error:?}");
        let shown = format!("{error:?}");
        assert!(shown.contains("Unauthenticated") && !shown.contains("wrong-secret"), "{shown}");
    }
    // A certificate that nobody vouches for.
    let error = connect(Some("root:Milvus"), None).open(&space).await.unwrap_err();
    assert!(matches!(error, RemoteError::Away(_)), "{error:?}");
}
