//! Shared artifacts: results that agents hand each other, on the workspace, each version a record of its own.
//!
//! It owns names, groups and which version is the newest; contents are the workspace's. Invariants: a version that was
//! made stays readable until its artifact is deleted; of two who revise one version, the second is told so when it says
//! which one it read; whoever may not have an artifact is answered as if there were none.

mod content;
mod manifest;
mod rows;

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_network::{Backstage, Event, Manifest, Mod, Outcome, Prepared, Refusal, Reply, Sender, Stage};
use longhaul_workspace::{StagedRecord, Workspace};
use serde_json::{Map, Value, json};

use self::{
    content::{Read, Staged},
    rows::{Artifact, Version},
};
use crate::{
    Parts,
    acting::Actor,
    audience, files,
    place::asker,
    shape::{Fields, REFERENCE_BYTES_MAX, config_number},
};

/// Longest name, bytes.
const NAME_BYTES_MAX: usize = 500;
/// Artifacts of one list.
const PAGE_MAX: i64 = 1_000;

/// The mod.
#[derive(Debug)]
pub(crate) struct Artifacts {
    parts: Parts,
    bytes_max: usize,
}

/// Makes it from its `config`.
pub(crate) fn make(config: &Map<String, Value>, parts: &Parts) -> Result<Arc<dyn Mod>, Refusal> {
    let bytes_max = config_number(config, "max_artifact_size", 50 * 1024 * 1024)?;
    Ok(Arc::new(Artifacts { parts: parts.clone(), bytes_max }))
}

#[async_trait]
impl Mod for Artifacts {
    fn manifest(&self) -> Manifest {
        manifest::manifest()
    }

    async fn prepare(&self, backstage: &Backstage, event: &Event) -> Result<Prepared, Refusal> {
        match event.name.as_str() {
            "shared_artifact.create" | "shared_artifact.update" => {
                content::stage(self.workspace(), backstage, event, self.bytes_max).await
            }
            "shared_artifact.get" => content::read(self.workspace(), backstage, event).await,
            _ => Ok(Prepared::default()),
        }
    }

    fn apply(&self, stage: &mut Stage<'_, '_>, event: &Event, prepared: Prepared) -> Result<Outcome, Refusal> {
        if !matches!(event.from, Sender::Agent(_)) {
            return Ok(Outcome::Pass);
        }
        let reply = match event.name.as_str() {
            "shared_artifact.create" => create(stage, event, prepared)?,
            "shared_artifact.update" => update(stage, event, prepared)?,
            "shared_artifact.get" => get(stage, event, prepared)?,
            "shared_artifact.list" => list(stage, event)?,
            "shared_artifact.history" => history(stage, event)?,
            "shared_artifact.delete" => delete(stage, event)?,
            _ => return Ok(Outcome::Pass),
        };
        Ok(Outcome::Answer(reply))
    }
}

impl Artifacts {
    fn workspace(&self) -> &Workspace {
        &self.parts.workspace
    }
}

fn create(stage: &mut Stage<'_, '_>, event: &Event, prepared: Prepared) -> Result<Reply, Refusal> {
    let fields = Fields::of(event);
    let Staged { id, record, bytes, media_type } = prepared.take().ok_or_else(not_prepared)?;
    let now = stage.now().0;
    let artifact = Artifact {
        id,
        name: fields.optional_text("name", NAME_BYTES_MAX)?.map(str::to_owned),
        media_type,
        groups: audience::named(&fields, "allowed_agent_groups")?,
        version: 1,
        created_by: asker(event)?.to_string(),
        created_at: now,
        updated_at: now,
        bytes,
    };
    rows::insert(stage, &artifact)?;
    keep(stage, event, &artifact, &record)?;
    notify(stage, event, "shared_artifact.notification.created", &artifact)?;
    let data = json!({"success": true, "artifact_id": artifact.id, "version": 1});
    Ok(Reply::done("the artifact was made", Some(data)))
}

fn update(stage: &mut Stage<'_, '_>, event: &Event, prepared: Prepared) -> Result<Reply, Refusal> {
    let fields = Fields::of(event);
    let Staged { record, bytes, .. } = prepared.take().ok_or_else(not_prepared)?;
    let mut artifact = artifact(stage, event, &fields)?;
    let base = fields.number("base_version", artifact.version, 1..=i64::MAX)?;
    if base != artifact.version {
        let why = format!("the artifact is at version {}, and not at {base}: read it again", artifact.version);
        return Err(Refusal::conflict(why));
    }
    artifact.version += 1;
    artifact.updated_at = stage.now().0;
    artifact.bytes = bytes;
    rows::revise(stage, &artifact)?;
    keep(stage, event, &artifact, &record)?;
    notify(stage, event, "shared_artifact.notification.updated", &artifact)?;
    let data = json!({"success": true, "artifact_id": artifact.id, "version": artifact.version});
    Ok(Reply::done("the artifact was revised", Some(data)))
}

/// Makes the version's content visible, in the transaction of its row.
fn keep(stage: &mut Stage<'_, '_>, event: &Event, artifact: &Artifact, record: &StagedRecord) -> Result<(), Refusal> {
    record.commit(stage.tx()).map_err(|error| content::failed(&error))?;
    let version = Version {
        version: artifact.version,
        record: record.reference().id.clone(),
        bytes: artifact.bytes,
        made_by: asker(event)?.to_string(),
        made_at: artifact.updated_at,
    };
    rows::insert_version(stage, &artifact.id, &version)
}

/// The artifact that the payload names, if the asker may have it.
fn artifact(stage: &Stage<'_, '_>, event: &Event, fields: &Fields<'_>) -> Result<Artifact, Refusal> {
    let id = fields.text("artifact_id", REFERENCE_BYTES_MAX)?;
    let actor = Actor::of(stage, event);
    let found = rows::find(stage, id)?.filter(|each| audience::may_have(&actor, &each.groups, &each.created_by));
    found.ok_or_else(|| Refusal::missing("artifact", id))
}

fn get(stage: &Stage<'_, '_>, event: &Event, prepared: Prepared) -> Result<Reply, Refusal> {
    let artifact = artifact(stage, event, &Fields::of(event))?;
    let Read { version, content } = prepared.take().ok_or_else(not_prepared)?;
    let mut data = artifact.shown();
    data["version"] = json!(version.version);
    data["newest_version"] = json!(artifact.version);
    data["file_size"] = json!(version.bytes);
    data["success"] = json!(true);
    match String::from_utf8(content) {
        Ok(text) if content::is_text(&artifact.media_type) => data["content"] = json!(text),
        Ok(text) => data["content"] = json!(files::encoded(text.as_bytes())),
        Err(error) => data["content"] = json!(files::encoded(error.as_bytes())),
    }
    Ok(Reply::done("the artifact was found", Some(data)))
}

fn list(stage: &Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
    let fields = Fields::of(event);
    let media_type = fields.optional_text("mime_type", files::MEDIA_TYPE_BYTES_MAX)?.filter(|text| !text.is_empty());
    let (page, actor) = (fields.page(200, PAGE_MAX)?, Actor::of(stage, event));
    let (found, total) = rows::page(stage, &actor, media_type, page)?;
    let data = json!({
        "success": true,
        "artifacts": found.iter().map(Artifact::shown).collect::<Vec<_>>(),
        "total_count": total,
        "offset": page.offset,
        "limit": page.limit,
        "has_more": page.has_more(found.len(), total),
    });
    Ok(Reply::done(format!("{} of {total} artifacts", found.len()), Some(data)))
}

fn history(stage: &Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
    let artifact = artifact(stage, event, &Fields::of(event))?;
    let versions: Vec<Value> = rows::versions(stage, &artifact.id)?.iter().map(Version::shown).collect();
    let data = json!({"success": true, "artifact_id": artifact.id, "versions": versions});
    Ok(Reply::done("the versions were listed", Some(data)))
}

fn delete(stage: &mut Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
    let artifact = artifact(stage, event, &Fields::of(event))?;
    content::erase(stage, &artifact.id)?;
    rows::delete(stage, &artifact.id)?;
    notify(stage, event, "shared_artifact.notification.deleted", &artifact)?;
    Ok(Reply::done("the artifact was deleted", Some(json!({"success": true, "artifact_id": artifact.id}))))
}

fn notify(stage: &mut Stage<'_, '_>, event: &Event, name: &str, artifact: &Artifact) -> Result<(), Refusal> {
    let payload = artifact.shown().as_object().cloned().unwrap_or_default();
    audience::tell(stage, event, name, &artifact.groups, payload)
}

fn not_prepared() -> Refusal {
    Refusal::invalid("the content did not come with its event: send it again")
}
