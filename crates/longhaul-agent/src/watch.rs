//! Whether a conversation still gets anywhere: the same failure again and again, the folder going back and forth, nothing
//! changed for many answers, no tool called. Pure; it is fed with what is recorded, so a replay sees the same signs.
//!
//! It only tells. What follows, a word to the model first and a hand-over next, is [`crate::Dialogue`]'s to decide.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_core::{Digest, ToolCall};

/// Answers without a tool call, one after the other, that are a sign.
const SILENT_MAX: u32 = 3;
/// Characters of a failure that are repeated to the model and to people.
const FAILURE_SHOWN_CHARS: usize = 160;

/// When a conversation counts as stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Times the same failure may be seen, or the folder come back to where it was.
    pub same_max: u32,
    /// Answers in a row that may leave the folder as it is.
    pub still_turns_max: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self { same_max: 4, still_turns_max: 30 }
    }
}

/// What has been seen since the last sign.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watch {
    /// How often each failure was seen: the digest of its text without numbers.
    failures: BTreeMap<Digest, u32>,
    /// How often each call gave the same result, whatever it was.
    repeated: BTreeMap<Digest, u32>,
    /// Folders seen, and how often the work came back to one of them.
    folders: BTreeSet<String>,
    folder: Option<String>,
    returns: u32,
    still_turns: u32,
    silent: u32,
    /// The latest failure's first line.
    failure: String,
}

impl Watch {
    /// The model has answered, with tool calls or without.
    pub(crate) fn answered(&mut self, calls: usize) {
        self.still_turns += 1;
        self.silent = if calls == 0 { self.silent + 1 } else { 0 };
    }

    /// A call was carried out; `folder` is what the folder is now, as far as the host knows.
    pub(crate) fn called(&mut self, call: &ToolCall, result: &str, folder: Option<String>) {
        let same = Digest::of(format!("{}\0{}\0{result}", call.name, call.arguments).as_bytes());
        *self.repeated.entry(same).or_default() += 1;
        if has_failed(result) {
            let digest = Digest::of(format!("{}\0{}", call.name, without_numbers(result)).as_bytes());
            *self.failures.entry(digest).or_default() += 1;
            self.failure = first_words(result);
        }
        if let Some(folder) = folder
            && self.folder.as_ref() != Some(&folder)
        {
            self.still_turns = 0;
            if self.folder.is_some() && self.folders.contains(&folder) {
                self.returns += 1;
            } else {
                // Another state of the work: the same call may now well be made again.
                self.repeated.clear();
            }
            self.folders.insert(folder.clone());
            self.folder = Some(folder);
        }
    }

    /// What is wrong, in words that follow "you are" and "the agent is" alike; nothing when all is well.
    pub(crate) fn sign(&self, patience: Patience) -> Option<String> {
        let most = |counts: &BTreeMap<Digest, u32>| counts.values().copied().max().unwrap_or(0);
        let times = most(&self.failures);
        if times >= patience.same_max {
            return Some(format!("meeting the same failure, {times} times now: {}", self.failure));
        }
        let times = most(&self.repeated);
        if times > patience.same_max {
            return Some(format!("making the same call with the same result, {times} times now"));
        }
        if self.returns >= patience.same_max {
            return Some(format!("changing the folder back to what it was, {} times now", self.returns));
        }
        if self.silent >= SILENT_MAX {
            return Some(format!("calling no tool, {} answers in a row", self.silent));
        }
        (self.still_turns >= patience.still_turns_max)
            .then(|| format!("changing nothing in the folder, {} answers in a row", self.still_turns))
    }

    /// The model was told; what it does from now on counts.
    pub(crate) fn told(&mut self) {
        let folder = self.folder.take();
        *self = Self { folders: folder.iter().cloned().collect(), folder, ..Self::default() };
    }
}

/// Whether a result is one that the tools and the harness give for what did not work.
fn has_failed(result: &str) -> bool {
    let text = result.trim_start();
    let exit = text.strip_prefix("exit ").is_some_and(|rest| !rest.starts_with("0\n") && rest.trim() != "0");
    let word = ["error", "REFUSED", "killed", "timed out"].iter().any(|word| text.starts_with(word));
    word || (exit && text.len() > "exit 1".len())
}

/// The text without what differs between two runs of the same thing: numbers, and hexadecimal ids.
fn without_numbers(text: &str) -> String {
    let word = |word: &str| {
        let is_id = word.len() >= 7 && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
        if is_id { String::new() } else { word.chars().filter(|c| !c.is_ascii_digit()).collect() }
    };
    text.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

fn first_words(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(FAILURE_SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: "c".into(), name: name.into(), arguments: arguments.into() }
    }

    const PATIENCE: Patience = Patience { same_max: 3, still_turns_max: 5 };

    /// Feeds calls with results and folders, and gives the sign.
    fn sign(turns: &[(&str, &str, &str)]) -> Option<String> {
        let mut watch = Watch::default();
        for (arguments, result, folder) in turns {
            watch.answered(1);
            let folder = Some((*folder).to_owned()).filter(|folder| !folder.is_empty());
            watch.called(&call("shell", arguments), result, folder);
        }
        watch.sign(PATIENCE)
    }

    #[test]
    fn the_same_failure_is_known_again_by_its_words() {
        let failing = |n: u32| format!("exit 1\nTypeError: x is undefined at line {n} (took {n} ms, run 0a1b2c{n}d)");
        let texts: Vec<String> = (0..3).map(|n| failing(n * 7)).collect();
        let turns: Vec<_> = texts.iter().zip(["a", "b", "c"]).map(|(text, at)| (at, text.as_str(), at)).collect();
        assert!(sign(&turns).unwrap().contains("same failure, 3 times"), "{:?}", sign(&turns));
        assert_eq!(sign(&turns[..2]), None);
        let fine: Vec<_> = ["a", "b", "c", "d"].map(|at| (at, "exit 0\nall 3 tests passed", at)).to_vec();
        assert_eq!(sign(&fine), None, "what works may be repeated in a changing folder");
    }

    #[test]
    fn going_back_and_forth_and_standing_still_are_seen() {
        let swinging: Vec<_> = ["1", "2", "1", "2", "1"].map(|folder| ("edit", "edited", folder)).to_vec();
        assert!(sign(&swinging).unwrap().contains("back to what it was"), "{:?}", sign(&swinging));
        let still: Vec<_> = ["a", "b", "c", "d", "e"].map(|what| (what, "exit 0", "")).to_vec();
        assert!(sign(&still).unwrap().contains("changing nothing"), "{:?}", sign(&still));
        let again: Vec<_> = [("cat a", "exit 0\nx", ""); 4].to_vec();
        assert!(sign(&again).unwrap().contains("same call with the same result"), "{:?}", sign(&again));
    }

    #[test]
    fn a_word_to_the_model_starts_the_counting_anew() {
        let mut watch = Watch::default();
        for _ in 0..SILENT_MAX {
            watch.answered(0);
        }
        assert!(watch.sign(PATIENCE).unwrap().contains("calling no tool"));
        watch.told();
        assert_eq!(watch.sign(PATIENCE), None);
    }
}
