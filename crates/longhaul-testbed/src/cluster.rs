//! A private cluster and its databases, as tests see them.
//!
//! It owns addresses and passwords; the process is `server`'s. Invariant: each database is one test's own.

use std::{
    fmt, fs,
    io::Read,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::server::{Server, TestbedError, programs, succeeded};

/// A PostgreSQL cluster of this process, with `fsync` on, reachable at 127.0.0.1 with a random password only.
/// It ends when it is dropped, or when the process ends in whatever way.
pub struct PrivateCluster {
    bin: PathBuf,
    port: u16,
    password: String,
    databases: AtomicU32,
    server: Mutex<Server>,
}

/// The password stays out of what tests print.
impl fmt::Debug for PrivateCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateCluster").field("port", &self.port).finish_non_exhaustive()
    }
}

impl PrivateCluster {
    /// Makes a cluster in a new folder under the system's temporary folder and starts it.
    ///
    /// # Errors
    /// [`TestbedError::NotInstalled`] without Debian's package `postgresql`; others when the machine refuses.
    pub fn start() -> Result<Self, TestbedError> {
        let bin = programs()?;
        let mut tries = 0;
        loop {
            let password = random_hex()?;
            let dir = new_dir()?;
            match Server::start(&bin, &dir, &password) {
                Ok((server, port)) => {
                    let (databases, server) = (AtomicU32::new(0), Mutex::new(server));
                    return Ok(Self { bin, port, password, databases, server });
                }
                // Somebody else may have taken the port between our look and the server's.
                Err(TestbedError::NotReady { log, .. }) if tries < 3 && log.contains("could not bind") => tries += 1,
                Err(error) => {
                    // The keeper removes the folder if it got as far as that.
                    let _ = fs::remove_dir_all(&dir);
                    return Err(error);
                }
            }
        }
    }

    /// The one cluster that the tests of this process share; started by the first that asks.
    ///
    /// # Errors
    /// Those of [`Self::start`], as text, for everybody who asks.
    pub fn shared() -> Result<&'static Self, String> {
        static SHARED: OnceLock<Result<PrivateCluster, String>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start().map_err(|error| error.to_string())).as_ref().map_err(Clone::clone)
    }

    /// Makes an empty database for one test.
    ///
    /// # Errors
    /// [`TestbedError::Failed`] with the server's words.
    pub fn create_database(&self) -> Result<Database<'_>, TestbedError> {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.psql("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(Database { cluster: self, name })
    }

    /// Stops the server as a crash would, without flushing anything, and starts it again.
    ///
    /// # Errors
    /// [`TestbedError::NotReady`].
    pub fn crash_and_restart(&self) -> Result<(), TestbedError> {
        self.stop_immediate()?;
        self.start_again()
    }

    /// Stops the server in good order, cutting every connection, and starts it again.
    ///
    /// # Errors
    /// [`TestbedError::NotReady`].
    pub fn restart(&self) -> Result<(), TestbedError> {
        self.order("fast", "testbed: stopped")?;
        self.start_again()
    }

    /// Stops the server as a crash would. [`Self::start_again`] brings it back.
    ///
    /// # Errors
    /// [`TestbedError::NotReady`].
    pub fn stop_immediate(&self) -> Result<(), TestbedError> {
        self.order("immediate", "testbed: stopped")
    }

    /// Starts a stopped server on the same port.
    ///
    /// # Errors
    /// [`TestbedError::NotReady`].
    pub fn start_again(&self) -> Result<(), TestbedError> {
        self.order("start", "ready to accept connections")
    }

    /// The port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    fn order(&self, order: &str, done: &str) -> Result<(), TestbedError> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).order(order, done)
    }

    fn psql(&self, database: &str, sql: &str) -> Result<String, TestbedError> {
        let mut psql = Command::new(self.bin.join("psql"));
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--host=127.0.0.1", "--username=longhaul"]);
        psql.arg(format!("--port={}", self.port)).args(["--set=ON_ERROR_STOP=1", "--dbname", database]);
        // Not on the command line, which everybody on the machine can read.
        psql.env("PGPASSWORD", &self.password).args(["--command", sql]);
        succeeded("psql", psql.output())
    }
}

/// An empty database of one test.
#[derive(Debug)]
pub struct Database<'a> {
    cluster: &'a PrivateCluster,
    name: String,
}

impl Database<'_> {
    /// `postgres://longhaul:PASSWORD@127.0.0.1:PORT/NAME`.
    #[must_use]
    pub fn url(&self) -> String {
        let PrivateCluster { port, password, .. } = self.cluster;
        format!("postgres://longhaul:{password}@127.0.0.1:{port}/{}", self.name)
    }

    /// Runs SQL in it, through another connection, and gives the rows as lines with `|` between columns.
    ///
    /// # Errors
    /// [`TestbedError::Failed`] with the server's words.
    pub fn psql(&self, sql: &str) -> Result<String, TestbedError> {
        self.cluster.psql(&self.name, sql)
    }

    /// Cuts every connection to this database, and no other.
    ///
    /// # Errors
    /// [`TestbedError::Failed`] with the server's words.
    pub fn cut_connections(&self) -> Result<(), TestbedError> {
        let sql = format!(
            "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE datname = '{}'",
            self.name
        );
        self.cluster.psql("postgres", &sql).map(drop)
    }

    /// The cluster it is in.
    #[must_use]
    pub fn cluster(&self) -> &PrivateCluster {
        self.cluster
    }
}

/// A new folder that only its owner may enter. The keeper removes it.
fn new_dir() -> Result<PathBuf, TestbedError> {
    let dir = std::env::temp_dir().join(format!("longhaul-postgres-{}", random_hex()?));
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&dir)
        .map(|()| dir.clone())
        .map_err(|source| TestbedError::Io { path: dir, source })
}

pub(crate) fn random_hex() -> Result<String, TestbedError> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0_u8; 16];
    fs::File::open(source)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|error| TestbedError::Io { path: source.to_owned(), source: error })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
