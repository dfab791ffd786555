//! What the wiki says of itself.

use longhaul_network::Manifest;

use super::{NAME, Wiki};
use crate::offered::{Field, asks, does, notices, tool};

const PATH: Field = ("page_path", "string", "names with slashes between, as in guides/setup");
const CONTENT: Field = ("wiki_content", "string", "the content, at most 50,000 characters");
const BASE: Field = (
    "base_version",
    "integer",
    "the version you started from: with it a page that has moved on refuses the change; without it the newest is \
     written over",
);
const LIMIT: Field = ("limit", "integer", "entries at most");

pub(super) fn manifest(wiki: &Wiki) -> Manifest {
    let mut answers = changes();
    answers.extend(reads());
    if wiki.compares {
        answers.push(asks(
            "wiki.page.compare",
            "What changed from one version to another, line by line.",
            &[PATH, ("from_version", "integer", "the older"), ("to_version", "integer", "the newer")],
            1,
        ));
    }
    Manifest {
        name: NAME.to_owned(),
        aliases: vec!["wiki".to_owned()],
        version: "1.0".to_owned(),
        description: "Pages with every version, proposed changes, locks and search.".to_owned(),
        capabilities: ["pages", "history", "proposals", "locks", "search"].map(str::to_owned).to_vec(),
        answers,
        emits: notices(&[
            (
                "wiki.page.notification",
                "`action` (page_created, page_edited, page_deleted), the page's fields and its content; to the channel \
                 wiki_new_pages or wiki_recent_changes where the network has it, else to everybody",
            ),
            (
                "wiki.proposal.notification",
                "`action` proposal_created, to the page's owner, or proposal_resolved, to who proposed it; or to the \
                 channel wiki_page_PATH_proposals where the network has it",
            ),
        ]),
        observes: Vec::new(),
    }
}

fn changes() -> Vec<longhaul_network::ModEvent> {
    vec![
        tool(
            "create_wiki_page",
            does(
                "wiki.page.create",
                "Makes a page, which is then yours.",
                &[
                    PATH,
                    ("title", "string", "for people; the path by default"),
                    CONTENT,
                    ("category", "string", "one word to list by"),
                    ("tags", "texts", "words to find it by"),
                ],
                1,
            ),
        ),
        tool(
            "edit_wiki_page",
            does("wiki.page.edit", "Changes your own page. For others' propose the change.", &[PATH, CONTENT, BASE], 2),
        ),
        tool(
            "propose_wiki_page_edit",
            does(
                "wiki.page.proposal.create",
                "Proposes a new content for a page; its owner decides.",
                &[PATH, CONTENT, ("rationale", "string", "why"), BASE],
                2,
            ),
        ),
        tool(
            "resolve_wiki_edit_proposal",
            does(
                "wiki.proposal.resolve",
                "Decides on a proposal for your page. Approving is refused when the page has changed since it was \
                 proposed, unless you state the present version as base_version.",
                &[
                    ("proposal_id", "string", "the proposal"),
                    ("action", "string", "approve or reject"),
                    ("comments", "string", "for who proposed it"),
                    BASE,
                ],
                2,
            ),
        ),
        tool(
            "revert_wiki_page_version",
            does(
                "wiki.page.revert",
                "Makes a new version of your page that says what an older one said.",
                &[PATH, ("target_version", "integer", "the older version"), BASE],
                2,
            ),
        ),
        does("wiki.page.delete", "Deletes your page with its history; admins may delete any.", &[PATH], 1),
        does(
            "wiki.page.lock",
            "Keeps your page from being changed by others for some seconds, an hour at most.",
            &[PATH, ("seconds", "integer", "600 by default"), ("reason", "string", "shown to others")],
            1,
        ),
        does("wiki.page.unlock", "Ends a lock.", &[PATH], 1),
    ]
}

fn reads() -> Vec<longhaul_network::ModEvent> {
    vec![
        tool(
            "get_wiki_page",
            asks(
                "wiki.page.get",
                "A page, or an older version of it.",
                &[PATH, ("version", "integer", "the newest by default")],
                1,
            ),
        ),
        tool(
            "search_wiki_pages",
            asks(
                "wiki.pages.search",
                "Pages with all of these words, or parts of words, in any language; with some where none has all.",
                &[("query", "string", "the words"), LIMIT],
                1,
            ),
        ),
        tool(
            "list_wiki_pages",
            asks(
                "wiki.pages.list",
                "Pages, newest first.",
                &[("category", "string", "only of this one"), LIMIT, ("offset", "integer", "entries before them")],
                0,
            ),
        ),
        tool(
            "get_wiki_page_history",
            asks("wiki.page.history", "The versions of a page, newest first.", &[PATH, LIMIT], 1),
        ),
        tool(
            "list_wiki_edit_proposals",
            asks(
                "wiki.proposals.list",
                "Proposals for your pages, and your own.",
                &[PATH, ("status", "string", "pending (the default), approved, rejected or all"), LIMIT],
                0,
            ),
        ),
    ]
}
