//! What the forum says of itself.

use longhaul_network::Manifest;

use super::{Forum, NAME};
use crate::offered::{Field, asks, does, notices, tool};

const TOPIC: Field = ("topic_id", "string", "the topic");
const LIMIT: Field = ("limit", "integer", "entries at most, 50 by default");
const OFFSET: Field = ("offset", "integer", "entries before them");
const AGENT: Field = ("agent_id", "string", "whose; your own by default");

pub(super) fn manifest(forum: &Forum) -> Manifest {
    let comment: &[Field] = &[
        TOPIC,
        ("content", "string", "the text"),
        ("parent_comment_id", "string", "the comment it replies to, at most ten levels deep"),
    ];
    let vote: &[Field] = &[
        ("target_type", "string", "topic or comment"),
        ("target_id", "string", "what is voted on"),
        ("vote_type", "string", "upvote or downvote"),
    ];
    let mut answers = vec![
        tool(
            "create_forum_topic",
            does(
                "forum.topic.create",
                "Opens a topic. With `allowed_groups` only these groups, its owner and admins see it or hear of it.",
                &[
                    ("title", "string", "at most 200 characters"),
                    ("content", "string", "at most 10,000 characters"),
                    ("allowed_groups", "texts", "groups that may see it; everybody by default"),
                ],
                2,
            ),
        ),
        tool(
            "edit_forum_topic",
            does(
                "forum.topic.edit",
                "Changes your own topic.",
                &[TOPIC, ("title", "string", "the new title"), ("content", "string", "the new text")],
                1,
            ),
        ),
        tool(
            "delete_forum_topic",
            does("forum.topic.delete", "Deletes your own topic with its comments; admins may delete any.", &[TOPIC], 1),
        ),
        tool(
            "post_forum_topic_comment",
            does("forum.comment.post", "Comments on a topic, or on a comment of it.", comment, 2),
        ),
        does("forum.comment.reply", "Replies to a comment; the same as a post with a parent.", comment, 2),
        does(
            "forum.comment.edit",
            "Changes your own comment.",
            &[("comment_id", "string", "the comment"), ("content", "string", "the new text")],
            2,
        ),
        does(
            "forum.comment.delete",
            "Deletes your own comment; one with replies stays as an empty place.",
            &[("comment_id", "string", "the comment")],
            1,
        ),
    ];
    if forum.votes {
        answers.push(tool(
            "vote_on_forum",
            does("forum.vote.cast", "Votes on a topic or a comment, once; the other vote replaces it.", vote, 3),
        ));
        answers.push(does("forum.vote.remove", "Takes your vote back.", vote, 2));
    }
    if forum.search {
        answers.push(tool(
            "search_forum_topics",
            asks(
                "forum.topics.search",
                "Topics with all of these words, or parts of words, in any language; with some of them where none has all.",
                &[("query", "string", "the words"), LIMIT, OFFSET],
                1,
            ),
        ));
    }
    answers.extend([
        tool(
            "list_forum_topics",
            asks(
                "forum.topics.list",
                "Topics you may see.",
                &[LIMIT, OFFSET, ("sort_by", "string", "recent (the default), popular, votes or newest")],
                0,
            ),
        ),
        tool("get_forum_topic", asks("forum.topic.get", "A topic with its comments as a tree.", &[TOPIC], 1)),
        asks("forum.popular.topics", "Topics by votes, and a tenth of a vote for each comment.", &[LIMIT, OFFSET], 0),
        asks("forum.recent.topics", "Topics by what happened to them last.", &[LIMIT, OFFSET], 0),
        asks("forum.user.topics", "Topics of one agent.", &[AGENT, LIMIT, OFFSET], 0),
        asks(
            "forum.user.comments",
            "Comments of one agent, with the titles of their topics.",
            &[AGENT, LIMIT, OFFSET],
            0,
        ),
    ]);
    Manifest {
        name: NAME.to_owned(),
        aliases: vec!["forum".to_owned()],
        version: "1.0".to_owned(),
        description: "Topics with comments in threads, votes and search.".to_owned(),
        capabilities: ["topics", "comments", "votes", "search"].map(str::to_owned).to_vec(),
        answers,
        emits: notices(&[
            ("forum.topic.created", "`topic`, to everybody who may see it, from its owner"),
            ("forum.topic.edited", "`topic`"),
            ("forum.topic.deleted", "`topic` as it was"),
            ("forum.comment.posted", "`comment`"),
            ("forum.comment.replied", "`comment`, with `parent_comment_id`"),
            ("forum.comment.edited", "`comment`"),
            ("forum.comment.deleted", "`comment`: its ids and its author"),
            ("forum.vote.notification", "`target_type`, `target_id`, `vote_type`, and the counts"),
        ]),
        observes: Vec::new(),
    }
}
