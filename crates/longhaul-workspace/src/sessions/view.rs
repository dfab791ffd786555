//! What a request shows of a conversation: the chosen messages, a summary of the older ones, the memo.
//!
//! It reads rows and asks the summariser; which messages fit is decided in `window`. Invariant: a summary is written
//! only over the state it was made from, so two processes that summarise at once leave one summary and lose none; every
//! message stays as it was said.

use std::collections::BTreeMap;

use longhaul_core::{RecordId, TaskScope};
use longhaul_store::{ReadTx, StoreError, Tx, values};

use super::{
    Session, SessionError, StoredMessage, Summarise, Window, indexing,
    rows::{self, State},
    window::{lacks_calls, newest, units, within},
};
use crate::tokens::TokenCounter;

/// Messages read at once.
const PAGE: usize = 256;
/// Most tokens of messages given to the summariser at once.
const CHUNK_TOKENS: u64 = 16_000;
/// Most questions to the summariser for one window; a conversation that needs more goes on with the next window.
const QUESTIONS_MAX: usize = 8;

/// What a request shows of a conversation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WindowView {
    /// The chosen messages, in order.
    pub messages: Vec<StoredMessage>,
    /// What was said before them, in short, where that was asked for.
    pub summary: Option<String>,
    /// The conversation's memo; not counted in the window's budget.
    pub memo: String,
    /// Tokens of messages and summary, by the counter that was given.
    pub tokens: u64,
    /// Messages of the conversation that are not shown.
    pub left_out: u64,
    /// Summaries of the attached records, as far as they are there.
    pub attached: BTreeMap<RecordId, String>,
    /// What a person should know: why there is no summary.
    pub notes: Vec<String>,
}

/// Chosen messages with their count of tokens.
struct Chosen {
    messages: Vec<StoredMessage>,
    tokens: u64,
}

pub(super) async fn of(
    session: &Session,
    window: Window,
    counter: &dyn TokenCounter,
    summariser: Option<&dyn Summarise>,
) -> Result<WindowView, SessionError> {
    let owner = session.owner.clone();
    let Some(state) = session.sessions.store().read(move |read| rows::state(read, &owner)).await? else {
        return Ok(WindowView::default());
    };
    let mut view = match window {
        Window::Messages(count) => {
            let chosen = by_count(session, count, counter).await?;
            WindowView { messages: chosen.messages, tokens: chosen.tokens, ..WindowView::default() }
        }
        Window::Tokens(budget) => {
            let chosen = by_tokens(session, 1, budget, counter).await?;
            WindowView { messages: chosen.messages, tokens: chosen.tokens, ..WindowView::default() }
        }
        Window::Summarised { tokens_max, keep_tokens, summary_tokens } => {
            let limits = Limits { tokens_max, keep_tokens: keep_tokens.min(tokens_max), summary_tokens };
            summarised(session, &state, limits, counter, summariser).await?
        }
    };
    let last = u64::try_from(state.last_seq).unwrap_or(0);
    view.left_out = last.saturating_sub(view.messages.len() as u64);
    view.memo = state.memo;
    view.attached = attached(session, &view.messages).await?;
    Ok(view)
}

/// The newest messages, in pages back from the end, until `enough` says that there is no need for older ones. A tool's
/// answer belongs to its call, so what lacks the call is read on.
async fn read_back(
    session: &Session,
    from: i64,
    mut enough: impl FnMut(&[StoredMessage]) -> bool,
) -> Result<Vec<StoredMessage>, SessionError> {
    let mut all: Vec<StoredMessage> = Vec::new();
    let mut before = i64::MAX;
    loop {
        let owner = session.owner.clone();
        let page = move |read: &ReadTx<'_>| rows::messages(read, &owner, (from, before), PAGE, true);
        let mut page: Vec<StoredMessage> = session.sessions.store().read(page).await?;
        let is_last = page.len() < PAGE;
        before = page.first().map_or(before, |first| first.seq);
        page.append(&mut all);
        all = page;
        if is_last || (!lacks_calls(&all) && enough(&all)) {
            return Ok(all);
        }
    }
}

async fn by_count(session: &Session, count: usize, counter: &dyn TokenCounter) -> Result<Chosen, SessionError> {
    // A unit may reach further back than its newest message, so one page more than asked for is looked at.
    let all = read_back(session, 1, |all| newest(all, count) > 0).await?;
    let from = newest(&all, count);
    let messages = all[from..].to_vec();
    let tokens = messages.iter().map(|message| message.counted(&|text| counter.count(text))).sum();
    Ok(Chosen { messages, tokens })
}

async fn by_tokens(
    session: &Session,
    from: i64,
    budget: u64,
    counter: &dyn TokenCounter,
) -> Result<Chosen, SessionError> {
    let count = |messages: &[StoredMessage]| -> Vec<u64> {
        messages.iter().map(|message| message.counted(&|text| counter.count(text))).collect()
    };
    let all =
        read_back(session, from, |all| within(all, &count(all), budget).map_or(true, |(from, _)| from > 0)).await?;
    let (from, tokens) = within(&all, &count(&all), budget)?;
    Ok(Chosen { messages: all[from..].to_vec(), tokens })
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    tokens_max: u64,
    keep_tokens: u64,
    summary_tokens: u64,
}

async fn summarised(
    session: &Session,
    state: &State,
    limits: Limits,
    counter: &dyn TokenCounter,
    summariser: Option<&dyn Summarise>,
) -> Result<WindowView, SessionError> {
    let mut state = state.clone();
    let mut notes = Vec::new();
    for asked in 0..=QUESTIONS_MAX {
        let all = read_back(session, state.window_from, |_| false).await?;
        let tokens: Vec<u64> = all.iter().map(|message| message.counted(&|text| counter.count(text))).collect();
        let before = state.summary.as_deref().map_or(0, |summary| counter.count(summary));
        let all_tokens: u64 = tokens.iter().sum();
        if before + all_tokens <= limits.tokens_max {
            let summary = state.summary.clone();
            return Ok(WindowView { messages: all, summary, tokens: before + all_tokens, ..WindowView::default() });
        }
        let Some(summariser) = summariser else {
            notes.push("no model summarises, so the newest messages are shown alone".to_owned());
            break;
        };
        if asked == QUESTIONS_MAX {
            notes.push("not all of what was said earlier is summarised yet; the next window goes on".to_owned());
            break;
        }
        let kept = within(&all, &tokens, limits.keep_tokens).map(|(from, _)| from);
        // What cannot be kept within its part may still fit the whole.
        let from = kept.unwrap_or_else(|_| units(&all).last().map_or(0, |unit| unit.start));
        let older = chunk(&all[..from], &tokens[..from]);
        if older.is_empty() {
            break;
        }
        match shortened(session, &state, older, limits, counter, summariser).await? {
            Ok(now) => state = now,
            Err(problem) => {
                notes.push(problem);
                break;
            }
        }
    }
    let summary = state.summary.clone().unwrap_or_default();
    let room = limits.tokens_max.saturating_sub(counter.count(&summary));
    // Where the summary leaves no room for the newest words, the words go first.
    let (chosen, summary) = match by_tokens(session, state.window_from, room, counter).await {
        Err(SessionError::WindowTooSmall { .. }) => {
            (by_tokens(session, state.window_from, limits.tokens_max, counter).await?, String::new())
        }
        chosen => (chosen?, summary),
    };
    let tokens = chosen.tokens + counter.count(&summary);
    let summary = Some(summary).filter(|summary| !summary.is_empty());
    Ok(WindowView { messages: chosen.messages, summary, tokens, notes, ..WindowView::default() })
}

/// As much of the beginning as one question to the summariser holds, by whole units.
fn chunk<'a>(older: &'a [StoredMessage], tokens: &[u64]) -> &'a [StoredMessage] {
    let (mut to, mut used) = (0, 0_u64);
    for unit in units(older) {
        used += tokens[unit.clone()].iter().sum::<u64>();
        if used > CHUNK_TOKENS && to > 0 {
            break;
        }
        to = unit.end;
    }
    &older[..to]
}

/// Has the oldest messages summarised and keeps the summary; `Err` within says why there is none.
async fn shortened(
    session: &Session,
    state: &State,
    older: &[StoredMessage],
    limits: Limits,
    counter: &dyn TokenCounter,
    summariser: &dyn Summarise,
) -> Result<Result<State, String>, SessionError> {
    let made = summariser.summarise(state.summary.as_deref(), older, limits.summary_tokens).await;
    let text = match made {
        Ok(text) if text.trim().is_empty() => return Ok(Err("the summariser said nothing".to_owned())),
        Ok(text) => cut(&text.replace('\0', " "), limits.summary_tokens, counter),
        Err(error) => return Ok(Err(error.to_string())),
    };
    let next = older.last().map_or(state.window_from, |last| last.seq + 1);
    let (owner, was, known) = (session.owner.clone(), state.window_from, state.clone());
    let keep = move |tx: &mut Tx<'_>| keep_summary(tx, &owner, &text, (was, next), known);
    Ok(Ok(session.sessions.store().write(keep).await?))
}

/// Writes a summary over the state that it was made from; gives the state as it is afterwards, by whomever.
fn keep_summary(
    tx: &mut Tx<'_>,
    owner: &TaskScope,
    text: &str,
    (was, next): (i64, i64),
    known: State,
) -> Result<State, SessionError> {
    let now = rows::lock(tx, owner)?;
    if now.window_from != was || now.summary != known.summary {
        return Ok(now);
    }
    tx.execute(
        "UPDATE session_states SET summary = ?3, window_from = ?4 WHERE tenant_id = ?1 AND session_id = ?2",
        &values![&owner.scope.tenant, &owner.session, text, next],
    )?;
    Ok(State { summary: Some(text.to_owned()), window_from: next, ..now })
}

/// The beginning of a text that has at most so many tokens.
fn cut(text: &str, tokens_max: u64, counter: &dyn TokenCounter) -> String {
    let text = text.trim();
    if counter.count(text) <= tokens_max {
        return text.to_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    let (mut fits, mut over) = (0, chars.len());
    while fits + 1 < over {
        let middle = fits.midpoint(over);
        let shown: String = chars[..middle].iter().collect();
        if counter.count(&shown) <= tokens_max { fits = middle } else { over = middle }
    }
    chars[..fits].iter().collect()
}

/// What the attached records are, in their own summaries.
async fn attached(session: &Session, messages: &[StoredMessage]) -> Result<BTreeMap<RecordId, String>, SessionError> {
    let wanted: Vec<RecordId> =
        messages.iter().flat_map(|message| &message.attachments).map(|record| record.id.clone()).collect();
    if wanted.is_empty() {
        return Ok(BTreeMap::new());
    }
    let tenant = session.owner.scope.tenant.clone();
    let read = move |read: &ReadTx<'_>| {
        let mut found = BTreeMap::new();
        for id in wanted {
            let sql = "SELECT summary FROM records WHERE tenant_id = ?1 AND record_id = ?2";
            let summary = read.query_optional(sql, &values![&tenant, &id], |row| row.get::<String>(0))?;
            if let Some(summary) = summary {
                found.insert(id, indexing::one_line(&summary, 200));
            }
        }
        Ok::<_, StoreError>(found)
    };
    Ok(session.sessions.store().read(read).await?)
}
