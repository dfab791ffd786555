//! What a model is told about a tool, and how it asks for one. Shared by the model port, the registry and the agent.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name, `[a-z_]+`.
    pub name: String,
    /// When and how to use it.
    pub description: String,
    /// JSON Schema of the arguments object.
    pub parameters: Value,
}

/// A model's request to run a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The model's id for this call, echoed with its result.
    pub id: String,
    /// Name of the tool asked for; it may not exist.
    pub name: String,
    /// The arguments as the model wrote them: normally a JSON object, possibly text that is not JSON.
    pub arguments: String,
}
