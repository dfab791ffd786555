//! The file tools on a real project folder.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
};

use longhaul_core::ToolCall;
use longhaul_tools::{ToolRegistry, files, sandbox::SANDBOX_UID};
use serde_json::{Value, json};
use tempfile::TempDir;

struct Project {
    folder: TempDir,
    registry: ToolRegistry,
}

impl Project {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("project/.git")).unwrap();
        fs::write(folder.path().join("project/.git/config"), "[core]\n").unwrap();
        fs::write(folder.path().join("secret"), "secret outside\n").unwrap();
        let registry = ToolRegistry::new(files::tools(&folder.path().join("project")).unwrap()).unwrap();
        Self { folder, registry }
    }

    fn path(&self, inside: &str) -> std::path::PathBuf {
        self.folder.path().join("project").join(inside)
    }

    async fn call(&self, name: &str, arguments: Value) -> String {
        let call = ToolCall { id: "1".to_owned(), name: name.to_owned(), arguments: arguments.to_string() };
        let output = self.registry.call(&call).await;
        assert_eq!(output.is_error, output.text.starts_with("error: "), "{}", output.text);
        output.text
    }
}

#[tokio::test]
async fn files_are_written_read_edited_listed_and_searched() {
    let project = Project::new();
    let content = "one\ntwo\n三\ntwo\n";
    assert_eq!(
        project.call("write_file", json!({"path": "src/a.txt", "content": content})).await,
        "wrote src/a.txt (16 bytes)"
    );
    assert_eq!(
        project.call("read_file", json!({"path": "./src/a.txt"})).await,
        format!("read src/a.txt (4 lines)\n{content}")
    );
    assert_eq!(
        project.call("read_file", json!({"path": "src/a.txt", "offset": 2, "limit": 2})).await,
        "read src/a.txt (lines 2-3 of 4; go on with offset 4)\ntwo\n三\n"
    );
    let twice = project.call("edit_file", json!({"path": "src/a.txt", "old": "two", "new": "2"})).await;
    assert!(twice.contains("contains \"old\" 2 times"), "{twice}");
    assert_eq!(
        project.call("edit_file", json!({"path": "src/a.txt", "old": "two", "new": "2", "all": true})).await,
        "edited src/a.txt (2 replacements)"
    );
    assert_eq!(
        project.call("edit_file", json!({"path": "src/a.txt", "old": "三\n", "new": "3\n"})).await,
        "edited src/a.txt (1 replacement)"
    );
    assert_eq!(fs::read_to_string(project.path("src/a.txt")).unwrap(), "one\n2\n3\n2\n");
    let spaces = project.call("edit_file", json!({"path": "src/a.txt", "old": "2\n  3", "new": "x"})).await;
    assert!(spaces.contains("differs in white space only"), "{spaces}");
    let absent = project.call("edit_file", json!({"path": "src/a.txt", "old": "nowhere", "new": "x"})).await;
    assert!(absent.contains("does not contain \"old\""), "{absent}");

    fs::create_dir_all(project.path("node_modules/x")).unwrap();
    fs::write(project.path("node_modules/x/y"), "2").unwrap();
    symlink("/etc", project.path("link")).unwrap();
    assert_eq!(
        project.call("list_files", json!({})).await,
        "listed . (4 entries)\nlink (symbolic link)\nnode_modules/ (not listed; name it to look inside)\nsrc/\n\
         src/a.txt (10 bytes)\n"
    );
    assert_eq!(
        project.call("list_files", json!({"path": "src"})).await,
        "listed src (1 entry)\nsrc/a.txt (10 bytes)\n"
    );
    assert_eq!(
        project.call("search_files", json!({"pattern": "^[23]$"})).await,
        "found 3 matching lines in 1 files\nsrc/a.txt:2: 2\nsrc/a.txt:3: 3\nsrc/a.txt:4: 2\n"
    );
    assert_eq!(
        project.call("search_files", json!({"pattern": "ONE|one", "path": "src/a.txt"})).await,
        "found 1 matching lines in 1 files\nsrc/a.txt:1: one\n"
    );
    let pattern = project.call("search_files", json!({"pattern": "("})).await;
    assert!(pattern.contains("not a regular expression"), "{pattern}");
}

#[tokio::test]
async fn no_path_leads_out_or_into_git() {
    let project = Project::new();
    fs::write(project.path("real.txt"), "inside\n").unwrap();
    fs::create_dir(project.path("folder")).unwrap();
    symlink(project.folder.path(), project.path("out")).unwrap();
    symlink("../secret", project.path("secret-link")).unwrap();
    symlink(".git", project.path("g")).unwrap();
    symlink("real.txt", project.path("inner-link")).unwrap();
    let parent = project.call("read_file", json!({"path": "folder/./../real.txt"})).await;
    assert!(parent.contains("outside the project"), "{parent}");
    assert_eq!(project.call("read_file", json!({"path": "real.txt"})).await, "read real.txt (1 lines)\ninside\n");

    let absolute = project.path("real.txt").display().to_string();
    let refused = [
        ("../secret", "outside the project"),
        ("folder/../../secret", "outside the project"),
        ("/etc/passwd", "outside the project"),
        (absolute.as_str(), "outside the project"),
        ("out/secret", "symbolic link"),
        ("secret-link", "symbolic link"),
        ("inner-link", "symbolic link"),
        ("g/config", "symbolic link"),
        (".git/config", "inside .git"),
        ("folder/../.git/config", "outside the project"),
        ("./.git/./config", "inside .git"),
        ("sub/.git/hooks/x", "inside .git"),
        ("", "empty"),
    ];
    for (path, reason) in refused {
        for (tool, arguments) in [
            ("read_file", json!({"path": path})),
            ("write_file", json!({"path": path, "content": "overwritten"})),
            ("edit_file", json!({"path": path, "old": "i", "new": "x"})),
        ] {
            let text = project.call(tool, arguments).await;
            assert!(text.starts_with("error: ") && text.contains(reason), "{tool} {path}: {text}");
        }
    }
    for path in ["..", "/", "out", "g", ".git"] {
        assert!(project.call("list_files", json!({"path": path})).await.starts_with("error: "), "{path}");
        let found = project.call("search_files", json!({"pattern": "secret|core", "path": path})).await;
        assert!(found.starts_with("error: "), "{path}");
    }
    assert!(
        project
            .call("search_files", json!({"pattern": "secret|core"}))
            .await
            .starts_with("found 0 matching lines in 0 files")
    );
    assert_eq!(fs::read_to_string(project.folder.path().join("secret")).unwrap(), "secret outside\n");
    assert_eq!(fs::read_to_string(project.path(".git/config")).unwrap(), "[core]\n");
    assert_eq!(fs::read_to_string(project.path("real.txt")).unwrap(), "inside\n");
}

#[tokio::test]
async fn what_is_no_text_file_is_said_to_be_none() {
    let project = Project::new();
    fs::write(project.path("image.png"), [0x89, 0, 1, 2]).unwrap();
    fs::write(project.path("latin1.txt"), [b'a', 0xE9]).unwrap();
    fs::write(project.path("big.txt"), vec![b'x'; 5 * 1024 * 1024]).unwrap();
    fs::create_dir(project.path("folder")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        project.path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o666),
        0,
    )
    .unwrap();
    for (path, reason) in [
        ("image.png", "not a text file (it contains zero bytes, 4 bytes)"),
        ("latin1.txt", "not a text file (it is not UTF-8, 2 bytes)"),
        ("big.txt", "above the limit"),
        ("pipe", "not a regular file"),
        ("folder", "is a folder"),
        ("absent.txt", "there is no absent.txt"),
    ] {
        let text = project.call("read_file", json!({"path": path})).await;
        assert!(text.contains(reason), "{path}: {text}");
    }
    for path in ["pipe", "folder"] {
        assert!(
            project.call("write_file", json!({"path": path, "content": "x"})).await.starts_with("error: "),
            "{path}"
        );
    }
}

#[tokio::test]
async fn writing_is_whole_keeps_the_mode_and_gives_the_file_to_the_sandbox() {
    let project = Project::new();
    project.call("write_file", json!({"path": "init.sh", "content": "#!/bin/sh\necho 1\n"})).await;
    let mode = |path: &str| fs::metadata(project.path(path)).unwrap().mode() & 0o777;
    assert_eq!(mode("init.sh"), 0o755);
    fs::set_permissions(project.path("init.sh"), fs::Permissions::from_mode(0o4700)).unwrap();
    project.call("write_file", json!({"path": "init.sh", "content": "echo 2\n"})).await;
    project.call("edit_file", json!({"path": "init.sh", "old": "2", "new": "3"})).await;
    assert_eq!(fs::metadata(project.path("init.sh")).unwrap().mode() & 0o7777, 0o700);
    project.call("write_file", json!({"path": "a/b/c.txt", "content": ""})).await;
    assert_eq!(mode("a/b/c.txt"), 0o644);
    let own = rustix::process::geteuid().as_raw();
    let expected = if own == 0 { SANDBOX_UID } else { own };
    for path in ["init.sh", "a", "a/b", "a/b/c.txt"] {
        assert_eq!(fs::metadata(project.path(path)).unwrap().uid(), expected, "{path}");
    }
    // A second name of the file keeps the old content: it was replaced, not written into.
    fs::hard_link(project.path("init.sh"), project.path("old")).unwrap();
    project.call("write_file", json!({"path": "init.sh", "content": "new\n"})).await;
    assert_eq!(fs::read_to_string(project.path("old")).unwrap(), "echo 3\n");
    let left: Vec<_> = fs::read_dir(project.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 4, "{left:?}");
}

#[tokio::test]
async fn long_files_and_many_matches_are_cut_with_advice() {
    let project = Project::new();
    let long: String = (1..=20_000).map(|number| format!("line {number}\n")).collect();
    fs::write(project.path("long.txt"), &long).unwrap();
    let first = project.call("read_file", json!({"path": "long.txt"})).await;
    let heading = first.lines().next().unwrap();
    let next: usize = heading.split("offset ").nth(1).unwrap().trim_end_matches(')').parse().unwrap();
    assert!(first.len() < 50 * 1024 && first.ends_with(&format!("line {}\n", next - 1)), "{heading}");
    let second = project.call("read_file", json!({"path": "long.txt", "offset": next})).await;
    assert!(second.contains(&format!("\nline {next}\n")));
    assert!(
        project
            .call("read_file", json!({"path": "long.txt", "offset": 30_000}))
            .await
            .contains("no lines from 30000 on")
    );
    fs::write(project.path("one.txt"), "é".repeat(60_000)).unwrap();
    let one = project.call("read_file", json!({"path": "one.txt"})).await;
    assert!(one.starts_with("read one.txt (line 1 of 1, its first 49152 of 120000 bytes"), "{}", &one[..80]);
    let found = project.call("search_files", json!({"pattern": "line"})).await;
    assert!(found.starts_with("found 100 matching lines in 1 files; there are more"), "{}", &found[..80]);
}
