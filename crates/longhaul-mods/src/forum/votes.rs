//! Votes on topics and comments. Invariant: counts are what the votes' rows add up to.

use longhaul_network::{Refusal, Reply, Stage};
use longhaul_store::values;
use serde_json::{Value, json};

use super::{
    Call,
    rows::{Comment, Topic},
};
use crate::{acting::no, shape::REFERENCE_BYTES_MAX};

/// What is voted on.
struct Target {
    kind: &'static str,
    id: String,
    topic: Topic,
}

impl Call<'_, '_> {
    pub(super) fn vote(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        self.fields.text("vote_type", 20)?;
        let vote = if self.fields.word("vote_type", &["upvote", "downvote"])? == "upvote" { 1_i64 } else { -1 };
        let target = match self.target(stage)? {
            Ok(target) => target,
            Err(refused) => return Ok(refused),
        };
        let now = stage.now();
        let before = self.vote_on(stage, &target)?;
        if before == Some(vote) {
            return Ok(no("ALREADY_VOTED", format!("you have voted so on this {} already", target.kind)));
        }
        stage.tx().execute(
            "INSERT INTO forum_votes (tenant_id, network_id, target_id, voter_id, topic_id, vote, voted_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (tenant_id, network_id, target_id, voter_id) DO UPDATE SET vote = ?6, voted_at = ?7",
            &values![&self.here.tenant, &self.here.network, &target.id, &self.actor.id, &target.topic.id, vote, now],
        )?;
        let (up, down) = self.add(stage, &target, before, Some(vote))?;
        let shown = self.counted(&target, Some(vote), up, down);
        self.tell(stage, "forum.vote.notification", &target.topic, "", shown.clone())?;
        Ok(Reply::done("vote cast", Some(shown)))
    }

    pub(super) fn unvote(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let target = match self.target(stage)? {
            Ok(target) => target,
            Err(refused) => return Ok(refused),
        };
        let Some(before) = self.vote_on(stage, &target)? else {
            return Ok(no("NOT_VOTED", format!("you have not voted on this {}", target.kind)));
        };
        stage.tx().execute(
            "DELETE FROM forum_votes
             WHERE tenant_id = ?1 AND network_id = ?2 AND target_id = ?3 AND voter_id = ?4",
            &values![&self.here.tenant, &self.here.network, &target.id, &self.actor.id],
        )?;
        let (up, down) = self.add(stage, &target, Some(before), None)?;
        let shown = self.counted(&target, None, up, down);
        self.tell(stage, "forum.vote.notification", &target.topic, "", shown.clone())?;
        Ok(Reply::done("vote removed", Some(shown)))
    }

    fn target(&self, stage: &Stage<'_, '_>) -> Result<Result<Target, Reply>, Refusal> {
        if !self.forum.votes {
            return Ok(Err(no("VOTING_OFF", "this forum takes no votes")));
        }
        let id = self.fields.text("target_id", REFERENCE_BYTES_MAX)?.to_owned();
        self.fields.text("target_type", 20)?;
        let kind = self.fields.word("target_type", &["topic", "comment"])?;
        let topic_id = if kind == "topic" {
            id.clone()
        } else {
            match Comment::find(&stage.rows(), &self.here, &id)?.filter(|comment| !comment.is_removed) {
                Some(comment) => comment.topic,
                None => return Ok(Err(no("COMMENT_NOT_FOUND", "there is no such comment"))),
            }
        };
        Ok(self.visible(stage, &topic_id)?.map(|topic| Target { kind, id, topic }))
    }

    fn vote_on(&self, stage: &Stage<'_, '_>, target: &Target) -> Result<Option<i64>, Refusal> {
        let sql = "SELECT vote FROM forum_votes
                   WHERE tenant_id = ?1 AND network_id = ?2 AND target_id = ?3 AND voter_id = ?4";
        let key = values![&self.here.tenant, &self.here.network, &target.id, &self.actor.id];
        Ok(stage.rows().query_optional(sql, &key, |row| row.get(0))?)
    }

    /// Brings the counts up to date; what they are now.
    fn add(
        &self,
        stage: &mut Stage<'_, '_>,
        target: &Target,
        before: Option<i64>,
        after: Option<i64>,
    ) -> Result<(i64, i64), Refusal> {
        let change = |sign: i64| i64::from(after == Some(sign)) - i64::from(before == Some(sign));
        let (up, down) = (change(1), change(-1));
        let sql = if target.kind == "topic" {
            "UPDATE forum_topics SET upvotes = upvotes + ?4, downvotes = downvotes + ?5, score = score + ?4 - ?5
             WHERE tenant_id = ?1 AND network_id = ?2 AND topic_id = ?3 RETURNING upvotes, downvotes"
        } else {
            "UPDATE forum_comments SET upvotes = upvotes + ?4, downvotes = downvotes + ?5
             WHERE tenant_id = ?1 AND network_id = ?2 AND comment_id = ?3 RETURNING upvotes, downvotes"
        };
        let params = values![&self.here.tenant, &self.here.network, &target.id, up, down];
        Ok(stage.tx().query_one(sql, &params, |row| Ok((row.get(0)?, row.get(1)?)))?)
    }

    fn counted(&self, target: &Target, vote: Option<i64>, up: i64, down: i64) -> Value {
        let word = vote.map(|vote| if vote > 0 { "upvote" } else { "downvote" });
        json!({
            "target_type": target.kind, "target_id": target.id, "topic_id": target.topic.id, "vote_type": word,
            "upvotes": up, "downvotes": down, "vote_score": up - down,
        })
    }
}
