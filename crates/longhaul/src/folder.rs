//! Which folder a project may begin in, and which project a folder holds.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use longhaul_harness::project::{self, Project};
use longhaul_store::StoreError;

use crate::{Longhaul, LonghaulError};

impl Longhaul {
    /// The project in this folder, which is there to be worked in.
    pub(crate) async fn project_to_work_on(&self, dir: &Path) -> Result<Project, LonghaulError> {
        let project = self.project(dir).await?;
        if !project.dir.is_dir() {
            return Err(LonghaulError::FolderGone { dir: project.dir });
        }
        Ok(project)
    }

    /// The project in this folder. A project whose folder was moved is found by the task that its files name.
    pub(crate) async fn project(&self, dir: &Path) -> Result<Project, LonghaulError> {
        let absolute = absolute(dir)?;
        if let Some(task) = self.noted_task(&absolute) {
            let scope = self.scope.clone();
            let found = self.store.read::<_, StoreError>(move |read| project::with_task(read, &scope, &task)).await?;
            if let Some(mut project) = found {
                project.dir = absolute;
                project.owner.trace = self.trace.clone();
                return Ok(project);
            }
        }
        let found = match self.project_at(&absolute).await? {
            Some(project) => Some(project),
            None => self.moved_project(&absolute).await?,
        };
        found.ok_or_else(|| LonghaulError::NotAProject { dir: dir.to_owned() })
    }

    pub(crate) async fn project_at(&self, dir: &Path) -> Result<Option<Project>, LonghaulError> {
        let (scope, wanted, trace) = (self.scope.clone(), dir.to_owned(), self.trace.clone());
        let mut found = self.store.read::<_, StoreError>(move |read| project::in_dir(read, &scope, &wanted)).await?;
        if let Some(project) = &mut found {
            project.owner.trace = trace;
        }
        Ok(found)
    }

    async fn moved_project(&self, dir: &Path) -> Result<Option<Project>, LonghaulError> {
        let Some(task) = named_task(dir) else { return Ok(None) };
        let (scope, trace) = (self.scope.clone(), self.trace.clone());
        let found = self.store.read::<_, StoreError>(move |read| project::with_task(read, &scope, &task)).await?;
        let Some(mut project) = found else {
            return Err(LonghaulError::OtherHome { dir: dir.to_owned(), home: self.settings.home.clone() });
        };
        project = self.placed(project);
        // A copy does not take the original's project over.
        if project.dir.exists() {
            return Err(LonghaulError::FolderIsCopy { dir: dir.to_owned(), original: project.dir });
        }
        project.dir = dir.to_owned();
        project.owner.trace = trace;
        let moved = project.clone();
        self.store.write::<_, StoreError>(move |tx| moved.save(tx)).await?;
        Ok(Some(project))
    }
}

/// The task named by the folder's own files.
pub(crate) fn named_task(dir: &Path) -> Option<longhaul_core::TaskId> {
    let text = fs::read_to_string(dir.join("feature_checks.json")).ok()?;
    let value: serde_json::Value = serde_json::from_str(&text).ok()?;
    value.get("task")?.as_str()?.parse().ok()
}

/// Refuses a folder in which no project can begin. One that does not exist can be made.
pub(crate) fn check_new(dir: &Path) -> Result<(), LonghaulError> {
    match fs::read_dir(dir) {
        Ok(_) if dir.join(".git").exists() => Err(LonghaulError::FolderIsRepository { dir: dir.to_owned() }),
        Ok(mut entries) => match entries.next() {
            Some(_) => Err(LonghaulError::FolderNotEmpty { dir: dir.to_owned() }),
            None => Ok(()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(LonghaulError::Folder { dir: dir.to_owned(), source }),
    }
}

/// Makes the folder of a new project, or refuses the one there is.
pub(crate) fn make_new(dir: &Path) -> Result<PathBuf, LonghaulError> {
    check_new(dir)?;
    fs::create_dir_all(dir).map_err(|source| LonghaulError::Folder { dir: dir.to_owned(), source })?;
    absolute(dir)
}

/// The path without links and dots; for a folder that does not exist, below its nearest existing parent.
pub(crate) fn absolute(dir: &Path) -> Result<PathBuf, LonghaulError> {
    let found = dir
        .canonicalize()
        .or_else(|_| std::path::absolute(dir))
        .map_err(|source| LonghaulError::Folder { dir: dir.to_owned(), source })?;
    // The store keeps paths as text.
    if found.to_str().is_none() {
        return Err(LonghaulError::FolderName { dir: found });
    }
    Ok(found)
}
