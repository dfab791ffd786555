//! Whether a request is one, decided without I/O: which fields there have to be, and what they may be.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use longhaul_network::{Address, Draft, Visibility};
use serde_json::{Map, Value};

use crate::{
    error::A2aError,
    machine::has_ended,
    rows::{Kept, Wanted},
    service::Call,
    settings::A2aSettings,
    wire::{
        from_json, milliseconds, to_json,
        v1::{ListTasksRequest, Message, Part, Role, SendMessageRequest, TaskState, part::Content},
    },
};

/// Longest id that a client chooses, bytes.
const ID_BYTES_MAX: usize = 200;
/// Parts of a message.
const PARTS_MAX: usize = 100;
const PAGE_DEFAULT: i32 = 50;
const PAGE_MAX: i32 = 100;

/// The media type of a part that is an event of the network.
pub(crate) const EVENT_TYPE: &str = "application/vnd.longhaul.event+json";
/// The extension that says what such a part means.
pub(crate) const EVENT_EXTENSION: &str = "urn:longhaul:a2a:event:1";

/// The extension under which a message's id makes its repetition harmless.
pub(crate) const ONCE_EXTENSION: &str = "urn:longhaul:a2a:once:1";

pub(crate) fn no_message() -> A2aError {
    A2aError::invalid("message", "the message is missing")
}

fn id(field: &str, id: &str) -> Result<(), A2aError> {
    if id.len() > ID_BYTES_MAX || id.chars().any(char::is_control) {
        return Err(A2aError::invalid(field, format!("{field}: write at most {ID_BYTES_MAX} printable bytes")));
    }
    Ok(())
}

pub(crate) fn task_id(task: &str) -> Result<(), A2aError> {
    if task.is_empty() {
        return Err(A2aError::invalid("id", "the id of the task is missing"));
    }
    id("id", task)
}

pub(crate) fn push_id(config: &str) -> Result<(), A2aError> {
    id("id", config)
}

pub(crate) fn history_length(length: Option<i32>) -> Result<(), A2aError> {
    match length {
        Some(..0) => Err(A2aError::invalid("historyLength", "historyLength: write 0 or more")),
        Some(0..) | None => Ok(()),
    }
}

/// A message that is to be sent, and how.
pub(crate) fn request(settings: &A2aSettings, call: &Call, request: &SendMessageRequest) -> Result<(), A2aError> {
    let missing = settings.required_extensions.iter().find(|wanted| !call.extensions.contains(wanted));
    if let Some(extension) = missing {
        return Err(A2aError::ExtensionRequired(extension.clone()));
    }
    let message = request.message.as_ref().ok_or_else(no_message)?;
    for (field, given) in [
        ("message.messageId", &message.message_id),
        ("message.contextId", &message.context_id),
        ("message.taskId", &message.task_id),
    ] {
        id(field, given)?;
    }
    if message.message_id.is_empty() {
        return Err(A2aError::invalid("message.messageId", "message.messageId is missing"));
    }
    if message.role() != Role::User {
        return Err(A2aError::invalid("message.role", "message.role: clients write ROLE_USER"));
    }
    if message.parts.is_empty() || message.parts.len() > PARTS_MAX {
        return Err(A2aError::invalid("message.parts", format!("message.parts: write 1 to {PARTS_MAX} parts")));
    }
    for part in &message.parts {
        if part.content.is_none() {
            return Err(A2aError::invalid("message.parts", "message.parts: a part has text, raw, url or data"));
        }
        if !reads(settings, part) {
            return Err(A2aError::ContentType(format!(
                "{:?} is not read here: send {}",
                part.media_type,
                settings.input_modes.join(", ")
            )));
        }
    }
    history_length(request.configuration.as_ref().and_then(|found| found.history_length))
}

fn reads(settings: &A2aSettings, part: &Part) -> bool {
    let essence = part.media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let matches = |mode: &String| match mode.strip_suffix('*') {
        Some("*/") => true,
        Some(kind) => essence.starts_with(kind),
        None => *mode == essence,
    };
    essence.is_empty() || essence == EVENT_TYPE || settings.input_modes.iter().any(matches)
}

/// Whether more may be said about a task.
pub(crate) fn more(kept: &Kept, message: &Message) -> Result<(), A2aError> {
    if has_ended(kept.state()) {
        return Err(A2aError::Unsupported(format!(
            "task {:?} has ended: begin a new one in its context, with contextId and without taskId",
            kept.task.id
        )));
    }
    if !message.context_id.is_empty() && message.context_id != kept.task.context_id {
        return Err(A2aError::invalid("message.contextId", "message.contextId is not that of the task"));
    }
    Ok(())
}

/// The event of the network that a message holds, if it holds one: a single part of that media type.
pub(crate) fn event_of(message: &Message) -> Result<Option<Draft>, A2aError> {
    let [part] = message.parts.as_slice() else { return Ok(None) };
    if part.media_type != EVENT_TYPE || !matches!(part.content, Some(Content::Data(_))) {
        return Ok(None);
    }
    let Value::Object(fields) = to_json(part)["data"].take() else {
        return Err(A2aError::invalid("message.parts", "an event is an object with event_name and payload"));
    };
    let text = |key: &str| fields.get(key).and_then(Value::as_str);
    let map = |key: &str| match fields.get(key) {
        Some(Value::Object(map)) => Ok(map.clone()),
        None | Some(Value::Null) => Ok(Map::new()),
        Some(_) => Err(A2aError::invalid(key, format!("{key}: write an object"))),
    };
    let name = text("event_name").unwrap_or_default().parse()?;
    let to = Address::parse(text("destination_id"))?;
    let mut draft = Draft::new(message.message_id.clone(), name, to, map("payload")?);
    draft.metadata = map("metadata")?;
    draft.visibility = match text("visibility") {
        None | Some("network") => Visibility::Network,
        Some("public") => Visibility::Public,
        Some("channel") => Visibility::Channel,
        Some("direct") => Visibility::Direct,
        Some("restricted") => Visibility::Restricted,
        Some("mod_only") => Visibility::ModOnly,
        Some(_) => return Err(A2aError::invalid("visibility", "visibility: there is no such")),
    };
    if let Some(Value::Array(agents)) = fields.get("allowed_agents") {
        let agents: Result<_, _> = agents.iter().map(|agent| agent.as_str().unwrap_or_default().parse()).collect();
        draft.allowed_agents = Some(agents?);
    }
    draft.relevant_mod = text("relevant_mod").map(str::to_owned);
    draft.requires_response = fields.get("requires_response") == Some(&Value::Bool(true));
    draft.response_to = text("response_to").map(str::to_owned);
    draft.thread_name = text("thread_name").map(str::to_owned);
    draft.text = text("text_representation").map(str::to_owned);
    Ok(Some(draft))
}

/// A list's request, from its JSON form. A state that there is none of would be passed over, and all tasks listed.
pub(crate) fn list_request(params: Value) -> Result<ListTasksRequest, A2aError> {
    if let Some(Value::String(state)) = params.get("status")
        && TaskState::from_str_name(state).is_none()
    {
        return Err(A2aError::invalid("status", "status: write a state such as TASK_STATE_WORKING"));
    }
    from_json(params)
}

/// What a list is narrowed to, and how many tasks are on a page. One more is asked for, which tells whether there are
/// more.
pub(crate) fn list(call: &Call, request: &ListTasksRequest) -> Result<(Wanted, usize), A2aError> {
    history_length(request.history_length)?;
    let size = request.page_size.unwrap_or(PAGE_DEFAULT);
    if !(1..=PAGE_MAX).contains(&size) {
        return Err(A2aError::invalid("pageSize", format!("pageSize: write 1 to {PAGE_MAX}")));
    }
    let state =
        TaskState::try_from(request.status).map_err(|_| A2aError::invalid("status", "status: there is no such"))?;
    let behind = match request.page_token.as_str() {
        "" => None,
        token => Some(page(token).ok_or_else(|| A2aError::invalid("pageToken", "pageToken: this was not given here"))?),
    };
    let wanted = Wanted {
        owner: call.caller.owner.clone(),
        agent: call.agent.as_ref().map(ToString::to_string),
        context: Some(request.context_id.clone()).filter(|context| !context.is_empty()),
        state: (state != TaskState::Unspecified).then_some(state),
        since_ms: request.status_timestamp_after.as_ref().map(milliseconds),
        behind,
        max: i64::from(size) + 1,
    };
    Ok((wanted, usize::try_from(size).unwrap_or_default()))
}

/// Where a page ended, as clients hand it back.
pub(crate) fn page_token(at: i64, task: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{at} {task}"))
}

fn page(token: &str) -> Option<(i64, String)> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    let (at, task) = text.split_once(' ')?;
    Some((at.parse().ok()?, task.to_owned()))
}
