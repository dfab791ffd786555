//! Replaying for another program: `longhaul eval run --program` starts this one and asks it over its standard input.
//!
//! It owns the protocol. Each line is one JSON object; a request is a whole case, an answer begins with [`MARK`], so that
//! whatever else the program prints is no answer. Invariant: without [`ASKED`] in the environment nothing is read.

use std::{
    error::Error,
    io::{self, BufRead, Write},
};

use serde::{Deserialize, Serialize};

use super::{
    case::Case,
    player::{ReplayError, Replayed},
    replayer::Replayer,
};

/// Version of the protocol.
pub const PROTOCOL_V: u32 = 1;

/// The variable that says that this process is asked to replay; its value is the version of the protocol.
pub const ASKED: &str = "LONGHAUL_EVAL";

/// What a line with an answer begins with.
pub const MARK: &str = "longhaul-eval ";

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    /// The text of a case file.
    pub case: String,
}

/// What is answered: the replay, or why there is none.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// What it came to.
    #[serde(default)]
    pub replayed: Option<Replayed>,
    /// Why it could not be replayed.
    #[serde(default)]
    pub error: Option<String>,
}

impl Replayer {
    /// Where `longhaul eval run --program` has started this process: replays what it asks for until it has no more,
    /// and tells `true`; the program should then end. Otherwise does nothing. To be called first, before a store is
    /// opened or anything else happens.
    ///
    /// # Errors
    /// [`ReplayError::Io`], [`ReplayError::Protocol`].
    pub async fn serve_if_asked(&self) -> Result<bool, ReplayError> {
        if std::env::var_os(ASKED).is_none() {
            return Ok(false);
        }
        let (input, mut output) = (io::stdin(), io::stdout());
        loop {
            let mut line = String::new();
            if input.lock().read_line(&mut line)? == 0 {
                return Ok(true);
            }
            let Request { case } = serde_json::from_str(&line).map_err(ReplayError::Protocol)?;
            let answer = match self.replay_text(&case).await {
                Ok(replayed) => Answer { replayed: Some(replayed), error: None },
                Err(error) => Answer { replayed: None, error: Some(chain(&error)) },
            };
            let answer = serde_json::to_string(&answer).map_err(ReplayError::Protocol)?;
            // On a line of its own, whatever a node has printed before.
            write!(output, "\n{MARK}{answer}\n")?;
            output.flush()?;
        }
    }

    async fn replay_text(&self, text: &str) -> Result<Replayed, ReplayError> {
        self.replay(&Case::parse(text)?).await
    }
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
