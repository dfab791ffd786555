//! The tools of user memory: edit and show. What they are called and what they do is `longhaul_memory::tools`'s.
//!
//! A client's conversation is not known here, so an edit is taken as the user's wish, made at once, and kept in the
//! history as an agent's: whoever lets text from outside into a client's conversation is asked by that client before a
//! tool that changes something is called ([`ToolHints`]), and any version can be restored.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ToolSpec;
use longhaul_memory::{
    tools::{self, Caller, MEMORY_USER_EDITS},
    user::{By, UserMemory},
};
use longhaul_tools::{Tool, ToolHints, ToolOutput};
use serde_json::Value;

use super::Desk;

/// The name in the history of edits that came over MCP.
const AGENT: &str = "mcp";

struct UserTool {
    spec: ToolSpec,
    desk: Arc<Desk>,
}

/// All of them.
pub(super) fn all(desk: &Arc<Desk>) -> Vec<Arc<dyn Tool>> {
    let tool = |spec: ToolSpec| Arc::new(UserTool { spec, desk: desk.clone() }) as Arc<dyn Tool>;
    tools::specs().into_iter().map(tool).collect()
}

#[async_trait]
impl Tool for UserTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn changes_work_tree(&self) -> bool {
        false
    }

    fn hints(&self) -> ToolHints {
        if self.spec.name == MEMORY_USER_EDITS {
            return ToolHints::changes("Change what is remembered of the user");
        }
        ToolHints::reads("Show what is remembered of the user")
    }

    async fn call(&self, arguments: Value) -> ToolOutput {
        let memories = &self.desk.memories;
        let user = UserMemory::new(memories.memory().clone());
        let caller = Caller { scope: memories.scope().clone(), by: By::agent(AGENT, None), turns: Vec::new() };
        match tools::call(&user, &caller, &self.spec.name, &arguments).await {
            Ok(Some(answer)) if answer.is_error => ToolOutput::error(answer.text),
            Ok(Some(answer)) => ToolOutput::ok(answer.text).with_structured(answer.data),
            Ok(None) => ToolOutput::error(format!("there is no tool {}", self.spec.name)),
            Err(error) => ToolOutput::error(format!("the store failed: {error}; try again")),
        }
    }
}
