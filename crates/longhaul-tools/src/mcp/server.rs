//! What the server answers: who it is, which tools there are and what else is on its shelf, what a call came to.
//!
//! Invariant: what is wrong with a call's arguments, or went wrong within a tool, is a result a model can read; a
//! protocol error is for what no tool can answer (an unknown name, an unknown cursor, a cancelled call).

#![expect(deprecated, reason = "clients of 2025-11-25 still set a level and subscribe")]

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use longhaul_core::ToolCall;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult,
        CompletionInfo, ContentBlock, GetPromptRequestParams, GetPromptResponse, GetPromptResult, Implementation,
        InputResponses, JsonObject, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListToolsResult, PaginatedRequestParams, Prompt, ReadResourceRequestParams, ReadResourceResponse,
        ReadResourceResult, Resource, ResourceTemplate, ServerCapabilities, ServerConfig, SetLevelRequestParams,
        SubscribeRequestParams, SubscriptionFilter, Tool, ToolAnnotations, UnsubscribeRequestParams,
    },
    service::{RequestContext, SubscriptionContext},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{McpSettings, Offers, Shelf, Talk, seal::Seal, shelf::Subscribers};
use crate::{Attachment, ToolHints, ToolOutput, ToolRegistry};

/// Largest structured part of a result; above it the text has to do.
const STRUCTURED_BYTES_MAX: usize = 256 * 1024;
/// How long a list may be believed; nothing on a shelf changes while a server runs.
const LISTED_MS: u64 = 60_000;
/// Most completions of an answer, by the protocol.
const COMPLETIONS_MAX: usize = 100;
/// Largest image that is handed on.
const IMAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A shelf and what is on it, in the protocol's types.
struct Stocked {
    shelf: Arc<dyn Shelf>,
    names: Vec<String>,
    prompts: Vec<Prompt>,
    resources: Vec<Resource>,
    templates: Vec<ResourceTemplate>,
    completions: bool,
    logging: bool,
}

/// An MCP server over a registry of tools. Cheap to clone; clones share the bound on calls at once.
#[derive(Clone)]
pub struct McpServer {
    shared: Arc<Shared>,
}

struct Shared {
    tools: ToolRegistry,
    shelf: Option<Stocked>,
    seal: Arc<Seal>,
    subscribers: Arc<Subscribers>,
    listed: Vec<Tool>,
    settings: McpSettings,
    turns: Semaphore,
}

impl McpServer {
    /// A server of these tools.
    #[must_use]
    pub fn new(tools: ToolRegistry, settings: McpSettings) -> Self {
        Self::stocked(tools, settings, None, [0; 4])
    }

    /// A server of these tools and of what is on the shelf. The random words are the key to what calls keep with their
    /// clients.
    #[must_use]
    pub fn with_shelf(tools: ToolRegistry, settings: McpSettings, shelf: Arc<dyn Shelf>, random: [u64; 4]) -> Self {
        Self::stocked(tools, settings, Some(shelf), random)
    }

    fn stocked(tools: ToolRegistry, settings: McpSettings, shelf: Option<Arc<dyn Shelf>>, random: [u64; 4]) -> Self {
        let mut listed: Vec<Tool> = tools.described().map(|(spec, hints)| self::listed(spec, hints)).collect();
        let shelf = shelf.map(|shelf| {
            let Offers { tools, prompts, resources, templates, completions, logging } = shelf.offers();
            let tools: Vec<Tool> = parsed(tools);
            let names = tools.iter().map(|tool| tool.name.to_string()).collect();
            listed.extend(tools);
            let (prompts, resources, templates) = (parsed(prompts), parsed(resources), parsed(templates));
            Stocked { shelf, names, prompts, resources, templates, completions, logging }
        });
        let turns = Semaphore::new(settings.calls_at_once_max.max(1));
        let (seal, subscribers) = (Arc::new(Seal::new(random)), Arc::default());
        Self { shared: Arc::new(Shared { tools, shelf, seal, subscribers, listed, settings, turns }) }
    }

    /// The tools as `tools/list` shows them.
    #[must_use]
    pub fn listed(&self) -> Value {
        json!({ "tools": self.shared.listed })
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
        let mut capabilities = ServerCapabilities::builder().enable_tools().build();
        if let Some(stocked) = &self.shared.shelf {
            let has = |there: bool| there.then(|| json!({}));
            capabilities.tools = typed(Some(json!({ "listChanged": true })));
            let prompts = !stocked.prompts.is_empty();
            capabilities.prompts = typed(prompts.then(|| json!({ "listChanged": true })));
            let readable = !stocked.resources.is_empty() || !stocked.templates.is_empty();
            capabilities.resources = typed(readable.then(|| json!({ "subscribe": true })));
            capabilities.completions = typed(has(stocked.completions));
            capabilities.logging = typed(has(stocked.logging));
        }
        ServerConfig::new(capabilities)
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
        let listed = ListToolsResult::with_all_items(self.shared.listed.clone());
        Ok(listed.with_ttl_ms(LISTED_MS).with_cache_scope(CacheScope::Private))
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
        if let Some(stocked) = self.shared.shelf.as_ref().filter(|stocked| stocked.names.contains(&name)) {
            let (answers, state) = (request.input_responses, request.request_state);
            let mut talk = self.talk(context, answers, state.as_deref())?;
            let arguments = request.arguments.unwrap_or_default();
            let limit = self.shared.settings.call_max;
            let called = tokio::time::timeout(limit, stocked.shelf.call(&name, arguments, &mut talk)).await;
            return match called {
                Ok(Ok(result)) => answered::<CallToolResult>(result).map(Into::into),
                Ok(Err(stop)) => talk.stopped(stop).map(Into::into),
                Err(_) => Ok(result(ToolOutput::error(format!("{name} did not end in time and was given up"))).into()),
            };
        }
        self.shared.tools.check_name(&name).map_err(|problem| ErrorData::invalid_params(problem, None))?;
        let arguments = Value::Object(request.arguments.unwrap_or_default()).to_string();
        let call = ToolCall { id: context.id.to_string(), name, arguments };
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the client cancelled the call", None)),
            output = self.answer(&call) => Ok(result(output).into()),
        }
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = self.shared.shelf.as_ref().map(|stocked| stocked.prompts.clone()).unwrap_or_default();
        let listed = ListPromptsResult::with_all_items(prompts);
        Ok(listed.with_ttl_ms(LISTED_MS).with_cache_scope(CacheScope::Private))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let stocked = self.stocked_prompt(&request.name)?;
        let (answers, state) = (request.input_responses, request.request_state);
        let mut talk = self.talk(context, answers, state.as_deref())?;
        let arguments = request.arguments.unwrap_or_default();
        match stocked.shelf.prompt(&request.name, arguments, &mut talk).await {
            Ok(prompt) => answered::<GetPromptResult>(prompt).map(Into::into),
            Err(stop) => talk.stopped(stop).map(Into::into),
        }
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = self.shared.shelf.as_ref().map(|stocked| stocked.resources.clone()).unwrap_or_default();
        let listed = ListResourcesResult::with_all_items(resources);
        Ok(listed.with_ttl_ms(LISTED_MS).with_cache_scope(CacheScope::Private))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let templates = self.shared.shelf.as_ref().map(|stocked| stocked.templates.clone()).unwrap_or_default();
        let listed = ListResourceTemplatesResult::with_all_items(templates);
        Ok(listed.with_ttl_ms(LISTED_MS).with_cache_scope(CacheScope::Private))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = self.readable(&request.uri).await?;
        let read: ReadResourceResult = answered(json!({ "contents": contents }))?;
        Ok(read.with_ttl_ms(LISTED_MS).with_cache_scope(CacheScope::Private).into())
    }

    // What is read from a shelf does not change while a server runs, so who subscribes to it is told nothing.
    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.readable(&request.uri).await.map(drop)
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let _held = self.shared.subscribers.add(context.sink().clone());
        context.cancelled().await;
        Ok(())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let Some(stocked) = &self.shared.shelf else { return Ok(CompleteResult::default()) };
        let of = serde_json::to_value(&request.r#ref).unwrap_or_default();
        let mut values = stocked.shelf.complete(&of, &request.argument.name, &request.argument.value).await;
        values.truncate(COMPLETIONS_MAX);
        let values = CompletionInfo::new(values).map_err(|problem| ErrorData::internal_error(problem, None))?;
        Ok(CompleteResult::new(values))
    }

    async fn set_level(
        &self,
        _request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // What is logged is logged to every client of the session that calls; there is little of it.
        Ok(())
    }
}

impl McpServer {
    fn talk(
        &self,
        context: RequestContext<RoleServer>,
        answers: Option<InputResponses>,
        state: Option<&str>,
    ) -> Result<Talk, ErrorData> {
        Talk::new(context, answers, state, self.shared.seal.clone(), self.shared.subscribers.clone())
    }

    fn stocked_prompt(&self, name: &str) -> Result<&Stocked, ErrorData> {
        let stocked = self.shared.shelf.as_ref();
        stocked.filter(|stocked| stocked.prompts.iter().any(|prompt| prompt.name == name)).ok_or_else(|| {
            let shown: String = name.chars().take(80).collect();
            ErrorData::invalid_params(format!("there is no prompt {shown:?}; list them"), None)
        })
    }

    async fn readable(&self, uri: &str) -> Result<Value, ErrorData> {
        let contents = match &self.shared.shelf {
            Some(stocked) => stocked.shelf.read(uri).await,
            None => None,
        };
        contents.ok_or_else(|| {
            let shown: String = uri.chars().take(200).collect();
            ErrorData::resource_not_found(
                format!("there is no resource {shown:?}; list them"),
                Some(json!({ "uri": shown })),
            )
        })
    }
}

/// A shelf's answer in the protocol's type: complete, as what is not ends otherwise.
fn answered<T: DeserializeOwned>(mut value: Value) -> Result<T, ErrorData> {
    if let Some(answer) = value.as_object_mut() {
        answer.insert("resultType".to_owned(), "complete".into());
    }
    whole(value)
}

/// A value of a shelf in the protocol's type.
fn whole<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| {
        tracing::error!(%error, "a shelf gave what the protocol does not know");
        ErrorData::internal_error("the server made an answer that the protocol does not know", None)
    })
}

/// Those of the values that are what they should be; the others are said in the log.
fn parsed<T: DeserializeOwned>(values: Vec<Value>) -> Vec<T> {
    values.into_iter().filter_map(|value| whole(value).ok()).collect()
}

fn typed<T: DeserializeOwned>(value: Option<Value>) -> Option<T> {
    value.and_then(|value| serde_json::from_value(value).ok())
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
