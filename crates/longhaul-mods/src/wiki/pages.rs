//! Making, changing, putting back and removing pages.

use longhaul_core::TimeMs;
use longhaul_network::{Refusal, Reply, Stage};
use longhaul_store::values;
use serde_json::{Value, json};

use super::{
    Call,
    rows::{Page, Version},
};
use crate::{
    acting::{no, no_with},
    finding::fold,
};

const TITLE_BYTES_MAX: usize = 800;
const TAGS_MAX: usize = 32;

/// What a new version is made of.
pub(super) struct Change<'a> {
    pub(super) content: &'a str,
    pub(super) by: &'a str,
    /// `direct`, `proposal_approved` or `revert`.
    pub(super) kind: &'a str,
}

impl Call<'_, '_> {
    pub(super) fn create(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let path = self.path()?;
        let title =
            self.fields.optional_text("title", TITLE_BYTES_MAX)?.map(str::trim).filter(|title| !title.is_empty());
        let title = title.unwrap_or(&path);
        let content = self.fields.optional_text("wiki_content", self.wiki.content_max)?.unwrap_or_default();
        let category = self.fields.optional_text("category", TITLE_BYTES_MAX)?;
        let tags = json!(self.fields.texts("tags", TAGS_MAX)?.unwrap_or_default());
        let (here, now) = (&self.here, stage.now());
        if let Some(page) = Page::find(&stage.rows(), here, &path)? {
            let more = json!({"page_path": path, "current_version": page.version, "created_by": page.owner});
            return Ok(no_with("PAGE_EXISTS", format!("there is a page {path:?} already: edit it"), more));
        }
        let sql = "SELECT count(*) FROM wiki_pages WHERE tenant_id = ?1 AND network_id = ?2 AND created_by = ?3";
        let owned: i64 =
            stage.rows().query_one(sql, &values![&here.tenant, &here.network, &self.actor.id], |row| row.get(0))?;
        if owned >= self.wiki.pages_max {
            return Ok(no("TOO_MANY_PAGES", format!("you have {owned} pages, and may have no more")));
        }
        stage.tx().execute(
            "INSERT INTO wiki_pages (tenant_id, network_id, page_path, title, content, folded, category, tags,
                 created_by, created_at, version, modified_by, modified_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 1, ?9, ?10)",
            &values![
                &here.tenant,
                &here.network,
                &path,
                title,
                content,
                folded(title, content, &tags),
                category,
                &tags,
                &self.actor.id,
                now
            ],
        )?;
        self.keep_version(stage, &path, 1, None, &Change { content, by: &self.actor.id, kind: "direct" })?;
        let notice = json!({
            "action": "page_created", "page_path": path, "title": title, "created_by": self.actor.id,
            "created_timestamp": now.0, "category": category, "tags": tags, "content": content,
        });
        self.tell_all(stage, "wiki_new_pages", notice)?;
        let data = json!({"page_path": path, "version": 1});
        Ok(Reply::done(format!("page {path:?} created"), Some(data)))
    }

    pub(super) fn edit(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        // Empty is a content; not given is a mistake.
        let Some(content) = self.fields.optional_text("wiki_content", self.wiki.content_max)? else {
            return Err(crate::shape::wrong("wiki_content", "is missing: the page's new content is needed"));
        };
        let page = match self.changeable(stage, "edit")? {
            Ok(page) => page,
            Err(refused) => return Ok(refused),
        };
        if page.content == content {
            let data = json!({"page_path": page.path, "version": page.version, "unchanged": true});
            return Ok(Reply::done("the page says so already", Some(data)));
        }
        let version = self.change(stage, &page, &Change { content, by: &self.actor.id, kind: "direct" })?;
        let data = json!({"page_path": page.path, "version": version});
        Ok(Reply::done(format!("page {:?} is at version {version}", page.path), Some(data)))
    }

    pub(super) fn revert(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let page = match self.changeable(stage, "put back")? {
            Ok(page) => page,
            Err(refused) => return Ok(refused),
        };
        let target = self.fields.number("target_version", 0, 0..=i64::MAX)?;
        let Some(version) = Version::find(&stage.rows(), &self.here, &page.path, target)? else {
            let said = format!("the page has no version {target}: see its history");
            return Ok(no_with("VERSION_NOT_FOUND", said, json!({"current_version": page.version})));
        };
        let change = Change { content: &version.content, by: &self.actor.id, kind: "revert" };
        let new = self.change(stage, &page, &change)?;
        let data = json!({"page_path": page.path, "target_version": target, "new_version": new});
        Ok(Reply::done(format!("version {new} says what version {target} said"), Some(data)))
    }

    pub(super) fn delete(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let page = match self.page(stage)? {
            Ok(page) => page,
            Err(refused) => return Ok(refused),
        };
        if page.owner != self.actor.id && !self.actor.is_admin {
            return Ok(no("NOT_OWNER", format!("only {}, whose page it is, or an admin may delete it", page.owner)));
        }
        if let Some(refused) = self.locked_out(&page, stage.now()) {
            return Ok(refused);
        }
        for table in ["wiki_proposals", "wiki_versions", "wiki_pages"] {
            let sql = format!("DELETE FROM {table} WHERE tenant_id = ?1 AND network_id = ?2 AND page_path = ?3");
            stage.tx().execute(&sql, &values![&self.here.tenant, &self.here.network, &page.path])?;
        }
        let notice = json!({
            "action": "page_deleted", "page_path": page.path, "title": page.title, "deleted_by": self.actor.id,
        });
        self.tell_all(stage, "wiki_recent_changes", notice)?;
        Ok(Reply::done("page deleted with its history", Some(json!({"page_path": page.path}))))
    }

    /// The page that the payload names; else what to answer.
    pub(super) fn page(&self, stage: &Stage<'_, '_>) -> Result<Result<Page, Reply>, Refusal> {
        let path = self.path()?;
        Ok(Page::find(&stage.rows(), &self.here, &path)?
            .ok_or_else(|| no_with("PAGE_NOT_FOUND", format!("there is no page {path:?}"), json!({"page_path": path}))))
    }

    /// The page that the payload names, if the actor may change it now and starts from what it is now; else what to
    /// answer.
    pub(super) fn changeable(&self, stage: &Stage<'_, '_>, verb: &str) -> Result<Result<Page, Reply>, Refusal> {
        let page = match self.page(stage)? {
            Ok(page) => page,
            Err(refused) => return Ok(Err(refused)),
        };
        if !self.is_owner(&page) && !self.wiki.is_open {
            let said = format!("only {}, whose page it is, may {verb} it directly: propose the change", page.owner);
            return Ok(Err(no_with("NOT_OWNER", said, json!({"owner": page.owner}))));
        }
        if let Some(refused) = self.locked_out(&page, stage.now()) {
            return Ok(Err(refused));
        }
        match self.fields.number("base_version", -1, 0..=i64::MAX)? {
            -1 if self.wiki.needs_base => {
                let said = "this wiki wants the version you started from: state base_version";
                Ok(Err(no_with("BASE_VERSION_NEEDED", said, json!({"current_version": page.version}))))
            }
            base if base != -1 && base != page.version => Ok(Err(self.moved_on(&page, base))),
            _ => Ok(Ok(page)),
        }
    }

    pub(super) fn is_owner(&self, page: &Page) -> bool {
        page.owner == self.actor.id || self.actor.is_admin
    }

    /// Somebody else was first; with what is needed to try again.
    pub(super) fn moved_on(&self, page: &Page, base: i64) -> Reply {
        let said = format!(
            "the page is at version {} by {}, and not at {base} any more: read it, join the changes, and try again",
            page.version, page.modified_by
        );
        no_with(
            "VERSION_CONFLICT",
            said,
            json!({
                "page_path": page.path, "base_version": base, "current_version": page.version,
                "current_content": page.content, "edited_by": page.modified_by,
            }),
        )
    }

    /// A new version becomes the page's content; its number.
    pub(super) fn change(&self, stage: &mut Stage<'_, '_>, page: &Page, change: &Change<'_>) -> Result<i64, Refusal> {
        let (here, now, version) = (&self.here, stage.now(), page.version + 1);
        stage.tx().execute(
            "UPDATE wiki_pages SET content = ?4, folded = ?5, version = ?6, modified_by = ?7, modified_at = ?8
             WHERE tenant_id = ?1 AND network_id = ?2 AND page_path = ?3",
            &values![
                &here.tenant,
                &here.network,
                &page.path,
                change.content,
                folded(&page.title, change.content, &page.tags),
                version,
                change.by,
                now
            ],
        )?;
        self.keep_version(stage, &page.path, version, Some(page.version), change)?;
        stage.tx().execute(
            "DELETE FROM wiki_versions WHERE tenant_id = ?1 AND network_id = ?2 AND page_path = ?3 AND version <= ?4",
            &values![&here.tenant, &here.network, &page.path, version - self.wiki.versions_max],
        )?;
        let notice = json!({
            "action": "page_edited", "page_path": page.path, "title": page.title, "content": change.content,
            "edited_by": change.by, "edit_timestamp": now.0, "version": version, "edit_type": change.kind,
        });
        self.tell_all(stage, "wiki_recent_changes", notice)?;
        Ok(version)
    }

    fn keep_version(
        &self,
        stage: &mut Stage<'_, '_>,
        path: &str,
        version: i64,
        parent: Option<i64>,
        change: &Change<'_>,
    ) -> Result<(), Refusal> {
        let (id, now) = (stage.new_id(), stage.now());
        stage.tx().execute(
            "INSERT INTO wiki_versions (tenant_id, network_id, page_path, version, version_id, content, edited_by,
                 edited_at, edit_type, parent_version) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            &values![
                &self.here.tenant,
                &self.here.network,
                path,
                version,
                id,
                change.content,
                change.by,
                now,
                change.kind,
                parent
            ],
        )?;
        Ok(())
    }

    /// The answer while somebody else has locked the page.
    pub(super) fn locked_out(&self, page: &Page, now: TimeMs) -> Option<Reply> {
        let lock = page.held(now).filter(|lock| lock.by != self.actor.id && !self.actor.is_admin)?;
        let said =
            format!("{} has locked the page: {}", lock.by, if lock.reason.is_empty() { "wait" } else { &lock.reason });
        Some(no_with("LOCKED", said, json!({"locked_by": lock.by, "locked_until": lock.until.0})))
    }
}

/// What a page is searched by.
fn folded(title: &str, content: &str, tags: &Value) -> String {
    let tags = tags.as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
    fold(&format!("{title} {tags} {content}"))
}
