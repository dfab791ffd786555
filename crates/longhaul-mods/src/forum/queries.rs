//! Lists, search, and one topic with its comments. Reads only.

use longhaul_network::{Refusal, Reply, Stage};
use serde_json::{Value, json};

use super::{
    Call,
    rows::{self, COMMENT, Comment, Topic},
};
use crate::{
    acting::no,
    finding::{Wanted, condition},
    shape::{Page, REFERENCE_BYTES_MAX},
};

/// Entries of a page, unless it is asked for otherwise.
const PAGE: i64 = 50;
/// Topics that a search looks at more closely.
const CANDIDATES_MAX: usize = 1_000;
/// Characters of a query, in bytes.
const QUERY_BYTES_MAX: usize = 1_000;

/// How topics are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// What something happened to last.
    Recent,
    /// Votes, and a tenth of a vote for each comment.
    Popular,
    /// Votes alone.
    Votes,
    /// What was opened last.
    Newest,
}

impl Order {
    fn sql(self) -> &'static str {
        match self {
            Self::Recent => "ORDER BY t.last_activity DESC, t.topic_id DESC",
            Self::Popular => "ORDER BY t.score * 10 + t.comment_count DESC, t.last_activity DESC, t.topic_id DESC",
            Self::Votes => "ORDER BY t.score DESC, t.last_activity DESC, t.topic_id DESC",
            Self::Newest => "ORDER BY t.created_at DESC, t.topic_id DESC",
        }
    }
}

impl Call<'_, '_> {
    pub(super) fn list(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        let word = self.fields.word("sort_by", &["recent", "popular", "votes", "newest"])?;
        let order = match word {
            "popular" => Order::Popular,
            "votes" => Order::Votes,
            "newest" => Order::Newest,
            _ => Order::Recent,
        };
        let mut reply = self.ranked(stage, order)?;
        if let Some(data) = &mut reply.data {
            data["sort_by"] = word.into();
        }
        Ok(reply)
    }

    pub(super) fn ranked(&self, stage: &Stage<'_, '_>, order: Order) -> Result<Reply, Refusal> {
        self.listed(stage, None, order)
    }

    pub(super) fn topics_of(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        let owner = self.fields.optional_text("agent_id", REFERENCE_BYTES_MAX)?.unwrap_or(&self.actor.id);
        let mut reply = self.listed(stage, Some(owner), Order::Newest)?;
        if let Some(data) = &mut reply.data {
            data["agent_id"] = owner.into();
        }
        Ok(reply)
    }

    fn listed(&self, stage: &Stage<'_, '_>, owner: Option<&str>, order: Order) -> Result<Reply, Refusal> {
        let page = self.fields.page(PAGE, self.forum.results_max)?;
        let mut seen = self.seen();
        let of_owner = owner.map_or_else(String::new, |owner| format!("AND t.owner_id = ?{}", seen.with(owner)));
        let total = Topic::count(&stage.rows(), &seen, &of_owner)?;
        let (limit, offset) = (seen.with(page.limit), seen.with(page.offset));
        let end = format!("{} LIMIT ?{limit} OFFSET ?{offset}", order.sql());
        let topics = Topic::select(&stage.rows(), &seen, &of_owner, &end)?;
        let shown: Vec<Value> = topics.iter().map(Topic::shown).collect();
        Ok(Reply::done(format!("{} of {total} topics", shown.len()), Some(paged("topics", shown, total, page))))
    }

    /// Topics with all of the words, or, where there are none, with some of them; titles count more than texts.
    pub(super) fn search(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        if !self.forum.search {
            return Ok(no("SEARCH_OFF", "this forum cannot be searched"));
        }
        let query = self.fields.text("query", QUERY_BYTES_MAX)?;
        let page = self.fields.page(PAGE, self.forum.results_max)?;
        let mut found = Vec::new();
        for (wanted, joined_by) in [(Wanted::all(query), " AND "), (Wanted::some(query), " OR ")] {
            let mut seen = self.seen();
            let first = seen.params.len() + 1;
            let patterns = wanted.patterns();
            let has_words = condition("t.folded", patterns.len(), first, joined_by);
            for pattern in &patterns {
                seen.with(pattern);
            }
            let end = format!("{} LIMIT {CANDIDATES_MAX}", Order::Recent.sql());
            let topics = Topic::select(&stage.rows(), &seen, &format!("AND {has_words}"), &end)?;
            found = topics.into_iter().map(|topic| (score(&wanted, &topic), topic)).collect();
            if !found.is_empty() {
                break;
            }
        }
        // Stable: of equal ones the more recent stays first.
        found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        let total = i64::try_from(found.len()).unwrap_or(i64::MAX);
        let (offset, limit) = (usize::try_from(page.offset).unwrap_or(0), usize::try_from(page.limit).unwrap_or(0));
        let shown: Vec<Value> = found.iter().skip(offset).take(limit).map(|(_, topic)| topic.shown()).collect();
        let mut data = paged("topics", shown, total, page);
        data["search_query"] = query.into();
        Ok(Reply::done(format!("{total} topics found"), Some(data)))
    }

    pub(super) fn get(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        let topic = match self.visible_topic(stage)? {
            Ok(topic) => topic,
            Err(refused) => return Ok(refused),
        };
        let comments = Comment::of_topic(&stage.rows(), &self.here, &topic.id)?;
        let mut shown = topic.shown();
        shown["comments"] = Value::Array(rows::tree(&comments));
        Ok(Reply::done("topic", Some(shown)))
    }

    /// What somebody wrote on topics that the actor may see, newest first.
    pub(super) fn comments_of(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        let author = self.fields.optional_text("agent_id", REFERENCE_BYTES_MAX)?.unwrap_or(&self.actor.id);
        let page = self.fields.page(PAGE, self.forum.results_max)?;
        let mut seen = self.seen();
        let number = seen.with(author);
        let from = format!(
            "FROM forum_comments c JOIN forum_topics t ON t.tenant_id = c.tenant_id AND t.network_id = c.network_id
                 AND t.topic_id = c.topic_id
             WHERE c.tenant_id = ?1 AND c.network_id = ?2 AND c.author_id = ?{number} AND c.is_removed = 0 AND {}",
            seen.sql
        );
        let read = stage.rows();
        let total: i64 = read.query_one(&format!("SELECT count(*) {from}"), &seen.params, |row| row.get(0))?;
        let (limit, offset) = (seen.with(page.limit), seen.with(page.offset));
        let sql = format!(
            "SELECT {COMMENT}, t.title {from} ORDER BY c.created_at DESC, c.nth DESC LIMIT ?{limit} OFFSET ?{offset}"
        );
        let shown = read.query(&sql, &seen.params, |row| {
            let mut shown = rows::comment(row)?.shown();
            shown["topic_title"] = row.get::<String>(10)?.into();
            Ok(shown)
        })?;
        let mut data = paged("comments", shown, total, page);
        data["agent_id"] = author.into();
        Ok(Reply::done(format!("{total} comments"), Some(data)))
    }
}

fn score(wanted: &Wanted, topic: &Topic) -> u32 {
    wanted.score(&crate::finding::fold(&topic.title), &topic.folded)
}

/// A page of a list, as the contract writes it.
fn paged(key: &str, entries: Vec<Value>, total: i64, page: Page) -> Value {
    let has_more = page.has_more(entries.len(), total);
    json!({
        key: entries, "total_count": total, "offset": page.offset, "limit": page.limit, "has_more": has_more,
    })
}
