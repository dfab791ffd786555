//! The contents of artifacts: records of the workspace, under one task for each network.

use longhaul_core::{Digest, SessionId, TaskId, TaskScope, TraceId};
use longhaul_network::{Backstage, Event, Prepared, Refusal, RefusalKind, Stage};
use longhaul_workspace::{Content, Ingest, Kind, StagedRecord, Workspace, WorkspaceError, erasing};

use super::rows::{self, Version};
use crate::{
    files::{self, MEDIA_TYPE_BYTES_MAX},
    place::{Place, asker},
    shape::{Fields, REFERENCE_BYTES_MAX},
};

/// A content on its way in.
#[derive(Debug)]
pub(super) struct Staged {
    /// The artifact's id.
    pub(super) id: String,
    pub(super) record: StagedRecord,
    pub(super) bytes: i64,
    pub(super) media_type: String,
}

/// A content that was read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) version: Version,
    pub(super) content: Vec<u8>,
}

/// Whether contents of this type are text on the wire; all others are base64.
pub(super) fn is_text(media_type: &str) -> bool {
    let kind = media_type.split(';').next().unwrap_or_default().trim();
    kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || ["application/json", "application/xml", "application/yaml", "application/javascript"].contains(&kind)
}

/// The body of the ids under which a network's artifacts are kept; a network's own id may hold what ids may not.
fn id_body(network: &str) -> String {
    let digest = Digest::of(network.as_bytes()).to_string();
    digest.chars().filter(char::is_ascii_alphanumeric).take(32).collect()
}

/// The task under which a network's artifacts are kept.
fn owner(backstage: &Backstage) -> TaskScope {
    let body = id_body(backstage.network.id());
    TaskScope {
        scope: backstage.network.scope().clone(),
        session: SessionId::from_body(&body),
        task: TaskId::from_body(&body),
        trace: TraceId::from_body(&body),
    }
}

/// Checks a new content and makes it durable.
pub(super) async fn stage(
    workspace: &Workspace,
    backstage: &Backstage,
    event: &Event,
    bytes_max: usize,
) -> Result<Prepared, Refusal> {
    let (fields, maker) = (Fields::of(event), asker(event)?);
    let known = match event.name.as_str() {
        "shared_artifact.update" => Some(fields.text("artifact_id", REFERENCE_BYTES_MAX)?.to_owned()),
        _ => None,
    };
    let place = Place { tenant: backstage.network.scope().tenant.clone(), network: backstage.network.id().to_owned() };
    let store = backstage.network.store();
    let (media_type, id) = match known {
        Some(id) => {
            let wanted = id.clone();
            let found = store.read(move |read| rows::find_in(read, &place, &wanted)).await?;
            (found.ok_or_else(|| Refusal::missing("artifact", &id))?.media_type, id)
        }
        None => (files::media_type(&fields, "text/plain")?, store.ambient().ids.body()),
    };
    let content: Content = if is_text(&media_type) {
        let text = fields.text("content", usize::MAX)?;
        if text.len() > bytes_max {
            let why = format!("payload.content has {} bytes: at most {bytes_max} are taken", text.len());
            return Err(Refusal::new(RefusalKind::TooLarge, why));
        }
        text.into()
    } else {
        files::decoded(&fields, "content", bytes_max)?.into()
    };
    let bytes = match &content {
        Content::Text(text) => text.len(),
        Content::Bytes(bytes) => bytes.len(),
        Content::Reader(_) => 0,
    };
    let summary = match fields.optional_text("name", super::NAME_BYTES_MAX)?.filter(|name| !name.trim().is_empty()) {
        Some(name) => name.chars().take(200).collect(),
        None => format!("artifact {id}"),
    };
    let source = format!("agent {maker}");
    let mut what = Ingest::new(Kind::Artifact, "shared_artifacts", &summary, &source, content);
    what.media_type = media_type.chars().take(MEDIA_TYPE_BYTES_MAX).collect();
    what.name = Some(id.clone());
    what.revise = true;
    let record = workspace.task(&owner(backstage)).stage(what).await.map_err(|error| failed(&error))?;
    Ok(Prepared::with(Staged { id, record, bytes: i64::try_from(bytes).unwrap_or(i64::MAX), media_type }))
}

/// Reads the version that is asked for, the newest if none is; who may have it is decided in the transaction.
pub(super) async fn read(workspace: &Workspace, backstage: &Backstage, event: &Event) -> Result<Prepared, Refusal> {
    let fields = Fields::of(event);
    let id = fields.text("artifact_id", REFERENCE_BYTES_MAX)?.to_owned();
    let number = fields.number("version", 0, 0..=i64::MAX)?;
    let place = Place { tenant: backstage.network.scope().tenant.clone(), network: backstage.network.id().to_owned() };
    let wanted = id.clone();
    let found = backstage.network.store().read(move |read| rows::version_in(read, &place, &wanted, number)).await?;
    let version = found.ok_or_else(|| Refusal::missing("artifact", &id))?;
    let task = workspace.task(&owner(backstage));
    let (_, content) = task.read(&version.record).await.map_err(|error| failed(&error))?;
    Ok(Prepared::with(Read { version, content }))
}

/// Erases the records of all versions; contents go with the last record that has them.
pub(super) fn erase(stage: &mut Stage<'_, '_>, artifact: &str) -> Result<(), Refusal> {
    let (scope, network) = stage.place();
    let (tenant, network) = (scope.tenant.clone(), network.to_owned());
    let task = TaskId::from_body(&id_body(&network));
    let doomed: Vec<erasing::Doomed> = rows::versions(stage, artifact)?
        .into_iter()
        .map(|version| erasing::Doomed { id: version.record, task: task.clone() })
        .collect();
    erasing::erase_records(stage.tx(), &tenant, &doomed)?;
    Ok(())
}

/// What the workspace refuses, in words for whoever asked.
pub(super) fn failed(error: &WorkspaceError) -> Refusal {
    match error {
        WorkspaceError::Store(error) => error.clone().into(),
        WorkspaceError::Field { .. } | WorkspaceError::Missing(_) => Refusal::invalid(error.to_string()),
        other => {
            tracing::error!(error = other as &dyn std::error::Error, "the workspace failed");
            Refusal::new(RefusalKind::Unavailable, "the workspace failed, nothing was done: try again later")
        }
    }
}
