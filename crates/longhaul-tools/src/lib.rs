//! Tools an agent may use: the registry, policy, files, the sandboxed shell and the browser.
//!
//! ```
//! use std::sync::Arc;
//! use longhaul_core::ToolCall;
//! use longhaul_tools::{Tool, ToolRegistry, files};
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! # runtime.block_on(async {
//! let project = tempfile::tempdir()?;
//! let registry = ToolRegistry::new(files::tools(project.path())?)?;
//! let call = |name: &str, arguments: &str| ToolCall {
//!     id: "call_1".to_owned(), name: name.to_owned(), arguments: arguments.to_owned(),
//! };
//! let output = registry.call(&call("write_file", r#"{"path": "a.txt", "content": "one\n"}"#)).await;
//! assert_eq!(output.text, "wrote a.txt (4 bytes)");
//! let refused = registry.call(&call("read_file", r#"{"path": "../secret"}"#)).await;
//! assert!(refused.is_error && refused.text.contains("outside the project"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod browser;
pub mod files;
pub mod mcp;
pub mod policy;
mod registry;
pub mod sandbox;
mod schema;
mod shell;
pub mod skills;

pub use registry::{
    Attachment, RegistryError, TOOL_ARGUMENTS_BYTES_MAX, TOOL_TEXT_BYTES_MAX, Tool, ToolHints, ToolOutput,
    ToolRegistry, ToolStanding,
};
pub use shell::{AppSlot, ShellLimits, ShellTool};
