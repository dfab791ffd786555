//! The mod of the wiki: pages with all their versions, proposed changes, going back, locks, search.
//!
//! It owns the rows of `wiki_*`. Invariants: a page's content is that of its newest version; no version is ever changed;
//! and nobody's change is lost unseen. The rule for two who change one page at once: whoever states the version that
//! they started from (`base_version`) is refused when the page has moved on since, and told what it is now; whoever
//! states none writes over the newest version, which stays in the history. A proposal states its base by itself.

mod lines;
mod locks;
mod manifest;
mod pages;
mod proposals;
mod queries;
mod rows;

use std::sync::Arc;

use longhaul_network::{Address, Event, Manifest, Mod, Outcome, Prepared, Refusal, RefusalKind, Sender, Stage};
use serde_json::{Map, Value};

use crate::{
    Parts,
    acting::{Actor, Here, limit_of},
    shape::{Fields, wrong},
};

pub(crate) const NAME: &str = "openagents.mods.workspace.wiki";
/// Longest path of a page, bytes.
const PATH_BYTES_MAX: usize = 200;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Makes it from its `config`.
pub(crate) fn make(config: &Map<String, Value>, _parts: &Parts) -> Result<Arc<dyn Mod>, Refusal> {
    let flag = |key: &str, default: bool| config.get(key).and_then(Value::as_bool).unwrap_or(default);
    let chars = limit_of(config, "max_page_content_length", 50_000);
    Ok(Arc::new(Wiki {
        pages_max: limit_of(config, "max_pages_per_agent", 10_000),
        content_max: usize::try_from(chars).unwrap_or(usize::MAX).saturating_mul(4),
        proposals_max: limit_of(config, "max_proposals_per_page", 100),
        keep_resolved_ms: limit_of(config, "proposal_retention_days", 365).saturating_mul(DAY_MS),
        versions_max: limit_of(config, "max_version_history", 1_000),
        compares: flag("enable_version_comparison", true),
        is_open: flag("open_editing", false),
        needs_base: flag("require_base_version", false),
        lock_max_ms: limit_of(config, "lock_seconds_max", 3_600).saturating_mul(1000),
    }))
}

/// The wiki of a network.
#[derive(Debug)]
struct Wiki {
    pages_max: i64,
    content_max: usize,
    /// Proposals of one page that wait.
    proposals_max: i64,
    keep_resolved_ms: i64,
    /// Versions of one page that are kept, the newest.
    versions_max: i64,
    compares: bool,
    /// Anybody may change a page at once, not only its owner.
    is_open: bool,
    needs_base: bool,
    lock_max_ms: i64,
}

/// One event that is being answered.
struct Call<'a, 'e> {
    wiki: &'a Wiki,
    here: Here,
    actor: Actor,
    fields: Fields<'e>,
}

impl Mod for Wiki {
    fn manifest(&self) -> Manifest {
        manifest::manifest(self)
    }

    fn apply(&self, stage: &mut Stage<'_, '_>, event: &Event, _prepared: Prepared) -> Result<Outcome, Refusal> {
        let call =
            Call { wiki: self, here: Here::of(stage), actor: Actor::of(stage, event), fields: Fields::of(event) };
        let mut reply = match event.name.as_str() {
            "wiki.page.create" => call.create(stage)?,
            "wiki.page.edit" => call.edit(stage)?,
            "wiki.page.revert" => call.revert(stage)?,
            "wiki.page.delete" => call.delete(stage)?,
            "wiki.page.lock" => call.lock(stage)?,
            "wiki.page.unlock" => call.unlock(stage)?,
            "wiki.page.proposal.create" => call.propose(stage)?,
            "wiki.proposal.resolve" => call.resolve(stage)?,
            "wiki.proposals.list" => call.proposals(stage)?,
            "wiki.page.get" => call.get(stage)?,
            "wiki.pages.list" => call.list(stage)?,
            "wiki.pages.search" => call.search(stage)?,
            "wiki.page.history" => call.history(stage)?,
            "wiki.page.compare" if self.compares => call.compare(stage)?,
            _ => return Ok(Outcome::Pass),
        };
        if let Some(Value::Object(data)) = &mut reply.data {
            data.insert("request_id".to_owned(), call.fields.request_id().into());
        }
        Ok(Outcome::Answer(reply))
    }
}

impl Call<'_, '_> {
    /// The page's path, without slashes at its ends.
    fn path(&self) -> Result<String, Refusal> {
        let path = self.fields.text("page_path", PATH_BYTES_MAX)?.trim().trim_matches('/');
        let is_part = |part: &str| !part.trim().is_empty() && part != "." && part != "..";
        if path.chars().any(char::is_control) || !path.split('/').all(is_part) {
            return Err(wrong("page_path", "is no path: write names with slashes between, as in \"guides/setup\""));
        }
        Ok(path.to_owned())
    }

    /// Tells everybody, or, where the network has the channel, those that are in it.
    fn tell_all(&self, stage: &mut Stage<'_, '_>, channel: &str, payload: Value) -> Result<(), Refusal> {
        let to = match stage.members(channel) {
            Some(_) => Address::Channel(channel.to_owned()),
            None => Address::Everybody,
        };
        self.tell(stage, "wiki.page.notification", to, payload)
    }

    /// Tells one agent, or, where the network has the page's channel of proposals, those that are in it.
    fn tell_of_proposal(
        &self,
        stage: &mut Stage<'_, '_>,
        path: &str,
        whom: &str,
        payload: Value,
    ) -> Result<(), Refusal> {
        let channel = format!("wiki_page_{}_proposals", path.replace('/', "_"));
        let to = match (stage.members(&channel), whom.parse()) {
            (Some(_), _) => Address::Channel(channel),
            (None, Ok(agent)) => Address::Agent(agent),
            // The page was made by a mod, or by the network.
            (None, Err(_)) => return Ok(()),
        };
        self.tell(stage, "wiki.proposal.notification", to, payload)
    }

    fn tell(&self, stage: &mut Stage<'_, '_>, name: &str, to: Address, payload: Value) -> Result<(), Refusal> {
        let Value::Object(payload) = payload else { return Ok(()) };
        match stage.emit(Sender::Network, name, to, payload) {
            // Whoever made the page may have left.
            Err(refusal) if refusal.kind == RefusalKind::Missing => Ok(()),
            emitted => emitted.map(drop),
        }
    }
}
