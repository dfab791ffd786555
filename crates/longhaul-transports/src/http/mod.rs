//! The HTTP transport: the contract's paths, streams, files, and what anybody may read of the network.
//!
//! One file of routes for each kind of thing. Invariant: what is served has passed the edge (`Host`, `Origin`, bounds
//! of the body and its time), whoever brought the route.

mod answer;
mod contract;
mod door;
mod files;
mod health;
mod input;
mod known;
mod openapi;
mod stream;
mod studio;

use axum::{Router, extract::DefaultBodyLimit, http::StatusCode, middleware};
use longhaul_network::Refusal;
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;

pub(crate) use answer::{Failure, status};
pub(crate) use door::{Door, admit};
pub(crate) use input::{Credentials, Params, bearer, json};
pub use openapi::document;

use crate::{
    edge::{Guard, Limits},
    front::Front,
    ws,
};

/// Routes of this crate that the description names.
fn described(limits: &Limits) -> OpenApiRouter<Front> {
    OpenApiRouter::with_openapi(openapi::Description::openapi())
        .merge(health::routes())
        .merge(contract::routes())
        .merge(known::routes())
        .merge(stream::routes())
        .merge(files::routes(limits))
}

/// The whole service behind its door.
pub(crate) fn service(front: Front, guard: Guard, others: Vec<Router>) -> Router {
    let limits = front.limits().clone();
    let own = Router::from(described(&limits))
        .merge(studio::routes())
        .route("/ws", axum::routing::any(ws::upgrade))
        .layer(DefaultBodyLimit::max(limits.body_bytes_max))
        .with_state(front.clone());
    let others = others.into_iter().map(|router| router.layer(DefaultBodyLimit::max(limits.body_bytes_max)));
    let all = others.fold(own, Router::merge);
    all.fallback(|| async {
        Failure::new(StatusCode::NOT_FOUND, &Refusal::missing("path", "of this name: see /openapi.json"))
    })
    .method_not_allowed_fallback(|| async {
        let refusal = Refusal::invalid("this path does not take this method: see /openapi.json");
        Failure::new(StatusCode::METHOD_NOT_ALLOWED, &refusal)
    })
    .layer(middleware::from_fn_with_state(Door::new(front, guard), door::admit))
}
