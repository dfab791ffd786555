//! One browser for many users, started when it is first needed and again when it has died.

use std::sync::Arc;

use tokio::sync::Mutex;

use super::{Browser, BrowserError, BrowserSettings};

/// A handle to the one browser. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SharedBrowser {
    settings: BrowserSettings,
    running: Arc<Mutex<Option<Arc<Browser>>>>,
}

impl SharedBrowser {
    /// A browser with these settings, not started yet.
    #[must_use]
    pub fn new(settings: BrowserSettings) -> Self {
        Self { settings, running: Arc::default() }
    }

    /// The running browser.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn get(&self) -> Result<Arc<Browser>, BrowserError> {
        let mut running = self.running.lock().await;
        if let Some(browser) = running.as_ref().filter(|browser| browser.is_alive()) {
            return Ok(browser.clone());
        }
        let browser = Arc::new(Browser::launch(self.settings.clone()).await?);
        *running = Some(browser.clone());
        Ok(browser)
    }

    /// Ends this one; the next to ask gets another. Does nothing when somebody has replaced it already, so that of many
    /// users who find the same browser dead only one ends anything.
    pub async fn retire(&self, dead: &Arc<Browser>) {
        let mut running = self.running.lock().await;
        if running.as_ref().is_some_and(|browser| Arc::ptr_eq(browser, dead)) {
            *running = None;
            dead.close().await;
        }
    }

    /// Ends it, if it runs.
    pub async fn close(&self) {
        let running = self.running.lock().await.take();
        if let Some(browser) = running {
            browser.close().await;
        }
    }
}
