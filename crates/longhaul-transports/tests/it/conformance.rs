//! The protocol's own conformance suite against `/mcp` of a real network, with a shelf that has what it looks for.

use std::{path::PathBuf, process::Stdio, sync::Arc, time::Duration};

use async_trait::async_trait;
use longhaul_tools::mcp::{Listed, Offers, Question, Shelf, Stop, Talk};
use longhaul_transports::{Extra, ServingSettings};
use serde_json::{Map, Value, json};

use crate::house::{House, settings};

/// A red dot, and silence.
const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8/5+hHgAHggJ/PchI7wAAAABJRU5ErkJggg==";
const AUDIO: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

/// What the suite looks for, by its names.
struct Fixture;

const PLAIN: [&str; 29] = [
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_logging",
    "test_error_handling",
    "test_tool_with_progress",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_reconnection",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_missing_capability",
    "test_streaming_elicitation",
    "test_logging_tool",
    "test_input_required_result_elicitation",
    "test_input_required_result_sampling",
    "test_input_required_result_list_roots",
    "test_input_required_result_request_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
    "test_input_required_result_validate_input",
    "test_input_required_result_missing_response",
    "test_input_required_result_ignore_extra",
    "test_input_required_result_result_type",
    "test_input_required_result_unsupported",
];

fn object(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}

fn form(message: &str, properties: Value, required: &[&str]) -> Question {
    Question::Form { message: message.to_owned(), schema: object(properties, required) }
}

fn name_form() -> Question {
    form("What is your name?", json!({ "name": { "type": "string" } }), &["name"])
}

fn sample(prompt: &str) -> Question {
    Question::Sample { prompt: prompt.to_owned(), tokens_max: 100 }
}

fn text(text: impl Into<String>) -> Value {
    json!({ "content": [{ "type": "text", "text": text.into() }], "isError": false })
}

fn resource(uri: &str, kind: &str, content: &str) -> Value {
    json!({ "type": "resource", "resource": { "uri": uri, "mimeType": kind, "text": content } })
}

#[async_trait]
impl Shelf for Fixture {
    fn offers(&self) -> Offers {
        let named = |name: &str, schema: Value| json!({ "name": name, "description": format!("For {name}."), "inputSchema": schema });
        let mut tools: Vec<Value> = PLAIN.iter().map(|name| named(name, object(json!({}), &[]))).collect();
        tools.push(named("test_sampling", object(json!({ "prompt": { "type": "string" } }), &["prompt"])));
        tools.push(named("test_elicitation", object(json!({ "message": { "type": "string" } }), &["message"])));
        let value = json!({ "value": { "type": "string", "x-mcp-header": "Value" } });
        tools.push(named("test_custom_header", object(value, &["value"])));
        tools.push(named(
            "json_schema_2020_12_tool",
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "$defs": { "address": { "$anchor": "address", "type": "object",
                    "properties": { "street": { "type": "string" }, "city": { "type": "string" } } } },
                "properties": { "name": { "type": "string" }, "address": { "$ref": "#/$defs/address" } },
                "allOf": [{ "anyOf": [{ "required": ["name"] }, { "required": ["address"] }] }],
                "if": { "required": ["address"] },
                "then": { "properties": { "address": { "required": ["street"] } } },
                "else": { "required": ["name"] },
                "additionalProperties": false,
            }),
        ));
        let argument =
            |name: &str, required: bool| json!({ "name": name, "description": "An argument.", "required": required });
        let prompt = |name: &str, arguments: Value| json!({ "name": name, "description": format!("For {name}."), "arguments": arguments });
        Offers {
            tools,
            prompts: vec![
                prompt("test_simple_prompt", json!([])),
                prompt("test_prompt_with_arguments", json!([argument("arg1", true), argument("arg2", false)])),
                prompt("test_prompt_with_embedded_resource", json!([argument("resourceUri", false)])),
                prompt("test_prompt_with_image", json!([])),
                prompt("test_input_required_result_prompt", json!([])),
            ],
            resources: vec![
                json!({ "uri": "test://static-text", "name": "Text", "description": "A text.", "mimeType": "text/plain" }),
                json!({ "uri": "test://static-binary", "name": "Image", "description": "An image.", "mimeType": "image/png" }),
                json!({ "uri": "test://watched-resource", "name": "Watched", "mimeType": "text/plain" }),
            ],
            templates: vec![
                json!({ "uriTemplate": "test://template/{id}/data", "name": "Data", "mimeType": "application/json" }),
            ],
            completions: true,
            logging: true,
        }
    }

    async fn call(&self, name: &str, arguments: Map<String, Value>, talk: &mut Talk) -> Result<Value, Stop> {
        if let Some(of) = name.strip_prefix("test_input_required_result_") {
            return input_required(of, talk).await;
        }
        let said = |key: &str| arguments.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let image = json!({ "type": "image", "data": IMAGE, "mimeType": "image/png" });
        Ok(match name {
            "test_simple_text" => text("This is a simple text response for testing."),
            "test_image_content" => json!({ "content": [image], "isError": false }),
            "test_audio_content" => {
                json!({ "content": [{ "type": "audio", "data": AUDIO, "mimeType": "audio/wav" }], "isError": false })
            }
            "test_embedded_resource" => {
                let embedded =
                    resource("test://embedded-resource", "text/plain", "This is an embedded resource content.");
                json!({ "content": [embedded], "isError": false })
            }
            "test_multiple_content_types" => json!({ "isError": false, "content": [
                { "type": "text", "text": "Multiple content types test:" }, image,
                resource("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#) ] }),
            "test_tool_with_logging" => {
                for told in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                    talk.log("info", json!(told)).await;
                }
                text("Logging test completed")
            }
            "test_logging_tool" => {
                talk.log("info", json!("logLevel was requested")).await;
                text("Logging tool completed")
            }
            "test_error_handling" => json!({ "isError": true, "content": [
                { "type": "text", "text": "This tool intentionally returns an error for testing" }] }),
            "test_tool_with_progress" => {
                for (done, message) in [(0.0, "Starting"), (50.0, "Halfway"), (100.0, "Complete")] {
                    talk.progress(done, 100.0, message).await;
                }
                text("Progress test completed")
            }
            "test_sampling" => {
                let answer = talk.ask("sample", sample(&said("prompt"))).await?;
                let content = &answer["content"];
                let told = content["text"].as_str().or(content[0]["text"].as_str()).unwrap_or_default();
                text(format!("LLM response: {told}"))
            }
            "test_elicitation" => {
                let described = |about: &str| json!({ "type": "string", "description": about });
                let properties =
                    json!({ "username": described("User's response"), "email": described("User's email address") });
                let answer = talk.ask("form", form(&said("message"), properties, &["username", "email"])).await?;
                text(format!("User response: action={}, content={}", answer["action"], answer["content"]))
            }
            "test_elicitation_sep1034_defaults" => {
                let answer = talk.ask("form", form("Please provide values", defaults(), &[])).await?;
                text(format!("Elicitation completed: action={}, content={}", answer["action"], answer["content"]))
            }
            "test_elicitation_sep1330_enums" => {
                let answer = talk.ask("form", form("Choose", enums(), &[])).await?;
                text(format!("Enum elicitation completed: action={}", answer["action"]))
            }
            "test_streaming_elicitation" => {
                return Err(talk
                    .need([("value", form("Provide a value", json!({ "value": { "type": "string" } }), &["value"]))]));
            }
            "test_trigger_tool_change" => {
                talk.changed(Listed::Tools).await;
                text("Tool list change triggered")
            }
            "test_trigger_prompt_change" => {
                talk.changed(Listed::Prompts).await;
                text("Prompt list change triggered")
            }
            "test_missing_capability" => {
                if !talk.can(&sample("")) {
                    return Err(Stop::Lacks("sampling"));
                }
                text("Required capability declared")
            }
            "test_custom_header" => text(said("value")),
            "json_schema_2020_12_tool" => text(format!("Hello, {}!", said("name"))),
            _ => text("done"),
        })
    }

    async fn prompt(&self, name: &str, arguments: Map<String, Value>, talk: &mut Talk) -> Result<Value, Stop> {
        let said = |key: &str| arguments.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let message = |content: Value| json!({ "role": "user", "content": content });
        let words = |text: String| message(json!({ "type": "text", "text": text }));
        let messages = match name {
            "test_simple_prompt" => vec![words("This is a simple prompt for testing.".to_owned())],
            "test_prompt_with_arguments" => {
                vec![words(format!("Prompt with arguments: arg1='{}', arg2='{}'", said("arg1"), said("arg2")))]
            }
            "test_prompt_with_embedded_resource" => {
                let uri = said("resourceUri");
                let uri = if uri.is_empty() { "test://example-resource".to_owned() } else { uri };
                vec![
                    message(resource(&uri, "text/plain", "Embedded resource content for testing.")),
                    words("Please process the embedded resource above.".to_owned()),
                ]
            }
            "test_prompt_with_image" => vec![
                message(json!({ "type": "image", "data": IMAGE, "mimeType": "image/png" })),
                words("Please analyze the image above.".to_owned()),
            ],
            _ => {
                let asked = form(
                    "What context should the prompt use?",
                    json!({ "context": { "type": "string" } }),
                    &["context"],
                );
                let answer = talk.ask("user_context", asked).await?;
                vec![words(format!("Prompt with elicited context: {}", answer["content"]["context"]))]
            }
        };
        Ok(json!({ "description": name, "messages": messages }))
    }

    async fn read(&self, uri: &str) -> Option<Value> {
        Some(match uri {
            "test://static-binary" => json!([{ "uri": uri, "mimeType": "image/png", "blob": IMAGE }]),
            "test://static-text" | "test://watched-resource" => {
                json!([{ "uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource." }])
            }
            _ => {
                let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
                let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") }).to_string();
                json!([{ "uri": uri, "mimeType": "application/json", "text": data }])
            }
        })
    }

    async fn complete(&self, _of: &Value, _argument: &str, begun: &str) -> Vec<String> {
        ["paris", "park", "party"].iter().filter(|word| word.starts_with(begun)).map(ToString::to_string).collect()
    }
}

async fn input_required(of: &str, talk: &mut Talk) -> Result<Value, Stop> {
    let confirm = || form("Please confirm", json!({ "ok": { "type": "boolean" } }), &["ok"]);
    Ok(match of {
        "sampling" => {
            let answer = talk.ask("capital_question", sample("What is the capital of France?")).await?;
            text(format!("Sampling response: {}", answer["content"]["text"]))
        }
        "list_roots" => {
            let answer = talk.ask("client_roots", Question::Roots).await?;
            text(format!("Client roots: {}", answer["roots"]))
        }
        "request_state" | "tampered_state" => {
            if talk.state().is_none() {
                talk.keep(json!({ "stage": "confirm" }));
                return Err(talk.need([("confirm", confirm())]));
            }
            text("Confirmed: state-ok")
        }
        "multiple_inputs" => {
            let all = ["user_name", "greeting", "client_roots"].iter().all(|key| talk.answer(key).is_some());
            if !all || talk.state().is_none() {
                talk.keep(json!({ "stage": "gather" }));
                return Err(talk.need([
                    ("user_name", name_form()),
                    ("greeting", sample("Generate a greeting")),
                    ("client_roots", Question::Roots),
                ]));
            }
            text("All inputs received")
        }
        "multi_round" => match talk.state().and_then(|state| state["round"].as_i64()).unwrap_or_default() {
            0 => {
                talk.keep(json!({ "round": 1 }));
                return Err(talk.need([("step1", name_form())]));
            }
            1 => {
                talk.keep(json!({ "round": 2 }));
                let color = form("What is your favorite color?", json!({ "color": { "type": "string" } }), &["color"]);
                return Err(talk.need([("step2", color)]));
            }
            _ => text("Multi-round flow complete"),
        },
        "capabilities" => {
            let wanted = [
                ("user_name", name_form()),
                ("greeting", sample("Generate a greeting")),
                ("client_roots", Question::Roots),
            ];
            let answered = wanted.iter().any(|(key, _)| talk.answer(key).is_some());
            let possible: Vec<_> = wanted.into_iter().filter(|(_, question)| talk.can(question)).collect();
            if !answered && !possible.is_empty() {
                return Err(talk.need(possible));
            }
            text("Capability-aware flow complete")
        }
        _ => {
            let answer = talk.ask("user_name", name_form()).await?;
            text(format!("Hello, {}!", answer["content"]["name"].as_str().unwrap_or("friend")))
        }
    })
}

fn defaults() -> Value {
    json!({
        "name": { "type": "string", "description": "User's name", "default": "John Doe" },
        "age": { "type": "integer", "description": "User's age", "default": 30 },
        "score": { "type": "number", "description": "User's score", "default": 95.5 },
        "status": { "type": "string", "description": "User's status", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "description": "Whether user is verified", "default": true },
    })
}

fn enums() -> Value {
    let titled = |word: &str| {
        json!([{ "const": "value1", "title": format!("First {word}") }, { "const": "value2", "title": format!("Second {word}") },
            { "const": "value3", "title": format!("Third {word}") }])
    };
    json!({
        "untitledSingle": { "type": "string", "enum": ["option1", "option2", "option3"] },
        "titledSingle": { "type": "string", "oneOf": titled("Option") },
        "legacyEnum": { "type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"] },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": ["option1", "option2", "option3"] } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
    })
}

/// With `LONGHAUL_TEST_MCP_CONFORMANCE` set to the folder where `scripts/peers.sh conformance` put the suite: every
/// scored server scenario of both revisions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_scored_scenario_of_both_revisions_passes() {
    let Some(folder) = std::env::var_os("LONGHAUL_TEST_MCP_CONFORMANCE").map(PathBuf::from) else {
        println!(
            "not tried: `scripts/peers.sh conformance` installs it, LONGHAUL_TEST_MCP_CONFORMANCE names its folder"
        );
        return;
    };
    let extra = Extra { mcp_shelf: Some(Arc::new(Fixture)), ..Extra::default() };
    let house = House::with(settings(), ServingSettings::anywhere(), extra).await;
    let results = tempfile::tempdir().unwrap();
    let mut failed = Vec::new();
    for revision in ["2026-07-28", "2025-11-25"] {
        let mut command = tokio::process::Command::new(folder.join("node_modules/.bin/node"));
        command.arg(folder.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"));
        command.args(["server", "--url", &format!("{}/mcp", house.url), "--requirements", revision]);
        command.current_dir(results.path()).stdin(Stdio::null()).kill_on_drop(true);
        let ended =
            tokio::time::timeout(Duration::from_secs(300), command.output()).await.expect("it does not end").unwrap();
        let told = format!("{}{}", String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        let end: Vec<&str> = told.lines().rev().take(60).collect();
        println!("{revision}:\n{}", end.into_iter().rev().collect::<Vec<_>>().join("\n"));
        if !ended.status.success() {
            failed.push(revision);
        }
    }
    assert!(failed.is_empty(), "not whole: {failed:?}");
}
