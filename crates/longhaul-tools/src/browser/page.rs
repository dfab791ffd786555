//! One page in a profile of its own: opening, loading, dialogs, pictures. A page may open further tabs; what is asked of
//! it then means the current one (`tabs`). What is on it is `look`'s, what is done to it `act`'s, what it hands over
//! `paper`'s. Invariant: a page's profile is gone when the page is dropped.

use std::{path::PathBuf, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    BrowserSettings,
    activity::{Activity, ArmedDialog},
    error::{BrowserError, PageError},
    observe::{Observer, TabId},
    process::{Folder, Process},
    router::Router,
    setup::{HEIGHT, Setup, WIDTH},
};

/// A proxy where nothing listens: what is not the application goes there and fails (port 9 is `discard`).
const NOWHERE: &str = "http://127.0.0.1:9";

/// An open page of one application.
pub struct Page {
    pub(super) process: Arc<Process>,
    pub(super) observer: Arc<Observer>,
    pub(super) act_timeout: Duration,
    pub(super) uploads: PathBuf,
    pub(super) downloads: PathBuf,
    pub(super) load_timeout: Duration,
    pub(super) context: String,
    router: Arc<Router>,
    base_url: String,
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Page").field("base_url", &self.base_url).finish_non_exhaustive()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// What is reached without the proxy that leads nowhere: the application, by its address and, on this machine's
/// loopback, by its other name. To a browser the two are different sites, so an application can embed itself.
fn reachable(base_url: &str) -> String {
    let host = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    match host.strip_prefix("127.0.0.1:") {
        Some(port) => format!("<-loopback>;{host};localhost:{port}"),
        None => format!("<-loopback>;{host}"),
    }
}

impl Page {
    pub(super) async fn open(
        process: Arc<Process>,
        router: Arc<Router>,
        settings: &BrowserSettings,
        base_url: &str,
    ) -> Result<Self, BrowserError> {
        let wire = process.wire.clone();
        let base_url = base_url.trim_end_matches('/').to_owned();
        let context = json!({
            "disposeOnDetach": true, "proxyServer": NOWHERE, "proxyBypassList": reachable(&base_url),
        });
        let context = text(&wire.call(None, "Target.createBrowserContext", context).await?["browserContextId"]);
        let observer = Arc::new(Observer::new(wire.clone(), base_url.clone(), Setup::default()));
        router.enter(&context, &observer);
        let page = Self {
            uploads: process.folder.path.join(format!("uploads-{context}")),
            downloads: process.folder.path.join(format!("downloads-{context}")),
            process,
            observer,
            act_timeout: settings.act_timeout,
            load_timeout: settings.load_timeout,
            context,
            router,
            base_url,
        };
        page.prepare(settings.call_timeout).await?;
        Ok(page)
    }

    /// Opens the first tab. It is prepared as every other tab is, when the browser tells that it is there.
    async fn prepare(&self, limit: Duration) -> Result<(), BrowserError> {
        let wire = &self.process.wire;
        let refused = |method: &'static str, error: std::io::Error| BrowserError::Refused {
            method,
            message: format!("cannot make {}: {error}", self.downloads.display()),
        };
        std::fs::create_dir_all(&self.downloads)
            .and_then(|()| Folder::adopt(&self.downloads))
            .map_err(|error| refused("Browser.setDownloadBehavior", error))?;
        let downloads = json!({
            "behavior": "allowAndName", "browserContextId": self.context, "downloadPath": self.downloads,
            "eventsEnabled": true,
        });
        let target = json!({"url": "about:blank", "browserContextId": self.context, "width": WIDTH, "height": HEIGHT});
        let (_, made) = futures::future::try_join(
            wire.call(None, "Browser.setDownloadBehavior", downloads),
            wire.call(None, "Target.createTarget", target),
        )
        .await?;
        let target = text(&made["targetId"]);
        if !self.observer.until(limit, |seen| seen.tab(&target).is_some()).await {
            let waited_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
            return Err(BrowserError::Silent { method: "Target.attachedToTarget", waited_ms });
        }
        // Its answer comes after all that was posted to prepare it.
        self.world(&self.spot()?).await?;
        Ok(())
    }

    /// The current tab.
    pub(super) fn tab(&self) -> Result<TabId, BrowserError> {
        if !self.process.wire.is_open() {
            return Err(BrowserError::Gone);
        }
        self.observer.tab().ok_or(BrowserError::NoTab)
    }

    /// Calls a method on the current tab.
    pub(super) async fn call(&self, method: &'static str, params: Value) -> Result<Value, BrowserError> {
        self.call_on(&self.tab()?.session, method, params).await
    }

    pub(super) async fn call_on(
        &self,
        session: &str,
        method: &'static str,
        params: Value,
    ) -> Result<Value, BrowserError> {
        self.process.wire.call(Some(session), method, params).await
    }

    /// The application's address.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Opens a page of the application and waits until it has loaded.
    ///
    /// # Errors
    /// When it does not load, or a dialog keeps the page that is open.
    pub async fn goto(&self, path: &str) -> Result<(), PageError> {
        let url = format!("{}{path}", self.base_url);
        let failed = |reason: String| PageError::NotLoaded { url: url.clone(), reason };
        let tab = self.tab()?;
        let before = self.observer.loads(&tab.target);
        let answer = self.call_on(&tab.session, "Page.navigate", json!({"url": url})).await?;
        if answer["isDownload"] == true {
            return Ok(());
        }
        if let Some(error) = answer["errorText"].as_str() {
            return Err(self.fault().unwrap_or_else(|| failed(error.to_owned())));
        }
        // Without a loader only the part after # has changed.
        if let Some(loader) = answer["loaderId"].as_str() {
            let loaded = tokio::select! {
                loaded = self.observer.loaded(&tab.target, loader, self.load_timeout) => loaded,
                () = self.stayed(&tab, before) => true,
            };
            self.after_load(loaded, failed)?;
        }
        Ok(())
    }

    async fn stayed(&self, tab: &TabId, before: (u64, u64)) {
        self.observer.loaded_since(&tab.target, (u64::MAX, before.1), Duration::MAX).await;
    }

    /// Loads the page again and waits until it has loaded.
    ///
    /// # Errors
    /// When it does not load.
    pub async fn reload(&self) -> Result<(), PageError> {
        let tab = self.tab()?;
        let before = self.observer.loads(&tab.target);
        self.call_on(&tab.session, "Page.reload", json!({})).await?;
        let loaded = self.observer.loaded_since(&tab.target, before, self.load_timeout).await;
        let url = self.url().await.unwrap_or_else(|_| self.base_url.clone());
        self.after_load(loaded, |reason| PageError::NotLoaded { url, reason })?;
        let path = self.url().await?;
        if path.starts_with("chrome-error:") {
            return Err(PageError::NotLoaded {
                url: self.base_url.clone(),
                reason: "the application does not answer".into(),
            });
        }
        Ok(())
    }

    fn after_load(&self, loaded: bool, failed: impl FnOnce(String) -> PageError) -> Result<(), PageError> {
        if !self.process.wire.is_open() {
            return Err(BrowserError::Gone.into());
        }
        if self.observer.crashed() {
            return Err(PageError::Crashed);
        }
        if loaded {
            return Ok(());
        }
        Err(failed(format!("it was still loading after {} ms", self.load_timeout.as_millis())))
    }

    /// The URL that is open.
    ///
    /// # Errors
    /// When the browser has gone.
    pub async fn url(&self) -> Result<String, BrowserError> {
        let history = self.call("Page.getNavigationHistory", json!({})).await?;
        let current = history["currentIndex"].as_u64().and_then(|index| usize::try_from(index).ok()).unwrap_or(0);
        Ok(text(&history["entries"][current]["url"]))
    }

    /// Says which dialog comes next and how to answer it. Dialogs nobody armed are dismissed and become a fault.
    pub fn arm(&self, dialog: ArmedDialog) {
        self.observer.arm(dialog);
    }

    /// Waits until every armed dialog has been answered.
    ///
    /// # Errors
    /// The first dialog that did not open, or was another one.
    pub async fn dialogs_done(&self) -> Result<(), PageError> {
        self.observer.dialogs_done(self.act_timeout).await.map_err(PageError::Dialog)
    }

    /// What the page may not survive unnoticed: an unexpected dialog since the last call, a crash, a dead browser.
    #[must_use]
    pub fn fault(&self) -> Option<PageError> {
        if !self.process.wire.is_open() {
            return Some(BrowserError::Gone.into());
        }
        if self.observer.crashed() {
            return Some(PageError::Crashed);
        }
        self.observer.take_fault().map(PageError::Dialog)
    }

    /// Whether nothing can be done with the page any more.
    pub(super) fn is_lost(&self) -> bool {
        !self.process.wire.is_open() || self.observer.crashed() || self.observer.tab().is_none()
    }

    /// What was observed since the page was opened.
    #[must_use]
    pub fn activity(&self) -> Activity {
        self.observer.activity()
    }

    /// Waits until a navigation that an act has begun has ended, also one in a tab that the act opened. A page that keeps
    /// loading is left loading.
    pub(super) async fn settle(&self) {
        // Input is acknowledged by the browser's process, navigations are told by the page's: an answer of the page's
        // process comes after what it told before.
        if let Ok(spot) = self.spot() {
            let _ = self.world(&spot).await; // a page that is just going away has answered too
        }
        self.observer.quiet(self.load_timeout).await;
    }

    /// A picture of what is on the screen, as PNG.
    ///
    /// # Errors
    /// When the browser has gone or refuses.
    pub async fn screenshot(&self) -> Result<Vec<u8>, BrowserError> {
        self.picture(json!({"format": "png", "optimizeForSpeed": true})).await
    }

    /// A small picture of what is on the screen, half as wide and high, as WebP with losses: for a sequence of pictures.
    ///
    /// # Errors
    /// When the browser has gone or refuses.
    pub async fn thumbnail(&self) -> Result<Vec<u8>, BrowserError> {
        let clip = json!({"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": 0.5});
        self.picture(json!({"format": "webp", "quality": 60, "optimizeForSpeed": true, "clip": clip})).await
    }

    pub(super) async fn picture(&self, params: Value) -> Result<Vec<u8>, BrowserError> {
        let answer = self.call("Page.captureScreenshot", params).await?;
        decoded("Page.captureScreenshot", &answer)
    }
}

/// The bytes which an answer carries as base64.
pub(super) fn decoded(method: &'static str, answer: &Value) -> Result<Vec<u8>, BrowserError> {
    let data = answer["data"].as_str().unwrap_or_default();
    STANDARD
        .decode(data)
        .map_err(|error| BrowserError::Refused { method, message: format!("the answer is not base64: {error}") })
}

impl Drop for Page {
    fn drop(&mut self) {
        self.router.leave(&self.context);
        let wire = &self.process.wire;
        for session in self.observer.sessions() {
            wire.unlisten(&session);
        }
        wire.post(None, "Target.disposeBrowserContext", json!({"browserContextId": self.context}));
        for folder in [&self.uploads, &self.downloads] {
            let _ = std::fs::remove_dir_all(folder); // the first is there only if something was uploaded
        }
    }
}
