//! The S3 server of this suite: its bucket, and how a store reaches it.

use std::net::SocketAddr;

use longhaul_store::s3::{Credential, S3Place};
use longhaul_testbed::{S3Server, serve_s3_if_asked};

/// The bucket that exists.
pub(crate) const BUCKET: &str = "blobs";

pub(crate) fn start() -> S3Server {
    S3Server::start("s3_server::in_a_process_of_its_own", BUCKET)
}

/// The bucket at an address, with the right key.
pub(crate) fn place(address: SocketAddr) -> S3Place {
    S3Place {
        bucket: BUCKET.to_owned(),
        prefix: "team/one".to_owned(),
        endpoint: Some(format!("http://{address}")),
        region: "us-east-1".to_owned(),
        access_key_id: S3Server::KEY.to_owned(),
        secret_access_key: Credential::new(S3Server::SECRET),
        session_token: None,
        allow_http: false,
    }
}

/// The server, when this binary is started as one; otherwise nothing.
#[tokio::test(flavor = "multi_thread")]
async fn in_a_process_of_its_own() {
    serve_s3_if_asked().await;
}
