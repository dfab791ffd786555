//! Expectations: whether the conditions of an `expect` hold for what is on the screen, and if not, why. Deciding is pure
//! ([`judge`]); the loop that looks again until the time is up is [`wait`].

use std::{collections::BTreeMap, time::Duration};

use longhaul_tools::browser::{Element, Page, PageError, Target, fold};
use tokio::time::Instant;

use crate::checks::{Condition, CountExpr, Expect, Query};

/// Time between two looks.
const POLL: Duration = Duration::from_millis(30);

/// What earlier checks remembered.
#[derive(Debug, Default)]
pub(super) struct Remembered(BTreeMap<String, String>);

impl Remembered {
    pub(super) fn put(&mut self, name: &str, value: String) {
        self.0.insert(name.to_owned(), value);
    }

    /// The text with `{name}` replaced where the name was remembered.
    pub(super) fn fill_in(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }

    fn count(&self, expression: &CountExpr) -> i64 {
        match expression {
            CountExpr::Exactly(n) => i64::try_from(*n).unwrap_or(i64::MAX),
            CountExpr::Remembered { name, plus } => {
                let remembered: i64 = self.0.get(name).and_then(|value| value.parse().ok()).unwrap_or_default();
                remembered.saturating_add(*plus)
            }
        }
    }
}

/// Waits until the expectation holds.
pub(super) async fn wait(page: &Page, expect: &Expect, known: &Remembered) -> Result<(), PageFault> {
    let deadline = Instant::now() + Duration::from_millis(expect.within_ms);
    loop {
        let found = page.find(&expect.target).await?;
        if let Some(fault) = page.fault() {
            return Err(fault.into());
        }
        let why = match judge(expect, &found, known) {
            Ok(None) => return Ok(()),
            // What is said to be visible must also change pixels.
            Ok(Some(element)) => match page.painted(element).await {
                Ok(true) => return Ok(()),
                Ok(false) => "found 1 but it is not visible: hiding it changes no pixel on the screen, so nothing \
                                   of it is painted, or a layer that lets clicks through covers it"
                    .to_owned(),
                Err(error) => {
                    if let Some(fault) = page.fault() {
                        return Err(fault.into());
                    }
                    format!("it changed while it was looked at ({error})")
                }
            },
            Err(why) => why,
        };
        if Instant::now() >= deadline {
            let nearby = if found.is_empty() { page.nearby(&expect.target).await } else { String::new() };
            return Err(PageFault::Reason(format!("{why}{nearby}")));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Why a check does not hold: the page's fault, or a reason in words.
pub(super) enum PageFault {
    Page(PageError),
    Reason(String),
}

impl From<PageError> for PageFault {
    fn from(error: PageError) -> Self {
        Self::Page(error)
    }
}

/// Decides; gives the element whose pixels are to be checked, or the reason.
fn judge<'a>(expect: &Expect, found: &'a [Element], known: &Remembered) -> Result<Option<&'a Element>, String> {
    let visible: Vec<&Element> = found.iter().filter(|element| element.hidden.is_none()).collect();
    let mut chosen: Option<&Element> = None;
    for condition in &expect.conditions {
        match condition {
            Condition::Hidden => {
                return match visible.first() {
                    None => Ok(None),
                    Some(element) => {
                        Err(format!("{} is visible: {} {:?}", expect.target, element.tag, cut(&element.text)))
                    }
                };
            }
            Condition::Count(expression) => counted(&expect.target, expression, found, &visible, known)?,
            Condition::Visible => chosen = Some(one_of(&expect.target, found, &visible)?),
            Condition::Text(wanted) => {
                let wanted = fold(&known.fill_in(wanted));
                let holds = |e: &Element| {
                    e.text == wanted
                        || in_field(e).is_some_and(|value| value == wanted)
                        || (e.content == wanted && e.text.to_lowercase() == wanted.to_lowercase())
                };
                chosen = Some(any_with(&expect.target, found, &visible, holds, &format!("the text {wanted:?}"))?);
            }
            Condition::Contains(wanted) => {
                let wanted = fold(&known.fill_in(wanted));
                let holds = |e: &Element| {
                    e.text.contains(&wanted)
                        || in_field(e).is_some_and(|value| value.contains(&wanted))
                        || (e.content.contains(&wanted) && e.text.to_lowercase().contains(&wanted.to_lowercase()))
                };
                chosen = Some(any_with(&expect.target, found, &visible, holds, &format!("{wanted:?} in its text"))?);
            }
            Condition::Value(wanted) => {
                let wanted = known.fill_in(wanted);
                let element = the_one(&expect.target, found, &visible)?;
                let value = element.value.as_deref().unwrap_or_default();
                if value != wanted {
                    return Err(format!("expected the value {wanted:?}, but it is {:?}", cut(value)));
                }
                chosen = Some(element);
            }
            Condition::Focused(wanted) => {
                chosen = Some(state(expect, found, &visible, "focused", *wanted, |e| e.focused)?)
            }
            Condition::Enabled(wanted) => {
                chosen = Some(state(expect, found, &visible, "enabled", *wanted, |e| e.enabled)?)
            }
            Condition::Checked(wanted) => {
                chosen = Some(state(expect, found, &visible, "checked", *wanted, |e| e.checked == Some(true))?);
            }
        }
    }
    Ok(chosen)
}

/// What a field shows: its value is on the screen like any text, though the page has no text there.
fn in_field(element: &Element) -> Option<String> {
    element.value.as_deref().filter(|_| element.text.is_empty()).map(fold)
}

fn counted(
    target: &Target,
    expression: &CountExpr,
    found: &[Element],
    visible: &[&Element],
    known: &Remembered,
) -> Result<(), String> {
    let wanted = known.count(expression);
    if i64::try_from(visible.len()).is_ok_and(|count| count == wanted) {
        return Ok(());
    }
    let meant = match expression {
        CountExpr::Exactly(_) => String::new(),
        CountExpr::Remembered { .. } => format!(" ({expression})"),
    };
    let hidden = found.iter().find_map(|element| element.hidden.as_deref());
    let hidden =
        hidden.map_or_else(String::new, |why| format!("; {} more not visible: {why}", found.len() - visible.len()));
    Err(format!("expected {wanted}{meant} visible {target}, but there are {}{hidden}", visible.len()))
}

/// A visible element, or why there is none.
fn one_of<'a>(target: &Target, found: &'a [Element], visible: &[&'a Element]) -> Result<&'a Element, String> {
    match (visible.first(), found.first()) {
        (Some(element), _) => Ok(element),
        (None, None) => Err(format!("found no {target}")),
        (None, Some(first)) => {
            let (count, are) = (found.len(), if found.len() == 1 { "it is" } else { "they are" });
            Err(format!("found {count} but {are} not visible: {}", first.hidden.as_deref().unwrap_or_default()))
        }
    }
}

/// The only visible element, or why there is not exactly one.
fn the_one<'a>(target: &Target, found: &'a [Element], visible: &[&'a Element]) -> Result<&'a Element, String> {
    let first = one_of(target, found, visible)?;
    if visible.len() > 1 {
        return Err(format!("found {} visible {target}; say which with name, within or nth", visible.len()));
    }
    Ok(first)
}

fn any_with<'a>(
    target: &Target,
    found: &'a [Element],
    visible: &[&'a Element],
    holds: impl Fn(&Element) -> bool,
    wanted: &str,
) -> Result<&'a Element, String> {
    let first = one_of(target, found, visible)?;
    if let Some(element) = visible.iter().find(|element| holds(element)) {
        return Ok(element);
    }
    if let Some(why) = found.iter().find(|element| holds(element)).and_then(|element| element.hidden.as_deref()) {
        return Err(format!("found one with {wanted}, but it is not visible: {why}"));
    }
    let others = if visible.len() > 1 { format!(" (the first of {})", visible.len()) } else { String::new() };
    Err(format!("expected {wanted}, but it shows {:?}{others}", cut(&first.text)))
}

fn state<'a>(
    expect: &Expect,
    found: &'a [Element],
    visible: &[&'a Element],
    word: &str,
    wanted: bool,
    is: impl Fn(&Element) -> bool,
) -> Result<&'a Element, String> {
    let element = the_one(&expect.target, found, visible)?;
    if is(element) == wanted {
        return Ok(element);
    }
    let not = |wrong: bool| if wrong { "not " } else { "" };
    Err(format!("expected it to be {}{word}, but it is {}{word}", not(!wanted), not(wanted)))
}

fn cut(text: &str) -> String {
    let mut cut: String = text.chars().take(200).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    cut
}

/// What a `remember` notes.
pub(super) async fn remember(page: &Page, query: Query, target: &Target) -> Result<String, PageFault> {
    // Nothing says that it is there already, so it is given the time that an act gives its target.
    let deadline = Instant::now() + Duration::from_millis(crate::checks::WITHIN_MS_DEFAULT);
    loop {
        let found = page.find(target).await?;
        let visible: Vec<&Element> = found.iter().filter(|element| element.hidden.is_none()).collect();
        let noted = match query {
            Query::Count => Ok(visible.len().to_string()),
            Query::Text => the_one(target, &found, &visible).map(|element| element.text.clone()),
            Query::Value => the_one(target, &found, &visible).map(|element| element.value.clone().unwrap_or_default()),
        };
        match noted {
            Ok(noted) => return Ok(noted),
            Err(why) if Instant::now() >= deadline => return Err(PageFault::Reason(why)),
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}
