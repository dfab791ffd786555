//! Settings of what the agent's tools may do: rules on calls, hosts, servers of tools. Only the user's own files set them.

use std::path::PathBuf;

use longhaul_tools::{
    mcp::McpServerSpec,
    policy::{Action, Policy},
    sandbox::{HostRule, HostRuleError},
};

use super::{Sources, Values, value::Written};

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

/// Where the user keeps skills, the first before the others: beside the user's `longhaul.toml`, and where Claude Code looks.
pub(super) fn skill_folders(sources: &Sources) -> Vec<PathBuf> {
    let own = sources.config_dir.as_ref().map(|folder| folder.join("skills"));
    let shared = sources.user_home.as_ref().map(|home| home.join(".claude/skills"));
    own.into_iter().chain(shared).collect()
}

/// `[mcp.servers.NAME]` with `command`, `args` and `allow`; anything else in one is refused.
pub(super) fn servers(written: &Written) -> Option<Vec<McpServerSpec>> {
    let Written::Json(serde_json::Value::Object(tables)) = written else { return None };
    let fits = |name: &str| {
        (1..=24).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let known = ["command", "args", "allow"];
    let server = |(name, table): (&String, &serde_json::Value)| {
        let table = table.as_object()?;
        let texts = |key: &str| match table.get(key) {
            None => Some(Vec::new()),
            Some(list) => list.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
        };
        let command = table.get("command")?.as_str().filter(|command| !command.trim().is_empty())?.to_owned();
        (fits(name) && table.keys().all(|key| known.contains(&key.as_str()))).then_some(())?;
        Some(McpServerSpec { name: name.clone(), command, args: texts("args")?, allow: hosts(&texts("allow")?).ok()? })
    };
    tables.iter().map(server).collect()
}
