//! What a page hands to its user beside the screen: downloaded files and printed paper; and what it is permitted.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Page,
    activity::{DownloadSeen, DownloadState},
    error::{BrowserError, PageError},
    page::decoded,
    setup::located,
};

/// Largest download that is read, in bytes.
pub const DOWNLOAD_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// A permission that a page may ask its user for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// Where the device is.
    Geolocation,
    /// Reading and writing the clipboard.
    Clipboard,
    /// Notifications of the system.
    Notifications,
    /// The camera.
    Camera,
    /// The microphone.
    Microphone,
}

impl Permission {
    /// All of them, with their words.
    pub const ALL: [(&'static str, Self); 5] = [
        ("geolocation", Self::Geolocation),
        ("clipboard", Self::Clipboard),
        ("notifications", Self::Notifications),
        ("camera", Self::Camera),
        ("microphone", Self::Microphone),
    ];

    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, permission)| *permission == self).map_or("", |(name, _)| name)
    }

    /// What the protocol calls it: one or two permissions.
    fn descriptors(self) -> &'static [&'static str] {
        match self {
            Self::Geolocation => &["geolocation"],
            Self::Clipboard => &["clipboard-read", "clipboard-write"],
            Self::Notifications => &["notifications"],
            Self::Camera => &["camera"],
            Self::Microphone => &["microphone"],
        }
    }
}

/// What a page printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// The paper, as PDF.
    pub pdf: Vec<u8>,
    /// Its text as printed, white space folded.
    pub text: String,
    /// Number of its sheets.
    pub pages: usize,
}

/// A file that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Downloaded {
    /// Which of the page's downloads it is, from 0.
    pub index: usize,
    /// The name it was offered under.
    pub name: String,
    /// Its content.
    pub content: Vec<u8>,
}

impl Page {
    /// Grants or denies a permission to the application from now on.
    ///
    /// # Errors
    /// When the browser has gone or refuses.
    pub async fn permit(&self, permission: Permission, granted: bool) -> Result<(), BrowserError> {
        for name in permission.descriptors() {
            let params = json!({
                "permission": {"name": name}, "setting": if granted { "granted" } else { "denied" },
                "origin": self.base_url(), "browserContextId": self.context,
            });
            self.process.wire.call(None, "Browser.setPermission", params).await?;
        }
        Ok(())
    }

    /// Puts the device somewhere: latitude and longitude in degrees. A page learns it once it may.
    ///
    /// # Errors
    /// When the browser has gone or refuses.
    pub async fn set_place(&self, latitude: f64, longitude: f64) -> Result<(), BrowserError> {
        self.observer.setup.set_place((latitude, longitude));
        for tab in self.observer.tabs() {
            self.call_on(&tab.session, "Emulation.setGeolocationOverride", located(latitude, longitude)).await?;
        }
        Ok(())
    }

    /// Waits for a download that `wanted` chooses among all there were, and reads it.
    ///
    /// # Errors
    /// When there is none in time, it was given up, is still under way, or is larger than [`DOWNLOAD_BYTES_MAX`].
    pub async fn download(
        &self,
        limit: Duration,
        wanted: impl Fn(&[DownloadSeen]) -> Option<usize>,
    ) -> Result<Downloaded, PageError> {
        let waited_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let (index, seen) = match self.observer.download(limit, wanted).await {
            Ok(found) => found,
            Err(others) => {
                let names: Vec<String> = others.iter().map(|other| format!("{:?}", other.name)).collect();
                return Err(PageError::NoDownload { others: names.join(", "), waited_ms });
            }
        };
        let failed = |reason: String| PageError::Download { name: seen.name.clone(), reason };
        match seen.state {
            DownloadState::Complete => {}
            DownloadState::Running => return Err(failed(format!("it was still under way after {waited_ms} ms"))),
            DownloadState::Cancelled => return Err(failed("it was given up before it was complete".to_owned())),
        }
        let path: PathBuf = self.downloads.join(&seen.guid);
        let size = std::fs::metadata(&path).map_err(|error| failed(format!("its file cannot be read: {error}")))?.len();
        if size > DOWNLOAD_BYTES_MAX {
            return Err(failed(format!("it has {size} bytes, more than the {DOWNLOAD_BYTES_MAX} that are looked at")));
        }
        let content = std::fs::read(&path).map_err(|error| failed(format!("its file cannot be read: {error}")))?;
        Ok(Downloaded { index, name: seen.name, content })
    }

    /// Waits until a page asks to be printed, and prints it.
    ///
    /// # Errors
    /// When none asks in time, or the browser cannot print (with a window on the screen it cannot).
    pub async fn printed(&self, limit: Duration) -> Result<Printed, PageError> {
        let waited_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let Some(tab) = self.observer.printing(limit).await else { return Err(PageError::NotPrinted { waited_ms }) };
        let session = tab.session.as_str();
        let params = json!({"printBackground": true, "preferCSSPageSize": true});
        let pdf = self.call_on(session, "Page.printToPDF", params).await?;
        let pdf = decoded("Page.printToPDF", &pdf)?;
        let media =
            |media: &str| json!({"media": media, "features": [{"name": "prefers-reduced-motion", "value": "reduce"}]});
        self.call_on(session, "Emulation.setEmulatedMedia", media("print")).await?;
        let said = json!({"expression": "document.body ? document.body.innerText : ''", "returnByValue": true});
        let said = self.call_on(session, "Runtime.evaluate", said).await;
        self.call_on(session, "Emulation.setEmulatedMedia", media("")).await?;
        let text = super::fold(said?["result"]["value"].as_str().unwrap_or_default());
        let pages = sheets(&pdf);
        Ok(Printed { pdf, text, pages })
    }
}

/// How many sheets a PDF of Chromium's has: its page objects are written in plain.
fn sheets(pdf: &[u8]) -> usize {
    const PAGE: &[u8] = b"/Type /Page";
    pdf.windows(PAGE.len() + 1).filter(|w| w.starts_with(PAGE) && w[PAGE.len()] != b's').count()
}
