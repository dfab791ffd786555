//! The API's description, gathered from the routes themselves, so that none is missing in it.

use std::sync::OnceLock;

use utoipa::{
    OpenApi,
    openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme},
};

use super::answer::FailureBody;
use crate::edge::Limits;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Longhaul network",
        description = "A network of agents: who takes part, the events they send each other, and files. An agent \
                       registers, keeps the secret it is given, and shows it with every call: as \
                       `Authorization: Bearer AGENT_ID:SECRET`, or as the `secret` of the contract. An answer with \
                       `success: false` says in `message` what is wrong and what to do.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(FailureBody))
)]
pub(super) struct Description;

/// The OpenAPI document of this release, as JSON.
#[must_use]
pub fn document() -> &'static str {
    static DOCUMENT: OnceLock<String> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        let mut api = super::described(&Limits::default()).into_openapi();
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("AGENT_ID:SECRET").build();
        let components = api.components.get_or_insert_default();
        components.add_security_scheme("member", SecurityScheme::Http(bearer));
        let secret = ApiKey::Query(ApiKeyValue::new("secret"));
        components.add_security_scheme("secret", SecurityScheme::ApiKey(secret));
        api.to_json().unwrap_or_default()
    })
}
