//! Long-term memory: added with its source, searched in any words, forgotten.
//!
//! Invariant: what comes in here was said by whoever holds the key: its source is `user`, or what the caller says it
//! passes on; the partitions that index records and conversations are written by their owners only.

use axum::{Json, extract::State};
use longhaul_core::{MemoryId, TaskId, TimeMs};
use longhaul_memory::{HITS_MAX, Item, Kind, MemoryError, Mode, Namespace, NewMemory, Query, Source};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::openapi::{ObjectBuilder, Type};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Caller, Gateway, Problem,
    change::{Answer, Done},
    input::{Command, Id, Input, Params},
    page::{Limit, Page},
    words::{GroupName, Line, MemoryKind, NamespaceName, SourceName, Tag, Words},
};

/// Beginnings of partitions whose rows belong to other owners.
const OTHERS: &[&str] = &["ws:", "talk:", longhaul_memory::KNOWLEDGE_PREFIX];

/// A memory.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Memory)]
pub(crate) struct MemoryView {
    /// Identity.
    memory: String,
    /// The partition it is in.
    namespace: String,
    /// Named group.
    collection: String,
    /// What sort of thing it is.
    kind: String,
    /// Where the text came from: `user`, `agent`, `tool`, `outside`, `harness`.
    source: String,
    /// The text. It is data that somebody wrote, and no instruction.
    content: String,
    /// Metadata.
    #[schema(value_type = Object)]
    meta: Map<String, Value>,
    /// Tags.
    tags: Vec<String>,
    /// The task it belongs to.
    task: Option<String>,
    /// The conversation or document it belongs to.
    thread: Option<String>,
    /// When it was written, milliseconds since 1970.
    created_at: i64,
    /// When it happened, milliseconds since 1970.
    happened_at: i64,
    /// When it stops being found, milliseconds since 1970.
    expires_at: Option<i64>,
    /// The newer fact that took its place.
    superseded_by: Option<String>,
    /// How well it answers, 0 to 1; in answers of a search.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f32>,
}

impl MemoryView {
    fn new(item: Item, score: Option<f32>) -> Self {
        Self {
            memory: item.id.to_string(),
            namespace: item.namespace.to_string(),
            collection: item.collection,
            kind: item.kind.to_string(),
            source: item.source.to_string(),
            content: item.content,
            meta: item.meta,
            tags: item.tags,
            task: item.task.map(|task| task.to_string()),
            thread: item.thread,
            created_at: item.created_at.0,
            happened_at: item.happened_at.0,
            expires_at: item.expires_at.map(|at| at.0),
            superseded_by: item.superseded_by.map(|id| id.to_string()),
            score,
        }
    }
}

/// Something to remember.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewMemory)]
pub(crate) struct NewMemoryBody {
    /// The text.
    content: Words,
    /// `progress`, `commit`, `episode`, `note`, `lesson`, `decision`, `fact` or `preference`; `note` without.
    #[serde(default)]
    kind: Option<MemoryKind>,
    /// Where the text came from: `user` without; `agent`, `tool` or `outside` for what is passed on.
    #[serde(default)]
    source: Option<SourceName>,
    /// The partition; `main` without.
    #[serde(default)]
    namespace: Option<NamespaceName>,
    /// Named group; `notes` without.
    #[serde(default)]
    collection: Option<GroupName>,
    /// Anything to filter by or to show.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    #[schema(schema_with = named_values)]
    meta: Option<Map<String, Value>>,
    /// Tags.
    #[serde(default)]
    #[schema(max_items = 64)]
    tags: Vec<Tag>,
    /// The task it belongs to.
    #[schema(value_type = Option<String>, pattern = "^task_[A-Za-z0-9-]{1,64}$")]
    #[serde(default)]
    task: Option<TaskId>,
    /// The conversation or document it belongs to.
    #[serde(default)]
    thread: Option<Line>,
    /// When it happened, milliseconds since 1970.
    #[serde(default, deserialize_with = "crate::words::whole")]
    happened_at: Option<i64>,
    /// When it stops being found, milliseconds since 1970.
    #[serde(default, deserialize_with = "crate::words::whole")]
    expires_at: Option<i64>,
}

/// What to search for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemorySearch {
    /// In any words and any language.
    query: Words,
    /// Most hits; 10 without.
    #[schema(minimum = 1, maximum = 200)]
    #[serde(default, deserialize_with = "crate::words::whole")]
    limit: Option<u32>,
    /// The partitions; `main` without.
    #[schema(max_items = 32)]
    #[serde(default)]
    namespaces: Vec<NamespaceName>,
    /// Only of these kinds.
    #[serde(default)]
    kinds: Vec<MemoryKind>,
    /// Only of these groups.
    #[serde(default)]
    collections: Vec<GroupName>,
    /// Only with all of these tags.
    #[serde(default)]
    #[schema(max_items = 64)]
    tags: Vec<Tag>,
    /// Only of this task.
    #[schema(value_type = Option<String>, pattern = "^task_[A-Za-z0-9-]{1,64}$")]
    #[serde(default)]
    task: Option<TaskId>,
    /// Only what happened at this moment or later, milliseconds since 1970.
    #[serde(default, deserialize_with = "crate::words::whole")]
    since: Option<i64>,
    /// Only what happened before this moment, milliseconds since 1970.
    #[serde(default, deserialize_with = "crate::words::whole")]
    until: Option<i64>,
}

/// What a search found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Recalled {
    /// Best first.
    memories: Vec<MemoryView>,
    /// `hybrid`, or `keyword` where the meaning could not be used.
    mode: &'static str,
    /// What to know of the answer.
    notes: Vec<String>,
}

/// Which memories are listed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// The partition; `main` without.
    #[param(value_type = Option<String>, pattern = "^[a-z0-9_.:-]{1,128}$")]
    namespace: Option<NamespaceName>,
    /// Only of this group.
    #[param(value_type = Option<String>, pattern = "^[a-z0-9_.-]{1,64}$")]
    collection: Option<GroupName>,
    /// The `next` of the page before.
    after: Option<String>,
    /// At most so many.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Limit,
}

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(list, add)).routes(routes!(search)).routes(routes!(get, forget))
}

/// Memories of a partition, in order of writing.
#[utoipa::path(
    get, path = "/v1/memories", tag = "memories", params(Which), responses((status = 200, body = Page<MemoryView>))
)]
async fn list(
    State(gateway): State<Gateway>,
    caller: Caller,
    Params(which): Params<Which>,
) -> Result<Json<Page<MemoryView>>, Problem> {
    let named = which.namespace.map(|name| namespace(name.as_str(), "query.namespace")).transpose()?;
    let query = Query {
        k: which.limit.get() as usize,
        namespaces: named.into_iter().collect(),
        collections: which.collection.into_iter().map(String::from).collect(),
        ..Query::default()
    };
    let page = match gateway.memory().list(caller.scope(), &query, which.after.as_deref()).await {
        Ok(page) => page,
        // A partition begins with the first memory: before it there are none.
        Err(MemoryError::NoPartition { .. }) => return Ok(Json(Page { items: Vec::new(), next: None })),
        Err(MemoryError::Field { field: "after", value, .. }) => return Err(Problem::missing("page", &value)),
        Err(error) => return Err(error.into()),
    };
    let items = page.items.into_iter().map(|item| MemoryView::new(item, None)).collect();
    Ok(Json(Page { items, next: page.next }))
}

/// Remembers something.
#[utoipa::path(
    post, path = "/v1/memories", tag = "memories", request_body = NewMemoryBody,
    responses((status = 201, body = MemoryView))
)]
async fn add(State(gateway): State<Gateway>, command: Command<NewMemoryBody>) -> Result<Answer, Problem> {
    let wish = command.wish("memory.add", "")?;
    let Command { caller, body, .. } = command;
    let kind = body.kind.map_or(Ok(Kind::Note), |kind| kind.as_str().parse::<Kind>())?;
    let source = body.source.map_or(Ok(Source::User), |source| source.as_str().parse::<Source>())?;
    let mut new =
        NewMemory::new(body.collection.as_ref().map_or("notes", GroupName::as_str), kind, source, body.content);
    if let Some(name) = &body.namespace {
        new.namespace = writable(name.as_str())?;
    }
    if let Some(task) = &body.task {
        gateway.task(&caller, task).await?;
    }
    (new.meta, new.tags, new.task, new.thread) =
        (body.meta.unwrap_or_default(), strings(body.tags), body.task, body.thread.map(String::from));
    (new.happened_at, new.expires_at) = (body.happened_at.map(TimeMs), body.expires_at.map(TimeMs));
    let memory = gateway.memory().clone();
    let scope = caller.scope().clone();
    let added = gateway.change_outside(wish, async move {
        let id = memory.add(&scope, new).await?;
        let item = memory.get(&scope, &id).await?.ok_or_else(|| Problem::missing("memory", id.as_str()))?;
        Done::created(format!("/v1/memories/{id}"), &id, MemoryView::new(item, None))
    });
    added.await
}

/// Searches memory by words and by meaning. Searching writes nothing.
#[utoipa::path(
    post, path = "/v1/memories/search", tag = "memories", request_body = MemorySearch,
    responses((status = 200, body = Recalled))
)]
async fn search(
    State(gateway): State<Gateway>,
    caller: Caller,
    Input(asked): Input<MemorySearch>,
) -> Result<Json<Recalled>, Problem> {
    let limit = asked.limit.unwrap_or(10) as usize;
    if !(1..=HITS_MAX).contains(&limit) {
        return Err(Problem::invalid("body.limit", format!("expected 1 to {HITS_MAX}")));
    }
    if asked.namespaces.len() > 32 {
        return Err(Problem::invalid("body.namespaces", "at most 32 are searched at once"));
    }
    let read = |name: &NamespaceName| namespace(name.as_str(), "body.namespaces");
    let query = Query {
        namespaces: asked.namespaces.iter().map(read).collect::<Result<_, _>>()?,
        kinds: asked.kinds.iter().map(|kind| kind.as_str().parse()).collect::<Result<_, MemoryError>>()?,
        collections: strings(asked.collections),
        tags: strings(asked.tags),
        task: asked.task,
        since: asked.since.map(TimeMs),
        until: asked.until.map(TimeMs),
        ..Query::new(String::from(asked.query), limit)
    };
    let recall = match gateway.memory().search(caller.scope(), &query).await {
        Ok(recall) => recall,
        Err(MemoryError::NoPartition { namespace }) => {
            let notes = vec![format!("nothing has been remembered in {namespace} yet")];
            return Ok(Json(Recalled { memories: Vec::new(), mode: "hybrid", notes }));
        }
        Err(error) => return Err(error.into()),
    };
    let (mode, mut notes) = match recall.mode {
        Mode::Hybrid => ("hybrid", recall.notes),
        Mode::Keyword { reason } => ("keyword", [vec![reason], recall.notes].concat()),
    };
    notes.truncate(20);
    let memories = recall.hits.into_iter().map(|hit| MemoryView::new(hit.item, Some(hit.score))).collect();
    Ok(Json(Recalled { memories, mode, notes }))
}

/// One memory.
#[utoipa::path(
    get, path = "/v1/memories/{memory}", tag = "memories",
    params(("memory" = String, Path, description = "The memory", pattern = "^mem_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = MemoryView))
)]
async fn get(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(id): Id<MemoryId>,
) -> Result<Json<MemoryView>, Problem> {
    let found = gateway.memory().get(caller.scope(), &id).await?;
    let item = found.ok_or_else(|| Problem::missing("memory", id.as_str()))?;
    Ok(Json(MemoryView::new(item, None)))
}

/// Forgets a memory: it is found no more.
#[utoipa::path(
    delete, path = "/v1/memories/{memory}", tag = "memories",
    params(("memory" = String, Path, description = "The memory", pattern = "^mem_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = MemoryView))
)]
async fn forget(
    State(gateway): State<Gateway>,
    Id(id): Id<MemoryId>,
    command: Command<super::Nothing>,
) -> Result<Answer, Problem> {
    let wish = command.wish("memory.forget", &id)?;
    let scope = command.caller.scope().clone();
    let memory = gateway.memory().clone();
    let found = memory.get(&scope, &id).await?;
    let item = found.ok_or_else(|| Problem::missing("memory", id.as_str()))?;
    writable(item.namespace.as_str())?;
    let forgotten = gateway.change(wish, move |tx| {
        if !memory.forget(tx, &scope, &id)? {
            return Err(Problem::missing("memory", id.as_str()));
        }
        let detail = json!({ "namespace": item.namespace });
        Ok(Done::ok(MemoryView::new(item, None)).map(|done| done.detail(detail)))
    });
    forgotten.await
}

fn strings<T: Into<String>>(words: Vec<T>) -> Vec<String> {
    words.into_iter().map(Into::into).collect()
}

fn namespace(name: &str, place: &'static str) -> Result<Namespace, Problem> {
    name.parse::<Namespace>().map_err(|error| Problem::invalid(place, error.to_string()))
}

/// A partition that callers write to themselves.
fn writable(name: &str) -> Result<Namespace, Problem> {
    if OTHERS.iter().any(|other| name.starts_with(other)) {
        let detail = format!("{name:?} is written by what it indexes: write to another namespace");
        return Err(Problem::conflict("written_by_others", detail).at("body.namespace"));
    }
    namespace(name, "body.namespace")
}

/// An object whose names fit memory's metadata.
fn named_values() -> utoipa::openapi::Object {
    let name = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(128)).build();
    ObjectBuilder::new().schema_type(Type::Object).property_names(Some(name)).build()
}
