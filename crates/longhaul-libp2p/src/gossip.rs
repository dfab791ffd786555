//! Posts in channels by gossip, both ways, with the log between.
//!
//! In: a message signed by a peer becomes the event of the agent that speaks from this peer, or nothing. Out: what the
//! log says of a channel is put on its topic, once, whichever transport it came over. Invariant: nothing stands on a
//! topic that is not in the log, and of one event of one agent there is one, however often its message comes.

use std::{collections::HashMap, sync::Arc, time::Duration};

use libp2p::{PeerId, gossipsub::Message};
use longhaul_network::{Address, Draft, Event, Member, Refusal, RefusalKind, Visibility};
use tokio::sync::mpsc;

use crate::{
    node::{Command, Node},
    wire::{ToPeer, WireDraft},
};

/// Messages of one author that wait for their turn; further ones are dropped.
const WAITING_MAX: usize = 2_048;
/// An author's queue ends when nothing came for so long.
const QUIET: Duration = Duration::from_secs(30);
/// A post that came too soon waits for its turn at most so often.
const TURNS_MAX: u32 = 200;

/// Posts that came by gossip, a queue for each author, so that each one's are sent in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Posts(HashMap<PeerId, mpsc::Sender<(Member, Draft)>>);

impl Posts {
    /// Takes what came on a topic.
    pub(crate) fn take(&mut self, node: &Arc<Node>, message: Message) {
        let (author, post) = match read(node, &message) {
            Ok(read) => read,
            Err(refusal) => {
                tracing::debug!(author = ?message.source, %refusal, "a gossiped message was dropped");
                return;
            }
        };
        self.0.retain(|_, queue| !queue.is_closed());
        let queue = self.0.entry(author).or_insert_with(|| {
            let (queue, posts) = mpsc::channel(WAITING_MAX);
            tokio::spawn(send_in_turn(node.clone(), posts));
            queue
        });
        if queue.try_send(post).is_err() {
            tracing::warn!(%author, "a gossiped message was dropped: {WAITING_MAX} of its author wait already");
        }
    }
}

/// Whose event this is. Gossipsub has checked that the author signed it.
fn read(node: &Node, message: &Message) -> Result<(PeerId, (Member, Draft)), Refusal> {
    let author = message.source.ok_or_else(|| Refusal::invalid("a message without its author"))?;
    let channel = node.channel(message.topic.as_str());
    let channel = channel.ok_or_else(|| Refusal::missing("topic", message.topic.as_str()))?;
    let post: WireDraft = serde_json::from_slice(&message.data)
        .map_err(|error| Refusal::invalid(format!("a message that is no event: {error}")))?;
    let mut members = node.members(&author);
    if let Some(source) = &post.source_id {
        members.retain(|member| member.agent().as_str() == source.strip_prefix("agent:").unwrap_or(source));
    }
    let (Some(member), None) = (members.pop(), members.pop()) else {
        return Err(Refusal::forbidden(
            "no agent, or not one alone, speaks from this peer: say hello, and name source_id",
        ));
    };
    let mut draft = post.into_draft(member.agent())?;
    match &draft.to {
        Address::System => draft.to = Address::Channel(channel),
        Address::Channel(named) if *named == channel => {}
        Address::Agent(_) | Address::Channel(_) | Address::Group(_) | Address::Mod(_) | Address::Everybody => {
            return Err(Refusal::invalid("on a topic only its own channel is a destination"));
        }
    }
    if !node.may_read(&author, message.topic.as_str()) {
        return Err(Refusal::forbidden("only who is in the channel posts in it"));
    }
    Ok((author, (member, draft)))
}

async fn send_in_turn(node: Arc<Node>, mut posts: mpsc::Receiver<(Member, Draft)>) {
    loop {
        let next = tokio::select! {
            () = node.stop.cancelled() => return,
            next = tokio::time::timeout(QUIET, posts.recv()) => next,
        };
        let Ok(Some((member, draft))) = next else { break };
        send(&node, &member, draft).await;
    }
    // What came in the last moment is sent as well.
    posts.close();
    while let Some((member, draft)) = posts.recv().await {
        send(&node, &member, draft).await;
    }
}

async fn send(node: &Node, member: &Member, draft: Draft) {
    for _ in 0..TURNS_MAX {
        match node.network.send(member, draft.clone()).await {
            Ok(reply) if reply.success => return,
            Ok(reply) => {
                tracing::debug!(agent = %member.agent(), message = reply.message, "a gossiped post was refused");
                return;
            }
            // Gossip has no way to tell its author to wait, so it waits here, within its bounds.
            Err(refusal) if refusal.kind == RefusalKind::TooMany => {
                let pause = Duration::from_millis(refusal.retry_after_ms.unwrap_or(20).clamp(1, 1_000));
                tokio::select! {
                    () = node.stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
            }
            Err(refusal) => {
                tracing::debug!(agent = %member.agent(), %refusal, "a gossiped post was not admitted");
                return;
            }
        }
    }
    tracing::warn!(agent = %member.agent(), "a gossiped post was given up: the agent sends faster than it may");
}

/// Puts what the log says of channels on their topics, until the node ends.
pub(crate) async fn publish(node: Arc<Node>) {
    let mut ear = node.network.overhear();
    loop {
        let events = tokio::select! {
            () = node.stop.cancelled() => return,
            events = ear.next(|| node.channels()) => events,
        };
        let Some(events) = events else { return };
        for event in events {
            if let Some((topic, frame)) = to_publish(&node, &event)
                && !node.ask(Command::Publish(topic, frame)).await
            {
                return;
            }
        }
    }
}

/// The frame for the topic, unless the event is for some members only, or too large.
fn to_publish(node: &Node, event: &Event) -> Option<(String, Vec<u8>)> {
    let Address::Channel(channel) = &event.to else { return None };
    let for_all = match event.visibility {
        Visibility::Public | Visibility::Network | Visibility::Channel => event.allowed_agents.is_none(),
        Visibility::Direct | Visibility::Restricted | Visibility::ModOnly => false,
    };
    let frame = for_all.then(|| ToPeer::Event { seq: event.seq, event: event.to_contract() }.to_bytes())?;
    (frame.len() <= node.settings.gossip_bytes_max).then(|| (node.topic(channel), frame))
}
