//! Whether a content fits the JSON schema that came with it.
//!
//! It owns the words in which a misfit is told, with the path to it. Invariant: nothing is ever loaded from elsewhere to
//! check a content.

use std::error::Error;

use boon::{Compiler, InstanceToken, Schemas, UrlLoader, ValidationError};
use serde_json::Value;

use crate::WorkspaceError;

/// Where the schema stands for its own references; nothing is asked there.
const ADDRESS: &str = "https://longhaul.invalid/record";
/// Longest path, and longest problem.
const WORDS_CHARS_MAX: usize = 500;

/// Refuses whatever a schema refers to outside of itself.
struct Nothing;

impl UrlLoader for Nothing {
    fn load(&self, url: &str) -> Result<Value, Box<dyn Error>> {
        Err(format!("{url} is outside of the schema: put it into $defs").into())
    }
}

fn wrong(path: &str, problem: &str) -> WorkspaceError {
    let cut = |text: &str| text.chars().take(WORDS_CHARS_MAX).collect();
    WorkspaceError::Misfit { path: cut(path), problem: cut(problem) }
}

/// Checks a content, which must be JSON, against a schema: draft 2020-12 unless it names another.
///
/// # Errors
/// [`WorkspaceError::Misfit`] for a schema that cannot be used, and for a content that does not fit.
pub(crate) fn check(schema: &Value, content: &[u8]) -> Result<(), WorkspaceError> {
    let mut compiler = Compiler::new();
    compiler.use_loader(Box::new(Nothing));
    compiler.enable_format_assertions();
    let mut schemas = Schemas::new();
    let unusable = |error: boon::CompileError| wrong("schema", &error.to_string().replace(ADDRESS, ""));
    compiler.add_resource(ADDRESS, schema.clone()).map_err(unusable)?;
    let compiled = compiler.compile(ADDRESS, &mut schemas).map_err(unusable)?;
    let value: Value =
        serde_json::from_slice(content).map_err(|error| wrong("content", &format!("is not JSON: {error}")))?;
    schemas.validate(&value, compiled).map_err(|error| misfit(&error))
}

/// The first thing that is wrong.
fn misfit(error: &ValidationError<'_, '_>) -> WorkspaceError {
    if let Some(first) = error.causes.first() {
        return misfit(first);
    }
    let mut path = "content".to_owned();
    for token in &error.instance_location.tokens {
        match token {
            InstanceToken::Prop(name) => path.push_str(&format!(".{name}")),
            InstanceToken::Item(index) => path.push_str(&format!("[{index}]")),
        }
    }
    wrong(&path, &error.kind.to_string())
}
