//! What becomes of an agent's requests for permission: rules of the user's, and what a person said before.
//!
//! The sandbox is the boundary, and holds whatever is allowed here; these rules are for what a user wants to see first.

use longhaul_agent::acp::{AskedPermission, Permission};
use serde::{Deserialize, Serialize};

/// Rules by kind of call and what it is about: `execute`, `execute:*git push*`, `fetch`, `*`. The kinds are the protocol's:
/// read, edit, delete, move, search, execute, think, fetch, other. What stands behind the colon is compared with the title
/// and with the arguments as JSON; `*` is any text. The strictest rule that fits decides; what fits none is allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PermissionRules {
    /// Allowed, even where a rule of `ask` fits.
    pub allow: Vec<String>,
    /// A person is asked.
    pub ask: Vec<String>,
    /// Refused.
    pub deny: Vec<String>,
}

/// What a person said about a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Decision {
    pub(crate) kind: String,
    pub(crate) title: String,
    pub(crate) input: String,
    pub(crate) is_allowed: bool,
}

/// Decides a request. Pure.
pub(super) fn decide(rules: &PermissionRules, decisions: &[Decision], asked: &AskedPermission) -> Permission {
    let fits = |list: &[String]| list.iter().any(|rule| fits(rule, asked));
    if fits(&rules.deny) {
        return Permission::Deny;
    }
    if let Some(said) = decisions.iter().rev().find(|said| said.is_about(asked)) {
        return if said.is_allowed { Permission::Allow } else { Permission::Deny };
    }
    if !fits(&rules.allow) && fits(&rules.ask) { Permission::Ask } else { Permission::Allow }
}

impl Decision {
    /// The same arguments; the title alone where there are none.
    fn is_about(&self, asked: &AskedPermission) -> bool {
        self.kind == asked.kind
            && if self.input.is_empty() { self.title == asked.title } else { self.input == asked.input }
    }
}

fn fits(rule: &str, asked: &AskedPermission) -> bool {
    let (kind, about) = rule.split_once(':').unwrap_or((rule, "*"));
    matches(kind.trim(), &asked.kind) && (matches(about, &asked.title) || matches(about, &asked.input))
}

/// Whether a text is what a pattern with `*` for any text says.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(kind: &str, input: &str) -> AskedPermission {
        AskedPermission::about(kind, "Run a command", input)
    }

    #[test]
    fn the_strictest_rule_decides_and_what_a_person_said_counts() {
        let rules = PermissionRules {
            allow: vec!["execute:*git status*".into()],
            ask: vec!["execute:*git*".into(), "fetch".into()],
            deny: vec!["*:*rm -rf /*".into()],
        };
        let decide = |decisions: &[Decision], asked: &AskedPermission| decide(&rules, decisions, asked);
        assert_eq!(decide(&[], &asked("edit", "{}")), Permission::Allow);
        assert_eq!(decide(&[], &asked("execute", r#"{"command":"git status"}"#)), Permission::Allow);
        assert_eq!(decide(&[], &asked("execute", r#"{"command":"rm -rf / && git push"}"#)), Permission::Deny);
        let push = asked("execute", r#"{"command":"git push"}"#);
        assert_eq!(decide(&[], &push), Permission::Ask);
        let said = |is_allowed| Decision {
            kind: "execute".into(),
            title: String::new(),
            input: r#"{"command":"git push"}"#.into(),
            is_allowed,
        };
        assert_eq!(decide(&[said(true)], &push), Permission::Allow);
        assert_eq!(decide(&[said(true), said(false)], &push), Permission::Deny);
        assert_eq!(decide(&[said(true)], &asked("execute", r#"{"command":"git push -f"}"#)), Permission::Ask);
    }

    #[test]
    fn patterns_are_whole_texts() {
        assert!(matches("*", "") && matches("a*c", "abbc") && matches("a", "a") && matches("*b*", "abc"));
        assert!(!matches("a", "ab") && !matches("a*c", "abcd") && !matches("*x*", "abc") && !matches("ab*ba", "aba"));
    }
}
