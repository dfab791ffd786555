//! Tables of comma-separated values (RFC 4180, a first line of names): reading them, and holding a check against them.

use serde_json::Value;

use crate::checks::{TableCheck, formula::Numbers};

const ROWS_MAX: usize = 1_000_000;

/// A table with a line of names.
pub(super) struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut lines = records(text.trim_start_matches('\u{feff}'))?.into_iter();
        let columns: Vec<String> =
            lines.next().ok_or("it is empty")?.iter().map(|name| name.trim().to_owned()).collect();
        let rows: Vec<Vec<String>> = lines.filter(|row| row.iter().any(|cell| !cell.trim().is_empty())).collect();
        if let Some((number, row)) = rows.iter().enumerate().find(|(_, row)| row.len() != columns.len()) {
            return Err(format!("row {} has {} cells, there are {} columns", number + 1, row.len(), columns.len()));
        }
        Ok(Self { columns, rows })
    }

    fn column(&self, name: &str) -> Result<usize, String> {
        let found = self.columns.iter().position(|column| column == name.trim());
        found.ok_or_else(|| format!("there is no column {name:?}; there are {}", self.columns.join(", ")))
    }

    pub(super) fn hold(&self, check: &TableCheck) -> Result<String, String> {
        for name in &check.columns {
            self.column(name)?;
        }
        let mut meant: Vec<usize> = (0..self.rows.len()).collect();
        for (name, wanted) in &check.rows_where {
            let column = self.column(name)?;
            meant.retain(|row| is(&self.rows[*row][column], wanted, 0.0));
        }
        if let Some(wanted) = check.rows.filter(|wanted| *wanted != meant.len()) {
            return Err(format!("expected {wanted} rows, but there are {}", meant.len()));
        }
        let looks = check.column.is_some() || check.formula.is_some();
        if looks && meant.is_empty() {
            return Err("there is no such row".to_owned());
        }
        if let (Some(name), Some(wanted)) = (&check.column, &check.value) {
            let column = self.column(name)?;
            if let Some(row) = meant.iter().find(|row| !is(&self.rows[**row][column], wanted, check.tolerance)) {
                let found = &self.rows[*row][column];
                return Err(format!("row {} has {found:?} in {name:?}, expected {wanted}", row + 1));
            }
        }
        if let Some(formula) = &check.formula {
            let numbers = Meant { table: self, rows: &meant };
            let first = usize::from(formula.looks_back());
            for (place, row) in meant.iter().enumerate().skip(first) {
                match formula.hold(&numbers, place, check.tolerance) {
                    Ok(None) => {}
                    Ok(Some((left, right))) => {
                        return Err(format!("{formula} does not hold in row {}: {left} and {right}", row + 1));
                    }
                    Err(why) => return Err(format!("{formula} cannot be worked out in row {}: {why}", row + 1)),
                }
            }
        }
        Ok(format!("{} holds what is expected in {} row(s)", check.path, meant.len()))
    }
}

/// The rows that a check means.
struct Meant<'a> {
    table: &'a Table,
    rows: &'a [usize],
}

impl Numbers for Meant<'_> {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn number(&self, row: usize, column: &str) -> Result<f64, String> {
        let cell = &self.table.rows[self.rows[row]][self.table.column(column)?];
        number(cell).ok_or_else(|| format!("{cell:?} in {column:?} is not a number"))
    }
}

fn is(cell: &str, wanted: &Value, tolerance: f64) -> bool {
    match (wanted, number(cell)) {
        (Value::String(text), _) => cell.trim() == text.trim(),
        (wanted, Some(found)) => wanted.as_f64().is_some_and(|wanted| (found - wanted).abs() <= tolerance),
        _ => false,
    }
}

/// A number as people write it in tables: `1,234.50`, `(12)` for less than nothing, `$5`, `12 %` as 12.
fn number(cell: &str) -> Option<f64> {
    let cell = cell.trim();
    let (inside, sign) = match cell.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(inside) => (inside, -1.0),
        None => (cell, 1.0),
    };
    let plain: String = inside
        .chars()
        .filter(|c| !matches!(c, ',' | '_' | '$' | '€' | '£' | '¥' | '₩' | '%' | ' ' | '\u{a0}'))
        .collect();
    let plain = plain.replace('\u{2212}', "-");
    let digits = plain.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E'));
    if digits { plain.parse::<f64>().ok().filter(|n| n.is_finite()).map(|n| n * sign) } else { None }
}

fn records(text: &str) -> Result<Vec<Vec<String>>, String> {
    let (mut records, mut record, mut cell) = (Vec::new(), Vec::new(), String::new());
    let (mut quoted, mut begun) = (false, false);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if cell.is_empty() => (quoted, begun) = (true, true),
            ',' if !quoted => {
                record.push(std::mem::take(&mut cell));
                begun = true;
            }
            '\r' if !quoted && characters.peek() == Some(&'\n') => {}
            '\n' if !quoted => {
                if begun || !cell.is_empty() {
                    record.push(std::mem::take(&mut cell));
                    records.push(std::mem::take(&mut record));
                    begun = false;
                }
                if records.len() > ROWS_MAX {
                    return Err(format!("it has more than {ROWS_MAX} rows"));
                }
            }
            c => cell.push(c),
        }
    }
    if quoted {
        return Err("a quotation mark is never closed".to_owned());
    }
    if begun || !cell.is_empty() {
        record.push(cell);
        records.push(record);
    }
    Ok(records)
}
