//! Shared knowledge: proposed with its evidence, decided on by a person, versioned, rolled back.
//!
//! Invariant: whoever decides shows an owner's key. Agents are given operators' keys, so that none of them approves what
//! it has proposed.

use axum::{Json, extract::State, http::StatusCode};
use longhaul_core::TaskId;
use longhaul_memory::user::{Actor, By};
use longhaul_workspace::review::{
    NewProposal, Recalled, ReviewError, ReviewId, ReviewState, Reviewed, SHARED_PAGE_MAX, Said, SharedVersion, Standing,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Caller, Gateway, Problem,
    change::{Answer, Done},
    input::{Command, Id, Input, Params},
    keys::Role,
    page::{Limit, Page},
    text::{Name, TextLine},
    words::{KeyName, Line, NoteLine, SchemaName, Words},
};

/// Most facts of one answer.
const FACTS_MAX: u32 = 50;

/// A change that is to be proposed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewProposal)]
pub(crate) struct NewProposalBody {
    /// The entry: 1 to 128 of `a-z`, `0-9` and `_./:-`, as in `billing/port`.
    key: KeyName,
    /// What the entry would say; nothing for one that should go.
    #[serde(default)]
    said: Option<SaidBody>,
    /// Ids of what shows it: records, messages, steps, memories. At least one.
    #[schema(min_items = 1, max_items = 64)]
    evidence: Vec<Line>,
    /// Why, in a sentence or two.
    #[serde(default)]
    why: Option<NoteLine>,
    /// The agent that proposes; without, the key's user does.
    #[schema(value_type = Option<String>, pattern = "^[A-Za-z0-9_.:/-]{1,128}$")]
    #[serde(default)]
    agent: Option<Name>,
}

/// What an entry says: a value of a schema.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SaidOfEntry)]
pub(crate) struct SaidBody {
    /// The schema that the value fits.
    schema: SchemaName,
    /// The value.
    value: Value,
}

/// A proposal, and what became of it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Proposal)]
pub(crate) struct ProposalView {
    /// Identity.
    proposal: String,
    /// The task in which it was made.
    task: String,
    /// The entry.
    key: String,
    /// The schema of the value.
    schema: Option<String>,
    /// What the entry would say.
    value: Option<Value>,
    /// What shows it.
    evidence: Vec<String>,
    /// Why.
    why: String,
    /// Who proposed it.
    proposer: String,
    /// The version that was known then.
    base_version: u32,
    /// `pending`, `applied` or `rejected`.
    state: &'static str,
    /// When it was made, milliseconds since 1970.
    created_at: i64,
    /// When it was decided on, milliseconds since 1970.
    decided_at: Option<i64>,
    /// Who decided.
    decided_by: Option<String>,
    /// What the one who decided said.
    note: Option<String>,
    /// The version that it became.
    version: Option<u32>,
}

impl From<Reviewed> for ProposalView {
    fn from(reviewed: Reviewed) -> Self {
        let (schema, value) = parts(reviewed.said);
        Self {
            proposal: reviewed.id.to_string(),
            task: reviewed.owner.task.to_string(),
            key: reviewed.key,
            schema,
            value,
            evidence: reviewed.evidence.into_iter().collect(),
            why: reviewed.why,
            proposer: reviewed.proposer.to_string(),
            base_version: reviewed.base_version,
            state: reviewed.state.as_str(),
            created_at: reviewed.created_at.0,
            decided_at: reviewed.decided_at.map(|at| at.0),
            decided_by: reviewed.decided_by.map(|by| by.to_string()),
            note: reviewed.note,
            version: reviewed.version,
        }
    }
}

/// One version of an entry.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SharedVersion)]
pub(crate) struct VersionView {
    /// The entry.
    key: String,
    /// Its number, from 1.
    version: u32,
    /// The schema of the value.
    schema: Option<String>,
    /// What the entry says; nothing where it is gone.
    value: Option<Value>,
    /// What shows it.
    evidence: Vec<String>,
    /// `approved` or `rolled_back`.
    action: Value,
    /// The version that it restores.
    of_version: Option<u32>,
    /// The proposal that it applied.
    proposal: Option<String>,
    /// Who decided.
    actor: String,
    /// The reason given.
    why: String,
    /// When, milliseconds since 1970.
    at: i64,
}

impl From<SharedVersion> for VersionView {
    fn from(version: SharedVersion) -> Self {
        let (schema, value) = parts(version.said);
        Self {
            key: version.key,
            version: version.version,
            schema,
            value,
            evidence: version.evidence.into_iter().collect(),
            action: json!(version.action),
            of_version: version.of_version,
            proposal: version.proposal.map(|id| id.to_string()),
            actor: version.actor.to_string(),
            why: version.why,
            at: version.at.0,
        }
    }
}

fn parts(said: Option<Said>) -> (Option<String>, Option<Value>) {
    said.map_or((None, None), |said| (Some(said.schema), Some(said.value)))
}

/// Which proposals.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// `pending`, `applied` or `rejected`; all without.
    #[param(pattern = "^(pending|applied|rejected)$")]
    state: Option<String>,
}

/// A decision.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decision {
    /// Why, in a few words.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    #[serde(default)]
    why: Option<TextLine>,
}

/// An entry to be put back.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rollback {
    /// The entry.
    key: KeyName,
    /// The version that is restored, as a new one.
    #[schema(value_type = u32, minimum = 1)]
    #[serde(deserialize_with = "crate::words::whole")]
    version: Option<u32>,
    /// Why, in a few words.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    #[serde(default)]
    why: Option<TextLine>,
}

/// A schema that values may be of.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SharedSchema {
    /// Its name.
    #[schema(value_type = String, pattern = "^[A-Za-z0-9_.@/-]{1,128}$")]
    schema: String,
    /// The JSON schema; it does not change any more.
    #[schema(value_type = Object)]
    definition: Map<String, Value>,
}

/// Which entries.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Entries {
    /// All versions of this entry, in place of the newest of each.
    #[param(value_type = Option<String>, pattern = "^[a-z0-9_./:-]{1,128}$")]
    key: Option<KeyName>,
    /// The `next` of the page before.
    #[param(value_type = Option<String>, pattern = "^[a-z0-9_./:-]{1,128}$")]
    after: Option<KeyName>,
    /// At most so many.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Limit,
}

/// A question that facts answer.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    /// In any words.
    query: Words,
    /// Most facts; 10 without.
    #[schema(minimum = 1, maximum = 50)]
    #[serde(default, deserialize_with = "crate::words::whole")]
    limit: Option<u32>,
}

/// Facts that were approved.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Facts {
    /// Best first.
    facts: Vec<Fact>,
}

/// A fact that was approved.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Fact {
    /// The version, with its evidence.
    version: VersionView,
    /// The text.
    text: String,
    /// How well it answers, 0 to 1.
    score: f32,
}

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(propose))
        .routes(routes!(list))
        .routes(routes!(get))
        .routes(routes!(approve))
        .routes(routes!(reject))
        .routes(routes!(entries))
        .routes(routes!(facts))
        .routes(routes!(rollback))
        .routes(routes!(define))
}

/// Proposes a change of shared knowledge. Nobody who asks for facts finds it before it is approved.
#[utoipa::path(
    post, path = "/v1/tasks/{task}/proposals", tag = "knowledge",
    params(("task" = String, Path, description = "The task", pattern = "^task_[A-Za-z0-9-]{1,64}$")),
    request_body = NewProposalBody, responses((status = 201, body = ProposalView))
)]
async fn propose(
    State(gateway): State<Gateway>,
    Id(task): Id<TaskId>,
    command: Command<NewProposalBody>,
) -> Result<Answer, Problem> {
    let wish = command.wish("knowledge.propose", &task)?;
    let Command { caller, body, .. } = command;
    let said = body.said.map(|said| Said { schema: said.schema.into(), value: said.value });
    let proposer = match body.agent {
        Some(name) => Actor::Agent(name.into()),
        None => Actor::Person(caller.scope().user.clone()),
    };
    let new = NewProposal {
        key: body.key.into(),
        said,
        evidence: body.evidence.into_iter().map(String::from).collect(),
        why: body.why.map(String::from).unwrap_or_default(),
        proposer,
    };
    let owner = gateway.task_scope(&caller, &task).await?;
    let handle = gateway.workspace().task(&owner);
    let proposed = gateway.change_outside(wish, async move {
        let made = handle.propose(new).await?;
        let (path, id) = (format!("/v1/review/{}", made.id), made.id.clone());
        let detail = json!({ "key": made.key });
        Done::created(path, id, ProposalView::from(made)).map(|done| done.detail(detail))
    });
    proposed.await
}

/// Proposals, the oldest first: all of the tenant's for who may decide, one's own for others.
#[utoipa::path(
    get, path = "/v1/review", tag = "knowledge", params(Which), responses((status = 200, body = Page<ProposalView>))
)]
async fn list(
    State(gateway): State<Gateway>,
    caller: Caller,
    Params(which): Params<Which>,
) -> Result<Json<Page<ProposalView>>, Problem> {
    let state = which.state.as_deref().map(str::parse::<ReviewState>).transpose()?;
    let found = gateway.workspace().user(caller.scope()).shared_knowledge().proposals(state).await?;
    Ok(Json(Page { items: found.into_iter().map(Into::into).collect(), next: None }))
}

/// One proposal.
#[utoipa::path(
    get, path = "/v1/review/{proposal}", tag = "knowledge",
    params(("proposal" = String, Path, description = "The proposal", pattern = "^proposal_[A-Za-z0-9]{1,64}$")),
    responses((status = 200, body = ProposalView))
)]
async fn get(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(id): Id<ReviewId>,
) -> Result<Json<ProposalView>, Problem> {
    Ok(Json(gateway.workspace().user(caller.scope()).shared_knowledge().proposal(&id).await?.into()))
}

/// Approves a proposal: it becomes the newest version of its entry.
#[utoipa::path(
    post, path = "/v1/review/{proposal}/approve", tag = "knowledge",
    params(("proposal" = String, Path, description = "The proposal", pattern = "^proposal_[A-Za-z0-9]{1,64}$")),
    request_body = Decision, responses((status = 200, body = ProposalView))
)]
async fn approve(
    State(gateway): State<Gateway>,
    Id(id): Id<ReviewId>,
    command: Command<Decision>,
) -> Result<Answer, Problem> {
    decide(gateway, id, command, true).await
}

/// Rejects a proposal. The same on the same evidence is not proposed again.
#[utoipa::path(
    post, path = "/v1/review/{proposal}/reject", tag = "knowledge",
    params(("proposal" = String, Path, description = "The proposal", pattern = "^proposal_[A-Za-z0-9]{1,64}$")),
    request_body = Decision, responses((status = 200, body = ProposalView))
)]
async fn reject(
    State(gateway): State<Gateway>,
    Id(id): Id<ReviewId>,
    command: Command<Decision>,
) -> Result<Answer, Problem> {
    decide(gateway, id, command, false).await
}

async fn decide(gateway: Gateway, id: ReviewId, command: Command<Decision>, approves: bool) -> Result<Answer, Problem> {
    command.caller.needs(Role::Owner)?;
    let wish = command.wish(if approves { "knowledge.approve" } else { "knowledge.reject" }, &id)?;
    let Command { caller, body, .. } = command;
    let by = by(&caller, body.why);
    let knowledge = gateway.workspace().user(caller.scope()).shared_knowledge();
    let decided = gateway.change_outside(wish, async move {
        let decided = if approves { knowledge.approve(&id, &by).await? } else { knowledge.reject(&id, &by).await? };
        let detail = json!({ "key": decided.key, "version": decided.version });
        Done::ok(ProposalView::from(decided)).map(|done| done.detail(detail))
    });
    decided.await
}

/// Entries of shared knowledge: the newest version of each, or all versions of one.
#[utoipa::path(
    get, path = "/v1/knowledge", tag = "knowledge", params(Entries),
    responses((status = 200, body = Page<VersionView>))
)]
async fn entries(
    State(gateway): State<Gateway>,
    caller: Caller,
    Params(which): Params<Entries>,
) -> Result<Json<Page<VersionView>>, Problem> {
    let knowledge = gateway.workspace().user(caller.scope()).shared_knowledge();
    if let Some(key) = which.key {
        let found = knowledge.history(&String::from(key)).await?;
        return Ok(Json(Page { items: found.into_iter().map(Into::into).collect(), next: None }));
    }
    let after = which.after.map(String::from).unwrap_or_default();
    let limit = (which.limit.get() as usize).min(SHARED_PAGE_MAX);
    let found = knowledge.entries(&after, limit).await?;
    let next = found.last().filter(|_| found.len() == limit).map(|last| last.key.clone());
    Ok(Json(Page { items: found.into_iter().map(Into::into).collect(), next }))
}

/// Asks for facts: of what was proposed only what a person has approved.
#[utoipa::path(
    post, path = "/v1/knowledge/search", tag = "knowledge", request_body = Question,
    responses((status = 200, body = Facts))
)]
async fn facts(
    State(gateway): State<Gateway>,
    caller: Caller,
    Input(question): Input<Question>,
) -> Result<Json<Facts>, Problem> {
    let limit = question.limit.unwrap_or(10);
    if !(1..=FACTS_MAX).contains(&limit) {
        return Err(Problem::invalid("body.limit", format!("expected 1 to {FACTS_MAX}")));
    }
    let knowledge = gateway.workspace().user(caller.scope()).shared_knowledge();
    let found = knowledge.facts(question.query.as_str(), limit as usize).await?;
    let fact = |recalled: Recalled| match recalled.standing {
        Standing::Approved { version } => {
            Some(Fact { version: (*version).into(), text: recalled.text, score: recalled.score })
        }
        Standing::Episodic { .. } => None,
    };
    Ok(Json(Facts { facts: found.into_iter().filter_map(fact).collect() }))
}

/// Puts an entry back to an earlier version, as a new one.
#[utoipa::path(
    post, path = "/v1/knowledge/rollback", tag = "knowledge", request_body = Rollback,
    responses((status = 200, body = VersionView))
)]
async fn rollback(State(gateway): State<Gateway>, command: Command<Rollback>) -> Result<Answer, Problem> {
    command.caller.needs(Role::Owner)?;
    let wish = command.wish("knowledge.rollback", "")?;
    let Command { caller, body: Rollback { key, version, why }, .. } = command;
    let by = by(&caller, why);
    let knowledge = gateway.workspace().user(caller.scope()).shared_knowledge();
    let restored = gateway.change_outside(wish, async move {
        let restored = knowledge.rollback(key.as_str(), version.unwrap_or_default(), &by).await?;
        let detail = json!({ "key": restored.key, "version": restored.version, "of": restored.of_version });
        Done::ok(VersionView::from(restored)).map(|done| done.detail(detail))
    });
    restored.await
}

/// Defines a schema that values may be of. The same definition again changes nothing.
#[utoipa::path(
    put, path = "/v1/knowledge/schemas", tag = "knowledge", request_body = SharedSchema,
    responses((status = 200, body = SharedSchema))
)]
async fn define(State(gateway): State<Gateway>, command: Command<SharedSchema>) -> Result<Answer, Problem> {
    command.caller.needs(Role::Owner)?;
    let wish = command.wish("knowledge.schema", "")?;
    let Command { caller, body, .. } = command;
    let knowledge = gateway.workspace().user(caller.scope()).shared_knowledge();
    let defined = gateway.change_outside(wish, async move {
        knowledge.define_schema(&body.schema, Value::Object(body.definition.clone())).await?;
        let detail = json!({ "schema": body.schema });
        Done::ok(body).map(|done| done.detail(detail))
    });
    defined.await
}

/// An owner's own act.
fn by(caller: &Caller, why: Option<TextLine>) -> By {
    By { why: why.map(String::from).unwrap_or_default(), ..By::person(&caller.scope().user) }
}

impl From<ReviewError> for Problem {
    fn from(error: ReviewError) -> Self {
        let told = error.to_string();
        match error {
            ReviewError::Store(error) => error.into(),
            ReviewError::Memory(error) => error.into(),
            ReviewError::Workspace(error) => error.into(),
            ReviewError::Field { field, .. } => Self::invalid(field, told),
            ReviewError::NoEvidence => Self::invalid("body.evidence", told),
            ReviewError::NoSchema { .. } => Self::new(StatusCode::NOT_FOUND, "not_found", told).at("body.said.schema"),
            ReviewError::ValueTooLong { .. } => Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", told),
            ReviewError::NoProposal { id } => Self::missing("proposal", &id),
            ReviewError::NoVersion { .. } => Self::new(StatusCode::NOT_FOUND, "not_found", told),
            ReviewError::NotAPerson { .. } => Self::new(StatusCode::FORBIDDEN, "forbidden", told),
            ReviewError::TooMany { .. } => Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many", told).retry_after(60),
            ReviewError::EvidenceGone { .. }
            | ReviewError::SchemaTaken { .. }
            | ReviewError::Decided { .. }
            | ReviewError::RejectedBefore { .. }
            | ReviewError::Outdated { .. } => Self::conflict("conflict", told),
        }
    }
}
