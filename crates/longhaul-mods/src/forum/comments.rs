//! Comments and replies: writing, changing, removing.

use longhaul_network::{Refusal, Reply, Stage};
use longhaul_store::values;
use serde_json::json;

use super::{
    Call,
    rows::{Comment, Topic},
};
use crate::{acting::no, shape::REFERENCE_BYTES_MAX};

impl Call<'_, '_> {
    /// A comment on a topic, or on another comment of it.
    pub(super) fn comment(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let content = self.fields.text("content", self.forum.comment_max)?.trim();
        let topic = match self.visible_topic(stage)? {
            Ok(topic) => topic,
            Err(refused) => return Ok(refused),
        };
        let parent = match self.fields.optional_text("parent_comment_id", REFERENCE_BYTES_MAX)? {
            None | Some("") => None,
            Some(id) => match self.comment_of(stage, &topic, id)? {
                Some(parent) => Some(parent),
                None => return Ok(no("COMMENT_NOT_FOUND", "the topic has no such comment to reply to")),
            },
        };
        let level = parent.as_ref().map_or(1, |parent| parent.level + 1);
        if level > self.forum.depth_max {
            let said = format!("replies go {} levels deep at most: reply to a comment above", self.forum.depth_max);
            return Ok(no("TOO_DEEP", said));
        }
        if topic.comments >= self.forum.comments_max {
            let said = format!("the topic has {} comments and takes no more: open another one", topic.comments);
            return Ok(no("TOO_MANY_COMMENTS", said));
        }
        let (here, now, id) = (&self.here, stage.now(), stage.new_id());
        let parent_id = parent.as_ref().map(|parent| parent.id.clone());
        stage.tx().execute(
            "INSERT INTO forum_comments (tenant_id, network_id, comment_id, topic_id, nth, parent_comment_id,
                 thread_level, author_id, content, created_at, is_removed, upvotes, downvotes)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0, 0, 0)",
            &values![
                &here.tenant,
                &here.network,
                &id,
                &topic.id,
                topic.comments_made + 1,
                parent_id,
                level,
                &self.actor.id,
                content,
                now
            ],
        )?;
        stage.tx().execute(
            "UPDATE forum_topics SET comment_count = comment_count + 1, comments_made = comments_made + 1,
                 last_activity = ?4 WHERE tenant_id = ?1 AND network_id = ?2 AND topic_id = ?3",
            &values![&here.tenant, &here.network, &topic.id, now],
        )?;
        let shown = self.written(stage, &id)?.shown();
        let name = if parent.is_some() { "forum.comment.replied" } else { "forum.comment.posted" };
        self.tell(stage, name, &topic, "comment", shown.clone())?;
        Ok(Reply::done("comment posted", Some(shown)))
    }

    pub(super) fn edit_comment(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let content = self.fields.text("content", self.forum.comment_max)?.trim();
        let (topic, comment) = match self.own_comment(stage, false)? {
            Ok(found) => found,
            Err(refused) => return Ok(refused),
        };
        let (here, now) = (&self.here, stage.now());
        stage.tx().execute(
            "UPDATE forum_comments SET content = ?4, edited_at = ?5
             WHERE tenant_id = ?1 AND network_id = ?2 AND comment_id = ?3",
            &values![&here.tenant, &here.network, &comment.id, content, now],
        )?;
        let shown = self.written(stage, &comment.id)?.shown();
        self.tell(stage, "forum.comment.edited", &topic, "comment", shown.clone())?;
        Ok(Reply::done("comment updated", Some(shown)))
    }

    /// Removes a comment. One that others replied to stays as an empty place, so that nobody's words go with it.
    pub(super) fn delete_comment(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let (topic, comment) = match self.own_comment(stage, true)? {
            Ok(found) => found,
            Err(refused) => return Ok(refused),
        };
        let here = &self.here;
        let key = values![&here.tenant, &here.network, &comment.id];
        let replies: i64 = stage.rows().query_one(
            "SELECT count(*) FROM forum_comments
             WHERE tenant_id = ?1 AND network_id = ?2 AND parent_comment_id = ?3",
            &key,
            |row| row.get(0),
        )?;
        let sql = if replies > 0 {
            "UPDATE forum_comments SET content = '', is_removed = 1, upvotes = 0, downvotes = 0
             WHERE tenant_id = ?1 AND network_id = ?2 AND comment_id = ?3"
        } else {
            "DELETE FROM forum_comments WHERE tenant_id = ?1 AND network_id = ?2 AND comment_id = ?3"
        };
        stage.tx().execute(sql, &key)?;
        stage
            .tx()
            .execute("DELETE FROM forum_votes WHERE tenant_id = ?1 AND network_id = ?2 AND target_id = ?3", &key)?;
        stage.tx().execute(
            "UPDATE forum_topics SET comment_count = comment_count - 1
             WHERE tenant_id = ?1 AND network_id = ?2 AND topic_id = ?3",
            &values![&here.tenant, &here.network, &topic.id],
        )?;
        let gone = json!({
            "comment_id": comment.id, "topic_id": topic.id, "author_id": comment.author, "has_replies": replies > 0,
        });
        self.tell(stage, "forum.comment.deleted", &topic, "comment", gone.clone())?;
        Ok(Reply::done("comment deleted", Some(gone)))
    }

    /// The comment of this id, if it is one of the topic and still there.
    fn comment_of(&self, stage: &Stage<'_, '_>, topic: &Topic, id: &str) -> Result<Option<Comment>, Refusal> {
        let found = Comment::find(&stage.rows(), &self.here, id)?;
        Ok(found.filter(|comment| comment.topic == topic.id && !comment.is_removed))
    }

    /// The comment that the payload names with its topic, if it is the actor's (or the actor an admin, where that is
    /// enough); else what to answer.
    fn own_comment(&self, stage: &Stage<'_, '_>, admins_may: bool) -> Result<Result<(Topic, Comment), Reply>, Refusal> {
        let id = self.fields.text("comment_id", REFERENCE_BYTES_MAX)?;
        let found = Comment::find(&stage.rows(), &self.here, id)?.filter(|comment| !comment.is_removed);
        let Some(comment) = found else {
            return Ok(Err(no("COMMENT_NOT_FOUND", "there is no such comment")));
        };
        let topic = match self.visible(stage, &comment.topic)? {
            Ok(topic) => topic,
            Err(refused) => return Ok(Err(refused)),
        };
        if comment.author != self.actor.id && !(admins_may && self.actor.is_admin) {
            return Ok(Err(no("NOT_OWNER", "only the comment's author may change it")));
        }
        Ok(Ok((topic, comment)))
    }

    fn written(&self, stage: &Stage<'_, '_>, id: &str) -> Result<Comment, Refusal> {
        Comment::find(&stage.rows(), &self.here, id)?.ok_or_else(|| Refusal::missing("comment", id))
    }
}
