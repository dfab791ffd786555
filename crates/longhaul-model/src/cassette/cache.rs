//! What a service's prompt cache would have held: beginnings of requests, by digest. No I/O.
//!
//! Only token counts come from here, never which entry answers. Sources: the Anthropic API reference, "Prompt caching"
//! (written and read at marked blocks, looked for at most 20 blocks before a mark, 1,024 tokens at least); the OpenAI
//! API reference, "Prompt caching" (by itself, in steps of 128 tokens from 1,024).

use std::collections::{HashSet, VecDeque};

use longhaul_core::Digest;

/// Shorter beginnings are not cached.
const TOKENS_MIN: u64 = 1_024;
/// Steps in which a cache that works by itself counts.
const STEP_TOKENS: u64 = 128;
/// How far before a mark a cached beginning is looked for, blocks.
const LOOK_BACK: usize = 20;
/// Most beginnings remembered; the oldest go first.
const KEPT_MAX: usize = 65_536;

/// A request cut into parts, each with the digest of everything up to its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prefix {
    ends: Vec<End>,
    breakpoints: usize,
}

#[derive(Debug, Clone)]
struct End {
    digest: Digest,
    tokens: u64,
    marked: bool,
}

impl Prefix {
    /// Adds a part.
    pub(crate) fn add(&mut self, part: &str, tokens: u64) {
        let (before, sum) = self.ends.last().map_or((None, 0), |end| (Some(end.digest), end.tokens));
        let before = before.as_ref().map_or(&[][..], |digest| digest.as_bytes().as_slice());
        let digest = Digest::of_parts([before, part.as_bytes()]);
        self.ends.push(End { digest, tokens: sum + tokens, marked: false });
    }

    /// Marks the last part's end as one to be cached.
    pub(crate) fn mark(&mut self) {
        if let Some(end) = self.ends.last_mut().filter(|end| !end.marked) {
            end.marked = true;
            self.breakpoints += 1;
        }
    }

    /// How many marks there are.
    pub(crate) fn breakpoints(&self) -> usize {
        self.breakpoints
    }

    /// How many tokens all parts have.
    pub(crate) fn tokens(&self) -> u64 {
        self.ends.last().map_or(0, |end| end.tokens)
    }
}

/// The beginnings that a service still knows.
#[derive(Debug, Default)]
pub(crate) struct PromptCache {
    known: HashSet<Digest>,
    oldest_first: VecDeque<Digest>,
}

impl PromptCache {
    /// How many tokens of this request were read from the cache and how many written to it, by its marks.
    pub(crate) fn use_marked(&mut self, request: &Prefix) -> (u64, u64) {
        let marks: Vec<usize> = (0..request.ends.len()).filter(|at| request.ends[*at].marked).collect();
        let read = marks.iter().rev().find_map(|mark| {
            let near = request.ends[mark.saturating_sub(LOOK_BACK)..=*mark].iter().rev();
            near.into_iter().find(|end| self.known.contains(&end.digest)).map(|end| end.tokens)
        });
        let mut longest = 0;
        for mark in marks {
            let end = &request.ends[mark];
            if end.tokens >= TOKENS_MIN {
                self.learn(end.digest);
                longest = end.tokens;
            }
        }
        let read = read.unwrap_or(0);
        (read, longest.saturating_sub(read))
    }

    /// How many tokens of this request were read from a cache that works by itself.
    pub(crate) fn use_automatic(&mut self, request: &Prefix) -> u64 {
        let known = request.ends.iter().rev().find(|end| self.known.contains(&end.digest)).map_or(0, |end| end.tokens);
        for end in request.ends.iter().filter(|end| end.tokens >= TOKENS_MIN) {
            self.learn(end.digest);
        }
        known / STEP_TOKENS * STEP_TOKENS
    }

    fn learn(&mut self, digest: Digest) {
        if !self.known.insert(digest) {
            return;
        }
        self.oldest_first.push_back(digest);
        if self.oldest_first.len() > KEPT_MAX {
            let oldest = self.oldest_first.pop_front();
            oldest.map(|oldest| self.known.remove(&oldest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(parts: &[(&str, u64, bool)]) -> Prefix {
        let mut prefix = Prefix::default();
        for (part, tokens, marked) in parts {
            prefix.add(part, *tokens);
            if *marked {
                prefix.mark();
            }
        }
        prefix
    }

    #[test]
    fn a_marked_beginning_is_written_once_and_then_read() {
        let mut cache = PromptCache::default();
        let first = request(&[("system", 2_000, true), ("task", 500, true)]);
        assert_eq!(cache.use_marked(&first), (0, 2_500));
        let next =
            request(&[("system", 2_000, true), ("task", 500, false), ("answer", 100, false), ("result", 50, true)]);
        assert_eq!(cache.use_marked(&next), (2_500, 150));
        assert_eq!(cache.use_marked(&next), (2_650, 0));
        let other = request(&[("system changed", 2_000, true), ("task", 500, true)]);
        assert_eq!(cache.use_marked(&other), (0, 2_500));
        assert_eq!(cache.use_marked(&request(&[("short", 100, true)])), (0, 0));
        assert_eq!(cache.use_marked(&request(&[("system", 2_000, false)])), (0, 0), "nothing is read without a mark");
    }

    #[test]
    fn an_automatic_cache_counts_in_steps() {
        let mut cache = PromptCache::default();
        let first = request(&[("system", 1_000, false), ("task", 500, false)]);
        assert_eq!(cache.use_automatic(&first), 0);
        let next = request(&[("system", 1_000, false), ("task", 500, false), ("answer", 100, false)]);
        assert_eq!(cache.use_automatic(&next), 1_408);
    }
}
