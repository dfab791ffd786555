//! The rows of the feed.

use longhaul_network::{Refusal, Stage};
use longhaul_store::{Row, StoreError, Value as Sql, values};
use serde_json::{Value, json};

use crate::{
    acting::{Actor, seconds},
    audience,
    finding::{Wanted, fold},
    place::Place,
    shape::Page,
};

/// Version of what a row holds.
const V: u32 = 1;

/// A post.
#[derive(Debug, Clone)]
pub(super) struct Post {
    pub(super) id: String,
    pub(super) author: String,
    pub(super) title: String,
    pub(super) content: String,
    pub(super) tags: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) attachments: Value,
    pub(super) created_at: i64,
}

impl Post {
    /// As lists and notices show it.
    pub(super) fn shown(&self) -> Value {
        json!({
            "post_id": self.id,
            "title": self.title,
            "content": self.content,
            "author_id": self.author,
            "created_at": seconds(longhaul_core::TimeMs(self.created_at)),
            "tags": self.tags,
            "allowed_groups": self.groups,
            "attachments": self.attachments,
        })
    }
}

/// Which posts are wanted, and by whom.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) author: Option<String>,
    /// Any of these.
    pub(super) tags: Vec<String>,
    /// Later than this moment.
    pub(super) since: Option<i64>,
    /// All of these words.
    pub(super) query: Wanted,
    pub(super) oldest_first: bool,
    pub(super) actor: Actor,
}

const COLUMNS: &str = "post_id, author, title, content, tags, groups, attachments, created_at";

fn post(row: &Row<'_>) -> Result<Post, StoreError> {
    Ok(Post {
        id: row.get(0)?,
        author: row.get(1)?,
        title: row.get(2)?,
        content: row.get(3)?,
        tags: audience::read(row.text(4)?),
        groups: audience::read(row.text(5)?),
        attachments: row.get(6)?,
        created_at: row.get(7)?,
    })
}

pub(super) fn insert(stage: &mut Stage<'_, '_>, post: &Post) -> Result<(), Refusal> {
    let Place { tenant, network } = Place::of(stage);
    let last: Option<i64> = stage.rows().query_optional(
        "SELECT n FROM feed_posts WHERE tenant_id = ?1 AND network_id = ?2 ORDER BY n DESC LIMIT 1",
        &values![&tenant, &network],
        |row| row.get(0),
    )?;
    let n = last.unwrap_or(0) + 1;
    let words = fold(&format!("{}\n{}\n{}", post.title, post.content, post.tags.join(" ")));
    stage.tx().execute(
        "INSERT INTO feed_posts (tenant_id, network_id, post_id, v, n, author, title, content, words, tags, groups,
             attachments, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        &values![
            &tenant,
            &network,
            &post.id,
            V,
            n,
            &post.author,
            &post.title,
            &post.content,
            words,
            audience::printed(&post.tags),
            audience::printed(&post.groups),
            &post.attachments,
            post.created_at,
        ],
    )?;
    for tag in &post.tags {
        stage.tx().execute(
            "INSERT INTO feed_tags (tenant_id, network_id, tag, n) VALUES (?1, ?2, ?3, ?4)",
            &values![&tenant, &network, tag, n],
        )?;
    }
    for group in &post.groups {
        stage.tx().execute(
            "INSERT INTO feed_groups (tenant_id, network_id, n, agent_group) VALUES (?1, ?2, ?3, ?4)",
            &values![&tenant, &network, n, group],
        )?;
    }
    Ok(())
}

/// The post with this id.
pub(super) fn find(stage: &Stage<'_, '_>, id: &str) -> Result<Option<Post>, Refusal> {
    let Place { tenant, network } = Place::of(stage);
    let sql = format!("SELECT {COLUMNS} FROM feed_posts WHERE tenant_id = ?1 AND network_id = ?2 AND post_id = ?3");
    Ok(stage.rows().query_optional(&sql, &values![&tenant, &network, id], post)?)
}

/// How many posts somebody has written.
pub(super) fn count_of(stage: &Stage<'_, '_>, author: &str) -> Result<i64, Refusal> {
    let Place { tenant, network } = Place::of(stage);
    Ok(stage.rows().query_one(
        "SELECT COUNT(*) FROM feed_posts WHERE tenant_id = ?1 AND network_id = ?2 AND author = ?3",
        &values![&tenant, &network, author],
        |row| row.get(0),
    )?)
}

/// A page of what is chosen, and how much there is of it.
pub(super) fn page(stage: &Stage<'_, '_>, choice: &Choice, page: Page) -> Result<(Vec<Post>, i64), Refusal> {
    let (condition, mut params) = condition(stage, choice);
    let rows = stage.rows();
    let sql = format!("SELECT COUNT(*) FROM feed_posts p WHERE {condition}");
    let total = rows.query_one(&sql, &params, |row| row.get(0))?;
    let order = if choice.oldest_first { "ASC" } else { "DESC" };
    let (limit, offset) = (params.len() + 1, params.len() + 2);
    params.extend(values![page.limit, page.offset]);
    let sql = format!(
        "SELECT {COLUMNS} FROM feed_posts p WHERE {condition} ORDER BY n {order} LIMIT ?{limit} OFFSET ?{offset}"
    );
    Ok((rows.query(&sql, &params, post)?, total))
}

/// The condition of a choice, and its parameters.
fn condition(stage: &Stage<'_, '_>, choice: &Choice) -> (String, Vec<Sql>) {
    let Place { tenant, network } = Place::of(stage);
    let mut condition = "p.tenant_id = ?1 AND p.network_id = ?2".to_owned();
    let mut params = Vec::from(values![&tenant, &network]);
    let next = |params: &mut Vec<Sql>, value: Sql| {
        params.push(value);
        format!("?{}", params.len())
    };
    if !choice.actor.is_admin {
        let group = next(&mut params, choice.actor.group.as_str().into());
        let author = next(&mut params, choice.actor.id.as_str().into());
        condition += &format!(
            " AND (p.groups = '[]' OR p.author = {author} OR EXISTS (SELECT 1 FROM feed_groups g
              WHERE g.tenant_id = p.tenant_id AND g.network_id = p.network_id AND g.n = p.n
              AND g.agent_group = {group}))"
        );
    }
    if let Some(author) = &choice.author {
        let author = next(&mut params, author.into());
        condition += &format!(" AND p.author = {author}");
    }
    if let Some(since) = choice.since {
        let since = next(&mut params, since.into());
        condition += &format!(" AND p.created_at > {since}");
    }
    if !choice.tags.is_empty() {
        let tags: Vec<String> = choice.tags.iter().map(|tag| next(&mut params, tag.into())).collect();
        condition += &format!(
            " AND EXISTS (SELECT 1 FROM feed_tags t WHERE t.tenant_id = p.tenant_id AND t.network_id = p.network_id
              AND t.n = p.n AND t.tag IN ({}))",
            tags.join(", ")
        );
    }
    for pattern in choice.query.patterns() {
        let pattern = next(&mut params, pattern.into());
        condition += &format!(" AND p.words LIKE {pattern} ESCAPE '\\'");
    }
    (condition, params)
}
