//! One connection: who it is, what it is told, what it says.
//!
//! Three futures share it: one writes, one pushes events, one listens. The first that ends ends all.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, close_code};
use futures::{SinkExt as _, StreamExt as _, stream::SplitStream};
use longhaul_network::{Address, AgentId, Draft, Inbox, Member, Refusal, RefusalKind, Via};
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, mpsc},
    time::timeout,
};

use super::frames::{self, Acks, Said};
use crate::{
    front::{Front, Peer},
    wire::{self, EventIn},
};

/// Messages that may wait for a slow client.
const WAITING_MAX: usize = 64;
/// Events that are read at once.
const EVENTS_MAX: usize = 64;
/// Events that a client which acknowledges itself may not have acknowledged.
const UNACKNOWLEDGED_MAX: usize = 1024;
/// Messages that make no sense, before the connection ends.
const NONSENSE_MAX: u32 = 32;

/// Who is at the other end, and where it begins.
pub(super) struct Opening {
    pub(super) member: Member,
    pub(super) resume_after: Option<i64>,
    pub(super) acks: Acks,
    /// The answer to what opened it, where it was a frame.
    pub(super) told: Option<Value>,
}

/// Speaks until either side ends it.
pub(super) async fn talk(front: Front, peer: Peer, socket: WebSocket, opening: Option<Opening>) {
    let _open = front.meters().stream("websocket");
    let (mut sink, mut stream) = socket.split();
    let (out, mut waiting) = mpsc::channel::<Message>(WAITING_MAX);
    let silent_max = front.limits().silent_max;
    let writing = async move {
        while let Some(message) = waiting.recv().await {
            let last = matches!(message, Message::Close(_));
            if !matches!(timeout(silent_max, sink.send(message)).await, Ok(Ok(()))) || last {
                return;
            }
        }
    };
    let speaking = async {
        let because = converse(&front, peer, &mut stream, &out, opening).await;
        if let Some((code, because)) = because {
            let _ = out.send(close(code, because)).await;
        }
        drop(out);
        // The writer ends once the close frame is out.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = writing => {}
        () = speaking => {}
    }
}

/// Why it is closed: a code of RFC 6455 and a word.
type Because = Option<(u16, &'static str)>;

async fn converse(
    front: &Front,
    peer: Peer,
    stream: &mut SplitStream<WebSocket>,
    out: &mpsc::Sender<Message>,
    opening: Option<Opening>,
) -> Because {
    let opening = match opening {
        Some(opening) => opening,
        None => match timeout(front.limits().header_max, hello(front, peer, stream, out)).await {
            Ok(Ok(opening)) => opening,
            Ok(Err(because)) => return because,
            Err(_) => return Some((close_code::POLICY, "say hello or register first")),
        },
    };
    let Opening { member, resume_after, acks, told } = opening;
    let failed = |refusal: Refusal| async move {
        let _ = out.send(Message::text(frames::error(&refusal))).await;
        Some((close_code::POLICY, frames::end(refusal.kind)))
    };
    let turn = match front.stream(member.agent()) {
        Ok(turn) => turn,
        Err(refusal) => return failed(refusal).await,
    };
    let network = front.network();
    let inbox = match network.inbox(&member, resume_after) {
        Ok(inbox) => inbox,
        Err(refusal) => return failed(refusal).await,
    };
    if let Some(after) = resume_after
        && let Err(refusal) = network.acknowledge(&member, after)
    {
        return failed(refusal).await;
    }
    let view = network.view();
    let mut welcome = json!({
        "type": "welcome", "success": true, "agent_id": member.agent().as_str(), "network_id": view.id,
        "network_name": view.name, "assigned_group": member.group(),
    });
    if let Some(Value::Object(told)) = told {
        welcome.as_object_mut().into_iter().for_each(|welcome| welcome.extend(told.clone()));
    }
    if out.send(Message::text(welcome.to_string())).await.is_err() {
        return None;
    }
    let connection = Connection {
        front,
        member,
        acks,
        out,
        heard: AtomicBool::new(true),
        answering: AtomicBool::new(false),
        unacknowledged: Unacknowledged::default(),
    };
    let because = tokio::select! {
        because = connection.push(inbox) => because,
        because = connection.listen(stream) => because,
        () = front.closing().cancelled() => Some((close_code::RESTART, "shutdown")),
    };
    drop(turn);
    because
}

/// The first thing that is said: who it is.
async fn hello(
    front: &Front,
    peer: Peer,
    stream: &mut SplitStream<WebSocket>,
    out: &mpsc::Sender<Message>,
) -> Result<Opening, Because> {
    let policy = Some((close_code::POLICY, "secret"));
    while let Some(Ok(message)) = stream.next().await {
        let text = match message {
            Message::Text(text) => text,
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Binary(_) => return Err(Some((close_code::UNSUPPORTED, "texts only"))),
            Message::Close(_) => return Err(None),
        };
        let opened = match Said::read(&text) {
            Ok(said) => opened(front, peer, said, out).await,
            Err(refusal) => Err(refusal),
        };
        match opened {
            Ok(Some(opening)) => return Ok(opening),
            Ok(None) => {}
            Err(refusal) => {
                let _ = out.send(Message::text(frames::error(&refusal))).await;
                return Err(policy);
            }
        }
    }
    Err(None)
}

async fn opened(
    front: &Front,
    peer: Peer,
    said: Said,
    out: &mpsc::Sender<Message>,
) -> Result<Option<Opening>, Refusal> {
    match said {
        Said::Hello(hello) => {
            let agent: AgentId = hello.agent_id.parse()?;
            let member = front.member(peer, &agent, Some(&hello.secret))?;
            Ok(Some(Opening { member, resume_after: hello.resume_after, acks: hello.ack, told: None }))
        }
        Said::Register(asked, begin) => {
            let registered = front.register(peer, asked.read(Via::WebSocket)?).await?;
            let told = json!({
                "type": "system_response", "command": "register_agent", "secret": registered.secret,
            });
            let member = registered.member;
            Ok(Some(Opening { member, resume_after: begin.resume_after, acks: begin.ack, told: Some(told) }))
        }
        // The older clients say who they are with each event.
        Said::Event(event) => {
            let name = event.event_name.clone().unwrap_or_default();
            let incoming = event.read(|| front.fresh_id())?;
            let member = front.member(peer, &incoming.claimed, incoming.secret.as_deref())?;
            let (id, began) = (incoming.draft.id.clone(), Instant::now());
            let told = match front.network().send(&member, incoming.draft).await {
                Ok(reply) => wire::reply(&id, &name, &reply),
                Err(refusal) => wire::refused(Some(&id), Some(&name), &refusal),
            };
            front.meters().sent("websocket", told["success"] == true, began.elapsed().as_secs_f64());
            let _ = out.send(Message::text(frames::reply(told))).await;
            Ok(Some(Opening { member, resume_after: None, acks: Acks::Auto, told: None }))
        }
        Said::Ping => {
            let _ = out.send(Message::text(PONG)).await;
            Ok(None)
        }
        Said::Ack(_) | Said::System { .. } => {
            Err(Refusal::new(RefusalKind::Unauthenticated, "say hello or register first"))
        }
    }
}

const PONG: &str = r#"{"type":"pong"}"#;

fn close(code: u16, because: &'static str) -> Message {
    Message::Close(Some(CloseFrame { code, reason: Utf8Bytes::from_static(because) }))
}

/// Numbers that were pushed and not acknowledged, where the client acknowledges itself.
#[derive(Debug, Default)]
struct Unacknowledged {
    seqs: Mutex<VecDeque<i64>>,
    fewer: Notify,
}

impl Unacknowledged {
    fn pushed(&self, seqs: impl Iterator<Item = i64>) {
        self.seqs.lock().unwrap_or_else(PoisonError::into_inner).extend(seqs);
    }

    /// Whether this number had been pushed, or one beyond it.
    fn acknowledged(&self, seq: i64) -> bool {
        let mut seqs = self.seqs.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(&newest) = seqs.back() else { return false };
        while seqs.front().is_some_and(|&first| first <= seq) {
            seqs.pop_front();
        }
        self.fewer.notify_one();
        seq <= newest
    }

    async fn room(&self) {
        while self.seqs.lock().unwrap_or_else(PoisonError::into_inner).len() >= UNACKNOWLEDGED_MAX {
            self.fewer.notified().await;
        }
    }
}

struct Connection<'a> {
    front: &'a Front,
    member: Member,
    acks: Acks,
    out: &'a mpsc::Sender<Message>,
    /// The client has been heard of since the last ping.
    heard: AtomicBool,
    /// What the client said is being answered, and nothing else of it is read.
    answering: AtomicBool,
    unacknowledged: Unacknowledged,
}

impl Connection<'_> {
    /// Hands over events as they come, and asks now and then whether anybody is there.
    async fn push(&self, mut inbox: Inbox) -> Because {
        let heartbeat = self.front.limits().heartbeat;
        loop {
            if self.acks == Acks::Manual && timeout(heartbeat, self.unacknowledged.room()).await.is_err() {
                match self.beat().await {
                    Ok(()) => continue,
                    Err(because) => return because,
                }
            }
            let received = match inbox.next(EVENTS_MAX, heartbeat).await {
                Ok(received) => received,
                Err(refusal) => {
                    let code = if refusal.kind == RefusalKind::Unauthenticated {
                        close_code::POLICY
                    } else {
                        close_code::AGAIN
                    };
                    return Some((code, frames::end(refusal.kind)));
                }
            };
            if received.events.is_empty() {
                match self.beat().await {
                    Ok(()) => continue,
                    Err(because) => return because,
                }
            }
            if self.acks == Acks::Manual {
                self.unacknowledged.pushed(received.events.iter().map(|event| event.seq));
            }
            for event in &received.events {
                if self.out.send(Message::text(frames::message(event))).await.is_err() {
                    return None;
                }
            }
            self.front.meters().delivered("websocket", received.events.len());
            if self.acks == Acks::Auto {
                inbox.acknowledge(received.cursor);
            }
        }
    }

    async fn beat(&self) -> Result<(), Because> {
        let heard = self.heard.swap(false, Ordering::Relaxed);
        if !heard && !self.answering.load(Ordering::Relaxed) {
            tracing::debug!(agent = %self.member.agent(), "a client answers no ping: its connection ends");
            return Err(None);
        }
        self.out.send(Message::Ping(axum::body::Bytes::new())).await.map_err(|_| None)
    }

    /// Does what the client says, one thing after the other, so that its events keep their order.
    async fn listen(&self, stream: &mut SplitStream<WebSocket>) -> Because {
        let mut nonsense = 0;
        while let Some(message) = stream.next().await {
            self.heard.store(true, Ordering::Relaxed);
            if self.front.network().touch(&self.member).is_err() {
                return Some((close_code::POLICY, "secret"));
            }
            let text = match message {
                Ok(Message::Text(text)) => text,
                Ok(Message::Ping(_) | Message::Pong(_)) => continue,
                Ok(Message::Binary(_)) => return Some((close_code::UNSUPPORTED, "texts only")),
                Ok(Message::Close(_)) | Err(_) => return None,
            };
            let told = match Said::read(&text) {
                Ok(said) => {
                    self.answering.store(true, Ordering::Relaxed);
                    let told = self.answer(said).await;
                    // Its pongs have been waiting all the while.
                    self.heard.store(true, Ordering::Relaxed);
                    self.answering.store(false, Ordering::Relaxed);
                    told
                }
                Err(refusal) => {
                    nonsense += 1;
                    Some(frames::error(&refusal))
                }
            };
            if let Some(told) = told
                && self.out.send(Message::text(told)).await.is_err()
            {
                return None;
            }
            if nonsense > NONSENSE_MAX {
                return Some((close_code::POLICY, "too much that makes no sense"));
            }
        }
        None
    }

    /// What the client said, done; and what it is told.
    async fn answer(&self, said: Said) -> Option<String> {
        match said {
            Said::Event(event) => Some(frames::reply(self.send(*event).await)),
            Said::Ack(seq) => {
                if self.acks == Acks::Manual && !self.unacknowledged.acknowledged(seq) {
                    return Some(frames::error(&Refusal::invalid("seq: no message of this number is open")));
                }
                let acknowledged = self.front.network().acknowledge(&self.member, seq);
                acknowledged.err().map(|refusal| frames::error(&refusal))
            }
            Said::Ping => Some(PONG.to_owned()),
            Said::Hello(_) | Said::Register(..) => {
                let text = "this connection is an agent's already: open another one";
                Some(frames::error(&Refusal::conflict(text)))
            }
            Said::System { command, id, payload } => {
                let name = format!("system.{command}");
                let sent = async {
                    let id = id.unwrap_or_else(|| self.front.fresh_id());
                    let draft = Draft::new(id.clone(), name.parse()?, Address::System, payload);
                    Ok((id, self.front.network().send(&self.member, draft).await?))
                };
                let sent: Result<_, Refusal> = sent.await;
                let told = match sent {
                    Ok((id, reply)) => wire::reply(&id, &name, &reply),
                    Err(refusal) => wire::refused(None, Some(&name), &refusal),
                };
                Some(frames::system_response(&command, told))
            }
        }
    }

    async fn send(&self, mut event: EventIn) -> Value {
        let began = Instant::now();
        let (id, name) = (event.event_id.clone(), event.event_name.clone());
        event.source_id.get_or_insert_with(|| self.member.agent().to_string());
        let sent = async {
            let incoming = event.read(|| self.front.fresh_id())?;
            if incoming.claimed != *self.member.agent() {
                let text = format!("this connection is {}'s: send as yourself", self.member.agent());
                return Err(Refusal::forbidden(text));
            }
            let id = incoming.draft.id.clone();
            Ok((id, self.front.network().send(&self.member, incoming.draft).await?))
        };
        let told = match sent.await {
            Ok((id, reply)) => wire::reply(&id, name.as_deref().unwrap_or_default(), &reply),
            Err(refusal) => wire::refused(id.as_deref(), name.as_deref(), &refusal),
        };
        self.front.meters().sent("websocket", told["success"] == true, began.elapsed().as_secs_f64());
        told
    }
}
