//! A store that somebody looks at from outside.
//!
//! It owns opening one and finding the execution that is meant. Invariant: looking makes no store.

use std::path::{Path, PathBuf};

use longhaul_core::{Ambient, ExecutionId, Scope, TaskScope, TenantId, ThreadId, UserId};
use longhaul_durable::{ExecutionFilter, ExecutionView, Runtime, StepId, WaitInfo};
use longhaul_store::{
    Backup, BackupProgress, Migrations, Report, StateKeys, Store, StoreError, StoreSettings, s3::S3Place,
};

use crate::{OperateError, refs, rows, sound};

/// Which store is meant, and as whom.
#[derive(Debug, Clone)]
pub struct StorePlace {
    /// A folder or a `postgres://` URL; nothing for the home's own.
    pub store: Option<String>,
    /// The home: it holds its own store, and this machine's locks of a database.
    pub home: PathBuf,
    /// The bucket that holds its blobs, if one does.
    pub bucket: Option<Box<S3Place>>,
    /// Whose rows.
    pub tenant: TenantId,
    /// Of which user.
    pub user: UserId,
    /// Who is at the terminal: recorded with answers.
    pub actor: String,
}

/// A store that somebody looks at from outside.
pub struct Operator {
    pub(crate) store: Store,
    pub(crate) runtime: Runtime,
    pub(crate) scope: Scope,
    pub(crate) actor: String,
    /// The store as it is named to people, without a password.
    shown: String,
    /// What has to be typed to mean this store again.
    pub(crate) flags: String,
}

/// An open wait and whose it is.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenWait {
    /// The wait.
    pub wait: WaitInfo,
    /// Its execution's thread.
    pub thread: ThreadId,
    /// Its execution's scope.
    pub scope: TaskScope,
}

impl Operator {
    /// Opens a store that exists. Its tables are brought up to this release, as by any program that opens it.
    ///
    /// # Errors
    /// [`OperateError::NoStore`], [`OperateError::Store`].
    pub async fn open(place: StorePlace) -> Result<Self, OperateError> {
        let ambient = Ambient::system();
        let StorePlace { store, home, bucket, tenant, user, actor } = place;
        let (settings, shown, flags) = match store {
            Some(url) if url.contains("://") => {
                let settings = StoreSettings::from_url(&url, home.join("databases"))?;
                (settings, without_password(&url), format!(" --store {}", quoted(&without_password(&url))))
            }
            Some(dir) => (existing(Path::new(&dir))?, dir.clone(), format!(" --store {}", quoted(&dir))),
            None => (existing(&home)?, home.display().to_string(), String::new()),
        };
        let settings = StoreSettings { keys: StateKeys::from_env().map_err(StoreError::from)?, bucket, ..settings };
        let store = open_known(settings, &ambient).await?;
        let runtime = Runtime::new(store.clone(), ambient);
        Ok(Self { store, runtime, scope: Scope { tenant, user }, actor, shown, flags })
    }

    /// Looks at a store that is open already, as a service does that opened it with its own components.
    #[must_use]
    pub fn over(store: Store, ambient: Ambient, scope: Scope, actor: String) -> Self {
        let runtime = Runtime::new(store.clone(), ambient);
        Self { store, runtime, scope, actor, shown: "this store".to_owned(), flags: String::new() }
    }

    /// The store that is looked at.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The store as it is named to people, without a password.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// What has to be added to a command to mean this store again; empty for the home's.
    #[must_use]
    pub fn flags(&self) -> &str {
        &self.flags
    }

    /// The executions that are meant, the newest first.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn executions(&self, filter: ExecutionFilter) -> Result<Vec<ExecutionView>, OperateError> {
        Ok(self.runtime.executions(&self.scope, filter).await?)
    }

    /// All open waits, the oldest first.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn waits(&self) -> Result<Vec<OpenWait>, OperateError> {
        let found = self.runtime.all_waits(&self.scope, 1_000).await?;
        Ok(found.into_iter().map(|(scope, thread, wait)| OpenWait { wait, thread, scope }).collect())
    }

    /// Tenants and users that have executions in this store, with how many: for whoever finds nothing.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn owners(&self) -> Result<Vec<(TenantId, UserId, u64)>, OperateError> {
        Ok(self.store.read(rows::owners).await?)
    }

    /// Copies the store into a new folder while others use it.
    ///
    /// # Errors
    /// Those of [`Store::backup`].
    pub async fn backup(
        &self,
        to: &Path,
        progress: impl FnMut(BackupProgress) + Send + 'static,
    ) -> Result<Backup, OperateError> {
        Ok(self.store.backup(to, progress).await?)
    }

    /// Looks at everything that is stored.
    ///
    /// # Errors
    /// Those of [`Store::verify`].
    pub async fn verify(&self) -> Result<Report, OperateError> {
        let known = self.store.read(rows::components).await?;
        let all =
            longhaul_durable::CHECKS.iter().chain(longhaul_memory::CHECKS).chain(refs::CHECKS).chain(sound::CHECKS);
        let checks: Vec<_> = all.filter(|check| known.iter().any(|known| known == check.component)).copied().collect();
        Ok(self.store.verify(&checks).await?)
    }

    /// The execution that an id of it, of one of its steps, or of its thread means: of a thread the unfinished one, or
    /// the newest.
    pub(crate) async fn execution(&self, id: &str) -> Result<ExecutionView, OperateError> {
        let mut filter = ExecutionFilter { limit: 1, ..ExecutionFilter::default() };
        if let Ok(step) = id.parse::<StepId>() {
            filter.id = Some(step.execution);
        } else if let Ok(execution) = id.parse::<ExecutionId>() {
            filter.id = Some(execution);
        } else if let Ok(thread) = id.parse::<ThreadId>() {
            filter.id = self.runtime.find(&self.scope, &thread).await?.map(|execution| execution.id);
            filter.thread = Some(thread);
        } else {
            return Err(self.unknown(id, "executions, steps, threads"));
        }
        let found = self.runtime.executions(&self.scope, filter).await?.into_iter().next();
        found.ok_or_else(|| self.unknown(id, "executions, steps, threads"))
    }

    pub(crate) fn unknown(&self, id: &str, kinds: &'static str) -> OperateError {
        let id = id.chars().take(200).collect();
        OperateError::Unknown { id, kinds, store: self.shown.clone(), owner: self.scope.clone() }
    }
}

/// Components that a store may have beside durable execution.
const OTHERS: [Migrations; 2] = [longhaul_memory::MIGRATIONS, longhaul_workspace::MIGRATIONS];

/// Opens the store with the components it has, so that their tables are of this release; looking adds none.
async fn open_known(settings: StoreSettings, ambient: &Ambient) -> Result<Store, StoreError> {
    let mut sets = vec![longhaul_durable::MIGRATIONS];
    let store = Store::open(settings.clone(), ambient.clone(), &sets).await?;
    let known = store.read(rows::components).await?;
    sets.extend(OTHERS.into_iter().filter(|set| known.iter().any(|known| known == set.component)));
    if sets.len() == 1 {
        return Ok(store);
    }
    drop(store);
    Store::open(settings, ambient.clone(), &sets).await
}

/// A folder with a store in it; looking makes none.
fn existing(dir: &Path) -> Result<StoreSettings, OperateError> {
    // The folder, or the file in it.
    let dir = if dir.ends_with("longhaul.db") { dir.parent().unwrap_or(dir) } else { dir };
    if !dir.join("longhaul.db").is_file() {
        return Err(OperateError::NoStore { dir: dir.to_owned() });
    }
    Ok(StoreSettings::new(dir))
}

/// A URL that may be printed: what stands between the user and the host, and behind a question mark, is left out.
fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.split('?').next().unwrap_or_default();
    match rest.rsplit_once('@') {
        Some((user, host)) => format!("{scheme}://{}@{host}", user.split(':').next().unwrap_or_default()),
        None => format!("{scheme}://{rest}"),
    }
}

/// As it can be typed into a shell.
pub(crate) fn quoted(text: &str) -> String {
    if text.chars().all(|char| char.is_alphanumeric() || "_-./:@%+=,~".contains(char)) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_password_is_shown() {
        for (url, shown) in [
            ("postgres://me:s3cret@127.0.0.1:5432/work", "postgres://me@127.0.0.1:5432/work"),
            ("postgres://me:s3@cret@127.0.0.1/work?password=s3cret", "postgres://me@127.0.0.1/work"),
            ("postgres://127.0.0.1/work", "postgres://127.0.0.1/work"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
