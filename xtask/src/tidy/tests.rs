//! The repository is tidy, and each rule finds what it is for.

use super::*;

fn file(path: &str, text: &str) -> File {
    File { path: PathBuf::from(path), text: text.to_owned() }
}

/// The findings for one file, one per line.
fn check(path: &str, text: &str) -> String {
    let files = [file(path, text)];
    let mut found =
        [text::check(&files[0]), rust::check(&files[0]), links::check(Path::new("/nonexistent"), &files)].concat();
    found.extend(crates::check(&files).unwrap());
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_repository_is_tidy() {
    let root = crate::repository();
    let found = findings(&root, &files(&root).unwrap()).unwrap();
    let list: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "cargo xtask tidy:\n{}", list.join("\n"));
}

#[test]
fn rust_files_say_what_they_own_and_stay_short() {
    assert!(check("a.rs", "fn main() {}\n").starts_with("a.rs:1: does not open with `//!`"));
    let long = "//! Doc.\n".to_owned() + &"fn f() {}\n".repeat(800);
    assert_eq!(check("a.rs", &long), "a.rs:800: 801 lines, 800 at most: split it");
    assert_eq!(check("a/tests.rs", &long), "");
    assert_eq!(check("tests/it/a.rs", &long), "");
    let tests = "//! Doc.\n#[cfg(test)]\nmod tests {\n".to_owned() + &"fn f() {}\n".repeat(300);
    assert_eq!(check("a.rs", &tests), "a.rs:3: 301 lines of tests: move them to a file tests.rs");
}

#[test]
fn banned_words_are_found_in_code_and_not_in_prose() {
    for line in ["todo!()", "#[allow(dead_code)]", "    #[ignore]", "std::thread::sleep(d);", "sleep(d).await;"] {
        assert!(check("a.rs", &format!("//! Doc.\n{line}\n")).starts_with("a.rs:2: `"), "{line}");
    }
    assert_eq!(check("a.rs", "//! Doc.\n// never thread::sleep(1)\nfn oversleep() { oversleep(); }\n"), "");
}

#[test]
fn names_and_white_space() {
    assert_eq!(check("src/utils.rs", "//! Doc.\n"), "src/utils.rs:1: `utils` says nothing: name the thing");
    assert_eq!(check("src/common/a.txt", ""), "src/common/a.txt:1: `common` says nothing: name the thing");
    assert_eq!(check("a.md", "text \n"), "a.md:1: white space at the end of the line");
    assert_eq!(check("a.md", "text"), "a.md:1: the last line has no end");
}

#[test]
fn links_that_lead_nowhere() {
    assert_eq!(check("docs/a.md", "[b](../b.md)\n"), "docs/a.md:1: the link leads nowhere: ../b.md");
    assert_eq!(check("a.md", "[b](https://example.org) `[c](d)`\n```\n[e](f)\n```\n"), "");
    let root = crate::repository();
    let page = [file("docs/configuration.md", "[a](#the-order) [b](#nothing)\n\n## The order\n")];
    let found: Vec<String> = links::check(&root, &page).iter().map(ToString::to_string).collect();
    assert_eq!(found, ["docs/configuration.md:1: docs/configuration.md has no heading #nothing"]);
}

#[test]
fn arrows_the_table_does_not_have() {
    let manifest = |name: &str, dependency: &str| {
        format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n[dependencies]\n{dependency}\n")
    };
    let wrong =
        check("crates/longhaul-durable/Cargo.toml", &manifest("longhaul-durable", "longhaul-model.workspace = true"));
    assert!(wrong.contains("longhaul-durable may not use longhaul-model"), "{wrong}");
    assert_eq!(
        check("crates/longhaul-durable/Cargo.toml", &manifest("longhaul-durable", "longhaul-core.workspace = true")),
        ""
    );
    let version = check("crates/longhaul-core/Cargo.toml", &manifest("longhaul-core", "serde = \"1\""));
    assert!(version.contains("its version belongs into the workspace"), "{version}");
    let unknown = check("crates/longhaul-new/Cargo.toml", &manifest("longhaul-new", ""));
    assert!(unknown.contains("is not in the table"), "{unknown}");
}

#[test]
fn an_exception_that_nothing_needs_is_found() {
    let stale: Vec<String> = rust::unused_exceptions(&[]).iter().map(ToString::to_string).collect();
    assert!(stale.iter().any(|line| line.contains("take it off the list")), "{stale:?}");
}
