//! Settings: plain data from files, environment and flags, in one order. It builds no component and opens no connection.
//!
//! The order, the strongest first: flags, environment, `.env`, the project's `longhaul.toml`, the user's `longhaul.toml`,
//! defaults. The project's file is within the agent's reach, so it may only tune the work (invariant: nothing written
//! inside a project changes what the agent is allowed, where requests go, or who pays).

mod error;
mod keys;
mod manual;
mod model;
mod policy;
mod sources;
mod value;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use longhaul_harness::{
    planning::{PlanningSettings, Reviewer},
    spending::{BudgetSettings, Money, Prices},
};
pub use longhaul_model::Secret;
use longhaul_workspace::context::Profiles;

pub use error::{Origin, SettingsError};
pub use manual::manual;
pub use model::{ModelSettings, ModelSpec};
pub use sources::{FILE_NAME, Sources};

use longhaul_store::{StoreError, s3::S3Place};
use longhaul_tools::{
    mcp::McpServerSpec,
    policy::Policy,
    sandbox::{HostRule, SandboxBuilder},
};

use keys::{KEYS, Kind};
use value::{Base, Value, Written};

/// Every setting, checked and with its default filled in.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the store, the checks and the evidence live. Absolute.
    pub home: PathBuf,
    /// Where downloaded models are kept. Absolute.
    pub cache: PathBuf,
    /// Where large contents go, `s3://bucket/prefix`; `None` for beside the rows.
    pub blobs: Option<String>,
    /// The PostgreSQL database that holds the rows, when they are not in the home: `postgres://…`.
    pub store_url: Option<Secret>,
    /// How long another machine that works on a project is respected after its last sign of life, in seconds.
    pub lease_seconds: u64,
    /// The chat model.
    pub model: ModelSettings,
    /// The embedding model.
    pub embedding: EmbeddingSettings,
    /// Long-term memory.
    pub memory: MemorySettings,
    /// Context packs.
    pub context: ContextSettings,
    /// What the agent's commands may do.
    pub sandbox: SandboxLimits,
    /// The browser that verifies.
    pub browser: BrowserSettings,
    /// How sessions are run.
    pub harness: HarnessSettings,
    /// Which tool calls are carried out.
    pub policy: Policy,
    /// Servers of tools.
    pub mcp: Vec<McpServerSpec>,
    /// Folders with the user's skills; they need not exist. Absolute.
    pub skills: Vec<PathBuf>,
    /// What a project may cost.
    pub budget: BudgetSettings,
    /// The command that tells a person of events; none when empty.
    pub notify: Vec<String>,
    /// The agent network (kept for a later release).
    pub network: NetworkSettings,
    /// The Studio (kept for a later release).
    pub studio: StudioSettings,
    /// Where each value that is not a default was set, by key.
    pub origins: BTreeMap<&'static str, Origin>,
    /// Sentences the user should see once: what was ignored, and why.
    pub notices: Vec<String>,
}

/// The embedding model.
#[derive(Debug, Clone)]
pub struct EmbeddingSettings {
    /// Its name.
    pub model: String,
    /// The length of a service's vectors.
    pub dimension: u32,
    /// A folder that holds it, instead of the cache.
    pub path: Option<PathBuf>,
    /// The service that embeds, instead of a model on this machine.
    pub url: Option<String>,
    /// The service's key.
    pub api_key: Option<Secret>,
    /// What is put before queries, instead of what the model says.
    pub query_prompt: Option<String>,
    /// What is put before texts that are kept, instead of what the model says.
    pub document_prompt: Option<String>,
}

/// Long-term memory.
#[derive(Debug, Clone)]
pub struct MemorySettings {
    /// As given: a path, or the address of a Milvus server.
    pub uri: Option<String>,
    /// How the server knows us.
    pub token: Option<Secret>,
    /// Who vouches for the server's certificate.
    pub ca_file: Option<PathBuf>,
    /// Which index the server builds.
    pub index: longhaul_milvus::Index,
    /// Days after which half of what can fade of a kind's weight is gone; `None` for never. Kinds that are not named
    /// fade as they do by default.
    pub half_life_days: BTreeMap<longhaul_memory::Kind, Option<u32>>,
    /// Where cold memories are kept: a folder or `s3://bucket/prefix`; `None` for beside the store.
    pub cold: Option<String>,
    /// Days without use after which a memory becomes cold.
    pub cold_unused_days: Option<u32>,
    /// Days in no result after which a memory becomes cold.
    pub cold_unseen_days: Option<u32>,
    /// The newest so many memories of a namespace stay hot.
    pub cold_keep_newest: u32,
    /// What becomes of proposals for user memory.
    pub review: Review,
    /// How many memories a session starts with.
    pub recall_count: usize,
}

/// What becomes of proposals for what is known of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Review {
    /// What the user plainly said is applied, the rest waits.
    Sure,
    /// Everything waits for a person.
    Ask,
    /// Nothing is applied.
    Never,
}

/// Context packs.
#[derive(Debug, Clone)]
pub struct ContextSettings {
    /// The profile where none is named.
    pub profile: String,
    /// Most tokens where no budget is named.
    pub budget_tokens: u64,
    /// The profiles there are: those built in, and the user's own.
    pub profiles: Profiles,
}

/// Which network the agent's commands see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxNetwork {
    /// A network namespace of their own.
    Loopback,
    /// This machine's network.
    Host,
}

/// What the agent's commands may do.
#[derive(Debug, Clone, PartialEq)]
pub struct SandboxLimits {
    /// What they may reach.
    pub network: SandboxNetwork,
    /// How the sandbox may be built.
    pub builder: SandboxBuilder,
    /// Hosts they may reach through a proxy.
    pub allow: Vec<HostRule>,
    /// Paths inside the project that are read-only beside `.git`.
    pub readonly: Vec<PathBuf>,
    /// Absolute folders outside the project that commands may read.
    pub toolchains: Vec<PathBuf>,
    /// Absolute folders that come first in their `PATH`.
    pub path_first: Vec<PathBuf>,
    /// The longest a command may run, in seconds.
    pub command_seconds_max: u64,
    /// How much output the model is shown, in bytes.
    pub output_bytes_max: usize,
    /// Memory of one process, in bytes.
    pub memory_bytes_max: u64,
    /// Processes at once.
    pub processes_max: u64,
}

/// The browser that verifies.
#[derive(Debug, Clone, PartialEq)]
pub struct BrowserSettings {
    /// Which program, instead of the one found.
    pub program: Option<PathBuf>,
    /// With a window.
    pub headed: bool,
}

/// How sessions are run.
#[derive(Debug, Clone)]
pub struct HarnessSettings {
    /// The most coding sessions of one `run`.
    pub sessions_max: u64,
    /// The most model answers of one session.
    pub turns_max: u32,
    /// Failed sessions until a feature is parked.
    pub feature_attempts_max: u32,
    /// Refused claims until a session ends.
    pub claims_max: u32,
    /// Passing features verified again by each session.
    pub regression_sample: usize,
    /// Features verified at a time before the project counts as done.
    pub final_check_flows: usize,
    /// The longest `init.sh` may take until the application answers, in seconds.
    pub boot_seconds_max: u64,
    /// Times the same failure may be seen before the agent is told that it gets nowhere.
    pub stuck_repeats_max: u32,
    /// Answers in a row that may leave the folder as it is before that.
    pub stuck_turns_max: u32,
    /// How plans are held to account.
    pub planning: PlanningSettings,
    /// The most verifications of a search for the commit that broke a feature.
    pub bisect_verifications: u32,
    /// The longest such a search begins further ones, in seconds.
    pub bisect_seconds_max: u64,
    /// The agent that works in coding sessions.
    pub agent: AgentSettings,
}

/// The agent that works in coding sessions.
#[derive(Debug, Clone)]
pub struct AgentSettings {
    /// `own` or `acp:COMMAND`; `None` for the one the project was begun with.
    pub spec: Option<String>,
    /// Folders that it may read beside its own.
    pub reads: Vec<PathBuf>,
    /// The service of its model, without a slash at the end.
    pub upstream: Option<String>,
    /// That service's key.
    pub key: Option<Secret>,
    /// The longest session, in minutes.
    pub minutes_max: u64,
    /// The longest silence, in minutes.
    pub silence_minutes_max: u64,
}

/// The agent network (kept for a later release).
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkSettings {
    /// Where it listens.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// The Studio (kept for a later release).
#[derive(Debug, Clone, PartialEq)]
pub struct StudioSettings {
    /// Its port.
    pub port: u16,
}

impl Settings {
    /// Reads every source and checks every value, also those that a stronger source overrides.
    ///
    /// # Errors
    /// The first thing that is wrong, with the place it was written.
    pub fn load(sources: &Sources) -> Result<Self, SettingsError> {
        let (assignments, mut notices) = sources::gather(sources)?;
        let mut values = Values::default();
        let user_home = sources.user_home.as_deref();
        for key in KEYS {
            if let Some(default) = key.default.filter(|default| !default.is_empty()) {
                let base = Base { folder: Path::new("/"), user_home };
                let value = value::check(key, Written::Text(default.to_owned()), base, &Origin::Default)?;
                values.0.insert(key.name, (value, Origin::Default));
            }
        }
        for assignment in assignments {
            let base = Base { folder: &assignment.folder, user_home };
            let value = value::check(assignment.key, assignment.written, base, &assignment.origin)?;
            values.0.insert(assignment.key.name, (value, assignment.origin));
        }
        embedding_notice(&values, &mut notices)?;
        let settings = Self::from_values(&values, sources, notices)?;
        Ok(settings)
    }

    /// The folder below the cache in which downloaded models are kept.
    #[must_use]
    pub fn models_dir(&self) -> PathBuf {
        self.cache.join("models")
    }

    /// The bucket for large contents, with its keys from the environment.
    ///
    /// # Errors
    /// What is missing or wrong; never a key.
    pub fn bucket(&self) -> Result<Option<Box<S3Place>>, StoreError> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let place = self.blobs.as_deref().map(|blobs| S3Place::parse(blobs, variable));
        Ok(place.transpose()?.map(Box::new))
    }

    /// Variables of the environment that hold keys.
    pub(crate) fn secret_variables() -> Vec<String> {
        keys::secret_variables()
    }

    fn from_values(values: &Values, sources: &Sources, notices: Vec<String>) -> Result<Self, SettingsError> {
        Ok(Self {
            home: values
                .path("home")
                .or_else(|| sources.xdg("XDG_DATA_HOME", ".local/share"))
                .ok_or(SettingsError::NoHome)?,
            cache: values
                .path("cache")
                .or_else(|| sources.xdg("XDG_CACHE_HOME", ".cache"))
                .ok_or(SettingsError::NoHome)?,
            blobs: values.text("store.blobs"),
            store_url: values.secret("store.url"),
            lease_seconds: values.number("store.lease_seconds"),
            model: ModelSettings::from_values(values),
            embedding: EmbeddingSettings {
                model: values.text("embedding.model").unwrap_or_default(),
                dimension: values.number("embedding.dimension"),
                path: values.path("embedding.path"),
                url: values.text("embedding.url"),
                api_key: values.secret("embedding.api_key"),
                query_prompt: values.text("embedding.query_prompt"),
                document_prompt: values.text("embedding.document_prompt"),
            },
            memory: MemorySettings {
                uri: values.text("memory.uri"),
                token: values.secret("memory.token"),
                ca_file: values.path("memory.ca_file"),
                index: values.text("memory.index").and_then(|text| text.parse().ok()).unwrap_or_default(),
                half_life_days: values
                    .text("memory.half_life_days")
                    .and_then(|text| value::days_by_kind(&text))
                    .unwrap_or_default(),
                cold: values.text("memory.cold"),
                cold_unused_days: values.optional_number("memory.cold_unused_days"),
                cold_unseen_days: values.optional_number("memory.cold_unseen_days"),
                cold_keep_newest: values.number("memory.cold_keep_newest"),
                review: match values.text("memory.review").as_deref() {
                    Some("ask") => Review::Ask,
                    Some("never") => Review::Never,
                    Some(_) | None => Review::Sure,
                },
                recall_count: values.number("memory.recall_count"),
            },
            context: ContextSettings {
                profile: values.text("context.profile").unwrap_or_default(),
                budget_tokens: values.number("context.budget_tokens"),
                profiles: values.profiles("context.profiles"),
            },
            sandbox: SandboxLimits {
                network: match values.text("sandbox.network").as_deref() {
                    Some("host") => SandboxNetwork::Host,
                    Some(_) | None => SandboxNetwork::Loopback,
                },
                builder: match values.text("sandbox.kind").as_deref() {
                    Some("bubblewrap") => SandboxBuilder::Bubblewrap,
                    Some("landlock") => SandboxBuilder::Landlock,
                    Some(_) | None => SandboxBuilder::Any,
                },
                allow: policy::hosts(&values.texts("sandbox.allow")).unwrap_or_default(),
                readonly: values.paths("sandbox.readonly"),
                toolchains: values.paths("sandbox.toolchains"),
                path_first: values.paths("sandbox.path_first"),
                command_seconds_max: values.number("sandbox.command_seconds_max"),
                output_bytes_max: values.number("sandbox.output_bytes_max"),
                memory_bytes_max: values.number::<u64>("sandbox.memory_mib_max") * 1024 * 1024,
                processes_max: values.number("sandbox.processes_max"),
            },
            browser: BrowserSettings { program: values.path("browser.program"), headed: values.flag("browser.headed") },
            harness: HarnessSettings {
                sessions_max: values.number("harness.sessions_max"),
                turns_max: values.number("harness.turns_max"),
                feature_attempts_max: values.number("harness.feature_attempts_max"),
                claims_max: values.number("harness.claims_max"),
                regression_sample: values.number("harness.regression_sample"),
                final_check_flows: values.number("harness.final_check_flows"),
                boot_seconds_max: values.number("harness.boot_seconds_max"),
                agent: AgentSettings {
                    spec: values.text("harness.agent"),
                    reads: values.paths("harness.agent_reads"),
                    upstream: values.text("harness.agent_upstream"),
                    key: values.secret("harness.agent_key"),
                    minutes_max: values.number("harness.agent_minutes_max"),
                    silence_minutes_max: values.number("harness.agent_silence_minutes_max"),
                },
                bisect_verifications: values.number("harness.bisect_verifications"),
                bisect_seconds_max: values.number("harness.bisect_seconds_max"),
                stuck_repeats_max: values.number("harness.stuck_repeats_max"),
                stuck_turns_max: values.number("harness.stuck_turns_max"),
                planning: PlanningSettings {
                    features_min: values.number("harness.features_min"),
                    reviewer: match values.text("harness.reviewer").as_deref() {
                        Some("model") => Reviewer::Model,
                        Some(_) | None => Reviewer::Person,
                    },
                },
            },
            budget: BudgetSettings {
                tokens_max: values.optional_number("budget.tokens_max"),
                money_max: values.money("budget.money_max"),
                hours_max: values.optional_number("budget.hours_max"),
                sessions_max: values.optional_number("budget.sessions_max"),
                attempts: values.optional_number("budget.attempts"),
                prices: values.prices("prices"),
            },
            notify: values.texts("notify.command"),
            policy: policy::policy(&values),
            mcp: values.servers("mcp.servers"),
            skills: policy::skill_folders(sources),
            network: NetworkSettings {
                host: values.text("network.host").unwrap_or_default(),
                port: values.number("network.port"),
            },
            studio: StudioSettings { port: values.number("studio.port") },
            origins: values.set_by_hand(),
            notices,
        })
    }
}

impl Sources {
    fn xdg(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let given = self.environment.get(variable).filter(|value| value.starts_with('/')).map(PathBuf::from);
        Some(given.or_else(|| Some(self.user_home.as_ref()?.join(below_home)))?.join("longhaul"))
    }
}

/// A service must be told its model and the length of the vectors; without one, a name other than the built-in model's is
/// kept and said to be unused, and a wrong length for the built-in one is an error.
fn embedding_notice(values: &Values, notices: &mut Vec<String>) -> Result<(), SettingsError> {
    const BUILT_IN: (&str, u64) = ("all-MiniLM-L6-v2", 384);
    let refuse = |key: &'static str, expected: String, found: Option<String>| {
        Err(SettingsError::Value { origin: values.origin(key), key, expected, found })
    };
    if values.text("embedding.url").is_some() {
        if values.path("embedding.path").is_some() {
            return refuse("embedding.path", "left out where `embedding.url` is set".to_owned(), None);
        }
        for key in ["embedding.model", "embedding.dimension"] {
            if values.origin(key) == Origin::Default {
                return refuse(
                    key,
                    "set together with `embedding.url`, as the service's model has it".to_owned(),
                    None,
                );
            }
        }
        return Ok(());
    }
    let short = |name: &str| name.rsplit('/').next().unwrap_or(name).eq_ignore_ascii_case(BUILT_IN.0);
    let Some(name) = values.text("embedding.model").filter(|_| values.path("embedding.path").is_none()) else {
        return Ok(());
    };
    if !short(&name) {
        notices.push(format!(
            "embedding model {name} is not used: it needs `embedding.url` or `embedding.path`; memory embeds with {}, on this machine ({})",
            BUILT_IN.0,
            values.origin("embedding.model")
        ));
        return Ok(());
    }
    let dimension: u64 = values.number("embedding.dimension");
    if dimension == BUILT_IN.1 {
        return Ok(());
    }
    refuse("embedding.dimension", format!("{} for {}", BUILT_IN.1, BUILT_IN.0), Some(dimension.to_string()))
}

/// Checked values by key, with where each came from.
#[derive(Debug, Default)]
struct Values(BTreeMap<&'static str, (Value, Origin)>);

impl Values {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).map(|(value, _)| value)
    }

    fn origin(&self, name: &str) -> Origin {
        self.0.get(name).map_or(Origin::Default, |(_, origin)| origin.clone())
    }

    fn set_by_hand(&self) -> BTreeMap<&'static str, Origin> {
        let by_hand = self.0.iter().filter(|(_, (_, origin))| *origin != Origin::Default);
        by_hand.map(|(name, (_, origin))| (*name, origin.clone())).collect()
    }

    fn text(&self, name: &str) -> Option<String> {
        if let Some(Value::Text(text)) = self.get(name) { Some(text.clone()) } else { None }
    }

    fn secret(&self, name: &str) -> Option<Secret> {
        if let Some(Value::Secret(secret)) = self.get(name) { Some(secret.clone()) } else { None }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        if let Some(Value::Path(path)) = self.get(name) { Some(path.clone()) } else { None }
    }

    fn paths(&self, name: &str) -> Vec<PathBuf> {
        if let Some(Value::Paths(paths)) = self.get(name) { paths.clone() } else { Vec::new() }
    }

    fn profiles(&self, name: &str) -> Profiles {
        if let Some(Value::Profiles(profiles)) = self.get(name) { profiles.clone() } else { Profiles::default() }
    }

    fn texts(&self, name: &str) -> Vec<String> {
        if let Some(Value::Texts(texts)) = self.get(name) { texts.clone() } else { Vec::new() }
    }

    fn servers(&self, name: &str) -> Vec<McpServerSpec> {
        if let Some(Value::Servers(servers)) = self.get(name) { servers.clone() } else { Vec::new() }
    }

    fn money(&self, name: &str) -> Option<Money> {
        if let Some(Value::Money(money)) = self.get(name) { Some(*money) } else { None }
    }

    fn prices(&self, name: &str) -> Prices {
        if let Some(Value::Prices(prices)) = self.get(name) { prices.clone() } else { Prices::default() }
    }

    fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Value::Bool(true)))
    }

    /// A number that may be missing; its bounds fit the type it is read into.
    fn optional_number<T: TryFrom<u64>>(&self, name: &str) -> Option<T> {
        if let Some(Value::Integer(number)) = self.get(name) { T::try_from(*number).ok() } else { None }
    }

    /// A number; it has a default, and its bounds fit the type it is read into.
    fn number<T: TryFrom<u64> + Default>(&self, name: &str) -> T {
        debug_assert!(matches!(keys::find(name).map(|key| key.kind), Some(Kind::Integer { .. })), "{name}");
        if let Some(Value::Integer(number)) = self.get(name) {
            T::try_from(*number).unwrap_or_default()
        } else {
            T::default()
        }
    }
}
