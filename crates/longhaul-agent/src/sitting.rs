//! What is known of one sitting of a user: device, plan, how they use the product. It shapes the answers and is kept
//! nowhere.
//!
//! Invariant: it cannot be serialised and does not print itself, so it reaches no row, log or event by mistake; it lives
//! in RAM as long as the sitting.

use std::fmt;

use longhaul_memory::user::escaped;

/// Characters of one detail.
const DETAIL_CHARS_MAX: usize = 120;
/// Details that are shown.
const DETAILS_MAX: usize = 16;
/// Most tokens of an answer that is read on a small screen, or heard.
const SHORT_ANSWER_TOKENS: u32 = 700;

/// Where the user reads the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Device {
    /// A large screen, or nobody knows.
    #[default]
    Desktop,
    /// A small screen.
    Phone,
    /// No screen: the answer is heard.
    Voice,
}

/// What is known of a sitting. Give it once, when the sitting begins.
#[derive(Clone, Default)]
pub struct SessionMetadata {
    /// Where the user reads.
    pub device: Device,
    /// What the user has booked: `free`, `team`.
    pub plan: Option<String>,
    /// More of it, by name: time zone, active days of the last month, average length of messages. At most 16, one line
    /// each.
    pub details: Vec<(String, String)>,
}

impl fmt::Debug for SessionMetadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionMetadata(not shown)")
    }
}

impl SessionMetadata {
    /// A sitting at this device.
    #[must_use]
    pub fn on(device: Device) -> Self {
        Self { device, ..Self::default() }
    }

    /// The same with one more detail.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.details.push((name.to_owned(), value.to_owned()));
        self
    }

    /// What it says of the answers' length: at most so many tokens, and fewer where the device asks for it.
    pub(crate) fn answer_tokens(&self, answer_tokens_max: u32) -> u32 {
        let most = match self.device {
            Device::Desktop => return answer_tokens_max,
            Device::Phone | Device::Voice => SHORT_ANSWER_TOKENS,
        };
        if answer_tokens_max == 0 { most } else { most.min(answer_tokens_max) }
    }

    /// As it stands in a request.
    pub(crate) fn rendered(&self) -> String {
        let manner = match self.device {
            Device::Desktop => "The user sits at a large screen.",
            Device::Phone => "The user reads on a phone: answer in a few short sentences, without tables.",
            Device::Voice => "The user hears the answer: two or three plain sentences, no lists, no code.",
        };
        let line = |name: &str, value: &str| {
            let words = format!("{name}: {value}").split_whitespace().collect::<Vec<_>>().join(" ");
            format!("{}\n", escaped(&words.chars().take(DETAIL_CHARS_MAX).collect::<String>()))
        };
        let plan = self.plan.iter().map(|plan| line("plan", plan));
        let details = self.details.iter().take(DETAILS_MAX).map(|(name, value)| line(name, value));
        let details: String = plan.chain(details).collect();
        format!("<session_metadata>\n{manner}\n{details}</session_metadata>\n")
    }
}
