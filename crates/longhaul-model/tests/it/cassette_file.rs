//! Cassette files: what is refused, in which words, at which line.

use longhaul_model::{Cassette, CassetteError};

use crate::stories::STORY;

fn refusal(text: &str) -> String {
    Cassette::parse(text, "story.toml").unwrap_err().to_string()
}

/// A file whose first entry begins at line 3.
fn with(entries: &str) -> String {
    format!("cassette = 1\ntitle = \"t\"\n{entries}")
}

#[test]
fn a_story_is_read_whole() {
    let cassette = Cassette::parse(STORY, "story.toml").unwrap();
    assert_eq!(cassette.title(), "writing a file");
    assert_eq!(cassette.request(), Some("建一个文件"));
    assert_eq!(cassette.model(), "cassette-test");
    assert_eq!(cassette.entry_ids().collect::<Vec<_>>(), ["write", "finish"]);
    assert_eq!(cassette.lint(), []);
}

#[test]
fn unknown_keys_and_broken_toml_are_refused_with_their_line() {
    for (text, expected) in [
        (with("[[entry]]\nid = \"a\"\nreply = \"r\"\npromt = []\n"), "story.toml: line 6: unknown field `promt`"),
        (with("[[entry]]\nid = \"a\"\n[[entry.call]]\ntool = \"t\"\nargs = 1\n"), "line 7: unknown field `args`"),
        (with("colour = 1\n"), "line 3: unknown field `colour`"),
        (
            with("[[entry]]\nid = \"a\"\nreply = \"r\"\nrequire = [\n  { in = \"tols\", text = \"x\" },\n]\n"),
            "line 7: unknown variant `tols`",
        ),
        (with("[[entry]]\nid = \"a\"\nreply = \"r\"\nfault = { cutt = true }\n"), "line 6: unknown field `cutt`"),
        (with("[[entry]]\nreply = \"r\"\n"), "line 3: missing field `id`"),
        (with("[[entry]]\nid = \"a\"\nid = \"b\"\n"), "line 5: duplicate key"),
        (with("[[entry]\n"), "line 3: "),
        (with("[[entry]]\nid = \"a\"\nturn = -1\n"), "line 5: invalid value"),
        ("title = \"t\"\n".to_owned(), "missing field `cassette`"),
    ] {
        let message = refusal(&text);
        assert!(message.contains(expected), "{message:?} does not have {expected:?}");
    }
}

#[test]
fn another_format_is_told_from_a_broken_file() {
    let error = Cassette::parse("cassette = 2\nchapters = []\n", "new.toml").unwrap_err();
    assert!(matches!(error, CassetteError::Version { found: 2, .. }), "{error}");
}

#[test]
fn entries_that_contradict_are_all_named() {
    let message = refusal(&with(
        "[[entry]]\nid = \"a\"\nprompt = [\"# Coding session 1\"]\nreply = \"r\"\n\
         [[entry]]\nid = \"b\"\nprompt = [\"# Coding session 12\", \"F01\"]\nreply = \"r\"\n\
         [[entry]]\nid = \"a\"\nprompt = [\"else\"]\nturn = 1\n\
         [[entry]]\nid = \"d\"\nprompt = [\"\"]\nturn = 2\nreply = \"r\"\nfault = { status = 200 }\n",
    ));
    for expected in [
        "line 8 (entry \"b\"): ambiguous with \"a\" at line 4",
        "line 12 (entry \"a\"): its id is used already at line 4",
        "line 12 (entry \"a\"): it has neither a `reply` nor a `[[entry.call]]`",
        "line 16 (entry \"d\"): an empty text in `prompt` or `require`",
        "line 16 (entry \"d\"): `fault.status` must be from 400 to 599",
    ] {
        assert!(message.contains(expected), "{message:?} does not have {expected:?}");
    }
}

#[test]
fn prompts_that_exclude_each_other_or_differ_in_turn_are_no_contradiction() {
    let text = with(
        "[[entry]]\nid = \"a\"\nprompt = [\"# Coding session 1\\n\"]\nreply = \"r\"\n\
         [[entry]]\nid = \"b\"\nprompt = [\"# Coding session 12\\n\"]\nreply = \"r\"\n\
         [[entry]]\nid = \"c\"\nprompt = [\"# Coding session 1\\n\"]\nturn = 1\nreply = \"r\"\n",
    );
    assert!(Cassette::parse(&text, "story.toml").is_ok());
}

#[test]
fn lint_finds_what_no_conversation_reaches() {
    let text = with(
        "[[entry]]\nid = \"a\"\nprompt = [\"one\"]\nreply = \"r\"\n\
         [[entry]]\nid = \"b\"\nprompt = [\"one\"]\nturn = 1\nreply = \"r\"\n\
         [[entry]]\nid = \"c\"\nprompt = [\"one\"]\nturn = 3\nreply = \"r\"\n\
         [[entry]]\nid = \"d\"\nturn = 5\nreply = \"r\"\n",
    );
    let found: Vec<String> =
        Cassette::parse(&text, "story.toml").unwrap().lint().iter().map(ToString::to_string).collect();
    let expected = [
        "line 8 (entry \"b\"): \"a\" before it calls no tool",
        "line 13 (entry \"c\"): no entry with such a `prompt` answers turn 2",
        "line 18 (entry \"d\"): it has no `prompt`",
        "line 18 (entry \"d\"): no entry with such a `prompt` answers turn 4",
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found:?} does not start with {expected:?}");
    }
}

#[test]
fn the_documented_example_is_a_clean_cassette() {
    let documentation = include_str!("../../../../docs/cassettes.md");
    let example = documentation.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let cassette = Cassette::parse(example, "docs/cassettes.md").unwrap();
    assert_eq!(cassette.entry_ids().collect::<Vec<_>>(), ["s01-write", "s01-claim"]);
    assert_eq!(cassette.lint(), []);
}

#[test]
fn a_missing_file_is_named() {
    let error = Cassette::load("/nonexistent/故事.toml".as_ref()).unwrap_err();
    assert_eq!(error.to_string(), "cannot read the cassette /nonexistent/故事.toml; check the path");
}
