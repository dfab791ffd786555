//! What does not compile, and the words that the compiler then has for it.
//!
//! The compiler is called directly, on the libraries that this test was built with: building them again for each kind
//! of test takes minutes, and the compiler's own words around ours are not ours to fix.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// The library as it was built last, beside this test.
fn library() -> PathBuf {
    let folder = env::current_exe().unwrap().parent().unwrap().to_owned();
    let libraries = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("liblonghaul_durable-") && name.ends_with(".rlib")
    });
    libraries.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).expect("the library is beside its tests")
}

/// What the compiler says to this code, which serde's traits and the derive precede.
fn errors(code: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("case.rs");
    let text = format!(
        "use longhaul_durable::{{GraphState, derived::serde::{{Deserialize, Serialize}}}};
         {code}
         fn main() {{}}"
    );
    std::fs::write(&source, text).unwrap();
    let library = library();
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler)
        .args(["--edition", "2024", "--crate-type", "bin", "--emit", "metadata", "--color", "never"])
        .args(["-A", "dead_code", "-o"])
        .arg(folder.path().join("case.rmeta"))
        .arg("--extern")
        .arg(format!("longhaul_durable={}", library.display()))
        .arg("-L")
        .arg(format!("dependency={}", library.parent().unwrap_or(Path::new(".")).display()))
        .arg(&source)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() || said.is_empty(), "{said}");
    said
}

/// A state with this body; `plain` has all that it needs.
fn state(attributes: &str, fields: &str) -> String {
    format!(
        "#[derive(Clone, Serialize, Deserialize, GraphState)]
         #[serde(crate = \"longhaul_durable::derived::serde\")]
         {attributes}
         struct State {{ {fields} }}"
    )
}

#[test]
fn a_state_of_plain_data_compiles() {
    assert_eq!(errors(&state("", "#[append] lines: Vec<String>, count: u64, name: Option<String>")), "");
}

#[test]
fn a_live_object_in_a_state_does_not_compile_and_is_pointed_at() {
    for field in [
        "live: std::sync::Arc<std::process::Child>",
        "#[append] live: Vec<std::fs::File>",
        "live: std::rc::Rc<String>",
        "live: std::sync::mpsc::Sender<u8>",
    ] {
        let said = errors(&state("", field));
        let words = "cannot be a field of a graph's state";
        assert!(said.contains(words) && said.contains("this is no plain data"), "{said}");
        assert!(said.contains("a live object (a connection, a browser, a channel) belongs into `Resources`"), "{said}");
    }
}

#[test]
fn a_wrong_attribute_is_refused_where_it_stands() {
    for (attributes, fields, expected) in [
        ("", "#[append] #[reduce(merge)] list: Vec<u8>", "a field has one reducer: remove the others"),
        (
            "",
            "#[append(merge)] list: Vec<u8>",
            "`#[append]` takes nothing: a function belongs into `#[reduce(function)]`",
        ),
        ("", "#[reduce] list: Vec<u8>", "expected `#[reduce(function)]` or `#[reduce(function, from = Type)]`"),
        ("", "#[reduce(merge, into = u8)] list: Vec<u8>", "the only other word is `from`"),
        ("", "#[graph_state(update = X)] list: Vec<u8>", "`graph_state` stands at the struct"),
        ("", "#[append] count: u64", "`u64` does not grow by items"),
        ("", "#[append] count: u64", "`#[append]` needs a list, a set or a map here"),
        ("", "#[reduce(merge)] count: u64", "cannot find function `merge`"),
        ("", "#[serde(default, skip)] list: Vec<u8>", "a graph's state cannot have `skip`: every field of a state is"),
        ("#[append]", "list: Vec<u8>", "`append` stands at a field"),
        ("#[graph_state(updates = X)]", "list: Vec<u8>", "expected `update = Name` or `crate = path`"),
        (
            "#[serde(rename_all = \"camelCase\")]",
            "list: Vec<u8>",
            "a graph's state cannot have `rename_all`: rename its",
        ),
    ] {
        let said = errors(&state(attributes, fields));
        assert!(said.contains(expected), "{fields}: {said}");
    }
    let many: String = (0..65).map(|n| format!("f{n}: u8, ")).collect();
    assert!(errors(&state("", &many)).contains("a state has at most 64 fields: group some in a struct of their own"));
}

#[test]
fn only_a_struct_with_named_fields_is_derived() {
    for (code, expected) in [
        ("enum State { One }", "GraphState can be derived for a struct with named fields"),
        ("struct State(u8);", "GraphState can be derived for a struct with named fields"),
        ("struct State<T> { one: T }", "a graph's state has no type parameters: name the types"),
    ] {
        let said = errors(&format!("#[derive(GraphState)] {code}"));
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_setter_takes_only_what_its_field_holds() {
    let with = |call: &str| {
        let state = state("", "#[append] lines: Vec<String>, count: u64");
        errors(&format!("{state} fn call() -> StateUpdate {{ StateUpdate::new(){call} }}"))
    };
    assert_eq!(with(".lines([String::new()]).count(1).overwrite_lines(Vec::new())"), "");
    assert!(with(".lines([1])").contains("expected `String`, found integer"));
    assert!(with(".count(\"many\")").contains("expected `u64`, found `&str`"));
    assert!(with(".overwrite_count(1)").contains("no method named `overwrite_count`"));
}

#[test]
fn an_intervention_cannot_be_made_into_an_answer() {
    let with = |line: &str| {
        errors(&format!(
            "use longhaul_durable::{{GivenAnswer, Intervention, InterventionId, WaitId}};
             fn name(note: InterventionId) -> WaitId {{ {line} }}"
        ))
    };
    assert!(with("note").contains("expected `WaitId`, found `InterventionId`"));
    assert!(with("note.into()").contains("the trait bound `WaitId: From<InterventionId>` is not satisfied"));
}
