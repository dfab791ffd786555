//! One page in a profile of its own: opening, loading, dialogs, pictures. What is on it is `look`'s, what is done to it
//! `act`'s. Invariant: a page's profile is gone when the page is dropped.

use std::{path::PathBuf, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    BrowserSettings,
    error::{BrowserError, PageError},
    observe::{Activity, ArmedDialog, Observer},
    process::Process,
};

/// Width of the window's content, in pixels.
const WIDTH: u32 = 1280;
/// Height of the window's content, in pixels.
const HEIGHT: u32 = 800;
/// A proxy where nothing listens: what is not the application goes there and fails (port 9 is `discard`).
const NOWHERE: &str = "http://127.0.0.1:9";

/// An open page of one application.
pub struct Page {
    pub(super) process: Arc<Process>,
    pub(super) session: String,
    pub(super) observer: Arc<Observer>,
    pub(super) main_frame: String,
    pub(super) act_timeout: Duration,
    pub(super) uploads: PathBuf,
    load_timeout: Duration,
    context: String,
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

impl Page {
    pub(super) async fn open(
        process: Arc<Process>,
        settings: &BrowserSettings,
        base_url: &str,
    ) -> Result<Self, BrowserError> {
        let wire = process.wire.clone();
        let base_url = base_url.trim_end_matches('/').to_owned();
        let host = base_url.split_once("://").map_or(base_url.as_str(), |(_, rest)| rest);
        let context = json!({
            "disposeOnDetach": true, "proxyServer": NOWHERE, "proxyBypassList": format!("<-loopback>;{host}"),
        });
        let context = text(&wire.call(None, "Target.createBrowserContext", context).await?["browserContextId"]);
        let target = json!({"url": "about:blank", "browserContextId": context, "width": WIDTH, "height": HEIGHT});
        let target = text(&wire.call(None, "Target.createTarget", target).await?["targetId"]);
        let attach = json!({"targetId": target, "flatten": true});
        let session = text(&wire.call(None, "Target.attachToTarget", attach).await?["sessionId"]);
        // The main frame of a page carries the number of its target.
        let observer = Arc::new(Observer::new(wire.clone(), session.clone(), target.clone(), base_url.clone()));
        wire.listen(&session, observer.clone());
        let uploads = process.folder.path.join(format!("uploads-{context}"));
        let page = Self {
            process,
            session,
            observer,
            main_frame: target,
            act_timeout: settings.act_timeout,
            uploads,
            load_timeout: settings.load_timeout,
            context,
            base_url,
        };
        page.prepare().await?;
        Ok(page)
    }

    async fn prepare(&self) -> Result<(), BrowserError> {
        let metrics = json!({"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": false});
        let media = json!({"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]});
        let calls: [(&'static str, Value); 11] = [
            ("Page.enable", json!({})),
            ("Page.setLifecycleEventsEnabled", json!({"enabled": true})),
            ("Runtime.enable", json!({})),
            ("Log.enable", json!({})),
            ("Network.enable", json!({})),
            ("Accessibility.enable", json!({})),
            ("Emulation.setDeviceMetricsOverride", metrics),
            ("Emulation.setEmulatedMedia", media),
            ("Emulation.setFocusEmulationEnabled", json!({"enabled": true})),
            // Animations and transitions are over at once: what counts is where they end, not a moment on the way.
            ("Animation.enable", json!({})),
            ("Animation.setPlaybackRate", json!({"playbackRate": 1_000})),
        ];
        let calls = calls.map(|(method, params)| self.call(method, params));
        futures::future::try_join_all(calls).await?;
        Ok(())
    }

    pub(super) async fn call(&self, method: &'static str, params: Value) -> Result<Value, BrowserError> {
        self.process.wire.call(Some(&self.session), method, params).await
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
        let before = self.observer.loads();
        let answer = self.call("Page.navigate", json!({"url": url})).await?;
        if let Some(error) = answer["errorText"].as_str() {
            return Err(self.fault().unwrap_or_else(|| failed(error.to_owned())));
        }
        // Without a loader only the part after # has changed.
        if let Some(loader) = answer["loaderId"].as_str() {
            let loaded = tokio::select! {
                loaded = self.observer.loaded(loader, self.load_timeout) => loaded,
                () = self.stayed(before) => true,
            };
            self.after_load(loaded, failed)?;
        }
        Ok(())
    }

    async fn stayed(&self, before: (u64, u64)) {
        self.observer.loaded_since((u64::MAX, before.1), Duration::MAX).await;
    }

    /// Loads the page again and waits until it has loaded.
    ///
    /// # Errors
    /// When it does not load.
    pub async fn reload(&self) -> Result<(), PageError> {
        let before = self.observer.loads();
        self.call("Page.reload", json!({})).await?;
        let loaded = self.observer.loaded_since(before, self.load_timeout).await;
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
        !self.process.wire.is_open() || self.observer.crashed()
    }

    /// What was observed since the page was opened.
    #[must_use]
    pub fn activity(&self) -> Activity {
        self.observer.activity()
    }

    /// Waits until a navigation that an act has begun has ended. A page that keeps loading is left loading.
    pub(super) async fn settle(&self) {
        // Input is acknowledged by the browser's process, navigations are told by the page's: an answer of the page's
        // process comes after what it told before.
        let _ = self.world().await; // a page that is just going away has answered too
        self.observer.quiet(self.load_timeout).await;
    }

    /// A picture of what is on the screen, as PNG.
    ///
    /// # Errors
    /// When the browser has gone or refuses.
    pub async fn screenshot(&self) -> Result<Vec<u8>, BrowserError> {
        self.picture(json!({"format": "png", "optimizeForSpeed": true})).await
    }

    pub(super) async fn picture(&self, params: Value) -> Result<Vec<u8>, BrowserError> {
        let answer = self.call("Page.captureScreenshot", params).await?;
        let data = answer["data"].as_str().unwrap_or_default();
        STANDARD.decode(data).map_err(|error| BrowserError::Refused {
            method: "Page.captureScreenshot",
            message: format!("the picture is not base64: {error}"),
        })
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let wire = &self.process.wire;
        wire.unlisten(&self.session);
        wire.post(None, "Target.disposeBrowserContext", json!({"browserContextId": self.context}));
        let _ = std::fs::remove_dir_all(&self.uploads); // there is none unless something was uploaded
    }
}
