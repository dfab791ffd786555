//! Files that agents share: bounded on their way in, kept as blobs, handed out to whom they were shared with.
//!
//! It owns rows and rights; which event carries a file is its mod's. Invariants: a name is a label and never a path; a
//! content is on the disk before the row that names it, and goes with the last row.

mod name;

use base64::{Engine, engine::general_purpose::STANDARD};
use longhaul_core::Digest;
use longhaul_network::{AgentId, Backstage, Event, Prepared, Refusal, RefusalKind, Stage};
use longhaul_store::{ReadTx, Row, StoreError, values};
use serde_json::Value;

pub(crate) use self::name::is_type_taken;
use crate::{
    place::Place,
    shape::{Fields, REFERENCE_BYTES_MAX, wrong},
};

/// Version of what a row holds.
const V: u32 = 1;
/// Longest media type, bytes.
pub(crate) const MEDIA_TYPE_BYTES_MAX: usize = 200;

/// What is taken.
pub(crate) struct Limits<'a> {
    /// Largest content, bytes.
    pub(crate) bytes_max: usize,
    /// Media types and endings; nothing: all.
    pub(crate) types: Option<&'a [String]>,
}

/// A content that is on the disk and has no row yet.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) filename: String,
    pub(crate) media_type: String,
    pub(crate) bytes: i64,
    pub(crate) digest: Digest,
}

/// A file's row.
#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) id: String,
    pub(crate) owner: String,
    pub(crate) filename: String,
    pub(crate) media_type: String,
    pub(crate) bytes: i64,
    pub(crate) digest: Digest,
    pub(crate) audience: Audience,
    pub(crate) created_at: i64,
}

/// Who may have a file besides its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Every member of the network.
    Everybody,
    /// Who may read this channel.
    Channel(String),
    /// This agent.
    Agent(String),
    /// The agents of these groups.
    Groups(Vec<String>),
}

impl Audience {
    fn print(&self) -> String {
        match self {
            Self::Everybody => "*".to_owned(),
            Self::Channel(channel) => format!("c:{channel}"),
            Self::Agent(agent) => format!("a:{agent}"),
            Self::Groups(groups) => format!("g:{}", Value::from(groups.clone())),
        }
    }

    fn read(text: &str) -> Self {
        match text.split_once(':') {
            Some(("c", channel)) => Self::Channel(channel.to_owned()),
            Some(("a", agent)) => Self::Agent(agent.to_owned()),
            // What cannot be read is for nobody.
            Some(("g", groups)) => Self::Groups(serde_json::from_str(groups).unwrap_or_default()),
            _ if text == "*" => Self::Everybody,
            _ => Self::Groups(Vec::new()),
        }
    }
}

/// A file that was fetched, with its content.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) file: File,
    pub(crate) content: Vec<u8>,
}

/// Whether a `thread.file.operation` is a download.
pub(crate) fn is_download(event: &Event) -> bool {
    Fields::of(event).value("action").and_then(Value::as_str) == Some("download")
}

/// Checks a file and makes its content durable.
///
/// # Errors
/// What is wrong with which field; [`RefusalKind::TooLarge`].
pub(crate) async fn take_in(
    backstage: &Backstage,
    event: &Event,
    field: &str,
    limits: &Limits<'_>,
) -> Result<Prepared, Refusal> {
    let fields = Fields::of(event);
    let filename = name::clean(fields.text("filename", 4_096)?)?;
    let media_type = media_type(&fields, name::media_type_of(&filename))?;
    if let Some(types) = limits.types
        && !is_type_taken(types, &filename, &media_type)
    {
        return Err(wrong("filename", &format!("is of a type that is not taken: use one of {}", types.join(", "))));
    }
    let content = decoded(&fields, field, limits.bytes_max)?;
    let stated = fields.number("file_size", -1, -1..=i64::MAX)?;
    let bytes = i64::try_from(content.len()).unwrap_or(i64::MAX);
    if stated >= 0 && stated != bytes {
        return Err(wrong("file_size", &format!("is {stated}, and the content has {bytes} bytes")));
    }
    let digest = backstage.network.store().blobs().put(backstage.network.scope(), content).await?;
    Ok(Prepared::with(Taken { filename, media_type, bytes, digest }))
}

/// The media type a payload states, else this one.
///
/// # Errors
/// That it is none.
pub(crate) fn media_type(fields: &Fields<'_>, otherwise: &str) -> Result<String, Refusal> {
    let stated = fields.optional_text("mime_type", MEDIA_TYPE_BYTES_MAX)?.filter(|text| !text.is_empty());
    let stated = stated.unwrap_or(otherwise);
    let is_part = |c: char| c.is_ascii_graphic() || c == ' ';
    if !stated.contains('/') || !stated.chars().all(is_part) {
        return Err(wrong("mime_type", "is no media type: write it as in \"text/plain\""));
    }
    Ok(stated.to_owned())
}

/// A field's content in base64, at most so many bytes.
///
/// # Errors
/// That it is missing, is no base64, or is too large.
pub(crate) fn decoded(fields: &Fields<'_>, field: &str, bytes_max: usize) -> Result<Vec<u8>, Refusal> {
    let text = fields.text(field, usize::MAX)?;
    // Data URLs are what browsers make of files.
    let text = match text.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
        Some((_, encoded)) => encoded,
        None => text,
    };
    let too_large = || {
        Refusal::new(
            RefusalKind::TooLarge,
            format!("payload.{field} holds more than {bytes_max} bytes: send a smaller file"),
        )
    };
    if text.len() / 4 * 3 > bytes_max.saturating_add(2) {
        return Err(too_large());
    }
    let content = STANDARD.decode(text).map_err(|_| wrong(field, "is no base64"))?;
    if content.len() > bytes_max { Err(too_large()) } else { Ok(content) }
}

/// Reads the file that a field names, with its content; whether it may be had is for [`may_have`].
///
/// # Errors
/// [`RefusalKind::Missing`] when there is none.
pub(crate) async fn fetch(backstage: &Backstage, event: &Event, field: &str) -> Result<Prepared, Refusal> {
    let network = &backstage.network;
    let id = Fields::of(event).text(field, REFERENCE_BYTES_MAX)?.to_owned();
    let place = Place { tenant: network.scope().tenant.clone(), network: network.id().to_owned() };
    let wanted = id.clone();
    let found = network.store().read(move |read| find(read, &place, &wanted)).await?;
    let file = found.ok_or_else(|| Refusal::missing("file", &id))?;
    let content = network.store().blobs().get(network.scope(), &file.digest).await?;
    Ok(Prepared::with(Fetched { file, content }))
}

/// Writes the file's row.
///
/// # Errors
/// [`RefusalKind::TooMany`] when its owner has no room for it.
pub(crate) fn keep(
    stage: &mut Stage<'_, '_>,
    owner: &AgentId,
    taken: Taken,
    audience: Audience,
    owner_bytes_max: usize,
) -> Result<File, Refusal> {
    let (Place { tenant, network }, created_at) = (Place::of(stage), stage.now().0);
    let used: i64 = stage.rows().query_one(
        "SELECT CAST(COALESCE(SUM(bytes), 0) AS INTEGER) FROM mod_files
         WHERE tenant_id = ?1 AND network_id = ?2 AND owner = ?3",
        &values![&tenant, &network, owner.as_str()],
        |row| row.get(0),
    )?;
    if used.saturating_add(taken.bytes) > i64::try_from(owner_bytes_max).unwrap_or(i64::MAX) {
        let why = format!("your files take {used} of {owner_bytes_max} bytes: this one has no room");
        return Err(Refusal::new(RefusalKind::TooMany, why));
    }
    let Taken { filename, media_type, bytes, digest } = taken;
    let id = stage.new_id();
    stage.tx().execute(
        "INSERT INTO mod_files (tenant_id, network_id, file_id, v, owner, filename, media_type, bytes, digest,
             audience, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        &values![
            &tenant,
            &network,
            &id,
            V,
            owner.as_str(),
            &filename,
            &media_type,
            bytes,
            &digest,
            audience.print(),
            created_at,
        ],
    )?;
    Ok(File { id, owner: owner.to_string(), filename, media_type, bytes, digest, audience, created_at })
}

/// The file with this id.
pub(crate) fn find(read: &ReadTx<'_>, place: &Place, id: &str) -> Result<Option<File>, StoreError> {
    read.query_optional(
        "SELECT file_id, owner, filename, media_type, bytes, digest, audience, created_at FROM mod_files
         WHERE tenant_id = ?1 AND network_id = ?2 AND file_id = ?3",
        &values![&place.tenant, &place.network, id],
        file,
    )
}

fn file(row: &Row<'_>) -> Result<File, StoreError> {
    Ok(File {
        id: row.get(0)?,
        owner: row.get(1)?,
        filename: row.get(2)?,
        media_type: row.get(3)?,
        bytes: row.get(4)?,
        digest: row.get(5)?,
        audience: Audience::read(row.text(6)?),
        created_at: row.get(7)?,
    })
}

/// The content in base64.
pub(crate) fn encoded(content: &[u8]) -> String {
    STANDARD.encode(content)
}

/// Removes a file's row; its content goes with the last row that names it.
pub(crate) fn remove(stage: &mut Stage<'_, '_>, id: &str) -> Result<(), Refusal> {
    let Place { tenant, network } = Place::of(stage);
    stage.tx().execute(
        "DELETE FROM mod_files WHERE tenant_id = ?1 AND network_id = ?2 AND file_id = ?3",
        &values![&tenant, &network, id],
    )?;
    Ok(())
}
