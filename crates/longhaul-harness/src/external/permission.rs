//! What becomes of an agent's requests for permission: the user's policy, and what a person said before.
//!
//! The sandbox is the boundary, and holds whatever is allowed here; the policy is for what a user wants to see first. A call
//! of an agent's own tool has the policy's name `agent__KIND` with the protocol's kinds: read, edit, delete, move, search,
//! execute, think, fetch, other. Where no rule names it, it is allowed.

use longhaul_agent::acp::{AskedPermission, Permission};
use longhaul_tools::policy::{Action, Call, Policy, Provenance, Reach};
use serde::{Deserialize, Serialize};

/// What a person said about a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Decision {
    pub(crate) kind: String,
    pub(crate) title: String,
    pub(crate) input: String,
    pub(crate) is_allowed: bool,
}

/// Decides a request. Pure.
pub(super) fn decide(policy: &Policy, decisions: &[Decision], asked: &AskedPermission) -> Permission {
    let tool = format!("agent__{}", asked.kind);
    let reach = if asked.kind == "fetch" { Reach::Outside } else { Reach::Inside };
    let call =
        Call { tool: &tool, arguments: &asked.arguments, reach, provenance: Provenance::Own, unnamed: Action::Allow };
    match policy.decide(&call).action {
        Action::Allow => Permission::Allow,
        Action::Deny => Permission::Deny,
        Action::Ask => match decisions.iter().rev().find(|said| said.is_about(asked)) {
            Some(Decision { is_allowed: true, .. }) => Permission::Allow,
            Some(Decision { is_allowed: false, .. }) => Permission::Deny,
            None => Permission::Ask,
        },
    }
}

impl Decision {
    /// The same arguments; the title alone where there are none.
    fn is_about(&self, asked: &AskedPermission) -> bool {
        self.kind == asked.kind
            && if self.input.is_empty() { self.title == asked.title } else { self.input == asked.input }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(kind: &str, command: &str) -> AskedPermission {
        AskedPermission::about(kind, "Run a command", json!({ "command": command }))
    }

    #[test]
    fn the_policy_decides_and_where_it_asks_what_a_person_said_counts() {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let (ask, deny) = (texts(&["agent__execute(command=*git*)"]), texts(&["agent__*(command=*rm -rf /*)"]));
        let policy = Policy::new(&[], &ask, &deny).unwrap();
        let decide = |decisions: &[Decision], asked: &AskedPermission| decide(&policy, decisions, asked);
        assert_eq!(decide(&[], &asked("edit", "")), Permission::Allow);
        assert_eq!(decide(&[], &asked("execute", "rm -rf / && git push")), Permission::Deny);
        let push = asked("execute", "git push");
        assert_eq!(decide(&[], &push), Permission::Ask);
        let said = |is_allowed| Decision {
            kind: "execute".into(),
            title: String::new(),
            input: r#"{"command":"git push"}"#.into(),
            is_allowed,
        };
        assert_eq!(decide(&[said(true)], &push), Permission::Allow);
        assert_eq!(decide(&[said(true), said(false)], &push), Permission::Deny);
        assert_eq!(decide(&[said(true)], &asked("execute", "git push -f")), Permission::Ask);
        assert_eq!(decide(&[said(true)], &asked("execute", "rm -rf / && git push")), Permission::Deny);
    }
}
