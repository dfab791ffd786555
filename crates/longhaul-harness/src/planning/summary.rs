//! What the initializer is told of the plan so far: short enough for any window, so that a plan of hundreds of features is
//! made over as many calls and sittings as it takes.

use std::collections::BTreeMap;

use super::batch::BATCH_MAX;
use crate::features::Feature;

/// Characters of a description in the digest.
const DESCRIPTION_CHARS_MAX: usize = 70;
/// Tokens that one planned feature takes, by experience.
const FEATURE_TOKENS: u64 = 400;
/// Ids that a category shows when descriptions have no room.
const IDS_SHOWN: usize = 400;

/// The plan within about so many characters: every feature with its description, or as many of the newest as there is room
/// for and the others by category.
pub(crate) fn digest(features: &[Feature], chars_max: usize) -> String {
    let mut lines = Vec::new();
    let mut used = 0;
    let mut named = 0;
    for feature in features.iter().rev() {
        let description: String = feature.definition.description.chars().take(DESCRIPTION_CHARS_MAX).collect();
        let line = format!("- {} {description}", feature.id());
        used += line.len() + 1;
        if used > chars_max {
            break;
        }
        lines.push(line);
        named += 1;
    }
    lines.reverse();
    let before = &features[..features.len() - named];
    if before.is_empty() {
        return lines.join("\n");
    }
    let mut categories: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for feature in before {
        categories.entry(&feature.definition.category).or_default().push(feature.id().as_str());
    }
    let mut text = String::new();
    for (category, ids) in categories {
        let shown = ids.iter().take(IDS_SHOWN).copied().collect::<Vec<_>>().join(" ");
        text.push_str(&format!("- {category} ({}): {shown}\n", ids.len()));
    }
    text.push_str(&lines.join("\n"));
    text
}

/// How many features a call should have, so that neither an answer nor the window is filled by one.
pub(crate) fn batch_hint(window_tokens: u64, answer_tokens_max: u32) -> usize {
    let by_answer = u64::from(answer_tokens_max) / 2 / FEATURE_TOKENS;
    let by_window = window_tokens / 6 / FEATURE_TOKENS;
    usize::try_from(by_answer.min(by_window)).unwrap_or(BATCH_MAX).clamp(2, BATCH_MAX / 2)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{features::Standing, planning::parse_batch};

    #[test]
    fn a_plan_of_any_size_fits() {
        let mut features = Vec::new();
        for n in 0..200 {
            let planned = json!({"features": [{
                "id": format!("F{n:03}"), "category": if n % 2 == 0 { "style" } else { "functional" },
                "description": format!("Thing number {n} does {}", "something ".repeat(8)), "steps": ["Open the page"],
                "checks": [
                    {"step": 1, "check": "goto", "path": "/"},
                    {"step": 1, "check": "expect", "target": {"role": "main"}, "visible": true},
                ],
            }]});
            let definition = parse_batch(&planned, &[]).unwrap().remove(0);
            features.push(Feature { definition, standing: Standing::default(), proposal: None });
        }
        let short = digest(&features, 1_000);
        assert!(short.len() < 2_600, "{}", short.len());
        assert!(
            short.contains("style (") && short.contains("F000") && short.contains("\n- F199 Thing number 199"),
            "{short}"
        );
        assert_eq!(digest(&features[..3], 1_000).lines().count(), 3);
        assert_eq!(batch_hint(128_000, 16_000), 20);
        assert_eq!(batch_hint(8_000, 2_000), 2);
    }
}
