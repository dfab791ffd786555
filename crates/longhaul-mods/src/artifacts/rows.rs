//! The rows of artifacts and their versions.

use longhaul_core::{RecordId, TimeMs};
use longhaul_network::{Refusal, Stage};
use longhaul_store::{ReadTx, Row, StoreError, values};
use serde_json::{Value, json};

use crate::{
    acting::{Actor, seconds},
    audience,
    place::Place,
    shape::Page,
};

/// Version of what a row holds.
const V: u32 = 1;

/// An artifact.
#[derive(Debug, Clone)]
pub(super) struct Artifact {
    pub(super) id: String,
    pub(super) name: Option<String>,
    pub(super) media_type: String,
    pub(super) groups: Vec<String>,
    pub(super) version: i64,
    pub(super) created_by: String,
    pub(super) created_at: i64,
    pub(super) updated_at: i64,
    /// Of the newest version.
    pub(super) bytes: i64,
}

impl Artifact {
    /// All but its content.
    pub(super) fn shown(&self) -> Value {
        json!({
            "artifact_id": self.id,
            "name": self.name,
            "mime_type": self.media_type,
            "file_size": self.bytes,
            "allowed_agent_groups": self.groups,
            "created_by": self.created_by,
            "created_at": seconds(TimeMs(self.created_at)),
            "updated_at": seconds(TimeMs(self.updated_at)),
            "version": self.version,
        })
    }
}

/// One version.
#[derive(Debug, Clone)]
pub(super) struct Version {
    pub(super) version: i64,
    pub(super) record: RecordId,
    pub(super) bytes: i64,
    pub(super) made_by: String,
    pub(super) made_at: i64,
}

impl Version {
    pub(super) fn shown(&self) -> Value {
        json!({
            "version": self.version,
            "record_id": self.record.as_str(),
            "file_size": self.bytes,
            "made_by": self.made_by,
            "made_at": seconds(TimeMs(self.made_at)),
        })
    }
}

const ARTIFACT: &str = "SELECT a.artifact_id, a.name, a.media_type, a.groups, a.version, a.created_by, a.created_at,
    a.updated_at, n.bytes FROM shared_artifacts a JOIN shared_artifact_versions n ON n.tenant_id = a.tenant_id
    AND n.network_id = a.network_id AND n.artifact_id = a.artifact_id AND n.version = a.version
    WHERE a.tenant_id = ?1 AND a.network_id = ?2";
const VERSION: &str = "SELECT version, record_id, bytes, made_by, made_at FROM shared_artifact_versions
    WHERE tenant_id = ?1 AND network_id = ?2 AND artifact_id = ?3";

fn artifact(row: &Row<'_>) -> Result<Artifact, StoreError> {
    Ok(Artifact {
        id: row.get(0)?,
        name: row.get(1)?,
        media_type: row.get(2)?,
        groups: audience::read(row.text(3)?),
        version: row.get(4)?,
        created_by: row.get(5)?,
        created_at: row.get(6)?,
        updated_at: row.get(7)?,
        bytes: row.get(8)?,
    })
}

fn version(row: &Row<'_>) -> Result<Version, StoreError> {
    Ok(Version {
        version: row.get(0)?,
        record: row.get(1)?,
        bytes: row.get(2)?,
        made_by: row.get(3)?,
        made_at: row.get(4)?,
    })
}

/// The artifact with this id.
pub(super) fn find(stage: &Stage<'_, '_>, id: &str) -> Result<Option<Artifact>, Refusal> {
    Ok(find_in(&stage.rows(), &Place::of(stage), id)?)
}

/// The same, outside of a stage.
pub(super) fn find_in(read: &ReadTx<'_>, place: &Place, id: &str) -> Result<Option<Artifact>, StoreError> {
    let sql = format!("{ARTIFACT} AND a.artifact_id = ?3");
    read.query_optional(&sql, &values![&place.tenant, &place.network, id], artifact)
}

/// A version of an artifact; the newest for 0.
pub(super) fn version_in(
    read: &ReadTx<'_>,
    place: &Place,
    id: &str,
    number: i64,
) -> Result<Option<Version>, StoreError> {
    let sql = format!("{VERSION} AND (version = ?4 OR ?4 = 0) ORDER BY version DESC LIMIT 1");
    read.query_optional(&sql, &values![&place.tenant, &place.network, id, number], version)
}

/// All versions, the newest first.
pub(super) fn versions(stage: &Stage<'_, '_>, id: &str) -> Result<Vec<Version>, Refusal> {
    let Place { tenant, network } = Place::of(stage);
    Ok(stage.rows().query(&format!("{VERSION} ORDER BY version DESC"), &values![&tenant, &network, id], version)?)
}

pub(super) fn insert(stage: &mut Stage<'_, '_>, artifact: &Artifact) -> Result<(), Refusal> {
    let Place { tenant, network } = Place::of(stage);
    stage.tx().execute(
        "INSERT INTO shared_artifacts (tenant_id, network_id, artifact_id, v, name, media_type, groups, version,
             created_by, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        &values![
            &tenant,
            &network,
            &artifact.id,
            V,
            artifact.name.as_ref(),
            &artifact.media_type,
            audience::printed(&artifact.groups),
            artifact.version,
            &artifact.created_by,
            artifact.created_at,
            artifact.updated_at,
        ],
    )?;
    Ok(())
}

pub(super) fn revise(stage: &mut Stage<'_, '_>, artifact: &Artifact) -> Result<(), Refusal> {
    let Place { tenant, network } = Place::of(stage);
    stage.tx().execute(
        "UPDATE shared_artifacts SET version = ?4, updated_at = ?5
         WHERE tenant_id = ?1 AND network_id = ?2 AND artifact_id = ?3",
        &values![&tenant, &network, &artifact.id, artifact.version, artifact.updated_at],
    )?;
    Ok(())
}

pub(super) fn insert_version(stage: &mut Stage<'_, '_>, artifact: &str, version: &Version) -> Result<(), Refusal> {
    let Place { tenant, network } = Place::of(stage);
    stage.tx().execute(
        "INSERT INTO shared_artifact_versions (tenant_id, network_id, artifact_id, version, record_id, bytes, made_by,
             made_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        &values![
            &tenant,
            &network,
            artifact,
            version.version,
            &version.record,
            version.bytes,
            &version.made_by,
            version.made_at,
        ],
    )?;
    Ok(())
}

pub(super) fn delete(stage: &mut Stage<'_, '_>, id: &str) -> Result<(), Refusal> {
    let Place { tenant, network } = Place::of(stage);
    for table in ["shared_artifacts", "shared_artifact_versions"] {
        stage.tx().execute(
            &format!("DELETE FROM {table} WHERE tenant_id = ?1 AND network_id = ?2 AND artifact_id = ?3"),
            &values![&tenant, &network, id],
        )?;
    }
    Ok(())
}

/// What the actor may have, the last changed first, and how many there are.
pub(super) fn page(
    stage: &Stage<'_, '_>,
    actor: &Actor,
    media_type: Option<&str>,
    page: Page,
) -> Result<(Vec<Artifact>, i64), Refusal> {
    let Place { tenant, network } = Place::of(stage);
    let sql = format!("{ARTIFACT} AND (a.media_type = ?3 OR ?3 = '') ORDER BY a.updated_at DESC, a.artifact_id");
    let (mut total, mut found) = (0, Vec::new());
    stage.rows().for_each(&sql, &values![&tenant, &network, media_type.unwrap_or_default()], |row| {
        let each = artifact(row)?;
        if audience::may_have(actor, &each.groups, &each.created_by) {
            if total >= page.offset && total < page.offset + page.limit {
                found.push(each);
            }
            total += 1;
        }
        Ok(true)
    })?;
    Ok((found, total))
}
