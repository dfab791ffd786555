//! What the reviewer looks for. Rules, not a model: the example runs anywhere, and always comes to the same result.

use longhaul_knowledge::block::{Document, Place};
use serde::{Deserialize, Serialize};

/// Something in the contract that somebody should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Finding {
    pub(crate) page: u32,
    pub(crate) topic: String,
    pub(crate) severity: u8,
    pub(crate) quote: String,
}

/// Words that tell of a risk: all of a rule's words must be in one sentence.
const RULES: [(&[&str], &str, u8); 8] = [
    (&["liability", "customer", "unlimited"], "unlimited liability of the customer", 3),
    (&["liability", "supplier", "limited to"], "liability of the supplier is limited", 2),
    (&["penalty"], "penalty", 2),
    (&["renews itself"], "renewal without asking", 2),
    (&["change prices at any time"], "prices may change at any time", 3),
    (&["personal data", "without"], "personal data without consent", 3),
    (&["责任", "不受限制"], "liability of the supplier without limit (Chinese annex)", 2),
    (&["同等效力"], "two languages of equal force", 1),
];

/// The findings of a document, by page.
pub(crate) fn findings(document: &Document) -> Vec<Finding> {
    let mut found = Vec::new();
    for block in &document.blocks {
        let page = match block.place {
            Place::Pages(first, _) => first,
            Place::Lines(..) => 0,
        };
        for sentence in sentences(&block.text) {
            let lower = sentence.to_lowercase();
            for (words, topic, severity) in RULES {
                if words.iter().all(|word| lower.contains(word)) {
                    let (topic, quote) = (topic.to_owned(), sentence.clone());
                    found.push(Finding { page, topic, severity, quote });
                }
            }
        }
    }
    found
}

/// Sentences of several languages; a number like `9.1` ends none.
fn sentences(text: &str) -> Vec<String> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut sentences = Vec::new();
    let mut rest = text.as_str();
    while let Some(end) = rest.find(". ").map(|at| at + 1).into_iter().chain(rest.find('。').map(|at| at + 3)).min() {
        sentences.push(rest[..end].trim().to_owned());
        rest = &rest[end..];
    }
    sentences.push(rest.trim().to_owned());
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

/// `high`, `medium` or `low`.
pub(crate) fn risk_level(findings: &[Finding]) -> &'static str {
    match findings.iter().map(|finding| finding.severity).max() {
        Some(3..) => "high",
        Some(2) => "medium",
        Some(_) | None => "low",
    }
}

/// The report: `comments` are what the reviewer said of the draft.
pub(crate) fn report(findings: &[Finding], refs: &[String], comments: Option<&str>) -> String {
    let mut text = format!(
        "# Review of the supply agreement{}\n\nRisk: {}. {} clauses need attention.\n\n",
        if comments.is_some() { "" } else { " (draft)" },
        risk_level(findings),
        findings.len()
    );
    for (finding, id) in findings.iter().zip(refs) {
        text.push_str(&format!(
            "- Page {}: {} (severity {}). \"{}\" [{id}]\n",
            finding.page, finding.topic, finding.severity, finding.quote
        ));
    }
    if let Some(comments) = comments {
        text.push_str(&format!("\n## After approval\n\nThe reviewer's comments were taken up: {comments}\n"));
    }
    text
}
