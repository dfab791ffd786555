//! A project: one task of the harness, the folder it works in, and what the initializer said of it. It is a row of the
//! store's tasks; the harness's details are in that row's data.

use std::path::{Path, PathBuf};

use longhaul_core::{Scope, TaskId, TaskScope, ThreadId};
use longhaul_store::{
    ReadTx, StoreError, Tx,
    tasks::{self, NewTask, Task},
};
use serde::{Deserialize, Serialize};

use crate::{planning::Size, profile::Profile};

/// The kind of the harness's tasks.
const KIND: &str = "harness";
const TITLE_CHARS_MAX: usize = 120;

/// What the initializer said of the project; locked with the plan.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Brief {
    /// What is being built, in a few sentences.
    pub summary: String,
    /// Command that builds it, if it needs building.
    pub build: Option<String>,
    /// Command that checks the code's style, if there is one.
    pub lint: Option<String>,
    /// Command that runs the project's own tests, if there is one.
    pub test: Option<String>,
    /// How large the thing is, in the initializer's judgement; the plan is held to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
}

/// A project as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Whose it is, and its task id.
    pub owner: TaskScope,
    /// The name of its state; a run on it resumes there.
    pub thread: ThreadId,
    /// Absolute path of its folder.
    pub dir: PathBuf,
    /// The request, in the user's words.
    pub request: String,
    /// The model it was begun with: `openai:NAME` or `cassette:FILE`.
    pub model: String,
    /// Where the model's service is, when the user named a place.
    pub base_url: Option<String>,
    /// What kind of work it is.
    pub profile: Profile,
    /// The commit at which somebody's repository was taken over; none for a project begun here.
    pub adopted: Option<String>,
    /// What the initializer said of it.
    pub brief: Brief,
    /// Who works in its coding sessions, as it was named last: `own` or `acp:COMMAND`.
    pub agent: Option<String>,
}

/// A project to be registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewProject {
    /// Absolute path of its folder.
    pub dir: PathBuf,
    /// The request, in the user's words.
    pub request: String,
    /// The model: `openai:NAME` or `cassette:FILE`.
    pub model: String,
    /// Where the model's service is, when the user named a place.
    pub base_url: Option<String>,
    /// What kind of work it is.
    pub profile: Profile,
    /// The commit at which somebody's repository is taken over.
    pub adopted: Option<String>,
}

/// The harness's part of a task row.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Details {
    schema: u32,
    request: String,
    base_url: Option<String>,
    #[serde(default, skip_serializing_if = "Profile::is_default")]
    profile: Profile,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    adopted: Option<String>,
    brief: Brief,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
}

impl Project {
    fn from_task(task: Task) -> Result<Self, StoreError> {
        let id = task.scope.task.clone();
        let details: Details = serde_json::from_value(task.data).map_err(StoreError::record("project", id))?;
        Ok(Self {
            owner: task.scope,
            thread: task.thread,
            dir: PathBuf::from(task.dir.unwrap_or_default()),
            request: details.request,
            base_url: details.base_url,
            model: task.model.unwrap_or_default(),
            profile: details.profile,
            adopted: details.adopted,
            brief: details.brief,
            agent: details.agent,
        })
    }

    fn details(&self) -> serde_json::Value {
        let (request, base_url) = (self.request.clone(), self.base_url.clone());
        let (profile, adopted) = (self.profile, self.adopted.clone());
        let (brief, agent) = (self.brief.clone(), self.agent.clone());
        let details = Details { schema: 1, request, base_url, profile, adopted, brief, agent };
        serde_json::to_value(details).expect("texts make JSON")
    }

    /// Writes what may change of a project: folder, model, brief, agent.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn save(&self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        let dir = self.dir.to_string_lossy();
        tasks::update(tx, &self.owner.scope, &self.owner.task, Some(&dir), Some(&self.model), &self.details())
    }
}

/// Registers a project in this folder.
///
/// # Errors
/// When the store cannot be written.
pub fn create(tx: &mut Tx<'_>, scope: &Scope, new: NewProject) -> Result<Project, StoreError> {
    let body = tx.ambient().ids.body();
    let title = new.request.chars().take(TITLE_CHARS_MAX).collect();
    let details = Details {
        schema: 1,
        request: new.request,
        base_url: new.base_url,
        profile: new.profile,
        adopted: new.adopted,
        brief: Brief::default(),
        agent: None,
    };
    let task = NewTask {
        thread: format!("harness/{body}").parse().expect("a generated id is a valid part of a thread id"),
        kind: KIND.to_owned(),
        title,
        dir: Some(new.dir.to_string_lossy().into_owned()),
        model: Some(new.model),
        data: serde_json::to_value(details).expect("texts make JSON"),
    };
    Project::from_task(tasks::create(tx, scope, None, task)?)
}

/// The project in this folder.
///
/// # Errors
/// When the store cannot be read.
pub fn in_dir(read: &ReadTx<'_>, scope: &Scope, dir: &Path) -> Result<Option<Project>, StoreError> {
    let task = tasks::by_dir(read, scope, &dir.to_string_lossy())?;
    task.filter(|task| task.kind == KIND).map(Project::from_task).transpose()
}

/// The project with this task id.
///
/// # Errors
/// When the store cannot be read.
pub fn with_task(read: &ReadTx<'_>, scope: &Scope, task: &TaskId) -> Result<Option<Project>, StoreError> {
    let task = tasks::get(read, scope, task)?;
    task.filter(|task| task.kind == KIND).map(Project::from_task).transpose()
}
