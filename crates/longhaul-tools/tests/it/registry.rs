//! What a model is told about a call that cannot be carried out.

use longhaul_core::ToolCall;
use longhaul_tools::{Attachment, RegistryError, ToolOutput, ToolRegistry, files};

async fn check(name: &str, arguments: &str, expected: &str) {
    let project = tempfile::tempdir().unwrap();
    let registry = ToolRegistry::new(files::tools(project.path()).unwrap()).unwrap();
    let call = ToolCall { id: "1".to_owned(), name: name.to_owned(), arguments: arguments.to_owned() };
    let output = registry.call(&call).await;
    assert_eq!(output.text, expected);
    assert_eq!(output.is_error, expected.starts_with("error: "));
}

const READ: &str = "{path: string, offset?: integer, limit?: integer}";

#[tokio::test]
async fn wrong_calls_name_the_field() {
    check(
        "raed_file",
        "{}",
        "error: there is no tool \"raed_file\"; did you mean read_file? the tools are: read_file, write_file, \
         edit_file, list_files, search_files",
    )
    .await;
    check(
        "read_file",
        "",
        &format!("error: the arguments of read_file are wrong: required field \"path\" missing; expected {READ}"),
    )
    .await;
    check(
        "read_file",
        r#"{"path": "a", "limit": "ten"}"#,
        &format!("error: the arguments of read_file are wrong: \"limit\" must be an integer, not the string \"ten\"; expected {READ}"),
    )
    .await;
    check(
        "read_file",
        r#"{"path": "a", "ofset": 3}"#,
        &format!("error: the arguments of read_file are wrong: unknown field \"ofset\" (did you mean \"offset\"?); expected {READ}"),
    )
    .await;
    check(
        "read_file",
        r#"{"path": "a", "offset": 0}"#,
        &format!("error: the arguments of read_file are wrong: \"offset\" must be at least 1, not 0; expected {READ}"),
    )
    .await;
    check(
        "read_file",
        r#"["a"]"#,
        &format!(
            "error: the arguments of read_file are wrong: the whole must be an object, not an array; expected {READ}"
        ),
    )
    .await;
    check(
        "read_file",
        "{\"path\": \"a",
        &format!(
            "error: the arguments of read_file are not JSON (EOF while parsing a string at line 1 column 11); send one JSON object: {READ}"
        ),
    )
    .await;
    check("list_files", r#"{"path": null}"#, "listed . (0 entries)\n").await;
}

#[test]
fn a_registry_refuses_two_tools_of_one_name() {
    let project = tempfile::tempdir().unwrap();
    let twice = [files::tools(project.path()).unwrap(), files::tools(project.path()).unwrap()].concat();
    assert!(matches!(ToolRegistry::new(twice), Err(RegistryError::Duplicate { name }) if name == "read_file"));
    let once = ToolRegistry::new(files::tools(project.path()).unwrap()).unwrap();
    assert_eq!(once.specs().len(), 5);
    assert!(once.changes_work_tree("edit_file") && !once.changes_work_tree("read_file"));
}

#[test]
fn an_output_survives_its_record() {
    let attachment =
        Attachment { name: "a.png".to_owned(), media_type: "image/png".to_owned(), bytes: vec![0, 255, 7] };
    let output = ToolOutput::ok("done").with_attachment(attachment);
    let text = serde_json::to_string(&output).unwrap();
    assert!(text.contains("\"AP8H\""), "{text}");
    assert_eq!(serde_json::from_str::<ToolOutput>(&text).unwrap(), output);
}
