//! Keys of the caller's tenant. Owners make and revoke them; a key's text is in the answer that makes it and nowhere
//! else.

use axum::{Json, extract::State};
use longhaul_core::{Scope, TimeMs, UserId};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Caller, Gateway, Problem,
    change::{Answer, Done},
    input::{Command, Id, Params},
    keys::{Key, KeyId, NewKey, Role},
    page::{Limit, Page},
    text::{TextLine, Whole},
};

/// Longest life of a key that has an end: a hundred years.
const LIFE_SECONDS_MAX: i64 = 100 * 365 * 24 * 60 * 60;

/// Which keys.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Behind this key.
    #[param(value_type = Option<String>, pattern = "^key_[A-Za-z0-9-]{1,64}$")]
    after: Option<KeyId>,
    /// At most so many.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Limit,
}

/// A key to be made in the caller's tenant.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewKey)]
pub(crate) struct NewKeyBody {
    /// For which user.
    #[schema(value_type = String, pattern = "^user_[A-Za-z0-9-]{1,64}$")]
    user: UserId,
    /// What it may do.
    role: Role,
    /// What people call it.
    #[schema(value_type = String, min_length = 1, max_length = 200, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
    label: TextLine,
    /// After how many seconds it ends; never if nothing is said.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 3153600000_i64)]
    #[serde(default)]
    expires_in_seconds: Option<Whole<1, LIFE_SECONDS_MAX>>,
}

/// A key, without its text.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Key)]
pub(crate) struct KeyShown {
    /// Identity.
    #[schema(value_type = String)]
    key: KeyId,
    /// The digits by which it is named.
    prefix: String,
    /// Whose data it reaches.
    #[schema(value_type = String)]
    user: UserId,
    /// What it may do.
    role: Role,
    /// What people call it.
    label: String,
    /// Who made it.
    created_by: String,
    /// When it was made, in milliseconds since 1970.
    #[schema(value_type = i64)]
    created_at: TimeMs,
    /// When it ends.
    #[schema(value_type = Option<i64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<TimeMs>,
    /// When it was revoked.
    #[schema(value_type = Option<i64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<TimeMs>,
}

impl From<Key> for KeyShown {
    fn from(key: Key) -> Self {
        let Key { id, scope, role, prefix, label, created_by, created_at, expires_at, revoked_at, .. } = key;
        Self { key: id, prefix, user: scope.user, role, label, created_by, created_at, expires_at, revoked_at }
    }
}

/// A key that was just made.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MadeKey {
    /// The key.
    key: KeyShown,
    /// Its text, which callers send. It is told once: a repetition of the request is answered without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(revoke))
}

/// The tenant's keys, the oldest first; also those that no longer hold.
#[utoipa::path(get, path = "/v1/keys", tag = "keys", params(Which), responses((status = 200, body = Page<KeyShown>)))]
async fn list(
    State(gateway): State<Gateway>,
    caller: Caller,
    Params(which): Params<Which>,
) -> Result<Json<Page<KeyShown>>, Problem> {
    caller.needs(Role::Owner)?;
    let found = gateway.keys().list(&caller.scope().tenant, which.after.as_ref(), which.limit.and_one()).await?;
    Ok(Json(Page::of(found, which.limit, |key| key.id.to_string(), KeyShown::from)))
}

/// Makes a key for a user of the tenant.
#[utoipa::path(post, path = "/v1/keys", tag = "keys", request_body = NewKeyBody, responses((status = 201, body = MadeKey)))]
async fn create(State(gateway): State<Gateway>, command: Command<NewKeyBody>) -> Result<Answer, Problem> {
    command.caller.needs(Role::Owner)?;
    let wish = command.wish("key.create", "")?;
    let Command { caller, body: NewKeyBody { user, role, label, expires_in_seconds }, .. } = command;
    let scope = Scope { tenant: caller.scope().tenant.clone(), user };
    let expires_at = expires_in_seconds.map(|life| TimeMs(gateway.ambient().clock.now().0 + life.get() * 1_000));
    let new = NewKey { scope, role, label: label.into(), expires_at, created_by: caller.actor() };
    let keys = gateway.keys().clone();
    let made = gateway.change(wish, move |tx| {
        let made = keys.create_in(tx, new)?;
        let detail = json!({ "user": made.key.scope.user, "role": made.key.role, "prefix": made.key.prefix });
        let (path, id) = (format!("/v1/keys/{}", made.key.id), made.key.id.clone());
        let body = MadeKey { secret: Some(made.secret.expose().to_owned()), key: made.key.into() };
        Ok(Done::created(path, id, body).map(|done| done.told_once("secret").detail(detail)))
    });
    made.await
}

/// Revokes a key of the tenant: it no longer opens anything.
#[utoipa::path(
    delete, path = "/v1/keys/{key}", tag = "keys",
    params(("key" = String, Path, description = "The key", pattern = "^key_[A-Za-z0-9-]{1,64}$")),
    responses((status = 200, body = KeyShown))
)]
async fn revoke(
    State(gateway): State<Gateway>,
    Id(key): Id<KeyId>,
    command: Command<super::Nothing>,
) -> Result<Answer, Problem> {
    command.caller.needs(Role::Owner)?;
    let wish = command.wish("key.revoke", &key)?;
    let (keys, tenant) = (gateway.keys().clone(), command.caller.scope().tenant.clone());
    let revoked = gateway.change(wish, move |tx| {
        let revoked = keys.revoke_in(tx, &tenant, key.as_str())?;
        let revoked = revoked.ok_or_else(|| Problem::missing("key", key.as_str()))?;
        Ok(Done::ok(KeyShown::from(revoked)))
    });
    revoked.await
}
