//! The fields of one check as JSON: each is asked for by name and type, and what nobody asked for is an error.

use std::path::{Component, Path};

use longhaul_tools::browser::{Key, Target, UploadFile};
use serde_json::{Map, Value};

use super::{CheckError, CountExpr};

const TEXT_CHARS_MAX: usize = 20_000;
const FILE_CHARS_MAX: usize = 200_000;

pub(super) fn refuse<T>(place: impl Into<String>, message: impl Into<String>) -> Result<T, CheckError> {
    Err(CheckError { place: place.into(), message: message.into() })
}

pub(super) fn is_name(text: &str) -> bool {
    text.len() <= 40
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// The fields of one check, which notes those it was asked for.
pub(super) struct Fields<'a> {
    pub(super) object: &'a Map<String, Value>,
    pub(super) place: &'a str,
    pub(super) used: Vec<&'static str>,
}

impl Fields<'_> {
    pub(super) fn at(&self, field: &str) -> String {
        format!("{}.{field}", self.place)
    }

    pub(super) fn take(&mut self, field: &'static str) -> Option<&Value> {
        if !self.used.contains(&field) {
            self.used.push(field);
        }
        self.object.get(field)
    }

    pub(super) fn finish(self, check: &str) -> Result<(), CheckError> {
        match self.object.keys().find(|key| !self.used.contains(&key.as_str())) {
            None => Ok(()),
            Some(unknown) => {
                let known = self.used.join(", ");
                refuse(self.at(unknown), format!("is not a field of this {check} (known: {known})"))
            }
        }
    }

    pub(super) fn optional_text(&mut self, field: &'static str) -> Result<Option<String>, CheckError> {
        let place = self.at(field);
        match self.take(field) {
            None => Ok(None),
            Some(Value::String(text)) if !text.trim().is_empty() && text.chars().count() <= TEXT_CHARS_MAX => {
                Ok(Some(text.clone()))
            }
            Some(_) => refuse(place, format!("must be a text of 1 to {TEXT_CHARS_MAX} characters")),
        }
    }

    pub(super) fn required_text(&mut self, field: &'static str) -> Result<String, CheckError> {
        match self.optional_text(field)? {
            Some(text) => Ok(text),
            None => refuse(self.at(field), "is missing"),
        }
    }

    /// A text that may be empty.
    pub(super) fn any_text(&mut self, field: &'static str) -> Result<String, CheckError> {
        let place = self.at(field);
        match self.take(field) {
            Some(Value::String(text)) if text.chars().count() <= TEXT_CHARS_MAX => Ok(text.clone()),
            Some(_) => refuse(place, format!("must be a text of at most {TEXT_CHARS_MAX} characters")),
            None => refuse(place, "is missing"),
        }
    }

    pub(super) fn path(&mut self) -> Result<String, CheckError> {
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

    pub(super) fn key(&mut self) -> Result<String, CheckError> {
        let key = self.required_text("key")?;
        match key.parse::<Key>() {
            Ok(_) => Ok(key),
            Err(error) => refuse(self.at("key"), error.to_string()),
        }
    }

    pub(super) fn flag(&mut self, field: &'static str) -> Result<Option<bool>, CheckError> {
        let place = self.at(field);
        match self.take(field) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => refuse(place, "must be true or false"),
        }
    }

    pub(super) fn whole(&mut self, field: &'static str, least: u64, most: u64) -> Result<Option<u64>, CheckError> {
        let place = self.at(field);
        match self.take(field) {
            None => Ok(None),
            Some(value) => match value.as_u64().filter(|n| (least..=most).contains(n)) {
                Some(n) => Ok(Some(n)),
                None => refuse(place, format!("must be a whole number from {least} to {most}")),
            },
        }
    }

    pub(super) fn json(&mut self, field: &'static str) -> Option<Value> {
        self.take(field).cloned()
    }

    pub(super) fn optional_target(&mut self, field: &'static str) -> Result<Option<Target>, CheckError> {
        let place = self.at(field);
        match self.take(field) {
            None => Ok(None),
            Some(value) => Target::parse(value, &place)
                .map(Some)
                .map_err(|error| CheckError { place: error.place, message: error.message }),
        }
    }

    pub(super) fn target(&mut self, field: &'static str) -> Result<Target, CheckError> {
        match self.optional_target(field)? {
            Some(target) => Ok(target),
            None => refuse(self.at(field), r#"is missing; give a target such as {"role":"button","name":"Save"}"#),
        }
    }

    pub(super) fn count(&mut self) -> Result<Option<CountExpr>, CheckError> {
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

    pub(super) fn files(&mut self) -> Result<Vec<UploadFile>, CheckError> {
        let place = self.at("files");
        let items = match self.take("files").and_then(Value::as_array) {
            Some(items) if (1..=10).contains(&items.len()) => items,
            _ => return refuse(place, r#"must be 1 to 10 files such as [{"name":"a.txt","content":"…"}]"#),
        };
        items.iter().enumerate().map(|(n, item)| parse_file(item, &format!("{place}[{n}]"))).collect()
    }

    /// A name for what is kept: a small letter, then small letters, digits or `_`.
    pub(super) fn name(&mut self, field: &'static str) -> Result<String, CheckError> {
        let name = self.required_text(field)?;
        if is_name(&name) {
            return Ok(name);
        }
        refuse(self.at(field), "must be a name: a small letter, then small letters, digits or _")
    }

    pub(super) fn number(&mut self, field: &'static str, least: f64, most: f64) -> Result<Option<f64>, CheckError> {
        let place = self.at(field);
        match self.take(field) {
            None => Ok(None),
            Some(value) => match value.as_f64().filter(|n| (least..=most).contains(n)) {
                Some(n) => Ok(Some(n)),
                None => refuse(place, format!("must be a number from {least} to {most}")),
            },
        }
    }

    /// A regular expression.
    pub(super) fn pattern(&mut self, field: &'static str) -> Result<Option<String>, CheckError> {
        let Some(text) = self.optional_text(field)? else { return Ok(None) };
        match regex::Regex::new(&text) {
            Ok(_) => Ok(Some(text)),
            Err(error) => refuse(self.at(field), format!("is not a regular expression: {error}")),
        }
    }

    /// Texts; none when the field is absent.
    pub(super) fn texts(&mut self, field: &'static str) -> Result<Vec<String>, CheckError> {
        let place = self.at(field);
        let text =
            |value: &Value| value.as_str().filter(|text| text.chars().count() <= TEXT_CHARS_MAX).map(str::to_owned);
        match self.take(field) {
            None => Ok(Vec::new()),
            Some(value) => match value.as_array().and_then(|all| all.iter().map(text).collect::<Option<Vec<_>>>()) {
                Some(texts) if texts.len() <= 100 => Ok(texts),
                _ => refuse(place, "must be an array of at most 100 texts"),
            },
        }
    }

    /// A path inside the project.
    pub(super) fn project_path(&mut self, field: &'static str) -> Result<String, CheckError> {
        let path = self.required_text(field)?;
        let plain = Path::new(&path).components().all(|part| matches!(part, Component::Normal(_)));
        if plain && !path.contains('\0') {
            return Ok(path);
        }
        refuse(self.at(field), "must be a path in the project's folder, without a / before it and without ..")
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
