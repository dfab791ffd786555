//! A project on more than one machine: which one works on it now, and where its folder is here.
//!
//! It owns this machine's name and the notes of folders beneath the home; what travels between machines is the
//! harness's mirror and the shared store. Invariant: a session begun on another machine is not gone on with in its
//! middle, as the folder it had is not here; the next one begins at the last commit.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use longhaul_core::TaskId;
use longhaul_harness::{
    mirror,
    project::{self, Project},
};
use longhaul_store::{Lease, StoreError};

use crate::{Longhaul, LonghaulError, folder};

/// The file with this machine's name, beneath the home.
const MACHINE: &str = "machine";

impl Longhaul {
    /// Makes this folder the place of a project on this machine: one of the shared store which another machine began,
    /// and which has a remote. The folder is new or empty, or a clone. Its files come with the next run.
    ///
    /// # Errors
    /// When there is no such project, it has no remote, or the folder cannot be used.
    pub async fn take_here(&self, task: &TaskId, dir: &Path) -> Result<(), LonghaulError> {
        let (scope, id) = (self.scope.clone(), task.clone());
        let found = self.store.read::<_, StoreError>(move |read| project::with_task(read, &scope, &id)).await?;
        let project = found.ok_or_else(|| LonghaulError::NoSuchProject { task: task.clone() })?;
        let owner = project.owner.clone();
        let mirror = self.store.read::<_, StoreError>(move |read| mirror::of(read, &owner)).await?;
        if mirror.is_none() {
            return Err(LonghaulError::NoRemote { dir: project.dir });
        }
        let named = folder::named_task(dir);
        if named.as_ref() != Some(task) {
            folder::make_new(dir)?;
        }
        self.note_folder(&project, &folder::absolute(dir)?)
    }

    /// Gives a new project its remote.
    pub(crate) async fn set_remote(&self, project: &Project, remote: &str) -> Result<(), LonghaulError> {
        let remote = mirror::check_remote(remote)?;
        self.note_folder(project, &project.dir)?;
        let (owner, machine) = (project.owner.clone(), self.machine()?);
        self.store.write::<_, StoreError>(move |tx| mirror::set(tx, &owner, &remote, &machine)).await?;
        Ok(())
    }

    /// Before a run: a session that another machine was in the middle of is given up, once that machine is silent.
    pub(crate) async fn take_over(&self, project: &Project) -> Result<(), LonghaulError> {
        let owner = project.owner.clone();
        let Some(mirror) = self.store.read::<_, StoreError>(move |read| mirror::of(read, &owner)).await? else {
            return Ok(());
        };
        let machine = self.machine()?;
        if mirror.machine.as_ref() == Some(&machine) {
            return Ok(());
        }
        // Whoever is still at work keeps it: this fails then.
        let ttl = Duration::from_secs(self.settings.lease_seconds);
        Lease::acquire(&self.store, &self.scope, &project.thread, ttl).await?.release().await?;
        let reason = "its folder is on another machine; the next session begins at the last commit";
        self.runtime.cancel(&self.scope, &project.thread, "longhaul", reason).await?;
        let owner = project.owner.clone();
        self.store.write::<_, StoreError>(move |tx| mirror::worked_at(tx, &owner, &machine)).await?;
        Ok(())
    }

    /// The project with its folder on this machine, where that is another one than the store's.
    pub(crate) fn placed(&self, mut project: Project) -> Project {
        if let Some(here) = mirror::folder_here(&self.task_dir(&project.owner.task)) {
            project.dir = here;
        }
        project
    }

    /// The task whose folder on this machine is this one, by the notes.
    pub(crate) fn noted_task(&self, dir: &Path) -> Option<TaskId> {
        let tasks = fs::read_dir(self.work_dir()).ok()?.flatten();
        let mut noted = tasks.filter(|task| mirror::folder_here(&task.path()).as_deref() == Some(dir));
        noted.next()?.file_name().to_str()?.parse().ok()
    }

    /// Notes a project's folder on this machine.
    pub(crate) fn note_folder(&self, project: &Project, dir: &Path) -> Result<(), LonghaulError> {
        let text = dir.to_str().ok_or_else(|| LonghaulError::FolderName { dir: dir.to_owned() })?;
        let noted = mirror::note_folder(&self.task_dir(&project.owner.task), text);
        noted.map_err(|source| LonghaulError::Folder { dir: dir.to_owned(), source })
    }

    fn task_dir(&self, task: &TaskId) -> PathBuf {
        self.work_dir().join(task.as_str())
    }

    /// This machine's name: made once, and as long as the home.
    fn machine(&self) -> Result<String, LonghaulError> {
        let path = self.settings.home.join(MACHINE);
        let wrong = |source: io::Error| LonghaulError::Folder { dir: path.clone(), source };
        match fs::read_to_string(&path) {
            Ok(name) if !name.is_empty() => Ok(name),
            Ok(_) => self.new_machine(&path).map_err(wrong),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.new_machine(&path).map_err(wrong),
            Err(error) => Err(wrong(error)),
        }
    }

    fn new_machine(&self, path: &Path) -> io::Result<String> {
        let name = self.ambient.ids.body();
        fs::create_dir_all(&self.settings.home)?;
        fs::write(path, &name)?;
        Ok(name)
    }
}
