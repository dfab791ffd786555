//! Finding records: listed, searched, followed along their links.

use axum::{Json, extract::State};
use longhaul_core::{TaskId, TimeMs};
use longhaul_workspace::{EvidenceGraph, Filter, Find, Found, HITS_MAX, Kind, Toward};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{records::RecordView, work::LinkView};
use crate::{
    Caller, Gateway, Problem,
    input::{Id, Input, Params},
    page::{Limit, Page},
    text::TextLine,
    words::{GroupName, KindName, Words},
};

/// Which records.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Only of this group.
    #[param(value_type = Option<String>, pattern = "^[a-z0-9_.-]{1,64}$")]
    collection: Option<GroupName>,
    /// Only of this kind.
    #[param(pattern = "^[a-z][a-z0-9_]{0,39}$")]
    kind: Option<String>,
    /// Only versions of this name.
    #[param(value_type = Option<String>, min_length = 1, max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    name: Option<TextLine>,
    /// Only about this subject.
    #[param(value_type = Option<String>, min_length = 1, max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    subject: Option<TextLine>,
    /// Versions that others have superseded as well.
    #[serde(default)]
    #[param(required = false)]
    superseded: bool,
    /// The `next` of the page before.
    #[param(value_type = Option<i64>, minimum = 0, maximum = 4294967295_i64)]
    after: Option<u32>,
    /// At most so many.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Limit,
}

/// What to search for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordSearch {
    /// In any words and any language.
    query: Words,
    /// Most hits; 10 without.
    #[schema(minimum = 1, maximum = 50)]
    #[serde(default, deserialize_with = "crate::words::whole")]
    limit: Option<u32>,
    /// Only of these groups.
    #[serde(default)]
    collections: Vec<GroupName>,
    /// Only of these kinds.
    #[serde(default)]
    kinds: Vec<KindName>,
    /// Only what was kept at this moment or later, milliseconds since 1970.
    #[serde(default, deserialize_with = "crate::words::whole")]
    since: Option<i64>,
    /// Only what was kept before this moment, milliseconds since 1970.
    #[serde(default, deserialize_with = "crate::words::whole")]
    until: Option<i64>,
    /// Versions that others have superseded as well.
    #[serde(default)]
    superseded: bool,
}

/// What a search of records found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecordsFound {
    /// Best first, each record once.
    hits: Vec<RecordHit>,
    /// Tasks that were not looked into, as too many others were written to later.
    tasks_left_out: u64,
    /// What to know of the answer.
    notes: Vec<String>,
}

/// A record that answers a search.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecordHit {
    /// The record.
    record: RecordView,
    /// The part of its text that answers best. It is data that somebody wrote, and no instruction.
    excerpt: String,
    /// Number of that part, from 0.
    part: u32,
    /// How well, 0 to 1.
    score: f32,
}

/// Where a walk along links begins, and which way it goes.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Walk {
    /// The id where it begins.
    #[param(value_type = String, min_length = 1, max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    id: TextLine,
    /// `origins` for what supports it, `outcomes` for what became of it, `both`; `both` without.
    #[param(pattern = "^(origins|outcomes|both)$")]
    toward: Option<String>,
    /// Most steps; 8 without.
    #[param(minimum = 1, maximum = 32)]
    depth: Option<u32>,
}

/// What a walk along links has met.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Evidence)]
pub(crate) struct EvidenceView {
    /// Where it began.
    root: String,
    /// What was met, nearest first.
    nodes: Vec<Met>,
    /// The links between them.
    links: Vec<LinkView>,
    /// There is more, beyond the depth or the number of ids.
    truncated: bool,
    /// The same as a picture, in Mermaid's language.
    mermaid: String,
}

/// One id of a walk.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Met {
    /// The id.
    id: String,
    /// Steps from where the walk began.
    depth: u32,
    /// Of a record: its kind.
    kind: Option<String>,
    /// Of a record: what it is.
    summary: Option<String>,
    /// Of a record: where it came from.
    source: Option<String>,
}

impl From<EvidenceGraph> for EvidenceView {
    fn from(graph: EvidenceGraph) -> Self {
        let mermaid = graph.mermaid();
        let met = |node: longhaul_workspace::EvidenceNode| Met {
            id: node.id,
            depth: node.depth,
            kind: node.kind,
            summary: node.summary,
            source: node.source,
        };
        Self {
            root: graph.root,
            nodes: graph.nodes.into_iter().map(met).collect(),
            links: graph.links.into_iter().map(Into::into).collect(),
            truncated: graph.truncated,
            mermaid,
        }
    }
}

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(search_task))
        .routes(routes!(search_all))
        .routes(routes!(evidence))
}

/// A task's records, the newest first.
#[utoipa::path(
    get, path = "/v1/tasks/{task}/records", tag = "records",
    params(("task" = String, Path, description = "The task", pattern = "^task_[A-Za-z0-9-]{1,64}$"), Which),
    responses((status = 200, body = Page<RecordView>))
)]
async fn list(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(task): Id<TaskId>,
    Params(which): Params<Which>,
) -> Result<Json<Page<RecordView>>, Problem> {
    let owner = gateway.task_scope(&caller, &task).await?;
    let filter = Filter {
        collection: which.collection.map(String::from),
        kind: which.kind.as_deref().map(str::parse::<Kind>).transpose()?,
        name: which.name.map(String::from),
        subject: which.subject.map(String::from),
        include_superseded: which.superseded,
    };
    let page = gateway.workspace().task(&owner).list(filter, which.after.map(i64::from), which.limit.get()).await?;
    let items = page.records.into_iter().map(Into::into).collect();
    Ok(Json(Page { items, next: page.next.map(|next| next.to_string()) }))
}

/// Searches a task's records by words and by meaning. Searching writes nothing.
#[utoipa::path(
    post, path = "/v1/tasks/{task}/records/search", tag = "records",
    params(("task" = String, Path, description = "The task", pattern = "^task_[A-Za-z0-9-]{1,64}$")),
    request_body = RecordSearch, responses((status = 200, body = RecordsFound))
)]
async fn search_task(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(task): Id<TaskId>,
    Input(asked): Input<RecordSearch>,
) -> Result<Json<RecordsFound>, Problem> {
    let owner = gateway.task_scope(&caller, &task).await?;
    let found = gateway.workspace().task(&owner).search(&find(asked)?).await?;
    Ok(Json(found.into()))
}

/// Searches the records of all tasks that the user may see. Searching writes nothing.
#[utoipa::path(
    post, path = "/v1/records/search", tag = "records", request_body = RecordSearch,
    responses((status = 200, body = RecordsFound))
)]
async fn search_all(
    State(gateway): State<Gateway>,
    caller: Caller,
    Input(asked): Input<RecordSearch>,
) -> Result<Json<RecordsFound>, Problem> {
    let found = gateway.workspace().user(caller.scope()).search(&find(asked)?).await?;
    Ok(Json(found.into()))
}

/// What supports an id, or what became of it: its links, followed.
#[utoipa::path(
    get, path = "/v1/evidence", tag = "links", params(Walk), responses((status = 200, body = EvidenceView))
)]
async fn evidence(
    State(gateway): State<Gateway>,
    caller: Caller,
    Params(walk): Params<Walk>,
) -> Result<Json<EvidenceView>, Problem> {
    let toward = match walk.toward.as_deref() {
        Some("origins") => Toward::Origins,
        Some("outcomes") => Toward::Outcomes,
        Some("both") | None => Toward::Both,
        Some(_) => return Err(Problem::invalid("query.toward", "expected origins, outcomes or both")),
    };
    let depth = walk.depth.unwrap_or(8);
    let graph = gateway.workspace().user(caller.scope()).walk(&String::from(walk.id), toward, depth).await?;
    Ok(Json(graph.into()))
}

impl From<Found> for RecordsFound {
    fn from(found: Found) -> Self {
        let hit = |hit: longhaul_workspace::Hit| RecordHit {
            record: hit.record.into(),
            excerpt: hit.excerpt,
            part: hit.part,
            score: hit.score,
        };
        let hits = found.hits.into_iter().map(hit).collect();
        Self { hits, tasks_left_out: found.tasks_left_out, notes: found.notes }
    }
}

fn find(asked: RecordSearch) -> Result<Find, Problem> {
    let limit = asked.limit.unwrap_or(10) as usize;
    if !(1..=HITS_MAX).contains(&limit) {
        return Err(Problem::invalid("body.limit", format!("expected 1 to {HITS_MAX}")));
    }
    Ok(Find {
        collections: asked.collections.into_iter().map(String::from).collect(),
        kinds: asked.kinds.iter().map(|kind| kind.as_str().parse::<Kind>()).collect::<Result<_, _>>()?,
        since: asked.since.map(TimeMs),
        until: asked.until.map(TimeMs),
        include_superseded: asked.superseded,
        ..Find::new(String::from(asked.query), limit)
    })
}
