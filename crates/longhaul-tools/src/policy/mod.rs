//! Whether a call of a tool may be carried out: allow, ask, deny. Pure: rules and facts in, a decision out.
//!
//! It does not ask anybody and carries nothing out; the harness waits for a person where the answer is [`Action::Ask`].
//! Invariants: the strictest rule that names a call decides, whatever the order; a call that no rule names is decided by
//! its tool's own default; what text from outside may have caused is not sent outside without asking.
//!
//! A rule on the text of a shell command is a courtesy, not a boundary: there are too many ways to write a command. The
//! boundary is the sandbox.

mod pattern;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use pattern::{Pattern, PatternError};

/// What becomes of a call; the stricter one is the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It is carried out.
    Allow,
    /// A person is asked, who sees its exact arguments.
    Ask,
    /// It is refused.
    Deny,
}

impl Action {
    /// As it is written and shown.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// How far a call reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The sandbox and the project.
    Inside,
    /// Systems outside of it: what is sent there cannot be taken back.
    Outside,
}

/// What may have caused a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provenance<'a> {
    /// The user's request, the plan, the project's own output.
    Own,
    /// The conversation holds text from elsewhere, from this source.
    Outside(&'a str),
}

/// One call as the policy sees it.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// Its arguments.
    pub arguments: &'a Value,
    /// How far it reaches.
    pub reach: Reach,
    /// What may have caused it.
    pub provenance: Provenance<'a>,
    /// What becomes of it if no rule names it.
    pub unnamed: Action,
}

/// What becomes of a call, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What.
    pub action: Action,
    /// One clause for whoever is asked or refused.
    pub why: String,
}

/// The user's rules. Only the user's own settings make one; nothing inside a project does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    allow: Vec<Pattern>,
    ask: Vec<Pattern>,
    deny: Vec<Pattern>,
    after_outside: Action,
}

impl Default for Policy {
    /// No rules; what text from outside may have caused is asked for before it reaches outside.
    fn default() -> Self {
        Self { allow: Vec::new(), ask: Vec::new(), deny: Vec::new(), after_outside: Action::Ask }
    }
}

impl Policy {
    /// A policy of these patterns.
    ///
    /// # Errors
    /// [`PatternError`] for a text that is no pattern.
    pub fn new(allow: &[String], ask: &[String], deny: &[String]) -> Result<Self, PatternError> {
        let parse = |texts: &[String]| texts.iter().map(|text| text.parse()).collect::<Result<Vec<Pattern>, _>>();
        Ok(Self { allow: parse(allow)?, ask: parse(ask)?, deny: parse(deny)?, ..Self::default() })
    }

    /// The same with another answer to calls which reach outside after the conversation read text from outside, where
    /// everything else would allow them.
    #[must_use]
    pub fn after_outside(mut self, action: Action) -> Self {
        self.after_outside = action;
        self
    }

    /// What becomes of a call.
    #[must_use]
    pub fn decide(&self, call: &Call<'_>) -> Decision {
        for (action, patterns) in [(Action::Deny, &self.deny), (Action::Ask, &self.ask)] {
            if let Some(rule) = patterns.iter().find(|pattern| pattern.touches(call.tool, call.arguments)) {
                return Decision { action, why: format!("the rule `{} = {rule}` of the settings", action.as_str()) };
            }
        }
        let allowed = self.allow.iter().find(|pattern| pattern.covers(call.tool, call.arguments));
        let decided = match allowed {
            Some(rule) => Decision { action: Action::Allow, why: format!("the rule `allow = {rule}` of the settings") },
            None => Decision { action: call.unnamed, why: "no rule of the settings names it".to_owned() },
        };
        match (call.reach, call.provenance) {
            (Reach::Outside, Provenance::Outside(source)) if self.after_outside > decided.action => Decision {
                action: self.after_outside,
                why: format!("it reaches outside, and this conversation has read text from {source}"),
            },
            (Reach::Outside | Reach::Inside, Provenance::Outside(_) | Provenance::Own) => decided,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(allow: &[&str], ask: &[&str], deny: &[&str]) -> Policy {
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Policy::new(&own(allow), &own(ask), &own(deny)).expect("patterns")
    }

    fn call<'a>(tool: &'a str, arguments: &'a Value) -> Call<'a> {
        Call { tool, arguments, reach: Reach::Inside, provenance: Provenance::Own, unnamed: Action::Allow }
    }

    #[test]
    fn the_strictest_rule_decides_whatever_the_order() {
        let rules = policy(&["*"], &["mcp__*"], &["mcp__mail__delete*"]);
        let none = json!({});
        for (tool, action) in
            [("shell", Action::Allow), ("mcp__mail__send", Action::Ask), ("mcp__mail__delete_all", Action::Deny)]
        {
            assert_eq!(rules.decide(&call(tool, &none)).action, action, "{tool}");
        }
        let unnamed = Call { unnamed: Action::Ask, ..call("mcp__x__y", &none) };
        assert_eq!(Policy::default().decide(&unnamed).action, Action::Ask);
        assert_eq!(Policy::default().decide(&call("shell", &none)).action, Action::Allow);
    }

    #[test]
    fn arguments_can_be_named() {
        let rules = policy(&["mcp__mail__send(to=*@example.org)"], &[], &["shell(command=*git push*)"]);
        let send = |to: Value| {
            let arguments = json!({ "to": to, "text": "hello" });
            rules.decide(&Call { unnamed: Action::Ask, ..call("mcp__mail__send", &arguments) }).action
        };
        assert_eq!(send(json!("ann@example.org")), Action::Allow);
        assert_eq!(send(json!(["ann@example.org", "bob@example.org"])), Action::Allow);
        // One address elsewhere is enough to ask; so is none, and something that is no text.
        assert_eq!(send(json!(["ann@example.org", "eve@evil.example"])), Action::Ask);
        assert_eq!(send(json!([])), Action::Ask);
        assert_eq!(send(json!({"address": "ann@example.org"})), Action::Ask);
        let push = json!({ "command": "cd a\ngit push origin" });
        assert_eq!(rules.decide(&call("shell", &push)).action, Action::Deny);
        assert_eq!(rules.decide(&call("shell", &json!({ "command": "ls" }))).action, Action::Allow);
    }

    #[test]
    fn what_text_from_outside_may_have_caused_is_not_sent_outside_unasked() {
        let rules = policy(&["*"], &[], &[]);
        let none = json!({});
        let outside = Call { reach: Reach::Outside, ..call("mcp__mail__send", &none) };
        assert_eq!(rules.decide(&outside).action, Action::Allow);
        let read = Call { provenance: Provenance::Outside("mcp server web"), ..outside };
        let decision = rules.decide(&read);
        assert_eq!(decision.action, Action::Ask);
        assert!(decision.why.contains("mcp server web"), "{}", decision.why);
        assert_eq!(rules.decide(&Call { reach: Reach::Inside, ..read }).action, Action::Allow);
        assert_eq!(rules.clone().after_outside(Action::Deny).decide(&read).action, Action::Deny);
        assert_eq!(rules.after_outside(Action::Allow).decide(&read).action, Action::Allow);
        // A refusal is never weakened to a question.
        assert_eq!(policy(&[], &[], &["*"]).decide(&read).action, Action::Deny);
    }
}
