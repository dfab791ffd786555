//! Searching past conversations: by words, by meaning, by the time that the question mentions.
//!
//! A hit of the index counts only as long as its message is there and its user's: rows are the truth. Invariants:
//! searching writes nothing (invariant 9); an answer has at most as many tokens as asked for, whatever was said.

use std::collections::{BTreeSet, HashMap, HashSet};

use longhaul_core::{MessageId, Scope, SessionId, TimeMs};
use longhaul_memory::{
    Hit, Mode, Query,
    when::{self, Period, Zone},
};
use longhaul_store::{ReadTx, StoreError, values};

use super::{
    ConversationHit, Conversations, Role, SessionError, Sessions, StoredMessage,
    excerpt::{excerpt, wanted},
    found,
    rows::{self, MESSAGE},
};
use crate::talk_partition_of;

/// Most hits of one search.
pub const HITS_MAX: usize = 50;
/// Most tokens of one answer.
pub const TOKENS_MAX: u64 = 16_000;
/// Other wordings of one question that are looked for.
const WORDINGS_MAX: usize = 4;
/// Characters of a snippet.
const SNIPPET_CHARS_MAX: usize = 400;
/// Hits of one conversation, where others have some too.
const OF_ONE_SESSION_MAX: usize = 4;
/// Messages of a time that are looked at where the question's words find too few.
const OF_A_TIME_MAX: usize = 400;

/// What to look for in past conversations.
#[derive(Debug, Clone, PartialEq)]
pub struct ConversationQuery {
    /// In any words and any language; a time in it counts ("that project last month"). Empty for the newest.
    pub text: String,
    /// The same in other words or another language, at most four; each is looked for.
    pub also: Vec<String>,
    /// The time it was said, as people write it; it takes the place of one in the text.
    pub when: Option<String>,
    /// Only in this conversation.
    pub session: Option<SessionId>,
    /// Not in this one, such as the one that is shown anyway.
    pub except: Option<SessionId>,
    /// Only what this role said; `None` for users and assistants.
    pub role: Option<Role>,
    /// Most hits, at most [`HITS_MAX`].
    pub hits: usize,
    /// Most tokens of the answer, at most [`TOKENS_MAX`].
    pub tokens: u64,
    /// In which days begin and end.
    pub zone: Zone,
}

impl ConversationQuery {
    /// Eight hits in 1,500 tokens, of whatever time the text mentions.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            also: Vec::new(),
            when: None,
            session: None,
            except: None,
            role: None,
            hits: 8,
            tokens: 1_500,
            zone: Zone::local(),
        }
    }
}

/// What is looked for, once the time has been taken out of the text.
struct Asked {
    texts: Vec<String>,
    time: Option<(String, Period)>,
}

/// A message that answers, and where in it.
struct Candidate {
    message: MessageId,
    from: usize,
    score: f32,
}

/// What the index said.
#[derive(Default)]
struct Recalled {
    candidates: Vec<Candidate>,
    considered: usize,
    notes: Vec<String>,
}

impl Sessions {
    /// What was said in the user's past conversations that answers best. Nothing is written.
    ///
    /// # Errors
    /// [`SessionError::When`] for a `when` that is no time; [`SessionError::Field`]; those of memory and of the store.
    pub async fn search(&self, query: &ConversationQuery) -> Result<Conversations, SessionError> {
        let hits_max = checked(query)?;
        let asked = asked(query, self.store().ambient().clock.now())?;
        if !self.user_memory().switches(self.scope()).await?.memory {
            let notes = vec![format!("memory is switched off for {}, so nothing was searched", self.scope().user)];
            return Ok(found::written(Vec::new(), asked.time, 0, notes, query.tokens, &query.zone));
        }
        let period = asked.time.as_ref().map_or(Period::default(), |(_, period)| *period);
        let mut recalled = self.recall(query, &asked.texts, period, hits_max).await?;
        let mut hits = self.said(query, &asked, &recalled, hits_max).await?;
        // "That project last month" has hardly a word to look for: what was said then is an answer too. Of half the hits
        // only, as a question with words of its own is answered by those.
        let filled = if asked.texts.is_empty() { hits_max } else { hits_max.div_ceil(2) };
        if hits.len() < filled && (asked.time.is_some() || asked.texts.is_empty()) {
            let more = self.of_time(query, &asked, period, hits_max).await?;
            let known: HashSet<MessageId> = hits.iter().map(|hit| hit.message.clone()).collect();
            hits.extend(more.into_iter().filter(|hit| !known.contains(&hit.message)).take(filled - hits.len()));
        }
        if let Some((words, _)) = asked.time.as_ref().filter(|_| hits.is_empty() && !asked.texts.is_empty()) {
            let note = format!("nothing was said in the time of \"{words}\"; these are from other times");
            recalled = self.recall(query, &asked.texts, Period::default(), hits_max).await?;
            recalled.notes.insert(0, note);
            hits = self.said(query, &asked, &recalled, hits_max).await?;
        }
        let Recalled { considered, notes, .. } = recalled;
        Ok(found::written(hits, asked.time, considered, notes, query.tokens, &query.zone))
    }

    /// What the index finds for each wording, the best of each message.
    async fn recall(
        &self,
        query: &ConversationQuery,
        texts: &[String],
        period: Period,
        hits_max: usize,
    ) -> Result<Recalled, SessionError> {
        let mut best: HashMap<MessageId, (usize, f32)> = HashMap::new();
        let mut recalled = Recalled::default();
        let mut notes = BTreeSet::new();
        for text in texts {
            let asked = Query {
                text: text.clone(),
                k: hits_max * 4,
                namespaces: vec![talk_partition_of(&self.scope().user)],
                collections: vec![super::indexing::COLLECTION.to_owned()],
                tags: query.role.iter().map(|role| role.as_str().to_owned()).collect(),
                thread: query.session.as_ref().map(SessionId::to_string),
                since: period.since,
                until: period.until,
                ..Query::default()
            };
            let recall = self.memory().search(self.scope(), &asked).await?;
            recalled.considered = recalled.considered.max(recall.considered);
            if let Mode::Keyword { reason } = &recall.mode {
                notes.insert(format!("searched by words alone: {reason}"));
            } else if recall.unembedded > 0 {
                notes.insert(format!("{} parts are found by their words alone so far", recall.unembedded));
            }
            notes.extend(recall.notes);
            for (message, from, score) in recall.hits.iter().filter_map(placed) {
                let known = best.entry(message).or_insert((from, score));
                if score > known.1 {
                    *known = (from, score);
                }
            }
        }
        recalled.notes.extend(notes);
        let candidates = best.into_iter().map(|(message, (from, score))| Candidate { message, from, score });
        recalled.candidates = candidates.collect();
        recalled.candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| b.message.cmp(&a.message)));
        Ok(recalled)
    }

    /// The messages behind what the index found, as far as they are there and the user's.
    async fn said(
        &self,
        query: &ConversationQuery,
        asked: &Asked,
        recalled: &Recalled,
        hits_max: usize,
    ) -> Result<Vec<ConversationHit>, SessionError> {
        let (scope, ids) = (self.scope().clone(), recalled.candidates.iter().map(|found| found.message.clone()));
        let ids: Vec<MessageId> = ids.collect();
        let mut messages = self.store().read(move |read| by_ids(read, &scope, &ids)).await?;
        let words = wanted(&asked.texts.join(" "));
        let (mut hits, mut of_session): (Vec<ConversationHit>, HashMap<SessionId, usize>) = Default::default();
        for candidate in &recalled.candidates {
            let Some((message, title)) = messages.remove(&candidate.message) else { continue };
            let count = of_session.entry(message.session.clone()).or_default();
            let is_full = query.session.is_none() && *count >= OF_ONE_SESSION_MAX;
            if is_full || query.except.as_ref() == Some(&message.session) {
                continue;
            }
            *count += 1;
            hits.push(hit(message, title, (candidate.from, candidate.score), &words));
            if hits.len() == hits_max {
                break;
            }
        }
        Ok(hits)
    }

    /// What was said at a time, whatever the words: of each conversation first one message, the newest first.
    async fn of_time(
        &self,
        query: &ConversationQuery,
        asked: &Asked,
        period: Period,
        hits_max: usize,
    ) -> Result<Vec<ConversationHit>, SessionError> {
        let (scope, role) = (self.scope().clone(), query.role.unwrap_or(Role::User));
        let (session, except) = (query.session.clone(), query.except.clone());
        let read = move |read: &ReadTx<'_>| in_period(read, &scope, period, role, session.as_ref(), except.as_ref());
        let found = self.store().read(read).await?;
        let words = wanted(&asked.texts.join(" "));
        let mut seen = HashSet::new();
        let (first, rest): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(message, _)| seen.insert(message.session.clone()));
        let all = first.into_iter().chain(rest).take(hits_max);
        Ok(all.map(|(message, title)| hit(message, title, (0, 0.0), &words)).collect())
    }
}

fn checked(query: &ConversationQuery) -> Result<usize, SessionError> {
    let wrong = |field, value: String, expected| Err(SessionError::Field { field, value, expected });
    if query.also.len() > WORDINGS_MAX {
        return wrong("also", format!("{} wordings", query.also.len()), "at most 4 other wordings");
    }
    if !(1..=HITS_MAX).contains(&query.hits) {
        return wrong("hits", query.hits.to_string(), "a number of hits from 1 to 50");
    }
    if query.tokens > TOKENS_MAX {
        return wrong("tokens", query.tokens.to_string(), "at most 16000 tokens");
    }
    match query.role {
        Some(role @ (Role::System | Role::Tool)) => wrong("role", role.to_string(), "user or assistant"),
        Some(Role::User | Role::Assistant) | None => Ok(query.hits),
    }
}

fn asked(query: &ConversationQuery, now: TimeMs) -> Result<Asked, SessionError> {
    let mut time = match &query.when {
        Some(words) => Some((words.clone(), when::period(words, now, &query.zone)?)),
        None => None,
    };
    let mut texts: Vec<String> = Vec::new();
    for text in std::iter::once(&query.text).chain(&query.also) {
        let mut text = text.trim().to_owned();
        if let Some(mention) = when::mentioned(&text, now, &query.zone) {
            // The words of a time would find what speaks of times.
            time = time.or(Some((mention.words, mention.period)));
            text = mention.rest;
        }
        if text.chars().any(char::is_alphanumeric) && !texts.contains(&text) {
            texts.push(text);
        }
    }
    Ok(Asked { texts, time })
}

/// The message of a hit and the place in it.
fn placed(hit: &Hit) -> Option<(MessageId, usize, f32)> {
    let at = hit.item.meta.get("at")?;
    let message = at.get("message")?.as_str()?.parse().ok()?;
    let from = at.get("from").and_then(serde_json::Value::as_u64).and_then(|from| usize::try_from(from).ok());
    Some((message, from.unwrap_or(0), hit.score))
}

fn hit(message: StoredMessage, title: String, (from, score): (usize, f32), words: &[String]) -> ConversationHit {
    // The part that was found, with a little of what follows it.
    let part = message.content.get(from..).unwrap_or(&message.content);
    let part: String = part.chars().take(crate::parts::PART_CHARS_MAX + SNIPPET_CHARS_MAX).collect();
    ConversationHit {
        snippet: excerpt(&part, words, SNIPPET_CHARS_MAX),
        session: message.session,
        title,
        message: message.id,
        seq: message.seq,
        role: message.role,
        at: message.at,
        task: message.task,
        score,
    }
}

type Titled = (StoredMessage, String);

/// Columns of a message, then the title of its conversation.
fn titled_columns() -> String {
    let columns: Vec<String> = MESSAGE.split(',').map(|column| format!("m.{}", column.trim())).collect();
    format!("{}, s.title", columns.join(", "))
}

const TITLED: &str = "messages m JOIN session_states s ON s.tenant_id = m.tenant_id AND s.session_id = m.session_id
    WHERE m.tenant_id = ?1 AND m.user_id = ?2 AND s.user_id = ?2 AND s.deleting = 0";

fn titled_row(row: &longhaul_store::Row<'_>) -> Result<Titled, StoreError> {
    Ok((rows::message_row(row)?, row.get(13)?))
}

fn by_ids(read: &ReadTx<'_>, scope: &Scope, ids: &[MessageId]) -> Result<HashMap<MessageId, Titled>, StoreError> {
    let sql = format!("SELECT {} FROM {TITLED} AND m.message_id = ?3", titled_columns());
    let mut found = HashMap::new();
    for id in ids {
        let key = values![&scope.tenant, &scope.user, id];
        if let Some(titled) = read.query_optional(&sql, &key, titled_row)? {
            found.insert(id.clone(), titled);
        }
    }
    Ok(found)
}

fn in_period(
    read: &ReadTx<'_>,
    scope: &Scope,
    period: Period,
    role: Role,
    session: Option<&SessionId>,
    except: Option<&SessionId>,
) -> Result<Vec<Titled>, StoreError> {
    let sql = format!(
        "SELECT {} FROM {TITLED} AND m.role = ?3 AND m.created_at >= ?4 AND m.created_at < ?5
             AND (?6 = '' OR m.session_id = ?6) AND m.session_id <> ?7
         ORDER BY m.created_at DESC, m.seq DESC LIMIT ?8",
        titled_columns()
    );
    let (since, until) = (period.since.map_or(i64::MIN, |at| at.0), period.until.map_or(i64::MAX, |at| at.0));
    let id = |session: Option<&SessionId>| session.map_or(String::new(), SessionId::to_string);
    let key = values![&scope.tenant, &scope.user, role.as_str(), since, until, id(session), id(except), OF_A_TIME_MAX];
    read.query(&sql, &key, titled_row)
}
