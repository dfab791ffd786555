//! The way in: a proposal is filed with its evidence and waits. Nothing else writes shared knowledge.

use std::collections::BTreeSet;

use longhaul_core::EventDraft;
use longhaul_store::Tx;
use serde_json::json;

use super::{NewProposal, ReviewError, ReviewId, ReviewState, Reviewed, rows};
use crate::{NewLink, Relation, TaskWorkspace, links, schema_check};

/// Most proposals of a tenant that wait.
const PENDING_MAX: u64 = 5_000;

impl TaskWorkspace {
    /// Proposes a change of shared knowledge. It waits until a person decides; until then nobody who asks for facts finds
    /// it. What wants the same as a proposal that waits adds its evidence to that one.
    ///
    /// # Errors
    /// [`ReviewError::NoEvidence`], [`ReviewError::Workspace`] for evidence that is not there or a value that does not
    /// fit its schema, [`ReviewError::NoSchema`], [`ReviewError::RejectedBefore`]; those of the store.
    pub async fn propose(&self, new: NewProposal) -> Result<Reviewed, ReviewError> {
        new.check()?;
        let task = self.clone();
        self.workspace().store().write(move |tx| task.propose_in(tx, new)).await
    }

    fn propose_in(&self, tx: &mut Tx<'_>, new: NewProposal) -> Result<Reviewed, ReviewError> {
        let (owner, scope) = (self.owner(), &self.owner().scope);
        for id in &new.evidence {
            links::check_end(tx, self.workspace().memory(), scope, id)?;
        }
        if let Some(said) = &new.said {
            let Some(schema) = rows::schema(tx, scope, &said.schema)? else {
                return Err(ReviewError::NoSchema { id: said.schema.clone(), known: rows::schemas(tx, scope)? });
            };
            schema_check::check(&schema, said.value.to_string().as_bytes())?;
        }
        // The entry's lock: whoever proposes the same at once is the second.
        let head = rows::lock(tx, scope, &new.key)?;
        if new.said.is_none() && head.memory.is_none() {
            return Err(ReviewError::NoVersion { key: new.key, version: head.version.max(1), newest: head.version });
        }
        let (wish, evidence) = (new.wish(), new.evidence.into_iter().collect::<BTreeSet<_>>());
        if let Some(mut known) = rows::wanting(tx, scope, &wish, ReviewState::Pending)?
            && known.base_version == head.version
        {
            known.evidence.extend(evidence);
            rows::update(tx, scope, &known)?;
            return Ok(known);
        }
        if let Some(before) = rows::wanting(tx, scope, &wish, ReviewState::Rejected)?
            && before.base_version == head.version
            && evidence.is_subset(&before.evidence)
        {
            return Err(ReviewError::RejectedBefore { id: before.id.to_string(), note: before.note });
        }
        let waiting = rows::waiting(tx, scope)?;
        if waiting >= PENDING_MAX {
            return Err(ReviewError::TooMany { waiting });
        }
        let filed = Reviewed {
            id: ReviewId(format!("proposal_{}", tx.ambient().ids.body())),
            owner: owner.clone(),
            key: new.key,
            said: new.said,
            evidence,
            why: new.why,
            proposer: new.proposer,
            base_version: head.version,
            state: ReviewState::Pending,
            created_at: tx.now(),
            decided_at: None,
            decided_by: None,
            note: None,
            version: None,
        };
        rows::insert(tx, &filed, &wish)?;
        for id in &filed.evidence {
            let link = NewLink::new(id, Relation::Supports, &filed.id);
            links::write(tx, owner, &link)?;
        }
        let data = json!({"proposal": filed.id, "key": filed.key, "evidence": filed.evidence.len()});
        tx.append_event(owner, None, None, EventDraft::business("shared.proposed", data))?;
        Ok(filed)
    }
}
