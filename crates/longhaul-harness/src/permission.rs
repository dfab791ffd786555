//! Whether a tool call of a session is carried out: the policy's decision, and a person's where the policy asks.
//!
//! A question is a durable wait (`longhaul waits`, `approve`, `reject`) which shows the exact arguments; the run ends
//! until it is answered, and goes on with the answer. Invariants: what was decided is found again on replay by what was
//! recorded, whatever the settings say by then; an approval is for the call that was shown, or, if the person says so,
//! for its tool during this session.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use longhaul_core::{EventDraft, ToolCall};
use longhaul_durable::{Answer, NodeContext, NodeError, Wait};
use longhaul_tools::{
    ToolRegistry,
    policy::{Action, Call, Policy, Provenance},
};
use serde::Deserialize;
use serde_json::{Value, json};

/// Longest arguments that a person is shown, in bytes; a call with more is refused rather than approved unseen.
const SHOWN_BYTES_MAX: usize = 32 * 1024;
const NAME_CHARS_MAX: usize = 80;

/// What is permitted in one session beyond the policy, and what the session has read.
#[derive(Debug, Default)]
pub(crate) struct Permissions(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Tools that a person allowed for the rest of the session.
    granted: BTreeSet<String>,
    /// Where text from outside came from, the first source.
    outside: Option<String>,
}

/// What became of a call before it is carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Permit {
    /// It is carried out; a person's word on it, if one was needed.
    Yes { asked: Option<String> },
    /// It is not; this is what the model is told and why.
    No { text: String, why: String },
}

/// A person's answer.
#[derive(Debug, Deserialize)]
struct Word {
    approved: bool,
    #[serde(default)]
    reason: Option<String>,
    /// `call` (the default) or `session`.
    #[serde(default, rename = "for")]
    scope: Option<String>,
}

impl Permissions {
    /// The conversation has read text from outside.
    pub(crate) fn has_read(&self, source: &str) {
        self.lock().outside.get_or_insert_with(|| source.to_owned());
    }

    /// Decides on a call, waiting for a person where the policy asks.
    ///
    /// # Errors
    /// [`NodeError::Suspended`] while nobody has answered, and those of waiting.
    pub(crate) async fn permit(
        &self,
        ctx: &NodeContext,
        policy: &Policy,
        registry: &ToolRegistry,
        session: u32,
        call: &ToolCall,
    ) -> Result<Permit, NodeError> {
        let yes = Permit::Yes { asked: None };
        // What is no call of a known tool is told to the model by the registry.
        let Ok(arguments @ Value::Object(_)) = serde_json::from_str::<Value>(&call.arguments) else { return Ok(yes) };
        if registry.check_name(&call.name).is_err() {
            return Ok(yes);
        }
        let question = question(&call.name);
        let why = match ctx.recorded_next() {
            Some(recorded) if recorded == question => String::new(),
            // It was decided without asking, and its result is recorded.
            Some(_) => return Ok(yes),
            None => {
                let decision = self.decide(policy, registry, &call.name, &arguments);
                match decision.action {
                    Action::Allow => return Ok(yes),
                    Action::Deny => return Ok(denied(&call.name, decision.why)),
                    Action::Ask if call.arguments.len() > SHOWN_BYTES_MAX => {
                        let why = format!(
                            "its arguments are too long to be shown to a person ({SHOWN_BYTES_MAX} bytes at most)"
                        );
                        return Ok(denied(&call.name, why));
                    }
                    Action::Ask => decision.why,
                }
            }
        };
        let wait = Wait::approval(&question)
            .payload(json!({"tool": call.name, "arguments": arguments, "why": why, "session": session}))
            .schema(json!({
                "type": "object",
                "properties": {
                    "approved": {"type": "boolean"},
                    "reason": {"type": "string"},
                    "for": {"enum": ["call", "session"]},
                },
                "required": ["approved"],
            }));
        Ok(self.heard(&call.name, ctx.pause_for(wait).await?))
    }

    fn heard(&self, tool: &str, answer: Answer<Word>) -> Permit {
        let by = match &answer {
            Answer::Given { actor, .. } => actor.clone(),
            Answer::Expired { .. } => "nobody".to_owned(),
        };
        match answer.into_value() {
            Some(Word { approved: true, scope, .. }) => {
                if scope.as_deref() == Some("session") {
                    self.lock().granted.insert(tool.to_owned());
                }
                Permit::Yes { asked: Some(format!("approved by {by}")) }
            }
            Some(Word { approved: false, reason, .. }) => {
                let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
                let text = format!(
                    "error: a person refused this call of {tool}{reason}. It was not carried out; go on without it, or hand over"
                );
                Permit::No { text, why: format!("refused by {by}{reason}") }
            }
            None => denied(tool, "nobody answered in time".to_owned()),
        }
    }

    fn decide(
        &self,
        policy: &Policy,
        registry: &ToolRegistry,
        tool: &str,
        arguments: &Value,
    ) -> longhaul_tools::policy::Decision {
        let standing = registry.standing(tool);
        let known = self.lock();
        let unnamed = if known.granted.contains(tool) { Action::Allow } else { standing.unnamed };
        let provenance = match &known.outside {
            // The person who allowed the tool for the session has weighed that.
            Some(source) if !known.granted.contains(tool) => Provenance::Outside(source),
            Some(_) | None => Provenance::Own,
        };
        policy.decide(&Call { tool, arguments, reach: standing.reach, provenance, unnamed })
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The event of a decision that was not the tool's own default.
pub(crate) fn event(tool: &str, decision: &str, why: &str) -> EventDraft {
    EventDraft::business("agent.permission", json!({"tool": tool, "decision": decision, "why": why}))
}

fn question(tool: &str) -> String {
    let tool: String = tool.chars().take(NAME_CHARS_MAX).collect();
    format!("allow {tool}")
}

fn denied(tool: &str, why: String) -> Permit {
    let text = format!(
        "error: {tool} may not be called like this: {why}. It was not carried out; do it another way, or hand over"
    );
    Permit::No { text, why }
}
