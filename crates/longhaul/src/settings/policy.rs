//! Settings of what the agent's tools may do: rules on calls, hosts, servers of tools. Only the user's own files set them.

use longhaul_tools::{
    policy::{Action, Policy},
    sandbox::{HostRule, HostRuleError},
};

use super::Values;

/// The hosts of a list.
pub(super) fn hosts(texts: &[String]) -> Result<Vec<HostRule>, HostRuleError> {
    texts.iter().map(|text| text.parse()).collect()
}

/// The rules, which were checked when they were read.
pub(super) fn policy(values: &Values) -> Policy {
    let texts = |key| values.texts(key);
    let policy = Policy::new(&texts("policy.allow"), &texts("policy.ask"), &texts("policy.deny"));
    policy.unwrap_or_default().after_outside(match values.text("policy.after_outside").as_deref() {
        Some("allow") => Action::Allow,
        Some("deny") => Action::Deny,
        Some(_) | None => Action::Ask,
    })
}
