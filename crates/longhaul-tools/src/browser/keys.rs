//! Keys as a person names them (`Enter`, `Control+a`) and as the DevTools protocol wants them.

use std::{fmt, str::FromStr};

use serde_json::{Value, json};

/// A key, with the modifiers held while it is pressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    modifiers: u8,
    key: String,
    code: String,
    windows_code: u32,
    text: Option<String>,
}

/// A text that names no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a key: expected a character, or one of {NAMES}, after Control+, Shift+, Alt+ or Meta+ where held"
)]
pub struct KeyError(String);

const NAMES: Names = Names;
struct Names;

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = NAMED.iter().map(|named| named.0).collect();
        f.write_str(&names.join(", "))
    }
}

/// Name, Windows virtual key code, text it types.
const NAMED: &[(&str, u32, Option<&str>)] = &[
    ("Enter", 13, Some("\r")),
    ("Escape", 27, None),
    ("Tab", 9, None),
    ("Backspace", 8, None),
    ("Delete", 46, None),
    ("ArrowUp", 38, None),
    ("ArrowDown", 40, None),
    ("ArrowLeft", 37, None),
    ("ArrowRight", 39, None),
    ("Home", 36, None),
    ("End", 35, None),
    ("PageUp", 33, None),
    ("PageDown", 34, None),
    ("Space", 32, Some(" ")),
    ("F1", 112, None),
    ("F2", 113, None),
    ("F5", 116, None),
];

/// What a chord with Control does to a field.
const EDITING: &[(&str, &str)] =
    &[("a", "selectAll"), ("c", "copy"), ("v", "paste"), ("x", "cut"), ("y", "redo"), ("z", "undo")];

const MODIFIERS: &[(&str, u8)] = &[("Alt", 1), ("Control", 2), ("Ctrl", 2), ("Meta", 4), ("Shift", 8)];

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let mut modifiers = 0;
        let mut rest = text;
        while let Some((held, after)) = rest.split_once('+').filter(|(_, after)| !after.is_empty()) {
            match MODIFIERS.iter().find(|modifier| modifier.0 == held) {
                Some(modifier) => modifiers |= modifier.1,
                None => return Err(KeyError(text.chars().take(40).collect())),
            }
            rest = after;
        }
        // With Control, Alt or Meta held a key commands and types nothing.
        let types = modifiers & !8 == 0;
        if let Some((name, windows_code, typed)) = NAMED.iter().find(|named| named.0 == rest) {
            return Ok(Self {
                modifiers,
                key: if *name == "Space" { " ".to_owned() } else { (*name).to_owned() },
                code: (*name).to_owned(),
                windows_code: *windows_code,
                text: typed.filter(|_| types).map(str::to_owned),
            });
        }
        let mut characters = rest.chars();
        match (characters.next(), characters.next()) {
            (Some(c), None) if !c.is_control() => Ok(Self::character(c, modifiers, types)),
            _ => Err(KeyError(text.chars().take(40).collect())),
        }
    }
}

impl Key {
    fn character(c: char, modifiers: u8, types: bool) -> Self {
        let upper = c.to_ascii_uppercase();
        let (code, windows_code) = match upper {
            'A'..='Z' => (format!("Key{upper}"), upper as u32),
            '0'..='9' => (format!("Digit{upper}"), upper as u32),
            _ => (String::new(), 0),
        };
        Self { modifiers, key: c.to_string(), code, windows_code, text: types.then(|| c.to_string()) }
    }

    /// The parameters of `Input.dispatchKeyEvent`, for the way down and the way up.
    pub(super) fn events(&self) -> [Value; 2] {
        let common = |kind: &str| {
            json!({
                "type": kind, "modifiers": self.modifiers, "key": self.key, "code": self.code,
                "windowsVirtualKeyCode": self.windows_code, "nativeVirtualKeyCode": self.windows_code,
            })
        };
        let mut down = common(if self.text.is_some() { "keyDown" } else { "rawKeyDown" });
        if let Some(text) = &self.text {
            down["text"] = json!(text);
        }
        // Headless Chromium leaves editing chords to the embedder.
        if self.modifiers & 2 != 0
            && let Some((_, command)) = EDITING.iter().find(|(key, _)| self.key.eq_ignore_ascii_case(key))
        {
            down["commands"] = json!([command]);
        }
        [down, common("keyUp")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_named_as_people_name_them() {
        let down = |text: &str| text.parse::<Key>().unwrap().events()[0].clone();
        assert_eq!(down("Enter")["text"], "\r");
        assert_eq!(down("Shift+Enter")["modifiers"], 8);
        assert_eq!(down("Control+a")["type"], "rawKeyDown");
        assert_eq!(down("한")["text"], "한");
        assert_eq!(down("+")["text"], "+");
        assert!(
            "Return"
                .parse::<Key>()
                .unwrap_err()
                .to_string()
                .starts_with("\"Return\" is not a key: expected a character, or one of Enter,")
        );
        assert!("Hyper+x".parse::<Key>().is_err());
    }
}
