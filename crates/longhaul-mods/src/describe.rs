//! Building manifests: a line for each event, from which docs, `list_mods` and models' tools are made.

use longhaul_network::{ModEvent, ModTool, Pattern};

use crate::shape::schema;

/// A field of a payload: name, type as [`schema`] reads it, and what it is.
pub(crate) type FieldLine = (&'static str, &'static str, &'static str);

/// An event that changes something.
pub(crate) fn writes(name: &str, about: &str, fields: &[FieldLine], required: &[&str]) -> ModEvent {
    ModEvent {
        pattern: Pattern::new(name),
        description: about.to_owned(),
        payload: schema(fields, required),
        reads_only: false,
        tool: None,
    }
}

/// An event that only reads.
pub(crate) fn reads(name: &str, about: &str, fields: &[FieldLine], required: &[&str]) -> ModEvent {
    ModEvent { reads_only: true, ..writes(name, about, fields, required) }
}

/// The same event under another name.
pub(crate) fn alias(of: &ModEvent, name: &str) -> ModEvent {
    ModEvent {
        pattern: Pattern::new(name),
        description: format!("The same as `{}`.", of.pattern.as_str()),
        tool: None,
        ..of.clone()
    }
}

/// The event as a tool for models, which goes to the mod itself.
pub(crate) fn tool(event: ModEvent, name: &str) -> ModEvent {
    ModEvent { tool: Some(ModTool { name: name.to_owned(), destination: None }), ..event }
}

/// The event as a tool for models, of which this argument names the destination.
pub(crate) fn tool_to(event: ModEvent, name: &str, destination: &str) -> ModEvent {
    let tool = ModTool { name: name.to_owned(), destination: Some(destination.to_owned()) };
    ModEvent { tool: Some(tool), ..event }
}

/// Names and what they say.
pub(crate) fn notices(lines: &[(&str, &str)]) -> Vec<(String, String)> {
    lines.iter().map(|(name, about)| ((*name).to_owned(), (*about).to_owned())).collect()
}

/// Owned texts.
pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
