//! Records: what is worth keeping, with its content stored once as a blob.
//!
//! Invariant: a visible record has its content on disk. Content is written (and fsynced) by [`Workspace::stage`] before
//! the transaction that makes the row visible; a crash in between leaves a blob without a row, never the reverse.

use longhaul_core::{Ambient, Digest, RecordId, Scope, TaskScope};
use longhaul_store::{Store, StoreError, Tx, values};
use serde::{Deserialize, Serialize};

use crate::WorkspaceError;

const SCHEMA: i64 = 1;

/// What sort of thing a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Something made: a patch, a report.
    Artifact,
    /// What supports or refutes a claim.
    Evidence,
    /// Something seen on the way.
    Observation,
    /// A short text for later.
    Note,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Artifact => "artifact",
            Self::Evidence => "evidence",
            Self::Observation => "observation",
            Self::Note => "note",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Artifact, Self::Evidence, Self::Observation, Self::Note].into_iter().find(|kind| kind.name() == name)
    }
}

/// What the caller says of a record.
#[derive(Debug, Clone)]
pub struct NewRecord {
    /// Group in which it is looked up: `evidence`.
    pub collection: String,
    /// What sort of thing it is.
    pub kind: Kind,
    /// Media type of the content: `image/png`.
    pub media_type: String,
    /// What it is, in a few words; required.
    pub summary: String,
    /// Where it came from; required.
    pub source: String,
}

/// The small reference that state, prompts and other rows carry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordRef {
    /// The record.
    pub id: RecordId,
    /// Digest of its content.
    pub digest: Digest,
}

/// A stored record, without its content.
#[derive(Debug, Clone)]
pub struct Record {
    /// The reference.
    pub reference: RecordRef,
    /// What the maker said of it.
    pub about: NewRecord,
    /// Size of the content in bytes.
    pub size: u64,
}

/// A record whose content is on disk and whose row is not yet written.
#[derive(Debug, Clone)]
pub struct StagedRecord {
    owner: TaskScope,
    about: NewRecord,
    reference: RecordRef,
    size: u64,
}

impl StagedRecord {
    /// The reference it will have; known before the row is visible.
    #[must_use]
    pub fn reference(&self) -> &RecordRef {
        &self.reference
    }

    /// Writes the row, in the transaction of whatever the record belongs to.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn commit(&self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        let now = tx.now();
        tx.execute(
            "insert into records (tenant_id, record_id, task_id, collection, kind, media_type, summary, source, digest,
                 size, created_at, schema)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            &values![
                &self.owner.scope.tenant,
                &self.reference.id,
                &self.owner.task,
                &self.about.collection,
                self.about.kind.name(),
                &self.about.media_type,
                &self.about.summary,
                &self.about.source,
                &self.reference.digest,
                self.size,
                now,
                SCHEMA,
            ],
        )?;
        Ok(())
    }
}

/// Keeps and finds records. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Workspace {
    store: Store,
    ambient: Ambient,
}

impl Workspace {
    /// Over this store.
    #[must_use]
    pub fn new(store: Store, ambient: Ambient) -> Self {
        Self { store, ambient }
    }

    /// Puts the content on disk and gives the record that a transaction can then make visible.
    ///
    /// # Errors
    /// When summary or source is empty, or the content cannot be written.
    pub async fn stage(
        &self,
        owner: &TaskScope,
        about: NewRecord,
        content: &[u8],
    ) -> Result<StagedRecord, WorkspaceError> {
        if about.summary.trim().is_empty() {
            return Err(WorkspaceError::Missing("summary"));
        }
        if about.source.trim().is_empty() {
            return Err(WorkspaceError::Missing("source"));
        }
        let digest = self.store.blobs().put(&owner.scope, content.to_vec()).await?;
        let id = RecordId::from_body(&self.ambient.ids.body());
        let size = content.len() as u64;
        Ok(StagedRecord { owner: owner.clone(), about, reference: RecordRef { id, digest }, size })
    }

    /// The record and its content, whose digest is checked.
    ///
    /// # Errors
    /// When there is no such record in the tenant, or its content is missing or was changed.
    pub async fn read(&self, scope: &Scope, id: &RecordId) -> Result<(Record, Vec<u8>), WorkspaceError> {
        let record = self.find(scope, id).await?.ok_or_else(|| WorkspaceError::NoSuchRecord(id.clone()))?;
        let content = self.store.blobs().get(scope, &record.reference.digest).await?;
        Ok((record, content))
    }

    async fn find(&self, scope: &Scope, id: &RecordId) -> Result<Option<Record>, WorkspaceError> {
        let (tenant, wanted) = (scope.tenant.clone(), id.clone());
        self.store
            .read(move |read| {
                let row = read.query_optional(
                    "select collection, kind, media_type, summary, source, digest, size from records
                     where tenant_id = ?1 and record_id = ?2",
                    &values![&tenant, &wanted],
                    |row| {
                        let text = |i| row.get::<String>(i);
                        Ok((
                            text(0)?,
                            text(1)?,
                            text(2)?,
                            text(3)?,
                            text(4)?,
                            row.get::<Digest>(5)?,
                            row.get::<u64>(6)?,
                        ))
                    },
                )?;
                let Some((collection, kind, media_type, summary, source, digest, size)) = row else {
                    return Ok(None);
                };
                let unreadable = |column| WorkspaceError::Unreadable { id: wanted.to_string(), column };
                let kind = Kind::parse(&kind).ok_or_else(|| unreadable("kind"))?;
                Ok(Some(Record {
                    reference: RecordRef { id: wanted, digest },
                    about: NewRecord { collection, kind, media_type, summary, source },
                    size,
                }))
            })
            .await
    }
}
