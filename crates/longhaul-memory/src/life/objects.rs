//! Named, immutable objects in a folder or a bucket: write whole, read whole, delete.
//!
//! It knows keys and bytes, not what a segment is. Invariants: what was written is durable when `put` returns; every
//! call ends within [`Limits::call_ms_max`]; errors name the place and never a credential.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use futures::StreamExt;
use longhaul_store::s3::{self, S3Limits};
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, local::LocalFileSystem, path::Path};

use super::{ColdError, ColdPlace};

/// Bounds of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest time of a whole call, its repetitions included, in milliseconds.
    pub call_ms_max: u64,
    /// Longest time until a connection stands, in milliseconds.
    pub connect_ms_max: u64,
    /// Repetitions after a failure of the service.
    pub retries_max: usize,
    /// Largest object that is read, in bytes.
    pub object_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { call_ms_max: 20_000, connect_ms_max: 3_000, retries_max: 2, object_bytes_max: 64 * 1024 * 1024 }
    }
}

/// An open cold place. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Objects {
    /// Empty until a folder is first used.
    store: Arc<OnceLock<Arc<dyn ObjectStore>>>,
    place: ColdPlace,
    limits: Limits,
}

impl Objects {
    /// Opens the place. A folder is made; a bucket is not asked for anything yet.
    pub(crate) fn open(place: ColdPlace, limits: Limits) -> Result<Self, ColdError> {
        let objects = match &place {
            ColdPlace::Folder(dir) => {
                let objects = Self::beside(dir.clone());
                objects.store()?;
                objects
            }
            ColdPlace::S3(s3) => {
                let Limits { call_ms_max, connect_ms_max, retries_max, .. } = limits;
                let store = s3::open(s3, S3Limits { call_ms_max, connect_ms_max, retries_max })?;
                Self { store: Arc::new(OnceLock::from(store)), place, limits }
            }
        };
        Ok(Self { limits, ..objects })
    }

    /// A folder that is made when it is first used.
    pub(crate) fn beside(dir: PathBuf) -> Self {
        Self { store: Arc::default(), place: ColdPlace::Folder(dir), limits: Limits::default() }
    }

    fn store(&self) -> Result<&Arc<dyn ObjectStore>, ColdError> {
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let ColdPlace::Folder(dir) = &self.place else { return Err(ColdError::NotConfigured) };
        let failed = |source: std::io::Error| ColdError::Folder {
            action: "make the folder for cold memory at",
            path: dir.clone(),
            source: Arc::new(source),
        };
        make_private(dir).map_err(failed)?;
        let opened = LocalFileSystem::new_with_prefix(dir).map_err(|error| failed(std::io::Error::other(error)))?;
        Ok(self.store.get_or_init(|| Arc::new(opened.with_fsync(true))))
    }

    pub(crate) fn place(&self) -> &ColdPlace {
        &self.place
    }

    /// Writes an object whole.
    pub(crate) async fn put(&self, key: &str, bytes: Vec<u8>) -> Result<(), ColdError> {
        let path = self.path(key);
        self.bounded(key, self.store()?.put(&path, PutPayload::from(bytes))).await.map(drop)
    }

    /// Reads an object whole.
    pub(crate) async fn get(&self, key: &str) -> Result<Bytes, ColdError> {
        let path = self.path(key);
        let (bytes_max, store) = (self.limits.object_bytes_max, self.store()?);
        let whole = async {
            let found = store.get(&path).await?;
            if found.meta.size > bytes_max {
                return Ok(None);
            }
            found.bytes().await.map(Some)
        };
        self.bounded(key, whole).await?.ok_or_else(|| ColdError::Damaged {
            key: key.to_owned(),
            problem: format!("it is larger than {bytes_max} bytes"),
        })
    }

    /// Deletes an object; one that is not there is deleted already.
    pub(crate) async fn delete(&self, key: &str) -> Result<(), ColdError> {
        let path = self.path(key);
        match self.bounded(key, self.store()?.delete(&path)).await {
            Err(ColdError::Missing { .. }) => Ok(()),
            outcome => outcome,
        }
    }

    /// The keys that are there, at most `keys_max` of them, in no order.
    pub(crate) async fn keys(&self, keys_max: usize) -> Result<Vec<String>, ColdError> {
        let (prefix, store) = (self.prefix(), self.store()?);
        let listed = async {
            let mut objects = store.list(prefix.as_ref()).take(keys_max);
            let mut keys = Vec::new();
            while let Some(object) = objects.next().await {
                keys.push(object?.location.to_string());
            }
            Ok(keys)
        };
        let keys = self.bounded("", listed).await?;
        let cut = prefix.map_or(0, |prefix| prefix.as_ref().len() + 1);
        Ok(keys.into_iter().filter_map(|key| key.get(cut..).map(str::to_owned)).collect())
    }

    fn prefix(&self) -> Option<Path> {
        match &self.place {
            ColdPlace::S3(s3) if !s3.prefix.is_empty() => Some(Path::from(s3.prefix.as_str())),
            ColdPlace::S3(_) | ColdPlace::Folder(_) => None,
        }
    }

    fn path(&self, key: &str) -> Path {
        match self.prefix() {
            Some(prefix) => Path::from(format!("{prefix}/{key}")),
            None => Path::from(key),
        }
    }

    async fn bounded<T>(
        &self,
        key: &str,
        call: impl Future<Output = Result<T, object_store::Error>>,
    ) -> Result<T, ColdError> {
        let limit = Duration::from_millis(self.limits.call_ms_max);
        match tokio::time::timeout(limit, call).await {
            Ok(outcome) => outcome.map_err(|error| self.failed(key, &error)),
            Err(_) => Err(self.unreachable(format!("no answer within {} ms", limit.as_millis()))),
        }
    }

    fn unreachable(&self, problem: String) -> ColdError {
        ColdError::Unreachable { place: self.place.to_string(), problem }
    }

    /// What the library says, in our words. Its own messages hold URLs and are not passed on.
    fn failed(&self, key: &str, error: &object_store::Error) -> ColdError {
        use object_store::Error::{NotFound, PermissionDenied, Unauthenticated};
        let place = self.place.to_string();
        let text = error.to_string();
        let says = |codes: &[&str]| codes.iter().any(|code| text.contains(code));
        if says(&["NoSuchBucket"]) {
            return ColdError::NoPlace { place };
        }
        if matches!(error, NotFound { .. }) {
            return ColdError::Missing { key: key.to_owned(), place };
        }
        if matches!(error, PermissionDenied { .. } | Unauthenticated { .. })
            || says(&["InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied"])
        {
            return ColdError::Refused { place };
        }
        self.unreachable(innermost(error))
    }
}

/// The last cause, which is the system's or the service's own word, cut.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string().chars().take(160).collect()
}

/// Makes a folder that only its owner can read; one that exists keeps its mode.
fn make_private(dir: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    if dir.is_dir() {
        return Ok(());
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}
