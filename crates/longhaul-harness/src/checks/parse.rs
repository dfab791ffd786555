//! From JSON to checks. Every refusal names the place, so that whoever planned the check can mend exactly that.

use longhaul_tools::browser::DialogKind;
use serde_json::Value;

use super::{
    Act, CHECKS_MAX, Check, CheckAction, CheckError, CitationCheck, CommandCheck, Condition, DialogExpectation,
    DownloadCheck, Expect, FileCheck, HttpCheck, PermissionCheck, PrintCheck, Query, TabCheck, TableCheck, VisualCheck,
    WITHIN_MS_DEFAULT, WITHIN_MS_MAX,
    fields::{Fields, is_name, refuse},
    rules,
};

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
        "tab" => CheckAction::Tab(TabCheck::parse(&mut fields)?),
        "permission" => CheckAction::Permission(PermissionCheck::parse(&mut fields)?),
        "download" => CheckAction::Download(DownloadCheck::parse(&mut fields)?),
        "print" => CheckAction::Print(PrintCheck::parse(&mut fields)?),
        "visual" => CheckAction::Visual(Box::new(VisualCheck::parse(&mut fields)?)),
        "command" => CheckAction::Command(CommandCheck::parse(&mut fields)?),
        "file" => CheckAction::File(FileCheck::parse(&mut fields)?),
        "table" => CheckAction::Table(Box::new(TableCheck::parse(&mut fields)?)),
        "citation" => CheckAction::Citation(CitationCheck::parse(&mut fields)?),
        unknown => {
            return refuse(
                format!("{place}.check"),
                format!(
                    "{unknown:?} is not a check; the checks are goto, act, dialog, remember, expect, no_console_errors, \
                     no_failed_requests, reload, restart_app, http, tab, permission, download, print, visual, command, \
                     file, table, citation"
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
