//! Making, changing and removing topics; who hears of it.

use longhaul_network::{Address, Refusal, Reply, Stage};
use longhaul_store::values;
use serde_json::{Map, Value, json};

use super::{
    Call,
    rows::{Seen, Topic},
};
use crate::{
    acting::{no, seconds},
    finding::fold,
    shape::REFERENCE_BYTES_MAX,
};

/// Groups that one topic may be for.
const GROUPS_MAX: usize = 32;

impl Call<'_, '_> {
    pub(super) fn create(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let title = self.fields.text("title", self.forum.title_max)?.trim();
        let content = self.fields.text("content", self.forum.content_max)?.trim();
        let groups = self.fields.texts("allowed_groups", GROUPS_MAX)?.filter(|groups| !groups.is_empty());
        let (here, now, id) = (&self.here, stage.now(), stage.new_id());
        let own = "SELECT count(*) FROM forum_topics WHERE tenant_id = ?1 AND network_id = ?2 AND owner_id = ?3";
        let owned: i64 =
            stage.rows().query_one(own, &values![&here.tenant, &here.network, &self.actor.id], |row| row.get(0))?;
        if owned >= self.forum.topics_max {
            let said = format!("you have {owned} topics, and may have no more: delete one first");
            return Ok(no("TOO_MANY_TOPICS", said));
        }
        let folded = fold(&format!("{title} {content}"));
        let stored_groups = groups.as_ref().map(|groups| json!(groups).to_string());
        stage.tx().execute(
            "INSERT INTO forum_topics (tenant_id, network_id, topic_id, title, content, folded, owner_id,
                 allowed_groups, created_at, last_activity, upvotes, downvotes, score, comment_count, comments_made)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, 0, 0, 0, 0, 0)",
            &values![&here.tenant, &here.network, &id, title, content, folded, &self.actor.id, stored_groups, now],
        )?;
        for group in groups.iter().flatten() {
            stage.tx().execute(
                "INSERT INTO forum_audience (tenant_id, network_id, topic_id, group_name) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO NOTHING",
                &values![&here.tenant, &here.network, &id, group],
            )?;
        }
        let topic = self.topic(stage, &id)?;
        self.tell(stage, "forum.topic.created", &topic, "topic", topic.shown())?;
        let data = json!({"topic_id": id, "title": title, "timestamp": seconds(now)});
        Ok(Reply::done("topic created", Some(data)))
    }

    pub(super) fn edit(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let topic = match self.visible_topic(stage)? {
            Ok(topic) => topic,
            Err(refused) => return Ok(refused),
        };
        if topic.owner != self.actor.id {
            return Ok(no("NOT_OWNER", "only the topic's owner may edit it"));
        }
        let kept = |given: Option<&str>, old: &str| match given.map(str::trim) {
            Some(given) if !given.is_empty() => given.to_owned(),
            _ => old.to_owned(),
        };
        let title = kept(self.fields.optional_text("title", self.forum.title_max)?, &topic.title);
        let content = kept(self.fields.optional_text("content", self.forum.content_max)?, &topic.content);
        let (here, now) = (&self.here, stage.now());
        stage.tx().execute(
            "UPDATE forum_topics SET title = ?4, content = ?5, folded = ?6, edited_at = ?7, last_activity = ?7
             WHERE tenant_id = ?1 AND network_id = ?2 AND topic_id = ?3",
            &values![
                &here.tenant,
                &here.network,
                &topic.id,
                &title,
                &content,
                fold(&format!("{title} {content}")),
                now
            ],
        )?;
        let topic = self.topic(stage, &topic.id)?;
        self.tell(stage, "forum.topic.edited", &topic, "topic", topic.shown())?;
        Ok(Reply::done("topic updated", Some(topic.shown())))
    }

    pub(super) fn delete(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let topic = match self.visible_topic(stage)? {
            Ok(topic) => topic,
            Err(refused) => return Ok(refused),
        };
        if topic.owner != self.actor.id && !self.actor.is_admin {
            return Ok(no("NOT_OWNER", "only the topic's owner, or an admin, may delete it"));
        }
        for table in ["forum_votes", "forum_comments", "forum_audience", "forum_topics"] {
            let sql = format!("DELETE FROM {table} WHERE tenant_id = ?1 AND network_id = ?2 AND topic_id = ?3");
            stage.tx().execute(&sql, &values![&self.here.tenant, &self.here.network, &topic.id])?;
        }
        self.tell(stage, "forum.topic.deleted", &topic, "topic", topic.shown())?;
        Ok(Reply::done("topic deleted", Some(topic.shown())))
    }

    /// The topic that the payload names, if there is one that the actor may see; else what to answer.
    pub(super) fn visible_topic(&self, stage: &Stage<'_, '_>) -> Result<Result<Topic, Reply>, Refusal> {
        let id = self.fields.text("topic_id", REFERENCE_BYTES_MAX)?;
        self.visible(stage, id)
    }

    /// The same for an id that is known already.
    pub(super) fn visible(&self, stage: &Stage<'_, '_>, id: &str) -> Result<Result<Topic, Reply>, Refusal> {
        let Some(topic) = Topic::find(&stage.rows(), &self.here, id)? else {
            return Ok(Err(no("TOPIC_NOT_FOUND", "there is no such topic: list topics for their ids")));
        };
        if topic.may_be_seen_by(&self.actor) {
            return Ok(Ok(topic));
        }
        let said = "the topic is for other groups than yours";
        Ok(Err(no("PERMISSION_DENIED_NOT_IN_ALLOWED_GROUPS", said)))
    }

    /// A topic that was just written.
    pub(super) fn topic(&self, stage: &Stage<'_, '_>, id: &str) -> Result<Topic, Refusal> {
        Topic::find(&stage.rows(), &self.here, id)?.ok_or_else(|| Refusal::missing("topic", id))
    }

    pub(super) fn seen(&self) -> Seen {
        Seen::by(&self.here, &self.actor)
    }

    /// Tells everybody who may see the topic, as the actor.
    pub(super) fn tell(
        &self,
        stage: &mut Stage<'_, '_>,
        name: &str,
        topic: &Topic,
        key: &str,
        what: Value,
    ) -> Result<(), Refusal> {
        let payload: Map<String, Value> = match (key, what) {
            ("", Value::Object(fields)) => fields,
            (key, what) => Map::from_iter([(key.to_owned(), what)]),
        };
        let Some(groups) = &topic.groups else {
            stage.emit(self.actor.sender.clone(), name, Address::Everybody, payload)?;
            return Ok(());
        };
        for group in groups {
            let to = Address::Group(group.clone());
            match stage.emit(self.actor.sender.clone(), name, to, payload.clone()) {
                // A group that does not exist has nobody who would hear it.
                Err(refusal) if refusal.kind == longhaul_network::RefusalKind::Missing => {}
                emitted => drop(emitted?),
            }
        }
        Ok(())
    }
}
