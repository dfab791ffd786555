//! Seeing: which elements a target means at this moment, what is written on them, and whether a user can see them.
//! One look is one consistent moment; waiting for something is the caller's loop. Nothing here changes the page, but
//! that it may be scrolled, as a user scrolls.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Page, Target,
    error::{BrowserError, PageError},
    text::{cut, fold},
    tree::{Node, Spot, Tree},
};

const PROBE: &str = include_str!("probe.js");
/// Hides a node, or shows it again without starting a transition.
const VEIL: &str = include_str!("veil.js");
/// Finds elements with a text that are in the document but shown to nobody.
const UNSHOWN: &str = include_str!("unshown.js");
const GROUP: &str = "longhaul";
/// Most elements of one target that are looked at.
const ELEMENTS_MAX: usize = 300;
/// Looks at an element of which pixels change by themselves.
const MOVING_LOOKS_MAX: u32 = 3;
/// Time between two looks of a waiting caller.
pub(super) const POLL: Duration = Duration::from_millis(30);

/// An element as it is at the moment of a look.
#[derive(Debug, Clone, PartialEq)]
pub struct Element {
    /// Its text as shown, white space folded.
    pub text: String,
    /// Its text before styles change its letters, white space folded.
    pub content: String,
    /// Its value, where it has one.
    pub value: Option<String>,
    /// Why a user cannot see it; `None` when it is visible.
    pub hidden: Option<String>,
    /// Whether it can be operated.
    pub enabled: bool,
    /// Whether it has the focus.
    pub focused: bool,
    /// Whether it is ticked or pressed, where it can be.
    pub checked: Option<bool>,
    /// Its tag, id and class, for messages.
    pub tag: String,
    pub(super) spot: Spot,
    pub(super) backend: i64,
    pub(super) facts: Facts,
    pub(super) said: String,
}

/// What the probe tells of one node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Facts {
    pub(super) reason: Option<String>,
    pub(super) rect: Option<Rect>,
    pub(super) part: Option<Rect>,
    pub(super) point: Option<Point>,
    pub(super) over: Option<String>,
    pub(super) text: String,
    pub(super) content: String,
    pub(super) value: Option<String>,
    pub(super) tag: String,
    pub(super) readonly: bool,
    pub(super) kind: String,
}

/// A box in pixels of the viewport.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A place in pixels of the viewport.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// How to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Only what is written.
    Read,
    /// Also whether it is visible; scrolls each into view, and stays there when there is only one.
    Look,
}

/// The worlds of scripts of one look, one a document.
#[derive(Default)]
struct Worlds(BTreeMap<usize, i64>);

impl Worlds {
    async fn of(&mut self, page: &Page, tree: &Tree, frame: usize) -> Result<i64, BrowserError> {
        if let Some(world) = self.0.get(&frame) {
            return Ok(*world);
        }
        let world = page.world(&tree.frames[frame].spot).await?;
        self.0.insert(frame, world);
        Ok(world)
    }

    fn sessions(&self, tree: &Tree) -> Vec<String> {
        let mut sessions: Vec<String> = self.0.keys().map(|&frame| tree.frames[frame].spot.session.clone()).collect();
        sessions.sort_unstable();
        sessions.dedup();
        sessions
    }
}

impl Page {
    /// The elements that a target means now, in document order, visible or not. Without `nth` all, with it at most one.
    ///
    /// # Errors
    /// When the browser has gone; a page that is just changing is looked at again.
    pub async fn find(&self, target: &Target) -> Result<Vec<Element>, PageError> {
        let deadline = Instant::now() + self.act_timeout;
        loop {
            match self.look(target).await {
                Ok(found) => return Ok(found),
                Err(error) if error.is_passing() && Instant::now() < deadline => self.pause().await,
                Err(error) => return Err(self.fault().unwrap_or(PageError::Browser(error))),
            }
        }
    }

    /// Waits until the next look is due.
    pub(super) async fn pause(&self) {
        tokio::time::sleep(POLL).await;
    }

    async fn look(&self, target: &Target) -> Result<Vec<Element>, BrowserError> {
        let tree = self.tree().await?;
        let mut worlds = Worlds::default();
        let found = Box::pin(self.resolve(&tree, &mut worlds, target, Manner::Look)).await;
        for session in worlds.sessions(&tree) {
            self.process.wire.post(Some(&session), "Runtime.releaseObjectGroup", json!({"objectGroup": GROUP}));
        }
        Ok(found?.into_iter().map(|(_, element)| element).collect())
    }

    /// Nodes and facts of what a target means, outer targets first.
    async fn resolve(
        &self,
        tree: &Tree,
        worlds: &mut Worlds,
        target: &Target,
        manner: Manner,
    ) -> Result<Vec<(usize, Element)>, BrowserError> {
        let outer = match &target.within {
            None => None,
            Some(outer) => {
                let found = Box::pin(self.resolve(tree, worlds, outer, Manner::Read)).await?;
                Some(found.into_iter().map(|(index, _)| index).collect::<Vec<_>>())
            }
        };
        let mut candidates = tree.candidates(target, outer.as_deref());
        candidates.truncate(ELEMENTS_MAX);
        let needs_text = target.text.is_some()
            || target.name.is_some() && candidates.iter().any(|&index| tree.nodes[index].name.is_empty());
        if needs_text {
            let facts = self.probe(worlds, tree, &candidates, Manner::Read).await?;
            let kept =
                candidates.iter().zip(&facts).filter(|(index, facts)| text_fits(target, &tree.nodes[**index], facts));
            candidates = kept.map(|(index, _)| *index).collect();
        }
        if let Some(nth) = target.nth {
            candidates = candidates.get(nth).copied().into_iter().collect();
        }
        if manner == Manner::Read {
            // The caller only needs to know where to look inside.
            return Ok(candidates.iter().map(|&index| (index, element(tree, index, Facts::default()))).collect());
        }
        let facts = self.probe(worlds, tree, &candidates, manner).await?;
        Ok(candidates.iter().zip(facts).map(|(&index, facts)| (index, element(tree, index, facts))).collect())
    }

    async fn probe(
        &self,
        worlds: &mut Worlds,
        tree: &Tree,
        nodes: &[usize],
        manner: Manner,
    ) -> Result<Vec<Facts>, BrowserError> {
        let mut by_frame: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (position, &index) in nodes.iter().enumerate() {
            by_frame.entry(tree.nodes[index].frame).or_default().push(position);
        }
        let mut facts = vec![Facts::default(); nodes.len()];
        for (frame, positions) in by_frame {
            let backends: Vec<i64> = positions.iter().map(|&position| tree.nodes[nodes[position]].backend).collect();
            let keep = nodes.len() == 1;
            let options = json!({"look": manner == Manner::Look, "scroll": manner == Manner::Look, "keep": keep});
            let mut found = self.ask(worlds, tree, frame, &backends, options).await?;
            if manner == Manner::Look {
                self.through_frames(worlds, tree, frame, &mut found, keep).await?;
            }
            for (position, fact) in positions.into_iter().zip(found) {
                facts[position] = fact;
            }
        }
        Ok(facts)
    }

    /// Asks the probe about nodes of one document.
    async fn ask(
        &self,
        worlds: &mut Worlds,
        tree: &Tree,
        frame: usize,
        backends: &[i64],
        options: Value,
    ) -> Result<Vec<Facts>, BrowserError> {
        let spot = &tree.frames[frame].spot;
        let world = worlds.of(self, tree, frame).await?;
        let handles = join_all(backends.iter().map(|&backend| self.handle(spot, world, backend))).await;
        let mut arguments = vec![json!({"value": options})];
        for handle in handles {
            arguments.push(json!({"objectId": handle?}));
        }
        let facts = self.run(spot, world, PROBE, arguments).await?;
        serde_json::from_value(facts)
            .map_err(|error| BrowserError::Refused { method: "Runtime.callFunctionOn", message: error.to_string() })
    }

    /// What is visible in a frame is visible to a user only where the frame itself is: asks each frame around it in turn,
    /// and gives boxes and points in pixels of the page's viewport.
    async fn through_frames(
        &self,
        worlds: &mut Worlds,
        tree: &Tree,
        mut frame: usize,
        facts: &mut [Facts],
        keep: bool,
    ) -> Result<(), BrowserError> {
        while let Some(outer) = tree.frames[frame].parent {
            let shown: Vec<usize> = (0..facts.len()).filter(|&n| facts[n].reason.is_none()).collect();
            if shown.is_empty() {
                return Ok(());
            }
            let inner: Vec<Value> =
                shown.iter().map(|&n| json!({"part": facts[n].part, "point": facts[n].point})).collect();
            let options = json!({"look": true, "scroll": true, "keep": keep, "inner": inner});
            let owners = vec![tree.frames[frame].owner; shown.len()];
            for (n, outside) in shown.into_iter().zip(self.ask(worlds, tree, outer, &owners, options).await?) {
                let fact = &mut facts[n];
                fact.reason = outside.reason.map(|why| format!("the frame around it: {why}"));
                (fact.rect, fact.part, fact.point) = (outside.rect, outside.part, outside.point);
                fact.over = outside.over.or(fact.over.take());
            }
            frame = outer;
        }
        Ok(())
    }

    pub(super) async fn handle(&self, spot: &Spot, world: i64, backend: i64) -> Result<Value, BrowserError> {
        let params = json!({"backendNodeId": backend, "executionContextId": world, "objectGroup": GROUP});
        Ok(self.call_on(&spot.session, "DOM.resolveNode", params).await?["object"]["objectId"].take())
    }

    /// Runs a function of ours in that world.
    pub(super) async fn run(
        &self,
        spot: &Spot,
        world: i64,
        function: &str,
        arguments: Vec<Value>,
    ) -> Result<Value, BrowserError> {
        let params = json!({
            "functionDeclaration": function, "executionContextId": world, "arguments": arguments,
            "returnByValue": true, "silent": true,
        });
        let mut answer = self.call_on(&spot.session, "Runtime.callFunctionOn", params).await?;
        match answer.get("exceptionDetails") {
            None => Ok(answer["result"]["value"].take()),
            Some(details) => Err(BrowserError::Refused {
                method: "Runtime.callFunctionOn",
                message: cut(&details["exception"]["description"].to_string(), 300),
            }),
        }
    }

    /// Whether hiding the element changes a single pixel where it is shown. This finds what no style tells: a covering
    /// layer that lets clicks through, blend modes, text on a picture of its own colour. What moves elsewhere on the page
    /// says nothing; what moves there by itself is told apart by a third picture, with the element shown again. The rule
    /// that hides it lives in a style sheet for the time of one picture; no attribute of the page changes.
    ///
    /// # Errors
    /// When the browser has gone, or the element has just left the page.
    pub async fn painted(&self, element: &Element) -> Result<bool, BrowserError> {
        let spot = &element.spot;
        let world = self.world(spot).await?;
        let node = self.handle(spot, world, element.backend).await?;
        let veil = |on: bool| self.run(spot, world, VEIL, vec![json!({"objectId": node}), json!({"value": on})]);
        let mut shown = self.picture_of(element).await?;
        for _ in 0..MOVING_LOOKS_MAX {
            veil(true).await?;
            let without = self.picture_of(element).await;
            veil(false).await?;
            if without? == shown {
                return Ok(false);
            }
            let again = self.picture_of(element).await?;
            if again == shown {
                return Ok(true);
            }
            shown = again;
        }
        // It never stood still: what differs is as likely its own doing.
        Ok(true)
    }

    /// A picture of one element, scrolled into view, as PNG. What lies over it is on the picture too.
    ///
    /// # Errors
    /// When there is not exactly one that is visible, or the browser has gone.
    pub async fn screenshot_of(&self, target: &Target) -> Result<Vec<u8>, PageError> {
        let (element, _) = self.pictured(target).await?;
        Ok(self.picture_of(&element).await?)
    }

    /// The part of the window in which the element is shown.
    async fn picture_of(&self, element: &Element) -> Result<Vec<u8>, BrowserError> {
        let clip = element.facts.part.unwrap_or(Rect { x: 0.0, y: 0.0, width: 1.0, height: 1.0 });
        // A clip is meant from the document's corner, the part from the window's.
        let scrolled = self.call("Page.getLayoutMetrics", json!({})).await?["cssVisualViewport"].take();
        let offset = |name: &str| scrolled[name].as_f64().unwrap_or_default();
        let clip = json!({
            "x": (clip.x + offset("pageX")).round(), "y": (clip.y + offset("pageY")).round(),
            "width": clip.width.round().max(1.0),
            "height": clip.height.round().max(1.0), "scale": 1,
        });
        self.picture(json!({"format": "png", "optimizeForSpeed": true, "clip": clip})).await
    }

    /// What to say when nothing is the target: what is there instead, and what is in the document but not shown. Each
    /// part begins with `; `; empty when there is nothing alike.
    pub async fn nearby(&self, target: &Target) -> String {
        let mut said = String::new();
        if let (Some(name), Ok(spot)) = (target.name.as_ref().or(target.text.as_ref()), self.spot())
            && let Ok(world) = self.world(&spot).await
        {
            let hidden = self.run(&spot, world, UNSHOWN, vec![json!({"value": fold(name)})]).await;
            if let Some(hidden) = hidden.ok().and_then(|value| value.as_str().map(str::to_owned)) {
                said.push_str(&format!("; {hidden}"));
            }
        }
        let alike = self.tree().await.map(|tree| tree.alike(target)).unwrap_or_default();
        if !alike.is_empty() {
            said.push_str(&format!("; there is {}", alike.join(", ")));
        }
        said
    }
}

fn text_fits(target: &Target, node: &Node, facts: &Facts) -> bool {
    let contains = |wanted: &str| {
        let wanted = fold(wanted);
        facts.text.contains(&wanted) || facts.content.contains(&wanted) || fold(&node.name).contains(&wanted)
    };
    let named = |wanted: &str| !node.name.is_empty() || fold(wanted) == facts.text || fold(wanted) == facts.content;
    target.text.as_deref().is_none_or(contains) && target.name.as_deref().is_none_or(named)
}

fn element(tree: &Tree, index: usize, facts: Facts) -> Element {
    let node = &tree.nodes[index];
    let value = facts.value.clone().or_else(|| (!node.value.is_empty()).then(|| node.value.clone()));
    Element {
        text: facts.text.clone(),
        content: facts.content.clone(),
        value,
        hidden: facts.reason.clone(),
        enabled: !node.disabled,
        focused: node.focused,
        checked: node.checked,
        tag: facts.tag.clone(),
        spot: tree.frames[node.frame].spot.clone(),
        backend: node.backend,
        said: node.say(),
        facts,
    }
}
