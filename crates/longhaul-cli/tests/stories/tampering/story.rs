//! Stories made by a test: a cassette whose answers are lists of calls.

use serde_json::{Value, json};

pub(crate) const SERVER: &str = r#"
import http.server
import os
import socketserver


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    allow_reuse_address = True
    daemon_threads = True


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


Server(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"#;
pub(crate) const BOOT: &str = "#!/bin/sh\ncd \"$(dirname \"$0\")\"\nexec python3 server.py\n";

/// One answer of the model in the session of a feature.
pub(crate) struct Turn {
    /// What the prompt of its session names.
    prompt: &'static str,
    calls: Vec<Value>,
    /// Its words, and why it stops.
    reply: Option<(String, &'static str)>,
}

impl Turn {
    /// In a session on this feature.
    pub(crate) fn of(feature: &'static str) -> Self {
        Self { prompt: feature, calls: Vec::new(), reply: None }
    }

    /// In the initializer's session.
    pub(crate) fn first() -> Self {
        Self::of("# Initializer")
    }

    pub(crate) fn call(mut self, tool: &str, arguments: Value) -> Self {
        self.calls.push(json!({"tool": tool, "arguments": arguments}));
        self
    }

    pub(crate) fn file(self, path: &str, content: &str) -> Self {
        self.call("write_file", json!({"path": path, "content": content}))
    }

    pub(crate) fn shell(self, command: &str) -> Self {
        self.call("shell", json!({"command": command}))
    }

    /// Says something and calls nothing.
    pub(crate) fn say(mut self, text: &str) -> Self {
        self.reply = Some((text.to_owned(), "stop"));
        self
    }

    /// Refuses to go on, as a service's filter does.
    pub(crate) fn refuse(mut self, text: &str) -> Self {
        self.reply = Some((text.to_owned(), "content_filter"));
        self
    }

    /// A call that was cut at the answer's limit.
    pub(crate) fn cut(mut self, tool: &str, arguments: &str) -> Self {
        self.calls.push(json!({"tool": tool, "arguments_text": arguments}));
        self.reply = Some((String::new(), "length"));
        self
    }

    /// The page, with this heading.
    pub(crate) fn page(self, heading: &str) -> Self {
        let page = "<!doctype html><title>Page</title><link rel=icon href='data:,'><h1>HEADING</h1>";
        self.file("index.html", &page.replace("HEADING", heading))
    }

    pub(crate) fn claim(self, summary: &str) -> Self {
        self.call("claim_done", json!({"summary": summary, "commit_message": format!("feat: {summary}")}))
    }
}

/// A story.
pub(crate) struct Story {
    turns: Vec<Turn>,
}

impl Story {
    /// Begins with a plan of one feature, F01: the page's heading says Hello.
    pub(crate) fn with_plan() -> Self {
        let ignored = "data/\n__pycache__/\n";
        Self::with_plan_and(Turn::first(), json!({"summary": "A page that greets."}), Some(ignored))
    }

    /// The same, with more in the first answer and another description of the project.
    pub(crate) fn with_plan_and(first: Turn, project: Value, ignored: Option<&str>) -> Self {
        let feature = json!({
            "id": "F01", "category": "functional", "description": "The page greets the visitor",
            "steps": ["Open the page", "Verify that the heading says Hello"],
            "checks": [
                {"step": 1, "check": "goto", "path": "/"},
                {"step": 2, "check": "expect", "target": {"role": "heading", "name": "Hello"}, "visible": true},
            ],
        });
        let first = match ignored {
            Some(ignored) => first.file(".gitignore", ignored),
            None => first,
        };
        let first = first
            .call("describe_project", project)
            .file("init.sh", BOOT)
            .file("server.py", SERVER)
            .file("index.html", "<!doctype html><title>Page</title><link rel=icon href='data:,'>")
            .call("plan_features", json!({"features": [feature]}))
            .call("claim_done", json!({"summary": "one feature is planned", "commit_message": "chore: a skeleton"}));
        Self { turns: vec![first] }
    }

    pub(crate) fn add(&mut self, turn: Turn) {
        self.turns.push(turn);
    }

    /// The cassette's text. Texts as JSON are texts as TOML.
    pub(crate) fn cassette(&self) -> String {
        let mut text = "cassette = 1\ntitle = \"made by a test\"\nrequest = \"Build a page that greets\"\nmodel = \"cassette-made\"\n".to_owned();
        let mut seen: std::collections::BTreeMap<&str, u32> = std::collections::BTreeMap::new();
        for (number, turn) in self.turns.iter().enumerate() {
            let place = seen.entry(turn.prompt).or_default();
            let prompt = match turn.prompt {
                "# Initializer" => json!(["# Initializer"]),
                feature => json!(["# Coding session", format!("feature {feature}")]),
            };
            text.push_str(&format!("\n[[entry]]\nid = \"turn-{number}\"\nprompt = {prompt}\nturn = {place}\n"));
            *place += 1;
            if let Some((reply, finish)) = &turn.reply {
                let reply = if reply.is_empty() { String::new() } else { format!("reply = {}\n", json!(reply)) };
                text.push_str(&format!("{reply}finish = \"{finish}\"\n"));
            }
            for call in &turn.calls {
                let tool = &call["tool"];
                let arguments = match &call["arguments"] {
                    arguments @ Value::Object(_) => format!("arguments = {}", toml_of(arguments)),
                    Value::Null => format!("arguments_text = {}", call["arguments_text"]),
                    other => format!("arguments_text = {}", json!(other.to_string())),
                };
                let offered = tool != "launch_rocket";
                text.push_str(&format!("[[entry.call]]\ntool = {tool}\n{arguments}\noffered = {offered}\n"));
            }
        }
        text
    }
}

/// A value as TOML on one line.
fn toml_of(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: Vec<String> = fields.iter().map(|(key, value)| format!("{key} = {}", toml_of(value))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(toml_of).collect::<Vec<_>>().join(", ")),
        // A character that JSON may leave as it is and TOML may not.
        other => other.to_string().replace('\u{7f}', "\\u007f"),
    }
}
