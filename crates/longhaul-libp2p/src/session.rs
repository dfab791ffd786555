//! One event stream: who it speaks for, what it sends, what is pushed on it.
//!
//! Frames are answered in the order in which they came. What is pushed comes between the answers, in the order of the
//! log, and stops when too much of it is not acknowledged. Invariants: nothing but coming in is possible before the
//! right secret was shown; a stream speaks for one agent to its end; what a stranger may send is small.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::AsyncReadExt as _;
use libp2p::{PeerId, Stream};
use longhaul_network::{AgentId, Inbox, Member, Refusal, RefusalKind, Registration, Via};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::MissedTickBehavior,
};

use crate::{
    codec::{self, FrameError},
    node::{Command, Node},
    wire::{FromPeer, ToPeer, WireDraft},
};

/// A stream on which nobody has come in after this ends.
const STRANGER_TIME: Duration = Duration::from_secs(10);
/// Largest frame of a stranger, bytes.
const STRANGER_BYTES_MAX: usize = 64 * 1024;
/// Attempts to come in on one stream.
const ATTEMPTS_MAX: u32 = 5;
/// Frames that wait to be written.
const OUT_MAX: usize = 64;
/// Events that are read at once, and how long the log is waited for.
const BATCH: usize = 64;
const HELD: Duration = Duration::from_secs(25);

/// What a frame led to.
enum Next {
    Answer(ToPeer),
    Nothing,
    /// Answer, and end.
    End(ToPeer),
}

/// Lives as long as the stream.
pub(crate) async fn run(node: Arc<Node>, peer: PeerId, stream: Stream) {
    if node.stream_began(peer) {
        let ended = {
            let stop = node.stop.clone();
            let mut session = Session::new(node.clone(), peer);
            tokio::select! {
                () = stop.cancelled() => Ok(()),
                ended = session.speak(stream) => ended,
            }
        };
        node.stream_ended(&peer);
        // Who has left may lose its connection now, where it listens to gossip, and has had its answer before.
        node.ask(Command::Changed(peer)).await;
        if let Err(error) = ended {
            tracing::debug!(%peer, error = &error as &dyn std::error::Error, "an event stream ended");
        }
    } else {
        tracing::debug!(%peer, "a stream was reset: its peer has too many");
    }
}

struct Session {
    node: Arc<Node>,
    peer: PeerId,
    member: Option<Member>,
    /// Ends the pushing with the session.
    pushing: JoinSet<()>,
    /// How far what was pushed is acknowledged.
    acknowledged: Option<watch::Sender<i64>>,
}

impl Session {
    fn new(node: Arc<Node>, peer: PeerId) -> Self {
        Self { node, peer, member: None, pushing: JoinSet::new(), acknowledged: None }
    }

    async fn speak(&mut self, stream: Stream) -> Result<(), FrameError> {
        let (reader, writer) = stream.split();
        let mut reader = futures::io::BufReader::new(reader);
        let (out, frames) = mpsc::channel(OUT_MAX);
        let mut writing = tokio::spawn(write_all(writer, frames));
        let read = tokio::select! {
            read = self.read_all(&mut reader, &out) => read,
            // Nothing can be written any more.
            _ = &mut writing => return Ok(()),
        };
        self.pushing.abort_all();
        drop(out);
        // What was answered is still written; the writer's own times bound it.
        let _ = writing.await;
        read
    }

    async fn read_all<R: futures::AsyncRead + Unpin>(
        &mut self,
        reader: &mut R,
        out: &mpsc::Sender<Vec<u8>>,
    ) -> Result<(), FrameError> {
        let mut attempts = 0;
        while self.member.is_none() {
            let frame = codec::read(reader, STRANGER_BYTES_MAX, Some(STRANGER_TIME)).await?;
            let Some(frame) = frame else { return Ok(()) };
            let answer = self.come_in(&frame).await;
            let _ = out.send(answer.to_bytes()).await;
            attempts += 1;
            if self.member.is_none() && attempts >= ATTEMPTS_MAX {
                return Ok(());
            }
        }
        let most = self.node.frame_bytes_max();
        let mut present = tokio::time::interval((self.node.network_settings.lease / 3).max(Duration::from_secs(1)));
        present.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let frame = {
                // Pinned, so that the ticks between two frames do not cut one in the middle.
                let mut next = std::pin::pin!(codec::read(reader, most, None));
                loop {
                    tokio::select! {
                        frame = &mut next => break frame?,
                        _ = present.tick() => {
                            if self.member.as_ref().is_none_or(|member| self.node.network.touch(member).is_err()) {
                                return Ok(());
                            }
                        }
                    }
                }
            };
            let Some(frame) = frame else { return Ok(()) };
            match self.handle(&frame, out).await {
                Next::Answer(answer) => drop(out.send(answer.to_bytes()).await),
                Next::Nothing => {}
                Next::End(answer) => {
                    let _ = out.send(answer.to_bytes()).await;
                    return Ok(());
                }
            }
        }
    }

    /// What a stranger says.
    async fn come_in(&mut self, frame: &[u8]) -> ToPeer {
        let said = match serde_json::from_slice(frame) {
            Ok(said) => said,
            Err(error) => return ToPeer::refused(None, unreadable(&error)),
        };
        let may_try = self.node.may_try(&self.peer);
        let (request_id, came) = match said {
            FromPeer::Register { request_id, .. } | FromPeer::Hello { request_id, .. } if may_try.is_err() => {
                return ToPeer::refused(request_id, may_try.err().unwrap_or_else(nobody));
            }
            FromPeer::Register {
                request_id,
                agent_id,
                agent_group: group,
                password_hash: credential,
                secret,
                metadata,
                capabilities,
            } => {
                let wanted = agent_id.parse().map(|agent| Registration {
                    group,
                    credential,
                    secret,
                    metadata,
                    capabilities,
                    ..Registration::new(agent, Via::Libp2p)
                });
                let came = match wanted {
                    Ok(wanted) => self.register(request_id.clone(), wanted).await,
                    Err(refusal) => Err(refusal),
                };
                (request_id, came)
            }
            FromPeer::Hello { request_id, agent_id, secret } => {
                let came = match agent_id.parse() {
                    Ok(agent) => self.hello(request_id.clone(), &agent, &secret),
                    Err(refusal) => Err(refusal),
                };
                (request_id, came)
            }
            FromPeer::Send { request_id, .. }
            | FromPeer::Receive { request_id, .. }
            | FromPeer::Topic { request_id, .. }
            | FromPeer::Ping { request_id }
            | FromPeer::Unregister { request_id } => (request_id, Err(nobody())),
            FromPeer::Ack { .. } => (None, Err(nobody())),
        };
        match came {
            Ok(answer) => {
                self.node.ask(Command::Changed(self.peer)).await;
                answer
            }
            Err(refusal) => {
                self.node.failed(&self.peer);
                ToPeer::refused(request_id, refusal)
            }
        }
    }

    async fn register(&mut self, request_id: Option<String>, mut wanted: Registration) -> Result<ToPeer, Refusal> {
        self.node.may_speak(&wanted.agent, &self.peer, true)?;
        wanted.metadata = Node::with_peer(wanted.metadata, &self.peer);
        let registered = self.node.network.register(wanted).await?;
        self.node.bind(self.peer, registered.member.clone(), true)?;
        let answer = ToPeer::Registered {
            request_id,
            agent_id: registered.member.agent().to_string(),
            secret: registered.secret,
            assigned_group: registered.member.group().to_owned(),
            network_id: self.node.network_id.clone(),
            network_name: self.node.network_name.clone(),
        };
        self.member = Some(registered.member);
        Ok(answer)
    }

    fn hello(&mut self, request_id: Option<String>, agent: &AgentId, secret: &str) -> Result<ToPeer, Refusal> {
        let member = self.node.network.authenticate(agent, secret)?;
        self.node.may_speak(agent, &self.peer, false)?;
        self.node.bind(self.peer, member.clone(), false)?;
        self.node.network.touch(&member)?;
        let answer = ToPeer::Welcome {
            request_id,
            agent_id: agent.to_string(),
            assigned_group: member.group().to_owned(),
            network_id: self.node.network_id.clone(),
            network_name: self.node.network_name.clone(),
        };
        self.member = Some(member);
        Ok(answer)
    }

    /// What a member says.
    async fn handle(&mut self, frame: &[u8], out: &mpsc::Sender<Vec<u8>>) -> Next {
        let Some(member) = self.member.clone() else { return Next::Nothing };
        let said = match serde_json::from_slice(frame) {
            Ok(said) => said,
            Err(error) => return Next::Answer(ToPeer::refused(None, unreadable(&error))),
        };
        let (request_id, answer) = match said {
            FromPeer::Send { request_id, event } => (request_id.clone(), self.send(&member, request_id, event).await),
            FromPeer::Receive { request_id, after } => {
                (request_id.clone(), self.receive(&member, request_id, after, out))
            }
            FromPeer::Ack { seq } => {
                if let Some(acknowledged) = &self.acknowledged {
                    acknowledged.send_modify(|known| *known = seq.max(*known));
                }
                match self.node.network.acknowledge(&member, seq) {
                    Ok(()) => return Next::Nothing,
                    Err(refusal) => (None, Err(refusal)),
                }
            }
            FromPeer::Topic { request_id, channel } => {
                (request_id.clone(), self.topic(&member, request_id, channel).await)
            }
            FromPeer::Ping { request_id } => {
                let heard = self.node.network.touch(&member);
                (request_id.clone(), heard.map(|()| ToPeer::Pong { request_id }))
            }
            FromPeer::Unregister { request_id } => match self.node.network.unregister(&member).await {
                Ok(()) => {
                    self.node.unbind(&self.peer, member.agent());
                    return Next::End(ToPeer::Unregistered { request_id });
                }
                Err(refusal) => (request_id, Err(refusal)),
            },
            FromPeer::Register { request_id, .. } | FromPeer::Hello { request_id, .. } => {
                let taken = format!("this stream speaks for {} already: open another one", member.agent());
                (request_id, Err(Refusal::invalid(taken)))
            }
        };
        match answer {
            Ok(answer) => Next::Answer(answer),
            // Its secret was replaced, or it was sent away: nothing more can be done here.
            Err(refusal) if refusal.kind == RefusalKind::Unauthenticated => {
                Next::End(ToPeer::refused(request_id, refusal))
            }
            Err(refusal) => Next::Answer(ToPeer::refused(request_id, refusal)),
        }
    }

    async fn send(&self, member: &Member, request_id: Option<String>, event: WireDraft) -> Result<ToPeer, Refusal> {
        let id = event.event_id.clone();
        let draft = event.into_draft(member.agent())?;
        let reply = self.node.network.send(member, draft).await?;
        Ok(ToPeer::reply(request_id, id, reply))
    }

    fn receive(
        &mut self,
        member: &Member,
        request_id: Option<String>,
        after: Option<i64>,
        out: &mpsc::Sender<Vec<u8>>,
    ) -> Result<ToPeer, Refusal> {
        if self.acknowledged.is_some() {
            return Err(Refusal::conflict("this stream receives already: open another one for another place"));
        }
        let inbox = self.node.network.inbox(member, after)?;
        let (sender, acknowledged) = watch::channel(0);
        self.acknowledged = Some(sender);
        let most = self.node.settings.unacknowledged_max;
        self.pushing.spawn(push(inbox, out.clone(), acknowledged, most));
        Ok(ToPeer::Receiving { request_id })
    }

    async fn topic(&self, member: &Member, request_id: Option<String>, channel: String) -> Result<ToPeer, Refusal> {
        if !self.node.network.is_in_channel(&channel, member.agent()) {
            // Whether there is such a channel is for its members to know.
            return Err(Refusal::missing("channel of yours", &channel));
        }
        let topic = self.node.topic(&channel);
        self.node.remember_topic(&topic, &channel);
        let (joined, told) = tokio::sync::oneshot::channel();
        self.node.ask(Command::Join(topic.clone(), self.peer, joined)).await;
        self.node.ask(Command::Changed(self.peer)).await;
        let Ok(reading) = told.await else {
            return Err(Refusal::new(RefusalKind::Unavailable, "the node is ending: try again"));
        };
        Ok(ToPeer::Topic { request_id, channel, topic, reading })
    }
}

/// Pushes what is for the member, in order; waits while too much is not acknowledged.
async fn push(mut inbox: Inbox, out: mpsc::Sender<Vec<u8>>, mut acknowledged: watch::Receiver<i64>, most: usize) {
    let mut open = VecDeque::new();
    loop {
        let received = match inbox.next(BATCH, HELD).await {
            Ok(received) => received,
            Err(refusal) => {
                let _ = out.send(ToPeer::refused(None, refusal).to_bytes()).await;
                return;
            }
        };
        for event in &received.events {
            loop {
                let until = *acknowledged.borrow_and_update();
                while open.front().is_some_and(|seq| *seq <= until) {
                    open.pop_front();
                }
                if open.len() < most {
                    break;
                }
                if acknowledged.changed().await.is_err() {
                    return;
                }
            }
            let frame = ToPeer::Event { seq: event.seq, event: event.to_contract() }.to_bytes();
            if out.send(frame).await.is_err() {
                return;
            }
            open.push_back(event.seq);
        }
    }
}

/// Writes frames until there are no more; flushes when none waits.
async fn write_all<W: futures::AsyncWrite + Unpin>(mut writer: W, mut frames: mpsc::Receiver<Vec<u8>>) {
    while let Some(frame) = frames.recv().await {
        let mut written = codec::write(&mut writer, &frame).await;
        while written.is_ok()
            && let Ok(frame) = frames.try_recv()
        {
            written = codec::write(&mut writer, &frame).await;
        }
        if written.is_err() || codec::flush(&mut writer).await.is_err() {
            return;
        }
    }
    let _ = tokio::time::timeout(codec::FRAME_TIME, futures::AsyncWriteExt::close(&mut writer)).await;
}

fn nobody() -> Refusal {
    Refusal::new(
        RefusalKind::Unauthenticated,
        "nobody has come in on this stream: register, or say hello with a secret",
    )
}

fn unreadable(error: &serde_json::Error) -> Refusal {
    Refusal::invalid(format!("the frame cannot be read: {error}"))
}
