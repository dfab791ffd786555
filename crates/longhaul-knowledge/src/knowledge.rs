//! The handle: which corpora and versions there are, for whom, and how they go.
//!
//! Building is `build`'s and searching `search`'s business. Invariant: whether somebody sees a version is decided by the
//! rights to its partition, in the transaction that looks.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use longhaul_core::{Scope, ThreadId};
use longhaul_memory::{Grantee, KNOWLEDGE_PREFIX, Memory, Namespace};
use longhaul_store::{Lease, LeaseError, ReadTx, Row, Store, StoreError, Tx, values};

use crate::{CorpusName, CorpusRef, Difference, FileInfo, KnowledgeError, State, Version};

/// Rows erased in one transaction.
const DROPPED_AT_ONCE: usize = 500;
const LEASE_TTL: Duration = Duration::from_secs(30);

/// Corpora over a store and its memory. Cheap to clone.
#[derive(Clone)]
pub struct Knowledge {
    pub(crate) store: Store,
    pub(crate) memory: Memory,
}

pub(crate) const VERSION_COLUMNS: &str =
    "corpus, version, owner, state, source, files, refused, chunks, bytes, created_at, completed_at";

pub(crate) fn version_row(row: &Row<'_>) -> Result<Version, StoreError> {
    let name = row.text(0)?;
    let corpus = name.parse().map_err(|_| StoreError::Column {
        column: 0,
        expected: "a corpus",
        found: name.chars().take(80).collect(),
    })?;
    Ok(Version {
        corpus,
        version: row.get(1)?,
        owner: row.get(2)?,
        state: State::of(row.text(3)?),
        source: row.get(4)?,
        files: row.get(5)?,
        refused: row.get(6)?,
        chunks: row.get(7)?,
        bytes: row.get(8)?,
        created_at: row.get(9)?,
        completed_at: row.get(10)?,
    })
}

/// The files of a version, by name.
pub(crate) fn files_of(
    read: &ReadTx<'_>,
    scope: &Scope,
    name: &CorpusName,
    version: u32,
) -> Result<Vec<FileInfo>, StoreError> {
    let file = |row: &Row<'_>| {
        Ok(FileInfo {
            name: row.get(0)?,
            digest: row.get(1)?,
            format: row.get(2)?,
            title: row.get(3)?,
            bytes: row.get(4)?,
            chunks: row.get(5)?,
            problem: row.get(6)?,
        })
    };
    read.query(
        "SELECT name, digest, format, title, bytes, chunks, problem FROM knowledge_files
         WHERE tenant_id = ?1 AND corpus = ?2 AND version = ?3 ORDER BY name",
        &values![&scope.tenant, name.as_str(), version],
        file,
    )
}

impl Knowledge {
    /// Corpora over a store opened with memory's migrations and [`crate::MIGRATIONS`].
    #[must_use]
    pub fn new(store: Store, memory: Memory) -> Self {
        Self { store, memory }
    }

    /// The complete versions that the user may read, and their own unfinished ones, by name and number.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn versions(&self, scope: &Scope) -> Result<Vec<Version>, KnowledgeError> {
        let readable: BTreeSet<Namespace> =
            self.memory.partitions(scope).await?.into_iter().map(|info| info.namespace).collect();
        let (tenant, user) = (scope.tenant.clone(), scope.user.clone());
        let sql = format!(
            "SELECT {VERSION_COLUMNS} FROM knowledge_versions WHERE tenant_id = ?1 AND state <> 'removed'
             ORDER BY corpus, version"
        );
        let all = self.store.read(move |read| read.query(&sql, &values![&tenant], version_row)).await?;
        let visible = |version: &Version| match version.state {
            State::Building => version.owner == user,
            State::Ready => version.corpus.namespace(version.version).is_ok_and(|name| readable.contains(&name)),
            State::Removed => false,
        };
        Ok(all.into_iter().filter(visible).collect())
    }

    /// The version that is meant, if it is complete and the user may read it.
    ///
    /// # Errors
    /// [`KnowledgeError::NoCorpus`], [`KnowledgeError::NoVersion`]; those of the store.
    pub async fn resolve(&self, scope: &Scope, meant: &CorpusRef) -> Result<Version, KnowledgeError> {
        let mut ready = self.versions(scope).await?;
        ready.retain(|version| version.state == State::Ready);
        let of_name: Vec<&Version> = ready.iter().filter(|version| version.corpus == meant.name).collect();
        let Some(newest) = of_name.last() else {
            let there: BTreeSet<String> = ready.iter().map(|version| version.corpus.to_string()).collect();
            return Err(KnowledgeError::NoCorpus { name: meant.name.to_string(), there: there.into_iter().collect() });
        };
        let Some(number) = meant.version else { return Ok((*newest).clone()) };
        let found = of_name.iter().find(|version| version.version == number).map(|version| (*version).clone());
        found.ok_or_else(|| KnowledgeError::NoVersion {
            name: meant.name.to_string(),
            version: number,
            there: of_name.iter().map(|version| version.version.to_string()).collect::<Vec<_>>().join(", "),
        })
    }

    /// The files of a version, those that were refused included, by name.
    ///
    /// # Errors
    /// As [`Knowledge::resolve`].
    pub async fn files(&self, scope: &Scope, meant: &CorpusRef) -> Result<Vec<FileInfo>, KnowledgeError> {
        let version = self.resolve(scope, meant).await?;
        let scope = scope.clone();
        Ok(self.store.read(move |read| files_of(read, &scope, &version.corpus, version.version)).await?)
    }

    /// What is different between two versions of a corpus.
    ///
    /// # Errors
    /// As [`Knowledge::resolve`].
    pub async fn difference(
        &self,
        scope: &Scope,
        name: &CorpusName,
        older: u32,
        newer: u32,
    ) -> Result<Difference, KnowledgeError> {
        let digests = async |version: u32| {
            let meant = CorpusRef { name: name.clone(), version: Some(version) };
            let files = self.files(scope, &meant).await?.into_iter().filter(|file| file.problem.is_none());
            Ok::<BTreeMap<String, String>, KnowledgeError>(files.map(|file| (file.name, file.digest)).collect())
        };
        let (mut old, new) = (digests(older).await?, digests(newer).await?);
        let mut difference = Difference::default();
        for (name, digest) in new {
            match old.remove(&name) {
                None => difference.added.push(name),
                Some(before) if before == digest => difference.unchanged += 1,
                Some(_) => difference.changed.push(name),
            }
        }
        difference.removed = old.into_keys().collect();
        Ok(difference)
    }

    /// Lets others of the tenant search a corpus: its versions so far and those to come.
    ///
    /// # Errors
    /// [`KnowledgeError::NoCorpus`], or that it belongs to somebody else.
    pub async fn share(&self, scope: &Scope, name: &CorpusName, with: &Grantee) -> Result<(), KnowledgeError> {
        for namespace in self.own_namespaces(scope, name).await? {
            self.memory.grant(scope, &namespace, with, false).await?;
        }
        Ok(())
    }

    /// Takes that back, from the next search on.
    ///
    /// # Errors
    /// As [`Knowledge::share`].
    pub async fn unshare(&self, scope: &Scope, name: &CorpusName, with: &Grantee) -> Result<(), KnowledgeError> {
        for namespace in self.own_namespaces(scope, name).await? {
            self.memory.revoke(scope, &namespace, with).await?;
        }
        Ok(())
    }

    async fn own_namespaces(&self, scope: &Scope, name: &CorpusName) -> Result<Vec<Namespace>, KnowledgeError> {
        let newest = self.resolve(scope, &CorpusRef { name: name.clone(), version: None }).await?;
        if newest.owner != scope.user {
            return Err(KnowledgeError::NotYours { name: name.to_string(), owner: newest.owner.to_string() });
        }
        let versions = self.versions(scope).await?.into_iter().filter(|version| version.corpus == *name);
        versions.map(|version| name.namespace(version.version)).collect()
    }

    /// Takes one version of a corpus away with all its chunks, or without a number all of them. Gives the numbers.
    ///
    /// # Errors
    /// [`KnowledgeError::NoCorpus`], [`KnowledgeError::NoVersion`], [`KnowledgeError::NotYours`],
    /// [`KnowledgeError::Busy`] while it is being added to; those of the store.
    pub async fn remove(&self, scope: &Scope, meant: &CorpusRef) -> Result<Vec<u32>, KnowledgeError> {
        let mine = self.versions(scope).await?.into_iter().filter(|version| version.corpus == meant.name);
        let mut versions: Vec<Version> = mine.collect();
        if versions.is_empty() || meant.version.is_some_and(|number| versions.iter().all(|v| v.version != number)) {
            self.resolve(scope, meant).await?;
        }
        versions.retain(|version| meant.version.is_none_or(|number| version.version == number));
        if let Some(foreign) = versions.iter().find(|version| version.owner != scope.user) {
            return Err(KnowledgeError::NotYours { name: meant.name.to_string(), owner: foreign.owner.to_string() });
        }
        let lease = self.lease(scope, &meant.name).await?;
        for version in &versions {
            self.drop_version(scope, &meant.name, version.version, State::Removed).await?;
        }
        lease.release().await?;
        Ok(versions.iter().map(|version| version.version).collect())
    }

    /// One process at a time adds to a corpus or removes from it.
    pub(crate) async fn lease(&self, scope: &Scope, name: &CorpusName) -> Result<Lease, KnowledgeError> {
        let thread: Result<ThreadId, _> = format!("{KNOWLEDGE_PREFIX}{name}").parse();
        let busy = || KnowledgeError::Busy { name: name.to_string() };
        let thread = thread.map_err(|_| KnowledgeError::Name { name: name.to_string() })?;
        match Lease::acquire(&self.store, scope, &thread, LEASE_TTL).await {
            Ok(lease) => Ok(lease),
            Err(LeaseError::Held { .. }) => Err(busy()),
            Err(LeaseError::Store(error)) => Err(error.into()),
        }
    }

    /// Erases a version's rows in parts; from the first part on nobody finds it.
    pub(crate) async fn drop_version(
        &self,
        scope: &Scope,
        name: &CorpusName,
        version: u32,
        state: State,
    ) -> Result<(), KnowledgeError> {
        let namespace = name.namespace(version)?;
        loop {
            let (memory, scope, name) = (self.memory.clone(), scope.clone(), name.clone());
            let namespace = namespace.clone();
            let part = move |tx: &mut Tx<'_>| {
                let key = values![&scope.tenant, name.as_str(), version];
                tx.execute(
                    "UPDATE knowledge_versions SET state = ?4 WHERE tenant_id = ?1 AND corpus = ?2 AND version = ?3",
                    &values![&scope.tenant, name.as_str(), version, state.as_str()],
                )?;
                for table in ["knowledge_chunks", "knowledge_files"] {
                    let sql = format!("DELETE FROM {table} WHERE tenant_id = ?1 AND corpus = ?2 AND version = ?3");
                    tx.execute(&sql, &key)?;
                }
                Ok::<_, KnowledgeError>(memory.drop_partition(tx, &scope, &namespace, DROPPED_AT_ONCE)?)
            };
            if self.store.write(part).await? {
                break;
            }
        }
        if let Err(error) = self.memory.purge_dropped(scope, &namespace) {
            tracing::warn!(%error, %namespace, "the vector index of a removed version stays on the disk");
        }
        Ok(())
    }
}
