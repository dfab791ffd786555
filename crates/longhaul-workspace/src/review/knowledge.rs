//! Shared knowledge of a tenant: deciding on proposals, versions, roll-back, and recall of what was approved.
//!
//! An approved entry is mirrored as a fact in the partition [`shared_partition`] of memory, whose rights say who decides:
//! its owner and those to whom they granted writing; everybody of the tenant reads. Invariants: a version, its mirror,
//! the proposal's state and the event are one transaction; a version is never changed, only followed; recall gives out a
//! mirror only as long as it is the newest version of its entry.

use longhaul_core::{EventDraft, Scope, TaskScope};
use longhaul_memory::{
    Fact, Grantee, Hit, Kind, MemoryError, Namespace, NewMemory, Query, Source,
    user::{Actor, By},
};
use longhaul_store::{IdStanding, ReadTx, StoreError, Tx, values};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    ReviewError, ReviewId, ReviewState, Reviewed, SharedAction, SharedVersion,
    proposal::{WHY_CHARS_MAX, check_key, check_schema_id, wrong},
    rows::{self, Head},
};
use crate::{UserWorkspace, Workspace, schema_check};

/// Most entries, versions or proposals given by one call.
pub const SHARED_PAGE_MAX: usize = 500;
/// What the partition of shared knowledge is made for.
const PURPOSE: &str = "shared";
/// The collection of the mirrors.
const COLLECTION: &str = "shared";
/// How much approved knowledge matters beside other memories.
const IMPORTANCE: f32 = 0.8;

/// The partition of memory that mirrors shared knowledge, and whose grants say who may decide on it.
#[must_use]
pub fn shared_partition() -> Namespace {
    "shared:knowledge".parse().unwrap_or_default()
}

/// Shared knowledge as one user of a tenant sees it. Cheap to clone. There is no way to write an entry but by a proposal
/// that a person approves.
#[derive(Debug, Clone)]
pub struct SharedKnowledge {
    workspace: Workspace,
    scope: Scope,
}

/// What stands behind something that was recalled.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "standing", rename_all = "snake_case")]
pub enum Standing {
    /// A person approved it; it is the newest version of its entry.
    Approved {
        /// The version with its evidence.
        version: Box<SharedVersion>,
    },
    /// It was written down as it happened: nobody has reviewed it.
    Episodic {
        /// What sort of thing it is.
        kind: Kind,
        /// Whose words.
        source: Source,
        /// Where it stands.
        namespace: Namespace,
    },
}

/// Something recalled, with what stands behind it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recalled {
    /// What stands behind it.
    #[serde(flatten)]
    pub standing: Standing,
    /// The text.
    pub text: String,
    /// 0 to 1, comparable within the same standing.
    pub score: f32,
}

impl UserWorkspace {
    /// The tenant's shared knowledge, as this user sees it.
    #[must_use]
    pub fn shared_knowledge(&self) -> SharedKnowledge {
        SharedKnowledge { workspace: self.workspace().clone(), scope: self.scope().clone() }
    }
}

impl SharedKnowledge {
    /// Defines what the values of a schema are, as a JSON schema. The same definition again changes nothing.
    ///
    /// # Errors
    /// [`ReviewError::SchemaTaken`] for another definition; [`ReviewError::Workspace`] for one that is no schema.
    pub async fn define_schema(&self, id: &str, definition: Value) -> Result<(), ReviewError> {
        check_schema_id(id)?;
        match schema_check::check(&definition, b"null") {
            Err(crate::WorkspaceError::Misfit { path, problem }) if path == "schema" => {
                return Err(crate::WorkspaceError::Misfit { path, problem }.into());
            }
            Ok(()) | Err(_) => {}
        }
        let (scope, id) = (self.scope.clone(), id.to_owned());
        let define = move |tx: &mut Tx<'_>| {
            let now = tx.now();
            let made = tx.execute(
                "INSERT INTO shared_schemas (tenant_id, schema_id, user_id, definition, created_at)
                 VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (tenant_id, schema_id) DO NOTHING",
                &values![&scope.tenant, &id, &scope.user, definition.to_string(), now],
            )?;
            if made == 0 && rows::schema(tx, &scope, &id)?.as_ref() != Some(&definition) {
                return Err(ReviewError::SchemaTaken { id });
            }
            Ok(())
        };
        self.workspace.store().write(define).await
    }

    /// Proposals in a state or all, the oldest first, at most [`SHARED_PAGE_MAX`]: all of the tenant's for who may decide,
    /// one's own for others.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn proposals(&self, state: Option<ReviewState>) -> Result<Vec<Reviewed>, ReviewError> {
        let handle = self.clone();
        let list = move |read: &ReadTx<'_>| {
            let own = !handle.decides(read)?;
            rows::all(read, &handle.scope, state, own, SHARED_PAGE_MAX)
        };
        Ok(self.workspace.store().read(list).await?)
    }

    /// One proposal.
    ///
    /// # Errors
    /// [`ReviewError::NoProposal`]; those of the store.
    pub async fn proposal(&self, id: &ReviewId) -> Result<Reviewed, ReviewError> {
        let (handle, id) = (self.clone(), id.clone());
        self.workspace.store().read(move |read| handle.visible(read, &id)).await
    }

    /// Approves a proposal: it becomes the newest version of its entry, and is found from the commit on.
    ///
    /// # Errors
    /// [`ReviewError::NotAPerson`]; [`ReviewError::Memory`] for who may not decide; [`ReviewError::Decided`],
    /// [`ReviewError::Outdated`], [`ReviewError::EvidenceGone`]; those of the store.
    pub async fn approve(&self, id: &ReviewId, by: &By) -> Result<Reviewed, ReviewError> {
        self.check_person(by)?;
        let (handle, id, by) = (self.clone(), id.clone(), by.clone());
        self.workspace.store().write(move |tx| handle.approve_in(tx, &id, &by)).await
    }

    /// Rejects a proposal. The same on the same evidence is not filed again.
    ///
    /// # Errors
    /// As [`SharedKnowledge::approve`].
    pub async fn reject(&self, id: &ReviewId, by: &By) -> Result<Reviewed, ReviewError> {
        self.check_person(by)?;
        let (handle, id, by) = (self.clone(), id.clone(), by.clone());
        let reject = move |tx: &mut Tx<'_>| {
            handle.check_decides(tx)?;
            let mut proposal = handle.pending(tx, &id)?;
            handle.closed(&mut proposal, ReviewState::Rejected, tx, &by);
            rows::update(tx, &handle.scope, &proposal)?;
            let data = json!({"proposal": proposal.id, "key": proposal.key, "by": by.actor});
            tx.append_event(&proposal.owner, None, None, EventDraft::business("shared.rejected", data))?;
            Ok(proposal)
        };
        self.workspace.store().write(reject).await
    }

    /// Makes a new version of an entry that says what an earlier one said; 0 for nothing.
    ///
    /// # Errors
    /// [`ReviewError::NoVersion`]; as [`SharedKnowledge::approve`].
    pub async fn rollback(&self, key: &str, version: u32, by: &By) -> Result<SharedVersion, ReviewError> {
        check_key(key)?;
        self.check_person(by)?;
        let (handle, key, by) = (self.clone(), key.to_owned(), by.clone());
        self.workspace.store().write(move |tx| handle.rollback_in(tx, &key, version, &by)).await
    }

    /// What an entry says now; `None` when it says nothing.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn get(&self, key: &str) -> Result<Option<SharedVersion>, ReviewError> {
        let (scope, key) = (self.scope.clone(), key.to_owned());
        let newest = move |read: &ReadTx<'_>| {
            let head = rows::head(read, &scope, &key)?;
            rows::version_of(read, &scope, &key, head.version)
        };
        Ok(self.workspace.store().read(newest).await?.filter(|version| version.said.is_some()))
    }

    /// The entries that say something, by key, after `after`, at most `limit` and [`SHARED_PAGE_MAX`].
    ///
    /// # Errors
    /// Those of the store.
    pub async fn entries(&self, after: &str, limit: usize) -> Result<Vec<SharedVersion>, ReviewError> {
        let (scope, after, limit) = (self.scope.clone(), after.to_owned(), limit.min(SHARED_PAGE_MAX));
        let page = move |read: &ReadTx<'_>| {
            let mut found = Vec::new();
            for key in rows::keys(read, &scope, &after, limit)? {
                let head = rows::head(read, &scope, &key)?;
                found.extend(rows::version_of(read, &scope, &key, head.version)?);
            }
            Ok::<_, StoreError>(found)
        };
        Ok(self.workspace.store().read(page).await?)
    }

    /// The versions of an entry, the newest first, at most [`SHARED_PAGE_MAX`].
    ///
    /// # Errors
    /// Those of the store.
    pub async fn history(&self, key: &str) -> Result<Vec<SharedVersion>, ReviewError> {
        let (scope, key) = (self.scope.clone(), key.to_owned());
        Ok(self.workspace.store().read(move |read| rows::versions(read, &scope, &key, SHARED_PAGE_MAX)).await?)
    }

    /// The approved entries that answer a question best. What waits, was rejected or rolled back is never among them.
    ///
    /// # Errors
    /// Those of a search of memory.
    pub async fn facts(&self, question: &str, k: usize) -> Result<Vec<Recalled>, ReviewError> {
        let query = Query { kinds: vec![Kind::Fact], ..self.query(question, k, vec![shared_partition()]) };
        let Some(hits) = self.searched(&query).await? else { return Ok(Vec::new()) };
        let scope = self.scope.clone();
        let backed = move |read: &ReadTx<'_>| {
            let mut found = Vec::new();
            for Hit { item, score, .. } in hits {
                let Some(version) = rows::mirrored(read, &scope, &item.id)? else { continue };
                let standing = Standing::Approved { version: Box::new(version) };
                found.push(Recalled { standing, text: item.content, score });
            }
            Ok::<_, StoreError>(found)
        };
        Ok(self.workspace.store().read(backed).await?)
    }

    /// The same, followed by what was merely written down in these namespaces, labelled as such. Facts and preferences of
    /// those namespaces are left out: they have their own review.
    ///
    /// # Errors
    /// Those of a search of memory.
    pub async fn recall(
        &self,
        question: &str,
        k: usize,
        namespaces: &[Namespace],
    ) -> Result<Vec<Recalled>, ReviewError> {
        let mut found = self.facts(question, k).await?;
        let episodic = Kind::ALL.iter().copied().filter(|kind| !matches!(kind, Kind::Fact | Kind::Preference));
        let others: Vec<Namespace> = namespaces.iter().filter(|name| **name != shared_partition()).cloned().collect();
        if others.is_empty() {
            return Ok(found);
        }
        let query = Query { kinds: episodic.collect(), ..self.query(question, k, others) };
        for Hit { item, score, .. } in self.searched(&query).await?.unwrap_or_default() {
            let standing =
                Standing::Episodic { kind: item.kind, source: item.source, namespace: item.namespace.clone() };
            found.push(Recalled { standing, text: item.content, score });
        }
        Ok(found)
    }

    fn query(&self, question: &str, k: usize, namespaces: Vec<Namespace>) -> Query {
        Query { namespaces, context: false, ..Query::new(question, k) }
    }

    /// `None` where there is no such partition yet.
    async fn searched(&self, query: &Query) -> Result<Option<Vec<Hit>>, ReviewError> {
        match self.workspace.memory().search(&self.scope, query).await {
            Ok(recall) => Ok(Some(recall.hits)),
            Err(MemoryError::NoPartition { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the user may decide: where nobody has decided yet, whoever does so first.
    fn decides(&self, read: &ReadTx<'_>) -> Result<bool, StoreError> {
        let exists: Option<i64> = read.query_optional(
            "SELECT 1 FROM memory_partitions WHERE tenant_id = ?1 AND namespace = ?2",
            &values![&self.scope.tenant, shared_partition().as_str()],
            |row| row.get(0),
        )?;
        Ok(exists.is_none() || self.workspace.memory().may_write(read, &self.scope, &shared_partition())?)
    }

    /// Refuses who may not decide; the first who decides becomes the owner of the partition, which all may read.
    fn check_decides(&self, tx: &mut Tx<'_>) -> Result<(), ReviewError> {
        let (memory, namespace) = (self.workspace.memory(), shared_partition());
        if memory.may_write(tx, &self.scope, &namespace)? {
            return Ok(());
        }
        if memory.create_partition(tx, &self.scope, &namespace, PURPOSE)? {
            memory.grant_in(tx, &self.scope, &namespace, &Grantee::Everyone, false)?;
        }
        Ok(())
    }

    fn check_person(&self, by: &By) -> Result<(), ReviewError> {
        if by.why.chars().count() > WHY_CHARS_MAX || by.why.contains('\0') {
            return Err(wrong("note", &by.why, "at most 1000 characters of text"));
        }
        match &by.actor {
            Actor::Person(user) if *user == self.scope.user => Ok(()),
            actor => Err(ReviewError::NotAPerson { actor: actor.to_string() }),
        }
    }

    fn visible(&self, read: &ReadTx<'_>, id: &ReviewId) -> Result<Reviewed, ReviewError> {
        let found = rows::find(read, &self.scope, id)?;
        let may =
            |found: &Reviewed| Ok::<_, StoreError>(found.owner.scope.user == self.scope.user || self.decides(read)?);
        match found {
            Some(found) if may(&found)? => Ok(found),
            Some(_) | None => Err(ReviewError::NoProposal { id: id.to_string() }),
        }
    }

    fn pending(&self, read: &ReadTx<'_>, id: &ReviewId) -> Result<Reviewed, ReviewError> {
        let proposal = self.visible(read, id)?;
        if proposal.state != ReviewState::Pending {
            return Err(ReviewError::Decided { id: id.to_string(), state: proposal.state.as_str() });
        }
        Ok(proposal)
    }

    fn closed(&self, proposal: &mut Reviewed, state: ReviewState, tx: &Tx<'_>, by: &By) {
        proposal.state = state;
        proposal.decided_at = Some(tx.now());
        proposal.decided_by = Some(by.actor.clone());
        proposal.note = Some(by.why.clone()).filter(|why| !why.is_empty());
    }

    fn approve_in(&self, tx: &mut Tx<'_>, id: &ReviewId, by: &By) -> Result<Reviewed, ReviewError> {
        self.check_decides(tx)?;
        let key = self.pending(tx, id)?.key;
        let head = rows::lock(tx, &self.scope, &key)?;
        // Again behind the lock: another may have decided meanwhile.
        let mut proposal = self.pending(tx, id)?;
        if head.version != proposal.base_version {
            let (id, base) = (id.to_string(), proposal.base_version);
            return Err(ReviewError::Outdated { id, key, base, now: head.version });
        }
        for evidence in &proposal.evidence {
            let standing = tx.standing_of(&self.scope, evidence)?;
            if !matches!(standing, IdStanding::There { .. }) {
                let (proposal, id) = (id.to_string(), evidence.clone());
                return Err(ReviewError::EvidenceGone { proposal, id });
            }
        }
        let next = SharedVersion {
            key,
            version: head.version + 1,
            owner: proposal.owner.clone(),
            said: proposal.said.clone(),
            evidence: proposal.evidence.clone(),
            action: SharedAction::Approved,
            of_version: None,
            proposal: Some(id.clone()),
            actor: by.actor.clone(),
            why: proposal.why.clone(),
            at: tx.now(),
        };
        self.apply(tx, &head, &next, &proposal.proposer)?;
        proposal.version = Some(next.version);
        self.closed(&mut proposal, ReviewState::Applied, tx, by);
        rows::update(tx, &self.scope, &proposal)?;
        let data = json!({"proposal": id, "key": next.key, "version": next.version, "by": by.actor});
        tx.append_event(&next.owner, None, None, EventDraft::business("shared.approved", data))?;
        Ok(proposal)
    }

    fn rollback_in(&self, tx: &mut Tx<'_>, key: &str, version: u32, by: &By) -> Result<SharedVersion, ReviewError> {
        self.check_decides(tx)?;
        let head = rows::head(tx, &self.scope, key)?;
        let newest = head.version;
        let missing = || ReviewError::NoVersion { key: key.to_owned(), version, newest };
        if newest == 0 || version > newest {
            return Err(missing());
        }
        let head = rows::lock(tx, &self.scope, key)?;
        let now = rows::version_of(tx, &self.scope, key, head.version)?.ok_or_else(missing)?;
        let then = match version {
            0 => None,
            number => Some(rows::version_of(tx, &self.scope, key, number)?.ok_or_else(missing)?),
        };
        let next = SharedVersion {
            key: key.to_owned(),
            version: head.version + 1,
            owner: TaskScope { scope: self.scope.clone(), ..now.owner },
            said: then.as_ref().and_then(|then| then.said.clone()),
            evidence: then.map(|then| then.evidence).unwrap_or_default(),
            action: SharedAction::RolledBack,
            of_version: Some(version),
            proposal: None,
            actor: by.actor.clone(),
            why: by.why.clone(),
            at: tx.now(),
        };
        self.apply(tx, &head, &next, &by.actor)?;
        let data = json!({"key": key, "version": next.version, "of_version": version, "by": by.actor});
        tx.append_event(&next.owner, None, None, EventDraft::business("shared.rolled_back", data))?;
        Ok(next)
    }

    /// Writes a version and lets its mirror take the place of the one before.
    fn apply(&self, tx: &mut Tx<'_>, head: &Head, next: &SharedVersion, said_by: &Actor) -> Result<(), ReviewError> {
        rows::insert_version(tx, next)?;
        let memory = match &next.said {
            Some(_) => Some(self.workspace.memory().insert(tx, &self.scope, &mirror(next, said_by))?),
            None => {
                if let Some(before) = &head.memory {
                    self.workspace.memory().forget(tx, &self.scope, before)?;
                }
                None
            }
        };
        rows::set_head(tx, &self.scope, &next.key, &Head { version: next.version, memory })?;
        Ok(())
    }
}

/// The fact by which a search finds a version.
fn mirror(version: &SharedVersion, said_by: &Actor) -> NewMemory {
    let source = match said_by {
        Actor::Person(_) => Source::User,
        Actor::Agent(_) | Actor::Proposer(_) => Source::Agent,
        Actor::System => Source::Harness,
    };
    let value = version.said.as_ref().map(|said| match &said.value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let line = |(name, value): (&String, &Value)| match value {
                Value::String(text) => format!("{name}: {text}"),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    format!("{name}: {value}")
                }
            };
            fields.iter().map(line).collect::<Vec<_>>().join("\n")
        }
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) => other.to_string(),
    });
    let mut mirror =
        NewMemory::new(COLLECTION, Kind::Fact, source, format!("{}\n{}", version.key, value.unwrap_or_default()));
    mirror.namespace = shared_partition();
    mirror.importance = IMPORTANCE;
    mirror.task = Some(version.owner.task.clone());
    mirror.happened_at = Some(version.at);
    mirror.fact = Some(Fact { subject: version.key.clone(), attribute: "value".to_owned(), ..Fact::default() });
    let at = json!({"key": version.key, "version": version.version, "reviewed_by": version.actor});
    mirror.meta.insert("at".to_owned(), at);
    mirror
}
