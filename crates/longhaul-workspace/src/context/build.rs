//! Building a pack: search, read everything that was found in one snapshot, then choose.
//!
//! It owns the order of these. Invariants: nothing is written, and nothing outside the scope is looked at.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use longhaul_core::{Scope, SessionId, TaskId, TaskScope};
use longhaul_memory::Namespace;

use super::{
    error::ContextError,
    fill,
    gather::Asked,
    pack::ContextPack,
    profile::{Profile, Profiles, Tokenizer},
    reach,
    snapshot::Snapshot,
};
use crate::{TaskWorkspace, TokenCounter, UsageReport, UsageReports, UserWorkspace, Workspace, tokens::Tokenizers};

/// Tokens of a pack where the caller names no budget.
pub const BUDGET_TOKENS_DEFAULT: u64 = 12_000;
/// Characters of a goal that count.
const GOAL_CHARS_MAX: usize = 4_096;

/// What a pack is wanted for.
#[derive(Clone)]
pub struct ContextRequest {
    /// What is to be done, in any language.
    pub goal: String,
    /// Most tokens of the rendered pack.
    pub budget_tokens: u64,
    /// A profile's name.
    pub profile: String,
    /// The namespaces of memory that are searched beside what is known of the user; `main` unless others are named.
    pub memory: Vec<Namespace>,
    /// Counts tokens in place of what the profile says.
    pub counter: Option<Arc<dyn TokenCounter>>,
}

impl ContextRequest {
    /// A pack of 12,000 tokens for this goal, by the profile `auto`.
    #[must_use]
    pub fn new(goal: impl Into<String>) -> Self {
        Self {
            goal: goal.into(),
            budget_tokens: BUDGET_TOKENS_DEFAULT,
            profile: "auto".to_owned(),
            memory: vec![Namespace::default()],
            counter: None,
        }
    }

    /// The same with this budget.
    #[must_use]
    pub fn budget_tokens(mut self, tokens: u64) -> Self {
        self.budget_tokens = tokens;
        self
    }

    /// The same by this profile.
    #[must_use]
    pub fn profile(mut self, name: &str) -> Self {
        name.clone_into(&mut self.profile);
        self
    }
}

impl fmt::Debug for ContextRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContextRequest")
            .field("goal", &self.goal)
            .field("budget_tokens", &self.budget_tokens)
            .field("profile", &self.profile)
            .field("memory", &self.memory)
            .field("counter", &self.counter.as_ref().map(|counter| counter.name()))
            .finish()
    }
}

/// Whose tasks a pack is taken from.
#[derive(Debug, Clone)]
pub(super) struct Within {
    pub(super) scope: Scope,
    /// One task and the conversation that asked for it; all of the user's without.
    pub(super) task: Option<(TaskId, SessionId)>,
}

/// Builds packs by profiles of one's own, and learns from what a model's service reports. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Contexts {
    workspace: Workspace,
    profiles: Arc<Profiles>,
    tokenizers: Tokenizers,
    reports: Arc<Mutex<UsageReports>>,
}

impl Contexts {
    /// Over this workspace, with these profiles.
    #[must_use]
    pub fn new(workspace: Workspace, profiles: Profiles) -> Self {
        Self { workspace, profiles: Arc::new(profiles), tokenizers: Tokenizers::default(), reports: Arc::default() }
    }

    /// The profiles there are.
    #[must_use]
    pub fn profiles(&self) -> &Profiles {
        &self.profiles
    }

    /// Takes note of what a model's service said of a request's size: profiles that count by the estimate correct it by
    /// that.
    pub fn report(&self, report: UsageReport) {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).add(report);
    }

    /// A pack of one task: its records, the conversation that asked for it, what was said in its course, and the memory
    /// of its user. Writes nothing.
    ///
    /// # Errors
    /// [`ContextError::NoGoal`], [`ContextError::UnknownProfile`], [`ContextError::Tokenizer`]; those of the store.
    pub async fn build(&self, owner: &TaskScope, request: &ContextRequest) -> Result<ContextPack, ContextError> {
        let task = Some((owner.task.clone(), owner.session.clone()));
        self.pack(Within { scope: owner.scope.clone(), task }, request).await
    }

    /// A pack of all tasks whose records the user may read, the most recently written 256 of them.
    ///
    /// # Errors
    /// As [`Contexts::build`].
    pub async fn build_of_all(&self, scope: &Scope, request: &ContextRequest) -> Result<ContextPack, ContextError> {
        self.pack(Within { scope: scope.clone(), task: None }, request).await
    }

    async fn pack(&self, within: Within, request: &ContextRequest) -> Result<ContextPack, ContextError> {
        let started = Instant::now();
        if request.goal.trim().is_empty() {
            return Err(ContextError::NoGoal);
        }
        let profile = self.profiles.get(&request.profile)?.clone();
        let counter = self.counter(request, &profile)?;
        let goal: String = request.goal.chars().take(GOAL_CHARS_MAX).collect();
        let store = self.workspace.store();
        let reach = reach::find(store, &within).await?;
        let memory = self.workspace.memory();
        let asked = Asked { within, reach, goal, profile: profile.clone(), memory: request.memory.clone() };
        let found = asked.search(memory).await?;
        let (reader, asked) = (memory.clone(), Arc::new(asked));
        let gathered = store.read(move |read| Snapshot::new(read, &reader, &asked).gather(found)).await?;
        let now = store.ambient().clock.now();
        let filled = fill::fill(gathered.candidates, &profile, request.budget_tokens, counter.as_ref(), now);
        let mut omitted = filled.omitted;
        omitted.extend(gathered.omitted);
        Ok(ContextPack {
            goal: request.goal.clone(),
            profile: profile.name,
            budget_tokens: request.budget_tokens,
            used_tokens: filled.used_tokens,
            counted_by: counter.name(),
            items: filled.items,
            omitted,
            notes: gathered.notes,
            searched: gathered.searched,
            elapsed_us: u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX),
        })
    }

    fn counter(&self, request: &ContextRequest, profile: &Profile) -> Result<Arc<dyn TokenCounter>, ContextError> {
        if let Some(counter) = &request.counter {
            return Ok(counter.clone());
        }
        Ok(match &profile.tokenizer {
            Tokenizer::Estimate => Arc::new(self.reports.lock().unwrap_or_else(PoisonError::into_inner).counter()),
            Tokenizer::File(path) => self.tokenizers.get(path)?,
        })
    }
}

impl TaskWorkspace {
    /// A pack of this task by a profile that is built in; see [`Contexts`] for one's own.
    ///
    /// # Errors
    /// As [`Contexts::build`].
    pub async fn build_context(&self, request: &ContextRequest) -> Result<ContextPack, ContextError> {
        Contexts::new(self.workspace().clone(), Profiles::default()).build(self.owner(), request).await
    }
}

impl UserWorkspace {
    /// A pack of all the user's tasks by a profile that is built in; see [`Contexts`] for one's own.
    ///
    /// # Errors
    /// As [`Contexts::build`].
    pub async fn build_context(&self, request: &ContextRequest) -> Result<ContextPack, ContextError> {
        Contexts::new(self.workspace().clone(), Profiles::default()).build_of_all(self.scope(), request).await
    }
}
