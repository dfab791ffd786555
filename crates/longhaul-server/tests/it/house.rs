//! A server with a store of its own, and clients of it.

use longhaul_core::{Ambient, Scope, TaskId, TenantId, ThreadId, UserId};
use longhaul_durable::Runtime;
use longhaul_memory::Memory;
use longhaul_server::{
    Gateway, Limits, Parts, Server, ServerSettings,
    keys::{NewKey, Role},
};
use longhaul_store::{Store, StoreError, StoreSettings, tasks};
use longhaul_testbed::{Database, PrivateCluster};
use reqwest::{Method, StatusCode};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A running server. It ends with the test's runtime.
pub(crate) struct House {
    pub(crate) url: String,
    pub(crate) gateway: Gateway,
    pub(crate) store: Store,
    pub(crate) dir: TempDir,
    pub(crate) shutdown: CancellationToken,
    pub(crate) serving: JoinHandle<()>,
    http: reqwest::Client,
    /// Outlives the store.
    database: Option<Database<'static>>,
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// The code of a problem, checked to be one.
    pub(crate) fn code(&self) -> &str {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        assert_eq!(self.body["status"], self.status.as_u16(), "{self:?}");
        self.body["code"].as_str().expect("a problem has a code")
    }
}

pub(crate) fn scope(tenant: &str, user: &str) -> Scope {
    Scope { tenant: TenantId::from_body(tenant), user: UserId::from_body(user) }
}

impl House {
    pub(crate) async fn new() -> Self {
        Self::with(Limits::default()).await
    }

    /// On the store that the suite is run with.
    pub(crate) async fn with(limits: Limits) -> Self {
        let postgres = std::env::var("LONGHAUL_TEST_STORE").is_ok_and(|store| store == "postgres");
        let dir = tempfile::tempdir().unwrap();
        let database = postgres.then(|| PrivateCluster::shared().unwrap().create_database().unwrap());
        let settings = match &database {
            Some(database) => StoreSettings::from_url(&database.url(), dir.path()).unwrap(),
            None => StoreSettings::new(dir.path()),
        };
        let store = open(settings).await;
        let gateway = gateway(&store, limits);
        let server = Server::bind(gateway.clone(), ServerSettings::new("127.0.0.1:0".parse().unwrap())).await.unwrap();
        let (url, shutdown) = (server.url(), CancellationToken::new());
        let serving = tokio::spawn(server.run(shutdown.clone()));
        Self { url, gateway, store, dir, shutdown, serving, http: client(), database: database }
    }

    /// Another handle of the store, as another process has one.
    pub(crate) async fn second_store(&self) -> Store {
        open(match &self.database {
            Some(database) => StoreSettings::from_url(&database.url(), self.dir.path()).unwrap(),
            None => StoreSettings::new(self.dir.path()),
        })
        .await
    }

    /// A key, as its text.
    pub(crate) async fn key(&self, tenant: &str, user: &str, role: Role) -> String {
        let new = NewKey { role, ..NewKey::first(scope(tenant, user)) };
        self.gateway.keys().create(new).await.unwrap().secret.expose().to_owned()
    }

    /// A task made beside the gateway.
    pub(crate) async fn task(&self, tenant: &str, user: &str, thread: &str) -> TaskId {
        let (scope, thread) = (scope(tenant, user), thread.parse::<ThreadId>().unwrap());
        let new = tasks::NewTask {
            thread,
            kind: "test".into(),
            title: "a task".into(),
            dir: None,
            model: None,
            data: serde_json::json!({}),
        };
        let made = self.store.write::<_, StoreError>(move |tx| tasks::create(tx, &scope, None, new)).await.unwrap();
        made.scope.task
    }

    /// A request without a key, to be completed.
    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    pub(crate) async fn get(&self, key: &str, path: &str) -> Answer {
        send(self.request(Method::GET, path).bearer_auth(key)).await
    }

    pub(crate) async fn post(&self, key: &str, path: &str, body: &Value) -> Answer {
        send(self.request(Method::POST, path).bearer_auth(key).json(body)).await
    }
}

/// A client that trusts nobody but plain loopback; none of the machine's proxies.
pub(crate) fn client() -> reqwest::Client {
    // An error means that another test has done so.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

pub(crate) async fn open(settings: StoreSettings) -> Store {
    let sets = [
        longhaul_durable::MIGRATIONS,
        longhaul_memory::MIGRATIONS,
        longhaul_workspace::MIGRATIONS,
        longhaul_server::MIGRATIONS,
    ];
    Store::open(settings, Ambient::system(), &sets).await.unwrap()
}

pub(crate) fn gateway(store: &Store, limits: Limits) -> Gateway {
    let runtime = Runtime::new(store.clone(), store.ambient().clone());
    let memory = Memory::new(store.clone(), None);
    Gateway::new(Parts { store: store.clone(), runtime, memory, graphs: ["report".to_owned()].into() }, limits)
}

pub(crate) async fn send(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let text = response.text().await.unwrap();
    let body = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).expect(&text) };
    Answer { status, headers, body }
}
