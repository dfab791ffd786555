//! The documents of a tab as one tree: its own, and those of its frames, in the same process or in another. Without a
//! frame on the page this is one call; each frame costs two more.

use std::collections::HashMap;

use futures::future::join_all;
use serde_json::{Value, json};

use super::{
    Page,
    error::BrowserError,
    tree::{Frame, Spot, Tree},
};

/// Most frames of a page that are looked into.
const FRAMES_MAX: usize = 30;

impl Page {
    /// Where the current tab's own document is.
    pub(super) fn spot(&self) -> Result<Spot, BrowserError> {
        let tab = self.tab()?;
        Ok(Spot { session: tab.session, frame: tab.target })
    }

    /// Everything that assistive technology sees in the current tab.
    pub(super) async fn tree(&self) -> Result<Tree, BrowserError> {
        let spot = self.spot()?;
        let own = Tree::parse(&self.call_on(&spot.session, "Accessibility.getFullAXTree", json!({})).await?);
        let main = Frame { spot, ..Frame::default() };
        if !own.has_frames() {
            return Ok(Tree { nodes: own.nodes, frames: vec![main] });
        }
        let mut parts = vec![(main, own)];
        for frame in self.frames(&parts[0].0.spot).await? {
            let params = json!({"frameId": frame.spot.frame});
            match self.call_on(&frame.spot.session, "Accessibility.getFullAXTree", params).await {
                Ok(answer) => parts.push((frame, Tree::parse(&answer))),
                Err(error) if error.is_passing() => parts.push((frame, Tree::default())), // it has just gone
                Err(error) => return Err(error),
            }
        }
        Ok(Tree::grafted(parts))
    }

    /// The frames of a tab, outer ones first, each with its element.
    async fn frames(&self, main: &Spot) -> Result<Vec<Frame>, BrowserError> {
        let mut sessions = vec![main.session.clone()];
        sessions.extend(self.observer.frames_of(&main.frame));
        let asked = sessions.iter().map(|session| self.call_on(session, "Page.getFrameTree", json!({})));
        let mut known: Vec<(Frame, String)> = Vec::new();
        for (session, answer) in sessions.iter().zip(join_all(asked).await) {
            match answer {
                Ok(answer) => gather(&answer["frameTree"], session, &mut known),
                Err(error) if error.is_passing() || *session != main.session => {}
                Err(error) => return Err(error),
            }
        }
        known.truncate(FRAMES_MAX);
        let sessions: HashMap<String, String> =
            known.iter().map(|(frame, _)| (frame.spot.frame.clone(), frame.spot.session.clone())).collect();
        let owners = known.iter().map(|(frame, parent)| {
            let session = sessions.get(parent).unwrap_or(&main.session).clone();
            async move { self.call_on(&session, "DOM.getFrameOwner", json!({"frameId": frame.spot.frame})).await }
        });
        let owners: Vec<i64> = join_all(owners)
            .await
            .into_iter()
            .map(|owner| owner.ok().and_then(|owner| owner["backendNodeId"].as_i64()).unwrap_or_default())
            .collect();
        Ok(in_order(known, owners, &main.frame))
    }

    /// A world of scripts beside the page's own, in the document that is open there now.
    pub(super) async fn world(&self, spot: &Spot) -> Result<i64, BrowserError> {
        let params = json!({"frameId": spot.frame, "worldName": "longhaul", "grantUniveralAccess": false});
        let answer = self.call_on(&spot.session, "Page.createIsolatedWorld", params).await?;
        Ok(answer["executionContextId"].as_i64().unwrap_or_default())
    }
}

/// The frames below a session's root, and the root itself where it is a frame; each with its parent's id.
fn gather(tree: &Value, session: &str, known: &mut Vec<(Frame, String)>) {
    let mut stack = vec![tree];
    while let Some(tree) = stack.pop() {
        let text = |field: &str| tree["frame"][field].as_str().unwrap_or_default().to_owned();
        let parent = text("parentId");
        if !parent.is_empty() {
            let spot = Spot { session: session.to_owned(), frame: text("id") };
            known.push((Frame { spot, name: text("name"), url: text("url"), ..Frame::default() }, parent));
        }
        stack.extend(tree["childFrames"].as_array().into_iter().flatten().rev());
    }
}

/// Frames whose parents are known, outer ones first, with the positions of their parents; the main document is at 0.
fn in_order(known: Vec<(Frame, String)>, owners: Vec<i64>, main: &str) -> Vec<Frame> {
    let mut left: Vec<((Frame, String), i64)> =
        known.into_iter().zip(owners).filter(|(_, owner)| *owner != 0).collect();
    let mut places: HashMap<String, usize> = HashMap::from([(main.to_owned(), 0)]);
    let mut ordered = Vec::new();
    loop {
        let (ready, rest): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|((_, parent), _)| places.contains_key(parent));
        if ready.is_empty() {
            return ordered;
        }
        for ((mut frame, parent), owner) in ready {
            frame.parent = places.get(&parent).copied();
            frame.owner = owner;
            places.insert(frame.spot.frame.clone(), ordered.len() + 1);
            ordered.push(frame);
        }
        left = rest;
    }
}
