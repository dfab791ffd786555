//! A person in a network: says something in a channel or to one agent, and hears what is said there, over HTTP like
//! every other member.
//!
//! It owns what a person types and what a line shows; the terminal is the caller's. Invariant: what is typed is sent as it
//! is, and only a line that begins with `/` is a command.

use std::{path::PathBuf, sync::Arc, time::Duration};

use longhaul_core::Ambient;
use longhaul_mods::agents::{CautionSettings, Desk, HttpLink, Joining, Link, Message, Way};
use longhaul_network::{Refusal, Registration, Reply, Via};
use serde_json::Value;

/// How a person joins.
#[derive(Debug, Clone)]
pub struct ChatRequest {
    /// The network's address.
    pub url: String,
    /// The person's name there.
    pub name: String,
    /// The group asked for.
    pub group: Option<String>,
    /// That group's credential: the hexadecimal SHA-256 of its password.
    pub credential: String,
    /// A file for the secret, to come back under the same name.
    pub state: Option<PathBuf>,
}

/// What a person types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typed {
    /// Said in the channel at hand.
    Say(String),
    /// `/channel NAME`: another channel is at hand.
    Channel(String),
    /// `/to AGENT TEXT`: said to one agent alone.
    To(String, String),
    /// `/reply N TEXT`: an answer to the message with this number.
    Reply(usize, String),
    /// `/react N SIGN`.
    React(usize, String),
    /// `/agents`: who is there.
    Agents,
    /// `/help`.
    Help,
    /// `/quit`.
    Quit,
    /// Nothing that is known, with what to type instead.
    Wrong(String),
}

impl Typed {
    /// Reads a line.
    #[must_use]
    pub fn read(line: &str) -> Self {
        let line = line.trim();
        let Some(command) = line.strip_prefix('/') else { return Self::Say(line.to_owned()) };
        let (word, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let rest = rest.trim();
        let numbered = |make: fn(usize, String) -> Self| match rest.split_once(char::is_whitespace) {
            Some((number, text)) => match number.parse() {
                Ok(number) => make(number, text.trim().to_owned()),
                Err(_) => Self::Wrong(format!("/{word} needs the number of a message, as in /{word} 3 …")),
            },
            None => Self::Wrong(format!("/{word} needs a number and a text, as in /{word} 3 …")),
        };
        match word {
            "channel" | "c" if !rest.is_empty() => Self::Channel(rest.trim_start_matches('#').to_owned()),
            "to" | "dm" => match rest.split_once(char::is_whitespace) {
                Some((agent, text)) => Self::To(agent.trim_start_matches('@').to_owned(), text.trim().to_owned()),
                None => Self::Wrong("/to needs an agent and a text, as in /to ada hello".to_owned()),
            },
            "reply" | "r" => numbered(Self::Reply),
            "react" => numbered(Self::React),
            "agents" | "who" => Self::Agents,
            "help" | "?" => Self::Help,
            "quit" | "q" | "exit" => Self::Quit,
            _ => Self::Wrong(format!("there is no /{word}; /help lists what there is")),
        }
    }
}

/// What is shown of something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The number by which it can be answered; 0 for what cannot be.
    pub number: usize,
    /// `#general`, `to you`.
    pub place: String,
    /// Who says it.
    pub from: String,
    /// What.
    pub text: String,
    /// What it answers, by its number where it was shown.
    pub answers: Option<usize>,
}

/// A person who has joined.
#[derive(Debug)]
pub struct Chat {
    desk: Desk,
    link: Arc<HttpLink>,
    ambient: Ambient,
    channel: String,
    /// Messages by their numbers, from 1.
    seen: Vec<Message>,
}

/// Messages that can be answered by their numbers.
const SEEN_MAX: usize = 10_000;

impl Chat {
    /// Joins.
    ///
    /// # Errors
    /// When nobody answers at the address, or the name is held.
    pub async fn join(request: ChatRequest) -> Result<Self, Refusal> {
        let ambient = Ambient::system();
        let mut registration = Registration::new(request.name.parse()?, Via::Http);
        registration.group = request.group;
        registration.credential = request.credential;
        registration.metadata.insert("type".into(), "person".into());
        registration.metadata.insert("name".into(), request.name.into());
        let link = Arc::new(HttpLink::join(Joining { url: request.url, registration, state: request.state }).await?);
        let desk = Desk::new(link.clone(), CautionSettings::default(), &ambient.ids.body());
        Ok(Self { desk, link, ambient, channel: "general".to_owned(), seen: Vec::new() })
    }

    /// The network's id.
    #[must_use]
    pub fn network(&self) -> &str {
        self.link.network()
    }

    /// The person's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.link.agent().as_str()
    }

    /// The channel at hand.
    #[must_use]
    pub fn channel(&self) -> &str {
        &self.channel
    }

    /// The connection, to listen with beside typing.
    #[must_use]
    pub fn ears(&self) -> Ears {
        Ears(self.link.clone())
    }

    /// Does what was typed; gives what to show of it, or nothing.
    ///
    /// # Errors
    /// When it could not be sent.
    pub async fn act(&mut self, typed: Typed) -> Result<Vec<String>, Refusal> {
        match typed {
            Typed::Say(text) if text.is_empty() => Ok(Vec::new()),
            Typed::Say(text) => {
                let draft = self.desk.posting(self.ambient.ids.body(), &self.channel, &text, None)?;
                Ok(said(self.desk.send_draft(draft).await?))
            }
            Typed::Channel(channel) => {
                self.channel = channel;
                let messages = self.desk.channel_messages(&self.channel, 10).await?;
                let word =
                    |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                let line = |message: &Value| {
                    let text = message.get("content").map(|content| word(content, "text")).unwrap_or_default();
                    format!("{}: {text}", word(message, "sender_id"))
                };
                Ok(messages.iter().rev().map(line).collect())
            }
            Typed::To(agent, text) => {
                let draft = self.desk.direct(self.ambient.ids.body(), &agent.parse()?, &text)?;
                Ok(said(self.desk.send_draft(draft).await?))
            }
            Typed::Reply(number, text) => {
                let Some(message) = self.message(number) else { return Ok(vec![no_such(number)]) };
                let draft = self.desk.answer(self.ambient.ids.body(), &message, &text)?;
                Ok(said(self.desk.send_draft(draft).await?))
            }
            Typed::React(number, sign) => {
                let Some(message) = self.message(number) else { return Ok(vec![no_such(number)]) };
                Ok(said(self.desk.react(&message.id, &sign).await?))
            }
            Typed::Agents => {
                let payload = serde_json::json!({"agent_id": self.name()});
                let payload = payload.as_object().cloned().unwrap_or_default();
                let reply = self.desk.send("system.list_agents", longhaul_network::Address::System, payload).await?;
                let data = reply.data.unwrap_or_default();
                let agents = data.get("agents").and_then(Value::as_array).cloned().unwrap_or_default();
                let name = |agent: &Value| agent.get("agent_id").and_then(Value::as_str).map(str::to_owned);
                Ok(agents.iter().filter_map(name).collect())
            }
            Typed::Help => Ok(HELP.lines().map(str::to_owned).collect()),
            Typed::Wrong(why) => Ok(vec![why]),
            Typed::Quit => Ok(Vec::new()),
        }
    }

    /// Takes note of a message and says how to show it; nothing for what is not said to people.
    pub fn show(&mut self, message: Message) -> Option<Shown> {
        let place = match (&message.channel, message.way) {
            (Some(channel), _) => format!("#{channel}"),
            (None, Way::Direct) => "to you".to_owned(),
            (None, Way::Other) => return None,
            (None, _) => "here".to_owned(),
        };
        let answered = message.reply_to.as_ref().and_then(|id| self.seen.iter().position(|seen| seen.id == *id));
        let text = match message.way {
            Way::Reaction => {
                let sign = message.payload.get("reaction_type").and_then(Value::as_str).unwrap_or_default();
                format!("({sign})")
            }
            Way::File => {
                let name = message.payload.get("filename").and_then(Value::as_str).unwrap_or("a file");
                format!("(shared {name})")
            }
            Way::Direct | Way::Mention | Way::Post | Way::Reply | Way::Other => message.text.clone(),
        };
        if text.is_empty() || self.seen.len() >= SEEN_MAX {
            return None;
        }
        let from = message.from.clone();
        self.seen.push(message);
        Some(Shown { number: self.seen.len(), place, from, text, answers: answered.map(|at| at + 1) })
    }

    fn message(&self, number: usize) -> Option<Message> {
        self.seen.get(number.checked_sub(1)?).cloned()
    }

    /// Leaves for good.
    ///
    /// # Errors
    /// When the network could not be told.
    pub async fn leave(self) -> Result<(), Refusal> {
        self.link.leave().await
    }
}

/// What can be typed.
const HELP: &str = "\
what you type is said in the channel at hand
/channel NAME        another channel, with what was said last
/to AGENT TEXT       to one agent alone
/reply N TEXT        under message N
/react N SIGN        a sign on message N, such as like
/agents              who is there
/quit                leave";

fn no_such(number: usize) -> String {
    format!("there is no message {number} here")
}

fn said(reply: Reply) -> Vec<String> {
    if reply.success { Vec::new() } else { vec![format!("not sent: {}", reply.message)] }
}

/// Listens for a person.
#[derive(Debug, Clone)]
pub struct Ears(Arc<HttpLink>);

impl Ears {
    /// What is said next; waits for it, at most so long.
    ///
    /// # Errors
    /// When the network does not answer, or has sent the person away.
    pub async fn hear(&self, wait: Duration) -> Result<Vec<Message>, Refusal> {
        let events = self.0.receive(50, wait).await?;
        Ok(events.iter().map(|event| Message::of(event, self.0.agent())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_slash_begins_a_command() {
        assert_eq!(Typed::read("  hello / there "), Typed::Say("hello / there".into()));
        assert_eq!(Typed::read("/channel #milvus_channel"), Typed::Channel("milvus_channel".into()));
        assert_eq!(Typed::read("/to @ada how are you?"), Typed::To("ada".into(), "how are you?".into()));
        assert_eq!(Typed::read("/reply 3 yes, please"), Typed::Reply(3, "yes, please".into()));
        assert_eq!(Typed::read("/react 2 like"), Typed::React(2, "like".into()));
        assert_eq!(Typed::read("/q"), Typed::Quit);
        for wrong in ["/reply yes", "/reply three yes", "/to ada", "/dance", "/channel"] {
            assert!(matches!(Typed::read(wrong), Typed::Wrong(_)), "{wrong}");
        }
    }
}
