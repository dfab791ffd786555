//! How a mod states an event it answers: name, words for people and models, fields, and the tool for models.

use longhaul_network::{ModEvent, ModTool, Pattern};

use crate::shape::schema;

/// Name, type (as [`schema`] takes it) and meaning of a payload's field.
pub(crate) type Field = (&'static str, &'static str, &'static str);

/// An event that changes something. The first `needed` of its fields have to be there.
pub(crate) fn does(name: &str, about: &str, fields: &[Field], needed: usize) -> ModEvent {
    let required: Vec<&str> = fields.iter().take(needed).map(|(name, ..)| *name).collect();
    ModEvent {
        pattern: Pattern::new(name),
        description: about.to_owned(),
        payload: schema(fields, &required),
        reads_only: false,
        tool: None,
    }
}

/// An event that only asks.
pub(crate) fn asks(name: &str, about: &str, fields: &[Field], needed: usize) -> ModEvent {
    ModEvent { reads_only: true, ..does(name, about, fields, needed) }
}

/// The same, as a tool for models as well.
pub(crate) fn tool(name: &str, event: ModEvent) -> ModEvent {
    ModEvent { tool: Some(ModTool { name: name.to_owned(), destination: None }), ..event }
}

/// Names and meanings of notices.
pub(crate) fn notices(each: &[(&str, &str)]) -> Vec<(String, String)> {
    each.iter().map(|(name, about)| ((*name).to_owned(), (*about).to_owned())).collect()
}
