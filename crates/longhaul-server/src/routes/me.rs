//! Who a key is.

use axum::Json;
use longhaul_core::{TenantId, TimeMs, UserId};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Caller, Gateway,
    keys::{KeyId, Role},
};

/// Whose key was shown.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Me {
    /// The tenant whose data it reaches.
    #[schema(value_type = String)]
    tenant: TenantId,
    /// The user.
    #[schema(value_type = String)]
    user: UserId,
    /// What it may do.
    role: Role,
    /// The key.
    #[schema(value_type = String)]
    key: KeyId,
    /// The digits by which it is named.
    prefix: String,
    /// When it ends, in milliseconds since 1970.
    #[schema(value_type = Option<i64>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<TimeMs>,
}

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(me))
}

/// Whose key this is.
#[utoipa::path(get, path = "/v1/me", tag = "keys", responses((status = 200, body = Me)))]
async fn me(caller: Caller) -> Json<Me> {
    let key = caller.key();
    let (tenant, user) = (key.scope.tenant.clone(), key.scope.user.clone());
    let (role, id, prefix, expires_at) = (key.role, key.id.clone(), key.prefix.clone(), key.expires_at);
    Json(Me { tenant, user, role, key: id, prefix, expires_at })
}
