//! Features: what the application must do, in rows that are the canonical list. The JSON files are projections of them.
//!
//! A feature's definition (sentences, checks) is written once and never changed; its standing changes only through
//! [`record_verdict`] and [`attempted`]. Invariant 1: `passes` follows a verdict of the verifier and nothing else.

use longhaul_core::{Digest, FeatureId, TaskScope, TimeMs, VerdictId};
use longhaul_store::{ReadTx, StoreError, Tx, values};
use serde::{Deserialize, Serialize};

use crate::{checks::Check, verification::RecordedVerdict};

const SCHEMA: i64 = 1;

/// What a feature is; locked before it is coded.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// Its id within the project.
    pub id: FeatureId,
    /// `functional`, `style`, … in the planner's words.
    pub category: String,
    /// One sentence.
    pub description: String,
    /// The verification sentences, for people.
    pub steps: Vec<String>,
    /// Features that must pass first.
    pub depends_on: Vec<FeatureId>,
    /// The same sentences in typed form, for the verifier.
    pub checks: Vec<Check>,
    /// Digest of sentences and checks; every verdict carries it.
    pub checks_hash: Digest,
}

/// Where a feature stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Whether the last verdict was a pass.
    pub passes: bool,
    /// Whether it was put aside after too many failed sessions. Parked is not done.
    pub parked: bool,
    /// Sessions that worked on it without making it pass since it last passed.
    pub attempts: u32,
    /// When it was last verified.
    pub verified_at: Option<TimeMs>,
    /// The last verdict.
    pub verdict: Option<VerdictId>,
    /// The commit with which it last began to pass.
    pub commit: Option<String>,
    /// Why it does not pass any more, when it was broken.
    pub broken: Option<String>,
    /// What is suspected to keep it from passing, in a sentence, when it was parked.
    #[serde(default)]
    pub suspected: Option<String>,
    /// Record with the whole diagnosis of why it was parked.
    #[serde(default)]
    pub diagnosis: Option<String>,
}

/// A feature and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Feature {
    /// What it is.
    pub definition: Definition,
    /// Where it stands.
    pub standing: Standing,
}

impl Feature {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &FeatureId {
        &self.definition.id
    }
}

/// Locks further features behind those there are.
///
/// # Errors
/// When the store cannot be written, or an id is already taken.
pub(crate) fn lock(tx: &mut Tx<'_>, owner: &TaskScope, from: usize, features: &[Definition]) -> Result<(), StoreError> {
    let now = tx.now();
    for (offset, feature) in features.iter().enumerate() {
        let json = |value: Result<String, serde_json::Error>| value.map_err(StoreError::record("feature", &feature.id));
        tx.execute(
            "insert into features (tenant_id, task_id, feature_id, position, category, description, steps, depends_on,
                 checks, checks_hash, locked_at, schema)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            &values![
                &owner.scope.tenant,
                &owner.task,
                &feature.id,
                from + offset,
                &feature.category,
                &feature.description,
                json(serde_json::to_string(&feature.steps))?,
                json(serde_json::to_string(&feature.depends_on))?,
                json(serde_json::to_string(&feature.checks))?,
                &feature.checks_hash,
                now,
                SCHEMA,
            ],
        )?;
        write_standing(tx, owner, &feature.id, &Standing::default())?;
    }
    Ok(())
}

/// All features of the task, in order of priority.
///
/// # Errors
/// When the store cannot be read, or a row is not what was written.
pub fn all(read: &ReadTx<'_>, owner: &TaskScope) -> Result<Vec<Feature>, StoreError> {
    read.query(
        "select f.feature_id, f.category, f.description, f.steps, f.depends_on, f.checks, f.checks_hash, s.standing
         from features f join feature_standing s
           on s.tenant_id = f.tenant_id and s.task_id = f.task_id and s.feature_id = f.feature_id
         where f.tenant_id = ?1 and f.task_id = ?2 order by f.position",
        &values![&owner.scope.tenant, &owner.task],
        |row| {
            let id: FeatureId = row.get(0)?;
            let unreadable = || StoreError::record("feature", &id);
            Ok(Feature {
                definition: Definition {
                    category: row.get(1)?,
                    description: row.get(2)?,
                    steps: serde_json::from_str(row.text(3)?).map_err(unreadable())?,
                    depends_on: serde_json::from_str(row.text(4)?).map_err(unreadable())?,
                    checks: serde_json::from_str(row.text(5)?).map_err(unreadable())?,
                    checks_hash: row.get(6)?,
                    id: id.clone(),
                },
                standing: serde_json::from_str(row.text(7)?).map_err(unreadable())?,
            })
        },
    )
}

/// Lets a verdict decide where a feature stands. `commit` is the commit that holds what was verified.
///
/// # Errors
/// When the store cannot be written.
pub(crate) fn record_verdict(
    tx: &mut Tx<'_>,
    owner: &TaskScope,
    verdict: &RecordedVerdict,
    before: &Standing,
    commit: Option<&str>,
) -> Result<Standing, StoreError> {
    let mut standing = before.clone();
    standing.verified_at = Some(tx.now());
    standing.verdict = Some(verdict.id().clone());
    standing.passes = verdict.passed();
    if verdict.passed() {
        standing.broken = None;
        if !before.passes {
            standing.attempts = 0;
            standing.parked = false;
            (standing.suspected, standing.diagnosis) = (None, None);
            standing.commit = commit.map(str::to_owned);
        }
    } else if before.passes {
        standing.broken = Some(verdict.reason().to_owned());
    }
    write_standing(tx, owner, verdict.feature(), &standing)?;
    Ok(standing)
}

/// Why a feature is parked: a sentence, and the record with the whole diagnosis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parked {
    pub(crate) suspected: String,
    pub(crate) diagnosis: String,
}

/// Counts a session that did not make the feature pass; parks it when there is a diagnosis.
///
/// # Errors
/// When the store cannot be written.
pub(crate) fn attempted(
    tx: &mut Tx<'_>,
    owner: &TaskScope,
    feature: &FeatureId,
    before: &Standing,
    parked: Option<Parked>,
) -> Result<Standing, StoreError> {
    let mut standing = before.clone();
    standing.attempts += 1;
    standing.parked = parked.is_some();
    if let Some(Parked { suspected, diagnosis }) = parked {
        (standing.suspected, standing.diagnosis) = (Some(suspected), Some(diagnosis));
    }
    write_standing(tx, owner, feature, &standing)?;
    Ok(standing)
}

/// Takes a parked feature up again, with all its attempts; a person's word, recorded with its reason. None when it is not
/// parked.
///
/// # Errors
/// When the store cannot be read or written.
pub fn unpark(
    tx: &mut Tx<'_>,
    owner: &TaskScope,
    id: &FeatureId,
    reason: &str,
) -> Result<Option<Standing>, StoreError> {
    let features = all(tx, owner)?;
    let Some(feature) = features.iter().find(|f| f.id() == id && f.standing.parked) else { return Ok(None) };
    let standing = Standing { parked: false, attempts: 0, ..feature.standing.clone() };
    write_standing(tx, owner, id, &standing)?;
    let last: i64 = tx.query_one(
        "select coalesce(max(seq), 0) from feature_changes where tenant_id = ?1 and task_id = ?2",
        &values![&owner.scope.tenant, &owner.task],
        |row| row.get(0),
    )?;
    let detail = serde_json::json!({"attempts": feature.standing.attempts, "diagnosis": feature.standing.diagnosis});
    let now = tx.now();
    tx.execute(
        "insert into feature_changes (tenant_id, task_id, seq, feature_id, change, changed_by, reason, detail, at, schema)
         values (?1, ?2, ?3, ?4, 'unparked', ?5, ?6, ?7, ?8, ?9)",
        &values![
            &owner.scope.tenant,
            &owner.task,
            last + 1,
            id,
            &owner.scope.user,
            reason,
            detail.to_string(),
            now,
            SCHEMA,
        ],
    )?;
    Ok(Some(standing))
}

fn write_standing(tx: &mut Tx<'_>, owner: &TaskScope, id: &FeatureId, standing: &Standing) -> Result<(), StoreError> {
    let json = serde_json::to_string(standing).map_err(StoreError::record("standing of feature", id))?;
    tx.execute(
        "insert into feature_standing (tenant_id, task_id, feature_id, standing, schema) values (?1, ?2, ?3, ?4, ?5)
         on conflict (tenant_id, task_id, feature_id) do update set standing = excluded.standing",
        &values![&owner.scope.tenant, &owner.task, id, json, SCHEMA],
    )?;
    Ok(())
}

/// The feature to work on: one that was broken first, else the first by priority that is open and whose dependencies
/// pass. None when nothing can be worked on.
#[must_use]
pub fn pick(features: &[Feature]) -> Option<&Feature> {
    let passes = |id: &FeatureId| features.iter().any(|f| f.id() == id && f.standing.passes);
    let open = |f: &&Feature| !f.standing.passes && !f.standing.parked;
    let broken = features.iter().filter(open).find(|f| f.standing.broken.is_some());
    broken.or_else(|| features.iter().filter(open).find(|f| f.definition.depends_on.iter().all(passes)))
}

/// The passing features whose last verification is longest ago, at most `most`; ties go by priority.
#[must_use]
pub fn sample_for_regression(features: &[Feature], most: usize) -> Vec<&Feature> {
    let mut passing: Vec<&Feature> = features.iter().filter(|f| f.standing.passes).collect();
    passing.sort_by_key(|f| f.standing.verified_at);
    passing.truncate(most);
    passing
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::parse_batch;

    /// Features F01, F02, …; the function says where each stands and what it depends on.
    fn features(standings: &[(Standing, &[&str])]) -> Vec<Feature> {
        let planned: Vec<_> = standings
            .iter()
            .enumerate()
            .map(|(n, (_, depends_on))| {
                json!({
                    "id": format!("F{:02}", n + 1), "category": "c", "description": format!("d{n}"), "steps": ["s"],
                    "depends_on": depends_on,
                    "checks": [
                        {"step": 1, "check": "goto", "path": "/"},
                        {"step": 1, "check": "expect", "target": {"role": "main"}, "visible": true},
                    ],
                })
            })
            .collect();
        let parsed = parse_batch(&json!({"features": planned}), &[]).unwrap();
        let pairs = parsed.into_iter().zip(standings);
        pairs.map(|(definition, (standing, _))| Feature { definition, standing: standing.clone() }).collect()
    }

    fn passing(at: i64) -> Standing {
        Standing { passes: true, verified_at: Some(TimeMs(at)), ..Standing::default() }
    }

    fn picked(standings: &[(Standing, &[&str])]) -> Option<String> {
        pick(&features(standings)).map(|f| f.id().to_string())
    }

    #[test]
    fn what_broke_comes_first_then_priority_then_what_dependencies_allow() {
        let open = Standing::default;
        let parked = || Standing { parked: true, ..open() };
        let broken = || Standing { broken: Some("gone".into()), ..open() };
        assert_eq!(picked(&[(passing(1), &[]), (open(), &[]), (broken(), &[])]).as_deref(), Some("F03"));
        assert_eq!(picked(&[(passing(1), &[]), (open(), &[]), (open(), &[])]).as_deref(), Some("F02"));
        assert_eq!(picked(&[(parked(), &[]), (open(), &["F01"]), (open(), &[])]).as_deref(), Some("F03"));
        assert_eq!(picked(&[(parked(), &[]), (open(), &["F01"])]), None);
        assert_eq!(picked(&[(passing(1), &[])]), None);
    }

    #[test]
    fn the_sample_is_what_was_verified_longest_ago() {
        let all = features(&[(passing(30), &[]), (passing(10), &[]), (Standing::default(), &[]), (passing(10), &[])]);
        let sample: Vec<&str> = sample_for_regression(&all, 2).iter().map(|f| f.id().as_str()).collect();
        assert_eq!(sample, ["F02", "F04"]);
    }
}
