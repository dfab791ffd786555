//! The tabs of a page: which there are, and which one is meant. A tab that a page opens is the current one at once, as
//! it is for a user.

use std::{fmt, time::Duration};

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Page,
    error::{BrowserError, PageError},
    observe::TabId,
    text::{cut, fold},
};

/// Which tab is meant; every part given must fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TabWanted {
    /// Its title, the whole of it; where no tab has that, a part of it.
    pub title: Option<String>,
    /// A part of its URL.
    pub url: Option<String>,
    /// The name under which a page opened it (`window.open(…, name)`, `target=name`).
    pub name: Option<String>,
    /// Which of those that fit, in the order of their opening, from 0.
    pub nth: Option<usize>,
}

impl fmt::Display for TabWanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tab")?;
        for (word, text) in [("", &self.title), (" at", &self.url), (" named", &self.name)] {
            if let Some(text) = text {
                write!(f, "{word} {text:?}")?;
            }
        }
        self.nth.map_or(Ok(()), |nth| write!(f, " [{nth}]"))
    }
}

/// A tab as a user tells it from others.
struct Shown {
    id: TabId,
    title: String,
    url: String,
    name: String,
}

impl Shown {
    fn say(&self) -> String {
        format!("{:?} at {}", cut(&self.title, 60), cut(&self.url, 120))
    }
}

impl Page {
    /// Waits until such a tab is open, and makes it the current one.
    ///
    /// # Errors
    /// When there is none in time; it names those there are.
    pub async fn switch_tab(&self, wanted: &TabWanted, limit: Duration) -> Result<(), PageError> {
        let deadline = Instant::now() + limit;
        loop {
            let tabs = self.shown_tabs().await?;
            if let Some(tab) = fitting(&tabs, wanted) {
                self.observer.choose(&tab.id.target);
                self.call_on(&tab.id.session, "Page.bringToFront", json!({})).await?;
                self.observer.quiet(self.load_timeout).await;
                return Ok(());
            }
            if Instant::now() >= deadline {
                let open = tabs.iter().map(Shown::say).collect::<Vec<_>>().join(", ");
                return Err(PageError::NoTab { wanted: wanted.to_string(), open });
            }
            self.pause().await;
        }
    }

    /// Closes the current tab; the one that opened it is the current one then, or the last that is left.
    ///
    /// # Errors
    /// When it is the only one, or a dialog of it keeps it open.
    pub async fn close_tab(&self) -> Result<(), PageError> {
        let tab = self.tab()?;
        if self.observer.tabs().len() < 2 {
            return Err(PageError::LastTab);
        }
        self.call_on(&tab.session, "Page.close", json!({})).await?;
        let gone = |seen: &super::observe::Seen| seen.tab(&tab.target).is_none() || seen.fault.is_some();
        self.observer.until(self.act_timeout, gone).await;
        match self.fault() {
            Some(fault) => Err(fault),
            None if self.observer.tabs().contains(&tab) => Err(PageError::NotReady {
                target: Box::new(super::Target::new("document", None)),
                reason: "the tab stays open".to_owned(),
            }),
            None => Ok(()),
        }
    }

    /// How many tabs are open.
    #[must_use]
    pub fn tab_count(&self) -> usize {
        self.observer.tabs().len()
    }

    async fn shown_tabs(&self) -> Result<Vec<Shown>, BrowserError> {
        let answer = self.process.wire.call(None, "Target.getTargets", json!({})).await?;
        let all = answer["targetInfos"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut shown = Vec::new();
        for id in self.observer.tabs() {
            let Some(info) = all.iter().find(|info| info["targetId"] == id.target.as_str()) else { continue };
            let text = |field: &str| info[field].as_str().unwrap_or_default();
            shown.push(Shown {
                title: fold(text("title")),
                url: text("url").to_owned(),
                name: self.name_of(&id).await,
                id,
            });
        }
        Ok(shown)
    }

    async fn name_of(&self, tab: &TabId) -> String {
        let params = json!({"expression": "window.name", "returnByValue": true});
        let answer = self.call_on(&tab.session, "Runtime.evaluate", params).await.unwrap_or(Value::Null);
        answer["result"]["value"].as_str().unwrap_or_default().to_owned()
    }
}

fn fitting<'a>(tabs: &'a [Shown], wanted: &TabWanted) -> Option<&'a Shown> {
    let rest = |tab: &&Shown| {
        wanted.url.as_deref().is_none_or(|part| tab.url.contains(part))
            && wanted.name.as_deref().is_none_or(|name| tab.name == name)
    };
    let title = wanted.title.as_deref().map(fold);
    let whole = |tab: &&Shown| title.as_ref().is_none_or(|title| tab.title == *title);
    let part =
        |tab: &&Shown| title.as_ref().is_none_or(|title| tab.title.to_lowercase().contains(&title.to_lowercase()));
    let exact: Vec<&Shown> = tabs.iter().filter(rest).filter(whole).collect();
    let fits = if exact.is_empty() { tabs.iter().filter(rest).filter(part).collect() } else { exact };
    fits.get(wanted.nth.unwrap_or(0)).copied()
}
