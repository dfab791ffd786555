//! Packing: from weighed candidates to items and omissions, within a budget.
//!
//! Pure. Invariants: the rendered items are never over the budget, whatever counts the tokens; every candidate is an item or
//! an omission, once.

use std::collections::BTreeMap;

use longhaul_core::{Digest, TaskId, TimeMs};

use super::{
    fence,
    pack::{Label, Omitted, Origin, PackItem, Reason, Score},
    profile::{Order, Profile},
    same::{self, Text, Verdict},
    weigh,
};
use crate::TokenCounter;

/// Tokens below which a part of a text says too little.
const CUT_TOKENS_MIN: u64 = 48;
/// How often a cut is made shorter until it fits.
const CUT_ATTEMPTS: usize = 8;
/// A mark for counting before the real one is known.
const SAMPLE_MARK: &str = "7KQ2XWAB";

/// Something that may become an item.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) id: String,
    pub(super) origin: Origin,
    pub(super) kind: String,
    pub(super) label: Label,
    pub(super) summary: String,
    pub(super) text: String,
    /// Whether the text is all of it.
    pub(super) whole: bool,
    /// Which content it is of, where that is known.
    pub(super) digest: Option<Digest>,
    pub(super) at: TimeMs,
    pub(super) task: Option<TaskId>,
    pub(super) score: Score,
}

impl Candidate {
    fn omitted(&self, reason: Reason) -> Omitted {
        Omitted { id: self.id.clone(), summary: self.summary.clone(), reason }
    }

    fn item(&self, text: String, whole: bool, tokens: u64) -> PackItem {
        PackItem {
            id: self.id.clone(),
            origin: self.origin,
            kind: self.kind.clone(),
            label: self.label.clone(),
            summary: self.summary.clone(),
            text,
            whole,
            tokens,
            at: self.at,
            task: self.task.clone(),
            score: self.score.clone(),
        }
    }
}

/// Items and omissions, in the order of a pack.
#[derive(Debug, Default)]
pub(super) struct Filled {
    pub(super) items: Vec<PackItem>,
    pub(super) omitted: Vec<Omitted>,
    pub(super) used_tokens: u64,
}

/// Weighs, deduplicates and packs.
pub(super) fn fill(
    mut candidates: Vec<Candidate>,
    profile: &Profile,
    budget_tokens: u64,
    counter: &dyn TokenCounter,
    now: TimeMs,
) -> Filled {
    for candidate in &mut candidates {
        weigh::weigh(candidate, profile, now);
    }
    candidates
        .sort_by(|a, b| b.score.total.total_cmp(&a.score.total).then(b.at.cmp(&a.at)).then_with(|| a.id.cmp(&b.id)));
    // By two ways to the same thing it is one candidate, with the better score.
    let mut seen = std::collections::HashSet::new();
    candidates.retain(|candidate| seen.insert(candidate.id.clone()));
    let (candidates, mut omitted) = sift(candidates, profile);
    let mut packing = Packing::new(profile, budget_tokens, counter);
    // Shares and sizes bind while others could use the room; what is left in the end goes to the best that they kept out.
    let mut kept_out = Vec::new();
    for candidate in &candidates {
        if let Err(reason) = packing.add(candidate, Bounds::Shares) {
            kept_out.push((candidate, reason));
        }
    }
    for (candidate, reason) in kept_out {
        if packing.add(candidate, Bounds::Budget).is_err() {
            packing.filled.omitted.push(candidate.omitted(reason));
        }
    }
    let filled = packing.finish(profile);
    omitted.extend(filled.omitted);
    let order: BTreeMap<&str, usize> = candidates.iter().enumerate().map(|(at, of)| (of.id.as_str(), at)).collect();
    omitted.sort_by_key(|omitted| order.get(omitted.id.as_str()).copied().unwrap_or(usize::MAX));
    Filled { omitted, ..filled }
}

/// Leaves out what the profile does not want, what answers too badly, and what says the same as another.
fn sift(candidates: Vec<Candidate>, profile: &Profile) -> (Vec<Candidate>, Vec<Omitted>) {
    let best = candidates.first().map_or(0.0, |candidate| candidate.score.total);
    let least = best * profile.relevance_least;
    let mut omitted = Vec::new();
    let mut kept = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let score = candidate.score.total;
        if score <= 0.0 {
            omitted.push(candidate.omitted(Reason::Unwanted));
        } else if score < least {
            omitted.push(candidate.omitted(Reason::Relevance { score, least }));
        } else {
            kept.push(candidate);
        }
    }
    let texts: Vec<Text<'_>> = kept
        .iter()
        .map(|of| Text { text: &of.text, digest: of.digest.map(|digest| *digest.as_bytes()), at: of.at })
        .collect();
    let verdicts = same::judge(&texts);
    let ids: Vec<String> = kept.iter().map(|candidate| candidate.id.clone()).collect();
    let mut unlike = Vec::with_capacity(kept.len());
    for (candidate, verdict) in kept.into_iter().zip(verdicts) {
        match verdict {
            Verdict::Stays => unlike.push(candidate),
            Verdict::Equal(of) => omitted.push(candidate.omitted(Reason::Duplicate { of: ids[of].clone() })),
            Verdict::Near(of, likeness) => {
                omitted.push(candidate.omitted(Reason::NearDuplicate { of: ids[of].clone(), likeness }));
            }
        }
    }
    (unlike, omitted)
}

/// What an item has to fit into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bounds {
    /// The budget, the share of its owner, and the most of one item.
    Shares,
    /// The budget; a text that has to be cut is still no larger than one item may be.
    Budget,
}

struct Packing<'a> {
    budget: u64,
    /// Most tokens of one item.
    item_max: u64,
    /// Most tokens of an owner's items, and those used.
    shares: BTreeMap<Origin, (u64, u64)>,
    used: u64,
    counter: &'a dyn TokenCounter,
    filled: Filled,
}

impl<'a> Packing<'a> {
    fn new(profile: &Profile, budget: u64, counter: &'a dyn TokenCounter) -> Self {
        let share = |share: f32| (budget as f64 * f64::from(share)) as u64;
        let shares = [
            (Origin::Record, (budget, 0)),
            (Origin::Message, (share(profile.messages_share_max), 0)),
            (Origin::Memory, (share(profile.memories_share_max), 0)),
        ];
        let used = counter.count(&fence::head(SAMPLE_MARK));
        let item_max = share(profile.item_share_max).max(CUT_TOKENS_MIN);
        Self { budget, item_max, shares: shares.into(), used, counter, filled: Filled::default() }
    }

    /// Takes a candidate in, or says why not.
    fn add(&mut self, candidate: &Candidate, bounds: Bounds) -> Result<(), Reason> {
        let left = self.budget.saturating_sub(self.used);
        let (share_max, share_used) = self.shares.get(&candidate.origin).copied().unwrap_or((self.budget, 0));
        let in_share = share_max.saturating_sub(share_used);
        let mut item = candidate.item(candidate.text.clone(), candidate.whole, 0);
        item.tokens = self.cost(&item);
        let needs = item.tokens;
        let may = match bounds {
            Bounds::Shares => left.min(in_share).min(self.item_max),
            Bounds::Budget if needs <= left => left,
            Bounds::Budget => left.min(self.item_max),
        };
        if needs > may {
            match self.cut(candidate, needs, may) {
                Some(cut) => item = cut,
                None => {
                    let reason = if in_share < left && in_share < needs.min(self.item_max) {
                        Reason::Share { origin: candidate.origin, tokens_max: share_max }
                    } else {
                        Reason::Budget { needs: needs.min(self.item_max), left }
                    };
                    return Err(reason);
                }
            }
        }
        self.used = self.used.saturating_add(item.tokens);
        if let Some((_, used)) = self.shares.get_mut(&candidate.origin) {
            *used = used.saturating_add(item.tokens);
        }
        self.filled.items.push(item);
        Ok(())
    }

    /// Tokens of an item in the rendered pack, its line break included.
    fn cost(&self, item: &PackItem) -> u64 {
        self.counter.count(&fence::block(item, SAMPLE_MARK)).saturating_add(1)
    }

    /// As much of a candidate's beginning as fits, ended where a paragraph, sentence or word ends.
    fn cut(&self, candidate: &Candidate, needs: u64, may: u64) -> Option<PackItem> {
        let frame = self.cost(&candidate.item(String::new(), false, 0));
        if may < frame.saturating_add(CUT_TOKENS_MIN) {
            return None;
        }
        let text_tokens = needs.saturating_sub(frame).max(1);
        let mut part = (may - frame) as f64 / text_tokens as f64;
        for _ in 0..CUT_ATTEMPTS {
            let bytes = (candidate.text.len() as f64 * part.clamp(0.0, 1.0)) as usize;
            let kept = shortened(&candidate.text, bytes);
            if kept.trim().is_empty() {
                return None;
            }
            let mut item = candidate.item(kept.to_owned(), false, 0);
            item.tokens = self.cost(&item);
            if item.tokens <= may {
                return Some(item);
            }
            part *= 0.85;
        }
        None
    }

    /// Counts what is really rendered, and takes out the last items until it fits: tokens of parts need not add up.
    fn finish(mut self, profile: &Profile) -> Filled {
        let mut taken = std::mem::take(&mut self.filled.items);
        loop {
            let mut shown = taken.clone();
            if profile.order == Order::Time {
                shown.sort_by(|a, b| a.at.cmp(&b.at).then_with(|| a.id.cmp(&b.id)));
            }
            let used = if shown.is_empty() { 0 } else { self.counter.count(&fence::render(&shown)) };
            if used <= self.budget {
                self.filled.items = shown;
                self.filled.used_tokens = used;
                return self.filled;
            }
            if let Some(out) = taken.pop() {
                let left = self.budget.saturating_sub(used.saturating_sub(out.tokens));
                let reason = Reason::Budget { needs: out.tokens, left };
                self.filled.omitted.push(Omitted { id: out.id, summary: out.summary, reason });
            }
        }
    }
}

/// At most so many bytes of a text's beginning, ended at the last end of a paragraph, sentence or word in their second
/// half, where there is one.
fn shortened(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    if end == text.len() {
        return text;
    }
    let half = text.floor_char_boundary(end / 2);
    let late = &text[half..end];
    let after = |at: Option<usize>, of: &str| at.map(|at| half + at + of.len());
    let sentence = ["。", "！", "？", "．", "।", "؟", ". ", "! ", "? ", ".\n", "\n"];
    let place = after(late.rfind("\n\n"), "")
        .or_else(|| sentence.iter().filter_map(|mark| after(late.rfind(mark), mark.trim_end())).max())
        .or_else(|| after(late.rfind(char::is_whitespace), ""));
    text[..place.unwrap_or(end)].trim_end()
}

#[cfg(test)]
mod tests;
