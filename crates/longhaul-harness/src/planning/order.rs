//! Dependencies between features: on what is planned, and never in a circle.

use std::collections::BTreeMap;

use longhaul_core::FeatureId;

use super::batch::PlanError;
use crate::features::Definition;

/// What is wrong with the dependencies of a batch, beside what exists.
pub(super) fn faults(batch: &[Definition], existing: &[Definition]) -> Vec<PlanError> {
    let mut found = Vec::new();
    let edges: BTreeMap<&FeatureId, &[FeatureId]> =
        existing.iter().chain(batch).map(|feature| (&feature.id, feature.depends_on.as_slice())).collect();
    for (index, feature) in batch.iter().enumerate() {
        for (n, wanted) in feature.depends_on.iter().enumerate() {
            let place = format!("features[{index}].depends_on[{n}]");
            if !edges.contains_key(wanted) {
                let message = format!("{wanted} is not planned; plan it in this call or before, or leave it out");
                found.push(PlanError::at(place, message));
            } else if let Some(circle) = circle(&feature.id, wanted, &edges) {
                found.push(PlanError::at(place, format!("depends in a circle: {circle}; take one of these away")));
            }
        }
    }
    found
}

/// The way from `wanted` back to `start`, if there is one: `F03 → F05 → F03`.
fn circle(start: &FeatureId, wanted: &FeatureId, edges: &BTreeMap<&FeatureId, &[FeatureId]>) -> Option<String> {
    let mut ways = vec![vec![start, wanted]];
    let mut seen = Vec::new();
    while let Some(way) = ways.pop() {
        let last = *way.last()?;
        if last == start {
            return Some(way.iter().map(|id| id.as_str()).collect::<Vec<_>>().join(" → "));
        }
        if seen.contains(&last) {
            continue;
        }
        seen.push(last);
        for next in edges.get(last).copied().unwrap_or_default() {
            ways.push(way.iter().copied().chain([next]).collect());
        }
    }
    None
}
