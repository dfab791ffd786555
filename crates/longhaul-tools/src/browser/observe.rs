//! What happens in a profile while nobody asks: tabs that open and close, loading, dialogs, choosers, downloads. It keeps
//! the state and waits on it; `events` changes it. Invariant: what it keeps is bounded, and of what it drops the number
//! is known. There is always a current tab: the newest one a page opened, until it closes or somebody chooses another.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{
    activity::{Activity, ArmedDialog, DownloadSeen, DownloadState},
    error::DialogFault,
    events::SessionSink,
    setup::Setup,
    wire::Wire,
};

/// Most tabs of one profile that are followed.
const TABS_MAX: usize = 20;

/// A tab, by its target and the session on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TabId {
    /// Its target, which is also the id of its main frame.
    pub(super) target: String,
    pub(super) session: String,
}

/// A tab as it is.
pub(super) struct Tab {
    pub(super) id: TabId,
    pub(super) opener: Option<String>,
    pub(super) loading: bool,
    pub(super) loads: u64,
    pub(super) last_loader: Option<String>,
    pub(super) stayed: u64,
    pub(super) crashed: bool,
}

/// A file chooser that a click opened: its session and input field.
pub(super) type Chooser = (String, i64);

/// Everything seen.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) activity: Activity,
    pub(super) requests: HashMap<String, (String, String)>,
    pub(super) armed: VecDeque<ArmedDialog>,
    pub(super) fault: Option<DialogFault>,
    pub(super) tabs: Vec<Tab>,
    /// Target of the current tab.
    pub(super) current: String,
    /// Sessions on frames of other processes, with the target of their tab.
    pub(super) frames: Vec<(String, String)>,
    pub(super) chooser: Option<Chooser>,
    pub(super) drag: Option<Value>,
    /// Targets of tabs that asked to be printed.
    pub(super) prints: VecDeque<String>,
}

impl Seen {
    pub(super) fn tab(&self, target: &str) -> Option<&Tab> {
        self.tabs.iter().find(|tab| tab.id.target == target)
    }

    pub(super) fn tab_mut(&mut self, target: &str) -> Option<&mut Tab> {
        self.tabs.iter_mut().find(|tab| tab.id.target == target)
    }
}

/// The observer of one profile.
pub(super) struct Observer {
    pub(super) wire: Wire,
    pub(super) origin: String,
    pub(super) setup: Setup,
    seen: Mutex<Seen>,
    changed: Notify,
}

impl Observer {
    pub(super) fn new(wire: Wire, origin: String, setup: Setup) -> Self {
        Self { wire, origin, setup, seen: Mutex::default(), changed: Notify::new() }
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self) {
        self.changed.notify_waiters();
    }

    /// Takes a new tab in: prepares it, lets it run, and makes it the current one.
    pub(super) fn adopt(self: &Arc<Self>, session: &str, info: &Value) {
        let target = info["targetId"].as_str().unwrap_or_default().to_owned();
        let id = TabId { target: target.clone(), session: session.to_owned() };
        let mut seen = self.seen();
        if seen.tabs.len() >= TABS_MAX {
            drop(seen);
            self.wire.post(None, "Target.closeTarget", json!({"targetId": target}));
            return;
        }
        let first = seen.tabs.is_empty();
        seen.tabs.push(Tab {
            id,
            opener: info["openerId"].as_str().map(str::to_owned),
            // A tab that a page opened is loading from its beginning.
            loading: !first,
            loads: 0,
            last_loader: None,
            stayed: 0,
            crashed: false,
        });
        seen.current.clone_from(&target);
        drop(seen);
        self.wire.listen(session, Arc::new(SessionSink::of_tab(self.clone(), session, &target)));
        self.setup.page(&self.wire, session);
        if !first {
            self.wire.post(Some(session), "Page.bringToFront", json!({}));
        }
        self.tell();
    }

    /// Lets go of a tab or frame whose session has ended.
    pub(super) fn release(&self, session: &str) {
        self.wire.unlisten(session);
        let mut seen = self.seen();
        seen.frames.retain(|(frame, _)| frame != session);
        if let Some(index) = seen.tabs.iter().position(|tab| tab.id.session == session) {
            let gone = seen.tabs.remove(index);
            if seen.current == gone.id.target {
                let opener = gone.opener.filter(|opener| seen.tab(opener).is_some());
                let next = opener.or_else(|| seen.tabs.last().map(|tab| tab.id.target.clone()));
                seen.current = next.unwrap_or_default();
                let front = seen.tab(&seen.current).map(|tab| tab.id.session.clone());
                if let Some(front) = front {
                    self.wire.post(Some(&front), "Page.bringToFront", json!({}));
                }
            }
        }
        drop(seen);
        self.tell();
    }

    /// Notes how far a download has come, if it is one of this profile's.
    pub(super) fn download_goes_on(&self, params: &Value) {
        let mut seen = self.seen();
        let guid = params["guid"].as_str().unwrap_or_default();
        let Some(known) = seen.activity.downloads.iter_mut().find(|known| known.guid == guid) else { return };
        match params["state"].as_str() {
            Some("completed") => known.state = DownloadState::Complete,
            Some("canceled") => known.state = DownloadState::Cancelled,
            _ => return,
        }
        drop(seen);
        self.tell();
    }

    /// Every session that is listened to.
    pub(super) fn sessions(&self) -> Vec<String> {
        let seen = self.seen();
        let tabs = seen.tabs.iter().map(|tab| tab.id.session.clone());
        tabs.chain(seen.frames.iter().map(|(session, _)| session.clone())).collect()
    }

    /// The current tab; none before the first has opened, or when all have been closed.
    pub(super) fn tab(&self) -> Option<TabId> {
        let seen = self.seen();
        seen.tab(&seen.current).map(|tab| tab.id.clone())
    }

    /// The tabs, in the order of their opening.
    pub(super) fn tabs(&self) -> Vec<TabId> {
        self.seen().tabs.iter().map(|tab| tab.id.clone()).collect()
    }

    pub(super) fn choose(&self, target: &str) {
        target.clone_into(&mut self.seen().current);
    }

    /// Sessions on frames of a tab that live in other processes.
    pub(super) fn frames_of(&self, target: &str) -> Vec<String> {
        let seen = self.seen();
        seen.frames.iter().filter(|(_, tab)| tab == target).map(|(session, _)| session.clone()).collect()
    }

    pub(super) async fn until(&self, limit: Duration, holds: impl Fn(&Seen) -> bool) -> bool {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                if holds(&self.seen()) {
                    return;
                }
                changed.await;
            }
        };
        tokio::select! {
            () = wait => true,
            () = self.wire.closed() => false,
            () = tokio::time::sleep(limit) => false,
        }
    }

    pub(super) fn activity(&self) -> Activity {
        self.seen().activity.clone()
    }

    /// Whether the current tab has crashed.
    pub(super) fn crashed(&self) -> bool {
        let seen = self.seen();
        seen.tab(&seen.current).is_some_and(|tab| tab.crashed)
    }

    pub(super) fn arm(&self, dialog: ArmedDialog) {
        self.seen().armed.push_back(dialog);
    }

    /// Waits until no expected dialog is outstanding; disarms and names the one that did not open.
    pub(super) async fn dialogs_done(&self, limit: Duration) -> Result<(), DialogFault> {
        self.until(limit, |seen| seen.armed.is_empty() || seen.fault.is_some()).await;
        let mut seen = self.seen();
        if let Some(fault) = seen.fault.take() {
            seen.armed.clear();
            return Err(fault);
        }
        let missing = seen.armed.pop_front();
        seen.armed.clear();
        match missing {
            None => Ok(()),
            Some(dialog) => Err(DialogFault::Missing {
                expected: dialog.to_string(),
                waited_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
            }),
        }
    }

    pub(super) fn take_fault(&self) -> Option<DialogFault> {
        self.seen().fault.take()
    }

    /// How often a tab has loaded, and how often a dialog kept it.
    pub(super) fn loads(&self, target: &str) -> (u64, u64) {
        self.seen().tab(target).map_or((0, 0), |tab| (tab.loads, tab.stayed))
    }

    /// Waits until a load of the tab after `before` has ended, or a dialog kept the page, or the tab is gone.
    pub(super) async fn loaded_since(&self, target: &str, before: (u64, u64), limit: Duration) -> bool {
        let over = |tab: &Tab| tab.loads > before.0 || tab.stayed > before.1 || tab.crashed;
        self.until(limit, |seen| seen.tab(target).is_none_or(over)).await
    }

    pub(super) async fn loaded(&self, target: &str, loader: &str, limit: Duration) -> bool {
        let over = |tab: &Tab| tab.last_loader.as_deref() == Some(loader) || tab.crashed;
        self.until(limit, |seen| seen.tab(target).is_none_or(over)).await
    }

    /// Waits until no navigation of the current tab is under way.
    pub(super) async fn quiet(&self, limit: Duration) -> bool {
        self.until(limit, |seen| seen.tab(&seen.current).is_none_or(|tab| !tab.loading || tab.crashed)).await
    }

    pub(super) fn forget_chooser(&self) {
        let mut seen = self.seen();
        seen.chooser = None;
        seen.drag = None;
    }

    pub(super) async fn chooser(&self, limit: Duration) -> Option<Chooser> {
        self.until(limit, |seen| seen.chooser.is_some() || seen.fault.is_some()).await;
        self.seen().chooser.take()
    }

    pub(super) fn take_drag(&self) -> Option<Value> {
        self.seen().drag.take()
    }

    /// Waits until a tab has asked to be printed; gives its session.
    pub(super) async fn printing(&self, limit: Duration) -> Option<TabId> {
        self.until(limit, |seen| !seen.prints.is_empty()).await;
        let mut seen = self.seen();
        let target = seen.prints.pop_front()?;
        seen.tab(&target).map(|tab| tab.id.clone())
    }

    /// Waits until a download that `wanted` chooses among the kept ones has ended; gives it, or what there is.
    pub(super) async fn download(
        &self,
        limit: Duration,
        wanted: impl Fn(&[DownloadSeen]) -> Option<usize>,
    ) -> Result<(usize, DownloadSeen), Vec<DownloadSeen>> {
        let ended = |seen: &Seen| {
            wanted(&seen.activity.downloads)
                .is_some_and(|index| seen.activity.downloads[index].state != DownloadState::Running)
        };
        self.until(limit, ended).await;
        let seen = self.seen();
        match wanted(&seen.activity.downloads) {
            Some(index) => Ok((index, seen.activity.downloads[index].clone())),
            None => Err(seen.activity.downloads.clone()),
        }
    }
}
