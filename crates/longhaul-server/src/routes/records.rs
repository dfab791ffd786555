//! Records: kept whole or as a stream, looked at, read back verified.
//!
//! Invariant: an upload is never held in memory, and nothing of it is visible unless all of it came and has the digest
//! that its sender named.

use std::{io, time::Duration};

use axum::{
    Json,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{
    Engine, alphabet,
    engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD as BASE64},
};
use futures::StreamExt;
use longhaul_core::{Digest, RecordId, TaskId, TimeMs};
use longhaul_workspace::{Content, Ingest, Kind, Record, StagedRecord, WorkspaceError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio_util::io::{ReaderStream, StreamReader};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Caller, Gateway, Problem,
    change::{Answer, Done, Wish},
    input::{Command, Id, Params},
    keys::Role,
    words::{Base64, GroupName, KindName, Line, SourceLine, Summary, Text},
};

/// Takes base64 whose last digit holds more than its bits.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));
/// How long an upload may pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The header with the digest of a content (RFC 9530), as it is sent and may be given.
const REPR_DIGEST: &str = "repr-digest";

/// A record, without its content.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Record)]
pub(crate) struct RecordView {
    /// Identity.
    record: String,
    /// `sha256:` and the digest of its content.
    digest: String,
    /// Whose it is.
    user: String,
    /// The conversation that led there.
    session: String,
    /// The task.
    task: String,
    /// The request that led there.
    trace: String,
    /// The execution that made it.
    execution: Option<String>,
    /// The step of that execution.
    step: Option<String>,
    /// Its number within the task.
    seq: i64,
    /// Group in which it is looked up.
    collection: String,
    /// What sort of thing it is.
    kind: String,
    /// The name under which it has versions.
    name: Option<String>,
    /// Its version under that name.
    version: u32,
    /// Media type of the content.
    media_type: String,
    /// What it is, in a few words.
    summary: String,
    /// Where it came from.
    source: String,
    /// Anything else that was said of it.
    #[schema(value_type = Object)]
    meta: Map<String, Value>,
    /// Size of the content in bytes.
    size: u64,
    /// Whom or what it is about.
    subject: Option<String>,
    /// When it was kept, milliseconds since 1970.
    created_at: i64,
    /// When it stops being found, milliseconds since 1970.
    expires_at: Option<i64>,
    /// The version that took its place.
    superseded_by: Option<String>,
}

impl From<Record> for RecordView {
    fn from(record: Record) -> Self {
        Self {
            record: record.reference.id.to_string(),
            digest: record.reference.digest.to_string(),
            user: record.owner.scope.user.to_string(),
            session: record.owner.session.to_string(),
            task: record.owner.task.to_string(),
            trace: record.owner.trace.to_string(),
            execution: record.execution.map(|id| id.to_string()),
            step: record.step,
            seq: record.seq,
            collection: record.collection,
            kind: record.kind.to_string(),
            name: record.name,
            version: record.version,
            media_type: record.media_type,
            summary: record.summary,
            source: record.source,
            meta: record.meta,
            size: record.size,
            subject: record.subject,
            created_at: record.created_at.0,
            expires_at: record.expires_at.map(|at| at.0),
            superseded_by: record.superseded_by.map(|id| id.to_string()),
        }
    }
}

/// The small reference that everything else carries.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RecordRef)]
pub(crate) struct RefView {
    /// The record.
    record: String,
    /// `sha256:` and the digest of its content.
    digest: String,
}

impl From<longhaul_workspace::RecordRef> for RefView {
    fn from(reference: longhaul_workspace::RecordRef) -> Self {
        Self { record: reference.id.to_string(), digest: reference.digest.to_string() }
    }
}

/// A record to be kept, with its content.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewRecord)]
pub(crate) struct NewRecordBody {
    /// Group in which it is looked up.
    collection: GroupName,
    /// `observation`, `artifact`, `decision`, `evidence`, `note`, `checkpoint`, or a word of your own.
    kind: KindName,
    /// What it is, in a few words.
    #[schema(max_length = 1000)]
    summary: Summary,
    /// Where it came from: `user`, `agent`, `tool:NAME`, `document NAME`, `web https://…`.
    #[schema(max_length = 500)]
    source: SourceLine,
    /// The content, as text.
    #[serde(default)]
    text: Option<String>,
    /// The content, as base64, in place of `text`.
    #[serde(default)]
    base64: Option<Base64>,
    /// Media type of the content; `text/plain` or `application/octet-stream` without.
    #[serde(default)]
    media_type: Option<Line>,
    /// A name under which it has versions within the task.
    #[serde(default)]
    name: Option<Line>,
    /// Makes the next version of its name, where the name is taken.
    #[serde(default)]
    revise: bool,
    /// Whom or what it is about: `customer:42`.
    #[serde(default)]
    subject: Option<Line>,
    /// Anything else to say of it.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    meta: Option<Map<String, Value>>,
    /// A JSON schema that the content must fit.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    schema: Option<Map<String, Value>>,
    /// What is searched in place of a content that is no text.
    #[serde(default)]
    searched: Option<Text>,
    /// When it stops being found, milliseconds since 1970.
    #[serde(default, deserialize_with = "crate::words::whole")]
    expires_at: Option<i64>,
}

/// What is said of a record whose content is the body.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Said {
    /// Group in which it is looked up.
    #[param(value_type = String, pattern = "^[a-z0-9_.-]{1,64}$")]
    collection: GroupName,
    /// `observation`, `artifact`, `decision`, `evidence`, `note`, `checkpoint`, or a word of your own.
    #[param(value_type = String, pattern = "^[a-z][a-z0-9_]{0,39}$")]
    kind: KindName,
    /// What it is, in a few words.
    #[param(max_length = 1000)]
    summary: Summary,
    /// Where it came from.
    #[param(max_length = 500)]
    source: SourceLine,
    /// A name under which it has versions within the task.
    #[param(value_type = Option<String>, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]{1,200}$")]
    name: Option<Line>,
    /// Makes the next version of its name, where the name is taken.
    #[serde(default)]
    #[param(required = false)]
    revise: bool,
    /// Whom or what it is about.
    #[param(value_type = Option<String>, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]{1,200}$")]
    subject: Option<Line>,
    /// When it stops being found, milliseconds since 1970.
    expires_at: Option<i64>,
}

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(create)).routes(routes!(get))
}

pub(super) fn streams() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(upload)).routes(routes!(content))
}

/// Keeps a record whose content is in the request.
#[utoipa::path(
    post, path = "/v1/tasks/{task}/records", tag = "records",
    params(("task" = String, Path, description = "The task", pattern = "^task_[A-Za-z0-9-]{1,64}$")),
    request_body = NewRecordBody, responses((status = 201, body = RefView))
)]
async fn create(
    State(gateway): State<Gateway>,
    Id(task): Id<TaskId>,
    command: Command<NewRecordBody>,
) -> Result<Answer, Problem> {
    let wish = command.wish("record.ingest", &task)?;
    let Command { caller, body, .. } = command;
    let content = match (body.text, body.base64) {
        (None, Some(digits)) => {
            let read = LENIENT.decode(digits.as_str());
            Content::Bytes(read.map_err(|_| Problem::invalid("body.base64", "this is no base64"))?)
        }
        (text, None) => Content::Text(text.unwrap_or_default()),
        (Some(_), Some(_)) => {
            let detail = "a record has one content: give it as `text` or as `base64`";
            return Err(Problem::conflict("two_contents", detail).at("body"));
        }
    };
    let mut ingest =
        Ingest::new(kind(&body.kind)?, body.collection.as_str(), body.summary.as_str(), body.source.as_str(), content);
    if let Some(media_type) = body.media_type {
        ingest.media_type = media_type.into();
    }
    (ingest.name, ingest.revise, ingest.subject) =
        (body.name.map(String::from), body.revise, body.subject.map(String::from));
    ingest.meta = body.meta.unwrap_or_default();
    ingest.schema = body.schema.map(Value::Object);
    ingest.text = body.searched.map(String::from);
    ingest.expires_at = body.expires_at.map(TimeMs);
    let owner = gateway.task_scope(&caller, &task).await?;
    let staged = gateway.workspace().task(&owner).stage(ingest).await?;
    commit(&gateway, wish, staged).await
}

/// Keeps a record whose content is the body, of whatever size: it is streamed.
///
/// With `Repr-Digest: sha-256=:BASE64:` nothing is kept unless the content has this digest.
#[utoipa::path(
    post, path = "/v1/tasks/{task}/records/upload", tag = "records",
    params(("task" = String, Path, description = "The task", pattern = "^task_[A-Za-z0-9-]{1,64}$"), Said),
    request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 201, body = RefView))
)]
async fn upload(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(task): Id<TaskId>,
    Params(said): Params<Said>,
    request: Request,
) -> Result<Answer, Problem> {
    caller.needs(Role::Operator)?;
    let (parts, body) = request.into_parts();
    let expected = expected_digest(&parts.headers)?;
    let bytes_max = gateway.doors().settings.upload_bytes_max;
    let length = parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > bytes_max) {
        return Err(too_large(bytes_max));
    }
    let media_type = parts.headers.get(header::CONTENT_TYPE).map(HeaderValue::to_str);
    let media_type = media_type.transpose().map_err(|_| Problem::invalid("header.content-type", "this is no text"))?;
    let content = Content::Reader(Box::new(StreamReader::new(Box::pin(bounded(body, bytes_max)))));
    let mut ingest =
        Ingest::new(kind(&said.kind)?, said.collection.as_str(), said.summary.as_str(), said.source.as_str(), content);
    if let Some(media_type) = media_type {
        ingest.media_type = media_type.to_owned();
    }
    (ingest.name, ingest.revise, ingest.subject) =
        (said.name.map(String::from), said.revise, said.subject.map(String::from));
    ingest.expires_at = said.expires_at.map(TimeMs);
    let owner = gateway.task_scope(&caller, &task).await?;
    let staged = gateway.workspace().task(&owner).stage(ingest).await.map_err(|error| unread(error, bytes_max))?;
    let digest = staged.reference().digest;
    if let Some(expected) = expected.filter(|expected| *expected != digest) {
        let detail = format!("the content has the digest {digest}, not {expected}: send it again; nothing was kept");
        return Err(Problem::invalid("header.repr-digest", detail));
    }
    let said = format!("{} {digest}", parts.uri.query().unwrap_or_default());
    let wish = Wish::new(caller, "record.ingest", &task).repeatable(&parts.headers, said.as_bytes())?;
    commit(&gateway, wish, staged).await
}

/// What is known of a record.
#[utoipa::path(
    get, path = "/v1/records/{record}", tag = "records",
    params(("record" = String, Path, description = "The record", pattern = "^rec_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = RecordView))
)]
async fn get(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(record): Id<RecordId>,
) -> Result<Json<RecordView>, Problem> {
    Ok(Json(gateway.workspace().user(caller.scope()).get(&record).await?.into()))
}

/// The content of a record, verified while it is sent: the connection breaks where it is not what was kept.
#[utoipa::path(
    get, path = "/v1/records/{record}/content", tag = "records",
    params(("record" = String, Path, description = "The record", pattern = "^rec_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = String, content_type = "*/*"), (status = 304))
)]
async fn content(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(record): Id<RecordId>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let user = gateway.workspace().user(caller.scope());
    let known = user.get(&record).await?;
    let tag = format!("\"{}\"", known.reference.digest.hex());
    let has = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    if has.flat_map(|value| value.split(',')).any(|one| one.trim().trim_start_matches("W/") == tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let (found, reader) = user.open(&known.reference).await?;
    let mut response = Body::from_stream(ReaderStream::with_capacity(reader, 64 * 1024)).into_response();
    let digest = format!("sha-256=:{}:", BASE64.encode(found.reference.digest.as_bytes()));
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE.as_str(), served_as(&found.media_type)),
        (header::ETAG.as_str(), tag.as_str()),
        (REPR_DIGEST, digest.as_str()),
        // What somebody else wrote is no page of ours, whatever its media type says.
        (header::CONTENT_DISPOSITION.as_str(), "attachment"),
        (header::CONTENT_SECURITY_POLICY.as_str(), "sandbox; default-src 'none'"),
    ] {
        let usable = (axum::http::HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value));
        if let (Ok(name), Ok(value)) = usable {
            headers.insert(name, value);
        }
    }
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(found.size));
    Ok(response)
}

/// Makes a staged record visible, with the change's entry in the audit log.
async fn commit(gateway: &Gateway, wish: Wish, staged: StagedRecord) -> Result<Answer, Problem> {
    let committed = gateway.change(wish, move |tx| {
        staged.commit(tx)?;
        let reference = staged.reference();
        let (record, digest) = (reference.id.to_string(), reference.digest.to_string());
        let detail = json!({ "digest": digest });
        let done = Done::created(format!("/v1/records/{record}"), &reference.id, RefView { record, digest });
        Ok(done.map(|done| done.detail(detail)))
    });
    committed.await
}

fn kind(word: &KindName) -> Result<Kind, Problem> {
    Ok(word.as_str().parse::<Kind>()?)
}

/// The digest that the sender says the content has.
fn expected_digest(headers: &HeaderMap) -> Result<Option<Digest>, Problem> {
    let Some(value) = headers.get(REPR_DIGEST) else { return Ok(None) };
    let wrong = || Problem::invalid("header.repr-digest", "expected `sha-256=:BASE64:` with the base64 of 32 bytes");
    let text = value.to_str().map_err(|_| wrong())?;
    let given = text.split(',').find_map(|one| one.trim().strip_prefix("sha-256=:")?.strip_suffix(':'));
    let bytes = given.and_then(|digits| BASE64.decode(digits).ok()).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    bytes.map(|bytes| Some(Digest::from(bytes))).ok_or_else(wrong)
}

/// The body, which ends in an error when it is too large or pauses too long.
fn bounded(body: Body, bytes_max: u64) -> impl futures::Stream<Item = io::Result<axum::body::Bytes>> + Send {
    let chunks = (body.into_data_stream(), 0_u64);
    futures::stream::unfold(chunks, move |(mut chunks, read)| async move {
        let next = match tokio::time::timeout(PAUSE_MAX, chunks.next()).await {
            Ok(next) => next?,
            Err(_) => return Some((Err(io::ErrorKind::TimedOut.into()), (chunks, read))),
        };
        let chunk = match next {
            Ok(chunk) => chunk,
            Err(error) => return Some((Err(io::Error::other(error)), (chunks, read))),
        };
        let read = read.saturating_add(chunk.len() as u64);
        if read > bytes_max {
            return Some((Err(io::ErrorKind::FileTooLarge.into()), (chunks, read)));
        }
        Some((Ok(chunk), (chunks, read)))
    })
}

fn unread(error: WorkspaceError, bytes_max: u64) -> Problem {
    let WorkspaceError::Unread(source) = &error else { return error.into() };
    match kind_of(&**source) {
        Some(io::ErrorKind::FileTooLarge) => too_large(bytes_max),
        Some(io::ErrorKind::TimedOut) => {
            let detail = "the body took too long to arrive: send it again; nothing was kept";
            Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", detail)
        }
        Some(_) | None => error.into(),
    }
}

/// What went wrong with reading, wherever it stands in the chain.
fn kind_of(error: &(dyn std::error::Error + 'static)) -> Option<io::ErrorKind> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<io::Error>() {
            return Some(found.kind());
        }
        next = error.source();
    }
    None
}

fn too_large(bytes_max: u64) -> Problem {
    let detail = format!("a record takes at most {bytes_max} bytes here: split it; nothing was kept");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
}

/// The media type of an answer: what was stated of the record, where that is one.
fn served_as(stated: &str) -> &str {
    let is_token = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte))
    };
    let essence = stated.split(';').next().unwrap_or_default().trim();
    let is_type =
        stated.is_ascii() && essence.split_once('/').is_some_and(|(kind, sub)| is_token(kind) && is_token(sub));
    if is_type { stated } else { "application/octet-stream" }
}
