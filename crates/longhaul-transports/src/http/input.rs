//! Reading what comes in: JSON bodies, parameters, and who asks. Every refusal says what was expected.
//!
//! A member shows its secret as `Authorization: Bearer AGENT_ID:SECRET`. The SDK's clients write it into the address or
//! the body, which is taken too; it is never written to a log.

use axum::{
    body::{Body, to_bytes},
    extract::{FromRequest, FromRequestParts, Request},
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use longhaul_network::{AgentId, Refusal, RefusalKind};
use serde::{Deserialize, de::DeserializeOwned};
use utoipa::IntoParams;

use super::Failure;
use crate::front::Front;

/// A JSON body.
#[derive(Debug)]
pub(crate) struct Input<T>(pub(crate) T);

/// The parameters of the address.
#[derive(Debug)]
pub(crate) struct Params<T>(pub(crate) T);

/// Who asks, where it stands in the address.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Credentials {
    /// Who asks. Not needed with `Authorization: Bearer AGENT_ID:SECRET`.
    #[param(pattern = "^((agent:)?[\\w.@+~-]{1,200})?$")]
    pub(crate) agent_id: Option<String>,
    /// Its secret; better sent in the header.
    pub(crate) secret: Option<String>,
}

impl Credentials {
    /// Whom the request claims to come from, and what it shows for it. The header counts first.
    pub(crate) fn claimed(&self, headers: &HeaderMap) -> Result<(AgentId, Option<String>), Refusal> {
        if let Some((agent, secret)) = bearer(headers) {
            let agent: AgentId = agent.parse()?;
            if let Some(said) = self.agent_id.as_deref().filter(|said| !said.is_empty())
                && said.parse::<AgentId>().ok().as_ref() != Some(&agent)
            {
                return Err(Refusal::forbidden("the Authorization header is another agent's than agent_id"));
            }
            return Ok((agent, Some(secret)));
        }
        let agent = self.agent_id.as_deref().filter(|agent| !agent.trim().is_empty());
        let agent = agent.ok_or_else(|| Refusal::invalid("agent_id is required"))?;
        Ok((agent.parse()?, self.secret.clone().filter(|secret| !secret.is_empty())))
    }
}

/// `AGENT_ID:SECRET` of the header, where there is one.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<(String, String)> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = value.split_once(' ')?;
    let (agent, secret) = rest.trim().rsplit_once(':')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| (agent.to_owned(), secret.to_owned()))
}

impl<T: DeserializeOwned> FromRequest<Front> for Input<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, front: &Front) -> Result<Self, Failure> {
        let (parts, body) = request.into_parts();
        if !is_json(&parts.headers) {
            let refusal = Refusal::invalid("send the body as JSON, with `Content-Type: application/json`");
            return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, &refusal));
        }
        let bytes = bytes(&parts.headers, body, front.limits().body_bytes_max).await?;
        Ok(Self(json(&bytes)?))
    }
}

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Failure> {
        axum::extract::Query::<T>::try_from_uri(&parts.uri).map(|found| Self(found.0)).map_err(|error| {
            let text: String = error.body_text().chars().take(400).collect();
            Refusal::invalid(text.trim_start_matches("Failed to deserialize query string: ")).into()
        })
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = given.map(|text| text.split(';').next().unwrap_or_default().trim());
    essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"))
}

/// The body as it came, within its bound.
async fn bytes(headers: &HeaderMap, body: Body, bytes_max: usize) -> Result<axum::body::Bytes, Refusal> {
    let too_large = || {
        let text = format!("the body is larger than the {bytes_max} bytes that are read: send less, or upload a file");
        Refusal::new(RefusalKind::TooLarge, text)
    };
    let said = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if said.is_some_and(|said| said > bytes_max as u64) {
        return Err(too_large());
    }
    to_bytes(body, bytes_max).await.map_err(|error| {
        let mut next: Option<&dyn std::error::Error> = Some(&error);
        while let Some(error) = next {
            if error.to_string().contains("length limit") {
                return too_large();
            }
            next = error.source();
        }
        Refusal::invalid("the body ended before it was whole, or came too slowly: send it again")
    })
}

/// JSON from a body.
///
/// # Errors
/// [`RefusalKind::Invalid`], with the place.
pub(crate) fn json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    // Fields in the order of the program's types, which serde would take as well, are no input of ours.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        return Err(Refusal::invalid("write an object with named fields, not an array"));
    }
    if let Ok(value) = serde_json::from_slice(bytes) {
        return Ok(value);
    }
    // Once more, for the place where it is wrong: following it costs as much as reading does.
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let (path, told) = (error.path().to_string(), error.inner().to_string());
        let told: String = told.chars().take(400).collect();
        Refusal::invalid(if matches!(path.as_str(), "" | ".") { told } else { format!("{path}: {told}") })
    })?;
    reader.end().map_err(|error| Refusal::invalid(format!("there is more than one value: {error}")))?;
    Ok(value)
}
