//! The pictures of `visual` checks that were accepted: kept as records of the workspace, by feature and name. The first
//! verdict that passes makes them, or a person who says so; nothing else does, and no tool can.

use longhaul_core::{FeatureId, TaskScope};
use longhaul_durable::StepError;
use longhaul_store::{StoreError, Tx, values};
use longhaul_workspace::RecordRef;

use crate::{environment::Harness, verifier::Baselines};

const SCHEMA: i64 = 1;

/// The accepted pictures of a feature.
pub(crate) async fn accepted(
    harness: &Harness,
    owner: &TaskScope,
    feature: &FeatureId,
) -> Result<Baselines, StepError> {
    let (scope, wanted) = (owner.clone(), feature.clone());
    let rows: Vec<(String, RecordRef)> = harness
        .store
        .read::<_, StoreError>(move |read| {
            read.query(
                "select name, record from accepted_pictures where tenant_id = ?1 and task_id = ?2 and feature_id = ?3",
                &values![&scope.scope.tenant, &scope.task, &wanted],
                |row| {
                    let name = row.text(0)?.to_owned();
                    let record = serde_json::from_str(row.text(1)?).map_err(StoreError::record("picture", &name))?;
                    Ok((name, record))
                },
            )
        })
        .await
        .map_err(StepError::from)?;
    let mut pictures = Baselines::new();
    for (name, record) in rows {
        let (_, content) = harness.workspace.task(owner).read(&record.id).await.map_err(StepError::from)?;
        pictures.insert(name, content);
    }
    Ok(pictures)
}

/// Accepts a picture; of one name the first stays, unless `anew`.
pub(crate) fn accept(
    tx: &mut Tx<'_>,
    owner: &TaskScope,
    feature: &FeatureId,
    (name, record): (&str, &RecordRef),
    (by, anew): (&str, bool),
) -> Result<(), StoreError> {
    let json = serde_json::to_string(record).map_err(StoreError::record("picture", name))?;
    let now = tx.now();
    let (scope, task) = (&owner.scope.tenant, &owner.task);
    if anew {
        tx.execute(
            "delete from accepted_pictures where tenant_id = ?1 and task_id = ?2 and feature_id = ?3 and name = ?4",
            &values![scope, task, feature, name],
        )?;
    }
    tx.execute(
        "insert into accepted_pictures (tenant_id, task_id, feature_id, name, record, accepted_by, at, schema)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) on conflict (tenant_id, task_id, feature_id, name) do nothing",
        &values![scope, task, feature, name, json, by, now, SCHEMA],
    )?;
    Ok(())
}
