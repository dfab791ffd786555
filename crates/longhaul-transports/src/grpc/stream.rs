//! One stream for both directions: events pushed as they come, what the client sends and acknowledges.
//!
//! Invariant: what was pushed and not acknowledged is pushed again in the agent's next stream.

use std::{pin::Pin, time::Duration};

use futures::{Stream, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use longhaul_network::{Inbox, Member, Refusal, RefusalKind, Reply};
use serde_json::Value;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::{
    AgentService, proto,
    service::{ending, is_same, unauthenticated},
    translate,
};
use crate::front::Peer;

/// Events on their way out of one stream; beyond that they wait in the log.
const PUSHED_MAX: usize = 64;
/// How long a stream may stay open without saying whose it is.
const OPENING_MAX: Duration = Duration::from_secs(10);
/// How long events are waited for before the member is said to be still there.
const TOUCH_EVERY: Duration = Duration::from_secs(10);
/// Events at once that wait for somebody's response, while others go on.
const WAITING_MAX: usize = 16;

/// What may come first: whose stream it is, and from where on.
const OPEN: &str = "system.stream_open";

type Out = mpsc::Sender<Result<proto::Event, Status>>;

/// What the client is told, as it comes. The stream ends with the client's half of it, or with a status.
pub(super) fn open(
    service: AgentService,
    peer: Peer,
    shown: Option<(Member, Option<i64>)>,
    incoming: Streaming<proto::Event>,
) -> Pin<Box<dyn Stream<Item = Result<proto::Event, Status>> + Send>> {
    let (out, told) = mpsc::channel(PUSHED_MAX);
    tokio::spawn(async move {
        let gone = out.clone();
        tokio::select! {
            ended = run(&service, peer, shown, incoming, &out) => {
                if let Err(status) = ended {
                    let _ = out.send(Err(status)).await; // a client that has gone needs no reason
                }
            }
            () = gone.closed() => {}
        }
    });
    Box::pin(futures::stream::unfold(told, |mut told| async move { told.recv().await.map(|next| (next, told)) }))
}

async fn run(
    service: &AgentService,
    peer: Peer,
    shown: Option<(Member, Option<i64>)>,
    mut incoming: Streaming<proto::Event>,
    out: &Out,
) -> Result<(), Status> {
    let status = |refusal: Refusal| translate::status(&refusal);
    let closing = service.front().closing().clone();
    let (member, resume, first) = match shown {
        Some((member, resume)) => (member, resume, None),
        None => {
            let first = tokio::time::timeout(OPENING_MAX, incoming.message()).await;
            let Some(first) = first.map_err(|_| status(unauthenticated()))?? else { return Ok(()) };
            let agent = first.source_id.parse().map_err(status)?;
            let member = service.front().member(peer, &agent, Some(&first.secret)).map_err(status)?;
            let resume = if first.event_name == OPEN { number(&first, "resume_after").map_err(status)? } else { None };
            (member, resume, Some(first))
        }
    };
    let _turn = service.front().stream(member.agent()).map_err(status)?;
    let _counted = service.front().meters().stream("grpc");
    let inbox = service.network().inbox(&member, resume).map_err(status)?;
    let talk = Talk { service, member: &member, out };
    tokio::select! {
        pushed = push(service, &member, inbox, out) => pushed.map_err(status),
        heard = talk.hear(incoming, first) => heard,
        () = closing.cancelled() => Err(status(ending())),
    }
}

/// Hands out the member's events for as long as the stream is open.
async fn push(service: &AgentService, member: &Member, mut inbox: Inbox, out: &Out) -> Result<(), Refusal> {
    loop {
        let received = inbox.next(PUSHED_MAX, TOUCH_EVERY).await?;
        service.network().touch(member)?;
        service.front().meters().delivered("grpc", received.events.len());
        for event in &received.events {
            if out.send(Ok(translate::event(event))).await.is_err() {
                return Ok(());
            }
        }
    }
}

/// The client's half of a stream.
struct Talk<'a> {
    service: &'a AgentService,
    member: &'a Member,
    out: &'a Out,
}

impl Talk<'_> {
    /// Sends in the order in which it hears, but that what waits for a response does not keep others waiting.
    async fn hear(&self, mut incoming: Streaming<proto::Event>, first: Option<proto::Event>) -> Result<(), Status> {
        let mut waiting: FuturesUnordered<BoxFuture<'_, Result<(), Status>>> = FuturesUnordered::new();
        if let Some(first) = first {
            self.take(first).await?;
        }
        loop {
            tokio::select! {
                Some(answered) = waiting.next(), if !waiting.is_empty() => answered?,
                message = incoming.message(), if waiting.len() < WAITING_MAX => match message? {
                    None => break,
                    Some(event) if event.requires_response => waiting.push(Box::pin(self.take(event))),
                    Some(event) => self.take(event).await?,
                },
            }
        }
        while let Some(answered) = waiting.next().await {
            answered?;
        }
        Ok(())
    }

    async fn take(&self, event: proto::Event) -> Result<(), Status> {
        if event.event_name == "system.stream_ack" {
            let status = |refusal: Refusal| translate::status(&refusal);
            if let Some(cursor) = number(&event, "cursor").map_err(status)? {
                self.service.network().acknowledge(self.member, cursor).map_err(status)?;
            }
            return Ok(());
        }
        let (id, name) = (event.event_id.clone(), event.event_name.clone());
        let answered = match is_same(self.member, &event.source_id) {
            Ok(()) if name == OPEN => Ok(Reply::done("the stream is open", None)),
            Ok(()) if name == "system.poll_messages" => {
                Err(Refusal::invalid("events are pushed in this stream: acknowledge them with system.stream_ack"))
            }
            Ok(()) => self.service.send(self.member, event).await,
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = &answered
            && refusal.kind == RefusalKind::Unauthenticated
        {
            return Err(translate::status(refusal));
        }
        // The stream's end is seen elsewhere.
        let _ = self.out.send(Ok(translate::stream_reply(id, name, answered))).await;
        Ok(())
    }
}

/// A number of the log in the payload.
fn number(event: &proto::Event, key: &str) -> Result<Option<i64>, Refusal> {
    let payload = translate::payload(event.payload.clone())?;
    match payload.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok())) {
            Some(number) if number >= 0 => Ok(Some(number)),
            _ => Err(Refusal::invalid(format!("{key}: write a number of the log, as seq gives it"))),
        },
    }
}
