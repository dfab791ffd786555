//! What the server answers: who it is, which tools there are, and what a call came to.
//!
//! Invariant: what is wrong with a call's arguments, or went wrong within a tool, is a result a model can read; a
//! protocol error is for what no tool can answer (an unknown name, an unknown cursor, a cancelled call).

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use longhaul_core::ToolCall;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
    },
    service::RequestContext,
};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::McpSettings;
use crate::{Attachment, ToolHints, ToolOutput, ToolRegistry};

/// Largest structured part of a result; above it the text has to do.
const STRUCTURED_BYTES_MAX: usize = 256 * 1024;
/// Largest image that is handed on.
const IMAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// An MCP server over a registry of tools. Cheap to clone; clones share the bound on calls at once.
#[derive(Clone)]
pub struct McpServer {
    shared: Arc<Shared>,
}

struct Shared {
    tools: ToolRegistry,
    listed: Vec<Tool>,
    settings: McpSettings,
    turns: Semaphore,
}

impl McpServer {
    /// A server of these tools.
    #[must_use]
    pub fn new(tools: ToolRegistry, settings: McpSettings) -> Self {
        let listed = tools.described().map(|(spec, hints)| listed(spec, hints)).collect();
        let turns = Semaphore::new(settings.calls_at_once_max.max(1));
        Self { shared: Arc::new(Shared { tools, listed, settings, turns }) }
    }

    pub(super) fn settings(&self) -> &McpSettings {
        &self.shared.settings
    }

    async fn answer(&self, call: &ToolCall) -> ToolOutput {
        let limit = self.shared.settings.call_max;
        let work = async {
            // The semaphore is never closed; were it, a call without a turn does no harm.
            let _turn = self.shared.turns.acquire().await.ok();
            self.shared.tools.call(call).await
        };
        tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            ToolOutput::error(format!(
                "{} did not end within {} s and was given up; ask for less at once, or try again later",
                call.name,
                limit.as_secs_f32()
            ))
        })
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let settings = &self.shared.settings;
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(settings.name.clone(), settings.version.clone()))
            .with_instructions(settings.instructions.clone())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        // There is one page, so no cursor was ever given out.
        if let Some(cursor) = request.and_then(|request| request.cursor) {
            let shown: String = cursor.chars().take(40).collect();
            return Err(ErrorData::invalid_params(format!("unknown cursor {shown:?}; list again without one"), None));
        }
        Ok(ListToolsResult::with_all_items(self.shared.listed.clone()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.shared.listed.iter().find(|tool| tool.name == name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.into_owned();
        self.shared.tools.check_name(&name).map_err(|problem| ErrorData::invalid_params(problem, None))?;
        let arguments = Value::Object(request.arguments.unwrap_or_default()).to_string();
        let call = ToolCall { id: context.id.to_string(), name, arguments };
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the client cancelled the call", None)),
            output = self.answer(&call) => Ok(result(output).into()),
        }
    }
}

fn listed(spec: &longhaul_core::ToolSpec, hints: ToolHints) -> Tool {
    let schema: JsonObject = spec.parameters.as_object().cloned().unwrap_or_default();
    let annotations = ToolAnnotations::from_raw(
        hints.title.clone(),
        Some(hints.read_only),
        Some(hints.destructive),
        Some(hints.idempotent),
        Some(hints.open_world),
    );
    let tool = Tool::new(spec.name.clone(), spec.description.clone(), Arc::new(schema)).with_annotations(annotations);
    match hints.title {
        Some(title) => tool.with_title(title),
        None => tool,
    }
}

fn result(output: ToolOutput) -> CallToolResult {
    let ToolOutput { text, is_error, attachments, structured } = output;
    let mut content = vec![ContentBlock::text(text)];
    content.extend(attachments.into_iter().map(attached));
    let mut result = if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content =
        structured.filter(|value| value.is_object() && value.to_string().len() <= STRUCTURED_BYTES_MAX);
    result
}

/// Images are shown; of other files the client is told the name.
fn attached(attachment: Attachment) -> ContentBlock {
    let Attachment { name, media_type, bytes } = attachment;
    if media_type.starts_with("image/") && bytes.len() <= IMAGE_BYTES_MAX {
        return ContentBlock::image(STANDARD.encode(&bytes), media_type);
    }
    ContentBlock::text(format!("[attached: {name}, {media_type}, {} bytes, not shown]", bytes.len()))
}
