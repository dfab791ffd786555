//! Managing webhooks: endpoints that take them in, subscriptions that send them out, deliveries.

use std::sync::atomic::Ordering;

use axum::{Json, extract::State, http::StatusCode};
use longhaul_core::{TaskId, TimeMs};
use longhaul_store::StoreError;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Caller, Gateway, Problem,
    events::TypeFilter,
    hooks::{
        Action, Secret, TargetRules,
        endpoints::{self, ENDPOINTS_MAX, Endpoint},
        outbox::{self, Delivery, Status},
        secrets::Secrets,
        subscriptions::{self, SUBSCRIPTIONS_MAX, Subscription},
    },
    input::{Id, Input, Params},
    keys::Role,
};

const NAME_CHARS_MAX: usize = 128;
const LIMIT: u32 = 100;
const LIMIT_MAX: u32 = 1_000;

/// An endpoint that takes webhooks in.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Endpoint)]
pub(crate) struct EndpointView {
    /// Identity. Its address is `/v1/hooks/` and this.
    endpoint: String,
    /// What a person calls it.
    name: String,
    /// What a message that comes in does.
    action: Action,
    /// When it was made, milliseconds since 1970.
    #[schema(value_type = i64)]
    created_at: TimeMs,
    /// Messages that answered something, since this server began.
    accepted: u64,
    /// Messages that had come before, since this server began.
    repeated: u64,
    /// Requests that were not signed as they should be, since this server began.
    refused: u64,
    /// The secret to sign with. Shown only when it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

/// An endpoint to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewEndpoint {
    /// What a person calls it.
    #[schema(min_length = 1, max_length = 128)]
    name: String,
    /// What a message that comes in does.
    action: Action,
    /// The secret that the sender signs with, where it makes its own; without, one is made and shown once.
    secret: Option<String>,
}

/// How a secret is replaced.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rotation {
    /// The new secret; without, one is made and shown once.
    secret: Option<String>,
    /// The one before is worth nothing from now on, instead of after a day.
    #[serde(default)]
    at_once: bool,
}

/// A subscription to events.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Subscription)]
pub(crate) struct SubscriptionView {
    /// Identity.
    subscription: String,
    /// What a person calls it.
    name: String,
    /// Where events are sent.
    url: String,
    /// Types of events that are sent; all where it is empty.
    types: Vec<String>,
    /// The task whose events are sent; without, all of the user's.
    #[schema(value_type = Option<String>)]
    task: Option<TaskId>,
    /// Whether anything is sent.
    enabled: bool,
    /// Why not.
    disabled_because: Option<String>,
    /// The last entry of the log that was looked at.
    position: i64,
    /// When it was made, milliseconds since 1970.
    #[schema(value_type = i64)]
    created_at: TimeMs,
    /// The secret that events are signed with. Shown only when it is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

/// A subscription to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSubscription {
    /// What a person calls it.
    #[schema(min_length = 1, max_length = 128)]
    name: String,
    /// Where events are sent: https, and an address that anybody could reach unless the operator has allowed it.
    url: String,
    /// Types of events that are sent: `wait.opened`, `execution.*`; all without.
    #[serde(default)]
    types: Vec<String>,
    /// The task whose events are sent; without, all of the user's.
    #[schema(value_type = Option<String>)]
    task: Option<TaskId>,
    /// The number behind which to begin; without, what happens from now on.
    #[schema(minimum = 0)]
    after: Option<u64>,
    /// The secret to sign with; without, one is made and shown once.
    secret: Option<String>,
}

/// Switches a subscription.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Switch {
    /// Whether events are sent. What happened meanwhile is sent too.
    enabled: bool,
}

/// One event for one subscription.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Delivery)]
pub(crate) struct DeliveryView {
    /// Identity, sent as `webhook-id`.
    delivery: String,
    /// The subscription.
    subscription: String,
    /// The event.
    event: String,
    /// Its place in the log.
    seq: i64,
    /// Its type.
    #[serde(rename = "type")]
    kind: String,
    /// Its task.
    task: String,
    /// `waiting`, `delivered` or `dead`.
    status: &'static str,
    /// Attempts so far.
    attempts: u32,
    /// When it is tried next, milliseconds since 1970; for those that wait.
    next_at: Option<i64>,
    /// The status that the receiver answered last.
    answer: Option<u16>,
    /// What went wrong last.
    problem: Option<String>,
    /// When it was noted, milliseconds since 1970.
    created_at: i64,
    /// When it last changed, milliseconds since 1970.
    updated_at: i64,
}

/// Which deliveries are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// `waiting`, `delivered` or `dead`; all without.
    #[param(pattern = "^(waiting|delivered|dead)$")]
    status: Option<String>,
    /// Those before this number, for the next page.
    #[param(minimum = 0)]
    before: Option<u64>,
    /// At most so many.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// The user's endpoints.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Endpoints {
    /// Oldest first.
    endpoints: Vec<EndpointView>,
    /// Requests for endpoints that do not exist, of whoever, since this server began.
    unknown: u64,
}

/// The user's subscriptions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Subscriptions {
    /// Oldest first.
    subscriptions: Vec<SubscriptionView>,
}

/// Deliveries.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Deliveries {
    /// Newest first.
    deliveries: Vec<DeliveryView>,
    /// The `before` of the next page; nothing where there is none.
    next_before: Option<i64>,
}

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(list_endpoints, create_endpoint))
        .routes(routes!(get_endpoint, delete_endpoint))
        .routes(routes!(rotate_endpoint))
        .routes(routes!(list_subscriptions, create_subscription))
        .routes(routes!(get_subscription, switch_subscription, delete_subscription))
        .routes(routes!(rotate_subscription))
        .routes(routes!(list_deliveries))
        .routes(routes!(resend))
}

/// Endpoints that take webhooks in.
#[utoipa::path(get, path = "/v1/webhooks/endpoints", tag = "webhooks", responses((status = 200, body = Endpoints)))]
async fn list_endpoints(State(gateway): State<Gateway>, caller: Caller) -> Result<Json<Endpoints>, Problem> {
    let scope = caller.scope().clone();
    let found = gateway.store().read(move |read| endpoints::list(read, &scope)).await?;
    let directory = gateway.doors().endpoints(gateway.store()).await?;
    let endpoints = found.iter().map(|one| view_endpoint(directory, one, None)).collect();
    Ok(Json(Endpoints { endpoints, unknown: directory.unknown.load(Ordering::Relaxed) }))
}

/// Makes an endpoint that takes webhooks in. Its secret is shown this once.
#[utoipa::path(
    post, path = "/v1/webhooks/endpoints", tag = "webhooks",
    request_body = NewEndpoint, responses((status = 201, body = EndpointView))
)]
async fn create_endpoint(
    State(gateway): State<Gateway>,
    caller: Caller,
    Input(new): Input<NewEndpoint>,
) -> Result<(StatusCode, Json<EndpointView>), Problem> {
    caller.needs(Role::Operator)?;
    let name = name(new.name)?;
    if let Some(problem) = new.action.problem() {
        return Err(Problem::invalid("body.action", problem));
    }
    let secret = secret(&gateway, new.secret.as_deref())?;
    let ambient = gateway.ambient();
    let endpoint = Endpoint {
        scope: caller.scope().clone(),
        id: format!("ep_{}", ambient.ids.body()),
        name,
        action: new.action,
        secrets: Secrets::new(secret.clone()),
        created_at: ambient.clock.now(),
    };
    let row = endpoint.clone();
    if gateway.store().write(move |tx| endpoints::insert(tx, &row)).await?.is_none() {
        let detail = format!("a user may have {ENDPOINTS_MAX} endpoints: remove one first");
        return Err(Problem::conflict("too_many", detail));
    }
    let directory = gateway.doors().endpoints(gateway.store()).await?;
    directory.refresh(gateway.store()).await?;
    Ok((StatusCode::CREATED, Json(view_endpoint(directory, &endpoint, Some(secret)))))
}

/// One endpoint.
#[utoipa::path(
    get, path = "/v1/webhooks/endpoints/{endpoint}", tag = "webhooks",
    params(("endpoint" = String, Path, description = "The endpoint", pattern = "^ep_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = EndpointView))
)]
async fn get_endpoint(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(id): Id<String>,
) -> Result<Json<EndpointView>, Problem> {
    let endpoint = find_endpoint(&gateway, &caller, &id).await?;
    let directory = gateway.doors().endpoints(gateway.store()).await?;
    Ok(Json(view_endpoint(directory, &endpoint, None)))
}

/// Removes an endpoint: what comes in for it is refused from now on.
#[utoipa::path(
    delete, path = "/v1/webhooks/endpoints/{endpoint}", tag = "webhooks",
    params(("endpoint" = String, Path, description = "The endpoint", pattern = "^ep_[A-Za-z0-9-]{1,64}$")),
    responses((status = 204))
)]
async fn delete_endpoint(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(id): Id<String>,
) -> Result<StatusCode, Problem> {
    caller.needs(Role::Operator)?;
    known("endpoint", "ep_", &id)?;
    let (scope, name) = (caller.scope().clone(), id.clone());
    if !gateway.store().write(move |tx| endpoints::delete(tx, &scope, &name)).await? {
        return Err(Problem::missing("endpoint", &id));
    }
    gateway.doors().endpoints(gateway.store()).await?.refresh(gateway.store()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Replaces an endpoint's secret. The new one is shown this once; the old one is good for another day.
#[utoipa::path(
    post, path = "/v1/webhooks/endpoints/{endpoint}/secret", tag = "webhooks",
    params(("endpoint" = String, Path, description = "The endpoint", pattern = "^ep_[A-Za-z0-9-]{1,64}$")),
    request_body = Rotation, responses((status = 200, body = EndpointView))
)]
async fn rotate_endpoint(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(id): Id<String>,
    Input(rotation): Input<Rotation>,
) -> Result<Json<EndpointView>, Problem> {
    caller.needs(Role::Operator)?;
    let mut endpoint = find_endpoint(&gateway, &caller, &id).await?;
    let secret = secret(&gateway, rotation.secret.as_deref())?;
    endpoint.secrets = endpoint.secrets.replaced(secret.clone(), gateway.ambient().clock.now(), rotation.at_once);
    let row = endpoint.clone();
    gateway.store().write(move |tx| endpoints::set_secrets(tx, &row)).await?;
    let directory = gateway.doors().endpoints(gateway.store()).await?;
    directory.refresh(gateway.store()).await?;
    Ok(Json(view_endpoint(directory, &endpoint, Some(secret))))
}

/// Subscriptions to events.
#[utoipa::path(
    get, path = "/v1/webhooks/subscriptions", tag = "webhooks", responses((status = 200, body = Subscriptions))
)]
async fn list_subscriptions(State(gateway): State<Gateway>, caller: Caller) -> Result<Json<Subscriptions>, Problem> {
    let scope = caller.scope().clone();
    let found = gateway.store().read(move |read| subscriptions::list(read, &scope)).await?;
    Ok(Json(Subscriptions { subscriptions: found.into_iter().map(|one| view_subscription(one, None)).collect() }))
}

/// Subscribes to events. The secret is shown this once.
#[utoipa::path(
    post, path = "/v1/webhooks/subscriptions", tag = "webhooks",
    request_body = NewSubscription, responses((status = 201, body = SubscriptionView))
)]
async fn create_subscription(
    State(gateway): State<Gateway>,
    caller: Caller,
    Input(new): Input<NewSubscription>,
) -> Result<(StatusCode, Json<SubscriptionView>), Problem> {
    caller.needs(Role::Operator)?;
    let name = name(new.name)?;
    let rules = TargetRules { allow: gateway.doors().settings.webhooks.allow.clone() };
    let url = rules.read(&new.url).map_err(|error| Problem::invalid("body.url", error.to_string()))?;
    let types = TypeFilter::new(new.types.iter().map(String::as_str))
        .map_err(|error| Problem::invalid("body.types", error.to_string()))?;
    if let Some(task) = &new.task {
        gateway.task(&caller, task).await?;
    }
    let after = new.after.map(i64::try_from).transpose();
    let after = after.map_err(|_| Problem::invalid("body.after", "no log is so long: expected the seq of an event"))?;
    let secret = secret(&gateway, new.secret.as_deref())?;
    let ambient = gateway.ambient();
    let mut subscription = Subscription {
        scope: caller.scope().clone(),
        id: format!("sub_{}", ambient.ids.body()),
        name,
        url: url.into(),
        types,
        task: new.task,
        secrets: Secrets::new(secret.clone()),
        position: 0,
        enabled: true,
        disabled_because: None,
        dead_in_a_row: 0,
        created_at: ambient.clock.now(),
    };
    let written = gateway.store().write(move |tx| {
        subscription.position = after.map_or_else(|| subscriptions::newest(tx, &subscription.scope), Ok)?;
        Ok::<_, StoreError>(subscriptions::insert(tx, &subscription)?.map(|()| subscription))
    });
    let Some(made) = written.await? else {
        let detail = format!("a user may have {SUBSCRIPTIONS_MAX} subscriptions: remove one first");
        return Err(Problem::conflict("too_many", detail));
    };
    Ok((StatusCode::CREATED, Json(view_subscription(made, Some(secret)))))
}

/// One subscription.
#[utoipa::path(
    get, path = "/v1/webhooks/subscriptions/{subscription}", tag = "webhooks",
    params(("subscription" = String, Path, description = "The subscription", pattern = "^sub_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = SubscriptionView))
)]
async fn get_subscription(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(id): Id<String>,
) -> Result<Json<SubscriptionView>, Problem> {
    Ok(Json(view_subscription(find_subscription(&gateway, &caller, &id).await?, None)))
}

/// Switches a subscription on or off. Switched on, it goes on where it stopped.
#[utoipa::path(
    patch, path = "/v1/webhooks/subscriptions/{subscription}", tag = "webhooks",
    params(("subscription" = String, Path, description = "The subscription", pattern = "^sub_[A-Za-z0-9-]{1,64}$")),
    request_body = Switch, responses((status = 200, body = SubscriptionView))
)]
async fn switch_subscription(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(id): Id<String>,
    Input(switch): Input<Switch>,
) -> Result<Json<SubscriptionView>, Problem> {
    caller.needs(Role::Operator)?;
    let subscription = find_subscription(&gateway, &caller, &id).await?;
    let because = (!switch.enabled).then(|| format!("switched off by {}", caller.actor()));
    gateway.store().write(move |tx| subscriptions::set_enabled(tx, &subscription, because.as_deref())).await?;
    Ok(Json(view_subscription(find_subscription(&gateway, &caller, &id).await?, None)))
}

/// Removes a subscription with its deliveries.
#[utoipa::path(
    delete, path = "/v1/webhooks/subscriptions/{subscription}", tag = "webhooks",
    params(("subscription" = String, Path, description = "The subscription", pattern = "^sub_[A-Za-z0-9-]{1,64}$")),
    responses((status = 204))
)]
async fn delete_subscription(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(id): Id<String>,
) -> Result<StatusCode, Problem> {
    caller.needs(Role::Operator)?;
    known("subscription", "sub_", &id)?;
    let (scope, name) = (caller.scope().clone(), id.clone());
    match gateway.store().write(move |tx| subscriptions::delete(tx, &scope, &name)).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Problem::missing("subscription", &id)),
    }
}

/// Replaces a subscription's secret. The new one is shown this once; for a day events are signed with both.
#[utoipa::path(
    post, path = "/v1/webhooks/subscriptions/{subscription}/secret", tag = "webhooks",
    params(("subscription" = String, Path, description = "The subscription", pattern = "^sub_[A-Za-z0-9-]{1,64}$")),
    request_body = Rotation, responses((status = 200, body = SubscriptionView))
)]
async fn rotate_subscription(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(id): Id<String>,
    Input(rotation): Input<Rotation>,
) -> Result<Json<SubscriptionView>, Problem> {
    caller.needs(Role::Operator)?;
    let mut subscription = find_subscription(&gateway, &caller, &id).await?;
    let secret = secret(&gateway, rotation.secret.as_deref())?;
    let now = gateway.ambient().clock.now();
    subscription.secrets = subscription.secrets.replaced(secret.clone(), now, rotation.at_once);
    let row = subscription.clone();
    gateway.store().write(move |tx| subscriptions::set_secrets(tx, &row)).await?;
    Ok(Json(view_subscription(subscription, Some(secret))))
}

/// Deliveries of a subscription: those that wait, those that were taken lately, those that were given up.
#[utoipa::path(
    get, path = "/v1/webhooks/subscriptions/{subscription}/deliveries", tag = "webhooks",
    params(
        ("subscription" = String, Path, description = "The subscription", pattern = "^sub_[A-Za-z0-9-]{1,64}$"), Which
    ),
    responses((status = 200, body = Deliveries))
)]
async fn list_deliveries(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(id): Id<String>,
    Params(which): Params<Which>,
) -> Result<Json<Deliveries>, Problem> {
    let subscription = find_subscription(&gateway, &caller, &id).await?;
    let read_status = |text: String| {
        Status::parse(&text).ok_or_else(|| Problem::invalid("query.status", "expected waiting, delivered or dead"))
    };
    let status = which.status.map(read_status).transpose()?;
    let limit = which.limit.unwrap_or(LIMIT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Problem::invalid("query.limit", format!("expected 1 to {LIMIT_MAX}")));
    }
    let before = which.before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
    let scope = caller.scope().clone();
    let read = gateway.store().read(move |read| outbox::list(read, &scope, &subscription.id, status, before, limit));
    let found = read.await?;
    let next_before = found.last().filter(|_| found.len() == limit as usize).map(|last| last.seq);
    Ok(Json(Deliveries { deliveries: found.into_iter().map(view_delivery).collect(), next_before }))
}

/// Sends a delivery again, under the same id, as if it had never been tried.
#[utoipa::path(
    post, path = "/v1/webhooks/deliveries/{delivery}/resend", tag = "webhooks",
    params(("delivery" = String, Path, description = "The delivery", pattern = "^dlv_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = DeliveryView))
)]
async fn resend(
    State(gateway): State<Gateway>,
    caller: Caller,
    Id(id): Id<String>,
) -> Result<Json<DeliveryView>, Problem> {
    caller.needs(Role::Operator)?;
    known("delivery", "dlv_", &id)?;
    let (scope, name) = (caller.scope().clone(), id.clone());
    let written = gateway.store().write(move |tx| {
        let Some(delivery) = outbox::get(tx, &scope, &name)? else { return Ok(None) };
        outbox::send_again(tx, &delivery)?;
        outbox::get(tx, &scope, &name)
    });
    let found: Option<Delivery> = written.await.map_err(|error: StoreError| error)?;
    found.map(|delivery| Json(view_delivery(delivery))).ok_or_else(|| Problem::missing("delivery", &id))
}

/// Refuses what cannot be an id of this kind before anybody looks for it.
fn known(kind: &'static str, prefix: &str, id: &str) -> Result<(), Problem> {
    let fits =
        |body: &str| (1..=64).contains(&body.len()) && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if id.strip_prefix(prefix).is_some_and(fits) { Ok(()) } else { Err(Problem::missing(kind, id)) }
}

async fn find_endpoint(gateway: &Gateway, caller: &Caller, id: &str) -> Result<Endpoint, Problem> {
    known("endpoint", "ep_", id)?;
    let (scope, name) = (caller.scope().clone(), id.to_owned());
    let found = gateway.store().read(move |read| endpoints::get(read, &scope, &name)).await?;
    found.ok_or_else(|| Problem::missing("endpoint", id))
}

async fn find_subscription(gateway: &Gateway, caller: &Caller, id: &str) -> Result<Subscription, Problem> {
    known("subscription", "sub_", id)?;
    let (scope, name) = (caller.scope().clone(), id.to_owned());
    let found = gateway.store().read(move |read| subscriptions::get(read, &scope, &name)).await?;
    found.ok_or_else(|| Problem::missing("subscription", id))
}

fn name(name: String) -> Result<String, Problem> {
    let fits = !name.trim().is_empty() && name.chars().count() <= NAME_CHARS_MAX && !name.contains('\0');
    if fits {
        Ok(name)
    } else {
        Err(Problem::invalid("body.name", format!("expected 1 to {NAME_CHARS_MAX} characters")))
    }
}

fn secret(gateway: &Gateway, given: Option<&str>) -> Result<Secret, Problem> {
    match given {
        Some(text) => {
            text.parse().map_err(|error: crate::hooks::SecretError| Problem::invalid("body.secret", error.to_string()))
        }
        None => Ok(Secret::random(gateway.ambient().rng.as_ref())),
    }
}

fn view_endpoint(directory: &endpoints::Directory, endpoint: &Endpoint, secret: Option<Secret>) -> EndpointView {
    let counts = directory.counts(&endpoint.id).unwrap_or_default();
    EndpointView {
        endpoint: endpoint.id.clone(),
        name: endpoint.name.clone(),
        action: endpoint.action.clone(),
        created_at: endpoint.created_at,
        accepted: counts.accepted.load(Ordering::Relaxed),
        repeated: counts.repeated.load(Ordering::Relaxed),
        refused: counts.refused.load(Ordering::Relaxed),
        secret: secret.map(|secret| secret.reveal()),
    }
}

fn view_subscription(one: Subscription, secret: Option<Secret>) -> SubscriptionView {
    SubscriptionView {
        subscription: one.id,
        name: one.name,
        url: one.url,
        types: one.types.names().to_vec(),
        task: one.task,
        enabled: one.enabled,
        disabled_because: one.disabled_because,
        position: one.position,
        created_at: one.created_at,
        secret: secret.map(|secret| secret.reveal()),
    }
}

fn view_delivery(one: Delivery) -> DeliveryView {
    DeliveryView {
        delivery: one.id,
        subscription: one.subscription,
        event: one.event.to_string(),
        seq: one.seq,
        kind: one.kind,
        task: one.scope.task.to_string(),
        status: one.status.as_str(),
        attempts: one.attempts,
        next_at: (one.status == Status::Waiting).then_some(one.next_at.0),
        answer: one.answer,
        problem: one.problem,
        created_at: one.created_at.0,
        updated_at: one.updated_at.0,
    }
}
