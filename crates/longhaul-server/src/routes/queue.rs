//! The queue of workers, as far as callers have put something in it.

use axum::{Json, extract::State};
use longhaul_durable::{EntryFilter, EntryId, EntryStatus};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Nothing, shown::EntryShown};
use crate::{
    Caller, Gateway, Problem,
    change::{Answer, Done},
    input::{Command, Id, Params},
    page::{Limit, Page},
    text::Name,
};

/// How entries are.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State_ {
    /// It will be run.
    Queued,
    /// Its execution waits.
    Waiting,
    /// A worker is at work on it.
    Claimed,
    /// It has failed too often, or needs a person.
    Parked,
    /// Its execution is finished.
    Done,
}

/// Which entries.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// That are so.
    #[param(inline)]
    status: Option<State_>,
    /// Of this graph.
    #[param(value_type = Option<String>, pattern = "^[A-Za-z0-9_.:/-]{1,128}$")]
    graph: Option<Name>,
    /// Behind this entry.
    #[param(value_type = Option<String>, pattern = "^entry_[A-Za-z0-9-]{1,64}$")]
    after: Option<EntryId>,
    /// At most so many.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Limit,
}

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(get, withdraw)).routes(routes!(retry))
}

/// The caller's entries, the oldest first.
#[utoipa::path(get, path = "/v1/queue", tag = "queue", params(Which), responses((status = 200, body = Page<EntryShown>)))]
async fn list(
    State(gateway): State<Gateway>,
    caller: Caller,
    Params(which): Params<Which>,
) -> Result<Json<Page<EntryShown>>, Problem> {
    let filter = EntryFilter {
        status: which.status.map(|status| match status {
            State_::Queued => EntryStatus::Queued,
            State_::Waiting => EntryStatus::Waiting,
            State_::Claimed => EntryStatus::Claimed,
            State_::Parked => EntryStatus::Parked,
            State_::Done => EntryStatus::Done,
        }),
        graph: which.graph.map(String::from),
        after: which.after,
        limit: which.limit.and_one(),
    };
    let found = gateway.runtime().queue(caller.scope(), filter).await?;
    Ok(Json(Page::of(found, which.limit, |entry| entry.id.to_string(), EntryShown::from)))
}

/// One entry.
#[utoipa::path(
    get, path = "/v1/queue/{entry}", tag = "queue",
    params(("entry" = String, Path, description = "The entry", pattern = "^entry_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = EntryShown))
)]
async fn get(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(entry): Id<EntryId>,
) -> Result<Json<EntryShown>, Problem> {
    Ok(Json(gateway.runtime().entry(caller.scope(), &entry).await?.into()))
}

/// Puts a parked entry back, with all its attempts.
#[utoipa::path(
    post, path = "/v1/queue/{entry}/retry", tag = "queue",
    params(("entry" = String, Path, description = "The entry", pattern = "^entry_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = Nothing))
)]
async fn retry(
    State(gateway): State<Gateway>,
    Id(entry): Id<EntryId>,
    command: Command<Nothing>,
) -> Result<Answer, Problem> {
    let wish = command.wish("queue.retry", &entry)?;
    let (runtime, scope) = (gateway.runtime().clone(), command.caller.scope().clone());
    let put_back = gateway.change(wish, move |tx| {
        runtime.retry_in(tx, &scope, &entry)?;
        Ok(Done::ok(serde_json::json!({})))
    });
    put_back.await
}

/// Takes out an entry that was never begun.
#[utoipa::path(
    delete, path = "/v1/queue/{entry}", tag = "queue",
    params(("entry" = String, Path, description = "The entry", pattern = "^entry_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = Nothing))
)]
async fn withdraw(
    State(gateway): State<Gateway>,
    Id(entry): Id<EntryId>,
    command: Command<Nothing>,
) -> Result<Answer, Problem> {
    let wish = command.wish("queue.withdraw", &entry)?;
    let (runtime, scope) = (gateway.runtime().clone(), command.caller.scope().clone());
    let taken_out = gateway.change(wish, move |tx| {
        runtime.withdraw_in(tx, &scope, &entry)?;
        Ok(Done::ok(serde_json::json!({})))
    });
    taken_out.await
}
