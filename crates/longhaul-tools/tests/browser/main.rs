//! The browser against real pages in a real Chromium: its process, what a user sees, what a user does, the agent's tool.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "site.rs"]
mod site;

mod acts;
mod frames;
mod paper;
mod process;
mod sight;
mod tabs;
mod tool;

use longhaul_tools::browser::{Browser, BrowserSettings, Page, Target};
use serde_json::Value;
use site::Site;
use std::time::Duration;

pub(crate) async fn browser() -> Browser {
    let settings = BrowserSettings { act_timeout: Duration::from_millis(700), ..BrowserSettings::default() };
    Browser::launch(settings).await.unwrap()
}

pub(crate) async fn open(browser: &Browser, site: &Site) -> Page {
    let page = browser.open_page(&site.base_url()).await.unwrap();
    page.goto("/").await.unwrap();
    page
}

pub(crate) fn target(value: Value) -> Target {
    Target::parse(&value, "target").unwrap()
}

/// Pages by their paths.
pub(crate) fn pages(pages: &[(&str, &str)]) -> Site {
    let pages: Vec<(String, String)> =
        pages.iter().map(|(path, body)| ((*path).to_owned(), (*body).to_owned())).collect();
    Site::serve(move |request| {
        let path = request.path.split('?').next().unwrap_or_default();
        pages
            .iter()
            .find(|(known, _)| known == path)
            .map_or_else(|| site::status(404), |(_, body)| site::html(body.clone()))
    })
}
