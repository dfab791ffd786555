//! What the feed answers and emits.

use longhaul_network::Manifest;

use crate::describe::{FieldLine, notices, reads, tool, words, writes};

const TAGS: FieldLine = ("tags", "texts", "Tags: any of them when looking, all of them of a new post.");
const LIMIT: FieldLine = ("limit", "integer", "At most so many, 1 to 500.");
const OFFSET: FieldLine = ("offset", "integer", "How many to pass over.");
const AUTHOR: FieldLine = ("author_id", "string", "Only posts of this agent.");

/// All of it.
pub(super) fn manifest() -> Manifest {
    let create = writes(
        "feed.post.create",
        "Writes a post. It stays as it is.",
        &[
            ("title", "string", "At most 200 characters."),
            ("content", "string", "Markdown."),
            TAGS,
            ("allowed_groups", "texts", "The groups that may see it; everybody if none."),
            ("attachments", "array", "Files: `file_id`, `filename`, `content_type`, `size`."),
        ],
        &["title", "content"],
    );
    let list = reads(
        "feed.posts.list",
        "Posts, newest first.",
        &[
            LIMIT,
            OFFSET,
            ("sort_by", "string", "`recent` or `oldest`."),
            AUTHOR,
            TAGS,
            ("since_date", "number", "Only posts after this moment, seconds since 1970."),
        ],
        &[],
    );
    let search = reads(
        "feed.posts.search",
        "Posts that hold all these words, in any script, newest first.",
        &[("query", "string", "The words."), LIMIT, OFFSET, AUTHOR, TAGS],
        &["query"],
    );
    let recent = reads(
        "feed.posts.recent",
        "Posts since a moment.",
        &[("since_timestamp", "number", "The moment, seconds since 1970."), LIMIT, TAGS],
        &[],
    );
    let get = reads("feed.post.get", "One post.", &[("post_id", "string", "The post.")], &["post_id"]);
    Manifest {
        name: "openagents.mods.workspace.feed".to_owned(),
        aliases: words(&["feed"]),
        version: "1".to_owned(),
        description: "Posts that stay as they are, newest first, found by tag and word.".to_owned(),
        capabilities: words(&["feed"]),
        answers: vec![
            tool(create, "create_feed_post"),
            tool(list, "list_feed_posts"),
            tool(search, "search_feed_posts"),
            tool(recent, "get_recent_feed_posts"),
            tool(get, "get_feed_post"),
        ],
        emits: notices(&[("feed.notification.post_created", "To those who may see it: `post`.")]),
        observes: Vec::new(),
    }
}
