//! The table of keys as Markdown, for `docs/configuration.md`; a test keeps that page equal to it.

use super::{
    keys::{KEYS, Key, Who},
    value::expected,
};

/// One Markdown table per section, each key with its values, default, variables and who may set it.
#[must_use]
pub fn manual() -> String {
    let mut out = String::new();
    let mut section = None;
    for key in KEYS {
        let here = key.name.rsplit_once('.').map_or("", |(section, _)| section);
        if section != Some(here) {
            let title = if here.is_empty() { "Top of the file".to_owned() } else { format!("`[{here}]`") };
            out.push_str(&format!(
                "\n### {title}\n\n| key | value | default | environment | project's file |\n|---|---|---|---|---|\n"
            ));
            section = Some(here);
        }
        out.push_str(&row(key));
    }
    out
}

fn row(key: &Key) -> String {
    let name = key.name.rsplit('.').next().unwrap_or(key.name);
    let default = match key.default {
        Some("") => "none".to_owned(),
        Some(default) => format!("`{default}`"),
        None => "—".to_owned(),
    };
    let alias = key.alias.map(|alias| format!(", `{alias}`")).unwrap_or_default();
    let may = match key.who {
        Who::Anyone => "yes",
        Who::UserOnly => "no",
    };
    let about = key.about;
    let kind = expected(key.kind);
    format!("| `{name}` | {about} ({kind}) | {default} | `{}`{alias} | {may} |\n", key.variable())
}
