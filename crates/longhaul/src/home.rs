//! An opened home: the store with every crate's tables, and how live components are made from the settings.

use std::{path::PathBuf, sync::Arc, time::Duration};

use longhaul_core::{Ambient, Event, Scope, TraceId};
use longhaul_durable::{Progress, Runtime};
use longhaul_harness::{
    BisectSettings, ExternalAgent, Harness, HarnessSettings, SandboxPlace, people::People, spending::Spending,
};
use longhaul_memory::{Embedder, Memory, remote::RemoteVectors};
use longhaul_model::{ChatModel, Retry};
use longhaul_store::{StateKeys, Store, StoreError, StoreSettings};
use longhaul_tools::{
    ShellLimits,
    browser::SharedBrowser,
    sandbox::{Network, SandboxInit, SandboxLimits, SandboxSettings},
};
use longhaul_workspace::Workspace;
use tokio::sync::broadcast;

use crate::{
    LonghaulError, embedding,
    memories::wiring,
    settings::{ModelSpec, SandboxNetwork, Settings},
    vectors,
};

/// Retries kept for a reader that is late.
const RETRIES_KEPT: usize = 16;

/// The program that acts inside the sandbox.
#[derive(Debug, Clone)]
pub struct Program {
    /// The executable and its leading arguments.
    pub sandbox_init: SandboxInit,
}

impl Program {
    /// This executable, whose hidden command `sandbox-init` is [`crate::sandbox_init_main`].
    ///
    /// # Errors
    /// When the operating system does not tell where it is.
    pub fn this_one() -> Result<Self, LonghaulError> {
        let program = std::env::current_exe().map_err(LonghaulError::NoProgram)?;
        Ok(Self { sandbox_init: SandboxInit { program, args: vec!["sandbox-init".to_owned()] } })
    }
}

/// Longhaul on this machine: one home, one user.
pub struct Longhaul {
    pub(crate) settings: Settings,
    pub(crate) store: Store,
    pub(crate) runtime: Runtime,
    pub(crate) ambient: Ambient,
    pub(crate) scope: Scope,
    /// Tells whoever shows the work that the model's service is asked again.
    pub(crate) retries: broadcast::Sender<Retry>,
    /// Joins what this opening causes.
    pub(crate) trace: TraceId,
    /// A server that has a copy of memory's vectors.
    vectors: Option<Arc<dyn RemoteVectors>>,
    program: Program,
}

impl Longhaul {
    /// Opens the home; makes it when it is new.
    ///
    /// # Errors
    /// When the store is damaged, newer than this program, or cannot be written.
    pub async fn open(settings: Settings, program: Program) -> Result<Self, LonghaulError> {
        let ambient = Ambient::system();
        let migrations = [
            longhaul_durable::MIGRATIONS,
            longhaul_memory::MIGRATIONS,
            longhaul_knowledge::MIGRATIONS,
            longhaul_workspace::MIGRATIONS,
            longhaul_harness::MIGRATIONS,
            longhaul_network::MIGRATIONS,
            longhaul_mods::MIGRATIONS,
        ];
        let vectors = vectors::server(&settings.memory, &ambient)?;
        let keys = StateKeys::from_env().map_err(StoreError::from)?;
        let place = match &settings.store_url {
            Some(url) => StoreSettings::from_url(url.expose(), &settings.home)?,
            None => StoreSettings::new(&settings.home),
        };
        let place = StoreSettings { keys, bucket: settings.bucket()?, ..place };
        let store = Store::open(place, ambient.clone(), &migrations).await?;
        let swept = store.clone();
        tokio::spawn(async move {
            // First the rows, then what nothing refers to any more.
            if let Err(error) = longhaul_workspace::remove_expired(&swept).await {
                tracing::warn!(%error, "expired records could not be removed");
            }
            if let Err(error) = swept.sweep_at_start().await {
                tracing::warn!(%error, "what dead processes left half written could not be cleared away");
            }
        });
        Ok(Self {
            runtime: Runtime::new(store.clone(), ambient.clone())
                .with_lease_ttl(Duration::from_secs(settings.lease_seconds)),
            scope: Scope::single_user(),
            trace: TraceId::from_body(&ambient.ids.body()),
            retries: broadcast::Sender::new(RETRIES_KEPT),
            store,
            settings,
            ambient,
            vectors,
            program,
        })
    }

    /// Events as they are committed, live.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.store.subscribe()
    }

    /// News of steps that begin; for showing only, nothing of it is recorded.
    #[must_use]
    pub fn progress(&self) -> broadcast::Receiver<Progress> {
        self.runtime.progress()
    }

    /// Requests to the model's service that failed and are made again after a wait, live. They are recorded with the
    /// answer.
    #[must_use]
    pub fn retries(&self) -> broadcast::Receiver<Retry> {
        self.retries.subscribe()
    }

    /// The settings it was opened with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The local embedding model.
    pub(crate) fn embedder(&self) -> Result<Arc<dyn Embedder>, LonghaulError> {
        Ok(embedding::embedder(&self.settings, &self.ambient)?)
    }

    /// The live components of the harness, with our own loop as the worker.
    pub(crate) fn harness(&self, model: Arc<dyn ChatModel>, embedder: Option<Arc<dyn Embedder>>) -> Arc<Harness> {
        self.harness_with(model, embedder, None)
    }

    /// The live components of the harness.
    pub(crate) fn harness_with(
        &self,
        model: Arc<dyn ChatModel>,
        embedder: Option<Arc<dyn Embedder>>,
        agent: Option<ExternalAgent>,
    ) -> Arc<Harness> {
        let (limits, init) = (self.settings.sandbox.clone(), self.program.sandbox_init.clone());
        // Scripts of the user's skills are run where they are.
        let skills: Vec<PathBuf> = self.settings.skills.iter().filter(|folder| folder.is_dir()).cloned().collect();
        let memory = self.memory(embedder);
        Arc::new(Harness {
            store: self.store.clone(),
            ambient: self.ambient.clone(),
            workspace: Workspace::new(self.store.clone(), memory.clone()),
            memory,
            model,
            browser: SharedBrowser::new(self.browser_settings()),
            sandbox: Arc::new(move |place: SandboxPlace| {
                let mut settings = SandboxSettings::new(place.project, place.runtime_dir, init.clone());
                settings.readonly.extend(limits.readonly.iter().cloned());
                settings.builder = limits.builder;
                settings.toolchains.clone_from(&limits.toolchains);
                settings.toolchains.extend(skills.iter().cloned());
                settings.path_first.clone_from(&limits.path_first);
                settings.limits = SandboxLimits {
                    memory_bytes_max: limits.memory_bytes_max,
                    processes_max: limits.processes_max,
                    ..SandboxLimits::default()
                };
                settings.network = match limits.network {
                    SandboxNetwork::Loopback if !limits.allow.is_empty() => Network::Allow(limits.allow.clone()),
                    SandboxNetwork::Loopback => Network::LoopbackOnly,
                    SandboxNetwork::Host => Network::Host,
                };
                settings
            }),
            spending: Spending::new(self.store.clone(), self.ambient.clone(), self.settings.budget.clone())
                .answered_also_by(self.settings.model.fallback.iter().filter_map(ModelSpec::name).collect()),
            people: People::new(self.store.clone()),
            work_dir: self.work_dir(),
            settings: self.harness_settings(),
            agent,
        })
    }

    /// What is kept of tasks; without an embedder it is searched by words alone.
    pub(crate) fn workspace(&self, embedder: Option<Arc<dyn Embedder>>) -> Workspace {
        Workspace::new(self.store.clone(), self.memory(embedder))
    }

    /// The memory of the harness, as the settings want it.
    pub(crate) fn memory(&self, embedder: Option<Arc<dyn Embedder>>) -> Memory {
        let memory = embedding::memory(self.store.clone(), embedder, &self.settings);
        if let Err(error) = wiring::configure(&memory, &self.settings.memory) {
            // Hot memories are found without it; `longhaul memory tiers` says what is wrong.
            tracing::warn!(%error, "the cold tier of memory cannot be used");
        }
        if let Some(vectors) = &self.vectors {
            // New memory has no other server yet.
            let _ = memory.connect(vectors.clone());
        }
        memory
    }

    pub(crate) fn work_dir(&self) -> PathBuf {
        self.settings.home.join("work")
    }

    fn harness_settings(&self) -> HarnessSettings {
        let given = &self.settings.harness;
        HarnessSettings {
            sessions_max: given.sessions_max,
            turns_max: given.turns_max,
            answer_tokens_max: self.settings.model.answer_tokens_max,
            feature_attempts_max: given.feature_attempts_max,
            claims_max: given.claims_max,
            regression_sample: given.regression_sample,
            final_check_flows: given.final_check_flows,
            bisect: BisectSettings {
                verifications_max: given.bisect_verifications,
                time_max: Duration::from_secs(given.bisect_seconds_max),
            },
            recall_count: self.settings.memory.recall_count,
            boot_timeout: Duration::from_secs(given.boot_seconds_max),
            stuck_repeats_max: given.stuck_repeats_max,
            stuck_turns_max: given.stuck_turns_max,
            budget: self.settings.budget.clone(),
            planning: given.planning,
            shell: ShellLimits {
                seconds_max: self.settings.sandbox.command_seconds_max,
                output_bytes_max: self.settings.sandbox.output_bytes_max,
            },
            policy: self.settings.policy.clone(),
            mcp: self.settings.mcp.clone(),
            skills: self.settings.skills.clone(),
            ..HarnessSettings::default()
        }
    }
}
