//! What one work session works with: the folder and its snapshots, the guarded files, the trial application, the tools.
//! It is live and made anew in every process; what happened is in the execution's recorded steps.
//!
//! Invariant 4, the harness's half: before a step changes the folder, the folder equals what the last recorded step left
//! ([`Sitting::settle`]).

use std::{
    fs,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use longhaul_core::{EventDraft, FeatureId, TaskScope};
use longhaul_durable::{Effect, NodeContext, NodeError, StepError};
use longhaul_store::StoreError;
use longhaul_tools::{
    ShellTool, ToolRegistry,
    browser::BrowserTool,
    files,
    mcp::McpClients,
    sandbox::Sandbox,
    skills::{SkillOrigin, SkillTool, Skills},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    application::{Launch, Trial},
    environment::Harness,
    error::HarnessError,
    features::{self, Feature},
    folder::LeftOut,
    git::Git,
    history::{self, SessionEntry},
    host::tamper_event,
    mirror::{self, Mirror},
    permission::Permissions,
    project::Project,
    projections::{GUARDED, Projections, Undone},
    work_tree::{TreeId, WorkTree},
};

/// One work session's live parts.
pub(crate) struct Sitting<'a> {
    pub(crate) harness: &'a Harness,
    pub(crate) ctx: &'a NodeContext,
    /// Its number; 0 for the initializer.
    pub(crate) session: u32,
    pub(crate) git: Git,
    pub(crate) work_tree: WorkTree,
    pub(crate) sandbox: Sandbox,
    pub(crate) launch: Launch,
    pub(crate) trial: Trial,
    pub(crate) registry: ToolRegistry,
    pub(crate) permissions: Permissions,
    /// What the user and the project have written down for particular work.
    pub(crate) skills: Skills,
    /// They run as long as the session.
    _mcp: McpClients,
    project: Mutex<Project>,
    projections: Mutex<Projections>,
    tree: Mutex<Option<TreeId>>,
    /// Changes that were undone between two steps and not told yet.
    untold: Arc<Mutex<Vec<Undone>>>,
    /// Files that are not committed, as far as they were told.
    left_out: Mutex<Vec<LeftOut>>,
    /// The remote that other machines get the commits from.
    pub(crate) mirror: Option<Mirror>,
    /// Whether this process has made the folder what the rows say: before, a difference is an earlier moment.
    looked: AtomicBool,
}

/// The canonical rows of a project.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    pub(crate) features: Vec<Feature>,
    /// What people took out of the plan; a session that began before may still work with it.
    pub(crate) retired: Vec<Feature>,
    pub(crate) sessions: Vec<SessionEntry>,
}

impl Rows {
    /// The feature with this id, also when it was taken out of the plan meanwhile: a session that goes on after a kill
    /// must find what it recorded.
    pub(crate) fn find(&self, id: &FeatureId) -> Option<&Feature> {
        self.features.iter().chain(&self.retired).find(|feature| feature.id() == id)
    }
}

impl<'a> Sitting<'a> {
    /// Opens the folder for a session.
    pub(crate) async fn open(
        harness: &'a Harness,
        ctx: &'a NodeContext,
        project: Project,
        session: u32,
    ) -> Result<Self, NodeError> {
        let place = harness.task_dir(&project.owner.task);
        let data_dir = place.join("trial-data");
        fs::create_dir_all(&data_dir)
            .map_err(|source| NodeError::gave_up(HarnessError::Folder { path: data_dir.clone(), source }))?;
        let git = Git::of_project(&project.dir);
        git.clear_stale_locks();
        git.init().await.map_err(NodeError::gave_up)?;
        let rows = rows(harness, &project.owner).await?;
        let mirror = mirror_of(harness, &project.owner).await?;
        bring(&git, &project, &rows, mirror.as_ref()).await?;
        let submodules = submodules(&git, &project.dir).await?;
        let git = git.keeping(&submodules);
        let snapshots = place.join("snapshots.git");
        let work_tree = WorkTree::open(&project.dir, &snapshots, &submodules).await.map_err(NodeError::gave_up)?;
        let sandbox =
            harness.open_sandbox(project.dir.clone(), place.join("run"), &submodules).map_err(NodeError::gave_up)?;
        let launch = Launch {
            sandbox: sandbox.clone(),
            port: harness.settings.app_port,
            boot_timeout: harness.settings.boot_timeout,
        };
        let trial = Trial::new(launch.clone(), data_dir);
        let skills = skills(harness, &project);
        let mcp = McpClients::start(&sandbox, &harness.settings.mcp).await;
        let registry = registry(harness, &sandbox, &trial, &project, &skills, &mcp)?;
        let projections = Projections::render(&project, &rows.features, &rows.sessions);
        Ok(Self {
            harness,
            ctx,
            session,
            git,
            work_tree,
            sandbox,
            launch,
            trial,
            registry,
            permissions: Permissions::default(),
            skills,
            _mcp: mcp,
            project: Mutex::new(project),
            projections: Mutex::new(projections),
            tree: Mutex::new(None),
            untold: Arc::default(),
            left_out: Mutex::default(),
            looked: AtomicBool::new(false),
            mirror,
        })
    }

    pub(crate) fn project(&self) -> Project {
        lock(&self.project).clone()
    }

    pub(crate) fn owner(&self) -> TaskScope {
        lock(&self.project).owner.clone()
    }

    pub(crate) fn change_project(&self, change: impl FnOnce(&mut Project)) {
        change(&mut lock(&self.project));
    }

    /// What the last recorded step left in the folder.
    pub(crate) fn tree(&self) -> Option<TreeId> {
        lock(&self.tree).clone()
    }

    /// A recorded step left this in the folder.
    pub(crate) fn left(&self, tree: TreeId) {
        *lock(&self.tree) = Some(tree);
    }

    /// The canonical rows, as they are now.
    pub(crate) async fn rows(&self) -> Result<Rows, NodeError> {
        rows(self.harness, &self.owner()).await
    }

    /// Reads the canonical rows again and renders the guarded files from them.
    pub(crate) async fn refresh(&self) -> Result<Rows, NodeError> {
        if self.looked.load(Ordering::Relaxed) {
            let undone = self.restore_guarded().map_err(|e| NodeError::GaveUp { source: e.into_source() })?;
            lock(&self.untold).extend(undone);
        }
        let rows = self.rows().await?;
        let rendered = Projections::render(&self.project(), &rows.features, &rows.sessions);
        rendered.write(&self.project().dir).map_err(NodeError::gave_up)?;
        self.guard(rendered);
        Ok(rows)
    }

    /// Makes the folder what the last recorded step left, with the guarded files as the store has them, and hands it to
    /// the sandbox's user.
    pub(crate) async fn settle(&self) -> Result<(), StepError> {
        let mut put_back = false;
        if let Some(tree) = self.tree() {
            put_back = self.work_tree.ensure(&tree).await.map_err(StepError::from)?;
            if put_back {
                tracing::info!(tree = tree.as_str(), "put the folder back to where the interrupted step started");
            }
        }
        let undone = self.restore_guarded()?;
        // A folder that was just put back shows an earlier moment; otherwise something edited the files meanwhile.
        if !put_back {
            lock(&self.untold).extend(undone);
        }
        self.hand_to_sandbox()
    }

    /// What was undone between two steps since this was last asked.
    pub(crate) fn take_untold(&self) -> Vec<Undone> {
        std::mem::take(&mut *lock(&self.untold))
    }

    /// The same as events, for a step that has no other way to tell; asked when the step is recorded.
    pub(crate) fn untold_events(&self) -> impl FnOnce() -> Vec<EventDraft> + Send + 'static {
        let untold = self.untold.clone();
        move || std::mem::take(&mut *lock(&untold)).iter().map(|u| tamper_event(&u.path, &u.how)).collect()
    }

    /// Something ran that may have changed the folder without anybody having looked since: the next step looks, puts
    /// the folder back to what the last recorded step left, and tells it.
    pub(crate) async fn look_again(&self) -> Result<(), StepError> {
        self.work_tree.forget().await;
        if let Some(tree) = self.tree()
            && self.work_tree.ensure(&tree).await.map_err(StepError::from)?
        {
            let how = "changed while it was verified; it is again what was verified".to_owned();
            lock(&self.untold).push(Undone { path: ".".to_owned(), how });
        }
        let undone = self.restore_guarded()?;
        lock(&self.untold).extend(undone);
        Ok(())
    }

    /// Puts the guarded files back and removes what git must not meet, such as nested repositories; tells what had been
    /// done.
    pub(crate) fn restore_guarded(&self) -> Result<Vec<Undone>, StepError> {
        let projections = lock(&self.projections).clone();
        let dir = lock(&self.project).dir.clone();
        // First the folder itself: what cannot be entered cannot be restored either.
        let looked = self.git.look()?;
        let mut undone = projections.restore(&dir)?;
        let removed = looked.removed.into_iter().filter(|(path, _)| !GUARDED.contains(&path.as_str()));
        undone.extend(removed.map(|(path, why)| Undone { path, how: why.to_owned() }));
        *lock(&self.left_out) = looked.left_out;
        self.looked.store(true, Ordering::Relaxed);
        Ok(undone)
    }

    /// Files that the last look found and that cannot be committed, without what the project's rules leave out anyway.
    pub(crate) async fn not_committed(&self) -> Vec<LeftOut> {
        let found = lock(&self.left_out).clone();
        let mut told = Vec::new();
        for file in found.into_iter().filter(|file| file.bytes > 0) {
            if !self.git.ignores(&file.path).await {
                told.push(file);
            }
        }
        told
    }

    /// Replaces the guarded files' wanted contents.
    pub(crate) fn guard(&self, projections: Projections) {
        *lock(&self.projections) = projections;
    }

    /// Makes the folder's files belong to the user whom commands run as.
    pub(crate) fn hand_to_sandbox(&self) -> Result<(), StepError> {
        self.sandbox.prepare_project().map_err(StepError::from)
    }

    /// The folder as it is, after a step changed it.
    pub(crate) async fn snapshot(&self) -> Result<TreeId, StepError> {
        self.work_tree.snapshot().await.map_err(StepError::from)
    }

    /// Runs a recorded step whose result may cause events, committed with it.
    pub(crate) async fn record<T, W, E>(&self, name: &str, work: W, events: E) -> Result<T, NodeError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        W: Future<Output = Result<T, StepError>> + Send,
        E: FnOnce(&T) -> Vec<EventDraft> + Send + 'static,
    {
        self.record_with(name, work, events, |_, _| Ok(())).await
    }

    /// Runs a recorded step with events and rows, all in one transaction.
    pub(crate) async fn record_with<T, W, E, C>(&self, name: &str, work: W, events: E, rows: C) -> Result<T, NodeError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        W: Future<Output = Result<T, StepError>> + Send,
        E: FnOnce(&T) -> Vec<EventDraft> + Send + 'static,
        C: FnOnce(&mut longhaul_store::Tx<'_>, &T) -> Result<(), StoreError> + Send + 'static,
    {
        let owner = self.owner();
        let execution = self.ctx.execution().clone();
        let step = self.ctx.step_id(name).within();
        self.ctx
            .step_tx(name, Effect::Pure, work, move |tx, result| {
                rows(tx, result)?;
                for event in events(result) {
                    tx.append_event(&owner, Some(&execution), Some(&step), event)?;
                }
                Ok(())
            })
            .await
    }

    /// Ends what is live.
    pub(crate) async fn close(&self) {
        self.trial.stop().await;
    }
}

async fn mirror_of(harness: &Harness, owner: &TaskScope) -> Result<Option<Mirror>, NodeError> {
    let owner = owner.clone();
    Ok(harness.store.read::<_, StoreError>(move |read| mirror::of(read, &owner)).await?)
}

/// Sees that the repository has the last commit of the record: by what is here, else from the remote.
async fn bring(git: &Git, project: &Project, rows: &Rows, mirror: Option<&Mirror>) -> Result<(), NodeError> {
    let Some(commit) = rows.sessions.iter().rev().find_map(|entry| entry.commit.clone()) else { return Ok(()) };
    let remote = mirror.map(|mirror| mirror.remote.as_str());
    if mirror::bring(git, remote, &commit).await.map_err(NodeError::gave_up)? {
        return Ok(());
    }
    Err(NodeError::gave_up(HarnessError::HistoryLost { dir: project.dir.clone(), commit }))
}

/// The folders of the project that are other repositories on purpose, each there.
async fn submodules(git: &Git, dir: &std::path::Path) -> Result<Vec<std::path::PathBuf>, NodeError> {
    let submodules = git.submodules().await.map_err(NodeError::gave_up)?;
    for folder in &submodules {
        let path = dir.join(folder);
        fs::create_dir_all(&path).map_err(|source| NodeError::gave_up(HarnessError::Folder { path, source }))?;
    }
    Ok(submodules)
}

async fn rows(harness: &Harness, owner: &TaskScope) -> Result<Rows, NodeError> {
    let owner = owner.clone();
    let read = harness
        .store
        .read::<_, StoreError>(move |read| {
            Ok(Rows {
                features: features::all(read, &owner)?,
                retired: features::retired(read, &owner)?,
                sessions: history::all(read, &owner)?,
            })
        })
        .await;
    Ok(read?)
}

/// The user's skills and the project's.
fn skills(harness: &Harness, project: &Project) -> Skills {
    let mut folders: Vec<_> =
        harness.settings.skills.iter().map(|folder| (folder.clone(), SkillOrigin::User)).collect();
    folders.extend(Skills::of_project(&project.dir));
    let skills = Skills::read(&folders);
    for broken in skills.broken() {
        tracing::warn!(folder = %broken.folder.display(), problems = ?broken.problems, "a skill is left out");
    }
    skills
}

fn registry(
    harness: &Harness,
    sandbox: &Sandbox,
    trial: &Trial,
    project: &Project,
    skills: &Skills,
    mcp: &McpClients,
) -> Result<ToolRegistry, NodeError> {
    let folder = |source| NodeError::gave_up(HarnessError::Folder { path: project.dir.clone(), source });
    let mut tools = files::tools(&project.dir).map_err(folder)?;
    tools.push(Arc::new(ShellTool::new(sandbox.clone(), trial.slot()).limits(harness.settings.shell)));
    tools.push(Arc::new(BrowserTool::new(harness.browser.clone(), trial.address())));
    if !skills.all().is_empty() {
        tools.push(Arc::new(SkillTool::new(skills.clone())));
    }
    tools.extend(mcp.tools());
    ToolRegistry::new(tools).map_err(NodeError::gave_up)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
