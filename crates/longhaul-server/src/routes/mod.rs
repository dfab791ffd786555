//! One file of routes for each kind of thing. A handler reads its input, asks the owner of the rows, and shows the
//! answer as a view of its own; the rows' types are not the wire's.

mod health;
mod tasks;

use axum::{Router, http::StatusCode, middleware};
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    Gateway, Problem, admission,
    openapi::{Description, complete},
};

/// Every route, and their description.
pub(crate) fn all() -> (Router<Gateway>, utoipa::openapi::OpenApi) {
    let (quick, mut api) = quick().split_for_parts();
    let (streams, more) = streams().split_for_parts();
    api.merge(more);
    (quick.merge(streams), complete(api))
}

/// Routes whose answer is whole within [`crate::Limits::request_max`].
fn quick() -> OpenApiRouter<Gateway> {
    OpenApiRouter::with_openapi(Description::openapi()).merge(health::routes()).merge(tasks::routes())
}

/// Routes that take as long as their content does: they bound it themselves.
fn streams() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
}

/// The whole service behind its door.
pub(crate) fn service(gateway: Gateway, guard: crate::guard::Guard) -> Router {
    let (router, _) = all();
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
