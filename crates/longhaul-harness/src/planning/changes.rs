//! What people change of a locked plan: features come, go, or are split. Agents have no way here.
//!
//! Invariant: a change, its entry in the audit trail and its event are one transaction. Nothing is deleted: a feature that
//! goes keeps its rows and verdicts, and its id is never used again.

use longhaul_core::{EventDraft, FeatureId, TaskScope, TimeMs};
use longhaul_store::{ReadTx, StoreError, Tx, values};
use serde::Serialize;
use serde_json::{Value, json};

use super::batch::{PlanError, parse_within};
use crate::features::{self, Definition, Feature};

const SCHEMA: i64 = 1;
/// Most characters of a reason.
const REASON_CHARS_MAX: usize = 2_000;

/// What a person wants.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Further features, as `{"features": [...]}`.
    Add(Value),
    /// These instead of one.
    Split {
        /// Which.
        feature: FeatureId,
        /// Its parts, as `{"features": [...]}`; at least two.
        parts: Value,
    },
    /// One feature less.
    Retire {
        /// Which.
        feature: FeatureId,
    },
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// Features that are new in the plan.
    pub added: Vec<FeatureId>,
    /// The feature that is no longer part of it.
    pub retired: Option<FeatureId>,
    /// Features whose dependencies were moved to the parts.
    pub rewired: Vec<FeatureId>,
    /// Features in the plan now.
    pub total: usize,
}

/// Why a plan was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The features are not as features must be.
    #[error("{}", told(.0))]
    Plan(PlanError),
    /// No such feature.
    #[error("there is no feature {feature} in the plan; `longhaul features` lists them")]
    NoSuchFeature {
        /// The id.
        feature: FeatureId,
    },
    /// Something that goes away is needed.
    #[error(
        "{feature} cannot be retired, as {} depend on it; retire those first, or split it",
        .needed_by.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Needed {
        /// The feature.
        feature: FeatureId,
        /// What depends on it.
        needed_by: Vec<FeatureId>,
    },
    /// Nothing would be left.
    #[error("{feature} is the last feature of the plan; add another one first")]
    Last {
        /// The feature.
        feature: FeatureId,
    },
    /// One part is no split.
    #[error("a split needs at least two parts; give them as {{\"features\": [ …, … ]}}")]
    OnePart,
    /// Nobody said why.
    #[error("a reason is missing; say why with --reason \"…\", it is kept")]
    NoReason,
    /// The plan is being made.
    #[error("the plan is not locked yet; finish it with `longhaul run`, then change it")]
    NotPlanned,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn told(error: &PlanError) -> String {
    let mut text = error.to_string();
    for other in &error.more {
        text.push_str("\n  ");
        text.push_str(other);
    }
    text
}

/// One entry of the audit trail.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recorded {
    /// Its number, from 1.
    pub seq: u64,
    /// The feature.
    pub feature: String,
    /// `added`, `split`, `retired`, `checks_changed` or `change_rejected`.
    pub change: String,
    /// Who decided: a person's name, or the reviewer.
    pub by: String,
    /// Why.
    pub reason: String,
    /// What else there is to it.
    pub detail: Value,
    /// When.
    pub at: TimeMs,
}

/// Changes the plan.
///
/// # Errors
/// When the change makes no sense; then nothing is changed.
pub fn apply(
    tx: &mut Tx<'_>,
    owner: &TaskScope,
    by: &str,
    reason: &str,
    change: Change,
) -> Result<Changed, ChangeError> {
    let reason: String = reason.trim().chars().take(REASON_CHARS_MAX).collect();
    let active = features::all(tx, owner)?;
    let retired: Vec<FeatureId> = features::retired(tx, owner)?.iter().map(|f| f.id().clone()).collect();
    let wanted = match &change {
        Change::Add(_) => None,
        Change::Split { feature, .. } | Change::Retire { feature } => {
            if reason.is_empty() {
                return Err(ChangeError::NoReason);
            }
            let found = active.iter().find(|f| f.id() == feature);
            Some(found.ok_or_else(|| ChangeError::NoSuchFeature { feature: feature.clone() })?)
        }
    };
    let mut rest: Vec<Definition> = active.iter().map(|f| f.definition.clone()).collect();
    if let Some(wanted) = wanted {
        rest.retain(|f| f.id != *wanted.id());
    }
    let mut taken = retired.clone();
    taken.extend(wanted.map(|f| f.id().clone()));
    let parse = |value: &Value| parse_within(value, &rest, &taken).map_err(ChangeError::Plan);
    let from = active.len() + retired.len();
    let trail = Trail { owner, by, reason: &reason };
    match &change {
        Change::Add(value) => add(tx, &trail, from, &parse(value)?, active.len()),
        Change::Split { feature, parts } => {
            let parts = parse(parts)?;
            if parts.len() < 2 {
                return Err(ChangeError::OnePart);
            }
            split(tx, &trail, from, feature, &parts, &active)
        }
        Change::Retire { feature } => retire(tx, &trail, feature, &active),
    }
}

struct Trail<'a> {
    owner: &'a TaskScope,
    by: &'a str,
    reason: &'a str,
}

impl Trail<'_> {
    fn record(&self, tx: &mut Tx<'_>, feature: &FeatureId, change: &str, detail: &Value) -> Result<(), StoreError> {
        record(tx, self.owner, feature, change, (self.by, self.reason), detail)
    }

    fn tell(&self, tx: &mut Tx<'_>, kind: &str, data: Value) -> Result<(), StoreError> {
        tx.append_event(self.owner, None, None, EventDraft::business(kind, data)).map(drop)
    }
}

fn add(
    tx: &mut Tx<'_>,
    trail: &Trail<'_>,
    from: usize,
    batch: &[Definition],
    before: usize,
) -> Result<Changed, ChangeError> {
    features::lock(tx, trail.owner, from, batch)?;
    for feature in batch {
        trail.record(tx, &feature.id, "added", &json!({"checks_hash": feature.checks_hash}))?;
        let data = json!({
            "feature": feature.id, "description": feature.description, "by": trail.by, "reason": trail.reason,
        });
        trail.tell(tx, "feature.added", data)?;
    }
    let added: Vec<FeatureId> = batch.iter().map(|f| f.id.clone()).collect();
    Ok(Changed { total: before + added.len(), added, retired: None, rewired: Vec::new() })
}

fn split(
    tx: &mut Tx<'_>,
    trail: &Trail<'_>,
    from: usize,
    whole: &FeatureId,
    parts: &[Definition],
    active: &[Feature],
) -> Result<Changed, ChangeError> {
    features::lock(tx, trail.owner, from, parts)?;
    features::retire(tx, trail.owner, whole)?;
    let ids: Vec<FeatureId> = parts.iter().map(|part| part.id.clone()).collect();
    let mut rewired = Vec::new();
    for feature in active.iter().filter(|f| f.definition.depends_on.contains(whole)) {
        let kept = feature.definition.depends_on.iter().filter(|id| *id != whole);
        let depends_on: Vec<FeatureId> = kept.chain(&ids).cloned().collect();
        features::depend(tx, trail.owner, feature.id(), &depends_on)?;
        rewired.push(feature.id().clone());
    }
    trail.record(tx, whole, "split", &json!({"into": ids, "rewired": rewired}))?;
    let data = json!({"feature": whole, "into": ids, "by": trail.by, "reason": trail.reason});
    trail.tell(tx, "feature.split", data)?;
    let total = active.len() - 1 + ids.len();
    Ok(Changed { added: ids, retired: Some(whole.clone()), rewired, total })
}

fn retire(tx: &mut Tx<'_>, trail: &Trail<'_>, feature: &FeatureId, active: &[Feature]) -> Result<Changed, ChangeError> {
    let needs = active.iter().filter(|f| f.definition.depends_on.contains(feature));
    let needed_by: Vec<FeatureId> = needs.map(|f| f.id().clone()).collect();
    if !needed_by.is_empty() {
        return Err(ChangeError::Needed { feature: feature.clone(), needed_by });
    }
    if active.len() == 1 {
        return Err(ChangeError::Last { feature: feature.clone() });
    }
    features::retire(tx, trail.owner, feature)?;
    let passed = active.iter().any(|f| f.id() == feature && f.standing.passes);
    trail.record(tx, feature, "retired", &json!({"passed": passed}))?;
    trail.tell(tx, "feature.retired", json!({"feature": feature, "by": trail.by, "reason": trail.reason}))?;
    Ok(Changed { added: Vec::new(), retired: Some(feature.clone()), rewired: Vec::new(), total: active.len() - 1 })
}

/// Writes an entry of the audit trail; `(by, reason)` say who and why.
pub(crate) fn record(
    tx: &mut Tx<'_>,
    owner: &TaskScope,
    feature: &FeatureId,
    change: &str,
    (by, reason): (&str, &str),
    detail: &Value,
) -> Result<(), StoreError> {
    let now = tx.now();
    tx.execute(
        "insert into feature_changes (tenant_id, task_id, seq, feature_id, change, changed_by, reason, detail, at, schema)
         select ?1, ?2, coalesce(max(seq), 0) + 1, ?3, ?4, ?5, ?6, ?7, ?8, ?9 from feature_changes
         where tenant_id = ?1 and task_id = ?2",
        &values![
            &owner.scope.tenant,
            &owner.task,
            feature,
            change,
            by,
            reason,
            detail.to_string(),
            now,
            SCHEMA
        ],
    )?;
    Ok(())
}

/// The audit trail of a plan, oldest first.
///
/// # Errors
/// When the store cannot be read.
pub fn recorded(read: &ReadTx<'_>, owner: &TaskScope) -> Result<Vec<Recorded>, StoreError> {
    read.query(
        "select seq, feature_id, change, changed_by, reason, detail, at from feature_changes
         where tenant_id = ?1 and task_id = ?2 order by seq",
        &values![&owner.scope.tenant, &owner.task],
        |row| {
            Ok(Recorded {
                seq: row.get(0)?,
                feature: row.get(1)?,
                change: row.get(2)?,
                by: row.get(3)?,
                reason: row.get(4)?,
                detail: serde_json::from_str(row.text(5)?).map_err(StoreError::record("change of a plan", "detail"))?,
                at: row.get(6)?,
            })
        },
    )
}
