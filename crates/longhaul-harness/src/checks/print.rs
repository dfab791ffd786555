//! Checks as JSON: one flat object each, fields in a fixed order, nothing that equals its default. What is printed here
//! is what is locked and hashed, so the order of the fields is part of the format.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value, json};

use super::{Act, Check, CheckAction, Condition, CountExpr, DialogExpectation, Expect, Query, WITHIN_MS_DEFAULT};

impl Check {
    /// The JSON form.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("step".into(), json!(self.step));
        object.insert("check".into(), json!(self.action.name()));
        self.action.fields(&mut object);
        Value::Object(object)
    }
}

/// The compact JSON form without `step`, as a refusal shows it.
impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut object = Map::new();
        object.insert("check".into(), json!(self.action.name()));
        self.action.fields(&mut object);
        write!(f, "{}", Value::Object(object))
    }
}

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Check {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        super::parse_check(&Value::deserialize(deserializer)?, "check").map_err(D::Error::custom)
    }
}

impl CheckAction {
    /// The word in the `check` field.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Goto { .. } => "goto",
            Self::Act(_) => "act",
            Self::Dialog(_) => "dialog",
            Self::Remember { .. } => "remember",
            Self::Expect(_) | Self::ExpectUrl { .. } => "expect",
            Self::NoConsoleErrors => "no_console_errors",
            Self::NoFailedRequests => "no_failed_requests",
            Self::Reload => "reload",
            Self::RestartApp => "restart_app",
            Self::Http(_) => "http",
            Self::Tab(_) => "tab",
            Self::Permission(_) => "permission",
            Self::Download(_) => "download",
            Self::Print(_) => "print",
            Self::Visual(_) => "visual",
            Self::Command(_) => "command",
            Self::File(_) => "file",
            Self::Table(_) => "table",
            Self::Citation(_) => "citation",
        }
    }

    fn fields(&self, into: &mut Map<String, Value>) {
        let mut put = |key: &str, value: Value| {
            into.insert(key.to_owned(), value);
        };
        match self {
            Self::Goto { path } => put("path", json!(path)),
            Self::Act(act) => act_fields(act, &mut put),
            Self::Dialog(DialogExpectation { kind, message, accept, text }) => {
                put("kind", json!(kind));
                if let Some(message) = message {
                    put("message", json!(message));
                }
                put("answer", json!(if *accept { "accept" } else { "dismiss" }));
                if let Some(text) = text {
                    put("text", json!(text));
                }
            }
            Self::Remember { name, query, target } => {
                put("name", json!(name));
                put(query.name(), json!(target));
            }
            Self::Expect(expect) => expect_fields(expect, &mut put),
            Self::ExpectUrl { contains, within_ms } => {
                put("url", json!(contains));
                put_within(*within_ms, &mut put);
            }
            Self::NoConsoleErrors | Self::NoFailedRequests | Self::Reload | Self::RestartApp => {}
            Self::Tab(check) => check.print(&mut put),
            Self::Permission(check) => check.print(&mut put),
            Self::Download(check) => check.print(&mut put),
            Self::Print(check) => check.print(&mut put),
            Self::Visual(check) => check.print(&mut put),
            Self::Command(check) => check.print(&mut put),
            Self::File(check) => check.print(&mut put),
            Self::Table(check) => check.print(&mut put),
            Self::Citation(check) => check.print(&mut put),
            Self::Http(http) => {
                put("method", json!(http.method));
                put("path", json!(http.path));
                if let Some(body) = &http.body {
                    put("body", body.clone());
                }
                put("status", json!(http.status));
                if let Some(wanted) = &http.json {
                    put("json", wanted.clone());
                }
            }
        }
    }
}

fn put_within(within_ms: u64, put: &mut impl FnMut(&str, Value)) {
    if within_ms != WITHIN_MS_DEFAULT {
        put("within_ms", json!(within_ms));
    }
}

impl Act {
    /// The word in the `action` field.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Click(_) => "click",
            Self::Fill { .. } => "fill",
            Self::Press { .. } => "press",
            Self::Select { .. } => "select",
            Self::Hover(_) => "hover",
            Self::Drag { .. } => "drag",
            Self::Upload { .. } => "upload",
        }
    }
}

fn act_fields(act: &Act, put: &mut impl FnMut(&str, Value)) {
    put("action", json!(act.name()));
    match act {
        Act::Click(target) | Act::Hover(target) => put("target", json!(target)),
        Act::Fill { target, text } => {
            put("target", json!(target));
            put("text", json!(text));
        }
        Act::Press { target, key } => {
            if let Some(target) = target {
                put("target", json!(target));
            }
            put("key", json!(key));
        }
        Act::Select { target, option } => {
            put("target", json!(target));
            put("text", json!(option));
        }
        Act::Drag { target, to } => {
            put("target", json!(target));
            put("to", json!(to));
        }
        Act::Upload { target, files } => {
            put("target", json!(target));
            put("files", json!(files));
        }
    }
}

fn expect_fields(expect: &Expect, put: &mut impl FnMut(&str, Value)) {
    put("target", json!(expect.target));
    for condition in &expect.conditions {
        match condition {
            Condition::Visible => put("visible", json!(true)),
            Condition::Hidden => put("hidden", json!(true)),
            Condition::Text(text) => put("text", json!(text)),
            Condition::Contains(text) => put("contains", json!(text)),
            Condition::Value(text) => put("value", json!(text)),
            Condition::Count(CountExpr::Exactly(n)) => put("count", json!(n)),
            Condition::Count(expr @ CountExpr::Remembered { .. }) => put("count", json!(expr.to_string())),
            Condition::Focused(wanted) => put("focused", json!(wanted)),
            Condition::Enabled(wanted) => put("enabled", json!(wanted)),
            Condition::Checked(wanted) => put("checked", json!(wanted)),
        }
    }
    put_within(expect.within_ms, put);
}

impl Query {
    /// The field that carries the target.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Text => "text",
            Self::Value => "value",
        }
    }
}

impl fmt::Display for CountExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(n) => write!(f, "{n}"),
            Self::Remembered { name, plus: 0 } => f.write_str(name),
            Self::Remembered { name, plus } => {
                write!(f, "{name} {} {}", if *plus < 0 { '-' } else { '+' }, plus.unsigned_abs())
            }
        }
    }
}
