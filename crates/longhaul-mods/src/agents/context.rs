//! What an agent is shown of what was said before, within a bound: the newest whole messages that fit.
//!
//! Pure. Invariant: the result has at most as many tokens as it may, by the estimate that budgets use, and says how much
//! was left out.

use longhaul_core::estimate_tokens;

/// One thing that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// By whom.
    pub by: String,
    /// What.
    pub text: String,
}

/// Part of the bound that one message may take; what is longer is cut.
const SHARE: u64 = 4;

/// The newest of these (given oldest first) as lines `name: text`, at most so many tokens.
#[must_use]
pub fn bounded(said: &[Said], tokens_max: u64) -> String {
    // Room for the line that says what was left out.
    let note =
        |left: usize| if left == 0 { String::new() } else { format!("({left} earlier messages are left out)\n") };
    let mut room = tokens_max.saturating_sub(estimate_tokens(&note(said.len())));
    let mut lines = Vec::new();
    for one in said.iter().rev() {
        let line = format!("{}: {}\n", one.by, shortened(&one.text, (tokens_max / SHARE).max(1)));
        let tokens = estimate_tokens(&line);
        if tokens > room {
            break;
        }
        room -= tokens;
        lines.push(line);
    }
    let left = said.len() - lines.len();
    lines.push(note(left));
    lines.reverse();
    lines.concat().trim_end().to_owned()
}

/// A text of at most so many tokens, cut where it is longer.
#[must_use]
pub fn shortened(text: &str, tokens_max: u64) -> String {
    if estimate_tokens(text) <= tokens_max {
        return text.to_owned();
    }
    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let fits = |chars: usize| estimate_tokens(&format!("{} […]", &text[..ends[chars]])) <= tokens_max;
    let (mut low, mut high) = (0, ends.len());
    while low + 1 < high {
        let middle = usize::midpoint(low, high);
        if fits(middle) { low = middle } else { high = middle }
    }
    format!("{} […]", &text[..ends.get(low).copied().unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(by: &str, text: &str) -> Said {
        Said { by: by.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn the_newest_whole_messages_fit_and_the_rest_is_counted() {
        let all: Vec<Said> = (0..200).map(|n| said("ada", &format!("message number {n} of a long talk"))).collect();
        for tokens in [40, 100, 400, 100_000] {
            let shown = bounded(&all, tokens);
            assert!(estimate_tokens(&shown) <= tokens, "{tokens}: {}", estimate_tokens(&shown));
            assert!(shown.ends_with("message number 199 of a long talk"), "{shown}");
        }
        assert!(bounded(&all, 100).starts_with('('));
        assert!(!bounded(&all, 100_000).contains("left out"));
    }

    #[test]
    fn one_long_message_does_not_push_out_all_others() {
        let all = [said("bob", "short"), said("ada", &"a very long text ".repeat(500)), said("eve", "short too")];
        let shown = bounded(&all, 200);
        assert!(shown.contains("bob: short") && shown.contains("[…]") && shown.ends_with("eve: short too"), "{shown}");
        assert!(estimate_tokens(&shown) <= 200);
    }
}
