//! The API's description, gathered from the routes themselves, so that none is missing in it.

use std::sync::OnceLock;

use utoipa::{
    OpenApi,
    openapi::{
        Content, ObjectBuilder, PathItem, Ref, RefOr, Required, ResponseBuilder, Schema, Type,
        path::{Operation, Parameter, ParameterBuilder, ParameterIn},
        schema::AdditionalProperties,
        security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};

use crate::{ProblemBody, admission, routes};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Longhaul",
        description = "Tasks, their executions and waits, what is known of them and why. Every request shows a key as \
                       `Authorization: Bearer lh_…`; the key says whose data it reaches and what it may do. Errors are \
                       `application/problem+json`.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    components(schemas(ProblemBody))
)]
pub(crate) struct Description;

/// The OpenAPI document of this release, as JSON.
#[must_use]
pub fn document() -> &'static str {
    static DOCUMENT: OnceLock<String> = OnceLock::new();
    DOCUMENT.get_or_init(|| routes::described().to_json().unwrap_or_default())
}

/// Adds what every operation shares: the key, and the form of every problem.
pub(crate) fn complete(mut api: utoipa::openapi::OpenApi) -> utoipa::openapi::OpenApi {
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("lh_<prefix>_<secret>").build();
    let components = api.components.get_or_insert_default();
    components.add_security_scheme("key", SecurityScheme::Http(bearer));
    let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("hook_<64 digits>").build();
    components.add_security_scheme("token", SecurityScheme::Http(token));
    let signature = ApiKey::Header(ApiKeyValue::new("webhook-signature"));
    components.add_security_scheme("signature", SecurityScheme::ApiKey(signature));
    if let Some(action) = components.schemas.get_mut("Action") {
        refuse_strangers(action);
    }
    for (path, item) in &mut api.paths.paths {
        // What only asks, and what is named by its sender otherwise, takes no name for repetitions.
        let takes_no_name = path.starts_with("/v1/hooks/") || admission::ASKS.iter().any(|end| path.ends_with(end));
        for operation in [&mut item.post, &mut item.put, &mut item.patch, &mut item.delete].into_iter().flatten() {
            if takes_no_name {
                continue;
            }
            operation.parameters.get_or_insert_default().push(idempotency_key());
        }
        for operation in operations(item) {
            let problem = Content::new(Some(Ref::from_schema_name("Problem")));
            let response = ResponseBuilder::new()
                .description("What is wrong, and what to do.")
                .content("application/problem+json", problem)
                .build();
            operation.responses.responses.insert("default".to_owned(), RefOr::T(response));
            let shown = match path.as_str() {
                "/health" | "/v1/openapi.json" => continue,
                "/v1/hooks/answer" => "token",
                path if path.starts_with("/v1/hooks/") => "signature",
                _ => "key",
            };
            operation.security = Some(vec![SecurityRequirement::new(shown, Vec::<String>::new())]);
        }
    }
    api
}

/// Says of each choice of a tagged enum what its reader does: fields it does not know are refused.
fn refuse_strangers(schema: &mut RefOr<Schema>) {
    let RefOr::T(Schema::OneOf(choices)) = schema else { return };
    for choice in &mut choices.items {
        if let RefOr::T(Schema::Object(object)) = choice {
            object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        }
    }
}

fn idempotency_key() -> Parameter {
    let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[!-~]{1,128}$"));
    ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some("A name for this change: who sends it again with the same name gets the same answer."))
        .schema(Some(text.build()))
        .build()
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete]
        .into_iter()
        .filter_map(Option::as_mut)
}
