//! Where a PostgreSQL database is, and how it is named to people.
//!
//! It owns the reading of URLs and the rule who may be connected to without encryption. Invariant: the password is in
//! no `Debug`, no error and no log.

use std::{fmt, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};

use crate::StoreError;

/// How long a connection may take, and how long the other side may leave what was sent unacknowledged.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// The address of a PostgreSQL database on this machine, with what it takes to log in.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresAddress {
    config: Arc<Config>,
    shown: PathBuf,
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.shown, f)
    }
}

impl PostgresAddress {
    /// Reads `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
    ///
    /// Connections are not encrypted yet; so a host that is not this machine's loopback is refused, as is
    /// `sslmode=require`.
    ///
    /// # Errors
    /// [`StoreError::Address`].
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let refuse = |reason| Err(StoreError::Address { reason });
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return refuse("it does not begin with postgres://");
        }
        // The parser's words may quote the URL, password included.
        let Ok(mut config) = url.parse::<Config>() else {
            return refuse("it is not of the form postgres://USER:PASSWORD@HOST:PORT/DATABASE");
        };
        let Some(database) = config.get_dbname().map(str::to_owned) else {
            return refuse("it names no database after the last slash");
        };
        let Some(user) = config.get_user().map(str::to_owned) else {
            return refuse("it names no user before the @");
        };
        if !matches!(config.get_ssl_mode(), SslMode::Prefer | SslMode::Disable) {
            return refuse("it asks for TLS, which is not supported yet: use a tunnel that ends on this machine");
        }
        let local = |host: &Host| match host {
            Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()),
            Host::Unix(_) => true,
        };
        let hosts = config.get_hosts();
        if hosts.is_empty() && config.get_hostaddrs().is_empty() {
            return refuse("it names no host");
        }
        if !hosts.iter().all(local) || !config.get_hostaddrs().iter().all(IpAddr::is_loopback) {
            return refuse(
                "its host is not this machine (127.0.0.1, ::1, localhost), and connections are not encrypted yet: \
                 use a tunnel that ends on this machine",
            );
        }
        let host = match hosts.first() {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "127.0.0.1".to_owned(),
        };
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let shown = PathBuf::from(format!("postgres://{user}@{host}:{port}/{database}"));
        config.ssl_mode(SslMode::Disable).application_name("longhaul");
        config.connect_timeout(SILENCE_MAX).tcp_user_timeout(SILENCE_MAX).keepalives_idle(SILENCE_MAX);
        Ok(Self { config: Arc::new(config), shown })
    }

    /// `postgres://USER@HOST:PORT/DATABASE`: what errors name.
    pub(crate) fn shown(&self) -> &PathBuf {
        &self.shown
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }
}
