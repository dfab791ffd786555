//! The search of past conversations, as `longhaul_workspace::sessions::tool` defines it for every host.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ToolSpec;
use longhaul_tools::{Tool, ToolHints, ToolOutput};
use longhaul_workspace::sessions::tool;
use serde_json::Value;

use super::Desk;

struct ConversationSearch {
    desk: Arc<Desk>,
}

/// All of them.
pub(super) fn all(desk: &Arc<Desk>) -> Vec<Arc<dyn Tool>> {
    vec![Arc::new(ConversationSearch { desk: desk.clone() })]
}

#[async_trait]
impl Tool for ConversationSearch {
    fn spec(&self) -> ToolSpec {
        tool::spec()
    }

    fn changes_work_tree(&self) -> bool {
        false
    }

    fn hints(&self) -> ToolHints {
        ToolHints::reads("Search past conversations")
    }

    async fn call(&self, arguments: Value) -> ToolOutput {
        let memories = &self.desk.memories;
        match tool::call(&memories.sessions(), None, memories.zone(), &arguments).await {
            Ok(answer) => {
                ToolOutput { is_error: answer.is_error, ..ToolOutput::ok(answer.text).with_structured(answer.data) }
            }
            Err(error) => ToolOutput::error(format!("the store failed: {error}; try again")),
        }
    }
}
