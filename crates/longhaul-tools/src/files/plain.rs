//! Files of the project as they are, for whoever speaks another protocol than our tools: no headings, no line numbers.

use std::{io, path::Path, sync::Arc};

use super::{
    read::text_of,
    root::{ProjectPath, ProjectRoot},
};

/// The project's text files. Cheap to clone. The same rules as for the tools: nothing outside the project, through a
/// symbolic link, or in `.git`.
#[derive(Debug, Clone)]
pub struct ProjectFiles(Arc<ProjectRoot>);

impl ProjectFiles {
    /// The files of the project in this folder.
    ///
    /// # Errors
    /// The folder cannot be opened.
    pub fn open(project: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(ProjectRoot::open(project)?)))
    }

    /// The text of a file, by its path relative to the project.
    ///
    /// # Errors
    /// A sentence for the agent.
    pub async fn read(&self, path: &str) -> Result<String, String> {
        let (root, path) = (self.0.clone(), path.to_owned());
        blocking(move || {
            let path = ProjectPath::parse(&path)?;
            let (content, _) = root.read(&path)?;
            text_of(&path, content)
        })
        .await
    }

    /// Replaces or creates a file, whole or not at all.
    ///
    /// # Errors
    /// A sentence for the agent.
    pub async fn write(&self, path: &str, content: &str) -> Result<(), String> {
        let (root, path, content) = (self.0.clone(), path.to_owned(), content.to_owned());
        blocking(move || Ok(root.write(&ProjectPath::parse(&path)?, content.as_bytes())?)).await
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    let stopped = |_| "the file could not be looked at; this is a fault of longhaul".to_owned();
    tokio::task::spawn_blocking(work).await.map_err(stopped)?
}
