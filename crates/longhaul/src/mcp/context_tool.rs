//! The tool that gathers what is kept of a task: a context pack, within a budget.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::{TaskId, ToolSpec};
use longhaul_tools::{Tool, ToolHints, ToolOutput};
use longhaul_workspace::context::ContextPack;
use serde_json::{Value, json};

use super::{Desk, arguments as args};
use crate::Packing;

/// Largest budget of one call: an answer of this size still fits the windows of today's models.
const BUDGET_TOKENS_MAX: u64 = 100_000;
/// Omissions that are named in the text; all of them are in the structured answer.
const OMITTED_SHOWN_MAX: usize = 20;

struct ContextTool {
    desk: Arc<Desk>,
    /// Names of the profiles there are.
    profiles: Vec<String>,
}

pub(super) fn tool(desk: &Arc<Desk>) -> Arc<dyn Tool> {
    Arc::new(ContextTool { desk: desk.clone(), profiles: desk.memories.profiles() })
}

const ABOUT: &str = "\
Gather what is kept of a task for the next step of work: its records (drafts, decisions with their evidence, \
observations), what was said about it, and what is remembered of the user, chosen within a budget of tokens. Use it when \
you begin or take up work on a task; state what is to be done as the goal. Use memory_search for a single question. \
Everything that was left out is named with its reason; it changes nothing.";

#[async_trait]
impl Tool for ContextTool {
    fn spec(&self) -> ToolSpec {
        let parameters = json!({"type": "object", "required": ["goal"], "properties": {
            "goal": {"type": "string", "description": "What is to be done, in a sentence: revise the report after the latest approval comments"},
            "task": {"type": "string", "description": "task_…; all of the user's tasks without it"},
            "budget_tokens": {"type": "integer", "minimum": 0, "maximum": BUDGET_TOKENS_MAX, "description": "Most tokens of the answer, 12000 by default"},
            "profile": {"type": "string", "enum": self.profiles, "description": "What it is to consist of"},
            "namespaces": {"type": "array", "items": {"type": "string"}, "maxItems": 16, "description": "Parts of memory to search instead of the usual one"}}});
        ToolSpec { name: "build_context".to_owned(), description: ABOUT.to_owned(), parameters }
    }

    fn changes_work_tree(&self) -> bool {
        false
    }

    fn hints(&self) -> ToolHints {
        ToolHints::reads("Gather what is kept of a task")
    }

    async fn call(&self, arguments: Value) -> ToolOutput {
        self.desk.build_context(arguments).await.unwrap_or_else(ToolOutput::error)
    }
}

impl Desk {
    async fn build_context(&self, arguments: Value) -> Result<ToolOutput, String> {
        let given: args::BuildContext = args::read(arguments)?;
        let task = given.task.map(|task| task.parse::<TaskId>().map_err(|error| error.to_string())).transpose()?;
        let mut namespaces =
            given.namespaces.iter().map(|name| args::namespace(name)).collect::<Result<Vec<_>, _>>()?;
        if namespaces.is_empty() {
            namespaces.push(self.options.namespace.clone());
        }
        let budget_tokens = given.budget_tokens.map(|tokens| tokens.min(BUDGET_TOKENS_MAX));
        let packing = Packing { goal: given.goal, task, budget_tokens, profile: given.profile, namespaces };
        let pack = self.memories.pack(&packing).await.map_err(|error| error.to_string())?;
        let structured = serde_json::to_value(&pack).map_err(|error| error.to_string())?;
        Ok(ToolOutput::ok(told(&pack)).with_structured(structured))
    }
}

/// The pack as a model reads it, with what was left out in a few lines.
fn told(pack: &ContextPack) -> String {
    let mut text = pack.render();
    if text.is_empty() {
        text = "Nothing that is kept fits this goal and budget.".to_owned();
    }
    let (items, omitted) = (pack.items.len(), pack.omitted.len());
    text.push_str(&format!("\n{items} items, {} of {} tokens", pack.used_tokens, pack.budget_tokens));
    if omitted > 0 {
        text.push_str(&format!("; {omitted} left out:"));
        for of in pack.omitted.iter().take(OMITTED_SHOWN_MAX) {
            text.push_str(&format!("\n- {}: {}", of.id, of.reason));
        }
    }
    pack.notes.iter().for_each(|note| text.push_str(&format!("\nnote: {note}")));
    text
}
