//! The shared cache: values and files that agents put down for each other, with versions, groups and an end.
//!
//! Invariants: whoever may not have an entry is answered as if there were none; of two who change one version, the
//! second is told so when it says which version it read.

mod manifest;
mod rows;

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::TimeMs;
use longhaul_network::{
    Backstage, Event, Manifest, Mod, Outcome, Prepared, Refusal, RefusalKind, Reply, Sender, Stage,
};
use serde_json::{Map, Value, json};

use self::rows::Entry;
use crate::{
    Parts,
    acting::Actor,
    audience,
    files::{self, Audience, Fetched, Taken},
    place::asker,
    shape::{Fields, REFERENCE_BYTES_MAX, config_number, wrong},
};

/// The mod.
#[derive(Debug)]
pub(crate) struct Cache {
    value_bytes_max: usize,
    file_bytes_max: usize,
    agent_file_bytes_max: usize,
    entries_max: i64,
}

/// Makes it from its `config`.
pub(crate) fn make(config: &Map<String, Value>, _parts: &Parts) -> Result<Arc<dyn Mod>, Refusal> {
    let entries = config_number(config, "max_entries_per_agent", 10_000)?;
    Ok(Arc::new(Cache {
        value_bytes_max: config_number(config, "max_value_size", 1024 * 1024)?,
        file_bytes_max: config_number(config, "max_file_size", 50 * 1024 * 1024)?,
        agent_file_bytes_max: config_number(config, "max_file_bytes_per_agent", 1024 * 1024 * 1024)?,
        entries_max: i64::try_from(entries).unwrap_or(i64::MAX),
    }))
}

#[async_trait]
impl Mod for Cache {
    fn manifest(&self) -> Manifest {
        manifest::manifest()
    }

    async fn prepare(&self, backstage: &Backstage, event: &Event) -> Result<Prepared, Refusal> {
        match event.name.as_str() {
            "shared_cache.file.upload" => {
                let limits = files::Limits { bytes_max: self.file_bytes_max, types: None };
                files::take_in(backstage, event, "file_data", &limits).await
            }
            "shared_cache.file.download" => files::fetch(backstage, event, "cache_id").await,
            _ => Ok(Prepared::default()),
        }
    }

    fn apply(&self, stage: &mut Stage<'_, '_>, event: &Event, prepared: Prepared) -> Result<Outcome, Refusal> {
        if !matches!(event.from, Sender::Agent(_)) {
            return Ok(Outcome::Pass);
        }
        let reply = match event.name.as_str() {
            "shared_cache.create" => self.create(stage, event)?,
            "shared_cache.get" => get(stage, event)?,
            "shared_cache.update" => self.update(stage, event)?,
            "shared_cache.delete" => delete(stage, event)?,
            "shared_cache.file.upload" => self.upload(stage, event, prepared)?,
            "shared_cache.file.download" => download(stage, event, prepared)?,
            _ => return Ok(Outcome::Pass),
        };
        Ok(Outcome::Answer(reply))
    }
}

impl Cache {
    fn create(&self, stage: &mut Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
        let fields = Fields::of(event);
        let value = self.value(&fields)?;
        let media_type = files::media_type(&fields, "text/plain")?;
        let entry = Entry { value: Some(value), ..self.new_entry(stage, event, &fields, media_type)? };
        rows::insert(stage, &entry)?;
        notify(stage, event, "shared_cache.notification.created", &entry)?;
        let data = json!({"success": true, "cache_id": entry.id, "version": entry.version});
        Ok(Reply::done("the entry was made", Some(data)))
    }

    fn value(&self, fields: &Fields<'_>) -> Result<String, Refusal> {
        let value = match fields.value("value") {
            None => return Err(wrong("value", "is missing: a text is needed")),
            Some(Value::String(text)) => text.clone(),
            // Whoever puts an object down gets its JSON back.
            Some(other) => other.to_string(),
        };
        if value.len() > self.value_bytes_max {
            let why = format!("payload.value has {} bytes: at most {} are taken", value.len(), self.value_bytes_max);
            return Err(Refusal::new(RefusalKind::TooLarge, why));
        }
        Ok(value)
    }

    fn new_entry(
        &self,
        stage: &mut Stage<'_, '_>,
        event: &Event,
        fields: &Fields<'_>,
        media_type: String,
    ) -> Result<Entry, Refusal> {
        let (maker, now) = (asker(event)?, stage.now());
        rows::forget_ended(stage)?;
        if rows::count_of(stage, maker.as_str())? >= self.entries_max {
            let why = format!("you have {} entries in the cache: delete some first", self.entries_max);
            return Err(Refusal::new(RefusalKind::TooMany, why));
        }
        Ok(Entry {
            id: stage.new_id(),
            value: None,
            file: None,
            media_type,
            groups: audience::named(fields, "allowed_agent_groups")?,
            version: 1,
            created_by: maker.to_string(),
            created_at: now.0,
            updated_at: now.0,
            expires_at: ends(fields, now)?,
        })
    }

    fn update(&self, stage: &mut Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
        let fields = Fields::of(event);
        let (value, mut entry) = (self.value(&fields)?, entry(stage, event, &fields)?);
        if entry.file.is_some() {
            return Err(wrong("cache_id", "names a file: upload another one"));
        }
        let read = fields.number("expected_version", entry.version, 1..=i64::MAX)?;
        if read != entry.version {
            let why = format!("the entry is at version {}, and not at {read}: read it again", entry.version);
            return Err(Refusal::conflict(why));
        }
        entry.version += 1;
        entry.updated_at = stage.now().0;
        entry.value = Some(value);
        rows::update(stage, &entry)?;
        notify(stage, event, "shared_cache.notification.updated", &entry)?;
        let data = json!({"success": true, "cache_id": entry.id, "version": entry.version});
        Ok(Reply::done("the entry was changed", Some(data)))
    }

    fn upload(&self, stage: &mut Stage<'_, '_>, event: &Event, prepared: Prepared) -> Result<Reply, Refusal> {
        let (fields, owner) = (Fields::of(event), asker(event)?);
        let taken: Taken = prepared.take().ok_or_else(not_prepared)?;
        let entry = self.new_entry(stage, event, &fields, taken.media_type.clone())?;
        let audience = match entry.groups.is_empty() {
            true => Audience::Everybody,
            false => Audience::Groups(entry.groups.clone()),
        };
        let file = files::keep(stage, owner, taken, audience, self.agent_file_bytes_max)?;
        // One id for both: whoever uploads through the cache may attach it to a message, too.
        let entry = Entry { id: file.id.clone(), file: Some(file.id.clone()), ..entry };
        rows::insert(stage, &entry)?;
        notify(stage, event, "shared_cache.notification.created", &entry)?;
        let data = json!({
            "success": true,
            "cache_id": entry.id,
            "filename": file.filename,
            "file_size": file.bytes,
            "mime_type": file.media_type,
        });
        Ok(Reply::done("the file was uploaded", Some(data)))
    }
}

/// When an entry ends that may say so.
fn ends(fields: &Fields<'_>, now: TimeMs) -> Result<Option<i64>, Refusal> {
    let seconds = fields.number("expires_in_seconds", 0, 0..=10 * 365 * 24 * 3600)?;
    Ok((seconds > 0).then(|| now.0.saturating_add(seconds * 1000)))
}

/// The entry that the payload names, if the asker may have it.
fn entry(stage: &Stage<'_, '_>, event: &Event, fields: &Fields<'_>) -> Result<Entry, Refusal> {
    let id = fields.text("cache_id", REFERENCE_BYTES_MAX)?;
    let found = rows::find(stage, id)?.filter(|entry| {
        let actor = Actor::of(stage, event);
        audience::may_have(&actor, &entry.groups, &entry.created_by)
    });
    found.ok_or_else(|| Refusal::missing("cache entry", id))
}

fn get(stage: &Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
    let entry = entry(stage, event, &Fields::of(event))?;
    let mut data = entry.shown();
    data["success"] = json!(true);
    data["value"] = json!(entry.value);
    if let Some(file) = rows::file_of(stage, &entry)? {
        data["filename"] = json!(file.filename);
        data["file_size"] = json!(file.bytes);
    }
    Ok(Reply::done("the entry was found", Some(data)))
}

fn delete(stage: &mut Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
    let entry = entry(stage, event, &Fields::of(event))?;
    rows::delete(stage, &entry)?;
    notify(stage, event, "shared_cache.notification.deleted", &entry)?;
    Ok(Reply::done("the entry was deleted", Some(json!({"success": true, "cache_id": entry.id}))))
}

fn download(stage: &Stage<'_, '_>, event: &Event, prepared: Prepared) -> Result<Reply, Refusal> {
    let entry = entry(stage, event, &Fields::of(event))?;
    let Fetched { file, content } = prepared.take().ok_or_else(not_prepared)?;
    let data = json!({
        "success": true,
        "cache_id": entry.id,
        "filename": file.filename,
        "file_size": file.bytes,
        "mime_type": file.media_type,
        "file_data": files::encoded(&content),
    });
    Ok(Reply::done("the file was found", Some(data)))
}

fn notify(stage: &mut Stage<'_, '_>, event: &Event, name: &str, entry: &Entry) -> Result<(), Refusal> {
    let payload = entry.shown().as_object().cloned().unwrap_or_default();
    audience::tell(stage, event, name, &entry.groups, payload)
}

fn not_prepared() -> Refusal {
    Refusal::invalid("the file did not come with its event: send it again")
}
