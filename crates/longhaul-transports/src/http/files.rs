//! Files over HTTP: the contract's upload and download, as events of the shared cache.
//!
//! It keeps nothing: a file is content of an event, and what becomes of it is the mod's. Invariant: a name that a
//! client gave is shown and never a path, and what is downloaded is never rendered as a page of this server.

use axum::{
    Extension, Json,
    extract::{DefaultBodyLimit, Multipart, Path, State, multipart::Field},
    http::{HeaderMap, HeaderValue, header},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use longhaul_network::{Address, Draft, Member, Refusal, RefusalKind, Reply};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::{
    ToSchema,
    openapi::schema::{Object, SchemaType},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Credentials, Failure, answer::FailureBody, input::Params};
use crate::{
    edge::Limits,
    front::{Front, Peer},
};

/// Who keeps files.
const CACHE: &str = "openagents.mods.core.shared_cache";
/// Longest field of a form beside the file.
const FIELD_BYTES_MAX: usize = 64 * 1024;

pub(super) fn routes(limits: &Limits) -> OpenApiRouter<Front> {
    let form_bytes_max = limits.file_bytes_max.saturating_add(4 * FIELD_BYTES_MAX);
    OpenApiRouter::new()
        .routes(routes!(upload))
        .layer(DefaultBodyLimit::max(form_bytes_max))
        .routes(routes!(download))
        .routes(routes!(info))
}

/// A file, and who sends it.
#[derive(Debug, serde::Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = UploadForm)]
#[expect(dead_code, reason = "the shape that is described; a form is read field by field")]
struct UploadForm {
    /// The file, with its name.
    #[schema(value_type = String, format = Binary, content_media_type = "application/octet-stream")]
    file: Vec<u8>,
    /// Who sends it. Not needed with `Authorization: Bearer AGENT_ID:SECRET`.
    #[schema(schema_with = text_of_a_form)]
    agent_id: Option<String>,
    /// Its secret.
    #[schema(schema_with = text_of_a_form)]
    secret: Option<String>,
    /// Media type, where the file's own part does not say.
    #[schema(schema_with = text_of_a_form)]
    mime_type: Option<String>,
    /// Groups that may read it, with commas between; everybody when nothing is said.
    #[schema(schema_with = text_of_a_form)]
    allowed_agent_groups: Option<String>,
}

/// Any text. A form writes numbers and truth values as text and empty lists as nothing, so that no
/// other type can be told from it.
fn text_of_a_form() -> Object {
    Object::with_type(SchemaType::AnyValue)
}

/// A file that is kept.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Uploaded)]
struct Uploaded {
    success: bool,
    cache_id: Option<String>,
    filename: Option<String>,
    file_size: Option<u64>,
    mime_type: Option<String>,
}

#[derive(Default)]
struct Form {
    file: Option<Vec<u8>>,
    filename: Option<String>,
    mime_type: Option<String>,
    credentials: Credentials,
    groups: Vec<String>,
}

/// Keeps a file in the shared cache.
#[utoipa::path(post, path = "/api/cache/upload", tag = "files",
    request_body(content = UploadForm, content_type = "multipart/form-data"), responses(
    (status = 200, body = Uploaded), (status = "4XX", body = FailureBody), (status = "5XX", body = FailureBody)))]
async fn upload(
    State(front): State<Front>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    form: Result<Multipart, axum::extract::multipart::MultipartRejection>,
) -> Result<Json<Uploaded>, Failure> {
    let form = form.map_err(|_| Refusal::invalid("send the file as multipart/form-data, in a part called `file`"))?;
    let form = read(form, front.limits().file_bytes_max).await?;
    let file = form.file.ok_or_else(|| Refusal::invalid("no file provided: send it in a part called `file`"))?;
    let (agent, secret) = form.credentials.claimed(&headers)?;
    let member = front.member(peer, &agent, secret.as_deref())?;
    let payload = json!({
        "file_data": STANDARD.encode(&file),
        "filename": form.filename.unwrap_or_else(|| "unnamed_file".to_owned()),
        "mime_type": form.mime_type.unwrap_or_else(|| "application/octet-stream".to_owned()),
        "allowed_agent_groups": form.groups,
    });
    drop(file);
    let data = asked(&front, &member, "shared_cache.file.upload", payload).await?;
    let text = |key: &str| data.get(key).and_then(Value::as_str).map(str::to_owned);
    Ok(Json(Uploaded {
        success: true,
        cache_id: text("cache_id"),
        filename: text("filename"),
        file_size: data.get("file_size").and_then(Value::as_u64),
        mime_type: text("mime_type"),
    }))
}

async fn read(mut parts: Multipart, file_bytes_max: usize) -> Result<Form, Refusal> {
    let mut form = Form::default();
    while let Some(mut part) = parts.next_field().await.map_err(broken)? {
        let name = part.name().unwrap_or_default().to_owned();
        match name.as_str() {
            "file" => {
                form.filename = part.file_name().map(str::to_owned);
                form.mime_type = form.mime_type.or(part.content_type().map(str::to_owned));
                form.file = Some(content(&mut part, file_bytes_max).await?);
            }
            "agent_id" => form.credentials.agent_id = Some(field(&mut part).await?),
            "secret" => form.credentials.secret = Some(field(&mut part).await?),
            "mime_type" => form.mime_type = Some(field(&mut part).await?).filter(|text| !text.is_empty()),
            "allowed_agent_groups" => {
                let said = field(&mut part).await?;
                form.groups = said.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect();
            }
            _ => {
                let text = "parts of the form are file, agent_id, secret, mime_type and allowed_agent_groups";
                return Err(Refusal::invalid(text));
            }
        }
    }
    Ok(form)
}

async fn field(part: &mut Field<'_>) -> Result<String, Refusal> {
    let bytes = content(part, FIELD_BYTES_MAX).await?;
    String::from_utf8(bytes).map_err(|_| Refusal::invalid("a field of the form is no UTF-8"))
}

async fn content(part: &mut Field<'_>, bytes_max: usize) -> Result<Vec<u8>, Refusal> {
    let mut all = Vec::new();
    while let Some(piece) = part.chunk().await.map_err(broken)? {
        if all.len() + piece.len() > bytes_max {
            let text = format!("a part of the form is larger than {bytes_max} bytes: send less");
            return Err(Refusal::new(RefusalKind::TooLarge, text));
        }
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` hands it on")]
fn broken(error: axum::extract::multipart::MultipartError) -> Refusal {
    if error.status() == axum::http::StatusCode::PAYLOAD_TOO_LARGE {
        return Refusal::new(RefusalKind::TooLarge, "the form is larger than what is taken: send a smaller file");
    }
    Refusal::invalid("the form ended before it was whole, or is none: send it again")
}

/// A file as it was kept.
#[utoipa::path(get, path = "/api/cache/download/{cache_id}", tag = "files",
    params(("cache_id" = String, Path, description = "As the upload gave it."), Credentials), responses(
    (status = 200, description = "The file, of the type it was uploaded with.", content_type = "*/*", body = Vec<u8>),
    (status = "4XX", body = FailureBody), (status = "5XX", body = FailureBody)))]
async fn download(
    State(front): State<Front>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Path(cache_id): Path<String>,
    Params(credentials): Params<Credentials>,
) -> Result<Response, Failure> {
    let (agent, secret) = credentials.claimed(&headers)?;
    let member = front.member(peer, &agent, secret.as_deref())?;
    let payload = json!({ "cache_id": cache_id });
    let data = asked(&front, &member, "shared_cache.file.download", payload).await?;
    let coded = data.get("file_data").and_then(Value::as_str);
    let bytes = coded.and_then(|coded| STANDARD.decode(coded).ok());
    let bytes = bytes.ok_or_else(|| Refusal::missing("file", &shown(&cache_id)))?;
    let name = data.get("filename").and_then(Value::as_str).unwrap_or("download");
    let kind = data.get("mime_type").and_then(Value::as_str).and_then(|kind| HeaderValue::from_str(kind).ok());
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    let kind = kind.unwrap_or(HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::CONTENT_DISPOSITION, attachment(name));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    Ok(response)
}

/// What is known of a file.
#[utoipa::path(get, path = "/api/cache/info/{cache_id}", tag = "files",
    params(("cache_id" = String, Path, description = "As the upload gave it."), Credentials), responses(
    (status = 200, body = Object), (status = "4XX", body = FailureBody), (status = "5XX", body = FailureBody)))]
async fn info(
    State(front): State<Front>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Path(cache_id): Path<String>,
    Params(credentials): Params<Credentials>,
) -> Result<Json<Value>, Failure> {
    let (agent, secret) = credentials.claimed(&headers)?;
    let member = front.member(peer, &agent, secret.as_deref())?;
    let mut data = asked(&front, &member, "shared_cache.get", json!({ "cache_id": cache_id })).await?;
    for content in ["value", "file_data"] {
        data.remove(content);
    }
    data.insert("success".to_owned(), true.into());
    Ok(Json(Value::Object(data)))
}

/// Asks the shared cache in the member's name.
async fn asked(front: &Front, member: &Member, name: &str, payload: Value) -> Result<Map<String, Value>, Refusal> {
    let Value::Object(payload) = payload else { return Err(Refusal::invalid("a payload is an object")) };
    let draft = Draft::new(front.fresh_id(), name.parse()?, Address::Mod(CACHE.to_owned()), payload);
    let Reply { success, message, data, .. } = front.network().send(member, draft).await?;
    if !success {
        // A mod's no is most often that there is no such file, or none for the one who asks.
        return Err(Refusal::new(RefusalKind::Missing, message));
    }
    Ok(match data {
        Some(Value::Object(data)) => data,
        Some(_) | None => Map::new(),
    })
}

fn shown(id: &str) -> String {
    id.chars().take(80).collect()
}

/// The name as browsers take it: its last part, in ASCII and in full (RFC 6266).
fn attachment(name: &str) -> HeaderValue {
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || " ._-()".contains(c) { c } else { '_' })
        .take(120)
        .collect();
    let mut coded = String::new();
    for byte in name.bytes().take(300) {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'.' | b'_' | b'-' => coded.push(char::from(byte)),
            other => coded.push_str(&format!("%{other:02X}")),
        }
    }
    let text = format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{coded}");
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("attachment"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_is_never_a_path_or_a_header() {
        for (name, told) in [
            ("a.txt", "attachment; filename=\"a.txt\"; filename*=UTF-8''a.txt"),
            ("../../etc/passwd", "attachment; filename=\"passwd\"; filename*=UTF-8''passwd"),
            (
                "..\\x\r\nSet-Cookie: a",
                "attachment; filename=\"x__Set-Cookie_ a\"; filename*=UTF-8''x%0D%0ASet-Cookie%3A%20a",
            ),
            ("会話.md", "attachment; filename=\"__.md\"; filename*=UTF-8''%E4%BC%9A%E8%A9%B1.md"),
        ] {
            assert_eq!(attachment(name), told, "{name}");
        }
    }
}
