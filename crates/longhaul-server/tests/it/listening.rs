//! A client of event streams, and events to be told of.

use std::{collections::VecDeque, time::Duration};

use longhaul_core::{EventDraft, Scope, SessionId, TaskId, TaskScope, TraceId};
use longhaul_store::{Store, StoreError, tasks};
use reqwest::Response;
use serde_json::{Value, json};

/// Longest time that a test waits for something.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// One block of a stream.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Block {
    pub(crate) id: Option<i64>,
    pub(crate) event: Option<String>,
    pub(crate) data: Option<Value>,
}

/// A client of server-sent events, written from the standard and not from the server.
pub(crate) struct Sse {
    response: Response,
    text: String,
    ready: VecDeque<Block>,
    /// What a browser would send as `Last-Event-ID`.
    pub(crate) last: Option<i64>,
}

impl Sse {
    pub(crate) async fn open(url: &str, key: &str, path: &str, last: Option<i64>) -> Result<Self, reqwest::Error> {
        let mut request = crate::house::client().get(format!("{url}{path}")).bearer_auth(key);
        request = request.header("accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last.to_string());
        }
        let response = request.send().await?;
        assert_eq!(response.status(), 200, "{}", response.text().await.unwrap());
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Ok(Self { response, text: String::new(), ready: VecDeque::new(), last })
    }

    /// The next block; nothing at the end, an error when the connection broke.
    pub(crate) async fn block(&mut self) -> Result<Option<Block>, reqwest::Error> {
        loop {
            if let Some(block) = self.ready.pop_front() {
                self.last = block.id.or(self.last);
                return Ok(Some(block));
            }
            let chunk =
                tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("a stream that says nothing");
            let Some(chunk) = chunk? else { return Ok(None) };
            self.text.push_str(std::str::from_utf8(&chunk).expect("events are JSON on one line"));
            while let Some(end) = self.text.find("\n\n") {
                let rest = self.text.split_off(end + 2);
                let block = std::mem::replace(&mut self.text, rest);
                self.ready.push_back(read(&block));
            }
        }
    }

    /// The next block that tells something.
    pub(crate) async fn told(&mut self) -> Option<Block> {
        loop {
            match self.block().await.unwrap() {
                Some(block) if block.data.is_some() => return Some(block),
                Some(_) => {}
                None => return None,
            }
        }
    }
}

fn read(text: &str) -> Block {
    let mut block = Block::default();
    for line in text.lines() {
        match line.split_once(": ") {
            Some(("id", id)) => block.id = Some(id.parse().unwrap()),
            Some(("event", event)) => block.event = Some(event.to_owned()),
            Some(("data", data)) => block.data = Some(serde_json::from_str(data).unwrap()),
            Some(("retry" | "", _)) | None => {}
            Some(other) => panic!("what is {other:?}?"),
        }
    }
    block
}

/// The scope of somebody's task, as events need it.
pub(crate) async fn owner(store: &Store, scope: &Scope, task: &TaskId) -> TaskScope {
    let (scope, task) = (scope.clone(), task.clone());
    let found = store.read(move |read| tasks::get(read, &scope, &task)).await.unwrap();
    found.unwrap().scope
}

/// A scope of a task that has no row: events need none.
pub(crate) fn task_scope(scope: &Scope, task: &str) -> TaskScope {
    TaskScope {
        scope: scope.clone(),
        session: SessionId::from_body("s1"),
        task: TaskId::from_body(task),
        trace: TraceId::from_body("t1"),
    }
}

/// Tells of number `n`, with something internal beside it.
pub(crate) async fn tell(store: &Store, owner: &TaskScope, n: u64) -> i64 {
    tell_padded(store, owner, n, 0).await
}

pub(crate) async fn tell_padded(store: &Store, owner: &TaskScope, n: u64, padding: usize) -> i64 {
    let owner = owner.clone();
    let written = store.write::<_, StoreError>(move |tx| {
        tx.append_event(&owner, None, None, EventDraft::internal("test.internal", json!({ "n": n })))?;
        let data = json!({ "n": n, "padding": "x".repeat(padding) });
        Ok(tx.append_event(&owner, None, None, EventDraft::business("test.told", data))?.seq)
    });
    written.await.unwrap()
}
