//! The audit log: who changed what, when, and what came of it. Owners of the tenant read it; nobody writes it by hand.

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Caller, Gateway, Problem,
    change::{Entry, entries},
    input::Params,
    keys::Role,
    page::{Limit, Page},
    text::{Name, TextLine},
};

/// Which entries.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// About this id only.
    #[param(value_type = Option<String>, min_length = 1, max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    target: Option<TextLine>,
    /// Behind this entry.
    #[param(value_type = Option<String>, pattern = "^[A-Za-z0-9_.:/-]{1,128}$")]
    after: Option<Name>,
    /// At most so many.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Limit,
}

/// One change, or the wish for one.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditEntry)]
pub(crate) struct EntryShown {
    /// Identity.
    entry: String,
    /// When, in milliseconds since 1970.
    at: i64,
    /// Who.
    user: String,
    /// With which key.
    key: String,
    /// As what.
    role: String,
    /// What: `task.create`.
    action: String,
    /// To what: an id.
    target: String,
    /// In which request.
    trace: String,
    /// `done`, `refused`, or `asked` for one that was about to begin.
    outcome: String,
    /// Ids and choices.
    #[serde(skip_serializing_if = "Value::is_null")]
    detail: Value,
}

impl From<Entry> for EntryShown {
    fn from(entry: Entry) -> Self {
        let Entry { id, at, user, key, role, action, target, trace, outcome, detail } = entry;
        Self { entry: id, at: at.0, user, key, role, action, target, trace, outcome, detail }
    }
}

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(list))
}

/// The tenant's audit log, the newest entry first.
#[utoipa::path(get, path = "/v1/audit", tag = "audit", params(Which), responses((status = 200, body = Page<EntryShown>)))]
async fn list(
    State(gateway): State<Gateway>,
    caller: Caller,
    Params(which): Params<Which>,
) -> Result<Json<Page<EntryShown>>, Problem> {
    caller.needs(Role::Owner)?;
    let (target, after) = (which.target.map(String::from), which.after.map(String::from));
    let found = gateway
        .store()
        .read(move |read| entries(read, &caller, target.as_deref(), after.as_deref(), which.limit.and_one()));
    Ok(Json(Page::of(found.await?, which.limit, |entry| entry.id.clone(), EntryShown::from)))
}
