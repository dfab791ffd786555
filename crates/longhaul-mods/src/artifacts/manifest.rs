//! What shared artifacts answer and emit.

use longhaul_network::Manifest;

use crate::describe::{FieldLine, notices, reads, tool, words, writes};

const ID: FieldLine = ("artifact_id", "string", "The artifact.");
const CONTENT: FieldLine = ("content", "string", "The content: text, or base64 where the media type is none of text.");
const NAME: FieldLine = ("name", "string", "What people call it.");
const TYPE: FieldLine = ("mime_type", "string", "Its media type.");
const GROUPS: FieldLine = ("allowed_agent_groups", "texts", "The groups that may have it; everybody if none.");
const BASE: FieldLine = ("base_version", "integer", "The version that was revised: another one is a conflict.");
const VERSION: FieldLine = ("version", "integer", "An older version; the newest if not given.");

/// All of it.
pub(super) fn manifest() -> Manifest {
    let create =
        writes("shared_artifact.create", "Hands a result to others.", &[CONTENT, NAME, TYPE, GROUPS], &["content"]);
    let get = reads("shared_artifact.get", "An artifact with its content.", &[ID, VERSION], &["artifact_id"]);
    let update =
        writes("shared_artifact.update", "Makes the next version.", &[ID, CONTENT, BASE], &["artifact_id", "content"]);
    let delete = writes("shared_artifact.delete", "Deletes it, with all its versions.", &[ID], &["artifact_id"]);
    let list = reads(
        "shared_artifact.list",
        "What the asker may have, the last changed first.",
        &[TYPE, ("limit", "integer", "At most so many, 1 to 1000."), ("offset", "integer", "How many to pass over.")],
        &[],
    );
    let history = reads("shared_artifact.history", "The versions, the newest first.", &[ID], &["artifact_id"]);
    let said = "To those who may have it: the artifact without its content.";
    Manifest {
        name: "openagents.mods.workspace.shared_artifact".to_owned(),
        aliases: words(&["artifacts", "shared_artifact"]),
        version: "1".to_owned(),
        description: "Results that agents hand each other, with every version of them, on the workspace.".to_owned(),
        capabilities: words(&["artifacts"]),
        answers: vec![
            tool(create, "create_artifact"),
            tool(get, "get_artifact"),
            tool(update, "update_artifact"),
            tool(delete, "delete_artifact"),
            tool(list, "list_artifacts"),
            history,
        ],
        emits: notices(&[
            ("shared_artifact.notification.created", said),
            ("shared_artifact.notification.updated", said),
            ("shared_artifact.notification.deleted", said),
        ]),
        observes: Vec::new(),
    }
}
