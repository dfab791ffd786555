//! The tools of user memory, as `longhaul_memory::tools` defines them for every host.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ToolSpec;
use longhaul_memory::{
    tools::{self, Caller, USER_MEMORY_GET},
    user::{By, UserMemory},
};
use longhaul_tools::{Tool, ToolHints, ToolOutput};
use serde_json::Value;

use super::{AGENT, Desk};

struct UserTool {
    desk: Arc<Desk>,
    spec: ToolSpec,
}

/// All of them.
pub(super) fn all(desk: &Arc<Desk>) -> Vec<Arc<dyn Tool>> {
    let tool = |spec| Arc::new(UserTool { desk: desk.clone(), spec }) as Arc<dyn Tool>;
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
        if self.spec.name == USER_MEMORY_GET {
            ToolHints::reads("What is known of the user")
        } else {
            ToolHints::changes("Change what is known of the user")
        }
    }

    async fn call(&self, arguments: Value) -> ToolOutput {
        let memories = &self.desk.memories;
        let memory = UserMemory::new(memories.memory().clone());
        // The conversation is the client's and not known here, so there are no turns to compare with.
        let caller = Caller { scope: memories.scope().clone(), by: By::agent(AGENT, None), turns: Vec::new() };
        match tools::call(&memory, &caller, &self.spec.name, &arguments).await {
            Ok(Some(answer)) => {
                ToolOutput { is_error: answer.is_error, ..ToolOutput::ok(answer.text).with_structured(answer.data) }
            }
            Ok(None) => ToolOutput::error(format!("{} is not offered here", self.spec.name)),
            Err(error) => ToolOutput::error(format!("the store failed: {error}; try again")),
        }
    }
}
