//! The one set of tools, the same in both modes (H1): the registry's tools and the harness's own.
//!
//! What the harness's own tools do is decided in [`crate::host`]; here is only what the model is told of them.

use longhaul_core::ToolSpec;
use serde_json::{Value, json};

/// Names of the tools that the harness carries out itself.
pub(crate) const DESCRIBE_PROJECT: &str = "describe_project";
pub(crate) const PLAN_FEATURES: &str = "plan_features";
pub(crate) const CLAIM_DONE: &str = "claim_done";
pub(crate) const HAND_OVER: &str = "hand_over";
pub(crate) const MEMORY_SEARCH: &str = "memory_search";
pub(crate) const MEMORY_ADD: &str = "memory_add";
pub(crate) const READ_REF: &str = "read_ref";
pub(crate) const PROPOSE_CHECK_CHANGE: &str = "propose_check_change";

/// The harness's own tools.
#[must_use]
pub(crate) fn own_specs() -> Vec<ToolSpec> {
    vec![
        spec(
            MEMORY_SEARCH,
            "Searches everything this project remembers: progress of earlier sessions, commits, notes. Finds by meaning \
             and by word.",
            &json!({
                "query": {"type": "string", "description": "what you want to know, in words"},
                "k": {"type": "integer", "minimum": 1, "maximum": 20, "description": "how many results, default 5"},
            }),
            &["query"],
        ),
        spec(
            MEMORY_ADD,
            "Remembers a note for later sessions: a decision, a pitfall, a convention.",
            &json!({
                "content": {"type": "string", "description": "the note, complete without its context"},
                "kind": {"type": "string", "description": "note, decision or lesson; default note"},
            }),
            &["content"],
        ),
        spec(
            READ_REF,
            "Shows a text that was put aside when it no longer fitted (`⟦put aside: … rec_…⟧`), or a part of it.",
            &json!({
                "ref": {"type": "string", "description": "the reference: rec_…"},
                "find": {"type": "string", "description": "show it from where this text occurs"},
                "from": {"type": "integer", "minimum": 0, "description": "first character, default 0"},
                "chars": {"type": "integer", "minimum": 1, "description": "how many characters"},
            }),
            &["ref"],
        ),
        spec(
            DESCRIBE_PROJECT,
            "Initializer only: says what is being built and how it is built, linted and tested.",
            &json!({
                "summary": {"type": "string", "description": "what the application is, for every later session"},
                "build": {"type": "string", "description": "shell command that builds it, if it needs building"},
                "lint": {"type": "string", "description": "shell command that checks the code"},
                "test": {"type": "string", "description": "shell command that runs the project's own tests"},
                "size": {"type": "string", "enum": ["small", "medium", "large"], "description": "how large the thing is that was asked for; the plan is held to it"},
            }),
            &["summary"],
        ),
        spec(
            PLAN_FEATURES,
            "Initializer only: adds features to the list, in order of priority. May be called several times. A mistake \
             is named with its place and nothing of the call is kept.",
            &json!({"features": {"type": "array", "items": {"type": "object"}, "description": "features as described in the prompt"}}),
            &["features"],
        ),
        spec(
            PROPOSE_CHECK_CHANGE,
            "Proposes other verification sentences and checks for a feature whose checks are wrong: they contradict the \
             request, or no correct application could fulfil them. Somebody else decides; until then the old ones hold.",
            &json!({
                "feature": {"type": "string", "description": "its id"},
                "reason": {"type": "string", "description": "what is wrong with the checks, and why these are right"},
                "steps": {"type": "array", "items": {"type": "string"}, "description": "all sentences, as they should be"},
                "checks": {"type": "array", "items": {"type": "object"}, "description": "all checks, as they should be"},
            }),
            &["feature", "reason", "steps", "checks"],
        ),
        spec(
            CLAIM_DONE,
            "Says that the work of this session is finished. The harness then runs the project's own checks and has the \
             verifier carry out the feature in a real browser.",
            &json!({
                "summary": {"type": "string", "description": "what was done and what later sessions should know"},
                "commit_message": {"type": "string", "description": "first line of the commit"},
            }),
            &["summary"],
        ),
        spec(
            HAND_OVER,
            "Ends the session without success and leaves a note for the next one. Unfinished changes are kept aside.",
            &json!({"note": {"type": "string", "description": "what you tried, what works, what is left"}}),
            &["note"],
        ),
    ]
}

fn spec(name: &str, description: &str, properties: &Value, required: &[&str]) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }),
    }
}
