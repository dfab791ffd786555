//! What the harness works with: the live components, given at build time, and its settings, plain data.

use std::{path::PathBuf, sync::Arc, time::Duration};

use longhaul_core::Ambient;
use longhaul_memory::Memory;
use longhaul_model::ChatModel;
use longhaul_store::Store;
use longhaul_tools::{
    ShellLimits,
    browser::SharedBrowser,
    mcp::McpServerSpec,
    policy::Policy,
    sandbox::{Sandbox, SandboxError, SandboxSettings},
};
use longhaul_workspace::Workspace;

use crate::{
    external::ExternalAgent,
    people::People,
    planning::PlanningSettings,
    spending::{BudgetSettings, Spending},
};

/// How sessions are run. Plain data; start from [`HarnessSettings::default`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HarnessSettings {
    /// Most coding sessions of one run.
    pub sessions_max: u64,
    /// Most answers of the model in one session.
    pub turns_max: u32,
    /// Most tokens of one answer.
    pub answer_tokens_max: u32,
    /// Sessions without success after which a feature is parked.
    pub feature_attempts_max: u32,
    /// Refused claims after which a session ends.
    pub claims_max: u32,
    /// Passing features verified again at the start of a session.
    pub regression_sample: usize,
    /// Flows at a time when all features are verified before the project counts as done; 1 to [`crate::JOBS_MAX`].
    pub final_check_flows: usize,
    /// How far a session looks for the commit that broke a feature.
    pub bisect: crate::bisect::BisectSettings,
    /// Memories a session starts with.
    pub recall_count: usize,
    /// Longest boot of the application.
    pub boot_timeout: Duration,
    /// Longest run of one of the project's own commands (build, lint, test).
    pub quality_timeout: Duration,
    /// Bounds of the agent's commands.
    pub shell: ShellLimits,
    /// Which tool calls are carried out, asked for or refused.
    pub policy: Policy,
    /// Servers of tools, started in the sandbox for each session.
    pub mcp: Vec<McpServerSpec>,
    /// Folders with skills of the user.
    pub skills: Vec<PathBuf>,
    /// Longest verification flow.
    pub flow_timeout: Duration,
    /// Port on which the application listens, in its own network namespace.
    pub app_port: u16,
    /// Times the same failure may be seen in a session before its agent is told that it gets nowhere.
    pub stuck_repeats_max: u32,
    /// Answers in a row that may leave the folder as it is before that.
    pub stuck_turns_max: u32,
    /// What the project may cost.
    pub budget: BudgetSettings,
    /// How plans are held to account.
    pub planning: PlanningSettings,
}

impl Default for HarnessSettings {
    fn default() -> Self {
        Self {
            sessions_max: 1_000,
            turns_max: 100,
            answer_tokens_max: 16_000,
            feature_attempts_max: 3,
            claims_max: 5,
            regression_sample: 2,
            final_check_flows: 2,
            bisect: crate::bisect::BisectSettings::default(),
            recall_count: 5,
            boot_timeout: Duration::from_secs(60),
            quality_timeout: Duration::from_mins(10),
            shell: ShellLimits::default(),
            policy: Policy::default(),
            mcp: Vec::new(),
            skills: Vec::new(),
            flow_timeout: Duration::from_mins(2),
            app_port: 8000,
            stuck_repeats_max: 4,
            stuck_turns_max: 30,
            budget: BudgetSettings::default(),
            planning: PlanningSettings::default(),
        }
    }
}

/// Makes a sandbox around a project folder; given by whoever knows the host's settings.
pub type SandboxFactory = Arc<dyn Fn(SandboxPlace) -> SandboxSettings + Send + Sync>;

/// Where a sandbox works.
#[derive(Debug, Clone)]
pub struct SandboxPlace {
    /// The project's folder.
    pub project: PathBuf,
    /// A folder outside it for sockets.
    pub runtime_dir: PathBuf,
}

/// The components of a harness. They are live: none of them is ever part of an execution's state.
pub struct Harness {
    /// The state store.
    pub store: Store,
    /// Time, randomness, identity.
    pub ambient: Ambient,
    /// Long-term memory.
    pub memory: Memory,
    /// Records of evidence and unfinished work.
    pub workspace: Workspace,
    /// The chat model.
    pub model: Arc<dyn ChatModel>,
    /// The browser that verifies; started when it is first needed.
    pub browser: SharedBrowser,
    /// How a project's sandbox is built.
    pub sandbox: SandboxFactory,
    /// What runs may spend.
    pub spending: Spending,
    /// What people tell runs while they work.
    pub people: People,
    /// Folder for snapshots, sockets and application data, outside every project.
    pub work_dir: PathBuf,
    /// How sessions are run.
    pub settings: HarnessSettings,
    /// Who works in coding sessions, if not our own loop.
    pub agent: Option<ExternalAgent>,
}

impl Harness {
    /// Failed sessions after which a feature is parked: the stricter of the user's and the project's word.
    pub(crate) fn attempts_max(&self) -> u32 {
        let of_project = self.settings.feature_attempts_max;
        self.settings.budget.attempts.map_or(of_project, |of_user| of_user.min(of_project))
    }

    /// The folder of one task beneath [`Harness::work_dir`].
    #[must_use]
    pub fn task_dir(&self, task: &longhaul_core::TaskId) -> PathBuf {
        self.work_dir.join(task.as_str())
    }

    /// A sandbox around the project, in which these folders of it cannot be written.
    pub(crate) fn open_sandbox(
        &self,
        project: PathBuf,
        runtime_dir: PathBuf,
        readonly: &[PathBuf],
    ) -> Result<Sandbox, SandboxError> {
        let mut settings = (self.sandbox)(SandboxPlace { project, runtime_dir });
        settings.readonly.extend_from_slice(readonly);
        Sandbox::new(settings)
    }
}
