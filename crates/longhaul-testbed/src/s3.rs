//! A real S3 server in a process of its own, on loopback, with a private folder and a key; ended by its handle.
//!
//! The process is the test binary itself, started again with one test: the one that calls [`serve_s3_if_asked`].

use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use hyper_util::rt::{TokioExecutor, TokioIo};
use s3s::{auth::SimpleAuth, service::S3ServiceBuilder};
use tempfile::TempDir;

const DIR: &str = "LONGHAUL_TEST_S3_DIR";
const PORT: &str = "LONGHAUL_TEST_S3_PORT";

/// A running server.
#[derive(Debug)]
pub struct S3Server {
    child: Child,
    folder: TempDir,
    address: SocketAddr,
    serving_test: &'static str,
}

impl S3Server {
    /// The access key it takes.
    pub const KEY: &str = "AKIALONGHAUL";
    /// That key's secret.
    pub const SECRET: &str = "a-secret-of-the-tests-alone";

    /// Starts one with a bucket. `serving_test` is the whole name of the test of this binary that calls
    /// [`serve_s3_if_asked`].
    ///
    /// # Panics
    /// When it does not start: a test has nothing to go on with.
    #[must_use]
    pub fn start(serving_test: &'static str, bucket: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(folder.path().join(bucket)).expect("the bucket is made");
        let (child, address) = start(serving_test, folder.path(), 0);
        Self { child, folder, address, serving_test }
    }

    /// Ends it as SIGKILL does.
    ///
    /// # Panics
    /// When it cannot be ended.
    pub fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
    }

    /// Starts it again, with what it had, at the same address.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_again(&mut self) {
        (self.child, self.address) = start(self.serving_test, self.folder.path(), self.address.port());
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it keeps its objects.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(serving_test: &str, dir: &Path, port: u16) -> (Child, SocketAddr) {
    let mut child = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", serving_test, "--nocapture"])
        .env(DIR, dir)
        .env(PORT, port.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut said = BufReader::new(child.stdout.take().expect("its output")).lines().map_while(Result::ok);
    let address = said.find_map(|line| line.split_once("S3 AT ")?.1.trim().parse().ok());
    // A test that takes long is told of after a minute: whoever cannot write that ends.
    std::thread::spawn(move || said.for_each(drop));
    (child, address.expect("the server says where it listens"))
}

/// The server, when this process was started as one; otherwise nothing. It ends with its parent, whose end closes the
/// pipe.
///
/// # Panics
/// When it cannot serve.
pub async fn serve_s3_if_asked() {
    let (Ok(dir), Ok(port)) = (std::env::var(DIR), std::env::var(PORT)) else { return };
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(dir).expect("a folder"));
    service.set_auth(SimpleAuth::from_single(S3Server::KEY, S3Server::SECRET));
    let service = service.build();
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.expect("it listens");
    println!("S3 AT {}", listener.local_addr().expect("an address"));
    let http = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    while let Ok((socket, _)) = listener.accept().await {
        let (http, service) = (http.clone(), service.clone());
        tokio::spawn(async move { http.serve_connection(TokioIo::new(socket), service).await.map_err(drop) });
    }
}
