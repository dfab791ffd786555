//! Proposed changes: anybody proposes, the page's owner (or an admin) decides, once.

use longhaul_core::TimeMs;
use longhaul_network::{Refusal, Reply, Stage};
use longhaul_store::values;
use serde_json::{Value, json};

use super::{
    Call,
    pages::Change,
    rows::{PROPOSAL, Page, Proposal, proposal},
};
use crate::{
    acting::{no, no_with},
    shape::REFERENCE_BYTES_MAX,
};

const WORDS_BYTES_MAX: usize = 8_000;

impl Call<'_, '_> {
    pub(super) fn propose(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let content = self.fields.text("wiki_content", self.wiki.content_max)?;
        let rationale = self.fields.optional_text("rationale", WORDS_BYTES_MAX)?.unwrap_or_default();
        let page = match self.page(stage)? {
            Ok(page) => page,
            Err(refused) => return Ok(refused),
        };
        let base = self.fields.number("base_version", page.version, 0..=i64::MAX)?;
        if base != page.version {
            return Ok(self.moved_on(&page, base));
        }
        let (here, now, id) = (&self.here, stage.now(), stage.new_id());
        let key = values![&here.tenant, &here.network, &page.path];
        let waiting: i64 = stage.rows().query_one(
            "SELECT count(*) FROM wiki_proposals
             WHERE tenant_id = ?1 AND network_id = ?2 AND page_path = ?3 AND status = 'pending'",
            &key,
            |row| row.get(0),
        )?;
        if waiting >= self.wiki.proposals_max {
            let said = format!("{waiting} proposals wait for {} already: let some be resolved first", page.owner);
            return Ok(no("TOO_MANY_PROPOSALS", said));
        }
        stage.tx().execute(
            "DELETE FROM wiki_proposals WHERE tenant_id = ?1 AND network_id = ?2 AND page_path = ?3
                 AND status <> 'pending' AND resolved_at < ?4",
            &values![&here.tenant, &here.network, &page.path, TimeMs(now.0 - self.wiki.keep_resolved_ms)],
        )?;
        stage.tx().execute(
            "INSERT INTO wiki_proposals (tenant_id, network_id, proposal_id, page_path, base_version, content,
                 rationale, proposed_by, created_at, status) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 'pending')",
            &values![
                &here.tenant,
                &here.network,
                &id,
                &page.path,
                page.version,
                content,
                rationale,
                &self.actor.id,
                now
            ],
        )?;
        let notice = json!({
            "action": "proposal_created", "proposal_id": id, "page_path": page.path, "proposed_by": self.actor.id,
            "created_timestamp": now.0, "rationale": rationale, "base_version": page.version,
        });
        self.tell_of_proposal(stage, &page.path, &page.owner, notice)?;
        let data = json!({"proposal_id": id, "page_path": page.path, "base_version": page.version});
        Ok(Reply::done(format!("proposed to {}", page.owner), Some(data)))
    }

    pub(super) fn resolve(&self, stage: &mut Stage<'_, '_>) -> Result<Reply, Refusal> {
        let id = self.fields.text("proposal_id", REFERENCE_BYTES_MAX)?;
        self.fields.text("action", 20)?;
        let approves = self.fields.word("action", &["approve", "reject"])? == "approve";
        let comments = self.fields.optional_text("comments", WORDS_BYTES_MAX)?;
        let (proposal, page) = match self.decidable(stage, id)? {
            Ok(found) => found,
            Err(refused) => return Ok(refused),
        };
        let mut new_version = None;
        if approves {
            if let Some(refused) = self.locked_out(&page, stage.now()) {
                return Ok(refused);
            }
            // Whoever decides may say that they have seen what the page is now.
            let base = self.fields.number("base_version", proposal.base, 0..=i64::MAX)?;
            if base != page.version {
                return Ok(self.moved_on(&page, base));
            }
            let change = Change { content: &proposal.content, by: &proposal.by, kind: "proposal_approved" };
            new_version = Some(self.change(stage, &page, &change)?);
        }
        let status = if approves { "approved" } else { "rejected" };
        let now = stage.now();
        stage.tx().execute(
            "UPDATE wiki_proposals SET status = ?4, resolved_by = ?5, resolved_at = ?6, comments = ?7
             WHERE tenant_id = ?1 AND network_id = ?2 AND proposal_id = ?3",
            &values![&self.here.tenant, &self.here.network, id, status, &self.actor.id, now, comments],
        )?;
        let notice = json!({
            "action": "proposal_resolved", "proposal_id": id, "page_path": page.path, "proposed_by": proposal.by,
            "resolved_by": self.actor.id, "resolved_timestamp": now.0, "status": status,
            "resolution_comments": comments, "new_version": new_version,
        });
        self.tell_of_proposal(stage, &page.path, &proposal.by, notice)?;
        let data = json!({
            "proposal_id": id, "action": if approves { "approve" } else { "reject" }, "page_path": page.path,
            "status": status, "new_version": new_version,
        });
        Ok(Reply::done(format!("proposal {status}"), Some(data)))
    }

    /// The proposal that waits, with its page, if the actor may decide; else what to answer.
    fn decidable(&self, stage: &Stage<'_, '_>, id: &str) -> Result<Result<(Proposal, Page), Reply>, Refusal> {
        let found = Proposal::find(&stage.rows(), &self.here, id)?;
        let Some(proposal) = found else {
            return Ok(Err(no("PROPOSAL_NOT_FOUND", "there is no such proposal")));
        };
        let Some(page) = Page::find(&stage.rows(), &self.here, &proposal.path)? else {
            return Ok(Err(no("PAGE_NOT_FOUND", "the page it was for is gone")));
        };
        if !self.is_owner(&page) {
            let said = format!("only {}, whose page it is, may decide", page.owner);
            return Ok(Err(no("NOT_OWNER", said)));
        }
        if proposal.status != "pending" {
            let said = format!("it was {} before", proposal.status);
            return Ok(Err(no_with("RESOLVED_ALREADY", said, json!({"status": proposal.status}))));
        }
        Ok(Ok((proposal, page)))
    }

    /// Proposals for the actor's pages and by the actor; an admin sees all.
    pub(super) fn proposals(&self, stage: &Stage<'_, '_>) -> Result<Reply, Refusal> {
        let status = match self
            .fields
            .word("status", &["pending", "approved", "approve", "rejected", "reject", "superseded", "all"])?
        {
            "approve" => "approved",
            "reject" => "rejected",
            word => word,
        };
        let path = match self.fields.value("page_path") {
            None => None,
            Some(_) => Some(self.path()?),
        };
        let limit = self.fields.number("limit", 100, 1..=500)?;
        let mut params = values![&self.here.tenant, &self.here.network].to_vec();
        let mut conditions = String::new();
        for (column, value) in
            [("r.status", Some(status).filter(|word| *word != "all")), ("r.page_path", path.as_deref())]
        {
            if let Some(value) = value {
                params.push(value.into());
                conditions.push_str(&format!(" AND {column} = ?{}", params.len()));
            }
        }
        if !self.actor.is_admin {
            params.push((&self.actor.id).into());
            let me = params.len();
            conditions.push_str(&format!(" AND (p.created_by = ?{me} OR r.proposed_by = ?{me})"));
        }
        params.push(limit.into());
        let sql = format!(
            "SELECT {PROPOSAL}, p.content, p.version FROM wiki_proposals r
             JOIN wiki_pages p ON p.tenant_id = r.tenant_id AND p.network_id = r.network_id
                 AND p.page_path = r.page_path
             WHERE r.tenant_id = ?1 AND r.network_id = ?2{conditions}
             ORDER BY r.created_at DESC, r.proposal_id LIMIT ?{}",
            params.len()
        );
        let shown: Vec<Value> =
            stage.rows().query(&sql, &params, |row| Ok(proposal(row)?.shown(row.text(11)?, row.get(12)?)))?;
        let data = json!({"total_listed": shown.len(), "proposals": shown, "page_path": path, "status": status});
        Ok(Reply::done("proposals", Some(data)))
    }
}
