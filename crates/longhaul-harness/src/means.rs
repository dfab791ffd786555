//! What a session's conversation works with, and how its prompt shares the window: the wiring between the harness's
//! components and the agent's loop.

use std::sync::Arc;

use longhaul_agent::{Means, Patience, Purse, ToolHost};
use longhaul_core::{ToolSpec, estimate_tokens};

use crate::{environment::Harness, sitting::Sitting};

/// The least that a first prompt may have, whatever stands around it.
const PROMPT_TOKENS_MIN: u64 = 1_200;
/// Tokens of one answer of `read_ref`, as a part of the window.
const READ_SHARE: u64 = 10;

/// A conversation's means in this session.
pub(crate) fn means<'m>(s: &'m Sitting<'_>, host: &'m dyn ToolHost) -> Means<'m> {
    Means {
        model: s.harness.model.as_ref(),
        host,
        purse: purse(s),
        shelf: Some(s.harness.workspace.task(&s.owner())),
        patience: patience(s.harness),
    }
}

/// Who pays for this session.
pub(crate) fn purse(s: &Sitting<'_>) -> Arc<dyn Purse> {
    s.harness.spending.purse(s.owner(), s.session)
}

fn patience(harness: &Harness) -> Patience {
    Patience { same_max: harness.settings.stuck_repeats_max, still_turns_max: harness.settings.stuck_turns_max }
}

/// Tokens that a session's first prompt may have: half of the window, without what stands in every request anyway.
pub(crate) fn prompt_tokens(harness: &Harness, system: &str, tools: &[ToolSpec]) -> u64 {
    let tools: u64 = tools
        .iter()
        .map(|tool| {
            8 + estimate_tokens(&tool.name)
                + estimate_tokens(&tool.description)
                + estimate_tokens(&tool.parameters.to_string())
        })
        .sum();
    let half = harness.model.info().window_tokens / 2;
    half.saturating_sub(tools + estimate_tokens(system)).max(PROMPT_TOKENS_MIN)
}

/// Characters that one call of `read_ref` gives.
pub(crate) fn read_chars(harness: &Harness) -> usize {
    usize::try_from(harness.model.info().window_tokens / READ_SHARE).unwrap_or(usize::MAX).saturating_mul(3).min(24_000)
}
