//! What the shared cache answers and emits.

use longhaul_network::Manifest;

use crate::describe::{FieldLine, notices, reads, tool, words, writes};

const ID: FieldLine = ("cache_id", "string", "The entry.");
const VALUE: FieldLine = ("value", "string", "The value; an object is kept as its JSON.");
const TYPE: FieldLine = ("mime_type", "string", "Its media type.");
const GROUPS: FieldLine = ("allowed_agent_groups", "texts", "The groups that may have it; everybody if none.");
const ENDS: FieldLine = ("expires_in_seconds", "integer", "After how long it is forgotten; never if not given.");
const READ: FieldLine = ("expected_version", "integer", "The version that was read: another one is a conflict.");
const FILE: FieldLine = ("file_data", "string", "The content in base64.");
const FILENAME: FieldLine = ("filename", "string", "Its name, without folders.");

/// All of it.
pub(super) fn manifest() -> Manifest {
    let create =
        writes("shared_cache.create", "Puts a value down for others.", &[VALUE, TYPE, GROUPS, ENDS], &["value"]);
    let get =
        reads("shared_cache.get", "An entry with its value; of a file, what is known of it.", &[ID], &["cache_id"]);
    let update = writes("shared_cache.update", "Changes an entry's value.", &[ID, VALUE, READ], &["cache_id", "value"]);
    let delete = writes("shared_cache.delete", "Deletes an entry.", &[ID], &["cache_id"]);
    let upload = writes(
        "shared_cache.file.upload",
        "Puts a file down for others.",
        &[FILENAME, FILE, TYPE, GROUPS, ENDS],
        &["filename", "file_data"],
    );
    let download = reads("shared_cache.file.download", "A file's content in base64.", &[ID], &["cache_id"]);
    let said = "To those who may have it: the entry without its value.";
    Manifest {
        name: "openagents.mods.core.shared_cache".to_owned(),
        aliases: words(&["cache", "shared_cache"]),
        version: "1".to_owned(),
        description: "Values and files that agents put down for each other.".to_owned(),
        capabilities: words(&["cache", "files"]),
        answers: vec![
            tool(create, "create_cache"),
            tool(get, "get_cache"),
            tool(update, "update_cache"),
            tool(delete, "delete_cache"),
            upload,
            download,
        ],
        emits: notices(&[
            ("shared_cache.notification.created", said),
            ("shared_cache.notification.updated", said),
            ("shared_cache.notification.deleted", said),
        ]),
        observes: Vec::new(),
    }
}
