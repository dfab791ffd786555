//! Context packs: what of records, conversations and memory belongs into the next round, within a budget.

use axum::{Json, extract::State, http::StatusCode};
use longhaul_core::TaskId;
use longhaul_memory::Namespace;
use longhaul_workspace::context::{BUDGET_TOKENS_DEFAULT, ContextError, ContextPack, ContextRequest};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Caller, Gateway, Problem,
    input::{Id, Input},
    words::{NamespaceName, Text, Words},
};

/// Largest budget that is packed here.
const BUDGET_TOKENS_MAX: u64 = 200_000;
/// Namespaces of memory of one pack.
const NAMESPACES_MAX: usize = 32;

/// What a pack is wanted for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ContextRequest)]
pub(crate) struct ContextBody {
    /// What is to be done, in any language.
    goal: Words,
    /// Most tokens of the rendered pack; 12,000 without.
    #[schema(minimum = 0, maximum = 200000)]
    #[serde(default, deserialize_with = "crate::words::whole")]
    budget_tokens: Option<u64>,
    /// `auto`, `software_dev`, `document_review`, `research`, or one of the operator's.
    #[serde(default)]
    profile: Option<Text>,
    /// The partitions of memory beside what is known of the user; `main` without.
    #[schema(max_items = 32)]
    #[serde(default)]
    namespaces: Option<Vec<NamespaceName>>,
}

/// A context pack.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ContextPack)]
pub(crate) struct PackView {
    /// By which profile.
    profile: String,
    /// Tokens that `rendered` may have.
    budget_tokens: u64,
    /// Tokens that it has.
    used_tokens: u64,
    /// How tokens were counted.
    counted_by: String,
    /// What is in it: id, origin, kind, label of where it came from, summary, text, tokens, time, score.
    #[schema(value_type = Vec<Object>)]
    items: Value,
    /// Every other candidate, with the reason.
    #[schema(value_type = Vec<Object>)]
    omitted: Value,
    /// What to know of it.
    notes: Vec<String>,
    /// The pack as a prompt holds it: each item between marks that nothing inside it can forge.
    rendered: String,
    /// Time of building it, in microseconds.
    elapsed_us: u64,
}

impl TryFrom<ContextPack> for PackView {
    type Error = Problem;
    fn try_from(pack: ContextPack) -> Result<Self, Problem> {
        let value = |result: serde_json::Result<Value>| result.map_err(|error| Problem::internal(&error));
        Ok(Self {
            rendered: pack.render(),
            items: value(serde_json::to_value(&pack.items))?,
            omitted: value(serde_json::to_value(&pack.omitted))?,
            profile: pack.profile,
            budget_tokens: pack.budget_tokens,
            used_tokens: pack.used_tokens,
            counted_by: pack.counted_by,
            notes: pack.notes,
            elapsed_us: pack.elapsed_us,
        })
    }
}

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(of_task)).routes(routes!(of_user))
}

/// Packs what belongs into the next round of a task. Writes nothing.
#[utoipa::path(
    post, path = "/v1/tasks/{task}/context", tag = "context",
    params(("task" = String, Path, description = "The task", pattern = "^task_[A-Za-z0-9-]{1,64}$")),
    request_body = ContextBody, responses((status = 200, body = PackView))
)]
async fn of_task(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(task): Id<TaskId>,
    Input(body): Input<ContextBody>,
) -> Result<Json<PackView>, Problem> {
    let owner = gateway.task_scope(&caller, &task).await?;
    let pack = gateway.contexts().build(&owner, &request(body)?).await?;
    Ok(Json(pack.try_into()?))
}

/// Packs what belongs into the next round, from all of the user's tasks. Writes nothing.
#[utoipa::path(
    post, path = "/v1/context", tag = "context", request_body = ContextBody, responses((status = 200, body = PackView))
)]
async fn of_user(
    State(gateway): State<Gateway>,
    caller: Caller,
    Input(body): Input<ContextBody>,
) -> Result<Json<PackView>, Problem> {
    let pack = gateway.contexts().build_of_all(caller.scope(), &request(body)?).await?;
    Ok(Json(pack.try_into()?))
}

fn request(body: ContextBody) -> Result<ContextRequest, Problem> {
    let budget = body.budget_tokens.unwrap_or(BUDGET_TOKENS_DEFAULT);
    if budget > BUDGET_TOKENS_MAX {
        return Err(Problem::invalid("body.budget_tokens", format!("expected at most {BUDGET_TOKENS_MAX}")));
    }
    let mut request = ContextRequest::new(String::from(body.goal)).budget_tokens(budget);
    if let Some(profile) = &body.profile {
        request = request.profile(profile.as_str());
    }
    if let Some(names) = body.namespaces {
        if names.len() > NAMESPACES_MAX {
            return Err(Problem::invalid("body.namespaces", format!("at most {NAMESPACES_MAX} are searched at once")));
        }
        let read = |name: NamespaceName| {
            name.as_str().parse::<Namespace>().map_err(|error| Problem::invalid("body.namespaces", error.to_string()))
        };
        request.memory = names.into_iter().map(read).collect::<Result<_, _>>()?;
    }
    Ok(request)
}

impl From<ContextError> for Problem {
    fn from(error: ContextError) -> Self {
        let told = error.to_string();
        match error {
            ContextError::NoGoal => Self::invalid("body.goal", told),
            ContextError::UnknownProfile { .. } => {
                Self::new(StatusCode::NOT_FOUND, "not_found", told).at("body.profile")
            }
            ContextError::Memory(error) => error.into(),
            ContextError::Store(error) => error.into(),
            other @ (ContextError::Profile { .. } | ContextError::Tokenizer { .. }) => Self::internal(&other),
        }
    }
}
