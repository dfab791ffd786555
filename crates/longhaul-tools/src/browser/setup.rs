//! How a new tab, frame or worker is prepared before its first line of script runs. Everything is posted, in order, and
//! its run is the last: so nothing that it does at its start goes unseen. It waits for no answer.

use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::wire::Wire;

/// Width of the window's content, in pixels.
pub(super) const WIDTH: u32 = 1280;
/// Height of the window's content, in pixels.
pub(super) const HEIGHT: u32 = 800;
/// What a page's `window.print` calls. The script below takes it out of the page's sight.
pub(super) const BINDING: &str = "longhaulPrintAsked";
/// Headless Chromium prints nothing when a page asks for it, so the page's function tells us instead.
const PRINT: &str = "(() => { const told = globalThis.longhaulPrintAsked; delete globalThis.longhaulPrintAsked; \
     if (told) Object.defineProperty(window, 'print', { configurable: true, writable: true, value: function print() { \
     dispatchEvent(new Event('beforeprint')); told(''); dispatchEvent(new Event('afterprint')); } }); })()";

/// What the tabs of one profile have in common.
#[derive(Default)]
pub(super) struct Setup {
    /// Where the device says it is, once somebody has said so: latitude and longitude in degrees.
    place: Mutex<Option<(f64, f64)>>,
}

impl Setup {
    /// From now on every new tab is there.
    pub(super) fn set_place(&self, place: (f64, f64)) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
    }

    /// Prepares a tab and lets it run.
    pub(super) fn page(&self, wire: &Wire, session: &str) {
        let metrics = json!({"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": false});
        let media = json!({"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]});
        document(wire, session);
        let post = |method: &'static str, params: Value| wire.post(Some(session), method, params);
        post("Page.setLifecycleEventsEnabled", json!({"enabled": true}));
        post("Emulation.setDeviceMetricsOverride", metrics);
        post("Emulation.setEmulatedMedia", media);
        post("Emulation.setFocusEmulationEnabled", json!({"enabled": true}));
        let place = *self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((latitude, longitude)) = place {
            post("Emulation.setGeolocationOverride", located(latitude, longitude));
        }
        run(wire, session);
    }

    /// Prepares a frame that lives in another process, and lets it run.
    pub(super) fn frame(&self, wire: &Wire, session: &str) {
        document(wire, session);
        let media = json!({"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]});
        wire.post(Some(session), "Emulation.setEmulatedMedia", media);
        run(wire, session);
    }

    /// Prepares a worker, and lets it run.
    pub(super) fn worker(&self, wire: &Wire, session: &str) {
        wire.post(Some(session), "Runtime.enable", json!({}));
        wire.post(Some(session), "Network.enable", json!({}));
        run(wire, session);
    }
}

/// What `Emulation.setGeolocationOverride` takes.
pub(super) fn located(latitude: f64, longitude: f64) -> Value {
    json!({"latitude": latitude, "longitude": longitude, "accuracy": 10})
}

/// What every document needs, in a tab or in a frame.
fn document(wire: &Wire, session: &str) {
    let post = |method: &'static str, params: Value| wire.post(Some(session), method, params);
    let related = json!({
        "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true,
        "filter": [{"type": "iframe"}, {"type": "worker"}],
    });
    post("Page.enable", json!({}));
    post("Runtime.enable", json!({}));
    post("Log.enable", json!({}));
    post("Network.enable", json!({}));
    post("Accessibility.enable", json!({}));
    post("Runtime.addBinding", json!({"name": BINDING}));
    post("Page.addScriptToEvaluateOnNewDocument", json!({"source": PRINT, "runImmediately": true}));
    // Animations and transitions are over at once: what counts is where they end, not a moment on the way.
    post("Animation.enable", json!({}));
    post("Animation.setPlaybackRate", json!({"playbackRate": 1_000}));
    post("Target.setAutoAttach", related);
}

fn run(wire: &Wire, session: &str) {
    wire.post(Some(session), "Runtime.runIfWaitingForDebugger", json!({}));
}
