//! One file of routes for each kind of thing. A handler reads its input, asks the owner of the rows, and shows the
//! answer as a view of its own; the rows' types are not the wire's.

mod audit;
mod context;
mod events;
mod executions;
mod found;
mod health;
mod hooks;
mod keys;
mod me;
mod memories;
mod questions;
mod queue;
mod records;
mod review;
mod sessions;
mod shown;
mod tasks;
mod waits;
mod webhooks;
mod work;

use axum::{Router, http::StatusCode, middleware};
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    Gateway, Problem, admission,
    openapi::{Description, complete},
};

/// The body of a change of which its path says everything.
#[derive(Debug, serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// Every route.
fn all(gateway: &Gateway) -> Router<Gateway> {
    let (quick, streams) = (Router::from(quick()), Router::from(streams()));
    quick.layer(middleware::from_fn_with_state(gateway.clone(), admission::in_time)).merge(streams)
}

/// Their description.
pub(crate) fn described() -> utoipa::openapi::OpenApi {
    let mut api = quick().into_openapi();
    api.merge(streams().into_openapi());
    complete(api)
}

/// Routes whose answer is whole within [`crate::Limits::request_max`].
fn quick() -> OpenApiRouter<Gateway> {
    OpenApiRouter::with_openapi(Description::openapi())
        .merge(health::routes())
        .merge(me::routes())
        .merge(tasks::routes())
        .merge(executions::routes())
        .merge(queue::routes())
        .merge(questions::routes())
        .merge(waits::routes())
        .merge(keys::routes())
        .merge(audit::routes())
        .merge(records::routes())
        .merge(work::routes())
        .merge(found::routes())
        .merge(context::routes())
        .merge(memories::routes())
        .merge(review::routes())
        .merge(sessions::routes())
        .merge(webhooks::routes())
}

/// Routes that take as long as their content does: they bound it themselves.
fn streams() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().merge(events::streams()).merge(records::streams()).merge(hooks::routes())
}

/// The whole service behind its door.
pub(crate) fn service(gateway: Gateway, guard: crate::guard::Guard) -> Router {
    let router = all(&gateway);
    let door = admission::Door { gateway: gateway.clone(), guard };
    router
        .fallback(|| async {
            Problem::new(StatusCode::NOT_FOUND, "no_such_path", "there is nothing at this path: see /v1/openapi.json")
        })
        .method_not_allowed_fallback(|| async {
            let detail = "this path does not take this method: see /v1/openapi.json";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "wrong_method", detail)
        })
        .layer(middleware::from_fn_with_state(door, admission::admit))
        .with_state(gateway)
}
