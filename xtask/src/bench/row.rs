//! One measured number beside its bar and its peer, and how both are shown. It judges; it measures nothing.

use serde_json::{Value, json};

/// What a measured number must hold.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bar {
    /// At most this, in the row's unit.
    AtMost(f64),
    /// At least this, in the row's unit.
    AtLeast(f64),
    /// At most this many times the peer's.
    RatioAtMost(f64),
    /// At least this many times the peer's.
    RatioAtLeast(f64),
}

/// One number.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// What was measured, as the promise words it.
    what: String,
    /// `ms`, `MB`, `count`.
    unit: &'static str,
    /// The number, in that unit; none where it could not be measured, which the note explains.
    ours: Option<f64>,
    /// Who else was measured, in the same run on the same machine.
    peer_name: Option<String>,
    /// What the peer reached, in the same unit.
    peer: Option<f64>,
    /// The bar, if one was set.
    bar: Option<Bar>,
    /// Why the bar does not apply on this machine: missing it is then not a miss.
    exempt: bool,
    /// Measuring it failed, which no row may hide.
    failed: bool,
    /// What a reader must know to judge the number.
    note: Option<String>,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, unit: &'static str, ours: impl Into<Option<f64>>) -> Self {
        let (what, ours) = (what.into(), ours.into());
        Self { what, unit, ours, peer_name: None, peer: None, bar: None, exempt: false, failed: false, note: None }
    }

    /// Something could not be measured though it should have been.
    pub(crate) fn failed(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { failed: true, ..Self::new(what, "", None) }.note(why)
    }

    pub(crate) fn bar(self, bar: Bar) -> Self {
        Self { bar: Some(bar), ..self }
    }

    pub(crate) fn peer(self, name: impl Into<String>, value: impl Into<Option<f64>>) -> Self {
        Self { peer_name: Some(name.into()), peer: value.into(), ..self }
    }

    /// Adds to what a reader must know.
    pub(crate) fn note(self, note: impl Into<String>) -> Self {
        let note = note.into();
        let note = self.note.as_ref().map_or_else(|| note.clone(), |before| format!("{before}; {note}"));
        Self { note: Some(note), ..self }
    }

    /// The bar is only promised under a condition, which this machine does not meet.
    pub(crate) fn exempt(self, why: impl Into<String>) -> Self {
        Self { exempt: true, ..self }.note(why)
    }

    /// Ours in the peer's.
    fn ratio(&self) -> Option<f64> {
        let peer = self.peer.filter(|peer| *peer != 0.0)?;
        Some(self.ours? / peer)
    }

    /// Whether the bar holds; none where that cannot be told.
    pub(crate) fn ok(&self) -> Option<bool> {
        if self.failed {
            return Some(false);
        }
        let holds = match self.bar {
            None => self.ours.map(|_| true),
            Some(Bar::AtMost(value)) => self.ours.map(|ours| ours <= value),
            Some(Bar::AtLeast(value)) => self.ours.map(|ours| ours >= value),
            Some(Bar::RatioAtMost(value)) => self.ratio().map(|ratio| ratio <= value),
            Some(Bar::RatioAtLeast(value)) => self.ratio().map(|ratio| ratio >= value),
        };
        if self.exempt { holds.filter(|holds| *holds) } else { holds }
    }

    pub(super) fn json(&self) -> Value {
        let bar = self.bar.map(|bar| match bar {
            Bar::AtMost(value) => json!({ "op": "<=", "value": value }),
            Bar::AtLeast(value) => json!({ "op": ">=", "value": value }),
            Bar::RatioAtMost(value) => json!({ "op": "<=", "value": value, "of": "ratio" }),
            Bar::RatioAtLeast(value) => json!({ "op": ">=", "value": value, "of": "ratio" }),
        });
        let mut row = json!({
            "what": self.what, "unit": self.unit, "ours": self.ours, "peer_name": self.peer_name, "peer": self.peer,
            "ratio": self.ratio(), "bar": bar, "ok": self.ok(),
        });
        if let Some(note) = &self.note {
            row["note"] = json!(note);
        }
        row
    }

    /// For people: one line, and one more for the note.
    pub(super) fn line(&self) -> String {
        let bar = match self.bar {
            None => String::new(),
            Some(Bar::AtMost(value)) => format!("  (at most {value} {})", self.unit),
            Some(Bar::AtLeast(value)) => format!("  (at least {value} {})", self.unit),
            Some(Bar::RatioAtMost(value)) => format!("  (at most {value} × the peer's)"),
            Some(Bar::RatioAtLeast(value)) => format!("  (at least {value} × the peer's)"),
        };
        let peer = self.peer_name.as_ref().map(|name| match (self.peer, self.ratio()) {
            (Some(value), Some(ratio)) => format!("  {name}: {} {} (× {ratio:.3})", short(value), self.unit),
            (Some(value), None) => format!("  {name}: {} {}", short(value), self.unit),
            (None, _) => format!("  {name}: not measured"),
        });
        let verdict = match self.ok() {
            Some(true) => "ok  ",
            Some(false) => "MISS",
            None => "–   ",
        };
        let ours = self.ours.map_or_else(|| "–".to_owned(), short);
        let note = self.note.as_ref().map(|note| format!("\n       {note}")).unwrap_or_default();
        format!("{verdict} {:<64} {ours:>10} {}{bar}{}{note}", self.what, self.unit, peer.unwrap_or_default())
    }
}

/// Three figures are enough for people.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: f64, bar: Bar) -> Row {
        Row::new("x", "ms", ours).peer("peer", 4.0).bar(bar)
    }

    #[test]
    fn a_row_says_whether_it_holds_its_bar() {
        let holds = |ours, bar| row(ours, bar).ok() == Some(true);
        assert!(holds(2.0, Bar::AtMost(2.0)) && !holds(2.1, Bar::AtMost(2.0)));
        assert!(holds(2.0, Bar::AtLeast(2.0)) && !holds(1.9, Bar::AtLeast(2.0)));
        assert!(holds(2.0, Bar::RatioAtMost(0.5)) && !holds(2.1, Bar::RatioAtMost(0.5)));
        assert!(holds(8.0, Bar::RatioAtLeast(2.0)) && !holds(7.9, Bar::RatioAtLeast(2.0)));
        let expected = json!({"what": "x", "unit": "ms", "ours": 2.0, "peer_name": "peer", "peer": 4.0, "ratio": 0.5,
            "bar": {"op": "<=", "value": 2.0}, "ok": true});
        assert_eq!(row(2.0, Bar::AtMost(2.0)).json(), expected);
    }

    #[test]
    fn what_was_not_measured_is_neither_held_nor_missed() {
        assert_eq!(Row::new("x", "ms", None).bar(Bar::AtMost(2.0)).ok(), None);
        assert_eq!(Row::new("x", "ms", 1.0).peer("peer", None).bar(Bar::RatioAtMost(2.0)).ok(), None);
        assert_eq!(Row::new("x", "ms", 1.0).peer("peer", None).bar(Bar::AtMost(2.0)).ok(), Some(true));
        assert_eq!(row(3.0, Bar::RatioAtLeast(2.0)).exempt("a slow disk").ok(), None);
        assert_eq!(row(9.0, Bar::RatioAtLeast(2.0)).exempt("a slow disk").ok(), Some(true));
        assert_eq!(Row::failed("x", "no program").ok(), Some(false));
    }
}
