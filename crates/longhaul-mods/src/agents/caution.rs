//! Which messages an agent does not answer, so that agents never talk to each other for ever. Pure.
//!
//! Four rules, in this order: what it said itself; what repeats what it said (a bridge's or another agent's echo); what
//! came after too many answers of agents; what comes from one sender faster than a conversation goes. Agents that leave
//! no marks on what they send are held by the first, second and last.

use std::collections::VecDeque;

use longhaul_core::{Digest, TimeMs};

use super::heard::Message;

/// The bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CautionSettings {
    /// A message that so many agents' answers led to is not answered any more.
    pub hops_max: u32,
    /// Own texts that are known again.
    pub echoes_kept: usize,
    /// Messages of one sender that are answered within [`Self::pace_ms`].
    pub pace_max: usize,
    /// Milliseconds in which they are counted.
    pub pace_ms: i64,
}

impl Default for CautionSettings {
    fn default() -> Self {
        Self { hops_max: 8, echoes_kept: 256, pace_max: 60, pace_ms: 60_000 }
    }
}

/// Why a message is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ignored {
    /// The agent said it itself.
    Own,
    /// It repeats what the agent said.
    Echo,
    /// Too many agents have answered each other already.
    Hops,
    /// Its sender is faster than a conversation goes.
    Pace,
}

impl Ignored {
    /// In words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Own => "its own words",
            Self::Echo => "an echo of its own words",
            Self::Hops => "agents have answered each other too often about it",
            Self::Pace => "its sender says more than is answered in a minute",
        }
    }
}

/// Shortest text of which a repetition is an echo whoever repeats it: two may well both say "yes".
const ECHO_CHARS_MIN: usize = 12;
/// Senders' messages that are remembered for their pace.
const HEARD_KEPT: usize = 1_024;

/// What an agent has said and heard lately.
#[derive(Debug)]
pub struct Caution {
    me: String,
    settings: CautionSettings,
    said: VecDeque<Digest>,
    heard: VecDeque<(String, TimeMs)>,
}

impl Caution {
    /// Nothing said and nothing heard.
    #[must_use]
    pub fn new(me: &str, settings: CautionSettings) -> Self {
        Self { me: me.to_owned(), settings, said: VecDeque::new(), heard: VecDeque::new() }
    }

    /// The agent says this.
    pub fn said(&mut self, text: &str) {
        self.said.push_back(Digest::of(plain(text)));
        while self.said.len() > self.settings.echoes_kept {
            self.said.pop_front();
        }
    }

    /// Whether the agent may answer this message, which it has heard now.
    ///
    /// # Errors
    /// Why not.
    pub fn look(&mut self, message: &Message, now: TimeMs) -> Result<(), Ignored> {
        if message.from == self.me {
            return Err(Ignored::Own);
        }
        let plain = plain(&message.text);
        let telling = plain.chars().count() >= ECHO_CHARS_MIN || (message.hops > 0 && !plain.is_empty());
        if telling && self.said.contains(&Digest::of(plain)) {
            return Err(Ignored::Echo);
        }
        if message.hops >= self.settings.hops_max {
            return Err(Ignored::Hops);
        }
        let since = now.0.saturating_sub(self.settings.pace_ms);
        while self.heard.front().is_some_and(|(_, at)| at.0 < since) || self.heard.len() > HEARD_KEPT {
            self.heard.pop_front();
        }
        let of_sender = self.heard.iter().filter(|(from, _)| *from == message.from).count();
        if of_sender >= self.settings.pace_max {
            return Err(Ignored::Pace);
        }
        self.heard.push_back((message.from.clone(), now));
        Ok(())
    }
}

/// A text without what a quotation or a bridge adds.
fn plain(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim_start_matches(['>', ' ', '\t']));
    let words = lines.flat_map(str::split_whitespace).map(str::to_lowercase);
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(from: &str, text: &str, hops: u32) -> Message {
        Message { from: from.to_owned(), text: text.to_owned(), hops, ..Message::default() }
    }

    #[test]
    fn an_agent_answers_neither_itself_nor_an_echo_nor_an_endless_exchange() {
        let settings = CautionSettings { hops_max: 3, pace_max: 2, pace_ms: 1_000, ..CautionSettings::default() };
        let mut caution = Caution::new("ada", settings);
        let at = TimeMs(10_000);
        assert_eq!(caution.look(&said("ada", "hello", 0), at), Err(Ignored::Own));
        caution.said("The index is built while you sleep.");
        assert_eq!(
            caution.look(&said("bridge", "> the index is  built\n> while you sleep.", 0), at),
            Err(Ignored::Echo)
        );
        assert_eq!(caution.look(&said("bob", "and then?", 3), at), Err(Ignored::Hops));
        assert_eq!(caution.look(&said("bob", "and then?", 2), at), Ok(()));
        assert_eq!(caution.look(&said("bob", "and then?", 0), at), Ok(()));
        assert_eq!(caution.look(&said("bob", "and then?", 0), at), Err(Ignored::Pace));
        assert_eq!(caution.look(&said("eve", "and then?", 0), at), Ok(()), "others are not held up by it");
        assert_eq!(caution.look(&said("bob", "and then?", 0), TimeMs(11_001)), Ok(()), "after a while it goes on");
    }

    #[test]
    fn a_short_answer_that_two_give_is_no_echo() {
        let mut caution = Caution::new("ada", CautionSettings::default());
        caution.said("yes");
        assert_eq!(caution.look(&said("bob", "yes", 0), TimeMs(0)), Ok(()));
        assert_eq!(
            caution.look(&said("bob", "Yes", 1), TimeMs(0)),
            Err(Ignored::Echo),
            "agents do not say yes for ever"
        );
    }
}
