//! How text looks on this terminal: colours, glyphs and widths. Pure but for [`Style::detect`].

use std::{
    env,
    io::{IsTerminal, stdout},
};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What a piece of text means; the terminal's own palette decides how that looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    Good,
    Bad,
    Notice,
    Faint,
    Strong,
}

/// The mark at the start of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Glyph {
    Session,
    Pass,
    Fail,
    Notice,
    Recall,
    Detail,
}

/// What the terminal can do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    pub(crate) colour: bool,
    pub(crate) unicode: bool,
    /// Columns of the terminal; `None` where lines may be as long as they like.
    pub(crate) columns: Option<usize>,
}

impl Style {
    /// Looks at standard output, the locale, `NO_COLOR` and `TERM`.
    pub(crate) fn detect(no_color: bool) -> Self {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let terminal = stdout().is_terminal();
        let dumb = variable("TERM").is_some_and(|term| term == "dumb");
        let locale =
            variable("LC_ALL").or_else(|| variable("LC_CTYPE")).or_else(|| variable("LANG")).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        let columns = console::Term::stdout().size_checked().map_or(100, |(_, columns)| usize::from(columns));
        Self {
            colour: terminal && !no_color && !dumb && variable("NO_COLOR").is_none(),
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
            columns: terminal.then_some(columns),
        }
    }

    pub(crate) fn paint(self, ink: Ink, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Good => "32",
            Ink::Bad => "31",
            Ink::Notice => "33",
            Ink::Faint => "2",
            Ink::Strong => "1",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    /// The mark, coloured, one column wide.
    pub(crate) fn glyph(self, glyph: Glyph) -> String {
        let (unicode, ascii, ink) = match glyph {
            Glyph::Session => ("●", "*", Ink::Strong),
            Glyph::Pass => ("✓", "+", Ink::Good),
            Glyph::Fail => ("✗", "x", Ink::Bad),
            Glyph::Notice => ("!", "!", Ink::Notice),
            Glyph::Recall => ("↺", "~", Ink::Faint),
            Glyph::Detail => ("·", "-", Ink::Faint),
        };
        self.paint(ink, if self.unicode { unicode } else { ascii })
    }

    /// Between facts on one line.
    pub(crate) fn dot(self) -> &'static str {
        if self.unicode { " · " } else { ", " }
    }

    /// `text` on one line and at most `columns` wide; wide characters count two.
    pub(crate) fn fit(self, text: &str, columns: usize) -> String {
        let line = one_line(text);
        if line.width() <= columns {
            return line;
        }
        let ellipsis = if self.unicode { "…" } else { "..." };
        let room = columns.saturating_sub(ellipsis.width());
        let mut used = 0;
        let kept: String = line
            .chars()
            .take_while(|char| {
                used += char.width().unwrap_or(0);
                used <= room
            })
            .collect();
        kept.trim_end().to_owned() + ellipsis
    }

    /// `text` after an indent of that many columns, cut where the terminal ends; whole where there is no terminal.
    pub(crate) fn fit_after(self, indent: usize, text: &str) -> String {
        match self.columns {
            Some(columns) => self.fit(text, columns.saturating_sub(indent).max(20)),
            None => one_line(text),
        }
    }
}

/// Control characters would let a model's words move the cursor or recolour the terminal.
fn one_line(text: &str) -> String {
    let text = console::strip_ansi_codes(text);
    let printable: String = text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    printable.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `950`, `18.2k`, `1.3M`.
pub(crate) fn tokens(count: u64) -> String {
    match count {
        0..=999 => count.to_string(),
        1_000..=999_999 => format!("{}.{}k", count / 1_000, count % 1_000 / 100),
        _ => format!("{}.{}M", count / 1_000_000, count % 1_000_000 / 100_000),
    }
}

/// `412 ms`, `2.3 s`, `1 min 32 s`, `2 h 5 min`.
pub(crate) fn duration(ms: u64) -> String {
    match ms {
        0..=999 => format!("{ms} ms"),
        1_000..=59_999 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..=3_599_999 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
        _ => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

/// `1 feature`, `3 features`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
