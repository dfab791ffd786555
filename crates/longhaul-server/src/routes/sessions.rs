//! Conversations: what was said, the memo, and search over all of them.

use axum::{Json, extract::State, http::StatusCode};
use longhaul_core::{SessionId, TaskId, TaskScope, ToolCall};
use longhaul_memory::when::Zone;
use longhaul_workspace::sessions::{
    CONVERSATION_HITS_MAX, CONVERSATION_TOKENS_MAX, ConversationQuery, NewMessage, Role, Session, SessionError,
    SessionInfo, StoredMessage,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    records::RefView,
    work::{GivenRef, read_ref},
};
use crate::{
    Caller, Gateway, Problem,
    change::{Answer, Done},
    input::{Command, Id, Input, Params},
    page::{Limit, Page},
    words::Text,
};

/// A conversation, without what was said.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Session)]
pub(crate) struct SessionView {
    /// Identity.
    session: String,
    /// The task in which it began.
    task: String,
    /// The beginning of what its user said first.
    title: String,
    /// How many messages it has.
    messages: u64,
    /// How many bytes these are.
    bytes: u64,
    /// Its memo; empty for none.
    memo: String,
    /// The memo's version.
    memo_version: u64,
    /// When it began, milliseconds since 1970.
    created_at: i64,
    /// When it was last spoken in, milliseconds since 1970.
    updated_at: i64,
}

impl From<SessionInfo> for SessionView {
    fn from(info: SessionInfo) -> Self {
        Self {
            session: info.session.to_string(),
            task: info.task.to_string(),
            title: info.title,
            messages: info.messages,
            bytes: info.bytes,
            memo: info.memo,
            memo_version: info.memo_version,
            created_at: info.created_at.0,
            updated_at: info.updated_at.0,
        }
    }
}

/// A tool that a model asks for.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    /// Its name in this conversation.
    id: String,
    /// The tool.
    name: String,
    /// Its arguments, as text.
    arguments: String,
}

/// Something that was said.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Message)]
pub(crate) struct MessageView {
    /// Identity.
    message: String,
    /// The conversation.
    session: String,
    /// Its place in the conversation, from 1, without gaps.
    seq: i64,
    /// The task it was said in.
    task: String,
    /// `system`, `user`, `assistant` or `tool`.
    role: String,
    /// The words.
    content: String,
    /// The tools that were asked for.
    tool_calls: Vec<Call>,
    /// The call that is answered.
    answers: Option<String>,
    /// Records that belong to it.
    attachments: Vec<RefView>,
    /// About how many tokens it is.
    tokens: u64,
    /// When it was said, milliseconds since 1970.
    at: i64,
}

impl From<StoredMessage> for MessageView {
    fn from(stored: StoredMessage) -> Self {
        let call = |call: ToolCall| Call { id: call.id, name: call.name, arguments: call.arguments };
        Self {
            message: stored.id.to_string(),
            session: stored.session.to_string(),
            seq: stored.seq,
            task: stored.task.to_string(),
            role: stored.role.to_string(),
            content: stored.content,
            tool_calls: stored.tool_calls.into_iter().map(call).collect(),
            answers: stored.answers,
            attachments: stored.attachments.into_iter().map(Into::into).collect(),
            tokens: stored.tokens,
            at: stored.at.0,
        }
    }
}

/// Something to be said.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewMessage)]
pub(crate) struct NewMessageBody {
    /// The task it is said in.
    #[schema(value_type = String, pattern = "^task_[A-Za-z0-9-]{1,64}$")]
    task: TaskId,
    /// `system`, `user`, `assistant` or `tool`.
    #[schema(pattern = "^(system|user|assistant|tool)$")]
    role: String,
    /// The words, at most 64 KiB: what is longer is ingested as a record and attached.
    #[serde(default)]
    content: Option<Text>,
    /// The tools that an assistant asks for.
    #[serde(default)]
    tool_calls: Vec<Call>,
    /// The call that a tool's message answers.
    #[serde(default)]
    answers: Option<String>,
    /// Records that belong to it.
    #[serde(default)]
    attachments: Vec<GivenRef>,
}

/// A memo to be written.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMemo {
    /// A few lines that requests always show.
    #[schema(max_length = 4096)]
    memo: Text,
    /// Written only if the memo is still at this version.
    #[serde(default, deserialize_with = "crate::words::whole")]
    version: Option<u32>,
}

/// A memo.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Memo)]
pub(crate) struct MemoView {
    /// The text.
    memo: String,
    /// Rises with each change.
    version: u64,
}

/// What was deleted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Deleted {
    /// The conversation.
    session: String,
    /// Messages that went.
    messages: u64,
    /// Rows of the index that went.
    index_rows: u64,
    /// Entries of user memory that were known from this conversation alone.
    faded: usize,
    /// What is still to be done.
    pending: Vec<String>,
}

/// Which conversations.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// The `next` of the page before.
    after: Option<String>,
    /// At most so many.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Limit,
}

/// Which messages.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Part {
    /// Behind this place; from the beginning without.
    #[param(minimum = 0)]
    after: Option<u32>,
    /// At most so many.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Limit,
}

/// What to look for in past conversations.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConversationSearch {
    /// In any words and any language; a time in it counts. Empty for the newest.
    query: String,
    /// The same in other words or another language.
    #[schema(max_items = 4)]
    #[serde(default)]
    also: Vec<String>,
    /// The time it was said, as people write it: `last month`.
    #[serde(default)]
    when: Option<String>,
    /// Only in this conversation.
    #[schema(value_type = Option<String>, pattern = "^sess_[A-Za-z0-9-]{1,64}$")]
    #[serde(default)]
    session: Option<SessionId>,
    /// Only what this role said.
    #[schema(pattern = "^(user|assistant)$")]
    #[serde(default)]
    role: Option<String>,
    /// Most hits; 8 without.
    #[schema(minimum = 1, maximum = 50)]
    #[serde(default, deserialize_with = "crate::words::whole")]
    hits: Option<u32>,
    /// Most tokens of the answer; 1,500 without.
    #[schema(minimum = 100, maximum = 16000)]
    #[serde(default, deserialize_with = "crate::words::whole")]
    tokens: Option<u32>,
    /// In which days begin and end: `Europe/Berlin`; UTC without.
    #[serde(default)]
    zone: Option<String>,
}

/// What was found in past conversations.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Conversations)]
pub(crate) struct Conversations {
    /// Best first.
    hits: Vec<Said>,
    /// Hits for which there was no room.
    left_out: usize,
    /// Tokens of `text`; never more than asked for.
    tokens: u64,
    /// What to know of the answer.
    notes: Vec<String>,
    /// The answer as it may go to a model: quoted data, no instructions.
    text: String,
}

/// Something that was said, and where.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Said {
    /// The conversation.
    session: String,
    /// Its title.
    title: String,
    /// The message.
    message: String,
    /// Its place in the conversation.
    seq: i64,
    /// Who said it.
    role: String,
    /// When, milliseconds since 1970.
    at: i64,
    /// The task it was said in.
    task: String,
    /// The part that answers.
    snippet: String,
    /// How well, 0 to 1.
    score: f32,
}

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get, delete))
        .routes(routes!(messages, say))
        .routes(routes!(memo))
        .routes(routes!(search))
}

/// The user's conversations, the newest first.
#[utoipa::path(
    get, path = "/v1/sessions", tag = "sessions", params(Which), responses((status = 200, body = Page<SessionView>))
)]
async fn list(
    State(gateway): State<Gateway>,
    caller: Caller,
    Params(which): Params<Which>,
) -> Result<Json<Page<SessionView>>, Problem> {
    let sessions = gateway.workspace().user(caller.scope()).sessions();
    let page = sessions.list(which.after.as_deref(), which.limit.get() as usize).await;
    let page = page.map_err(|error| match error {
        SessionError::Field { value, .. } => Problem::missing("page", &value),
        #[expect(clippy::wildcard_enum_match_arm, reason = "all others are told apart where every route's are")]
        other => other.into(),
    })?;
    Ok(Json(Page { items: page.sessions.into_iter().map(Into::into).collect(), next: page.next }))
}

/// One conversation.
#[utoipa::path(
    get, path = "/v1/sessions/{session}", tag = "sessions",
    params(("session" = String, Path, description = "The conversation", pattern = "^sess_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = SessionView))
)]
async fn get(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(session): Id<SessionId>,
) -> Result<Json<SessionView>, Problem> {
    Ok(Json(gateway.workspace().user(caller.scope()).sessions().get(&session).await?.into()))
}

/// Deletes a conversation with everything that was known from it alone. Repeating it sees an interrupted one through.
#[utoipa::path(
    delete, path = "/v1/sessions/{session}", tag = "sessions",
    params(("session" = String, Path, description = "The conversation", pattern = "^sess_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = Deleted))
)]
async fn delete(
    State(gateway): State<Gateway>,
    Id(session): Id<SessionId>,
    command: Command<super::Nothing>,
) -> Result<Answer, Problem> {
    let wish = command.wish("session.delete", &session)?;
    let sessions = gateway.workspace().user(command.caller.scope()).sessions();
    let deleted = gateway.change_outside(wish, async move {
        let gone = sessions.delete(&session).await?;
        let detail = json!({ "messages": gone.messages, "index_rows": gone.index_rows });
        let body = Deleted {
            session: gone.session.to_string(),
            messages: gone.messages,
            index_rows: gone.index_rows,
            faded: gone.faded.len(),
            pending: gone.pending,
        };
        Done::ok(body).map(|done| done.detail(detail))
    });
    deleted.await
}

/// What was said, in order.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/messages", tag = "sessions",
    params(("session" = String, Path, description = "The conversation", pattern = "^sess_[A-Za-z0-9-]{1,64}$"), Part),
    responses((status = 200, body = Page<MessageView>))
)]
async fn messages(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(session): Id<SessionId>,
    Params(part): Params<Part>,
) -> Result<Json<Page<MessageView>>, Problem> {
    let session = open(&gateway, &caller, &session).await?;
    let found = session.messages(part.after.map_or(0, i64::from), part.limit.and_one() as usize).await?;
    Ok(Json(Page::of(found, part.limit, |message| message.seq.to_string(), MessageView::from)))
}

/// Says something in a conversation, which begins with it where there is none yet.
#[utoipa::path(
    post, path = "/v1/sessions/{session}/messages", tag = "sessions",
    params(("session" = String, Path, description = "The conversation", pattern = "^sess_[A-Za-z0-9-]{1,64}$")),
    request_body = NewMessageBody, responses((status = 201, body = MessageView))
)]
async fn say(
    State(gateway): State<Gateway>,
    Id(session): Id<SessionId>,
    command: Command<NewMessageBody>,
) -> Result<Answer, Problem> {
    let wish = command.wish("message.add", &session)?;
    let Command { caller, body, .. } = command;
    let owner = TaskScope { session, ..gateway.task_scope(&caller, &body.task).await? };
    let call = |call: Call| ToolCall { id: call.id, name: call.name, arguments: call.arguments };
    let message = NewMessage {
        role: Role::parse(&body.role)?,
        content: body.content.map(String::from).unwrap_or_default(),
        tool_calls: body.tool_calls.into_iter().map(call).collect(),
        answers: body.answers,
        attachments: body.attachments.into_iter().map(read_ref).collect::<Result<_, _>>()?,
    };
    let session = gateway.workspace().user(caller.scope()).sessions().session(&owner)?;
    let said = gateway.change(wish, move |tx| {
        let stored = session.append_in(tx, message)?;
        let path = format!("/v1/sessions/{}/messages", stored.session);
        let detail = json!({ "session": stored.session, "seq": stored.seq, "role": stored.role });
        let id = stored.id.clone();
        Ok(Done::created(path, id, MessageView::from(stored)).map(|done| done.detail(detail)))
    });
    said.await
}

/// Writes the memo of a conversation.
#[utoipa::path(
    put, path = "/v1/sessions/{session}/memo", tag = "sessions",
    params(("session" = String, Path, description = "The conversation", pattern = "^sess_[A-Za-z0-9-]{1,64}$")),
    request_body = NewMemo, responses((status = 200, body = MemoView))
)]
async fn memo(
    State(gateway): State<Gateway>,
    Id(session): Id<SessionId>,
    command: Command<NewMemo>,
) -> Result<Answer, Problem> {
    let wish = command.wish("session.memo", &session)?;
    let Command { caller, body: NewMemo { memo, version }, .. } = command;
    let session = open(&gateway, &caller, &session).await?;
    let written = gateway.change_outside(wish, async move {
        let memo = session.set_memo(memo.as_str(), version.map(u64::from)).await?;
        Done::ok(MemoView { memo: memo.text, version: memo.version })
    });
    written.await
}

/// Searches what was said in past conversations, by both sides.
#[utoipa::path(
    post, path = "/v1/conversations/search", tag = "sessions", request_body = ConversationSearch,
    responses((status = 200, body = Conversations))
)]
async fn search(
    State(gateway): State<Gateway>,
    caller: Caller,
    Input(asked): Input<ConversationSearch>,
) -> Result<Json<Conversations>, Problem> {
    let zone = match asked.zone.as_deref() {
        None => Zone::utc(),
        Some(name) => Zone::named(name).ok_or_else(|| {
            Problem::new(
                StatusCode::NOT_FOUND,
                "not_found",
                "there is no such time zone: name one such as Europe/Berlin",
            )
            .at("body.zone")
        })?,
    };
    let (hits, tokens) = (asked.hits.unwrap_or(8) as usize, u64::from(asked.tokens.unwrap_or(1_500)));
    if !(1..=CONVERSATION_HITS_MAX).contains(&hits) || !(100..=CONVERSATION_TOKENS_MAX).contains(&tokens) {
        let detail = format!("expected 1 to {CONVERSATION_HITS_MAX} hits in 100 to {CONVERSATION_TOKENS_MAX} tokens");
        return Err(Problem::invalid("body", detail));
    }
    let query = ConversationQuery {
        also: asked.also,
        when: asked.when,
        session: asked.session,
        role: asked.role.as_deref().map(Role::parse).transpose()?,
        hits,
        tokens,
        zone,
        ..ConversationQuery::new(asked.query)
    };
    let found = gateway.workspace().user(caller.scope()).sessions().search(&query).await?;
    let hit = |hit: longhaul_workspace::sessions::ConversationHit| Said {
        session: hit.session.to_string(),
        title: hit.title,
        message: hit.message.to_string(),
        seq: hit.seq,
        role: hit.role.to_string(),
        at: hit.at.0,
        task: hit.task.to_string(),
        snippet: hit.snippet,
        score: hit.score,
    };
    let hits = found.hits.into_iter().map(hit).collect();
    let (left_out, tokens, notes, text) = (found.left_out, found.tokens, found.notes, found.text);
    Ok(Json(Conversations { hits, left_out, tokens, notes, text }))
}

/// A conversation of the caller's that there is.
async fn open(gateway: &Gateway, caller: &Caller, session: &SessionId) -> Result<Session, Problem> {
    let sessions = gateway.workspace().user(caller.scope()).sessions();
    let info = sessions.get(session).await?;
    let trace = caller.trace().clone();
    let owner = TaskScope { scope: caller.scope().clone(), session: session.clone(), task: info.task, trace };
    Ok(sessions.session(&owner)?)
}
