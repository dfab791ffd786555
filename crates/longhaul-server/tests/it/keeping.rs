//! Records, links, milestones, memories and conversations over HTTP.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use longhaul_core::Digest;
use longhaul_server::{DoorSettings, Limits, keys::Role};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::house::{Answer, House, send};

struct Desk {
    house: House,
    key: String,
    task: String,
}

impl Desk {
    async fn new(limits: Limits) -> Self {
        let house = House::with(limits).await;
        let key = house.key("acme", "ada", Role::Operator).await;
        let task = house.task("acme", "ada", "project_001").await.to_string();
        Self { house, key, task }
    }

    fn of_task(&self, path: &str) -> String {
        format!("/v1/tasks/{}/{path}", self.task)
    }

    async fn keep(&self, more: Value) -> Answer {
        let mut body = json!({ "collection": "drafts", "kind": "artifact", "summary": "a draft", "source": "agent" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.house.post(&self.key, &self.of_task("records"), &body).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.house.get(&self.key, path).await
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.house.post(&self.key, path, &body).await
    }

    async fn told(&self, kind: &str) -> usize {
        let page = self.get(&format!("/v1/events?limit=1000&types={kind}")).await.body;
        page["events"].as_array().unwrap().len()
    }
}

fn digest_header(content: &[u8]) -> String {
    format!("sha-256=:{}:", BASE64.encode(Digest::of(content).as_bytes()))
}

const SAID: &str = "records/upload?collection=logs&kind=observation&summary=a%20log&source=tool:shell";

#[tokio::test]
async fn a_record_is_kept_versioned_and_read_back_by_its_owner_only() {
    let desk = Desk::new(Limits::default()).await;
    let kept = desk.keep(json!({ "text": "first", "name": "report", "meta": { "pages": 3 } })).await;
    assert_eq!(kept.status, 201, "{kept:?}");
    assert_eq!(kept.body["digest"], Digest::of("first").to_string());
    let taken = desk.keep(json!({ "text": "second", "name": "report" })).await;
    assert_eq!((taken.status.as_u16(), taken.code()), (409, "name_taken"));
    let revised = desk.keep(json!({ "base64": BASE64.encode("second"), "name": "report", "revise": true })).await.body;
    let path = format!("/v1/records/{}", kept.body["record"].as_str().unwrap());
    let old = desk.get(&path).await.body;
    assert_eq!(
        (&old["superseded_by"], &old["version"], &old["meta"]["pages"]),
        (&revised["record"], &1.into(), &3.into())
    );
    assert_eq!((&old["task"], old["tenant"].is_null()), (&desk.task.as_str().into(), true));
    let content = desk.house.request(Method::GET, &format!("{path}/content")).bearer_auth(&desk.key);
    let content = content.send().await.unwrap();
    let headers = content.headers().clone();
    assert_eq!(content.bytes().await.unwrap(), "first");
    assert_eq!(headers["repr-digest"], digest_header(b"first"));
    for (name, value) in [
        ("content-type", "text/plain"),
        ("content-length", "5"),
        ("content-disposition", "attachment"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(headers[name], value);
    }
    let again = desk.house.request(Method::GET, &format!("{path}/content")).bearer_auth(&desk.key);
    assert_eq!(again.header("if-none-match", &headers["etag"]).send().await.unwrap().status(), 304);
    for (tenant, user) in [("other", "ada"), ("acme", "bob")] {
        let stranger = desk.house.key(tenant, user, Role::Owner).await;
        for path in [path.clone(), format!("{path}/content")] {
            assert_eq!(desk.house.get(&stranger, &path).await.status, 404);
        }
        assert_eq!(desk.house.post(&stranger, &desk.of_task("records"), &json!({})).await.status, 422);
    }
    for (more, status, at) in [
        (json!({ "text": "x", "base64": "eHh4" }), 409, "body"),
        (json!({ "base64": "?" }), 422, "body.base64"),
        (json!({ "text": "x", "summary": " " }), 422, "body.summary"),
        (json!({ "text": "x", "kind": "Not A Word" }), 422, "body.kind"),
        (json!({ "text": "x", "collection": "Ä" }), 422, "body.collection"),
        (json!({ "text": "x", "schema": { "type": "object" } }), 409, "content"),
        (json!({ "text": "x", "revise": true }), 409, "revise"),
    ] {
        let refused = desk.keep(more).await;
        assert_eq!((refused.status.as_u16(), refused.body["at"].as_str()), (status, Some(at)), "{refused:?}");
    }
    assert_eq!(desk.told("record.ingested").await, 2);
}

#[tokio::test]
async fn an_upload_is_whole_and_what_was_meant_or_nothing_at_all() {
    let doors = DoorSettings { upload_bytes_max: 3_000_000, ..DoorSettings::default() };
    let desk = Desk::new(Limits { doors, ..Limits::default() }).await;
    let content: Vec<u8> = (0..2_500_000_u32).map(|n| (n.wrapping_mul(n) / 7) as u8).collect();
    let upload = |content: Vec<u8>, digest: String| {
        let request = desk.house.request(Method::POST, &desk.of_task(SAID)).bearer_auth(&desk.key);
        let request = request.header("content-type", "application/x-log").header("repr-digest", digest);
        send(request.body(content))
    };
    let kept = upload(content.clone(), digest_header(&content)).await;
    assert_eq!(kept.status, 201, "{kept:?}");
    let record = kept.body["record"].as_str().unwrap();
    let shown = desk.get(&format!("/v1/records/{record}")).await.body;
    assert_eq!((&shown["size"], &shown["media_type"]), (&2_500_000.into(), &"application/x-log".into()));
    let path = format!("/v1/records/{record}/content");
    let back = desk.house.request(Method::GET, &path).bearer_auth(&desk.key).send().await.unwrap();
    assert!(back.bytes().await.unwrap() == content);
    let other = upload(content.clone(), digest_header(b"other")).await;
    assert_eq!((other.status.as_u16(), other.body["at"].as_str()), (422, Some("header.repr-digest")));
    let large = vec![0; 3_000_001];
    let refused = upload(large.clone(), digest_header(&large)).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (413, "too_large"));
    // Without a length it is noticed on the way.
    let chunks = futures::stream::iter(
        large.chunks(100_000).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec())).collect::<Vec<_>>(),
    );
    let request = desk.house.request(Method::POST, &desk.of_task(SAID)).bearer_auth(&desk.key);
    let refused = request.body(reqwest::Body::wrap_stream(chunks)).send().await;
    // The answer may get lost where the server closes before all is sent.
    assert!(refused.is_err() || refused.is_ok_and(|refused| refused.status() == 413));
    // Half a body, and then nobody.
    let host = desk.house.url.trim_start_matches("http://");
    let mut half = TcpStream::connect(host).await.unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {}\r\ncontent-length: 1000\r\n\r\nhalf",
        desk.of_task(SAID),
        desk.key
    );
    half.write_all(head.as_bytes()).await.unwrap();
    drop(half);
    let viewer = desk.house.key("acme", "ada", Role::Viewer).await;
    let refused = desk.house.request(Method::POST, &desk.of_task(SAID)).bearer_auth(&viewer).body("x");
    assert_eq!(send(refused).await.status, 403);
    assert_eq!(desk.told("record.ingested").await, 1);
}

#[tokio::test]
async fn what_is_linked_and_pointed_to_has_to_be_there() {
    let desk = Desk::new(Limits::default()).await;
    let (seen, decided) =
        (desk.keep(json!({ "text": "seen" })).await.body, desk.keep(json!({ "text": "so" })).await.body);
    let link = json!({ "source": seen["record"], "relation": "supports", "target": decided["record"], "note": "why" });
    for _ in 0..2 {
        assert_eq!(desk.post(&desk.of_task("links"), link.clone()).await.status, 200);
    }
    let around = format!("/v1/links?id={}", decided["record"].as_str().unwrap());
    let links = desk.get(&around).await.body;
    assert_eq!((links["links"].as_array().unwrap().len(), &links["links"][0]["note"]), (1, &"why".into()));
    let bob = desk.house.key("acme", "bob", Role::Owner).await;
    assert_eq!(desk.house.get(&bob, &around).await.status, 404);
    for (target, relation, status) in
        [("rec_nowhere", "supports", 404), ("nonsense", "supports", 404), ("rec_1", "Not A Word", 422)]
    {
        let dangling = json!({ "source": seen["record"], "relation": relation, "target": target });
        let refused = desk.post(&desk.of_task("links"), dangling).await;
        assert_eq!(refused.status, status, "{refused:?}");
    }
    let milestones = desk.of_task("milestones");
    let reached = |revise: bool, digest: Value| {
        let refs = json!([{ "record": seen["record"], "digest": digest }]);
        desk.post(&milestones, json!({ "name": "reviewed", "refs": refs, "revise": revise }))
    };
    assert_eq!(reached(false, seen["digest"].clone()).await.status, 201);
    let taken = reached(false, seen["digest"].clone()).await;
    assert_eq!((taken.status.as_u16(), taken.code()), (409, "milestone_taken"));
    let changed = reached(true, decided["digest"].clone()).await;
    assert_eq!((changed.status.as_u16(), changed.code()), (409, "digest_mismatch"));
    assert_eq!(reached(true, seen["digest"].clone()).await.body["version"], 2);
    let listed = desk.get(&desk.of_task("milestones")).await.body;
    assert_eq!((listed["items"].as_array().unwrap().len(), &listed["items"][0]["version"]), (2, &2.into()));
}

#[tokio::test]
async fn memories_are_added_found_and_forgotten_by_whoever_may() {
    let desk = Desk::new(Limits::default()).await;
    let added = desk.post("/v1/memories", json!({ "content": "侧栏有新建会话按钮", "tags": ["ui"] })).await;
    assert_eq!((added.status.as_u16(), &added.body["source"]), (201, &"user".into()), "{added:?}");
    desk.post("/v1/memories", json!({ "content": "the printer is on the second floor", "source": "outside" })).await;
    let found = desk.post("/v1/memories/search", json!({ "query": "会话" })).await;
    assert_eq!(found.body["memories"][0]["memory"], added.body["memory"], "{found:?}");
    assert_eq!(found.body["mode"], "keyword");
    let viewer = desk.house.key("acme", "ada", Role::Viewer).await;
    let asked = json!({ "query": "printer", "limit": 1 });
    let seen = desk.house.post(&viewer, "/v1/memories/search", &asked).await;
    assert_eq!((seen.status.as_u16(), &seen.body["memories"][0]["source"]), (200, &"outside".into()));
    assert_eq!(desk.house.post(&viewer, "/v1/memories", &json!({ "content": "x" })).await.status, 403);
    let other = desk.house.key("other", "ada", Role::Owner).await;
    assert_eq!(desk.house.post(&other, "/v1/memories/search", &asked).await.body["memories"], json!([]));
    let path = format!("/v1/memories/{}", added.body["memory"].as_str().unwrap());
    assert_eq!(desk.house.get(&other, &path).await.status, 404);
    for wrong in [
        json!({ "content": "" }),
        json!({ "content": "x", "kind": "rumour" }),
        json!({ "content": "x", "source": "harness" }),
        json!({ "content": "x", "namespace": "Main" }),
        json!({ "content": "x", "unknown": 1 }),
    ] {
        let refused = desk.post("/v1/memories", wrong).await;
        assert_eq!(refused.status, 422, "{refused:?}");
    }
    for others in ["ws:project", "talk:ada"] {
        let refused = desk.post("/v1/memories", json!({ "content": "x", "namespace": others })).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (409, "written_by_others"));
    }
    let listed = desk.get("/v1/memories?limit=1").await.body;
    assert_eq!((listed["items"].as_array().unwrap().len(), listed["next"].is_string()), (1, true));
    assert_eq!(send(desk.house.request(Method::DELETE, &path).bearer_auth(&desk.key)).await.status, 200);
    assert_eq!(desk.get(&path).await.status, 404);
    assert_eq!(desk.post("/v1/memories/search", json!({ "query": "会话" })).await.body["memories"], json!([]));
}

#[tokio::test]
async fn a_conversation_is_held_searched_and_deleted() {
    let desk = Desk::new(Limits::default()).await;
    let path = "/v1/sessions/sess_talk/messages";
    let say = |role: &'static str, content: &'static str, name: &'static str| {
        let body = json!({ "task": desk.task, "role": role, "content": content });
        let request = desk.house.request(Method::POST, path).bearer_auth(&desk.key);
        send(request.header("idempotency-key", name).json(&body))
    };
    let said = say("user", "which floor is the printer on?", "m1").await;
    assert_eq!((said.status.as_u16(), &said.body["seq"]), (201, &1.into()), "{said:?}");
    // Repeated with its name it is said once.
    assert_eq!(say("user", "which floor is the printer on?", "m1").await.body, said.body);
    say("assistant", "on the second floor", "m2").await;
    let part = desk.get(&format!("{path}?limit=1")).await.body;
    assert_eq!((&part["items"][0]["message"], &part["next"]), (&said.body["message"], &"1".into()));
    let rest = desk.get(&format!("{path}?after=1")).await.body;
    assert_eq!((&rest["items"][0]["role"], rest["next"].is_null()), (&"assistant".into(), true));
    let found = desk.post("/v1/conversations/search", json!({ "query": "printer floor", "tokens": 200 })).await.body;
    assert_eq!(found["hits"][0]["session"], "sess_talk", "{found}");
    let memo = |text: &str, version: u32| {
        let request = desk.house.request(Method::PUT, "/v1/sessions/sess_talk/memo").bearer_auth(&desk.key);
        send(request.json(&json!({ "memo": text, "version": version })))
    };
    assert_eq!(memo("printers", 0).await.body["version"], 1);
    assert_eq!(memo("others", 0).await.code(), "memo_changed");
    assert_eq!(desk.get("/v1/sessions").await.body["items"][0]["memo"], "printers");
    let bob = desk.house.key("acme", "bob", Role::Owner).await;
    for path in [path, "/v1/sessions/sess_talk"] {
        assert_eq!(desk.house.get(&bob, path).await.status, 404);
    }
    let theirs = desk.house.task("acme", "bob", "project_002").await;
    let into_anothers = json!({ "task": theirs, "role": "user", "content": "hello" });
    assert_eq!(desk.house.post(&bob, path, &into_anothers).await.status, 404);
    let refs = json!([{ "record": "rec_1", "digest": "x" }]);
    for (wrong, status) in [
        (json!({ "task": desk.task, "role": "user", "content": " " }), 409),
        (json!({ "task": desk.task, "role": "tool", "content": "an answer to nothing" }), 409),
        (json!({ "task": desk.task, "role": "developer", "content": "x" }), 409),
        (json!({ "role": "user", "content": "x" }), 422),
        (json!({ "task": desk.task, "role": "user", "content": "x", "attachments": refs }), 422),
    ] {
        let refused = desk.post(path, wrong).await;
        assert_eq!(refused.status, status, "{refused:?}");
    }
    let long = desk.post(path, json!({ "task": desk.task, "role": "user", "content": "x".repeat(70_000) })).await;
    assert_eq!(long.code(), "too_large");
    assert!(long.body["detail"].as_str().unwrap().ends_with("ingest it, keep the ref"));
    let gone = send(desk.house.request(Method::DELETE, "/v1/sessions/sess_talk").bearer_auth(&desk.key)).await;
    assert_eq!((gone.status.as_u16(), &gone.body["messages"]), (200, &2.into()));
    assert_eq!(desk.get("/v1/sessions/sess_talk").await.status, 404);
    let found = desk.post("/v1/conversations/search", json!({ "query": "printer floor" })).await.body;
    assert_eq!(found["hits"], json!([]));
}

#[tokio::test]
async fn shared_knowledge_is_what_an_owner_approved() {
    let desk = Desk::new(Limits::default()).await;
    let owner = desk.house.key("acme", "ada", Role::Owner).await;
    let as_owner = |path: String, body: Value| {
        let (house, owner) = (&desk.house, owner.clone());
        async move { house.post(&owner, &path, &body).await }
    };
    let schema = json!({ "schema": "port@1", "definition": { "type": "integer" } });
    let defined = desk.house.request(Method::PUT, "/v1/knowledge/schemas").bearer_auth(&owner).json(&schema);
    assert_eq!(send(defined).await.status, 200);
    let seen = desk.keep(json!({ "text": "billing listens on 8443" })).await.body;
    let proposal = |value: Value, evidence: &Value| {
        let said = json!({ "schema": "port@1", "value": value });
        let body = json!({ "key": "billing/port", "said": said, "evidence": [evidence], "agent": "scout" });
        let (desk, path) = (&desk, desk.of_task("proposals"));
        async move { desk.post(&path, body).await }
    };
    let made = proposal(json!(8443), &seen["record"]).await;
    assert_eq!((made.status.as_u16(), &made.body["state"]), (201, &"pending".into()), "{made:?}");
    assert_eq!(proposal(json!("a word"), &seen["record"]).await.status, 409);
    assert_eq!(proposal(json!(1), &json!("rec_nowhere")).await.status, 404);
    let path = format!("/v1/review/{}", made.body["proposal"].as_str().unwrap());
    let asked = json!({ "query": "billing port" });
    assert_eq!(desk.post("/v1/knowledge/search", asked.clone()).await.body["facts"], json!([]));
    // Whoever proposes does not decide.
    assert_eq!(desk.post(&format!("{path}/approve"), json!({})).await.code(), "forbidden");
    let approved = as_owner(format!("{path}/approve"), json!({ "why": "seen it" })).await;
    assert_eq!((approved.status.as_u16(), &approved.body["version"]), (200, &1.into()), "{approved:?}");
    assert_eq!(as_owner(format!("{path}/reject"), json!({})).await.status, 409);
    let facts = desk.post("/v1/knowledge/search", asked).await.body;
    assert_eq!(facts["facts"][0]["version"]["value"], 8443, "{facts}");
    let second = proposal(json!(9443), &seen["record"]).await.body;
    as_owner(format!("/v1/review/{}/approve", second["proposal"].as_str().unwrap()), json!({})).await;
    let back = as_owner("/v1/knowledge/rollback".into(), json!({ "key": "billing/port", "version": 1.0 })).await;
    assert_eq!((&back.body["value"], &back.body["of_version"]), (&8443.into(), &1.into()), "{back:?}");
    assert_eq!(desk.get("/v1/knowledge?key=billing/port").await.body["items"].as_array().unwrap().len(), 3);
    let other = desk.house.key("other", "ada", Role::Owner).await;
    assert_eq!(desk.house.get(&other, &path).await.status, 404);
    assert_eq!(desk.house.get(&other, "/v1/knowledge").await.body["items"], json!([]));
}

#[tokio::test]
async fn a_pack_stays_within_its_budget_and_writes_nothing() {
    let desk = Desk::new(Limits::default()).await;
    for n in 0..5 {
        desk.keep(json!({ "text": format!("the printer {n} is on floor {n}. ").repeat(40) })).await;
    }
    let told = desk.told("*").await;
    let pack = desk.post(&desk.of_task("context"), json!({ "goal": "find the printer", "budget_tokens": 500.0 })).await;
    assert_eq!(pack.status, 200, "{pack:?}");
    assert!(pack.body["used_tokens"].as_u64().unwrap() <= 500);
    let (items, omitted) =
        (pack.body["items"].as_array().unwrap().len(), pack.body["omitted"].as_array().unwrap().len());
    assert_eq!(items + omitted, 5, "{pack:?}");
    let viewer = desk.house.key("acme", "ada", Role::Viewer).await;
    assert_eq!(desk.house.post(&viewer, "/v1/context", &json!({ "goal": "the printer" })).await.status, 200);
    let unknown = desk.post("/v1/context", json!({ "goal": "x", "profile": "poetry" })).await;
    assert!(unknown.body["detail"].as_str().unwrap().contains("software_dev"), "{unknown:?}");
    let found = desk.post("/v1/records/search", json!({ "query": "printer 3", "limit": 2 })).await.body;
    assert_eq!(found["hits"].as_array().unwrap().len(), 2);
    let listed = desk.get(&desk.of_task("records?collection=drafts&limit=2")).await.body;
    assert_eq!((listed["items"][0]["seq"].as_i64(), listed["next"].as_str()), (Some(5), Some("4")));
    assert_eq!(desk.told("*").await, told);
}
