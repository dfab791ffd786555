//! The mod of the forum: topics, comments in threads, votes, search.
//!
//! It owns the rows of `forum_*`. It does not own who may call (the network's) nor what is remembered of a topic (shared
//! memory's). Invariants: a topic for some groups is seen, commented, voted on and heard of by these groups, its owner and
//! admins alone; a voter has one vote for each thing, and the counts are the sum of the votes.

mod comments;
mod manifest;
mod queries;
mod rows;
mod topics;
mod votes;

use std::sync::Arc;

use longhaul_network::{Event, Manifest, Mod, Outcome, Prepared, Refusal, Reply, Stage};
use serde_json::{Map, Value};

use crate::{
    Parts,
    acting::{Actor, Here, limit_of},
    shape::Fields,
};

pub(crate) const NAME: &str = "openagents.mods.workspace.forum";

/// Makes it from its `config`.
pub(crate) fn make(config: &Map<String, Value>, _parts: &Parts) -> Result<Arc<dyn Mod>, Refusal> {
    let flag = |key: &str| config.get(key).and_then(Value::as_bool).unwrap_or(true);
    Ok(Arc::new(Forum {
        topics_max: limit_of(config, "max_topics_per_agent", 1_000),
        comments_max: limit_of(config, "max_comments_per_topic", 1_000),
        depth_max: limit_of(config, "max_comment_depth", 10).min(10),
        title_max: bytes(limit_of(config, "max_topic_title_length", 200)),
        content_max: bytes(limit_of(config, "max_topic_content_length", 10_000)),
        comment_max: bytes(limit_of(config, "max_comment_length", 5_000)),
        results_max: limit_of(config, "search_results_limit", 200),
        votes: flag("enable_voting"),
        search: flag("enable_search"),
    }))
}

/// A length in characters, as bytes: the contract's limits count characters.
fn bytes(chars: i64) -> usize {
    usize::try_from(chars).unwrap_or(usize::MAX).saturating_mul(4)
}

/// The forum of a network.
#[derive(Debug)]
struct Forum {
    topics_max: i64,
    comments_max: i64,
    depth_max: i64,
    title_max: usize,
    content_max: usize,
    comment_max: usize,
    results_max: i64,
    votes: bool,
    search: bool,
}

/// One event that is being answered.
struct Call<'a, 'e> {
    forum: &'a Forum,
    here: Here,
    actor: Actor,
    fields: Fields<'e>,
}

impl Mod for Forum {
    fn manifest(&self) -> Manifest {
        manifest::manifest(self)
    }

    fn apply(&self, stage: &mut Stage<'_, '_>, event: &Event, _prepared: Prepared) -> Result<Outcome, Refusal> {
        let call =
            Call { forum: self, here: Here::of(stage), actor: Actor::of(stage, event), fields: Fields::of(event) };
        let reply: Reply = match event.name.as_str() {
            "forum.topic.create" => call.create(stage)?,
            "forum.topic.edit" => call.edit(stage)?,
            "forum.topic.delete" => call.delete(stage)?,
            "forum.comment.post" | "forum.comment.reply" => call.comment(stage)?,
            "forum.comment.edit" => call.edit_comment(stage)?,
            "forum.comment.delete" => call.delete_comment(stage)?,
            "forum.vote.cast" => call.vote(stage)?,
            "forum.vote.remove" => call.unvote(stage)?,
            "forum.topics.list" => call.list(stage)?,
            "forum.popular.topics" => call.ranked(stage, queries::Order::Popular)?,
            "forum.recent.topics" => call.ranked(stage, queries::Order::Recent)?,
            "forum.topics.search" => call.search(stage)?,
            "forum.user.topics" => call.topics_of(stage)?,
            "forum.user.comments" => call.comments_of(stage)?,
            "forum.topic.get" => call.get(stage)?,
            _ => return Ok(Outcome::Pass),
        };
        Ok(Outcome::Answer(reply))
    }
}
