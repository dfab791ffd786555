//! The feed: posts that stay as they are, newest first, for everybody or for groups, found by tag and word.
//!
//! Invariant: a post is never changed; whoever may not see it is answered as if there were none.

mod manifest;
mod rows;

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_network::{Event, Manifest, Mod, Outcome, Prepared, Refusal, RefusalKind, Reply, Sender, Stage};
use serde_json::{Map, Value, json};

use self::rows::{Choice, Post};
use crate::{
    Parts,
    acting::{Actor, seconds},
    audience,
    finding::Wanted,
    place::asker,
    shape::{Fields, Page, REFERENCE_BYTES_MAX, config_number, wrong},
};

/// Characters of a title.
const TITLE_CHARS_MAX: usize = 200;
/// Tags of a post.
const TAGS_MAX: usize = 20;
/// Attachments of a post.
const ATTACHMENTS_MAX: usize = 20;
/// Posts of one page.
const PAGE_MAX: i64 = 500;
/// Longest text that is searched for, bytes.
const QUERY_BYTES_MAX: usize = 1_000;

/// The mod.
#[derive(Debug)]
pub(crate) struct Feed {
    content_bytes_max: usize,
    posts_max: i64,
}

/// Makes it from its `config`.
pub(crate) fn make(config: &Map<String, Value>, _parts: &Parts) -> Result<Arc<dyn Mod>, Refusal> {
    let posts = config_number(config, "max_posts_per_agent", 10_000)?;
    Ok(Arc::new(Feed {
        content_bytes_max: config_number(config, "max_post_content_length", 100_000)?,
        posts_max: i64::try_from(posts).unwrap_or(i64::MAX),
    }))
}

#[async_trait]
impl Mod for Feed {
    fn manifest(&self) -> Manifest {
        manifest::manifest()
    }

    fn apply(&self, stage: &mut Stage<'_, '_>, event: &Event, _prepared: Prepared) -> Result<Outcome, Refusal> {
        if !matches!(event.from, Sender::Agent(_)) {
            return Ok(Outcome::Pass);
        }
        let reply = match event.name.as_str() {
            "feed.post.create" => self.create(stage, event)?,
            "feed.posts.list" => list(stage, event, false)?,
            "feed.posts.search" => list(stage, event, true)?,
            "feed.posts.recent" => recent(stage, event)?,
            "feed.post.get" => get(stage, event)?,
            _ => return Ok(Outcome::Pass),
        };
        Ok(Outcome::Answer(reply))
    }
}

impl Feed {
    fn create(&self, stage: &mut Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
        let (fields, author) = (Fields::of(event), asker(event)?);
        let title = fields.text("title", TITLE_CHARS_MAX * 4)?.trim();
        if title.chars().count() > TITLE_CHARS_MAX {
            return Err(wrong("title", &format!("is longer than {TITLE_CHARS_MAX} characters")));
        }
        let content = fields.text("content", self.content_bytes_max)?.trim();
        if rows::count_of(stage, author.as_str())? >= self.posts_max {
            let why = format!("you have written {} posts, which is all you may", self.posts_max);
            return Err(Refusal::new(RefusalKind::TooMany, why));
        }
        let post = Post {
            id: stage.new_id(),
            author: author.to_string(),
            title: title.to_owned(),
            content: content.to_owned(),
            tags: tags(&fields)?,
            groups: audience::named(&fields, "allowed_groups")?,
            attachments: attachments(&fields)?,
            created_at: stage.now().0,
        };
        rows::insert(stage, &post)?;
        let payload = Map::from_iter([("post".to_owned(), post.shown())]);
        audience::tell(stage, event, "feed.notification.post_created", &post.groups, payload)?;
        let data = json!({
            "post_id": post.id,
            "title": post.title,
            "created_at": seconds(longhaul_core::TimeMs(post.created_at)),
            "tags": post.tags,
        });
        Ok(Reply::done("the post was made", Some(data)))
    }
}

/// The tags a payload names, in lower case, each once.
fn tags(fields: &Fields<'_>) -> Result<Vec<String>, Refusal> {
    let named = fields.texts("tags", TAGS_MAX)?.unwrap_or_default();
    let mut tags: Vec<String> =
        named.iter().map(|tag| tag.trim().to_lowercase()).filter(|tag| !tag.is_empty()).collect();
    tags.sort();
    tags.dedup();
    Ok(tags)
}

/// References to files: what is said of them is shown, what may be had is the file's own affair.
fn attachments(fields: &Fields<'_>) -> Result<Value, Refusal> {
    let given = match fields.value("attachments") {
        None => return Ok(json!([])),
        Some(Value::Array(given)) if given.len() <= ATTACHMENTS_MAX => given,
        Some(_) => return Err(wrong("attachments", &format!("is no list of at most {ATTACHMENTS_MAX} files"))),
    };
    let one = |given: &Value| {
        let text = |name: &str| given.get(name).and_then(Value::as_str).filter(|text| text.len() <= 1_000);
        let id = text("file_id").ok_or_else(|| wrong("attachments", "holds one without a file_id"))?;
        Ok(json!({
            "file_id": id,
            "filename": text("filename").unwrap_or("unknown"),
            "content_type": text("content_type").unwrap_or("application/octet-stream"),
            "size": given.get("size").and_then(Value::as_i64).unwrap_or(0),
        }))
    };
    given.iter().map(one).collect::<Result<Vec<_>, Refusal>>().map(Value::from)
}

/// What a payload chooses, for whoever asks.
fn choice(stage: &Stage<'_, '_>, event: &Event, fields: &Fields<'_>) -> Result<Choice, Refusal> {
    let since = fields.value("since_date").or_else(|| fields.value("since_timestamp"));
    #[expect(clippy::cast_possible_truncation, reason = "a moment in milliseconds; what is out of range saturates")]
    let since = since.and_then(Value::as_f64).map(|seconds| (seconds * 1000.0) as i64);
    Ok(Choice {
        author: fields.optional_text("author_id", REFERENCE_BYTES_MAX)?.filter(|id| !id.is_empty()).map(str::to_owned),
        tags: tags(fields)?,
        since,
        query: Wanted::all(""),
        oldest_first: fields.word("sort_by", &["recent", "newest", "oldest"])? == "oldest",
        actor: Actor::of(stage, event),
    })
}

fn list(stage: &Stage<'_, '_>, event: &Event, is_search: bool) -> Result<Reply, Refusal> {
    let fields = Fields::of(event);
    let mut choice = choice(stage, event, &fields)?;
    if is_search {
        choice.query = Wanted::all(fields.text("query", QUERY_BYTES_MAX)?);
    }
    let page = fields.page(50, PAGE_MAX)?;
    let (posts, total) = rows::page(stage, &choice, page)?;
    let mut data = json!({
        "posts": posts.iter().map(Post::shown).collect::<Vec<_>>(),
        "total_count": total,
        "offset": page.offset,
        "limit": page.limit,
        "has_more": page.has_more(posts.len(), total),
    });
    match is_search {
        true => data["query"] = json!(choice.query.phrase),
        false => data["sort_by"] = json!(if choice.oldest_first { "oldest" } else { "recent" }),
    }
    Ok(Reply::done(format!("{} of {total} posts", posts.len()), Some(data)))
}

fn recent(stage: &Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
    let fields = Fields::of(event);
    let (choice, page) = (choice(stage, event, &fields)?, fields.page(100, PAGE_MAX)?);
    let (posts, total) = rows::page(stage, &choice, Page { offset: 0, ..page })?;
    let latest = posts.iter().map(|post| post.created_at).max().or(choice.since).unwrap_or(0);
    let data = json!({
        "posts": posts.iter().map(Post::shown).collect::<Vec<_>>(),
        "count": posts.len(),
        "total_new": total,
        "has_more": total > page.limit,
        "since_timestamp": fields.value("since_timestamp"),
        "latest_timestamp": seconds(longhaul_core::TimeMs(latest)),
    });
    Ok(Reply::done(format!("{} new posts", posts.len()), Some(data)))
}

fn get(stage: &Stage<'_, '_>, event: &Event) -> Result<Reply, Refusal> {
    let fields = Fields::of(event);
    let id = fields.text("post_id", REFERENCE_BYTES_MAX)?;
    let actor = Actor::of(stage, event);
    let found = rows::find(stage, id)?.filter(|post| audience::may_have(&actor, &post.groups, &post.author));
    let post = found.ok_or_else(|| Refusal::missing("post", id))?;
    Ok(Reply::done("the post was found", Some(post.shown())))
}
