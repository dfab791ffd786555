//! Shows a changed plan in the project's folder at once: the guarded files anew, and a commit of nothing but them.

use longhaul_store::{Store, StoreError};

use crate::{
    features,
    git::{Commit, Git, GitError},
    history,
    project::Project,
    projections::{GUARDED, ProjectionError, Projections},
};

/// Why a plan could not be shown. It is changed all the same; the next session shows it.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The files cannot be written.
    #[error(transparent)]
    Files(#[from] ProjectionError),
    /// git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Writes the guarded files from the rows and commits them, and only them, with this message. The caller holds the
/// project's lease.
///
/// # Errors
/// When the files or the commit cannot be made.
pub async fn publish(store: &Store, project: &Project, message: &str) -> Result<Option<Commit>, PublishError> {
    let owner = project.owner.clone();
    let (features, sessions) = store
        .read::<_, StoreError>(move |read| Ok((features::all(read, &owner)?, history::all(read, &owner)?)))
        .await?;
    Projections::render(project, &features, &sessions).write(&project.dir)?;
    Ok(Git::of_project(&project.dir).commit_only(&GUARDED, message).await?)
}
