//! A message's words on their way into the index: which messages, in which parts, under which names.
//!
//! Invariant: what is indexed is labelled with whose words it is (invariant 13), and says which row of `messages` is the
//! truth of it.

use longhaul_core::{MessageId, TaskScope};
use longhaul_memory::{Kind, MemoryError, NewMemory, Prepared, Source};
use serde_json::{Map, json};

use super::{NewMessage, Role, SessionError};
use crate::{parts, talk_partition_of};

/// The collection of what was said.
pub(super) const COLLECTION: &str = "conversation";
/// Characters of a conversation's title.
pub(super) const TITLE_CHARS_MAX: usize = 120;

/// Whose words a message's are; nothing for those that are not searched: what a program or a tool said.
fn source(role: Role) -> Option<Source> {
    match role {
        Role::User => Some(Source::User),
        Role::Assistant => Some(Source::Agent),
        Role::System | Role::Tool => None,
    }
}

/// The parts of a message, checked and with their words, before a transaction begins.
pub(super) fn prepared(owner: &TaskScope, id: &MessageId, message: &NewMessage) -> Result<Vec<Prepared>, SessionError> {
    let Some(source) = source(message.role) else { return Ok(Vec::new()) };
    let namespace = talk_partition_of(&owner.scope.user);
    let part = |(number, part): (usize, parts::Part<'_>)| {
        // Within an object: what stands at the top would be a column that queries can filter by.
        let at = json!({"message": id, "role": message.role, "part": number, "from": part.from});
        let memory = NewMemory {
            namespace: namespace.clone(),
            thread: Some(owner.session.to_string()),
            task: Some(owner.task.clone()),
            tags: vec![message.role.as_str().to_owned()],
            meta: Map::from_iter([("at".to_owned(), at)]),
            ..NewMemory::new(COLLECTION, Kind::Episode, source, part.text)
        };
        memory.prepare()
    };
    let texts = parts::cut(&message.content).into_iter().filter(|part| !part.text.trim().is_empty());
    Ok(texts.enumerate().map(part).collect::<Result<_, MemoryError>>()?)
}

/// The beginning of a text on one line.
pub(super) fn one_line(text: &str, chars_max: usize) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown = words.chars().filter(|c| !c.is_control());
    let mut line: String = shown.clone().take(chars_max).collect();
    if shown.count() > chars_max {
        line.pop();
        line.push('…');
    }
    line
}
