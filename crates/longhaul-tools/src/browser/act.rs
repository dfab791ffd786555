//! Doing what a user does: pointer, keys, files. Every act waits until its target is there, visible, still, enabled and
//! would receive the click, within the page's limit; then it sends input events and waits for a navigation it began.

use std::{fs, path::PathBuf, time::Duration};

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Key, Page, Target, UploadFile,
    error::{BrowserError, PageError},
    look::{Element, Point, Rect},
    process::Folder,
    text::fold,
};

/// Kinds of input fields whose value is set and not typed: the browser offers a picker of its own for them.
const PICKED: [&str; 7] = ["date", "time", "month", "week", "datetime-local", "color", "range"];

/// Sets a field's value as its picker would.
const PICK: &str = r#"function pick(field, value) {
  field.focus();
  field.value = value;
  field.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
  field.dispatchEvent(new Event('change', { bubbles: true }));
  return field.value;
}"#;

/// Chooses an option of a native list by its label; answers the labels when there is none.
const CHOOSE: &str = r#"function choose(list, label) {
  const fold = (s) => (s || '').replace(/\s+/g, ' ').trim();
  if (list.localName !== 'select') return 'no list';
  const option = [...list.options].find((o) => fold(o.label) === label) || [...list.options].find((o) => o.value === label);
  if (!option) return [...list.options].map((o) => fold(o.label));
  if (option.disabled) return 'disabled';
  list.focus();
  option.selected = true;
  list.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
  list.dispatchEvent(new Event('change', { bubbles: true }));
  return true;
}"#;

/// How long the tab that was clicked may still answer after another one has come to the front.
const AFTERWARDS: Duration = Duration::from_millis(500);

/// Which conditions an act needs beyond visibility.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// It is seen.
    Sight,
    /// A pointer reaches it.
    Pointer,
    /// A pointer reaches it and it can be written to.
    Writing,
}

impl Page {
    /// Clicks the target with the pointer's first button.
    ///
    /// # Errors
    /// When the target is not there, not visible, not usable in time, or the browser has gone.
    pub async fn click(&self, target: &Target) -> Result<(), PageError> {
        let (_, point) = self.ready(target, Needs::Pointer).await?;
        self.click_at(point).await?;
        self.settle().await;
        Ok(())
    }

    /// Replaces the content of a field by a text, in any script.
    ///
    /// # Errors
    /// As for [`Page::click`]; also when the field is read-only.
    pub async fn fill(&self, target: &Target, text: &str) -> Result<(), PageError> {
        let (element, point) = self.ready(target, Needs::Writing).await?;
        if PICKED.contains(&element.facts.kind.as_str()) {
            let world = self.world(&element.spot).await?;
            let field = self.handle(&element.spot, world, element.backend).await?;
            let set =
                self.run(&element.spot, world, PICK, vec![json!({"objectId": field}), json!({"value": text})]).await?;
            if set != text {
                let reason = format!("a field of kind {} takes no {text:?}", element.facts.kind);
                return Err(PageError::NotReady { target: Box::new(target.clone()), reason });
            }
        } else {
            self.click_at(point).await?;
            self.key_events(&"Control+a".parse().expect("a chord of this module's own")).await?;
            if text.is_empty() {
                self.key_events(&"Backspace".parse().expect("a key of this module's own")).await?;
            } else {
                self.call("Input.insertText", json!({"text": text})).await?;
            }
        }
        self.settle().await;
        Ok(())
    }

    /// Presses a key, on the target (which gets the focus first) or where the focus is.
    ///
    /// # Errors
    /// As for [`Page::click`].
    pub async fn press(&self, target: Option<&Target>, key: &Key) -> Result<(), PageError> {
        if let Some(target) = target {
            let (element, _) = self.ready(target, Needs::Pointer).await?;
            let field = json!({"backendNodeId": element.backend});
            let focused = self.call_on(&element.spot.session, "DOM.focus", field).await;
            if let Err(BrowserError::Refused { .. }) = focused {
                let reason = "it takes no focus".to_owned();
                return Err(PageError::NotReady { target: Box::new(target.clone()), reason });
            }
            focused?;
        }
        self.key_events(key).await?;
        self.settle().await;
        Ok(())
    }

    /// Chooses an option of a native list by its label.
    ///
    /// # Errors
    /// As for [`Page::click`]; also when the list has no such option or is no native list.
    pub async fn select(&self, target: &Target, option: &str) -> Result<(), PageError> {
        let (element, _) = self.ready(target, Needs::Pointer).await?;
        let world = self.world(&element.spot).await?;
        let list = self.handle(&element.spot, world, element.backend).await?;
        let outcome = self
            .run(&element.spot, world, CHOOSE, vec![json!({"objectId": list}), json!({"value": fold(option)})])
            .await?;
        let target = Box::new(target.clone());
        if let Some(labels) = outcome.as_array() {
            let has: Vec<String> = labels.iter().take(20).map(Value::to_string).collect();
            return Err(PageError::NoOption { target, option: option.to_owned(), has: has.join(", ") });
        }
        if outcome != true {
            let reason = if outcome == "disabled" {
                format!("its option {option:?} is disabled")
            } else {
                "it is not a native list; click it and then its option".to_owned()
            };
            return Err(PageError::NotReady { target, reason });
        }
        self.settle().await;
        Ok(())
    }

    /// Moves the pointer over the target.
    ///
    /// # Errors
    /// As for [`Page::click`].
    pub async fn hover(&self, target: &Target) -> Result<(), PageError> {
        let (_, point) = self.ready(target, Needs::Pointer).await?;
        self.pointer("mouseMoved", point, "none").await?;
        Ok(())
    }

    /// Drags a target onto another one and drops it there.
    ///
    /// # Errors
    /// As for [`Page::click`], for either.
    pub async fn drag(&self, target: &Target, to: &Target) -> Result<(), PageError> {
        let (_, end) = self.ready(to, Needs::Pointer).await?;
        let (_, start) = self.ready(target, Needs::Pointer).await?;
        self.observer.forget_chooser();
        self.call("Input.setInterceptDrags", json!({"enabled": true})).await?;
        let outcome = self.drag_between(start, end).await;
        self.call("Input.setInterceptDrags", json!({"enabled": false})).await?;
        outcome?;
        self.settle().await;
        Ok(())
    }

    async fn drag_between(&self, start: Point, end: Point) -> Result<(), PageError> {
        self.pointer("mouseMoved", start, "none").await?;
        self.pointer("mousePressed", start, "left").await?;
        for part in 1..=4 {
            let fraction = f64::from(part) / 4.0;
            let x = start.x + (end.x - start.x) * fraction;
            let y = start.y + (end.y - start.y) * fraction;
            self.pointer("mouseMoved", Point { x, y }, "left").await?;
        }
        if let Some(data) = self.observer.take_drag() {
            for kind in ["dragEnter", "dragOver", "drop"] {
                let event = json!({"type": kind, "x": end.x, "y": end.y, "data": data});
                self.call("Input.dispatchDragEvent", event).await?;
            }
        }
        self.pointer("mouseReleased", end, "left").await?;
        Ok(())
    }

    /// Clicks the target, which opens a file chooser, and chooses these files.
    ///
    /// # Errors
    /// As for [`Page::click`]; also when no file chooser opens.
    pub async fn upload(&self, target: &Target, files: &[UploadFile]) -> Result<(), PageError> {
        let paths = self.write_uploads(files)?;
        self.observer.forget_chooser();
        self.intercept_choosers(true).await?;
        let clicked = self.click(target).await;
        let chooser = if clicked.is_ok() { self.observer.chooser(self.act_timeout).await } else { None };
        self.intercept_choosers(false).await?;
        clicked?;
        let Some((session, input)) = chooser else {
            let waited_ms = u64::try_from(self.act_timeout.as_millis()).unwrap_or(u64::MAX);
            return Err(PageError::NoChooser { target: Box::new(target.clone()), waited_ms });
        };
        self.call_on(&session, "DOM.setFileInputFiles", json!({"files": paths, "backendNodeId": input})).await?;
        self.settle().await;
        Ok(())
    }

    /// File choosers of the tab and of its frames are ours, or the browser's own.
    async fn intercept_choosers(&self, on: bool) -> Result<(), BrowserError> {
        let tab = self.tab()?;
        let params = json!({"enabled": on});
        for frame in self.observer.frames_of(&tab.target) {
            // A frame that has just gone opens no chooser.
            let _ = self.call_on(&frame, "Page.setInterceptFileChooserDialog", params.clone()).await;
        }
        self.call_on(&tab.session, "Page.setInterceptFileChooserDialog", params).await.map(|_| ())
    }

    fn write_uploads(&self, files: &[UploadFile]) -> Result<Vec<PathBuf>, PageError> {
        let failed = |path: &PathBuf| {
            let path = path.clone();
            move |source| PageError::File { path, source }
        };
        fs::create_dir_all(&self.uploads).map_err(failed(&self.uploads))?;
        Folder::adopt(&self.uploads).map_err(failed(&self.uploads))?;
        let mut paths = Vec::with_capacity(files.len());
        for file in files {
            let path = self.uploads.join(&file.name);
            fs::write(&path, &file.content).map_err(failed(&path))?;
            Folder::adopt(&path).map_err(failed(&path))?;
            paths.push(path);
        }
        Ok(paths)
    }

    /// Waits until the one element that the target means is there, visible and standing still.
    pub(super) async fn pictured(&self, target: &Target) -> Result<(Element, Point), PageError> {
        self.ready(target, Needs::Sight).await
    }

    /// Waits until the one element that the target means can be acted on; gives it and a point of it that is free.
    async fn ready(&self, target: &Target, needs: Needs) -> Result<(Element, Point), PageError> {
        let deadline = Instant::now() + self.act_timeout;
        let mut last: Option<(i64, Rect)> = None;
        loop {
            let found = self.find(target).await?;
            // Only a second look tells whether it moves: on a slow machine the first may come at the very end.
            let mut deserves_another = false;
            let why = match usable(target, &found, needs) {
                Ok((element, rect, point)) => {
                    if last == Some((element.backend, rect)) {
                        return Ok((element.clone(), point));
                    }
                    deserves_another = last.is_none();
                    last = Some((element.backend, rect));
                    PageError::NotReady { target: Box::new(target.clone()), reason: "it keeps moving".to_owned() }
                }
                Err(why) => {
                    last = None;
                    why
                }
            };
            if let Some(fault) = self.fault() {
                return Err(fault);
            }
            if Instant::now() >= deadline && !deserves_another {
                if let PageError::NotFound { target, .. } = why {
                    let nearby = self.nearby(&target).await;
                    return Err(PageError::NotFound { target, nearby });
                }
                return Err(why);
            }
            // The second look, which only shows that it stands still, need not wait as long.
            tokio::time::sleep(if last.is_some() { Duration::from_millis(10) } else { super::look::POLL }).await;
        }
    }

    async fn click_at(&self, point: Point) -> Result<(), BrowserError> {
        self.pointer("mouseMoved", point, "none").await?;
        self.pointer("mousePressed", point, "left").await?;
        self.pointer("mouseReleased", point, "left").await
    }

    async fn pointer(&self, kind: &str, at: Point, button: &str) -> Result<(), BrowserError> {
        let held = if kind == "mouseReleased" || button == "none" { 0 } else { 1 };
        let clicks = if kind == "mouseMoved" { 0 } else { 1 };
        let event = json!({
            "type": kind, "x": at.x, "y": at.y, "button": button, "buttons": held, "clickCount": clicks,
        });
        let tab = self.tab()?;
        tokio::select! {
            answer = self.call_on(&tab.session, "Input.dispatchMouseEvent", event) => match answer {
                // A tab that closes itself may say that it has gone, and not that it was clicked.
                Err(BrowserError::Refused { .. }) if !self.in_front(&tab.target) => Ok(()),
                answer => answer.map(|_| ()),
            },
            // One that has opened another in front of it may say nothing.
            () = self.left(&tab.target) => Ok(()),
        }
    }

    fn in_front(&self, target: &str) -> bool {
        self.tab().is_ok_and(|tab| tab.target == *target)
    }

    /// Resolves a moment after this tab is no longer the one in front.
    async fn left(&self, target: &str) {
        while self.in_front(target) {
            tokio::time::sleep(super::look::POLL).await;
        }
        tokio::time::sleep(AFTERWARDS).await;
    }

    async fn key_events(&self, key: &Key) -> Result<(), BrowserError> {
        for event in key.events() {
            self.call("Input.dispatchKeyEvent", event).await?;
        }
        Ok(())
    }
}

/// The one visible element that can be acted on, its box and a free point of it.
fn usable<'a>(target: &Target, found: &'a [Element], needs: Needs) -> Result<(&'a Element, Rect, Point), PageError> {
    let boxed = || Box::new(target.clone());
    let visible: Vec<&Element> = found.iter().filter(|element| element.hidden.is_none()).collect();
    let element = match (visible.as_slice(), found.first()) {
        ([one], _) => *one,
        ([], None) => return Err(PageError::NotFound { target: boxed(), nearby: String::new() }),
        ([], Some(first)) => {
            let reason = first.hidden.clone().unwrap_or_default();
            return Err(PageError::NotVisible { count: found.len(), reason });
        }
        (several, _) => {
            let found = several.iter().take(8).map(|element| format!("{} {}", element.said, element.tag)).collect();
            return Err(PageError::Ambiguous { target: boxed(), found });
        }
    };
    let not_ready = |reason: &str| PageError::NotReady { target: boxed(), reason: reason.to_owned() };
    if needs == Needs::Sight {
        return match element.facts.rect {
            Some(rect) => Ok((element, rect, Point { x: rect.x, y: rect.y })),
            None => Err(not_ready("it has no place on the screen")),
        };
    }
    if !element.enabled {
        return Err(not_ready("it is disabled"));
    }
    if needs == Needs::Writing && element.facts.readonly {
        return Err(not_ready("it is read-only"));
    }
    match (element.facts.rect, element.facts.point) {
        (Some(rect), Some(point)) => Ok((element, rect, point)),
        _ => Err(not_ready(&format!(
            "a click does not reach it, but {}",
            element.facts.over.as_deref().unwrap_or("something else")
        ))),
    }
}
