//! JSON-RPC 2.0 (section 9), in version 1.0 and, where no version is stated, 0.3.

use std::{convert::Infallible, sync::Arc};

use axum::{
    Json,
    body::Bytes,
    extract::{Path, RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::StreamExt as _;
use prost::{Message, Name};
use serde_json::{Value, json};

use super::{call, is_json, reached, version_of, with_hints};
use crate::{
    check,
    error::A2aError,
    follow::Updates,
    service::{Call, Service},
    v0_3,
    version::Version,
    wire::{from_json, to_json, v1::StreamResponse},
};

pub(super) async fn network(
    State(service): State<Arc<Service>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    answer(&service, None, query.as_deref(), &headers, &body).await
}

pub(super) async fn agent(
    State(service): State<Arc<Service>>,
    Path(agent): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    answer(&service, Some(&agent), query.as_deref(), &headers, &body).await
}

/// What a call came to.
enum Done {
    Result(Value),
    /// Updates, and how each is written.
    Updates(Updates, fn(&StreamResponse) -> Value),
}

async fn answer(
    service: &Arc<Service>,
    agent: Option<&str>,
    query: Option<&str>,
    headers: &HeaderMap,
    body: &[u8],
) -> Response {
    let (id, request) = match request(headers, body) {
        Ok(request) => request,
        Err((id, error)) => return failed(&id, &error),
    };
    let version = match Version::read(version_of(headers, query)) {
        Ok(version) => version,
        Err(error) => return failed(&id, &error),
    };
    let tenant = request.params.get("tenant").and_then(Value::as_str).unwrap_or_default();
    let call = match call(service, headers, agent, tenant).await {
        Ok(call) => call,
        Err(error) => return failed(&id, &error),
    };
    let done = match version {
        Version::V1_0 => dispatch(service, &call, headers, request).await,
        Version::V0_3 => dispatch_0_3(service, &call, headers, request).await,
    };
    match done {
        Ok(Done::Result(result)) => Json(json!({ "jsonrpc": "2.0", "id": id, "result": result })).into_response(),
        Ok(Done::Updates(updates, write)) => streamed(id, updates, write),
        Err(error) => failed(&id, &error),
    }
}

struct Request {
    method: String,
    params: Value,
}

/// The request and its id, which an error has as well where there is one.
fn request(headers: &HeaderMap, body: &[u8]) -> Result<(Value, Request), (Value, A2aError)> {
    let parsed: Result<Value, _> = serde_json::from_slice(body);
    let known = parsed.as_ref().ok().and_then(|request| request.get("id")).cloned().unwrap_or_default();
    is_json(headers, body).map_err(|error| (known.clone(), error))?;
    let mut request = parsed.map_err(|error| (Value::Null, A2aError::Parse(error.to_string())))?;
    let wrong = |id: &Value, why: &str| (id.clone(), A2aError::InvalidRequest(why.to_owned()));
    let id = match request.get("id") {
        Some(id @ (Value::String(_) | Value::Number(_) | Value::Null)) => id.clone(),
        Some(_) => return Err(wrong(&Value::Null, "id: write a text or a number")),
        None if request.is_object() => return Err(wrong(&Value::Null, "id is missing: every request is answered")),
        None => return Err(wrong(&Value::Null, "write one request of JSON-RPC 2.0, an object")),
    };
    if request.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(wrong(&id, "jsonrpc: write \"2.0\""));
    }
    let Some(method) = request.get("method").and_then(Value::as_str).map(str::to_owned) else {
        return Err(wrong(&id, "method is missing"));
    };
    let params = match request.get_mut("params").map(Value::take) {
        None | Some(Value::Null) => json!({}),
        Some(params @ Value::Object(_)) => params,
        Some(_) => return Err((id, A2aError::invalid("", "params: write an object"))),
    };
    Ok((id, Request { method, params }))
}

fn result<M: Message + Name>(message: &M) -> Done {
    Done::Result(to_json(message))
}

async fn dispatch(
    service: &Arc<Service>,
    call: &Call,
    headers: &HeaderMap,
    request: Request,
) -> Result<Done, A2aError> {
    let params = request.params;
    Ok(match request.method.as_str() {
        "SendMessage" => result(&service.send(call, from_json(params)?).await?),
        "SendStreamingMessage" => Done::Updates(service.stream(call, from_json(params)?).await?, to_json),
        "GetTask" => result(&service.get(call, from_json(params)?).await?),
        "ListTasks" => Done::Result(listed(&service.list(call, check::list_request(params)?).await?)),
        "CancelTask" => result(&service.cancel(call, from_json(params)?).await?),
        "SubscribeToTask" => Done::Updates(service.subscribe(call, from_json(params)?).await?, to_json),
        "CreateTaskPushNotificationConfig" => result(&service.create_push(call, from_json(params)?).await?),
        "GetTaskPushNotificationConfig" => result(&service.get_push(call, from_json(params)?).await?),
        "ListTaskPushNotificationConfigs" => result(&service.list_push(call, from_json(params)?).await?),
        "DeleteTaskPushNotificationConfig" => {
            service.delete_push(call, from_json(params)?).await?;
            Done::Result(json!({}))
        }
        "GetExtendedAgentCard" => result(&service.extended_card(call, &reached(headers))?),
        other => return Err(A2aError::MethodNotFound(other.chars().take(80).collect())),
    })
}

async fn dispatch_0_3(
    service: &Arc<Service>,
    call: &Call,
    headers: &HeaderMap,
    request: Request,
) -> Result<Done, A2aError> {
    let params = request.params;
    Ok(match request.method.as_str() {
        "message/send" => {
            let sent = service.send(call, from_json(v0_3::send(&params)?)?).await?;
            Done::Result(v0_3::sent(&sent))
        }
        "message/stream" => Done::Updates(service.stream(call, from_json(v0_3::send(&params)?)?).await?, v0_3::update),
        "tasks/get" => Done::Result(v0_3::task(&service.get(call, from_json(params)?).await?)),
        "tasks/cancel" => Done::Result(v0_3::task(&service.cancel(call, from_json(params)?).await?)),
        "tasks/resubscribe" => Done::Updates(service.subscribe(call, from_json(params)?).await?, v0_3::update),
        "tasks/pushNotificationConfig/set" => {
            let made = service.create_push(call, from_json(v0_3::new_push(&params)?)?).await?;
            Done::Result(v0_3::push(&made))
        }
        "tasks/pushNotificationConfig/get" => {
            // Without an id the only one is meant.
            let task = params["id"].clone();
            if params["pushNotificationConfigId"].is_null() {
                let all = service.list_push(call, from_json(json!({ "taskId": task }))?).await?;
                let first = all.configs.first().ok_or_else(|| A2aError::TaskNotFound(text_of(&task)))?;
                Done::Result(v0_3::push(first))
            } else {
                let named = json!({ "taskId": task, "id": params["pushNotificationConfigId"] });
                Done::Result(v0_3::push(&service.get_push(call, from_json(named)?).await?))
            }
        }
        "tasks/pushNotificationConfig/list" => {
            let all = service.list_push(call, from_json(json!({ "taskId": params["id"] }))?).await?;
            Done::Result(all.configs.iter().map(v0_3::push).collect())
        }
        "tasks/pushNotificationConfig/delete" => {
            let named = json!({ "taskId": params["id"], "id": params["pushNotificationConfigId"] });
            service.delete_push(call, from_json(named)?).await?;
            Done::Result(Value::Null)
        }
        "agent/getAuthenticatedExtendedCard" => {
            Done::Result(v0_3::card(&service.extended_card(call, &reached(headers))?))
        }
        other if other.starts_with(|first: char| first.is_ascii_uppercase()) => {
            return Err(A2aError::Version("0.3".to_owned(), ", as 0.3, which nothing means, has no such method"));
        }
        other => return Err(A2aError::MethodNotFound(other.chars().take(80).collect())),
    })
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A list with all its fields, those that are empty too (3.1.4).
pub(super) fn listed(list: &crate::wire::v1::ListTasksResponse) -> Value {
    json!({
        "tasks": list.tasks.iter().map(to_json).collect::<Vec<_>>(),
        "nextPageToken": list.next_page_token,
        "pageSize": list.page_size,
        "totalSize": list.total_size,
    })
}

fn streamed(id: Value, updates: Updates, write: fn(&StreamResponse) -> Value) -> Response {
    let events = updates.map(move |update| {
        let said = match update {
            Ok(update) => json!({ "jsonrpc": "2.0", "id": id, "result": write(&update) }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error.json_rpc() }),
        };
        Ok::<_, Infallible>(Event::default().data(said.to_string()))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

fn failed(id: &Value, error: &A2aError) -> Response {
    // An error is an answer of JSON-RPC; only who has to show a credential is told so by HTTP as well.
    let status = match error {
        A2aError::Unauthenticated => StatusCode::UNAUTHORIZED,
        _ => StatusCode::OK,
    };
    let body = json!({ "jsonrpc": "2.0", "id": id, "error": error.json_rpc() });
    with_hints(error, (status, Json(body)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_request_is_told_why() {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", "application/json".parse().unwrap());
        let code =
            |body: &str| request(&headers, body.as_bytes()).err().map(|(_, error)| error.json_rpc()["code"].clone());
        assert_eq!(code("{"), Some(json!(-32700)));
        for wrong in ["[]", "7", r#"{"jsonrpc":"2.0","method":"GetTask"}"#, r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#]
        {
            assert_eq!(code(wrong), Some(json!(-32600)), "{wrong}");
        }
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[]}"#), Some(json!(-32602)));
        assert_eq!(code(r#"{"jsonrpc":"2.0","id":"a","method":"x"}"#), None);
    }
}
