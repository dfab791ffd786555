//! Whoever operates a network from its folder: a note on where it is served, readable by its owner only, with a
//! credential that is good as long as this process serves it.
//!
//! Invariant: the credential is new with each start and stands nowhere but in the note.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use longhaul_core::Ambient;
use longhaul_libp2p::Libp2p;
use longhaul_mods::agents::{HttpLink, Joining, Link};
use longhaul_network::{
    Address, Draft, Registration, Reply, Via,
    settings::{GroupSettings, NetworkSettings},
};
use longhaul_transports::Serving;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{NetworkError, folder};

/// The group of whoever operates the network from its folder.
pub(super) const GROUP: &str = "operators";
const NOTE: &str = "serving.json";

/// Where a network is served.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Served {
    /// The network's id.
    pub network: String,
    /// The process.
    pub pid: u32,
    /// `http://127.0.0.1:8700`.
    pub url: String,
    /// The address of gRPC.
    #[serde(default)]
    pub grpc: Option<String>,
    /// The addresses of the libp2p node.
    #[serde(default)]
    pub libp2p: Vec<String>,
    credential: String,
}

/// The file, which goes with the process.
#[derive(Debug)]
pub(super) struct Note(Option<PathBuf>);

impl Note {
    pub(super) fn remove(&self) {
        if let Some(path) = &self.0 {
            // A note that is left names a process that does not answer, which is said then.
            let _ = fs::remove_file(path);
        }
    }
}

pub(super) fn new_credential(ambient: &Ambient) -> String {
    (0..4).map(|_| format!("{:016x}", ambient.rng.next_u64())).collect()
}

/// Lets whoever has the note in.
pub(super) fn admit(settings: &mut NetworkSettings, credential: &str) {
    let group = GroupSettings {
        description: "whoever operates the network from its folder".to_owned(),
        credential: Some(credential.to_owned()),
        permissions: vec!["admin".to_owned()],
        metadata: Map::new(),
    };
    settings.groups.insert(GROUP.to_owned(), group);
}

pub(super) fn note(
    state: &folder::State,
    engine: &longhaul_network::Network,
    serving: &Serving,
    libp2p: Option<&Libp2p>,
    credential: String,
) -> Result<Note, NetworkError> {
    let Some(url) = serving.url() else { return Ok(Note(None)) };
    let served = Served {
        network: engine.id().to_owned(),
        pid: std::process::id(),
        url,
        grpc: serving.grpc().map(|address| address.to_string()),
        libp2p: libp2p.map(|node| node.addresses().iter().map(ToString::to_string).collect()).unwrap_or_default(),
        credential,
    };
    let path = state.dir().join(NOTE);
    let text = serde_json::to_vec_pretty(&served).unwrap_or_default();
    let staged = state.dir().join(format!("{NOTE}.new"));
    let written = fs::remove_file(&staged).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    });
    let written = written
        .and_then(|()| fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&staged))
        .and_then(|mut file| file.write_all(&text))
        .and_then(|()| fs::rename(&staged, &path));
    written.map_err(|source| NetworkError::Io { path: path.clone(), source })?;
    Ok(Note(Some(path)))
}

impl Served {
    /// Where the network of this folder is served, as far as its note says.
    ///
    /// # Errors
    /// [`NetworkError::NotServed`], [`NetworkError::NoNetwork`].
    pub fn of(dir: &Path) -> Result<Self, NetworkError> {
        let settings = folder::read(dir)?.settings;
        let state = folder::state(dir, &settings)?;
        let text = fs::read(state.dir().join(NOTE)).map_err(|_| NetworkError::NotServed { dir: dir.to_owned() })?;
        serde_json::from_slice(&text).map_err(|_| NetworkError::NotServed { dir: dir.to_owned() })
    }
}

/// A connection to a network that another process serves, with every permission.
#[derive(Debug)]
pub struct Operating {
    link: HttpLink,
    served: Served,
    ambient: Ambient,
}

impl Operating {
    /// Comes in with the note of the folder.
    ///
    /// # Errors
    /// [`NetworkError::NotServed`] when nobody answers.
    pub async fn of(dir: &Path) -> Result<Self, NetworkError> {
        let (served, ambient) = (Served::of(dir)?, Ambient::system());
        let name = format!("operator-{}", std::process::id()).parse()?;
        let mut registration = Registration::new(name, Via::Http);
        registration.group = Some(GROUP.to_owned());
        registration.credential.clone_from(&served.credential);
        registration.metadata.insert("joins_channels".to_owned(), Value::Bool(false));
        registration.metadata.insert("name".to_owned(), "operator".into());
        let joining = Joining { url: served.url.clone(), registration, state: None };
        let link = HttpLink::join(joining).await.map_err(|refusal| match refusal.kind {
            longhaul_network::RefusalKind::Unavailable | longhaul_network::RefusalKind::TimedOut => {
                NetworkError::NotServed { dir: dir.to_owned() }
            }
            _ => refusal.into(),
        })?;
        Ok(Self { link, served, ambient })
    }

    /// Where it is served.
    #[must_use]
    pub fn served(&self) -> &Served {
        &self.served
    }

    async fn command(&self, name: &str, payload: Value) -> Result<Reply, NetworkError> {
        let payload = payload.as_object().cloned().unwrap_or_default();
        let draft = Draft::new(self.ambient.ids.body(), format!("system.{name}").parse()?, Address::System, payload);
        let reply = self.link.send(draft).await?;
        if reply.success {
            return Ok(reply);
        }
        Err(longhaul_network::Refusal::invalid(reply.message).into())
    }

    /// How the network and each agent stand; shape: the data of `system.status`.
    ///
    /// # Errors
    /// [`NetworkError::Refused`].
    pub async fn status(&self) -> Result<Value, NetworkError> {
        let mut status = self.command("status", json!({})).await?.data.unwrap_or_default();
        let own = self.link.agent().as_str().to_owned();
        if let Some(agents) = status.get_mut("agents").and_then(Value::as_array_mut) {
            agents.retain(|agent| agent["agent_id"] != own.as_str());
        }
        for key in ["agent_count", "agents_present"] {
            if let Some(count) = status.get(key).and_then(Value::as_u64) {
                // This connection is no part of it.
                status[key] = json!(count.saturating_sub(1));
            }
        }
        Ok(status)
    }

    /// Events behind `after`, or the last `last`, at most 500, and the place behind them. Waits for one where there is
    /// none.
    ///
    /// # Errors
    /// [`NetworkError::Refused`].
    pub async fn events(
        &self,
        after: Option<i64>,
        last: u32,
        wait: Duration,
    ) -> Result<(Vec<Value>, i64), NetworkError> {
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(0);
        let asked = json!({"after": after, "last": last, "wait_ms": wait_ms, "limit": 500});
        let data = self.command("read_log", asked).await?.data.unwrap_or_default();
        let events = data.get("events").and_then(Value::as_array).cloned().unwrap_or_default();
        Ok((events, data.get("cursor").and_then(Value::as_i64).or(after).unwrap_or(0)))
    }

    /// Sends an agent away.
    ///
    /// # Errors
    /// [`NetworkError::Refused`] for a name that nobody has.
    pub async fn kick(&self, agent: &str, reason: &str) -> Result<(), NetworkError> {
        self.command("kick_agent", json!({"target_agent_id": agent, "reason": reason})).await.map(drop)
    }

    /// A credential that lets one newcomer into a group, once.
    ///
    /// # Errors
    /// [`NetworkError::Refused`] for a group that is none.
    pub async fn invite(&self, group: Option<&str>) -> Result<String, NetworkError> {
        let asked = group.map_or_else(|| json!({}), |group| json!({"agent_group": group}));
        let data = self.command("invite_agent", asked).await?.data.unwrap_or_default();
        Ok(data.get("credential").and_then(Value::as_str).unwrap_or_default().to_owned())
    }

    /// Goes again.
    pub async fn leave(self) {
        // Whoever does not answer forgets this connection by itself.
        let _ = self.link.leave().await;
    }
}
