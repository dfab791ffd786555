//! From JSON to checks. Every refusal names the place, so that whoever planned the check can mend exactly that.

use longhaul_tools::browser::{DialogKind, Key, Target, UploadFile};
use serde_json::{Map, Value};

use super::{
    Act, CHECKS_MAX, Check, CheckAction, CheckError, Condition, CountExpr, DialogExpectation, Expect, HttpCheck, Query,
    WITHIN_MS_DEFAULT, WITHIN_MS_MAX, rules,
};

const TEXT_CHARS_MAX: usize = 20_000;
const FILE_CHARS_MAX: usize = 200_000;

/// Parses the checks of one feature and holds them against its sentences.
///
/// # Errors
/// The first thing that is wrong, with its place from `checks` on.
pub fn parse_feature_checks(value: &Value, steps: &[String]) -> Result<Vec<Check>, CheckError> {
    let Some(items) = value.as_array() else {
        return refuse("checks", r#"must be an array of checks such as [{"step":1,"check":"goto","path":"/"}, …]"#);
    };
    if items.len() > CHECKS_MAX {
        return refuse("checks", format!("has {} checks; give at most {CHECKS_MAX}", items.len()));
    }
    let mut checks = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        checks.push(parse_check(item, &format!("checks[{index}]"))?);
    }
    rules::keep(&checks, steps)?;
    Ok(checks)
}

/// Parses one check by itself; `place` is how errors call it.
///
/// # Errors
/// An unknown check or field, a missing field, a value of a wrong type or out of its bounds.
pub fn parse_check(value: &Value, place: &str) -> Result<Check, CheckError> {
    let Some(object) = value.as_object() else { return refuse(place, "must be an object") };
    let mut fields = Fields { object, place, used: Vec::new() };
    let step = fields.whole("step", 1, 1_000)?.and_then(|n| usize::try_from(n).ok());
    let Some(step) = step else {
        return refuse(format!("{place}.step"), "is missing; give the number of the sentence it carries out, from 1");
    };
    let name = fields.required_text("check")?;
    let action = match name.as_str() {
        "goto" => CheckAction::Goto { path: fields.path()? },
        "act" => CheckAction::Act(parse_act(&mut fields)?),
        "dialog" => CheckAction::Dialog(parse_dialog(&mut fields)?),
        "remember" => parse_remember(&mut fields)?,
        "expect" => parse_expect(&mut fields)?,
        "no_console_errors" => CheckAction::NoConsoleErrors,
        "no_failed_requests" => CheckAction::NoFailedRequests,
        "reload" => CheckAction::Reload,
        "restart_app" => CheckAction::RestartApp,
        "http" => CheckAction::Http(parse_http(&mut fields)?),
        unknown => {
            return refuse(
                format!("{place}.check"),
                format!(
                    "{unknown:?} is not a check; the checks are goto, act, dialog, remember, expect, no_console_errors, \
                     no_failed_requests, reload, restart_app, http"
                ),
            );
        }
    };
    fields.finish(&name)?;
    Ok(Check { step, action })
}

fn parse_act(fields: &mut Fields<'_>) -> Result<Act, CheckError> {
    let action = fields.required_text("action")?;
    Ok(match action.as_str() {
        "click" => Act::Click(fields.target("target")?),
        "hover" => Act::Hover(fields.target("target")?),
        "fill" => Act::Fill { target: fields.target("target")?, text: fields.any_text("text")? },
        "press" => Act::Press { target: fields.optional_target("target")?, key: fields.key()? },
        "select" => Act::Select { target: fields.target("target")?, option: fields.required_text("text")? },
        "drag" => Act::Drag { target: fields.target("target")?, to: fields.target("to")? },
        "upload" => Act::Upload { target: fields.target("target")?, files: fields.files()? },
        unknown => {
            return refuse(
                fields.at("action"),
                format!(
                    "{unknown:?} is not an action; the actions are click, fill, press, select, hover, drag, upload"
                ),
            );
        }
    })
}

fn parse_dialog(fields: &mut Fields<'_>) -> Result<DialogExpectation, CheckError> {
    let kind = match fields.required_text("kind")?.as_str() {
        "alert" => DialogKind::Alert,
        "confirm" => DialogKind::Confirm,
        "prompt" => DialogKind::Prompt,
        "beforeunload" => DialogKind::Beforeunload,
        _ => return refuse(fields.at("kind"), "must be alert, confirm, prompt or beforeunload"),
    };
    let accept = match fields.required_text("answer")?.as_str() {
        "accept" => true,
        "dismiss" => false,
        _ => return refuse(fields.at("answer"), "must be accept or dismiss"),
    };
    let text = fields.optional_text("text")?;
    if text.is_some() && (kind != DialogKind::Prompt || !accept) {
        return refuse(fields.at("text"), "is only typed into a prompt that is accepted");
    }
    Ok(DialogExpectation { kind, message: fields.optional_text("message")?, accept, text })
}

fn parse_remember(fields: &mut Fields<'_>) -> Result<CheckAction, CheckError> {
    let name = fields.required_text("name")?;
    if !is_name(&name) {
        return refuse(fields.at("name"), "must be a name: a small letter, then small letters, digits or _");
    }
    let mut found = None;
    for query in [Query::Count, Query::Text, Query::Value] {
        if let Some(target) = fields.optional_target(query.name())? {
            if found.is_some() {
                return refuse(fields.at(query.name()), "is one too many: give one of count, text, value");
            }
            found = Some((query, target));
        }
    }
    match found {
        Some((query, target)) => Ok(CheckAction::Remember { name, query, target }),
        None => refuse(fields.place, "remembers nothing: give one of count, text, value with a target"),
    }
}

fn parse_expect(fields: &mut Fields<'_>) -> Result<CheckAction, CheckError> {
    let within_ms = fields.whole("within_ms", 0, WITHIN_MS_MAX)?.unwrap_or(WITHIN_MS_DEFAULT);
    if let Some(contains) = fields.optional_text("url")? {
        return Ok(CheckAction::ExpectUrl { contains, within_ms });
    }
    let target = fields.target("target")?;
    let mut conditions = Vec::new();
    for (field, condition) in [("visible", Condition::Visible), ("hidden", Condition::Hidden)] {
        match fields.flag(field)? {
            None => {}
            Some(true) => conditions.push(condition),
            Some(false) => {
                let other = if field == "visible" { "hidden" } else { "visible" };
                return refuse(fields.at(field), format!("must be true; for the opposite say \"{other}\": true"));
            }
        }
    }
    for (field, condition) in [
        ("text", Condition::Text as fn(String) -> Condition),
        ("contains", Condition::Contains),
        ("value", Condition::Value),
    ] {
        if fields.object.contains_key(field) {
            let text = fields.any_text(field)?;
            if text.trim().is_empty() && field == "contains" {
                return refuse(fields.at(field), "is empty, so it would always hold");
            }
            conditions.push(condition(text));
        }
    }
    if let Some(count) = fields.count()? {
        conditions.push(Condition::Count(count));
    }
    for (field, condition) in [
        ("focused", Condition::Focused as fn(bool) -> Condition),
        ("enabled", Condition::Enabled),
        ("checked", Condition::Checked),
    ] {
        if let Some(wanted) = fields.flag(field)? {
            conditions.push(condition(wanted));
        }
    }
    if conditions.is_empty() {
        return refuse(
            fields.place,
            "expects nothing of the target: give visible, hidden, text, contains, value, count, focused, enabled or checked",
        );
    }
    if conditions.len() > 1 && conditions.contains(&Condition::Hidden) {
        return refuse(fields.at("hidden"), "cannot be combined with another expectation");
    }
    Ok(CheckAction::Expect(Box::new(Expect { target, conditions, within_ms })))
}

fn parse_http(fields: &mut Fields<'_>) -> Result<HttpCheck, CheckError> {
    let method = fields.required_text("method")?;
    if !["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&method.as_str()) {
        return refuse(fields.at("method"), "must be GET, POST, PUT, PATCH or DELETE");
    }
    let path = fields.path()?;
    let Some(status) = fields.whole("status", 100, 599)?.and_then(|n| u16::try_from(n).ok()) else {
        return refuse(fields.at("status"), "is missing; give the status it must answer, such as 200");
    };
    Ok(HttpCheck { method, path, body: fields.json("body"), status, json: fields.json("json") })
}

fn refuse<T>(place: impl Into<String>, message: impl Into<String>) -> Result<T, CheckError> {
    Err(CheckError { place: place.into(), message: message.into() })
}

fn is_name(text: &str) -> bool {
    text.len() <= 40
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// The fields of one check, which notes those it was asked for.
struct Fields<'a> {
    object: &'a Map<String, Value>,
    place: &'a str,
    used: Vec<&'static str>,
}

impl Fields<'_> {
    fn at(&self, field: &str) -> String {
        format!("{}.{field}", self.place)
    }

    fn take(&mut self, field: &'static str) -> Option<&Value> {
        if !self.used.contains(&field) {
            self.used.push(field);
        }
        self.object.get(field)
    }

    fn finish(self, check: &str) -> Result<(), CheckError> {
        match self.object.keys().find(|key| !self.used.contains(&key.as_str())) {
            None => Ok(()),
            Some(unknown) => {
                let known = self.used.join(", ");
                refuse(self.at(unknown), format!("is not a field of this {check} (known: {known})"))
            }
        }
    }

    fn optional_text(&mut self, field: &'static str) -> Result<Option<String>, CheckError> {
        let place = self.at(field);
        match self.take(field) {
            None => Ok(None),
            Some(Value::String(text)) if !text.trim().is_empty() && text.chars().count() <= TEXT_CHARS_MAX => {
                Ok(Some(text.clone()))
            }
            Some(_) => refuse(place, format!("must be a text of 1 to {TEXT_CHARS_MAX} characters")),
        }
    }

    fn required_text(&mut self, field: &'static str) -> Result<String, CheckError> {
        match self.optional_text(field)? {
            Some(text) => Ok(text),
            None => refuse(self.at(field), "is missing"),
        }
    }

    /// A text that may be empty.
    fn any_text(&mut self, field: &'static str) -> Result<String, CheckError> {
        let place = self.at(field);
        match self.take(field) {
            Some(Value::String(text)) if text.chars().count() <= TEXT_CHARS_MAX => Ok(text.clone()),
            Some(_) => refuse(place, format!("must be a text of at most {TEXT_CHARS_MAX} characters")),
            None => refuse(place, "is missing"),
        }
    }

    fn path(&mut self) -> Result<String, CheckError> {
        let path = self.required_text("path")?;
        let inside = path.starts_with('/')
            && !path.starts_with("//")
            && !path.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\');
        if inside {
            Ok(path)
        } else {
            refuse(
                self.at("path"),
                "must start with one / and have no white space: it is below the application's address",
            )
        }
    }

    fn key(&mut self) -> Result<String, CheckError> {
        let key = self.required_text("key")?;
        match key.parse::<Key>() {
            Ok(_) => Ok(key),
            Err(error) => refuse(self.at("key"), error.to_string()),
        }
    }

    fn flag(&mut self, field: &'static str) -> Result<Option<bool>, CheckError> {
        let place = self.at(field);
        match self.take(field) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => refuse(place, "must be true or false"),
        }
    }

    fn whole(&mut self, field: &'static str, least: u64, most: u64) -> Result<Option<u64>, CheckError> {
        let place = self.at(field);
        match self.take(field) {
            None => Ok(None),
            Some(value) => match value.as_u64().filter(|n| (least..=most).contains(n)) {
                Some(n) => Ok(Some(n)),
                None => refuse(place, format!("must be a whole number from {least} to {most}")),
            },
        }
    }

    fn json(&mut self, field: &'static str) -> Option<Value> {
        self.take(field).cloned()
    }

    fn optional_target(&mut self, field: &'static str) -> Result<Option<Target>, CheckError> {
        let place = self.at(field);
        match self.take(field) {
            None => Ok(None),
            Some(value) => Target::parse(value, &place)
                .map(Some)
                .map_err(|error| CheckError { place: error.place, message: error.message }),
        }
    }

    fn target(&mut self, field: &'static str) -> Result<Target, CheckError> {
        match self.optional_target(field)? {
            Some(target) => Ok(target),
            None => refuse(self.at(field), r#"is missing; give a target such as {"role":"button","name":"Save"}"#),
        }
    }

    fn count(&mut self) -> Result<Option<CountExpr>, CheckError> {
        let place = self.at("count");
        match self.take("count") {
            None => Ok(None),
            Some(Value::Number(number)) => match number.as_u64() {
                Some(n) => Ok(Some(CountExpr::Exactly(n))),
                None => refuse(place, "must be a whole number from 0 or an expression such as \"n + 1\""),
            },
            Some(value) => match value.as_str().and_then(parse_expression) {
                Some(expression) => Ok(Some(expression)),
                None => refuse(place, "must be a whole number or an expression such as \"n + 1\", \"n - 1\" or \"n\""),
            },
        }
    }

    fn files(&mut self) -> Result<Vec<UploadFile>, CheckError> {
        let place = self.at("files");
        let items = match self.take("files").and_then(Value::as_array) {
            Some(items) if (1..=10).contains(&items.len()) => items,
            _ => return refuse(place, r#"must be 1 to 10 files such as [{"name":"a.txt","content":"…"}]"#),
        };
        items.iter().enumerate().map(|(n, item)| parse_file(item, &format!("{place}[{n}]"))).collect()
    }
}

fn parse_file(item: &Value, place: &str) -> Result<UploadFile, CheckError> {
    let object = item.as_object().filter(|o| o.len() == 2);
    let text = |field: &str| object.and_then(|o| o.get(field)).and_then(Value::as_str);
    let (Some(name), Some(content)) = (text("name"), text("content")) else {
        return refuse(place, r#"must be {"name":"a.txt","content":"…"}"#);
    };
    let plain = !name.is_empty()
        && name.len() <= 120
        && !name.starts_with('.')
        && !name.chars().any(|c| c.is_control() || matches!(c, '/' | '\\'));
    if !plain {
        return refuse(format!("{place}.name"), "must be a plain file name without folders");
    }
    if content.chars().count() > FILE_CHARS_MAX {
        return refuse(format!("{place}.content"), format!("is longer than {FILE_CHARS_MAX} characters"));
    }
    Ok(UploadFile { name: name.to_owned(), content: content.to_owned() })
}

/// `3`, `n`, `n + 1`, `n - 1`.
fn parse_expression(text: &str) -> Option<CountExpr> {
    let text = text.trim();
    if let Ok(n) = text.parse() {
        return Some(CountExpr::Exactly(n));
    }
    let (name, plus) = match text.split_once(['+', '-']) {
        None => (text, 0),
        Some((name, number)) => {
            let number = i64::from(number.trim().parse::<u32>().ok()?);
            (name.trim(), if text.contains('-') { -number } else { number })
        }
    };
    is_name(name).then(|| CountExpr::Remembered { name: name.to_owned(), plus })
}
