//! What a user would point at: a role and a name of the accessibility tree. Parsing and printing only; finding it on a
//! page is `tree`'s. Invariant: a `Target` names a role that exists, and nests at most [`WITHIN_DEPTH_MAX`] deep.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Map, Value};

/// Deepest nesting of `within`.
pub const WITHIN_DEPTH_MAX: usize = 4;
const TEXT_CHARS_MAX: usize = 2_000;

/// Every role a target may have: WAI-ARIA roles, and `text` for a piece of text of any element.
pub const ROLES: &[&str] = &[
    "alert",
    "alertdialog",
    "application",
    "article",
    "banner",
    "blockquote",
    "button",
    "caption",
    "cell",
    "checkbox",
    "code",
    "columnheader",
    "combobox",
    "complementary",
    "contentinfo",
    "definition",
    "deletion",
    "dialog",
    "document",
    "emphasis",
    "feed",
    "figure",
    "form",
    "grid",
    "gridcell",
    "group",
    "heading",
    "image",
    "img",
    "insertion",
    "link",
    "list",
    "listbox",
    "listitem",
    "log",
    "main",
    "mark",
    "marquee",
    "math",
    "menu",
    "menubar",
    "menuitem",
    "menuitemcheckbox",
    "menuitemradio",
    "meter",
    "navigation",
    "note",
    "option",
    "paragraph",
    "progressbar",
    "radio",
    "radiogroup",
    "region",
    "row",
    "rowgroup",
    "rowheader",
    "scrollbar",
    "search",
    "searchbox",
    "separator",
    "slider",
    "spinbutton",
    "status",
    "strong",
    "subscript",
    "superscript",
    "switch",
    "tab",
    "table",
    "tablist",
    "tabpanel",
    "term",
    "text",
    "textbox",
    "time",
    "timer",
    "toolbar",
    "tooltip",
    "tree",
    "treegrid",
    "treeitem",
];

/// An element as a user would name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    /// One of [`ROLES`].
    pub role: String,
    /// Its accessible name, white space folded, the whole of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Text it contains, white space folded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// An ancestor of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<Box<Target>>,
    /// The frame it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame: Option<FrameWanted>,
    /// Which of several matches in document order, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nth: Option<usize>,
}

/// Which frame of a page is meant. A bare text in JSON is any of name, title and part of the URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrameWanted {
    /// Its name, title or label, or a part of its URL.
    pub any: Option<String>,
    /// Its name: the attribute `name` of the element.
    pub name: Option<String>,
    /// Its title: the element's label, or the title of the document in it.
    pub title: Option<String>,
    /// A part of its URL.
    pub url: Option<String>,
}

impl FrameWanted {
    fn parse(value: &Value, place: &str) -> Result<Self, TargetError> {
        let expected = r#"must be a frame's name or title, or one of {"name":…}, {"title":…}, {"url":…}"#;
        if let Some(any) = value.as_str() {
            if any.trim().is_empty() || any.chars().count() > TEXT_CHARS_MAX {
                return refuse(place.to_owned(), expected);
            }
            return Ok(Self { any: Some(any.to_owned()), ..Self::default() });
        }
        let Some(object) = value.as_object().filter(|object| !object.is_empty()) else {
            return refuse(place.to_owned(), expected);
        };
        if let Some(unknown) = object.keys().find(|key| !["name", "title", "url"].contains(&key.as_str())) {
            return refuse(format!("{place}.{unknown}"), "is not a field of a frame (known: name, title, url)");
        }
        let text = |field: &str| text(object, place, field);
        Ok(Self { any: None, name: text("name")?, title: text("title")?, url: text("url")? })
    }
}

impl Serialize for FrameWanted {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(any) = &self.any {
            return serializer.serialize_str(any);
        }
        let mut object = Map::new();
        for (field, text) in [("name", &self.name), ("title", &self.title), ("url", &self.url)] {
            if let Some(text) = text {
                object.insert(field.to_owned(), Value::String(text.clone()));
            }
        }
        object.serialize(serializer)
    }
}

impl fmt::Display for FrameWanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("frame")?;
        for (word, text) in [("", &self.any), (" named", &self.name), (" titled", &self.title), (" at", &self.url)] {
            if let Some(text) = text {
                write!(f, "{word} {text:?}")?;
            }
        }
        Ok(())
    }
}

/// Why a JSON value is not a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct TargetError {
    /// Where: the place given, and below it: `checks[5].target.within.role`.
    pub place: String,
    /// What is wrong and what is expected.
    pub message: String,
}

fn refuse<T>(place: String, message: impl Into<String>) -> Result<T, TargetError> {
    Err(TargetError { place, message: message.into() })
}

impl Target {
    /// The target with this role and name.
    #[must_use]
    pub fn new(role: &str, name: Option<&str>) -> Self {
        Self { role: role.to_owned(), name: name.map(str::to_owned), text: None, within: None, frame: None, nth: None }
    }

    /// Parses a target; `place` is how errors call the value.
    ///
    /// # Errors
    /// An unknown field or role, a field of a wrong type, an empty or too long text, too deep a nesting.
    pub fn parse(value: &Value, place: &str) -> Result<Self, TargetError> {
        Self::parse_at(value, place, 0)
    }

    fn parse_at(value: &Value, place: &str, depth: usize) -> Result<Self, TargetError> {
        const KNOWN: [&str; 6] = ["role", "name", "text", "within", "frame", "nth"];
        let Some(object) = value.as_object() else {
            return refuse(place.to_owned(), r#"must be an object such as {"role":"button","name":"Save"}"#);
        };
        if let Some(unknown) = object.keys().find(|key| !KNOWN.contains(&key.as_str())) {
            return refuse(
                format!("{place}.{unknown}"),
                format!("is not a field of a target (known: {}); there are no CSS selectors", KNOWN.join(", ")),
            );
        }
        let Some(role) = text(object, place, "role")? else {
            return refuse(format!("{place}.role"), "is missing; say what it is: button, textbox, heading, listitem …");
        };
        if !ROLES.contains(&role.as_str()) {
            let near = nearest_role(&role).map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
            return refuse(format!("{place}.role"), format!("{role:?} is not a role of the accessibility tree{near}"));
        }
        let within = match object.get("within") {
            None => None,
            Some(_) if depth + 1 >= WITHIN_DEPTH_MAX => {
                return refuse(format!("{place}.within"), format!("nests more than {WITHIN_DEPTH_MAX} deep"));
            }
            Some(outer) => Some(Box::new(Self::parse_at(outer, &format!("{place}.within"), depth + 1)?)),
        };
        let frame = match object.get("frame") {
            None => None,
            Some(frame) => Some(FrameWanted::parse(frame, &format!("{place}.frame"))?),
        };
        let nth = match object.get("nth") {
            None => None,
            Some(n) => match n.as_u64().filter(|n| *n < 1_000).and_then(|n| usize::try_from(n).ok()) {
                Some(n) => Some(n),
                None => return refuse(format!("{place}.nth"), "must be a whole number from 0 (the first) to 999"),
            },
        };
        Ok(Self { role, name: text(object, place, "name")?, text: text(object, place, "text")?, within, frame, nth })
    }
}

fn text(object: &Map<String, Value>, place: &str, field: &str) -> Result<Option<String>, TargetError> {
    match object.get(field) {
        None => Ok(None),
        Some(Value::String(text)) if !text.trim().is_empty() && text.chars().count() <= TEXT_CHARS_MAX => {
            Ok(Some(text.clone()))
        }
        Some(_) => refuse(format!("{place}.{field}"), format!("must be a text of 1 to {TEXT_CHARS_MAX} characters")),
    }
}

fn nearest_role(role: &str) -> Option<&'static str> {
    let wanted = role.to_lowercase();
    match wanted.as_str() {
        "input" | "textarea" | "text field" | "textfield" | "field" => return Some("textbox"),
        "dropdown" | "select" => return Some("combobox"),
        "nav" | "sidebar" => return Some("navigation"),
        "modal" => return Some("dialog"),
        "header" | "title" | "h1" | "h2" | "h3" => return Some("heading"),
        "item" | "li" => return Some("listitem"),
        "a" => return Some("link"),
        "label" | "statictext" | "generic" | "div" | "span" => return Some("text"),
        _ => {}
    }
    ROLES.iter().copied().find(|known| wanted == *known || known.starts_with(&wanted) || wanted.starts_with(known))
}

impl fmt::Display for Target {
    /// As a person would say it: `button "Save" within dialog "Settings"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.role)?;
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        if let Some(text) = &self.text {
            write!(f, " with text {text:?}")?;
        }
        if let Some(nth) = self.nth {
            write!(f, " [{nth}]")?;
        }
        if let Some(outer) = &self.within {
            write!(f, " within {outer}")?;
        }
        match &self.frame {
            Some(frame) => write!(f, " in {frame}"),
            None => Ok(()),
        }
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&Value::deserialize(deserializer)?, "target").map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_target_prints_as_a_person_would_say_it() {
        let value =
            json!({"role": "button", "name": "저장", "within": {"role": "dialog", "name": "Settings"}, "nth": 0});
        let target = Target::parse(&value, "target").unwrap();
        assert_eq!(target.to_string(), r#"button "저장" [0] within dialog "Settings""#);
        assert_eq!(serde_json::to_value(&target).unwrap(), serde_json::from_str::<Value>(&value.to_string()).unwrap());
    }

    #[test]
    fn an_error_names_the_place_and_the_way_out() {
        let said = |value: Value| Target::parse(&value, "checks[2].target").unwrap_err().to_string();
        assert_eq!(
            said(json!({"role": "button", "css": ".x"})),
            "checks[2].target.css: is not a field of a target (known: role, name, text, within, frame, nth); there are no CSS selectors"
        );
        assert_eq!(
            said(json!({"role": "list", "within": {"role": "nav"}})),
            "checks[2].target.within.role: \"nav\" is not a role of the accessibility tree; did you mean \"navigation\"?"
        );
        assert_eq!(
            said(json!({"role": "button", "nth": -1})),
            "checks[2].target.nth: must be a whole number from 0 (the first) to 999"
        );
        assert_eq!(
            said(json!({"role": "button", "name": " "})),
            "checks[2].target.name: must be a text of 1 to 2000 characters"
        );
        assert_eq!(
            said(json!({"name": "x"})),
            "checks[2].target.role: is missing; say what it is: button, textbox, heading, listitem …"
        );
    }
}
