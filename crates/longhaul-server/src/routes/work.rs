//! Links between ids, and milestones of tasks.

use axum::{Json, extract::State};
use longhaul_core::{ExecutionId, TaskId};
use longhaul_workspace::{Link, Milestone, NewLink, NewMilestone, RecordRef, Relation};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Caller, Gateway, Problem,
    change::{Answer, Done},
    input::{Command, Id, Params},
    page::{Limit, Page},
    text::TextLine,
    words::{KindName, Line, NoteLine},
};

/// How two ids relate.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Link)]
pub(crate) struct LinkView {
    /// The id it starts from.
    source: String,
    /// How they relate: `supports`.
    relation: String,
    /// The id it points to.
    target: String,
    /// Who made it.
    user: String,
    /// The task within which it was made.
    task: Option<String>,
    /// What else was said of it.
    note: Option<String>,
    /// When it was made, milliseconds since 1970.
    created_at: i64,
}

impl From<Link> for LinkView {
    fn from(link: Link) -> Self {
        Self {
            source: link.source,
            relation: link.relation.to_string(),
            target: link.target,
            user: link.user.to_string(),
            task: link.task.map(|task| task.to_string()),
            note: link.note,
            created_at: link.created_at.0,
        }
    }
}

/// A link to be made. Both ends must be there and visible.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewLink)]
pub(crate) struct NewLinkBody {
    /// The id it starts from: of a record, memory, execution, event, verdict …
    source: Line,
    /// `supports`, `refutes`, `verifies`, `derived_from` …, or a word of your own.
    relation: KindName,
    /// The id it points to.
    target: Line,
    /// What else to say of it.
    #[serde(default)]
    note: Option<NoteLine>,
}

/// Whose links.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Around {
    /// The id whose links are wanted.
    #[param(value_type = String, min_length = 1, max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    id: TextLine,
}

/// The links of an id.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Links {
    /// Those that start at it, then those that point to it; oldest first.
    links: Vec<LinkView>,
}

/// A reference to a record's content.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GivenRef {
    /// The record.
    #[schema(pattern = "^rec_[A-Za-z0-9-]{1,64}$")]
    record: String,
    /// `sha256:` and the digest of its content.
    #[schema(pattern = "^sha256:[0-9a-f]{64}$")]
    digest: String,
}

/// A milestone to be reached.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewMilestone)]
pub(crate) struct NewMilestoneBody {
    /// What it is called within the task.
    #[schema(value_type = String, min_length = 1, max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    name: TextLine,
    /// The execution whose checkpoint it points to.
    #[schema(value_type = Option<String>, pattern = "^exec_[A-Za-z0-9-]{1,64}$")]
    #[serde(default)]
    execution: Option<ExecutionId>,
    /// The superstep of that checkpoint.
    #[serde(default, deserialize_with = "crate::words::whole")]
    superstep: Option<u32>,
    /// What recovery needs.
    #[schema(max_items = 256)]
    #[serde(default)]
    refs: Vec<GivenRef>,
    /// What else to say of it.
    #[serde(default)]
    note: Option<NoteLine>,
    /// Makes the next version of its name, where the name is taken.
    #[serde(default)]
    revise: bool,
}

/// A milestone that was reached.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Milestone)]
pub(crate) struct MilestoneView {
    /// Identity.
    milestone: String,
    /// The task.
    task: String,
    /// What it is called within the task.
    name: String,
    /// Its version under that name.
    version: u32,
    /// The execution whose checkpoint it points to.
    execution: Option<String>,
    /// The superstep of that checkpoint.
    superstep: Option<u64>,
    /// What recovery needs.
    refs: Vec<super::records::RefView>,
    /// What else was said of it.
    note: Option<String>,
    /// When it was reached, milliseconds since 1970.
    created_at: i64,
}

impl From<Milestone> for MilestoneView {
    fn from(milestone: Milestone) -> Self {
        Self {
            milestone: milestone.id.to_string(),
            task: milestone.owner.task.to_string(),
            name: milestone.name,
            version: milestone.version,
            execution: milestone.execution.map(|id| id.to_string()),
            superstep: milestone.superstep,
            refs: milestone.refs.into_iter().map(Into::into).collect(),
            note: milestone.note,
            created_at: milestone.created_at.0,
        }
    }
}

/// Which milestones.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// At most so many.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Limit,
}

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(link)).routes(routes!(links)).routes(routes!(milestones, reach))
}

/// Links two ids. Linking them again changes nothing.
#[utoipa::path(
    post, path = "/v1/tasks/{task}/links", tag = "links",
    params(("task" = String, Path, description = "The task", pattern = "^task_[A-Za-z0-9-]{1,64}$")),
    request_body = NewLinkBody, responses((status = 200, body = Links))
)]
async fn link(
    State(gateway): State<Gateway>,
    Id(task): Id<TaskId>,
    command: Command<NewLinkBody>,
) -> Result<Answer, Problem> {
    let wish = command.wish("link.make", &task)?;
    let Command { caller, body: NewLinkBody { source, relation, target, note }, .. } = command;
    if source == target {
        return Err(Problem::conflict("same_ends", "a link has two ends: name another target").at("body.target"));
    }
    let relation = relation.as_str().parse::<Relation>()?;
    let (source, target, note) = (source.into(), target.into(), note.map(String::from));
    let new = NewLink { source, relation, target, note };
    let owner = gateway.task_scope(&caller, &task).await?;
    let memory = gateway.memory().clone();
    let linked = gateway.change(wish, move |tx| {
        longhaul_workspace::link(tx, &memory, &owner, &new)?;
        let ends = json!({ "source": new.source, "relation": new.relation, "target": new.target });
        Ok(Done::ok(&ends).map(|done| done.detail(ends.clone())))
    });
    linked.await
}

/// The links that start at an id or point to it, as far as both ends are visible.
#[utoipa::path(get, path = "/v1/links", tag = "links", params(Around), responses((status = 200, body = Links)))]
async fn links(
    State(gateway): State<Gateway>,
    caller: Caller,
    Params(Around { id }): Params<Around>,
) -> Result<Json<Links>, Problem> {
    let found = gateway.workspace().user(caller.scope()).links(&String::from(id)).await?;
    Ok(Json(Links { links: found.into_iter().map(Into::into).collect() }))
}

/// Reaches a milestone: a named pointer to a checkpoint and to what recovery needs.
#[utoipa::path(
    post, path = "/v1/tasks/{task}/milestones", tag = "milestones",
    params(("task" = String, Path, description = "The task", pattern = "^task_[A-Za-z0-9-]{1,64}$")),
    request_body = NewMilestoneBody, responses((status = 201, body = MilestoneView))
)]
async fn reach(
    State(gateway): State<Gateway>,
    Id(task): Id<TaskId>,
    command: Command<NewMilestoneBody>,
) -> Result<Answer, Problem> {
    let wish = command.wish("milestone.reach", &task)?;
    let Command { caller, body, .. } = command;
    if body.superstep.is_some() && body.execution.is_none() {
        let detail = "a superstep is one of an execution: name it as well";
        return Err(Problem::conflict("no_execution", detail).at("body.superstep"));
    }
    let refs = body.refs.into_iter().map(read_ref).collect::<Result<Vec<_>, _>>()?;
    let new = NewMilestone {
        name: body.name.into(),
        execution: body.execution,
        superstep: body.superstep.map(u64::from),
        refs,
        note: body.note.map(String::from),
        revise: body.revise,
    };
    let owner = gateway.task_scope(&caller, &task).await?;
    let memory = gateway.memory().clone();
    let reached = gateway.change(wish, move |tx| {
        let milestone = longhaul_workspace::reach(tx, &memory, &owner, &new)?;
        let (id, path) = (milestone.id.clone(), format!("/v1/tasks/{}/milestones", owner.task));
        let detail = json!({ "name": milestone.name, "version": milestone.version });
        Ok(Done::created(path, id, MilestoneView::from(milestone)).map(|done| done.detail(detail)))
    });
    reached.await
}

/// The task's milestones, the newest first.
#[utoipa::path(
    get, path = "/v1/tasks/{task}/milestones", tag = "milestones",
    params(("task" = String, Path, description = "The task", pattern = "^task_[A-Za-z0-9-]{1,64}$"), Which),
    responses((status = 200, body = Page<MilestoneView>))
)]
async fn milestones(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(task): Id<TaskId>,
    Params(which): Params<Which>,
) -> Result<Json<Page<MilestoneView>>, Problem> {
    let owner = gateway.task_scope(&caller, &task).await?;
    let found = gateway.workspace().task(&owner).milestones(which.limit.get()).await?;
    Ok(Json(Page { items: found.into_iter().map(Into::into).collect(), next: None }))
}

pub(super) fn read_ref(given: GivenRef) -> Result<RecordRef, Problem> {
    let GivenRef { record, digest } = given;
    Ok(RecordRef {
        id: record.parse().map_err(|error: longhaul_core::IdError| Problem::invalid("body.refs", error.to_string()))?,
        digest: digest
            .parse()
            .map_err(|error: longhaul_core::DigestError| Problem::invalid("body.refs", error.to_string()))?,
    })
}
