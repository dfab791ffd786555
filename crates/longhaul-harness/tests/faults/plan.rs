//! Which faults are planted where: kinds times places. A place is an element or a behaviour that users of an application
//! depend on, with the feature that says so; the kinds know no application, and neither knows a check.

/// A fault to plant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    pub(crate) app: &'static str,
    /// The feature that is broken by it.
    pub(crate) feature: &'static str,
    pub(crate) seed: Seed,
}

/// How it is planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Seed {
    /// `fault.js` in the head of every page, with a kind and a selector.
    Page { kind: &'static str, at: &'static str },
    /// `sitecustomize.py` in the server, with a kind.
    Server { kind: &'static str },
    /// A change of the program's text: this occurrence, from 0, of one text becomes another.
    Text { file: &'static str, from: &'static str, nth: usize, to: &'static str },
}

impl Seed {
    /// What kind of fault it is.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Page { kind, .. } | Self::Server { kind } => kind,
            Self::Text { .. } => "program text",
        }
    }
}

type Place = (&'static str, &'static str, &'static str);

/// What must be seen.
const SEEN: &[Place] = &[
    ("notes", "N01", "#others li"),
    ("notes", "N01", "#total"),
    ("notes", "N07", "#problem"),
    ("notes", "N08", "#pinned li"),
    ("board", "B02", "li.card"),
    ("board", "B08", "#about-text"),
    ("board", "B09", "#tip"),
    ("board", "B10", "#cheers"),
    ("ledger", "L01", "tr.entry td"),
    ("ledger", "L02", "[role=status]"),
    ("ledger", "L05", "#problem"),
    ("ledger", "L07", "#rate"),
    ("ledger", "L08", "#explained"),
];
const UNSEEN_KINDS: &[&str] = &[
    "display-none",
    "visibility-hidden",
    "opacity-0",
    "transparent-text",
    "zero-size",
    "off-screen",
    "above-the-top",
    "clipped",
    "scaled-away",
    "masked",
    "filtered",
    "shifted-text",
    "covered",
    "covered-but-clickable",
    "hidden-from-readers",
    "late",
];

/// Whose text matters.
const WRITTEN: &[Place] = &[
    ("notes", "N01", "#total"),
    ("notes", "N02", "#others li .text"),
    ("notes", "N07", "#problem"),
    ("board", "B01", "h2"),
    ("board", "B06", "#title"),
    ("board", "B09", "#tip"),
    ("board", "B10", "#cheers"),
    ("ledger", "L01", "tr.entry td"),
    ("ledger", "L02", "#total"),
    ("ledger", "L05", "#problem"),
    ("ledger", "L07", "#rate"),
];
const TEXT_KINDS: &[&str] = &["wrong-text", "undefined-text", "cut-text"];

/// What is clicked.
const CLICKED: &[Place] = &[
    ("notes", "N01", "#add-button"),
    ("notes", "N04", "button.delete"),
    ("notes", "N09", "button.edit"),
    ("notes", "N09", "#save"),
    ("board", "B06", "#rename"),
    ("board", "B07", "#theme"),
    ("board", "B08", "#about"),
    ("board", "B10", "#laugh"),
    ("ledger", "L01", "#book"),
    ("ledger", "L03", "#income"),
    ("ledger", "L04", "button.remove"),
    ("ledger", "L07", "#rates"),
    ("ledger", "L08", "#more"),
];
const CLICK_KINDS: &[&str] = &["dead", "first-click-lost", "covered", "unclickable", "wrong-name", "display-none"];

/// Buttons and fields.
const CONTROLS: &[Place] = &[
    ("notes", "N01", "#text"),
    ("notes", "N01", "#add-button"),
    ("notes", "N05", "#search"),
    ("board", "B02", "#name"),
    ("board", "B05", "#filter"),
    ("board", "B12", "#high"),
    ("ledger", "L01", "#what"),
    ("ledger", "L07", "#rates"),
];
const CONTROL_KINDS: &[&str] = &["disabled", "no-role"];

/// Fields for text.
const FILLED: &[Place] = &[
    ("notes", "N01", "#text"),
    ("notes", "N05", "#search"),
    ("notes", "N09", "#edited"),
    ("board", "B02", "#name"),
    ("ledger", "L01", "#what"),
    ("ledger", "L01", "#amount"),
];
const FIELD_KINDS: &[&str] = &["readonly", "truncates", "loses-content"];

/// Kinds that make sense in some places only.
const ELSEWHERE: &[(&str, Place)] = &[
    ("upper-case", ("notes", "N01", "#text")),
    ("upper-case", ("board", "B02", "#name")),
    ("upper-case", ("ledger", "L01", "#what")),
    ("stale-text", ("notes", "N01", "#total")),
    ("stale-text", ("board", "B10", "#cheers")),
    ("stale-text", ("board", "B06", "#title")),
    ("stale-text", ("board", "B02", "[data-column=todo] .count")),
    ("dead-form", ("notes", "N02", "#add")),
    ("dead-form", ("board", "B02", "#add")),
    ("dead-form", ("ledger", "L01", "#add")),
    ("twice", ("board", "B10", "#laugh")),
    ("twice", ("board", "B07", "#theme")),
    ("twice", ("notes", "N01", "#add-button")),
    ("twice", ("notes", "N04", "button.delete")),
    ("does-not-stick", ("notes", "N08", "#others input[type=checkbox]")),
    ("does-not-stick", ("board", "B12", "#high")),
    ("does-not-stick", ("ledger", "L07", "#cny")),
    ("choice-reverts", ("board", "B05", "#filter")),
    ("choice-reverts", ("ledger", "L02", "#kind")),
    ("no-keys", ("notes", "N02", "#text")),
    ("no-keys", ("board", "B04", "li.card")),
    ("loses-focus", ("notes", "N01", "#text")),
    ("loses-focus", ("ledger", "L05", "#amount")),
    ("drop-lost", ("board", "B03", "[data-column=done]")),
    ("no-drag", ("board", "B03", "li.card")),
    ("no-hover", ("board", "B09", "li.card")),
    ("file-lost", ("notes", "N06", "#import")),
    ("duplicate", ("notes", "N01", "#others li")),
    ("duplicate", ("board", "B04", "li.card")),
    ("duplicate", ("ledger", "L01", "tr.entry")),
    ("missing", ("notes", "N05", "#others li")),
    ("missing", ("board", "B01", "li.card")),
    ("missing", ("ledger", "L04", "tr.entry")),
    ("wrong-target", ("board", "B08", "#about")),
    ("wrong-target", ("ledger", "L03", "#income")),
    ("wrong-dialog-text", ("notes", "N04", "")),
    ("wrong-dialog-text", ("board", "B06", "")),
    ("wrong-dialog-text", ("board", "B11", "")),
    ("no-dialog", ("notes", "N04", "")),
    ("no-dialog", ("board", "B06", "")),
    ("no-dialog", ("board", "B11", "")),
    ("other-dialog", ("notes", "N04", "")),
    ("other-dialog", ("board", "B06", "")),
    ("other-dialog", ("board", "B11", "")),
    ("answer-ignored", ("notes", "N04", "")),
    ("answer-lost", ("board", "B06", "")),
    ("storage-lost", ("board", "B02", "")),
    ("storage-lost", ("board", "B07", "")),
    ("storage-cleared", ("board", "B06", "")),
    ("stale-fetch", ("notes", "N01", "")),
    ("no-fetch", ("notes", "N01", "")),
    ("no-fetch", ("ledger", "L07", "")),
    ("slow-fetch", ("notes", "N03", "")),
    ("slow-fetch", ("ledger", "L07", "")),
];

/// Kinds that any page can have, whatever is on it.
const PAGE_KINDS: &[&str] = &[
    "console-error",
    "console-error-later",
    "exception",
    "rejection",
    "failed-request",
    "missing-picture",
    "foreign-script",
    "unexpected-alert",
    "alert-on-click",
    "leaves-the-page",
    "blank",
];
const PAGES: &[(&str, &str)] = &[("notes", "N01"), ("board", "B02"), ("ledger", "L01")];

/// Kinds of servers.
const SERVERS: &[(&str, &str, &str)] = &[
    ("changes-fail", "notes", "N01"),
    ("changes-fail", "ledger", "L01"),
    ("asset-missing", "notes", "N01"),
    ("asset-missing", "board", "B01"),
    ("wrong-status", "notes", "N07"),
    ("crash-on-change", "notes", "N01"),
    ("crash-on-change", "ledger", "L01"),
    ("slow-change", "notes", "N03"),
    ("cached", "notes", "N08"),
    ("garbled", "board", "B08"),
    ("garbled", "ledger", "L06"),
    ("wrong-redirect", "ledger", "L04"),
    ("script-as-text", "notes", "N01"),
    ("script-as-text", "board", "B02"),
    ("not-written", "ledger", "L09"),
    ("half-written", "ledger", "L06"),
    ("lost-at-restart", "notes", "N03"),
    ("lost-at-restart", "ledger", "L06"),
];

type Change = (&'static str, &'static str, &'static str, &'static str, usize, &'static str);

/// Changes that programmers make by mistake.
const CHANGES: &[Change] = &[
    ("notes", "N08", "app.js", "addEventListener(\"", 0, "addEventListener(\"un"),
    ("notes", "N04", "app.js", "addEventListener(\"", 1, "addEventListener(\"un"),
    ("notes", "N01", "app.js", "addEventListener(\"", 2, "addEventListener(\"un"),
    ("notes", "N05", "app.js", "addEventListener(\"", 3, "addEventListener(\"un"),
    ("notes", "N06", "app.js", "addEventListener(\"", 4, "addEventListener(\"un"),
    ("notes", "N01", "app.js", "===", 0, "!=="),
    ("notes", "N07", "app.js", "===", 1, "!=="),
    ("notes", "N09", "app.js", "!==", 0, "==="),
    ("notes", "N08", "app.js", "await load();", 0, ""),
    ("notes", "N01", "app.js", "await load();", 1, ""),
    ("notes", "N04", "app.js", "await load();", 2, ""),
    ("notes", "N09", "app.js", "await load();", 3, ""),
    ("notes", "N06", "app.js", "await load();", 4, ""),
    ("notes", "N08", "app.js", "!note.pinned", 0, "note.pinned"),
    ("notes", "N04", "app.js", "!confirm", 0, "confirm"),
    ("notes", "N03", "server.py", "save(data)", 1, "str(data)"),
    ("notes", "N08", "server.py", "save(data)", 2, "str(data)"),
    ("notes", "N04", "server.py", "save(data)", 3, "str(data)"),
    ("notes", "N01", "server.py", "if not text", 0, "if text"),
    ("notes", "N07", "server.py", "400", 0, "200"),
    ("board", "B04", "app.js", "? 1 :", 0, "? 2 :"),
    ("board", "B01", "app.js", "=== section.dataset.column", 0, "!== section.dataset.column"),
    ("board", "B07", "app.js", "!board.dark", 0, "board.dark"),
    ("board", "B02", "app.js", "setItem(\"board\"", 0, "setItem(\"cards\""),
    ("board", "B10", "app.js", "+= 1", 0, "+= 2"),
    ("board", "B05", "app.js", "wanted === \"Any\"", 0, "wanted !== \"Any\""),
    ("board", "B09", "app.js", "hidden = false", 0, "hidden = true"),
    ("board", "B12", "app.js", "$(\"high\").checked }", 0, "false }"),
    ("board", "B06", "app.js", "board.title = title", 0, "title === board.title"),
    ("board", "B11", "app.js", "board.cards.some(", 0, "!board.cards.some("),
    ("board", "B03", "app.js", "event.preventDefault()", 0, "event.timeStamp"),
    ("ledger", "L02", "server.py", "else -e[\"cents\"]", 0, "else e[\"cents\"]"),
    ("ledger", "L01", "server.py", "else -1", 0, "else 1"),
    ("ledger", "L01", "server.py", "* 100)", 0, "* 10)"),
    ("ledger", "L02", "server.py", "entries + [entry]", 0, "[entry]"),
    ("ledger", "L04", "server.py", "[int(form[\"n\"])]", 0, "[-1]"),
    ("ledger", "L03", "server.py", "e[\"kind\"] == kind", 0, "e[\"kind\"] != kind"),
    ("ledger", "L05", "server.py", "html.escape(problem)", 0, "\"\""),
    ("ledger", "L07", "app.js", "disabled = false", 0, "disabled = true"),
    ("ledger", "L05", "app.js", "$(\"amount\").focus()", 0, "$(\"what\").focus()"),
    ("ledger", "L07", "app.js", "rates[currency]", 0, "rates.EUR"),
];

/// Every fault, in a fixed order.
pub(crate) fn faults() -> Vec<Fault> {
    let mut all = Vec::new();
    let crosses = [
        (UNSEEN_KINDS, SEEN),
        (TEXT_KINDS, WRITTEN),
        (CLICK_KINDS, CLICKED),
        (CONTROL_KINDS, CONTROLS),
        (FIELD_KINDS, FILLED),
    ];
    for (kinds, places) in crosses {
        for kind in kinds {
            all.extend(places.iter().map(|place| page(kind, place)));
        }
    }
    all.extend(ELSEWHERE.iter().map(|(kind, place)| page(kind, place)));
    for kind in PAGE_KINDS {
        all.extend(PAGES.iter().map(|(app, feature)| page(kind, &(app, feature, ""))));
    }
    all.push(page("frozen", &("board", "B01", "")));
    all.extend(SERVERS.iter().map(|(kind, app, feature)| Fault { app, feature, seed: Seed::Server { kind } }));
    all.extend(CHANGES.iter().map(|(app, feature, file, from, nth, to)| Fault {
        app,
        feature,
        seed: Seed::Text { file, from, nth: *nth, to },
    }));
    all
}

fn page(kind: &'static str, (app, feature, at): &Place) -> Fault {
    Fault { app, feature, seed: Seed::Page { kind, at } }
}

/// One fault of each kind, of the program's text every fourth, in the same order: for a run that must be short.
pub(crate) fn one_of_each() -> Vec<Fault> {
    let mut seen = std::collections::BTreeMap::new();
    let mut turn = |fault: &Fault| {
        let count = seen.entry(fault.seed.kind()).or_insert(0_usize);
        *count += 1;
        *count - 1
    };
    let mut chosen = faults();
    // Not always the first place of a kind: with the kinds the places take turns.
    let mut kinds: Vec<&str> = Vec::new();
    chosen.retain(|fault| {
        let kind = fault.seed.kind();
        let number = kinds.iter().position(|known| *known == kind).unwrap_or_else(|| {
            kinds.push(kind);
            kinds.len() - 1
        });
        let places = faults().iter().filter(|other| other.seed.kind() == kind).count();
        let at = turn(fault);
        if matches!(fault.seed, Seed::Text { .. }) { at % 4 == 0 } else { at == number % places }
    });
    chosen
}
