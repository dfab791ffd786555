//! Managing webhooks: endpoints that take them in, subscriptions that send them out, deliveries.

use std::sync::atomic::Ordering;

use axum::{Json, extract::State};
use longhaul_core::{TaskId, TimeMs};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Caller, Gateway, Problem,
    change::{Answer, Done},
    events::TypeFilter,
    hooks::{
        Action, Secret, TargetRules,
        endpoints::{self, Counts, ENDPOINTS_MAX, Endpoint},
        outbox::{self, Delivery, Status},
        secrets::Secrets,
        subscriptions::{self, SUBSCRIPTIONS_MAX, Subscription},
    },
    input::{Command, Id, Params},
    text::TextLine,
    words::{SecretText, TypeName},
};

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
    #[schema(value_type = String, min_length = 1, max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    name: TextLine,
    /// What a message that comes in does.
    action: Action,
    /// The secret that the sender signs with, where it makes its own; without, one is made and shown once.
    secret: Option<SecretText>,
}

/// How a secret is replaced.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rotation {
    /// The new secret; without, one is made and shown once.
    secret: Option<SecretText>,
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
    #[schema(value_type = String, min_length = 1, max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    name: TextLine,
    /// Where events are sent: https, and an address that anybody could reach unless the operator has allowed it.
    url: String,
    /// Types of events that are sent: `wait.opened`, `execution.*`; all without.
    #[serde(default)]
    #[schema(max_items = 64)]
    types: Vec<TypeName>,
    /// The task whose events are sent; without, all of the user's.
    #[schema(value_type = Option<String>, pattern = "^task_[A-Za-z0-9-]{1,64}$")]
    task: Option<TaskId>,
    /// The number behind which to begin; without, what happens from now on.
    #[schema(minimum = 0, maximum = 9007199254740991_i64)]
    #[serde(default, deserialize_with = "crate::words::whole")]
    after: Option<u64>,
    /// The secret to sign with; without, one is made and shown once.
    secret: Option<SecretText>,
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
    let endpoints = found.iter().map(|one| shown(directory, one)).collect();
    Ok(Json(Endpoints { endpoints, unknown: directory.unknown.load(Ordering::Relaxed) }))
}

/// Makes an endpoint that takes webhooks in. Its secret is shown this once.
#[utoipa::path(
    post, path = "/v1/webhooks/endpoints", tag = "webhooks",
    request_body = NewEndpoint, responses((status = 201, body = EndpointView))
)]
async fn create_endpoint(State(gateway): State<Gateway>, command: Command<NewEndpoint>) -> Result<Answer, Problem> {
    let wish = command.wish("webhook.endpoint.create", "")?;
    let Command { caller, body: new, .. } = command;
    let secret = secret(&gateway, new.secret.as_ref())?;
    let ambient = gateway.ambient();
    let endpoint = Endpoint {
        scope: caller.scope().clone(),
        id: format!("ep_{}", ambient.ids.body()),
        name: new.name.into(),
        action: new.action,
        secrets: Secrets::new(secret.clone()),
        created_at: ambient.clock.now(),
    };
    let made = gateway.change(wish, move |tx| {
        if endpoints::insert(tx, &endpoint)?.is_none() {
            let detail = format!("a user may have {ENDPOINTS_MAX} endpoints: remove one first");
            return Err(Problem::conflict("too_many", detail));
        }
        let path = format!("/v1/webhooks/endpoints/{}", endpoint.id);
        let view = view_endpoint(&endpoint, &Counts::default(), Some(&secret));
        Ok(Done::created(path, &endpoint.id, view).map(|done| done.told_once("secret")))
    });
    current(&gateway, made.await?).await
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
    Ok(Json(shown(directory, &endpoint)))
}

/// Removes an endpoint: what comes in for it is refused from now on.
#[utoipa::path(
    delete, path = "/v1/webhooks/endpoints/{endpoint}", tag = "webhooks",
    params(("endpoint" = String, Path, description = "The endpoint", pattern = "^ep_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = EndpointView))
)]
async fn delete_endpoint(
    State(gateway): State<Gateway>,
    Id(id): Id<String>,
    command: Command<super::Nothing>,
) -> Result<Answer, Problem> {
    known("endpoint", "ep_", &id)?;
    let (wish, scope) = (command.wish("webhook.endpoint.delete", &id)?, command.caller.scope().clone());
    let gone = gateway.change(wish, move |tx| {
        let endpoint = endpoints::get(tx, &scope, &id)?.ok_or_else(|| Problem::missing("endpoint", &id))?;
        endpoints::delete(tx, &scope, &id)?;
        Ok(Done::ok(view_endpoint(&endpoint, &Counts::default(), None)))
    });
    current(&gateway, gone.await?).await
}

/// Replaces an endpoint's secret. The new one is shown this once; the old one is good for another day.
#[utoipa::path(
    post, path = "/v1/webhooks/endpoints/{endpoint}/secret", tag = "webhooks",
    params(("endpoint" = String, Path, description = "The endpoint", pattern = "^ep_[A-Za-z0-9-]{1,64}$")),
    request_body = Rotation, responses((status = 200, body = EndpointView))
)]
async fn rotate_endpoint(
    State(gateway): State<Gateway>,
    Id(id): Id<String>,
    command: Command<Rotation>,
) -> Result<Answer, Problem> {
    known("endpoint", "ep_", &id)?;
    let wish = command.wish("webhook.endpoint.secret", &id)?;
    let Command { caller, body: rotation, .. } = command;
    let secret = secret(&gateway, rotation.secret.as_ref())?;
    let changed = gateway.change(wish, move |tx| {
        let found = endpoints::get(tx, caller.scope(), &id)?;
        let mut endpoint = found.ok_or_else(|| Problem::missing("endpoint", &id))?;
        endpoint.secrets = endpoint.secrets.replaced(secret.clone(), tx.now(), rotation.at_once);
        endpoints::set_secrets(tx, &endpoint)?;
        let view = view_endpoint(&endpoint, &Counts::default(), Some(&secret));
        Ok(Done::ok(view).map(|done| done.told_once("secret")))
    });
    current(&gateway, changed.await?).await
}

/// The answer, once the directory in memory knows of the change.
async fn current(gateway: &Gateway, answer: Answer) -> Result<Answer, Problem> {
    gateway.doors().endpoints(gateway.store()).await?.refresh(gateway.store()).await?;
    Ok(answer)
}

/// Subscriptions to events.
#[utoipa::path(
    get, path = "/v1/webhooks/subscriptions", tag = "webhooks", responses((status = 200, body = Subscriptions))
)]
async fn list_subscriptions(State(gateway): State<Gateway>, caller: Caller) -> Result<Json<Subscriptions>, Problem> {
    let scope = caller.scope().clone();
    let found = gateway.store().read(move |read| subscriptions::list(read, &scope)).await?;
    Ok(Json(Subscriptions { subscriptions: found.iter().map(|one| view_subscription(one, None)).collect() }))
}

/// Subscribes to events. The secret is shown this once.
#[utoipa::path(
    post, path = "/v1/webhooks/subscriptions", tag = "webhooks",
    request_body = NewSubscription, responses((status = 201, body = SubscriptionView))
)]
async fn create_subscription(
    State(gateway): State<Gateway>,
    command: Command<NewSubscription>,
) -> Result<Answer, Problem> {
    let wish = command.wish("webhook.subscription.create", "")?;
    let Command { caller, body: new, .. } = command;
    let rules = TargetRules { allow: gateway.doors().settings.webhooks.allow.clone() };
    let url =
        rules.read(&new.url).map_err(|error| Problem::conflict("refused_address", error.to_string()).at("body.url"))?;
    let types = TypeFilter::new(new.types.iter().map(TypeName::as_str))
        .map_err(|error| Problem::invalid("body.types", error.to_string()))?;
    if let Some(task) = &new.task {
        gateway.task(&caller, task).await?;
    }
    let after = new.after.map(i64::try_from).transpose();
    let after = after.map_err(|_| Problem::invalid("body.after", "no log is so long: expected the seq of an event"))?;
    let secret = secret(&gateway, new.secret.as_ref())?;
    let ambient = gateway.ambient();
    let mut made = Subscription {
        scope: caller.scope().clone(),
        id: format!("sub_{}", ambient.ids.body()),
        name: new.name.into(),
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
    let made = gateway.change(wish, move |tx| {
        made.position = after.map_or_else(|| subscriptions::newest(tx, &made.scope), Ok)?;
        if subscriptions::insert(tx, &made)?.is_none() {
            let detail = format!("a user may have {SUBSCRIPTIONS_MAX} subscriptions: remove one first");
            return Err(Problem::conflict("too_many", detail));
        }
        let path = format!("/v1/webhooks/subscriptions/{}", made.id);
        let done = Done::created(path, &made.id, view_subscription(&made, Some(&secret)));
        Ok(done.map(|done| done.told_once("secret").detail(json!({ "host": host_of(&made.url) }))))
    });
    made.await
}

/// The host of a URL: what the audit log keeps of it, as the rest may hold a secret.
fn host_of(url: &str) -> String {
    reqwest::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default()
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
    Ok(Json(view_subscription(&find_subscription(&gateway, &caller, &id).await?, None)))
}

/// Switches a subscription on or off. Switched on, it goes on where it stopped.
#[utoipa::path(
    patch, path = "/v1/webhooks/subscriptions/{subscription}", tag = "webhooks",
    params(("subscription" = String, Path, description = "The subscription", pattern = "^sub_[A-Za-z0-9-]{1,64}$")),
    request_body = Switch, responses((status = 200, body = SubscriptionView))
)]
async fn switch_subscription(
    State(gateway): State<Gateway>,
    Id(id): Id<String>,
    command: Command<Switch>,
) -> Result<Answer, Problem> {
    known("subscription", "sub_", &id)?;
    let wish = command.wish("webhook.subscription.switch", &id)?;
    let Command { caller, body: switch, .. } = command;
    let switched = gateway.change(wish, move |tx| {
        let missing = || Problem::missing("subscription", &id);
        let found = subscriptions::get(tx, caller.scope(), &id)?.ok_or_else(missing)?;
        let because = (!switch.enabled).then(|| format!("switched off by {}", caller.actor()));
        subscriptions::set_enabled(tx, &found, because.as_deref())?;
        let now = subscriptions::get(tx, caller.scope(), &id)?.ok_or_else(missing)?;
        let done = Done::ok(view_subscription(&now, None));
        Ok(done.map(|done| done.detail(json!({ "enabled": switch.enabled }))))
    });
    switched.await
}

/// Removes a subscription with its deliveries.
#[utoipa::path(
    delete, path = "/v1/webhooks/subscriptions/{subscription}", tag = "webhooks",
    params(("subscription" = String, Path, description = "The subscription", pattern = "^sub_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = SubscriptionView))
)]
async fn delete_subscription(
    State(gateway): State<Gateway>,
    Id(id): Id<String>,
    command: Command<super::Nothing>,
) -> Result<Answer, Problem> {
    known("subscription", "sub_", &id)?;
    let (wish, scope) = (command.wish("webhook.subscription.delete", &id)?, command.caller.scope().clone());
    let gone = gateway.change(wish, move |tx| {
        let found = subscriptions::get(tx, &scope, &id)?.ok_or_else(|| Problem::missing("subscription", &id))?;
        subscriptions::delete(tx, &scope, &id)?;
        Ok(Done::ok(view_subscription(&found, None)))
    });
    gone.await
}

/// Replaces a subscription's secret. The new one is shown this once; for a day events are signed with both.
#[utoipa::path(
    post, path = "/v1/webhooks/subscriptions/{subscription}/secret", tag = "webhooks",
    params(("subscription" = String, Path, description = "The subscription", pattern = "^sub_[A-Za-z0-9-]{1,64}$")),
    request_body = Rotation, responses((status = 200, body = SubscriptionView))
)]
async fn rotate_subscription(
    State(gateway): State<Gateway>,
    Id(id): Id<String>,
    command: Command<Rotation>,
) -> Result<Answer, Problem> {
    known("subscription", "sub_", &id)?;
    let wish = command.wish("webhook.subscription.secret", &id)?;
    let Command { caller, body: rotation, .. } = command;
    let secret = secret(&gateway, rotation.secret.as_ref())?;
    let changed = gateway.change(wish, move |tx| {
        let found = subscriptions::get(tx, caller.scope(), &id)?;
        let mut found = found.ok_or_else(|| Problem::missing("subscription", &id))?;
        found.secrets = found.secrets.replaced(secret.clone(), tx.now(), rotation.at_once);
        subscriptions::set_secrets(tx, &found)?;
        Ok(Done::ok(view_subscription(&found, Some(&secret))).map(|done| done.told_once("secret")))
    });
    changed.await
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
    Id(id): Id<String>,
    command: Command<super::Nothing>,
) -> Result<Answer, Problem> {
    known("delivery", "dlv_", &id)?;
    let (wish, scope) = (command.wish("webhook.delivery.resend", &id)?, command.caller.scope().clone());
    let sent = gateway.change(wish, move |tx| {
        let missing = || Problem::missing("delivery", &id);
        let delivery = outbox::get(tx, &scope, &id)?.ok_or_else(missing)?;
        outbox::send_again(tx, &delivery)?;
        Ok(Done::ok(view_delivery(outbox::get(tx, &scope, &id)?.ok_or_else(missing)?)))
    });
    sent.await
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

fn secret(gateway: &Gateway, given: Option<&SecretText>) -> Result<Secret, Problem> {
    match given {
        Some(text) => text
            .as_str()
            .parse()
            .map_err(|error: crate::hooks::SecretError| Problem::invalid("body.secret", error.to_string())),
        None => Ok(Secret::random(gateway.ambient().rng.as_ref())),
    }
}

fn shown(directory: &endpoints::Directory, endpoint: &Endpoint) -> EndpointView {
    view_endpoint(endpoint, &directory.counts(&endpoint.id).unwrap_or_default(), None)
}

fn view_endpoint(endpoint: &Endpoint, counts: &Counts, secret: Option<&Secret>) -> EndpointView {
    EndpointView {
        endpoint: endpoint.id.clone(),
        name: endpoint.name.clone(),
        action: endpoint.action.clone(),
        created_at: endpoint.created_at,
        accepted: counts.accepted.load(Ordering::Relaxed),
        repeated: counts.repeated.load(Ordering::Relaxed),
        refused: counts.refused.load(Ordering::Relaxed),
        secret: secret.map(Secret::reveal),
    }
}

fn view_subscription(one: &Subscription, secret: Option<&Secret>) -> SubscriptionView {
    SubscriptionView {
        subscription: one.id.clone(),
        name: one.name.clone(),
        url: one.url.clone(),
        types: one.types.names().to_vec(),
        task: one.task.clone(),
        enabled: one.enabled,
        disabled_because: one.disabled_because.clone(),
        position: one.position,
        created_at: one.created_at,
        secret: secret.map(Secret::reveal),
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
