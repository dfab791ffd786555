//! Reading pages: one, lists, search, history, comparison. Reads only.

use longhaul_network::{Refusal, Reply, Stage};
use longhaul_store::values;
use serde_json::{Value, json};

use super::{
    Call, lines,
    rows::{self, PAGE, Page, VERSION, Version},
};
use crate::{
    acting::no_with,
    finding::{Wanted, condition, fold},
};

const CANDIDATES_MAX: usize = 1_000;
const QUERY_BYTES_MAX: usize = 1_000;
const PAGES_MAX: i64 = 500;

impl Call<'_, '_> {
    pub(super) fn get(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        let page = match self.page(stage)? {
            Ok(page) => page,
            Err(refused) => return Ok(refused),
        };
        let wanted = self.fields.number("version", page.version, 1..=i64::MAX)?;
        if wanted == page.version {
            let shown = page.shown(stage.now(), &page.content, page.version, page.modified_at);
            return Ok(Reply::done("page", Some(shown)));
        }
        let version = match self.version(stage, &page, wanted)? {
            Ok(version) => version,
            Err(refused) => return Ok(refused),
        };
        let mut shown = page.shown(stage.now(), &version.content, version.number, version.edited_at);
        shown["edited_by"] = version.edited_by.into();
        shown["edit_timestamp"] = version.edited_at.0.into();
        Ok(Reply::done("page as it was", Some(shown)))
    }

    fn version(&self, stage: &Stage<'_, '_>, page: &Page, number: i64) -> Result<Result<Version, Reply>, Refusal> {
        let found = Version::find(&stage.rows(), &self.here, &page.path, number)?;
        Ok(found.ok_or_else(|| {
            let said = format!("the page has no version {number}: see its history");
            no_with("VERSION_NOT_FOUND", said, json!({"current_version": page.version}))
        }))
    }

    pub(super) fn list(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        let category = self.fields.optional_text("category", QUERY_BYTES_MAX)?.filter(|name| !name.is_empty());
        let page = self.fields.page(50, PAGES_MAX)?;
        let mut params = values![&self.here.tenant, &self.here.network, page.limit, page.offset].to_vec();
        let mut of_category = "";
        if let Some(category) = category {
            params.push(category.into());
            of_category = "AND p.category = ?5";
        }
        let sql = format!(
            "SELECT {PAGE} FROM wiki_pages p WHERE tenant_id = ?1 AND network_id = ?2 {of_category}
             ORDER BY created_at DESC, page_path LIMIT ?3 OFFSET ?4"
        );
        let shown: Vec<Value> = stage.rows().query(&sql, &params, |row| Ok(rows::page(row)?.listed()))?;
        let data = json!({"total_listed": shown.len(), "pages": shown, "category": category});
        Ok(Reply::done("pages", Some(data)))
    }

    /// Pages with all of the words in title, tags or content, or, where there are none, with some of them.
    pub(super) fn search(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        let query = self.fields.text("query", QUERY_BYTES_MAX)?;
        let limit = self.fields.number("limit", 10, 1..=PAGES_MAX)?;
        let mut found: Vec<(u32, Page)> = Vec::new();
        for (wanted, joined_by) in [(Wanted::all(query), " AND "), (Wanted::some(query), " OR ")] {
            let patterns = wanted.patterns();
            let mut params = values![&self.here.tenant, &self.here.network].to_vec();
            let has_words = condition("p.folded", patterns.len(), 3, joined_by);
            params.extend(patterns.into_iter().map(Into::into));
            let sql = format!(
                "SELECT {PAGE} FROM wiki_pages p WHERE tenant_id = ?1 AND network_id = ?2 AND {has_words}
                 ORDER BY created_at DESC, page_path LIMIT {CANDIDATES_MAX}"
            );
            let scored = |page: Page| (wanted.score(&fold(&page.title), &page.folded), page);
            found = stage.rows().query(&sql, &params, rows::page)?.into_iter().map(scored).collect();
            if !found.is_empty() {
                break;
            }
        }
        found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        let total = found.len();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let shown: Vec<Value> = found.iter().take(limit).map(|(_, page)| page.listed()).collect();
        let data = json!({"pages": shown, "query": query, "total_found": total});
        Ok(Reply::done(format!("{total} pages found"), Some(data)))
    }

    /// Versions, newest first.
    pub(super) fn history(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        let page = match self.page(stage)? {
            Ok(page) => page,
            Err(refused) => return Ok(refused),
        };
        let part = self.fields.page(50, PAGES_MAX)?;
        let key = values![&self.here.tenant, &self.here.network, &page.path, part.limit, part.offset];
        let sql = format!(
            "SELECT {VERSION} FROM wiki_versions WHERE tenant_id = ?1 AND network_id = ?2 AND page_path = ?3
             ORDER BY version DESC LIMIT ?4 OFFSET ?5"
        );
        let shown: Vec<Value> = stage.rows().query(&sql, &key, |row| Ok(rows::version(row)?.shown()))?;
        let kept: i64 = stage.rows().query_one(
            "SELECT count(*) FROM wiki_versions WHERE tenant_id = ?1 AND network_id = ?2 AND page_path = ?3",
            &key[..3],
            |row| row.get(0),
        )?;
        let data = json!({"versions": shown, "page_path": page.path, "total_versions": kept});
        Ok(Reply::done(format!("{kept} versions"), Some(data)))
    }

    /// What changed from one version to another, line by line.
    pub(super) fn compare(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        let page = match self.page(stage)? {
            Ok(page) => page,
            Err(refused) => return Ok(refused),
        };
        let to = self.fields.number("to_version", page.version, 1..=i64::MAX)?;
        let from = self.fields.number("from_version", (to - 1).max(1), 1..=i64::MAX)?;
        let (old, new) = match (self.version(stage, &page, from)?, self.version(stage, &page, to)?) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(refused), _) | (_, Err(refused)) => return Ok(refused),
        };
        let changes = lines::compare(&old.content, &new.content);
        let count = |sign: char| changes.iter().filter(|line| line.starts_with(sign)).count();
        let data = json!({
            "page_path": page.path, "from_version": from, "to_version": to, "added": count('+'),
            "removed": count('-'), "changes": changes,
        });
        Ok(Reply::done(format!("{} lines added, {} removed", count('+'), count('-')), Some(data)))
    }
}
