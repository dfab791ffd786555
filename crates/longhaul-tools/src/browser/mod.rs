//! A real Chromium, driven as a user would: targets from the accessibility tree, clicks and keys as input events, and
//! what is really on the screen. It owns the browser's process, pages and what is observed on them; it does not decide
//! whether a feature passes (the harness's verifier does). Invariants: nothing of a flow outlives its page; the page
//! reaches only its application's origin; the browser dies with this process; no call waits without a bound.
//!
//! ```no_run
//! use longhaul_tools::browser::{Browser, BrowserSettings, Target};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let browser = Browser::launch(BrowserSettings::default()).await?;
//! let page = browser.open_page("http://127.0.0.1:8000").await?;
//! page.goto("/").await?;
//! page.click(&Target::new("button", Some("New chat"))).await?;
//! let picture_png = page.screenshot().await?;
//! # Ok(())
//! # }
//! ```

mod act;
mod activity;
mod error;
mod events;
mod frames;
mod keys;
mod look;
mod observe;
mod outline;
mod page;
mod paper;
mod process;
mod router;
mod setup;
mod shared;
mod tabs;
mod target;
mod text;
mod tool;
mod tree;
mod wire;

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::json;

pub use activity::{Activity, ArmedDialog, ConsoleError, DialogSeen, DownloadSeen, DownloadState, FailedRequest};
pub use error::{BrowserError, DialogFault, PageError};
pub use keys::{Key, KeyError};
pub use look::Element;
pub use page::Page;
pub use paper::{DOWNLOAD_BYTES_MAX, Downloaded, Permission, Printed};
pub use shared::SharedBrowser;
pub use tabs::TabWanted;
pub use target::{FrameWanted, ROLES, Target, TargetError, WITHIN_DEPTH_MAX};
pub use text::fold;
pub use tool::{AppAddress, BrowserTool};

use process::Process;
use router::Router;

/// How the browser is run. Plain data; start from [`BrowserSettings::default`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserSettings {
    /// The program: a path, or a name on the PATH. By default the first of chromium, chromium-browser, google-chrome.
    pub program: Option<PathBuf>,
    /// Show its window.
    pub headed: bool,
    /// Run it without its own sandbox. Only where that does not work; pages still reach only their application.
    pub no_sandbox: bool,
    /// Longest start.
    pub launch_timeout: Duration,
    /// Longest wait for the answer to one call.
    pub call_timeout: Duration,
    /// Longest load of a page.
    pub load_timeout: Duration,
    /// Longest wait until a target can be acted on.
    pub act_timeout: Duration,
}

impl Default for BrowserSettings {
    fn default() -> Self {
        Self {
            program: None,
            headed: false,
            no_sandbox: false,
            launch_timeout: Duration::from_secs(60),
            call_timeout: Duration::from_secs(15),
            load_timeout: Duration::from_secs(15),
            act_timeout: Duration::from_secs(3),
        }
    }
}

impl BrowserSettings {
    /// The program that would be started; nothing is.
    ///
    /// # Errors
    /// [`BrowserError::NotFound`].
    pub fn locate(&self) -> Result<PathBuf, BrowserError> {
        process::find(self.program.as_deref())
    }
}

/// A running Chromium. It ends with the last of it, or by [`Browser::close`].
pub struct Browser {
    process: std::sync::Arc<Process>,
    router: std::sync::Arc<Router>,
    /// Held by the one flow that uses the clipboard, which all profiles of a browser share.
    clipboard: std::sync::Arc<tokio::sync::Mutex<()>>,
    settings: BrowserSettings,
    version: String,
}

impl std::fmt::Debug for Browser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Browser").field("version", &self.version).field("alive", &self.is_alive()).finish()
    }
}

impl Browser {
    /// Starts Chromium and waits until it answers. As root it is run as an ordinary user, so that its own sandbox works.
    ///
    /// # Errors
    /// When there is none, when it cannot be run, or when it does not answer in time.
    pub async fn launch(settings: BrowserSettings) -> Result<Self, BrowserError> {
        let (process, output) = Process::start(&settings)?;
        let wire = process.wire.clone();
        let router = std::sync::Arc::new(Router::new(wire.clone()));
        wire.listen(wire::ROOT, router.clone());
        let tabs = json!({
            "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true, "filter": [{"type": "page"}],
        });
        let began = tokio::time::Instant::now();
        let hello = async {
            let version = wire.call_within(settings.launch_timeout, None, "Browser.getVersion", json!({})).await?;
            wire.call(None, "Target.setAutoAttach", tabs).await?;
            Ok::<_, BrowserError>(version)
        };
        match hello.await {
            Ok(version) => Ok(Self {
                process: std::sync::Arc::new(process),
                router,
                clipboard: std::sync::Arc::default(),
                settings,
                version: version["product"].as_str().unwrap_or("unknown").to_owned(),
            }),
            Err(_) => {
                let waited = began.elapsed();
                process.end().await;
                Err(BrowserError::Start {
                    program: process.program.clone(),
                    waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
                    output: output.tail(),
                })
            }
        }
    }

    /// Product and version, as the browser names itself: `Chrome/156.0.8078.79`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether it still answers.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.process.wire.is_open()
    }

    /// The number of its process, while it runs.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.process.id()
    }

    /// Ends it and removes its folder. Pages that are still open fail from now on.
    pub async fn close(&self) {
        self.process.end().await;
    }

    /// Opens an empty page with a fresh profile, which reaches `base_url`'s origin and nothing else.
    ///
    /// # Errors
    /// When the browser has gone or refuses.
    pub async fn open_page(&self, base_url: &str) -> Result<Page, BrowserError> {
        Page::open(self.process.clone(), self.router.clone(), &self.settings, base_url).await
    }

    /// Waits until nobody else uses the clipboard, which is one for all profiles, and keeps it until the guard is dropped.
    pub async fn clipboard(&self) -> tokio::sync::OwnedMutexGuard<()> {
        self.clipboard.clone().lock_owned().await
    }
}

/// A JavaScript dialog's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialogKind {
    /// A message.
    Alert,
    /// A question with two answers.
    Confirm,
    /// A question with a text as the answer.
    Prompt,
    /// The question whether to leave the page.
    Beforeunload,
}

/// A file that a user chooses in a file chooser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UploadFile {
    /// Plain file name with its extension.
    pub name: String,
    /// Content, as UTF-8.
    pub content: String,
}
