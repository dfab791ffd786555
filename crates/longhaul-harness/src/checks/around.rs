//! Checks of what is around a page: tabs, permissions, downloads, paper, pictures. Their types, how they are read and
//! printed.

use longhaul_tools::browser::{Permission, TabWanted, Target};
use serde_json::{Map, Value, json};

use super::{
    CheckError, WITHIN_MS_DEFAULT, WITHIN_MS_MAX,
    fields::{Fields, refuse},
};

/// Part of a picture's pixels that may differ when a check does not say, from 0 to 1.
pub const TOLERANCE_DEFAULT: f64 = 0.01;

/// Makes another tab the current one, or closes the current one.
#[derive(Debug, Clone, PartialEq)]
pub struct TabCheck {
    /// Which tab; none when the current one is only closed.
    pub wanted: Option<TabWanted>,
    /// Whether it is closed.
    pub close: bool,
    /// How long to wait for it, in milliseconds.
    pub within_ms: u64,
}

/// Grants or denies the application a permission, from here on.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionCheck {
    /// Which.
    pub permission: Permission,
    /// Whether it is granted.
    pub granted: bool,
    /// Where the device says it is: latitude and longitude in degrees.
    pub place: Option<(f64, f64)>,
}

/// Expects a file that the page hands to its user.
#[derive(Debug, Clone, PartialEq)]
pub struct DownloadCheck {
    /// Pattern of its name, with `*` and `?`.
    pub name: String,
    /// A text in it, as UTF-8. `{name}` stands for what was remembered.
    pub contains: Option<String>,
    /// A pattern (regular expression) that matches somewhere in it.
    pub matches: Option<String>,
    /// What its JSON must contain, as for `http`.
    pub json: Option<Value>,
    /// How long to wait for it, in milliseconds.
    pub within_ms: u64,
}

/// Expects that the page asks to be printed.
#[derive(Debug, Clone, PartialEq)]
pub struct PrintCheck {
    /// A text on the paper, white space folded.
    pub contains: Option<String>,
    /// A text that is not on the paper.
    pub lacks: Option<String>,
    /// How many sheets.
    pub pages: Option<usize>,
    /// How long to wait for it, in milliseconds.
    pub within_ms: u64,
}

/// Compares a picture with the one that was accepted under this name.
#[derive(Debug, Clone, PartialEq)]
pub struct VisualCheck {
    /// The picture's name within the feature.
    pub name: String,
    /// What is pictured; the window when absent.
    pub target: Option<Target>,
    /// Part of the pixels that may differ, from 0 to 1.
    pub tolerance: f64,
}

impl TabCheck {
    pub(super) fn parse(fields: &mut Fields<'_>) -> Result<Self, CheckError> {
        let nth = fields.whole("nth", 0, 100)?.and_then(|n| usize::try_from(n).ok());
        let wanted = TabWanted {
            title: fields.optional_text("title")?,
            url: fields.optional_text("url")?,
            name: fields.optional_text("name")?,
            nth,
        };
        let close = fields.flag("close")?.unwrap_or(false);
        let wanted = Some(wanted).filter(|wanted| *wanted != TabWanted::default());
        if wanted.is_none() && !close {
            return refuse(fields.place, "says no tab: give title, url, name or nth, or close the current one");
        }
        Ok(Self { wanted, close, within_ms: within(fields)? })
    }

    pub(super) fn print(&self, put: &mut impl FnMut(&str, Value)) {
        if let Some(TabWanted { title, url, name, nth }) = &self.wanted {
            put_text("title", title, put);
            put_text("url", url, put);
            put_text("name", name, put);
            if let Some(nth) = nth {
                put("nth", json!(nth));
            }
        }
        if self.close {
            put("close", json!(true));
        }
        put_within(self.within_ms, put);
    }
}

impl PermissionCheck {
    pub(super) fn parse(fields: &mut Fields<'_>) -> Result<Self, CheckError> {
        let name = fields.required_text("name")?;
        let Some((_, permission)) = Permission::ALL.into_iter().find(|(known, _)| *known == name) else {
            let known = Permission::ALL.map(|(name, _)| name).join(", ");
            return refuse(fields.at("name"), format!("{name:?} is not a permission; there are {known}"));
        };
        let granted = match fields.required_text("answer")?.as_str() {
            "grant" => true,
            "deny" => false,
            _ => return refuse(fields.at("answer"), "must be grant or deny"),
        };
        let latitude = fields.number("latitude", -90.0, 90.0)?;
        let longitude = fields.number("longitude", -180.0, 180.0)?;
        let place = match (latitude, longitude) {
            (None, None) => None,
            (Some(latitude), Some(longitude)) if permission == Permission::Geolocation => Some((latitude, longitude)),
            _ => {
                return refuse(
                    fields.place,
                    "gives a place with both latitude and longitude, and only for geolocation",
                );
            }
        };
        Ok(Self { permission, granted, place })
    }

    pub(super) fn print(&self, put: &mut impl FnMut(&str, Value)) {
        put("name", json!(self.permission.name()));
        put("answer", json!(if self.granted { "grant" } else { "deny" }));
        if let Some((latitude, longitude)) = self.place {
            put("latitude", json!(latitude));
            put("longitude", json!(longitude));
        }
    }
}

impl DownloadCheck {
    pub(super) fn parse(fields: &mut Fields<'_>) -> Result<Self, CheckError> {
        Ok(Self {
            name: fields.required_text("name")?,
            contains: fields.optional_text("contains")?,
            matches: fields.pattern("matches")?,
            json: fields.json("json"),
            within_ms: within(fields)?,
        })
    }

    pub(super) fn print(&self, put: &mut impl FnMut(&str, Value)) {
        put("name", json!(self.name));
        put_text("contains", &self.contains, put);
        put_text("matches", &self.matches, put);
        if let Some(json) = &self.json {
            put("json", json.clone());
        }
        put_within(self.within_ms, put);
    }
}

impl PrintCheck {
    pub(super) fn parse(fields: &mut Fields<'_>) -> Result<Self, CheckError> {
        Ok(Self {
            contains: fields.optional_text("contains")?,
            lacks: fields.optional_text("lacks")?,
            pages: fields.whole("pages", 1, 1_000)?.and_then(|n| usize::try_from(n).ok()),
            within_ms: within(fields)?,
        })
    }

    pub(super) fn print(&self, put: &mut impl FnMut(&str, Value)) {
        put_text("contains", &self.contains, put);
        put_text("lacks", &self.lacks, put);
        if let Some(pages) = self.pages {
            put("pages", json!(pages));
        }
        put_within(self.within_ms, put);
    }
}

impl VisualCheck {
    pub(super) fn parse(fields: &mut Fields<'_>) -> Result<Self, CheckError> {
        let name = fields.name("name")?;
        let tolerance = fields.number("tolerance", 0.0, 0.5)?.unwrap_or(TOLERANCE_DEFAULT);
        Ok(Self { name, target: fields.optional_target("target")?, tolerance })
    }

    pub(super) fn print(&self, put: &mut impl FnMut(&str, Value)) {
        put("name", json!(self.name));
        if let Some(target) = &self.target {
            put("target", json!(target));
        }
        if (self.tolerance - TOLERANCE_DEFAULT).abs() > f64::EPSILON {
            put("tolerance", json!(self.tolerance));
        }
    }
}

fn within(fields: &mut Fields<'_>) -> Result<u64, CheckError> {
    Ok(fields.whole("within_ms", 0, WITHIN_MS_MAX)?.unwrap_or(WITHIN_MS_DEFAULT))
}

fn put_within(within_ms: u64, put: &mut impl FnMut(&str, Value)) {
    if within_ms != WITHIN_MS_DEFAULT {
        put("within_ms", json!(within_ms));
    }
}

pub(super) fn put_text(field: &str, text: &Option<String>, put: &mut impl FnMut(&str, Value)) {
    if let Some(text) = text {
        put(field, json!(text));
    }
}

/// Members of an object, printed as they were read.
pub(super) fn members(object: &Map<String, Value>) -> Value {
    Value::Object(object.clone())
}
