//! What messaging answers and emits.

use longhaul_network::{Manifest, ModEvent};

use super::{PARTIAL, POSTED, REPLIED, TOLD};
use crate::describe::{FieldLine, alias, notices, reads, tool, tool_to, words, writes};

/// The mod's name.
pub(super) const NAME: &str = "openagents.mods.workspace.messaging";

const CHANNEL: FieldLine = ("channel", "string", "The channel; else the one the event is addressed to.");
const CONTENT: FieldLine = ("content", "content", "What is said, in `text`. A text alone is taken, too.");
const TEXT: FieldLine = ("text", "string", "What is said, where `content` is not given.");
const QUOTED: FieldLine =
    ("quoted_message_id", "string", "A message that is quoted; its text is put in by the network.");
const STREAM: FieldLine = ("stream_id", "string", "The stream of parts that this message ends.");
const LIMIT: FieldLine = ("limit", "integer", "At most so many, 1 to 500; 50 if not given.");
const OFFSET: FieldLine = ("offset", "integer", "How many to pass over.");
const MESSAGE: FieldLine =
    ("target_message_id", "string", "The message: its sender's id for it, or the one it came with.");
const REACTION: FieldLine = ("reaction_type", "string", "A short word or sign: `like`, `+1`, `heart`.");

/// All of it.
pub(super) fn manifest() -> Manifest {
    let answers = [posts(), reactions(), channels(), lists(), files()].concat();
    Manifest {
        name: NAME.to_owned(),
        aliases: words(&["messaging", "thread_messaging"]),
        version: "1".to_owned(),
        description:
            "Channels, direct messages, threads, reactions, files, announcements, and text while it is written."
                .to_owned(),
        capabilities: words(&["messaging", "channels", "direct_messages", "threads", "reactions", "files"]),
        answers,
        emits: notices(&[
            (
                POSTED,
                "To the channel's other members: the post, with `original_event_id`, `message_id`, `sender_id`, `mentions`.",
            ),
            (
                REPLIED,
                "To the channel's other members, or the other one of two: the reply, with `original_message_id`, `original_sender`, `reply_event_id`, `thread_id`, `thread_level`.",
            ),
            (TOLD, "To the agent: the message, with `sender_id`."),
            (
                PARTIAL,
                "To the same receivers as the message to come: `stream_id`, `part`, `content.text`, `done`. Gone once the message with that `stream_id` was sent.",
            ),
            (
                "thread.reaction.notification",
                "To the channel or the other one of two: `target_message_id`, `reaction_type`, `reacting_agent`, `action`, `total_reactions`.",
            ),
            ("thread.channel.created", "To the members of a new channel."),
            ("thread.announcement.notification", "To the channel: `channel`, `text`, `announced_by`."),
            (
                "thread.file.upload_response",
                "To whom a file was shared with: `file_id`, `filename`, `mime_type`, `file_size`, `sender_id`.",
            ),
            ("thread.channels.list_response", "To whoever sent `thread.channel_info`: the list of channels."),
        ]),
        observes: Vec::new(),
    }
}

fn posts() -> Vec<ModEvent> {
    let mentioned =
        ("mentioned_agent_id", "string", "An agent that is meant in particular; `@name` in the text does it, too.");
    let attached = ("attachment_file_id", "string", "A file that was uploaded before.");
    let post = writes(
        "thread.channel_message.post",
        "Says something in a channel. One that does not exist is made, with everybody in it.",
        &[CHANNEL, CONTENT, TEXT, mentioned, QUOTED, attached, STREAM],
        &[],
    );
    let reply_to = ("reply_to_id", "string", "The message that is answered.");
    let reply = writes(
        "thread.reply.post",
        "Answers a message, where it was said: in its channel, or between two.",
        &[reply_to, CONTENT, TEXT, CHANNEL, QUOTED, STREAM],
        &["reply_to_id"],
    );
    let target = ("target_agent_id", "string", "The agent; else the one the event is addressed to.");
    let tell = writes(
        "thread.direct_message.send",
        "Tells one agent something.",
        &[target, CONTENT, TEXT, QUOTED, attached, STREAM],
        &[],
    );
    let partial = writes(
        PARTIAL,
        "Shows a part of a text that is still being written. Nothing of it is kept once the whole message was sent.",
        &[
            ("stream_id", "string", "A name for the text, the sender's own; the whole message carries it, too."),
            CONTENT,
            CHANNEL,
            target,
            ("done", "boolean", "Nothing follows, not even the whole message."),
        ],
        &["stream_id"],
    );
    let sent = alias(&reply, "thread.reply.sent");
    vec![
        tool_to(post, "send_channel_message", "channel"),
        tool(reply, "reply_channel_message"),
        sent,
        tool_to(tell, "send_direct_message", "target_agent_id"),
        partial,
    ]
}

fn reactions() -> Vec<ModEvent> {
    let action = ("action", "string", "`add`, `remove` or `toggle`; `add` if not given.");
    let add = writes(
        "thread.reaction.add",
        "Gives a reaction to a message.",
        &[MESSAGE, REACTION],
        &["target_message_id", "reaction_type"],
    );
    let named = |name: &str, about: &str| ModEvent { description: about.to_owned(), ..alias(&add, name) };
    let any = writes(
        "thread.reaction",
        "Gives a reaction or takes it back.",
        &[MESSAGE, REACTION, action],
        &["target_message_id", "reaction_type"],
    );
    vec![
        add.clone(),
        named("thread.reaction.remove", "Takes a reaction back."),
        named("thread.reaction.toggle", "Gives a reaction, or takes it back where it was given."),
        tool(any, "react_to_message"),
    ]
}

fn channels() -> Vec<ModEvent> {
    let list = reads("thread.channels.list", "Lists the channels that the asker may read.", &[], &[]);
    let info = ModEvent {
        description: "The same; with `channel`, that one.".to_owned(),
        payload: crate::shape::schema(&[CHANNEL], &[]),
        ..alias(&list, "thread.channels.info")
    };
    let later = writes(
        "thread.channel_info",
        "The same, and the list also comes as the event `thread.channels.list_response`, which the SDK's workspace waits for.",
        &[("action", "string", "`list_channels`."), ("request_id", "string", "Is in the event, too.")],
        &[],
    );
    let create = writes(
        "thread.channel.create",
        "Makes a channel.",
        &[
            CHANNEL,
            ("description", "string", "What it is for."),
            ("private", "boolean", "Only its members see it."),
            ("members", "texts", "Agents; everybody if not given, the maker alone where it is private."),
        ],
        &["channel"],
    );
    let set = writes(
        "thread.announcement.set",
        "Sets a channel's announcement. Needs the permission `announce`, which `admin` includes.",
        &[CHANNEL, ("text", "string", "The announcement; empty to take it away.")],
        &["channel"],
    );
    let get = reads(
        "thread.announcement.get",
        "A channel's announcement; empty where there is none.",
        &[CHANNEL],
        &["channel"],
    );
    vec![tool(list, "list_channels"), info, later, create, set, get]
}

fn lists() -> Vec<ModEvent> {
    let threads = ("include_threads", "boolean", "Replies, too; yes if not given.");
    let retrieve = reads(
        "thread.channel_messages.retrieve",
        "What was said in a channel, newest first.",
        &[CHANNEL, LIMIT, OFFSET, threads],
        &[],
    );
    let direct = reads(
        "thread.direct_messages.retrieve",
        "What the asker and another agent told each other, oldest first.",
        &[("target_agent_id", "string", "The other one."), LIMIT, OFFSET],
        &["target_agent_id"],
    );
    let thread = reads(
        "thread.thread.retrieve",
        "The message that began a thread, and the answers to it, oldest first.",
        &[("message_id", "string", "Any message of the thread."), LIMIT, OFFSET],
        &["message_id"],
    );
    let conversations = reads(
        "thread.conversations.list",
        "With whom the asker has exchanged direct messages, the last first.",
        &[LIMIT],
        &[],
    );
    let older = alias(&retrieve, "thread.messages.retrieve");
    vec![
        tool(retrieve, "retrieve_channel_messages"),
        older,
        tool(direct, "retrieve_direct_messages"),
        thread,
        conversations,
    ]
}

fn files() -> Vec<ModEvent> {
    let upload = writes(
        "thread.file.upload",
        "Shares a file: with a channel, with one agent, or with everybody where neither is named.",
        &[
            ("filename", "string", "Its name, without folders."),
            ("file_content", "string", "The content in base64."),
            ("mime_type", "string", "Its media type."),
            ("file_size", "integer", "Its size, which is checked where it is given."),
            ("channel", "string", "The channel it is for."),
            ("target_agent_id", "string", "The agent it is for."),
        ],
        &["filename", "file_content"],
    );
    let download = reads(
        "thread.file.download",
        "A file's content in base64, for those it was shared with.",
        &[("file_id", "string", "The file.")],
        &["file_id"],
    );
    let requested = alias(&upload, "thread.file.upload_requested");
    let sdk = alias(&upload, "thread.file_upload");
    let operation = ModEvent {
        description: "With the action `download` the same as `thread.file.download`.".to_owned(),
        ..alias(&download, "thread.file.operation")
    };
    vec![upload, requested, sdk, download, operation]
}
