//! The folder of a network: its file, and the place of its state.
//!
//! Invariants: nothing that was there is overwritten; what holds secrets is for nobody else to read.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use longhaul_core::Ambient;
use longhaul_network::settings::{NetworkSettings, Read};
use longhaul_store::StoreSettings;
use serde_json::Value;

use super::NetworkError;
use crate::settings::Settings;

/// What a network's folder is known by.
pub const FILE: &str = "network.yaml";
/// Where its state is, unless the file says otherwise.
const STATE: &str = ".longhaul";

/// A network that was made.
#[derive(Debug, Clone)]
pub struct Initialized {
    /// Its file.
    pub file: PathBuf,
    /// Its id.
    pub id: String,
    /// The password of the group `admin`, which is kept nowhere: the file has a derived hash of it.
    pub password: String,
}

/// Makes a folder with a `network.yaml` that can be started as it is.
///
/// # Errors
/// [`NetworkError::Exists`]; [`NetworkError::Io`].
pub fn init(dir: &Path, name: Option<&str>) -> Result<Initialized, NetworkError> {
    let file = dir.join(FILE);
    fs::create_dir_all(dir).map_err(|source| NetworkError::Io { path: dir.to_owned(), source })?;
    let of_folder = fs::canonicalize(dir).ok().and_then(|dir| Some(dir.file_name()?.to_str()?.to_owned()));
    let name = name.map(str::to_owned).or(of_folder).unwrap_or_else(|| "network".to_owned());
    let ambient = Ambient::system();
    let password = password(&ambient);
    let (hash, _) = longhaul_network::of_password(&password, &ambient);
    let text = template(&name, &hash);
    let id = NetworkSettings::read(&text)?.settings.id;
    let mut options = fs::OpenOptions::new();
    let written = options.write(true).create_new(true).mode(0o600).open(&file).and_then(|mut open| {
        open.write_all(text.as_bytes())?;
        open.sync_all()
    });
    match written {
        Ok(()) => Ok(Initialized { file, id, password }),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(NetworkError::Exists { file }),
        Err(source) => Err(NetworkError::Io { path: file, source }),
    }
}

/// Twenty letters and digits that are not taken for each other.
fn password(ambient: &Ambient) -> String {
    const LETTERS: &[u8] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let letter = |_| char::from(LETTERS[usize::try_from(ambient.rng.next_u64() % 32).unwrap_or(0)]);
    (0..20).map(letter).collect()
}

fn template(name: &str, hash: &str) -> String {
    let name = Value::from(name);
    format!(
        r#"# A network of agents. Start it with `longhaul network start`.
network:
  name: {name}
  mode: centralized
  # Loopback only, unless a transport has `tls: {{cert_file: …, key_file: …}}`.
  transports:
    - type: http            # REST, server-sent events, WebSocket at /ws, MCP at /mcp, A2A at /a2a
      config: {{port: 8700}}
    - type: grpc
      config: {{port: 8600}}
    # - type: libp2p
    #   config: {{port: 8710}}
  recommended_transport: http
  default_agent_group: guest
  requires_password: false
  agent_groups:
    guest:
      description: whoever comes without a password
    admin:
      description: may send agents away, change channels, invite
      password_hash: "{hash}"
      permissions: [admin]
  mods:
    - name: openagents.mods.workspace.messaging
      config:
        default_channels:
          - {{name: general, description: for everybody}}
    - name: openagents.mods.workspace.forum
    - name: openagents.mods.workspace.wiki
    - name: openagents.mods.workspace.feed
    - name: openagents.mods.core.shared_cache
    - name: openagents.mods.workspace.shared_artifact
    - name: openagents.mods.coordination.task_delegation
    - name: openagents.mods.discovery.agent_discovery
network_profile:
  name: {name}
  description: agents that work together
"#
    )
}

/// The settings of a folder's network.
pub(super) fn read(dir: &Path) -> Result<Read, NetworkError> {
    let path = dir.join(FILE);
    let text = fs::read_to_string(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => NetworkError::NoNetwork { dir: dir.to_owned() },
        _ => NetworkError::Io { path, source },
    })?;
    Ok(NetworkSettings::read(&text)?)
}

/// Where a network keeps its state.
#[derive(Debug, Clone)]
pub(super) struct State {
    dir: PathBuf,
    /// A database in place of a file, for `data_dir: postgres://…`.
    url: Option<String>,
}

impl State {
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn store(&self, settings: Option<&Settings>) -> Result<StoreSettings, NetworkError> {
        let place = match &self.url {
            Some(url) => StoreSettings::from_url(url, &self.dir)?,
            None => StoreSettings::new(&self.dir),
        };
        let bucket = settings.map(Settings::bucket).transpose()?.flatten();
        Ok(StoreSettings { bucket, ..place })
    }
}

/// The place of the state: `data_dir` of the file, relative to its folder, or `.longhaul` in it. Made where it is not.
pub(super) fn state(dir: &Path, settings: &NetworkSettings) -> Result<State, NetworkError> {
    let said = settings.rest.get("data_dir").and_then(Value::as_str).filter(|said| !said.is_empty());
    let is_url = said.is_some_and(|said| said.starts_with("postgres://") || said.starts_with("postgresql://"));
    let folder = if is_url { dir.join(STATE) } else { dir.join(said.unwrap_or(STATE)) };
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(|source| NetworkError::Io { path: folder.clone(), source })?;
    let folder = fs::canonicalize(&folder).map_err(|source| NetworkError::Io { path: folder.clone(), source })?;
    if said.is_none() {
        // State is nothing for a repository. Whoever wrote the file may have said otherwise.
        let ignore = folder.join(".gitignore");
        if !ignore.exists() {
            fs::write(&ignore, "*\n").map_err(|source| NetworkError::Io { path: ignore, source })?;
        }
    }
    Ok(State { dir: folder, url: said.filter(|_| is_url).map(str::to_owned) })
}
