//! The public error: what failed, of which kind it is, and what to do next.

use std::{path::PathBuf, sync::Arc};

use longhaul_core::TaskId;
use longhaul_durable::{DurableError, GraphError, NodeError};
use longhaul_harness::{
    GitError, HarnessError, VerifyError,
    planning::{AdoptError, ChangeError, PublishError},
    proposals::DecideError,
    standalone::ListError,
};
use longhaul_memory::EmbedError;
use longhaul_milvus::MilvusError;
use longhaul_model::{CassetteError, CassetteServerError, ModelError};
use longhaul_operate::ErrorKind;
use longhaul_store::{LeaseError, StoreError};
use longhaul_tools::{browser::BrowserError, sandbox::SandboxError};
use longhaul_workspace::WorkspaceError;

/// Why something that the library was asked for did not happen. Nothing recorded is lost.
#[derive(Debug, thiserror::Error)]
pub enum LonghaulError {
    /// The vector server that the settings name cannot be used as it is written there.
    #[error(transparent)]
    VectorServer(#[from] MilvusError),
    /// The folder has no project.
    #[error(
        "{dir} is not a longhaul project; name its folder with `--dir DIR`, or begin one in a new folder with `longhaul init \"your request\" --dir DIR`"
    )]
    NotAProject {
        /// The folder.
        dir: PathBuf,
    },
    /// The folder was copied from a project, which goes on where it is.
    #[error("{dir} is a copy of the project in {original}; go on there with `longhaul run --dir {original}`")]
    FolderIsCopy {
        /// The folder.
        dir: PathBuf,
        /// The project's own folder.
        original: PathBuf,
    },
    /// The folder's files name a task that the store does not have.
    #[error(
        "{dir} holds a project that the store in {home} does not know; name the home it was made with: `--home DIR`, or LONGHAUL_HOME"
    )]
    OtherHome {
        /// The folder.
        dir: PathBuf,
        /// The home that was asked.
        home: PathBuf,
    },
    /// The folder of a project is not there any more.
    #[error("the project's folder {dir} is gone; put it back, or name the place it was moved to with `--dir DIR`")]
    FolderGone {
        /// The folder.
        dir: PathBuf,
    },
    /// The store has no such project.
    #[error(
        "the store has no project {task}; its id is in its feature_checks.json, and both machines need the same `store.url`"
    )]
    NoSuchProject {
        /// What was asked for.
        task: TaskId,
    },
    /// A project that is to be gone on with elsewhere has no remote.
    #[error("the project in {dir} has no remote; give it one there with `longhaul init … --remote URL`")]
    NoRemote {
        /// Its folder.
        dir: PathBuf,
    },
    /// The remote's address cannot be used.
    #[error(transparent)]
    Remote(#[from] longhaul_harness::mirror::WrongRemote),
    /// The planning of another request was interrupted in this folder.
    #[error(
        "{dir} was begun with another request ({request:?}); go on with it by `longhaul run --dir {dir}`, or name a new folder"
    )]
    OtherRequest {
        /// The folder.
        dir: PathBuf,
        /// What it was begun with.
        request: String,
    },
    /// A folder whose name is not text.
    #[error("the folder's name {dir:?} is not UTF-8; name a folder that is, for example `--dir app`")]
    FolderName {
        /// The folder.
        dir: PathBuf,
    },
    /// A new project needs an empty folder.
    #[error("{dir} is not empty; name a new folder, for example `--dir {dir}-2`")]
    FolderNotEmpty {
        /// The folder.
        dir: PathBuf,
    },
    /// The folder is somebody's git repository.
    #[error("{dir} is a git repository already; name a new folder, for example `--dir {dir}-app`")]
    FolderIsRepository {
        /// The folder.
        dir: PathBuf,
    },
    /// The folder already has a plan.
    #[error("{dir} is already planned ({features} features); go on with `longhaul run --dir {dir}`")]
    AlreadyPlanned {
        /// The folder.
        dir: PathBuf,
        /// How many features it has.
        features: usize,
    },
    /// The initializer was given up.
    #[error(
        "the initializer ended several times without locking a plan; `longhaul log --dir {dir}` shows how; run the same command again, with a stronger model or a smaller request"
    )]
    NoPlan {
        /// The folder.
        dir: PathBuf,
    },
    /// The plan is not locked yet.
    #[error("{dir} has no plan yet; finish it with `longhaul run --dir {dir}`")]
    NotPlanned {
        /// The folder.
        dir: PathBuf,
    },
    /// A folder cannot be used.
    #[error("cannot use the folder {dir} ({source}); name a folder that you can write to, for example `--dir app`")]
    Folder {
        /// The folder.
        dir: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The request is empty.
    #[error("the request is empty; say in a sentence what to build: `longhaul init \"a page that …\" --dir app`")]
    EmptyRequest,
    /// Money is limited, and nobody said what the model costs.
    #[error(
        "money is limited and no price is known for {model}; add `[prices.\"{model}\"]` with `input` and `output` (for a million tokens each) to the user's longhaul.toml: docs/budgets.md"
    )]
    NoPrice {
        /// The model.
        model: String,
    },
    /// A feature that is to be taken up again was not put aside, or is not there.
    #[error("{feature} {why}; `longhaul features --dir {dir}` lists them")]
    NotParked {
        /// The feature.
        feature: String,
        /// What it is instead.
        why: &'static str,
        /// The project.
        dir: PathBuf,
    },
    /// The guarded files could not be written.
    #[error(transparent)]
    Projection(#[from] longhaul_harness::ProjectionError),
    /// Nobody named a model.
    #[error(
        "no model is named; add `--model openai:NAME` (and `--base-url URL` for a service of your own), or set OPENAI_MODEL; `longhaul demo` needs none"
    )]
    NoModel,
    /// The model's service needs a key.
    #[error("no key for {base_url}; set {variable} (in the environment, or in .env of the folder you run in)")]
    NoKey {
        /// The service.
        base_url: String,
        /// The variable that usually holds its key.
        variable: &'static str,
    },
    /// The agent cannot be started as it is named.
    #[error("the agent {spec:?} cannot be used: {problem}")]
    Agent {
        /// As it was named.
        spec: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Another process works on the project.
    #[error("another longhaul works on this project ({}); wait for it, or end it, then run the command again", holder(.0))]
    Busy(#[source] LeaseError),
    /// git cannot be used.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
    /// The execution could not be started or resumed.
    #[error(transparent)]
    Durable(DurableError),
    /// The harness's graph is malformed: a defect.
    #[error("the harness's graph is malformed; this is a defect, please report it")]
    Graph(#[from] GraphError),
    /// The run stopped in the middle of something.
    #[error("stopped: {why}; after mending that, `longhaul run --dir {dir}` goes on where it stopped")]
    Stopped {
        /// The project's folder.
        dir: PathBuf,
        /// The innermost reasons, joined.
        why: String,
        /// Who can do something about it.
        kind: ErrorKind,
        /// The failure itself.
        #[source]
        source: Box<NodeError>,
    },
    /// Acts with an unknown outcome wait for a person.
    #[error("{count} acts on the outside world have an unknown outcome; nothing was repeated")]
    Unreconciled {
        /// How many.
        count: usize,
    },
    /// The embedding model cannot be used.
    #[error(transparent)]
    Embedding(#[from] EmbedError),
    /// No browser to verify with.
    #[error(transparent)]
    Browser(#[from] BrowserError),
    /// No sandbox to run commands in.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The model cannot be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The cassette cannot be read.
    #[error(transparent)]
    Cassette(#[from] CassetteError),
    /// The cassette cannot be served.
    #[error(transparent)]
    CassetteServer(#[from] CassetteServerError),
    /// A verification on demand failed.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// A folder's own feature list cannot be verified.
    #[error(transparent)]
    List(#[from] ListError),
    /// A repository cannot be taken over as it stands.
    #[error(transparent)]
    Adopt(AdoptError),
    /// The plan was not changed.
    #[error(transparent)]
    Change(ChangeError),
    /// A proposal was not decided.
    #[error(transparent)]
    Decide(DecideError),
    /// The plan is changed, and its files could not be written.
    #[error("the plan is changed, but its files are not; mend that, and the next `longhaul run` writes them")]
    Publish(#[source] PublishError),
    /// A record cannot be read.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The report's file cannot be written.
    #[error("cannot write the report to {path}; name a file in a folder that you can write to with `--out FILE`")]
    ReportNotWritten {
        /// The file.
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The program cannot find itself.
    #[error(
        "cannot find this program's own file, which the sandbox needs; install longhaul as a file that can be read"
    )]
    NoProgram(#[source] std::io::Error),
}

impl From<AdoptError> for LonghaulError {
    fn from(error: AdoptError) -> Self {
        match error {
            AdoptError::Git(git) => Self::Git(git),
            other => Self::Adopt(other),
        }
    }
}

impl From<ChangeError> for LonghaulError {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Store(store) => Self::from(store),
            other => Self::Change(other),
        }
    }
}

impl From<DecideError> for LonghaulError {
    fn from(error: DecideError) -> Self {
        match error {
            DecideError::Store(store) => Self::from(store),
            other => Self::Decide(other),
        }
    }
}

impl From<LeaseError> for LonghaulError {
    fn from(error: LeaseError) -> Self {
        Self::from(DurableError::Lease(error))
    }
}

impl From<StoreError> for LonghaulError {
    fn from(error: StoreError) -> Self {
        // A new store's first tables meet a full disk before anything else does: that is no defect.
        if let StoreError::Migration { source, .. } = &error
            && !matches!(**source, StoreError::Sql { .. })
        {
            return Self::Store(source.as_ref().clone());
        }
        Self::Store(error)
    }
}

impl From<DurableError> for LonghaulError {
    fn from(error: DurableError) -> Self {
        if let DurableError::Lease(held @ LeaseError::Held { .. }) = error {
            return Self::Busy(held);
        }
        if let DurableError::Store(store) = error {
            return Self::from(store);
        }
        Self::Durable(error)
    }
}

impl LonghaulError {
    /// A node's failure, told from its innermost cause.
    pub(crate) fn stopped(dir: PathBuf, error: NodeError) -> Self {
        let why = chain(&error);
        Self::Stopped { dir, why, kind: kind_of(&error), source: Box::new(error) }
    }

    /// Who can do something about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotAProject { .. }
            | Self::FolderNotEmpty { .. }
            | Self::FolderIsRepository { .. }
            | Self::AlreadyPlanned { .. }
            | Self::NotPlanned { .. }
            | Self::FolderIsCopy { .. }
            | Self::OtherHome { .. }
            | Self::FolderGone { .. }
            | Self::NoSuchProject { .. }
            | Self::NoRemote { .. }
            | Self::Remote(_)
            | Self::OtherRequest { .. }
            | Self::FolderName { .. }
            | Self::Folder { .. }
            | Self::EmptyRequest
            | Self::NoModel
            | Self::Agent { .. }
            | Self::NoPrice { .. }
            | Self::NotParked { .. }
            | Self::Cassette(_)
            | Self::ReportNotWritten { .. }
            | Self::List(_)
            | Self::VectorServer(_)
            | Self::Adopt(_)
            | Self::Change(_)
            | Self::Decide(_)
            | Self::NoKey { .. } => ErrorKind::Usage,
            Self::Busy(_) => ErrorKind::Retry,
            Self::Embedding(_) | Self::Browser(_) | Self::Sandbox(_) | Self::NoProgram(_) => ErrorKind::Environment,
            Self::Store(error) => of_store(error),
            Self::Model(error) => of_model(error),
            Self::Git(GitError::Missing(_)) => ErrorKind::Environment,
            Self::Verify(VerifyError::Sandbox(_)) => ErrorKind::Environment,
            Self::Verify(VerifyError::NoSuchFeature { .. }) => ErrorKind::Usage,
            Self::Verify(VerifyError::Undecided(source)) => kind_of(source.as_ref()),
            Self::Stopped { kind, .. } => *kind,
            Self::Git(_)
            | Self::Durable(_)
            | Self::Graph(_)
            | Self::Unreconciled { .. }
            | Self::NoPlan { .. }
            | Self::CassetteServer(_)
            | Self::Projection(_)
            | Self::Verify(_)
            | Self::Publish(_)
            | Self::Workspace(_) => ErrorKind::Failed,
        }
    }
}

/// Who works on the project, as far as that is known.
fn holder(error: &LeaseError) -> String {
    match error {
        LeaseError::Held { holder: Some(holder), .. } => holder.to_string(),
        LeaseError::Held { holder: None, .. } | LeaseError::Store(_) => "it has just begun".to_owned(),
    }
}

fn of_model(error: &ModelError) -> ErrorKind {
    match error.kind() {
        longhaul_model::ErrorKind::Retry => ErrorKind::Retry,
        // The program wrote the request that was refused; no flag or setting of the user's makes it better.
        longhaul_model::ErrorKind::FixInput => ErrorKind::Failed,
        longhaul_model::ErrorKind::Operator => ErrorKind::Usage,
    }
}

/// A disk that is full or cannot be written is the machine's; doctor examines both.
fn of_store(error: &StoreError) -> ErrorKind {
    if matches!(error, StoreError::DiskFull { .. } | StoreError::Io { .. }) {
        return ErrorKind::Environment;
    }
    ErrorKind::Failed
}

/// The kind of an error by what lies beneath it.
fn kind_of(error: &(dyn std::error::Error + 'static)) -> ErrorKind {
    let mut next = Some(error);
    while let Some(mut current) = next {
        // A shared error is an error of its own kind, which knows its content's words and cause only.
        if let Some(shared) = current.downcast_ref::<Arc<dyn std::error::Error + Send + Sync>>() {
            current = shared.as_ref();
        }
        if current.is::<BrowserError>() || current.is::<SandboxError>() || current.is::<EmbedError>() {
            return ErrorKind::Environment;
        }
        if matches!(current.downcast_ref::<GitError>(), Some(GitError::Missing(_))) {
            return ErrorKind::Environment;
        }
        if let Some(model) = current.downcast_ref::<ModelError>() {
            return of_model(model);
        }
        if let Some(store) = current.downcast_ref::<StoreError>() {
            return of_store(store);
        }
        if let Some(NodeError::Store(store)) = current.downcast_ref::<NodeError>() {
            return of_store(store);
        }
        if current.is::<HarnessError>() {
            return ErrorKind::Failed;
        }
        next = current.source();
    }
    ErrorKind::Failed
}

/// The causes of a failure without the wrappers that only say where it happened.
fn chain(error: &NodeError) -> String {
    let wrapper = matches!(error, NodeError::Step { .. } | NodeError::GaveUp { .. });
    let mut parts: Vec<String> = Vec::new();
    let mut next: Option<&(dyn std::error::Error + 'static)> =
        if wrapper { std::error::Error::source(error) } else { Some(error) };
    while let Some(current) = next {
        let text = current.to_string();
        // A transparent wrapper repeats its cause's words.
        if parts.last() != Some(&text) {
            parts.push(text);
        }
        next = current.source();
    }
    parts.join(": ")
}
