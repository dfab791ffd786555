//! The rows of the forum, and what clients see of them.

use longhaul_core::TimeMs;
use longhaul_store::{ReadTx, Row, StoreError, Value as Param, values};
use serde_json::{Value, json};

use crate::acting::{Actor, Here, seconds};

/// A topic, without the text it is searched by.
#[derive(Debug, Clone)]
pub(super) struct Topic {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) content: String,
    pub(super) owner: String,
    /// The groups that may see it; nothing for everybody.
    pub(super) groups: Option<Vec<String>>,
    pub(super) created_at: TimeMs,
    pub(super) last_activity: TimeMs,
    pub(super) upvotes: i64,
    pub(super) downvotes: i64,
    pub(super) comments: i64,
    pub(super) comments_made: i64,
    pub(super) folded: String,
}

const TOPIC: &str = "t.topic_id, t.title, t.content, t.owner_id, t.allowed_groups, t.created_at, t.last_activity,
    t.upvotes, t.downvotes, t.comment_count, t.comments_made, t.folded";

fn topic(row: &Row<'_>) -> Result<Topic, StoreError> {
    let groups: Option<String> = row.get(4)?;
    Ok(Topic {
        id: row.get(0)?,
        title: row.get(1)?,
        content: row.get(2)?,
        owner: row.get(3)?,
        // Written by this crate as a list of texts.
        groups: groups.map(|list| serde_json::from_str(&list).unwrap_or_default()),
        created_at: row.get(5)?,
        last_activity: row.get(6)?,
        upvotes: row.get(7)?,
        downvotes: row.get(8)?,
        comments: row.get(9)?,
        comments_made: row.get(10)?,
        folded: row.get(11)?,
    })
}

impl Topic {
    pub(super) fn find(read: &ReadTx<'_>, here: &Here, id: &str) -> Result<Option<Self>, StoreError> {
        let sql =
            format!("SELECT {TOPIC} FROM forum_topics t WHERE tenant_id = ?1 AND network_id = ?2 AND topic_id = ?3");
        read.query_optional(&sql, &values![&here.tenant, &here.network, id], topic)
    }

    /// Those that the actor may see and for which `condition` holds; its parameters begin at the number it was given.
    pub(super) fn select(
        read: &ReadTx<'_>,
        seen: &Seen,
        condition: &str,
        order_and_page: &str,
    ) -> Result<Vec<Self>, StoreError> {
        let sql = format!("SELECT {TOPIC} FROM forum_topics t WHERE {} {condition} {order_and_page}", seen.sql);
        read.query(&sql, &seen.params, topic)
    }

    pub(super) fn count(read: &ReadTx<'_>, seen: &Seen, condition: &str) -> Result<i64, StoreError> {
        let sql = format!("SELECT count(*) FROM forum_topics t WHERE {} {condition}", seen.sql);
        read.query_one(&sql, &seen.params, |row| row.get(0))
    }

    pub(super) fn may_be_seen_by(&self, actor: &Actor) -> bool {
        let Some(groups) = &self.groups else { return true };
        actor.is_admin || self.owner == actor.id || groups.contains(&actor.group)
    }

    pub(super) fn shown(&self) -> Value {
        json!({
            "topic_id": self.id, "title": self.title, "content": self.content, "owner_id": self.owner,
            "allowed_groups": self.groups, "timestamp": seconds(self.created_at), "upvotes": self.upvotes,
            "downvotes": self.downvotes, "vote_score": self.upvotes - self.downvotes,
            "comment_count": self.comments, "last_activity": seconds(self.last_activity),
        })
    }
}

/// Which topics the actor may see, as the beginning of a condition with its parameters.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) sql: String,
    pub(super) params: Vec<Param>,
}

impl Seen {
    pub(super) fn by(here: &Here, actor: &Actor) -> Self {
        let mut sql = "t.tenant_id = ?1 AND t.network_id = ?2".to_owned();
        let mut params = values![&here.tenant, &here.network].to_vec();
        if !actor.is_admin {
            sql.push_str(
                " AND (t.allowed_groups IS NULL OR t.owner_id = ?3 OR EXISTS (SELECT 1 FROM forum_audience a
                    WHERE a.tenant_id = ?1 AND a.network_id = ?2 AND a.topic_id = t.topic_id AND a.group_name = ?4))",
            );
            params.extend(values![&actor.id, &actor.group]);
        }
        Self { sql, params }
    }

    /// Adds a parameter; its number.
    pub(super) fn with(&mut self, param: impl Into<Param>) -> usize {
        self.params.push(param.into());
        self.params.len()
    }
}

/// A comment.
#[derive(Debug, Clone)]
pub(super) struct Comment {
    pub(super) id: String,
    pub(super) topic: String,
    pub(super) parent: Option<String>,
    pub(super) level: i64,
    pub(super) author: String,
    pub(super) content: String,
    pub(super) created_at: TimeMs,
    pub(super) is_removed: bool,
    pub(super) upvotes: i64,
    pub(super) downvotes: i64,
}

pub(super) const COMMENT: &str =
    "c.comment_id, c.topic_id, c.parent_comment_id, c.thread_level, c.author_id, c.content,
    c.created_at, c.is_removed, c.upvotes, c.downvotes";

pub(super) fn comment(row: &Row<'_>) -> Result<Comment, StoreError> {
    Ok(Comment {
        id: row.get(0)?,
        topic: row.get(1)?,
        parent: row.get(2)?,
        level: row.get(3)?,
        author: row.get(4)?,
        content: row.get(5)?,
        created_at: row.get(6)?,
        is_removed: row.get(7)?,
        upvotes: row.get(8)?,
        downvotes: row.get(9)?,
    })
}

impl Comment {
    pub(super) fn find(read: &ReadTx<'_>, here: &Here, id: &str) -> Result<Option<Self>, StoreError> {
        let sql = format!(
            "SELECT {COMMENT} FROM forum_comments c WHERE tenant_id = ?1 AND network_id = ?2 AND comment_id = ?3"
        );
        read.query_optional(&sql, &values![&here.tenant, &here.network, id], comment)
    }

    /// All of a topic, in the order in which they were written.
    pub(super) fn of_topic(read: &ReadTx<'_>, here: &Here, topic: &str) -> Result<Vec<Self>, StoreError> {
        let sql = format!(
            "SELECT {COMMENT} FROM forum_comments c WHERE tenant_id = ?1 AND network_id = ?2 AND topic_id = ?3
             ORDER BY nth"
        );
        read.query(&sql, &values![&here.tenant, &here.network, topic], comment)
    }

    pub(super) fn shown(&self) -> Value {
        json!({
            "comment_id": self.id, "topic_id": self.topic, "content": self.content, "author_id": self.author,
            "timestamp": seconds(self.created_at), "parent_comment_id": self.parent, "thread_level": self.level,
            "upvotes": self.upvotes, "downvotes": self.downvotes, "vote_score": self.upvotes - self.downvotes,
            "is_removed": self.is_removed,
        })
    }
}

/// Comments as a tree: each with its `replies`, all in the order in which they were written.
pub(super) fn tree(comments: &[Comment]) -> Vec<Value> {
    // Bottom up, the last first: replies are always written after what they answer.
    let mut waiting: std::collections::HashMap<&str, Vec<Value>> = std::collections::HashMap::new();
    let mut roots = Vec::new();
    for comment in comments.iter().rev() {
        let mut replies = waiting.remove(comment.id.as_str()).unwrap_or_default();
        replies.reverse();
        let mut shown = comment.shown();
        shown["replies"] = Value::Array(replies);
        match comment.parent.as_deref() {
            Some(parent) => waiting.entry(parent).or_default().push(shown),
            None => roots.push(shown),
        }
    }
    roots.reverse();
    roots
}
