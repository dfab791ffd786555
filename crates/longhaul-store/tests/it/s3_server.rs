//! A real S3 server in a process of its own, on loopback, with a private folder and a key; ended by its handle.

use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use hyper_util::rt::{TokioExecutor, TokioIo};
use longhaul_store::s3::{Credential, S3Place};
use s3s::{auth::SimpleAuth, service::S3ServiceBuilder};
use tempfile::TempDir;

const DIR: &str = "LONGHAUL_TEST_S3_DIR";
const PORT: &str = "LONGHAUL_TEST_S3_PORT";
const KEY: &str = "AKIALONGHAUL";
const SECRET: &str = "a-secret-of-the-tests-alone";

/// The bucket that exists.
pub(crate) const BUCKET: &str = "blobs";

pub(crate) struct S3Server {
    child: Child,
    folder: TempDir,
    address: SocketAddr,
}

impl S3Server {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join(BUCKET)).expect("the bucket is made");
        let (child, address) = start(folder.path(), 0);
        Self { child, folder, address }
    }

    /// As SIGKILL ends it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }

    /// Again, with what it had, at the same address.
    pub(crate) fn start_again(&mut self) {
        (self.child, self.address) = start(self.folder.path(), self.address.port());
    }

    pub(crate) fn place(&self) -> S3Place {
        place(self.address)
    }

    /// Where it keeps its objects.
    pub(crate) fn dir(&self) -> &std::path::Path {
        self.folder.path()
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The bucket at an address, with the right key.
pub(crate) fn place(address: SocketAddr) -> S3Place {
    S3Place {
        bucket: BUCKET.to_owned(),
        prefix: "team/one".to_owned(),
        endpoint: Some(format!("http://{address}")),
        region: "us-east-1".to_owned(),
        access_key_id: KEY.to_owned(),
        secret_access_key: Credential::new(SECRET),
        session_token: None,
        allow_http: false,
    }
}

fn start(dir: &std::path::Path, port: u16) -> (Child, SocketAddr) {
    let mut child = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "s3_server::in_a_process_of_its_own", "--nocapture"])
        .env(DIR, dir)
        .env(PORT, port.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let said = BufReader::new(child.stdout.take().expect("its output")).lines();
    let address = said.map_while(Result::ok).find_map(|line| line.split_once("S3 AT ")?.1.trim().parse().ok());
    (child, address.expect("the server says where it listens"))
}

/// The server, when this binary is started as one; otherwise nothing. It ends with its parent, whose end closes the pipe.
#[tokio::test(flavor = "multi_thread")]
async fn in_a_process_of_its_own() {
    let (Ok(dir), Ok(port)) = (std::env::var(DIR), std::env::var(PORT)) else { return };
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(dir).expect("a folder"));
    service.set_auth(SimpleAuth::from_single(KEY, SECRET));
    let service = service.build();
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.expect("it listens");
    println!("S3 AT {}", listener.local_addr().expect("an address"));
    let http = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    while let Ok((socket, _)) = listener.accept().await {
        let (http, service) = (http.clone(), service.clone());
        tokio::spawn(async move { http.serve_connection(TokioIo::new(socket), service).await.map_err(drop) });
    }
}
