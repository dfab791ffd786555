//! The rules which the checks of one feature keep together: order, coverage, and that they look at the screen.

use super::{Check, CheckAction, CheckError, Condition, CountExpr, Query};

/// Holds the checks against the sentences and against each other.
pub(super) fn keep(checks: &[Check], steps: &[String]) -> Result<(), CheckError> {
    order_and_coverage(checks, steps)?;
    page_first(checks)?;
    names(checks)?;
    dialogs(checks)?;
    screen(checks)?;
    acts_have_consequences(checks)
}

fn refuse(index: usize, field: &str, message: impl Into<String>) -> Result<(), CheckError> {
    let dot = if field.is_empty() { "" } else { "." };
    Err(CheckError { place: format!("checks[{index}]{dot}{field}"), message: message.into() })
}

fn whole(message: impl Into<String>) -> Result<(), CheckError> {
    Err(CheckError { place: "checks".to_owned(), message: message.into() })
}

fn order_and_coverage(checks: &[Check], steps: &[String]) -> Result<(), CheckError> {
    let mut last = 0;
    for (index, check) in checks.iter().enumerate() {
        if check.step > steps.len() {
            return refuse(index, "step", format!("is {}, but there are only {} sentences", check.step, steps.len()));
        }
        if check.step < last {
            return refuse(
                index,
                "step",
                format!(
                    "is {}, after a check of step {last}; put the checks in the order of the sentences",
                    check.step
                ),
            );
        }
        last = check.step;
    }
    match (1..=steps.len()).find(|step| !checks.iter().any(|check| check.step == *step)) {
        None => Ok(()),
        Some(step) => {
            whole(format!("carry out nothing of step {step} {:?}; give it at least one check", steps[step - 1]))
        }
    }
}

/// What may come before a page is open, though it is about pages: a permission holds from the start.
fn needs_open_page(action: &CheckAction) -> bool {
    action.needs_page() && !matches!(action, CheckAction::Goto { .. } | CheckAction::Permission(_))
}

fn page_first(checks: &[Check]) -> Result<(), CheckError> {
    let opened = checks.iter().position(|check| matches!(check.action, CheckAction::Goto { .. }));
    match checks.iter().position(|check| needs_open_page(&check.action)) {
        Some(index) if opened.is_none_or(|opened| opened > index) => {
            refuse(index, "", r#"needs a page, but none is open; put {"check":"goto","path":"/"} before it"#)
        }
        _ => Ok(()),
    }
}

fn names(checks: &[Check]) -> Result<(), CheckError> {
    let mut known: Vec<(&str, Query)> = Vec::new();
    for (index, check) in checks.iter().enumerate() {
        match &check.action {
            CheckAction::Remember { name, query, .. } => known.push((name, *query)),
            CheckAction::Expect(expect) => {
                for condition in &expect.conditions {
                    let Condition::Count(CountExpr::Remembered { name, .. }) = condition else { continue };
                    match known.iter().rev().find(|(remembered, _)| remembered == name) {
                        Some((_, Query::Count)) => {}
                        Some((_, Query::Text | Query::Value)) => {
                            return refuse(index, "count", format!("uses {name:?}, which is not a remembered count"));
                        }
                        None => {
                            return refuse(
                                index,
                                "count",
                                format!("uses {name:?}, which no earlier check remembers; remember it before"),
                            );
                        }
                    }
                }
            }
            CheckAction::Goto { .. }
            | CheckAction::Act(_)
            | CheckAction::Dialog(_)
            | CheckAction::ExpectUrl { .. }
            | CheckAction::NoConsoleErrors
            | CheckAction::NoFailedRequests
            | CheckAction::Reload
            | CheckAction::RestartApp
            | CheckAction::Http(_)
            | CheckAction::Tab(_)
            | CheckAction::Permission(_)
            | CheckAction::Download(_)
            | CheckAction::Print(_)
            | CheckAction::Visual(_)
            | CheckAction::Command(_)
            | CheckAction::File(_)
            | CheckAction::Table(_)
            | CheckAction::Citation(_) => {}
        }
    }
    Ok(())
}

/// What may open a dialog: acts, and leaving the page (beforeunload).
fn may_open_dialog(action: &CheckAction) -> bool {
    matches!(action, CheckAction::Act(_) | CheckAction::Goto { .. } | CheckAction::Reload)
}

fn dialogs(checks: &[Check]) -> Result<(), CheckError> {
    for (index, check) in checks.iter().enumerate() {
        if matches!(check.action, CheckAction::Dialog(_)) {
            let next = checks.get(index + 1).map(|next| &next.action);
            if !next.is_some_and(|next| may_open_dialog(next) || matches!(next, CheckAction::Dialog(_))) {
                return refuse(index, "", "must come right before the act that opens the dialog");
            }
        }
    }
    Ok(())
}

/// Whether a check says that something is there for a user to see.
fn sees(action: &CheckAction) -> bool {
    match action {
        CheckAction::Expect(expect) => expect
            .conditions
            .iter()
            .any(|condition| !matches!(condition, Condition::Hidden | Condition::Count(CountExpr::Exactly(0)))),
        // A file and a sheet of paper are in a user's hands.
        CheckAction::Download(_) | CheckAction::Print(_) => true,
        CheckAction::Goto { .. }
        | CheckAction::Act(_)
        | CheckAction::Dialog(_)
        | CheckAction::Remember { .. }
        | CheckAction::ExpectUrl { .. }
        | CheckAction::NoConsoleErrors
        | CheckAction::NoFailedRequests
        | CheckAction::Reload
        | CheckAction::RestartApp
        | CheckAction::Http(_)
        | CheckAction::Tab(_)
        | CheckAction::Permission(_)
        | CheckAction::Visual(_)
        | CheckAction::Command(_)
        | CheckAction::File(_)
        | CheckAction::Table(_)
        | CheckAction::Citation(_) => false,
    }
}

/// Whether a check proves something of a project without a page.
fn proves(action: &CheckAction) -> bool {
    matches!(action, CheckAction::File(file) if file.exists)
        || matches!(action, CheckAction::Command(_) | CheckAction::Table(_) | CheckAction::Citation(_))
}

fn screen(checks: &[Check]) -> Result<(), CheckError> {
    // Whoever opens a page, or asks the application, is about something that a user sees.
    let has_page = checks.iter().any(|check| check.action.needs_app());
    if !has_page && checks.iter().any(|check| proves(&check.action)) {
        return Ok(());
    }
    if checks.iter().any(|check| sees(&check.action)) {
        Ok(())
    } else {
        whole("never look at the screen; add an expect of something a user can see (an HTTP answer is not enough)")
    }
}

/// A click that nothing is expected of proves nothing: a dead button would pass.
fn acts_have_consequences(checks: &[Check]) -> Result<(), CheckError> {
    let Some(last) = checks.iter().rposition(|check| matches!(check.action, CheckAction::Act(_))) else {
        return Ok(());
    };
    let armed = last > 0 && matches!(checks[last - 1].action, CheckAction::Dialog(_));
    let followed = checks[last + 1..].iter().any(|check| {
        matches!(
            check.action,
            CheckAction::Expect(_)
                | CheckAction::ExpectUrl { .. }
                | CheckAction::Http(_)
                | CheckAction::Tab(_)
                | CheckAction::Download(_)
                | CheckAction::Print(_)
        )
    });
    if armed || followed {
        Ok(())
    } else {
        refuse(last, "", "is the last act, but nothing is expected after it; say what a user then sees")
    }
}
