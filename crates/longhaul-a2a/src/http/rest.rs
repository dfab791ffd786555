//! HTTP with JSON (section 11).

use std::{convert::Infallible, sync::Arc};

use axum::{
    body::Bytes,
    extract::{Path, RawQuery, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::StreamExt as _;
use serde_json::{Map, Value, json};

use super::{call, is_json, reached, refused, rpc::listed, text, version_of};
use crate::{
    check,
    error::A2aError,
    follow::Updates,
    service::Service,
    version::Version,
    wire::{from_json, to_json, v1},
};

pub(super) async fn network(
    State(service): State<Arc<Service>>,
    Path(path): Path<String>,
    RawQuery(query): RawQuery,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let asked = Asked { agent: None, path: &path, query: query.as_deref(), method: &method, headers: &headers };
    respond(&service, &asked, &body).await
}

pub(super) async fn agent(
    State(service): State<Arc<Service>>,
    Path((agent, path)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let asked = Asked { agent: Some(&agent), path: &path, query: query.as_deref(), method: &method, headers: &headers };
    respond(&service, &asked, &body).await
}

struct Asked<'a> {
    agent: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
    method: &'a Method,
    headers: &'a HeaderMap,
}

/// What a path and a method mean.
#[derive(Debug, PartialEq, Eq)]
enum Operation<'a> {
    Send,
    Stream,
    List,
    Get(&'a str),
    Cancel(&'a str),
    Subscribe(&'a str),
    CreatePush(&'a str),
    ListPush(&'a str),
    GetPush(&'a str, &'a str),
    DeletePush(&'a str, &'a str),
    ExtendedCard,
}

/// The operation, and the tenant before it where there is one.
fn operation<'a>(method: &Method, path: &'a str) -> Option<(&'a str, Operation<'a>)> {
    const FIRST: [&str; 4] = ["message:send", "message:stream", "tasks", "extendedAgentCard"];
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (tenant, segments) = match segments.split_first()? {
        (first, rest) if !FIRST.contains(first) => (*first, rest),
        _ => ("", segments.as_slice()),
    };
    let (is_get, is_post) = (method == Method::GET, method == Method::POST);
    let found = match segments {
        ["message:send"] if is_post => Operation::Send,
        ["message:stream"] if is_post => Operation::Stream,
        ["extendedAgentCard"] if is_get => Operation::ExtendedCard,
        ["tasks"] if is_get => Operation::List,
        ["tasks", task] => match task.rsplit_once(':') {
            Some((task, "cancel")) if is_post => Operation::Cancel(task),
            // The description has GET, the text POST.
            Some((task, "subscribe")) if is_post || is_get => Operation::Subscribe(task),
            _ if is_get => Operation::Get(task),
            _ => return None,
        },
        ["tasks", task, "pushNotificationConfigs"] if is_post => Operation::CreatePush(task),
        ["tasks", task, "pushNotificationConfigs"] if is_get => Operation::ListPush(task),
        ["tasks", task, "pushNotificationConfigs", id] if is_get => Operation::GetPush(task, id),
        ["tasks", task, "pushNotificationConfigs", id] if method == Method::DELETE => Operation::DeletePush(task, id),
        _ => return None,
    };
    Some((tenant, found))
}

async fn respond(service: &Arc<Service>, asked: &Asked<'_>, body: &[u8]) -> Response {
    match carry_out(service, asked, body).await {
        Ok(response) => response,
        Err(error) => refused(&error, service.settings.statuses),
    }
}

async fn carry_out(service: &Arc<Service>, asked: &Asked<'_>, body: &[u8]) -> Result<Response, A2aError> {
    let nothing = || A2aError::MethodNotFound(format!("{} /{}", asked.method, asked.path));
    let (tenant, operation) = operation(asked.method, asked.path).ok_or_else(nothing)?;
    Version::only_1_0(version_of(asked.headers, asked.query))?;
    if *asked.method == Method::POST {
        is_json(asked.headers, body)?;
    }
    let content = match body {
        [] => Value::Object(Map::new()),
        body => serde_json::from_slice(body).map_err(|error| A2aError::Parse(error.to_string()))?,
    };
    let stated = content.get("tenant").and_then(Value::as_str).unwrap_or_default();
    let tenant = if tenant.is_empty() { stated.to_owned() } else { tenant.to_owned() };
    let call = call(service, asked.headers, asked.agent, &tenant).await?;
    let query = || parameters(asked.query);
    let with = |mut base: Value, fields: &[(&str, &str)]| {
        for (name, value) in fields {
            base[*name] = json!(value);
        }
        base
    };
    let answered = match operation {
        Operation::Send => to_json(&service.send(&call, from_json(content)?).await?),
        Operation::Stream => return Ok(streamed(service.stream(&call, from_json(content)?).await?)),
        Operation::List => listed(&service.list(&call, check::list_request(query()?)?).await?),
        Operation::Get(id) => to_json(&service.get(&call, from_json(with(query()?, &[("id", id)]))?).await?),
        Operation::Cancel(id) => {
            to_json(&service.cancel(&call, from_json(with(object(content)?, &[("id", id)]))?).await?)
        }
        Operation::Subscribe(id) => {
            let request = v1::SubscribeToTaskRequest { id: id.to_owned(), tenant: String::new() };
            return Ok(streamed(service.subscribe(&call, request).await?));
        }
        Operation::CreatePush(task) => {
            let made = service.create_push(&call, from_json(with(object(content)?, &[("taskId", task)]))?).await?;
            to_json(&made)
        }
        Operation::ListPush(task) => {
            to_json(&service.list_push(&call, from_json(with(query()?, &[("taskId", task)]))?).await?)
        }
        Operation::GetPush(task, id) => {
            to_json(&service.get_push(&call, from_json(json!({ "taskId": task, "id": id }))?).await?)
        }
        Operation::DeletePush(task, id) => {
            service.delete_push(&call, from_json(json!({ "taskId": task, "id": id }))?).await?;
            json!({})
        }
        Operation::ExtendedCard => to_json(&service.extended_card(&call, &reached(asked.headers))?),
    };
    // `application/a2a+json` for those who say that they read it: every client reads the other.
    let kind = match text(asked.headers, "accept") {
        Some(accepted) if accepted.contains("application/a2a+json") => "application/a2a+json",
        _ => "application/json",
    };
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, kind)], answered.to_string()).into_response())
}

fn object(content: Value) -> Result<Value, A2aError> {
    if content.is_object() { Ok(content) } else { Err(A2aError::invalid("", "write an object")) }
}

/// The parameters of a query as the fields of a request.
fn parameters(query: Option<&str>) -> Result<Value, A2aError> {
    let mut fields = Map::new();
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = unescaped(value).ok_or_else(|| A2aError::invalid(name, format!("{name}: this is not text")))?;
        let value = match (name, value.as_str()) {
            ("includeArtifacts", "true") => Value::Bool(true),
            ("includeArtifacts", "false") => Value::Bool(false),
            ("includeArtifacts", _) => return Err(A2aError::invalid(name, "includeArtifacts: write true or false")),
            (_, value) => value.into(),
        };
        fields.insert(name.to_owned(), value);
    }
    Ok(Value::Object(fields))
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn streamed(updates: Updates) -> Response {
    let events = updates.map(|update| {
        let said = match update {
            Ok(update) => to_json(&update),
            Err(error) => json!({ "error": error.json_rpc() }),
        };
        Ok::<_, Infallible>(Event::default().data(said.to_string()))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_mean_what_the_specification_says() {
        let get = |path| operation(&Method::GET, path);
        let post = |path| operation(&Method::POST, path);
        assert_eq!(post("message:send"), Some(("", Operation::Send)));
        assert_eq!(post("expert/message:stream"), Some(("expert", Operation::Stream)));
        assert_eq!(get("tasks/a"), Some(("", Operation::Get("a"))));
        assert_eq!(post("tasks/a:cancel"), Some(("", Operation::Cancel("a"))));
        assert_eq!(get("tasks/a:subscribe"), Some(("", Operation::Subscribe("a"))));
        assert_eq!(get("x/tasks/a/pushNotificationConfigs/b"), Some(("x", Operation::GetPush("a", "b"))));
        for wrong in ["", "message:send", "tasks/a:cancel/x", "a/b/tasks"] {
            assert_eq!(operation(&Method::PUT, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn parameters_are_unescaped() {
        let read =
            parameters(Some("contextId=a%20b+c&includeArtifacts=true&statusTimestampAfter=2025-01-01T00%3A00%3A00Z"));
        let expected = json!({
            "contextId": "a b c", "includeArtifacts": true, "statusTimestampAfter": "2025-01-01T00:00:00Z",
        });
        assert_eq!(read.unwrap(), expected);
        assert!(parameters(Some("a=%f")).is_err());
        assert!(parameters(Some("a=%ff")).is_err());
        assert!(parameters(Some("includeArtifacts=1")).is_err());
    }
}
