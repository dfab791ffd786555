//! Seeing: which elements a target means at this moment, what is written on them, and whether a user can see them.
//! One look is one consistent moment; waiting for something is the caller's loop. Nothing here changes the page, but
//! that it may be scrolled, as a user scrolls.

use std::time::Duration;

use futures::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Page, Target,
    error::{BrowserError, PageError},
    text::{cut, fold},
    tree::{Node, Tree},
};

const PROBE: &str = include_str!("probe.js");
const WORLD: &str = "longhaul";
const GROUP: &str = "longhaul";
/// Most elements of one target that are looked at.
const ELEMENTS_MAX: usize = 300;
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
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A place in pixels of the viewport.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
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

    pub(super) async fn tree(&self) -> Result<Tree, BrowserError> {
        Ok(Tree::parse(&self.call("Accessibility.getFullAXTree", json!({})).await?))
    }

    async fn look(&self, target: &Target) -> Result<Vec<Element>, BrowserError> {
        let tree = self.tree().await?;
        let world = self.world().await?;
        let found = Box::pin(self.resolve(&tree, world, target, Manner::Look)).await;
        self.process.wire.post(Some(&self.session), "Runtime.releaseObjectGroup", json!({"objectGroup": GROUP}));
        Ok(found?.into_iter().map(|(_, element)| element).collect())
    }

    /// Nodes and facts of what a target means, outer targets first.
    async fn resolve(
        &self,
        tree: &Tree,
        world: i64,
        target: &Target,
        manner: Manner,
    ) -> Result<Vec<(usize, Element)>, BrowserError> {
        let outer = match &target.within {
            None => None,
            Some(outer) => {
                let found = Box::pin(self.resolve(tree, world, outer, Manner::Read)).await?;
                Some(found.into_iter().map(|(index, _)| index).collect::<Vec<_>>())
            }
        };
        let mut candidates = tree.candidates(target, outer.as_deref());
        candidates.truncate(ELEMENTS_MAX);
        let needs_text = target.text.is_some()
            || target.name.is_some() && candidates.iter().any(|&index| tree.nodes[index].name.is_empty());
        if needs_text {
            let facts = self.probe(world, tree, &candidates, Manner::Read).await?;
            let kept =
                candidates.iter().zip(&facts).filter(|(index, facts)| text_fits(target, &tree.nodes[**index], facts));
            candidates = kept.map(|(index, _)| *index).collect();
        }
        if let Some(nth) = target.nth {
            candidates = candidates.get(nth).copied().into_iter().collect();
        }
        if manner == Manner::Read {
            // The caller only needs to know where to look inside.
            return Ok(candidates
                .iter()
                .map(|&index| (index, element(&tree.nodes[index], Facts::default())))
                .collect());
        }
        let facts = self.probe(world, tree, &candidates, manner).await?;
        Ok(candidates.iter().zip(facts).map(|(&index, facts)| (index, element(&tree.nodes[index], facts))).collect())
    }

    async fn probe(
        &self,
        world: i64,
        tree: &Tree,
        nodes: &[usize],
        manner: Manner,
    ) -> Result<Vec<Facts>, BrowserError> {
        if nodes.is_empty() {
            return Ok(Vec::new());
        }
        let handles = join_all(nodes.iter().map(|&index| self.handle(world, tree.nodes[index].backend))).await;
        let mut arguments = vec![json!({"value": {
            "look": manner == Manner::Look, "scroll": manner == Manner::Look, "keep": nodes.len() == 1,
        }})];
        for handle in handles {
            arguments.push(json!({"objectId": handle?}));
        }
        let facts = self.run(world, PROBE, arguments).await?;
        serde_json::from_value(facts)
            .map_err(|error| BrowserError::Refused { method: "Runtime.callFunctionOn", message: error.to_string() })
    }

    pub(super) async fn handle(&self, world: i64, backend: i64) -> Result<Value, BrowserError> {
        let params = json!({"backendNodeId": backend, "executionContextId": world, "objectGroup": GROUP});
        Ok(self.call("DOM.resolveNode", params).await?["object"]["objectId"].take())
    }

    /// A world of scripts beside the page's own, in the document that is open now.
    pub(super) async fn world(&self) -> Result<i64, BrowserError> {
        let params = json!({"frameId": self.main_frame, "worldName": WORLD, "grantUniveralAccess": false});
        let answer = self.call("Page.createIsolatedWorld", params).await?;
        Ok(answer["executionContextId"].as_i64().unwrap_or_default())
    }

    /// Runs a function of ours in that world.
    pub(super) async fn run(&self, world: i64, function: &str, arguments: Vec<Value>) -> Result<Value, BrowserError> {
        let params = json!({
            "functionDeclaration": function, "executionContextId": world, "arguments": arguments,
            "returnByValue": true, "silent": true,
        });
        let mut answer = self.call("Runtime.callFunctionOn", params).await?;
        match answer.get("exceptionDetails") {
            None => Ok(answer["result"]["value"].take()),
            Some(details) => Err(BrowserError::Refused {
                method: "Runtime.callFunctionOn",
                message: cut(&details["exception"]["description"].to_string(), 300),
            }),
        }
    }

    /// Whether hiding the element changes a single pixel of the screen, and the picture with it shown. This finds what no
    /// style tells: a covering layer that lets clicks through, blend modes, text on a picture of its own colour. The
    /// rule that hides it lives in a style sheet for the time of one picture; no attribute of the page changes.
    ///
    /// # Errors
    /// When the browser has gone, or the element has just left the page.
    pub async fn painted(&self, element: &Element) -> Result<(bool, Vec<u8>), BrowserError> {
        let shown = self.screenshot().await?;
        let world = self.world().await?;
        let node = self.handle(world, element.backend).await?;
        let veil = |on: bool| self.run(world, VEIL, vec![json!({"objectId": node}), json!({"value": on})]);
        veil(true).await?;
        let without = self.screenshot().await;
        veil(false).await?;
        Ok((without? != shown, shown))
    }

    /// What to say when nothing is the target: what is there instead, and what is in the document but not shown. Each
    /// part begins with `; `; empty when there is nothing alike.
    pub async fn nearby(&self, target: &Target) -> String {
        let mut said = String::new();
        if let (Some(name), Ok(world)) = (target.name.as_ref().or(target.text.as_ref()), self.world().await) {
            let hidden = self.run(world, UNSHOWN, vec![json!({"value": fold(name)})]).await;
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

/// Hides a node, or shows it again without starting a transition.
const VEIL: &str = r#"function veil(node, on) {
  const el = node.nodeType === 1 ? node : node.parentElement;
  const root = el.getRootNode();
  const sheet = globalThis.longhaulVeil = globalThis.longhaulVeil || new CSSStyleSheet();
  let path = '';
  for (let e = el; e; e = e.parentElement) {
    const at = e.parentNode && e.parentNode.children ? [...e.parentNode.children].indexOf(e) + 1 : 1;
    path = ':nth-child(' + at + ')' + (path ? '>' + path : '');
  }
  if (root === document) path = path.replace(/^:nth-child\(\d+\)/, ':root');
  const strong = path + ':not(#longhaul#longhaul#longhaul)';
  if (on) {
    sheet.replaceSync(strong + '{opacity:0!important;transition:none!important}');
    root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
  } else {
    sheet.replaceSync(strong + '{transition:none!important}');
    getComputedStyle(el).opacity;
    root.adoptedStyleSheets = [...root.adoptedStyleSheets].filter((s) => s !== sheet);
  }
}"#;

/// Finds elements with this text or label that are in the document but shown to nobody, and says why.
const UNSHOWN: &str = r#"function unshown(wanted) {
  const fold = (s) => (s || '').replace(/\s+/g, ' ').trim().toLowerCase();
  wanted = wanted.toLowerCase();
  const tag = (e) => '<' + e.localName + (e.id ? ' id="' + e.id + '"' : '') + (e.className && e.className.slice ? ' class="' + e.className.slice(0, 60) + '"' : '') + '>';
  for (const e of document.querySelectorAll('body *')) {
    if (e.childElementCount > 3 || /^(script|style|template)$/.test(e.localName)) continue;
    const label = e.getAttribute('aria-label') || e.getAttribute('placeholder') || e.getAttribute('title');
    if (fold(e.textContent) !== wanted && fold(label) !== wanted) continue;
    if ([...e.children].some((c) => fold(c.textContent) === wanted)) continue;
    for (let a = e; a; a = a.parentElement) {
      const where = a === e ? '' : ' on its ancestor ' + tag(a);
      const s = getComputedStyle(a);
      if (a.getAttribute('aria-hidden') === 'true') return tag(e) + ' has that text, but aria-hidden' + where;
      if (s.display === 'none') return tag(e) + ' has that text, but display: none' + where;
      if (s.visibility !== 'visible') return tag(e) + ' has that text, but visibility: ' + s.visibility + where;
      if (a.inert) return tag(e) + ' has that text, but it is inert' + where;
    }
    return tag(e) + ' has that text, but another role';
  }
  return null;
}"#;

fn text_fits(target: &Target, node: &Node, facts: &Facts) -> bool {
    let contains = |wanted: &str| {
        let wanted = fold(wanted);
        facts.text.contains(&wanted) || facts.content.contains(&wanted) || fold(&node.name).contains(&wanted)
    };
    let named = |wanted: &str| !node.name.is_empty() || fold(wanted) == facts.text || fold(wanted) == facts.content;
    target.text.as_deref().is_none_or(contains) && target.name.as_deref().is_none_or(named)
}

fn element(node: &Node, facts: Facts) -> Element {
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
        backend: node.backend,
        said: node.say(),
        facts,
    }
}
