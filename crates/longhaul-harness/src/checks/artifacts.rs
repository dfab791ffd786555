//! Checks of what a project makes beside any page: commands, files, tables, citations. Their types, how they are read and
//! printed. They are carried out without a browser.

use serde_json::{Map, Value, json};

use super::{
    CheckError,
    around::{members, put_text},
    fields::{Fields, refuse},
    formula::Formula,
};

/// Time a command is given when its check does not say, in milliseconds.
pub const COMMAND_MS_DEFAULT: u64 = 60_000;
/// Longest time of a command, in milliseconds.
pub const COMMAND_MS_MAX: u64 = 600_000;
/// Difference of two numbers that counts as none when a check does not say.
pub const NUMBER_TOLERANCE: f64 = 0.005;

/// Runs a program of the project in the sandbox.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandCheck {
    /// The program, found on the sandbox's path or in the project.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The exit code it must end with.
    pub exit: i32,
    /// A text in what it writes.
    pub contains: Option<String>,
    /// A pattern (regular expression) in what it writes.
    pub output: Option<String>,
    /// How long it may take, in milliseconds.
    pub within_ms: u64,
}

/// Looks at one file of the project.
#[derive(Debug, Clone, PartialEq)]
pub struct FileCheck {
    /// Its path in the project.
    pub path: String,
    /// Whether it must be there.
    pub exists: bool,
    /// A text in it.
    pub contains: Option<String>,
    /// A pattern (regular expression) that matches somewhere in it.
    pub matches: Option<String>,
    /// A place in it, as JSON or YAML: `totals.assets`, `items[0].name`.
    pub at: Option<String>,
    /// What is there.
    pub equals: Option<Value>,
}

/// Looks at a table: a file of comma-separated values with a line of column names.
#[derive(Debug, Clone, PartialEq)]
pub struct TableCheck {
    /// Its path in the project.
    pub path: String,
    /// Columns it must have.
    pub columns: Vec<String>,
    /// How many rows it must have, of those that `rows_where` chooses.
    pub rows: Option<usize>,
    /// Which rows are meant: these columns have these values. All when empty.
    pub rows_where: Map<String, Value>,
    /// A column, whose value in each of these rows is `value`.
    pub column: Option<String>,
    /// The value.
    pub value: Option<Value>,
    /// What holds in each of these rows: `assets == liabilities + equity`.
    pub formula: Option<Formula>,
    /// Difference of two numbers that counts as none.
    pub tolerance: f64,
}

/// Expects that every paragraph of a document names where it is from.
#[derive(Debug, Clone, PartialEq)]
pub struct CitationCheck {
    /// The document's path in the project.
    pub path: String,
    /// The folder of the sources; a citation `[@KEY]` means its file `KEY` with any ending.
    pub sources: String,
    /// How many different sources it must cite at least.
    pub at_least: usize,
    /// Whether each paragraph must also quote one of its sources.
    pub quotes: bool,
}

impl CommandCheck {
    pub(super) fn parse(fields: &mut Fields<'_>) -> Result<Self, CheckError> {
        let exit = fields.whole("exit", 0, 255)?.and_then(|n| i32::try_from(n).ok()).unwrap_or(0);
        Ok(Self {
            program: fields.required_text("program")?,
            arguments: fields.texts("arguments")?,
            exit,
            contains: fields.optional_text("contains")?,
            output: fields.pattern("output")?,
            within_ms: fields.whole("within_ms", 1, COMMAND_MS_MAX)?.unwrap_or(COMMAND_MS_DEFAULT),
        })
    }

    pub(super) fn print(&self, put: &mut impl FnMut(&str, Value)) {
        put("program", json!(self.program));
        if !self.arguments.is_empty() {
            put("arguments", json!(self.arguments));
        }
        if self.exit != 0 {
            put("exit", json!(self.exit));
        }
        put_text("contains", &self.contains, put);
        put_text("output", &self.output, put);
        if self.within_ms != COMMAND_MS_DEFAULT {
            put("within_ms", json!(self.within_ms));
        }
    }
}

impl FileCheck {
    pub(super) fn parse(fields: &mut Fields<'_>) -> Result<Self, CheckError> {
        let check = Self {
            path: fields.project_path("path")?,
            exists: fields.flag("exists")?.unwrap_or(true),
            contains: fields.optional_text("contains")?,
            matches: fields.pattern("matches")?,
            at: fields.optional_text("at")?,
            equals: fields.json("equals"),
        };
        let content = check.contains.is_some() || check.matches.is_some() || check.at.is_some();
        if !check.exists && content {
            return refuse(fields.at("exists"), "is false, so nothing can be expected of its content");
        }
        if check.at.is_some() != check.equals.is_some() {
            return refuse(fields.place, r#"needs both at and equals: {"at":"totals.assets","equals":100}"#);
        }
        Ok(check)
    }

    pub(super) fn print(&self, put: &mut impl FnMut(&str, Value)) {
        put("path", json!(self.path));
        if !self.exists {
            put("exists", json!(false));
        }
        put_text("contains", &self.contains, put);
        put_text("matches", &self.matches, put);
        put_text("at", &self.at, put);
        if let Some(equals) = &self.equals {
            put("equals", equals.clone());
        }
    }
}

impl TableCheck {
    pub(super) fn parse(fields: &mut Fields<'_>) -> Result<Self, CheckError> {
        let path = fields.project_path("path")?;
        let columns = fields.texts("columns")?;
        let rows = fields.whole("rows", 0, 1_000_000)?.and_then(|n| usize::try_from(n).ok());
        let rows_where = match fields.json("where") {
            None => Map::new(),
            Some(Value::Object(object))
                if !object.is_empty() && object.values().all(|value| value.is_string() || value.is_number()) =>
            {
                object
            }
            Some(_) => {
                return refuse(fields.at("where"), r#"must give columns their values, such as {"account":"Cash"}"#);
            }
        };
        let column = fields.optional_text("column")?;
        let value = fields.json("value");
        if column.is_some() != value.is_some() {
            return refuse(fields.place, r#"needs both column and value: {"column":"amount","value":100}"#);
        }
        if value.as_ref().is_some_and(|value| !value.is_string() && !value.is_number()) {
            return refuse(fields.at("value"), "must be a text or a number");
        }
        let formula = match fields.optional_text("formula")? {
            None => None,
            Some(text) => match Formula::parse(&text) {
                Ok(formula) => Some(formula),
                Err(why) => return refuse(fields.at("formula"), why),
            },
        };
        if columns.is_empty() && rows.is_none() && column.is_none() && formula.is_none() {
            return refuse(
                fields.place,
                "expects nothing of the table: give columns, rows, column and value, or formula",
            );
        }
        let tolerance = fields.number("tolerance", 0.0, 1e12)?.unwrap_or(NUMBER_TOLERANCE);
        Ok(Self { path, columns, rows, rows_where, column, value, formula, tolerance })
    }

    pub(super) fn print(&self, put: &mut impl FnMut(&str, Value)) {
        put("path", json!(self.path));
        if !self.columns.is_empty() {
            put("columns", json!(self.columns));
        }
        if let Some(rows) = self.rows {
            put("rows", json!(rows));
        }
        if !self.rows_where.is_empty() {
            put("where", members(&self.rows_where));
        }
        put_text("column", &self.column, put);
        if let Some(value) = &self.value {
            put("value", value.clone());
        }
        if let Some(formula) = &self.formula {
            put("formula", json!(formula.to_string()));
        }
        if (self.tolerance - NUMBER_TOLERANCE).abs() > f64::EPSILON {
            put("tolerance", json!(self.tolerance));
        }
    }
}

impl CitationCheck {
    pub(super) fn parse(fields: &mut Fields<'_>) -> Result<Self, CheckError> {
        let at_least = fields.whole("at_least", 1, 1_000)?.and_then(|n| usize::try_from(n).ok()).unwrap_or(1);
        Ok(Self {
            path: fields.project_path("path")?,
            sources: fields.project_path("sources")?,
            at_least,
            quotes: fields.flag("quotes")?.unwrap_or(false),
        })
    }

    pub(super) fn print(&self, put: &mut impl FnMut(&str, Value)) {
        put("path", json!(self.path));
        put("sources", json!(self.sources));
        if self.at_least != 1 {
            put("at_least", json!(self.at_least));
        }
        if self.quotes {
            put("quotes", json!(true));
        }
    }
}
