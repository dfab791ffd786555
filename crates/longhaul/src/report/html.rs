//! Text for the page: escaping, numbers, times, pictures. Everything that came from a model, a person or an application
//! goes through [`text`].

use std::fmt::{self, Display, Write};

pub(super) use longhaul_operate::moment;

use super::data::{Picture, Pixels};

/// Free text, made harmless: markup is escaped, control characters are replaced.
pub(crate) struct Text<'a>(&'a str);

/// The text as it may stand in an element or a quoted attribute.
pub(crate) fn text(text: &str) -> Text<'_> {
    Text(text)
}

impl Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(c)?,
                c if c.is_control() => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// The text cut at a number of characters, with an ellipsis where something is missing.
pub(super) fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
    }
}

/// `1 session`, `3 sessions`.
pub(super) fn count(n: u64, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(n))
}

/// A number with narrow spaces between groups of three digits.
pub(super) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut shown = String::with_capacity(digits.len() * 2);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            shown.push('\u{202f}');
        }
        shown.push(digit);
    }
    shown
}

/// A large number in few characters: `940`, `12.3 k`, `4.1 M`.
pub(super) fn short(n: u64) -> String {
    let tenth = |unit: u64, sign: &str| format!("{}.{}\u{202f}{sign}", n / unit, n % unit * 10 / unit);
    match n {
        0..=9_999 => grouped(n),
        10_000..=999_999 => tenth(1_000, "k"),
        _ => tenth(1_000_000, "M"),
    }
}

/// A duration in its two largest units.
pub(super) fn duration(ms: u64) -> String {
    let s = ms / 1_000;
    match s {
        0..=9 => format!("{s}.{} s", ms % 1_000 / 100),
        10..=59 => format!("{s} s"),
        60..=3_599 => format!("{} min {} s", s / 60, s % 60),
        3_600..=86_399 => format!("{} h {} min", s / 3_600, s % 3_600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3_600),
    }
}

/// Microseconds as milliseconds with one digit.
pub(super) fn micros(us: u64) -> String {
    format!("{}.{} ms", us / 1_000, us % 1_000 / 100)
}

/// The first ten characters of a commit's id.
pub(super) fn commit(id: &str) -> String {
    let short: String = id.chars().take(10).collect();
    format!("<code class=\"commit\" title=\"commit {}\">{}</code>", text(id), text(&short))
}

/// A picture that can be enlarged, or the reason why there is none.
pub(super) fn picture(picture: &Picture, class: &str) -> String {
    let caption = text(&picture.caption);
    match &picture.content {
        Pixels::Shown { base64, width, height } => format!(
            "<figure class=\"shot {class}\"><button type=\"button\" class=\"zoom\" aria-label=\"enlarge: {caption}\">\
             <img src=\"data:image/png;base64,{base64}\" width=\"{width}\" height=\"{height}\" alt=\"{caption}\"></button>\
             <figcaption dir=\"auto\">{caption}</figcaption></figure>"
        ),
        Pixels::LeftOut(why) => format!(
            "<figure class=\"shot absent {class}\"><p>{}</p><figcaption dir=\"auto\">{caption}</figcaption></figure>",
            text(why)
        ),
    }
}

/// A short label with a meaning; `class` gives its colour.
pub(super) fn chip(class: &str, label: &str) -> String {
    format!("<span class=\"chip {class}\">{}</span>", text(label))
}
