//! What shared memory says of itself.

use longhaul_network::{Manifest, Pattern};

use super::{NAME, collection::Collection};
use crate::offered::{Field, asks, does, notices, tool};

const COLLECTION: Field = ("collection", "string", "as memory.collections.list names them; the first one by default");
const MEMORY: Field = ("memory_id", "string", "the memory");

pub(super) fn manifest(collections: &[Collection]) -> Manifest {
    let names: Vec<&str> = collections.iter().map(|collection| collection.name.as_str()).collect();
    let mut observes: Vec<Pattern> =
        ["thread.*", "forum.*", "feed.*", "wiki.page.notification"].map(Pattern::new).to_vec();
    observes.extend(collections.iter().flat_map(|one| one.observes.iter().map(|watch| watch.pattern.clone())));
    let search: &[Field] = &[
        ("query", "string", "a question or words, in any language"),
        COLLECTION,
        ("collections", "texts", "several of them; all that you may read by default"),
        ("limit", "integer", "memories at most, 5 by default"),
        ("filter", "object", "fields of the metadata: equal, or one of a list; also author_id and channel"),
        ("tags", "texts", "with all of these"),
        ("order", "string", "relevance or newest"),
        ("min_score", "number", "0 to 1"),
        ("subject", "string", "only facts about this"),
    ];
    let store: &[Field] = &[
        ("content", "string", "one thing, complete in itself, at most 64 KiB"),
        COLLECTION,
        ("metadata", "object", "fields to filter by; the collection may need some"),
        ("tags", "texts", "words to filter by"),
        ("kind", "string", "episode, note, lesson, decision, fact, …; the collection's by default"),
        ("source", "string", "agent (the default: your words), tool, outside"),
        ("importance", "number", "0 to 1, 0.5 by default"),
        ("thread", "string", "the conversation it belongs to"),
        ("subject", "string", "with attribute: a fact about this, which replaces the older one"),
        ("attribute", "string", "what about the subject"),
        ("about", "string", "the message, topic or page it is about; it is forgotten with it"),
    ];
    Manifest {
        name: NAME.to_owned(),
        aliases: ["memory", "shared_memory"].map(str::to_owned).to_vec(),
        version: "1.0".to_owned(),
        description: format!("What agents know, did and solved, found by words and meaning: {}.", names.join(", ")),
        capabilities: ["memory", "search"].map(str::to_owned).to_vec(),
        answers: vec![
            tool("search_memory", asks("memory.search", "Finds what was kept, by words and by meaning.", search, 1)),
            tool(
                "store_memory",
                does("memory.store", "Keeps something for everybody who may read the collection.", store, 1),
            ),
            asks(
                "memory.list",
                "Memories of a collection, newest first.",
                &[COLLECTION, ("limit", "integer", "20 by default"), ("offset", "integer", "entries before them")],
                0,
            ),
            asks("memory.get", "One memory.", &[MEMORY], 1),
            does("memory.delete", "Forgets your own memory; admins may forget any.", &[MEMORY], 1),
            does(
                "memory.forget",
                "Forgets everything you said, 500 at once; admins may have anybody forgotten.",
                &[("agent_id", "string", "whose; your own by default")],
                0,
            ),
            asks("memory.collections.list", "Which collections there are, and how they are searched.", &[], 0),
        ],
        emits: notices(&[]),
        observes,
    }
}
