//! Work through the gateway: an execution is begun through the queue, waits for an answer, gets it and ends.

use std::time::{Duration, Instant};

use longhaul_durable::{END, GraphBuilder, GraphState, Runtime, START, Wait, Worker};
use longhaul_server::keys::Role;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::house::{Answer, House};

#[derive(Debug, Clone, Default, Serialize, Deserialize, GraphState)]
struct Report {
    #[serde(default)]
    topic: String,
    #[serde(default)]
    approved: bool,
}

/// A worker that serves the graph `report`: it asks whether the report may be published.
fn worker(house: &House) -> (CancellationToken, tokio::task::JoinHandle<()>) {
    let graph = GraphBuilder::<Report>::new("report", 1)
        .node("ask", |ctx, state| async move {
            let question = Wait::approval("publish?").payload(json!({ "topic": state.topic }));
            let answer = ctx.pause_for::<bool>(question).await?;
            Ok(ReportUpdate::new().approved(answer.into_value().unwrap_or_default()))
        })
        .edge(START, "ask")
        .edge("ask", END)
        .build()
        .unwrap();
    let (store, stop) = (house.store.clone(), CancellationToken::new());
    let worker = Worker::new(Runtime::new(store.clone(), store.ambient().clone())).serve(graph);
    let ended = stop.clone();
    (stop, tokio::spawn(async move { drop(worker.run(ended).await) }))
}

/// Asks until the answer is as wanted.
async fn until(house: &House, key: &str, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let since = Instant::now();
    loop {
        let answer = house.get(key, path).await;
        if answer.status == 200 && wanted(&answer.body) {
            return answer.body;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "{path}: {answer:?}");
        // Its own limit of requests is what it must not reach.
        tokio::time::timeout(Duration::from_millis(20), std::future::pending::<()>()).await.ok();
    }
}

async fn start(house: &House, key: &str, title: &str) -> (String, Answer) {
    let task = house.post(key, "/v1/tasks", &json!({ "title": title })).await;
    let task = task.body["task"].as_str().unwrap().to_owned();
    let asked = json!({ "task": task, "graph": "report", "input": { "topic": title } });
    let started = house.post(key, "/v1/executions", &asked).await;
    (task, started)
}

#[tokio::test]
async fn an_execution_is_begun_waits_is_answered_and_ends() {
    let house = House::new().await;
    let (ada, viewer) = (house.key("acme", "ada", Role::Operator).await, house.key("acme", "ada", Role::Viewer).await);
    let bob = house.key("acme", "bob", Role::Owner).await;
    let (stop, working) = worker(&house);
    let (task, started) = start(&house, &ada, "tides").await;
    assert_eq!(started.status, 202, "{started:?}");
    assert_eq!(started.headers["location"], format!("/v1/queue/{}", started.body["entry"].as_str().unwrap()));
    assert_eq!(started.body["trace"], started.headers["x-request-id"].to_str().unwrap());
    let waits = until(&house, &viewer, "/v1/waits", |body| body["items"] != json!([])).await;
    let wait = &waits["items"][0];
    assert_eq!((&wait["name"], &wait["payload"]["topic"]), (&"publish?".into(), &"tides".into()));
    let (wait, execution) = (wait["wait"].as_str().unwrap(), wait["execution"].as_str().unwrap());
    let view = until(&house, &viewer, &format!("/v1/executions/{execution}"), |body| body["status"] == "waiting").await;
    assert_eq!((&view["task"], &view["trace"]), (&task.clone().into(), &started.body["trace"]));
    let place = house.get(&viewer, &format!("/v1/tasks/{task}/where")).await;
    assert!(place.status == 200 && place.body.to_string().contains(wait), "{place:?}");
    let whose = house.get(&viewer, &format!("/v1/tasks/{task}/whose")).await;
    assert!(whose.status == 200 && whose.body.to_string().contains("user_ada"), "{whose:?}");
    let told = house.get(&viewer, &format!("/v1/explain?id={wait}")).await;
    assert!(told.status == 200 && told.body["kind"] == "wait", "{told:?}");

    // A note, from whoever may.
    let note =
        house.post(&ada, &format!("/v1/executions/{execution}/notes"), &json!({ "note": "mind the moon" })).await;
    assert_eq!((note.status.as_u16(), &note.body["text"]), (201, &"mind the moon".into()));

    // Who may not answer: a viewer, and another user of the tenant.
    let path = format!("/v1/waits/{wait}/answer");
    assert_eq!(house.post(&viewer, &path, &json!({ "value": true })).await.status, 403);
    assert_eq!(house.post(&bob, &path, &json!({ "value": true })).await.code(), "not_found");
    assert_eq!(house.get(&bob, &format!("/v1/executions/{execution}")).await.code(), "not_found");
    let answered = house.post(&ada, &path, &json!({ "value": true })).await;
    assert_eq!((answered.status.as_u16(), &answered.body["repeated"]), (200, &false.into()), "{answered:?}");
    let actor = answered.body["wait"]["actor"].as_str().unwrap();
    assert_eq!(actor, format!("user_ada/{}", &ada[3..15]), "the actor is whose key it is");
    assert_eq!(house.post(&ada, &path, &json!({ "value": true })).await.body["repeated"], true);
    assert_eq!(house.post(&ada, &path, &json!({ "value": false })).await.code(), "already_answered");

    until(&house, &viewer, &format!("/v1/executions/{execution}"), |body| body["status"] == "completed").await;
    let history = house.get(&viewer, &format!("/v1/executions/{execution}/history?limit=1")).await.body;
    assert_eq!((&history["items"][0]["superstep"], &history["next"]), (&1.into(), &"1".into()));
    let story = house.get(&viewer, &format!("/v1/executions/{execution}/story")).await.body;
    let kinds: Vec<_> = story["moments"].as_array().unwrap().iter().map(|moment| &moment["kind"]).collect();
    assert!(kinds.contains(&&"asked".into()) && kinds.contains(&&"checkpoint".into()), "{kinds:?}");
    // Another end of it is not there any more.
    let late = house.post(&ada, &format!("/v1/executions/{execution}/cancel"), &json!({ "reason": "late" })).await;
    assert_eq!((late.status.as_u16(), &late.body["cancelled"]), (200, &false.into()));
    assert_eq!(house.post(&ada, &format!("/v1/executions/{execution}/retry"), &json!({})).await.code(), "not_parked");
    stop.cancel();
    working.await.unwrap();
}

#[tokio::test]
async fn what_waits_is_cancelled_and_what_nobody_serves_is_withdrawn() {
    let house = House::new().await;
    let ada = house.key("acme", "ada", Role::Operator).await;
    let owner = house.key("acme", "root", Role::Owner).await;
    // Nobody serves it yet.
    let (_, started) = start(&house, &ada, "one").await;
    let entry = started.body["entry"].as_str().unwrap();
    assert_eq!(house.get(&ada, &format!("/v1/queue/{entry}")).await.body["status"], "queued");
    assert_eq!(house.post(&ada, &format!("/v1/queue/{entry}/retry"), &json!({})).await.code(), "entry_status");
    let gone = house.request(reqwest::Method::DELETE, &format!("/v1/queue/{entry}")).bearer_auth(&ada);
    assert_eq!(crate::house::send(gone).await.status, 200);
    assert_eq!(house.get(&ada, "/v1/queue").await.body["items"], json!([]));

    let (stop, working) = worker(&house);
    let (task, _) = start(&house, &ada, "two").await;
    let found =
        until(&house, &ada, &format!("/v1/executions?task={task}&status=waiting"), |body| body["items"] != json!([]))
            .await;
    let execution = found["items"][0]["execution"].as_str().unwrap();
    let path = format!("/v1/executions/{execution}/cancel");
    let ended = house.post(&ada, &path, &json!({ "reason": "not needed" })).await;
    assert_eq!((ended.status.as_u16(), &ended.body["cancelled"]), (200, &true.into()), "{ended:?}");
    let view = until(&house, &ada, &format!("/v1/executions/{execution}"), |body| body["status"] == "cancelled").await;
    assert_eq!((&view["cancel_reason"], &view["waits"]), (&"not needed".into(), &json!([])));
    let log = house.get(&owner, &format!("/v1/audit?target={execution}")).await.body;
    let outcomes: Vec<_> = log["items"].as_array().unwrap().iter().map(|entry| &entry["outcome"]).collect();
    assert!(outcomes.contains(&&"asked".into()) && outcomes.contains(&&"done".into()), "{log}");
    stop.cancel();
    working.await.unwrap();
}

#[tokio::test]
async fn only_graphs_that_the_server_was_told_of_are_begun_and_only_for_ones_own_tasks() {
    let house = House::new().await;
    let (ada, bob) = (house.key("acme", "ada", Role::Operator).await, house.key("acme", "bob", Role::Operator).await);
    let task = house.task("acme", "ada", "mine").await;
    let wish = |graph: &str| json!({ "task": task, "graph": graph, "input": {} });
    let unknown = house.post(&ada, "/v1/executions", &wish("harness")).await;
    assert_eq!((unknown.status.as_u16(), unknown.code()), (404, "no_such_graph"));
    assert!(unknown.body["detail"].as_str().unwrap().contains("report"), "it names those it knows: {unknown:?}");
    assert_eq!(house.post(&bob, "/v1/executions", &wish("report")).await.code(), "not_found");
    assert_eq!(house.post(&ada, "/v1/executions", &wish("report")).await.status, 202);
    assert_eq!(house.post(&ada, "/v1/executions", &wish("report")).await.code(), "thread_queued");
}

#[tokio::test]
async fn lists_come_in_pages_that_neither_repeat_nor_miss_anything() {
    let house = House::new().await;
    let (ada, bob) = (house.key("acme", "ada", Role::Operator).await, house.key("acme", "bob", Role::Operator).await);
    let mut made = Vec::new();
    for number in 0..7 {
        made.push(house.task("acme", "ada", &format!("thread-{number}")).await.to_string());
        house.task("acme", "bob", &format!("other-{number}")).await;
    }
    let (mut seen, mut after, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = house.get(&ada, &format!("/v1/tasks?limit=3{after}")).await.body;
        seen.extend(page["items"].as_array().unwrap().iter().map(|task| task["task"].as_str().unwrap().to_owned()));
        pages += 1;
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    seen.sort();
    made.sort();
    assert_eq!((seen, pages), (made, 3));
    assert_eq!(house.get(&bob, "/v1/tasks").await.body["items"].as_array().unwrap().len(), 7);
}
